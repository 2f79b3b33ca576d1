from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from flopcast.hardware import GPU, find
from flopcast.hardware.scaled import scale_models
from flopcast.output import dumps
from flopcast.remarks import remark
from flopcast.report import html
from flopcast.report.document import Document, Headline, Table
from flopcast.report.scaling import (
    configurations_document,
    description,
    leading,
    prediction_figure,
    prediction_table,
    predictions_document,
    predictions_json,
    published_document,
    published_table,
    remarks,
    simplest,
    summary_table,
    trial_table,
)
from flopcast.report.terminal import print_document
from flopcast.scaling.curves import Curve, curves_of
from flopcast.scaling.prediction import (
    BenchmarkPrediction,
    LawPrediction,
    LawSummary,
    SimulationCost,
    SizePredictions,
    predict_sizes,
    summarise,
)
from flopcast.scaling.scaling_class import classify

SERIAL = "no serial share: performance grows at least in proportion to the size"
NOTHING = pd.DataFrame({"explanation": [], "scenario": [], "target": [], "fit": []})
GRID = np.array([16.0, 32.0, 64.0])


def series(name: str, performance: list[float]) -> Curve:
    sizes = [8 * 2**i for i in range(len(performance))]
    return curves_of(
        pd.DataFrame({"benchmark": name, "size": sizes, "ipc": performance, "unit": "SM"})
    ).curves[0]


def benchmark(name: str, performance: list[float]) -> BenchmarkPrediction:
    good = LawPrediction(
        "straight", GRID, GRID / 8, GRID / 10, GRID / 6, (remark("no-serial-share", SERIAL),)
    )
    bad = LawPrediction("broken", GRID, *[np.full(3, np.nan)] * 3, failed="needs [three] sizes")
    one = series(name, performance)
    return BenchmarkPrediction(one, (good, bad), classify(one), None, ())


@pytest.fixture
def result() -> SizePredictions:
    """Two benchmarks: one measured at the target and predicted right, one not measured there."""
    both = (benchmark("a", [1.0, 2.0, 4.0, 8.0]), benchmark("b [x]", [1.0, 2.0]))
    return SizePredictions(
        both, (8, 16), (64,), 0.9, (remark("columns-not-used", "columns not used: colour"),)
    )


def rows(table: Table) -> list[tuple[str, ...]]:
    return [
        tuple(cell if isinstance(cell, str) else cell.text for cell in row.cells)
        for row in table.rows
    ]


def printed(document: Document) -> str:
    out = io.StringIO()
    print_document(Console(width=120, file=out), document)
    return out.getvalue()


def test_a_benchmark_is_followed_by_its_laws(result: SizePredictions) -> None:
    assert rows(prediction_table(result)) == [
        ("a (strong)", "8", "measured", ""),
        ("  straight", "8", "[6.4, 10.67]", "0.0"),
        ("  broken", "no fit", "", ""),
        ("b [x] (strong)", "", "", ""),
        ("  straight", "8", "[6.4, 10.67]", ""),
        ("  broken", "no fit", "", ""),
    ]


def test_the_summary_has_averages_and_counts_what_failed(result: SizePredictions) -> None:
    assert rows(summary_table(summarise(result), 0.9)) == [
        ("strong", "straight", "64", "1", "0.00", "0.00", "100 %"),
        ("strong", "broken", "64", "0 (+1 not fitted)", "–", "–", "–"),
    ]


def test_a_page_answers_first_beside_the_best_simple_law(result: SizePredictions) -> None:
    (first,) = predictions_document(result).opening
    assert isinstance(first, Headline)
    assert (first.answer, first.rival) == ("straight: 0.0 %", "")
    unmeasured = replace(result, benchmarks=result.benchmarks[1:])
    (first,) = predictions_document(unmeasured).opening
    assert isinstance(first, Headline)
    assert (first.about, first.answer) == ("b [x] (strong), size 64", "8")
    assert "[6.4, 10.67]" in first.beneath
    found = [
        LawSummary(law, "strong", 64, 2, 0, error, error, 1)
        for law, error in (("scale model", 1), ("a", 3), ("b", 2))
    ]
    assert simplest(found) is found[2]


