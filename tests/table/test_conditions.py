"""Rows by values, lists and ranges: what conditions keep, and what is said of those that keep nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import DataError, ParameterError
from flopcast.table.conditions import Where, conditions, select

TABLE = pd.DataFrame(
    {
        "device": ["A", "A", "B", "B"],
        "family": ["", "x", "", "<a,b>"],
        "m": [16.0, 17.0, 512.0, np.nan],
        "tuned": [False, True, False, False],
        "row": [0, 1, 2, 3],
    }
)


@pytest.mark.parametrize(
    ("where", "left"),
    [
        (None, [0, 1, 2, 3]),
        ({}, [0, 1, 2, 3]),
        ({"m": ["17"]}, [1]),
        ({"m": 17}, [1]),
        ("m=16.0,17", [0, 1]),
        ({"m": [16, 512]}, [0, 2]),
        ({"m": ["16"], "device": ["A"]}, [0]),
        ({"family": ""}, [0, 2]),
        ("family=", [0, 2]),
        ("family=<a,b>", [3]),
        ({"family": ["<a,b>", "x"]}, [1, 3]),
        ("tuned=true", [1]),
        ({"tuned": False}, [0, 2, 3]),
        ("m=16..17", [0, 1]),
        ("m=..17", [0, 1]),
        ("m= 17.. ", [1, 2]),
        ("m=16,500..600", [0, 2]),
        ("m=1.65e1..512", [1, 2]),
        ({"m": (16, 17)}, [0, 1]),
        ({"m": (None, 100.5)}, [0, 1]),
        ({"m": (np.int64(17), None)}, [1, 2]),
        ({"device": ("A", "B")}, [0, 1, 2, 3]),
        (["m=17..", "m=..17", "device=A"], [1]),
        ("device=A,B", [0, 1, 2, 3]),
    ],
)
def test_select(where: Where, left: list[int]) -> None:
    chosen = select(TABLE, where)
    assert chosen["row"].tolist() == left
    assert chosen.index.tolist() == list(range(len(left)))


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("famly=x", "no column 'famly': try family"),
        ("device=A,C", "device=C"),
        ("m=wide", r"'m'.*'wide'"),
        ("m=4..x", r"'m'.*'4..x'"),
        ("m=18", r"m=18.*16.*17.*512"),
        ("m=600..", r"m=600.*16.*17.*512"),
        ("row=9", "row=9"),
        ("tuned=maybe", "no row has tuned=maybe"),
        (["device=B", "family=x"], "family=x"),
        (["device=A", "device=B"], "device=A,B"),
    ],
)
def test_select_says_what_there_is(where: Where, message: str) -> None:
    with pytest.raises(DataError, match=message):
        select(TABLE, where)


def test_operators_devices_and_formats_may_have_any_of_their_names() -> None:
    table = pd.DataFrame(
        {"op": ["gemm", "conv"], "device": ["MI300X", "gfx942"], "dtype_a": ["bf16", "fp8"]}
    )
    for where in ("op=aten::mm", "device=AMD_Instinct_MI300X_OAM", "dtype_a=torch.bfloat16"):
        assert select(table, where)["op"].tolist() == ["gemm"]
    assert select(table, "device=gfx942")["op"].tolist() == ["conv"]
    for where in ("op=aten::bmm", "device=MI355X", "dtype_a=fp99", "device=mine.toml"):
        with pytest.raises(DataError, match="no row has"):
            select(table, where)


def test_of_many_numbers_the_ends_are_named() -> None:
    with pytest.raises(DataError, match=r"m=99.*0\.\.49"):
        select(pd.DataFrame({"m": np.arange(50.0)}), {"m": 99})


@pytest.mark.parametrize(
    "where",
    [
        "gemm",
        "=gemm",
        "",
        ["op"],
        5,
        [5],
        "m=512..16",
        "m=..",
        {"m": (5, 1)},
        ["op=gemm", "m=8,4..2"],
    ],
)
def test_a_condition_that_can_hold_nothing_is_refused_before_anything_is_read(where: Any) -> None:
    with pytest.raises(ParameterError) as caught:
        fc.read("no such file", where=where)
    assert caught.value.parameter == "where"


def test_conditions_are_told_as_they_are_given_on_the_command_line() -> None:
    where = {"op": "gemm", "m": (16, None), "kernel": "a=b", "n": {64, 32}}
    assert [str(one) for one in conditions(where)] == ["op=gemm", "m=16..", "kernel=a=b", "n=32,64"]
    assert conditions([str(one) for one in conditions(where)])[:3] == conditions(where)[:3]
    assert conditions([" dtype_a = fp8", "kernel=a=b"]) == conditions(
        {"dtype_a": "fp8", "kernel": "a=b"}
    )
