"""What rocprofv3's CSV and JSON output share: agents, the ends of the clock, streams and queues."""

from __future__ import annotations

import pandas as pd
import pytest

from flopcast.readers.rocprofv3 import (
    Agent,
    Agents,
    agent_device,
    agent_number,
    gfx_of,
    held,
    stacked,
    streams,
)
from flopcast.traces.dispatches import FIRST, LAST


@pytest.mark.parametrize(
    ("version", "gfx"),
    [
        (90402, "gfx942"), (90500, "gfx950"), (90010, "gfx90a"), (110501, "gfx1151"), (90008, "gfx908"), (0, ""),
        (None, ""), (-5, ""),
    ],
)  # fmt: skip
def test_the_number_of_an_architecture(version: int | None, gfx: str) -> None:
    assert gfx_of(version) == gfx


@pytest.mark.parametrize(
    ("word", "number"),
    [
        ("Agent 4", 4),
        ("GPU 0", 0),
        ("7", 7),
        ("", None),
        ("Agent", None),
        ("Agent " + "9" * 30, None),
    ],
)
def test_the_number_of_an_agent(word: str, number: int | None) -> None:
    assert agent_number(word) == number


def test_an_agent_is_found_by_the_kind_of_number_its_name_has() -> None:
    agents = Agents([Agent(4, 2, 0, "MI300X"), Agent(5, 4, 1, "MI308X")])
    assert agents.device("Agent 2") == "MI300X"
    assert agents.device("Agent 4") == "MI308X"  # visible agents are numbered before nodes
    assert agents.device("Agent 5") == "MI308X"  # no visible agent has that number: the node
    assert agents.device("GPU 0") == "MI300X"
    assert agents.device("Agent 9") == ""
    assert agents.device("") == ""


def test_equal_gpus_need_no_number() -> None:
    assert (
        Agents([Agent(1, 1, 0, "MI300X"), Agent(2, 2, 1, "MI300X")]).device("Agent 9") == "MI300X"
    )
    assert Agents().device("Agent 1") == ""


def test_the_product_decides_between_devices_of_one_architecture() -> None:
    assert agent_device("AMD Instinct MI350X", "gfx950", 90500, 256) == ("MI350X", None)
    name, assumption = agent_device("", "gfx950", None, 256)
    assert name == "MI355X"
    assert assumption is not None
    assert assumption.values["same"] == ("MI350X",)
    assert agent_device("", "", 90402, 304)[0] == "MI300X"
    assert agent_device("AMD Radeon Graphics", "gfx1151", 110501, 40)[0] == "gfx1151 (40 CUs)"
    assert agent_device("", "", None, None) == ("", None)


def test_numbers_beyond_64_bits_are_held_at_the_ends() -> None:
    values, beyond = held([5, 2**64 - 1, -(2**70)])
    assert values.tolist() == [5, LAST, FIRST]
    assert beyond.tolist() == [False, True, True]
    assert held([1, 2])[1].tolist() == [False, False]


@pytest.mark.parametrize(
    ("stream", "queue", "expected", "streamed"),
    [
        ([0, 3], [1, 1], [0, 3], True),
        ([0, 0], [1, 1], [0, 0], True),
        # all on one stream, and yet on two queues: streams were not recorded
        ([0, 0], [1, 2], [1, 2], False),
        ([None, None], [1, 2], [1, 2], False),
    ],
)
def test_streams_where_they_were_recorded(
    stream: list[int | None], queue: list[int], expected: list[int], streamed: bool
) -> None:
    notes: list[str] = []
    found, is_stream = streams(
        pd.Series(stream, dtype="Int64"), pd.Series(queue, dtype="Int64"), notes
    )
    assert found.tolist() == expected
    assert is_stream == streamed
    assert bool(notes) != streamed


def test_rows_of_two_kinds_are_stacked_by_column() -> None:
    kernels = pd.DataFrame(
        {"name": pd.Categorical(["k"]), "vgpr": pd.Series([8], dtype="Int64"), "counter.X": [1.5]}
    )
    copies = pd.DataFrame({"name": pd.Categorical(["HtoD"])})
    rows = stacked([kernels, copies, copies.iloc[:0]])
    assert rows["name"].tolist() == ["k", "HtoD"]
    assert isinstance(rows["name"].dtype, pd.CategoricalDtype)
    assert rows["vgpr"].tolist() == [8, pd.NA]
    assert rows["counter.X"].isna().tolist() == [False, True]
    assert stacked([]).empty
