"""Chakra execution traces of what was projected or forecast, for simulators of networks (ASTRA-sim and its like).

A simulator computes the times of collectives from their type and size, and replays all others as
the file says; so a node has its time on the target GPU, what it waits for, and a collective its
message. Times of nodes are whole microseconds: starts and ends are rounded, not durations, so their
sum keeps within one. What kept the GPU idle (the CPU launched late) is a node of the CPU of its
own. Of a collective `comm_size` is the input of one rank: of an all-gather the message divided by
the ranks.

The wire format is that of `schema/protobuf/et_def.proto` of github.com/mlcommons/chakra: messages
of protobuf, each behind its length, first the `GlobalMetadata`, then a `Node` each.
`readers.execution_trace` reads it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from .. import __version__
from ..output import check_output, whole_folder
from ..table.problems import codes_of
from ..traces.quality import queue_codes
from .collective_laws import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    BROADCAST,
    GATHER,
    REDUCE,
    REDUCE_SCATTER,
    SCATTER,
    collectives_of,
)

_TYPES: Final = {
    ALL_REDUCE: 0,
    REDUCE: 1,
    ALL_GATHER: 2,
    GATHER: 3,
    SCATTER: 4,
    BROADCAST: 5,
    ALL_TO_ALL: 6,
    REDUCE_SCATTER: 7,
}
"""`CollectiveCommType`."""
# `NodeType`
_COMPUTES = 4
_COMMUNICATES = 7
# fields of `AttributeProto` by the kind of value
_INT64 = 9
_UINT64 = 13
_BOOL = 27
_STRING = 29
IDLE: Final = "idle"
SPREAD: Final = "spread"
"""Attribute of the metadata: standard deviation of the logarithm of what is computed, which readers give back."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One node: its time in µs, the places of the tasks that it waits for, and its kind.

    ``collective`` is a name in `collective_laws.COLLECTIVES`, with the message as there (the larger
    of input and output); ``flops`` and ``moved_bytes`` are 0 where they are unknown. Point-to-point
    messages have no node type without their peer: they are computation of their time.
    """

    name: str
    start_us: float
    end_us: float
    after: tuple[int, ...] = ()
    on_cpu: bool = False
    collective: str = ""
    message_bytes: float = 0.0
    ranks: int = 0
    flops: float = 0.0
    moved_bytes: float = 0.0


def chakra_name(rank: int) -> str:
    """Return the name of a rank's file."""
    return f"chakra.{rank}.et"


def write_chakra(
    folder: Path, ranks: Mapping[int, Sequence[Task]], about: Mapping[str, str]
) -> None:
    """Write ``chakra.RANK.et`` for each rank into a folder, whole or not at all.

    ``about`` becomes attributes of the metadata. Raises DataError: the folder holds other files
    (those of other ranks too), or cannot be written.
    """
    check_output(folder, [chakra_name(rank) for rank in ranks])
    attributes = {"made_by": f"flopcast {__version__}", **about}
    header = b"".join(
        _field(2, _attribute(name, _STRING, text)) for name, text in attributes.items()
    )
    with whole_folder(folder) as unfinished:
        for rank, tasks in ranks.items():
            with (unfinished / chakra_name(rank)).open("wb") as file:
                file.write(_delimited(_text(1, "0.0.4") + header))
                file.writelines(
                    _delimited(_node(number, task)) for number, task in enumerate(tasks)
                )


def tasks_of(activities: pd.DataFrame, start_ns: pd.Series) -> dict[int, list[Task]]:
    """Return the tasks of each rank of a projected trace, ranks that the trace does not state counted from 0.

    ``activities`` is a dispatch table with `projected_us`, and `flops` and `bytes_moved` where they
    are known; ``start_ns`` is when each starts on the target. An activity waits for the one before
    it on its queue, and where the queue was idle in between, for what had ended last on its device.
    """
    rank = activities["rank"].astype("Int64")
    process = pd.Series(
        codes_of(activities[name] for name in ("process", "gpu")), index=activities.index
    )
    stated = rank.notna().all() and not process.groupby(rank).nunique().gt(1).any()
    if stated:
        members = rank.to_numpy(dtype=np.int64)
    else:
        members = process.to_numpy()
    table = activities.assign(
        start_us=start_ns.to_numpy() / 1e3,
        queue=queue_codes(activities),
        collective=collectives_of(activities),
    ).sort_values("start_us", kind="stable")
    order = pd.Series(members, index=activities.index)[table.index].to_numpy()
    first = float(table["start_us"].min())
    return {int(one): list(_of_rank(table[order == one], first)) for one in np.unique(order)}


