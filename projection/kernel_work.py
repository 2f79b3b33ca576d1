"""Activities and measured rows as the laws of computation see them: work, class, time on the host, queue.

A kernel costs time beyond its work, and whose time that is differs: on AMD GPUs durations hold the dispatch of the
kernel (`Overhead`). `of_activities` and `of_pairs` make `Rows` of a trace and of measurements.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..arrays import BoolArray, FloatArray, IntArray, ObjectArray
from ..laws.base import Overhead, Rows
from ..laws.rates import chosen
from ..operators.operators import COMMON, OPS, Work, complete, work_of
from ..operators.work import positive, texts
from ..remarks import remark
from ..table.problems import HOST, codes_of
from ..traces.activity_work import UNKNOWN
from ..traces.dispatches import COLUMNS, MEMCPY
from ..traces.quality import gaps_ns

CLOCK_NS = 160
"""Largest step of a GPU's clock in a profile (MI210); a gap up to it is none."""


def is_queued(activities: pd.DataFrame, overhead: Overhead) -> BoolArray:
    """Return whether each activity was waiting when the one before it in its queue ended.

    Where durations hold the dispatch on the GPU it was measured on, that leaves no gap (up to `CLOCK_NS`); where they
    do not, one of up to twice the usual dispatch.
    """
    longest_ns = CLOCK_NS if overhead.inside else max(CLOCK_NS, 2000 * overhead.dispatch_us)
    return np.asarray(gaps_ns(activities).le(longest_ns).fillna(False), dtype=bool)


TF32 = r"(?i)tf32|xf32|s1688"
"""Kernels that multiply fp32 operands as TF32 say so (cuBLAS and CUTLASS of CUDA 11 and 12: ``tf32``, ``s1688gemm``).

PyTorch takes fp32 for matrix products unless told otherwise, so a silent name means fp32."""
NO_WORK = remark("operator-unknown", "its operator is not recorded: work unknown")
HELPER = remark("helper-kernel", "a helper kernel of another kernel's call: work unknown")
"""A kernel that helps another of its call: its own work is not known."""

_OPERANDS = frozenset(name for op in OPS.values() for name in (*COMMON, *op.dims)) - set(COLUMNS)


def of_activities(activities: pd.DataFrame, overhead: Overhead, queued: BoolArray | None = None) -> Rows:
    """Return the rows of a trace: a dispatch table with classes and work (`traces.summary`).

    The overhead of the host decides which gaps count as none; ``queued`` is `is_queued` of the whole trace, where the
    activities are a part of it.
    """
    op = texts(activities, "op")
    flops, moved = (activities[name].to_numpy(dtype=float, na_value=np.nan) for name in ("flops", "bytes_moved"))
    described = np.isfinite(flops) & np.isfinite(moved) & np.isin(op, [name for name in OPS if name != UNKNOWN])
    copied = texts(activities, "kind") == MEMCPY
    helps = described & (flops == 0) & (moved == 0)
    return Rows(
        work=_work(activities, described & ~helps, flops, moved),
        unknown=chosen([helps, ~described], [HELPER, NO_WORK]),
        op=op,
        op_class=texts(activities, "op_class"),
        host_us=np.maximum(activities["duration_ns"].to_numpy(dtype=float), 1.0) / 1e3,
        queued=is_queued(activities, overhead) if queued is None else queued,
        direction=np.where(copied, texts(activities, "name"), "").astype(object),
    )


def of_pairs(paired: pd.DataFrame) -> Rows:
    """Return the rows of a measurement table that carry what the host measured (``host_duration_us``).

    They count as measured alone: the queue before them was empty. A DataError says that the host's times are missing or
    not positive, or that rows lack a dimension of their operator.
    """
    rows, count = complete(paired.reset_index(drop=True)), len(paired)
    nothing = np.full(count, "", dtype=object)
    return Rows(
        work=work_of(rows),
        unknown=np.full(count, None, dtype=object),
        op=texts(rows, "op"),
        op_class=class_of(rows),
        host_us=positive(rows, f"{HOST}duration_us"),
        queued=np.zeros(count, dtype=bool),
        direction=nothing,
    )


def class_of(rows: pd.DataFrame) -> ObjectArray:
    """Return the op class of measured rows: what column `op_class` says, else what the operator is."""
    codes, names = pd.factorize(texts(rows, "op"))
    own = np.array([OPS[name].op_class if name in OPS else name for name in map(str, names)], dtype=object)[codes]
    stated = texts(rows, "op_class")
    return np.where(stated == "", own, stated).astype(object)


def _work(activities: pd.DataFrame, known: BoolArray, flops: FloatArray, moved: FloatArray) -> Work:
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


def _problems(activities: pd.DataFrame, rows: IntArray) -> tuple[IntArray, IntArray]:
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
