"""What a run errs by once its shift is corrected, measured on the rows that showed the shift.

The factor was learnt on these rows, so none of them is corrected by a factor that it had a part in:
the groups are cut into `FOLDS` sets at most, and the rows of each are corrected by the median of
the others. Of each kind of row (`basis` of `TrainedModel.answer`) this is the run's error since.

Of known groups a run states an error for each stratum of trained rows (`stated_error`). The rows of
a check may be of some strata alone, so all parts of a basis are multiplied by what the rows of the
check err by over what was stated of them. Of a kind of row that the check did not have nothing is
stated: nobody measured it since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import FloatArray
from .intervals import log_ratio
from .metrics import ape, inlier_ratios
from .stated_error import (
    BEYOND,
    EVERY,
    KNOWN_GROUP,
    LEVEL,
    NEW_CAMPAIGN_ROW,
    NEW_GROUP,
    Mixture,
    Part,
    StatedErrors,
    relative_scatter,
)

FOLDS: Final = 20
SCHEME_OF: Final = {KNOWN_GROUP: "kfold", NEW_GROUP: "grouped", NEW_CAMPAIGN_ROW: "campaign"}
"""The question that rows of a basis ask, as ``metrics.json`` names it."""


@dataclass(frozen=True)
class CorrectedError:
    """The error of rows of one basis after the correction.

    Attributes
    ----------
    part : Part
        Rows, effective clusters, mean error (%) and the standard deviation of its logarithm.
    groups : int
        Of these rows.
    e_out_groups, median_ape : float
        The mean over groups of their mean errors, and the median over rows, percent.
    ir : dict of str to float
        Inlier ratios, percent.
    coverage, width : float or None
        The share of rows inside the corrected intervals, and the median width of these as a share
        of the prediction; None where no row has one.
    """

    part: Part
    groups: int
    e_out_groups: float
    median_ape: float
    ir: Mapping[str, float]
    coverage: float | None
    width: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return what ``correction`` of ``metrics.json`` holds of a question."""
        stated = Mixture.of(self.part).stated
        return {
            "rows": self.part.rows,
            "groups": self.groups,
            "e_out": self.part.e_out,
            "e_out_groups": self.e_out_groups,
            "median_ape": self.median_ape,
            "ir": dict(self.ir),
            "interval": [stated.lower, stated.upper],
            "level": LEVEL,
            "coverage": self.coverage,
            "median_relative_width": self.width,
        }


def corrected_by_others(rows: pd.DataFrame) -> FloatArray:
    """Return the predictions of rows, (n,), each times the median ratio of the other groups.

    ``rows`` has ``observed``, ``predicted`` and ``group``, of two groups or more.

    >>> rows = pd.DataFrame({"observed": [2.0, 6.0], "predicted": [1.0, 2.0], "group": ["a", "b"]})
    >>> corrected_by_others(rows).round(9).tolist()
    [3.0, 4.0]
    """
    ratios = log_ratio(rows["observed"], rows["predicted"])
    _, code = np.unique(rows["group"].to_numpy(dtype=str), return_inverse=True)
    fold = code % FOLDS
    corrected = rows["predicted"].to_numpy(dtype=np.float64).copy()
    for place in np.unique(fold):
        here = fold == place
        corrected[here] *= np.exp(np.median(ratios[~here]))
    return corrected


