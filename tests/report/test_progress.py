from __future__ import annotations

import pytest
from rich.console import Console
from rich.progress import Progress

from flopcast.report.formats import clock
from flopcast.report.progress import shown_progress


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (60, "1 min 00 s"), (3725, "62 min 05 s")])
def test_times_are_said_in_minutes_and_seconds(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_off_a_terminal_every_tenth_is_one_line_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    with shown_progress("folds") as progress:
        assert progress is not None
        for done in range(1, 101):
            progress(done, 100, "OLS (kfold)", 100.0 - done)
    out, err = capfd.readouterr()
    assert out == ""
    lines = err.strip().splitlines()
    assert len(lines) == 11
    assert "100 fits, OLS (kfold)" in lines[1]


def test_quiet_work_has_no_progress(capfd: pytest.CaptureFixture[str]) -> None:
    with shown_progress("folds", quiet=True) as progress:
        assert progress is None
    assert capfd.readouterr() == ("", "")


def test_what_is_counted_has_a_name_and_an_unknown_time_is_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    with shown_progress("measuring", unit="visits") as progress:
        assert progress is not None
        for done in range(100):
            progress(done, 100, "gemm bf16 m=4", float("nan") if done == 0 else 100.0 - done)
    lines = capfd.readouterr().err.strip().splitlines()
    assert len(lines) == 10
    assert lines[0] == "measuring: 0 of 100 visits, gemm bf16 m=4"
    assert lines[1] == "measuring: 10 of 100 visits, gemm bf16 m=4, about 1 min 30 s left"


def test_on_a_terminal_the_time_left_is_drawn_where_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Console, "is_terminal", True)
    shown: list[object] = []
    monkeypatch.setattr(Progress, "update", lambda _, task, **fields: shown.append(fields["left"]))
    with shown_progress("measuring") as progress:
        assert progress is not None
        progress(0, 10, "gemm", float("inf"))
        progress(5, 10, "gemm", 4.0)
    assert shown == ["", "about 4 s left"]
