from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest

from flopcast import projection
from flopcast.benchmarks.link_fitting import Timings, fit_nvls, held_out, refit
from flopcast.hardware import find
from flopcast.projection.collective_laws import (
    Link,
    Protocol,
    collective_us,
    find_link,
    law_errors,
    measured_links,
)

LINKS = {f"{link.gpus[0]} {link.collective}": link for link in measured_links()}
every_link = pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
WHOLE = {name: link for name, link in LINKS.items() if link.of_all_reduce is None}
"""Models with all their parameters fitted; of the others only a share, at one size of message."""
whole_link = pytest.mark.parametrize("link", WHOLE.values(), ids=WHOLE)
REDUCED = {link.gpus[0]: link for link in measured_links() if link.collective == "all_reduce"}


KNOWN: dict[tuple[object, ...], float] = {}
"""Errors of messages left out that a test of this file has found."""


def _left_out(link: Link, timings: Timings, by: str, protocols: int | None = None) -> float:
    """Return the mean relative error of messages left out."""
    count, gpu = protocols or len(link.protocols), find(link.gpus[0])
    case = (link.gpus, link.collective, link.algorithm, by, count)
    if case not in KNOWN:
        found = held_out(
            timings, gpu, link.collective, link.algorithm, by=by, protocols=count, rings=link.rings
        )["log_error"]
        KNOWN[case] = float(np.expm1(found).abs().mean())
    return KNOWN[case]


@every_link
def test_the_committed_parameters_are_those_of_the_measurements(
    link: Link, timings_of: Callable[[Link], Timings]
) -> None:
    timings = timings_of(link)
    fitted = refit(link, timings, find(link.gpus[0]), REDUCED)
    assert tuple(np.unique(timings.ranks)) == link.ranks
    assert fitted.untuned == pytest.approx(link.untuned, rel=2e-3)
    assert fitted.rings == link.rings
    for line, committed in zip(fitted.protocols, link.protocols, strict=True):
        figures = [(p.from_bytes, p.base_us, p.step_us, p.efficiency) for p in (line, committed)]
        np.testing.assert_allclose(*figures, rtol=1e-3)


@pytest.mark.parametrize(
    "link", [link for link in LINKS.values() if link.nvls], ids=lambda link: link.gpus[0]
)
def test_the_switch_that_adds_is_as_measured(
    link: Link, timings_of: Callable[[Link], Timings]
) -> None:
    assert link.nvls is not None
    timings = timings_of(replace(link, source=link.nvls.source))
    fitted = fit_nvls(timings, find(link.gpus[0]), link.nvls.from_ranks, 64e6)
    committed = (link.nvls.base_us, link.nvls.efficiency)
    np.testing.assert_allclose((fitted.base_us, fitted.efficiency), committed, rtol=1e-3)


@whole_link
@pytest.mark.parametrize("by", ["octaves", "decades", "ranks"])
def test_the_committed_errors_are_those_of_messages_left_out(
    link: Link, by: str, timings_of: Callable[[Link], Timings]
) -> None:
    committed = getattr(link, f"error_{by}")
    if by == "ranks" and len(link.ranks) == 1:
        assert np.isnan(committed)
    else:
        assert committed == pytest.approx(_left_out(link, timings_of(link), by), abs=1e-3)


@whole_link
def test_a_second_protocol_lowers_the_errors_of_messages_left_out_by_a_tenth(
    link: Link, timings_of: Callable[[Link], Timings]
) -> None:
    schemes = ["octaves", "decades", "ranks"][: 2 if len(link.ranks) == 1 else 3]
    timings = timings_of(link)
    one, two = (sum(_left_out(link, timings, by, count) for by in schemes) for count in (1, 2))
    assert (two < 0.9 * one) == (len(link.protocols) == 2)


@pytest.mark.parametrize("name", ["A100 80GB SXM4 all_reduce", "H100 SXM5 all_reduce"])
def test_a_ring_predicts_other_numbers_of_ranks_best(
    name: str, timings_of: Callable[[Link], Timings]
) -> None:
    link = LINKS[name]
    errors = {
        algorithm: _left_out(replace(link, algorithm=algorithm), timings_of(link), "ranks")
        for algorithm in ("ring", "tree", "direct")
    }
    assert min(errors, key=errors.__getitem__) == "ring"


def test_the_model_of_eight_mi300x_agrees_with_a_measurement_of_two() -> None:
    """all_reduce_bench, 4 GiB over one link: bus bandwidth 47.7 GB/s (hardware/measured.csv), not in the fit."""
    time_us = LINKS["MI300X all_reduce"].time_us("all_reduce", 2**32, 2, 64.0)
    assert 2**32 / time_us / 1e3 == pytest.approx(47.7, rel=0.07)


