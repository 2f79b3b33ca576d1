"""What if: what a run predicts over the dimensions it was trained on, worked out in advance, for sliders of a page.

A setting that was measured says so beside the prediction; the others are the model's answers
between and beyond, each with its interval and its basis. A run with a host answers where that was
measured, and says where it was not: it needs the host's time of the very setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, Final

import numpy as np
import pandas as pd

from ..arrays import BoolArray, FloatArray
from ..evaluation.intervals import LEVEL
from ..evaluation.trained_model import TrainedModel
from ..laws.rates import HOST_DEVICE
from ..operators.operators import OPS
from ..table.measurements import COUNTER, DTYPE_COLUMNS, TEXT_DIMENSIONS, quantity
from ..table.problems import HOST
from .document import Part, Sliders, Table, columns, lines, rows
from .formats import significant

CHOICES: Final = 400  # settings that are worked out at most
SHAPES: Final = 20  # of a run with a host, combinations of the dimensions beside the slider, the most frequent ones
# dimensions that are varied at most; the others stand at their most frequent values
AXES: Final = 3
# what rows of one kind agree in
_KIND: Final = frozenset({"op", "family", *DTYPE_COLUMNS, *TEXT_DIMENSIONS})


def what_if(model: TrainedModel, measured: pd.DataFrame) -> list[Part]:
    """Return sliders over the dimensions of the most frequent kind of ``measured`` rows; nothing where none can vary.

    Nor is there anything for a model with counters among its features: they are measured too.
    """
    host = model.recipe.host
    if any(COUNTER in name for name in model.recipe.columns):
        return []
    if HOST_DEVICE in measured:  # one host and one target of many
        measured = measured[_most_frequent(measured[[HOST_DEVICE, "device"]])]
    words = [
        name
        for name in measured
        if not pd.api.types.is_numeric_dtype(measured[name]) and name in _KIND
    ]
    kind = measured
    if words:
        kind = measured[_most_frequent(measured[words])]
    of_op = OPS[str(kind["op"].iloc[0])].dims
    dims = [name for name in of_op if name in kind and pd.api.types.is_numeric_dtype(kind[name])]
    varied = sorted(dims, key=lambda name: (-kind[name].nunique(), dims.index(name)))[:AXES]
    others = [name for name in dims if name not in varied]
    if others:
        kind = kind[_most_frequent(kind[others])]
    varied = [name for name in dims if name in varied and kind[name].min() < kind[name].max()]
    if not varied:
        return []
    if host is not None:
        return _from_host(
            model, kind, varied, _settings({name: kind[name].iloc[0] for name in words})
        )
    values_each = int(CHOICES ** (1 / len(varied)) + 1e-9)
    values = [_some(np.unique(kind[name].dropna()), values_each) for name in varied]
    asked = pd.DataFrame(list(product(*values)), columns=pd.Index(varied, dtype=object))
    fixed = {
        name: kind[name].iloc[0]
        for name in (*words, *dims, "device")
        if name in kind and name not in varied
    }
    answers, _ = model.answer(asked.assign(**fixed), LEVEL)
    if answers["predicted"].isna().all():
        return []
    medians = kind.groupby(varied, as_index=False)[model.recipe.metric].median()
    observed = asked.merge(medians, how="left", on=varied)[model.recipe.metric].to_numpy()
    label = quantity(model.recipe.metric).label
    pairs = zip(answers.to_dict("records"), observed, strict=True)
    axes = []
    for name, each in zip(varied, values, strict=True):
        axes.append((name, [f"{value:g}" for value in each]))
    first = int(np.argmax(np.isfinite(observed)))
    note = (
        f"{_settings(fixed)}. Each setting was worked out when the page was made; none is read off "
        "between two others."
    )
    return [
        lines([note]),
        Sliders(axes, [[_choice(row, observed_us, label)] for row, observed_us in pairs], first),
    ]


def _from_host(
    model: TrainedModel, kind: pd.DataFrame, varied: list[str], fixed: str
) -> list[Part]:
    """Return a slider over the dimension with the most values and a list of the others, where the host was measured."""
    assert model.recipe.host is not None
    host = model.recipe.host.name
    metric = model.recipe.metric
    label = quantity(model.recipe.metric).label
    if HOST_DEVICE in kind:
        host = str(kind[HOST_DEVICE].iloc[0])
        fixed = f"{fixed}; target = {kind['device'].iloc[0]}"
    slider = max(varied, key=lambda name: kind[name].nunique())
    others = [name for name in varied if name != slider]
    if others:
        shapes = list(kind.groupby(others, sort=False).size().nlargest(SHAPES).index)
    else:
        shapes = [()]
    shapes = sorted(shape if isinstance(shape, tuple) else (shape,) for shape in shapes)
    values = _some(np.unique(kind[slider]), CHOICES // len(shapes))
    rows_of = kind.groupby([*others, slider])[metric].median().rename("observed").reset_index()
    one = kind.drop_duplicates([*others, slider]).merge(rows_of, on=[*others, slider])
    answers, _ = model.answer(model.as_asked(one), LEVEL)
    facts = zip(
        answers.to_dict("records"),
        one["observed"],
        one[HOST + metric],
        strict=True,
    )
    by_shape = dict(
        zip(one[[*others, slider]].itertuples(index=False, name=None), facts, strict=True)
    )
    lacking: Part = Table(
        columns("", label), rows([("predicted", f"none: {host} was not measured here")])
    )
    choices = list[list[Part]]()
    first = None
    for place, (shape, value) in enumerate(product(shapes, values)):
        row, observed, time = by_shape.get((*shape, value), ({"predicted": np.nan}, np.nan, np.nan))
        predicted = np.isfinite(row["predicted"])
        if predicted and first is None:
            first = place
        choices.append(
            [
                _choice(row, observed, label, (f"measured on {host}", significant(time)))
                if predicted
                else lacking
            ]
        )
    named = []
    for sizes in shapes:
        named.append(
            ", ".join(f"{name} {each:g}" for name, each in zip(others, sizes, strict=True))
        )
    if others:
        axes = [(", ".join(others), named)]
    else:
        axes = []
    note = (
        f"{fixed}. Settings that {host} was measured at: without its time there is no prediction, "
        "and none is made up."
    )
    return [
        lines([note]),
        Sliders([*axes, (slider, [f"{value:g}" for value in values])], choices, first or 0),
    ]


def _settings(fixed: Mapping[str, Any]) -> str:
    said = {
        name: f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in fixed.items()
    }
    return "; ".join(f"{name} = {value}" for name, value in said.items() if value)


def _choice(row: Mapping[Any, Any], observed: float, label: str, *more: tuple[str, str]) -> Part:
    """Return the text of a setting."""
    between = "none"
    if row["lower"] == row["lower"]:
        between = f"{significant(row['lower'])} to {significant(row['upper'])}"
    facts = [
        *more,
        ("predicted", significant(row["predicted"])),
        (f"{100 * LEVEL:g} % interval", between),
        (
            "measured",
            significant(observed) if observed == observed else "not measured: the model's answer",
        ),
        (
            "asked about",
            row["basis"] + (", outside the trained range" if row["extrapolated"] else ""),
        ),
    ]
    return Table(columns("", label), rows(facts))


def _most_frequent(words: pd.DataFrame) -> BoolArray:
    """Mark the rows of the most frequent combination."""
    number = words.groupby(list(words), dropna=False, sort=False).ngroup().to_numpy()
    return number == np.bincount(number).argmax()


def _some(values: FloatArray, count: int) -> FloatArray:
    """Return at most ``count`` of the sorted values, with the first and the last, spaced evenly on a log scale."""
    scale = values
    if values[0] > 0:
        scale = np.log(values)
    return values[
        np.unique(
            [np.abs(scale - each).argmin() for each in np.linspace(scale[0], scale[-1], count)]
        )
    ]
