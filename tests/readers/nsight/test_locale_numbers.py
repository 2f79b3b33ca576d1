"""Printed numbers: which mark is the decimal one, and what each word is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopcast.readers.ncu import AmbiguousNumbersError, decimal_mark, parsed


@pytest.mark.parametrize(
    ("words", "mark"),
    [
        ([], "."),
        (["12", "n/a", ""], "."),
        (["1,234", "1,234.5"], "."),
        (["1.234", "1.234,5"], ","),
        (["1,234,567"], "."),
        (["1.234.567"], ","),
        (["0.123"], "."),
        (["0,123"], ","),
        (["1234.567"], "."),
        (["12,5"], ","),
        (["1.5e+03"], "."),
        (["1\u202f234,5"], ","),
        (["1'234.5"], "."),
        (["1,234", "12.2.1", "7.5"], "."),  # a version is no number
    ],
)
def test_the_mark_that_all_words_agree_on(words: list[str], mark: str) -> None:
    assert decimal_mark(words) == mark


@pytest.mark.parametrize(
    "words", [["1,234"], ["1.234", "56"], ["1.5", "2,5"], ["1,234,567", "1.234.567"]]
)
def test_what_nobody_can_tell_is_refused(words: list[str]) -> None:
    with pytest.raises(AmbiguousNumbersError) as raised:
        decimal_mark(words)
    assert set(raised.value.examples) <= set(words)


@pytest.mark.parametrize(
    ("word", "mark", "number"),
    [
        ("1,234.5", ".", 1234.5),
        ("1.234,5", ",", 1234.5),
        ("-1,234", ".", -1234.0),
        ("-1,234", ",", -1.234),
        ("1\u00a0234\u00a0567", ".", 1234567.0),
        ("1’234.5", ".", 1234.5),
        ("12e3", ".", 12000.0),
        (".5", ".", 0.5),
        ("5.", ".", 5.0),
        ("12,34", ".", None),
        ("1,234,56", ".", None),
        ("1,234.5", ",", None),
        ("1,234 567", ".", None),
        ("nan", ".", None),
        ("0x1f", ".", None),
        ("", ".", None),
        (".", ".", None),
    ],
)
def test_words_as_numbers(word: str, mark: str, number: float | None) -> None:
    assert parsed(word, mark) == number


@given(st.floats(0, 1e12), st.sampled_from([(",", "."), (".", ","), ("\u202f", ","), ("'", ".")]))
def test_what_is_printed_is_read(number: float, locale: tuple[str, str]) -> None:
    group, mark = locale
    word = f"{number:,.2f}".translate({ord(","): group, ord("."): mark})
    assert decimal_mark([word]) == mark
    assert parsed(word, mark) == float(f"{number:.2f}")
