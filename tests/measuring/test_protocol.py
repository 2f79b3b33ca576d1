"""Warm-up and stopping rule on synthetic timers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.arrays import FloatArray
from flopcast.errors import DataError
from flopcast.measuring.timing import (
    INTERVAL,
    REPEATS,
    TIME,
    WARMUP_SECONDS,
    WINDOW,
    Rule,
    half_width,
    half_widths,
    row_statistics,
    visit,
    warm_up,
)
from flopcast.traces.cleaning.robust import median_intervals

RULE = Rule(rounds=1)


class FakeClock:
    """Seconds that pass only when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class FakeTimer:
    """Samples from a given series of microseconds, each costing its own time on the clock."""

    def __init__(
        self, series: Iterable[float], clock: FakeClock | None = None, cost_us: float = 0.0
    ) -> None:
        self._series: Iterator[float] = iter(series)
        self.clock, self.cost_us, self.cold, self.most_calls = (
            clock or FakeClock(),
            cost_us,
            False,
            4096,
        )
        self.late, self.late_blocks = 0, 0
        self.asked: list[tuple[int, int]] = []

    def samples(self, call: Callable[[], Any], count: int, calls: int = 1) -> FloatArray:
        self.asked.append((count, calls))
        self.late += self.late_blocks * count
        taken = np.array([next(self._series) for _ in range(count)])
        self.clock.now += float(taken.sum()) * calls / 1e6
        return taken


def steady(microseconds: float, spread: float, seed: int = 0) -> itertools.chain[float]:
    """Return endless samples: a normal deviation relative to the median."""
    rng = np.random.default_rng(seed)
    return itertools.chain.from_iterable(
        microseconds * (1 + spread * rng.standard_normal(1000)) for _ in range(10_000)
    )


def nothing() -> None:
    """Stand in for a call; the fake timers never look at it."""


def test_a_quiet_kernel_ends_by_its_interval_but_not_before_the_least_repeats_and_time() -> None:
    timer = FakeTimer(steady(100.0, 1e-4))
    found = visit(timer, nothing, RULE, clock=timer.clock)
    assert found.ended == INTERVAL
    assert len(found.samples_us) >= RULE.least
    assert 1e-6 * found.samples_us.sum() >= RULE.least_seconds
    assert half_width(found.samples_us, RULE.level) <= RULE.precision
    assert found.warm


def test_a_noisier_kernel_takes_more_samples() -> None:
    counts = []
    for spread in (0.01, 0.1, 0.2):
        timer = FakeTimer(steady(1000.0, spread))
        found = visit(timer, nothing, Rule(rounds=1, seconds=100.0), clock=timer.clock)
        assert found.ended == INTERVAL
        counts.append(len(found.samples_us))
    assert counts == sorted(set(counts))
    # the interval of a normal median is ±1.96 x 1.2533 spread / sqrt(n) <= 1 %
    assert 0.5 < counts[-1] / (1.96 * 1.2533 * 0.2 / 0.01) ** 2 < 3


def test_a_slow_noisy_kernel_ends_at_its_time_with_the_least_repeats() -> None:
    timer = FakeTimer(steady(10_000.0, 0.3))
    found = visit(timer, nothing, RULE, clock=timer.clock)
    assert found.ended == TIME
    assert len(found.samples_us) >= RULE.least
    assert RULE.seconds <= timer.clock.now < 2 * RULE.seconds


def test_a_kernel_too_slow_for_the_least_repeats_ends_when_patience_does() -> None:
    timer = FakeTimer(steady(200_000.0, 0.3))
    found = visit(timer, nothing, RULE, clock=timer.clock)
    assert found.ended == TIME
    assert 1 <= len(found.samples_us) < RULE.least
    assert timer.clock.now == pytest.approx(RULE.seconds * RULE.patience, rel=0.15)


def test_one_call_longer_than_the_limit_is_one_sample_after_one_call_of_warming_up() -> None:
    timer = FakeTimer(steady(100e6, 0.01))
    found = visit(timer, nothing, RULE, clock=timer.clock)
    assert (found.ended, len(found.samples_us), found.warmup_samples, found.warm) == (
        TIME,
        1,
        1,
        False,
    )
    assert [count for count, _ in timer.asked] == [1, 1]


def test_a_first_call_that_compiles_takes_nothing_from_the_warm_up_or_the_samples() -> None:
    timer = FakeTimer(itertools.chain([3e6], steady(100.0, 1e-3)), cost_us=10.0)
    found = visit(timer, nothing, RULE, clock=timer.clock)
    assert found.calls == 32  # 20 calls of 100 us are 200 times the clock's 10 us
    assert found.warmup_samples >= 2 + 2 * WINDOW
    assert found.warm
    assert (found.ended, found.samples_us.max() < 110) == (INTERVAL, True)


