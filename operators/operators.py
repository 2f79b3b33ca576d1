"""The operators: the records (`op.Op`) of all files of `kinds`, by name; defaults, work and groups of mixed tables."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from operator import attrgetter
from pkgutil import iter_modules

import numpy as np
import pandas as pd

from ..errors import DataError
from . import kinds
from .call import CallReader
from .kinds.launched import KERNEL_MEAN as KERNEL_MEAN
from .kinds.launched import WHOLE as WHOLE
from .op import CACHE as CACHE
from .op import COLD as COLD
from .op import COMMON as COMMON
from .op import RUN as RUN
from .op import Dim
from .op import Op as Op
from .op import Work as Work
from .work import CATALOGUE, coded, with_columns

_KINDS = [
    import_module(f"{kinds.__name__}.{name}")
    for name in sorted(map(attrgetter("name"), iter_modules(kinds.__path__)))
]
_FOUND: dict[str, Op] = {op.name: op for kind in _KINDS for op in kind.OPERATORS}
OPS: dict[str, Op] = {
    name: _FOUND[name] for name in {**dict.fromkeys(CATALOGUE["shown"]), **_FOUND}
}
"""Every operator by its name in column ``op``."""
# other names of operators
ALIASES: dict[str, str] = {word: op.name for op in OPS.values() for word in op.aliases}
ATEN: dict[str, CallReader] = {
    name: read for kind in _KINDS for name, read in getattr(kind, "ATEN", {}).items()
}
"""What reads the arguments of a framework's call, by its name."""
DIMENSIONS: dict[str, Dim] = {
    dim.name: dim for op in reversed(OPS.values()) for dim in op.dimensions
}
"""Dimensions by their name, as the first operator has them that has one of that name."""
_NAMESPACE = re.compile(
    r"(?:torch\.ops\.)?(?:aten(?:::|\.)|torch\.nn\.functional\.|nn\.functional\.|torch\.|f\.)"
)


def without_namespace(word: str) -> str:
    """Return an operator's name as written without its library, overload and mark of the in-place form, lower case.

    >>> without_namespace("aten::addmm"), without_namespace("torch.ops.aten.relu_.default")
    ('addmm', 'relu')
    """
    plain = word.strip().lower()
    library = _NAMESPACE.match(plain)
    return (plain[library.end() :].partition(".")[0] if library else plain).rstrip("_")


def canonical_op(word: str) -> str:
    """Return the name in `OPS` of an operator that a file or a user names in words; the words where there is none.

    >>> canonical_op("aten::mm"), canonical_op("GEMM"), canonical_op("fft")
    ('gemm', 'gemm', 'fft')
    """
    plain = without_namespace(word)
    name = ALIASES.get(plain, plain)
    if name in OPS:
        return name
    return word


def nearest_op(word: str) -> str:
    """Say which operators are called most like a word that is none."""
    close = difflib.get_close_matches(without_namespace(word), [*OPS, *ALIASES], n=2)
    alike = list(dict.fromkeys(ALIASES.get(name, name) for name in close))
    if alike:
        return f"did you mean {' or '.join(alike)}?"
    return f"known are {', '.join(OPS)}"


def op_of(name: str) -> Op:
    """Return the operator of that name; a DataError with the closest ones if there is none."""
    if name in OPS:
        return OPS[name]
    raise DataError(f"unknown operator {name!r}: {nearest_op(str(name))}")


METRICS_OF_A_RUN: dict[str, float | str] = {
    "ttft_ms": 250.0,
    "tpot_ms": 17.5,
    "output_tokens_per_s": 3400.0,
}
"""What an example of a run of serving has in place of a time."""


def example_of(op: Op) -> dict[str, float | str]:
    """Return what a measurement of an operator must state, with values that one could have on an MI300X."""
    dtype: dict[str, float | str] = {"dtype_a": "bf16"} if op.needs_dtype else {}
    sizes = {
        dim.name: dim.example
        for dim in op.dimensions
        if dim.default is None and dim.example is not None
    }
    if op.metrics:
        timed = METRICS_OF_A_RUN
    else:
        timed = {"duration_us": 150.0}
    return {"device": "MI300X", "op": op.name, **dtype, **timed, **sizes}


def each_op(frame: pd.DataFrame) -> Iterator[tuple[Op, np.ndarray]]:
    """Yield each operator of the table with the positions of its rows."""
    codes, names = coded(frame, "op")
    for code in pd.unique(codes):
        yield op_of(str(names[code])), np.flatnonzero(codes == code)


def complete(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of any operators with each row completed as its operator says (see `Op.complete`).

    Raises DataError for an unknown operator.
    """
    ops = list(each_op(frame))
    if len(ops) < 2:
        return (ops[0][0].complete(frame) if ops else frame).reset_index(drop=True)
    filled: dict[str, np.ndarray] = {}
    for op, rows in ops:
        for name, values in op.completed(
            frame.loc[:, frame.columns.isin(op.asked)].iloc[rows]
        ).items():
            if name not in filled:
                if name in frame:
                    filled[name] = frame[name].to_numpy(copy=True)
                else:
                    filled[name] = np.full(len(frame), np.nan)
            if filled[name].dtype != values.dtype:
                filled[name] = filled[name].astype(object)
            filled[name][rows] = values
    return with_columns(frame, filled).reset_index(drop=True)


def work_of(frame: pd.DataFrame) -> Work:
    """Return the work of every row of a table of any operators.

    Raises DataError for an unknown operator, or rows that lack a dimension it needs.
    """
    columns: dict[str, np.ndarray] = {}
    for side in fields(Work):
        dtype = float
        if side.name in ("dtype", "unit"):
            dtype = object
        columns[side.name] = np.empty(len(frame), dtype=dtype)
    for op, rows in each_op(frame):
        part = op.work(frame if len(rows) == len(frame) else frame.iloc[rows])
        for name, column in columns.items():
            column[rows] = getattr(part, name)
    return Work(**columns)


def group_labels(frame: pd.DataFrame) -> np.ndarray:
    """Return the default group of every row, such as ``gemm 4096x7168`` (n x k) or ``softmax 1024`` (cols)."""
    labels = np.empty(len(frame), dtype=object)
    for op, rows in each_op(frame):
        part = op.complete(frame.iloc[rows])[list(op.group)]
        code = np.zeros(len(rows), dtype=np.int64)
        for name in op.group:
            codes, values = pd.factorize(part[name], use_na_sentinel=False)
            code = pd.factorize(code * len(values) + codes)[0]
        first = part.iloc[np.unique(code, return_index=True)[1]]
        names = []
        for row in first.to_dict("records"):
            names.append(op.label.format(**{str(c): _shown(v) for c, v in row.items()}))
        labels[rows] = np.array(names, dtype=object)[code]
    return labels


def _shown(value: object) -> str:
    """Write 4096.0 as 4096."""
    if isinstance(value, float) and abs(value) < 1e6:
        return f"{value:g}"
    return str(value).removesuffix(".0")
