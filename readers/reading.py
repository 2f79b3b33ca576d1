"""From measured files of any supported format to one measurement table."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from .. import values
from ..arrays import BoolArray
from ..errors import DataError, NoMeasurementsError, ParameterError, counted, few
from ..operators.kinds.serving_run import SERVING, SPECULATION
from ..operators.operators import OPS, op_of
from ..operators.work import each_word
from ..remarks import Remark, remark
from ..table.conditions import Where, conditions, select
from ..table.contents import KIND
from ..table.irregular import Settled, remarks, without_repeats, without_spikes
from ..table.measurements import (
    COUNTER,
    EXAMPLES,
    LONGEST_TEXT,
    MEASURED,
    PARTLY_MEASURED,
    REFUSED,
    REFUSED_DETAIL,
    TEXT_COLUMNS,
    CleanRows,
    as_text,
    clean,
    count_reasons,
    examples,
    fill_text,
    judge,
)
from ..table.physics import (
    FINDING,
    SLIPPED,
    Held,
    check_keep,
    contradictions,
    hold,
    measured_beside,
    peak_name,
    throughputs_off,
)
from ..table.refusals import row_refused
from ..traces.dispatches import Finding, Trace, findings_on
from ..traces.quality import share_of_time
from ..traces.summary import Annotated, Overview, annotate, measurements, overview
from ..values import Assigned
from ..workers import pool, release_memory
from .base import (
    GRID_NOT_RECORDED,
    MOST_LINES,
    ORDER,
    PARQUET,
    DataFile,
    Excluded,
    FileRead,
    Note,
    Options,
    RawTable,
    Reader,
    TraceReader,
    detect,
    formats,
    is_json,
    of_file,
    of_rows,
    readers,
    unsupported,
    without,
)
from .drafts import with_drafts
from .execution_trace import is_execution_trace, join, read_execution_trace
from .files import (
    campaign_of,
    find_files,
    fingerprint,
    head,
    is_workbook,
    parquet_columns,
    table_header,
)
from .labels import TIME_UNITS, canonical_device, split_unit
from .throughputs import rate_columns
from .tidy import ALIASES, filled, tidy_rows
from .words import vocabulary

# Sources: which files belong together; traces are joined with execution traces, and looked at.

T = TypeVar("T")
_PARALLEL_BYTES = 64 * 2**20  # compressed or not, less is read faster than processes start


@dataclass(frozen=True)
class Source:
    """Files that are read as one: a table, or the files of one trace.

    `companions` are execution traces beside them, in the same folder, that may be of the same run.
    """

    reader: Reader | TraceReader
    files: tuple[DataFile, ...]
    companions: tuple[DataFile, ...] = ()

    @property
    def label(self) -> str:
        """How messages call it."""
        return self.files[0].label

    @property
    def named(self) -> bool:
        """Whether the user named one of the files, rather than a folder that holds them."""
        return any(file.named for file in self.files)


@dataclass(frozen=True)
class Sorted:
    """Files by their use; unreadable ones could not be opened."""

    sources: list[Source]
    skipped: list[DataFile]
    unreadable: list[tuple[DataFile, DataError]]


@dataclass(frozen=True)
class TraceFailure:
    """Why a source cannot be read."""

    error: DataError


def sort_files(files: Sequence[DataFile], renames: Mapping[str, str] | None = None) -> Sorted:
    """Assign files to readers, sources in the order of their first file.

    A table with a column of `renames` is one of the user, whatever the others are called.
    """
    if renames:
        reader_of = {reader.name: reader for reader in readers()}
    else:
        reader_of = {}
    taken: dict[int, tuple[Reader | TraceReader, list[DataFile]]] = {}
    companions: list[DataFile] = []
    skipped: list[DataFile] = []
    unreadable: list[tuple[DataFile, DataError]] = []
    for file in files:
        try:
            beginning = head(file.path)
            reader = detect(file.path, beginning)
            if renames and not renames.keys().isdisjoint(table_header(file.path, beginning)):
                tidy = "tidy CSV"
                if beginning.startswith(PARQUET):
                    tidy = "tidy Parquet"
                elif is_workbook(file.path, beginning):
                    tidy = "tidy xlsx"
                reader = reader_of[tidy]
        except DataError as error:
            unreadable.append((file, error))
            continue
        if reader is not None:
            taken.setdefault(id(reader), (reader, []))[1].append(file)
        else:
            (companions if is_execution_trace(beginning) else skipped).append(file)
    place = {file: number for number, file in enumerate(files)}
    sources = list[Source]()
    for reader, of_reader in taken.values():
        sources += _sources(reader, of_reader, tuple(companions))
    sources.sort(key=lambda source: min(place[file] for file in source.files))
    if companions and not any(isinstance(source.reader, TraceReader) for source in sources):
        skipped += companions
    return Sorted(sources, skipped, unreadable)


def _sources(
    reader: Reader | TraceReader, files: Sequence[DataFile], companions: tuple[DataFile, ...]
) -> Iterator[Source]:
    if isinstance(reader, Reader):
        yield from (Source(reader, (file,)) for file in files)
        return
    for group in reader.gather(files):
        left = dict.fromkeys(group)
        for table_reader, file in reader.tables(group):
            del left[file]
            yield Source(table_reader, (file,))
        if left:
            folders = {file.path.parent for file in left}
            beside = tuple(file for file in companions if file.path.parent in folders)
            yield Source(reader, tuple(left), beside)


def read_trace(source: Source, options: Options) -> Annotated:
    """Return the trace of a source, devices under the catalogue's names, joined with its execution trace, annotated.

    Raises DataError where a file of it cannot be read.
    """
    assert isinstance(source.reader, TraceReader)
    trace = source.reader.trace(source.files, options)
    release_memory()
    default = options.defaults.get("device", "")
    answered = ()
    if default:
        answered = _ASKING
    words = as_text(trace.dispatches["device"])
    names = {word: canonical_device(word or default) for word in words.unique()}
    devices = each_word(words, lambda word: names[word][0])
    notes = [note for note in trace.notes if note.code not in answered]
    notes += [unknown for _, unknown in names.values() if unknown]
    findings = tuple(finding for finding in trace.findings if finding.code not in answered)
    table = trace.dispatches.assign(device=pd.Categorical(devices))
    trace = replace(trace, dispatches=table, findings=findings, notes=tuple(notes))
    return annotate(_joined(_without_long_names(trace), source.companions, options))


def _without_long_names(trace: Trace) -> Trace:
    """Return the trace without activities with absurdly long names, which are slow to match against the patterns.

    They are a separate finding. Raises DataError where nothing else is left.
    """
    table = trace.dispatches
    rows = np.zeros(len(table), dtype=bool)
    letters = 0
    for column in ("name", "op_name"):
        names = table[column].astype("category")
        lengths = names.cat.categories.astype("str").str.len()
        long = lengths > LONGEST_TEXT
        if long.any():
            rows |= names.isin(names.cat.categories[long]).to_numpy()
            letters = max(letters, int(lengths.max()))
    if not rows.any():
        return trace
    first = str(table["source"].iloc[int(rows.argmax())])
    share = share_of_time(table, rows)
    if rows.all():
        raise DataError(f"a name of {letters} letters: not as a profiler writes it", source=first)
    text = f"activities with a name as no profiler writes it (up to {letters:,} letters): left out"
    count = int(rows.sum())
    findings = findings_on(count, "long-name", text, "error", first, share, letters=letters)
    kept = table[~rows].reset_index(drop=True).astype({"name": "str", "op_name": "str"})
    return replace(trace, dispatches=kept, findings=(*trace.findings, *findings))


def _joined(trace: Trace, companions: Sequence[DataFile], options: Options) -> Trace:
    """Return the trace with the arguments that an execution trace of the same run has.

    Of several execution traces (one per rank) those of other processes are expected not to fit;
    that is worth a word only where none does.
    """
    refusals: list[Finding] = []
    for file in companions:
        try:
            other = read_execution_trace(file.path, max_bytes=options.trace_bytes)
        except DataError as error:
            problem = str(error)
            code = "unreadable-execution-trace"
            refusals += findings_on(1, code, problem, "error", file.label, problem=problem)
            continue
        joined, report = join(trace, other)
        if report.joined:
            return joined
        if report.finding is not None:
            refusals.append(report.finding)
    return replace(trace, findings=(*trace.findings, *refusals[:1]))


_ASKING = ("device-not-recorded", "device-ambiguous", "unresolved-device")
"""Codes of notes and findings that ask for the device: done, once it is stated."""


def look(
    sources: Sequence[Source], task: Callable[[Source], T]
) -> Iterator[tuple[Source, T | TraceFailure]]:
    """Yield the result of a task for each source, in order; in separate processes where that pays.

    Its `DataError` becomes a `TraceFailure`, as does a lack of memory.
    """
    files = chain.from_iterable(source.files for source in sources)
    size = sum(file.path.stat().st_size for file in files)
    small = len(sources) < 2 or size < _PARALLEL_BYTES
    with pool(ordered=True, small=small) as each:
        yield from zip(sources, each.map(_attempt, sources, task), strict=True)


def _attempt(source: Source, task: Callable[[Source], T]) -> T | TraceFailure:
    try:
        return task(source)
    except DataError as error:
        return TraceFailure(error)
    except MemoryError:
        problem = "cannot be read: needs more memory than there is"
    except RecursionError:
        problem = "cannot be read: is nested too deeply"
    return TraceFailure(DataError(problem, source=str(source.files[0].path)))


# The table.


@dataclass(frozen=True)
class Measurements:
    """The result of reading: the usable rows, the rejected rows, and remarks.

    Attributes
    ----------
    frame : DataFrame
        Usable rows, columns as in `table.measurements`.
    rejected : DataFrame
        Columns `source` (file:line), `reason`, `detail`: one row for each row kept out.
    notes : tuple of Remark
        Assumptions made, files skipped, repeats merged. The values `rows` and `files` (labels) say
        what each concerns.
    traces : tuple of Overview
        What each profiler's trace among the files holds.
    unreadable : tuple of str
        Files left out because they cannot be read, and why.
    files : tuple of FileRead
        The files that were read, with the hash of each.
    above_peak : DataFrame
        Rows above a peak of their device, kept and refused, the worst first: `source`, `device`,
        `op`, `dtype_a`, `duration_us`, `share` of the `peak` (the key of a figure of the GPU),
        `kept`.
    examples : DataFrame
        The first rejected rows of each reason, with their `values`.
    irregular : DataFrame
        Spikes, and problems whose repeats disagree, all of which stay (`table.irregular`):
        `source`, `row` (the source under which it stands in the table), `device`, `op`,
        `duration_us`, `factor`, `beside` what.
    rows_before : Series or None
        Rows by operator and number format before repeats were merged.
    """

    frame: pd.DataFrame
    rejected: pd.DataFrame
    notes: tuple[Remark, ...] = ()
    traces: tuple[Overview, ...] = ()
    unreadable: tuple[str, ...] = ()
    files: tuple[FileRead, ...] = ()
    above_peak: pd.DataFrame = field(default_factory=pd.DataFrame)
    examples: pd.DataFrame = field(default_factory=pd.DataFrame)
    rows_before: pd.Series | None = None
    irregular: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def rejected_by_reason(self) -> dict[str, int]:
        """Number of rows kept out for each reason, most frequent first."""
        return count_reasons(self.rejected)

    @property
    def rejected_at(self) -> dict[str, str]:
        """Where the first row kept out for each reason was read, and what it lacks: ``own.csv:17, m``."""
        first = self.rejected.drop_duplicates("reason").astype(str)
        lacks = ", " + first["detail"].where(first["reason"] == "missing-dimension", "")
        return dict(
            zip(first["reason"], first["source"] + lacks.where(lacks != ", ", ""), strict=True)
        )


class TracesAloneError(DataError):
    """Traces without a usable row; `measurements` has their kernels and times, and no row."""

    def __init__(self, why: DataError, measured: Measurements) -> None:
        super().__init__(str(why))
        self.source = why.source
        self.measurements = measured


class Account:
    """The findings on all files; equal remarks on several of them are counted together.

    Labels of files of unsupported formats, why files could not be read (file first), what each trace
    holds; of each file by its place its label, and the column and unit of its times where the user
    may state another.
    """

    def __init__(self) -> None:
        self.skipped: list[str] = []
        self.unreadable: list[str] = []
        self.traces: list[Overview] = []
        self.files: list[FileRead] = []
        self.excluded: list[Excluded] = []
        self.columns: set[str] = set()
        self.labels: dict[int, str] = {}
        self.times: dict[int, tuple[str, str]] = {}
        self._rows: dict[Remark, dict[str, int]] = {}

    def add(
        self,
        what: Remark,
        rows: int,
        file: str = "",
    ) -> None:
        """Remark on some rows (of a file)."""
        of_files = self._rows.setdefault(what, {})
        of_files[file] = of_files.get(file, 0) + rows

    def add_of(
        self,
        place: int,
        what: Remark,
        rows: int,
    ) -> None:
        """Remark on some rows of the file at this place, which the remark names."""
        self.add(of_file(self.labels[int(place)], what), rows)

    def exclude(self, file: str, condition: str) -> None:
        """Remark that a file holds no row that meets a condition."""
        text = f"files that hold no row of {condition} are left out"
        self.add(remark("files-excluded", text, where=condition), 0, file)

    @property
    def read_as(self) -> tuple[tuple[Overview, ...], tuple[str, ...], tuple[FileRead, ...]]:
        """The traces, the files left out and those read, as `Measurements` has them."""
        return tuple(self.traces), tuple(self.unreadable), tuple(self.files)

    def take(
        self,
        table: RawTable,
        label: str,
        place: int,
    ) -> None:
        """Record the facts of a file other than its rows."""
        self.labels[place] = label
        self.columns.update(table.columns)
        if table.times:
            self.times[place] = table.times
        for note in table.notes:
            self.add(note.remark, note.rows, label)

    def leave_out(self, files: Collection[str], devices: Collection[str]) -> None:
        """Drop the remarks on these files or devices alone: their rows were deselected."""
        self.traces = [trace for trace in self.traces if trace.label not in files]
        for what, rows in [*self._rows.items()]:
            self._rows[what] = {file: n for file, n in rows.items() if file not in files}
            if not self._rows[what] or what.values.get("device") in devices:
                del self._rows[what]

    def notes(self) -> tuple[Remark, ...]:
        """Return every remark with its rows and files."""
        remarks = []
        for what, of_files in self._rows.items():
            remarks.append(of_rows(what, sum(of_files.values()), tuple(filter(None, of_files))))
        if self.skipped:
            count = counted(len(self.skipped), "file")
            text = f"{count} of no supported format skipped: {few(self.skipped, _NAMED)}"
            remarks.append(remark("files-skipped", text, files=tuple(self.skipped)))
        return tuple(remarks)


REPEATS_STAY = remark(
    "repeats-stay-rows",
    "repeats stay rows of their own; shuffled folds then predict another run of a known problem",
)
REPEATS_MERGED = remark(
    "repeats-merged", "repeats of one kernel on one problem were merged, the median kept"
)
_QUOTED = {"source": "source", REFUSED: "reason", REFUSED_DETAIL: "detail"}
"""Columns of a refused row -> their names in `Measurements.rejected`."""
_PLACE = "_place"  # of a row among all
TABLE = "the table"  # what messages call a table in memory
_LISTED = 5  # files that an error names
_COLUMNS = 30  # of a Parquet file that an error names
_NAMED = 3  # rows or files named in a remark
_WRONG = {
    "above-board-power": "powers over 150 % of the board power (unless impossible rows are kept)",
    "impossible-power": "powers that are zero, negative or infinite",
    "impossible-energy": "energies that are zero, negative or infinite",
}


def read(
    paths: Sequence[Path | str | DataFile | pd.DataFrame],
    *,
    units: Assigned | None = None,
    defaults: Assigned | None = None,
    where: Where = None,
    options: Options | None = None,
    lenient: bool = False,
    is_part: bool = False,
) -> Measurements:
    """Read measured files, in any mix of formats, into one measurement table.

    Parameters
    ----------
    paths : sequence of path or DataFrame
        Files and folders; folders are searched through. The format is detected by content. A
        DataFrame has the columns of a tidy table; where it has no column ``source``, its rows are
        called ``row 1``, ``row 2``, ...
    units : mapping of str to str, optional
        Column -> unit ("time" -> "ms") for columns of tidy tables whose name does not say it.
    defaults : mapping of str to str, optional
        Column -> value for what a file does not give ("device" -> "MI300X", "dtype_a" -> "bf16");
        what a file gives is never overridden.
    where : mapping, or sequence of str, optional
        Conditions on columns (`table.conditions`); other rows are left out before repeats are
        merged.
    options : Options, optional
        In place of `units` and `defaults`, where there is more to state.
    lenient : bool, default=False
        Whether a file that the user named and that cannot be read is left out (see
        `Measurements.unreadable`), as one that a folder held always is, and not an error.
    is_part : bool, default=False
        Whether this is a part of the data (`parts`): repeats are not merged, and units and defaults
        may be meant for columns of other parts.

    Returns
    -------
    Measurements
        Clean rows, repeats merged, format by format and in the order of the files. `source` is the
        file (relative to the folder given) and the 1-based line. Rejected rows carry their reason;
        notes say what was assumed, skipped or merged.

    Raises
    ------
    DataError
        A path does not exist, a named file has an unsupported format, nothing is readable, no row can
        be used, a unit is missing or ambiguous, `units` or `defaults` name a column that is
        nowhere, or `where` leaves no row.
    """
    if options is None:
        units = values.assigned("unit", units)
        defaults = values.assigned("default", defaults)
        options = Options(units, defaults)
    check_keep(options.keep)
    options = replace(options, where=conditions(where))
    tables, account = _tables(paths, options, lenient, is_part)
    required = PARTLY_MEASURED
    if options.timed:
        required = MEASURED
    cleaned = [clean(rows, required=required) for rows in tables]
    return _combined(cleaned, account, where, options, is_part)


def read_rows(
    paths: Sequence[Path | str | pd.DataFrame],
    *,
    units: Assigned | None = None,
    defaults: Assigned | None = None,
    renames: Assigned | None = None,
    timed: bool = True,
    keep: Collection[str] = (),
    where: Where = None,
) -> tuple[pd.DataFrame, tuple[Remark, ...]]:
    """Read every row of the files in file order, usable or not, and the assumptions.

    Parameters and errors are those of `read`; where rows are not `timed`, they need neither a
    duration nor a device. They are as `table.measurements.judge` returns them: nothing merged,
    nothing left out but by `where`, reasons in `_refused`. The index is the place of each among
    all.
    """
    check_keep(keep)
    options = Options(
        values.assigned("unit", units),
        values.assigned("default", defaults),
        timed,
        renames=values.assigned("rename", renames),
    )
    tables, account = _tables(paths, options)
    parts = [judge(rows, required=MEASURED if timed else ()) for rows in tables]
    whole = fill_text(
        pd.concat(parts, ignore_index=True).sort_values(ORDER, kind="stable", ignore_index=True)
    )
    every = select(whole.reset_index(names=_PLACE), where)
    _leave_out(whole, every, where, account)
    if timed:
        usable = every[REFUSED].eq("").to_numpy()
        refuse(every, usable, _checked(every[usable].reset_index(drop=True), account, keep))
    rows = every.drop(columns=ORDER).set_index(_PLACE).rename_axis(None)
    if rows[REFUSED].ne("").all():
        raise _unusable(rows[[*_QUOTED]].rename(columns=_QUOTED), account)
    return rows, account.notes()


def refuse(rows: pd.DataFrame, usable: BoolArray, held: Held) -> None:
    """Refuse, in place, those of the usable rows that the peaks of their devices exclude."""
    if (held.reason == "").all():
        return
    for column, why in ((REFUSED, held.reason), (REFUSED_DETAIL, held.detail)):
        rows.loc[usable, column] = np.where(held.reason == "", rows.loc[usable, column], why)


def read_traces(
    paths: Sequence[Path | str], *, options: Options | None = None
) -> Iterator[tuple[str, Annotated | TraceFailure]]:
    """Yield label and content of each trace among the files, at most as many in memory as there are processes.

    Tables among the paths are passed over; the `workers` of the block read. The label is
    the trace's first file as messages call it; a trace that cannot be read is a `TraceFailure`.
    """
    ordered = sort_files(find_files(paths))
    for file, error in ordered.unreadable:
        yield file.label, TraceFailure(error)
    traces = [source for source in ordered.sources if not isinstance(source.reader, Reader)]
    for source, trace in look(traces, partial(read_trace, options=options or Options())):
        yield source.label, trace


def traces_of(
    paths: Sequence[Path | str], options: Options | None = None
) -> Iterator[tuple[str, Annotated]]:
    """Yield what `read_traces` does, in this process; the error of a trace that cannot be read is raised."""
    for label, trace in read_traces(paths, options=options):
        if isinstance(trace, TraceFailure):
            raise trace.error
        yield label, trace


_OURS = {"device", "group", "library", "campaign", SPECULATION, *TEXT_COLUMNS}
_OURS |= {name for op in OPS.values() for name in (*op.identity, *op.dims, *op.metrics)}


_BY_ALIAS = dict(vocabulary("columns_of_serving"))
_BY_ALIAS |= {alias: name for name, aliases in ALIASES.items() for alias in aliases}


def canonical_defaults(defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the defaults by our column names: ``dtype`` is ``dtype_a``, as it is in a file.

    Raises ParameterError: one column is stated twice.
    """
    stated: dict[str, str] = {}
    for name, value in defaults.items():
        ours = name
        if name not in _OURS:
            ours = _BY_ALIAS.get(name.strip().lower(), name)
        if ours in stated:
            raise ParameterError("default", f"{name}={value}: {ours} is stated twice")
        stated[ours] = value
    return stated


