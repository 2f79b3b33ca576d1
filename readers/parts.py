"""Data larger than memory: source by source, and a dataset of parts to the table that reading it at once would give.

`read_parts` yields the clean rows of each source; `flopcast.ingest` writes them as the parts of a
dataset. `read_dataset` sends the rows to files by a hash of their problem, so that all repeats of a
problem are in one file, and merges file by file: medians are exact. In memory at once are a part,
the rows of a file, and the table that results.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa

from ..errors import DataError, NoMeasurementsError, few
from ..operators.operators import RUN
from ..remarks import Remark
from ..staging import temporary_folder
from ..table.conditions import Where
from ..table.contents import KIND
from ..table.irregular import Settled, without_repeats
from ..table.measurements import MEASURED, REFUSED, fill_text, judge
from ..table.physics import check_keep, hold, other_units
from ..table.problems import problem_hashes
from . import reading
from .base import LINE, ORDER, TABLE_BYTES, Options, without
from .files import find_files, open_parquet, plain_frame
from .labels import ENERGY_UNITS, POWER_UNITS, split_unit
from .tidy import TidyParquetReader, is_quantity

FOUND: Final = (
    "ingest.json"  # file of a dataset that lists the findings; of others it has the key ``parts``
)
PARTS: Final = "parts"  # folder of a dataset with the Parquet files
AT_ONCE: Final = 2**26  # bytes in memory of the rows that are merged at once, on average
_MOST_FILES = 256
_WORST = 100  # rows above a peak that are kept
_ORDER = "_row"


def is_dataset(path: Path) -> bool:
    """Whether a path is a folder with the parts of a dataset."""
    try:
        return (
            PARTS in json.loads((path / FOUND).read_text(encoding="utf-8"))
            and (path / PARTS).is_dir()
        )
    except (OSError, ValueError, TypeError):
        return False


def read_parts(
    paths: Sequence[Path | str],
    *,
    options: Options | None = None,
    where: Where = None,
) -> Iterator[tuple[str, reading.Measurements | reading.TraceFailure]]:
    """Yield label and clean rows of each source among the files, repeats not merged, format by format.

    At most as many are in memory as there are processes. A source that cannot be read, or has no
    row that can be used, is a `TraceFailure`.
    """
    options = options or Options()
    reading.check_renames(paths, options.renames)
    kinds = reading.sort_files(find_files(paths), options.renames)
    for file, error in kinds.unreadable:
        yield file.label, reading.TraceFailure(error)
    formats = list(dict.fromkeys(source.reader.name for source in kinds.sources))
    sources = sorted(kinds.sources, key=lambda source: formats.index(source.reader.name))
    for source, part in reading.look(sources, partial(_part, options=options, where=where)):
        yield source.label, part


def _part(source: reading.Source, options: Options, where: Where) -> reading.Measurements:
    """Return the clean rows of a source; empty if none meets the conditions but some are usable."""
    files = [*source.files, *source.companions]
    try:
        return reading.read(
            files,
            options=options,
            where=where,
            is_part=True,
        )
    except DataError:
        if not where:
            raise
        whole = reading.read(files, options=options, is_part=True)
        tables = ("frame", "rejected", "above_peak", "examples")
        none = {name: getattr(whole, name).iloc[:0] for name in tables}
        return replace(
            whole,
            **none,
            notes=(),
            rows_before=None,
        )


class Totals(reading.Account):
    """The totals of data read in parts: as in `Measurements`, with rejected rows counted by reason."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = 0
        self.rejected = Counter[str]()
        self.above_peak = self.examples = pd.DataFrame()
        self._others: dict[Remark, None] = {}

    def count(self, part: reading.Measurements | reading.TraceFailure) -> pd.DataFrame | None:
        """Count a part and return its rows; None where it has none."""
        if isinstance(part, reading.TraceFailure):
            if isinstance(part.error, NoMeasurementsError):
                self._remark(part.error.notes)
            else:
                self.unreadable.append(str(part.error))
            return None
        self.rows += len(part.frame)
        self.traces += part.traces
        self.rejected.update(part.rejected_by_reason)
        self.files += part.files
        self._remark(part.notes)
        above = pd.concat([self.above_peak, part.above_peak], ignore_index=True)
        if len(above):
            self.above_peak = reading.worst_first(above).head(_WORST)
        quoted = pd.concat([self.examples, part.examples], ignore_index=True)
        self.examples = reading.first_of_each(quoted)
        return part.frame if len(part.frame) else None

    def _remark(self, notes: Sequence[Remark]) -> None:
        for note in notes:
            if "rows" not in note.values:
                self._others[note] = None
                continue
            plain = without(note, "rows", "files")
            files = note.values.get("files", ())
            self.add(plain, note.values["rows"], *files[:1])
            for file in files:
                self.add(plain, 0, file)

    def notes(self) -> tuple[Remark, ...]:
        """Return every remark once, with its rows and files."""
        return (*super().notes(), *self._others)


