"""The command ``flopcast`` and its subcommands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from flopcast import __version__
from flopcast.cli import app


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_help_lists_the_jobs() -> None:
    text = run("--help").output
    for job in ("train", "predict", "validate", "gpus"):
        assert job in text


def test_version() -> None:
    assert run("--version").output == f"flopcast {__version__}\n"


def test_gpus_lists_and_compares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert "MI455X" in run("gpus").output
    text = run("gpus", "MI300X", "MI308X").output
    assert "not published" in text


def test_gpus_as_json_has_null_where_nothing_is_published() -> None:
    found = json.loads(run("gpus", "MI300X", "MI308X", "--json").output)
    text = json.dumps(found)
    assert "2614.9" in text
    assert "null" in text


def test_an_unknown_gpu_is_one_line_with_the_closest_names() -> None:
    result = run("gpus", "MI30X")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: unknown GPU 'MI30X': did you mean MI3")
    assert result.stderr.count("\n") == 1


def test_ones_own_gpu_comes_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    path = tmp_path / "mine.toml"
    path.write_text('name = "MI375X"\nbased_on = "MI355X"\nmemory_bw_gbs = 10000\n')
    text = run("gpus", "MI355X", str(path)).output
    assert "MI375X" in text
    assert "1.25" in text


def test_help_of_gpus_explains_the_file() -> None:
    text = run("gpus", "--help").output
    assert "based_on" in text


@pytest.mark.parametrize("command", ["predict", "project", "scale predict", "power profile"])
def test_the_level_of_intervals_has_both_names_everywhere(command: str) -> None:
    shown = run(*command.split(), "--help").output
    assert {"--interval", "--level"} <= set(shown.replace(",", " ").split())


@pytest.mark.parametrize(
    "command",
    [
        "train", "predict", "validate", "ingest", "measure", "clean", "project",
        "scale predict", "scale devices", "power profile",
    ],
)  # fmt: skip
def test_the_place_of_the_result_has_a_short_name_everywhere(command: str) -> None:
    shown = run(*command.split(), "--help").output
    assert {"--out", "-o"} <= set(shown.replace(",", " ").split())


@pytest.mark.parametrize("script", ["train.py", "predict.py", "validate.py"])
def test_scripts_at_the_root_have_the_same_options_as_the_subcommands(script: str) -> None:
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, script, "--help"], cwd=root, capture_output=True, text=True, check=True)
    options = {word for word in done.stdout.split() if word.startswith("--")}
    command = run(script.removesuffix(".py"), "--help").output
    assert options - {"--install-completion", "--show-completion"} <= set(command.split())
    assert "--where" in options
