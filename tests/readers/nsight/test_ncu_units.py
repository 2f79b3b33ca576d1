"""Units of Nsight Compute: both spellings, prefixes, quotients."""

from __future__ import annotations

import pytest

from flopcast.readers.ncu import base_unit


@pytest.mark.parametrize(
    ("printed", "base", "factor"),
    [
        ("nsecond", "ns", 1), ("usecond", "ns", 1e3), ("msecond", "ns", 1e6), ("second", "ns", 1e9),
        ("ns", "ns", 1), ("us", "ns", 1e3), ("ms", "ns", 1e6), ("s", "ns", 1e9),
        ("byte", "byte", 1), ("Kbyte", "byte", 1e3), ("Mbyte", "byte", 1e6), ("Gbyte", "byte", 1e9),
        ("Tbyte/second", "byte/second", 1e12), ("Gbyte/s", "byte/second", 1e9), ("byte/nsecond", "byte/second", 1e9),
        ("Kbyte/block", "byte/block", 1e3), ("byte/block", "byte/block", 1), ("inst/Kcycle", "inst/cycle", 1e-3),
        ("hz", "hz", 1), ("Ghz", "hz", 1e9), ("Mhz", "hz", 1e6), ("Hz", "hz", 1),
        ("cycle/nsecond", "hz", 1e9), ("cycle/usecond", "hz", 1e6), ("cycle/second", "hz", 1),
        ("%", "%", 1), ("", "", 1), ("inst/cycle", "inst/cycle", 1), ("register/thread", "register/thread", 1),
        ("Mcycle", "cycle", 1e6), ("SM", "SM", 1), ("Mystery", "Mystery", 1), (" usecond ", "ns", 1e3),
    ],
)  # fmt: skip
def test_base_units(printed: str, base: str, factor: float) -> None:
    assert base_unit(printed) == (base, pytest.approx(factor))