def read_dataset(
    paths: Sequence[Path | str],
    *,
    options: Options | None = None,
    where: Where = None,
    at_once: int = AT_ONCE,
) -> reading.Measurements:
    """Read datasets, and what else is among the paths, to the table that `read` gives, in bounded memory.

    Folders are those that `ingest` wrote in parts. Rows that are merged at once take ``at_once``
    bytes in memory on average, were all parts like the first. Raises DataError as `read` does.
    """
    options = options or Options()
    totals = Totals()
    places = [path / PARTS if is_dataset(path) else path for path in map(Path, paths)]
    size = sum(file.path.stat().st_size for file in find_files(places))
    rejected: list[pd.DataFrame] = []
    before: list[pd.Series] = []
    with temporary_folder() as folder:
        spill = _Spill(folder)
        for _, part in read_parts(places, options=options, where=where):
            frame = totals.count(part)
            if isinstance(part, reading.Measurements):
                rejected.append(part.rejected)
                spill.see(part.frame)
            if isinstance(part, reading.Measurements) and frame is not None:
                if not spill.rows:
                    stored = max(sum(file.size for file in part.files), 1)
                    growth = frame.memory_usage(deep=True).sum() / stored
                    spill.files = min(math.ceil(size * growth / at_once), _MOST_FILES)
                spill.add(frame)
                before.append(frame.groupby(KIND).size())
        if not spill.rows:
            if not totals.files:
                raise DataError(
                    f"nothing readable: {few(totals.unreadable) or 'no file of a known format'}"
                )
            # which says why
            return reading.read(find_files(places)[:1], options=options, where=where, is_part=True)
        repeats = spill.merged(options.each, options.keep)
    quoted = [totals.examples]
    also = reading.Account()
    counts = pd.concat(before).groupby(level=KIND).sum()
    frame, odd, counts = reading.without_odd(
        repeats,
        options,
        also,
        counts,
        rejected,
        quoted,
    )
    first = reading.first_of_each(pd.concat(quoted, ignore_index=True))
    notes = (*totals.notes(), *also.notes())
    gone = pd.concat(rejected, ignore_index=True)
    return reading.Measurements(
        frame,
        gone,
        notes,
        *totals.read_as,
        totals.above_peak,
        first,
        counts,
        odd,
    )


class _Spill:
    """Rows in files by the hash of their problem: all repeats of a problem are in one file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.files = 1
        self._numeric: dict[str, bool] = {}
        self.rows = self._parts = 0

    def see(self, frame: pd.DataFrame) -> None:
        """Remember the columns."""
        for name in frame.columns:
            numeric = pd.api.types.is_numeric_dtype(frame[name])
            self._numeric[name] = self._numeric.get(name, numeric) and numeric

    def add(self, frame: pd.DataFrame) -> None:
        """Write the rows of a part."""
        numbered = frame.assign(**{_ORDER: range(self.rows, self.rows + len(frame))})
        for file, rows in numbered.groupby(problem_hashes(frame) % self.files, sort=False):
            rows.to_pickle(self._folder / f"{file}-{self._parts:06}")
        self.rows = self.rows + len(frame)
        self._parts = self._parts + 1

    def merged(self, each: bool, keep: Collection[str]) -> Settled:
        """Return the table of all rows, repeats merged or numbered, in the order they came."""
        buckets = []
        for file in range(self.files):
            parts = [pd.read_pickle(path) for path in sorted(self._folder.glob(f"{file}-*"))]
            if parts:
                rows = fill_text(pd.concat(parts, ignore_index=True))
                order = rows.pop(_ORDER).to_numpy()
                bucket = without_repeats(rows, each, keep)
                refused = bucket.refused.set_axis(order[bucket.refused.index])
                buckets.append(replace(bucket, places=order[bucket.places], refused=refused))
        places = np.concatenate([bucket.places for bucket in buckets])
        whole = pd.concat([bucket.frame for bucket in buckets], ignore_index=True)
        whole = whole.iloc[places.argsort()]
        empty: dict[str, float | str] = {}
        for name in self._numeric.keys() - {*whole}:
            if self._numeric[name]:
                empty[name] = math.nan
            else:
                empty[name] = ""
        columns = [*self._numeric, *([RUN] if each else [])]
        return Settled(
            fill_text(whole.reset_index(drop=True).assign(**empty)[columns]),
            np.sort(places),
            sum(bucket.repeats for bucket in buckets),
            pd.concat([bucket.odd for bucket in buckets], ignore_index=True),
            pd.concat([bucket.refused for bucket in buckets]).sort_index(),
        )


# Rows of large Parquet files some at a time, judged as `reading.read_rows` judges all of them at
# once.

ROWS = 2**15  # rows read at a time
LARGE = 2**17  # rows from which on files are read in batches: fewer are read at once as fast


class TogetherError(Exception):
    """A row's verdict depends on all rows: read them at once with `read_rows`."""


