from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest

from flopcast import projection
from flopcast.benchmarks.link_fitting import Timings, fit_link, held_out
from flopcast.hardware import find
from flopcast.projection.collective_laws import Link, Protocol, find_link, law_errors, measured_links

LINKS = {f"{link.gpus[0]} {link.collective}": link for link in measured_links()}
every_link = pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)


def _fit(link: Link, timings: Timings, protocols: int | None = None) -> Link:
    count = protocols or len(link.protocols)
    return fit_link(timings, find(link.gpus[0]), link.collective, link.algorithm, protocols=count)


KNOWN: dict[tuple[object, ...], float] = {}
"""Errors of messages left out that a test of this file has found."""


def _left_out(link: Link, timings: Timings, by: str, protocols: int | None = None) -> float:
    """Return the mean relative error of messages left out."""
    count, gpu = protocols or len(link.protocols), find(link.gpus[0])
    case = (link.gpus, link.collective, link.algorithm, by, count)
    if case not in KNOWN:
        found = held_out(timings, gpu, link.collective, link.algorithm, by=by, protocols=count)["log_error"]
        KNOWN[case] = float(np.expm1(found).abs().mean())
    return KNOWN[case]


@every_link
def test_the_committed_parameters_are_those_of_the_measurements(
    link: Link, timings_of: Callable[[Link], Timings]
) -> None:
    fitted = _fit(link, timings_of(link))
    assert fitted.ranks == link.ranks
    for line, committed in zip(fitted.protocols, link.protocols, strict=True):
        figures = [(p.from_bytes, p.base_us, p.step_us, p.efficiency) for p in (line, committed)]
        np.testing.assert_allclose(*figures, rtol=1e-3)


@every_link
@pytest.mark.parametrize("by", ["octaves", "decades", "ranks"])
def test_the_committed_errors_are_those_of_messages_left_out(
    link: Link, by: str, timings_of: Callable[[Link], Timings]
) -> None:
    committed = getattr(link, f"error_{by}")
    if by == "ranks" and len(link.ranks) == 1:
        assert np.isnan(committed)
    else:
        assert committed == pytest.approx(_left_out(link, timings_of(link), by), abs=1e-3)


@every_link
def test_a_second_protocol_lowers_the_errors_of_messages_left_out_by_a_tenth(
    link: Link, timings_of: Callable[[Link], Timings]
) -> None:
    schemes = ["octaves", "decades", "ranks"][: 2 if len(link.ranks) == 1 else 3]
    timings = timings_of(link)
    one, two = (sum(_left_out(link, timings, by, count) for by in schemes) for count in (1, 2))
    assert (two < 0.9 * one) == (len(link.protocols) == 2)


@pytest.mark.parametrize("name", ["A100 80GB SXM4 all_reduce", "H100 SXM5 all_reduce"])
def test_a_ring_predicts_other_numbers_of_ranks_best(name: str, timings_of: Callable[[Link], Timings]) -> None:
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
    assert {link.source.split(":")[0] for link in measured_links()} == set(sources)


def test_a_link_of_the_collective_comes_first_then_the_all_reduce() -> None:
    reduce_, pair = (
        Link(("G",), name, "ring", (Protocol(0.0, 1.0, 1.0, 1.0),)) for name in ("all_reduce", "send_recv")
    )
    links = [pair, reduce_]
    assert find_link(links, "G", "send_recv") is pair
    assert find_link(links, "G", "all_gather") is reduce_
    assert find_link([pair], "G", "all_gather") is None
    assert find_link(links, "other", "all_reduce") is None


def test_the_laws_errors_are_in_the_order_they_were_found() -> None:
    errors = law_errors()
    assert 0 < errors.alpha_beta < errors.bandwidth < errors.one_sided < 1
