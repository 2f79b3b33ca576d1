"""What to make faster: the calls of a trace that cost most, what bounds them, and how far the best measured kernel is.

`advice_of` takes the calls that take the longest time on the target. For each it says what bounds it
on host and target, which share of that roof it reaches, what the best kernel that anybody measured
takes for the same work on either GPU, and what would be gained: of the call's time, and of the
end-to-end time, which is replayed with the call at that kernel's time. Where the CPU sets the pace,
a faster kernel gains nothing, and the replay says so.

The best kernel is, in this order: the least time of the same problem among measured tables (`MEASURED`);
of MI300X and MI355X what kernels of like shapes teach, with its interval (`models.instinct_kernels`;
`LEARNT`, and `MOVED` where they were measured on the other GPU). Where there is neither, the
roofline alone says what could be gained at most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from ..arrays import FloatArray, IntArray
from ..hardware import GPU
from ..laws.applied import by_law
from ..laws.base import Pair
from ..models.instinct_kernels import SIZES, family, kernel_times
from ..remarks import Remark, remark
from ..table.measurements import fill_text, judge
from ..table.problems import problem_ids
from ..traces.classes import COMPUTE
from .graph import Graph
from .kernel_laws import calls_of, of_activities, of_same_problem
from .phases import repeats_of
from .replay import replay
from .roofs import HOST, SIDES, TARGET, mean_in
from .split import COMMUNICATION
from .whole_trace import BOUND, CATEGORY, Projection

LONGEST: Final = 10  # calls that are told
MEASURED = "measured"
LEARNT = "like shapes"
MOVED = "other GPU"
NONE = ""
"""What the time of the best kernel rests on."""
_BASES: Final = {"known group": LEARNT, "new group": LEARNT, "law": MOVED}


@dataclass(frozen=True)
class Advice:
    """What to make faster.

    Attributes
    ----------
    table : DataFrame
        A row for each kind of call, the longest time on the target first: `kernel` (its longest),
        `op_class`, `op` with dimensions and formats, `count`; `measured_us`, `projected_us`, summed,
        `share` of the projected time of all activities; `intensity`, FLOPs per byte. For both sides (``measured_``,
        ``projected_``): `bound`; `tflops`; `roof`, the share of that roof that it reaches; `best_us` of one
        call, with `lower_us` and `upper_us`; `basis` (`MEASURED`, ...); `times`, its time over the
        best kernel's. `gain_us`, what the calls would take less on the target with the best kernel,
        `end_gain_us`, what the end-to-end time would; `most_us`, what they could at most, at the
        roofline. NaN where nobody knows.
    best_us : ndarray of shape (n_activities,)
        Time of each activity on the target if its call took as long as the best kernel; NaN where
        that was not measured, or is not shorter.
    all_us : float
        End-to-end time on the target with the best kernel for all of the table.
    """

    table: pd.DataFrame
    best_us: FloatArray
    all_us: float
    target: str
    projected_us: float

    @property
    def remark(self) -> Remark:
        """What all of it together would gain (``best-kernels``)."""
        with_best = int(self.table["projected_best_us"].notna().sum())
        slower = int(self.table["gain_us"].gt(0).sum())
        gained = 1 - self.all_us / self.projected_us
        text = (
            f"of the {len(self.table)} calls that cost most {with_best} have a best known kernel on "
            f"{self.target}, {slower} are slower than it: with it the end-to-end time is "
            f"{100 * gained:.1f} % shorter"
        )
        values = {"calls": len(self.table), "known": with_best, "slower": slower, "gained": gained}
        return remark("best-kernels", text, **values)


def advice_of(projection: Projection, rates: pd.DataFrame, measured: pd.DataFrame) -> Advice:
    """Return the advice on what to make faster; ``rates`` are of `roofs.rates_of`, ``measured`` rows of the table."""
    rows = projection.activities
    calls, of_call = calls_of(rows)
    calls = fill_text(judge(calls))
    kind = _kinds(rows, calls, of_call)
    us = rows["projected_us"].to_numpy(dtype=float)
    totals = np.bincount(kind[kind >= 0], weights=us[kind >= 0])
    order = np.argsort(-totals, kind="stable")[:LONGEST]
    bounds = {HOST: _host_bounds(projection), TARGET: rows[BOUND].astype(str).to_numpy(object)}
    lines = []
    best_us = np.full(len(rows), np.nan)
    gpus = {HOST: projection.host, TARGET: projection.target}
    heads = [int(of_call[np.flatnonzero(kind == number)[0]]) for number in order]
    asked = calls.iloc[heads].reset_index(drop=True)
    best = {side: best_kernels(asked, gpu, measured) for side, gpu in gpus.items()}
    for place, number in enumerate(order.tolist()):
        of_kind = np.flatnonzero(kind == number)
        row, shorter = _row(projection, rates, bounds, of_kind, of_call, asked.iloc[place])
        for side, table in best.items():
            best_row = table.iloc[place]
            row |= {f"{side}_{name}": best_row[name] for name in table.columns}
            row[f"{side}_times"] = row[f"{side}_us"] / row["count"] / best_row["best_us"]
        row["gain_us"] = row["projected_us"] * max(1 - 1 / row["projected_times"], 0.0)
        if row["projected_times"] > 1:
            best_us[of_kind] = shorter / row["projected_times"]
        row["end_gain_us"] = projection.projected_us - _end_us(projection, of_kind, best_us)
        lines.append(row)
    every = np.flatnonzero(np.isfinite(best_us))
    return Advice(
        table=pd.DataFrame(lines),
        best_us=best_us,
        all_us=_end_us(projection, every, best_us),
        target=projection.target.name,
        projected_us=projection.projected_us,
    )


def best_kernels(calls: pd.DataFrame, gpu: GPU, measured: pd.DataFrame) -> pd.DataFrame:
    """Return the time of the best measured kernel of each call on a GPU: `best_us`, `lower_us`, `upper_us`, `basis`.

    NaN and "" where nothing was measured or learnt. A measured time is its own interval.
    """
    on_gpu = measured[measured["device"].astype(str).eq(gpu.name)]
    problems = on_gpu.assign(ratio=on_gpu["duration_us"]).reset_index(drop=True)
    best_us = of_same_problem(calls, problems, "min")
    lower_us = best_us.copy()
    upper_us = best_us.copy()
    basis = np.where(np.isfinite(best_us), MEASURED, NONE).astype(object)
    for op, sizes in SIZES.items():
        unknown = calls["op"].map(family).eq(op).to_numpy() & ~np.isfinite(best_us)
        if not unknown.any() or not set(sizes) - {"batch"} <= set(calls):
            continue
        places = np.flatnonzero(unknown)
        asked = calls.iloc[places].assign(device=gpu.name).reset_index(drop=True)
        times = kernel_times(asked)
        for place, us, low, high, basis_of in zip(
            places, times.us, times.lower, times.upper, times.basis, strict=True
        ):
            if basis_of in _BASES:
                best_us[place] = us
                lower_us[place] = low
                upper_us[place] = high
                basis[place] = _BASES[basis_of]
    return pd.DataFrame(
        {"best_us": best_us, "lower_us": lower_us, "upper_us": upper_us, "basis": basis}
    )


def _kinds(rows: pd.DataFrame, calls: pd.DataFrame, of_call: IntArray) -> IntArray:
    """Return the number of the kind of call of each activity that computes or communicates, -1 of others."""
    if calls.empty:
        return np.full(len(rows), -1, dtype=np.int64)
    codes = pd.factorize(problem_ids(calls, kernel=True))[0]
    counted = rows[CATEGORY].astype(str).isin([COMPUTE, COMMUNICATION]).to_numpy() & (of_call >= 0)
    return np.where(counted, codes[of_call], -1)


def _host_bounds(projection: Projection) -> np.ndarray:
    """Return the bound of each activity on the host, shape (n_activities,)."""
    pair = Pair.of(projection.host, projection.host)
    rows = projection.activities
    queued = rows["queued"].to_numpy(dtype=bool)
    laws = by_law(of_activities(rows, pair.fixed[0], queued), pair, projection.laws.compute)
    communicates = (rows[CATEGORY] == COMMUNICATION).to_numpy()
    return np.where(communicates, "link", laws["bound"].astype(str).to_numpy(dtype=object))


def _row(
    projection: Projection,
    rates: pd.DataFrame,
    bounds: dict[str, np.ndarray],
    of_kind: IntArray,
    of_call: IntArray,
    call: pd.Series,
) -> tuple[dict[str, Any], FloatArray]:
    """Return the row of a kind of call, without its best kernel, and the projected times of its activities."""
    rows = projection.activities
    part = rows.iloc[of_kind]
    repeats = repeats_of(rows)[of_kind]
    us = part["projected_us"].to_numpy(dtype=float)
    first = np.unique(of_call[of_kind], return_index=True)[1]
    whole = float(rows["projected_us"].sum())
    figures = {
        str(name): value
        for name, value in call.items()
        if name not in ("kernel", "duration_us", "op_class")
    }
    row: dict[str, Any] = {
        "kernel": str(call["kernel"]),
        "op_class": str(part["op_class"].iloc[int(us.argmax())]),
        **figures,
        "count": float(repeats[first].sum()),
        "measured_us": float(part["measured_us"].sum()),
        "projected_us": float(us.sum()),
        "share": float(us.sum()) / whole if whole else 0.0,
    }
    for side in SIDES:
        weights = part[f"{side}_us"].to_numpy(dtype=float)
        roofs = rates[[f"{side}_efficiency", f"{side}_memory_share", f"{side}_link_share"]]
        reached = roofs.iloc[of_kind].max(axis=1)
        row[f"{side}_tflops"] = _mean(rates[f"{side}_tflops"].iloc[of_kind], weights)
        row[f"{side}_bound"] = str(bounds[side][of_kind][int(weights.argmax())])
        row[f"{side}_roof"] = _mean(reached, weights)
    flops, moved = (part[name].sum(min_count=1) for name in ("flops", "bytes_moved"))
    if moved and moved > 0:
        row["intensity"] = float(flops / moved)
    else:
        row["intensity"] = np.nan
    row["most_us"] = row["projected_us"] * (1 - min(row[f"{TARGET}_roof"], 1.0))
    return row, us


def _mean(values: pd.Series, weights: FloatArray) -> float:
    """Return the weighted mean of the values that are present; NaN without any."""
    usable = values.notna().to_numpy() & (weights > 0)
    if not usable.any():
        return math.nan
    return float(np.average(values.to_numpy(dtype=float)[usable], weights=weights[usable]))


def _end_us(projection: Projection, of_kind: IntArray, best_us: FloatArray) -> float:
    """Return the end-to-end time on the target with some activities as short as the best kernel's call."""
    graph: Graph = projection.target_graph
    rows = projection.activities
    scale = np.ones(len(rows))
    us = rows["projected_us"].to_numpy(dtype=float)
    timed = of_kind[np.isfinite(best_us[of_kind]) & (us[of_kind] > 0)]
    scale[timed] = best_us[timed] / us[timed]
    times = replay(graph, projection.projected_ns * scale[graph.rows], projection.cpu)
    return float(projection.spans_us(times)[0])


def tracks(
    projection: Projection, advice: Advice, edges_us: Sequence[float] | FloatArray
) -> tuple[str, FloatArray, FloatArray]:
    """Return a track for a viewer of traces: the share of each bin that the best measured kernels would save, %."""
    graph = projection.graph
    times = projection.times
    us = projection.activities["projected_us"].to_numpy(dtype=float)
    saved = np.zeros(len(us))
    shorter = np.isfinite(advice.best_us) & (us > 0)
    saved[shorter] = 1 - advice.best_us[shorter] / us[shorter]
    edges = np.asarray(edges_us, dtype=float) * 1e3
    chosen = saved[graph.rows] > 0
    shares = mean_in(
        edges, times.start_ns[0][chosen], times.end_ns[0][chosen], saved[graph.rows][chosen]
    )
    return "saved by the best known kernels, %", edges, np.r_[100 * shares, 0.0]
