"""Measuring from beginning to end, and the bench: what makes a row's call."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flopcast.errors import DataError, ParameterError
from flopcast.measuring import measure as module
from flopcast.measuring.backend import Backend, Device
from flopcast.measuring.measure import Bench, measure
from flopcast.measuring.timing import Rule

ROW = {"op": "softmax", "dtype_a": "fp32", "rows": 2, "cols": 4}
QUICK = Rule(precision=0.9, least=6, least_seconds=0.0, seconds=2.0, rounds=2)
SHAPES = "op,dtype,m,n,k,rows,cols\ngemm,fp32,4,8,16,,\nsoftmax,fp32,,,,4,16\nadd,bf16,,,,4,16\n"


@pytest.fixture
def shapes(tmp_path: Path) -> Path:
    path = tmp_path / "shapes.csv"
    path.write_text(SHAPES, encoding="utf-8")
    return path


def test_a_kernel_of_the_suite(torch: Any) -> None:
    bench = Bench(Backend(torch, "cpu"))
    before = torch.get_num_threads()
    try:
        bench.use(Device("CPU-1T", 1), ROW)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    assert tuple(bench.build(ROW, 0)().shape) == (2, 4)
    assert not bench.timer.cold
    bench.close()


def test_a_function_of_the_user_takes_the_place_of_kernels(torch: Any) -> None:
    function: Any = SimpleNamespace(
        build=lambda backend, seed, row: lambda: (backend.word, seed, row["op"])
    )
    assert Bench(Backend(torch, "cpu"), function=function).build(ROW, 9)() == ("cpu", 9, "softmax")


def test_tf32_is_refused_on_a_cpu_but_is_a_users_own_affair(torch: Any) -> None:
    row, device = {"op": "gemm", "dtype_a": "tf32", "m": 2, "n": 2, "k": 2}, Device("CPU", 0)
    with pytest.raises(DataError, match="tf32"):
        Bench(Backend(torch, "cpu")).use(device, row)
    own: Any = SimpleNamespace(build=None)
    Bench(Backend(torch, "cpu"), function=own).use(device, row)


def test_the_precision_is_set_for_kernels_alone_and_given_back(
    monkeypatch: pytest.MonkeyPatch, torch: Any
) -> None:
    told: list[str] = []
    monkeypatch.setattr(Backend, "multiply_as", lambda self, dtype: told.append(dtype))
    monkeypatch.setattr(Backend, "restore", lambda self: told.append("restored"))
    own: Any = SimpleNamespace(build=None)
    for function in (None, own):
        bench = Bench(Backend(torch, "cpu"), function=function)
        bench.use(Device("CPU", 0), ROW)
        bench.close()
    assert told == ["fp32", "restored", "restored"]


def test_collectives_need_several_gpus(torch: Any) -> None:
    bench = Bench(Backend(torch, "cpu"))
    assert bench.ranks == 1
    with pytest.raises(DataError, match="two GPUs"):
        bench.build(
            {"op": "collective", "variant": "all_reduce", "message_bytes": 8, "ranks": 2}, 0
        )
    bench.close()


def test_processes_are_started_once_and_ended(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    class Together:
        def __init__(self, backend: Any, ranks: int) -> None:
            done.append(f"start {ranks}")

        def build(self, row: Any, seed: int) -> Any:
            return lambda: "called"

        def close(self) -> None:
            done.append("end")

    monkeypatch.setattr(module, "Group", Together)
    monkeypatch.setattr(Bench, "ranks", 4)
    bench = Bench(Backend(torch, "cpu"))
    for _ in range(2):
        assert bench.build({"op": "collective"}, 0)() == "called"
    bench.close()
    bench.close()
    assert done == ["start 4", "end"]


def test_the_threads_of_the_process_stay_what_they_were(shapes: Path, torch: Any) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        found = measure(shapes, device="cpu", threads=[1], rule=QUICK, device_name="box")
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert set(found.table["device"]) == {"box-1T"}
    assert found.differences.empty
    assert found.provenance["pass_difference_percent"] is None


def test_where_every_row_fails_the_first_reason_is_told(tmp_path: Path, torch: Any) -> None:
    path = tmp_path / "shapes.csv"
    path.write_text("op,variant,dtype,rows,cols\nsoftmax,strided,fp32,4,16\n", encoding="utf-8")
    with pytest.raises(DataError, match="softmax strided"):
        measure(path, out=tmp_path / "runs.csv", device="cpu", rule=QUICK)
    assert [one.name for one in tmp_path.iterdir()] == ["shapes.csv"]


def test_a_function_of_the_user_with_and_without_a_list(
    shapes: Path, tmp_path: Path, torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_kernels_here.py").write_text(
        "import torch\ndef mm(m, n, k):\n    a, b = torch.rand(m, k), torch.rand(k, n)\n    return lambda: a @ b\n"
        "def once():\n    assert not torch.is_inference_mode_enabled()\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found = measure(shapes, op=["gemm"], function="own_kernels_here:mm", device="cpu", rule=QUICK)
    assert found.table[["op", "m", "kernel"]].to_numpy().tolist() == [
        ["gemm", 4, "own_kernels_here:mm"]
    ]
    found = measure(function="own_kernels_here:once", device="cpu", rule=QUICK)
    assert found.table["variant"].tolist() == ["own_kernels_here:once"]


@pytest.mark.parametrize(
    ("ranks", "kernels", "name", "noted"),
    [(1, None, None, True), (1, ["gemm"], None, False), (2, None, None, False)],
)
def test_collectives_on_one_device_are_left_out_with_a_note(
    ranks: int, kernels: list[str] | None, name: str | None, noted: bool
) -> None:
    bench: Any = SimpleNamespace(backend=SimpleNamespace(is_gpu=ranks > 1), ranks=ranks)
    grid = module._grid(None, name, kernels, None, bench)
    assert bool(grid.notes) == noted
    assert any(row["op"] == "collective" for row in grid.rows) == (ranks > 1)


def test_passes_and_resume_need_what_they_need() -> None:
    with pytest.raises(ParameterError, match="passes"):
        measure(passes=0)
    with pytest.raises(ParameterError, match="resume"):
        measure(resume=True)
