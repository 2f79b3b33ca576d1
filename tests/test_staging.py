"""Unfinished results: whose they are, what is removed when, and that nobody else's files are."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flopcast import staging
from flopcast.output import whole_file, whole_folder
from flopcast.staging import remove_folder, staged, sweep, temporary_folder

ROOT = Path(__file__).parents[1]
MARK = "flopcast-" + "0123456789abcdef" * 2


def tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def write(out: Path, text: str, files: int = 3) -> None:
    with whole_folder(out) as folder:
        for number in range(files):
            (folder / f"{number}.txt").write_text(text)


def left_behind(folder: Path) -> list[Path]:
    """Make what killed runs leave: an unfinished file, and an unfinished folder."""
    file, unfinished = folder / f".table.csv.{MARK}", folder / f".run.{MARK}"
    file.write_text("half")
    (unfinished / "new").mkdir(parents=True)
    (unfinished / "new" / "metrics.json").write_text("half")
    return [file, unfinished]


def test_the_next_run_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    left_behind(tmp_path)
    with whole_file(tmp_path / "other.csv") as path:
        path.write_text("whole")
    assert tree(tmp_path) == {"other.csv": "whole"}
    left_behind(tmp_path)
    write(tmp_path / "run", "new")
    assert sorted(os.listdir(tmp_path)) == ["other.csv", "run"]


def test_files_of_the_user_and_of_a_living_process_stay(tmp_path: Path) -> None:
    names = [
        ".table.csv.flopcast-",
        ".table.csv.0123456789abcdef0123456789abcdef",
        f"table.{MARK}",
        f".x.{MARK}.csv",
    ]
    for name in names:
        (tmp_path / name).write_text("mine")
    (tmp_path / f".link.{MARK}").symlink_to(tmp_path / names[0])
    os.mkfifo(tmp_path / f".pipe.{MARK}")
    before = sorted(os.listdir(tmp_path))
    with staged(tmp_path / "run", folder=True) as folder, staged(tmp_path / "a.csv") as file:
        sweep(tmp_path)
        assert sorted(os.listdir(tmp_path)) == sorted([*before, folder.name, file.name])
    assert sorted(os.listdir(tmp_path)) == before


def test_what_belongs_to_another_user_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = left_behind(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    sweep(tmp_path)
    assert all(path.exists() for path in paths)


def test_a_previous_result_that_a_killed_run_moved_away_returns(tmp_path: Path) -> None:
    _, unfinished = left_behind(tmp_path)
    (unfinished / "previous").mkdir()
    (unfinished / "previous" / "metrics.json").write_text("old")
    sweep(tmp_path)
    assert tree(tmp_path) == {"run/metrics.json": "old"}


@pytest.mark.parametrize("exchange", [True, False])
def test_two_writers_of_one_folder_leave_one_whole_result(
    tmp_path: Path, exchange: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchange:
        monkeypatch.setattr(staging, "_exchanged", lambda *_: False)
    for text in ("ab", "cd"):  # the folder is not there, then it is
        with whole_folder(tmp_path / "run") as first:
            write(tmp_path / "run", text[0], files=2)
            (first / "0.txt").write_text(text[1])
        assert tree(tmp_path)["run/0.txt"] == text[1]
        assert os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize("exchange", [True, False])
def test_what_the_user_put_beside_a_result_stays(
    tmp_path: Path, exchange: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchange:
        monkeypatch.setattr(staging, "_exchanged", lambda *_: False)
    write(tmp_path / "run", "old")
    notes = tmp_path / "run" / "notes"
    notes.mkdir()
    (notes / "a.txt").write_text("mine")
    (tmp_path / "run" / "link").symlink_to("nowhere")
    write(tmp_path / "run", "new")
    assert tree(tmp_path / "run") == {
        "0.txt": "new",
        "1.txt": "new",
        "2.txt": "new",
        "notes/a.txt": "mine",
    }
    assert os.readlink(tmp_path / "run" / "link") == "nowhere"
    assert os.listdir(tmp_path) == ["run"]


def test_a_folder_is_removed_and_so_are_temporary_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "run", "old")
    remove_folder(tmp_path / "run")
    monkeypatch.setattr(staging.tempfile, "tempdir", str(tmp_path))
    left_behind(tmp_path)
    with temporary_folder() as folder:
        assert folder.parent == tmp_path
        (folder / "database").write_text("")
    assert os.listdir(tmp_path) == []


def kill_before(calls: int) -> None:
    """Let this process make so many calls that open or change files, and kill it before the next."""
    left = itertools.count(calls, -1)

    def hook(event: str, arguments: object) -> None:
        if (event == "open" or event.startswith(("os.", "ctypes.", "fcntl."))) and not next(left):
            signal.raise_signal(signal.SIGKILL)

    sys.addaudithook(hook)


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("old", [False, True])
def test_a_kill_while_writing_leaves_the_old_result_or_the_new(tmp_path: Path, old: bool) -> None:
    """Kill processes that write one folder before each of their calls of the system, until one has made them all."""
    earlier, new = ({f"run/{number}.txt": text for number in range(3)} for text in ("old", "new"))
    for calls in itertools.count():
        if old:
            write(tmp_path / "run", "old")
        elif (tmp_path / "run").exists():
            shutil.rmtree(tmp_path / "run")
        child = os.fork()
        if not child:
            kill_before(calls)
            write(tmp_path / "run", "new")
            os._exit(0)
        _, status = os.waitpid(child, 0)
        found = {name: text for name, text in tree(tmp_path).items() if not name.startswith(".")}
        assert found in (new, earlier if old else {})
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            break
    assert (os.waitstatus_to_exitcode(status), found) == (0, new)
    assert calls > 10
    write(tmp_path / "run", "new")
    assert tree(tmp_path) == new
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="no /proc, where processes are listed")
def test_processes_of_a_pool_end_with_a_killed_parent() -> None:
    code = (
        "import os, signal; from joblib import Parallel, delayed; from flopcast.workers import ending_together\n"
        "pool = Parallel(2, return_as='generator_unordered', **ending_together())\n"
        "found = pool(delayed(os.getpid)() for _ in range(2)); print(next(found), flush=True); signal.pause()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        worker = Path("/proc") / parent.stdout.readline().strip()
        assert worker.exists()
        parent.kill()
    for _ in range(36_000):  # an hour: longer, and it waits for work that nobody can give it
        if not worker.exists():
            return
        time.sleep(0.1)
    pytest.fail("the process waits for work that nobody can give it")
