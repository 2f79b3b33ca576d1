"""What the laws say of rows: the baselines of training and validation, and the factors of a projection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import pandas as pd

from ..arrays import FloatArray
from ..errors import ParameterError, counted, nearest
from ..hardware import GPU, Comparison
from ..operators.kinds.serving_run import SERVING
from ..operators.operators import Work, complete
from ..operators.work import numbers, texts
from ..remarks import remark
from . import LAWS, OF_COMPUTATION
from . import law as find_law
from .base import HOST_LINK, DeviceLaw, Law, Pair, Rows
from .board_power import Energy
from .computation import ROOFLINE
from .rates import chosen, each_gpu, each_pair, memory_us, where_published
from .serving_steps import steps
from .user_law import titled

_NAMED = tuple(find_law(name) for name in LAWS)
_TIMES = [law for law in _NAMED if isinstance(law, DeviceLaw) and law.metric == "duration_us"]
EVERY: Final[tuple[Law, ...]] = (
    *_NAMED,
    *(Energy(law) for law in _TIMES if law.scales or law.alone),
)
"""Every law: each baseline of time is one of energy too."""
SCALING: Final[dict[str, dict[str, DeviceLaw]]] = {}
"""For each metric the laws from host to target by the name the user sees."""
OF_ONE: Final[dict[str, dict[str, DeviceLaw]]] = {}
"""For each metric the laws of one device by the name the user sees."""
for _law in EVERY:
    if isinstance(_law, DeviceLaw) and _law.scales:
        SCALING.setdefault(_law.metric, {})[titled(_law, scaling=True)] = _law
    if isinstance(_law, DeviceLaw) and _law.alone:
        OF_ONE.setdefault(_law.metric, {})[titled(_law, scaling=False)] = _law


def scaling_laws(
    metric: str,
    work: Work,
    host_values: np.ndarray,
    host: GPU,
    target: GPU,
    rows: pd.DataFrame | None = None,
    more: Sequence[DeviceLaw] = (),
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return each scaling law's predictions for the target, and the figures missing for it.

    `host_values` is the metric measured on the host, of shape (n_rows,). One column per law, in the
    unit of the metric; none for a metric without laws; NaN in rows whose law needs a figure that is
    not published. The notes say for each law with such rows, which figures those are. Where host or
    target is `hardware.Comparison.MANY`, ``rows`` name them (`rates.each_pair`). ``more``
    laws are the user's.
    """
    laws = _with_more(SCALING.get(metric, {}), more, scaling=True)
    comparison = Comparison(host, target)
    if rows is not None and (comparison.is_many or comparison.has_many_hosts):
        parts = []
        for from_gpu, to_gpu, places in each_pair(rows, host, target):
            part = work.take(places)
            values = host_values[places]
            table = scaling_laws(metric, part, values, from_gpu, to_gpu, None, more)
            parts.append((places, table))
        return _joined(parts, len(work), list(laws))
    ratio_of = {name: partial(law.ratio, host=host, target=target) for name, law in laws.items()}
    ratios, notes = _table(work, ratio_of)
    return ratios.mul(host_values, axis=0), notes


