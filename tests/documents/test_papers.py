"""The page Papers names commands and options that there are, and places on pages that there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import flopcast as fc
from flopcast.commands.app import COMMANDS, load

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "papers.md").read_text("utf-8")
ROWS = [
    line.strip("| ").split(" | ")
    for line in PAGE.splitlines()
    if line.startswith("| ") and "`" in line
]


def command_of(words: list[str]) -> Any:
    command = load(words[0])
    for word in words[1:]:
        command = getattr(command, "commands", {}).get(word, command)
    return command


def options(words: list[str]) -> set[str]:
    """Return the options of a command, or of any of the commands in it."""
    command = command_of(words)
    own = [command, *getattr(command, "commands", {}).values()]
    return {option for one in own for parameter in one.params for option in parameter.opts}


def test_each_command_has_the_options_that_the_page_names() -> None:
    asked = 0
    for row in ROWS:
        last: list[str] = []
        for code in re.findall(r"`([^`]+)`", row[1]):
            words = code.split()
            if words[0].startswith("fc."):
                assert hasattr(fc, words[0].removeprefix("fc."))
                continue
            last = words if words[0] in COMMANDS else last
            if words[0] in COMMANDS or words[0].startswith("--"):
                named = [word for word in words if word.startswith("--")]
                assert set(named) <= options(last or ["train"]), code
                asked += 1
    assert asked > 60


def test_each_link_leads_to_a_heading() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        path, _, anchor = target.partition("#")
        text = (DOCS / path).read_text("utf-8")
        heads = {
            re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-")
            for head in re.findall(r"^#+ (.+)$", text, re.M)
        }
        assert not anchor or anchor in heads, target