def _meant(name: str, names: Collection[str]) -> str:
    close = difflib.get_close_matches(name, sorted(names), n=3, cutoff=0.5)
    return f"did you mean {' or '.join(close or ['device', 'dtype_a', 'op'])}?"


def check_renames(
    paths: Sequence[Path | str | DataFile],
    renames: Mapping[str, str],
    frames: Sequence[pd.DataFrame] = (),
    columns_used: Collection[str] = frozenset(
        {*_OURS, *ALIASES, *chain(*ALIASES.values()), "duration_us"}
    ),
) -> None:
    """Refuse a name that no table has, or a target that is no column; a ParameterError names the nearest."""
    if not renames:
        return
    columns = [str(heading) for heading in chain.from_iterable(frames)]
    for file in find_files(paths):
        with suppress(DataError):  # said where it is read
            beginning = head(file.path)
            if not is_json(beginning):
                columns += table_header(file.path, beginning)
    for name, ours in renames.items():
        measured = split_unit(ours)[1] is not None or rate_columns([ours])
        problem = ""
        if not columns:
            problem = "the data hold no table whose columns could be renamed"
        elif name not in columns:
            close = difflib.get_close_matches(name, columns, n=1, cutoff=0.5)
            meant = ""
            if close:
                meant = f" (did you mean {close[0]}?)"
            listed = few(dict.fromkeys(filter(None, columns)), _COLUMNS)
            problem = f"no table has a column {name!r}{meant}: the columns are {listed}"
        elif ours not in columns_used and not measured and not ours.startswith(COUNTER):
            problem = f"no column here is called {ours!r}; {_meant(ours, columns_used)}"
        if problem:
            raise ParameterError("rename", f"{name}={ours}: {problem}")


