"""What is kept for whoever asks again about the same rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from flopcast.models.linear.stepwise import Recent


def test_equal_rows_get_the_same_thing_once() -> None:
    recent: Recent[list[int]] = Recent()
    rows = (np.arange(3.0), np.eye(3))
    thing = recent.take("kind", rows, list)
    recent.keep("kind", rows, thing)
    equal = (np.arange(3.0), np.eye(3))
    assert recent.take("kind", equal, list) is thing
    assert recent.take("kind", equal, list) is not thing  # it is out


def test_other_rows_and_kinds_get_another() -> None:
    recent: Recent[list[int]] = Recent()
    recent.keep("kind", (np.arange(3.0),), [1])
    assert recent.take("other", (np.arange(3.0),), list) == []
    assert recent.take("kind", (np.arange(4.0),), list) == []
    assert recent.take("kind", (np.arange(3.0) + 1e-16 + 1,), list) == []
    assert recent.take("kind", (np.arange(3.0),), list) == [1]


def test_the_oldest_makes_room_and_large_rows_are_not_kept() -> None:
    recent: Recent[int] = Recent(size=2, most_bytes=100)
    for number in range(3):
        recent.keep("kind", (np.full(2, number),), number)
    assert [recent.take("kind", (np.full(2, number),), lambda: -1) for number in range(3)] == [-1, 1, 2]
    recent.keep("kind", (np.zeros(100),), 7)
    assert recent.take("kind", (np.zeros(100),), lambda: -1) == -1


def test_two_threads_never_hold_the_same_thing() -> None:
    recent: Recent[list[int]] = Recent()
    rows = (np.zeros(2),)

    def use(_: int) -> bool:
        thing = recent.take("kind", rows, list)
        thing.append(1)
        alone = len(thing) == 1
        thing.pop()
        recent.keep("kind", rows, thing)
        return alone

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(use, range(200)))
