"""What a column measures, from its name."""

from __future__ import annotations

import pytest

from flopcast.table.measurements import Quantity, quantity


@pytest.mark.parametrize(
    ("metric", "expected", "label"),
    [
        ("duration_us", Quantity("time", "t", "us", "µs", True), "time, µs"),
        ("energy_j", Quantity("energy", "E", "j", "J", True), "energy, J"),
        ("power_w", Quantity("power", "P", "w", "W", False), "power, W"),
        (
            "core_clock_mhz",
            Quantity("core clock", "core clock", "mhz", "mhz", False),
            "core clock, mhz",
        ),
        ("score", Quantity("", "", "score", "score", True), "score"),
    ],
)
def test_noun_symbol_unit_and_whether_it_grows(metric: str, expected: Quantity, label: str) -> None:
    assert quantity(metric) == expected
    assert quantity(metric).label == label