def _tables(
    data: Sequence[Path | str | DataFile | pd.DataFrame],
    options: Options,
    lenient: bool = False,
    is_part: bool = False,
) -> tuple[list[pd.DataFrame], Account]:
    """Return the raw rows of all files and tables, one table per format, at least one row in each."""
    frames = [item for item in data if isinstance(item, pd.DataFrame)]
    paths = [item for item in data if not isinstance(item, pd.DataFrame)]
    where = ", ".join(map(str, paths)) or TABLE
    account = Account()
    options = replace(options, defaults=canonical_defaults(options.defaults))
    if not is_part:
        check_renames(paths, options.renames, frames)
    files = find_files(paths)
    tables = _read_each(files, frames, options, account, lenient)
    if tables and not is_part:
        files_read = {Path(label).name for label in account.labels.values()}
        for column, unit in options.units.items():
            if column not in account.columns | files_read:
                problem = f"{column}={unit}: no tidy table has a column {column!r}"
                raise ParameterError("unit", problem)
        # A value for a column that nothing knows is refused: most likely it is misspelled.
        possible = {*_OURS, *account.columns}
        for column, value in options.defaults.items():
            if column not in possible:
                problem = f"{column}={value}: no column {column!r}; {_meant(column, possible)}"
                raise ParameterError("default", problem)
    filled = list[list[pd.DataFrame | pa.Table]]()
    for raws in tables.values():
        with_rows = [raw for raw in raws if len(raw)]
        if with_rows:
            filled.append(with_rows)
    if not filled and account.excluded:
        raise DataError(_none_of(account.excluded), source=where)
    if not tables:
        if len(account.unreadable) == len(paths) == 1:
            raise DataError(account.unreadable[0])
        if not files:
            raise DataError("holds no file", source=where)
        reasons = "; ".join(account.unreadable[:_LISTED]) or formats()
        raise DataError(f"nothing readable: {reasons}", source=where)
    if not filled:
        findings = chain.from_iterable(trace.findings for trace in account.traces)
        reasons = [*(finding.remark for finding in findings), *account.notes()]
        reasons = [reason for reason in reasons if reason.code not in _ASKING]
        raise NoMeasurementsError(reasons, source=where)
    return [prepared(raws, options, account) for raws in filled], account


