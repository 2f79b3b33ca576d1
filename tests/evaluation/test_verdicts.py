from __future__ import annotations

from dataclasses import replace

import pytest

from flopcast.evaluation.verdicts import Evidence, Interval, Outcome, judge, too_few

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
        (c(1.60, 1.20, 2.10), Outcome.UNDECIDED),  # a correction that is not known to within the margin
        (replace(STEEP, size_p=0.001), Outcome.SIZE),
        (replace(STEEP, size_p=0.001, scatter=0.3), Outcome.SIZE),  # the slope explains the scatter
        (replace(STEEP, size_p=0.2), Outcome.UNDECIDED),
        (replace(STEEP, size_p=0.2, scatter=0.3), Outcome.SCATTER),
        (replace(GOOD, size_p=0.001), Outcome.HOLDS),  # shown, but without practical effect
        (replace(GOOD, scatter=0.11), Outcome.SCATTER),
        (replace(GOOD, slope=None, slope_p=float("nan"), attenuated_slope=float("nan")), Outcome.HOLDS),
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
        "34.8 % around 1.00 [0.97, 1.03]": replace(GOOD, scatter=0.348),
        "slope 0.80 [0.75, 0.85]": replace(STEEP, size_p=0.2),
        "1.05 [0.99, 1.11]": c(1.05, 0.99, 1.11),
    }
    for figures, one in judged.items():
        assert figures in judge(one, 0.10).why.text
    for (rows, groups), lacks in {(9, 4): "9 of the 10", (40, 3): "3 of the 4", (5, 1): "1 of the 4"}.items():
        verdict = too_few(rows, groups)
        assert verdict is not None
        assert lacks in verdict.why.text


def test_margin_is_symmetric_in_host_and_target() -> None:
    # 1/1.10 = 0.909...: the reciprocal of an interval inside the margins is inside them too
    assert judge(c(0.95, 0.91, 0.99), 0.10).outcome is Outcome.HOLDS
    assert judge(c(0.95, 0.905, 0.99), 0.10).outcome is Outcome.CORRECTED


def test_a_wider_margin_forgives_more() -> None:
    evidence = replace(c(1.05, 0.99, 1.11), scatter=0.15)
    assert judge(evidence, 0.10).outcome is Outcome.SCATTER
    assert judge(evidence, 0.20).outcome is Outcome.HOLDS


def test_too_few_says_what_is_missing() -> None:
    assert too_few(10, 4) is None
    lacking = [verdict.why for rows, groups in ((9, 4), (40, 3), (5, 1)) if (verdict := too_few(rows, groups))]
    assert [(why.values["rows"], why.values["groups"]) for why in lacking] == [(9, 4), (40, 3), (5, 1)]
