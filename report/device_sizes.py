"""What `flopcast scale --devices` says: how each kernel family scales with the units, and whether linearly."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..evaluation.linear_scaling import ValidationResult
from ..evaluation.verdicts import Interval, Outcome, too_few
from ..remarks import Remark
from ..scaling.devices import CU_LAW, LEVEL, DeviceScaling, DeviceSizes, FamilyScaling
from ..scaling.scaling_class import MARGIN, Growth
from .console import note, plain_table
from .validation import conclusion, summary, validation_json
from .words import say

COLUMNS = ("family", "problems", "groups", f"exponent [{100 * LEVEL:g} %]", "5 to 95 % of problems", "scaling")

_STYLES = {Growth.LINEAR: "green", Growth.SUB: "red", Growth.SUPER: "cyan", Growth.UNDECIDED: "yellow"}


def show_devices(console: Console, result: DeviceScaling) -> None:
    """Print the families, the verdict on linear scaling from the smallest device to others, and the data's limits."""
    console.print(family_table(result))
    for verdict in result.verdicts:
        for line in verdict_lines(verdict):
            console.print(Text(f"• {line}"), highlight=False)
    for words in device_notes(result):
        console.print(note(words))


def family_table(result: DeviceScaling) -> Table:
    """Return one row per kernel family: exponent, interval, spread over problems and the class."""
    table = plain_table(title(result.measured), COLUMNS[:1], COLUMNS[1:-1], caption=legend())
    table.add_column(COLUMNS[-1])
    for one in result.families:
        style = _STYLES.get(one.growth, "dim")
        *cells, words = family_cells(one)
        table.add_row(*map(Text, cells), Text(words, style))
    return table


def family_cells(one: FamilyScaling) -> tuple[str, ...]:
    """Return a family as words under the headings `COLUMNS`."""
    spread = f"{one.spread[0]:.2f} to {one.spread[1]:.2f}"
    words = family_words(one) if one.growth is Growth.TOO_FEW else str(one.growth)
    return one.name, str(one.problems), str(one.groups), exponent_words(one.exponent), spread, words


def family_words(one: FamilyScaling) -> str:
    """Return how a family scales, or why nothing can be said."""
    few = too_few(one.problems, one.groups)
    return few.text if few else f"{one.growth}: performance grows with size to the power {one.exponent}"


def device_notes(result: DeviceScaling) -> list[str]:
    """Return what the devices cannot show, then what the readers remark."""
    every = (*result.limits, *result.notes)
    return [say(one) if isinstance(one, Remark) else str(one) for one in every]


def title(measured: DeviceSizes) -> str:
    """Return which devices, how large, and how many problems."""
    names = ", ".join(f"{one.name} ({size:g})" for one, size in zip(measured.devices, measured.sizes, strict=True))
    return f"Performance over size: {names}; {len(measured.rows)} problems measured on all"


def legend() -> str:
    """Return how to read the table."""
    return (
        "exponent: performance (1 / time) grows with size to this power, 1 = linear; the median over problems with its "
        f"cluster-bootstrap interval. linear: the interval of {200 * LEVEL - 100:g} % within 1 ± {MARGIN:g}; "
        f"sub-linear, super-linear: that of {100 * LEVEL:g} % all below or above 1."
    )


def exponent_words(exponent: Interval) -> str:
    """Return an exponent with its interval, alone where it has none."""
    return f"{exponent.value:.2f}" if np.isnan(exponent.lower) else str(exponent)


def verdict_lines(verdict: ValidationResult) -> list[str]:
    """Return what `validate` says of linear scaling over size: of all rows, then where it holds and where it fails."""
    pooled, *lines = summary(verdict)
    host = verdict.dataset.host
    names = f"{host.name if host else 'host'} → {verdict.dataset.target.name}"
    return [f"{names}, {pooled}", *(line for line in lines if line.startswith((CU_LAW, Outcome.TOO_FEW.value)))]


def devices_json(result: DeviceScaling) -> dict[str, Any]:
    """Return the same for machines, problem by problem; a figure that does not exist is NaN."""
    return {
        "schema": 1,
        "devices": [one.name for one in result.measured.devices],
        "sizes": result.measured.sizes,
        "families": [_family_json(one) for one in result.families],
        "problems": problems(result.measured),
        "linear": [validation_json(verdict) for verdict in result.verdicts],
        "conclusions": [conclusion(verdict.classes[0]) for verdict in result.verdicts],
        "notes": device_notes(result),
    }


def problems(measured: DeviceSizes) -> list[dict[str, Any]]:
    """Return each problem with its times and its exponent."""
    rows = measured.rows
    sources = rows["source"].astype(str) if "source" in rows else [""] * len(rows)
    return [
        {"op": str(op), "group": str(group), "source": source, "times_us": times, "exponent": float(exponent)}
        for op, group, source, times, exponent in zip(
            rows["op"], measured.groups, sources, measured.times_us, measured.exponents, strict=True
        )
    ]


def _family_json(one: FamilyScaling) -> dict[str, Any]:
    return {
        "op": one.op,
        "family": one.family,
        "dtype": one.dtype,
        "problems": one.problems,
        "groups": one.groups,
        "exponent": vars(one.exponent),
        "spread": list(one.spread),
        "class": str(one.growth),
        "words": family_words(one),
    }
