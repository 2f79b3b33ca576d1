"""What is said of many rows is what would be said of each."""

from __future__ import annotations

import numpy as np

from flopcast.remarks import Alike, Reasons, remark

MISSING = remark("missing-value", feature="m")
SAID = [(MISSING, remark("slow", factor=2.0)), (), (remark("slow", factor=3.0),), (MISSING,)]


def test_rows_keep_what_is_said_of_them_in_order() -> None:
    assert Reasons.of(SAID).of_rows() == SAID
    assert Reasons.of(SAID).any().tolist() == [True, False, True, True]


def test_remarks_that_differ_in_values_alone_are_taken_apart() -> None:
    found = Reasons(4)
    found.add([0, 3], MISSING)
    found.add([0, 2], Alike("slow", (), {"factor": [2.0, 3.0]}))
    assert found.of_rows() == SAID
    assert found.where(np.array([False, True, True, True])).of_rows() == SAID[1:]


def test_said_of_some_rows_it_is_said_of_them_among_all() -> None:
    whole = Reasons(6)
    whole.extend(Reasons.of(SAID), np.array([5, 0, 2, 3]))
    assert whole.of_rows() == [(), (), SAID[2], (MISSING,), (), SAID[0]]
