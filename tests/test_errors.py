"""What the user got wrong is one line that steers no terminal, whoever chose the names in it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import (
    ArtifactError,
    DataError,
    FlopcastError,
    NotPublishedError,
    ParameterError,
    UnknownGPUError,
)
from flopcast.models.base import DroppedColumns
from flopcast.remarks import remark

HOSTILE = "k\x1b]0;x\x07\x1b[2J\x9b31m\u202egnp\u2066\u2028\r\x7f\udcff"


@pytest.mark.parametrize(
    "said",
    [
        FlopcastError(HOSTILE),
        DataError(HOSTILE, source=HOSTILE),
        ParameterError(HOSTILE, HOSTILE),
        UnknownGPUError(HOSTILE, [HOSTILE]),
        UnknownGPUError(HOSTILE, [HOSTILE], several=True),
        NotPublishedError(HOSTILE, HOSTILE),
        ArtifactError(HOSTILE),
        DroppedColumns(HOSTILE, [HOSTILE], [HOSTILE]),
        remark("code", HOSTILE, HOSTILE, name=HOSTILE),
        remark("code", name=HOSTILE),
    ],
)
def test_what_is_said_steers_no_terminal(said: object) -> None:
    assert str(said).isprintable()
    assert repr(said).isprintable()


def test_an_error_keeps_the_name_as_it_was_for_programs() -> None:
    assert DataError("no", source=HOSTILE).source == HOSTILE
    assert remark("code", name=HOSTILE).values == {"name": HOSTILE}


@pytest.mark.parametrize("kind", ["device", "column", "folder", "op"])
def test_messages_of_calls_steer_no_terminal(tmp_path: Path, kind: str) -> None:
    name = HOSTILE.replace("\udcff", "")
    rows = pd.DataFrame({"device": "MI300X", "op": "gemm", "m": [64] * 12, "duration_us": 4.0})
    calls = {
        "device": lambda: fc.train(rows.assign(device=name), target="MI300X"),
        "column": lambda: fc.read(rows, where={name: "x"}),
        "folder": lambda: fc.load(tmp_path / name),
        "op": lambda: fc.train(rows.assign(op=name), host="MI300X", target=name),
    }
    with pytest.raises(FlopcastError) as raised:
        calls[kind]()
    assert str(raised.value).isprintable()
