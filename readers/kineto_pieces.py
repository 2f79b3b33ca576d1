"""The events of a PyTorch trace, some megabytes of text at a time: a large file is never in memory as a whole.

The text is cut where an event ends and the next begins. A cut in the wrong place, within the
arguments of an event, leaves brackets open, so that what is before it is no JSON: an earlier place
is taken. What is no JSON wherever it is cut is gone through event by event (`mending`).
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from .kineto_events import AnyEvent, Event, File, Forgiving, OtherEvent, values_of
from .mending import BETWEEN, END, EVENTS, cut, mended

PIECE: Final = 2**22
"""Bytes of text that are decoded at a time."""
_NEAR: Final = 2**16  # bytes before the end of a piece, in which it is cut if it can be
_LONGEST: Final = 4  # pieces of text in which no event ends
_TRUNCATED: Final = "truncated"  # what msgspec says of brackets that are left open
_EVENT = msgspec.json.Decoder(AnyEvent, strict=False)
_EVENTS = msgspec.json.Decoder(list[AnyEvent], strict=False)
_FILE = msgspec.json.Decoder(File, strict=False)


class UncutError(Exception):
    """The text of a trace cannot be cut into pieces and has to be decoded as a whole."""


@dataclass
class Piece:
    """Some of a file's events, and the text around them.

    `file` has the events, those that cannot be read as events of no use, whose places are `lost`;
    the last piece has what else the file states. `mended` events are no JSON as the file has them.
    """

    file: File
    lost: list[int] = field(default_factory=list)
    mended: int = 0


def pieces(chunks: Iterable[bytes]) -> Generator[Piece]:
    """Yield the events of a trace in the order of the file, given its text in chunks.

    Raises UncutError, after any number of pieces; msgspec.MsgspecError or UnicodeError where the
    text is no trace, or ends before its end.
    """
    text = bytearray()
    opening = b""
    for chunk in chunks:
        text += chunk
        if len(text) < PIECE:
            continue
        if not opening:
            opening = _opening(text)
            del text[: len(opening) - 1]  # the bracket stays: what is left is a list of events
        piece, end = _piece(text)
        if piece is not None:
            del text[:end]
            text[:1] = b"["
            yield piece
        elif len(text) > _LONGEST * PIECE:
            raise UncutError
    if not opening:
        yield whole(text)
        return
    if EVENTS.search(text):
        raise UncutError
    text[:1] = opening
    yield whole(text)


def whole(content: bytes | bytearray | memoryview) -> Piece:
    """Return all events of a trace and the text around them; errors as of `pieces`."""
    text = memoryview(content)
    if text[: len(BOM_UTF8)] == BOM_UTF8:
        text = text[len(BOM_UTF8) :]
    try:
        if bytes(text[:64]).lstrip().startswith(b"["):
            return Piece(File(events=_EVENTS.decode(text)))
        return Piece(_FILE.decode(text))
    except (msgspec.MsgspecError, UnicodeError):
        parts = cut(bytes(text))
        if parts is None:
            raise
    piece = _one_by_one(parts.events)
    file = _FILE.decode(parts.around)
    file.events = piece.file.events
    piece.file = file
    return piece


def _opening(text: bytearray) -> bytes:
    """Return the text before the first event."""
    begin = bytes(text[:64]).removeprefix(BOM_UTF8)
    if begin.lstrip().startswith(b"["):
        return bytes(text[: text.index(b"[") + 1])
    listed = EVENTS.search(text)
    if listed is None:
        raise UncutError
    opening = bytes(text[: listed.end()])
    try:
        msgspec.json.decode(opening.removeprefix(BOM_UTF8) + b"]}")
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise UncutError from error  # the key belongs to another object
    return opening


def _piece(text: bytearray) -> tuple[Piece | None, int]:
    """Return the events that end within a list, and the position of the comma behind them; None if none ends."""
    for begin in (max(len(text) - _NEAR, 0), 0):
        cuts = [(match.start() + 1, match.end() - 1) for match in BETWEEN.finditer(text, begin)]
        back = 1
        while back <= len(cuts):
            end, comma = cuts[-back]
            try:
                events = _EVENTS.decode(_list(text, end))
            except (msgspec.MsgspecError, UnicodeError) as error:
                if _TRUNCATED not in str(error):
                    return _mended(_list(text, end)), comma
            else:
                return Piece(File(events=events)), comma
            back *= 2
    return None, 0


def _list(text: bytearray, end: int) -> bytearray:
    """Return the list up to there, with its bracket closed."""
    closed = text[: end + 1]
    closed[-1:] = b"]"
    return closed


def _mended(text: bytearray) -> Piece:
    """Return the events of a list that contains invalid JSON."""
    if END.search(text, 0, len(text) - 1) or EVENTS.search(text):  # maybe the end of all events
        raise UncutError
    parts = cut(bytes(text))
    if parts is None:
        raise UncutError
    return _one_by_one(parts.events)


def _one_by_one(texts: Iterable[bytes]) -> Piece:
    piece = Piece(File())
    for place, text in enumerate(texts):
        event = _event(text)
        if event is None and (written := mended(text)) is not None:
            event = _event(written)
            piece.mended += event is not None
        if event is None:
            piece.lost.append(place)
        piece.file.events.append(event or OtherEvent())
    return piece


def _event(text: bytes) -> Any | None:
    """Return an event, None if it is invalid JSON or has no phase; a field of an unexpected type counts as missing."""
    try:
        return _EVENT.decode(text)
    except (msgspec.ValidationError, UnicodeError):
        pass
    except msgspec.DecodeError:
        return None
    try:
        values = values_of(text)
    except (msgspec.MsgspecError, UnicodeError):
        return None
    if not isinstance(values, dict) or values.get("ph") != "X":
        return None
    arguments = msgspec.Raw(msgspec.json.encode(values.pop("args", {})))
    return msgspec.structs.replace(Forgiving(Event).field_by_field(values), args=arguments)
