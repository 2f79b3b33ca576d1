"""Operator, dimensions, FLOPs and bytes of each GPU activity, from the framework's call, its message or its launch.

`describe` reads calls of a framework's operators: what a call had to do, whatever kernels ran.
`work_of_dispatches` puts that work on the activities of a dispatch table, and adds collectives,
copies and kernels of unknown operators.

Seen in traces of PyTorch 1.13 to 2.9 and of the libraries AITER, sgl-kernel, vLLM and flash-attn
called from it. What no operator has in its ``ATEN``, or arguments that do not tell its size, has no
operator: custom Triton kernels, graphs replayed as a whole, attention on sequences of unequal or
unrecorded lengths, indexing by a mask, sorting, pooling, composite operators that a mode has
intercepted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from ..operators.call import NO_FIT, Call, Described, Tensor
from ..operators.kinds.launched import LAUNCHED
from ..operators.operators import ATEN, OPS, each_op
from ..operators.work import DTYPES, dtypes_in_kernel_names
from ..table.measurements import DTYPE_COLUMNS
from ..table.problems import codes_of
from .dispatches import COLUMNS, KERNEL, MEMCPY, MEMSET

# text columns of a description
WORDS = ("op", "variant", "layout", "direction", "scale_block", *DTYPE_COLUMNS)


def describe(calls: pd.DataFrame) -> pd.DataFrame:
    """Return the operator of each call with its dimensions; indexed as `calls`.

    Of each call `op_name` is the framework's operator ("aten::addmm"), `op_inputs` its arguments as
    JSON (see `dispatches`), "" where they were not recorded. What leaves: `op`, a name in
    `operators.OPS`, "" where the call has no such operator; `variant`; `layout`, `direction`,
    `scale_block`; the dimensions of the operators that occur, float64, missing where an operator
    has none of that name; `dtype_a`, `dtype_b`, `dtype_out`. Members of a list of tensors have no
    recorded format: their operator is given with `dtype_a` "".

    Only the innermost operator of a kernel is recorded with it. Where that has no arguments in the
    file, those of the operator that called it are lost, and so is its operator: no shape is
    guessed.
    """
    codes, unique = unique_calls(calls["op_name"], calls["op_inputs"])
    return unique.iloc[codes].set_axis(calls.index)


def unique_calls(names: pd.Series, inputs: pd.Series) -> tuple[np.ndarray, pd.DataFrame]:
    """Return the code of each row's call among the distinct ones, and the arguments of these for `describe`."""
    name_codes, levels = pd.factorize(names, use_na_sentinel=False)
    input_codes, recorded_inputs = pd.factorize(inputs, use_na_sentinel=False)
    codes, pairs = pd.factorize(name_codes.astype(np.int64) * len(recorded_inputs) + input_codes)
    spelled = levels.tolist()
    recorded = recorded_inputs.tolist()
    rows = []
    for pair in pairs.tolist():
        level, text = divmod(pair, len(recorded))
        rows.append(describe_call(str(spelled[level]), str(recorded[text])))
    columns: dict[str, Any] = {}
    for name in WORDS:
        columns[name] = pd.Series([row.get(name, "") for row in rows], dtype="str")
    for name in dict.fromkeys(chain.from_iterable(rows)):
        if name not in WORDS:
            columns[name] = np.array([row.get(name, np.nan) for row in rows], dtype=float)
    return codes, pd.DataFrame(columns, index=pd.RangeIndex(len(rows)))


def describe_call(name: str, inputs: str) -> Described:
    """Return operator, dimensions and formats of one call; an empty mapping without an operator."""
    read = ATEN.get(name) or ATEN.get(name.rstrip("_"))
    if read is None:
        return {}
    call = parse_call(name, inputs)
    if call is None:
        return {}
    try:
        described = read(call)
    except NO_FIT:
        return {}
    if _usable(described):
        return described
    return {}


def parse_call(name: str, inputs: str) -> Call | None:
    """Return the call, or None where its arguments were not recorded or cannot be read.

    `inputs` is JSON of an object with the lists ``dims``, ``types``, ``strides`` and ``values``.
    """
    if not inputs:
        return None
    try:
        recorded = msgspec.json.decode(inputs)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(recorded, dict):
        return None
    dims = recorded.get("dims")
    types = recorded.get("types")
    if not isinstance(dims, list) or not isinstance(types, list) or len(types) < len(dims):
        return None
    strides = recorded.get("strides")
    if not isinstance(strides, list):
        strides = []
    values = recorded.get("values")
    if not isinstance(values, list):
        values = []
    return Call(name, dims, types, strides, values)


