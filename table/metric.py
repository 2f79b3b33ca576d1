"""What a metric measures, in words and signs: read from the name of its column, which ends in the unit."""

from __future__ import annotations

from dataclasses import dataclass

_NOUNS = {"duration": "time"}
_SYMBOLS = {"time": "t", "energy": "E", "power": "P"}
_UNITS = {"us": "µs", "ms": "ms", "ns": "ns", "s": "s", "j": "J", "w": "W"}
_RATES = frozenset({"w", "mhz", "c"})
"""Ends of names of what is measured while a kernel runs, however long it runs: watts, megahertz, degrees."""


@dataclass(frozen=True)
class Quantity:
    """What a metric measures.

    Attributes
    ----------
    noun : str
        "time", "energy", "power"; otherwise the name of the column without its unit, "" where that is all of it.
    symbol : str
        Sign for formulas: t, E, P; otherwise the noun.
    suffix, unit : str
        The unit as names of columns have it ("us") and as people write it ("µs").
    grows : bool
        Whether it grows with the work, as time and energy do and power does not.
    """

    noun: str
    symbol: str
    suffix: str
    unit: str
    grows: bool

    @property
    def label(self) -> str:
        """Noun and unit, e.g. ``energy, J``."""
        return f"{self.noun}, {self.unit}" if self.noun else self.unit


def quantity(metric: str) -> Quantity:
    """Return what a column of the measurement table measures.

    Examples
    --------
    >>> quantity("energy_j").label
    'energy, J'
    >>> quantity("power_w").grows
    False
    """
    stem, _, suffix = metric.rpartition("_")
    noun = _NOUNS.get(stem, stem.replace("_", " "))
    return Quantity(noun, _SYMBOLS.get(noun, noun), suffix, _UNITS.get(suffix, suffix), suffix not in _RATES)


def prediction_columns(metric: str) -> dict[str, str]:
    """Return what the columns of a prediction and of its limits are called, with the unit of the metric.

    Examples
    --------
    >>> list(prediction_columns("duration_us").values())
    ['predicted_us', 'lower_us', 'upper_us']
    """
    return {name: f"{name}_{quantity(metric).suffix}" for name in ("predicted", "lower", "upper")}
