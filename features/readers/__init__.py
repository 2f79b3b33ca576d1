"""From measured files of any supported format to one measurement table."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from ...errors import DataError
from ..ops import OPS
from ..table import (
    MEASURED,
    REFUSED,
    REFUSED_DETAIL,
    TEXT_COLUMNS,
    Measurements,
    as_text,
    clean,
    fill_text,
    judge,
    merge_duplicates,
    select,
)
from . import aiter, miopen, tidy  # noqa: A004, F401  (each registers its reader)
from .base import LINE, Note, Options, RawTable, Reader, detect, formats, readers, register
from .devices import canonical_device
from .files import DataFile, find_files, head

__all__ = ["Note", "Options", "RawTable", "Reader", "formats", "read", "read_rows", "readers", "register"]

_NAMED_FILES = 3  # files named in a note
_ORDER = "_order"  # column: place of a row among the lines of all files


def read(
    paths: Sequence[Path | str],
    *,
    units: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    where: Mapping[str, Sequence[str]] | None = None,
) -> Measurements:
    """Read measured files, in any mix of formats, into one measurement table.

    Parameters
    ----------
    paths : sequence of path
        Files and folders; folders are searched through. The format is detected by content.
    units : mapping of str to str, optional
        Column -> unit ("time" -> "ms") for columns of tidy tables whose name does not say it.
    defaults : mapping of str to str, optional
        Column -> value for what a file does not give ("device" -> "MI300X", "dtype_a" -> "bf16"); what a file gives is
        never overridden.
    where : mapping of str to sequence of str, optional
        Column -> accepted values (see `table.select`); the other rows are left out before repeats are merged.

    Returns
    -------
    Measurements
        Clean rows, repeats merged, format by format and in the order of the files. `source` is the file (relative to
        the folder given) and the 1-based line. Rejected rows carry their reason; notes say what was assumed, skipped or
        merged.

    Raises
    ------
    DataError
        A path does not exist, a file named is of no known format, nothing is readable, no row can be used, a unit is
        missing or ambiguous, `units` or `defaults` name a column that is nowhere, or `where` leaves no row.
    """
    options = Options(dict(units or {}), dict(defaults or {}))
    tables, notes = _tables(paths, options)
    parts = [clean(rows.drop(columns=_ORDER)) for rows in tables]
    return _combined(parts, notes, where or {})


def read_rows(
    paths: Sequence[Path | str],
    *,
    units: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    timed: bool = True,
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Read every row of the files in the order they stand there, whether it can be used or not.

    Parameters
    ----------
    paths, units, defaults
        As for `read`.
    timed : bool, default=True
        Whether rows are measurements; if not, they need neither a duration nor a device.

    Returns
    -------
    rows : DataFrame
        As `table.judge` returns them: nothing merged, nothing left out, reasons in `_refused`.
    notes : tuple of str
        What was assumed or skipped.

    Raises
    ------
    DataError
        As for `read`.
    """
    options = Options(dict(units or {}), dict(defaults or {}), timed)
    tables, notes = _tables(paths, options)
    parts = [judge(rows, required=MEASURED if timed else ()) for rows in tables]
    every = pd.concat(parts, ignore_index=True).sort_values(_ORDER, kind="stable", ignore_index=True)
    rows = fill_text(every.drop(columns=_ORDER))
    if rows[REFUSED].ne("").all():
        names = {"source": "source", REFUSED: "reason", REFUSED_DETAIL: "detail"}
        raise _unusable(rows.rename(columns=names)[list(names.values())])
    return rows, notes.lines()


def _tables(paths: Sequence[Path | str], options: Options) -> tuple[list[pd.DataFrame], _Notes]:
    """Return the raw rows of all files, one table per format, at least one row in each."""
    where = ", ".join(map(str, paths))
    notes = _Notes()
    tables = _read_each(find_files(paths), options, notes)
    if not tables:
        raise DataError(f"nothing readable: supported are {formats()}", source=where)
    filled = [frames for raws in tables.values() if (frames := [raw for raw in raws if len(raw)])]
    if not filled:
        raise DataError(f"no measurements: {'; '.join(notes.lines()) or 'the files are empty'}", source=where)
    return [_prepared(frames, options, notes) for frames in filled], notes


def _read_each(files: Sequence[DataFile], options: Options, notes: _Notes) -> dict[str, list[pd.DataFrame]]:
    """Return the raw rows of every readable file, by format."""
    columns: set[str] = set()
    tables: dict[str, list[pd.DataFrame]] = {}
    before = 0
    for file in files:
        reader = _reader_of(file, notes)
        if reader is None:
            continue
        raw = reader.read(file.path, options)
        columns.update(raw.columns)
        notes.add_all(raw.notes, file.label)
        tables.setdefault(reader.name, []).append(_sourced(raw.rows, file, before))
        before += int(raw.rows[LINE].max()) if len(raw.rows) else 0
    if tables:
        _check_units(options.units, columns)
        _check_defaults(options.defaults, columns)
    return tables


