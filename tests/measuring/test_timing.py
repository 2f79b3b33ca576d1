"""Timers against clocks whose truth is known."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from flopcast.measuring.timing import (
    MOST_CALLS,
    MOST_HOLD_US,
    EventTimer,
    HostTimer,
    calls_per_sample,
)


class Nanoseconds:
    """A clock that moves by its own cost at each reading, and by what calls take."""

    def __init__(self, cost: int = 40, step: int = 1) -> None:
        self.now, self.cost, self.step = 0, cost, step

    def __call__(self) -> int:
        self.now += self.cost
        return self.now // self.step * self.step

    def spend(self, nanoseconds: int) -> Any:
        def call() -> None:
            self.now += nanoseconds

        return call


class Queue:
    """A GPU's queue: events note the device's time, which runs on while the host waits for nothing.

    Its pauses are `stretch` times as long as asked for; it is `ahead` where it has done all before the host asks.
    """

    def __init__(self, empty_us: float = 2.0, stretch: float = 1.0, *, ahead: bool = False) -> None:
        self.now, self.empty_us, self.held, self.synchronized = 0.0, empty_us, list[float](), 0
        self.stretch, self.ahead = stretch, ahead

    def event(self) -> Any:
        queue = self

        class Event:
            at = float("nan")

            def record(self) -> None:
                queue.now += queue.empty_us / 2
                self.at = queue.now
                queue.now += queue.empty_us / 2

            def query(self) -> bool:
                assert self.at == self.at, "the event was not recorded"
                return queue.ahead

            def elapsed_time(self, later: Any) -> float:
                assert queue.synchronized
                return float((later.at - self.at) / 1e3)

        return Event()

    def synchronize(self) -> None:
        self.synchronized += 1

    def hold(self, microseconds: float) -> None:
        self.held.append(microseconds)
        self.now += self.stretch * microseconds

    def work(self, microseconds: float) -> Any:
        def call() -> None:
            self.now += microseconds

        return call


def test_a_sample_is_the_mean_of_its_calls_in_microseconds() -> None:
    clock = Nanoseconds(cost=0)
    timer = HostTimer(clock=clock)
    assert timer.samples(clock.spend(2500), 4, 3).tolist() == [2.5] * 4


@pytest.mark.parametrize(("cost", "step", "expected"), [(40, 1, 0.04), (10, 1000, 1.0)])
def test_the_clocks_cost_is_its_own_time_or_its_step(cost: int, step: int, expected: float) -> None:
    assert HostTimer(clock=Nanoseconds(cost, step)).cost_us == pytest.approx(expected)


@pytest.mark.parametrize(
    ("nanoseconds", "calls"), [(100, 128), (1000, 8), (7900, 2), (8000, 1), (10**6, 1)]
)
def test_samples_hold_so_many_calls_that_the_clock_costs_half_a_percent(
    nanoseconds: int, calls: int
) -> None:
    clock = Nanoseconds(cost=40)
    timer = HostTimer(clock=clock)
    found = calls_per_sample(timer, clock.spend(nanoseconds))
    assert found <= calls
    sample_us = found * timer.samples(clock.spend(nanoseconds), 1, found)[0]
    assert timer.cost_us <= 0.005 * sample_us
    assert found == 1 or timer.cost_us > 0.005 * sample_us / 2


def test_a_call_that_takes_no_time_ends_at_the_most_calls() -> None:
    timer = HostTimer(clock=Nanoseconds(cost=0))
    timer.cost_us = 1.0
    assert calls_per_sample(timer, lambda: None) == MOST_CALLS


def test_a_cold_cache_is_flushed_before_every_sample_outside_its_time() -> None:
    clock = Nanoseconds(cost=0)
    flushed = []

    def flush() -> None:
        flushed.append(1)
        clock.now += 10**6

    timer = HostTimer(flush, clock)
    assert timer.samples(clock.spend(500), 3).tolist() == [0.5] * 3
    assert len(flushed) == 3
    assert timer.cold
    assert calls_per_sample(timer, clock.spend(1)) == 1


def test_events_time_the_device_and_their_own_cost_is_known() -> None:
    queue = Queue(empty_us=2.0)
    timer = EventTimer(queue.event, queue.synchronize)
    assert timer.cost_us == pytest.approx(2.0)
    assert timer.samples(queue.work(100.0), 5, 4) == pytest.approx([100.5] * 5)


def test_the_queue_is_held_while_it_fills_and_never_for_long() -> None:
    queue = Queue()
    timer = EventTimer(queue.event, queue.synchronize, hold=queue.hold)
    timer.samples(queue.work(5.0), 1000, 100)
    assert len(queue.held) > 1000 * 100 // 512
    assert all(0 < held <= MOST_HOLD_US for held in queue.held)


@pytest.mark.parametrize("stretch", [0.5, 1.0, 4.0])
def test_a_pause_is_corrected_when_the_devices_clock_is_not_what_it_was(stretch: float) -> None:
    queue = Queue(empty_us=0.0, stretch=stretch)
    timer = EventTimer(queue.event, queue.synchronize, hold=queue.hold)
    for _ in range(3):
        timer.samples(queue.work(5.0), 10)
        assert timer._stretch == pytest.approx(stretch)
    asked = timer._enqueue_us * 1.5 * 10
    timer.samples(queue.work(5.0), 10)
    assert queue.held[-1] * stretch == pytest.approx(asked)


def test_samples_are_late_when_the_pause_was_over_before_they_were_enqueued() -> None:
    queue = Queue()
    timer = EventTimer(queue.event, queue.synchronize, hold=queue.hold)
    timer.samples(queue.work(5.0), 7)
    assert timer.late == 0
    queue.ahead = True
    timer.samples(queue.work(5.0), 7)
    timer.samples(queue.work(5.0), 400)
    assert timer.late == 407
    assert HostTimer(clock=Nanoseconds()).late == 0


def test_events_that_show_no_time_between_them_still_have_their_resolution() -> None:
    queue = Queue(empty_us=0.0)
    timer = EventTimer(queue.event, queue.synchronize)
    assert timer.cost_us == 0.5
    assert calls_per_sample(timer, queue.work(1.0)) == 128


def test_a_block_is_synchronized_once_and_the_flush_is_enqueued_before_each_sample() -> None:
    queue, order = Queue(), list[str]()
    timer = EventTimer(queue.event, queue.synchronize, flush=lambda: order.append("flush"))
    before = queue.synchronized
    order.clear()
    found = timer.samples(lambda: order.append("call"), 7)
    assert order == list(itertools.chain.from_iterable([["flush", "call"]] * 7))
    assert queue.synchronized == before + 1
    assert np.isfinite(found).all()
