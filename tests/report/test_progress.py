from __future__ import annotations

import pytest
from rich.console import Console
from rich.progress import Progress

from flopcast.report.formats import clock
from flopcast.report.terminal import shown_progress


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (60, "1 min 00 s"), (3725, "62 min 05 s")]
)
def test_times_are_said_in_minutes_and_seconds(seconds: float, text: str) -> None:
    assert clock(seconds) == text


@pytest.mark.parametrize("quiet", [False, True])
def test_nothing_is_shown_off_a_terminal_or_to_those_who_want_quiet(
    quiet: bool, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Console, "is_terminal", quiet)
    with shown_progress("folds", first="reading", quiet=quiet) as progress:
        assert progress is None
    assert capfd.readouterr() == ("", "")


def test_on_a_terminal_the_time_left_is_drawn_where_it_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Console, "is_terminal", True)
    shown: list[object] = []
    monkeypatch.setattr(Progress, "update", lambda _, task, **fields: shown.append(fields["left"]))
    with shown_progress("measuring") as progress:
        assert progress is not None
        progress(0, 10, "gemm", float("inf"))
        progress(5, 10, "gemm", 4.0)
    assert shown == ["", "about 4 s left"]
