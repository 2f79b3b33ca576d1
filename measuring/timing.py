"""Clocks: samples of the time one call takes, on the host's clock or by events in the device's own queue.

A timer gives blocks of samples in microseconds per call. One sample is a batch of calls timed together, long enough
that the cost and the resolution of the clock do not show (`calls_per_sample`); with a cold cache it is one call, after
the cache was filled with other data.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..arrays import FloatArray

Call = Callable[[], Any]

CLOCK_SHARE = 0.005
"""Part of a sample that the clock itself may take."""
MOST_CALLS, MOST_QUEUED_CALLS = 4096, 256
"""Calls of one sample at most, on the host's clock and by events."""
QUEUED = 512
"""Calls and events that wait in a device's queue at most: CUDA's holds 1024, then the host would wait."""
MOST_HOLD_US = 20_000.0
"""The longest pause before a block."""
EVENT_STEP_US = 0.5
"""Resolution of timing events (CUDA runtime API, ``cudaEventElapsedTime``: around 0.5 microseconds)."""
_MOST_STRETCH = 10.0
"""A pause counts as so many times longer or shorter than asked for at most: one interruption is not the rule."""
_READINGS = 200


class Timer(Protocol):
    """Something that times calls."""

    cost_us: float  # what the clock adds to a sample, or the finest step it shows, whichever is larger
    cold: bool  # whether the cache is filled with other data before each sample
    most_calls: int  # of one sample
    late: int  # samples so far that may hold part of the time it takes to launch a call (`EventTimer`)

    def samples(self, call: Call, count: int, calls: int = 1) -> FloatArray:
        """Return `count` samples of `calls` calls each, in microseconds per call."""
        ...


class HostTimer:
    """The host's clock (nanoseconds) around the calls; for devices that work while the host waits.

    `flush` fills the cache with other data before each sample, outside the time taken.
    """

    def __init__(self, flush: Call | None = None, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._flush, self._clock, self.cold = flush, clock, flush is not None
        self.most_calls, self.late = MOST_CALLS, 0
        self.cost_us = _clock_cost_ns(clock) / 1e3

    def samples(self, call: Call, count: int, calls: int = 1) -> FloatArray:
        """Return `count` samples of `calls` calls each, in microseconds per call."""
        clock, flush, taken = self._clock, self._flush, np.empty(count)
        repeated = range(calls)
        for index in range(count):
            if flush is not None:
                flush()
            begin = clock()
            for _ in repeated:
                call()
            taken[index] = clock() - begin
        return taken / (1e3 * calls)


class EventTimer:
    """Timing events in the queue of a GPU, in line with the work, read when a block of samples is done.

    The host only enqueues. So that the device never waits for it, each block begins with a pause on the device
    (`hold`) as long as enqueuing took for the block before. The pause counts the device's clock, which changes: events
    around it tell how long it was, and the next is corrected. Where it was over before all was enqueued, the samples
    of the block are counted as late.

    Parameters
    ----------
    event : callable
        Returns a new timing event with ``record()``, ``query()`` (whether the device has reached it) and
        ``elapsed_time(later)`` in milliseconds (``torch.cuda.Event``; HIP's under ROCm).
    synchronize : callable
        Waits for the device.
    hold : callable, optional
        Enqueues a pause of so many microseconds on the device; without it a kernel shorter than its launch is timed
        with part of the launch.
    flush : callable, optional
        Enqueues work that fills the cache with other data before each sample, outside the time taken.
    """

    def __init__(
        self,
        event: Callable[[], Any],
        synchronize: Callable[[], None],
        *,
        hold: Callable[[float], None] | None = None,
        flush: Call | None = None,
    ) -> None:
        self._event, self._synchronize, self._hold, self._flush = event, synchronize, hold, flush
        self.cold, self.most_calls, self.late = flush is not None, MOST_QUEUED_CALLS, 0
        self._enqueue_us, self._stretch = 50.0, 1.0
        self.cost_us = max(float(np.median(self.samples(lambda: None, 50))), EVENT_STEP_US)
        self.late = 0

    def samples(self, call: Call, count: int, calls: int = 1) -> FloatArray:
        """Return `count` samples of `calls` calls each, in microseconds per call."""
        block = max(QUEUED // (calls + 2 + self.cold), 1)
        parts = [self._block(call, min(block, count - done), calls) for done in range(0, count, block)]
        return np.concatenate(parts)

    def _block(self, call: Call, count: int, calls: int) -> FloatArray:
        pairs = [(self._event(), self._event()) for _ in range(count)]
        held = self._pause(min(1.5 * self._enqueue_us * count * calls, MOST_HOLD_US))
        started = time.perf_counter_ns()
        for begin, end in pairs:
            if self._flush is not None:
                self._flush()
            begin.record()
            for _ in range(calls):
                call()
            end.record()
        self._enqueue_us = (time.perf_counter_ns() - started) / (1e3 * count * calls)
        if pairs[0][0].query():
            self.late += count
        self._synchronize()
        self._stretch *= held()
        return np.array([begin.elapsed_time(end) for begin, end in pairs]) * (1e3 / calls)

    def _pause(self, microseconds: float) -> Callable[[], float]:
        """Hold the queue; return what tells, once the device is done, how much longer it was held than that."""
        if self._hold is None:
            return lambda: 1.0
        begin, end = self._event(), self._event()
        begin.record()
        self._hold(microseconds / self._stretch)
        end.record()
        return lambda: float(np.clip(1e3 * begin.elapsed_time(end) / microseconds, 1 / _MOST_STRETCH, _MOST_STRETCH))


def calls_per_sample(timer: Timer, call: Call) -> int:
    """Return how many calls one sample must hold for the clock's cost to stay below `CLOCK_SHARE` of it.

    A power of two, found by doubling; 1 with a cold cache, which a second call would find warm.
    """
    calls = 1
    while not timer.cold and calls < timer.most_calls:
        if calls * float(np.median(timer.samples(call, 3, calls))) * CLOCK_SHARE >= timer.cost_us:
            break
        calls *= 2
    return calls


def _clock_cost_ns(clock: Callable[[], int]) -> float:
    """Return the median time between two readings of a clock, at least its finest step."""
    readings = np.array([clock() for _ in range(_READINGS)], dtype=np.float64)
    steps = np.diff(readings)
    moved = steps[steps > 0]
    return max(float(np.median(steps)), float(moved.min()) if len(moved) else 0.0)