def _of_rank(table: pd.DataFrame, first_us: float) -> Iterator[Task]:
    last: dict[int, tuple[float, int]] = {}  # of each queue, when its last task ends
    running: list[tuple[float, int]] = []
    ended = (first_us, -1)
    count = 0
    sizes = [
        table[name].astype("Float64").fillna(0.0) for name in ("collective_bytes", "group_size")
    ]
    work = [
        table[name].fillna(0.0) if name in table else np.zeros(len(table))
        for name in ("flops", "bytes_moved")
    ]
    columns = (table[name] for name in ("name", "start_us", "projected_us", "queue", "collective"))
    for name, start, us, queue, collective, message, ranks, flops, moved in zip(
        *columns, *sizes, *work, strict=True
    ):
        while running and running[0][0] <= start:
            ended = max(ended, heapq.heappop(running))
        before = last.get(queue, (first_us, -1))
        if before[0] >= start:
            after = {before[1]}
        else:
            after = {before[1], ended[1]}
        latest = max(before[0], ended[0])
        waits = tuple(sorted(after - {-1}))
        if round(start - first_us) > round(latest - first_us):
            yield Task(
                name=IDLE,
                start_us=latest - first_us,
                end_us=start - first_us,
                after=waits,
                on_cpu=True,
            )
            waits = (count,)
            count = count + 1
        end = start + us
        is_collective = collective in _TYPES and message > 0 and ranks > 1
        yield Task(
            name=str(name),
            start_us=start - first_us,
            end_us=end - first_us,
            after=waits,
            collective=collective if is_collective else "",
            message_bytes=message if is_collective else 0.0,
            ranks=int(ranks) if is_collective else 0,
            flops=flops,
            moved_bytes=moved,
        )
        heapq.heappush(running, (end, count))
        last[queue] = max(before, (end, count))
        count += 1


def _node(number: int, task: Task) -> bytes:
    start = round(task.start_us)
    end = round(task.end_us)
    attributes = [_attribute("is_cpu_op", _BOOL, task.on_cpu)]
    if task.collective:
        bytes_sent = task.message_bytes / (task.ranks if task.collective == ALL_GATHER else 1)
        attributes += [
            _attribute("comm_type", _INT64, _TYPES[task.collective]),
            _attribute("comm_size", _INT64, round(bytes_sent)),
            _attribute("pg_size", _INT64, task.ranks),
        ]
    elif task.flops or task.moved_bytes:
        attributes += [
            _attribute("num_ops", _INT64, round(task.flops)),
            _attribute("tensor_size", _UINT64, round(task.moved_bytes)),
        ]
    numbers = {
        1: number,
        3: _COMMUNICATES if task.collective else _COMPUTES,
        6: start,
        7: max(end - start, 0),
    }
    # 0 is what an absent number means
    parts = [
        _varint(field << 3) + _varint(value) if value else b"" for field, value in numbers.items()
    ]
    packed = b"".join(_varint(one) for one in task.after)
    parts[1:1] = [_text(2, task.name)]
    if packed:
        parts[3:3] = [_field(5, packed)]
    else:
        parts[3:3] = []
    return b"".join([*parts, *(_field(10, one) for one in attributes)])


def _attribute(name: str, kind: int, value: str | int) -> bytes:
    return _text(1, name) + (
        _text(kind, value) if isinstance(value, str) else _varint(kind << 3) + _varint(value)
    )


def _text(field: int, value: str) -> bytes:
    return _field(field, value.encode())


def _field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _delimited(value)


def _delimited(message: bytes) -> bytes:
    return _varint(len(message)) + message


def _varint(value: int) -> bytes:
    """Return a number of 0 or more, seven bits a byte, the lowest first."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