def test_a_call_longer_than_the_allowance_of_the_warm_up_still_has_its_least_repeats() -> None:
    timer = FakeTimer(steady(0.3e6, 0.1))
    found = visit(timer, nothing, Rule(rounds=1, least=6), clock=timer.clock)
    assert (found.warmup_samples, found.calls) == (1, 1)
    assert len(found.samples_us) >= 6


@pytest.mark.parametrize(("late", "microseconds"), [(0, 100.0), (1, 100.0), (1, 0.3e6)])
def test_late_samples_are_counted_but_not_those_of_the_warm_up(
    late: int, microseconds: float
) -> None:
    timer = FakeTimer(steady(microseconds, 1e-3))
    timer.late_blocks = late
    found = visit(timer, nothing, RULE, clock=timer.clock)
    assert found.late == late * len(found.samples_us)


def test_the_most_repeats_end_what_never_settles() -> None:
    timer = FakeTimer(steady(10.0, 3.0))
    found = visit(timer, nothing, Rule(rounds=1, seconds=100.0, most=2000), clock=timer.clock)
    assert (found.ended, len(found.samples_us)) == (REPEATS, 2000)


def test_rounds_share_the_repeats() -> None:
    rule = Rule(rounds=3, least=50, most=6000)
    assert (rule.least_of_visit, rule.most_of_visit) == (17, 2000)


def test_warm_up_goes_on_until_two_windows_agree() -> None:
    falling = [1000 * 2.0**-i for i in range(4) for _ in range(WINDOW)]
    clock = FakeClock()
    timer = FakeTimer(itertools.chain(falling, itertools.repeat(100.0)), clock)
    dropped, warm = warm_up(timer, nothing, 1, 10.0, clock=clock)
    assert warm
    assert dropped >= len(falling) + 2 * WINDOW
    assert clock.now >= WARMUP_SECONDS


def test_warm_up_that_never_settles_ends_and_says_so() -> None:
    clock = FakeClock()
    timer = FakeTimer((1e4 * 1.1**i for i in range(1000) for _ in range(WINDOW)), clock)
    dropped, warm = warm_up(timer, nothing, 1, 0.25, clock=clock)
    assert not warm
    assert dropped % WINDOW == 0
    assert 0.25 <= clock.now < 0.6


def test_the_warm_up_is_not_in_the_samples() -> None:
    slow_first = itertools.chain([500.0] * 13, itertools.repeat(100.0))
    timer = FakeTimer(slow_first)
    found = visit(timer, nothing, RULE, clock=timer.clock)
    assert set(found.samples_us) == {100.0}
    assert found.warmup_samples >= 2 * WINDOW


def test_half_width_is_the_wider_side_of_the_binomial_interval() -> None:
    samples = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 9.0])
    (row,) = median_intervals(samples, [0] * 6).to_dict("records")
    assert (row["lower"], row["upper"]) == (1.0, 9.0)
    assert half_width(samples, 0.95) == pytest.approx((9 - 3.5) / 3.5)


@pytest.mark.parametrize("samples", [[1.0, 1.0, 1.0], [0.0] * 10])
def test_too_few_samples_or_a_time_of_zero_have_no_interval(samples: list[float]) -> None:
    assert half_width(np.array(samples), 0.95) == np.inf


@pytest.mark.long
def test_the_median_is_as_close_to_the_truth_as_the_rule_promises() -> None:
    inside = 0
    for seed in range(50):
        timer = FakeTimer(steady(1000.0, 0.1, seed))
        found = visit(timer, nothing, Rule(rounds=1, seconds=100.0), clock=timer.clock)
        assert found.ended == INTERVAL
        inside += abs(np.median(found.samples_us) / 1000 - 1) <= 0.01
    # 95 % promised, a little less because looking repeatedly stops at lucky moments
    assert inside >= 45


@pytest.mark.parametrize(
    ("options", "message"), [({"precision": 0.0}, "precision must"), ({"rounds": 0}, "rounds must")]
)
def test_rules_that_cannot_be_met_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Rule(**options)  # type: ignore[arg-type]


TRUTH_US = 100.0


def three(middles_us: list[float], *, count: int = 400) -> list[FloatArray]:
    """Return visits about the given medians, each with a deviation of 0.1 %."""
    rng = np.random.default_rng(0)
    return [middle * (1 + 1e-3 * rng.standard_normal(count)) for middle in middles_us]


