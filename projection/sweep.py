"""What becomes of an end-to-end time when one figure of the target changes, and where the bound changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeVar

import numpy as np
import pandas as pd

from ..errors import DataError, ParameterError, nearest
from ..hardware import FIGURES, GPU, NETWORK_FIGURES, PEAKS, Figure, peak_path
from ..hardware.lookup import in_proportion
from ..hardware.networks import check_figure
from ..hardware.spec import read_table

END_TO_END = "end_to_end_us"  # column, and key of what is evaluated: the end-to-end time, us
TIME = "time_us."
SHARE = "share."
"""Prefixes of the columns of time by kernel class (us) and of share of time by bound (0 to 1)."""
UNKNOWN = "unknown"  # the bound of what no law has named one for
MOST_POINTS: Final = 1000  # points of a sweep; each is a projection of the trace
POINTS: Final = 8  # values of a range without a step, each the same factor above the one before
_EXAMPLE = "memory_bw_gbs=6000:10000:500 or memory_bw_gbs=6000,8000"
SWEPT: Final[dict[str, Figure]] = FIGURES | {peak_path(key): peak for key, peak in PEAKS.items()}
"""Every figure of a GPU that can be swept, peaks by their place in a data file: ``peak_tflops.fp8_matrix``."""
SWEEPABLE: Final = SWEPT | NETWORK_FIGURES  # the same with the figures of the network
OF_LINKS: Final = ("link_bw_gbs", "p2p_uni_gbs", *NETWORK_FIGURES)
"""Figures that change collectives alone: two of them are swept together too (`grid`)."""


@dataclass(frozen=True)
class Sweep:
    """The values that one figure (key of `SWEEPABLE`) shall take: increasing, in the figure's unit."""

    figure: str
    points: tuple[float, ...]


@dataclass(frozen=True)
class BoundChange:
    """Two neighbouring points of a sweep whose largest share of time belongs to different bounds."""

    figure: str  # what was swept
    lower: float  # its values at the two points
    upper: float
    before: str  # the dominant bound at each
    after: str
    crossing: float  # where the two shares meet, were they to change linearly between the points


Place = TypeVar("Place")  # what has the figures that are swept: a GPU, or a GPU and a network
Evaluate = Callable[[Place], Mapping[str, Any]]
"""From a target to ``{"end_to_end_us": float, "time_us": {class: float}, "share": {bound: float}}``."""


def parse_sweep(text: str) -> Sweep:
    """Read a user's sweep; values come in increasing order, each once.

    ``text`` is ``FIGURE=START:STOP:STEP``, both ends included whatever the step,
    ``FIGURE=START:STOP`` for `POINTS` values, or ``FIGURE=VALUE,VALUE,...``. A ParameterError says
    that the figure is unknown, a value is no number above 0 (or not whole for a count), the range
    is empty or descends, or there are more than `MOST_POINTS` values.

    >>> parse_sweep("memory_bw_gbs=6000:8000:1500").points
    (6000.0, 7500.0, 8000.0)
    """
    figure, equals, points = (part.strip() for part in text.partition("="))
    if not (figure and equals and points):
        raise ParameterError("sweep", f"is written {_EXAMPLE}, got {text!r}")
    if figure not in SWEEPABLE:
        raise ParameterError(
            "sweep", f"must name a figure of a GPU or network, got {figure}: {_nearest(figure)}"
        )
    if ":" in points:
        numbers = _range(figure, points)
    else:
        numbers = [_number(figure, part) for part in points.split(",")]
    if len(numbers) > MOST_POINTS:
        raise ParameterError(
            "sweep", f"of {figure} would take {len(numbers)} values: {MOST_POINTS} is the most"
        )
    values = sorted({float(number) for number in numbers})
    for value in values:
        (check_figure if figure in NETWORK_FIGURES else _checked)(figure, value)
    return Sweep(figure, tuple(values))


def parse_sweeps(texts: Sequence[str]) -> list[Sweep]:
    """Read all that a user wants swept; a ParameterError as for `parse_sweep`, and for a figure given twice."""
    plans = [parse_sweep(text) for text in texts]
    figures = [plan.figure for plan in plans]
    twice = [figure for figure in figures if figures.count(figure) > 1]
    if twice:
        raise ParameterError("sweep", f"names {twice[0]} twice: list all its values in one")
    return plans


def swept(gpu: GPU, figure: str, value: float) -> GPU:
    """Return the GPU with one figure changed; of the others only those in proportion to it (`lookup.in_proportion`).

    Its value gives the GPU itself. Any other gives a GPU of another name that is based on it:
    what was measured on the real one enters as a share of its figures only. A ParameterError says
    that the figure is unknown or the value not above 0 and finite, or not whole for a count.
    """
    if figure not in SWEPT:
        raise ParameterError(
            "sweep", f"must name a figure of a GPU, got {figure}: {_nearest(figure)}"
        )
    changed = _checked(figure, value)
    if value == published_value(gpu, figure):
        return gpu
    if "peaks" in changed:
        changed["peaks"] = {**gpu.peaks, **changed["peaks"]}
    changed |= in_proportion(gpu, changed)
    name = f"{gpu.name} with {figure} = {value:g}"
    sources = (*gpu.sources, f"swept: {figure}")
    based_on = gpu.based_on or gpu.name
    return replace(
        gpu,
        name=name,
        based_on=based_on,
        aliases=(),
        same_id_as="",
        confidence="",
        sources=sources,
        **changed,
    )


def published_value(gpu: GPU, figure: str) -> float | None:
    """Return the GPU's value of a figure of `SWEPT`, None where it is not published."""
    if figure in FIGURES:
        value: float | None = getattr(gpu, figure)
        return value
    return gpu.peaks.get(figure.split(".")[1])