def _none_of(excluded: Sequence[Excluded]) -> str:
    """Say which condition excludes the files, and which values these have instead."""
    last = max(excluded, key=lambda file: file.passed)
    values_held: Counter[str] = Counter()
    for file in excluded:
        if (file.condition, file.passed) == (last.condition, last.passed):
            values_held.update(file.held)
    words = few([word for word, _ in values_held.most_common()], _COLUMNS)
    after = ":"
    if last.passed:
        after = " after the other conditions: there"
    return f"no row has {last.condition}{after} {last.column} is {words}"


def _read_each(
    files: Sequence[DataFile],
    frames: Sequence[pd.DataFrame],
    options: Options,
    account: Account,
    lenient: bool,
) -> dict[str, list[pd.DataFrame | pa.Table]]:
    """Return the raw rows of every readable source, by format; those of tables in memory last."""
    tables: dict[str, list[pd.DataFrame | pa.Table]] = {}
    kinds = sort_files(files, options.renames)
    named = [file for file in kinds.skipped if file.named]
    unreadable = [*kinds.unreadable]
    for file in named:
        is_recognised = not lenient or file is named[-1]
        unreadable.append((file, _unknown(file, is_recognised=is_recognised)))
    for file, error in unreadable:
        if file.named and not lenient:
            raise error
        account.unreadable.append(str(error))
    account.skipped += [file.label for file in kinds.skipped if not file.named]
    sources = []
    for source in kinds.sources:
        out = None
        if isinstance(source.reader, Reader):
            out = source.reader.excluded(source.files[0].path, options)
        if out:
            account.excluded.append(out)
            account.exclude(source.label, out.condition)
        else:
            sources.append(source)
    for place, (source, raw) in enumerate(look(sources, partial(_rows_of, options=options))):
        if isinstance(raw, TraceFailure):
            if source.named and not lenient:
                raise raw.error
            account.unreadable.append(str(raw.error))
            continue
        table, trace, read = raw
        account.files += read
        if trace is not None:
            account.traces.append(trace)
        account.take(table, source.label, place)
        tables.setdefault(source.reader.name, []).append(table.sourced(source.label, place))
    for place, frame in enumerate(frames, start=len(sources)):
        levels = [name for name in frame.index.names if name is not None and name not in frame]
        if levels:
            frame = frame.reset_index(levels)
        table = tidy_rows(frame.reset_index(drop=True), options, source=TABLE)
        account.take(table, TABLE, place)
        rows = table.rows
        if "source" not in rows:
            rows = rows.assign(source=[f"row {number}" for number in range(1, len(frame) + 1)])
        tables.setdefault(TABLE, []).append(replace(table, rows=rows).sourced(TABLE, place))
    return tables


