"""Collectives among processes: gloo on this machine's CPU stands in for several GPUs."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from flopcast.errors import DataError
from flopcast.measuring.backend import COLLECTIVES, Backend, Group, Operands, collective

ROW = {"op": "collective", "dtype_a": "fp32", "message_bytes": 64, "ranks": 2}


@pytest.mark.long
def test_all_processes_make_the_calls_of_the_leader(torch: Any) -> None:
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch was built without torch.distributed")
    group = Group(Backend(torch, "cpu"), 2)
    try:
        with torch.inference_mode():
            for name in ("all_reduce", "broadcast", "all_reduce"):
                call = group.build({**ROW, "variant": name}, seed=3)
                for _ in range(4):
                    call()
    finally:
        group.close()
    assert [process.exitcode for process in group._processes] == [0]


@pytest.mark.long
def test_followers_leave_ctrl_c_to_the_leader(torch: Any) -> None:
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch was built without torch.distributed")
    group = Group(Backend(torch, "cpu"), 2)
    (follower,) = group._processes
    try:
        with torch.inference_mode():
            call = group.build({**ROW, "variant": "all_reduce"}, seed=3)
            call()
            os.kill(follower.pid, signal.SIGINT)
            call()
    finally:
        group.close()
    assert follower.exitcode == 0


def test_a_follower_that_is_gone_does_not_keep_the_others_from_ending() -> None:
    told: list[bytes] = []

    def broken(message: bytes) -> None:
        raise BrokenPipeError

    group: Any = object.__new__(Group)
    group._pipes = [SimpleNamespace(send_bytes=broken), SimpleNamespace(send_bytes=told.append)]
    group._processes = [SimpleNamespace(join=lambda seconds: told.append(b"joined"))]
    distributed = SimpleNamespace(destroy_process_group=lambda: told.append(b"destroyed"))
    group.backend = SimpleNamespace(torch=SimpleNamespace(distributed=distributed))
    group.close()
    assert told == [b"quit", b"destroyed", b"joined"]


@pytest.mark.parametrize("name", COLLECTIVES)
def test_the_message_is_the_larger_of_input_and_output(
    name: str, torch: Any, monkeypatch: Any
) -> None:
    names = (
        "all_reduce",
        "broadcast",
        "all_gather_into_tensor",
        "reduce_scatter_tensor",
        "all_to_all_single",
    )
    seen: list[Any] = []
    for one in names:
        monkeypatch.setattr(
            torch.distributed, one, lambda *given: seen.extend(given), raising=False
        )
    collective(Operands(Backend(torch, "cpu"), 0), {**ROW, "variant": name}, 2)()
    elements = [x.numel() for x in seen if isinstance(x, torch.Tensor)]
    assert max(elements) * 4 == 64
    assert min(elements) * 4 == (32 if name in ("all_gather", "reduce_scatter") else 64)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"ranks": 4}, "GPUs"),
        ({"variant": "gossip"}, "known here is all_reduce"),
        ({"message_bytes": 60}, "multiple of 8"),
    ],
)
def test_rows_that_do_not_fit_the_group_are_refused(
    changed: dict[str, Any], message: str, torch: Any
) -> None:
    with pytest.raises(DataError, match=message):
        collective(
            Operands(Backend(torch, "cpu"), 0), {**ROW, "variant": "all_reduce", **changed}, 2
        )


def test_one_device_has_no_collectives(torch: Any) -> None:
    with pytest.raises(DataError, match="two GPUs"):
        Group(Backend(torch, "cpu"), 1)
