"""What README prints of the demo is what `make demo` computes, whatever the processor."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from flopcast.tests.commands.running import call

pytestmark = pytest.mark.no_cover
ROOT = Path(__file__).parents[1]
NUMBER = re.compile(r"\d[\d,]*\.?\d*")
TOLERANCE = 0.25  # in percent: what another processor may make of ties, and of a row of 429
SCREEN = 24  # lines of a terminal


def demo_commands(makefile: str, folder: Path) -> list[list[str]]:
    """Return what `make demo` types once the environment is there, runs going to another folder."""
    (models,) = re.findall(r"^DEMO := (.+)$", makefile, re.MULTILINE)
    (recipe,) = re.findall(r"^demo:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    commands = []
    for line in re.findall(r"\$\(BIN\)/python (\w+)\.py (.+)", recipe):
        words = shlex.split(line[1].replace("$(DEMO)", models))
        moved = [word.replace("runs/", f"{folder}/") for word in words]
        commands.append([line[0], *moved])
    return commands


def printed(readme: str) -> list[str]:
    """Return what README shows of the demo's output that has figures of the answer."""
    blocks = re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", readme, re.MULTILINE)
    block = next(block for block in blocks if "mean error of" in block)
    return answers(block)


def answers(text: str) -> list[str]:
    """Return the lines of an output that state an error, and its verdict, which is of several lines, as one."""
    words = [" ".join(line.split()) for line in text.splitlines()]
    said = [line for line in words if line.startswith(("known groups", "new groups"))]
    verdict = re.search(r"No: .*?\.(?= Wrote|$)", " ".join(filter(None, words)))
    if verdict:
        said.append(verdict.group())
    return said


def differing(said: str, now: str) -> bool:
    """Whether two lines have other words, or numbers that are further apart than `TOLERANCE`."""
    if NUMBER.sub("0", said) != NUMBER.sub("0", now):
        return True
    pairs = zip(NUMBER.findall(said), NUMBER.findall(now), strict=True)
    apart = [abs(float(one.replace(",", "")) - float(two.replace(",", ""))) for one, two in pairs]
    return max(apart, default=0.0) > TOLERANCE


@pytest.mark.long
def test_the_demo_computes_what_the_readme_prints(
    tmp_path: Path, all_folds: Callable[[], AbstractContextManager[None]]
) -> None:
    commands = demo_commands((ROOT / "Makefile").read_text("utf-8"), tmp_path)
    assert [command[0] for command in commands] == ["train", "train", "validate"]
    shown = ""
    for command in commands:
        with all_folds():
            one_process = ["--jobs", "1"] if command[0] == "train" else []
            ended = call(*command, *one_process)
        assert ended.exit_code == 0, ended.output
        shown += ended.output
    assert len(shown.splitlines()) + len(commands) <= SCREEN
    said, now = printed((ROOT / "README.md").read_text(encoding="utf-8")), answers(shown)
    assert len(said) == len(now) >= 5
    wrong = [pair for pair in zip(said, now, strict=True) if differing(*pair)]
    assert wrong == []


def test_answers_of_the_output_are_compared_by_words_and_figures() -> None:
    said = answers(
        "10 workloads, 2 groups\nknown groups    3.8 %  9 %\nNo: FLOPS\nscaling fails.\nWrote x\n"
    )
    assert said == ["known groups 3.8 % 9 %", "No: FLOPS scaling fails."]
    assert not differing(said[0], said[0].replace("3.8", "3.9"))
    assert differing(said[0], said[0].replace("3.8", "4.9"))
    assert differing(said[0], said[0].replace("known", "new"))