def call_text(arguments: Sequence[Tensor | str | None]) -> str:
    """Return the arguments of a call as `parse_call` reads them: tensors, and other values as text; None for none.

    >>> parse_call("aten::mm", call_text([Tensor((4, 8), "fp16"), Tensor((8, 2), "fp16"), "1.5"])).tensor(1).dims
    (8, 2)
    """
    call: dict[str, list[Any]] = {"dims": [], "types": [], "strides": [], "values": []}
    for argument in arguments:
        dims: Sequence[int] = ()
        kind = ""
        strides: Sequence[int] = ()
        value = ""
        if isinstance(argument, Tensor):
            dims = argument.dims
            kind = argument.dtype
            strides = argument.strides
        elif argument is not None:
            kind = "Scalar"
            value = argument
        call["dims"].append(dims)
        call["types"].append(kind)
        call["strides"].append(strides)
        call["values"].append(value)
    return msgspec.json.encode(call).decode()


def _usable(described: Described) -> bool:
    """Return whether the operator's dimensions are all present and positive, and its formats recognised or unrecorded.

    A tensor without elements has no work, and a format such as complex64 no size here.
    """
    for dim in OPS[described["op"]].dimensions:
        if dim.kind == "word":
            continue
        value = described.get(dim.name)
        least = dim.least
        if dim.kind == "flag":
            least = 0
        if value is None:
            if dim.default is None:
                return False
        elif not least <= value <= 2**62:
            return False
    formats = [described[name] for name in DTYPE_COLUMNS]
    return all(word in DTYPES for word in formats) or formats == ["", "", ""]


UNKNOWN = LAUNCHED
#: PyTorch 2 copies lists of tensors as opaque elements of so many bytes (``CatArrayBatchedCopy<OpaqueType<2u>, ...``).
_OPAQUE = re.compile(r"OpaqueType<(\d)")
_OF_SIZE = {"1": "uint8", "2": "int16", "4": "int32", "8": "int64"}
SAME_CALL = ("device", "rank", "process", "gpu", "op_id")
"""Columns that agree in all activities of one call of an operator."""


def work_of_dispatches(table: pd.DataFrame) -> pd.DataFrame:
    """Return the work of each activity of a dispatch table.

    - Kernels of a framework's operator: that operator (see `describe`). The work of the call is put
      on its longest kernel (calls are distinguished by `op_id` within a device and process). Its other
      kernels, which copy, transpose, reduce or fill for it, have the same operator and dimensions
      with 0 FLOPs and 0 bytes: sums over kernels are sums over calls. Tensor lists have no recorded
      format: it is the one that the names of the call's kernels state.
    - Kernels of collectives: ``collective`` with the message and the ranks.
    - All other kernels: ``kernel`` with the grid and block they were launched with, of unknown work
      (NaN).
    - Copies and fills: ``copy`` and ``fill`` of one row of bytes, variant the direction.

    Columns are those of `describe` (`lds_bytes` aside, which the table has), then `flops` and
    `bytes_moved`, missing where they are unknown: for kernels without an operator, copies and fills
    whose size, and collectives whose message or group is not recorded.
    """
    count = len(table)
    kind = table["kind"].astype(object).to_numpy()
    collective = table["collective"].astype(object).to_numpy() != ""
    message = _floats(table, "collective_bytes")
    ranks = _floats(table, "group_size")
    is_kernel = kind == KERNEL
    sent = is_kernel & collective & (message > 0) & (ranks > 0)
    result = _Result(count)
    called = _calls(table, is_kernel & ~collective, result)
    algorithm = _words(table, "collective")
    result.put(sent, "collective", algorithm, "", message_bytes=message, ranks=ranks)
    name = _words(table, "name")
    grid = launch_product(table, "grid")
    block = launch_product(table, "block")
    unknown = is_kernel & ~called & ~sent
    result.put(unknown, UNKNOWN, name, "", workgroups=grid, threads=block)
    row_of_bytes = {"rows": np.ones(count), "cols": _floats(table, "bytes")}
    result.put(kind == MEMCPY, "copy", name, "uint8", **row_of_bytes)
    no_variant = np.full(count, "", dtype=object)
    result.put(kind == MEMSET, "fill", no_variant, "uint8", **row_of_bytes)
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

    def put(
        self, mask: np.ndarray, op: str, variant: np.ndarray, dtype: str, /, **sizes: np.ndarray
    ) -> None:
        """Give the rows of a mask one operator, and its work to those with all dimensions."""
        if not mask.any():
            return
        self.words["op"][mask] = op
        self.words["variant"][mask] = variant[mask]
        for name in DTYPE_COLUMNS:
            self.words[name][mask] = dtype
        for name, values in sizes.items():
            self.set_sizes(mask, name, values[mask])
        whole = mask & np.logical_and.reduce([values >= 1 for values in sizes.values()])
        part = pd.DataFrame({name: values[whole] for name, values in sizes.items()})
        part = part.assign(op=op, variant=variant[whole], dtype_a=dtype)
        self.flops[whole], self.bytes[whole] = OPS[op].amounts(part)

    def frame(self, index: pd.Index) -> pd.DataFrame:
        """Return the table: words, dimensions, FLOPs and bytes."""
        columns: dict[str, Any] = {}
        for name, values in self.words.items():
            columns[name] = pd.Series(values, index=index, dtype="str")
        columns |= {name: values for name, values in self.sizes.items() if name not in COLUMNS}
        columns["flops"] = self.flops
        columns["bytes_moved"] = self.bytes
        return pd.DataFrame(columns, index=index)


