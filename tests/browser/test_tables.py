"""Tables of a page in a real browser: sorted, searched, filtered, turned, downloaded; names stay text."""

from __future__ import annotations

from pathlib import Path

import pytest

from flopcast.tests.browser.chromium import Chromium, Tab
from flopcast.tests.browser.conftest import EVIL

HEAD = "tables.all.heads[{}].querySelector('button')"
FIRST = "tables.all.body.rows[0].cells[1].textContent"
SAID = "tables.all.said.textContent"


@pytest.fixture
def table(tab: Tab, listed: Path) -> Tab:
    tab.errors.clear(), tab.requests.clear()
    tab.shown_as()
    return tab.open(listed)


def test_a_click_on_a_head_sorts_by_it(table: Tab) -> None:
    assert table.run("[tables.all.body.rows.length, tables.all.said.textContent]") == [
        25,
        "1–25 of 120",
    ]
    table.click(HEAD.format(1))
    assert table.run(f"[{FIRST}, tables.all.heads[1].ariaSort]") == ["119 ms", "descending"]
    table.click(HEAD.format(1))
    assert table.run(f"[{FIRST}, tables.all.heads[1].ariaSort]") == ["2 µs", "ascending"]


def test_the_keyboard_reaches_what_the_mouse_does(table: Tab) -> None:
    reached = []
    for _ in range(12):
        table.press("Tab")
        reached.append(
            table.run("document.activeElement.tagName + ' ' + document.activeElement.textContent")
        )
    assert {"INPUT ", "BUTTON CSV", "BUTTON kernel", "BUTTON time"} <= set(reached)
    table.run(HEAD.format(1) + ".focus()")
    table.press("Enter")
    assert table.run(FIRST) == "119 ms"


def test_search_filter_and_pages(table: Tab) -> None:
    table.click("tables.all.search")
    table.type("k7")
    assert table.run(SAID) == "1–11 of 11 found of 120"
    table.type(" odd")
    assert table.run(SAID) == "1–6 of 6 found of 120"
    table.run("tables.all.search.value = ''; tables.all.search.dispatchEvent(new Event('input'))")
    table.run("only = document.querySelector('.tools select'); only.selectedIndex = 1")
    table.run("only.dispatchEvent(new Event('change'))")
    assert table.run(SAID) == "1–25 of 60 found of 120"
    table.click("tables.all.pages[1]")
    assert table.run(SAID) == "26–50 of 60 found of 120"


def test_what_is_found_can_be_downloaded(table: Tab, browser: Chromium) -> None:
    table.click(HEAD.format(1))
    table.click(
        "[...document.querySelectorAll('.tools button')].find(one => one.textContent === 'CSV')"
    )
    path = browser.downloads / "all.csv"
    for _ in range(100_000):  # each 20 ms at least: a download that takes longer never ends
        if path.exists():
            break
        table.run("new Promise(done => setTimeout(done, 20))")
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    assert lines[:2] == ["kernel,time µs,kind", "K118,119000,even"]
    assert len(lines) == 121


def test_a_name_that_is_markup_stays_text(table: Tab) -> None:
    assert table.run("tables.all.show(119)")
    assert table.run("tables.all.body.querySelector('.found').cells[0].textContent") == EVIL
    assert table.run("[document.images.length, document.title]") == [0, "T · flopcast"]
    assert (table.errors, table.requests) == ([], [])
