from __future__ import annotations

import copy
import json
import re
from html.parser import HTMLParser

import pytest

from flopcast.report.training_page import render

VOID = {"meta", "br"}


class Checker(HTMLParser):
    """Collects text and tags of a page, and checks that every element is closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)


def parsed(page: str) -> Checker:
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    return checker


def own(page: str) -> str:
    """Return the page without plotly.js."""
    scripts = list(re.finditer(r"<script>.*?</script>", page, re.DOTALL))
    longest = max(scripts, key=lambda found: len(found.group()))
    return page[: longest.start()] + page[longest.end() :]


def plots(page: str) -> list[dict]:
    text = own(page).split("const plots = ", 1)[1]
    return json.JSONDecoder().raw_decode(text)[0]


@pytest.fixture(scope="module")
def page(run) -> str:
    return render(*run)


def test_the_page_holds_plotly_once_and_fetches_nothing(page):
    assert len(re.findall(r"plotly\.js v\d", page)) == 1
    for tag, attributes in parsed(page).tags:
        assert tag not in ("link", "iframe", "img", "object", "embed")
        assert "src" not in attributes
        assert not attributes.get("href", "#").startswith(("http", "//"))
    assert not re.search(r"https?://|@import|url\(", own(page))


def test_the_page_says_what_was_trained_and_how_well(page, run):
    text = " ".join(" ".join(parsed(page).text).split())
    chosen = run[0]["cv"][1]["selected"]
    for said in (
        "MI300X → MI355X",
        "FLOPS scaling: 31.1 % →",
        f"flopcast: {chosen['e_out']:.1f} %",
        "choosing between them is a coin toss",
        "failed: singular matrix in fold 3",
        "Intervals that should hold 90 % of new workloads held: predicting covered median width, of the prediction",
        "rejected because rows first examples zero duration 12 tuned<1>.csv:17: us = 0 tuned<1>.csv:19: us = 0",
        "fp8 <e4m3> read as fp8",
        "All 16 groups as a table",
    ):
        assert said in text


def test_every_figure_has_its_place_and_a_colour_to_be_set(page):
    drawn = plots(page)
    places = [attributes["id"] for _, attributes in parsed(page).tags if attributes.get("class") == "plot"]
    assert places == [f"plot-{i}" for i in range(len(drawn))]
    assert len(drawn) == 2 * 2 + 2 + 1
    assert all("font" in plot["layout"] for plot in drawn)


def test_strings_of_the_data_cannot_become_markup(run):
    evil = '</script><img src=x onerror="alert(1)">&'
    metrics, predictions, report = copy.deepcopy(run[0]), run[1].copy(), copy.deepcopy(run[2])
    for cv in metrics["cv"]:
        cv["models"][-1]["error"] = evil
        predictions["model"] = predictions["model"].replace(cv["models"][0]["name"], evil)
        for row in (cv["models"][0], cv["selected"], cv["baselines"][0]):
            row["name"] = evil
        cv["selected"]["tied"] = [evil]
    predictions["group"] = evil
    predictions[evil] = predictions["observed"]
    metrics["data"] |= {"host": evil, "notes": [evil], "sha256": evil, "metric": evil}
    metrics["groups"][0]["group"] = metrics["ranking"][0]["feature"] = metrics["ranking"][1]["measure"] = evil
    metrics["versions"] = {evil: evil}
    report["rejected"] = {evil: {"count": 1, "examples": [evil]}}
    report["notes"] = [evil]
    page = render(metrics, predictions, report)
    checker = parsed(page)
    assert "img" not in {tag for tag, _ in checker.tags}
    assert own(page).count("</script>") == 1
    assert evil in "".join(checker.text)
    assert "<img" not in json.dumps(plots(page))


def test_the_same_input_gives_the_same_page(page, run):
    assert render(*copy.deepcopy(run)) == page


def test_without_a_report_the_counts_of_the_metrics_are_shown(run):
    text = " ".join(" ".join(parsed(render(run[0], run[1])).text).split())
    assert "rejected because rows first examples zero duration 12 not a number 3" in text


@pytest.mark.parametrize("metrics", [{}, {"cv": [{"scheme": "kfold"}]}, {"data": {"target": "MI300X", "n": 3}}])
def test_missing_sections_are_left_out(metrics, run):
    page = render(metrics, run[1].iloc[:0])
    checker = parsed(page)
    assert "intervals" not in {attributes.get("id") for _, attributes in checker.tags}
    assert "No row was rejected." in checker.text
