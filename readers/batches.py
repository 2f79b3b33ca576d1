"""Rows of large Parquet files some at a time, judged as `reading.read_rows` judges all of them at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from ..errors import DataError
from ..remarks import Remark
from ..table.measurements import MEASURED, REFUSED, REFUSED_DETAIL, fill_text, judge
from ..table.physics import check_keep, hold, other_units
from .base import LINE, ORDER, TABLE_BYTES, Options
from .files import find_files, open_parquet, plain_frame
from .labels import ENERGY_UNITS, POWER_UNITS, split_unit
from .reading import Found, above_peaks, prepared, remark_above
from .tidy import TidyParquetReader, is_quantity
from .trace_files import sort_files

ROWS = 2**16
"""Rows read at a time."""
LARGE = 2**17
"""Rows from which on files are read in batches: fewer are read at once as fast."""


class TogetherError(Exception):
    """Only all rows at once tell what to say of each, or why none can be used: read them with `read_rows`."""


@dataclass
class RowBatches:
    """The rows of tidy Parquet files, in the order they stand there; to be gone through once.

    Raises what `read_rows` raises, and `TogetherError` at the end of the rows.
    """

    files: Sequence[Path]
    labels: Sequence[str]
    options: Options
    keep: Collection[str]
    _found: Found = field(default_factory=Found)

    @property
    def notes(self) -> tuple[Remark, ...]:
        """What was assumed, after all rows."""
        return self._found.notes()

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Yield rows as `read_rows` returns them."""
        times: list[np.ndarray] = []
        above: list[pd.DataFrame] = []
        usable = False
        for place, rows in self._judged():
            able = rows[REFUSED].eq("").to_numpy()
            if self.options.timed and able.any():
                own = rows[able].reset_index(drop=True)
                held = hold(own, np.full(len(own), place), self.keep, units={})
                for column, values in ((REFUSED, held.reason), (REFUSED_DETAIL, held.detail)):
                    rows.loc[able, column] = np.where(held.reason == "", rows.loc[able, column], values)
                times.append(np.stack([own["duration_us"], held.least_us, np.full(len(own), place)]))
                above.append(above_peaks(own, held))
            usable = usable or bool(rows[REFUSED].eq("").any())
            yield fill_text(rows)
        if times:
            duration, least, files = np.concatenate(times, axis=1)
            if any(other_units(duration, least, files.astype(int))):
                raise TogetherError
            every = pd.concat(above).sort_values("share", ascending=False, kind="stable", ignore_index=True)
            remark_above(every, self._found)
        if not usable:
            raise TogetherError

    def _judged(self) -> Iterator[tuple[int, pd.DataFrame]]:
        """Yield the number of a file and judged rows of it."""
        required = MEASURED if self.options.timed else ()
        for place, (path, label) in enumerate(zip(self.files, self.labels, strict=True)):
            line = 1
            for frame in _frames(path):
                raw = TidyParquetReader().raw(frame, path, self.options)
                rows = raw.rows.assign(**{LINE: np.arange(line, line + len(frame))})
                line += len(frame)
                self._found.take(raw, label, place)
                rows = prepared([replace(raw, rows=rows).sourced(label, place)], self.options, self._found)
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
    timed: bool = True,
    keep: Collection[str] = (),
) -> RowBatches | None:
    """Return the rows of Parquet files in batches, the parameters as those of `read_rows`; None where they are few.

    Also where one row may decide what is said of another: files of other formats, text in columns of numbers, units and
    values that the user states.
    """
    check_keep(keep)
    if units or defaults or any(isinstance(path, pd.DataFrame) for path in paths):
        return None
    options = Options({}, {}, timed)
    try:
        kinds = sort_files(find_files([path for path in paths if not isinstance(path, pd.DataFrame)]))
    except DataError:
        return None  # `read_rows` says why
    files = [file for source in kinds.sources for file in source.files]
    tidy = all(isinstance(source.reader, TidyParquetReader) for source in kinds.sources)
    if not files or not tidy or kinds.skipped or kinds.unreadable:
        return None
    count, schema = 0, None
    for file in files:
        with open_parquet(file.path, TABLE_BYTES) as opened:
            count += opened.metadata.num_rows
            same = schema is None or opened.schema_arrow.equals(schema)
            schema = opened.schema_arrow
        if not same or not _alone(schema, options):
            return None
    if count < LARGE:
        return None
    return RowBatches([file.path for file in files], [file.label for file in files], options, keep)


def _alone(schema: pa.Schema, options: Options) -> bool:
    """Whether rows with these columns can be read without the others."""
    names, beside = [str(name) for name in schema.names], {*ENERGY_UNITS, *POWER_UNITS}
    if len(set(names)) < len(names) or any(split_unit(name)[1] in beside for name in names):
        return False
    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    told = all(any(kind(one.type) for kind in numeric) for one in schema if is_quantity(one.name, options))
    return told and "h" not in (name.strip().lower() for name in names)  # B x H becomes rows x cols
