"""What is said of measured power: the protocol, the power and energy of kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..power.clocks import Clocks
from ..power.energy import PHASES
from ..power.profile import ComponentPower, Curve, KernelPower, compare, compare_classes
from ..power.recording import TABLE, Plan
from ..remarks import Remark, remark
from .console import note, plain_table
from .words import say

SCHEMA = 1
METHOD = "FinGraV (Singhania, Aga, Ibrahim, ISPASS 2025)"
COLUMNS = ("kernel", "component", "class", "time µs", "SSE W", "SSP W", "error %", "peak W", "share %",
           "energy J [interval]")  # fmt: skip


def plan_table(chosen: Plan) -> Table:
    """Return the recommended protocol, one line per setting."""
    logger = f"a window of {chosen.interval_us:g} µs" if chosen.interval_us else "a logger of instantaneous power"
    title = f"How to measure a kernel of {chosen.kernel_us:g} µs with {logger}"
    table = plain_table(title, ["setting", "value", ""])
    for setting, value, why in plan_rows(chosen):
        table.add_row(Text(setting), Text(value), Text(why, "dim"))
    return table


def plan_rows(chosen: Plan) -> list[tuple[str, str, str]]:
    """Return (setting, value, remark) of each setting of the protocol."""
    filled = f"{chosen.executions_filled} or later starts with the whole window inside the run"
    found = [
        ("executions per run", f"{chosen.executions}", f"max(⌈window / kernel time⌉, 4), as published; {filled}"),
        ("random delay before each run", f"0 to {chosen.random_delay_us:g} µs", "so that readings fall everywhere"),
    ]
    if chosen.row is None or chosen.logs is None:
        return [("runs", "no published row", f"the table begins at {TABLE[0].from_us:g} µs"), *found]
    row = chosen.row
    return [
        ("runs", f"{row.runs}", ""),
        *found,
        ("margin of the execution-time bin", f"±{100 * row.margin:g} %", "golden runs: the fullest bin"),
        (
            "readings of interest",
            f"{chosen.logs}",
            f"one per {row.log_every_us:g} µs; these runs give about {chosen.expected_logs:.0f} in one execution",
        ),
    ]


def plan_json(chosen: Plan) -> dict[str, Any]:
    """Return the protocol for machines; without a published row its figures are null."""
    row = chosen.row
    return {
        "schema": SCHEMA,
        "kernel_us": chosen.kernel_us,
        "interval_us": chosen.interval_us,
        "runs": row and row.runs,
        "margin": row and row.margin,
        "log_every_us": row and row.log_every_us,
        "logs": chosen.logs,
        "expected_logs": chosen.expected_logs,
        "executions": chosen.executions,
        "executions_filled": chosen.executions_filled,
        "repeats": chosen.repeats,
        "random_delay_us": chosen.random_delay_us,
        "advice": [say(one) for one in chosen.advice],
        "remarks": remarks_json(chosen.advice),
    }


def show_power(console: Console, kernels: Sequence[KernelPower], clocks: Clocks) -> None:
    """Print the table of components, what each kernel was measured with, classes side by side, and remarks."""
    compared = compare(kernels)
    console.print(component_table(compared))
    classes = compare_classes(compared)
    if len(classes):
        console.print(class_table(classes))
    for one in kernels:
        for line in description(one):
            console.print(Text(f"• {line}"), highlight=False)
    console.print(Text(f"• {clock_words(clocks)}"), highlight=False)
    for one in kernels:
        for words in one.notes:
            console.print(note(f"{one.kernel}: {say(words)}"))


def component_table(compared: pd.DataFrame) -> Table:
    """Return one row per kernel and component; see `power.comparison.compare`."""
    caption = "SSE: steady execution, SSP: steady power; error: made by taking the first for the second"
    table = plain_table("Power of kernels, means over their time", COLUMNS[:3], COLUMNS[3:], caption=caption)
    table.columns[0].min_width = 12
    table.columns[1].no_wrap = table.columns[2].no_wrap = True
    for name, rows in compared.groupby("kernel", sort=False):
        for place, row in enumerate(rows.to_dict("records")):
            table.add_row(Text(str(name) if not place else ""), *map(Text, component_cells(row)))
        table.add_section()
    return table


def component_cells(row: dict[Any, Any]) -> tuple[str, ...]:
    """Return the figures of one row of `compare`, as words, from the component on."""
    return (
        str(row["component"]),
        str(row["class"]),
        _figure(row["kernel_us"]),
        _figure(row["sse_w"]),
        _figure(row["ssp_w"]),
        _signed(row["sse_error_percent"]),
        _figure(row["peak_w"]),
        _figure(100 * row["share"]),
        f"{_figure(row['energy_j'])} [{_figure(row['lower_j'])}, {_figure(row['upper_j'])}]",
    )


def class_table(classes: pd.DataFrame) -> Table:
    """Return the mean power of each component over the kernels of a class."""
    title = "By op-to-byte class: means over kernels"
    table = plain_table(title, ["class", "component"], ["kernels", "SSP W", "share %"])
    for row in classes.to_dict("records"):
        figures = (_figure(row["ssp_w"]), _figure(100 * row["share"]))
        table.add_row(str(row["class"]), Text(str(row["component"])), str(row["kernels"]), *figures)
    return table


def description(one: KernelPower) -> Iterator[str]:
    """Yield how the kernel was measured: runs kept and removed, executions, isolation, throttling, the window."""
    runs = one.runs
    reasons = [f"{count} removed: {say(remark(reason))}" for reason, count in runs.removed.items()]
    removed = "; ".join(reasons) or "none removed"
    bounds = f" of {_figure(runs.low_us)} to {_figure(runs.high_us)} µs" if np.isfinite(runs.high_us) else ""
    yield f"{one.kernel}: {len(runs.kept)} golden runs{bounds} out of {len(runs.table)}; {removed}"
    window = f"{one.window_us:g} µs" if one.window_us else "none, power is instantaneous"
    yield (
        f"{one.kernel}: averaging window {window}; SSE is execution {one.sse_execution}, SSP from execution "
        f"{one.ssp_execution} on; {say(remark(one.isolation))}"
    )
    for name, part in one.components.items():
        if part.throttling.found:
            yield (
                f"{one.kernel}: {name} throttles: it rises to {_figure(part.throttling.peak_w)} W at execution "
                f"{part.throttling.peak_execution} and falls by {part.throttling.fall_percent:.1f} %"
            )
        if part.deconvolved is not None:
            yield f"{one.kernel}: {deconvolved_words(name, part)}"


def deconvolved_words(name: str, part: ComponentPower) -> str:
    """Say what the deconvolved curve of a component resolves."""
    own = part.deconvolved
    assert own is not None
    resolved = "only its level is resolved" if own.parameters < 2 else f"about {own.parameters:.0f} parameters resolved"
    return (
        f"{name}, window removed: {_figure(own.power_w.mean())} W on average, {_figure(own.power_w.max())} W at most; "
        f"{resolved} from {own.readings} readings of {own.runs} runs"
    )


def clock_words(clocks: Clocks) -> str:
    """Say how the clocks were synchronised."""
    if not clocks.pairs:
        return "clocks: the log's times are taken for those of the CPU's clock; no pairs were given"
    offset = f"clocks: GPU − CPU {clocks.offset_ns / 1e3:,.1f} µs at the first of {clocks.pairs} pairs"
    drift = (
        f", drift {clocks.drift_ppm:+.2f} ± {clocks.drift_error_ppm:.2g} ppm"
        if clocks.drift_known
        else ", drift not known"
    )
    residual = "" if np.isnan(clocks.residual_ns) else f", residual {clocks.residual_ns / 1e3:.2f} µs RMS"
    outliers = f", {len(clocks.outliers)} pairs left out as outliers" if clocks.outliers else ""
    return f"{offset}{drift}{residual}{outliers}; reads took {2 * clocks.bound_ns / 1e3:.2f} µs or more"


def power_json(kernels: Sequence[KernelPower], clocks: Clocks, level: float) -> dict[str, Any]:
    """Return the profiles for machines; a figure that does not exist is NaN."""
    compared = compare(kernels)
    return {
        "schema": SCHEMA,
        "method": METHOD,
        "level": level,
        "clocks": vars(clocks)
        | {name: getattr(clocks, name) for name in ("offset_ns", "drift_ppm", "drift_error_ppm")},
        "kernels": [_kernel_json(one) for one in kernels],
        "compared": compared.to_dict("records"),
        "classes": compare_classes(compared).to_dict("records"),
    }


def _kernel_json(one: KernelPower) -> dict[str, Any]:
    runs = one.runs
    return {
        "kernel": one.kernel,
        "class": one.label or None,
        "kernel_us": one.kernel_us,
        "window_us": one.window_us,
        "window_stated": one.window_stated,
        "sse_execution": one.sse_execution,
        "ssp_execution": one.ssp_execution,
        "filled": one.filled,
        "isolation": one.isolation,
        "alone": one.alone,
        "others": one.others,
        "runs": {
            "golden": len(runs.kept),
            "bin_us": [runs.low_us, runs.high_us],
            "margin": runs.margin,
            "removed": runs.removed,
            "list_removed": runs.table.loc[~runs.table["golden"], ["run", "time_us", "reason"]].to_dict("records"),
        },
        "plan": plan_json(one.plan),
        "phase": PHASES,
        "components": {name: _component_json(part) for name, part in one.components.items()},
        "notes": [say(one_note) for one_note in one.notes],
        "remarks": remarks_json(one.notes),
    }


def _component_json(part: ComponentPower) -> dict[str, Any]:
    return {
        "sse": None if part.sse is None else _curve_json(part.sse),
        "ssp": _curve_json(part.ssp),
        "sse_error_percent": part.sse_error_percent,
        "energy": vars(part.energy),
        "throttling": {**vars(part.throttling), "fall_percent": part.throttling.fall_percent},
        "deconvolved": None if part.deconvolved is None else vars(part.deconvolved),
    }


def _curve_json(curve: Curve) -> dict[str, Any]:
    return {
        "mean_w": curve.mean_w,
        "polynomial_w": curve.polynomial_w,
        "spline_w": curve.spline_w,
        "readings": {name: curve.readings[name].to_numpy() for name in ("run", "execution", "time_us", "power_w")},
    }


def _figure(value: float) -> str:
    return f"{value:,.4g}" if np.isfinite(value) else "–"


def _signed(value: float) -> str:
    return f"{value:+.1f}" if np.isfinite(value) else "–"


def remarks_json(remarks: Sequence[Remark]) -> list[dict[str, Any]]:
    """Return remarks for machines: their codes and values."""
    return [{"code": one.code, **dict(one.items)} for one in remarks]
