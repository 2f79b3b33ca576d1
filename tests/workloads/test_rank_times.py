"""What every rank of a replayed MPI program does: traces made from a schedule whose times are known."""

from __future__ import annotations

import json
import math
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flopcast.api.forecasting import forecast as asked
from flopcast.errors import DataError, ParameterError
from flopcast.report.forecast import rank_figure
from flopcast.workloads.forecasting import Forecast, forecast

MS = 1e6  # amounts of 1 ms at 1 Gf


def replayed(folder: Path, text: str, **fields: Any) -> Forecast:
    ranks = sorted({line.split()[0] for line in text.splitlines()})
    begin = "".join(f"{rank} init\n" for rank in ranks)
    (folder / "job.trace").write_text(begin + text, encoding="utf-8")
    given = {"model": folder / "job.trace", "gpu": "MI300X", "gpus": len(ranks)}
    return forecast(given | {"time_unit": "1Gf"} | fields)


def test_the_receiver_waits_for_a_late_sender(tmp_path: Path) -> None:
    text = f"0 compute {40 * MS}\n0 send 1 0 8\n1 compute {10 * MS}\n1 recv 0 0 8\n"
    sender, receiver = replayed(tmp_path, text).ranks
    assert sender.computing_s == pytest.approx(0.04)
    assert sender.late_sender_s == sender.collective_s == 0
    assert receiver.computing_s == pytest.approx(0.01)
    assert receiver.late_sender_s == pytest.approx(0.03)
    assert receiver.messages_s == pytest.approx(sender.messages_s)
    assert receiver.done_early_s == 0
    assert receiver.behind_s is None


def test_a_message_that_came_before_it_is_wanted_is_not_waited_for(tmp_path: Path) -> None:
    text = f"0 send 1 0 8\n1 compute {10 * MS}\n1 recv 0 0 8\n"
    sender, receiver = replayed(tmp_path, text).ranks
    assert (receiver.messages_s, receiver.late_sender_s) == (0, 0)
    assert sender.done_early_s == pytest.approx(0.01, rel=0.01)


def test_all_wait_in_a_collective_for_the_last_rank(tmp_path: Path) -> None:
    lines = []
    for rank, ms in enumerate((10, 30, 20)):
        lines.append(f"{rank} compute {ms * MS}\n{rank} allreduce 1 0\n")
    lines.append(f"2 compute {5 * MS}\n")
    ranks = replayed(tmp_path, "".join(lines)).ranks
    assert [one.collective_s for one in ranks] == pytest.approx([0.02, 0.0, 0.01])
    assert [one.behind_s for one in ranks] == pytest.approx([0.0, 0.02, 0.01])
    assert [one.done_early_s for one in ranks] == pytest.approx([0.005, 0.005, 0.0])


def test_what_a_rank_does_in_the_meantime_is_no_wait(tmp_path: Path) -> None:
    text = (
        f"0 compute {20 * MS}\n0 isend 1 0 8\n0 wait\n1 irecv 0 0 8\n1 compute {15 * MS}\n1 wait\n"
    )
    _, receiver = replayed(tmp_path, text).ranks
    assert receiver.computing_s == pytest.approx(0.015)
    assert receiver.late_sender_s == pytest.approx(0.005)


def test_the_times_of_every_rank_add_up_to_the_job(tmp_path: Path) -> None:
    text = ""
    for step in range(3):
        for rank in range(4):
            text += f"{rank} irecv {(rank - 1) % 4} 0 100000\n"
            text += f"{rank} isend {(rank + 1) % 4} 0 100000\n"
            text += (
                f"{rank} compute {(1 + (rank * 7 + step * 3) % 5) * MS}\n{rank} wait\n{rank} wait\n"
            )
            text += f"{rank} allreduce 10 0\n"
    answer = replayed(tmp_path, text)
    end = max(layer.end_s for layer in answer.layers)
    for rank in answer.ranks:
        seconds = astuple(rank)[1:-1]
        assert min(seconds) >= 0
        assert sum(seconds) == pytest.approx(end)


def test_ranks_stand_in_the_answer(tmp_path: Path) -> None:
    replayed(tmp_path, f"0 compute {MS}\n0 barrier\n1 compute {3 * MS}\n1 barrier\n")
    path = tmp_path / "job.trace"
    asked(path, gpu="MI300X", gpus=2, time_unit="1Gf").save(tmp_path / "out")
    saved = json.loads((tmp_path / "out" / "forecast.json").read_text(encoding="utf-8"))
    told = saved["forecasts"][0]["ranks"]
    assert [one["collective_s"] for one in told] == pytest.approx([0.002, 0.0])
    layers = asked({"layers": [{"name": "a", "time_us": 5}]}, gpu="MI300X").answers[0]
    assert layers.ranks == ()


def test_bins_of_time_say_what_the_ranks_do(tmp_path: Path) -> None:
    """Of two ranks one computes for 25 ms, the other for 10, and then waits."""
    text = f"0 compute {25 * MS}\n0 send 1 0 8\n1 compute {10 * MS}\n1 recv 0 0 8\n"
    bins = replayed(tmp_path, text, bins="10ms").bins
    assert [one.start_s for one in bins] == pytest.approx([0, 0.01, 0.02])
    assert [one.computing for one in bins] == pytest.approx([1, 0.5, 0.5], abs=2e-3)
    assert [one.waiting for one in bins] == pytest.approx([0, 0.5, 0.5], abs=2e-3)
    assert [one.message_bytes for one in bins] == pytest.approx([0, 0, 8])


