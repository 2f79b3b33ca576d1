"""``report.html``: a training run on one self-contained page; nothing is fetched when it is opened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd

from . import figures, wording
from .page import Page

Row = Mapping[str, Any]

TOP = 20
"""Most features and groups that are drawn; groups beyond are counted."""


def render(metrics: Row, predictions: pd.DataFrame, data_report: Row | None = None) -> str:
    """Return the page of a training run; the same input gives the same text.

    Parameters
    ----------
    metrics : mapping
        As ``metrics.json`` holds them. Sections that are missing are left out of the page.
    predictions : DataFrame
        One row per workload, scheme and model: ``row``, ``scheme``, ``model``, ``observed``, ``predicted``, ``ape``
        (%), ``fold``, ``group``, and a column per analytic baseline with its prediction.
    data_report : mapping, optional
        What cleaning did: ``rejected`` ({reason: {"count", "examples": ["file:line …"]}}) and ``notes``. Without it
        the counts of ``metrics["data"]`` are shown.

    Returns
    -------
    str
        A complete HTML document with plotly.js inside.
    """
    data, page = metrics.get("data") or {}, Page()
    _overview(page, metrics)
    for cv in metrics.get("cv") or []:
        _scheme(page, cv, predictions, wording.metric(data))
    _ranking(page, metrics.get("ranking") or [])
    _groups(page, metrics)
    _intervals(page, metrics.get("intervals") or {})
    _cleaning(page, data, data_report or {})
    return page.document(f"{wording.title(data)} · flopcast")


def _overview(page: Page, metrics: Row) -> None:
    """Say what was trained, on what, and how well, before any table."""
    data = metrics.get("data") or {}
    tiles = "".join(_tile(cv) for cv in metrics.get("cv") or [])
    facts = [f"<b>{value}</b> {escape(label)}" for label, value in wording.counts(data)]
    versions = [
        f"{escape(str(name))} {escape(str(number))}" for name, number in (metrics.get("versions") or {}).items()
    ]
    page.heading(
        wording.title(data),
        f"Predicted: {wording.metric(data)}",
        f'<div class="tiles">{tiles}</div><p class="facts">{" · ".join(facts)}</p>',
        f'<p class="small">{", ".join(versions)}</p>' if versions else "",
    )


def _tile(cv: Row) -> str:
    """Return one scheme's headline as a tile: the error before and after, and between what it lies."""
    chosen, baseline = cv.get("selected"), wording.reference(cv)
    if not chosen:
        return ""
    before = ""
    if baseline:
        before = f'<span class="before">{escape(baseline["name"])}: {wording.percent(baseline["e_out"])} →</span> '
    return (
        f'<div class="tile"><h3>{escape(wording.scheme(cv))}</h3>'
        f'<p class="big">{before}<span class="after">flopcast: {wording.percent(chosen.get("e_out"))}</span></p>'
        f"<p>{escape(str(chosen['name']))}{escape(wording.interval(chosen))}</p></div>"
    )


def _scheme(page: Page, cv: Row, predictions: pd.DataFrame, unit: str) -> None:
    """Show one cross-validation scheme: verdict, table, workloads and inlier ratios."""
    heading = wording.scheme(cv)
    verdict = "".join(f"<p>{escape(line)}</p>" for line in wording.verdict(cv))
    name = str((cv.get("selected") or {}).get("name"))
    page.section(
        f"cv-{escape(str(cv['scheme']))}",
        wording.left_out(cv["scheme"]).capitalize(),
        heading[:1].upper() + heading[1:],
        f'<div class="verdict">{verdict}</div>' if verdict else "",
        _models(cv),
        page.figure(
            figures.workloads(predictions, cv, unit),
            f"Observed and predicted by {name}, every workload predicted by a fit that has not seen it; errors below",
        ),
        page.figure(figures.inliers(predictions, cv), "Share of workloads predicted within an error"),
    )


