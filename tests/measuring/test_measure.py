"""The bench: which of kernels, collectives and functions makes a row's call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flopcast.errors import DataError
from flopcast.measuring import measure as module
from flopcast.measuring.backend import Backend, Device
from flopcast.measuring.measure import Bench

ROW = {"op": "softmax", "dtype_a": "fp32", "rows": 2, "cols": 4}


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
    function: Any = SimpleNamespace(build=lambda backend, seed, row: lambda: (backend.word, seed, row["op"]))
    assert Bench(Backend(torch, "cpu"), function=function).build(ROW, 9)() == ("cpu", 9, "softmax")


def test_tf32_is_refused_on_a_cpu_but_is_a_users_own_affair(torch: Any) -> None:
    row, device = {"op": "gemm", "dtype_a": "tf32", "m": 2, "n": 2, "k": 2}, Device("CPU", 0)
    with pytest.raises(DataError, match="does not compute in tf32"):
        Bench(Backend(torch, "cpu")).use(device, row)
    own: Any = SimpleNamespace(build=None)
    Bench(Backend(torch, "cpu"), function=own).use(device, row)


def test_the_precision_is_set_for_kernels_alone_and_given_back(monkeypatch: pytest.MonkeyPatch, torch: Any) -> None:
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
    with pytest.raises(DataError, match="two GPUs or more"):
        bench.build({"op": "collective", "variant": "all_reduce", "message_bytes": 8, "ranks": 2}, 0)
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
