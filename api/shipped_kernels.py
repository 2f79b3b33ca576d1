"""Predicting kernels of AMD Instinct with what ships, without any run: ``predict("shipped", rows)``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import pandas as pd

from ..datasets.embedded import SHIPPED
from ..errors import DataError
from ..models.instinct_kernels import BEYOND, SIZES, Kind, answered_by, family, kernel_times
from ..remarks import Remark, remark
from ..report.predictions import Identity, Tally
from ..table.measurements import REFUSED, REFUSED_DETAIL, prediction_columns
from ..table.refusals import row_refused
from .answers import Prediction

_METRIC: Final = "duration_us"


def predict_shipped(
    rows: pd.DataFrame, notes: Sequence[Remark], level: float, target: str
) -> Prediction:
    """Return the answers of the shipped models of MI300X's and MI355X's kernels to rows of `readers.read_rows`.

    Raises DataError: not one row can be predicted.
    """
    if target:
        rows = rows.assign(device=target)
    reasons = pd.Series("", rows.index)
    refused = rows.loc[rows[REFUSED].ne(""), [REFUSED, REFUSED_DETAIL]]
    texts = [row_refused(str(code), str(detail)).text for _, code, detail in refused.itertuples()]
    reasons.update(pd.Series(texts, refused.index, dtype=object))
    reasons[reasons.eq("") & rows["device"].eq("")] = "no device: state it, or a target"
    has_sizes = rows["op"].map(family).isin(list(SIZES))
    reasons[reasons.eq("") & ~has_sizes] = "no such operator ships"
    asked = rows[reasons.eq("")]
    names = prediction_columns(_METRIC)
    frame = pd.DataFrame(index=rows.index, columns=list(names.values()), dtype=float)
    frame.insert(0, "target", rows["device"])
    frame.insert(1, "metric", _METRIC)
    frame["level"] = level
    frame["basis"] = ""
    if len(asked):
        times = kernel_times(asked, level)
        frame.loc[asked.index, list(names.values())] = list(
            zip(times.us, times.lower, times.upper, strict=True)
        )
        frame.loc[asked.index, "basis"] = times.basis
        reasons.update(pd.Series(times.reasons, asked.index, dtype=object))
    frame["extrapolated"] = frame["basis"].eq("beyond")
    frame["reason"] = reasons
    identity = Identity(_METRIC)
    identity.see(rows)
    frame = pd.concat([identity.of(rows), frame], axis=1)
    frame = frame.loc[:, ~frame.columns.duplicated()]
    tally = Tally(_METRIC)
    tally.add(frame, frame["reason"].mask(frame["extrapolated"], BEYOND))
    if not tally.predicted:
        raise DataError(f"no row can be predicted: {tally.refused}")
    facts: dict[str, Any] = {
        "run": SHIPPED,
        "model": "KernelProcess",
        "host": None,
        "target": target or ", ".join(dict.fromkeys(rows["device"])),
        "metric": _METRIC,
        "level": level,
        "scheme": "ten folds of shapes",
        "other_devices": {},
    }
    said = [*notes, *(_error(*one) for one in answered_by(asked).items())]
    return Prediction(frame, tally.report(facts, [*map(repr, said)]))


def shipped_times(rows: pd.DataFrame) -> pd.DataFrame:
    """Return times of kernels as a source of forecasts (`workloads.kernel_times.Times`): none beyond the shapes."""
    answers = kernel_times(rows)
    times = {"predicted_us": answers.us, "lower_us": answers.lower, "upper_us": answers.upper}
    outside = [basis not in ("known group", "new group") for basis in answers.basis]
    return pd.DataFrame({**times, "extrapolated": outside}, index=rows.index)


def _error(key: tuple[str, ...], kind: Kind) -> Remark:
    """Say how far answers of a kind are off for shapes that were left out."""
    errors = kind.errors
    text = (
        f"{' '.join(key)}: off by {errors['mean_percent']:.1f} % on shapes left out, "
        f"{errors['inside_percent']:.0f} % of them within the 90 % interval "
        f"({errors['shapes']:,.0f} shapes); by {errors['new_group_mean_percent']:.1f} %, "
        f"{errors['new_group_inside_percent']:.0f} % within, where the whole group was left out "
        f"({errors['groups']:,.0f} groups)"
    )
    values: dict[str, Any] = {"kind": list(key), **errors}
    if kind.moved:
        values = {"kind": list(key), "spread": kind.moved[1]}
        text = (
            f"{' '.join(key)}: measured on MI300X alone, moved by the ratio of the peaks, from "
            f"which products that both have differ by {math.expm1(kind.moved[1]):.0%}: a rough figure"
        )
    return remark("shipped-errors", text, **values)