def _reader_of(file: DataFile, notes: _Notes) -> Reader | None:
    """Return the reader of a file; a file of no known format is an error if the user named it, else a note."""
    try:
        reader = detect(file.path, head(file.path))
    except DataError:
        if file.named:
            raise
        reader = None
    if reader is None and file.named:
        raise DataError(f"no supported format: known are {formats()}", source=str(file.path))
    if reader is None:
        notes.skipped.append(file.label)
    return reader


def _sourced(rows: pd.DataFrame, file: DataFile, before: int) -> pd.DataFrame:
    """Replace the line of each row by file:line and, the lines of earlier files being `before`, its place."""
    if not len(rows):
        return rows
    line = rows[LINE]
    return rows.drop(columns=LINE).assign(source=file.label + ":" + line.astype("str"), **{_ORDER: before + line})


def _check_units(units: Mapping[str, str], columns: set[str]) -> None:
    for column, unit in units.items():
        if column not in columns:
            raise DataError(f"--unit {column}={unit}: no tidy table has a column {column!r}")


def _check_defaults(defaults: Mapping[str, str], columns: set[str]) -> None:
    """Refuse a value for a column that nothing knows: most likely misspelled."""
    dimensions = {name for op in OPS.values() for name in (*op.identity, *op.dims)}
    known = {"device", "group", "library", *TEXT_COLUMNS, *dimensions, *columns}
    for column, value in defaults.items():
        if column not in known:
            close = difflib.get_close_matches(column, sorted(known), n=3) or ["device", "dtype_a", "op"]
            raise DataError(f"--set {column}={value}: no column {column!r}; did you mean {' or '.join(close)}?")


def _prepared(frames: Sequence[pd.DataFrame], options: Options, notes: _Notes) -> pd.DataFrame:
    """Return the raw rows of one format, defaults filled in and devices under the catalogue's names."""
    rows = pd.concat(frames, ignore_index=True)
    for column, value in options.defaults.items():
        blank = as_text(rows[column]).eq("") if column in rows else pd.Series(True, index=rows.index)
        if blank.any():
            rows[column] = rows[column].astype(object).where(~blank, value) if column in rows else value
    if "device" in rows:
        words = as_text(rows["device"])
        names = {word: canonical_device(word) for word in words.unique()}
        rows["device"] = words.map({word: name for word, (name, _) in names.items()})
        for word, (_, remark) in names.items():
            if remark:
                notes.add(remark, int(words.eq(word).sum()))
    return rows


def _combined(parts: Sequence[Measurements], notes: _Notes, where: Mapping[str, Sequence[str]]) -> Measurements:
    """Return the formats' tables as one: the rows asked for, repeats merged."""
    rejected = pd.concat([part.rejected for part in parts], ignore_index=True)
    frames = [part.frame for part in parts if len(part.frame)]
    if not frames:
        raise _unusable(rejected)
    every = select(fill_text(pd.concat(frames, ignore_index=True)), where)
    merged = fill_text(merge_duplicates(every))
    if len(merged) < len(every):
        notes.add("repeats of one kernel on one problem merged, the median kept", len(every) - len(merged))
    return Measurements(merged, rejected, notes.lines())


def _unusable(rejected: pd.DataFrame) -> DataError:
    """Return the error for data of which every row is refused."""
    first = rejected.iloc[0]
    reasons = ", ".join(f"{reason}: {count}" for reason, count in rejected["reason"].value_counts().items())
    return DataError(f"no row can be used ({reasons}); first: {first['detail']}", source=str(first["source"]))


class _Notes:
    """Remarks, equal ones of several files counted together."""

    def __init__(self) -> None:
        self.skipped: list[str] = []
        self._rows: dict[str, int] = {}
        self._files: dict[str, list[str]] = {}

    def add(self, text: str, rows: int, file: str = "") -> None:
        self._rows[text] = self._rows.get(text, 0) + rows
        files = self._files.setdefault(text, [])
        if file and file not in files:
            files.append(file)

    def add_all(self, notes: Sequence[Note], file: str) -> None:
        for note in notes:
            self.add(note.text, note.rows, file)

    def lines(self) -> tuple[str, ...]:
        remarks = [
            f"{text} ({_count(rows, 'row')}{_named(self._files[text], ' in ')})" for text, rows in self._rows.items()
        ]
        if self.skipped:
            remarks.append(
                f"{_count(len(self.skipped), 'file')} of no supported format skipped{_named(self.skipped, ': ')}"
            )
        return tuple(remarks)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _named(files: Sequence[str], lead: str) -> str:
    """Return the first few names after `lead`, and how many more; nothing for no files."""
    if not files:
        return ""
    more = len(files) - _NAMED_FILES
    return lead + ", ".join(files[:_NAMED_FILES]) + (f" and {more} more" if more > 0 else "")
