"""Collectives among the GPUs of one machine: a process for each, led by the one that measures.

Every process must make the same calls, but only the leader knows when it has sampled enough. So the others wait at a
pipe: each call of the leader first sends a word to all of them. On a GPU calls are only enqueued, and the leader's
queue is held back meanwhile (`timing.EventTimer`), so the messages are not in the times.
"""

from __future__ import annotations

import datetime
import json
import multiprocessing
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from ..errors import DataError
from ..operators.operands import sizes, unknown, word
from .backend import Backend, Operands, import_torch
from .timing import Call

_GO, _QUIT = b"go", b"quit"
_PATIENCE_SECONDS = 120.0

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast")
"""Variants that can be measured, under the names of rccl-tests."""


class Group:
    """Processes that make the collective calls of the leader, this one.

    Rank r has GPU r; on CPUs (for tests) all share the host.

    Raises
    ------
    DataError
        There are fewer than two ranks, or the leader's device is not the first GPU.
    """

    def __init__(self, backend: Backend, ranks: int) -> None:
        if ranks < 2:
            raise DataError("collectives need two GPUs or more: leave them out")
        if backend.is_gpu and backend.index:
            raise DataError("collectives are led by the first GPU: measure them on cuda:0")
        self.backend, self.ranks = backend, ranks
        context = multiprocessing.get_context("spawn")
        address = f"tcp://127.0.0.1:{_free_port()}"
        pipes = [context.Pipe() for _ in range(1, ranks)]
        self._pipes = [pipe for pipe, _ in pipes]
        self._processes = [
            context.Process(target=_follow, args=(rank, ranks, address, backend.is_gpu, theirs), daemon=True)
            for rank, (_, theirs) in enumerate(pipes, start=1)
        ]
        for process in self._processes:
            process.start()
        _join(backend.torch, 0, ranks, address, gpu=backend.is_gpu)

    def build(self, row: Mapping[str, Any], seed: int) -> Call:
        """Return the call of a row; the other processes prepare theirs.

        Raises
        ------
        DataError
            The row has another number of ranks, an unknown collective, or a message that cannot be shared out.
        """
        call = collective(Operands(self.backend, seed), row, self.ranks)
        self._send(json.dumps({"row": dict(row), "seed": seed}).encode())

        def together() -> None:
            self._send(_GO)
            call()

        return together

    def close(self) -> None:
        """End the other processes; one that is gone already is no reason to fail."""
        for pipe in self._pipes:
            with suppress(OSError):
                pipe.send_bytes(_QUIT)
        self.backend.torch.distributed.destroy_process_group()
        for process in self._processes:
            process.join(_PATIENCE_SECONDS)

    def _send(self, message: bytes) -> None:
        for pipe in self._pipes:
            pipe.send_bytes(message)


def collective(make: Operands, row: Mapping[str, Any], ranks: int) -> Callable[[], Any]:
    """Return one rank's call. The message is the larger of input and output, in bytes.

    Raises
    ------
    DataError
        As for `Group.build`.
    """
    (asked,), (message,) = sizes(row, "ranks"), sizes(row, "message_bytes")
    if asked != ranks:
        raise DataError(f"rows of {asked} ranks cannot be measured here: there are {ranks} GPUs")
    if (name := word(row, "variant")) not in COLLECTIVES:
        raise unknown(row, "variant", ", ".join(COLLECTIVES))
    dtype = word(row, "dtype_a") or "fp32"
    part = make.dtype(dtype).itemsize * ranks
    if message % part:
        raise DataError(f"message_bytes must be a multiple of {part} ({ranks} ranks, {dtype}), got {message}")
    whole, share = message // part * ranks, message // part
    distributed = make.torch.distributed
    if name in ("all_reduce", "broadcast"):
        x = make.tensor(dtype, whole)
        return (lambda: distributed.all_reduce(x)) if name == "all_reduce" else lambda: distributed.broadcast(x, 0)
    out_size, in_size = {"all_gather": (whole, share), "reduce_scatter": (share, whole)}.get(name, (whole, whole))
    out, x = make.tensor(dtype, out_size), make.tensor(dtype, in_size)
    call = {
        "all_gather": distributed.all_gather_into_tensor,
        "reduce_scatter": distributed.reduce_scatter_tensor,
        "alltoall": distributed.all_to_all_single,
    }[name]
    return lambda: call(out, x)


def _follow(rank: int, ranks: int, address: str, gpu: bool, pipe: Connection) -> None:
    """Do what the leader says until it says to quit, or is gone.

    Ctrl-C goes to all processes of a terminal; it is for the leader, who then says to quit.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch = import_torch()
    backend = Backend(torch, f"cuda:{rank}" if gpu else "cpu")
    _join(torch, rank, ranks, address, gpu=gpu)
    calls: list[Call] = []
    with torch.inference_mode():
        while True:
            try:
                message = pipe.recv_bytes()
            except EOFError:
                return
            if message == _QUIT:
                break
            if message == _GO:
                calls[-1]()
            else:
                told = json.loads(message)
                calls = [collective(Operands(backend, told["seed"] + rank), told["row"], ranks)]
    torch.distributed.destroy_process_group()


def _join(torch: Any, rank: int, ranks: int, address: str, *, gpu: bool) -> None:
    torch.distributed.init_process_group(
        "nccl" if gpu else "gloo",
        init_method=address,
        rank=rank,
        world_size=ranks,
        timeout=datetime.timedelta(seconds=_PATIENCE_SECONDS),
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
