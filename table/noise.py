"""How far measurements of one workload lie apart: what no model can predict.

Three kinds of rows show it. Rows that merge repeats carry their spread; repeats that stay rows of
their own (``run``), and searches that measured one problem again (campaigns), lie around their
median. What is predicted is the median of the repeats of a row, which is surer than one of them by
the root of their number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from ..operators.operators import RUN
from .problems import problem_ids

LEAST: Final = 10  # workloads that must show their noise
REPEATS: Final = "repeats"
TUNINGS: Final = "tunings"


@dataclass(frozen=True)
class Noise:
    """The noise of the measurements of a table.

    Attributes
    ----------
    kind : str
        What shows it: `REPEATS` of a measurement, or `TUNINGS` of one problem in several campaigns.
    workloads : int
        How many show it.
    spread : float
        Median absolute deviation of a measurement from the median of its workload, percent of it;
        the median over the workloads.
    floor : float
        The same of what is predicted: no model can be expected to err by less, percent.
    """

    kind: str
    workloads: int
    spread: float
    floor: float


def noise_of(frame: pd.DataFrame, metric: str = "duration_us") -> Noise | None:
    """Return the noise of the rows of a table, the larger of two kinds; None if fewer than ten rows show it.

    >>> rows = pd.DataFrame({"duration_us": [10.0] * 12, "spread_us": 0.4, "repeats": 4})
    >>> noise_of(rows)
    Noise(kind='repeats', workloads=12, spread=4.0, floor=2.0)
    """
    shown = [_of_merged(frame, metric), _of_runs(frame, metric), _of_tunings(frame, metric)]
    enough = []
    for noise in shown:
        if noise is not None and noise.workloads >= LEAST and noise.floor > 0:
            enough.append(noise)
    return max(enough, key=lambda noise: noise.floor, default=None)


def _of_merged(frame: pd.DataFrame, metric: str) -> Noise | None:
    """Return the noise of rows that merge repeats: of times alone, whose spread they carry."""
    if metric != "duration_us" or not {"spread_us", "repeats"} <= set(frame):
        return None
    values = frame[["duration_us", "spread_us", "repeats"]].to_numpy(dtype=np.float64)
    times, spreads, repeats = values.T
    merged = (times > 0) & np.isfinite(spreads) & (repeats > 1)
    if not merged.any():
        return None
    relative = 100 * spreads[merged] / times[merged]
    surer = relative / np.sqrt(repeats[merged])
    spread = float(np.median(relative))
    return Noise(REPEATS, int(merged.sum()), spread, float(np.median(surer)))


def _of_runs(frame: pd.DataFrame, metric: str) -> Noise | None:
    """Return the noise of repeats that are separate rows, each of which is predicted."""
    if RUN not in frame:
        return None
    problems = problem_ids(frame.drop(columns=RUN), kernel=True)
    return _around_median(frame[metric], problems, REPEATS)


def _of_tunings(frame: pd.DataFrame, metric: str) -> Noise | None:
    """Return the noise of problems that several campaigns tuned: the best kernel of each counts."""
    if "campaign" not in frame or "op" not in frame or RUN in frame or metric != "duration_us":
        return None
    searches = pd.DataFrame(
        {
            "problem": problem_ids(frame),
            "campaign": frame["campaign"].astype(str).to_numpy(),
            "time": frame[metric].to_numpy(dtype=np.float64),
        }
    )
    searches = searches[(searches["campaign"] != "") & (searches["time"] > 0)]
    best = searches.groupby(["problem", "campaign"], sort=False)["time"].min().reset_index()
    return _around_median(best["time"], best["problem"].to_numpy(), TUNINGS)


def _around_median(values: pd.Series, problems: np.ndarray, kind: str) -> Noise | None:
    """Return the distance of values from the median of their problem, for problems with several."""
    measured = pd.Series(values.to_numpy(dtype=np.float64))
    by_problem = measured.groupby(problems)
    relative = 100 * (measured / by_problem.transform("median") - 1).abs()
    several = (by_problem.transform("size") > 1) & measured.gt(0)
    if not several.any():
        return None
    of_problems = relative[several].groupby(problems[several.to_numpy()]).median()
    middle = float(of_problems.median())
    return Noise(kind, len(of_problems), middle, middle)
