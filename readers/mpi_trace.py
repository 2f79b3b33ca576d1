"""Traces of MPI programs: what each rank computes between its messages, and what it sends.

SimGrid's time-independent traces (``smpirun -trace-ti``; lines ``RANK ACTION AMOUNTS``, or an index
that names a file of them per rank) have no times: a ``compute`` has an amount, which is the seconds
of the traced run times the speed that SimGrid was given (``smpi/host-speed``), so that the amounts
over that speed are seconds again. Messages have their number of elements, and may have the number
of their type behind it (`_TYPE_BYTES`); where none stands, elements are doubles if ``init`` has an
argument, else bytes. Seen: SimGrid's examples of 3.3 to 3.36.

OTF2 (Score-P) is read from its anchor file, ``traces.otf2``, with the package `otf2`, or without it
from what ``otf2-print`` prints of the events: ``ENTER``, ``LEAVE`` and ``MPI_...`` records of a
location at a time in ticks. Time outside of regions called ``MPI_...`` is computing. Score-P's size
of an all-reduce is that of all ranks' buffers (four ranks that reduce an integer: sent 16 bytes):
it is divided by their number, that of the locations that took part.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from os.path import isfile  # False of a name too long to be one, where Path.is_file raises
from pathlib import Path
from typing import Any, Final

from ..errors import DataError
from .base import MOST_RANKS
from .files import content, head

COMPUTE = "compute"
MESSAGE = "message"
LATER = "message that is waited for later"
WAIT = "wait"
RECEIVE = "receive"
RECEIVE_LATER = "receive that is waited for later"
_MOST: Final = 2**28  # bytes of a file
_TI: Final = re.compile(rb"\s*(?:#[^\n]*\n\s*)*[0-9]{1,9} (?:init|[a-zA-Z]{2,15} [0-9-])")
_PRINTED: Final = re.compile(
    rb"=== OTF2-PRINT ===|(?m:^(?:ENTER|MPI_COLLECTIVE_BEGIN|PROGRAM_BEGIN) +[0-9]+ +[0-9]+ )"
)
_RECORD: Final = re.compile(r"([A-Z_]{4,40}) +([0-9]{1,19}) +([0-9]{1,19})(?:  ?(.*))?")
# of SimGrid's numbers of types: double, int, char, short, long, float, byte
_TYPE_BYTES: Final = (8, 4, 1, 2, 8, 4, 1)
_TYPE_AT: Final = {
    "bcast": 2,
    "allreduce": 2,
    "reduce": 3,
    "alltoall": 2,
    "allgather": 2,
    "gather": 3,
    "scatter": 3,
}
"""Of a collective of SimGrid's: which word has the type, where there is one; the first has the elements."""
_IDLE: Final = ("init", "finalize", "comm_size", "comm_split", "comm_dup", "test")
_OF_ALL: Final = ("ALLREDUCE", "SCAN", "EXSCAN")
"""Operations whose size, as Score-P writes it, counts the buffers of all ranks."""


@dataclass
class Action:
    """An action of a rank: it computes an ``amount``, sends ``message_bytes``, receives, or waits for either.

    ``peer`` is the rank that a message goes to or comes from, -1 of collectives and where the trace
    does not say.
    """

    kind: str
    amount: float = 0.0
    collective: str = ""
    message_bytes: float = 0.0
    peer: int = -1


@dataclass
class MpiTrace:
    """The actions of every rank in order; ``timed`` says that amounts are seconds. ``skipped`` counts other actions."""

    ranks: dict[int, list[Action]]
    timed: bool
    skipped: dict[str, int] = field(default_factory=dict)


def is_mpi_trace(path: Path) -> bool:
    """Say whether a file is such a trace: an archive's anchor, a print of one, actions of SimGrid, or their index."""
    if path.suffix == ".otf2":
        return True
    begin = head(path)
    return bool(_TI.match(begin) or _PRINTED.search(begin[:4096]) or _parts(path, begin))


def _parts(path: Path, text: bytes) -> list[Path]:
    """Return the files that an index lists, relative to its folder; [] if it is no index."""
    names = text.decode("utf-8", errors="replace").split("\n")[:MOST_RANKS]
    paths = [path.parent / name.strip() for name in names if name.strip()]
    within = all(
        len(one.name) < 200 and ".." not in one.parts and path.parent in one.parents
        for one in paths
    )
    if paths and within and all(isfile(one) for one in paths[:2]):
        return paths
    return []


