"""How fast a GPU computes and moves at its published peaks, and what is missing where one is not published."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import BoolArray, FloatArray, ObjectArray
from ..errors import DataError, NotPublishedError
from ..hardware import GPU, Comparison, all_gpus
from ..operators.operators import Work
from ..remarks import Remark, remark

HOST_DEVICE: Final = "host_device"
"""Of rows with many hosts: the GPU that measured what their columns ``host_*`` hold."""


def each_gpu(rows: pd.DataFrame, target: GPU) -> list[tuple[GPU, NDArray[np.intp]]]:
    """Return the GPUs that rows run on, and the positions of the rows of each.

    That is the target; where it is `hardware.Comparison.MANY`, the GPU of the catalogue that each row names:
    others are of none.
    """
    if not Comparison.of_target(target).is_many:
        return [(target, np.arange(len(rows)))]
    codes, names = pd.factorize(rows["device"].to_numpy(dtype=object))
    by_name = {gpu.name: gpu for gpu in all_gpus()}
    return [
        (by_name[name], np.flatnonzero(codes == code))
        for code, name in enumerate(names)
        if name in by_name
    ]


def on_each(
    work: Work,
    rows: pd.DataFrame,
    target: GPU,
    formula: Callable[[Work, GPU], NDArray[Any]],
    otherwise: Any = np.nan,
) -> NDArray[Any]:
    """Apply a formula to the rows of each GPU (`each_gpu`); other rows have another value."""
    if not Comparison.of_target(target).is_many:
        return formula(work, target)
    if isinstance(otherwise, float):
        dtype = float
    else:
        dtype = object
    values = np.full(len(work), otherwise, dtype=dtype)
    for gpu, places in each_gpu(rows, target):
        values[places] = formula(work.take(places), gpu)
    return values


def on_hosts(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows that name, as their device, the host of each; nothing else of them."""
    return rows[[]].assign(device=rows[HOST_DEVICE])


def rows_of_hosts(rows: pd.DataFrame, host: GPU) -> pd.DataFrame:
    """Return rows as queries of their host: under its name, where each row names another."""
    if Comparison.means_all(host):
        return on_hosts(rows)
    return rows


def each_pair(
    rows: pd.DataFrame, host: GPU, target: GPU
) -> list[tuple[GPU, GPU, NDArray[np.intp]]]:
    """Return the hosts and targets of rows, and the positions of the rows of each pair of them.

    As `each_gpu`; where the host is `hardware.Comparison.MANY`, it is the GPU of the catalogue
    that `HOST_DEVICE` names.
    """
    sides = each_gpu(rows, target)
    pairs = []
    for first, second in each_gpu(rows_of_hosts(rows, host), host):
        for gpu, here in sides:
            if len(both := np.intersect1d(second, here, assume_unique=True)):
                pairs.append((first, gpu, both))
    return pairs


def peaks(work: Work, gpu: GPU) -> FloatArray:
    """Return the peak (TFLOPS) of the unit and precision of each row; a NotPublishedError if one is not published.

    Matrix operators use the matrix peak where the GPU has one for that precision, else the vector
    peak.
    """
    codes, kinds = work.kinds()
    figures = [
        gpu.peak_tflops(dtype, "vector" if unit == "vector" else None) for dtype, unit in kinds
    ]
    return np.array(figures, dtype=float)[codes]


def compute_us(work: Work, gpu: GPU) -> FloatArray:
    """Return ``flops / peak``: the time of the arithmetic alone."""
    return work.flops / (peaks(work, gpu) * 1e6)


def memory_us(work: Work, gpu: GPU) -> FloatArray:
    """Return ``bytes / bandwidth``: the time of the compulsory memory traffic alone."""
    return work.bytes / (gpu.require("memory_bw_gbs") * 1e3)


def machine_balance(work: Work, gpu: GPU) -> FloatArray:
    """Return ``peak / bandwidth``, FLOP per byte: rows of fewer are bound by memory, of more by arithmetic."""
    return peaks(work, gpu) * 1e3 / gpu.require("memory_bw_gbs")


def run_as(dtype: str, gpu: GPU) -> str:
    """Return fp32 in place of TF32 where the GPU has no TF32, any other precision as it is: so do frameworks."""
    if dtype == "tf32" and "tf32_matrix" not in gpu.peaks:
        return "fp32"
    return dtype


def runnable(work: Work, gpu: GPU) -> Work:
    """Return the work at the precisions that the GPU runs (see `run_as`)."""
    if run_as("tf32", gpu) == "tf32" or "tf32" not in work.dtype:
        return work
    dtype = np.where(work.dtype == "tf32", run_as("tf32", gpu), work.dtype).astype(object)
    return Work(work.flops, work.bytes, work.batch, work.m, work.n, work.k, dtype, work.unit)


# Where a figure is not published: NaN, and the reason.


def where_published(
    work: Work, formula: Callable[[Work], FloatArray]
) -> tuple[FloatArray, list[str]]:
    """Apply a formula to each kind of arithmetic in turn; NaN, and the reason, where a figure is not published."""
    values = np.full(len(work), np.nan)
    missing: dict[str, None] = {}
    codes, kinds = work.kinds()
    for code in range(len(kinds)):
        rows = codes == code
        try:
            values[rows] = formula(work.take(rows))
        except NotPublishedError as error:
            missing[f"{error.figure} of {error.gpu} is not published"] = None
    return values, list(missing)


def published(formula: Callable[[Work, GPU], FloatArray]) -> Callable[[Work, GPU], FloatArray]:
    """Return the formula with NaN in rows whose figures are not published."""
    return lambda work, gpu: where_published(work, lambda kind: formula(kind, gpu))[0]


def by_kind(work: Work, formula: Callable[[Work], FloatArray]) -> tuple[FloatArray, ObjectArray]:
    """Apply a formula to each kind of arithmetic in turn; return NaN, and the missing figure, where one is.

    Rows of unknown work are left out, and arithmetic that no GPU has a unit for is a reason too: so
    are traces.
    """
    values = np.full(len(work), np.nan)
    missing = np.full(len(work), None, dtype=object)
    codes, kinds = work.kinds()
    for code, (dtype, _) in enumerate(kinds):
        rows = np.flatnonzero(codes == code)
        if not dtype:  # unknown work
            continue
        try:
            values[rows] = formula(work.take(rows))
        except NotPublishedError as error:
            missing[rows] = error.remark
        except DataError as error:  # products of integers that no GPU has a unit for
            missing[rows] = no_unit(error)
    return values, missing


def given(reasons: ObjectArray) -> BoolArray:
    """Return where there is a reason: not None."""
    return np.array([reason is not None for reason in reasons], dtype=bool)


def chosen(
    conditions: Sequence[BoolArray],
    reasons: Sequence[ObjectArray | Remark | None],
    otherwise: ObjectArray | Remark | None = None,
) -> ObjectArray:
    """Return for each row the reason of the first condition it meets (`numpy.select`)."""
    choices = [np.asarray(reason, dtype=object) for reason in reasons]
    return np.asarray(
        np.select(list(conditions), choices, np.asarray(otherwise, dtype=object)), dtype=object
    )


def no_unit(error: DataError) -> Remark:
    """Return the remark on arithmetic that no GPU has a unit for."""
    return remark("no-such-unit", str(error), problem=str(error))


def ratio(host: GPU, target: GPU, figure: str) -> tuple[float, Remark | None]:
    """Return a figure of the host over that of the target, or NaN and the side that is not published."""
    try:
        return host.require(figure) / target.require(figure), None
    except NotPublishedError as error:
        return np.nan, error.remark
