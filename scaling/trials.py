"""Trials of the scaling laws: fitted to small sizes, judged by a large one that they have not seen.

`reproduction` sets the errors printed in the paper beside those that its published curves give;
`published_trials` has every law on the same curves, with `trial` (one scenario, one target) and
`summary`.

References
----------
.. [1] H. SeyyedAghaei, M. Naderan-Tahan, L. Eeckhout, "GPU Scale-Model Simulation", HPCA 2024.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from ..errors import DataError
from ..evaluation.metrics import mean_least_most, speedup
from .curves import Curve, published_curves
from .prediction import LAWS, fit_law

# what the paper calls its predictor; its printed errors are those of `PROGRAM`
SCALE_MODEL = "scale model"
PROGRAM = "scale model (program)"
EQUATIONS = "scale model (equations)"
PREDICTORS: Final = {SCALE_MODEL: PROGRAM} | {
    name: name for name in ("proportional", "linear", "power law", "logarithmic")
}
"""The predictors of the paper and the laws that are theirs here."""
_PUBLISHED: Final = tomllib.loads(Path(__file__).with_name("published.toml").read_text("utf-8"))
EXPLANATIONS: Final[dict[str, str]] = _PUBLISHED["explanations"]
"""Why an error reproduced from the published curves differs from the printed one (`reproduction`)."""
# points in % by which a reproduced cell may differ from the printed one without a word
TOLERANCE = 1.0
_LITERAL: Final = "equations-to-the-letter"


def trial(
    curves: Sequence[Curve],
    scenario: str,
    target: float,
    laws: Sequence[str] | None = None,
    leave_one_out: bool = True,
    *,
    sizes: Sequence[float] | None = None,
    level: float = 0.9,
) -> pd.DataFrame:
    """Predict one size of every benchmark of a scenario from its small sizes (the two smallest), with every law.

    Benchmarks without the ``target`` are left out. Laws learn from the ``curves`` of the other
    benchmarks, whatever their scenario; without ``leave_one_out`` from the published ones, again
    without those of the benchmark predicted: no law ever sees a performance beyond ``sizes`` of
    that. The miss-rate curve, target included, is given to the scale models, as it is in the paper:
    it comes from a trace of memory accesses, not from simulating the target's timing. f_mem is that
    of the largest scale model.

    The columns are scenario, target, benchmark, law, predicted, lower, upper, observed, ape
    (absolute error in % of the observed), failed (why the law has no prediction; empty where it has
    one).
    """
    chosen = [curve for curve in curves if curve.scenario == scenario and target in curve.sizes]
    if not chosen:
        raise DataError(f"no benchmark with {scenario} scaling was measured at size {target:g}")
    if laws is None:
        names = list(LAWS)
    else:
        names = list(laws)
    # each law leaves out the benchmark it is fitted to
    training = None
    if leave_one_out:
        training = curves
    rows = []
    for curve in chosen:
        fitted = curve.cut(curve.sizes[:2] if sizes is None else sizes)
        if fitted.sizes.size and fitted.sizes[-1] >= target:
            raise DataError(
                f"the size predicted must lie beyond those fitted ({fitted.sizes[-1]:g}), got "
                f"{target:g}"
            )
        observed = float(curve.performance[curve.sizes == target][0])
        for name in names:
            law = fit_law(LAWS[name](training), fitted, np.array([target]), level)
            predicted, lower, upper = law.at(target)
            rows.append(
                {
                    "scenario": scenario,
                    "target": target,
                    "benchmark": curve.benchmark,
                    "law": name,
                    "predicted": predicted,
                    "lower": lower,
                    "upper": upper,
                    "observed": observed,
                    "ape": 100 * abs(predicted - observed) / observed,
                    "failed": law.failed,
                }
            )
    return pd.DataFrame(rows)


def summary(results: pd.DataFrame) -> pd.DataFrame:
    """Return, per scenario, target and law of `trial`, how well it did.

    Columns: scenario, target, law, benchmarks (with a prediction), failed (without), average and
    max absolute error in %, worst (the benchmark), coverage (share of observations inside the
    interval, of those that have one).
    """
    keys = ["scenario", "target", "law"]
    rows = [(*key, *_judged(group)) for key, group in results.groupby(keys, sort=False)]
    return pd.DataFrame(
        rows, columns=[*keys, "benchmarks", "failed", "average", "max", "worst", "coverage"]
    )


def _judged(group: pd.DataFrame) -> tuple[int, int, float, float, str, float]:
    scored = group[group["ape"].notna()]
    failed = len(group) - len(scored)
    if scored.empty:
        return 0, failed, np.nan, np.nan, "", np.nan
    bounded = scored[scored["lower"].notna()]
    inside = (bounded["lower"] <= bounded["observed"]) & (bounded["observed"] <= bounded["upper"])
    worst = scored.iloc[int(scored["ape"].argmax())]
    average = float(scored["ape"].mean())
    most = float(worst["ape"])
    return len(scored), failed, average, most, str(worst["benchmark"]), float(inside.mean())


def published_trials() -> pd.DataFrame:
    """Return `summary` of every law on the published benchmarks, each predicted by what the others teach."""
    cells = _printed()
    scenarios = cells.loc[cells["skipped"] == 0, ["scenario", "target"]].drop_duplicates()
    curves = published_curves()
    trials = [trial(curves, name, float(target)) for name, target in scenarios.to_numpy().tolist()]
    return summary(pd.concat(trials, ignore_index=True))


def _printed() -> pd.DataFrame:
    """Return the errors that the paper prints."""
    errors = ["published_average", "published_max", "explanation"]
    names = ["scenario", "target", "skipped", "predictor", *errors]
    return pd.DataFrame(_PUBLISHED["cells"], columns=names)


def reproduction() -> pd.DataFrame:
    """Return every cell of the paper's tables beside what the published curves give.

    Columns: scenario, target, fit (the sizes fitted to), predictor, average, max,
    published_average, published_max (in %; NaN where not printed), explanation (a code where they
    differ, else empty). The scale model has two rows: by the published program, whose errors are
    the printed ones, and by the equations.
    """
    parts = []
    by: Any = _printed().groupby(["scenario", "target", "skipped"], sort=False)
    for (scenario, target, skipped), cells in by:
        curve = next(one for one in published_curves() if one.scenario == scenario)
        fit = tuple(curve.sizes[skipped : skipped + 2].tolist())
        names = cells["predictor"].map(PREDICTORS)
        cells = cells.assign(predictor=names, fit=[fit] * len(cells))
        beside = cells.iloc[:1].assign(predictor=EQUATIONS, explanation="")
        table = pd.concat([cells.iloc[:1], beside, cells.iloc[1:]])
        errors = benchmark_errors(scenario, target, fit)[table["predictor"]]
        table = table.assign(average=errors.mean().to_numpy(), max=errors.max().to_numpy())
        off = (table["average"] - table["published_average"]).abs() > TOLERANCE
        literal = table["predictor"].eq(EQUATIONS) & off
        parts.append(table.assign(explanation=table["explanation"].mask(literal, _LITERAL)))
    columns = ["average", "max", "published_average", "published_max"]
    table = pd.concat(parts, ignore_index=True).astype(dict.fromkeys(columns, float))
    return table[["scenario", "target", "fit", "predictor", *columns, "explanation"]]


def benchmark_errors(scenario: str, target: float, fit: Sequence[float]) -> pd.DataFrame:
    """Return the error of every benchmark, in %, by the paper's predictors, which learn from no other benchmark."""
    return _benchmark_errors(scenario, target, tuple(fit)).copy()


