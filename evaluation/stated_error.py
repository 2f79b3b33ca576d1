"""What a run states of the error of rows that it is asked about: of each kind of row its error, mixed as asked.

The honest error of a selection is a mean over the rows that were trained. Most of these are of the
largest groups, and some lie beyond the range of all others, so other rows have another error. The
selection therefore states it in parts (``parts`` of `selection.select`):

- of known groups by their trained rows, in the strata of intervals (`interval_scale.STRATA`);
- of new groups within the trained range, and beyond it;
- of new campaigns as a whole.

The error of rows that are asked for is the mean of their parts' errors, each counted as often as it
is asked for.

Nothing is stated of rows beyond the trained range, or of new devices. A run that was corrected
afterwards states what it errs by since (`corrected_error`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ..arrays import BoolArray, FloatArray
from .cluster_bootstrap import effective_groups
from .interval_scale import STRATA
from .ties import sums_of

KNOWN_GROUP: Final = "known group"
NEW_GROUP: Final = "new group"
NEW_CAMPAIGN_ROW: Final = "new campaign"
"""What the model has seen of a row, its `basis`, where a run states an error."""
LEVEL: Final = 0.95
LEAST_GROUPS: Final = 10  # within the trained range that speak for such groups alone
WITHIN = "within"
BEYOND = "beyond"
EVERY = "every"
_LEAST_ERROR: Final = 1e-12  # percent: a mean error below it is none
_LAST: Final = f"more than {STRATA[-1]}"
_NAMES: Final = np.array([*(f"up to {limit}" for limit in STRATA), _LAST], dtype=object)


class StatedError(NamedTuple):
    """The mean error (%) that is stated of ``rows``, with its interval at `LEVEL`."""

    rows: int
    error: float
    lower: float
    upper: float


class Mixture(NamedTuple):
    """The mean error (%) of ``rows`` of several parts, and how surely it is known."""

    rows: int
    error: float
    sigma: float  # standard deviation of its logarithm
    freedom: float  # degrees of freedom of ``sigma``
    least: float  # as that of `Part`

    @classmethod
    def of(cls, part: Part) -> Self:
        """Return the error of rows of one part."""
        return cls.of_parts([(part, part.rows)])

    @classmethod
    def of_parts(cls, parts: Sequence[tuple[Part, int]]) -> Self:
        """Return the error of so many rows of each of some parts: its mean, and Welch's variance and freedom.

        >>> mixture = Mixture.of_parts([(Part(9, 9.0, 4.0, 0.3), 10), (Part(9, 9.0, 2.0, 0.3), 10)])
        >>> mixture.rows, mixture.error, round(mixture.sigma, 3), round(mixture.freedom, 1)
        (20, 3.0, 0.224, 11.8)
        """
        total = sum(rows for _, rows in parts)
        error = sum(rows * part.e_out for part, rows in parts) / total
        variances = []
        scatter = 0.0
        for part, rows in parts:
            variance = (rows / total * part.e_out * part.sigma) ** 2
            variances.append(variance)
            scatter += variance**2 / max(part.units - 1, 1.0)
        common = max(part.common for part, _ in parts)
        fewest = min(part.units for part, _ in parts)
        variances.append((error * common) ** 2)
        scatter += variances[-1] ** 2 / max(fewest - 1, 1.0)
        least = min(part.least for part, _ in parts)
        if not scatter:
            return cls(total, error, 0.0, 1.0, least)
        sigma = float(np.sqrt(sum(variances))) / error
        return cls(total, error, sigma, sum(variances) ** 2 / scatter, least)

    @property
    def stated(self) -> StatedError:
        """The error with its interval: Student's t of its logarithm."""
        reach = float(stats.t.ppf((1 + LEVEL) / 2, self.freedom)) * self.sigma
        reach = min(reach, 50.0)
        lower = self.least * self.error * float(np.exp(-reach))
        upper = self.error * float(np.exp(reach))
        return StatedError(self.rows, self.error, lower, upper)


@dataclass(frozen=True)
class Part:
    """The honest error (%) of some kind of rows, with the standard deviation of its logarithm, and of what that is."""

    rows: int
    units: float  # effective rows, groups or campaigns that it was measured on
    e_out: float
    sigma: float
    least: float = 1.0  # what a model fitted to all rows may lower it by, a factor
    common: float = 0.0  # standard deviation of a factor on all parts alike, of its logarithm

    def times(self, factor: float, measured: Part) -> Self:
        """Return the part times a factor that was measured on other rows."""
        units = min(self.units, measured.units)
        error = factor * self.e_out
        return type(self)(self.rows, units, error, self.sigma, 1.0, measured.sigma)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """Return what a manifest holds; a KeyError, TypeError or ValueError where it is damaged."""
        part = cls(
            int(saved["rows"]),
            float(saved["units"]),
            float(saved["e_out"]),
            float(saved["sigma"]),
            float(saved["least"]),
            float(saved.get("common", 0.0)),
        )
        positive = part.rows > 0 and part.units >= 1 and part.e_out >= 0
        spread = part.sigma >= 0 and part.common >= 0
        if not (positive and spread and 0 < part.least <= 1):
            raise ValueError("parts of a stated error must be positive")
        return part


