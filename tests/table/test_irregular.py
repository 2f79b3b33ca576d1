"""Repeats that disagree, and times off both neighbours in size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flopcast as fc
from flopcast.table.irregular import FAR, OFF, off_neighbours, without_repeats, without_spikes
from flopcast.table.measurements import REFUSED, clean
from flopcast.tests.table.test_table import rows


def table(times: list[float], by: str = "m", **more: Any) -> pd.DataFrame:
    """Return products whose size doubles, one for each time."""
    return clean(
        rows(*({by: 16 * 2**i, "duration_us": time, **more} for i, time in enumerate(times)))
    ).frame


def repeated(*times: float) -> pd.DataFrame:
    return clean(rows(*({"duration_us": time} for time in times))).frame


@pytest.mark.parametrize(
    ("times", "kept", "factor"),
    [
        ([1, 1.2, 1.25], 1.2, []),
        ([4, 6, 5], 5, [1.5]),
        ([4, 5, 4, 400], 4, []),
        ([1, 50], None, []),
    ],
)
def test_repeats_that_disagree_are_named_and_contradictions_refused(
    times: list[float], kept: float | None, factor: list[float]
) -> None:
    found = without_repeats(repeated(*times))
    assert found.frame["duration_us"].tolist() == ([] if kept is None else [kept])
    assert found.odd["factor"].tolist() == pytest.approx(factor)
    refused = {400: ["a.csv:5"], 50: ["a.csv:2", "a.csv:3"]}.get(max(times), [])
    assert found.refused["source"].tolist() == refused
    assert len(without_repeats(repeated(*times), keep=["impossible"]).refused) == 0
    if factor:
        assert found.odd[["source", "row"]].to_numpy().tolist() == [["a.csv:3", "a.csv:2"]]


@pytest.mark.parametrize("by", ["m", "n", "k"])
def test_a_spike_stays_and_is_named_with_its_factor(by: str) -> None:
    found = without_spikes(table([10, 11, 36, 12, 14, 7, 18], by))
    assert len(found.frame) == 7
    assert found.odd["source"].tolist() == ["a.csv:4", "a.csv:7"]
    assert found.odd["factor"].tolist() == pytest.approx([3, 1 / 2])


def test_what_size_explains_is_no_spike_and_ends_are_not_judged() -> None:
    assert without_spikes(table([10, 20, 40, 80, 160])).odd.empty
    assert without_spikes(table([50, 10, 11, 12, 99])).odd.empty
    # 30 has none alike
    assert without_spikes(table([10, 30, 3, 35])).odd["factor"].tolist() == pytest.approx([0.1])


def test_a_row_far_off_is_refused_unless_another_kernel_confirms_it() -> None:
    far = [10, 11, 2 * FAR * 12, 12, 13]
    found = without_spikes(table(far))
    assert found.refused[["source", REFUSED]].to_numpy().tolist() == [
        ["a.csv:4", "far-off-neighbours"]
    ]
    assert found.places.tolist() == [0, 1, 3, 4]
    assert without_spikes(table(far), keep=["impossible"]).odd["source"].tolist() == ["a.csv:4"]
    slower = table([3 * FAR * 12], kernel="other").assign(m=64.0, source="b.csv:2")
    both = without_spikes(pd.concat([table(far), slower], ignore_index=True))
    assert (len(both.frame), both.odd["source"].tolist()) == (6, ["a.csv:4"])


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from([1, 2, 4, 8, 16, 32]), st.floats(1, 100)),
        max_size=18,
    )
)
def test_spikes_are_those_of_the_rule_row_by_row(found: list[tuple[int, int, float]]) -> None:
    unique = {(key, size): time for key, size, time in found}
    data = np.array([(*at, time) for at, time in unique.items()], dtype=float).reshape(-1, 3)
    factor, _ = off_neighbours(*data.T)
    for (key, size, time), got in zip(data, factor, strict=True):
        own = data[data[:, 0] == key]
        below, above = own[own[:, 1] < size], own[own[:, 1] > size]
        expected = 1.0
        if len(below) and len(above):
            (_, s0, t0), (_, s1, t1) = below[below[:, 1].argmax()], above[above[:, 1].argmin()]
            if 1 / OFF <= t1 / t0 <= OFF * s1 / s0:
                if time > OFF * max(t0, t1):
                    expected = time / max(t0, t1)
                elif time < min(t0, t1) / OFF:
                    expected = time / min(t0, t1)
        assert got == pytest.approx(expected)


def test_training_names_spikes_and_gives_the_errors_without_them() -> None:
    found = fc.read(where={"m": (None, 64)})
    frame = found.frame[~found.frame["source"].isin(found.irregular["source"])].reset_index(
        drop=True
    )
    both = frame.groupby(["m", "n", "k"])["device"].transform("nunique") == 2
    frame = frame[both].reset_index(drop=True)
    spiked = (
        (frame["device"] == "MI355X")
        & (frame["n"] == 4608)
        & (frame["k"] == 7168)
        & (frame["m"] == 32)
    )
    assert spiked.sum() == 1
    frame.loc[spiked, "duration_us"] *= 10
    run = fc.train(frame, host="MI300X", target="MI355X", models="OLS", jobs=1)
    [named] = run.metrics["data"]["irregular"]
    assert named["source"] == frame["source"][spiked].item()
    assert 5 < named["factor"] <= 10
    for cv in run.metrics["cv"]:
        errors = {row["name"]: row["e_out"] for row in [*cv["baselines"], *cv["models"]]}
        regular = cv["regular"]
        assert (regular["irregular"], regular["rows"]) == (1, run.metrics["data"]["n"] - 1)
        own = run.predictions[
            (run.predictions["scheme"] == cv["scheme"]) & (run.predictions["model"] == "OLS")
        ]
        rest = own.loc[own["source"] != named["source"], "ape"]
        assert len(rest) == regular["rows"]
        assert regular["e_out"]["OLS"] == pytest.approx(rest.mean())
        assert regular["e_out"]["OLS"] < errors["OLS"]
    assert named["source"] in run.report()


def test_one_row_ten_thousand_times_off_is_named_and_refused() -> None:
    frame = fc.read(where={"m": (None, 64)}).frame
    frame.loc[7, "duration_us"] *= 1e4
    found = fc.read(frame)
    assert found.rejected[["source", "reason"]].to_numpy().tolist() == [
        [frame["source"][7], "stray-time"]
    ]
    kept = fc.read(frame, keep=["impossible"])
    assert len(kept.frame) == len(frame)
