"""Data larger than memory: source by source, and a dataset of parts to the table that reading it at once would give.

`read_parts` yields the clean rows of each source; `flopcast.ingest` writes them as the parts of a dataset.
`read_dataset` sends the rows to files by a hash of their problem, so that all repeats of a problem are in one file, and
merges file by file: medians are exact. In memory at once are a part, the rows of a file, and the table that results.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import pandas as pd

from ..errors import DataError, NoMeasurementsError, few
from ..operators.operators import RUN
from ..remarks import Remark
from ..staging import temporary_folder
from ..table.conditions import Where
from ..table.contents import KIND
from ..table.measurements import EXAMPLES, fill_text
from ..table.problems import problem_hashes, problem_ids, without_repeats
from ..traces.summary import Overview
from ..workers import Jobs
from .base import FileRead, Options, of_rows, without
from .files import find_files
from .reading import REPEATS_MERGED, REPEATS_STAY, Measurements, read
from .trace_files import Source, TraceFailure, look, sort_files

FOUND: Final = "ingest.json"
"""File of a dataset that says what was found; of others it has the key ``parts``."""
PARTS: Final = "parts"
"""Folder of a dataset with the Parquet files."""
AT_ONCE: Final = 2**26
"""Bytes in memory of the rows that are merged at once, on average."""
_MOST_FILES = 256
_WORST = 100  # rows above a peak that are kept
_ORDER = "_row"


def is_dataset(path: Path) -> bool:
    """Whether a path is a folder with the parts of a dataset."""
    try:
        return PARTS in json.loads((path / FOUND).read_text(encoding="utf-8")) and (path / PARTS).is_dir()
    except (OSError, ValueError, TypeError):
        return False


def read_parts(
    paths: Sequence[Path | str], *, options: Options | None = None, where: Where = None, jobs: Jobs = 1
) -> Iterator[tuple[str, Measurements | TraceFailure]]:
    """Yield label and clean rows of each source among the files, repeats not merged, format by format.

    At most as many are in memory as there are processes. A source that cannot be read, or has no row that can be used,
    is a `TraceFailure`.
    """
    kinds = sort_files(find_files(paths))
    for file, error in kinds.unreadable:
        yield file.label, TraceFailure(error)
    formats = list(dict.fromkeys(source.reader.name for source in kinds.sources))
    sources = sorted(kinds.sources, key=lambda source: formats.index(source.reader.name))
    for source, found in look(sources, partial(_part, options=options or Options(), where=where), jobs):
        yield source.label, found


def _part(source: Source, options: Options, where: Where) -> Measurements:
    """Return the clean rows of a source; no row, where none meets the conditions, but some can be used."""
    files = [*source.files, *source.companions]
    try:
        return read(files, options=options, where=where, part=True)
    except DataError:
        if not where:
            raise
        whole = read(files, options=options, part=True)
        none = {name: getattr(whole, name).iloc[:0] for name in ("frame", "rejected", "above_peak", "examples")}
        return replace(whole, **none, notes=(), rows_before=None)


@dataclass
class Totals:
    """What was read in parts, all but the rows: as in `Measurements`, rejected rows counted by reason."""

    rows: int = 0
    traces: list[Overview] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)
    unreadable: list[str] = field(default_factory=list)
    files: list[FileRead] = field(default_factory=list)
    above_peak: pd.DataFrame = field(default_factory=pd.DataFrame)
    examples: pd.DataFrame = field(default_factory=pd.DataFrame)
    _notes: dict[Remark, tuple[int, dict[str, None]]] = field(default_factory=dict)
    _others: dict[Remark, None] = field(default_factory=dict)

    def add(self, found: Measurements | TraceFailure) -> pd.DataFrame | None:
        """Count a part and return its rows; None where it has none."""
        if isinstance(found, TraceFailure):
            if isinstance(found.error, NoMeasurementsError):
                self._remark(found.error.notes)
            else:
                self.unreadable.append(str(found.error))
            return None
        self.rows += len(found.frame)
        self.traces += found.traces
        self.rejected.update(found.rejected_by_reason)
        self.files += found.files
        self._remark(found.notes)
        above = pd.concat([self.above_peak, found.above_peak], ignore_index=True)
        if len(above):
            self.above_peak = above.sort_values("share", ascending=False, kind="stable", ignore_index=True).head(_WORST)
        quoted = pd.concat([self.examples, found.examples], ignore_index=True)
        self.examples = quoted.groupby("reason", sort=False).head(EXAMPLES) if len(quoted) else quoted
        return found.frame if len(found.frame) else None

    def _remark(self, notes: Sequence[Remark]) -> None:
        for note in notes:
            if "rows" not in note.values:
                self._others[note] = None
                continue
            own = without(note, "rows", "files")
            rows, files = self._notes.get(own, (0, {}))
            more = dict.fromkeys(note.values.get("files", ()))
            self._notes[own] = rows + note.values["rows"], files | more

    def notes(self) -> tuple[Remark, ...]:
        """Return every remark once, with its rows and files."""
        told = self._notes.items()
        return (*(of_rows(one, rows, tuple(files)) for one, (rows, files) in told), *self._others)


def read_dataset(
    paths: Sequence[Path | str],
    *,
    options: Options | None = None,
    where: Where = None,
    jobs: Jobs = 1,
    at_once: int = AT_ONCE,
) -> Measurements:
    """Read datasets, and what else is among the paths, to the table that `read` gives, in bounded memory.

    Parameters
    ----------
    paths : sequence of path
        Folders that `ingest` wrote in parts; other files and folders may be among them.
    options, where, jobs
        As for `read`.
    at_once : int
        Bytes in memory of the rows that are merged at once, on average, were all parts like the first.

    Raises
    ------
    DataError
        As for `read`.
    """
    options, totals = options or Options(), Totals()
    places = [path / PARTS if is_dataset(path) else path for path in map(Path, paths)]
    size = sum(file.path.stat().st_size for file in find_files(places))
    rejected: list[pd.DataFrame] = []
    before: list[pd.Series] = []
    with temporary_folder() as folder:
        spill = _Spill(folder)
        for _, found in read_parts(places, options=options, where=where, jobs=jobs):
            frame = totals.add(found)
            if isinstance(found, Measurements):
                rejected.append(found.rejected)
                spill.see(found.frame)
            if isinstance(found, Measurements) and frame is not None:
                if not spill.rows:
                    growth = frame.memory_usage(deep=True).sum() / max(sum(file.size for file in found.files), 1)
                    spill.files = min(math.ceil(size * growth / at_once), _MOST_FILES)
                spill.add(frame)
                before.append(frame.groupby(KIND).size())
        if not spill.rows:
            if not totals.files:
                raise DataError(f"nothing readable: {few(totals.unreadable) or 'no file of a known format'}")
            return read(find_files(places)[:1], options=options, where=where, part=True)  # which says why
        merged, repeats = spill.merged(options.each)
    notes = [*totals.notes()]
    if repeats:
        notes.append(of_rows(REPEATS_STAY, 1) if options.each else of_rows(REPEATS_MERGED, repeats))
    gone = pd.concat(rejected, ignore_index=True)
    read_as = tuple(totals.traces), tuple(totals.unreadable), tuple(totals.files)
    counts = pd.concat(before).groupby(level=KIND).sum()
    return Measurements(merged, gone, tuple(notes), *read_as, totals.above_peak, totals.examples, counts)


class _Spill:
    """Rows in files by a hash of their problem: the repeats of a problem are in one file."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.files = folder, 1
        self._numeric: dict[str, bool] = {}
        self.rows = self._parts = 0

    def see(self, frame: pd.DataFrame) -> None:
        """Remember which columns there are."""
        for name in frame.columns:
            numeric = pd.api.types.is_numeric_dtype(frame[name])
            self._numeric[name] = self._numeric.get(name, numeric) and numeric

    def add(self, frame: pd.DataFrame) -> None:
        """Write the rows of a part."""
        numbered = frame.assign(**{_ORDER: range(self.rows, self.rows + len(frame))})
        for file, own in numbered.groupby(problem_hashes(frame) % self.files, sort=False):
            own.to_pickle(self._folder / f"{file}-{self._parts:06}")
        self.rows, self._parts = self.rows + len(frame), self._parts + 1

    def merged(self, each: bool) -> tuple[pd.DataFrame, int]:
        """Return the table of all rows, repeats merged or numbered, in the order they came, and how many repeats."""
        tables, repeats = [], 0
        for file in range(self.files):
            parts = [pd.read_pickle(path) for path in sorted(self._folder.glob(f"{file}-*"))]
            if parts:
                table, count = _merged(fill_text(pd.concat(parts, ignore_index=True)), each)
                tables.append(table)
                repeats += count
        whole = pd.concat(tables, ignore_index=True).sort_values(_ORDER, ignore_index=True)
        empty = {name: math.nan if numeric else "" for name, numeric in self._numeric.items() if name not in whole}
        columns = [*self._numeric, *([RUN] if each else [])]
        return fill_text(whole.assign(**empty)[columns]), repeats


def _merged(rows: pd.DataFrame, each: bool) -> tuple[pd.DataFrame, int]:
    """Return the rows of a file without repeats, each with the number of its first."""
    order = rows.pop(_ORDER).to_numpy()
    first = slice(None) if each else ~pd.Series(problem_ids(rows, kernel=True)).duplicated().to_numpy()
    table, repeats = without_repeats(rows, each)
    return table.assign(**{_ORDER: order[first]}), repeats