def test_a_benchmark_is_described(result: SizePredictions) -> None:
    first = result.benchmarks[0]
    assert first.scaling is not None
    told = list(description(first))
    assert str(first.scaling) in told[0]
    cost = SimulationCost(64, 1200, 300, 200)
    *_, last = description(replace(first, cliffs=(), costs=(cost,)))
    assert all(
        figure in last for figure in ("300 s", "4.0 times", "size 64", "1,200 s", "6.0 times")
    )


def test_remarks_stand_once_and_name_their_laws_and_benchmarks(result: SizePredictions) -> None:
    first, second = result.benchmarks
    other = replace(second.laws[0], notes=(remark("no-miss-rates", "no miss rates"),))
    partly = replace(result, benchmarks=(first, replace(second, laws=(other, second.laws[1]))))
    columns, serial, broken, unseen = remarks(partly)
    assert "colour" in columns
    assert serial.startswith("a (strong): ")
    assert broken == "broken cannot be fitted: needs [three] sizes"
    assert unseen == "b [x] (strong): [no-miss-rates] no miss rates"


def test_remarks_on_many_benchmarks_count_them(result: SizePredictions) -> None:
    first, second = result.benchmarks
    many = replace(result, benchmarks=(first,) * 5 + (replace(second, laws=second.laws[1:]),))
    assert remarks(many)[1] == f"5 of 6 benchmarks: [no-serial-share] {SERIAL}"


def test_what_all_simulations_cost_together_is_said(result: SizePredictions) -> None:
    cost = SimulationCost(64, 1200, 300, 200)
    timed = replace(
        result, benchmarks=tuple(replace(one, costs=(cost,)) for one in result.benchmarks)
    )
    assert "4.00" in remarks(timed)[-1]
    (found,) = predictions_document(timed).data["simulation_speedups"]
    totals = {"target": 64, "benchmarks": 2, "together_s": 600, "target_s": 2400}
    assert found == {"scenario": "strong", **totals, "mean": 4, "least": 4, "most": 4}


def test_without_a_measured_target_there_is_no_column_of_errors(result: SizePredictions) -> None:
    table = prediction_table(replace(result, benchmarks=result.benchmarks[1:]))
    assert [column.head for column in table.columns] == ["benchmark / law", "at 64", "90 %"]


def test_everything_is_printed_and_brackets_stay(result: SizePredictions) -> None:
    said = " ".join(printed(predictions_document(result)).split())
    for words in (
        "b [x] (strong)",
        "needs [three] sizes",
        "Errors over the benchmarks",
        "Predicted from 8 and 16",
    ):
        assert words in said


def test_json_holds_every_prediction(result: SizePredictions) -> None:
    found = json.loads(dumps(predictions_json(result), missing=True))
    first, second = found["benchmarks"]
    assert (first["class"]["kind"], first["cliffs"], first["sizes"]) == (str(result.benchmarks[0].scaling.growth), None,  # type: ignore[union-attr]
                                                                        [8, 16, 32, 64])  # fmt: skip
    assert first["predictions"][0]["error_percent"] == 0
    assert first["predictions"][1] == {
        "law": "broken",
        "size": 64,
        "predicted": None,
        "lower": None,
        "upper": None,
        "measured": 8,
        "error_percent": None,
        "failed": "needs [three] sizes",
        "notes": [],
    }
    assert second["predictions"][0]["measured"] is None
    assert found["laws"][0]["coverage"] == 1


def test_reproduced_errors_stand_beside_the_published_ones() -> None:
    cell = {
        "scenario": "strong",
        "target": 128,
        "fit": (8.0, 16.0),
        "predictor": "proportional",
        "average": 22.04,
    }
    cell["max"] = 113.2
    frame = pd.DataFrame(
        [
            {**cell, "published_average": 22.0, "published_max": 113.0, "explanation": ""},
            {
                **cell,
                "target": 64,
                "published_average": np.nan,
                "published_max": 52.0,
                "explanation": "printed-from-other-data",
            },
        ]
    )
    table = published_table(frame)
    assert rows(table) == [
        ("strong", "proportional", "8 16", "128", "22.04", "22.00", "113.20", "113.00", ""),
        ("strong", "proportional", "8 16", "64", "22.04", "–", "113.20", "52.00", "[1]"),
    ]
    assert table.caption.startswith("[1] ")