@every_link
def test_every_model_is_of_known_gpus_with_the_same_links(link: Link) -> None:
    figures = [(gpu.link_bw_gbs, gpu.p2p_uni_gbs, gpu.link_name) for gpu in map(find, link.gpus)]
    assert set(figures) == {figures[0]}
    assert [find(name).name for name in link.gpus] == list(link.gpus)
    starts = [line.from_bytes for line in link.protocols]
    assert starts == sorted(set(starts))
    assert starts[0] == 0


def test_every_source_is_listed() -> None:
    text = resources.files(projection).joinpath("links.toml").read_text(encoding="utf-8")
    sources = tomllib.loads(text)["source"]
    named = {link.source for link in measured_links()} | {
        link.nvls.source for link in measured_links() if link.nvls
    }
    assert {source.split(":")[0] for source in named} == set(sources)


def test_a_link_of_the_collective_comes_first_then_the_all_reduce() -> None:
    reduce_, pair = (
        Link(("G",), name, "ring", (Protocol(0.0, 1.0, 1.0, 1.0),))
        for name in ("all_reduce", "send_recv")
    )
    links = [pair, reduce_]
    assert find_link(links, "G", "send_recv") is pair
    assert find_link(links, "G", "all_gather") is reduce_
    assert find_link([pair], "G", "all_gather") is None
    assert find_link(links, "other", "all_reduce") is None


def test_the_laws_errors_are_in_the_order_they_were_found() -> None:
    """Less knowledge, more error: keeping the latency costs most."""
    errors = law_errors()
    assert 0 < errors.alpha_beta <= errors.one_sided < errors.latency < 1


BUS_GBS = {
    "all_reduce": (59.67, 92.75, 169.78, 48.01, 47.68, 47.59, 396.58),
    "all_gather": (59.8, 90.4, 167.86, 45.8, 44.47, 43.72, 389.2),
    "reduce_scatter": (57.76, 81.38, 166.62, 46.34, 47.19, 47.78, 387.34),
    "broadcast": (61.97, 88.88, 175.02, 39.57, 39.36, 39.31, 389.56),
    "all_to_all": (58.19, 116.15, 154.11, 61.38, 61.47, 62.1, 346.42),
}
"""Bus bandwidths of RCCL on 2 to 8 MI355X, GB/s, at 8 GiB (all_to_all: 4): github.com/mit-orcd/amd-benchmarks."""
OF_BUS = {"all_reduce": lambda n: 2 * (n - 1) / n, "broadcast": lambda n: 1.0}
"""nccl-tests' bus bandwidth over bytes a second, by the ranks; (n - 1) / n of all others."""


@pytest.mark.parametrize("collective", BUS_GBS)
def test_untuned_numbers_of_ranks_fall_on_a_mesh(collective: str) -> None:
    size = 2.0**33 / (2 if collective == "all_to_all" else 1)
    measured = []
    for ranks, bus in enumerate(BUS_GBS[collective], start=2):
        volume = OF_BUS.get(collective, lambda n: (n - 1) / n)(ranks)
        measured.append(size * volume / bus / 1e3)
    law = [float(collective_us(find("MI355X"), collective, size, ranks)) for ranks in range(2, 9)]
    errors = np.abs(np.array(law) / measured - 1.0)
    assert errors.mean() < 0.05
    assert errors.max() < 0.15


SWEEP_US = {
    2: (29, 29, 29, 29, 30, 36, 37, 37, 38, 43, 50, 69, 106, 180, 327, 623, 1185, 2328),
    4: (36, 37, 36, 35, 38, 37, 37, 47, 47, 48, 55, 63, 81, 116, 188, 336, 636, 1208),
    6: (39, 41, 39, 39, 47, 48, 47, 57, 63, 71, 93, 131, 215, 383, 704, 1304, 2507, 4939),
    8: (31, 29, 30, 30, 30, 30, 31, 31, 32, 39, 43, 52, 62, 87, 133, 228, 408, 659),
}
"""All-reduces of 1 KiB, 2 KiB, ... 128 MiB on so many MI355X, medians in us, of the same benchmark."""


@pytest.mark.parametrize("ranks", SWEEP_US)
def test_all_reduces_of_every_size_on_a_mesh(ranks: int) -> None:
    law = collective_us(find("MI355X"), "all_reduce", 2.0 ** np.arange(10, 28), ranks)
    errors = np.abs(law / np.array(SWEEP_US[ranks]) - 1.0)
    assert errors.mean() < 0.1
    assert errors.max() < 0.25


def test_a_switch_that_adds_makes_long_all_reduces_of_eight_faster_than_a_ring() -> None:
    """H100 SXM at 512 MiB, NCCL 2.29.2: 1673.9, 2305.0 and 2111.4 us on 2, 4 and 8 (AIConfigurator)."""
    law = [
        float(collective_us(find("H100 SXM5"), "all_reduce", 2.0**29, ranks)) for ranks in (2, 4, 8)
    ]
    assert law == pytest.approx([1673.9, 2305.0, 2111.4], rel=0.12)
