"""Golden words of scaling over size."""

from __future__ import annotations

import numpy as np
import pytest

from flopcast.remarks import Remark, remark
from flopcast.report.words import say
from flopcast.report.words.scaling import class_words
from flopcast.scaling.calibration import published_curves
from flopcast.scaling.curves import Curve
from flopcast.scaling.scaling_class import classify


def test_a_class_carries_its_figures_and_the_cliffs_it_crosses() -> None:
    two = classify(Curve("b", "strong", "SM", np.array([8.0, 16.0]), np.array([1.0, 1.6])))
    assert class_words(two) == "undecided: exponent 0.68 between two sizes, which carry no interval"
    strong = {
        curve.benchmark: class_words(classify(curve)) for curve in published_curves() if curve.scenario == "strong"
    }
    assert strong["res50"].endswith("p = 0.0021 for exactly 1, but within 0.05 of it")
    assert "; crosses a cliff between 64 and 128: MPKI falls" in strong["dct"]


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (
            remark("cliff-among-sizes-fitted", before=8.0, after=16.0, ratio=6.0),
            "cliff between 8 and 16: MPKI falls 6 times, among the sizes fitted: the growth seen there holds a jump",
        ),
        (
            remark("f-mem-not-measured", taken=0.5, most=1.0),
            "f_mem not measured: taken as 0.50, bounded by 0 and 1.00, so performance may not jump at all or by any "
            "factor",
        ),
        (
            remark("loss-grows", growth=0.763, benchmarks=21, source="published"),
            "the loss grows by 0.76 of the first per doubling: learned from 21 published benchmarks",
        ),
        (
            remark("interval-from-others", benchmarks=25, scenario="strong", source="joined"),
            "interval from the errors of 25 benchmarks, the published ones among them (strong scaling)",
        ),
    ],
    ids=lambda value: value.code if isinstance(value, Remark) else "",
)
def test_remarks_of_laws(one: Remark, words: str) -> None:
    assert say(one) == words
