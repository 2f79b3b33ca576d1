from __future__ import annotations

import numpy as np
import pytest

from flopcast.benchmarks.link_fitting import Timings, fit_link, folds_of, held_out, log_errors
from flopcast.errors import DataError
from flopcast.hardware import find
from flopcast.projection.collective_laws import Link, Protocol

GPU = find("H100 SXM5")
TRUE = Link(
    ("H100 SXM5",),
    "all_reduce",
    "ring",
    (Protocol(0.0, 5.0, 1.0, 0.4), Protocol(7e5, 18.0, 1.2, 0.8)),
    ranks=(2, 4, 8),
)
SIZES = 2.0 ** np.arange(11, 27, 0.25)


def _timings(
    link: Link = TRUE, ranks: tuple[int, ...] = (2, 4, 8), sizes: np.ndarray = SIZES
) -> Timings:
    size, n = (grid.ravel() for grid in np.meshgrid(sizes, np.array(ranks, dtype=float)))
    return Timings(size, n, link.time_us(link.collective, size, n, 450.0))


def _figures(link: Link) -> np.ndarray:
    return np.array([(line.base_us, line.step_us, line.efficiency) for line in link.protocols])


def test_known_parameters_are_found_exactly() -> None:
    link = fit_link(_timings(), GPU, "all_reduce", "ring")
    np.testing.assert_allclose(_figures(link), _figures(TRUE), rtol=1e-8)
    assert (link.gpus, link.collective, link.algorithm, link.ranks) == (
        TRUE.gpus,
        "all_reduce",
        "ring",
        (2, 4, 8),
    )
    below, above = SIZES[SIZES <= 7e5][-1], SIZES[SIZES > 7e5][0]
    assert below < link.protocols[1].from_bytes < above


def test_a_mesh_is_fitted_with_the_links_that_each_group_has() -> None:
    true = Link(("MI300X",), "all_reduce", "direct", (Protocol(0.0, 0.0, 6.0, 0.7),))
    size, n = np.tile(SIZES, 2), np.repeat([2.0, 8.0], len(SIZES))
    rate = np.where(n == 2, 64.0, 448.0)
    messages = Timings(size, n, true.time_us("all_reduce", size, n, rate))
    link = fit_link(messages, find("MI300X"), "all_reduce", "direct", protocols=1)
    np.testing.assert_allclose(_figures(link), [[0.0, 6.0, 0.7]], rtol=1e-8)
    np.testing.assert_allclose(log_errors(link, messages, find("MI300X")), 0.0, atol=1e-8)


def test_waiting_messages_do_not_move_the_fit() -> None:
    exact = _timings()
    waited = np.random.default_rng(7).random(len(exact.time_us)) < 0.4
    waited &= exact.message_bytes < SIZES[-1]
    messages = Timings(exact.message_bytes, exact.ranks, exact.time_us * np.where(waited, 3.0, 1.0))
    link = fit_link(messages, GPU, "all_reduce", "ring")
    errors = log_errors(link, exact, GPU)
    assert np.median(np.abs(errors)) < 0.01
    assert np.quantile(np.abs(errors), 0.9) < 0.1


def test_the_transfer_is_the_least_time_of_equal_and_larger_messages() -> None:
    messages = Timings(
        np.array([4096.0, 1024.0, 8192.0, 1024.0, 2048.0]),
        np.array([2.0, 2.0, 2.0, 4.0, 2.0]),
        np.array([7.0, 9.0, 8.0, 3.0, 6.0]),
    ).transfer()
    assert messages.message_bytes.tolist() == [1024, 2048, 4096, 8192, 1024]
    assert messages.ranks.tolist() == [2, 2, 2, 2, 4]
    assert messages.time_us.tolist() == [6, 6, 7, 8, 3]


def test_a_dense_grid_counts_four_sizes_an_octave() -> None:
    dense = Timings(np.arange(1024.0, 4096.0), np.full(3072, 2.0), np.ones(3072))
    kept = dense.transfer().message_bytes
    assert len(kept) == 8
    assert kept[-1] == 4095


def test_nothing_is_negative_whatever_the_data() -> None:
    falling = Timings(SIZES, np.full(len(SIZES), 2.0), 1e3 / np.arange(1.0, len(SIZES) + 1))
    link = fit_link(falling, GPU, "all_reduce", "ring", protocols=1)
    assert link.protocols[0].efficiency == float("inf")
    assert np.all(_figures(link) >= 0)


def test_with_one_number_of_ranks_all_latency_is_in_the_steps() -> None:
    link = fit_link(_timings(ranks=(4,)), GPU, "all_reduce", "ring")
    np.testing.assert_allclose(
        _figures(link), [[0.0, 11 / 6, 0.4], [0.0, 25.2 / 6, 0.8]], rtol=1e-8
    )


def test_ranks_and_sizes_left_out_are_predicted_where_the_model_is_true() -> None:
    by_ranks = held_out(_timings(), GPU, "all_reduce", "ring", by="ranks")
    assert sorted(by_ranks["fold"].unique()) == [2, 4, 8]
    assert by_ranks["log_error"].abs().max() < 1e-8
    by_octave = held_out(_timings(), GPU, "all_reduce", "ring", by="octaves")
    assert len(by_octave) == len(by_ranks) == 3 * len(SIZES)
    assert by_octave["log_error"].abs().median() < 1e-8


def test_one_line_misses_what_two_protocols_made() -> None:
    one = held_out(_timings(), GPU, "all_reduce", "ring", by="ranks", protocols=1)
    assert one["log_error"].abs().mean() > 0.05


def test_a_single_number_of_ranks_leaves_none_out() -> None:
    empty = held_out(_timings(ranks=(2,)), GPU, "all_reduce", "ring", by="ranks")
    assert empty.empty
    assert list(empty) == ["fold", "message_bytes", "ranks", "log_error"]


def test_the_folds_of_sizes_by_hand() -> None:
    messages = Timings(np.array([8.0, 1023.0, 1024.0, 1e6, 1e7]), np.full(5, 2.0), np.ones(5))
    assert folds_of(messages, "octaves").tolist() == [3, 1, 2, 3, 3]
    assert folds_of(messages, "decades").tolist() == [0, 3, 3, 6, 7]
    assert folds_of(messages, "ranks").tolist() == [2] * 5


def test_no_octave_is_in_two_folds() -> None:
    messages = _timings()
    folds, octaves = folds_of(messages, "octaves"), np.floor(np.log2(messages.message_bytes))
    assert [len(np.unique(folds[octaves == octave])) for octave in np.unique(octaves)] == [1] * len(
        np.unique(octaves)
    )
    assert set(folds) == {0, 1, 2, 3}


def test_too_few_sizes_are_refused() -> None:
    with pytest.raises(DataError, match="6 sizes"):
        fit_link(_timings(sizes=SIZES[:5]), GPU, "all_reduce", "ring")


def test_a_failed_measurement_is_refused() -> None:
    with pytest.raises(DataError, match="above 0"):
        Timings(np.array([8.0, 16.0]), np.array([2.0, 2.0]), np.array([1.0, 0.0]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit_link(_timings(), GPU, "all_reduce", "ring", protocols=3), "must be 1 or 2"),
        (
            lambda: held_out(_timings(), GPU, "all_reduce", "ring", by="size"),
            r"'ranks'.*'octaves'.*'decades'",
        ),
        (lambda: Timings(np.ones(2), np.ones(3), np.ones(2)), "must be equally long"),
    ],
)
def test_wrong_parameters_are_named(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
