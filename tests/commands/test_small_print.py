"""What commands say where little is asked: options given twice, terminals of ASCII, metrics, reasons, laws."""

from __future__ import annotations

import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.__main__ import main
from flopcast.errors import DataError
from flopcast.tests.commands.predicted_runs import csv
from flopcast.tests.commands.running import call


def rows(**columns: object) -> pd.DataFrame:
    """Return products measured on one GPU, with columns of 48 random values, or of what is given."""
    rng, shapes = (
        np.random.default_rng(0),
        [(m, n) for m in (16, 32, 64, 128, 256, 512) for n in range(256, 2304, 256)],
    )
    frame = pd.DataFrame(shapes, columns=["m", "n"]).assign(
        k=512, op="gemm", dtype_a="fp8", device="MI300X"
    )
    frame["duration_us"] = 3 + frame["m"] * frame["n"] / 1e5
    return frame.assign(**{name: rng.uniform(1e3, 9e3, len(frame)) for name in columns})


def test_a_terminal_of_ascii_loses_signs_and_no_output(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = BytesIO()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(printed, encoding="ascii"))
    monkeypatch.setattr(sys, "argv", ["flopcast", "show", str(trained)])
    with pytest.raises(SystemExit) as ended:
        main()
    sys.stdout.flush()
    assert (ended.value.code, b"MI355X" in printed.getvalue()) == (0, True)


@pytest.mark.parametrize(
    "line",
    ["train --target MI300X --target MI355X", "train --seed 1 --seed=2",
     "forecast llama --gpu MI300X --gpu MI325X"],
)  # fmt: skip
def test_an_option_of_one_value_is_not_taken_twice(line: str) -> None:
    done = call(*line.split())
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize(
    ("line", "notes"),
    [
        ("gpus H100 B200", 1),
        ("gpus H100-SXM5 MI300X", 0),
        ("validate --host H100 --target H100", 1),
    ],
)
def test_a_short_name_that_could_mean_several_gpus_is_noted_once(line: str, notes: int) -> None:
    said = [text for text in call(*line.split()).stderr.splitlines() if text.startswith("note: ")]
    assert [("H100 SXM5" in text, "H100 PCIe" in text) for text in said] == [(True, True)] * notes


def test_options_that_take_several_values_and_switches_are() -> None:
    assert call(*["gpus", "--json", "--json"]).exit_code == 0


@pytest.mark.parametrize("name", ["Cycles", "counter.cycles"])
def test_a_measured_column_is_a_metric_whatever_its_case(name: str) -> None:
    run = fc.train(rows(**{name: 1}), target="MI300X", metric="cycles", models=["OLS"], jobs=1)
    assert run.metrics["data"]["metric"] == name


def test_a_counter_that_is_predicted_is_no_feature() -> None:
    run = fc.train(
        rows(**{"counter.INSTS": 1}),
        target="MI300X",
        metric="counter.INSTS",
        models=["OLS"],
        jobs=1,
    )
    assert "counter.INSTS" not in run.dataset.X


def test_the_reason_of_most_rows_is_given_where_no_row_can_be_predicted(
    run: Path, tmp_path: Path
) -> None:
    other = [f"LabChip,gemm,fp8,{m},1024,2048,9" for m in (64, 128, 256)]
    with pytest.raises(DataError) as told:
        fc.predict(run, csv(tmp_path, "LabChip,gemm,bf16,64,1024,2048,0", *other))
    assert "fp8" in str(told.value).partition("(3 rows)")[0]


def test_a_law_says_why_it_says_nothing_of_applications() -> None:
    rng = np.random.default_rng(0)
    one = pd.DataFrame({"op": "application", "variant": [f"app{place}" for place in range(20)]})
    one["duration_us"] = rng.uniform(1e5, 1e6, 20)
    both = [
        one.assign(device="MI300X"),
        one.assign(device="MI355X", duration_us=one["duration_us"] / 2),
    ]
    run = fc.train(both, host="MI300X", target="MI355X", models=["Additive"], jobs=1)
    errors = run.table.set_index("name")["error"]
    assert set(errors["roofline scaling"]) == {"the work of 20 of 20 rows is unknown"}
