from __future__ import annotations

import base64
import gzip
import json
import re

import plotly.graph_objects as go
import pytest

from flopcast.report.document import (
    Bar,
    Bars,
    Cell,
    Document,
    Fact,
    Facts,
    Figure,
    Headline,
    Line,
    Lines,
    Row,
    Section,
    Sliders,
    Table,
    columns,
    lines,
    rows,
)
from flopcast.report.html import page

from .pages import own, parsed, plots

EVIL = '</script><img src=x onerror="alert(1)">&'


def drawn(name: str = "a") -> go.Figure:
    return go.Figure(go.Scatter(x=[1], y=[2], name=name), {"height": 300, "font": {"size": 14}})


def of(*parts, **opening) -> Document:
    return Document("A → B", "time", sections=[Section("Parts of it", parts)], **opening)


def test_a_page_holds_plotly_once_and_fetches_nothing() -> None:
    text = page(of(Figure(drawn, "one"), Figure(drawn, "two")))
    packed = re.findall(r'<script id="plotly" type="text/plain">(.*?)</script>', text)
    assert [b"plotly.js v" in gzip.decompress(base64.b64decode(one))[:200] for one in packed] == [
        True
    ]
    for tag, attributes in parsed(text).tags:
        assert tag not in ("link", "iframe", "img", "object", "embed")
        assert "src" not in attributes
        assert not attributes.get("href", "#").startswith(("http", "//"))
    assert not re.search(r"https?://|@import|url\(", own(text))
    assert '<meta name="viewport"' in text
    assert "prefers-color-scheme: dark" in text


def test_a_page_without_figures_needs_no_script() -> None:
    assert "<script" not in page(of(Figure(lambda: None, "none"), lines(["a"])))


def test_every_figure_has_its_place_and_a_colour_to_be_set() -> None:
    text = page(of(Figure(drawn, "one"), Figure(lambda: None, "none"), Figure(drawn, "two")))
    places = [
        attributes["id"] for _, attributes in parsed(text).tags if attributes.get("class") == "plot"
    ]
    assert places == ["plot-0", "plot-1"]
    assert [plot["data"][0]["name"] for plot in plots(text)] == ["a", "a"]
    assert all("font" in plot["layout"] for plot in plots(text))


@pytest.mark.parametrize(
    "part",
    [
        Table(columns(EVIL), [Row((EVIL,)), Row((Cell(EVIL, "soft"),))], EVIL, EVIL, folded=EVIL),
        Table(
            columns(EVIL, "b", "c"),
            [Row((EVIL, EVIL)), Row(("a", EVIL, EVIL), title=True)],
            EVIL,
            EVIL,
        ),
        Figure(lambda: drawn(EVIL), EVIL),
        Lines([Line(EVIL)], "list"),
        Lines([Line(EVIL, "error")], "answer"),
        Facts([Fact(EVIL, EVIL, "soft")]),
    ],
    ids=lambda part: part.shape,
)
def test_strings_of_the_data_cannot_become_markup(part) -> None:
    text = page(
        Document(
            EVIL,
            EVIL,
            [Headline(EVIL, EVIL, EVIL, EVIL), part],
            [Section(EVIL, [part], link=EVIL)],
            [],
            {},
        )
    )
    checker = parsed(text)
    assert "img" not in {tag for tag, _ in checker.tags}
    assert EVIL in "".join(checker.text)
    assert "<img" not in own(text)


def test_the_same_document_gives_the_same_page() -> None:
    document = of(Figure(drawn, "one"), lines(["a"]))
    assert page(document) == page(document)


def test_columns_of_words_are_set_to_the_left_and_rows_may_head_others() -> None:
    found = (
        Row(("copy", "", "")),
        Row(("law", "1.5", "x"), title=True),
        Row(("a<b>", Cell("2", "good"), "y"), tone="strong"),
        Row(("all", "failed")),
    )
    text = page(
        of(Table(columns("kernel", numbers=["time"], prose=["why"]), found, caption="read it so"))
    )
    for line in (
        '<th scope="col" class="text words">kernel</th><th scope="col">time</th><th scope="col" class="prose">why</th>',
        '<tr class="title"><th scope="row" class="text words">law</th><td>1.5</td><td class="prose">x</td></tr>',
        '<tr class="strong"><th scope="row" class="text words">a&lt;b&gt;</th><td><span class="good">2</span></td>',
        '<td class="prose" colspan="2">failed</td>',
        '<p class="small">Read it so</p>',
    ):
        assert line in text


def test_a_table_keeps_all_rows_and_repeats_no_heading() -> None:
    every = rows([("a",), ("b",)])
    folded = Table(columns("x"), every, "all", shown=1, folded="All 2 groups")
    text = page(
        of(
            Table(columns("x"), every, "parts of it: [%]", shown=1),
            Table(columns("x"), every, "Other"),
            folded,
        )
    )
    assert text.count('<th scope="row" class="text words">b</th>') == 3
    assert re.findall("<h3>(.*?)</h3>", text) == ["Other"]
    assert "<details><summary>All 2 groups</summary>" in text


def test_the_opening_comes_first_and_headlines_stand_side_by_side() -> None:
    opening = [
        Headline("unseen", "flopcast: 9 %", "FLOPS: 31 %", "OLS"),
        Headline("known", "flopcast: 3 %"),
    ]
    text = page(of(lines(["why"]), opening=[*opening, lines(["so"], "answer")]))
    assert text.count('<div class="tiles">') == 1
    assert text.count('<div class="tile">') == 2
    assert text.index('<span class="before">FLOPS: 31\xa0% →</span>') < text.index(
        '<div class="verdict"><p>So</p>'
    )
    assert '<a href="#parts-of-it">Parts of it</a>' in text
    assert '<section id="parts-of-it"><h2>Parts of it</h2>' in text


def test_what_is_for_terminals_and_sections_without_parts_are_left_out() -> None:
    hidden = Section(
        "Hidden", [lines([]), Table(columns("x"), ()), Lines([Line("t")], medium="terminal")]
    )
    text = page(Document("T", sections=[hidden], closing=[lines(["the end"])]))
    assert "Hidden" not in text
    assert "the end" not in text
    assert json.dumps(parsed(text).text)


def test_sliders_show_what_stands_at_their_values_without_a_script_too() -> None:
    found = [[lines([f"{gpu} {batch} <b>"])] for gpu in ("A", "B") for batch in ("1", "8", "64")]
    text = page(of(Sliders([("GPU", ("A", "B")), ("batch", ("1", "8", "64"))], found, first=4)))
    sliders = [attributes for tag, attributes in parsed(text).tags if tag == "input"]
    assert [one["value"] for one in sliders] == ["1"]
    # names are a list: no order leads through them
    assert '<option value="1" selected>B</option>' in text
    assert [json.loads(one["data-values"]) for one in sliders] == [["1", "8", "64"]]
    assert len(re.findall("<template>", text)) == 6
    assert '<div class="choice"><p>B 8 &lt;b&gt;</p>' in text
    assert "plotly" not in text


def test_bars_need_no_script() -> None:
    text = page(of(Bars("Time", [Bar("products", 0.25, "2 s"), Bar(EVIL, 1.0, "8 s")])))
    assert re.findall(r"--part:([0-9.]+)", text) == ["0.2500", "1.0000"]
    assert "<script" not in text
    assert EVIL not in text
