"""Tables in notebooks."""

from __future__ import annotations

import sys
from html import unescape
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import DataError
from flopcast.report.document import Document, Headline
from flopcast.report.notebook import MOST, framed, notebook_progress


def test_what_is_the_same_in_every_row_is_said_once_and_what_is_empty_not_at_all() -> None:
    table = pd.DataFrame(
        {
            "device": ["MI300X"] * 3,
            "m": [1.0, 2.0, np.nan],
            "empty": [None] * 3,
            "blank": ["", "", ""],
        }
    )
    page = unescape(framed("Times", table, ["a remark"]))
    assert "In every row device = MI300X." in page
    assert "a remark" in page
    assert ">m</th>" in page
    assert all(f">{name}</th>" not in page for name in ("device", "empty", "blank"))


@pytest.mark.parametrize(
    "values",
    [
        pd.array([None, 64, 128], dtype="Int64"),
        pd.array([64, None, 64], dtype="Int64"),
        pd.array([None, True, True], dtype="boolean"),
        np.array([np.nan, 1.0, 1.0]),
        pd.array([None, "a", "a"], dtype="string"),
    ],
)
def test_a_column_that_a_row_lacks_is_not_the_same_in_every_row(values: object) -> None:
    page = unescape(framed("Times", pd.DataFrame({"m": values})))
    assert ">m</th>" in page
    assert "In every row" not in page


def test_a_long_table_shows_rows_from_all_of_it() -> None:
    table = pd.DataFrame({"row": np.arange(5 * MOST)})
    page = unescape(framed("Rows", table))
    assert f"{MOST:,} of {5 * MOST:,} rows" in page
    assert f"{5 * MOST - 1:,}" in page
    assert len(page) < 60_000


def test_names_of_the_data_are_text() -> None:
    page = framed(
        "<b>",
        pd.DataFrame({"kernel": ["</script><script>alert(1)</script>", "<img src=x>"]}),
        ["<i>"],
    )
    inside = unescape(page.split('srcdoc="')[1].split('"')[0])
    assert all(mark not in inside for mark in ("<script>alert", "<img", "<i>", "<b>"))


def test_a_missing_file_is_named_before_a_missing_device() -> None:
    for call in (fc.train, fc.validate, fc.read):
        with pytest.raises(DataError, match=r"nofile\.csv: no such file"):
            call("nofile.csv")


def test_the_answer_stands_before_the_table() -> None:
    answer = Document(
        opening=[
            Headline("end to end", "quick on MI355X", "slow on MI300X", "0.67 of the time"),
            Headline("of terminals", "hidden", medium="terminal"),
        ],
        data={},
    )
    page = unescape(framed("Times", pd.DataFrame({"m": [1]}), answer=answer))
    assert page.index("on MI355X") < page.index(">m</th>")
    assert "of terminals" not in page.lower()


def test_names_that_are_cut_stay_different() -> None:
    names = [f"{'a' * 40}{size}{'z' * 40}" for size in ("16x16", "32x16")]
    page = unescape(framed("Times", pd.DataFrame({"kernel": names, "m": [1, 2]})))
    assert "16x16" in page
    assert "32x16" in page


def test_progress_is_one_output_that_ends_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []

    class Handle:
        def update(self, state: object) -> None:
            shown[-1] = state

    def display(state: object, *, display_id: bool) -> Handle:
        shown.append(state)
        return Handle()

    shell = SimpleNamespace(kernel=object())
    module = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    draw = notebook_progress("training")
    assert draw is not None
    draw(1, 3, "OLS <b>", 90.0)
    (state,) = shown
    assert "<progress" in state._repr_html_()
    assert "<b>" not in state._repr_html_()
    draw(3, 3, "OLS", 0.0)
    (state,) = shown
    assert "<progress" not in state._repr_html_()
    assert repr(state) == "training: 3 of 3"


def test_a_notebook_that_drops_frames_still_shows_what_the_table_is_of() -> None:
    shown = framed("Times <1>", pd.DataFrame({"m": [1, 2]}))
    between = shown.partition("style=")[2].partition(">")[2]
    assert between.startswith("Times &lt;1&gt;")
    assert between.endswith("</iframe>")
