"""Operator, dimensions, FLOPs and bytes of each GPU activity, from the framework's call, its message or its launch."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from ..dtypes import dtypes_in_kernel_names
from ..ops import OPS, each_op
from .operators import DTYPES_OF, WORDS, unique_calls
from .table import COLUMNS, KERNEL, MEMCPY, MEMSET

UNKNOWN = "kernel"
"""Operator of a kernel of which only name and launch are known."""
#: PyTorch 2 copies lists of tensors as opaque elements of so many bytes (``CatArrayBatchedCopy<OpaqueType<2u>, ...``).
_OPAQUE = re.compile(r"OpaqueType<(\d)")
_OF_SIZE = {"1": "uint8", "2": "int16", "4": "int32", "8": "int64"}
SAME_CALL = ("device", "rank", "process", "gpu", "op_id")
"""Columns that agree in all activities of one call of an operator."""


def work_of_dispatches(table: pd.DataFrame) -> pd.DataFrame:
    """Return what each activity of a dispatch table had to do.

    - Kernels of a framework's operator: that operator (see `operators.describe`). The work of the call is put on its
      longest kernel (calls are told apart by `op_id` within a device and process). Its other kernels, which copy,
      transpose, reduce or fill for it, have the same operator and dimensions with 0 FLOPs and 0 bytes: sums over
      kernels are sums over calls. Tensor lists have no recorded format: it is read off the longest kernel's name.
    - Kernels of collectives: ``collective`` with the message and the ranks.
    - All other kernels: ``kernel`` with the grid and block they were launched with, of unknown work (NaN).
    - Copies and fills: ``copy`` and ``fill`` of one row of bytes, variant the direction.

    Parameters
    ----------
    table : DataFrame
        A dispatch table (see `table`).

    Returns
    -------
    DataFrame
        With the index of `table`: `op`, `variant`, `layout`, `direction`, `scale_block`, `dtype_a`, `dtype_b`,
        `dtype_out` ("" where there is none); the dimensions of the operators that occur, float64 (but for `lds_bytes`,
        which the table has); `flops` and `bytes_moved`, missing where they are unknown: for kernels without an
        operator, copies and fills whose size, and collectives whose message or group is not recorded.
    """
    count = len(table)
    kind = table["kind"].astype(object).to_numpy()
    collective = table["collective"].astype(object).to_numpy() != ""
    message, ranks = _floats(table, "collective_bytes"), _floats(table, "group_size")
    sent = (kind == KERNEL) & collective & (message > 0) & (ranks > 0)
    result = _Result(count)
    called = _calls(table, (kind == KERNEL) & ~collective, result)
    result.put(sent, "collective", _words(table, "collective"), "", message_bytes=message, ranks=ranks)
    result.put(
        (kind == KERNEL) & ~called & ~sent,
        UNKNOWN,
        _words(table, "name"),
        "",
        workgroups=launch_product(table, "grid"),
        threads=launch_product(table, "block"),
    )
    for what, op in ((MEMCPY, "copy"), (MEMSET, "fill")):
        variant = _words(table, "name") if what == MEMCPY else np.full(count, "", dtype=object)
        result.put(kind == what, op, variant, "uint8", rows=np.ones(count), cols=_floats(table, "bytes"))
    return result.frame(table.index)


class _Result:
    """The columns of the result, filled operator by operator."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.words = {name: np.full(count, "", dtype=object) for name in WORDS}
        self.sizes: dict[str, np.ndarray] = {}
        self.flops = np.full(count, np.nan)
        self.bytes = np.full(count, np.nan)

    def set_sizes(self, rows: np.ndarray, name: str, values: np.ndarray) -> None:
        """Set a dimension of some rows."""
        self.sizes.setdefault(name, np.full(self.count, np.nan))[rows] = values

    def put(self, mask: np.ndarray, op: str, variant: np.ndarray, dtype: str, /, **sizes: np.ndarray) -> None:
        """Give the rows of a mask one operator, and its work to those whose dimensions are all there."""
        if not mask.any():
            return
        self.words["op"][mask], self.words["variant"][mask] = op, variant[mask]
        for name in DTYPES_OF:
            self.words[name][mask] = dtype
        for name, values in sizes.items():
            self.set_sizes(mask, name, values[mask])
        whole = mask & np.logical_and.reduce([values >= 1 for values in sizes.values()])
        part = pd.DataFrame({name: values[whole] for name, values in sizes.items()})
        part = part.assign(op=op, variant=variant[whole], dtype_a=dtype)
        self.flops[whole], self.bytes[whole] = OPS[op].flops(part), OPS[op].bytes(part)

    def frame(self, index: pd.Index) -> pd.DataFrame:
        """Return the table: words, dimensions, FLOPs and bytes."""
        words = {name: pd.Series(values, index=index, dtype="str") for name, values in self.words.items()}
        sizes = {name: values for name, values in self.sizes.items() if name not in COLUMNS}
        return pd.DataFrame({**words, **sizes, "flops": self.flops, "bytes_moved": self.bytes}, index=index)


