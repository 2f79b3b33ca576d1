from __future__ import annotations

import copy
import io

import pytest
from rich.console import Console

from flopcast.report import tables


def text_of(*renderables, width: int = 100) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    for renderable in renderables:
        console.print(renderable)
    return console.export_text()


@pytest.fixture
def metrics(run):
    return copy.deepcopy(run[0])


def shown(metrics, **options) -> str:
    console = Console(width=100, record=True, file=io.StringIO())
    tables.show(console, metrics, **options)
    return console.export_text()


def test_a_model_is_one_line_of_100_columns_with_aligned_figures(metrics):
    lines = text_of(tables.model_table(metrics["cv"][1])).splitlines()
    assert max(map(len, lines)) <= 100
    header = next(line for line in lines if "E_out" in line)
    ends = {title: header.index(title) + len(title) for title in ("E_out", "E_in", "median", "worst", "IR 20", "fit s")}
    rows = [line for line in lines if "12/48" in line]
    assert len(rows) == 3 + 30
    for row in rows:
        for end in ends.values():
            assert row[end - 1].isdigit()
            assert row[end : end + 1] in ("", " ")


def test_baselines_come_first_then_models_by_error_then_failures(metrics):
    text = text_of(tables.model_table(metrics["cv"][0])).splitlines()
    end = next(line.index("E_out") + 5 for line in text if "E_out" in line)
    lines = [line for line in text if "12/48" in line]
    assert [line.split()[0] for line in lines[:3]] == ["FLOPS", "bandwidth", "roofline"]
    errors = [float(line[end - 5 : end]) for line in lines[3:]]
    assert errors == sorted(errors)
    assert lines[3].lstrip().startswith("* ")
    assert lines[4].lstrip().startswith("≈ ")


def test_a_failed_model_is_a_row_with_its_reason(metrics):
    assert "GaussianProcess failed: singular matrix in fold 3" in text_of(tables.model_table(metrics["cv"][0]))


def test_markup_in_names_is_shown_and_not_obeyed(metrics):
    metrics["cv"][0]["models"][0]["name"] = "[red]gemm[/red]"
    metrics["cv"][0]["models"][-1]["error"] = "index [0] of [/bold]"
    metrics["groups"][-1]["group"] = "[link]"
    metrics["data"]["notes"] = ["[/]"]
    text = shown(metrics)
    for name in ("[red]gemm[/red]", "index [0] of [/bold]", "[link]", "note: [/]"):
        assert name in text


def test_the_selected_model_has_its_honest_error_and_ties(metrics):
    text = " ".join(text_of(tables.selection(metrics["cv"][1])).split())
    chosen = metrics["cv"][1]["selected"]
    assert f"* {chosen['name']}: honest error {chosen['e_out']:.1f} % (95 % interval" in text
    assert "choosing between them is a coin toss" in text


def test_the_data_summary_counts_what_was_lost(metrics):
    text = " ".join(text_of(tables.data_summary(metrics["data"])).split())
    for said in (
        "MI300X → MI355X: time, µs",
        "429 pairs of host and target",
        "16 groups",
        "12,000 host rows without a target",
        "12 rows rejected: zero duration 3 rows rejected: not a number note: fp8 <e4m3> read as fp8",
    ):
        assert said in text


def test_the_ranking_is_cut_per_measure(metrics):
    text = text_of(tables.ranking_table(metrics["ranking"], 3))
    assert "feature_2.target_us" in text
    assert "feature_3.target_us" not in text
    assert "1e-12" in text


def test_the_worst_groups_come_first(metrics):
    text = text_of(tables.group_table(metrics["groups"], 2))
    assert "largest error (2 of 16)" in text
    assert text.index("gemm<3,2048>x7168") < text.index("gemm<2,1920>x2048")
    assert "gemm<1,1792>x7168" not in text


def test_everything_is_shown_and_ends_with_the_headline(metrics):
    text = shown(metrics, rank=2)
    for said in ("shuffled workloads (10", "unseen groups (whole", "feature_1", "largest error", "intervals at 90 %"):
        assert said in text
    assert "feature_2." not in text
    last = text.rstrip().splitlines()[-1]
    assert last.startswith("unseen groups — FLOPS scaling: 31.1 % → flopcast: ")


@pytest.mark.parametrize("metrics", [{}, {"data": {}, "cv": []}, {"cv": [{"scheme": "kfold"}]}])
def test_missing_sections_are_left_out(metrics):
    assert "coin toss" not in shown(metrics)
    assert "features by" not in shown(metrics)
