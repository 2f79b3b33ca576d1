"""The command ``flopcast`` and its subcommands."""

from __future__ import annotations

import errno
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from flopcast import __version__
from flopcast.commands.app import COMMANDS, app, load

ROOT = Path(__file__).parents[2]
STORED = ROOT / "tests" / "models" / "stored"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def plain(shown: str) -> str:
    """Return a text without the colours that some CI machines ask for."""
    return re.sub(r"\x1b\[[\d;]*m", "", shown)


def options(shown: str) -> set[str]:
    """Return the options, short ones too, that a help text names."""
    return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", plain(shown)))


def test_help_lists_every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    listed = re.findall(r"^│ ([a-z]+) +[A-Z]", plain(run("--help").output), re.MULTILINE)
    assert listed == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_the_first_line_of_their_own_help(name: str) -> None:
    assert " ".join(load(name).help.partition("\n\n")[0].split()) == COMMANDS[name]


LIGHT = """
import sys
from flopcast.__main__ import main
for line in sys.stdin.read().splitlines():
    sys.argv[1:] = line.split()
    try:
        main()
    except SystemExit:
        print("MODULES", line, *{"numpy", "pandas", "pyarrow", "sklearn"} & set(sys.modules))
"""


def test_what_needs_no_data_imports_no_package_of_data() -> None:
    lines = [
        "train --help",
        "check --help",
        "train --target MI30X",
        "predict no-run no-data",
        "ingest x.csv --out x.txt",
    ]
    done = subprocess.run(
        [sys.executable, "-c", LIGHT], input="\n".join(lines), capture_output=True, text=True
    )
    told = [line for line in done.stdout.splitlines() if line.startswith("MODULES")]
    assert told == [f"MODULES {line}" for line in lines]


