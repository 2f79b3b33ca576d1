"""Values of the wrong type, and cells that no file could hold, are refused in one line by every function."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import DataError, FlopcastError, ParameterError
from flopcast.tests.readers.kineto.made_up import write_trace
from flopcast.tests.report.pages import printed

ODD = [10**400, 1 + 2j, [1], {"a": 1}, {1}, b"\xff", np.array([1, 2]), pd.NA, object(), "x" * 400]
SERVED: dict[str, Any] = {"gpu": "MI300X", "batch": 8, "input_len": 128, "output_len": 64}


def answers(*given: Any, **asked: Any) -> int:
    """Return how many settings have an answer; a refusal has none."""
    try:
        table = fc.forecast(*given, **asked).table
    except FlopcastError:
        return 0
    return int(table["predicted"].notna().sum())


@pytest.mark.parametrize("column", ["model", "gpu", "batch", "dtype", "measured"])
def test_a_case_of_an_odd_value_is_refused(column: str) -> None:
    for odd in ODD:
        cases = pd.DataFrame([{"model": "llama-3.1-8b", **SERVED, "dtype": "bf16", "measured": 1}])
        cases[column] = pd.Series([odd], dtype=object)
        if odd is pd.NA and column in ("dtype", "measured"):  # may be left out
            assert answers(cases=cases) == 1
            continue
        assert not answers(cases=cases)


@pytest.mark.parametrize("name", ["need", "release", "tp"])
def test_a_keyword_of_an_odd_value_is_refused_by_its_name(name: str) -> None:
    for odd in ODD:
        asked = {**SERVED, name: odd}
        if name == "tp" and isinstance(odd, list | np.ndarray | set):  # several are a grid
            continue
        if name != "need" and odd is pd.NA:
            assert answers("llama-3.1-8b", **asked) == 1
            continue
        assert not answers("llama-3.1-8b", **asked)


@pytest.mark.parametrize("name", ["gpus", "batch", "tp"])
@pytest.mark.parametrize("true", [True, np.True_])
def test_a_truth_value_is_no_count(name: str, true: object) -> None:
    with pytest.raises(ParameterError, match=f"{name} must be a whole number"):
        fc.forecast("llama-3.1-8b", **{**SERVED, name: true})


@pytest.mark.parametrize("name", ["seed", "replicates", "folds"])
def test_a_truth_value_is_no_number(name: str) -> None:
    with pytest.raises(ParameterError, match=f"{name} must be a whole number"):
        fc.validate(where={"m": (None, 64)}, **{name: True})


def loaded(odd: Any) -> object:
    return fc.load(odd)


def trained_by_processes(odd: Any) -> object:
    return fc.train(where={"m": (None, 64)}, models=["OLS"], jobs=odd)


def validated(odd: Any) -> object:
    return fc.validate(where={"m": (None, 64)}, replicates=odd)


@pytest.mark.parametrize("ask", [loaded, trained_by_processes, validated])
def test_what_is_no_path_and_no_number_is_refused(ask: Callable[[Any], object]) -> None:
    for odd in ODD:
        if ask is validated and isinstance(odd, int):  # it would take for ever
            continue
        with pytest.raises(FlopcastError):
            ask(odd)


def test_a_default_is_text_or_a_number() -> None:
    rows = pd.DataFrame({"op": "gemm", "dtype": "bf16", "m": [16], "n": 16, "k": 16, "us": 2.0})
    for odd in ODD:
        if isinstance(odd, str | int):
            assert fc.read(rows, default={"device": odd}).frame["device"].tolist() == [str(odd)]
            continue
        with pytest.raises(
            ParameterError, match="default must be text, a number or a file for device"
        ):
            fc.read(rows, default={"device": odd})


@pytest.mark.parametrize(
    "name", ["x" * 400, "x" * 400 + ".json", "a\0b", "MI300X," * 60 + "MI300X"]
)
def test_a_name_that_cannot_be_that_of_a_file_is_no_file(name: str) -> None:
    asks: list[Callable[[], object]] = [
        lambda: fc.read(name),
        lambda: fc.load(name),
        lambda: fc.show(name),
        lambda: fc.compare(name, name),
        lambda: fc.scale(name, fit=[8, 16]),
        lambda: fc.read_predictions(name),
        lambda: fc.forecast(name, **SERVED),
        lambda: fc.forecast("llama-3.1-8b", gpu="MI300X", release=f"{name}.parquet"),
        lambda: fc.gpu(f"{name}.toml"),
    ]
    for ask in asks:
        with pytest.raises(FlopcastError):
            ask()


@pytest.mark.parametrize("suffix", ["", ".html", ".json", ".csv"])
@pytest.mark.parametrize("name", ["x" * 400, "y/" * 3000, "a\0b", "\ud800"])
def test_a_result_is_not_saved_under_a_name_that_no_file_can_have(
    name: str, suffix: str, tmp_path: Path
) -> None:
    found = fc.forecast("llama-3.1-8b", **SERVED)
    with pytest.raises(DataError, match="name of a file"):
        found.save(tmp_path / f"{name}{suffix}")
    with pytest.raises(DataError, match="name of a file"):
        found.save_table(tmp_path / f"{name}.csv")
    assert list(tmp_path.iterdir()) == []


def test_many_devices_are_not_taken_for_a_file(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "trace.json")
    devices = ",".join(["MI355X", "H100", "H200", "B200", "MI325X"])
    assert len(devices * 12) > 255  # as long as no name of a file
    with pytest.raises(FlopcastError, match="MI355X"):
        fc.project_each(trace, ",".join([devices] * 12))


@pytest.mark.parametrize("suffix", [".toml", ".csv", ".json", ".parquet"])
def test_a_pipe_is_not_waited_for(suffix: str, tmp_path: Path) -> None:
    pipe = tmp_path / f"pipe{suffix}"
    os.mkfifo(pipe)
    trace = write_trace(tmp_path / "trace.json")
    asks: list[Callable[[], object]] = [
        lambda: fc.read(pipe),
        lambda: fc.forecast(pipe, **SERVED),
        lambda: fc.project(trace, "MI355X", network=str(pipe)),
        lambda: fc.project(trace, str(pipe)),
        lambda: fc.forecast("llama-3.1-8b", **SERVED, release=str(pipe)),
        lambda: fc.forecast("llama-3.1-8b", **{**SERVED, "gpu": str(pipe)}),
        lambda: fc.forecast(cases=pipe),
        lambda: fc.calibrate(pipe),
        lambda: fc.calibrate(pipe, prior=str(pipe)),
        lambda: fc.compare(pipe, pipe),
        lambda: fc.read_predictions(pipe),
        lambda: fc.scale(pipe, fit=[8, 16]),
        lambda: fc.scale_terms(pipe),
        lambda: fc.load(pipe),
    ]
    for ask in asks:
        with pytest.raises(FlopcastError):
            ask()


def products_in(unit_factor: float, rows: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    shapes = pd.DataFrame({"op": "gemm", "dtype_a": "bf16", "m": rng.integers(512, 4096, rows)})
    shapes["n"] = 1024 * (1 + np.arange(rows) % 4)
    shapes["k"] = 4096
    us = 10 + shapes["m"] * shapes["n"] * 1e-5
    us[:1] = 1.0
    host = shapes.assign(device="MI300X", duration_us=us * unit_factor)
    target = shapes.assign(device="MI355X", duration_us=us / 2 * unit_factor)
    return pd.concat([host, target], ignore_index=True)


def test_rows_left_out_are_named_where_too_few_are_left() -> None:
    with pytest.raises(fc.DataError, match=r"left out: .*78 rows impossible-duration"):
        fc.train(products_in(1e9), host="MI300X", target="MI355X", models="OLS", jobs=1)


def test_a_target_that_never_varies_is_told_of() -> None:
    rows = products_in(1.0)
    rows.loc[rows["device"] == "MI355X", "duration_us"] = 10.0
    run = fc.train(rows, host="MI300X", target="MI355X", models="OLS", jobs=1)
    assert "never-varies" in str(run.metrics["data"]["notes"])
    rng = np.random.default_rng(1)
    noise = np.exp(rng.normal(0, 0.05, len(rows)))
    rows["m"] += 1
    rows["duration_us"] *= noise
    sentences = printed(run.check(rows).document())
    assert "more than 1,000 times" in sentences
