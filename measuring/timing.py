"""How a call is timed: the clock, the warm-up, how often it is repeated, and the time of a row from its visits.

A timer gives blocks of samples in microseconds per call, on the host's clock or by events in the
device's queue. One sample is a batch of calls timed together, long enough that the cost and the
resolution of the clock do not show (`calls_per_sample`); with a cold cache it is one call, after
the cache was filled with other data.

A visit warms up until the times are stable, then samples until the median is precise enough or a
limit ends it (`Rule`, `visit`).

Samples of one visit are alike: memory stays where it was allocated, clock and neighbours hardly
change within a second. A visit is one draw of the machine's state, and how far visits lie apart
says more about a time than how many samples each has. Outliers are therefore those of a visit, the
time is the median of the visits' medians (each counts once, though a noisy visit takes more
samples), and its interval is the wider of two (`row_statistics`): of the median of all samples,
from order statistics (`traces.cleaning.robust.median_intervals`); of the medians of the visits, by
Student's t (`traces.cleaning.robust.part_intervals`).

With a budget a row is visited until that interval is narrow enough: stopping by what is measured
makes it a little too narrow. In simulation with normal visits 95 % intervals then hold 91 to 95 %,
the less the further visits lie apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ..arrays import FloatArray
from ..errors import ParameterError
from ..traces.cleaning.robust import (
    THRESHOLD,
    interval_ranks,
    mad_filter,
    median_intervals,
    part_intervals,
)

Call = Callable[[], Any]
CLOCK_SHARE = 0.005  # part of a sample that the clock itself may take
# calls of one sample at most, on the host's clock and by events
MOST_CALLS = 4096
MOST_QUEUED_CALLS = 256
QUEUED = 512  # calls and events that wait in a device's queue at most: CUDA's holds 1024, then the host would wait
MOST_HOLD_US = 20_000.0  # the longest pause before a block
EVENT_STEP_US = 0.5  # resolution of timing events (CUDA runtime API, ``cudaEventElapsedTime``: around 0.5 microseconds)
_MOST_STRETCH = 10.0
"""A pause counts as so many times longer or shorter than asked for at most: one interruption is not the rule."""
_READINGS = 200


class Timer(Protocol):
    """Something that times calls."""

    # what the clock adds to a sample, or the finest step it shows, whichever is larger
    cost_us: float
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

    def __init__(
        self, flush: Call | None = None, clock: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self._flush = flush
        self._clock = clock
        self.cold = flush is not None
        self.most_calls = MOST_CALLS
        self.late = 0
        steps = np.diff(np.array([clock() for _ in range(_READINGS)], dtype=np.float64))
        # a reading costs the clock's finest step at least
        finest = [*steps[steps > 0]] or [0.0]
        self.cost_us = max(float(np.median(steps)), float(min(finest))) / 1e3

    def samples(self, call: Call, count: int, calls: int = 1) -> FloatArray:
        """Return `count` samples of `calls` calls each, in microseconds per call."""
        clock = self._clock
        flush = self._flush
        taken = np.empty(count)
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
    """Timing events in the queue of a GPU, among the work, read when a block of samples is done.

    The host only enqueues. So that the device never waits for it, each block begins with a pause on
    the device (`hold`) as long as enqueuing took for the block before. The pause counts the
    device's clock, which changes: events around it tell how long it was, and the next is corrected.
    Where it was over before all was enqueued, the samples of the block are counted as late.

    ``event`` returns a new timing event with ``record()``, ``query()`` (whether the device has
    reached it) and ``elapsed_time(later)`` in milliseconds (``torch.cuda.Event``; HIP's under
    ROCm); ``hold`` enqueues a pause of so many microseconds: without it a kernel shorter than its
    launch is timed with part of the launch; ``flush`` enqueues work that fills the cache with other
    data before each sample, outside the time taken.
    """

    def __init__(
        self,
        event: Callable[[], Any],
        synchronize: Callable[[], None],
        *,
        hold: Callable[[float], None] | None = None,
        flush: Call | None = None,
    ) -> None:
        self._event = event
        self._synchronize = synchronize
        self._hold = hold
        self._flush = flush
        self.cold = flush is not None
        self.most_calls = MOST_QUEUED_CALLS
        self.late = 0
        self._enqueue_us = 50.0
        self._stretch = 1.0
        self.cost_us = max(float(np.median(self.samples(lambda: None, 50))), EVENT_STEP_US)
        self.late = 0

    def samples(self, call: Call, count: int, calls: int = 1) -> FloatArray:
        """Return `count` samples of `calls` calls each, in microseconds per call."""
        block = max(QUEUED // (calls + 2 + self.cold), 1)
        sizes = [min(block, count - done) for done in range(0, count, block)]
        return np.concatenate([self._block(call, size, calls) for size in sizes])

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
        """Hold the queue; return what measures, once the device is done, how much longer it was held than that."""
        if self._hold is None:
            return lambda: 1.0
        begin = self._event()
        end = self._event()
        begin.record()
        self._hold(microseconds / self._stretch)
        end.record()

        def stretch() -> float:
            held = 1e3 * begin.elapsed_time(end) / microseconds
            return float(np.clip(held, 1 / _MOST_STRETCH, _MOST_STRETCH))

        return stretch


def calls_per_sample(timer: Timer, call: Call) -> int:
    """Return the calls that one sample needs for the clock's cost to stay below `CLOCK_SHARE` of it.

    A power of two, by doubling; 1 with a cold cache, which a second call would find warm.
    """
    calls = 1
    while not timer.cold and calls < timer.most_calls:
        if calls * float(np.median(timer.samples(call, 3, calls))) * CLOCK_SHARE >= timer.cost_us:
            break
        calls *= 2
    return calls


# what ends a visit
INTERVAL = "interval"
TIME = "time"
REPEATS = "repeats"
DIFFER = "rounds differ"
UNFINISHED = "unfinished"
# what the column `stopped_by` says of a row (see `session`)
ENDINGS = (
    INTERVAL,
    DIFFER,
    REPEATS,
    TIME,
    UNFINISHED,
)
WINDOW = 5  # samples of one window of the warm-up
STABLE = 0.02  # a window is stable whose median lies within this part of that of the window before
WARMUP_SECONDS = 0.02  # the least warm-up, unless the limit of time is smaller
WARMUP_SHARE = 0.25  # part of the time of a visit that warming up may take


PRECISION: Final = 0.01
ROUNDS: Final = 3


@dataclass(frozen=True)
class Rule:
    """The stopping rule.

    A *visit* is one stretch of samples of a row; a row is visited once in each round of a pass,
    with fresh operands and in another order. Samples close in time are alike, and memory once
    allocated stays where it is: several short visits know a median better than a long one. No visit
    ends by its interval or at its time limit with fewer than its part of `least` samples, none goes
    on beyond its part of `most`. While a budget lasts, rows less precise than `precision` get more
    visits (`session.MOST_VISITS`), each with the same part of both.
    """

    # half-width of the median's interval, relative to it, at which a visit ends (0.01 = 1 %)
    precision: float = PRECISION
    level: float = 0.95  # coverage of that interval
    least: int = 50  # samples of a row, over all rounds of a pass
    most: int = 6000  # samples beyond which no row goes on
    least_seconds: float = 0.05  # time of a visit before which the interval is not trusted
    seconds: float = 1.0  # time of a visit that ends it
    # a visit that then lacks its part of `least` goes on for so many times `seconds`
    patience: float = 4.0
    rounds: int = ROUNDS  # visits of a row in each pass
    threshold: float = THRESHOLD  # MAD beyond which a sample is an outlier

    def __post_init__(self) -> None:
        if not 0 < self.precision < 1:
            raise ParameterError(
                "precision", f"must lie between 0 and 1, got {self.precision:g}: 0.01 means ±1 %"
            )
        if self.rounds < 1:
            raise ParameterError("rounds", f"must be 1 or more, got {self.rounds}")

    @property
    def least_of_visit(self) -> int:
        """Samples that each visit must have."""
        return -(-self.least // self.rounds)

    @property
    def most_of_visit(self) -> int:
        """Samples that no visit exceeds."""
        return max(self.most // self.rounds, 1)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON types."""
        return asdict(self)


