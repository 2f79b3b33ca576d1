"""Tables of runs of serving: how they say that tokens are drafted, and what they may leave out."""

from __future__ import annotations

import pandas as pd
import pytest

import flopcast as fc

RUN = {
    "gpu": "MI355X", "model": "deepseek-r1", "engine": "sglang", "dtype": "fp8", "tp": 8,
    "input_len": 1024, "output_len": 1024, "concurrency": 4, "ttft_ms": 150.0, "tpot_ms": 10.0,
}  # fmt: skip


@pytest.mark.parametrize("name", ["speculation", "Speculation", "variant"])
@pytest.mark.parametrize(
    ("word", "variant"), [("mtp", "mtp"), ("eagle", "eagle"), ("none", ""), ("", ""), ("off", "")]
)
def test_a_column_says_how_tokens_are_drafted(name: str, word: str, variant: str) -> None:
    run = {**RUN, "op": "serving", name: word}
    assert fc.read(pd.DataFrame([run])).frame["variant"].tolist() == [variant]


def test_a_run_whose_two_columns_differ_is_refused() -> None:
    runs = pd.DataFrame(
        [{**RUN, "op": "serving", "concurrency": users} for users in (4, 8, 16, 32)]
    )
    runs["speculation"] = ["mtp", "none", "mtp", ""]
    runs["variant"] = ["eagle", "eagle", "none", "eagle"]
    measured = fc.read(runs)
    assert measured.frame["concurrency"].tolist() == [4, 32]
    assert measured.frame["variant"].tolist() == ["eagle", "eagle"]
    assert measured.rejected["reason"].tolist() == ["figures-contradict"] * 2


def test_the_default_is_how_tokens_are_drafted() -> None:
    run = pd.DataFrame([{**RUN, "op": "serving"}])
    assert fc.read(run, default={"speculation": "mtp"}).frame["variant"].tolist() == ["mtp"]


def test_times_of_tokens_and_requests_under_way_are_of_serving() -> None:
    measured = fc.read(pd.DataFrame([RUN]))
    assert measured.frame["op"].tolist() == ["serving"]
    assert [note.code for note in measured.notes] == ["op-taken"]


def test_a_run_of_serving_without_number_format_is_refused() -> None:
    run = {name: value for name, value in RUN.items() if name != "dtype"}
    with pytest.raises(fc.DataError, match="dtype_a"):
        fc.read(pd.DataFrame([run]))
