"""Activities and measured rows as the laws of computation see them: work, class, time on the host, queue."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..features.codes import codes_of
from ..features.context import HOST
from ..features.dispatches.table import COLUMNS, MEMCPY
from ..features.dispatches.work import UNKNOWN
from ..features.ops import COMMON, OPS, Work, complete, work_of
from ..features.work.columns import positive, texts
from ..features.work.vector import ELEMENT_WISE
from .overhead import Overhead, is_queued

ObjectArray = NDArray[np.object_]

TF32 = r"(?i)tf32|xf32|s1688"
"""Kernels that multiply fp32 operands as TF32 say so (cuBLAS and CUTLASS of CUDA 11 and 12: ``tf32``, ``s1688gemm``).

PyTorch takes fp32 for matrix products unless told otherwise, so a silent name means fp32."""
NO_WORK = "its operator is not recorded: work unknown"
HELPER = "a kernel that helps another of its call: work unknown"

_OPERANDS = frozenset(name for op in OPS.values() for name in (*COMMON, *op.dims)) - set(COLUMNS)
_CLASSES = {
    **dict.fromkeys(("gemm", "batched_gemm", "grouped_gemm"), "gemm"),
    **dict.fromkeys(("attention", "attention_backward"), "attention"),
    **dict.fromkeys(("softmax", "softmax_backward"), "softmax"),
    **dict.fromkeys(("adam", "sgd_momentum"), "optimizer"),
    **dict.fromkeys((name for name in OPS if "norm" in name), "norm"),
    **dict.fromkeys((name for name in ELEMENT_WISE if name not in ("copy", "fill")), "elementwise"),
    "gather": "embedding",
}
"""Op class of the operators that are not called as their class is."""


@dataclass(frozen=True)
class Rows:
    """What the laws need of each row; arrays of shape (n_rows,).

    Attributes
    ----------
    work : Work
        NaN for FLOPs and bytes where the work is unknown.
    unknown : ndarray of str
        Why the work is unknown; "" where it is known.
    op, op_class : ndarray of str
        Operator and class (`features.dispatches.classes`).
    host_us : ndarray of float
        Measured time, at least a nanosecond.
    queued : ndarray of bool
        Whether the row began as soon as the one before it in its queue had ended.
    direction : ndarray of str
        Of copies by the runtime ("HtoD", "DtoH", "DtoD", ...), "" for everything else.
    """

    work: Work
    unknown: ObjectArray
    op: ObjectArray
    op_class: ObjectArray
    host_us: NDArray[np.float64]
    queued: NDArray[np.bool_]
    direction: ObjectArray

    def __len__(self) -> int:
        return len(self.host_us)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether the work is known."""
        return np.equal(self.unknown, "")


def of_activities(activities: pd.DataFrame, overhead: Overhead, queued: NDArray[np.bool_] | None = None) -> Rows:
    """Return the rows of a trace.

    Parameters
    ----------
    activities : DataFrame
        Dispatch table with classes and work (`features.dispatches.annotate`).
    overhead : Overhead
        Of the host: decides which gaps count as none.
    queued : ndarray of bool of shape (n_activities,), optional
        `is_queued` of the whole trace, where the activities are a part of it.
    """
    op = texts(activities, "op")
    flops, moved = (activities[name].to_numpy(dtype=float, na_value=np.nan) for name in ("flops", "bytes_moved"))
    described = np.isfinite(flops) & np.isfinite(moved) & np.isin(op, [name for name in OPS if name != UNKNOWN])
    copied = texts(activities, "kind") == MEMCPY
    helps = described & (flops == 0) & (moved == 0)
    return Rows(
        work=_work(activities, described & ~helps, flops, moved),
        unknown=np.select([helps, ~described], [HELPER, NO_WORK], "").astype(object),
        op=op,
        op_class=texts(activities, "op_class"),
        host_us=np.maximum(activities["duration_ns"].to_numpy(dtype=float), 1.0) / 1e3,
        queued=is_queued(activities, overhead) if queued is None else queued,
        direction=np.where(copied, texts(activities, "name"), "").astype(object),
    )


def of_pairs(paired: pd.DataFrame) -> Rows:
    """Return the rows of a measurement table that carry what the host measured (``host_duration_us``).

    They count as measured alone: the queue before them was empty.

    Raises
    ------
    DataError
        The host's times are missing or not positive, or rows lack a dimension of their operator.
    """
    rows, count = complete(paired.reset_index(drop=True)), len(paired)
    nothing = np.full(count, "", dtype=object)
    return Rows(
        work=work_of(rows),
        unknown=nothing,
        op=texts(rows, "op"),
        op_class=class_of(rows),
        host_us=positive(rows, f"{HOST}duration_us"),
        queued=np.zeros(count, dtype=bool),
        direction=nothing,
    )


def class_of(rows: pd.DataFrame) -> ObjectArray:
    """Return the op class of measured rows: what column `op_class` says, else what the operator is."""
    codes, names = pd.factorize(texts(rows, "op"))
    own = np.array([_CLASSES.get(str(name), str(name)) for name in names], dtype=object)[codes]
    stated = texts(rows, "op_class")
    return np.where(stated == "", own, stated).astype(object)


def _work(
    activities: pd.DataFrame, known: NDArray[np.bool_], flops: NDArray[np.float64], moved: NDArray[np.float64]
) -> Work:
    """Return the work of all rows: that of `known` ones, NaN for the others, FLOPs and bytes as the table has them."""
    count = len(activities)
    numbers = {name: np.full(count, np.nan) for name in ("flops", "bytes", "batch", "m", "n", "k")}
    words = {name: np.full(count, "", dtype=object) for name in ("dtype", "unit")}
    if known.any():
        code, first = _problems(activities, np.flatnonzero(known))
        names = [name for name in activities.columns if name in _OPERANDS]
        part = work_of(activities[names].iloc[first].reset_index(drop=True))
        for name, column in (numbers | words).items():
            column[known] = getattr(part, name)[code]
        numbers["flops"][known], numbers["bytes"][known] = flops[known], moved[known]
        words["dtype"] = _stated(words["dtype"], activities["name"])
    return Work(**numbers, **words)


def _problems(activities: pd.DataFrame, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of each row's problem, and the first row of each: a trace repeats a few problems many times."""
    code = codes_of(activities[name].iloc[rows] for name in activities.columns if name in _OPERANDS)
    return code, rows[np.unique(code, return_index=True)[1]]


def _stated(dtype: ObjectArray, kernels: pd.Series) -> ObjectArray:
    """Return the precisions with TF32 in place of fp32 where the kernel's name says so."""
    single = dtype == "fp32"
    if single.any():
        codes, names = pd.factorize(kernels[single])
        says = pd.Series(names, dtype="str").str.contains(TF32).to_numpy(dtype=bool)
        dtype[single] = np.where(says[codes], "tf32", "fp32")
    return dtype