def _unknown(file: DataFile, *, is_recognised: bool) -> DataError:
    """Return the error for a file that no reader recognises; of Parquet, with its columns and the missing ones."""
    beginning = head(file.path)
    problem = vocabulary("reports").get(file.path.suffix.lower())
    if problem is None and is_execution_trace(beginning):
        problem = (
            "is an execution trace, which has no times of a GPU: give it with the profiler's "
            "trace of the same run"
        )
    if problem is None and beginning.startswith(PARQUET):
        try:
            problem = _of_parquet(parquet_columns(file.path))
        except DataError as error:
            return error
    if problem is None:
        problem = unsupported(beginning, is_recognised=is_recognised)
    return DataError(problem, source=str(file.path))


def _of_parquet(names: Sequence[str]) -> str:
    """Say which columns a file has, and which of a measurement it lacks."""
    has = "is Parquet without columns"
    if names:
        has = f"is Parquet with the columns {few(names, _COLUMNS)}"
    plain = {name.lower() for name in names}
    lacking = [name for name in ("op", "device") if plain.isdisjoint((name, *ALIASES[name]))]
    if not any(split_unit(name)[1] in TIME_UNITS for name in names):
        lacking.insert(0, "a duration with its unit (latency_ms)")
    return f"{has}: it lacks {', '.join(lacking) or 'the dimensions of its operator'}"


