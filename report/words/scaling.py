"""What the scaling laws, their data and measured devices have to say, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # every command has words, few have the statistics that these classes bring
    from ...scaling.scaling_class import Cliff, ScalingClass

FIGURES: Final = {"memory_bw_gbs": "memory bandwidth", "boost_mhz": "clock"}
"""The figures of a device that `scaling.devices.limits` names."""

EXPLANATIONS: Final = {
    "": "",
    "printed-from-other-data": (
        "data: the published curves give this with the formula that reproduces the strong-scaling cells"
    ),
    "printed-by-other-formula": (
        "data or formula: the published curves give this; 58 % is the error of bs divided by its prediction instead of "
        "by what was simulated (average then 19.2 %)"
    ),
    "printed-without-its-parts": (
        "from the larger two sizes averages alone are known, neither benchmark by benchmark nor which predictor's: the "
        "published curves give this, and each average stands in its place by size"
    ),
    "equations-to-the-letter": (
        "formula: the equations multiply by C once however far the target; the printed errors are those of the "
        "published program, which multiplies doubling i by (2 - 1/C)^i"
    ),
}
"""Why an error reproduced from the published curves differs from the printed one (`scaling.trials.reproduction`)."""

_SOURCES: Final = {
    "given": "other benchmarks",
    "joined": "benchmarks, the published ones among them",
    "published": "published benchmarks",
}


def cliff_words(before: float, after: float, ratio: float) -> str:
    """Return where the miss rate falls, and how far."""
    return f"cliff between {before:g} and {after:g}: MPKI falls {ratio:.3g} times"


def class_words(found: ScalingClass) -> str:
    """Return how a benchmark scales, with the figures, the cliffs it crosses included."""
    told = [cliff_words(**vars(cliff)) for cliff in found.cliffs]
    return _class(found) + (f"; crosses a {' and a '.join(told)}" if told else "")


def _class(found: ScalingClass) -> str:
    lower, upper = found.interval
    if lower == -float("inf"):
        return f"{found.growth}: exponent {found.exponent:.2f} between two sizes, which carry no interval"
    p_value = "p < 0.001" if found.p_value < 0.001 else f"p = {found.p_value:.2g}"
    words = f"{found.growth}: exponent {found.exponent:.2f} [{lower:.2f}, {upper:.2f}], {p_value}"
    if found.growth == "linear" and found.p_value < 1 - found.level:
        words += f" for exactly 1, but within {found.margin:g} of it"
    return words


def unseen_cliffs(cliffs: tuple[Cliff, ...] | None, scaling: ScalingClass) -> list[str]:
    """Return the cliffs that the class of a benchmark does not name."""
    return [cliff_words(**vars(cliff)) for cliff in cliffs or () if cliff not in scaling.cliffs]


def _interval_from(benchmarks: int, scenario: str, source: str) -> str:
    return f"interval from the errors of {benchmarks} {_SOURCES[source]} ({scenario} scaling)"


def _interval_from_both(benchmarks: int, scenario: str, source: str, sizes: int, spare: int) -> str:
    others = _interval_from(benchmarks, scenario, source)
    return f"{others}, and from the residuals of {sizes} sizes ({spare} spare)"


def _f_mem(taken: float, most: float) -> str:
    jump = f"{1 / (1 - most):.3g} times" if most < 1 else "any factor"
    return (
        f"f_mem not measured: taken as {taken:.2f}, bounded by 0 and {most:.2f}, so performance may not jump at all or "
        f"by {jump}"
    )


WORDS: Mapping[str, str | Callable[..., str]] = {
    "columns-not-used": lambda columns: f"columns not used: {', '.join(columns)}",
    "interval-from-others": _interval_from,
    "interval-from-others-and-residuals": _interval_from_both,
    "no-serial-share": "no serial share: performance grows at least in proportion to the size",
    "performance-peaks": "performance peaks at size {size:.4g}",
    "cliff-beyond": cliff_words,
    "cliff-among-sizes-fitted": lambda before, after, ratio: (
        f"{cliff_words(before, after, ratio)}, among the sizes fitted: the growth seen there holds a jump"
    ),
    "miss-rates-end": "miss rates end at {size:g}: a cliff beyond would not be seen",
    "no-miss-rates": "no miss rates: a cliff would not be seen",
    "f-mem-not-measured": _f_mem,
    "loss-grows": lambda growth, benchmarks, source: (
        f"the loss grows by {growth:.2f} of the first per doubling: learned from {benchmarks} {_SOURCES[source]}"
    ),
    "two-sizes-only": (
        "two sizes give an exponent and no curvature: where scaling bends, and where it ends, does not show"
    ),
    "scaling-figure-not-published": lambda figure, device: f"{FIGURES[figure]} of {device} is not published",
    "figure-out-of-proportion": lambda figure, ratio, units_ratio, first, last: (
        f"{FIGURES[figure]} grows × {ratio:.2f} from {first} to {last}, the units × {units_ratio:.2f}: "
        "not a scale model"
    ),
    "architectures-differ": "the devices are not of one architecture: size is not all that tells them apart",
}