def test_without_a_command_the_jobs_are_shown() -> None:
    shown = run()
    assert shown.exit_code == 0
    assert {"train", "predict", "project", "forecast"} <= set(
        re.findall(r"flopcast (\w+)", shown.output)
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_has_examples_of_its_command_and_no_value_for_a_flag(name: str) -> None:
    command = load(name)
    for inner, one in {"": command, **getattr(command, "commands", {})}.items():
        assert f"flopcast {name} {inner}".replace(" MODEL", "") in one.epilog
    assert "<bool>" not in run(name, "--help").output


def test_version() -> None:
    assert run("--version").output == f"flopcast {__version__}\n"


def test_gpus_lists_and_compares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert "MI455X" in run("gpus").output
    text = run("gpus", "MI300X", "MI308X").output
    assert "not published" in text


def test_gpus_names_the_sources_of_the_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = run("gpus", "MI300X", "--sources").output
    assert "ROCM-MI300: all peaks" in text
    assert "Measured by others" in text
    assert "BabelStream" in text
    assert "H100 SXM5" in run("gpus", "--sources").output
    (tmp_path / "mine.toml").write_text(
        'name = "MI375X"\nbased_on = "MI355X"\nmemory_bw_gbs = 10000\n'
    )
    assert "Measured by others" not in run("gpus", str(tmp_path / "mine.toml"), "--sources").output


def test_gpus_as_json_has_null_where_nothing_is_published() -> None:
    found = json.loads(run("gpus", "MI300X", "MI308X", "--json").output)
    text = json.dumps(found)
    assert "2614.9" in text
    assert "null" in text


@pytest.mark.parametrize(
    "line",
    [
        "train {data} --target MI300X --out {out}",
        "predict {data} {data} --out {out}.csv",
        "validate {data} --host MI300X --target MI355X --out {out}",
        "project {data} --target MI355X --out {out}",
        "scale predict {data} --fit 8,16 --out {out}",
        "scale devices {data} --devices MI308X,MI300X --out {out}",
        "scale terms {data} --out {out}",
        "clean {data} --out {out}.csv",
        "clean {data} --removed {out}.csv",
        "power profile {data} --executions {data} --out {out}",
        "ingest {data} --out {out}.parquet",
        "ingest {data} --dispatches --out {out}.parquet",
        "measure --out {out}.csv",
    ],
)
@pytest.mark.parametrize("place", ["file/x", "closed/x"])
def test_a_place_that_cannot_be_written_is_refused_before_anything_is_read(
    line: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no measurement")
    (tmp_path / "closed").mkdir()
    touch = Path.touch

    def refused(path: Path, *args: Any, **options: Any) -> None:
        if path.parent.name == "closed":  # whatever the permissions are, the super-user may write
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        touch(path, *args, **options)

    monkeypatch.setattr(Path, "touch", refused)
    result = run(*line.format(data=tmp_path / "file", out=tmp_path / place).split())
    assert result.exit_code == 2
    assert re.search(r"x(\.\w+)?:? cannot be written", result.stderr)
    assert result.stderr.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["closed", "file"]


def test_the_input_is_never_the_output_through_links_neither(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    data, link, hard = tmp_path / "in" / "x.csv", tmp_path / "link.csv", tmp_path / "hard.csv"
    data.write_text("device,op,dtype_a,m,n,k,duration_us\nMI300X,gemm,bf16,1,2,3,4\n")
    link.symlink_to(data)
    hard.hardlink_to(data)
    for given in (data, tmp_path / "in", link):
        for out in (data, link, hard, tmp_path / "in" / ".." / "in" / "x.csv"):
            result = run("ingest", str(given), "--out", str(out))
            assert (result.exit_code, "is a file that is read" in result.stderr) == (2, True)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.json").write_text("{}")
    result = run(
        "predict", str(tmp_path / "run"), str(data), "--out", str(tmp_path / "run" / "metrics.json")
    )
    assert "is a file that is read" in result.stderr
    result = run(
        "clean", str(data), "--out", str(tmp_path / "a.csv"), "--removed", str(tmp_path / "a.csv")
    )
    assert (result.exit_code, "--removed must be another file" in result.stderr) == (2, True)
    assert run("ingest", str(data), "--out", str(tmp_path / "in" / "new.csv")).exit_code == 0


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


@pytest.mark.parametrize(
    "command",
    [
        "train", "predict", "validate", "ingest", "measure", "clean", "project",
        "scale predict", "scale devices", "scale terms", "power profile",
    ],
)  # fmt: skip
def test_the_place_of_the_result_has_a_short_name_everywhere(command: str) -> None:
    assert {"--out", "-o"} <= options(run(*command.split(), "--help").output)


@pytest.mark.parametrize("script", ["train", "predict", "validate"])
def test_scripts_at_the_root_have_the_same_options_and_commands_as_the_subcommands(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "argv", [f"{script}.py", "--help"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / f"{script}.py"), run_name="__main__")
    shown, command = capsys.readouterr().out, run(script, "--help").output
    assert ended.value.code == 0
    assert (
        options(shown) - {"--install-completion", "--show-completion"}
        == options(command)
        >= {"--help"}
    )
    assert shown.partition(" Commands ")[2].split() == command.partition(" Commands ")[2].split()


@pytest.mark.parametrize(
    "words",
    [
        ("power", "plan", "--kernel-us", "120us"),
        ("train", "--seed", "-1"),
        ("power", "record", "--out", "recorded", "--logger", "nvidia"),
    ],
)
def test_a_value_that_cannot_be_is_refused_in_plain_words(words: tuple[str, ...]) -> None:
    """What checks values has words for programmers: "Input should be ...", "Value error"."""
    refused = run(*words)
    assert refused.exit_code == 2
    assert words[-2] in refused.stderr
    assert words[-1] in refused.stderr
    assert "nput" not in refused.stderr
    assert "Value error" not in refused.stderr


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("ulimit -v 400000;", "390 MiB of memory are allowed (ulimit -v)"),
        ("PYTHONOPTIMIZE=2", "PYTHONOPTIMIZE=2 (python -OO) removes: set it to 1, or unset it"),
    ],
)
def test_a_place_that_cannot_run_it_is_one_line_and_an_end(
    tmp_path: Path, before: str, said: str
) -> None:
    run = STORED / "sklearn-1.7"
    (tmp_path / "asked.csv").write_text("op,rows,cols,dtype_a\nsoftmax,64,1024,fp32\n")
    command = f"{before} {sys.executable} -m flopcast predict {run} asked.csv"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=3600
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert said in done.stderr


@pytest.mark.parametrize("words", ["forecast llama-3.1-8b --gpu MI300X --batch 8", "ingest a.csv"])
def test_what_reads_a_table_is_refused_before_libraries_fail_for_memory(
    tmp_path: Path, words: str
) -> None:
    (tmp_path / "a.csv").write_text("op,device,dtype,m,n,k,us\ngemm,MI300X,bf16,1,2,3,4\n")
    command = f"ulimit -v 400000; {sys.executable} -m flopcast {words}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=3600
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "(ulimit -v)" in done.stderr


@pytest.mark.parametrize(
    ("words", "code"), [("gpus MI300X", 0), ("train --help", 0), ("schema", 0), ("train", 2)]
)
def test_only_what_learns_is_refused_where_little_memory_is_allowed(
    tmp_path: Path, words: str, code: int
) -> None:
    command = f"ulimit -v 500000; {sys.executable} -m flopcast {words}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=3600
    )
    assert done.returncode == code, done.stderr
    assert ("(ulimit -v)" in done.stderr) == (code == 2)


def test_memory_that_is_used_up_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def used_up(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("flopcast.commands.gpus.all_gpus", used_up)
    result = run("gpus")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "memory is used up" in result.stderr
