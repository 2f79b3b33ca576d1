"""The entry of the command: what happens before its modules are there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from types import ModuleType

import pytest

from flopcast import __main__ as entry
from flopcast.commands import options


class Interrupting:
    """A finder of modules that gets Ctrl-C while it looks for the command line."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if name == "flopcast.commands.app":
            raise KeyboardInterrupt


def test_ctrl_c_during_the_imports_is_one_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "flopcast.commands.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    with pytest.raises(SystemExit) as stopped:
        entry.main()
    assert stopped.value.code == entry.INTERRUPTED == options.INTERRUPTED
    assert capsys.readouterr().err == "interrupted\n"


def test_the_entry_itself_imports_nothing_that_takes_time() -> None:
    code = "import flopcast.__main__, sys; print({'numpy', 'pandas', 'typer'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "flopcast", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("flopcast ")
