"""``flopcast show``: a saved run again."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import pytest

from flopcast.__main__ import main
from flopcast.tests.commands import running

show = partial(running.call, "show")


def test_a_saved_run_is_printed_again_and_drawn_on_demand(trained: Path) -> None:
    plain, drawn = show(trained), show(trained, "--plot")
    assert (plain.exit_code, drawn.exit_code) == (0, 0)
    assert "FLOPS scaling" in plain.stdout
    assert len(show(trained, "--all").stdout.splitlines()) > 1.5 * len(plain.stdout.splitlines())
    assert plain.stdout.splitlines()[-1] == drawn.stdout.splitlines()[-1]
    assert [text.count("predicted = observed") for text in (plain.stdout, drawn.stdout)] == [0, 1]


def test_json_is_that_of_the_folder_with_the_answer(trained: Path) -> None:
    found = json.loads(show(trained, "--json").stdout)
    assert set(found.pop("answer")) == {cv["scheme"] for cv in found["cv"]}
    assert found == json.loads((trained / "metrics.json").read_text(encoding="utf-8"))


def test_what_is_no_run_is_one_line(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "none"):
        done = show(place)
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("words", "expected"), [("flopcast sh", "show"), ("flopcast train --ho", "--host")]
)
def test_the_shell_completes_commands_and_their_options(
    words: str, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {
        "_FLOPCAST_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    for name, value in asked.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["flopcast"])
    with pytest.raises(SystemExit):
        main()
    assert expected in capsys.readouterr().out.split()
