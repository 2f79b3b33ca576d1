"""What a training run found, as a document: from metrics.json, whole or in parts."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from flopcast.remarks import remark
from flopcast.report import figures
from flopcast.report.document import Figure, Headline, Lines, Row, Table
from flopcast.report.html import page
from flopcast.report.training import (
    COLUMNS,
    answer,
    counts,
    metric,
    model_table,
    scheme,
    title,
    training_document,
    verdict,
)

from .pages import parsed, plots, printed, said

CV = {
    "scheme": "grouped",
    "folds": 10,
    "baselines": [{"name": "FLOPS scaling", "e_out": 31.72, "space": "no fitting"}],
    "models": [{"name": "b", "e_out": 9.5, "space": "log time"}, {"name": "a", "e_out": 9.0}],
    "selected": {
        "name": "a", "e_out": 9.36, "interval": [7.9, 11.2], "level": 0.95, "method": "BBC-CV", "tied": ["c", "b"],
        "e_out_table": 9.0,
    },
}  # fmt: skip


def texts(row: Row) -> list[str]:
    return [cell if isinstance(cell, str) else cell.text for cell in row.cells]


def table(document, heading: str) -> Table:
    """Return the table of the section of a heading."""
    (found,) = (section for section in document.sections if section.link == heading)
    return next(part for part in found.parts if isinstance(part, Table))


def test_the_terminal_shows_the_answer_then_the_best_of_each_family_and_all_where_asked(
    run, golden: Callable[[str, str], None]
) -> None:
    metrics = {**run[0], "model": {"name": "Stack", "scheme": "grouped"}}
    metrics["cv"] = [
        {**cv, "models": [*cv["models"][:4], *cv["models"][-2:]]} for cv in run[0]["cv"]
    ]
    golden(
        "train.txt",
        printed(training_document(metrics, rank=3))
        + printed(training_document(metrics, rank=3, every=True)),
    )


def test_the_terminal_says_last_that_nothing_was_saved(run) -> None:
    kept, lost = (
        printed(training_document(run[0], saved=saved)).strip().splitlines()
        for saved in (True, False)
    )
    assert lost[:-1] == kept
    assert "--out" in lost[-1]


def test_a_page_ends_with_where_its_run_comes_from(run) -> None:
    machine = {"cpu": "a <cpu>", "cores": 4, "os": "Linux", "python": "3.12.1"}
    files = [{"name": "a.csv", "bytes": 1234, "sha256": "ab" * 32}]
    known = {
        "command": "fc.train()",
        "where": ["op=gemm"],
        "seed": 7,
        "date": "2026-01-02T03:04:05+00:00",
    }
    footer = page(
        training_document({**run[0], "provenance": {**known, "files": files, "machine": machine}})
    )
    footer = footer.partition("<footer>")[2].partition("</footer>")[0]
    for text in (
        "fc.train()",
        "op=gemm",
        "seed 7",
        "2026-01-02",
        "a &lt;cpu&gt;",
        "a.csv",
        "1,234",
        "ab" * 32,
    ):
        assert text in footer
    assert "<footer>" not in page(training_document(run[0]))


def test_the_page_says_the_same_with_figures_and_quotes_rejected_rows(run) -> None:
    metrics, predictions, rejected = run
    text = page(training_document(metrics, predictions, rejected))
    chosen, words = metrics["cv"][1]["selected"], said(text)
    for part in (
        "MI300X → MI355X",
        "bandwidth scaling: 15.8 % →",
        f"flopcast: {chosen['e_out']:.1f} %",
        "Not distinguishable from the best",
        "failed: singular matrix in fold 3",
        "Intervals that should hold 90 % of new workloads held: predicting covered median width, of the prediction",
        "rejected because rows first examples [zero-duration] duration is zero 4 tuned<1>.csv:17: us = 0 "
        "tuned<1>.csv:18: us = 0 tuned<1>.csv:19: us = 0 [no-duration] duration is not a number 1 b.csv:4: us = 'nan'",
        "note: fp8 <e4m3> read as fp8",
        "All 16 groups as a table",
    ):
        assert part in words
    assert len(plots(text)) == 4 * 2 + 2 + 1


def test_the_errors_of_a_forests_sizes_are_drawn_where_they_were_asked_for(run) -> None:
    sizes = [
        {"trees": size, "e_out": 9.0, "e_in": 5.0, "ir": dict.fromkeys(("5", "10", "20"), 50.0)}
        for size in (2, 4)
    ]
    metrics = {**run[0], "cv": [{**cv, "trees": sizes} for cv in run[0]["cv"]]}
    drawn = "A forest&#39;s error against the number of its trees"
    assert page(training_document(metrics, run[1].iloc[:0])).count(drawn) == 2
    tables = [
        part
        for section in training_document(metrics, every=True).sections
        for part in section.parts
        if isinstance(part, Table) and part.columns[0].head == "trees"
    ]
    assert [[row.cells[0] for row in one.rows] for one in tables] == [["2", "4"]] * len(sizes)


def test_without_the_rejected_rows_the_counts_of_the_metrics_are_shown(run) -> None:
    assert "zero 12 [no-duration] duration" in said(page(training_document(run[0])))


@pytest.mark.no_cover
def test_names_of_the_data_cannot_become_markup(run) -> None:
    evil = '</script><img src=x onerror="alert(1)">[/bold]'
    metrics, predictions, rejected = (
        copy.deepcopy(run[0]),
        run[1].copy(),
        run[2].assign(reason=evil, detail=evil),
    )
    for cv in metrics["cv"]:
        cv["models"][-1]["error"] = evil
        predictions["model"] = predictions["model"].replace(cv["models"][0]["name"], evil)
        for row in (cv["models"][0], cv["selected"], cv["baselines"][0]):
            row["name"] = evil
        cv["selected"]["tied"] = [evil]
    predictions["group"] = evil
    predictions[evil] = predictions["observed"]
    metrics["data"] |= {"host": evil, "notes": [evil], "sha256": evil, "metric": evil}
    metrics["groups"][0]["group"] = metrics["ranking"][0]["feature"] = metrics["ranking"][1][
        "measure"
    ] = evil
    metrics["versions"] = {evil: evil}
    document = training_document(metrics, predictions, rejected)
    found = parsed(page(document))
    assert "img" not in {tag for tag, _ in found.tags}
    assert evil in "".join(found.text)
    assert "failed: </script>" in printed(document, 300)


@pytest.mark.parametrize(
    "metrics", [{}, {"cv": [{"scheme": "kfold"}]}, {"data": {"target": "MI300X", "n": 3}}]
)
def test_missing_sections_are_left_out(metrics, run) -> None:
    document = training_document(metrics, run[1].iloc[:0])
    text = page(document)
    assert "intervals" not in {attributes.get("id") for _, attributes in parsed(text).tags}
    assert "features by" not in printed(document)


def test_baselines_come_first_then_models_by_error_then_failures(run) -> None:
    rows = model_table(run[0]["cv"][0]).rows
    assert [texts(row)[0].strip() for row in rows[:3]] == [
        "FLOPS scaling",
        "bandwidth scaling",
        "roofline scaling",
    ]
    assert [row.ends for row in rows[:4]] == [False, False, True, False]
    assert [row.tone for row in rows[2:5]] == ["soft", "strong", "near"]
    assert [texts(row)[0][0] for row in rows[2:5]] == [" ", "*", "≈"]
    errors = [float(texts(row)[1]) for row in rows[3:-1]]
    assert errors == sorted(errors)
    assert texts(rows[-1]) == ["GaussianProcess", "failed: singular matrix in fold 3"]


def test_a_row_follows_the_heads_and_shows_what_is_missing() -> None:
    row = {
        "name": "a",
        "e_out": 9.04,
        "e_in": 3.0,
        "median_ape": 5.0,
        "max_ape": 80.0,
        "ir": {"5": 60.0, "10": 80.0},
    }
    row |= {
        "features_selected": 3,
        "features_available": 40,
        "space": "log time",
        "fit_seconds": 0.25,
    }
    early = {
        "name": "c",
        "e_out": None,
        "left": remark("cannot-win", "1.5 times the error of a").to_dict(),
    }
    cv = {"scheme": "kfold", "models": [row | {"e_out_groups": 10.1}, {"name": "b"}, early]}
    first, second, last = model_table(cv).rows
    assert texts(first)[1:] == [
        "9.0",
        "10.1",
        "3.0",
        "5.0",
        "80.0",
        "60.0",
        "80.0",
        "–",
        "3/40",
        "log time",
        "0.2",
    ]
    assert texts(second)[1:] == ["–"] * 8 + ["–/–", "–", "–"]
    assert texts(last) == ["† c", "1.5 times the error of a"]
    assert len(first.cells) == len(COLUMNS)


def test_the_verdict_gives_the_honest_error_its_interval_its_baseline_and_the_ties() -> None:
    worse = {**CV, "selected": {"name": "a", "e_out": 63.44, "tied": [f"m{i}" for i in range(7)]}}
    alone = {"scheme": "kfold", "selected": {"name": "a", "e_out": 5.0}}
    equal = {**CV, "selected": {"name": "a", "e_out": 6.5, "e_out_table": 6.6}}
    told = {
        "better": verdict(CV),
        "worse": verdict(worse),
        "alone": verdict(alone),
        "equal": verdict(equal),
    }
    figures = {
        "better": [
            ("9.4 %", "7.9 – 11.2 %", "31.7 % of FLOPS scaling", "3.4 times"),
            ("9.0 %",),
            ("c, b",),
        ],
        "worse": [("63.4 %", "31.7 %", "0.50 times"), ("m4 and 2 more",)],
        "alone": [("5.0 %",)],
        "equal": [("6.5 %", "4.9 times"), ("6.6 %",)],
    }
    for case, lines in told.items():
        missing = [
            [one for one in own if one not in line]
            for line, own in zip(lines, figures[case], strict=True)
        ]
        assert missing == [[]] * len(lines)
    assert verdict({"scheme": "kfold"}) == []


def test_the_headline_sets_the_best_simple_rule_against_the_model() -> None:
    scaling, line = (
        {"name": name, "e_out": error}
        for name, error in (("FLOPS scaling", 31.7), ("affine", 18.72))
    )
    opening = training_document({"cv": [{**CV, "baselines": [scaling, line]}]}).opening
    headline = next(part for part in opening if isinstance(part, Headline))
    assert isinstance(headline, Headline)
    assert (headline.about, headline.rival) == (scheme(CV), "affine: 18.7 %")
    assert headline.answer == "flopcast: 9.4 %"
    for told in (
        "9.4 %",
        "7.9 – 11.2 %",
        "affine, by 18.7 %",
        "2.0 times",
        "FLOPS scaling by 31.7 %",
    ):
        assert told in headline.beneath
    opening = training_document(
        {"cv": [{"scheme": "kfold", "selected": {"name": "a", "e_out": 1.26}}]}
    ).opening
    alone = next(
        part for part in opening if isinstance(part, Headline) and part.medium == "terminal"
    )
    assert (alone.about, alone.answer, alone.rival) == ("known groups", "flopcast: 1.3 %", "")


def test_a_rule_that_is_as_good_is_not_distinguishable_and_a_rule_that_wins_is_the_answer() -> None:
    line = {"name": "affine", "e_out": 9.5}
    tied = {**CV, "baselines": [line], "selected": {**CV["selected"], "tied": ["a", "affine"]}}
    assert "not distinguishable" in answer(tied)
    assert "times" not in answer(tied)
    wins = {
        **CV,
        "baselines": [line],
        "selected": {**CV["selected"], "name": "affine", "e_out": 9.5},
    }
    assert answer(wins).startswith("No model")
    assert "distinguishable" not in answer(wins)
    assert training_document({"cv": [tied]}).data["answer"] == {"grouped": answer(tied)}
    assert answer({"scheme": "kfold"}) == ""


@pytest.mark.parametrize(
    ("data", "named", "label"),
    [
        (
            {"host": "MI300X", "target": "MI355X", "metric": "duration_us"},
            "MI300X → MI355X",
            "time, µs",
        ),
        (
            {"host": None, "target": "MI300X", "metric": "energy_j"},
            "MI300X, new workloads",
            "energy, J",
        ),
        (
            {"host": "MI300X", "target": "MI300X", "metric": "bytes_moved"},
            "MI300X, new workloads",
            "bytes, moved",
        ),
        ({}, "?, new workloads", "time, µs"),
    ],
)
def test_titles_and_units(data, named, label) -> None:
    assert (title(data), metric(data)) == (named, label)


def test_rows_without_a_partner_are_counted_only_where_there_are_pairs() -> None:
    data = {"n": 1429, "groups": 16, "target": "B", "unpaired_host": 3, "unpaired_target": 0}
    pairs = [("pairs of host and target", "1,429"), ("groups", "16")]
    partners = [("host rows without a target", "3"), ("target rows without a host", "0")]
    assert counts({**data, "host": "A"}) == pairs + partners
    assert counts(data) == [("workloads", "1,429"), ("groups", "16")]


def test_schemes_say_what_they_leave_out() -> None:
    cases = (CV, {"scheme": "kfold", "folds": 5}, {"scheme": "by date"})
    grouped, shuffled, other = map(scheme, cases)
    assert "10 folds" in grouped
    assert "5 folds" in shuffled
    assert other.startswith("by date")


def test_intervals_are_given_per_scheme_or_as_a_whole() -> None:
    schemes = {
        "kfold": {"coverage": 0.912, "median_relative_width": 0.21},
        "grouped": {"coverage": None},
    }
    found = table(training_document({"intervals": {"level": 0.9, "schemes": schemes}}), "Intervals")
    assert [texts(row) for row in found.rows] == [["known groups", "91.2 %", "21.0 %"]]
    found = table(training_document({"intervals": {"level": 0.9, "coverage": 0.9}}), "Intervals")
    assert [texts(row) for row in found.rows] == [["", "90.0 %", "–"]]
    assert table(training_document({}), "Intervals").rows == ()


def test_rankings_are_split_by_measure_and_cut() -> None:
    entry = {"feature": "m", "measure": "p-value"}
    rows = [{**entry, "value": value} for value in (0.001, 0.01, 0.5)]
    told = {"selected": 2, "folds": 3, "sign": "+"}
    rows += [
        {"feature": "memory.target_us", "measure": "importance", "value": 2, **told},
        {"feature": "k", "measure": "none", "value": None},
    ]
    document = training_document({"ranking": rows}, rank=2, every=True)
    found = table(document, "Features").rows
    assert [texts(row)[:3] for row in found] == [
        ["", "by p-value", ""], ["1", "m", "0.001"], ["2", "m", "0.01"], ["", "by importance", ""],
        ["1", "memory.target_us", "2"],
    ]  # fmt: skip
    meaning = "bytes / memory bandwidth of the target"
    assert texts(found[-1])[3:] == ["+", "2 of 3", "time", "us", meaning]
    assert [row.title for row in found] == [True, False, False, True, False]
    assert "features by" not in printed(training_document({"ranking": rows}, rank=0))


def test_groups_are_worst_first_and_cut_on_a_terminal(run) -> None:
    found = table(training_document(run[0]), "Groups")
    assert (texts(found.rows[0])[2], texts(found.rows[0])[3], len(found.rows)) == (
        "19.0",
        "24.0",
        16,
    )
    assert found.shown == 5


def test_a_short_document_says_which_model_answers_what_and_how_well() -> None:
    chosen = {"name": "OLS", "e_out": 4.0, "tied": ["OLS"], "baseline": False}
    line = {"name": "affine", "e_out": 9.0, "ir": {}}
    cv = [
        {"scheme": scheme, "selected": chosen, "baselines": [line], "models": [], "folds": 10}
        for scheme in ("kfold", "grouped")
    ]
    metrics = {
        "data": {"n": 1200, "groups": 7, "host": "MI300X", "target": "MI355X"},
        "cv": cv,
        "intervals": {"level": 0.9, "schemes": {"grouped": {"coverage": 0.912}}},
    }
    (part,) = training_document(metrics, saved=True).short
    head, *table, saved = [line.text.split() for line in part.lines]
    assert " ".join(head).endswith("learnt from 1,200 pairs, 7 groups")
    assert [row[-5:] for row in table[1:]] == [
        ["4.0", "%", "9.0", "%", "–"],
        ["%", "9.0", "%", "91.2", "%"],
    ]
    assert saved[-2:] == ["Saved:", "OLS"]
    (part,) = training_document(metrics, saved=False).short
    assert "Fitted: OLS" in part.lines[-1].text


def test_a_page_opens_with_the_answer_and_folds_what_it_rests_on(run) -> None:
    metrics = {**run[0], "model": {"name": "Stack", "scheme": "grouped"}}
    document = training_document(metrics, run[1])
    open_sections = [section.link for section in document.sections if not section.folded]
    assert open_sections[:2] == ["Known groups", "New groups"]
    groups = next(section for section in document.sections if section.link == "Groups")
    assert groups.folded
    shown = said(page(document))
    assert "Least sure: " in shown
    assert "Next: flopcast predict RUN NEW.csv" in shown


def test_figures_of_a_page_have_captions_that_begin_otherwise(run) -> None:
    document = training_document(run[0], run[1])
    for section in document.sections:
        captions = [part.caption for part in section.parts if isinstance(part, Figure)]
        starts = [caption[:24] for caption in captions]
        assert len(set(starts)) == len(starts)


def test_a_group_with_five_times_the_others_error_does_not_flatten_them() -> None:
    rows = [{"group": "far", "e_out": 924.0}]
    rows += [{"group": f"gemm {place}", "e_out": 100.0 + place} for place in range(8)]
    assert figures.groups(rows, [None] * len(rows), "affine").layout.xaxis.type == "log"


def test_parts_of_known_groups_are_ordered_by_their_rows_whatever_the_order_of_the_file() -> None:
    errors = {"more than 200": 2.0, "up to 10": 9.0, "up to 200": 3.0, "up to 25": 7.0}
    parts = {name: {"e_out": error, "sigma": 0.1} for name, error in errors.items()}
    chosen = {"name": "OLS", "e_out": 4.0, "tied": [], "parts": parts, "baseline": False}
    cv = {"scheme": "kfold", "selected": chosen, "baselines": [], "models": [], "folds": 10}
    (said,) = [line for line in verdict(cv) if "more than 200" in line]
    places = [said.index(name) for name in ("up to 10", "up to 25", "up to 200", "more than 200")]
    assert places == sorted(places)


def test_a_run_that_was_corrected_says_so_first() -> None:
    made = {"factor": 1.35, "lower": 1.3, "upper": 1.4, "level": 0.95, "rows": 9, "groups": 3}
    opening = training_document({"data": {}, "cv": [], "correction": made}).opening
    said = [line.text for part in opening if isinstance(part, Lines) for line in part.lines]
    assert "1.350" in said[0]