def test_trials_and_published_errors_are_given_to_machines() -> None:
    trials = pd.DataFrame(
        [
            {
                "scenario": "weak", "target": 128, "law": "linear", "benchmarks": 6, "failed": 0, "average": 4.9,
                "max": 12.4, "worst": "va", "coverage": 1.0,
            }
        ]
    )  # fmt: skip
    assert rows(trial_table(trials)) == [("weak", "linear", "128", "6", "4.90", "12.40", "100 %")]
    found = json.loads(dumps(published_document(NOTHING, trials).data, missing=True))
    assert (found["published"], found["trials"][0]["worst"]) == ([], "va")


def cells(base: GPU, sizes: list[int] | None = None) -> dict[str, list[str]]:
    """Return the cells of each row by its first one."""
    (table,) = configurations_document(scale_models(base, sizes), base).opening
    assert isinstance(table, Table)
    return {first: rest for first, *rest in rows(table)}


def test_shared_resources_are_in_proportion_and_units_stay_as_they_are() -> None:
    found = cells(find("MI300X"), [38, 304])
    assert found["memory bandwidth"] == ["GB/s", "×", "665.62", "5,325"]
    assert found["last-level cache"] == ["MiB", "×", "32", "256"]
    assert found["memory controllers"] == found["last-level cache slices"] == ["", "×", "16", "128"]
    own = cells(replace(find("MI300X"), noc_bw_gbs=8000.0), [38, 304])
    assert own["network on chip"] == ["GB/s", "×", "1,000", "8,000"]
    assert found["fp16 matrix peak"] == ["TFLOPS", "×", "163.43", "1,307.4"]
    assert found["boost clock"] == ["MHz", "=", "2,100", "2,100"]


def test_what_is_not_published_says_so_and_half_a_chiplet_is_not_whole() -> None:
    found = cells(find("MI308X"), [10, 80])
    assert found["last-level cache"] == ["MiB", "×", "not published", "not published"]
    assert found["network on chip"] == ["GB/s", "×", "not published", "not published"]
    assert found["chiplets"] == ["", "×", "not whole", "4"]


def test_the_table_of_halvings_fits_a_hundred_and_twenty_columns() -> None:
    base = find("MI300X")
    text = printed(configurations_document(scale_models(base), base))
    assert "19 CUs" in text
    assert "…" not in text


def test_json_holds_the_models_as_gpus() -> None:
    base = find("MI300X")
    found = json.loads(dumps(configurations_document(scale_models(base), base).data, missing=True))
    assert (found["base"], found["gpus"][1]["cus"], found["gpus"][1]["llc_mb"]) == (
        "MI300X",
        38,
        32,
    )
    assert found["schema"] == 1
    assert "memory_bw_gbs" in found["shared"]


@pytest.fixture(scope="module")
def curved() -> SizePredictions:
    """Four benchmarks of growing curvature; the last is not measured at the target."""
    sizes = np.array([8, 16, 32, 64])
    names = ("<b>a</b>", "b", "c", "d")
    parts = [
        pd.DataFrame({"benchmark": name, "size": sizes, "ipc": sizes ** (1 - 0.05 * i)})
        for i, name in enumerate(names)
    ]
    table = curves_of(pd.concat([*parts[:3], parts[3].head(2)], ignore_index=True))
    return predict_sizes(table, [8, 16], [64])


def test_each_benchmark_has_a_panel_with_what_was_measured(curved: SizePredictions) -> None:
    figure = prediction_figure(curved, leading(curved))
    measured = [trace for trace in figure.data if trace.name == "measured"]
    assert [len(trace.x) for trace in measured] == [4, 4, 4, 2]
    assert list(measured[0].marker.symbol) == ["circle", "circle", "circle-open", "circle-open"]
    assert figure.layout.annotations[0].text == "&lt;b&gt;a&lt;/b&gt; (strong)"


def test_the_leading_law_is_shown_with_its_interval_and_the_others_wait_in_the_legend(
    curved: SizePredictions,
) -> None:
    lead = leading(curved)
    figure = prediction_figure(curved, lead)
    drawn = {
        trace.name
        for trace in figure.data
        if trace.mode == "lines" and trace.visible is True and trace.name
    }
    assert drawn == {lead}
    shown = [trace.name for trace in figure.data if trace.showlegend]
    assert len(shown) == len(set(shown))
    assert {"measured", lead} < set(shown)


