from __future__ import annotations

import pytest

from flopcast.report.progress import clock, shown_progress


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
    assert "folds: 10 of 100 fits, OLS (kfold), about 1 min 30 s left" in lines[1]


def test_quiet_work_has_no_progress(capfd: pytest.CaptureFixture[str]) -> None:
    with shown_progress("folds", quiet=True) as progress:
        assert progress is None
    assert capfd.readouterr() == ("", "")
