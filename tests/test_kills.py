"""Commands that cannot finish: killed, without room on the disk, without the right to write."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

from flopcast.tests.commands.running import Ended, call
from flopcast.tests.kills import CASES, inputs, tree

resource = pytest.importorskip("resource", reason="this system has no limits for processes")
BRIEF = ["ingest", "ingest CSV", "clean", "project"]
LONG = [pytest.param("train", marks=pytest.mark.long)]
ROOT = Path(__file__).parents[1]


def run(name: str, given: Path, out: Path) -> Ended:
    return call(
        *(
            word.replace("IN", str(given)).replace("OUT", str(out))
            for word in CASES[name].line.split()
        )
    )


@contextmanager
def no_room() -> Generator[None]:
    """Let no file of this process grow beyond a few bytes: as on a full disk, writing fails half way.

    Python would keep the first bytes of a module that it compiles meanwhile as the whole, and fail at the next import.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, before[1]))
    try:
        with patch.object(sys, "dont_write_bytecode", True):
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """Write inputs, and an earlier result in the place of each (requested before the disk is full)."""
    for case in CASES.values():
        earlier = tmp_path / "out" / case.result
        earlier.parent.mkdir(exist_ok=True)
        if earlier.suffix:
            earlier.write_text("earlier")
    return inputs(tmp_path / "in", 0)


@pytest.mark.parametrize("name", [*BRIEF, *LONG])
def test_a_full_disk_is_one_line_and_what_was_there_stays(name: str, given: Path) -> None:
    out = given.parent / "out"
    before = tree(out)
    with no_room():
        result = run(name, given, out / CASES[name].result)
    assert result.exit_code == 2, result.output
    assert result.stderr.splitlines()[-1].startswith(f"error: {out / CASES[name].result}")
    assert tree(out) == before
    assert not list(out.rglob(".*"))


@pytest.mark.skipif(
    not Path("/sys/kernel").is_dir(), reason="no folder that nobody, root included, can write into"
)
@pytest.mark.parametrize("name", BRIEF)
def test_a_place_that_nobody_can_write_to_is_one_line(name: str, given: Path) -> None:
    out = Path("/sys/kernel") / CASES[name].result
    result = run(name, given, out)
    assert result.exit_code == 2, result.output
    assert result.stderr.splitlines()[-1].startswith(f"error: {out}: ")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.long
def test_killed_commands_leave_the_earlier_result_or_the_new_one() -> None:
    names, trials = ["ingest", "project"], 1  # a file and a folder
    command = [sys.executable, "-m", "flopcast.tests.kills", "--trials", str(trials), *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"{trials * len(names)}  kills" in done.stdout
