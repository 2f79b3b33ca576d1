"""Cleaning from end to end, on made-up runs with known defects and on real profiles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.readers import TraceFailure, read_traces
from flopcast.remarks import remark
from flopcast.tests.traces.cleaning.oracles.halves import LEAST_COMPARED, difference_of_medians
from flopcast.traces.cleaning.pipeline import CleanOptions, clean
from flopcast.traces.cleaning.repeats import pool, repeat_codes, resolutions_ns
from flopcast.traces.dispatches import empty_steps
from flopcast.traces.summary import Annotated

Table = Callable[..., pd.DataFrame]


def run(kernels: Table, seed: int = 0, count: int = 200) -> pd.DataFrame:
    """Return repeats of 10 us +- 1 %: 20 slow ones at first, then one of 25 us, one of no time."""
    times = np.random.default_rng(seed).normal(10.0, 0.1, count)
    times[:20] *= 1.5
    times[100], times[150] = 25.0, 0.0
    return kernels(times)


def test_every_defect_is_removed_for_its_reason_and_counted(kernels: Table) -> None:
    table = run(kernels)
    found = clean(table, empty_steps())
    assert found.removed_by_reason == {"warm-up": 20, "outlier": 1, "zero-duration": 1}
    assert found.removed.loc[100, ["reason", "source"]].tolist() == ["outlier", "t.json:101"]
    assert found.removed.loc[100, "median_us"] == pytest.approx(10.0, abs=0.05)
    assert 0 < found.removed.loc[100, "limit_us"] < 1
    assert found.removed.loc[150, "reason"] == "zero-duration"
    assert sorted([*found.dispatches.index, *found.removed.index]) == list(range(200))
    [row] = found.report.to_dict("records")
    assert (row["measured"], row["n"], row["removed.outlier"], row["removed.warm-up"]) == (
        200,
        178,
        1,
        20,
    )
    assert row["lower_us"] < 10.0 < row["upper_us"]
    assert found.dispatches.equals(table.loc[found.dispatches.index])


def test_each_rule_can_be_left_out(kernels: Table) -> None:
    table = run(kernels)
    everything = clean(table, empty_steps(), CleanOptions(mad=None, warm_up=False))
    assert everything.removed_by_reason == {"zero-duration": 1}
    assert clean(table, empty_steps(), CleanOptions(mad=1000.0)).removed_by_reason == {
        "warm-up": 20, "zero-duration": 1,
    }  # fmt: skip


def test_repeats_of_several_runs_are_judged_together_but_warm_up_by_run(kernels: Table) -> None:
    found = clean(pool([run(kernels, 0), run(kernels, 1)]), empty_steps())
    assert found.removed_by_reason == {"warm-up": 40, "outlier": 2, "zero-duration": 2}
    assert found.removed["run"].value_counts().to_dict() == {0: 22, 1: 22}
    assert len(found.report) == 1


def test_steps_go_first_and_calls_stay_whole(kernels: Table) -> None:
    step = np.repeat(np.arange(6), 20)
    times = np.random.default_rng(0).normal(10.0, 0.1, 120)
    times[50] = 30.0
    table = kernels(times, step=step, op_id=np.arange(120) // 2).assign(op="gemm")
    steps = pd.DataFrame({"step": range(6), "start_ns": 0, "duration_ns": 1})
    found = clean(table, steps, CleanOptions(steps="1:4"))
    assert found.removed_by_reason == {"step-not-asked-for": 40, "outlier": 1, "rest-of-call": 1}
    assert found.removed.index[found.removed["reason"] == "rest-of-call"].tolist() == [51]
    assert found.steps["reason"].tolist() == [
        "step-not-asked-for",
        "",
        "",
        "",
        "",
        "step-not-asked-for",
    ]
    assert found.notes == (remark("few-steps-kept", steps=4, wanted=50),)


def test_the_fullest_bin_is_kept_on_demand_and_short_kernels_are_told(kernels: Table) -> None:
    times = np.r_[
        np.random.default_rng(0).normal(100.0, 0.5, 60), np.full(30, 118.0), np.full(10, 5.0)
    ]
    table = kernels(times, name=["long"] * 90 + ["short"] * 10)
    found = clean(table, empty_steps(), CleanOptions(mad=None, golden=True, warm_up=False))
    assert found.removed_by_reason == {"not-in-fullest-bin": 30}
    assert found.notes == (remark("kernels-below-binning", kernels=1, least_us=25.0),)


def test_a_kernel_that_does_not_settle_is_told_and_kept(kernels: Table) -> None:
    times = np.random.default_rng(0).normal(10.0, 0.1, 100) + np.repeat([0.0, 2.0], [60, 40])
    found = clean(kernels(times), empty_steps(), CleanOptions(mad=None))
    assert not found.removed_by_reason
    assert not found.report["settled"].any()
    assert found.notes == (remark("kernels-not-settled", kernels=1),)


def test_outliers_that_take_much_of_the_time_are_told(kernels: Table) -> None:
    found = clean(
        kernels(np.r_[np.linspace(9.9, 10.1, 50), 500.0], name="ncclDevKernel"), empty_steps()
    )
    [note] = found.notes
    told = dict(note.items)
    assert (note.code, told["kernel"]) == ("outliers-take-time", "ncclDevKernel")
    assert told["share"] == pytest.approx(0.5, abs=0.01)


def test_a_second_way_of_running_is_told_from_accidents(kernels: Table) -> None:
    rng = np.random.default_rng(0)
    two_ways = rng.permutation(np.r_[rng.normal(50.0, 0.1, 80), rng.normal(60.0, 0.1, 20)])
    accident = np.r_[rng.normal(10.0, 0.1, 99), 20.0]
    table = kernels(np.r_[two_ways, accident], name=["two"] * 100 + ["one"] * 100)
    found = clean(table, empty_steps(), CleanOptions(warm_up=False))
    assert found.removed["name"].value_counts().to_dict() == {"two": 20, "one": 1}
    assert remark("kernels-run-two-ways", kernels=1, share=0.1) in found.notes


@pytest.mark.parametrize(("slow", "told"), [(1, False), (2, False), (3, True)])
def test_a_second_way_of_running_takes_three_repeats(kernels: Table, slow: int, told: bool) -> None:
    times = [*np.linspace(9.9, 10.1, 9), *[30.0] * slow]
    found = clean(kernels(times * 2, name=np.repeat(["a", "b"], len(times))), empty_steps())
    assert found.removed_by_reason == {"outlier": 2 * slow}
    assert (remark("kernels-run-two-ways", kernels=2, share=0.1) in found.notes) == told


def test_nothing_to_clean_and_nothing_left_are_refused(kernels: Table) -> None:
    with pytest.raises(DataError, match="nothing to clean"):
        clean(kernels([]), empty_steps())
    with pytest.raises(DataError, match=r"cleaning leaves nothing \(zero-duration"):
        clean(kernels([0.0, -1.0]), empty_steps())


def test_a_series_that_doubles_is_flagged(kernels: Table) -> None:
    [row] = clean(kernels(np.linspace(10.0, 20.0, 100)), empty_steps()).report.to_dict("records")
    assert (row["drifts"], row["settled"]) == (1.0, False)


ENOUGH = 2 * LEAST_COMPARED
"""Repeats from which both halves have an interval of 95 %."""


def agreement(durations_us: pd.Series, codes: pd.Series, tick_us: float) -> pd.Series:
    """Return for each kernel with enough repeats whether their first and second half, in the order given, agree."""
    return pd.Series(
        {
            code: difference_of_medians(*np.array_split(own.to_numpy(), 2), floor=tick_us).agrees
            for code, own in durations_us.groupby(codes[durations_us.index])
            if len(own) >= ENOUGH
        },
        dtype=bool,
    )


def judged(
    table: pd.DataFrame, steps: pd.DataFrame, codes: pd.Series, tick_us: float
) -> pd.DataFrame:
    """Clean a table; return for each kernel whether its halves agree, what its report says, and whether raw ones do."""
    found = clean(table, steps)
    own = codes[table.index].groupby(repeat_codes(table)).first()
    report = found.report.set_axis(own.reindex(found.report.index).to_numpy())
    raw = agreement(table.loc[table["duration_ns"] > 0, "duration_ns"] / 1e3, codes, tick_us)
    agrees = agreement(found.dispatches["duration_ns"] / 1e3, codes, tick_us)
    known = report.loc[agrees.index]
    vouched = known["settled"] & known["drifts"].eq(0.0)
    answers = pd.DataFrame(
        {"agrees": agrees, "raw": raw, "drifts": known["drifts"].eq(1.0), "vouched": vouched}
    )
    return answers.dropna().astype(bool)


@pytest.mark.long
def test_halves_of_real_repeats_agree_in_the_order_of_time(
    shared_data: Path, kineto: Callable[[str], Annotated]
) -> None:
    """The cleaned median of a real kernel is as stable as its report says.

    Each kernel's repeats are cut in time, first half against second: random halves of one sample agree whatever the
    sample is. Asked is

    1. that cleaning makes no more halves disagree than did without it, give or take one kernel in a hundred;
    2. that the report flags every kernel whose halves disagree ("drifts");
    3. that of the kernels the report vouches for, neither drifting nor unsettled, at least 95 % agree. A report that
       judges the repeats it has seen would agree by construction, so it sees every second repeat only, and the halves
       are those of the others.

    When this was written 98.8 % of the 173 kernels vouched for agreed. Of all 249 kernels 95.6 % did, cleaned and raw:
    a filter of outliers does not cure clocks that change.
    """
    whole, told = [], []
    names = sorted(
        path.name for path in (shared_data / "profiles" / "kineto" / "other").glob("*.json.gz")
    )
    traces = [kineto(f"other/{name.removesuffix('.json.gz')}") for name in names]
    for trace in traces:
        if len(trace.dispatches) < ENOUGH:
            continue
        table = trace.dispatches.sort_values("start_ns", kind="stable")
        codes = pd.Series(repeat_codes(table), index=table.index)
        tick_us = float(resolutions_ns(table).max()) / 1e3
        whole.append(judged(table, trace.steps, codes, tick_us))
        second = codes.groupby(codes).cumcount() % 2 == 1
        if second.any():
            one, other = (
                judged(table[rows], trace.steps, codes, tick_us) for rows in (~second, second)
            )
            told += [
                a.assign(vouched=b["vouched"]).dropna().astype(bool)
                for a, b in ((one, other), (other, one))
            ]
    every, apart = pd.concat(whole), pd.concat(told)
    assert len(every) >= 200
    assert every["agrees"].mean() >= max(0.95, every["raw"].mean() - 0.01)
    assert every.loc[~every["agrees"], "drifts"].all()
    vouched = apart["vouched"]
    assert vouched.sum() >= 150
    assert apart.loc[vouched, "agrees"].mean() >= 0.95
    assert vouched[apart["agrees"]].mean() > 0.85  # not by vouching for few
    assert vouched[~apart["agrees"]].mean() < 0.5


def halves_agree(table: pd.DataFrame, steps: pd.DataFrame) -> pd.Series:
    """Return for each kernel whether the medians of its first and second half, each cleaned, agree.

    They do where they lie no further apart than their intervals reach towards each other, added as squares.
    """
    codes = pd.Series(repeat_codes(table), index=table.index)
    later = 2 * codes.groupby(codes).cumcount() >= codes.groupby(codes).transform("size")
    halves = []
    for own in (table[~later], table[later]):
        report = clean(own, steps).report
        names = codes[own.index].groupby(repeat_codes(own)).first()
        halves.append(
            report.set_axis(names.reindex(report.index).to_numpy()).dropna(subset="lower_us")
        )
    shared = halves[0].index.intersection(halves[1].index)
    first, second = (half.loc[shared] for half in halves)
    apart = second["median_us"] - first["median_us"]
    up = np.hypot(first["upper_us"] - first["median_us"], second["median_us"] - second["lower_us"])
    down = np.hypot(
        first["median_us"] - first["lower_us"], second["upper_us"] - second["median_us"]
    )
    return apart.le(up + 1e-9) & apart.ge(-down - 1e-9)


@pytest.mark.long
def test_medians_of_real_halves_agree_within_their_intervals(shared_data: Path) -> None:
    """An interval of a median that says 95 % holds the difference of two of them, halves of real repeats in time order.

    When this was written 97.6 % of 340 kernels (Kineto) and 92.2 % of 153 (rocprofv3) agreed; 87.1 % and 81.0 % by the
    intervals of independent repeats, which are six tenths as wide. The rest are clocks that change once.
    """
    found = read_traces(
        [shared_data / "profiles" / "rocprofv3" / name for name in ("json", "csv_real_rdna35")]
    )
    traces = [
        trace
        for _, trace in found
        if not isinstance(trace, TraceFailure) and len(trace.dispatches) >= ENOUGH
    ]
    tables = [
        (trace.dispatches.sort_values("start_ns", kind="stable"), trace.steps) for trace in traces
    ]
    agrees = pd.concat([halves_agree(table, steps) for table, steps in tables])
    assert len(agrees) >= 150
    assert agrees.mean() >= 0.90