def _models(cv: Row) -> str:
    """Return the table of models: marks and tints for the selected one and its ties, reasons for failures."""
    classes = {"*": "selected", "≈": "tie"}
    baselines = len(cv.get("baselines") or [])
    lines = []
    for index, (row, mark) in enumerate(wording.ordered(cv)):
        name, cells = str(row["name"]), wording.cells(row)
        kind = "baseline" if index < baselines else classes.get(mark, "")
        name = f'<th scope="row">{escape(f"{mark} {name}".strip())}</th>'
        failed = f'<td colspan="{len(wording.HEADERS)}" class="failed">failed: {escape(str(row.get("error")))}</td>'
        lines.append(f'<tr class="{kind}">{name}{_cells(cells) if cells else failed}</tr>')
    note = (
        "Errors and inlier ratios (IR T: share of workloads within T %) in %. "
        "* selected · ≈ as good within the uncertainty of the estimate"
    )
    return _table(("model", *wording.HEADERS), lines) + f'<p class="small">{note}</p>'


def _ranking(page: Page, ranking: Sequence[Row]) -> None:
    rows = wording.rankings(ranking, TOP)
    parts = [page.figure(figures.ranking(found, measure), f"By {measure}") for measure, found in rows.items()]
    if parts:
        page.section("ranking", "Features", "Features by what they contribute", *parts)


def _groups(page: Page, metrics: Row) -> None:
    """Show the groups with the largest error as bars and all as a table."""
    groups = sorted(metrics.get("groups") or [], key=lambda row: -(row.get("e_out") or 0.0))
    if not groups:
        return
    baseline = next((row["name"] for cv in metrics.get("cv") or [] if (row := wording.reference(cv))), "baseline")
    lines = [
        f'<tr><th scope="row">{escape(str(row["group"]))}</th>'
        + _cells([f"{row.get('n', 0):,}", wording.number(row.get("e_out")), wording.number(row.get("baseline_e_out"))])
        + "</tr>"
        for row in groups
    ]
    first = f"The {TOP} groups with the largest error, of {len(groups)}" if len(groups) > TOP else "Worst first"
    table = _table(("group", "rows", "E_out %", f"{baseline} %"), lines)
    page.section(
        "groups",
        "Groups",
        "Error of each group",
        page.figure(figures.groups(groups[:TOP], baseline), first),
        f"<details><summary>All {len(groups)} groups as a table</summary>{table}</details>",
    )


def _intervals(page: Page, intervals: Row) -> None:
    rows = wording.covered(intervals)
    if rows:
        level = intervals.get("level")
        lines = [
            f'<tr><th scope="row">{escape(name)}</th>{_cells([covered, width])}</tr>' for name, covered, width in rows
        ]
        said = f"<p>Intervals that should hold {100 * level:.0f} % of new workloads held:</p>" if level else ""
        table = _table(("predicting", "covered", "median width, of the prediction"), lines)
        page.section("intervals", "Intervals", "Prediction intervals", said, table)


def _cleaning(page: Page, data: Row, report: Row) -> None:
    """Show what the data lost: rejected rows with their first examples, notes."""
    rejected = report.get("rejected") or {
        reason: {"count": count, "examples": []} for reason, count in (data.get("rejected") or {}).items()
    }
    lines = [
        f'<tr><th scope="row">{escape(str(reason))}</th><td>{found["count"]:,}</td>'
        f'<td class="wide">{"<br>".join(escape(str(example)) for example in found.get("examples") or [])}</td></tr>'
        for reason, found in sorted(rejected.items(), key=lambda item: (-item[1]["count"], item[0]))
    ]
    said = [str(note) for note in dict.fromkeys([*(data.get("notes") or []), *(report.get("notes") or [])])]
    if data.get("sha256"):
        said.append(f"SHA-256 of the training data: {data['sha256']}")
    page.section(
        "data",
        "Data",
        "What the data lost in cleaning",
        _table(("rejected because", "rows", "first examples"), lines) if lines else "<p>No row was rejected.</p>",
        *(f'<p class="small">{escape(line)}</p>' for line in said),
    )


def _cells(texts: Iterable[str]) -> str:
    """Return table cells; those that hold words instead of a figure are set to the left."""
    return "".join(f"<td{_aligned(text)}>{escape(text)}</td>" for text in texts)


def _aligned(text: str) -> str:
    return ' class="text"' if text[:1].isalpha() else ""


def _table(headers: Sequence[str], lines: Sequence[str]) -> str:
    """Return a table that scrolls sideways by itself on narrow screens."""
    head = "".join(
        f'<th scope="col"{" class=text" if header in _TEXT else ""}>{escape(header)}</th>' for header in headers
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>'


_TEXT = {"model", "group", "predicting", "rejected because", "first examples", "fitted to"}