def laws_of_one(
    metric: str,
    work: Work,
    gpu: GPU,
    rows: pd.DataFrame | None = None,
    more: Sequence[DeviceLaw] = (),
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return the predictions of the laws of one device; as `scaling_laws`, without a host.

    ``rows`` are those of the work: runs of serving have a separate law, `SUM_OF_PARTS`, and
    where the GPU is `hardware.Comparison.MANY` they name it.
    """
    if rows is not None:
        total = sum_of_parts(metric, rows, gpu)
        if total is not None:
            return pd.DataFrame({SUM_OF_PARTS: total}, index=pd.RangeIndex(len(rows))), {}
    laws = _with_more(OF_ONE.get(metric, {}), more, scaling=False)
    if rows is not None and Comparison.of_target(gpu).is_many:
        parts = []
        for device, places in each_gpu(rows, gpu):
            table = laws_of_one(metric, work.take(places), device, None, more)
            parts.append((places, table))
        return _joined(parts, len(work), list(laws))
    return _table(work, {name: partial(law, gpu=gpu) for name, law in laws.items()})


def _with_more(
    laws: Mapping[str, DeviceLaw], more: Sequence[DeviceLaw], *, scaling: bool
) -> dict[str, DeviceLaw]:
    """Return the laws of a metric with others, by title; the last stays the fallback."""
    every = dict(laws)
    fallback = [every.popitem()] if every else []
    for law in more:
        every[titled(law, scaling=scaling)] = law
    every.update(fallback)
    return every


# the law of serving, by the name the user sees (`serving_steps`)
SUM_OF_PARTS: Final = "sum of parts"


def sum_of_parts(metric: str, rows: pd.DataFrame, gpu: GPU) -> FloatArray | None:
    """Return the sum of the parts of serving; None for rows of other operators, and metrics without a sum.

    ``gpu`` is one that the catalogue may not have, or has otherwise.
    """
    if not len(rows) or not (texts(rows, "op") == SERVING).all():
        return None
    whole = complete(rows)
    return steps(whole, gpu).law(metric, numbers(whole, "output_len")[0])


def _joined(
    parts: Sequence[tuple[np.ndarray, tuple[pd.DataFrame, dict[str, str]]]],
    count: int,
    names: list[str],
) -> tuple[pd.DataFrame, dict[str, str]]:
    """Return laws of parts of so many rows, by their positions, as one table; NaN in rows of no part."""
    laws = pd.DataFrame(np.nan, pd.RangeIndex(count), names)
    notes = dict[str, list[str]]()
    for places, (part, lacking) in parts:
        laws.iloc[places] = part.to_numpy()
        for name, why in lacking.items():
            notes.setdefault(name, []).append(why)
    return laws, {name: "; ".join(dict.fromkeys(why)) for name, why in notes.items()}


def _table(
    work: Work, laws: Mapping[str, Callable[[Work], np.ndarray]]
) -> tuple[pd.DataFrame, dict[str, str]]:
    columns = {}
    notes = {}
    for name, law in laws.items():
        values, missing = where_published(work, law)
        unknown = int((~np.isfinite(values)).sum())
        columns[name] = values
        if missing:
            notes[name] = "; ".join(missing)
        elif unknown:
            notes[name] = f"the work of {unknown} of {counted(len(values), 'row')} is unknown"
    return pd.DataFrame(columns, index=pd.RangeIndex(len(work)), dtype=float), notes


SIZES: Final = ("roofline", "memory", "flops", "bytes", "work-items", "constant")


def size(measure: str, work: Work, gpu: GPU) -> FloatArray:
    """Return the stand-in for the size of each row where there is no time to scale.

    That is the ``roofline``; ``memory``, the time of the traffic, which needs no peak; ``flops`` or
    ``bytes``, where the device has no such figure;
    ``work-items``: ``batch m n``, for kernels known by their launch alone; or 1 (``constant``), for
    what does not grow with the work.
    """
    if measure == "work-items":
        return work.batch * work.m * work.n
    if measure == "constant":
        return np.ones(len(work))
    if measure == "flops":
        return work.flops
    if measure == "bytes":
        return work.bytes
    if measure == "memory":
        return memory_us(work, gpu)
    return ROOFLINE(work, gpu)


def check_law(law: str) -> None:
    """Raise a ParameterError, with the nearest names, for an unknown law of computation."""
    if law not in OF_COMPUTATION:
        names = nearest(law, OF_COMPUTATION)
        raise ParameterError("compute_law", f"must be a law of computation, got {law!r}: {names}")


# what stands in for a law that says nothing of a row, and for that
BANDWIDTH = "bandwidth"
KEPT = "kept"
OVER_PCIE = remark("over-pcie", "a copy between host and GPU: scaled by the PCIe generations")
"""A copy between host and GPU goes by the generations of PCIe."""


def by_law(rows: Rows, pair: Pair, law: str) -> pd.DataFrame:
    """Return the prediction of a law of `laws.OF_COMPUTATION` for each row, or its fallback's.

    Rows that the law says nothing of, and copies between host and GPU, go by bandwidth; where its
    figures are not published the duration is kept. Between equal devices every factor is 1. A
    DataError says that the law is unknown. The columns are `factor`, projected over measured
    duration (> 0, finite); `law`, the one used; `why`, a tuple of `Remark`, () where there is
    nothing to say; `bound`.
    """
    check_law(law)
    asked = find_law(law).scaled(rows, pair)
    wide = find_law(BANDWIDTH).scaled(rows, pair)
    linked = np.isin(rows.direction, HOST_LINK) & (law not in (KEPT, BANDWIDTH))
    usable = np.isfinite(asked.factor) & ~linked
    fallback = np.isfinite(wide.factor)
    of_law = chosen([linked], [OVER_PCIE], asked.why)
    of_fallback = chosen([usable | fallback], [None], wide.why)
    why = np.empty(len(rows), dtype=object)
    for row, reasons in enumerate(zip(of_law, of_fallback, strict=True)):
        # a reason that is there twice once
        why[row] = tuple(dict.fromkeys(filter(None, reasons)))
    factor = np.select([usable, fallback], [asked.factor, wide.factor], 1.0)
    if pair.host == pair.target:
        factor = np.ones(len(rows))
    name = np.select([usable, fallback], [law, BANDWIDTH], KEPT).astype(object)
    bound = np.select([usable, fallback], [asked.bound, wide.bound], "").astype(object)
    return pd.DataFrame({"factor": factor, "law": name, "why": why, "bound": bound})
