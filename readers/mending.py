"""Events of a PyTorch trace that are no JSON as they stand in the file, each by itself.

PyTorch writes names and arguments into the file as they are: backslashes and quotes of paths and
modules, control characters, bytes of other encodings, and numbers that JSON does not have (inf,
nan, N/A). One such event would cost the whole file, which is cut into its events here (`cut`); one
that cannot be decoded is mended (`mended`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
START = re.compile(rb'\{\s*"(?:ph|name|cat|pid|tid|ts|dur|args|s|bp)"\s*:')
BETWEEN = re.compile(rb"\}\s*,\s*(?=" + START.pattern + rb")")
END = re.compile(rb"\}\s*\]")


@dataclass(frozen=True)
class Pieces:
    """A trace in pieces: each event as in the file, and an object of everything around them."""

    events: list[bytes]
    around: bytes


def cut(body: bytes) -> Pieces | None:
    """Return the pieces of a trace; None where it has no events or is truncated.

    >>> cut(b'{"a": 1, "traceEvents": [{"ph": "X", "ts": nan}, {"ph": "i"}], "b": 2}').events
    [b'{"ph": "X", "ts": nan}', b'{"ph": "i"}']
    """
    listed = EVENTS.search(body)
    begin = 0
    if listed is not None:
        begin = listed.end()
    if listed is None:
        if not body[:64].lstrip().startswith(b"["):
            return None
        begin = body.index(b"[") + 1
    first = START.search(body, begin)
    if first is None:
        return None
    starts = [first.start(), *(match.end() for match in BETWEEN.finditer(body, first.start()))]
    *whole, last = [
        body[start:end] for start, end in zip(starts, [*starts[1:], len(body)], strict=True)
    ]
    for match in END.finditer(last):
        rest = last[match.end() :].strip()
        around = b"{}" + rest
        if listed is not None:
            around = body[: listed.end()] + b"]" + rest
        if _is_object(around):
            events = [event.rstrip().removesuffix(b",").rstrip() for event in whole]
            return Pieces([*events, last[: match.start() + 1]], _as_json(around))
    return None


def _is_object(text: bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(_as_json(text)), dict)
    except (msgspec.MsgspecError, UnicodeError):
        return False


def _as_json(text: bytes) -> bytes:
    """Return valid JSON as it is, else mended as far as possible."""
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError):
        return mended(text) or text
    return text


_TOKEN = re.compile(r"[^,\]}\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_SPACE = re.compile(r"\s*")
_QUOTE = re.compile(r'(?<!\\)(?:\\\\)*+"')  # behind an even number of backslashes
#: What stands behind the quote that ends a key, a value of an object, a value of a list.
_AFTER_KEY = re.compile(r"\s*:")
_AFTER_VALUE = re.compile(r'\s*(?:,\s*"[^"\\]{0,200}"\s*:|\}\s*(?:[,}\]]|$))')
_AFTER_ITEM = re.compile(r'\s*(?:,\s*(?:["\[{]|-?\d|true|false|null|-?nan|-?inf)|\]\s*[,}\]])')
_INSIDE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\|"|[\x00-\x1f]')


def mended(event: bytes) -> bytes | None:
    r"""Return JSON of an event that is none; None where its parts cannot be distinguished.

    Bytes of another encoding become U+FFFD; control characters, backslashes and quotes within a
    word are escaped: a quote ends a word only where another part of the event follows it. A number
    that JSON does not have becomes null.

    >>> mended(b'{"name": "{"a": "b"}(1)", "path": "torch\\cuda", "x": [inf, 2], "y": N/A}').decode()
    '{"name": "{\\"a\\": \\"b\\"}(1)", "path": "torch\\\\cuda", "x": [null, 2], "y": null}'
    """
    text = event.decode("utf-8", errors="replace")
    parts: list[str] = []
    inside: list[str] = []  # the brackets that are open
    key = False
    value = False  # whether a colon stands before, and nothing behind it yet
    place = 0
    while True:
        space = _SPACE.match(text, place)
        assert space is not None
        parts.append(space[0])
        place = space.end()
        if place == len(text):
            if inside:
                return None
            return "".join(parts).encode()
        letter = text[place]
        if value and letter in ",}":
            parts.append("null")
        value = letter == ":"
        if letter in "{[":
            inside.append(letter)
            key = letter == "{"
        elif letter in "}]":
            if not inside or inside.pop() != {"}": "{", "]": "["}[letter]:
                return None
            key = False
        elif letter == "," and inside:
            key = inside[-1] == "{"
        elif letter == ":":
            key = False
        elif letter == '"' and inside:
            follows = _AFTER_ITEM.match
            if inside[-1] == "{":
                if key:
                    follows = _AFTER_KEY.match
                else:
                    follows = _AFTER_VALUE.match
            end = _end_of_word(text, place + 1, follows)
            if end < 0:
                return None
            parts.append('"' + _INSIDE.sub(_escaped, text[place + 1 : end]) + '"')
            place = end + 1
            continue
        elif inside and not key:
            token = _TOKEN.match(text, place)
            assert token is not None
            word = token[0].strip()
            parts.append(word if _NUMBER.fullmatch(word) else "null")
            place = token.end()
            continue
        else:
            return None
        parts.append(letter)
        place += 1


def _end_of_word(text: str, begin: int, follows: Callable[[str, int], re.Match[str] | None]) -> int:
    """Return the position of the quote that ends a word; -1 without one."""
    for match in _QUOTE.finditer(text, begin):
        if follows(text, match.end()):
            return match.end() - 1
    return -1


def _escaped(match: re.Match[str]) -> str:
    letter = match[0]
    if letter in ("\\", '"'):
        return "\\" + letter
    if letter.startswith("\\"):
        return letter
    return f"\\u{ord(letter):04x}"
