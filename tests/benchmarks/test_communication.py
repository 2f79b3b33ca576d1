"""The benchmark of the laws of communication: true models, pairs left out, the figures of links.toml."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.benchmarks import projection_communication
from flopcast.benchmarks.link_fitting import Timings
from flopcast.benchmarks.projection_communication import (
    LAWS,
    PAIRS,
    Side,
    file_of,
    main,
    pair_errors,
    projection_errors,
    summary,
    timings_of,
)
from flopcast.hardware import find
from flopcast.projection.collective_laws import Link, Protocol, law_errors, measured_links

SIZES = 2.0 ** np.arange(12, 26, 0.5)


def _side(
    name: str, base_us: float, step_us: float, efficiency: float, ranks: tuple[int, ...] = (2, 4, 8)
) -> Side:
    gpu = find(name)
    link = Link((name,), "all_reduce", "ring", (Protocol(0.0, base_us, step_us, efficiency),))
    size, n = (grid.ravel() for grid in np.meshgrid(SIZES, np.array(ranks, dtype=float)))
    return Side(gpu, Timings(size, n, link.time_us("all_reduce", size, n, gpu.link_bw_gbs)), "ring")


def test_two_true_models_of_one_latency_project_each_other_exactly() -> None:
    host, target = _side("A100 80GB SXM4", 9.0, 1.5, 0.5), _side("H100 SXM5", 9.0, 1.5, 0.7)
    errors = projection_errors(host, target, "all_reduce", by="ranks", protocols=1)
    assert len(errors) == 3 * len(SIZES)
    np.testing.assert_allclose(errors["alpha-beta"], 0.0, atol=1e-8)
    assert errors["one-sided"].max() > 0.2
    np.testing.assert_allclose(errors["kept"] - errors["bandwidth"], np.log(450 / 300))


def test_latencies_that_differ_are_an_error_of_short_messages() -> None:
    host, target = _side("A100 80GB SXM4", 9.0, 1.5, 0.5), _side("H100 SXM5", 4.5, 0.75, 0.7)
    errors = projection_errors(host, target, "all_reduce", by="ranks", protocols=1)
    short = errors[errors["bound"] == "latency"]
    assert short["alpha-beta"].max() == pytest.approx(np.log(2), abs=0.02)
    long = errors[errors["message_bytes"] > 2**24]
    assert set(long["bound"]) == {"link"}
    assert long["alpha-beta"].abs().max() < 0.2


def test_equal_parameters_need_one_side_only() -> None:
    host, target = _side("A100 80GB SXM4", 9.0, 1.5, 0.5), _side("H100 SXM5", 9.0, 1.5, 0.5)
    errors = projection_errors(host, target, "all_reduce", by="octaves", protocols=1)
    np.testing.assert_allclose(errors["one-sided"], 0.0, atol=1e-8)


def test_only_messages_among_both_count() -> None:
    host, target = (
        _side("A100 80GB SXM4", 9.0, 1.5, 0.5, (2, 4)),
        _side("H100 SXM5", 5.0, 1.0, 0.7, (4, 8)),
    )
    small = replace(host, timings=host.timings.take(host.timings.message_bytes < 2**20))
    errors = projection_errors(small, target, "all_reduce", by="octaves", protocols=1)
    assert set(errors["ranks"]) == {4}
    assert errors["message_bytes"].max() < 2**20


@pytest.fixture(scope="module")
def measured(shared_data: Path) -> pd.DataFrame:
    judged = {(name, collective) for *pair, collective, _ in PAIRS for name in pair}
    links = [link for link in measured_links() if (link.gpus[0], link.collective) in judged]
    if not all(file_of(link, shared_data).is_file() for link in links):
        pytest.skip("the collected facts (../shared/facts) are not on this machine")
    return pair_errors(lambda link: timings_of(link, shared_data))


def test_the_laws_errors_are_those_of_the_measured_pairs(measured: pd.DataFrame) -> None:
    assert measured.groupby(["collective", "by", "pair"]).ngroups == 14
    found = summary(measured)
    assert found.index.tolist() == [*LAWS, "latency"]
    committed = [
        getattr(law_errors(), name) for name in ("alpha_beta", "one_sided", "bandwidth", "latency")
    ]
    np.testing.assert_allclose(found, committed, atol=2e-3)


def test_the_fitted_models_beat_the_bandwidths_on_messages_left_out(measured: pd.DataFrame) -> None:
    """A100 and H100, both directions, ranks left out of both fits; messages of 16 MiB and more, by half."""
    errors = measured[(measured["by"] == "ranks") & (measured["message_bytes"] >= 2**24)]
    rms = np.sqrt((errors[list(LAWS)] ** 2).mean())
    assert rms["alpha-beta"] < 0.5 * rms["bandwidth"]


def test_every_pair_counts_once() -> None:
    table = pd.DataFrame({"collective": "all_reduce", "by": "ranks", "pair": ["a b", "a b", "b a"]})
    long = table.assign(bound="link", **{law: [0.1, 0.1, 0.7] for law in LAWS})
    short = table.assign(bound="latency", **dict.fromkeys(LAWS, 0.3))
    found = summary(pd.concat([long, short]))
    assert found.tolist() == pytest.approx([0.5, 0.5, 0.5, 0.3])


def test_the_figures_are_printed_as_the_file_has_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = pd.DataFrame({"collective": ["all_reduce"], "by": "ranks", "pair": "a b"})
    long = case.assign(bound="link", **dict(zip(LAWS, (0.241, 0.277, 0.223), strict=True)))
    short = case.assign(bound="latency", **dict.fromkeys(LAWS, 0.607))
    errors = pd.concat([long, short])
    monkeypatch.setattr(projection_communication, "pair_errors", lambda _: errors)
    assert main(["--data", str(tmp_path)]) == 0
    assert capsys.readouterr().out == (
        "[law_errors]\nalpha_beta = 0.241\none_sided = 0.277\nbandwidth = 0.223\nlatency = 0.607\n"
    )


def test_without_the_data_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(tmp_path / "nowhere")]) == 0
    assert "skipped: the measured data" in capsys.readouterr().out
    assert main(["--data", str(tmp_path)]) == 2
    assert "file of measured messages" in capsys.readouterr().err


@pytest.mark.parametrize("by", ["size", "rank"])
def test_unknown_folds_are_refused(by: str) -> None:
    side = _side("H100 SXM5", 5.0, 1.0, 0.7)
    with pytest.raises(ValueError, match=r"'ranks'.*'octaves'.*'decades'"):
        projection_errors(side, side, "all_reduce", by=by)
