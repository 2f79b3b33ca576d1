"""Golden words of scaling over size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flopcast.remarks import remark
from flopcast.report.words import say
from flopcast.report.words.scaling import class_words
from flopcast.scaling.calibration import published_curves
from flopcast.scaling.curves import Curve
from flopcast.scaling.scaling_class import classify

NOTES = (
    remark("cliff-among-sizes-fitted", before=8.0, after=16.0, ratio=6.0),
    remark("f-mem-not-measured", taken=0.5, most=1.0),
    remark("loss-grows", growth=0.763, benchmarks=21, source="published"),
    remark("interval-from-others", benchmarks=25, scenario="strong", source="joined"),
)


def test_words(golden: Callable[[str, str], None]) -> None:
    two = classify(Curve("b", "strong", "SM", np.array([8.0, 16.0]), np.array([1.0, 1.6])))
    strong = {curve.benchmark: classify(curve) for curve in published_curves() if curve.scenario == "strong"}
    classes = {"two sizes": two, "res50": strong["res50"], "dct": strong["dct"]}
    told = [f"{name}: {class_words(found)}" for name, found in classes.items()]
    golden("words-scaling.txt", "\n".join([*told, *(f"{note.code}: {say(note)}" for note in NOTES)]))