def corrected_errors(
    rows: pd.DataFrame, corrected: pd.DataFrame, clusters: NDArray[Any]
) -> dict[str, CorrectedError]:
    """Return by basis what rows err by after the correction.

    ``rows`` has ``observed``, ``predicted`` as before, ``group`` and ``basis``; ``corrected`` has
    the ``predicted``, ``lower`` and ``upper`` that the corrected run answers with; ``clusters``
    (n,) are what err together: groups, or campaigns.
    """
    errors = ape(rows["observed"], corrected_by_others(rows))
    basis = rows["basis"].to_numpy(dtype=object)
    groups = rows["group"].to_numpy(dtype=str)
    lower = corrected["lower"].to_numpy()
    upper = corrected["upper"].to_numpy()
    inside = rows["observed"].between(lower, upper).to_numpy()
    width = (upper - lower) / corrected["predicted"].to_numpy()
    promised = np.isfinite(width)
    measured = {}
    for name in SCHEME_OF:
        here = basis == name
        if not here.any():
            continue
        with_interval = here & promised
        coverage = None
        middle = None
        if with_interval.any():
            coverage = float(inside[with_interval].mean())
            middle = float(np.median(width[with_interval]))
        measured[name] = CorrectedError(
            part=_part(errors[here], clusters[here]),
            groups=len(np.unique(groups[here])),
            e_out_groups=float(pd.Series(errors[here]).groupby(groups[here]).mean().mean()),
            median_ape=float(np.median(errors[here])),
            ir=inlier_ratios(errors[here]),
            coverage=coverage,
            width=middle,
        )
    return measured


def _part(errors: FloatArray, clusters: NDArray[Any]) -> Part:
    _, code = np.unique(clusters.astype(str), return_inverse=True)
    units, scatter = relative_scatter(errors[:, None], code)
    return Part(len(errors), units, float(errors.mean()), float(scatter[0]))


def _asked(rows: pd.DataFrame, basis: str) -> Counter[tuple[str, str]]:
    """Count the rows of a basis by what is stated of them."""
    here = rows["basis"].eq(basis)
    return Counter(zip(rows.loc[here, "basis"], rows.loc[here, "part"], strict=True))


def no_better_than_trained(
    measured: Mapping[str, CorrectedError], errors: StatedErrors, rows: pd.DataFrame
) -> dict[str, CorrectedError]:
    """Return the errors since, those as trained in place of any that are surely below them.

    A factor makes no model better: rows that err by far less are workloads that it was trained on,
    timed again. They tell the factor, and neither the error nor the coverage of others. ``errors``
    are what was stated of such rows as trained; ``rows`` are those of the check, with ``basis`` and
    ``part``.
    """
    since = {}
    for basis, corrected in measured.items():
        since[basis] = corrected
        before = errors.mixed(_asked(rows, basis))
        if before is None or Mixture.of(corrected.part).stated.upper >= before.error:
            continue
        factor = before.error / max(corrected.part.e_out, 1e-9)
        since[basis] = replace(
            corrected,
            part=replace(
                corrected.part, e_out=before.error, sigma=max(before.sigma, corrected.part.sigma)
            ),
            e_out_groups=factor * corrected.e_out_groups,
            median_ape=factor * corrected.median_ape,
            ir={},
            coverage=None,
        )
    return since


def stated_since(
    errors: StatedErrors, rows: pd.DataFrame, measured: Mapping[str, CorrectedError]
) -> StatedErrors:
    """Return what a run states after the correction.

    ``errors`` are what it stated before, ``rows`` those of the check, with ``basis`` and ``part``.
    """
    of_basis = {}
    for basis, corrected in measured.items():
        before = errors.mixed(_asked(rows, basis))
        if before is None or before.error <= 0:
            of_basis[basis] = {EVERY: corrected.part}
            continue
        parts = {}
        for name, part in errors.of_basis[basis].items():
            if name != BEYOND:
                parts[name] = part.times(corrected.part.e_out / before.error, corrected.part)
        of_basis[basis] = parts
    return StatedErrors(of_basis)


def as_stated(
    measured: Mapping[str, CorrectedError], errors: StatedErrors, rows: pd.DataFrame
) -> dict[str, CorrectedError]:
    """Return the errors since with the interval that the corrected run states of the rows of the check.

    ``errors`` are those of `stated_since`, so that one error has one interval wherever it stands.
    """
    stated = {}
    for basis, corrected in measured.items():
        mixture = errors.mixed(_asked(rows, basis))
        stated[basis] = corrected
        if mixture is not None:
            part = replace(corrected.part, sigma=mixture.sigma, units=mixture.freedom + 1)
            stated[basis] = replace(corrected, part=part)
    return stated