def _calls(table: pd.DataFrame, kernels: np.ndarray, result: _Result) -> np.ndarray:
    """Describe the kernels that a framework's operator launched; return the mask of those that have one of ours."""
    codes, unique = unique_calls(table["op_name"], table["op_inputs"])
    named = kernels & (unique["op"].to_numpy() != "")[codes]
    rows = np.flatnonzero(named)
    if not len(rows):
        return named
    longest = _longest(table.iloc[rows], codes[rows])
    formats = _formats(unique, codes[rows], _words(table, "name")[rows][longest])
    known = formats["dtype_a"] != ""
    described = unique.assign(_call=np.arange(len(unique))).iloc[codes[rows]].assign(**formats)[known]
    first = ~described.duplicated(["_call", "dtype_a"])
    work = _work(described[first])
    position = pd.MultiIndex.from_frame(described.loc[first, ["_call", "dtype_a"]]).get_indexer(
        pd.MultiIndex.from_frame(described[["_call", "dtype_a"]])
    )
    kept = rows[known]
    for name in WORDS:
        result.words[name][kept] = described[name].to_numpy(dtype=object)
    for name in described.columns.difference([*WORDS, "_call"], sort=False):
        result.set_sizes(kept, str(name), described[name].to_numpy(dtype=float))
    main = (longest == np.arange(len(rows)))[known]
    result.flops[kept] = np.where(main, work[0][position], 0.0)
    result.bytes[kept] = np.where(main, work[1][position], 0.0)
    named[rows] = known
    return named


def _longest(kernels: pd.DataFrame, codes: np.ndarray) -> np.ndarray:
    """Return for each kernel the position of the longest one of its call, the first of equals."""
    keys = kernels[list(SAME_CALL)].reset_index(drop=True).assign(code=codes)
    alone = keys["op_id"].isna().to_numpy()
    keys["row"] = np.where(alone, np.arange(len(keys)), -1)
    call = keys.groupby(list(keys.columns), sort=False, dropna=False, observed=True).ngroup().to_numpy()
    order = np.lexsort((-kernels["duration_ns"].to_numpy(), call))
    starts = np.r_[True, call[order][1:] != call[order][:-1]]
    return order[starts][call]


def _formats(unique: pd.DataFrame, codes: np.ndarray, kernels: np.ndarray) -> dict[str, np.ndarray]:
    """Return the formats of each call, those not recorded as the name of its longest kernel states them."""
    formats = {name: unique[name].to_numpy(dtype=object)[codes] for name in DTYPES_OF}
    blank = formats["dtype_a"] == ""
    if blank.any():
        stated = _stated(pd.Series(kernels[blank]))
        for values in formats.values():
            values[blank] = stated
    return formats


def _stated(kernels: pd.Series) -> np.ndarray:
    """Return the format that kernels' names state: that of their numbers, or integers of the size of what they copy."""
    codes, names = pd.factorize(kernels)
    opaque = [_OPAQUE.search(str(name)) for name in names]
    sizes = [_OF_SIZE.get(found[1], "") if found else "" for found in opaque]
    numbers = dtypes_in_kernel_names(pd.Series(names, dtype=object)).tolist()
    return np.array([size or number for size, number in zip(sizes, numbers, strict=True)], dtype=object)[codes]


def _work(described: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return FLOPs and bytes of descriptions, which are whole (see `operators.describe_call`)."""
    flops, moved = np.empty(len(described)), np.empty(len(described))
    for op, rows in each_op(described):
        part = described.iloc[rows]
        flops[rows], moved[rows] = op.flops(part), op.bytes(part)
    return flops, moved


def _words(table: pd.DataFrame, name: str) -> np.ndarray:
    return table[name].astype(object).to_numpy()


def _floats(table: pd.DataFrame, name: str) -> np.ndarray:
    return table[name].to_numpy(dtype=float, na_value=np.nan)


def launch_product(table: pd.DataFrame, name: str) -> np.ndarray:
    """Return the size of a grid or block; producers that write only the product have it in x, y and z missing."""
    x, y, z = (_floats(table, f"{name}_{axis}") for axis in "xyz")
    return x * np.where(np.isnan(y), 1.0, y) * np.where(np.isnan(z), 1.0, z)
