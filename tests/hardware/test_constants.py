"""Constants as data: shares, what was measured of its own, and no number without its source."""

from __future__ import annotations

import math

import pytest

from flopcast.hardware import all_gpus
from flopcast.hardware.constants import constant, read_constants
from flopcast.workloads.releases import BY_KIND, PRIORS

ENTRY = 'unit = ""\nwhat = "x"\ndevice = "MI300X"\nsource = "a table"\n'


def test_a_share_is_what_was_reached_of_what() -> None:
    found = read_constants(
        f"[a.b]\nvalue = {{ reached = 3.0, of = 4.0 }}\nby = {{ gfx942 = 2 }}\n{ENTRY}"
    )["a.b"]
    assert (found.value, found.of("gfx942"), found.of("gfx950"), found.of(None)) == (
        0.75,
        2.0,
        0.75,
        0.75,
    )
    assert math.isnan(found.spread)


def test_a_constant_without_its_source_is_refused() -> None:
    with pytest.raises(KeyError, match="source"):
        read_constants(f"[alone]\nvalue = 1\n{ENTRY.replace('source', 'sauce')}")


def test_rates_of_attention_are_those_of_gpus_of_the_catalogue() -> None:
    assert constant("attention.of_ceiling").by.keys() <= {gpu.gfx for gpu in all_gpus()}
    assert all(0 < share < 1 for share in constant("attention.of_ceiling").by.values())


def test_what_is_calibrated_has_a_spread() -> None:
    assert all(one.spread > 0 for kind in BY_KIND.values() for one in kind.values())
    for one in PRIORS.values():
        values = [*one.by.values()] or [one.value]
        assert min(values) >= 0  # the least count of a part of memory may be none
        assert max(values) > 0