def test_the_learned_law_leads_and_where_it_is_not_asked_for_one_with_an_interval(
    curved: SizePredictions,
) -> None:
    assert leading(curved) == "scale model (learned)"
    table = curves_of(pd.DataFrame({"benchmark": "a", "size": [8, 16], "ipc": [1.0, 1.9]}))
    assert leading(predict_sizes(table, [8, 16], [64], laws=["USL", "linear", "power"])) == "linear"
    assert leading(predict_sizes(table, [8, 16], [64], laws=["USL"])) == "USL"


def test_per_unit_the_smallest_size_is_one(curved: SizePredictions) -> None:
    figure = prediction_figure(curved, leading(curved), per_unit=True)
    measured = [trace for trace in figure.data if trace.name == "measured"]
    assert [trace.y[0] for trace in measured] == [1] * 4
    np.testing.assert_allclose(measured[0].y, 1)
    assert measured[2].y[3] == pytest.approx(8**-0.1)


@pytest.mark.no_cover
def test_a_page_fetches_nothing_and_escapes_names(curved: SizePredictions) -> None:
    text = html.page(predictions_document(curved))
    assert "<b>a</b>" not in text
    assert "&lt;b&gt;a&lt;/b&gt;" in text
    assert text == html.page(predictions_document(curved))


def test_the_page_has_the_errors_and_the_remarks(curved: SizePredictions) -> None:
    document = predictions_document(curved)
    page = html.page(document)
    assert len(document.sections) > 1
    headings = [section.heading for section in document.sections if section.parts]
    assert all(words in page for words in (*headings, "no miss rates"))


def test_a_page_without_a_measured_target_says_so() -> None:
    table = curves_of(pd.DataFrame({"benchmark": "a", "size": [8, 16], "ipc": [1.0, 1.9]}))
    page = html.page(predictions_document(predict_sizes(table, [8, 16], [64])))
    assert "No target was measured" in page


def gone(*, predicted: float = 8.0, upper: float = np.inf) -> SizePredictions:
    """Predictions of a law that has no interval, or none at all, at the largest size."""
    one = benchmark("a", [1.0, 2.0, 4.0, 8.0])
    figures = (
        np.array([2.0, 4.0, predicted]),
        np.array([2.0, 4.0, 0.0]),
        np.array([2.0, 4.0, upper]),
    )
    law = LawPrediction("straight", GRID, *figures)
    return SizePredictions((replace(one, laws=(law, one.laws[1])),), (8, 16), (32, 64), 0.9, ())


@pytest.mark.parametrize(
    ("figures", "reason"),
    [({}, "no interval at 64"), ({"predicted": np.nan, "upper": np.nan}, "no prediction at 64")],
)
def test_a_dash_has_its_reason_beside_it_and_is_null_for_machines(
    figures: dict[str, float], reason: str
) -> None:
    result = gone(**figures)
    law = rows(prediction_table(result))[1]
    assert "–" in law
    assert not any(word in cell for cell in law for word in ("nan", "inf"))
    (said,) = [line for line in remarks(result) if reason in line]
    assert "straight" in said
    assert not any("at 32" in line for line in remarks(result))
    text = dumps(predictions_json(result), missing=True)
    assert not any(word in text for word in ("NaN", "Infinity"))
    told = [
        one for one in json.loads(text)["benchmarks"][0]["predictions"] if one["law"] == "straight"
    ]
    assert [one["upper"] is None for one in told] == [False, True]
    assert [one["predicted"] is None for one in told] == [False, "predicted" in figures]


def test_where_all_is_known_no_reason_is_given(result: SizePredictions) -> None:
    assert not any("no interval" in line or "no prediction" in line for line in remarks(result))


def test_the_law_of_the_headline_leads_the_table_of_each_benchmark() -> None:
    asked = curves_of(pd.DataFrame({"benchmark": "a", "size": [8, 16], "ipc": [100.0, 190.0]}))
    found = predict_sizes(asked, (8, 16), (64,))
    lead = leading(found)
    assert lead != found.benchmarks[0].laws[0].law
    assert rows(prediction_table(found))[1][0].strip() == lead
