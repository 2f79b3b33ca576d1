"""Cells of rows before they are measured."""

from __future__ import annotations

import pytest

from flopcast.errors import DataError
from flopcast.measuring.journal import described, sizes, unknown, word


@pytest.mark.parametrize(
    ("row", "text"), [({"a": "x"}, "x"), ({"a": None}, ""), ({"a": float("nan")}, ""), ({}, ""), ({"a": 3}, "3")]
)
def test_a_missing_word_is_empty(row: dict[str, object], text: str) -> None:
    assert word(row, "a") == text


def test_sizes_are_whole_numbers_or_the_default() -> None:
    assert sizes({"m": 4.0, "n": 8}, "m", "n") == [4, 8]
    assert sizes({"g": float("nan")}, "g", default=1) == [1]


@pytest.mark.parametrize("value", [2.5, "wide", None])
def test_what_is_no_size_is_refused(value: object) -> None:
    with pytest.raises(DataError, match="gemm needs m as a whole number"):
        sizes({"op": "gemm", "m": value}, "m")


def test_rows_in_words() -> None:
    row = {"op": "gemm", "dtype_a": "bf16", "m": 16.0, "n": 4096, "k": 7168, "scale_block": ""}
    assert described(row) == "gemm bf16 m=16 n=4096 k=7168"
    assert "softmax with variant odd cannot be measured: known here is log" in str(
        unknown({"op": "softmax", "variant": "odd"}, "variant", "log")
    )
