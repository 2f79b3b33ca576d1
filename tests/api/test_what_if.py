"""What if: settings worked out in advance, each as `predict` answers it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import ParameterError
from flopcast.report.document import Sliders, Table


def test_each_place_of_the_sliders_is_what_predict_says_and_what_was_measured_stands_beside() -> (
    None
):
    rng = np.random.default_rng(0)
    sides = pd.DataFrame(
        list(product([64, 128, 192, 1024], [512, 1024, 2048, 4096])), columns=["m", "n"]
    ).iloc[:-1]
    data = sides.assign(k=256, op="gemm", dtype_a="bf16", device="MI355X")
    data["duration_us"] = (4 + data["m"] * data["n"] * 1e-6) * rng.uniform(0.98, 1.02, len(data))
    run = fc.train(data, target="MI355X", models="Additive", jobs=1)
    (_, sliders) = run.what_if().document().sections[0].parts
    assert isinstance(sliders, Sliders)
    axes = dict(sliders.axes)
    assert axes["n"] == ["512", "1024", "2048", "4096"]
    places = pd.DataFrame(list(product(*axes.values())), columns=list(axes)).astype(float)
    told = [
        dict(row.cells for row in choice[0].rows)
        for choice in sliders.choices
        if isinstance(choice[0], Table)
    ]
    asked = places.assign(k=256, op="gemm", dtype_a="bf16", device="MI355X")
    predicted = run.predict(asked)["predicted_us"]
    assert [float(one["predicted"]) for one in told] == pytest.approx(predicted.tolist(), rel=1e-3)
    known = [one["measured"].replace(".", "").isdigit() for one in told]
    assert (len(known) - 1, sum(known)) == (15, 15)
    assert "measured" in told[sliders.first]
    assert 'class="sliders"' in run.report()


def test_a_forecast_of_several_settings_slides_over_them() -> None:
    lengths = {"input_len": 128, "output_len": 16}
    found = fc.forecast(
        "llama-3.1-8b", gpu=["MI300X", "H200"], batch=[1, 8, 32], **lengths
    ).what_if()
    (sliders,) = found.document().sections[0].parts
    assert isinstance(sliders, Sliders)
    assert [values for _, values in sliders.axes] == [("MI300X", "H200"), ("1", "8", "32")]
    assert len(sliders.choices) == 6
    with pytest.raises(ParameterError, match="several settings"):
        fc.forecast("llama-3.1-8b", gpu="MI300X", batch=1, **lengths).what_if()


def test_a_run_from_a_host_answers_where_that_was_measured(ols: fc.Run) -> None:
    (_, sliders) = ols.what_if().document().sections[0].parts
    assert isinstance(sliders, Sliders)
    assert len(sliders.choices) == np.prod([len(values) for _, values in sliders.axes]) <= 400
    told = [
        dict(row.cells for row in choice[0].rows)
        for choice in sliders.choices
        if isinstance(choice[0], Table)
    ]
    known = [
        (place, one)
        for place, one in zip(product(*dict(sliders.axes).values()), told, strict=True)
        if len(one) > 1
    ]
    assert sliders.first == next(at for at, one in enumerate(told) if len(one) > 1)
    assert all("not measured" in one["predicted"] for one in told if len(one) == 1)
    (list_of, _), (slider, _) = sliders.axes
    assert sliders.words == [True, False]
    names = [*list_of.split(", "), slider]
    rows = ols.dataset.rows.drop_duplicates(names)
    answers = ols.trained.answer(ols.trained.as_asked(rows), 0.9)[0]["predicted"]
    wanted = dict(
        zip(rows[names].astype(float).itertuples(index=False, name=None), answers, strict=True)
    )
    for (shape, value), one in known:
        key = (*(float(one.split()[1]) for one in shape.split(", ")), float(value))
        assert float(one["predicted"].replace(",", "")) == pytest.approx(wanted[key], rel=1e-3)
    assert len(known) > 20
