"""A trace decoded in pieces is the trace decoded as a whole, and takes the memory of a piece."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from flopcast.readers import kineto_pieces
from flopcast.readers.base import TRACE_BYTES, DataFile, Options
from flopcast.readers.files import chunks, view
from flopcast.readers.kineto import KinetoReader
from flopcast.readers.kineto_decode import Texts, decode, decode_whole, uncollected
from flopcast.readers.kineto_pieces import UncutError
from flopcast.tests.readers.kineto.made_up import MI300X, event, kernel, product
from flopcast.tests.readers.kineto.test_reader import BAD_TOKENS, FORMS

MANY = [one for number in range(1, 40) for one in product(number, 5, 100.0 * number)]
NESTED = event("cpu_op", "aten::mm", 5, 1, x=[{"name": "a"}, {"name": "b"}, {"ph": "X"}] * 12)


def plain(value: Any) -> Any:
    """Return what can be compared by ``==``."""
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, Texts):
        return value.take(np.arange(len(value)))
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return value


def cut_small(text: bytes, size: int = 97) -> Iterator[bytes]:
    for begin in range(0, len(text), size):
        yield text[begin : begin + size]


@pytest.fixture(params=[200, 700, 3000])
def small(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr(kineto_pieces, "PIECE", request.param)
    monkeypatch.setattr(kineto_pieces, "_NEAR", 100)


def same(text: bytes) -> None:
    assert plain(decode(cut_small(text))) == plain(decode_whole(text))


def listed(events: list[dict[str, Any]], indent: int | None = None) -> bytes:
    return json.dumps(events, indent=indent).encode()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf", b"  \n"], ids=["plain", "bom", "blank"])
def test_pieces_together_are_the_whole(form: bytes, indent: int | None, mark: bytes) -> None:
    same(mark + form % listed(MANY, indent))


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("bad", BAD_TOKENS.values(), ids=BAD_TOKENS)
def test_events_that_are_no_json_cost_themselves_in_pieces_too(bad: bytes) -> None:
    odd = b'{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy", "pid": 0, "ts": 5, "dur": 1, ' + bad
    good = listed(MANY)[1:-1]
    text = b"[" + b", ".join([good, odd + b"}", good, odd + b"}", good]) + b"]"
    same(text)
    found = decode(cut_small(text))
    assert (found.count, found.lost) == (3 * len(MANY) + 2, [])


@pytest.mark.usefixtures("small")
def test_an_event_that_cannot_be_read_has_its_place_in_the_file() -> None:
    lost = b'{"ph": "X", "cat": "kernel", "name": "knl", "args": {]}'
    good = listed(MANY)[1:-1]
    text = b"[" + b", ".join([good, lost, good]) + b"]"
    same(text)
    assert decode(cut_small(text)).lost == [len(MANY) + 1]


@pytest.mark.usefixtures("small")
def test_objects_within_arguments_are_no_events() -> None:
    text = listed([*MANY, NESTED, *MANY, NESTED])
    assert decode(cut_small(text)).count == 2 * len(MANY) + 2
    same(text)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "form",
    [
        b'{"other": {"traceEvents": %b}, "traceEvents": %b}',
        b'{"traceEvents": %b, "traceEvents": %b}',
        b'{"traceEvents": %b, "devices": [{"name": "a"}, {"name": "b"}], "x": %b}',
    ],
    ids=["nested", "twice", "behind"],
)
def test_what_cannot_be_cut_is_decoded_as_a_whole(tmp_path: Path, form: bytes) -> None:
    text = form % (listed(MANY), listed(MANY[:6]))
    path = tmp_path / "trace.json"
    path.write_bytes(text)
    found = KinetoReader().trace([DataFile(path, path.name, True)], Options())
    assert len(found.dispatches) == len(decode_whole(text).gpu)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("end", [-1, -20, -300])
def test_a_trace_that_is_cut_off_is_refused(end: int) -> None:
    for form in FORMS.values():
        text = form % listed(MANY)
        with pytest.raises((msgspec.MsgspecError, UncutError)):
            decode(cut_small(text[:end]))


def test_threads_are_numbered_alike_however_the_text_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = [{**one, "tid": place % 7} for place, one in enumerate(MANY)]
    monkeypatch.setattr(kineto_pieces, "PIECE", 300)
    same(listed(events))


def test_a_name_of_many_events_is_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kineto_pieces, "PIECE", 300)
    names = decode(cut_small(listed(MANY))).launches.names
    assert len({id(name) for name in names}) == len(set(names)) < len(names)


def test_a_large_trace_takes_little_memory() -> None:
    frame = json.dumps(event("python_function", "f" * 200, 5, 1, **{"Python id": 4})).encode()
    part = b",".join([frame] * 1000)
    last = listed([kernel(9, 1)])[1:]

    def text() -> Iterator[bytes]:
        yield b'{"deviceProperties": [' + json.dumps(MI300X).encode() + b'], "traceEvents": ['
        for _ in range(150):
            yield part + b","
        yield last + b"}"

    with uncollected():
        decode([b"[" + last])
        tracemalloc.start()
        try:
            found = decode(text())
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert found.count == 150_001
    assert peak < 150 * len(part) / 2


@pytest.mark.long
@pytest.mark.parametrize("power", [12, 16, 20])
def test_measured_traces_in_pieces_are_the_whole(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch, power: int
) -> None:
    monkeypatch.setattr(kineto_pieces, "PIECE", 2**power)
    paths = sorted((shared_data / "profiles" / "kineto").rglob("*.json.gz"))
    for path in paths:
        in_pieces = decode(chunks(path, max_bytes=TRACE_BYTES))
        whole = decode_whole(view(path, max_bytes=TRACE_BYTES))
        assert plain(in_pieces) == plain(whole), path
    assert paths
