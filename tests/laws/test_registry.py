"""Every law by its name: what it needs, and what a law of one device says of two without a line more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flopcast.arrays import FloatArray
from flopcast.errors import NotPublishedError
from flopcast.hardware import GPU
from flopcast.laws import LAWS, OF_COMPUTATION, law
from flopcast.laws.applied import EVERY
from flopcast.laws.base import DeviceLaw, Law, Pair, Scaled
from flopcast.laws.rates import memory_us
from flopcast.operators.operators import Work
from flopcast.projection.kernel_laws import NO_WORK, of_activities
from flopcast.tests.projection.oracles.activities import (
    HOST,
    TARGET,
    activities,
    gemm,
    kernel,
    relu,
)


def without(gpu: GPU, figure: str) -> GPU:
    return replace(
        gpu, name="Other", **({"peaks": {}} if figure == "peak_tflops" else {figure: None})
    )


def scaled(law: DeviceLaw, target: GPU) -> Scaled:
    pair = Pair.of(HOST, target)
    return law.scaled(
        of_activities(activities(gemm(64, 64, 64), kernel(), relu(10, 10)), pair.fixed[0]), pair
    )


@pytest.mark.parametrize("name", LAWS)
def test_a_law_is_called_by_its_name_and_says_where_it_is_from(name: str) -> None:
    assert law(name).name == name
    assert law(name).source


@pytest.mark.parametrize("found", EVERY, ids=lambda one: one.name)
def test_a_law_needs_what_it_says_and_nothing_else(found: Law) -> None:
    full = replace(TARGET, tdp_w=500.0)
    rows = of_activities(activities(gemm(4096, 4096, 4096)), Pair.of(HOST, full).fixed[0])
    for figure in ("peak_tflops", "memory_bw_gbs", "tdp_w", "cus", "boost_mhz"):
        gpu, silent = without(full, figure), figure in found.needs
        if isinstance(found, DeviceLaw) and silent:
            with pytest.raises(NotPublishedError):
                found(rows.work, gpu)
        elif isinstance(found, DeviceLaw):
            assert found(rows.work, gpu)[0] > 0
        if found.name in OF_COMPUTATION:
            assert np.isnan(found.scaled(rows, Pair.of(HOST, gpu)).factor[0]) == silent


class Twice(DeviceLaw):
    """Twice the time of the traffic."""

    name, source = "twice", "made up"

    def __call__(self, work: Work, gpu: GPU) -> FloatArray:
        return 2 * memory_us(work, gpu)


def test_a_law_of_one_device_scales_by_the_ratio_of_its_values() -> None:
    found = scaled(Twice(), TARGET)
    assert found.factor[[0, 2]].tolist() == [4.0, 4.0]
    assert np.isnan(found.factor[1])
    assert found.why.tolist() == [None, NO_WORK, None]
    silent = scaled(Twice(), without(TARGET, "memory_bw_gbs"))
    assert np.isnan(silent.factor).all()
    assert silent.why[0].code == "figure-not-published"