@dataclass(frozen=True)
class Visit:
    """The samples of one visit."""

    samples_us: FloatArray  # (n,), time of one call in each sample
    calls: int  # in each sample
    warmup_samples: int  # dropped at the beginning
    warm: bool  # whether the warm-up ended because the times were stable, not because its time was over
    ended: str  # `INTERVAL`, `TIME` or `REPEATS`
    late: int = 0  # samples that may hold part of the time it takes to launch a call


def visit(
    timer: Timer, call: Call, rule: Rule, *, clock: Callable[[], float] = time.perf_counter
) -> Visit:
    """Warm up and sample a call.

    The first call may compile, allocate or choose an algorithm, and never counts, nor does its
    time: the limits hold, in seconds of `clock`, from the second on. Where the second takes all the
    time that warming up may, it is the first sample.
    """
    timer.samples(call, 1)
    started = clock()
    patience = rule.seconds * WARMUP_SHARE
    late = timer.late
    second = timer.samples(call, 1)
    if clock() - started >= patience:
        samples, ended = _repeat(
            timer,
            call,
            1,
            rule,
            clock,
            started,
            [second],
        )
        return Visit(
            samples,
            1,
            1,
            False,
            ended,
            timer.late - late,
        )
    calls = calls_per_sample(timer, call)
    dropped, warm = warm_up(
        timer,
        call,
        calls,
        patience,
        clock=clock,
    )
    late = timer.late
    samples, ended = _repeat(
        timer,
        call,
        calls,
        rule,
        clock,
        started,
    )
    return Visit(
        samples,
        calls,
        dropped + 2,
        warm,
        ended,
        timer.late - late,
    )


