"""The journal of a measurement: every visit is on disk when it ends, so that a run that was stopped can go on."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..operators.operators import op_of
from ..output import whole_file
from ..table.measurements import DTYPE_COLUMNS

# Rows of the measurement table before they are measured: words, whole numbers, and what to say where one is wrong.

WORDS = ("op", "variant", "layout", *DTYPE_COLUMNS)
"""Cells of a row that are words, whatever its operator."""


def word(row: Mapping[str, Any], name: str) -> str:
    """Return a text cell, "" where it is missing."""
    value = row.get(name, "")
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)


def sizes(row: Mapping[str, Any], *names: str, default: int | None = None) -> list[int]:
    """Return dimensions as integers.

    Raises
    ------
    DataError
        One is missing and there is no default, or is not a whole number.
    """
    found = []
    for name in names:
        value = row.get(name, default)
        value = default if value is None or (isinstance(value, float) and math.isnan(value)) else value
        if value is None or isinstance(value, str) or float(value) != int(value):
            raise DataError(f"{word(row, 'op')} needs {name} as a whole number, got {row.get(name, 'nothing')}")
        found.append(int(value))
    return found


def parameters(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells that are no part of the problem: what a user's function is told besides."""
    return {name: value for name, value in row.items() if name not in (*WORDS, *op_of(row["op"]).dims)}


def unknown(row: Mapping[str, Any], name: str, known: str) -> DataError:
    """Return the error for a word that no call of the row's operator has."""
    said = word(row, name) or "none"
    return DataError(f"{word(row, 'op')} with {name} {said} cannot be measured: known here is {known}")


def described(row: Mapping[str, Any]) -> str:
    """Return a row in words, e.g. ``gemm bf16 m=16 n=4096 k=7168``."""
    first = [word(row, name) for name in ("op", "variant", "dtype_a", "direction", "layout")]
    skipped = {"op", "variant", "dtype_a", "dtype_b", "dtype_out", "direction", "layout", "kernel"}
    dims = [f"{name}={_shown(value)}" for name, value in row.items() if name not in skipped and word(row, name)]
    return " ".join([part for part in first if part] + dims)


def _shown(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


PLAN, VISITS, PARTS = "plan.json", "visits.jsonl", "parts.jsonl"
SUFFIX = ".journal"

Entry = dict[str, Any]


def journal_folder(out: Path) -> Path:
    """Return the folder beside the table that is to be written."""
    return out.with_name(out.name + SUFFIX)


class Journal:
    """Visits of one plan, in a folder.

    Parameters
    ----------
    folder : Path
        Made if need be.
    plan : mapping
        What is measured, as JSON types; a journal of another plan is refused.
    resume : bool
        Whether to go on with the journal that is there.

    Attributes
    ----------
    steps : list of list of dict
        What an earlier run has measured, as it was written.
    parts : list of dict
        What earlier runs said of themselves when they ended; one that was killed said nothing.

    Raises
    ------
    DataError
        There is a journal and `resume` is not set, there is none and it is, it is of another plan, or it cannot be
        read.
    """

    def __init__(self, folder: Path, plan: Mapping[str, Any], *, resume: bool = False) -> None:
        self.folder = folder
        self.steps: list[list[Entry]] = []
        self.parts: list[Entry] = []
        if folder.exists() and not resume:
            raise DataError("holds an unfinished measurement: --resume continues it, or delete it", source=str(folder))
        if resume:
            self._check(plan)
            self.steps, self.parts = self._lines(VISITS, _is_step), self._lines(PARTS, _is_part)
        else:
            with whole_file(folder / PLAN) as path:
                path.write_text(json.dumps(plan), encoding="utf-8")

    def add(self, entries: Sequence[Entry]) -> None:
        """Write what one step gave to disk, as one line."""
        with (self.folder / VISITS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(entries) + "\n")

    def end_part(self, part: Entry) -> None:
        """Write what this run says of itself."""
        with (self.folder / PARTS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(part) + "\n")
        self.parts.append(part)

    def remove(self) -> None:
        """Delete the folder, when everything is measured and written."""
        shutil.rmtree(self.folder)

    def _check(self, plan: Mapping[str, Any]) -> None:
        where = str(self.folder)
        try:
            stored = json.loads((self.folder / PLAN).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise DataError("there is nothing to resume: leave out --resume", source=where) from None
        except (OSError, ValueError) as error:
            raise DataError(
                f"its {PLAN} cannot be read ({error}): delete the folder, measure anew", source=where
            ) from None
        plain = json.loads(json.dumps(plan))
        if changed := [name for name in plain if stored.get(name) != plain[name]]:
            raise DataError(
                f"was begun with other {' and '.join(changed)}: resume with the same options, machine and PyTorch, or "
                "delete it",
                source=where,
            )

    def _lines(self, name: str, fits: Callable[[Any], bool]) -> list[Any]:
        """Return what a file holds, line by line, each as it must be.

        The last line may be cut short by whatever stopped the process: what is lost of it is measured again; where its
        end alone is missing, that is added, so that the next step begins a line.
        """
        path = self.folder / name
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        lines, steps = text.splitlines(), []
        for number, line in enumerate(lines, start=1):
            try:
                step = json.loads(line)
            except ValueError:
                if number == len(lines):
                    break
                step = None
            if not fits(step):
                raise DataError("is not a journal: delete the folder", source=f"{path}:{number}")
            steps.append(step)
        if text and not (text.endswith("\n") and len(steps) == len(lines)):
            with whole_file(path) as written:
                written.write_text("".join(f"{line}\n" for line in lines[: len(steps)]), encoding="utf-8")
        return steps


def _is_step(line: Any) -> bool:
    return isinstance(line, list) and all(isinstance(entry, dict) and set(entry) >= {"row"} for entry in line)


def _is_part(line: Any) -> bool:
    return isinstance(line, dict) and isinstance(line.get("seconds"), float | int)
