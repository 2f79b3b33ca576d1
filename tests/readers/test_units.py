"""Units in column names."""

from __future__ import annotations

import pytest

from flopcast.errors import DataError
from flopcast.readers.labels import ENERGY_UNITS, POWER_UNITS, TIME_UNITS, split_unit, stated_unit


@pytest.mark.parametrize(
    ("column", "base", "unit"),
    [
        ("duration_us", "duration", "us"),
        ("latency_ms", "latency", "ms"),
        ("time_ns", "time", "ns"),
        ("t_s", "t", "s"),
        ("us", "", "us"),
        ("Latency (ms)", "latency", "ms"),
        ("time[us]", "time", "us"),
        ("Duration µs", "duration", "µs"),
        ("elapsed_seconds", "elapsed", "s"),
        ("energy_j", "energy", "j"),
        ("energy_mJ", "energy", "mj"),
        ("power_w", "power", "w"),
        ("Power [mW]", "power", "mw"),
        ("pad_w", "pad_w", None),
        ("w", "w", None),
        ("s", "s", None),
        ("columns", "columns", None),
        ("status", "status", None),
        ("tflops", "tflops", None),
        ("latency", "latency", None),
        ("time_min", "time_min", None),
        ("m", "m", None),
        ("", "", None),
    ],
)
def test_split_unit(column: str, base: str, unit: str | None) -> None:
    assert split_unit(column) == (base, unit)


def test_factors() -> None:
    assert [TIME_UNITS[unit] for unit in ("ns", "us", "ms", "s")] == [1e-3, 1.0, 1e3, 1e6]
    assert [ENERGY_UNITS[unit] for unit in ("uj", "mj", "j", "kj")] == [1e-6, 1e-3, 1.0, 1e3]
    assert [POWER_UNITS[unit] for unit in ("mw", "w", "kw")] == [1e-3, 1.0, 1e3]


def test_a_stated_unit_must_be_one() -> None:
    assert stated_unit("time", "Milliseconds") == "ms"
    with pytest.raises(DataError, match=r"'time'.*'fortnight'"):
        stated_unit("time", "fortnight")
