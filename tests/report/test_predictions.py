"""Predictions as files and on the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.output import PREDICTION_FORMATS, check_file, replacing
from flopcast.remarks import Reasons, Remark, remark
from flopcast.report.predictions import Identity, Tally, predictions_document, to_json, write_file
from flopcast.table.refusals import reason_of, row_refused

from .pages import printed

FACTS: dict[str, Any] = {
    "run": "runs/fp8", "model": "Stack", "host": "MI300X", "target": "MI355X", "metric": "duration_us", "level": 0.9,
    "scheme": "grouped", "other_devices": {"MI210": 1200},
}  # fmt: skip
BEYOND = remark(
    "above-trained-range",
    "m is 32768, trained to 16384 (2x beyond)",
    "m is above the trained range",
)
ZERO = row_refused("zero-duration", "0")


def predictions(count: int = 3) -> pd.DataFrame:
    frame = pd.DataFrame({"op": "gemm", "dtype_a": "fp8", "m": range(1, count + 1)}).assign(
        n=4096, k=7168, batch=1, source="a.csv:2", duration_us=20.5, predicted_us=10.0, lower_us=8.0, upper_us=12.0,
        basis="model", extrapolated=False, reason="", affine=11.0,
    )  # fmt: skip
    frame["m"] = frame["m"].astype("Int64")
    return frame


def reported(
    frame: pd.DataFrame, reasons: dict[int, Remark] | None = None, **facts: Any
) -> dict[str, Any]:
    """Return the report of predictions of which some rows have a reason."""
    first = [
        reasons[row].general if reasons and row in reasons else "" for row in range(len(frame))
    ]
    tally, words = Tally("duration_us"), pd.Series(first, dtype="str")
    for rows in (frame.index < 2, frame.index >= 2):  # as they come
        tally.add(frame[rows], words[rows])
    return tally.report(FACTS | facts, ["fp32 assumed"])


def test_identifying_columns_are_those_with_values_and_whole_numbers_are_whole() -> None:
    rows = pd.DataFrame(
        {
            "counter.x": [1.0, 2.0], "source": ["a:2", "a:3"], "duration_us": [3.0, 4.5], "op": ["gemm", "conv"],
            "dtype_a": "", "family": "", "kernel": ["", "ck"], "m": [16.0, np.nan], "in_h": [np.nan, np.nan],
            "energy_j": [1.0, 2.5], "group": [np.nan, np.nan],
        }
    )  # fmt: skip
    identity = Identity("energy_j")
    for row in (rows.iloc[:1], rows.iloc[1:]):  # as they come
        identity.see(row)
    found = identity.of(rows)
    assert found.columns.tolist() == [
        "op",
        "dtype_a",
        "m",
        "kernel",
        "source",
        "duration_us",
        "energy_j",
    ]
    assert found["m"].tolist() == [16, pd.NA]
    assert found["duration_us"].tolist() == [3.0, 4.5]


def test_causes_are_the_first_reasons_without_figures_by_frequency() -> None:
    below = remark("below-trained-range", "he.host is 0.01", "he.host is below the trained range")
    level = remark(
        "unseen-level", "dtype fp6 was not in training (fp8)", "dtype fp6 was not in training"
    )
    constant = remark("was-constant", "log2.k is 11", "log2.k never varied")
    other = remark("missing-value", "n is missing")
    ways = [(below, BEYOND), (level, BEYOND), (constant,), (other,), (BEYOND,), (BEYOND,)]
    frame = predictions(len(ways)).assign(extrapolated=True)
    tally = Tally("duration_us")
    tally.add(frame, pd.Series(Reasons.of(ways).texts()[1]))
    assert list(tally.report(FACTS, [])["causes"].items()) == [
        (BEYOND.general, 2), (below.general, 1), (level.general, 1), (constant.general, 1), (other.text, 1),
    ]  # fmt: skip
    assert not any(
        figure in word
        for word in tally.report(FACTS, [])["causes"]
        for figure in ("0.01", "fp8", "11")
    )


def test_the_report_counts() -> None:
    frame = predictions(4)
    frame.loc[1, ["predicted_us", "lower_us", "upper_us"]] = np.nan
    frame.loc[2, ["extrapolated", "upper_us"]] = True, 100.0
    refused = row_refused("dimension-not-a-number", "k = x")
    found = reported(frame, {1: refused, 2: BEYOND})
    assert (found["n"], found["predicted"], found["extrapolated"]) == (4, 3, 1)
    assert found["not_predicted"] == {reason_of("dimension-not-a-number"): 1}
    assert found["causes"] == {BEYOND.general: 1}
    assert (found["median_predicted"], found["median_relative_width"]) == (10.0, pytest.approx(0.4))
    assert (found["schema"], found["run"], found["notes"]) == (1, "runs/fp8", ["fp32 assumed"])


def test_an_interval_without_bound_has_no_width() -> None:
    assert reported(predictions().assign(upper_us=np.inf))["median_relative_width"] is None
    frame = predictions().assign(upper_us=np.inf)
    assert "bound known" in predictions_document(frame, reported(frame)).opening[2].lines[0].text


def test_json_has_a_line_per_row_and_null_where_there_is_no_number() -> None:
    frame = predictions(2)
    frame.loc[1, ["predicted_us", "upper_us"]] = np.nan, np.inf
    frame.loc[1, "m"] = pd.NA
    text = to_json(frame, reported(frame, {1: ZERO}, run="µ"))
    told = json.loads(text, parse_constant=pytest.fail)
    assert told["rows"][0] == frame.iloc[0].to_dict()
    second = [told["rows"][1][name] for name in ("m", "predicted_us", "upper_us", "extrapolated")]
    assert second == [None, None, None, False]
    assert text.count("\n") == 4
    assert told["run"] == "µ"


@pytest.mark.parametrize("name", ["out", "out.txt", "out.csv.gz", "json"])
def test_other_suffixes_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"\.csv, \.parquet"):
        write_file(predictions(), {}, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_folders_and_files_that_are_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match=r"folder\.csv: is a folder"):
        check_file(tmp_path / "folder.csv", PREDICTION_FORMATS)
    (tmp_path / "data.CSV").touch()
    read = [tmp_path / "none.csv", tmp_path / ".." / tmp_path.name / "data.CSV"]
    with pytest.raises(DataError, match="file that is read"):
        check_file(tmp_path / "data.CSV", PREDICTION_FORMATS, read)
    with pytest.raises(DataError, match="overwrite=True"):
        check_file(tmp_path / "data.CSV", PREDICTION_FORMATS)
    with replacing(overwrite=True):
        check_file(tmp_path / "data.CSV", PREDICTION_FORMATS)


def test_a_place_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"out\.csv: cannot be written: "):
        write_file(predictions(), {}, tmp_path / "file" / "out.csv")


def test_the_terminal_shows_counts_causes_and_the_first_rows(
    golden: Callable[[str, str], None],
) -> None:
    frame = predictions(12)
    reasons = {0: BEYOND, 1: BEYOND, 2: ZERO}
    frame.loc[:1, "extrapolated"], frame.loc[2, ["predicted_us", "lower_us", "upper_us"]] = (
        True,
        np.nan,
    )
    frame.loc[:2, "reason"] = [reason.text for reason in reasons.values()]
    golden("predict.txt", printed(predictions_document(frame, reported(frame, reasons)), 130))


def test_few_rows_and_rows_written_elsewhere_need_no_file() -> None:
    for frame, whole in ((predictions(), False), (predictions(12), True)):
        closing, _ = predictions_document(frame, reported(frame), whole=whole).closing
        assert closing.lines == ()


def test_causes_beyond_three_are_summed() -> None:
    frame = predictions(7).assign(extrapolated=True)
    reasons = {row: remark("missing-value", feature=f"x{row}") for row in range(7)}
    _, facts, *_ = predictions_document(frame, reported(frame, reasons)).opening
    assert [(fact.value, fact.label) for fact in facts.facts[-2:]] == [
        ("1", f"– {reasons[2]}"), ("4", "– other reasons")
    ]  # fmt: skip


def test_without_a_host_there_is_no_measured_column() -> None:
    document = predictions_document(predictions(), reported(predictions(), host=None))
    assert document.title.startswith("MI355X, new workloads")
    assert [column.head for column in document.opening[-1].columns[1:-1]] == [
        "predicted",
        "lower",
        "upper",
    ]


def test_a_page_says_how_long_and_how_sure_then_the_least_sure_rows_and_all() -> None:
    frame = predictions(12)
    frame.loc[3, ["lower_us", "upper_us"]] = 2.0, 40.0
    frame.loc[5, ["lower_us", "upper_us"]] = np.nan
    frame.loc[7, ["predicted_us", "lower_us", "upper_us"]] = np.nan
    document = predictions_document(frame, reported(frame))
    head = document.opening[0]
    assert (head.rival, head.answer) == (
        "median 20.5 µs measured on MI300X", "median 10 µs on MI355X"
    )  # fmt: skip
    sure, least, every, remarks = document.sections
    assert [part.draw().layout.yaxis.title.text for part in sure.parts] == [
        "predicted time, µs", "predicted / measured on MI300X"
    ]  # fmt: skip
    (table,) = least.parts
    assert [row.cells[0].split()[2] for row in table.rows[:3]] == ["m=6", "m=4", "m=1"]
    assert len(table.rows) == 10
    (listing,) = every.parts
    assert [len(column) for column in listing.texts()] == [12] * len(listing.columns)
    assert remarks.parts[0].lines[0].text == "note: fp32 assumed"


def test_what_other_devices_measured_stands_beside_no_prediction_of_a_run_without_a_host() -> None:
    frame = predictions(3).assign(device=["MI355X", "H200", ""])
    sure = predictions_document(frame, reported(frame, host=None)).sections[0]
    _, beside = sure.parts
    assert [len(trace.x) for trace in beside.draw().data] == [1]
    assert (
        len(predictions_document(predictions(), reported(frame, host=None)).sections[0].parts) == 1
    )