@dataclass
class RowBatches:
    """The rows of tidy Parquet files, in file order; they can be iterated once.

    Raises what `read_rows` raises, and `TogetherError` at the end of the rows.
    """

    files: Sequence[Path]
    labels: Sequence[str]
    options: Options
    keep: Collection[str]
    _account: reading.Account = field(default_factory=reading.Account)

    @property
    def notes(self) -> tuple[Remark, ...]:
        """Return the assumptions, after all rows."""
        return self._account.notes()

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Yield rows as `read_rows` returns them."""
        times: list[np.ndarray] = []
        above: list[pd.DataFrame] = []
        usable = False
        for place, rows in self._judged():
            able = rows[REFUSED].eq("").to_numpy()
            if self.options.timed and able.any():
                rows_used = rows[able].reset_index(drop=True)
                file = np.full(len(rows_used), place)
                held = hold(
                    rows_used,
                    file,
                    self.keep,
                    units={},
                )
                reading.refuse(rows, able, held)
                times.append(np.stack([rows_used["duration_us"], held.least_us, file]))
                above.append(reading.above_peaks(rows_used, held))
            usable = usable or bool(rows[REFUSED].eq("").any())
            yield fill_text(rows)
        if times:
            duration, least, files = np.concatenate(times, axis=1)
            if any(other_units(duration, least, files.astype(int))):
                raise TogetherError
            reading.remark_above(reading.worst_first(pd.concat(above)), self._account)
        if not usable:
            raise TogetherError

    def _judged(self) -> Iterator[tuple[int, pd.DataFrame]]:
        """Yield the number of a file and judged rows of it."""
        required = ()
        if self.options.timed:
            required = MEASURED
        for place, (path, label) in enumerate(zip(self.files, self.labels, strict=True)):
            line = 1
            for frame in _frames(path):
                raw = TidyParquetReader().raw(frame, path, self.options)
                rows = raw.rows.assign(**{LINE: np.arange(line, line + len(frame))})
                line += len(frame)
                self._account.take(raw, label, place)
                rows = reading.prepared(
                    [replace(raw, rows=rows).sourced(label, place)], self.options, self._account
                )
                yield place, judge(rows, required=required).drop(columns=ORDER)


def _frames(path: Path) -> Iterator[pd.DataFrame]:
    with open_parquet(path, TABLE_BYTES) as file:
        for batch in file.iter_batches(ROWS):
            yield plain_frame(pa.Table.from_batches([batch]))


def row_batches(
    paths: Sequence[Path | str | pd.DataFrame],
    *,
    units: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    renames: Mapping[str, str] | None = None,
    timed: bool = True,
    keep: Collection[str] = (),
) -> RowBatches | None:
    """Return the rows of Parquet files in batches, with the parameters of `read_rows`; None if they are few.

    Also where one row may decide what is said of another: files of other formats, text in columns
    of numbers, what is stated by the user.
    """
    check_keep(keep)
    if units or defaults or renames or any(isinstance(path, pd.DataFrame) for path in paths):
        return None
    options = Options({}, {}, timed)
    try:
        kinds = reading.sort_files(
            find_files([path for path in paths if not isinstance(path, pd.DataFrame)])
        )
    except DataError:
        return None  # `read_rows` says why
    files = list(chain.from_iterable(source.files for source in kinds.sources))
    tidy = all(isinstance(source.reader, TidyParquetReader) for source in kinds.sources)
    if not files or not tidy or kinds.skipped or kinds.unreadable:
        return None
    count = 0
    schema = None
    for file in files:
        with open_parquet(file.path, TABLE_BYTES) as opened:
            count += opened.metadata.num_rows
            same = schema is None or opened.schema_arrow.equals(schema)
            schema = opened.schema_arrow
        if not same or not _alone(schema, options):
            return None
    if count < LARGE:
        return None
    return RowBatches(
        [file.path for file in files],
        [file.label for file in files],
        options,
        keep,
    )


def _alone(schema: pa.Schema, options: Options) -> bool:
    """Whether rows with these columns can be read without the others."""
    names = [str(name) for name in schema.names]
    beside = {*ENERGY_UNITS, *POWER_UNITS}
    if len(set(names)) < len(names) or any(split_unit(name)[1] in beside for name in names):
        return False
    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    for column in schema:
        if is_quantity(column.name, options) and not any(test(column.type) for test in numeric):
            return False
    return "h" not in [name.strip().lower() for name in names]  # B x H becomes rows x cols