def simulated(
    between: float, rows: int, *, visits: int = 3, seed: int = 0
) -> tuple[list[FloatArray], FloatArray]:
    """Return samples whose visits deviate by so much from a truth of 100 us, and their rows."""
    rng = np.random.default_rng(seed)
    middles = TRUTH_US * np.exp(between * rng.standard_normal(rows * visits))
    samples = list(middles[:, None] * (1 + 0.01 * rng.standard_normal((rows * visits, 200))))
    return samples, np.repeat(np.arange(rows), visits)


def test_visits_that_differ_widen_the_interval() -> None:
    (row,) = row_statistics(
        three([90.0, 100.0, 110.0]), [0, 0, 0], level=0.95, threshold=7.0
    ).to_dict("records")
    assert row["duration_us"] == pytest.approx(100.0, rel=1e-3)
    assert row["interval_low_us"] < 85
    assert row["interval_high_us"] > 115


def test_visits_that_agree_have_the_interval_of_their_samples() -> None:
    found = row_statistics(
        [TRUTH_US + np.arange(-9.0, 10.0)] * 3, [0, 0, 0], level=0.95, threshold=7.0
    )
    # 57 samples: the 21st and the 37th smallest enclose the median with 95 %; each value stands three times
    assert found[["duration_us", "interval_low_us", "interval_high_us"]].to_numpy().tolist() == [
        [100.0, 97.0, 103.0]
    ]


def test_a_visit_unlike_the_others_is_no_outlier() -> None:
    (row,) = row_statistics(
        three([100.0, 100.1, 130.0]), [0, 0, 0], level=0.95, threshold=7.0
    ).to_dict("records")
    assert (row["repeats"], row["outliers"]) == (1200, 0)
    assert row["duration_us"] == pytest.approx(100.1, rel=1e-3)
    assert row["interval_high_us"] > 130


def test_outliers_are_told_within_each_visit() -> None:
    quiet, loud = [10.0, 10.1, 10.2, 10.3, 10.4, 12.0], [20.0, 21.0, 22.0, 23.0, 24.0, 22.0]
    found = row_statistics([quiet, loud], [0, 0], level=0.95, threshold=7.0)
    assert (found["outliers"].tolist(), found["repeats"].tolist()) == ([1], [11])


def test_a_visit_of_many_samples_counts_once() -> None:
    found = row_statistics(
        [[1.0] * 9, [2.0] * 9, [3.0] * 500], [4, 4, 4], level=0.95, threshold=7.0
    )
    assert found["duration_us"].to_dict() == {4: 2.0}


def test_a_single_visit_has_the_interval_of_its_samples_and_few_samples_none() -> None:
    found = row_statistics(
        [np.arange(1.0, 7.0), np.arange(1.0, 6.0)], [0, 1], level=0.95, threshold=7.0
    )
    assert found["interval_low_us"].iloc[0] == 1.0
    assert found["interval_high_us"].iloc[0] == 6.0
    assert found[["interval_low_us", "interval_high_us"]].iloc[1].isna().all()


@pytest.mark.parametrize("samples", [[[0.0] * 9], [[0.0] * 9, [1.0] * 9]])
def test_a_median_of_zero_has_no_interval(samples: list[list[float]]) -> None:
    found = row_statistics(samples, [0] * len(samples), level=0.95, threshold=7.0)
    assert found[["interval_low_us", "interval_high_us"]].isna().to_numpy().all()


@pytest.mark.parametrize("between", [0.0, 0.002, 0.02])
def test_the_interval_covers_the_truth_as_often_as_it_says(between: float) -> None:
    rule = Rule()
    found = row_statistics(*simulated(between, 500), level=rule.level, threshold=rule.threshold)
    covered = found["interval_low_us"].le(TRUTH_US) & found["interval_high_us"].ge(TRUTH_US)
    assert covered.mean() >= 0.93  # 95 % and two standard errors of 500 rows


def test_visits_of_two_percent_are_rarely_known_to_one() -> None:
    found = row_statistics(*simulated(0.02, 500), level=0.95, threshold=7.0)
    width = (found["interval_high_us"] - found["interval_low_us"]) / 2 / found["duration_us"]
    assert (width <= 0.01).mean() < 0.05


def test_the_wider_half_of_the_interval_counts() -> None:
    rows = {
        "duration_us": [100, 200, 9.5],
        "interval_low_us": [99, 190, 9.5],
        "interval_high_us": [102, 204, 9.5],
    }
    assert half_widths(pd.DataFrame(rows)).tolist() == pytest.approx([0.02, 0.05, 0.0])
