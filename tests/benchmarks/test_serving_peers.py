"""What plain trees make of serving runs: the same groups left out as of the model that ships."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

from flopcast.benchmarks import serving_peers
from flopcast.benchmarks.serving_model import roofline
from flopcast.workloads.serving_model import NEW_GPU, NEW_RELEASE, points_of, shipped


def test_what_is_odd_about_a_gpu_is_missed_where_it_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = DecisionTreeRegressor(random_state=0)
    monkeypatch.setattr(serving_peers, "LEARNERS", {"a tree": tree, "another": tree})
    runs = shipped().runs
    runs = runs[runs["apart"] != "yes"].groupby("device").head(6).reset_index(drop=True)
    points = points_of(runs)
    odd = (runs["device"] == "H100 SXM5").to_numpy()
    late = np.arange(len(runs)) % 6 == 5
    told = runs.assign(
        tpot_ms=roofline(points, "tpot_ms") * np.where(odd, 4.0, 2.0),
        measured=np.where(late, "2026-03-02", "2026-01-01"),
    )
    found = serving_peers.missed(points, told, "tpot_ms")
    errors = found.groupby("question")[serving_peers.MEAN].agg(
        ["size", lambda one: one.abs().max()]
    )
    assert errors.loc[NEW_GPU].to_numpy() == pytest.approx(
        [len(runs), np.log(2.0)]
    )  # no other GPU tells of it
    assert errors.loc[NEW_RELEASE].to_numpy() == pytest.approx([late.sum(), 0.0])
