"""Times within a user's program: nesting, hooks that go, what is said of each module, and the cost of timing."""

from __future__ import annotations

import threading
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import DataError, ParameterError
from flopcast.measuring import inline_times
from flopcast.measuring.inline_times import InlineTimes
from flopcast.operators.call import row_major
from flopcast.readers import read


class Clock:
    """A clock that the test moves."""

    now = 0.0

    def mark(self) -> float:
        return self.now

    def wait(self) -> None:
        pass

    def us(self, begin: float, end: float) -> float:
        return end - begin


class Module:
    """As much of PyTorch's module as hooks need."""

    def __init__(self) -> None:
        self.before: list[Any] = []
        self.after: list[Any] = []

    def named_modules(self) -> list[tuple[str, Module]]:
        return [("", self)]

    def parameters(self) -> list[Any]:
        return []

    def _hook(self, hooks: list[Any], hook: Any) -> SimpleNamespace:
        hooks.append(hook)
        return SimpleNamespace(remove=lambda: hooks.remove(hook))

    def register_forward_pre_hook(self, hook: Any) -> SimpleNamespace:
        return self._hook(self.before, hook)

    def register_forward_hook(self, hook: Any, *, always_call: bool) -> SimpleNamespace:
        assert always_call
        return self._hook(self.after, hook)

    def __call__(self, given: Any) -> Any:
        for hook in self.before:
            hook(self, (given,))
        for hook in self.after:
            hook(self, (given,), given)
        return given


class Event:
    """An event that counts milliseconds, one for each that was recorded before."""

    recorded = 0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self, stream: str) -> None:
        assert stream == "stream"
        Event.recorded += 1
        self.at = Event.recorded

    def elapsed_time(self, later: Event) -> float:
        return float(later.at - self.at)


