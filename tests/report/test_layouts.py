"""Tables in the layouts of ``layouts.toml``: what it declares is known, and fields are written in their forms."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import get_args

import pandas as pd
import pytest

import flopcast.report.layouts as layouts
from flopcast.report.document import Kind
from flopcast.report.layouts import FORMS, laid_out, texts_of
from flopcast.report.wording import wording

LAYOUTS = tomllib.loads(Path(layouts.__file__).with_name("layouts.toml").read_text("utf-8"))


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_form_and_kind_of_a_layout_is_known(name: str) -> None:
    for _, _, *how in LAYOUTS[name]["columns"]:
        form, kind = (*how, "", "")[:2]
        assert form in FORMS or "{" in form
        assert kind in ("", "auto", *get_args(Kind))


def test_rows_come_from_tables_mappings_and_objects() -> None:
    rows = [{"scenario": "weak", "target": 8.0, "mean": 2.0, "published_mean": None}]
    rows[0] |= {"least": 1.5, "most": 3.0, "published_most": float("nan")}
    for source in (rows, pd.DataFrame(rows), pd.DataFrame(rows).itertuples()):
        table = laid_out("scaling-speedups", source)
        assert table.rows[0].cells == ("weak", "8", "2.00", "–", "1.50", "3.00", "–")
    assert [column.kind for column in table.columns] == ["words", *["number"] * 6]
    assert texts_of(laid_out("scaling-speedups", None)) == [[]]


def test_words_stand_in_heads_and_a_long_first_cell_folds() -> None:
    words = {"host": "MI300X", "target": "MI355X"}
    row = {"kind": "gaps", "measured": 0.25, "projected": 0.5}
    table = laid_out("projection-pace", [row], words)
    assert [column.head for column in table.columns[1:]] == ["MI300X", "MI355X"]
    assert table.columns[0].kind == "name"
    folds = laid_out("projection-pace", [{**row, "kind": "x" * 25}], words)
    assert folds.columns[0].kind == "words"
    toned = laid_out("projection-pace", [row], words, tone=lambda _: "soft", kind=str.upper)
    assert (toned.rows[0].cells[0], toned.rows[0].tone) == ("GAPS", "soft")


def test_wording_keeps_its_order() -> None:
    assert [*wording("projection-ways")] == ["sum", "overlap", "replay"]
