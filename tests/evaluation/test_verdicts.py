from __future__ import annotations

from dataclasses import replace

import pytest

from flopcast.evaluation.verdicts import Evidence, Interval, Outcome, judge, more_groups, too_few

GOOD = Evidence(
    rows=100,
    groups=10,
    deviation=Interval(1.00, 0.97, 1.03, 0.90),
    slope=Interval(1.00, 0.98, 1.02, 0.95),
    slope_p=0.9,
    attenuated_slope=1.01,
    size_p=1.0,
    drift=0.01,
    scatter=0.05,
    group_scatter=0.05,
    excess=0.2,
    freedom=9.0,
    scatter_p=0.9,
)
STEEP = replace(GOOD, slope=Interval(0.8, 0.75, 0.85, 0.95), attenuated_slope=0.82, drift=0.25)


def c(value: float, lower: float, upper: float) -> Evidence:
    return replace(GOOD, deviation=Interval(value, lower, upper, 0.90))


@pytest.mark.parametrize(
    ("evidence", "outcome"),
    [
        (GOOD, Outcome.HOLDS),
        (c(1.04, 1.02, 1.06), Outcome.HOLDS),  # differs from 1, but equivalence is what is asked
        (c(1.05, 0.99, 1.11), Outcome.UNDECIDED),
        (c(1.08, 1.04, 1.12), Outcome.CORRECTED),
        (c(1.40, 1.35, 1.45), Outcome.CORRECTED),
        (c(0.70, 0.66, 0.74), Outcome.CORRECTED),
        # a correction that is not known to within the margin
        (c(1.60, 1.20, 2.10), Outcome.UNDECIDED),
        (replace(STEEP, size_p=0.001), Outcome.SIZE),
        # the slope explains the scatter
        (replace(STEEP, size_p=0.001, scatter=0.3, scatter_p=0.001), Outcome.SIZE),
        (replace(STEEP, size_p=0.2), Outcome.UNDECIDED),
        (replace(STEEP, size_p=0.2, scatter=0.3, scatter_p=0.001), Outcome.SCATTER),
        (replace(GOOD, size_p=0.001), Outcome.HOLDS),  # shown, but without practical effect
        (replace(GOOD, scatter=0.11, scatter_p=0.04), Outcome.SCATTER),
        (replace(GOOD, scatter=0.11, scatter_p=0.06), Outcome.UNDECIDED),  # seen, not shown
        # a few rows far off are no scatter of most
        (replace(GOOD, scatter=0.09, scatter_p=0.001), Outcome.HOLDS),
        # groups differ, two have most rows
        (replace(GOOD, group_scatter=0.2, scatter_p=0.001), Outcome.SCATTER),
        (
            replace(GOOD, slope=None, slope_p=float("nan"), attenuated_slope=float("nan")),
            Outcome.HOLDS,
        ),
        (replace(GOOD, rows=9), Outcome.TOO_FEW),
        (replace(GOOD, groups=3), Outcome.TOO_FEW),
    ],
)
def test_every_line_of_the_rule(evidence: Evidence, outcome: Outcome) -> None:
    assert judge(evidence, 0.10).outcome is outcome


def test_a_verdict_carries_its_figures() -> None:
    judged = {
        "1.00 [0.97, 1.03]": GOOD,
        "1.40 [1.35, 1.45]": c(1.40, 1.35, 1.45),
        "0.80 [0.75, 0.85]": replace(STEEP, size_p=0.001),
        "34.8 % around 1.00 [0.97, 1.03]": replace(GOOD, scatter=0.348, scatter_p=0.001),
        "slope 0.80 [0.75, 0.85]": replace(STEEP, size_p=0.2),
        "1.05 [0.99, 1.11]": c(1.05, 0.99, 1.11),
    }
    for figures, one in judged.items():
        assert figures in judge(one, 0.10).why.text
    for (rows, groups), lacks in {
        (9, 4): "9 of the 10",
        (40, 3): "3 of the 4",
        (5, 1): "1 of the 4",
    }.items():
        verdict = too_few(rows, groups)
        assert verdict is not None
        assert lacks in verdict.why.text


def test_margin_is_symmetric_in_host_and_target() -> None:
    # 1/1.10 = 0.909...: the reciprocal of an interval inside the margins is inside them too
    assert judge(c(0.95, 0.91, 0.99), 0.10).outcome is Outcome.HOLDS
    assert judge(c(0.95, 0.905, 0.99), 0.10).outcome is Outcome.CORRECTED


def test_a_wider_margin_forgives_more() -> None:
    evidence = replace(c(1.05, 0.99, 1.11), scatter=0.15, scatter_p=0.001)
    assert judge(evidence, 0.10).outcome is Outcome.SCATTER
    assert judge(evidence, 0.20).outcome is Outcome.HOLDS


@pytest.mark.parametrize(
    ("evidence", "least", "most"),
    [
        (c(1.05, 0.99, 1.11), 4, 4),  # ±0.057 in log has to become ±0.049 to exclude 1
        (c(1.0, 0.8, 1.25), 44, 46),  # ±0.223 -> ±0.095
        (replace(GOOD, scatter=0.12, scatter_p=0.3, excess=1.3, freedom=9.0), 40, 90),
        (replace(STEEP, size_p=0.2, attenuated_slope=0.84), 6, 7),  # ±0.05 -> ±0.04
    ],
)
def test_what_cannot_be_told_says_how_many_more_groups_would(
    evidence: Evidence, least: int, most: int
) -> None:
    verdict = judge(evidence, 0.10)
    assert verdict.outcome is Outcome.UNDECIDED
    assert least <= verdict.why.values["more_groups"] <= most
    settled = evidence.groups + verdict.why.values["more_groups"]
    assert f"{settled - evidence.groups} more groups" in verdict.why.text


def test_what_no_number_of_groups_settles_says_so() -> None:
    just_at_the_margin = c(1.0999, 1.0, 1.21)
    assert more_groups(replace(just_at_the_margin, groups=4), 1e-4) is None
    assert more_groups(replace(GOOD, scatter=0.11, scatter_p=0.6, excess=0.99), 0.10) is None


def test_too_few_says_what_is_missing() -> None:
    assert too_few(10, 4) is None
    lacking = [
        verdict.why
        for rows, groups in ((9, 4), (40, 3), (5, 1))
        if (verdict := too_few(rows, groups))
    ]
    assert [(why.values["rows"], why.values["groups"]) for why in lacking] == [
        (9, 4),
        (40, 3),
        (5, 1),
    ]


def test_an_interval_that_rounds_to_zero_has_no_sign() -> None:
    assert str(Interval(-0.001, -0.004, 0.002, 0.95)) == "0.00 [0.00, 0.00]"
    assert str(Interval(-0.2, -0.3, -0.1, 0.95)) == "-0.20 [-0.30, -0.10]"