def read_mpi_trace(path: Path) -> MpiTrace:
    """Return the actions of the ranks of a trace.

    Raises DataError: it cannot be read, or no rank computes or sends anything; an archive, and the
    package `otf2` is missing.
    """
    if path.suffix == ".otf2":
        trace = _of_events(_archive(path))
    else:
        text = content(path, max_bytes=_MOST)
        parts = _parts(path, text)
        if parts:
            text = b"\n".join(content(one, max_bytes=_MOST) for one in parts)
        plain = text.decode("utf-8", errors="replace")
        if _TI.match(text):
            trace = _time_independent(plain)
        else:
            trace = _of_events(_printed(plain))
    if not any(trace.ranks.values()):
        raise DataError("no rank of the trace computes or sends anything")
    return trace


def _time_independent(text: str) -> MpiTrace:
    trace = MpiTrace(defaultdict(list), timed=False)
    lines = [line.split("#")[0].split() for line in text.splitlines()]
    ranks = len({words[0] for words in lines if len(words) > 1 and words[0].isdecimal()})
    size = 1  # bytes of an element without a type
    for number, words in enumerate(lines, start=1):
        if len(words) < 2 or not (words[0].isdecimal() and len(words[0]) < 10):
            continue
        name = words[1].casefold()
        if name == "init":
            size = 1
            if len(words) > 2:
                size = 8
        try:
            one = _action(
                name,
                words[2:],
                ranks,
                size,
            )
        except (ValueError, IndexError):
            raise DataError(f"line {number}: {' '.join(words)[:60]!r} lacks a number") from None
        if one is not None:
            trace.ranks[int(words[0])].append(one)
        elif name not in _IDLE:
            trace.skipped[name[:40]] = trace.skipped.get(name[:40], 0) + 1
    return trace


def _action(
    name: str,
    words: list[str],
    ranks: int,
    size: int,
) -> Action | None:
    """Return an action of SimGrid; None for one that takes no time here."""
    if name == "compute":
        return Action(COMPUTE, amount=_number(words[0]))
    if name in ("wait", "waitall"):
        return Action(WAIT)
    if name in ("recv", "irecv"):
        return Action(RECEIVE if name == "recv" else RECEIVE_LATER, peer=_peer(words))
    if name == "barrier":
        return Action(MESSAGE, collective="barrier", message_bytes=8.0)
    if name in ("send", "isend"):  # partner, (tag,) elements (, type): the tag since 3.20
        if len(words) == 4 or (len(words) == 3 and _type(words[1]) is None):
            kind = _type(words[-1])
        else:
            kind = None
        elements = _number(words[1] if len(words) < 3 or (len(words) == 3 and kind) else words[2])
        way = MESSAGE
        if name == "isend":
            way = LATER
        return Action(
            way, collective="send_recv", message_bytes=elements * (kind or size), peer=_peer(words)
        )
    if name == "reducescatter":  # elements of each rank, work, type
        if len(words) > ranks + 1:
            kind = _type(words[ranks + 1])
        else:
            kind = None
        return Action(
            MESSAGE,
            collective=name,
            message_bytes=sum(map(_number, words[:ranks])) * (kind or size),
        )
    of = name.removesuffix("v")
    if of not in _TYPE_AT:
        return None
    if of == name and len(words) > _TYPE_AT[of]:
        kind = _type(words[_TYPE_AT[of]])
    else:
        kind = None
    # stated for one pair of ranks
    times = 1
    if of in ("allgather", "alltoall"):
        times = ranks
    return Action(MESSAGE, collective=of, message_bytes=times * _number(words[0]) * (kind or size))


def _peer(words: list[str]) -> int:
    if words and words[0].isdecimal() and len(words[0]) < 10:
        return int(words[0])
    return -1


def _type(word: str) -> int | None:
    """Return the bytes of a type by its number; None for an unknown number."""
    if word in {*"0123456"}:
        return _TYPE_BYTES[int(word)]
    return None


def _number(word: str) -> float:
    value = float(word)
    if not 0 <= value < 1e30:
        raise ValueError(word)
    return value


@dataclass
class _Event:
    """A record of one location: its kind, its time in seconds, the region entered or left, or the operation."""

    kind: str
    location: int
    time: float
    name: str = ""
    sent: float = 0.0
    received: float = 0.0
    peer: int = -1


