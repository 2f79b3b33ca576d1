from __future__ import annotations

import math

import pandas as pd
import pytest

from flopcast.report import wording

CV = {
    "scheme": "grouped",
    "folds": 10,
    "baselines": [
        {"name": "affine", "e_out": 12.0, "space": "relative error"},
        {"name": "roofline scaling", "e_out": 24.0, "space": "no fitting"},
        {"name": "FLOPS scaling", "e_out": 31.72, "space": "no fitting"},
    ],
    "models": [
        {"name": "b", "e_out": 9.5, "space": "log time"},
        {"name": "gp", "e_out": None, "error": "singular"},
        {"name": "a", "e_out": 9.0},
        {"name": "c", "e_out": 9.0},
    ],
    "selected": {
        "name": "a",
        "e_out": 9.36,
        "interval": [7.9, 11.2],
        "level": 0.95,
        "method": "BBC-CV",
        "tied": ["c", "b"],
        "e_out_table": 9.0,
    },
}


@pytest.mark.parametrize(
    ("value", "text"),
    [(9.25, "9.2"), (99999.94, "99999.9"), (1.3e9, "1.3e+09"), (-3.14, "-3.1"), (None, "–"), (math.nan, "–")],
)
def test_numbers_have_one_decimal_or_powers_of_ten(value, text):
    assert wording.number(value) == text


def test_models_are_ordered_by_error_then_name_with_failures_last():
    rows = [(row["name"], mark) for row, mark in wording.ordered(CV)]
    baselines = [("affine", ""), ("roofline scaling", ""), ("FLOPS scaling", "")]
    assert rows == [*baselines, ("a", "*"), ("c", "≈"), ("b", "≈"), ("gp", "")]


def test_cells_follow_the_headers_and_show_what_is_missing():
    row = {"name": "a", "e_out": 9.04, "e_in": 3.0, "median_ape": 5.0, "max_ape": 80.0, "ir": {"5": 60.0, "10": 80.0}}
    row |= {"features_selected": 3, "features_available": 40, "space": "log time", "fit_seconds": 0.25}
    texts = ["9.0", "3.0", "5.0", "80.0", "60.0", "80.0", "–", "3/40", "log time", "0.2"]
    assert wording.cells(row) == texts
    assert len(texts) == len(wording.HEADERS)
    assert wording.cells({"name": "a"}) == ["–"] * 7 + ["–/–", "–", "–"]
    assert wording.cells({"name": "a", "error": "why"}) == []


def test_the_reference_is_flops_scaling_then_an_unfitted_law_then_any():
    assert wording.reference(CV)["name"] == "FLOPS scaling"
    assert wording.reference({"baselines": CV["baselines"][:2]})["name"] == "roofline scaling"
    assert wording.reference({"baselines": CV["baselines"][:1]})["name"] == "affine"
    assert wording.reference({"baselines": [{"name": "FLOPS scaling", "e_out": None}]}) is None
    assert wording.reference({}) is None


def test_the_verdict_gives_the_honest_error_its_interval_its_baseline_and_the_ties():
    assert wording.verdict(CV) == [
        "a: honest error 9.4 % (95 % interval 7.9 – 11.2 %) out of sample, against 31.7 % of FLOPS scaling: "
        "3.4 times smaller.",
        "The table's 9.0 % was also used to choose it, so it flatters; the honest figure includes the choice (BBC-CV).",
        "Within the uncertainty of this estimate: c, b — choosing between them is a coin toss.",
    ]