def test_bytes_are_spread_over_the_time_of_their_message(tmp_path: Path) -> None:
    """A collective's message counts for each of its ranks."""
    text = "0 send 1 0 1000000000\n1 recv 0 0 1000000000\n0 allreduce 1000000 0\n1 allreduce 1000000 0\n"
    answer = replayed(tmp_path, text, bins="5ms")
    (alone,) = [one.message_s for one in answer.layers if one.name.endswith("rank 0: 1")]
    bins = answer.bins
    assert bins[0].message_bytes == pytest.approx(5e-3 / alone * 1e9)
    assert math.fsum(one.message_bytes for one in bins) == pytest.approx(1e9 + 2e6)
    assert bins[0].messages == pytest.approx(1.0)


@pytest.mark.parametrize("width", ["1ms", "3.7 ms", "10s"])
def test_bins_agree_with_the_sums_of_ranks(tmp_path: Path, width: str) -> None:
    rng = np.random.default_rng(7)
    text = ""
    for _ in range(4):
        for rank in range(3):
            text += f"{rank} isend {(rank + 1) % 3} 0 {rng.integers(1e7)}\n{rank} compute {rng.integers(9e6)}\n"
            text += f"{rank} recv {(rank - 1) % 3} 0 1\n{rank} wait\n"
        text += "0 barrier\n1 barrier\n2 barrier\n"
    answer = replayed(tmp_path, text, bins=width)
    bins, ranks = answer.bins, answer.ranks
    seconds = np.array([one.end_s - one.start_s for one in bins]) * len(ranks)
    for of_bin, of_rank in (
        ("computing", ("computing_s",)),
        ("messages", ("messages_s",)),
        ("waiting", ("late_sender_s", "late_receiver_s", "collective_s")),
        ("done", ("done_early_s",)),
    ):
        shares = np.array([getattr(one, of_bin) for one in bins])
        assert shares.min() >= 0
        summed = sum(getattr(rank, name) for rank in ranks for name in of_rank)
        assert (shares * seconds).sum() == pytest.approx(summed, abs=1e-12)
    ends = [one.end_s for one in bins]
    assert [one.start_s for one in bins[1:]] == ends[:-1]
    assert ends[-1] == max(layer.end_s for layer in answer.layers)


@pytest.mark.parametrize("bins", ["0ms", "10 apples", -1, "1us"])
def test_bins_are_of_time_and_not_too_many(tmp_path: Path, bins: object) -> None:
    with pytest.raises(ParameterError, match="bins"):
        replayed(tmp_path, f"0 compute {200 * MS}\n", bins=bins)


def test_bins_need_ranks() -> None:
    with pytest.raises(ParameterError, match="bins"):
        forecast({"model": {"layers": [{"time_us": 5}]}, "gpu": "MI300X", "bins": "10ms"})


LATE = f"0 send 1 0 100000\n0 compute {5 * MS}\n1 compute {20 * MS}\n1 recv 0 0 100000\n"


@pytest.mark.parametrize(("threshold", "waits"), [(None, 0), ("64K", 0.02), (100_001, 0)])
def test_a_long_send_waits_for_a_late_receiver(
    tmp_path: Path, threshold: object, waits: float
) -> None:
    sender, receiver = replayed(tmp_path, LATE, rendezvous_bytes=threshold).ranks
    assert sender.late_receiver_s == pytest.approx(waits)
    assert receiver.late_receiver_s == receiver.late_sender_s == 0
    assert sender.computing_s == pytest.approx(0.005)
    if waits:
        assert receiver.messages_s == pytest.approx(sender.messages_s)


def test_a_send_in_the_background_is_waited_for_until_the_receiver_wants_it(tmp_path: Path) -> None:
    text = (
        f"0 isend 1 0 100000\n0 compute {5 * MS}\n0 wait\n1 compute {20 * MS}\n1 recv 0 0 100000\n"
    )
    sender, _ = replayed(tmp_path, text, rendezvous_bytes="64K").ranks
    assert (sender.computing_s, sender.late_receiver_s) == pytest.approx((0.005, 0.015))


def test_long_sends_to_each_other_that_nobody_receives_are_refused(tmp_path: Path) -> None:
    """As MPI's would never end, unless they are short."""
    text = "0 send 1 0 100000\n1 send 0 0 100000\n0 recv 1 0\n1 recv 0 0\n"
    assert replayed(tmp_path, text).predicted > 0
    with pytest.raises(DataError, match="circle"):
        replayed(tmp_path, text, rendezvous_bytes="64K")


def test_rendezvous_is_of_traces_that_say_when_receives_begin() -> None:
    with pytest.raises(ParameterError, match="rendezvous_bytes"):
        forecast({"model": {"layers": [{"time_us": 5}]}, "gpu": "MI300X", "rendezvous_bytes": 8})


def test_the_figure_of_ranks_has_a_bar_of_each_that_adds_up_to_the_job(tmp_path: Path) -> None:
    text = f"0 compute {40 * MS}\n0 send 1 0 8\n1 compute {10 * MS}\n1 recv 0 0 8\n"
    one = replayed(tmp_path, text)
    lengths = dict.fromkeys(("rank 0", "rank 1"), 0.0)
    for kind in rank_figure(one).data:
        for rank, length in zip(kind.y, kind.x, strict=True):
            lengths[rank] += length
    assert lengths["rank 0"] == pytest.approx(lengths["rank 1"])
    assert lengths["rank 0"] > 0