def _printed(text: str) -> Iterator[_Event]:
    """Yield the records of ``otf2-print``; ticks are nanoseconds unless the print states their number per second."""
    stated = re.search(r"Ticks per Seconds?: ([0-9]{1,18})", text)
    if stated:
        ticks = max(int(stated[1]), 1)
    else:
        ticks = 10**9
    for line in text.splitlines():
        record = _RECORD.match(line)
        if record is None:
            continue
        kind, location, time, rest = record.groups()
        rest = rest or ""
        region = re.search(r'Region: "([^"]{0,300})"', rest)
        if region:
            name = region[1]
        else:
            name = (re.search(r"Operation: (\w{1,40})", rest) or ("", ""))[1]
        sizes = {
            word: float(value[:18])
            for word, value in re.findall(r"(Sent|Received|Length): ([0-9]+)", rest)
        }
        sent = sizes.get("Sent", sizes.get("Length", 0.0))
        partner = re.search(r"(?:Receiver|Sender): ([0-9]{1,9})", rest)
        peer = -1
        if partner:
            peer = int(partner[1])
        yield _Event(
            kind, int(location), int(time) / ticks, name, sent, sizes.get("Received", 0.0), peer
        )


def _archive(path: Path) -> Iterator[_Event]:
    """Yield the records of an archive, read by OTF2's package."""
    try:
        otf2 = import_module("otf2")
    except ImportError:
        text = (
            "an OTF2 archive is read with the package otf2: pip install otf2; or give what "
            "otf2-print prints of it"
        )
        raise DataError(text, source=str(path)) from None
    try:
        with otf2.reader.open(str(path)) as trace:
            ticks = trace.timer_resolution
            places = {
                location: number for number, location in enumerate(trace.definitions.locations)
            }
            for location, event in trace.events:
                yield _of_archive(event, places[location], float(event.time) / ticks)
    except DataError:
        raise
    except Exception as error:  # whatever the library raises
        raise DataError(
            f"cannot be read by otf2 ({type(error).__name__}: {error})"[:200], source=str(path)
        ) from None


def _of_archive(event: Any, location: int, time: float) -> _Event:
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(event).__name__).upper()
    region = getattr(event, "region", None)
    operation = getattr(event, "collective_op", None)
    if region is not None:
        name = str(region.name)
    else:
        name = str(getattr(operation, "name", operation or ""))
    sent = getattr(event, "size_sent", getattr(event, "msg_length", 0.0))
    peer = getattr(event, "receiver", getattr(event, "sender", -1))
    received = float(getattr(event, "size_received", 0.0))
    return _Event(
        kind, location, time, name, float(sent), received, peer if isinstance(peer, int) else -1
    )


def _of_events(events: Iterable[_Event]) -> MpiTrace:
    """Return the actions of the ranks: time outside MPI's regions is computing."""
    trace = MpiTrace(defaultdict(list), timed=True)
    begun: dict[int, float] = {}  # since when a location computes
    depth: dict[int, int] = defaultdict(int)  # of regions of MPI
    of_all: list[Action] = []
    for one in events:
        actions = trace.ranks[one.location]
        name = one.name.upper()
        within = name.startswith("MPI_") and one.kind in ("ENTER", "LEAVE")
        begun.setdefault(one.location, one.time)
        if within and one.kind == "ENTER":
            if not depth[one.location] and one.time > begun[one.location]:
                actions.append(Action(COMPUTE, amount=one.time - begun[one.location]))
            depth[one.location] += 1
        elif within:
            depth[one.location] = max(depth[one.location] - 1, 0)
            begun[one.location] = one.time
            if name.startswith("MPI_WAIT"):
                actions.append(Action(WAIT))
        elif one.kind == "PROGRAM_END" and one.time > begun[one.location]:
            actions.append(Action(COMPUTE, amount=one.time - begun[one.location]))
        elif one.kind in ("MPI_SEND", "MPI_ISEND"):
            later = MESSAGE
            if one.kind == "MPI_ISEND":
                later = LATER
            actions.append(
                Action(
                    later,
                    collective="send_recv",
                    message_bytes=one.sent,
                    peer=one.peer,
                )
            )
        elif one.kind in ("MPI_RECV", "MPI_IRECV"):  # written when it is over
            actions.append(Action(RECEIVE, peer=one.peer))
        elif one.kind == "MPI_COLLECTIVE_END":
            size = max(one.sent, one.received, 8.0)
            actions.append(Action(MESSAGE, collective=one.name, message_bytes=size))
            if name.startswith(_OF_ALL):
                of_all.append(actions[-1])
    ranks = sum(bool(actions) for actions in trace.ranks.values())
    for action in of_all:
        action.message_bytes /= max(ranks, 1)
    return trace