@cache
def _benchmark_errors(scenario: str, target: float, fit: tuple[float, ...]) -> pd.DataFrame:
    curves = [curve for curve in published_curves() if curve.scenario == scenario]
    names = (*PREDICTORS.values(), EQUATIONS)
    fitted = {}
    for name in names:
        fitted[name] = [LAWS[name]().fit(curve.cut(np.array(fit))) for curve in curves]
    observed = np.array([curve.measured_at(target) for curve in curves], dtype=float)
    predicted = {}
    for name, laws in fitted.items():
        predicted[name] = np.array([law.predict([target])[0] for law in laws])
    errors = {
        name: 100 * np.abs(values - observed) / observed for name, values in predicted.items()
    }
    return pd.DataFrame(errors, index=[curve.benchmark for curve in curves])


def simulation_speedups() -> pd.DataFrame:
    """Return the same from the published seconds: the target's over those of both scale models, one after the other.

    Columns ``scenario``, ``target``, ``benchmarks``, ``mean``, ``least``, ``most``,
    ``published_mean``, ``published_most``.
    """
    names = ["scenario", "target", "published_mean", "published_most"]
    rows = []
    for published in _PUBLISHED["speedups"]:
        row = dict(zip(names, published, strict=True))
        curves = [one for one in published_curves() if one.scenario == row["scenario"]]
        seconds = [one.simulation_time_s for one in curves]
        seconds = [times for times in seconds if row["target"] in times]
        times = [float(speedup(of[row["target"]], *[*of.values()][:2])) for of in seconds]
        rows.append({**row, "benchmarks": len(times), **mean_least_most(times)})
    order = ["scenario", "target", "benchmarks", "mean", "least", "most", *names[2:]]
    return pd.DataFrame(rows)[order]
