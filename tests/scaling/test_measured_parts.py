"""A real GPU as its own scale model: parts of an H100's SMs, measured, predict the whole."""

from __future__ import annotations

import flopcast as fc
from flopcast.datasets import H100_PARTS


def test_parts_of_an_h100_predict_the_whole_of_it() -> None:
    amdahl, proportional = (
        fc.scale(H100_PARTS, fit=[32, 64], sizes=[132], law=law).table["error_percent"].abs()
        for law in ("Amdahl", "proportional")
    )
    assert len(amdahl) == 7
    assert amdahl.mean() < 10 < proportional.mean()