def warm_up(
    timer: Timer,
    call: Call,
    calls: int,
    seconds: float,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[int, bool]:
    """Repeat until the times are stable: the medians of two windows in a row differ by `STABLE` at most.

    At least `WARMUP_SECONDS` (or `seconds`, if that is less), at most `seconds`. Returns the number
    of samples taken, and whether the times became stable.
    """
    started = clock()
    dropped = 0
    before = np.inf
    while True:
        now = float(np.median(timer.samples(call, WINDOW, calls)))
        dropped += WINDOW
        stable = abs(now - before) <= STABLE * before < np.inf
        spent = clock() - started
        if (stable and spent >= min(WARMUP_SECONDS, seconds)) or spent >= seconds:
            return dropped, stable
        before = now


def half_width(samples: FloatArray, level: float) -> float:
    """Return the wider half of the interval of the median, relative to the median; inf for too few samples."""
    (rank,) = interval_ranks(np.array([len(samples)]), level)
    median = float(np.median(samples))
    if not (rank > 0 and median > 0):
        return np.inf
    ordered = np.sort(samples)
    width = max(ordered[-rank] - median, median - ordered[rank - 1]) / median
    if np.isfinite(width):
        return float(width)
    return np.inf


def _repeat(
    timer: Timer,
    call: Call,
    calls: int,
    rule: Rule,
    clock: Callable[[], float],
    started: float,
    first: Sequence[FloatArray] = (),
) -> tuple[FloatArray, str]:
    """Sample until the rule says stop, the `first` samples taken since `started`; return all and what ended them."""
    parts = list(first)
    taken = sum(map(len, first))
    begun = started
    if not taken:
        begun = clock()
    while True:
        enough = taken >= rule.least_of_visit
        limit = rule.seconds * (1.0 if enough else rule.patience)
        left = limit - (clock() - started)
        sampled = clock() - begun
        if enough and sampled >= rule.least_seconds:
            samples = np.concatenate(parts)
            if half_width(samples, rule.level) <= rule.precision:
                return samples, INTERVAL
        if taken and (taken >= rule.most_of_visit or left <= 0):
            return np.concatenate(parts), TIME if left <= 0 else REPEATS
        # half as many as there are, if there is time for them
        affordable = int(left * taken / max(sampled, 1e-9)) + 1
        block = max(1, min(taken // 2, affordable, rule.most_of_visit - taken))
        parts.append(timer.samples(call, block, calls))
        taken += len(parts[-1])


def row_statistics(
    samples_us: Sequence[ArrayLike], rows: ArrayLike, *, level: float, threshold: float
) -> pd.DataFrame:
    """Return duration, spread, counts and interval of each row, by its number (the index).

    ``samples_us`` are those of each visit, µs, none empty, of the row whose number it has in
    ``rows`` (n_visits,); outliers lie more than ``threshold`` MAD from their visit's median.
    `spread_us` is the median absolute deviation of all samples of the row, missing for one;
    `repeats` and `outliers` are samples kept and removed; `interval_low_us` and `interval_high_us`,
    at ``level``, are missing where a row has too few samples for it, or a visit's median is not
    positive.
    """
    numbers = np.asarray(rows, dtype=np.int64)
    sizes = [np.size(samples) for samples in samples_us]
    samples = np.concatenate([np.asarray(part, dtype=np.float64) for part in samples_us])
    visits = np.repeat(np.arange(len(sizes)), sizes)
    kept = mad_filter(samples, threshold, groups=visits).kept
    samples = samples[kept]
    visits = visits[kept]
    pooled = median_intervals(samples, numbers[visits], level)
    # of all visits: the filter keeps the median's neighbours
    medians = pd.Series(samples).groupby(visits).median()
    between = part_intervals(medians.to_numpy(), numbers, level)
    duration = medians.groupby(numbers).median()
    alone = between["n"].eq(1)
    # of one visit alone the samples tell, of several the wider of both
    low = pooled["lower"].where(alone, np.minimum(pooled["lower"], between["lower"]))
    high = pooled["upper"].where(alone, np.maximum(pooled["upper"], between["upper"]))
    low = low.clip(upper=duration)
    high = high.clip(lower=duration)
    has_interval = duration.gt(0) & low.notna() & high.notna()
    return pd.DataFrame(
        {
            "duration_us": duration.round(4),
            "spread_us": pooled["mad"].where(pooled["n"] > 1).round(4),
            "repeats": pooled["n"],
            "outliers": pd.Series(sizes).groupby(numbers).sum() - pooled["n"],
            "interval_low_us": low.where(has_interval).round(4),
            "interval_high_us": high.where(has_interval).round(4),
        }
    )


def half_widths(table: pd.DataFrame) -> pd.Series:
    """Return the wider half of the interval of each row, relative to its median."""
    middle = table["duration_us"]
    wider = np.maximum(table["interval_high_us"] - middle, middle - table["interval_low_us"])
    return wider / middle  # pyrefly: ignore[bad-return]
