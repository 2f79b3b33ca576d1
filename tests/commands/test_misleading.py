"""What a user got wrong is said of what the user wrote: options by their names, the file, and what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import DataError, ParameterError

from .running import call

SHAPES = pd.DataFrame({"op": ["gemm"], "m": [64], "n": [1024], "k": [1024], "dtype_a": ["fp8"]})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "pair"
    fc.train(where={"m": (None, 64)}, models="OLS", jobs=1).save(folder)
    return folder


def on_cpu(name: str = "CPU-1T") -> pd.DataFrame:
    """Return products whose times grow with their work, as `measure` writes them of a CPU."""
    rows = []
    for m in (32, 64, 128, 256):
        for n in (128, 256, 512):
            for k in (64, 128, 512):
                rows.append(
                    {
                        "device": name,
                        "op": "gemm",
                        "dtype_a": "fp32",
                        "m": m,
                        "n": n,
                        "k": k,
                        "duration_us": 3.0 + 2e-5 * m * n * k + 0.1 * (m % 7),
                    }
                )
    return pd.DataFrame(rows)


def test_a_trace_without_a_gpu_asks_for_the_option(tmp_path: Path) -> None:
    kernels = []
    for number in range(4):
        times = {"ts": 10.0 * number, "dur": 8.0}
        where = {"pid": 0, "tid": 7, "args": {"device": 0, "stream": 7, "correlation": number}}
        kernels.append({"ph": "X", "cat": "kernel", "name": "k", **times, **where})
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": kernels}), encoding="utf-8")
    ended = call("project", path, "--target", "MI355X")
    assert ended.exit_code == 2
    assert "--host" in ended.stderr
    assert path.name in ended.stderr


def test_a_run_in_place_of_data_is_said_to_be_one(run: Path) -> None:
    for words in (("curve", run), ("train", run, "--target", "MI300X"), ("validate", run)):
        ended = call(*words)
        assert ended.exit_code == 2
        assert str(run) in ended.stderr
        assert "--target" not in ended.stderr
        assert "run folder" in ended.stderr


def test_a_run_with_a_host_says_whose_time_the_rows_lack(run: Path) -> None:
    for out in (None, "answers.parquet"):
        with pytest.raises(DataError, match="MI300X") as refused:
            fc.predict(run, SHAPES, out=out)
        assert "unit" not in str(refused.value)


def test_a_number_format_is_stated_by_the_names_that_columns_may_have() -> None:
    untold = SHAPES.drop(columns="dtype_a").assign(device="MI300X", duration_us=9.0)
    for name in ("dtype", "precision"):
        read = fc.read(untold, default={name: "bf16"})
        assert read.frame["dtype_a"].tolist() == ["bf16"]
    with pytest.raises(ParameterError, match="twice"):
        fc.read(untold, default={"dtype": "bf16", "dtype_a": "fp8"})


def test_a_device_that_the_data_name_is_trained_without_figures(tmp_path: Path) -> None:
    table = tmp_path / "cpu.csv"
    on_cpu().to_csv(table, index=False)
    ended = call(
        "train", table, "--target", "CPU-1T", "--models", "Additive", "--out", tmp_path / "run"
    )
    assert ended.exit_code == 0
    assert "device-without-figures" in ended.output
    run = fc.load(tmp_path / "run")
    assert run.selected["e_out"] < 20
    assert run.predict(on_cpu().head(3))["predicted_us"].notna().all()


def test_a_device_that_neither_catalogue_nor_data_name_is_refused() -> None:
    with pytest.raises(fc.FlopcastError, match="CPU-9T"):
        fc.train(on_cpu(), target="CPU-9T", models="Additive", jobs=1)


def test_from_one_device_without_figures_to_another() -> None:
    slow = on_cpu("CPU-1T")
    fast = on_cpu("CPU-8T").assign(duration_us=slow["duration_us"] / 4 + 1)
    run = fc.train(slow, fast, host="CPU-1T", target="CPU-8T", models="OLS", jobs=1)
    assert run.selected["e_out"] < 20


def test_few_rows_are_said_to_be_too_few_for_the_whole_suite() -> None:
    def codes(**how: object) -> str:
        found = fc.train(on_cpu(), target="CPU-1T", jobs=1, **how)
        return " ".join(found.metrics["data"]["notes"])

    assert "few-rows" not in codes(quick=True)
    assert "few-rows" not in codes(models="Additive")


def test_the_remark_on_few_rows_stands_with_the_whole_suite(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from flopcast.evaluation import competition
    from flopcast.models.suite import suite

    def short(*given: object, **how: object) -> object:
        return [one for one in suite(*given, **how) if one.name in ("OLS", "Additive")]

    monkeypatch.setattr(competition, "suite", short)
    found = fc.train(on_cpu(), target="CPU-1T", jobs=1)
    assert any("few-rows" in note for note in found.metrics["data"]["notes"])