def test_events_in_the_stream_of_a_gpu_and_hooks_that_go(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[Any] = []
    cuda = SimpleNamespace(
        Event=Event, is_available=lambda: True, current_stream=lambda device: "stream", synchronize=waited.append,
        get_device_name=lambda device: "NVIDIA H100 80GB HBM3",
    )  # fmt: skip
    fake = SimpleNamespace(
        cuda=cuda, device=lambda word: SimpleNamespace(type=word), nn=SimpleNamespace(Identity=Module),
        zeros=lambda size: SimpleNamespace(add_=lambda one: None),
    )  # fmt: skip
    monkeypatch.setattr(inline_times, "import_torch", lambda: fake)
    model = Module()
    with pytest.raises(KeyError), fc.inline(model) as times:  # noqa: PT012
        model("x")
        raise KeyError
    assert (model.before, model.after) == ([], [])
    (row,) = times.table.to_dict("records")
    assert len(waited) == 1
    assert (row["device"], row["variant"], row["duration_us"]) == ("H100 SXM5", "Module", 1000.0)


def test_a_function_is_timed_whenever_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = SimpleNamespace(
        cuda=SimpleNamespace(is_available=lambda: False), get_num_threads=lambda: 1,
        device=lambda word: SimpleNamespace(type=word), nn=SimpleNamespace(Identity=Module),
        zeros=lambda size: SimpleNamespace(add_=lambda one: None),
    )  # fmt: skip
    monkeypatch.setattr(inline_times, "import_torch", lambda: fake)
    model = Module()

    @fc.inline(model, warmup=1)
    def step(given: str) -> Any:
        """Run."""
        return model(given)

    assert step.__doc__ == "Run."
    for calls in (1, 3):
        model("x")  # not within the function
        assert step("x") == step("x") == "x"
        found = step.times.table.set_index("kernel")
        assert found["repeats"].to_dict() == {"step": calls, "Module": calls}
    assert found["outer"].to_dict() == {"step": True, "Module": False}
    assert step.times.overhead_us > 0
    assert (model.before, model.after) == ([], [])


def test_modules_that_are_operators_have_their_dimensions() -> None:
    def tensor(*sizes: int) -> SimpleNamespace:
        return SimpleNamespace(shape=sizes, dtype="torch.float16", stride=lambda: row_major(sizes))

    def operator(kind: str, *sizes: int, **fields: Any) -> Any:
        module = type(kind, (), fields)()
        return inline_times._operator(module, inline_times._signature((tensor(*sizes),)))

    gemm = operator("Linear", 8, 16, weight=tensor(32, 16), bias=None)
    assert [gemm[name] for name in ("op", "m", "n", "k", "dtype_a")] == ["gemm", 8, 32, 16, "fp16"]
    window = {
        "stride": (2,),
        "padding": (1,),
        "dilation": (1,),
        "groups": 1,
        "padding_mode": "zeros",
    }
    conv = operator("Conv1d", 2, 4, 10, weight=tensor(6, 4, 3), bias=tensor(6), **window)
    assert [conv[name] for name in ("op", "in_channels", "out_channels", "out_w")] == [
        "conv",
        4,
        6,
        5,
    ]
    assert (
        operator(
            "Conv1d", 2, 4, 10, weight=tensor(6, 4, 3), bias=None, **{**window, "padding": "same"}
        )
        == {}
    )
    assert operator("ReLU", 8, 16)["op"] == "relu"
    assert operator("Dropout", 8, 16) == {}


def test_one_call_has_no_spread() -> None:
    clock: Any = Clock()
    times = InlineTimes(clock, "CPU-1T", calling_us=0.3)
    with times.region("once"):
        pass
    times.open = 0
    (row,) = times.table.to_dict("records")
    assert row["repeats"] == 1
    assert np.isnan(row["spread_us"])


def test_inclusive_and_own_times_of_nested_regions() -> None:
    clock: Any = Clock()
    ticks = count(step=100)
    # each hook takes 0.1 µs
    times = InlineTimes(clock, "CPU-1T", calling_us=0.3, now=lambda: next(ticks))
    for length in (10.0, 30.0, 20.0):
        with times.region("outer"):
            clock.now += 1
            for _ in range(2):
                with times.region("inner"):
                    clock.now += length
    times.open = 1
    with pytest.raises(DataError, match="block"):
        _ = times.table
    times.open = 0
    outer, inner = times.table.to_dict("records")
    assert (outer["kernel"], outer["op"], outer["variant"]) == ("outer", "application", "outer")
    assert [outer[name] for name in ("duration_us", "self_us", "spread_us", "repeats")] == [
        41.0,
        1.0,
        20.0,
        3,
    ]
    assert [inner[name] for name in ("duration_us", "self_us", "spread_us", "repeats")] == [
        20.0,
        20.0,
        10.0,
        6,
    ]
    assert outer["clock_share"] == pytest.approx(3 * 0.5 / 41)
    assert times.overhead_share == pytest.approx(9 * 0.5 / 123)


def test_threads_have_calls_of_their_own() -> None:
    clock: Any = Clock()
    times = InlineTimes(clock, "CPU-1T")

    def work() -> None:
        for _ in range(200):
            with times.region("outer"), times.region("inner"):
                pass

    with times.region("main"):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert times.table.set_index("kernel")["repeats"].to_dict() == {
        "main": 1,
        "outer": 800,
        "inner": 800,
    }


def test_what_raises_is_not_counted_and_closes_what_it_leaves_open() -> None:
    clock: Any = Clock()
    times = InlineTimes(clock, "CPU-1T")
    with pytest.raises(ZeroDivisionError), times.region("outer"):  # noqa: PT012
        times._enter(("inner", None))  # its hook is never called
        clock.now += 5
        _ = 1 / 0
    try:
        raise KeyError
    except KeyError:
        with times.region("later"):  # while something else is being handled
            clock.now += 7
    assert times.table[["kernel", "duration_us"]].to_numpy().tolist() == [["later", 7.0]]


def test_modules_of_a_model(torch: Any, tmp_path: Path) -> None:
    nn = torch.nn
    model = nn.Sequential(nn.Linear(16, 32), nn.Sequential(nn.GELU(), nn.Conv1d(8, 4, 3)))
    with torch.no_grad(), fc.inline(model, warmup=1) as times:
        for batch in (1, 2, 2, 2):
            model(torch.zeros(batch, 8, 16))
        for _ in range(2):
            with times.region("loss"):
                pass
    found = times.table.set_index("kernel")
    assert found["repeats"].to_dict() == {
        "Sequential": 3,
        "0": 3,
        "1": 3,
        "1.0": 3,
        "1.1": 3,
        "loss": 1,
    }
    linear = found.loc["0"]
    assert [linear[name] for name in ("op", "m", "n", "k", "dtype_a")] == [
        "gemm",
        16,
        32,
        16,
        "fp32",
    ]
    assert found["op"].tolist()[3:5] == ["gelu", "conv"]
    assert found.loc["1", "duration_us"] >= found.loc["1", "self_us"] >= 0
    assert times.overhead_us > 0
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in model.modules())
    times.save(tmp_path / "times.csv")
    again = read([tmp_path / "times.csv"]).frame
    assert sorted(again["op"]) == [
        "application",
        "application",
        "application",
        "conv",
        "gelu",
        "gemm",
    ]
    assert again["duration_us"].notna().all()


def test_shapes_are_rows_of_their_own(torch: Any) -> None:
    model = torch.nn.Linear(4, 4)
    with fc.inline(model) as times:
        model(torch.zeros(2, 4))
        model(torch.zeros(6, 4))
    assert times.table[["kernel", "m"]].to_numpy().tolist() == [["Linear", 2], ["Linear", 6]]
    assert isinstance(times.table, pd.DataFrame)


def test_an_exception_leaves_no_hook_behind(torch: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(8, 4))
    with pytest.raises(RuntimeError), fc.inline(model) as times:
        model(torch.zeros(2, 4))
    assert times.table["kernel"].tolist() == ["0"]
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in model.modules())


def test_what_cannot_be_timed(torch: Any) -> None:
    with fc.inline() as times:
        pass
    with pytest.raises(DataError, match="nothing was timed"):
        _ = times.table
    for wrong in ({"warmup": -1}, {"device": "no-such"}, {"device": "meta"}):
        with pytest.raises(ParameterError), fc.inline(**wrong):
            pass