def test_the_verdict_says_when_the_model_is_worse_and_bears_missing_parts():
    worse = {**CV, "selected": {"name": "a", "e_out": 63.44, "tied": [f"m{i}" for i in range(7)]}}
    first, last = wording.verdict(worse)
    assert first == "a: honest error 63.4 % out of sample, against 31.7 % of FLOPS scaling: 2.0 times LARGER."
    assert "m0, m1, m2, m3, m4 and 2 more —" in last
    assert wording.verdict({"scheme": "kfold", "selected": {"name": "a", "e_out": 5.0}}) == [
        "a: honest error 5.0 % out of sample."
    ]
    assert wording.verdict({"scheme": "kfold"}) == []
    equal = wording.verdict({**CV, "selected": {"name": "a", "e_out": 6.5, "e_out_table": 6.6}})
    assert equal[1] == "The table's 6.6 % was also used to choose it; the honest figure includes the choice."


def test_the_headline_sets_baseline_against_model():
    assert wording.headline(CV) == "FLOPS scaling: 31.7 % → flopcast: 9.4 %"
    assert wording.headline({"scheme": "kfold", "selected": {"e_out": 1.26}}) == "flopcast: 1.3 %"
    assert wording.headline({"scheme": "kfold"}) is None


@pytest.mark.parametrize(
    ("data", "title", "metric"),
    [
        ({"host": "MI300X", "target": "MI355X", "metric": "duration_us"}, "MI300X → MI355X", "time, µs"),
        ({"host": None, "target": "MI300X", "metric": "energy_j"}, "MI300X, new workloads", "energy, J"),
        ({"host": "MI300X", "target": "MI300X", "metric": "bytes_moved"}, "MI300X, new workloads", "bytes, moved"),
        ({}, "?, new workloads", "time, µs"),
    ],
)
def test_titles_and_units(data, title, metric):
    assert (wording.title(data), wording.metric(data)) == (title, metric)


def test_rows_without_a_partner_are_counted_only_where_there_are_pairs():
    data = {"n": 1429, "groups": 16, "target": "B", "unpaired_host": 3, "unpaired_target": 0}
    pairs = [("pairs of host and target", "1,429"), ("groups", "16")]
    partners = [("host rows without a target", "3"), ("target rows without a host", "0")]
    assert wording.counts({**data, "host": "A"}) == pairs + partners
    assert wording.counts(data) == [("workloads", "1,429"), ("groups", "16")]


def test_schemes_say_what_they_leave_out():
    assert wording.scheme(CV) == "unseen groups (whole groups left out, 10 folds)"
    assert wording.scheme({"scheme": "kfold", "folds": 5}) == "shuffled workloads (5 folds)"
    assert wording.scheme({"scheme": "by date"}) == "by date (? folds)"


def test_intervals_are_given_per_scheme_or_as_a_whole():
    schemes = {"kfold": {"coverage": 0.912, "median_relative_width": 0.21}, "grouped": {"coverage": None}}
    assert wording.covered({"level": 0.9, "schemes": schemes}) == [("shuffled workloads", "91.2 %", "21.0 %")]
    assert wording.covered({"level": 0.9, "coverage": 0.9}) == [("", "90.0 %", "– %")]
    assert wording.covered({}) == []


def test_rankings_are_split_by_measure_and_cut():
    entry = {"feature": "m", "measure": "p-value"}
    rows = [{**entry, "value": value} for value in (0.001, 0.01, 0.5)]
    rows += [{"feature": "n", "measure": "importance", "value": 2}, {"feature": "k", "measure": "none", "value": None}]
    assert wording.rankings(rows, 2) == {"p-value": [("m", 0.001), ("m", 0.01)], "importance": [("n", 2.0)]}


def test_losses_are_counted_by_reason_and_quoted():
    rows = [("a:2", "zero", "us = 0"), ("a:9", "text", ""), *((f"b:{line}", "zero", "us = 0") for line in range(5))]
    assert wording.losses(pd.DataFrame(rows, columns=["source", "reason", "detail"])) == {
        "zero": {"count": 6, "examples": ["a:2: us = 0", "b:0: us = 0", "b:1: us = 0"]},
        "text": {"count": 1, "examples": ["a:9"]},
    }
    assert wording.losses(pd.DataFrame([], columns=["source", "reason", "detail"])) == {}
