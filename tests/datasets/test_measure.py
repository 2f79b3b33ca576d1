"""The protocol of the embedded measurements."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.datasets import default_paths, measure
from flopcast.datasets.measure import cpu_names, mad_filter, main, pass_differences, provenance, summarise, time_call
from flopcast.errors import FlopcastError

CPUINFO = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nprocessor\t: 1\nmodel name\t: Some CPU @ 2 GHz\n"


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed (pip install flopcast[measure])")


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.mark.parametrize(
    ("samples", "kept"),
    [
        ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]),  # median 3, MAD 1
        ([1, 2, 3, 4, 10], [1, 2, 3, 4, 10]),  # the limit is inclusive: |10 - 3| = 7 x 1
        ([1, 2, 3, 4, 11], [1, 2, 3, 4]),
        ([-5, 2, 3, 4, 5], [2, 3, 4, 5]),  # either side
        ([7, 7, 7, 90], [7, 7, 7, 90]),  # no spread: nothing to judge by
    ],
)
def test_samples_beyond_seven_mads_are_removed(samples: list[float], kept: list[float]) -> None:
    assert mad_filter(np.array(samples, dtype=float)).tolist() == kept


def test_summary_is_that_of_the_samples_kept_in_microseconds() -> None:
    assert summarise([1000, 2000, 3000, 4000, 11000]) == {
        "duration_us": 2.5,
        "spread_us": 1.0,
        "repeats": 4,
        "outliers": 1,
    }


def test_a_call_is_warmed_up_and_timed_at_least_fifty_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(measure, "WARMUP_SECONDS", 0.0)
    calls = []
    result = time_call(lambda: calls.append(1))
    assert len(calls) == 5 + 50
    assert result["repeats"] + result["outliers"] == 50
    assert result["duration_us"] >= 0


def test_a_short_call_is_timed_until_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "MAX_REPEATS", 70)
    monkeypatch.setattr(measure, "MIN_SECONDS", 60.0)
    result = time_call(lambda: None)
    assert result["repeats"] + result["outliers"] == 70


def test_difference_of_the_passes_by_hand() -> None:
    table = pd.DataFrame(
        {
            "device": ["a", "b", "a", "b"],
            "op": ["gemm"] * 4,
            "m": [1.0, np.nan] * 2,
            "causal": [None, False] * 2,
            "duration_us": [10.0, 4.0, 11.0, 3.0],
            "repeats": [50, 51, 52, 53],
            "campaign": ["pass 1", "pass 1", "pass 2", "pass 2"],
        }
    )
    assert pass_differences(table).tolist() == [10.0, 25.0]


def test_the_machine_is_named(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text(CPUINFO, encoding="utf-8")
    assert cpu_names(tmp_path / "cpuinfo") == ["Some CPU @ 2 GHz"] * 2
    with pytest.raises(FlopcastError, match="names no CPU model"):
        cpu_names(tmp_path / "missing")


def test_provenance_has_the_keys_of_the_committed_file(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = SimpleNamespace(get_cpu_capability=lambda: "AVX2")
    stand_in = SimpleNamespace(__version__="9.9", backends=SimpleNamespace(cpu=cpu))
    monkeypatch.setattr(measure, "import_torch", lambda: stand_in)
    monkeypatch.setattr(measure, "cpu_names", lambda: ["Some CPU"] * 4)
    made_with = provenance()
    committed = json.loads(default_paths()[0].with_suffix(".json").read_text(encoding="utf-8"))
    assert list(made_with) == list(committed)
    assert {key: made_with[key] for key in ("warmup", "repeats", "mad_limit")} == {
        key: committed[key] for key in ("warmup", "repeats", "mad_limit")
    }
    assert (made_with["cpu"], made_with["logical_cpus"], made_with["torch"]) == ("Some CPU", 4, "9.9")


@pytest.mark.usefixtures("no_torch")
def test_without_torch_the_command_ends_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "out.parquet")]) == 2
    assert capsys.readouterr().err == 'error: measuring needs PyTorch: pip install "flopcast[measure]"\n'
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "message"), [("out.csv", "must end in .parquet"), ("nowhere/out.parquet", "folder does not exist")]
)
def test_a_place_that_cannot_be_written_is_refused_before_measuring(
    name: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / name)]) == 2
    assert message in capsys.readouterr().err


def test_the_command_writes_table_and_provenance(
    torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    workloads = [{"dtype_a": "fp32", "op": op, "rows": 4, "cols": 8} for op in ("add", "softmax")]
    monkeypatch.setattr(measure, "shapes", lambda: iter(workloads))
    monkeypatch.setattr(measure, "MIN_SECONDS", 0.0)
    threads = torch.get_num_threads()
    assert main([str(tmp_path / "out.parquet")]) == 0
    assert torch.get_num_threads() == threads
    table = pd.read_parquet(tmp_path / "out.parquet")
    assert table[["device", "op", "campaign"]].drop_duplicates().shape[0] == len(table) == 8
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.json", "out.parquet"]
    assert "From the first pass to the last a time changes by" in capsys.readouterr().out
