"""What a reader of a document can type: commands and Python in the order of the page, and what it prints beneath them.

Commands begin with ``flopcast``, or with ``python`` and one of the three scripts; they stand in blocks, fenced or
indented, after a prompt or without one, or within a line between backquotes, there with an argument at least. Python
stands in blocks of that language, or in indented ones that begin with an import. A block that holds neither is what the
command before it prints, unless other programs are called in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final

from flopcast.commands.app import COMMANDS, load

COMMAND: Final = re.compile(r"(?:\$ )?(flopcast|python (?:train|predict|validate)\.py) ")
OTHERS: Final = ("#", "make ", "pip ", ". ", "dask ", "sh ", "ssh-keygen ", "python ")
"""How lines of other programs begin, and comments."""
_WITHIN: Final = re.compile(r"`((?:flopcast|python (?:train|predict|validate)\.py) [^`]+)`")
_NAMES: Final = frozenset(COMMANDS) | {
    "run",
    "cases",
    "hpl",
    "hpcg",
    "hpl-mxp",
    "kernel",
    "record",
    "profile",
    "facts",
    "terms",
    "configs",
    "devices",
}


@dataclass
class Step:
    """Something to type: a command, Python, or ``cat FILE``, whose text beneath is that of the file."""

    code: str
    python: bool = False
    printed: list[str] = field(default_factory=list)


def steps(text: str) -> list[Step]:
    """Return what a document lets its reader type."""
    found: list[Step] = []
    for language, lines in _blocks(text):
        if language == "prose":
            spans = (" ".join(span.split()) for span in _WITHIN.findall("\n".join(lines)))
            found += [Step(span) for span in spans if set(span.split()[1:]) - _NAMES]
        elif language == "python" or (
            not language and lines[0].startswith(("import ", "from ", ">>> "))
        ):
            found.append(Step("\n".join(lines), python=True))
        elif language in ("", "text", "sh", "bash", "shell", "console"):
            _shell(lines, found)
    return found


def help_texts() -> Iterator[tuple[str, str]]:
    """Yield each command, inner ones too, with all that its ``--help`` says in sentences."""
    waiting: list[tuple[str, Any]] = [(f"flopcast {name}", load(name)) for name in COMMANDS]
    for name, command in waiting:
        waiting += [
            (f"{name} {inner}", one) for inner, one in getattr(command, "commands", {}).items()
        ]
        told = (command.help, command.epilog, *(getattr(one, "help", "") for one in command.params))
        yield f"{name} --help", "\n\n".join(filter(None, told))


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the language of each block, "prose" outside of them, and its lines, not indented."""
    lines, at, prose = text.splitlines(), 0, 0
    while at < len(lines):
        if lines[at].startswith("```"):
            end = lines.index("```", at + 1)
            block, after = lines[at + 1 : end], end + 1
        elif lines[at].startswith("    ") and not (at and lines[at - 1].strip()):
            rest = takewhile(lambda line: line.startswith("    ") or not line.strip(), lines[at:])
            block = [line[4:] for line in rest]
            after = at + len(block)
        else:
            at += 1
            continue
        yield "prose", lines[prose:at]
        yield lines[at].strip("`") if lines[at].startswith("```") else "", block
        at = prose = after
    yield "prose", lines[prose:]


def _shell(lines: list[str], found: list[Step]) -> None:
    """Append the commands of a block; what is beneath a prompt, and a block without any, is what they print."""
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()
    prompted = any(line.startswith("$ ") for line in joined)
    if not prompted and not any(COMMAND.match(line) for line in joined):
        if found and not found[-1].python and not joined[0].startswith(OTHERS):
            found[-1].printed += joined
        return
    for line in joined:
        if COMMAND.match(line) or line.startswith("$ cat "):
            found.append(Step(line.removeprefix("$ ")))
        elif prompted and found:
            found[-1].printed.append(line)