def relative_scatter(errors: FloatArray, code: NDArray[np.intp]) -> tuple[float, FloatArray]:
    """Return the effective clusters of rows, and the standard deviation of the logarithm of their mean error.

    ``errors`` (n, models) are percent, ``code`` (n,) numbers the cluster of each row from 0 on; the
    deviations, (models,), are those of a ratio over clusters. A single cluster tells none: its
    error is taken to be off by a factor of e.
    """
    units = effective_groups(code)
    if units <= 1:
        return units, np.ones(errors.shape[1])
    sizes = np.bincount(code)
    means = errors.mean(axis=0)
    apart = sums_of(errors, code) - sizes[:, None] * means
    scatter = np.sqrt((apart**2).sum(axis=0) * units / (units - 1)) / len(code)
    return units, scatter / np.maximum(means, _LEAST_ERROR)


def by_trained_rows(trained_rows: NDArray[np.integer]) -> NDArray[np.object_]:
    """Return the name of the part of known groups that each row is of, (n,), by the trained rows of its group.

    >>> by_trained_rows(np.array([4, 11, 5000])).tolist()
    ['up to 10', 'up to 25', 'more than 200']
    """
    return _NAMES[np.searchsorted(STRATA, trained_rows)]


def parts_of_trained(trained_rows: NDArray[np.integer], within: BoolArray) -> dict[str, BoolArray]:
    """Return which rows out of fold, (n,), tell the error of each part of known groups."""
    names = by_trained_rows(trained_rows)
    return {str(name): within & (names == name) for name in _NAMES}


def parts_of_new(groups: NDArray[Any], within: BoolArray) -> dict[str, BoolArray]:
    """Return the same of new groups; all rows are one part where few ``groups``, (n,), are ``within`` the range."""
    if len(np.unique(groups[within])) < LEAST_GROUPS:
        return {EVERY: np.ones(len(within), dtype=bool)}
    return {WITHIN: within, BEYOND: ~within}


@dataclass(frozen=True)
class StatedErrors:
    """The parts of each basis, as a saved model holds them.

    >>> known = {"up to 10": Part(10, 10.0, 9.0, 0.2), "more than 200": Part(290, 290.0, 3.0, 0.05)}
    >>> errors = StatedErrors({"known group": known})
    >>> mixed = errors.of({("known group", "up to 10"): 50, ("known group", "more than 200"): 50})
    >>> mixed.rows, mixed.error
    (100, 6.0)
    """

    of_basis: Mapping[str, Mapping[str, Part]]

    def of(self, asked: Mapping[tuple[str, str], int]) -> StatedError | None:
        """Return the error of so many rows of each basis and part; None where nothing is stated of any."""
        mixture = self.mixed(asked)
        if mixture is None:
            return None
        return mixture.stated

    def mixed(self, asked: Mapping[tuple[str, str], int]) -> Mixture | None:
        """Return the same with what it is made of."""
        mixed = []
        for (basis, name), rows in asked.items():
            part = self._part(basis, name)
            if part is not None:
                mixed.append((part, rows))
        if not any(rows for _, rows in mixed):
            return None
        return Mixture.of_parts(mixed)

    def of_each(self, basis: NDArray[np.object_], names: NDArray[np.object_]) -> FloatArray:
        """Return the error of each row (%), (n,), by its basis and part; NaN where nothing is stated of it.

        >>> errors = StatedErrors({"new group": {"every": Part(9, 3.0, 12.0, 0.2)}})
        >>> errors.of_each(np.array(["new group", "beyond"]), np.array(["", ""])).tolist()
        [12.0, nan]
        """
        errors = np.full(len(basis), np.nan)
        for kind in sorted(set(zip(basis.tolist(), names.tolist(), strict=True))):
            part = self._part(*kind)
            if part is not None:
                errors[(basis == kind[0]) & (names == kind[1])] = part.e_out
        return errors

    @property
    def beyond(self) -> float | None:
        """The error of new groups' rows beyond the range of all others, percent; None where it was not told apart."""
        part = (self.of_basis.get(NEW_GROUP) or {}).get(BEYOND)
        if part is None:
            return None
        return part.e_out

    def _part(self, basis: str, name: str) -> Part | None:
        parts = self.of_basis.get(basis) or {}
        if basis != KNOWN_GROUP:
            return parts.get(WITHIN) or parts.get(EVERY)
        names = [str(each) for each in _NAMES]
        if name not in names:
            return None
        place = names.index(name)
        # of a stratum that the folds did not have, that of fewer rows speaks, which errs more
        for near in [*reversed(names[: place + 1]), *names[place + 1 :]]:
            if near in parts:
                return parts[near]
        return parts.get(EVERY)

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON holds."""
        saved = {}
        for basis, parts in self.of_basis.items():
            saved[basis] = {name: asdict(part) for name, part in parts.items()}
        return saved

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """Return what `to_dict` described; a KeyError, TypeError or ValueError where it is damaged."""
        of_basis = {}
        for basis, parts in saved.items():
            of_basis[str(basis)] = {str(name): Part.from_dict(part) for name, part in parts.items()}
        return cls(of_basis)


NOTHING_STATED: Final = StatedErrors({})