def sweep(
    gpu: Place,
    plan: Sweep,
    evaluate: Evaluate[Place],
    change: Callable[[Any, str, float], Any] = swept,
    value_of: Callable[[Any, str], float | None] = published_value,
) -> pd.DataFrame:
    """Evaluate a GPU at every point of a sweep, and as it is: its value is added where it is not among the points.

    ``change`` gives the GPU with one figure changed, ``value_of`` its value, None where it has
    none.

    One row per value, in increasing order: `figure`, `value`, `current` (whether it is the GPU's
    own), `TIME` class and `SHARE` bound columns beside `END_TO_END`; bounds "" are `UNKNOWN`. A
    class or bound that some points have and others do not took no time at those.
    """
    current = value_of(gpu, plan.figure)
    values = sorted({*plan.points, *([] if current is None else [float(current)])})
    rows = []
    for value in values:
        answer = evaluate(change(gpu, plan.figure, value))
        row = {
            "figure": plan.figure,
            "value": value,
            "current": value == current,
            END_TO_END: answer[END_TO_END],
        }
        row |= {TIME + name: us for name, us in answer["time_us"].items()}
        rows.append(
            row | {SHARE + (bound or UNKNOWN): share for bound, share in answer["share"].items()}
        )
    return _filled(pd.DataFrame(rows))


def stacked(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return at least one sweep, one below the other."""
    return _filled(pd.concat(frames, ignore_index=True))


def grid(
    gpu: Place,
    plans: tuple[Sweep, Sweep],
    evaluate: Evaluate[Place],
    change: Callable[[Place, str, float], Place],
) -> pd.DataFrame:
    """Evaluate two sweeps together: one row per pair of values, with a column for each figure and `END_TO_END`."""
    one, other = plans
    rows = []
    for x in one.points:
        for y in other.points:
            rows.append(
                {one.figure: x, other.figure: y}
                | {
                    END_TO_END: evaluate(change(change(gpu, one.figure, x), other.figure, y))[
                        END_TO_END
                    ]
                }
            )
    return pd.DataFrame(rows)


def changes_of_bound(frame: pd.DataFrame) -> list[BoundChange]:
    """Return where the dominant bound changes along each sweep, in the order of the figures and of their values.

    Of bounds with equal shares the first column is dominant.
    """
    columns = [name for name in frame.columns if name.startswith(SHARE)]
    bounds = [name.removeprefix(SHARE) for name in columns]
    changes = []
    for figure, rows in frame.groupby("figure", sort=False) if columns else ():
        shares = rows[columns].to_numpy(dtype=float)
        values = rows["value"].to_numpy(dtype=float)
        dominant = shares.argmax(axis=1)
        for i in np.flatnonzero(np.diff(dominant)):
            old = dominant[i]
            new = dominant[i + 1]
            # above or at 0, then below or at 0
            lead = shares[i : i + 2, old] - shares[i : i + 2, new]
            step = values[i + 1] - values[i]
            crossing = values[i] + step * lead[0] / (lead[0] - lead[1])
            points = float(values[i]), float(values[i + 1])
            changes.append(
                BoundChange(str(figure), *points, bounds[old], bounds[new], float(crossing))
            )
    return changes


def _filled(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with no time for classes and bounds that only other rows have."""
    parts = [name for name in frame.columns if name.startswith((TIME, SHARE))]
    return frame.fillna(dict.fromkeys(parts, 0.0))


def _range(figure: str, text: str) -> list[Decimal]:
    """Return start, start + step, ... and the stop."""
    parts = [_number(figure, part) for part in text.split(":")]
    if len(parts) == 2 and 0 < parts[0] < parts[1]:
        whole = SWEEPABLE[figure].kind == "count"
        between = np.geomspace(float(parts[0]), float(parts[1]), POINTS)[1:-1]
        return [
            parts[0],
            *(Decimal(round(value) if whole else f"{value:.3g}") for value in between),
            parts[1],
        ]
    if len(parts) != 3:
        raise ParameterError(
            "sweep", f"takes a range as START:STOP or START:STOP:STEP that goes up, got {text!r}"
        )
    start, stop, step = parts
    if not (step > 0 and start < stop):
        raise ParameterError(
            "sweep", f"of {figure} must go up from START to STOP by a STEP above 0, got {text}"
        )
    steps = (stop - start) / step
    if steps >= MOST_POINTS:
        raise ParameterError(
            "sweep", f"of {figure} would take over {MOST_POINTS} values: choose a larger step"
        )
    return [*(start + step * i for i in range(int(steps) + 1)), stop]


def _number(figure: str, text: str) -> Decimal:
    """Return a number as it is written, so that steps of 0.1 add up."""
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        raise ParameterError(
            "sweep", f"of {figure} must be in numbers, got {text.strip()!r}"
        ) from None
    if not number.is_finite():
        raise ParameterError("sweep", f"of {figure} must be in finite numbers, got {text.strip()}")
    return number


def _checked(figure: str, value: float) -> dict[str, Any]:
    """Return the changed attributes of a GPU."""
    outer, dot, inner = figure.partition(".")
    try:
        return read_table({outer: {inner: value} if dot else value}, "")
    except DataError as error:
        raise ParameterError("sweep", f"goes where no GPU is: {error}") from None


def _nearest(figure: str) -> str:
    peak = figure.rpartition(".")[2]
    if peak in PEAKS:
        return f"did you mean {peak_path(peak)}?"
    return nearest(figure, SWEEPABLE, "the figures are those of hardware/gpus.toml")
