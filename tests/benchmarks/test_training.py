"""The benchmarks of whole trainings and of ranks measure what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

import flopcast as fc
from flopcast.benchmarks import peers
from flopcast.benchmarks.ranks import write_rank


def test_a_made_up_rank_is_a_trace_of_the_size_asked_for(tmp_path: Path) -> None:
    size = write_rank(tmp_path / "rank.json", 1000)
    assert size == (tmp_path / "rank.json").stat().st_size
    found = fc.ingest(tmp_path, out=tmp_path / "out", parts=True, each=True, jobs=1)
    assert (found.rows, found.rejected, found.unreadable) == (4096, {}, [])
    assert fc.read(tmp_path / "out").frame["repeats"].sum() == 4096


def test_peers_see_our_folds_and_features_and_those_that_lack_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    missing = {"CatBoost": lambda: peers._of("no_such_library")}
    monkeypatch.setattr(peers, "TREES", 20)
    monkeypatch.setattr(peers, "_LEARNERS", {"LightGBM": peers._LEARNERS["LightGBM"], **missing})
    rows = list(peers.against_time("made up", peers.made_up(100), ["LightGBM", "CatBoost"]))
    assert [row.name for row in rows] == [
        "LightGBM, log time",
        "LightGBM, log residual",
        "CatBoost",
    ]
    assert all("unseen groups" in row.note for row in rows[:2])
    assert rows[2].note == "skipped: no_such_library is not installed"
