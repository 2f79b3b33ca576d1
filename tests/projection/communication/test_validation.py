from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from flopcast.hardware import find
from flopcast.projection.communication import (
    Link,
    Protocol,
    Side,
    Timings,
    law_errors,
    measured_links,
    projection_errors,
)

SIZES = 2.0 ** np.arange(12, 26, 0.5)
LAWS = ["alpha-beta", "one-sided", "bandwidth"]


def _side(name: str, base_us: float, step_us: float, efficiency: float, ranks: tuple[int, ...] = (2, 4, 8)) -> Side:
    gpu = find(name)
    link = Link((name,), "all_reduce", "ring", (Protocol(0.0, base_us, step_us, efficiency),))
    size, n = (grid.ravel() for grid in np.meshgrid(SIZES, np.array(ranks, dtype=float)))
    return Side(gpu, Timings(size, n, link.time_us("all_reduce", size, n, gpu.link_bw_gbs)), "ring")


def test_two_true_models_project_each_other_exactly() -> None:
    host, target = _side("A100 80GB SXM4", 9.0, 1.5, 0.5), _side("H100 SXM5", 5.0, 1.0, 0.7)
    errors = projection_errors(host, target, "all_reduce", by="ranks", protocols=1)
    assert len(errors) == 3 * len(SIZES)
    np.testing.assert_allclose(errors["alpha-beta"], 0.0, atol=1e-8)
    assert errors["one-sided"].max() > 0.5
    np.testing.assert_allclose(errors["kept"] - errors["bandwidth"], np.log(450 / 300))


def test_equal_parameters_need_one_side_only() -> None:
    host, target = _side("A100 80GB SXM4", 9.0, 1.5, 0.5), _side("H100 SXM5", 9.0, 1.5, 0.5)
    errors = projection_errors(host, target, "all_reduce", by="octaves", protocols=1)
    np.testing.assert_allclose(errors["one-sided"], 0.0, atol=1e-8)


def test_only_messages_among_both_count() -> None:
    host, target = _side("A100 80GB SXM4", 9.0, 1.5, 0.5, (2, 4)), _side("H100 SXM5", 5.0, 1.0, 0.7, (4, 8))
    small = replace(host, timings=host.timings.take(host.timings.message_bytes < 2**20))
    errors = projection_errors(small, target, "all_reduce", by="octaves", protocols=1)
    assert set(errors["ranks"]) == {4}
    assert errors["message_bytes"].max() < 2**20


def test_the_laws_errors_are_those_of_the_measured_pairs(timings_of: Callable[[Link], Timings]) -> None:
    errors = _measured_pairs(timings_of)
    of_pair = errors.groupby(["collective", "by", "pair"])[LAWS].agg(lambda error: float((error**2).mean()))
    assert len(of_pair) == 10
    found = np.sqrt(of_pair.mean())
    committed = [getattr(law_errors(), name) for name in ("alpha_beta", "one_sided", "bandwidth")]
    np.testing.assert_allclose(found[LAWS], committed, atol=2e-3)


def test_the_fitted_models_beat_the_bandwidths_on_messages_left_out(timings_of: Callable[[Link], Timings]) -> None:
    """A100 and H100, both directions, ranks left out of both fits; messages of 1 MiB and more by a third."""
    errors = _measured_pairs(timings_of)
    errors = errors[(errors["by"] == "ranks")]
    rms = np.sqrt((errors[LAWS] ** 2).mean())
    large = np.sqrt((errors.loc[errors["message_bytes"] >= 2**20, LAWS] ** 2).mean())
    assert rms["alpha-beta"] < rms["bandwidth"] < rms["one-sided"]
    assert large["alpha-beta"] < 0.75 * large["bandwidth"]


def _measured_pairs(timings_of: Callable[[Link], Timings]) -> pd.DataFrame:
    links = {(link.gpus[0], link.collective): link for link in measured_links()}
    a100, h100, mi300x = "A100 80GB SXM4", "H100 SXM5", "MI300X"
    tried = [
        *[(a100, h100, "all_reduce", by) for by in ("ranks", "octaves")],
        (a100, h100, "send_recv", "octaves"),
        *[(name, mi300x, "all_reduce", "octaves") for name in (a100, h100)],
    ]
    parts = []
    for one, other, collective, by in tried:
        pair = [links[name, collective] for name in (one, other)]
        sides = [Side(find(link.gpus[0]), timings_of(link), link.algorithm) for link in pair]
        for host, target in (sides, sides[::-1]):
            count = len(pair[0].protocols)
            found = projection_errors(host, target, collective, by=by, protocols=count)
            parts.append(found.assign(collective=collective, by=by, pair=f"{host.gpu.name} {target.gpu.name}"))
    return pd.concat(parts)


@pytest.mark.parametrize("by", ["size", "rank"])
def test_unknown_folds_are_refused(by: str) -> None:
    side = _side("H100 SXM5", 5.0, 1.0, 0.7)
    with pytest.raises(ValueError, match="must be 'ranks', 'octaves' or 'decades'"):
        projection_errors(side, side, "all_reduce", by=by)