def _rows_of(source: Source, options: Options) -> tuple[RawTable, Overview | None, list[FileRead]]:
    """Return the raw rows of one source: of a table as they are, of a trace one for each operator, shape and kernel."""
    if isinstance(source.reader, Reader):
        table = source.reader.read(source.files[0].path, options)
        return table, None, [*map(fingerprint, source.files)]
    trace = read_trace(source, options)
    # `prepared` remarks on the devices of rows
    of_devices = {canonical_device(name)[1] for name in trace.dispatches["device"].unique()}
    remarks = []
    for note in trace.notes:
        if note not in of_devices:
            remarks.append(Note(without(note, "file"), len(trace.dispatches)))
    rows = measurements(trace, campaign_of(source.files[0].path), each=options.each)
    return RawTable(rows, remarks), overview(trace, source.label), [*map(fingerprint, source.files)]


def prepared(
    tables: Sequence[pd.DataFrame | pa.Table], options: Options, account: Account
) -> pd.DataFrame:
    """Return the raw rows of one format, defaults filled in and devices under the catalogue's names."""
    rows = _together(tables)
    for column, value in options.defaults.items():
        before = filled(rows, column, "")
        if before.eq("").any():
            rows[column] = filled(rows, column, value)
        elif not as_text(rows[column]).isin([value, canonical_device(value)[0]]).any():
            text = f"to set {column}={value} changes nothing here: the files say it themselves"
            unused = remark("default-unused", text, column=column, value=value)
            account.add(unused, len(rows))
    if "op" in rows and as_text(rows["op"]).eq(SERVING).any():
        rows = with_drafts(rows)
    if "device" in rows:
        words = as_text(rows["device"])
        names = {word: canonical_device(word) for word in words.unique()}
        rows["device"] = each_word(words, lambda word: names[word][0])
        for word, (_, unknown) in names.items():
            if unknown:
                account.add(unknown, int(words.eq(word).sum()))
    return rows


def _together(tables: Sequence[pd.DataFrame | pa.Table]) -> pd.DataFrame:
    if not any(isinstance(table, pd.DataFrame) for table in tables):
        with suppress(pa.ArrowInvalid):  # an integer beyond 2**53 beside a table with fractions
            return pa.concat_tables(tables, promote_options="permissive").to_pandas()
    frames = []
    for table in tables:
        if not isinstance(table, pd.DataFrame):
            table = table.to_pandas()
        frames.append(table)
    return pd.concat(frames, ignore_index=True)


def _combined(
    cleaned: Sequence[CleanRows],
    account: Account,
    where: Where,
    options: Options,
    is_part: bool,
) -> Measurements:
    """Return the formats' tables as one: the selected rows, with repeats merged or numbered."""
    rejected = pd.concat([rows.rejected for rows in cleaned], ignore_index=True)
    quoted = [rows.examples for rows in cleaned]
    frames = [rows.frame for rows in cleaned if len(rows.frame)]
    if not frames:
        unusable = _unusable(rejected, account)
        if account.traces and rejected["reason"].eq("launch-not-recorded").any():
            raise TracesAloneError(unusable, _without_rows(cleaned, rejected, account))
        raise unusable
    whole = frames[0]
    if len(frames) > 1:
        whole = fill_text(pd.concat(frames, ignore_index=True))
    every = select(whole, where)
    files = _leave_out(whole, every, where, account)
    if files:
        rejected = rejected[~rejected["source"].str.replace(r":[^:]*$", "", regex=True).isin(files)]
        every = _with_columns_of(every, frames)
    held = _checked(every, account, options.keep)
    above = above_peaks(every, held)
    refused = held.reason != ""
    gone = [rejected]
    if refused.any():
        why = {REFUSED: held.reason[refused], REFUSED_DETAIL: held.detail[refused]}
        reasons = pd.DataFrame(why, every.index[refused])
        # insert warns of many columns
        quote(pd.concat([every[refused], reasons], axis=1), gone, quoted)
        every = every[~refused]
        if every.empty:
            _refuse_unit(held, account)
            raise _unusable(pd.concat(gone, ignore_index=True), account)
    every = every.drop(columns=ORDER).reset_index(drop=True)
    merged = every
    odd = pd.DataFrame()
    counts = every.groupby(KIND).size()
    if not is_part:
        repeats = without_repeats(every, options.each, options.keep)
        merged, odd, counts = without_odd(repeats, options, account, counts, gone, quoted)
    rejected = pd.concat(gone, ignore_index=True)
    if merged.empty:
        raise _unusable(rejected, account)
    first = pd.concat(quoted, ignore_index=True)
    if len(first):
        first = first_of_each(first[first["source"].isin(rejected["source"])])
    return Measurements(
        merged,
        rejected,
        account.notes(),
        *account.read_as,
        above,
        first,
        counts,
        odd,
    )


def without_odd(
    repeats: Settled,
    options: Options,
    account: Account,
    counts: pd.Series,
    gone: list[pd.DataFrame],
    quoted: list[pd.DataFrame],
) -> tuple[pd.DataFrame, pd.DataFrame, pd.Series]:
    """Return merged repeats without spikes, what is irregular among them, and the counts less the refused.

    Refused rows are added to those that are ``gone``, and to the ``quoted``.
    """
    spikes = without_spikes(repeats.frame, options.keep)
    odd = irregular(repeats, spikes, options.each, account)
    for settled in (repeats, spikes):
        if len(settled.refused):
            quote(settled.refused, gone, quoted)
            counts = counts.sub(settled.refused.groupby(KIND).size(), fill_value=0)
    return spikes.frame, odd, counts


