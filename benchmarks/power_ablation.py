"""What each step of `power` is worth: errors of the recovered profile and energy with the step left out.

``python -m flopcast.benchmarks.power_ablation [--kernel-us 120] [--window-us 1000] [--repetitions
5] [--seed 0]``
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd

from ..errors import DataError
from ..power.clocks import Clocks, Measured, constant_offset, fit_clocks, on_cpu_clock
from ..power.energy import PHASES
from ..power.logs import TOTAL
from ..power.profile import profile_kernel
from ..power.readings import check_power_log
from ..power.runs import group_runs
from ..report.document import Document, Section, Table, columns, rows
from ..report.formats import formatted
from ..report.terminal import show
from ..traces.cleaning.binning import EACH_OTHER, MIDDLE
from .power_simulator import Scenario, Simulation, simulate

EVERYTHING: Final = "everything"
LEVEL: Final = "a level line through the mean power"
"""What any curve must beat."""
FEW_RUNS: Final = 50
CASES: Final = (
    EVERYTHING,
    "without synchronisation",
    "without drift",
    "bin twice as wide",
    "without binning",
    f"{FEW_RUNS} runs",
    "steady execution taken for steady power",
    LEVEL,
)
_FIGURES: Final = (
    "golden_runs",
    "readings",
    "polynomial_percent",
    "spline_percent",
    "own_percent",
    "energy_percent",
)


def ablation(scenario: Scenario | None = None, *, repetitions: int = 5) -> pd.DataFrame:
    """Return the errors of each case, root mean square over simulated measurements.

    Parameters
    ----------
    scenario : Scenario, optional
        By default that of `Scenario`: a kernel of 120 us and a window of 1 ms.
    repetitions : int
        Measurements simulated, with the seeds from that of the scenario on.

    Returns
    -------
    DataFrame
        One row per case: ``case``, ``repetitions`` (those that gave a profile: in others too few
        readings fell into executions; the rest is of these), ``golden_runs``, ``readings`` (means),
        ``polynomial_percent`` and ``spline_percent`` (RMS error of the profile against what a
        perfect logger would show in steady state), ``own_percent`` (RMS error of the deconvolved
        profile against the kernel's curve, NaN where it is not made) and ``energy_percent``,
        all relative to the true mean.

    Raises
    ------
    DataError
        No repetition gave a profile, with no step left out.
    """
    scenario = scenario or Scenario()
    seeds = range(scenario.seed, scenario.seed + repetitions)
    results: dict[str, list[dict[str, float] | DataError]] = {case: [] for case in CASES}
    for seed in seeds:
        whole, few = (
            simulate(replace(scenario, seed=seed, runs=runs)) for runs in (scenario.runs, FEW_RUNS)
        )
        for case in CASES:
            results[case].append(
                _errors(case, few if case.endswith(" runs") else whole, scenario.window_us)
            )
    rows = []
    for case in CASES:
        valid = [one for one in results[case] if not isinstance(one, DataError)]
        if case == EVERYTHING and not valid:
            raise next(one for one in results[case] if isinstance(one, DataError))
        rows.append({"case": case, "repetitions": len(valid), **_pooled(valid)})
    return pd.DataFrame(rows)


def rms_percent(answers: np.ndarray, true: np.ndarray) -> float:
    """Return the root mean square of the difference, in % of the true mean."""
    return 100 * float(np.sqrt(np.mean((answers - true) ** 2)) / np.mean(true))


def _pooled(results: list[dict[str, float]]) -> dict[str, float]:
    """Return the means of counts and the root mean squares of errors; NaN where there is nothing."""
    every = pd.DataFrame(results, columns=list(_FIGURES), dtype=float)
    return {
        name: float(
            np.sqrt((every[name] ** 2).mean(skipna=False))
            if name.endswith("_percent")
            else every[name].mean()
        )
        for name in _FIGURES
    }


def _errors(case: str, simulated: Simulation, window_us: float) -> dict[str, float] | DataError:
    """Return the errors of one measurement, or why it gave no profile."""
    try:
        result = profile_kernel(
            _measured(simulated, case),
            window_us=0 if case.startswith("steady execution") else window_us,
            margin=math.inf if case == "without binning" else None,
            within=MIDDLE if case == "bin twice as wide" else EACH_OTHER,
            components=[TOTAL],
            replicates=1,
        )
    except DataError as error:
        return error
    truth, part = simulated.truth, result.components[TOTAL]
    deconvolved = part.deconvolved

    def off(curve: np.ndarray, true: np.ndarray) -> float:
        return rms_percent(np.full(len(curve), curve.mean()) if case == LEVEL else curve, true)

    return {
        "golden_runs": len(result.runs.kept),
        "readings": len(part.ssp.readings),
        "polynomial_percent": off(part.ssp.polynomial_w, truth.averaged_w(PHASES)),
        "spline_percent": off(part.ssp.spline_w, truth.averaged_w(PHASES)),
        "own_percent": np.nan
        if deconvolved is None
        else off(deconvolved.power_w, truth.power_w(deconvolved.phase)),
        "energy_percent": 100 * abs(part.energy.energy_j / truth.energy_j() - 1),
    }


def _measured(simulated: Simulation, case: str) -> Measured:
    clocks = fit_clocks(simulated.pairs)
    if case == "without drift":
        clocks = constant_offset(simulated.pairs)
    if case == "without synchronisation":
        clocks = _taken_for_equal(clocks)
    return on_cpu_clock(check_power_log(simulated.log), group_runs(simulated.executions), clocks)


def _taken_for_equal(clocks: Clocks) -> Clocks:
    """Return clocks that read the same."""
    return replace(clocks, cpu_origin_ns=clocks.gpu_origin_ns, shift_ns=0.0, slope=1.0)


def ablation_table(results: pd.DataFrame) -> Table:
    """Return the errors of each case for a terminal; see `ablation`."""
    title = "Simulated logger, errors in % of the true mean: what each step is worth"
    numbers = [
        "repetitions",
        "golden runs",
        "readings",
        "polynomial",
        "spline",
        "own curve",
        "energy",
    ]
    caption = (
        "polynomial, spline: the profile against what a perfect logger would show; own curve: "
        "window removed, against "
        "the kernel's own power. RMS over the kernel's time and the simulated measurements; "
        "repetitions: those with "
        "enough readings for a profile."
    )
    forms = {"repetitions": "{:.0f}", "golden_runs": "{:.0f}", "readings": "{:.0f}"}
    forms |= {f"{name}_percent": "{:.2f}" for name in ("polynomial", "spline", "own", "energy")}
    cells = [
        (str(row["case"]), *(formatted(row[name], form) for name, form in forms.items()))
        for row in results.to_dict("records")
    ]
    return Table(columns("case", numbers=numbers), rows(cells), title, caption)


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate, profile with each step left out in turn, and print what that costs.

    A run of the simulator has as many executions as fill the window: its 200 runs take gigabytes
    where the kernel is ten thousand times shorter.
    """
    parser = argparse.ArgumentParser(
        prog="python -m flopcast.benchmarks.power_ablation", description=__doc__
    )
    parser.add_argument(
        "--kernel-us", type=float, default=120.0, help="time of the simulated kernel"
    )
    parser.add_argument(
        "--window-us", type=float, default=1000.0, help="averaging window of the simulated logger"
    )
    parser.add_argument("--repetitions", type=int, default=5, help="measurements to simulate")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    scenario = Scenario(kernel_us=given.kernel_us, window_us=given.window_us, seed=given.seed)
    table = ablation_table(ablation(scenario, repetitions=given.repetitions))
    show(Document(sections=[Section("Ablation", [table])]))


if __name__ == "__main__":
    main()
