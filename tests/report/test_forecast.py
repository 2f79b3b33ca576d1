"""What a calibrated model of serving is said to hold."""

from __future__ import annotations

from dataclasses import replace

from flopcast.report.document import Table
from flopcast.report.forecast import learnt_document
from flopcast.workloads.serving_model import (
    BASES,
    KNOWN,
    NEW_COMBINATION,
    NEW_MODEL,
    NEW_SETTING,
    NEW_VENDOR,
    ServingModel,
    shipped,
)


def test_own_runs_are_counted_apart_from_published_ones() -> None:
    whole = shipped()
    published = len(whole.runs) - 3
    document = learnt_document(replace(whole, about={**whole.about, "own_from": published}))
    assert document.title.startswith("3 own runs ")
    assert document.title.endswith(f"{published:,} published")
    assert document.data["published"] == published
    assert document.data["runs"] == published + 3
    assert document.data["own"] == 3
    assert document.data["settings_with_two_runs"] == 0


def widths(model: ServingModel) -> Table:
    (table,) = learnt_document(model).sections[0].parts
    assert isinstance(table, Table)
    return table


def test_widths_have_a_row_for_each_question_the_model_was_asked() -> None:
    model = shipped()
    table = widths(model)
    names = [row.cells[0] for row in table.rows]
    assert {"newer release", *BASES} <= set(names)
    order = (KNOWN, NEW_SETTING, NEW_MODEL, NEW_COMBINATION, NEW_VENDOR)
    assert [name for name in names if name in order] == [*order]
    for row in table.rows:
        assert row.cells[-1]


def test_a_model_without_the_width_of_amds_releases_has_no_such_row() -> None:
    model = shipped()
    fits = {}
    for time, fit in model.fits.items():
        kept = {name: wide for name, wide in fit.spreads.items() if not name.startswith("AMD: ")}
        fits[time] = replace(fit, spreads=kept)
    table = widths(replace(model, fits=fits))
    assert not [row for row in table.rows if "AMD" in str(row.cells[0])]
