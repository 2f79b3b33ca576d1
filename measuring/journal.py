"""The journal of a measurement: every visit is on disk when it ends, so that a run that was stopped can go on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..output import whole_file

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
            raise DataError("holds an unfinished measurement: resume it, or delete it", source=str(folder))
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
            raise DataError("there is nothing to resume: measure from the beginning", source=where) from None
        except (OSError, ValueError) as error:
            raise DataError(
                f"its {PLAN} cannot be read ({error}): delete the folder, measure anew", source=where
            ) from None
        plain = json.loads(json.dumps(plan))
        if changed := [name for name in plain if stored.get(name) != plain[name]]:
            raise DataError(
                f"was begun with other {' and '.join(changed)}: resume with the same settings, machine and PyTorch, or "
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