def _calls(table: pd.DataFrame, kernels: np.ndarray, result: _Result) -> np.ndarray:
    """Describe the kernels launched by a framework's operator; return the mask of those with one of ours."""
    codes, unique = unique_calls(table["op_name"], table["op_inputs"])
    named = kernels & (unique["op"].to_numpy() != "")[codes]
    rows = np.flatnonzero(named)
    if not len(rows):
        return named
    codes = codes[rows]
    kernel_rows = table[[*SAME_CALL, "duration_ns"]].iloc[rows]
    calls = _call_numbers(kernel_rows, codes)
    longest = _longest(kernel_rows["duration_ns"].to_numpy(), calls)
    formats = _formats(unique, codes, _words(table, "name")[rows], calls)
    has_format = formats["dtype_a"] != ""
    described = unique.iloc[codes].assign(**formats)[has_format]
    position = codes_of([codes[has_format], described["dtype_a"]])
    problems = described.iloc[np.unique(position, return_index=True)[1]]
    flops = np.empty(len(problems))
    moved = np.empty(len(problems))
    for op, rows_of_op in each_op(problems):
        flops[rows_of_op], moved[rows_of_op] = op.amounts(problems.iloc[rows_of_op])
    kept = rows[has_format]
    for name in WORDS:
        result.words[name][kept] = described[name].to_numpy(dtype=object)
    for name in described.columns.difference(WORDS, sort=False):
        result.set_sizes(kept, str(name), described[name].to_numpy(dtype=float))
    main = (longest == np.arange(len(rows)))[has_format]
    result.flops[kept] = np.where(main, flops[position], 0.0)
    result.bytes[kept] = np.where(main, moved[position], 0.0)
    named[rows] = has_format
    return named


def _call_numbers(kernels: pd.DataFrame, codes: np.ndarray) -> np.ndarray:
    """Return the number of each kernel's call; a kernel without one is a separate call."""
    alone = np.where(kernels["op_id"].isna(), np.arange(len(kernels)), -1)
    return codes_of([*(kernels[name] for name in SAME_CALL), codes, alone])


def _longest(durations: np.ndarray, calls: np.ndarray) -> np.ndarray:
    """Return for each kernel the position of the longest one of its call, the first of equals."""
    order = np.lexsort((-durations, calls))
    starts = np.r_[True, calls[order][1:] != calls[order][:-1]]
    return order[starts][calls]


def _formats(
    unique: pd.DataFrame, codes: np.ndarray, kernels: np.ndarray, calls: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the formats of each kernel's call; those not recorded as its kernels' names state them."""
    formats = {name: unique[name].to_numpy(dtype=object)[codes] for name in DTYPE_COLUMNS}
    blank = formats["dtype_a"] == ""
    if blank.any():
        stated = _stated_together(_stated(pd.Series(kernels[blank])), calls[blank])
        for values in formats.values():
            values[blank] = stated
    return formats


def _stated_together(formats: np.ndarray, calls: np.ndarray) -> np.ndarray:
    """Return for each kernel the format that most kernels of its call state, of equals the first by name.

    How long each kernel takes decides nothing: calls with the same kernels have the same formats.
    """
    stated = pd.DataFrame({"call": calls, "format": formats})[formats != ""]
    counts = stated.value_counts(sort=False).rename("kernels").reset_index()
    counts = counts.sort_values(["kernels", "format"], ascending=[False, True], kind="stable")
    of_call = counts.drop_duplicates("call").set_index("call")["format"]
    return of_call.reindex(calls).fillna("").to_numpy(dtype=object)


def _stated(kernels: pd.Series) -> np.ndarray:
    """Return the format in kernels' names: that of their numbers, or integers of the size of what they copy."""
    codes, names = pd.factorize(kernels)
    stated = dtypes_in_kernel_names(pd.Series(names, dtype=object)).tolist()
    for place, name in enumerate(names):
        opaque = _OPAQUE.search(str(name))
        if opaque and opaque[1] in _OF_SIZE:
            stated[place] = _OF_SIZE[opaque[1]]
    return np.array(stated, dtype=object)[codes]


def _words(table: pd.DataFrame, name: str) -> np.ndarray:
    return table[name].astype(object).to_numpy()


def _floats(table: pd.DataFrame, name: str) -> np.ndarray:
    return table[name].to_numpy(dtype=float, na_value=np.nan)


def launch_product(table: pd.DataFrame, name: str) -> np.ndarray:
    """Return the size of a grid or block; producers that write only the product have it in x, y and z missing."""
    x, y, z = (_floats(table, f"{name}_{axis}") for axis in "xyz")
    return x * np.where(np.isnan(y), 1.0, y) * np.where(np.isnan(z), 1.0, z)
