"""Every page in a real browser: it asks for nothing, logs nothing, fits, can be read and be reached by keyboard."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

import pytest

from flopcast.report.document import Column, Document, Listing, Section
from flopcast.report.html import frame, page
from flopcast.tests.browser.chromium import Tab
from flopcast.tests.browser.conftest import COMMANDS, EVIL, MARKED, Pages

AUDIT = (Path(__file__).parent / "audit.js").read_text(encoding="utf-8")
WIDE = (
    "[...document.body.querySelectorAll('*')].filter(one => one.getBoundingClientRect().right > innerWidth + 1 && "
    "!one.closest('.scroll, nav, .plot')).map(one => one.outerHTML.slice(0, 80)).slice(0, 3)"
)
CUT = (
    "[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth + 1)"
    ".map(one => one.textContent.slice(0, 80))"
)


BAD = """<!DOCTYPE html><html lang="en"><title>Bad</title><h1 style="color: #999; background: #fff">Pale</h1>
<p style="color: #777; background: #fff">pale</p><button></button><a href="#x" tabindex="-1">there</a>
<table><thead><tr><td>a</td></tr></thead><tbody><tr><td>1</td></tr></tbody></table>
<img src="https://example.invalid/x.png"><script>console.error("no")</script></html>"""


def test_what_is_wrong_with_a_page_is_found(tab: Tab, tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text(BAD)
    tab.errors.clear(), tab.requests.clear()
    tab.shown_as()
    tab.open(tmp_path / "bad.html")
    assert [fault.split(":")[0] for fault in tab.run(AUDIT)] == [
        "contrast 2.85 of h1.",
        "contrast 4.48 of p.",
        "no name",
        "out of the keyboard's reach",
        "no heads",
        "no heads of rows",
    ]
    assert tab.requests == ["https://example.invalid/x.png"]
    assert tab.errors


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_is_whole_by_itself_legible_and_fits(tab: Tab, pages: Pages, name: str) -> None:
    tab.errors.clear(), tab.requests.clear()
    tab.shown_as()
    tab.open(pages[name])
    found = {"light": tab.run(AUDIT)}
    tab.shown_as(scheme="dark")
    found["dark"] = tab.run(AUDIT)
    tab.sized(400)
    found["400 px"] = (
        tab.run(WIDE) if tab.run("document.documentElement.scrollWidth > innerWidth") else []
    )
    tab.shown_as("print")
    tab.sized(794)
    found["print"] = (
        tab.run(WIDE) if tab.run("document.documentElement.scrollWidth > innerWidth") else []
    )
    found["cut in print"] = tab.run(CUT)
    assert found == {shown: [] for shown in found}
    assert (tab.errors, tab.requests) == ([], [])
    # names stay text
    assert tab.run("[document.images.length, document.title.endsWith('flopcast')]") == [0, True]
    if name in MARKED:
        # of a name that is cut its beginning is shown
        beginning = json.dumps(escape(EVIL[:12], quote=False))
        assert tab.run(f"document.documentElement.outerHTML.includes({beginning})")


def test_the_dark_page_is_dark_and_its_figures_follow(tab: Tab, pages: Pages) -> None:
    tab.shown_as()
    tab.open(pages["train"])
    paper, ink = (
        "getComputedStyle(document.body).backgroundColor",
        "document.querySelector('.plot').layout.font.color",
    )
    before = tab.run(paper), tab.run(ink)
    tab.shown_as(scheme="dark")
    tab.wait(f"{ink} !== {json.dumps(before[1])}")
    after = tab.run(paper), tab.run(ink)
    tab.shown_as()
    assert before == ("rgb(255, 255, 255)", "rgb(27, 31, 36)")
    assert after == ("rgb(20, 23, 26)", "rgb(230, 233, 236)")


def test_figures_fit_the_sheet_that_is_printed(tab: Tab, pages: Pages) -> None:
    tab.shown_as()
    tab.open(pages["project"], 1600)
    widths = "[...new Set([...document.querySelectorAll('.plot .main-svg')].map(svg => svg.clientWidth))]"
    before = tab.run(widths)
    tab.run("dispatchEvent(new Event('beforeprint'))")
    printed = tab.run(widths)
    tab.run("dispatchEvent(new Event('afterprint'))")
    assert printed == [1000]
    tab.wait(f"{widths}.join() === {json.dumps(','.join(map(str, before)))}")


def test_panels_stand_one_below_the_other_on_a_telephone(tab: Tab, pages: Pages) -> None:
    tab.shown_as()
    grids = "[...document.querySelectorAll('.plot .subplot .gridlayer')]"
    across = []
    for width in (1200, 400):
        tab.open(pages["scale"], width)
        places = tab.run(f"{grids}.map(one => one.getBoundingClientRect().x)")
        across.append(max(places) - min(places))
    assert across[0] > 200
    assert across[1] < 40
    tab.sized(1200)


def test_on_a_telephone_a_figure_has_the_room_of_its_legend(tab: Tab, pages: Pages) -> None:
    tab.shown_as()
    tab.open(pages["validate"], 400)
    wide = "place => place._fullLayout._size.w / place.clientWidth"
    assert min(tab.run(f"[...document.querySelectorAll('.plot')].map({wide})")) > 0.6


def test_names_that_are_cut_are_whole_in_a_tooltip(tab: Tab, pages: Pages) -> None:
    tab.shown_as()
    tab.open(pages["project"])
    cut = "[...document.querySelectorAll('th, td')].filter(one => one.scrollWidth > one.clientWidth + 1 && !one.title)"
    assert tab.run(f"{cut}.map(one => one.textContent)") == []


@pytest.mark.parametrize("name", ["train", "validate", "check"])
def test_a_point_of_a_figure_finds_its_row_and_the_row_its_points(
    tab: Tab, pages: Pages, name: str
) -> None:
    tab.shown_as()
    tab.open(pages[name])
    tab.run("place = document.querySelector('.plot[data-of]'), 0")
    tab.run(
        "place.emit('plotly_click', {points: [{pointNumber: 40, id: place.data.find(one => one.ids)?.ids[3]}]}), 0"
    )
    assert tab.run("document.querySelectorAll('tr.found').length") == 1
    tab.run("document.querySelector('tr.found').focus()")
    tab.press("Enter")
    marked = "one => one.querySelectorAll('.hoverlayer > *').length > 0"
    assert tab.run(
        f"[...document.querySelectorAll(`[data-of=${{place.dataset.of}}]`)].every({marked})"
    )


@pytest.mark.parametrize(
    ("name", "values"), [("forecast", ("1", "4")), ("project", ("100", "5,100"))]
)
def test_sliders_change_what_is_shown(
    tab: Tab, pages: Pages, name: str, values: tuple[str, str]
) -> None:
    tab.shown_as()
    tab.open(pages[name])
    answer = "[document.querySelector('.sliders output').textContent, document.querySelector('.choice').textContent]"
    tab.run("document.querySelector('.sliders input').focus()")
    tab.press("Home")
    first, before = tab.run(answer)
    tab.press("ArrowRight")
    second, after = tab.run(answer)
    assert (first, second) == values
    assert before != after


def test_a_folded_section_opens_by_its_link_and_draws_its_figures_then(
    tab: Tab, pages: Pages
) -> None:
    tab.shown_as()
    tab.open(pages["train"], unfolded=False)
    height = "document.documentElement.scrollHeight"
    folded = tab.run(height)
    assert tab.run("document.querySelectorAll('#all-kfold svg').length") == 0
    tab.run("location.hash = 'all-kfold'")
    tab.wait("document.querySelector('#all-kfold .plot svg')")
    assert tab.run("document.querySelector('#all-kfold > details').open")
    tab.open(pages["train"])
    assert tab.run(height) > 2 * folded


def test_names_of_kernels_that_are_cut_keep_their_ends_and_stay_whole_as_text(
    tab: Tab, tmp_path: Path
) -> None:
    kernels = [f"Cijk_Ailk_Bljk_{'long_' * 20}MT{place}x64" for place in (128, 256)]
    heads = (Column("kernel", "kernel"), Column("time", "number"))
    table = Listing(heads, lambda: [kernels, ["1 µs", "2 µs"]], "kernels")
    path = tmp_path / "page.html"
    document = Document("T", "", sections=[Section("Kernels", [table])])
    path.write_text(page(document), encoding="utf-8")
    tab.shown_as()
    tab.open(path)
    ends = "[...document.querySelectorAll('tbody .cut .ends > :last-child')]"
    assert tab.run(f"{ends}.map(one => one.textContent.slice(-8))") == ["MT128x64", "MT256x64"]
    edge = "one => one.closest('th, td').getBoundingClientRect().right + 1"
    inside = f"one => one.getBoundingClientRect().right <= ({edge})(one)"
    assert tab.run(f"{ends}.every({inside})")
    whole = "[...document.querySelectorAll('tbody .cut')].map(one => one.textContent)"
    assert tab.run(whole) == kernels


@pytest.mark.parametrize(
    ("theme", "browser_has", "background"),
    [
        ("data-jp-theme-light=false", "light", "rgb(20, 23, 26)"),
        ("data-jp-theme-light=true", "dark", "rgb(255, 255, 255)"),
        ("data-vscode-theme-kind=vscode-dark", "light", "rgb(20, 23, 26)"),
        ("class=notebook", "dark", "rgb(20, 23, 26)"),
    ],
)
def test_a_frame_has_the_theme_of_its_notebook(
    tab: Tab, tmp_path: Path, theme: str, browser_has: str, background: str
) -> None:
    shown = frame(Document("T", "", framed=True), 100)
    (tmp_path / "notebook.html").write_text(f"<body {theme}>{shown}</body>", encoding="utf-8")
    tab.shown_as(scheme=browser_has)
    tab.open(tmp_path / "notebook.html")
    inside = "document.querySelector('iframe').contentDocument"
    assert tab.run(f"getComputedStyle({inside}.body).backgroundColor") == background


def test_a_legend_on_a_telephone_stands_beneath_its_figure(tab: Tab, pages: Pages) -> None:
    tab.shown_as()
    tab.open(pages["power"], 390)
    meeting = """[...document.querySelectorAll('.plot')].filter(plot => {
      const legend = plot.querySelector('.legend')?.getBoundingClientRect();
      const titles = [...plot.querySelectorAll('.xtitle, .modebar, .annotation')];
      return legend && titles.map(one => one.getBoundingClientRect()).some(one =>
        one.width && one.bottom > legend.top + 2 && one.top < legend.bottom - 2);
    }).length"""
    assert tab.run(meeting) == 0