def first_of_each(quoted: pd.DataFrame) -> pd.DataFrame:
    """Return the first examples of each reason."""
    return quoted.groupby("reason", sort=False).head(EXAMPLES) if len(quoted) else quoted


def _without_rows(
    cleaned: Sequence[CleanRows], rejected: pd.DataFrame, account: Account
) -> Measurements:
    """Return the measurements if every row was refused."""
    quoted = pd.concat([rows.examples for rows in cleaned], ignore_index=True)
    return Measurements(
        cleaned[0].frame,
        rejected,
        account.notes(),
        *account.read_as,
        examples=quoted,
    )


def _with_columns_of(rows: pd.DataFrame, frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return rows without the columns of data frames that have no row left."""
    files = _places(rows)
    names = set(chain.from_iterable(frame for frame in frames if files & _places(frame)))
    return rows[[name for name in rows if name in names]]


def _places(rows: pd.DataFrame) -> set[int]:
    """Return the places of the files that rows are of."""
    return set((rows[ORDER] // MOST_LINES).unique())


def _leave_out(
    whole: pd.DataFrame, every: pd.DataFrame, where: Where, account: Account
) -> list[str]:
    """Drop the remarks on files and devices whose rows were all deselected; one remark names these files."""
    if len(every) == len(whole):
        return []
    files = [account.labels[place] for place in sorted(_places(whole) - _places(every))]
    account.leave_out(files, {*whole["device"].unique()} - {*every["device"].unique()})
    for file in files:
        account.exclude(file, ", ".join(map(str, conditions(where))))
    return files


def irregular(
    repeats: Settled,
    spikes: Settled,
    each: bool,
    account: Account,
) -> pd.DataFrame:
    """Remark on repeats and on outliers; return the outliers, the largest deviation first."""
    if repeats.repeats:
        if each:
            account.add(REPEATS_STAY, 1)
        else:
            account.add(REPEATS_MERGED, repeats.repeats)
    for what, rows in remarks(spikes.odd, repeats.odd):
        account.add(what, rows)
    odd = spikes.odd
    if len(repeats.odd):
        odd = pd.concat([odd, repeats.odd])
    far = -np.abs(np.log(odd["factor"].to_numpy(dtype=float)))
    return odd.iloc[np.lexsort((odd["source"], far))].reset_index(drop=True)


def quote(refused: pd.DataFrame, gone: list[pd.DataFrame], quoted: list[pd.DataFrame]) -> None:
    """Add refused rows as in `Measurements.rejected`, and the first of each reason with their values."""
    rows = refused.reset_index(drop=True)
    reasons = rows[[*_QUOTED]].rename(columns=_QUOTED).astype("str")
    dims = chain.from_iterable(op_of(word).identity for word in rows["op"].unique())
    shown = [name for name in dict.fromkeys(dims) if name in rows]
    gone.append(reasons)
    quoted.append(examples(reasons, rows[[*MEASURED, *shown]]))


def _checked(rows: pd.DataFrame, account: Account, keep: Collection[str]) -> Held:
    """Check rows against the peaks of their devices, and remark on those that are impossible or odd.

    A power or an energy that cannot be true is blanked in ``rows``.
    """
    _blank_impossible(rows, account, keep)
    files = (rows[ORDER] // MOST_LINES).to_numpy()
    _remark_contradictions(rows, files, account)
    _remark_throughputs(rows, files, account)
    held = hold(rows, files, keep)
    _remark_units(rows, files, held, account)
    remark_above(above_peaks(rows, held), account)
    return held


def _blank_impossible(rows: pd.DataFrame, account: Account, keep: Collection[str]) -> None:
    for column, code, wrong in measured_beside(rows, keep):
        first = rows[wrong].iloc[0]
        value = float(first[column])
        source = str(first["source"])
        unit = "W"
        if column == "energy_j":
            unit = "J"
        text = f"{_WRONG[code]} are left out: {value:g} {unit} first ({source})"
        account.add(remark(code, text, value=value, source=source), int(wrong.sum()))
        rows[column] = pd.to_numeric(rows[column], errors="coerce").mask(wrong)


def _remark_contradictions(rows: pd.DataFrame, files: NDArray[np.intp], account: Account) -> None:
    """Remark on columns that contradict each other, file by file; ``files`` (n,) is the place of each row's."""
    for code, what, off in contradictions(rows):
        by_source = pd.Series(off, rows["source"].astype(str))
        for file in np.unique(files[~np.isnan(off)]):
            factors = by_source[files == file].dropna()
            middle = float(factors.median())
            lines = few((source.rpartition(":")[2] for source in factors.index), 3)
            text = (
                f"{what} but {float(f'{middle:.3g}'):,g} times that (lines {lines}): look at both "
                "and their units"
            )
            account.add_of(file, remark(code, text, factor=middle), len(factors))


def _remark_throughputs(rows: pd.DataFrame, files: NDArray[np.intp], account: Account) -> None:
    """Remark on runs of serving whose throughput is not that of their times, file by file."""
    off = throughputs_off(rows)
    odd = ~np.isnan(off)
    for file in np.unique(files[odd]):
        places = np.flatnonzero(odd & (files == file))
        worst = places[np.argmax(np.abs(np.log(off[places])))]
        stated = float(rows["output_tokens_per_s"].iloc[worst])
        source = str(rows["source"].iloc[worst])
        factor = float(off[worst])
        text = (
            "throughput is not what times and requests under way give (Little's law): "
            f"{source} states {stated:,.0f} output tokens/s, {stated / factor:,.0f} follow: look at "
            "both"
        )
        values = {"source": source, "factor": factor}
        account.add_of(file, remark("throughput-contradicts-times", text, **values), len(places))


def _remark_units(
    rows: pd.DataFrame, files: NDArray[np.intp], held: Held, account: Account
) -> None:
    """Remark on files whose times, or some of them, seem to be in another unit."""
    for (file, device), factor in held.units.items():
        column, unit = _plausible_unit(file, factor, account)
        times = {"factor": factor, "column": column, "unit": unit}
        concerned = files == file
        if device:
            times["device"] = device
            concerned &= rows["device"].eq(device).to_numpy()
        text = _other_unit(factor, column, unit, device)
        account.add_of(file, remark("other-unit", text, **times), int(concerned.sum()))
    sources = rows["source"].astype(str)
    odd = pd.DataFrame(
        {
            "file": files,
            "source": sources,
            "times": held.slipped,
        }
    )
    for file, slipped in odd[held.slipped != 1].groupby("file"):
        text = slipped_text(slipped, account.labels[int(file)])
        account.add_of(file, remark(SLIPPED, text, rows=len(slipped)), len(slipped))


def slipped_text(rows: pd.DataFrame, label: str) -> str:
    """Say which rows of a file are a thousand times off the others of their operator, and the likely unit."""
    times = float(rows["times"].iloc[0])
    unit = "ms"
    way = "short"
    if times > 1:
        unit = "ns"
        way = "long"
    lines = few((source.rpartition(":")[2] for source in rows["source"]), 5)
    return (
        f"{counted(len(rows), 'row')} (lines {lines}) take some {max(times, 1 / times):,.0f} "
        f"times too {way} beside "
        f"the others of their operator, as if in {unit}: kept out; where the whole file is, state "
        f"{label}={unit}"
    )


def _other_unit(
    factor: float,
    column: str,
    unit: str,
    device: str,
) -> str:
    """Return the remark on times that seem to be in another unit."""
    wrong = f"times look {_off(factor)} for their devices"
    if device:
        wrong = f"times of {device} look {_off(factor)} for it"
    if not unit:
        return wrong
    if device or not column:
        return f"{wrong}, as if they were in {unit}"
    return f"{wrong}: with the unit {column}={unit} they are plausible"


def _off(factor: float) -> str:
    """Say how far times are off that should be multiplied by a factor."""
    return f"{max(factor, 1 / factor):,.0f} times too {'short' if factor > 1 else 'long'}"


def above_peaks(rows: pd.DataFrame, held: Held) -> pd.DataFrame:
    """Return the rows above a peak of their device as in `Measurements.above_peak`."""
    at = np.flatnonzero(held.share > FINDING)
    above = rows[["source", "device", "op", "dtype_a", "duration_us"]].iloc[at]
    above = above.assign(share=held.share[at], peak=held.peak[at], kept=held.reason[at] == "")
    return worst_first(above)


def worst_first(above: pd.DataFrame) -> pd.DataFrame:
    """Return rows above a peak, the furthest above it first."""
    return above.sort_values("share", ascending=False, kind="stable", ignore_index=True)


def remark_above(above: pd.DataFrame, account: Account) -> None:
    """Remark on the rows above a peak, those of each device and peak together."""
    for (device, peak), rows_above in above.groupby(["device", "peak"], sort=False):
        first = rows_above.head(_NAMED)
        worst = tuple(zip(first["source"], first["share"], strict=True))
        refused = int((~rows_above["kept"]).sum())
        shares = []
        for source, share in worst:
            how = f"{share:,.0f} times it"
            if share < 10:
                how = f"{100 * share:.0f} % of it"
            shares.append(f"{how} ({source})")
        text = f"faster than {device} allows ({peak_name(str(peak))}): {', '.join(shares)}"
        if refused:
            text += f"; {refused} over 150 %: kept out (unless impossible rows are kept)"
        above_peak = remark(
            "above-peak", text, device=device, peak=peak, worst=worst, refused=refused
        )
        account.add(above_peak, len(rows_above))


def _plausible_unit(file: int, factor: float, account: Account) -> tuple[str, str]:
    """Return the column of a file's times, "" if no unit can be stated, and the unit that makes them plausible."""
    column, unit = account.times.get(file, ("", "us"))
    micros = TIME_UNITS[unit] * factor
    for name, size in TIME_UNITS.items():
        if 0.9 < size / micros < 1.1:
            return column, name
    return column, ""


def _refuse_unit(held: Held, account: Account) -> None:
    """Raise the unit that would make the times of the first file plausible, if no row is left because of its unit."""
    for (file, _), factor in held.units.items():
        column, unit = _plausible_unit(file, factor, account)
        if column and unit:
            said = f"{column}={unit} would make the times of {account.labels[file]} possible"
            raise ParameterError("unit", f"{said}: as they are, they are {_off(factor)}")


def why_none_is_left(rejected: pd.DataFrame) -> str:
    """Return the message if every row is refused: the reasons, and the first of them in words."""
    first = rejected.iloc[0]
    reasons = ", ".join(f"{reason}: {count}" for reason, count in count_reasons(rejected).items())
    return f"no row can be used ({reasons}); first: {row_refused(first['reason'], first['detail'])}"


def _unusable(rejected: pd.DataFrame, account: Account) -> DataError:
    """Return the error for data without a usable row; of tables without a dimension, with their columns."""
    first = rejected.iloc[0]
    columns = account.columns
    problem = why_none_is_left(rejected)
    detail = first["detail"]
    if first["reason"] == "missing-dimension" and not columns:
        problem += f": give default {detail}=VALUE"
    elif first["reason"] == "missing-dimension" and detail not in columns:
        listed = few(sorted(columns), _COLUMNS)
        problem += f", which is no column: give rename NAME={detail}; the columns are {listed}"
    elif first["reason"] == "launch-not-recorded":
        for finding in chain.from_iterable(trace.findings for trace in account.traces):
            if finding.code == GRID_NOT_RECORDED:
                problem += f"; {finding.remark}"
    return DataError(problem, source=str(first["source"]))
