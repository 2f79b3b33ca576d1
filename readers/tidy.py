"""Any tidy table, CSV, Parquet or .xlsx: one row per measurement, and a duration with its unit.

Of an .xlsx (extra ``excel``) the first sheet is read. The unit stands in the column's name
("latency_ms", "duration_us") or is stated by the user; it is never guessed. Where no column is a
time and one is a rate (TFLOP/s, GFLOP/s), times follow from it and the FLOPs of each row's shape,
with a remark. The project's measurement tables are of this kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ..arrays import FloatArray
from ..errors import DataError, NoDurationError, few
from ..operators.kinds.serving_run import (
    METRICS,
    SERVING,
    engine_named,
    held_request_us,
    request_us,
)
from ..operators.operators import OPS, RUN, WHOLE, canonical_op, without_namespace
from ..operators.work import as_numbers, dtypes_in_kernel_names, each_word
from ..output import unguarded
from ..remarks import remark
from ..table.measurements import (
    COUNTER,
    DEFECT,
    DEFECT_DETAIL,
    DTYPE_COLUMNS,
    TEXT_DIMENSIONS,
    as_text,
    plain_numbers,
)
from ..table.physics import token_units
from .base import ARCHIVE, LINE, PARQUET, Note, Options, RawTable, Reader, register
from .files import (
    campaign_of,
    check_names,
    csv_header,
    decimal_commas,
    first_sheet,
    is_workbook,
    parquet_columns,
    parse_csv,
    plain_cells,
    read_parquet,
    table_header,
    text,
    with_overlong,
    with_points,
)
from .labels import ENERGY_UNITS, POWER, POWER_UNITS, TIME_UNITS, split_unit, stated_unit
from .throughputs import rate_columns, times_by_rates
from .words import vocabulary

#: Other names (lower case, with _ for blanks and hyphens) of the measurement table's columns, as rocprofv3, PyTorch,
#: vLLM, configurations of models and pandas have them.
ALIASES: Final[dict[str, list[str]]] = vocabulary("columns")
_OF_SERVING: Final[dict[str, str]] = vocabulary("columns_of_serving")
"""Columns of tables of runs of serving, as clients and people have them -> ours."""
_SERVING_COLUMNS: Final = frozenset({*OPS[SERVING].dims, *METRICS, *DTYPE_COLUMNS, "device"})
_FOLDED = ("linear", "addmm", "mm")  # a batch of rows against one weight is one longer GEMM
_DURATION_WORDS = frozenset(
    {
        "",
        "duration",
        "latency",
        "time",
        "t",
        "dur",
        "elapsed",
        "elapsed_time",
        "runtime",
        "run_time",
        "execution_time",
    }
    | {"exec_time", "kernel_time", "kernel_duration", "wall_time", "walltime"}
)
_AVERAGE = re.compile(r"^(?:median|mean|avg|average)(?:[_ ](?:duration|latency|time))?$")
_PERHAPS_NUMBER = r"^\s*(?:$|[+\-]?(?:[0-9.]|(?i:nan|inf)))"
_FIRST = 100  # cells of a column that mostly tell words from numbers
# ends of names of columns that hold number formats
_FORMAT = re.compile(r"(?:d_?type|data_?type|precision)$")
_LAST = re.compile(r"^(.+)_(mean|median|avg|average|min|max|std|var|p\d+)$", re.IGNORECASE)
"""Names of pandas' aggregated columns: duration_us_mean."""
_CAMEL = re.compile(r"(?<=[a-z])(?=[NUM]s$)")  # before the unit of rocprof's names: DurationNs
# of rocprofv3, ns
_START = "Start_Timestamp"
_END = "End_Timestamp"
_ANOTHER = re.compile(
    r"(?:^|[_ ])(?:spread|std|stddev|stdev|mad|min|max|var|p\d+|ci\d*|err|error|total|sum|cumulative|start|end|begin"
    r"|stop|timestamp|timeout|overhead|launch|warm_?up|compile|cpu|host|wait|queue|idle|limit|lower|upper|predicted|expected"
    r"|estimated|estimate|modell?ed|model|roofline|scaling|affine|tpot|ttft|itl|token)(?:[_ ]|$)"
)
"""Words in names of columns of other times than that of one call."""
_MEDIANS = ("median", "p50")
# of runs of serving, in ms unless the user states another unit
_TOKEN_TIMES = ("ttft_ms", "tpot_ms")
_THROUGHPUT = (
    "output_tokens_per_s"  # of runs of serving: with the requests under way it says their time
)
_DIMENSIONS = frozenset({"m", "n", "k"})
_SIZES = frozenset(name for op in OPS.values() for name in op.dims) - TEXT_DIMENSIONS
_NUMBERS = _SIZES | {other for name in _SIZES for other in ALIASES.get(name, ())} | {"repeats"}


def tidy_rows(
    table: pd.DataFrame,
    options: Options,
    *,
    source: str,
    campaign: str = "",
) -> RawTable:
    """Return a table that has the columns of a tidy file under the names of the measurement table.

    Messages call it `source`; `campaign` is that of rows that state none. Raises DataError where no
    column is the operator, or no single one the duration.
    """
    table = plain_cells(table.rename(columns=dict(options.renames)))
    if not table.columns.is_unique:
        twice = table.columns[table.columns.duplicated()][0]
        raise DataError(
            f"two columns are called {twice!r} once renamed: leave one out", source=source
        )
    if _holds_serving(table, options):
        table = _with_serving_names(table, source)
        if "output_len" in options.defaults:
            answers = filled(table, "output_len", options.defaults["output_len"])
            table = table.assign(output_len=answers)
    if {_START, _END} <= set(table) and not any(
        _split(str(name))[1] in TIME_UNITS for name in table
    ):
        start, end = (pd.to_numeric(table[name], errors="coerce") for name in (_START, _END))
        table = table.assign(duration_ns=end - start).drop(columns=[_START, _END])
    columns = tuple(map(str, table.columns))
    notes: list[Note] = []
    if "op" not in options.defaults and _is_serving(columns):
        table = table.assign(op=SERVING)
        columns = (*columns, "op")
        text = f"a table with concurrency and times of tokens and without a column op is of op={SERVING}"
        notes.append(Note(remark("op-taken", text, op=SERVING), len(table)))
    of_tokens = {name: options.units[name] for name in _TOKEN_TIMES if name in options.units}
    for name in of_tokens.keys() & set(columns):
        factor = TIME_UNITS[stated_unit(name, of_tokens[name])] / TIME_UNITS["ms"]
        table = table.assign(**{name: factor * as_numbers(table, name)})
    options = replace(
        options, units={name: unit for name, unit in options.units.items() if name not in of_tokens}
    )
    if {"ttft_ms", "tpot_ms", "output_len"} <= set(columns):
        table = _with_requests(table, request_us(table))
    if {_THROUGHPUT, "concurrency", "output_len"} <= set(columns):
        table = _with_requests(table, held_request_us(table))
    rates = _rates_for_times(table, options)
    try:
        rows, times = _with_times(
            table, replace(options, timed=options.timed and not rates), source
        )
    except DataError as error:  # all that is missing is said at once
        problem = str(error).removeprefix(f"{source}: ")
        more = _lacking(columns, options, ("op", "device"))
        kind = DataError
        if isinstance(error, NoDurationError):
            kind = NoDurationError
        raise kind(
            "; ".join([problem, *(more[:-1] if "(columns: " in problem else more)]), source=source
        ) from None
    plain = {_plain(str(name)): name for name in reversed(rows.columns)}
    names = {}
    for name, others in ALIASES.items():
        heading = next((plain[word] for word in (name, *others) if word in plain), None)
        if heading is not None and name not in rows:
            names[heading] = name
    rows = rows.rename(columns=names)
    for column, value in options.defaults.items():
        rows[column] = filled(rows, column, value)
    if "op" not in rows:
        raise DataError("; ".join(_lacking(columns, options, ("op", "device"))), source=source)
    words = as_text(rows["op"])
    rows["op"] = each_word(words, canonical_op)
    if "engine" in rows:
        serving = as_text(rows["op"]).eq(SERVING)
        engines = each_word(as_text(rows["engine"]), engine_named)
        rows["engine"] = rows["engine"].mask(serving, engines)
    if "batch" in rows and "m" in rows:
        batch, m = (pd.to_numeric(rows[name], errors="coerce") for name in ("batch", "m"))
        called = words.map({word: without_namespace(word) for word in words.unique()})
        folded = called.isin(_FOLDED) & batch.gt(1) & m.notna()
        rows["m"], rows["batch"] = rows["m"].mask(folded, m * batch), rows["batch"].mask(folded, 1)
    _rows_and_cols(rows)
    if not of_tokens:
        rows = with_token_units(rows)
    rows = _with_medians_named(rows)
    rows = _whole_workloads(rows)
    rows["campaign"] = filled(rows, "campaign", campaign)
    if not rows["op"].isin(WHOLE).all():
        _add_dtypes(rows, notes, source)
    for name, factor in rates.items():
        flops_per_us = as_numbers(rows, name) * factor
        durations = times_by_rates(rows, flops_per_us)
        unknown = (flops_per_us > 0) & np.isnan(durations) & filled(rows, DEFECT, "").eq("")
        detail = f"{name} gives no time without FLOPs"
        rows = rows.assign(
            duration_us=durations,
            **{
                DEFECT: filled(rows, DEFECT, "").mask(unknown, "missing-dimension"),
                DEFECT_DETAIL: filled(rows, DEFECT_DETAIL, "").mask(unknown, detail),
            },
        )
        text = f"no column is a time: it follows from {name} and the FLOPs of each row's shape"
        notes.append(Note(remark("times-by-rates", text, column=name), len(rows)))
    return RawTable(rows, notes, columns, times)


def _rates_for_times(table: pd.DataFrame, options: Options) -> dict[str, float]:
    """Return the one column of rates from which times follow, as `rate_columns`; none where a column has times."""
    names = [str(name) for name in table.columns]
    if any(_split(name)[1] in TIME_UNITS or name in options.units for name in names):
        return {}
    rates = rate_columns(names)
    if len(rates) == 1 and options.timed:
        return rates
    return {}


def with_token_units(rows: pd.DataFrame, *, stated: bool = True) -> pd.DataFrame:
    """Return the rows, refused those of runs of serving whose times of tokens are in another unit than milliseconds.

    ``stated`` is whether the user can state the unit of a column of the file.
    """
    serving = (as_text(rows["op"]) == SERVING).to_numpy()
    if not serving.any():
        return rows
    columns, units = token_units(rows)
    wrong = np.flatnonzero(serving & (units != ""))
    if not len(wrong):
        return rows
    nothing = pd.Series("", rows.index)
    defect, detail = (
        as_text(rows.get(name, nothing)).to_numpy(dtype=object, copy=True)
        for name in (DEFECT, DEFECT_DETAIL)
    )
    for row in wrong:
        names = columns[row].split()
        unit = units[row]
        problem = f"{' and '.join(names)}: by throughput and concurrency the unit is {unit}, not ms"
        if stated:
            problem += ": " + " and ".join(f"give unit {name}={unit}" for name in names)
        defect[row] = "other-unit"
        detail[row] = problem
    return rows.assign(**{DEFECT: defect, DEFECT_DETAIL: detail})


def _with_medians_named(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows, refused those of runs of serving that state no time but medians, which are named."""
    lacking = as_text(rows["op"]).eq(SERVING) & filled(rows, DEFECT, "").eq("")
    for name in ("duration_us", *_TOKEN_TIMES):
        lacking &= np.isnan(as_numbers(rows, name))
    if not lacking.any():
        return rows
    advice = []
    given = pd.Series(False, rows.index)
    for name in map(str, rows.columns):
        positive = as_numbers(rows, name) > 0
        mean = _mean_of(name)
        if mean and positive.any():
            given |= positive
            advice.append(f"give rename {name}={mean}")
    named = lacking & given
    detail = f"medians are not taken for means: {' and '.join(advice)}"
    defects = {
        DEFECT: filled(rows, DEFECT, "").mask(named, "no-token-times"),
        DEFECT_DETAIL: filled(rows, DEFECT_DETAIL, "").mask(named, detail),
    }
    return rows.assign(**defects)


def _mean_of(name: str) -> str:
    """Return what to call a column of medians of times of tokens to have it read; "" of another column.

    >>> _mean_of("Median TTFT (s)"), _mean_of("tpot_ms_p50"), _mean_of("tpot_ms_p99")
    ('ttft_s', 'tpot_ms', '')
    """
    base, unit = _split(name)
    statistic, _, word = _plain(base).partition("_")
    time = _OF_SERVING.get(f"{word}_ms", f"{word}_ms")
    if statistic not in _MEDIANS or unit not in TIME_UNITS or time not in _TOKEN_TIMES:
        return ""
    return f"{time.removesuffix('_ms')}_{unit}"


def _plain(name: str) -> str:
    """Return a column's name as `ALIASES` has it."""
    return re.sub(r"[ -]+", "_", name.strip().lower())


def _split(name: str) -> tuple[str, str | None]:
    """Return the name of a column without its unit, and the unit: also where a statistic stands behind, or no blank."""
    return split_unit(_LAST.sub(r"\2_\1", _CAMEL.sub("_", name.strip())))


def _lacking(columns: Sequence[str], options: Options, needed: Iterable[str]) -> list[str]:
    """Say which columns are there under no name and have no default, what gives each, and what columns there are."""
    plain = set(map(_plain, columns))
    missing = [
        name
        for name in needed
        if name not in options.defaults and plain.isdisjoint((name, *ALIASES[name]))
    ]
    examples = {"op": "gemm", "device": "MI300X"}
    said = [
        f"no column {name!r}: give default {name}={examples[name]}, or rename NAME={name}"
        for name in missing
    ]
    if said:
        return [*said, f"the columns are {few(columns, 12)}"]
    return []


class _TidyReader(Reader):
    """What CSV and Parquet share."""

    fallback = True

    def raw(
        self,
        table: pd.DataFrame,
        path: Path,
        options: Options,
    ) -> RawTable:
        """Return rows of a file under the names of the measurement table."""
        table = table.drop(
            columns=[name for name in table if str(name).startswith("__index_level_")]
        )
        return tidy_rows(
            table,
            options,
            source=str(path),
            campaign=campaign_of(path),
        )


@register
class TidyCsvReader(_TidyReader):
    """Delimited text whose header names an operator or GEMM dimensions."""

    name = "tidy CSV"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise a header with an operator, or with m, n and k."""
        return _is_measurements(csv_header(head))

    def read(self, path: Path, options: Options) -> RawTable:
        """Return the rows; lines with more fields than the header are refused one by one."""
        return self.rows_of(text(path, max_bytes=options.table_bytes), path, options)

    def rows_of(self, content: str, path: Path, options: Options) -> RawTable:
        """Return the rows of the text of a file."""
        csv = parse_csv(content, str(path))
        check_names(csv.twice, path)
        table = pd.DataFrame(
            {unguarded(name): _inferred(csv.cells[name]) for name in csv.cells.column_names}
        )
        table, names = with_points(
            table, [str(name) for name in table if is_quantity(str(name), options)], str(path)
        )
        read = {name: numbers_or_text(table[name]) for name in names}
        table = table.assign(**read)
        notes = []
        if names:
            notes.append(Note(decimal_commas(names), len(table)))
        raw = self.raw(table, path, options)
        rows = raw.rows.assign(**{LINE: csv.lines})
        return replace(raw, rows=with_overlong(rows, csv), notes=[*notes, *raw.notes])


@register
class TidyWorkbookReader(TidyCsvReader):
    """The first sheet of an .xlsx with the same columns."""

    name = "tidy xlsx"
    containers = (ARCHIVE,)

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise a sheet with columns of measurements; without openpyxl any: `read` asks for that."""
        if not is_workbook(path, head):
            return False
        return find_spec("openpyxl") is None or _is_measurements(table_header(path, head))

    def read(self, path: Path, options: Options) -> RawTable:
        """Return the rows; the "line" of a row is its number in the sheet, from 1."""
        return self.rows_of(first_sheet(path, max_bytes=options.table_bytes), path, options)


@register
class TidyParquetReader(_TidyReader):
    """Parquet with the same columns, the project's measurement tables included."""

    name = "tidy Parquet"
    containers = (PARQUET,)

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise Parquet whose columns are those of measurements."""
        return head.startswith(PARQUET) and _is_measurements(parquet_columns(path))

    def read(self, path: Path, options: Options) -> RawTable:
        """Return the rows; the "line" of a row is its number in the file, from 1."""
        table = read_parquet(path, max_bytes=options.table_bytes)
        raw = self.raw(table, path, options)
        return replace(raw, rows=raw.rows.assign(**{LINE: np.arange(1, len(table) + 1)}))


def _is_measurements(names: Iterable[str]) -> bool:
    names = list(names)
    plain = set(map(_plain, names))
    if "op" in plain or plain >= _DIMENSIONS or _is_serving(names):
        return True
    timed = any(_split(name)[1] in TIME_UNITS for name in names) or {_START, _END} <= set(names)
    return timed and not plain.isdisjoint(ALIASES["op"])


def _is_serving(names: Iterable[str]) -> bool:
    """Return whether columns are those of runs of serving that leave their operator out."""
    names = list(names)
    stated = not {*map(_plain, names)}.isdisjoint(("op", *ALIASES["op"]))
    ours = {_serving_name(name)[0] for name in names}
    timed = not ours.isdisjoint({*_TOKEN_TIMES, _THROUGHPUT}) or any(map(_mean_of, names))
    return not stated and "concurrency" in ours and timed


def _with_requests(table: pd.DataFrame, times_us: FloatArray) -> pd.DataFrame:
    """Return a table of runs of serving with times of requests where it states none."""
    if "duration_us" in table:
        given = table["duration_us"]
    else:
        given = pd.Series(np.nan, index=table.index)
    blank = given.isna() | as_text(given).eq("")
    return table.assign(duration_us=given.astype(object).mask(blank, times_us))


def _holds_serving(table: pd.DataFrame, options: Options) -> bool:
    """Return whether all rows of a table are runs of serving, as its columns, its operator or the default has it."""
    if options.defaults.get("op") == SERVING or _is_serving(map(str, table.columns)):
        return True
    return "op" in table and bool(as_text(table["op"]).eq(SERVING).all())


def _with_serving_names(table: pd.DataFrame, source: str) -> pd.DataFrame:
    """Return a table of runs of serving with its columns under our names, and times of tokens in ms.

    Raises DataError: a time of tokens stands in two units that contradict each other.
    """
    table = _with_one_unit(table, source)
    places = [*_OF_SERVING]
    ranked = []
    for name in map(str, table.columns):
        ours, word = _serving_name(name)
        if name != ours and ours in _SERVING_COLUMNS and ours not in table:
            ranked.append((places.index(word) if word in _OF_SERVING else -1, name, ours))
    names: dict[str, str] = {}
    for _, name, ours in sorted(ranked):
        if ours in names.values():
            continue
        names[name] = ours
        unit = _split(name)[1]
        if ours in _TOKEN_TIMES and unit != "ms":
            factor = TIME_UNITS[str(unit)] / TIME_UNITS["ms"]
            table = table.assign(**{name: factor * as_numbers(table, name)})
    return table.rename(columns=names)


def _with_one_unit(table: pd.DataFrame, source: str) -> pd.DataFrame:
    """Return a table with each time of tokens in one column, where it stands in several units.

    Raises DataError: a row states two times.
    """
    by_word: dict[str, list[str]] = {}
    for name in map(str, table.columns):
        ours, word = _serving_name(name)
        if ours in _TOKEN_TIMES:
            by_word.setdefault(word, []).append(name)
    for names in by_word.values():
        if len(names) == 1:
            continue
        first, *others = sorted(names, key=lambda name: _split(name)[1] != "ms")
        factor = TIME_UNITS[str(_split(first)[1])]
        whole = as_numbers(table, first)
        for name in others:
            times = as_numbers(table, name) * TIME_UNITS[str(_split(name)[1])] / factor
            apart = np.abs(whole / times - 1.0) > _SAME_TIME
            if apart.any():
                row = int(np.flatnonzero(apart)[0])
                problem = (
                    f"columns {first} and {name} contradict each other: row {row + 1} states "
                    f"{table[first].iloc[row]} and {table[name].iloc[row]}: leave one out"
                )
                raise DataError(problem, source=source)
            whole = np.where(np.isnan(whole), times, whole)
        table = table.drop(columns=others).assign(**{first: whole})
    return table


_SAME_TIME = 0.02  # two units of a time may differ by what they were rounded to


def _serving_name(name: str) -> tuple[str, str]:
    """Return what we call a column of runs of serving, and the word of `_OF_SERVING` that it is.

    >>> _serving_name("ISL"), _serving_name("Mean TTFT (s)")
    (('input_len', 'isl'), ('ttft_ms', 'mean_ttft_ms'))
    """
    base, unit = _split(name)
    word = _plain(name)
    if unit in TIME_UNITS:
        in_ms = f"{_plain(base)}_ms"
        if _OF_SERVING.get(in_ms, in_ms) in _TOKEN_TIMES:
            word = in_ms
    return _OF_SERVING.get(word, word), word


def _inferred(cells: pa.ChunkedArray) -> pd.Series:
    """Return numbers where every filled field is one, else the text, as it was before `output` wrote it as CSV."""
    plain = plain_numbers(cells)
    if plain is not None:
        return plain.to_pandas()
    column = cells.to_pandas().astype("str")
    if all(
        pc.all(pc.match_substring_regex(some, _PERHAPS_NUMBER)).as_py()
        for some in (cells[:_FIRST], cells)
    ):
        column = numbers_or_text(column)
    text_left = not pd.api.types.is_numeric_dtype(column) and column.str.startswith("'").any()
    if text_left:
        return column.map(unguarded)
    return column


def numbers_or_text(column: pd.Series) -> pd.Series:
    """Return a column of text as numbers where every filled cell is one, else as it is."""
    if pd.api.types.is_numeric_dtype(column):
        return column
    filled = column.ne("")
    if not filled.any() or pd.to_numeric(column[filled], errors="coerce").isna().any():
        return column
    return pd.to_numeric(column.where(filled), errors="coerce")


def is_quantity(name: str, options: Options) -> bool:
    """Whether a column of this name holds numbers: a measure with its unit, a dimension, or repeats."""
    name = options.renames.get(name, name)
    return name in options.units or _split(name)[1] is not None or _plain(name) in _NUMBERS


def _with_times(
    table: pd.DataFrame, options: Options, source: str
) -> tuple[pd.DataFrame, tuple[str, str] | None]:
    """Return the table with its times, energies and powers in the units of the measurement table, named like there.

    Also the column with the duration, and the unit it was read in.
    """
    named = {str(name): _split(str(name)) for name in table.columns}
    for column, word in options.units.items():
        if column in named:
            named[column] = (named[column][0], stated_unit(column, word))
    taken: dict[str, tuple[str, float]] = {}
    duration = _duration_if_needed(named, options, source)
    if duration and (word := options.units.get(Path(source).name)):  # of the times of a whole file
        named[duration] = (named[duration][0], stated_unit(duration, word))
    if duration:
        taken["duration_us"] = (duration, TIME_UNITS[str(named[duration][1])])
    for column, (base, unit) in named.items():
        if base == "spread" and unit in TIME_UNITS:
            taken["spread_us"] = (column, TIME_UNITS[unit])
        if base == "energy" and unit in ENERGY_UNITS:
            taken["energy_j"] = (column, ENERGY_UNITS[unit])
        if base == POWER and unit in POWER_UNITS:
            taken["power_w"] = (column, POWER_UNITS[unit])
    rows = table.drop(columns=[column for column, _ in taken.values()])
    for name, (column, factor) in taken.items():
        values = table[column]
        if np.iscomplexobj(values):
            raise DataError(f"column {column!r} holds complex numbers", source=source)
        numbers = pd.to_numeric(values, errors="coerce").astype(float) * factor
        wrong = numbers.isna() & values.notna()
        if wrong.any():
            rows[name] = numbers.astype(object).where(~wrong, values)
        else:
            rows[name] = numbers
    return rows, (duration, str(named[duration][1])) if duration else None


def _duration_if_needed(
    named: Mapping[str, tuple[str, str | None]], options: Options, source: str
) -> str | None:
    """Return the column that holds the duration; None where no single one does and rows need none."""
    try:
        return _duration_column(named, options.units, source)
    except DataError:
        if options.timed:
            raise
        return None


def _duration_column(
    named: Mapping[str, tuple[str, str | None]], units: Mapping[str, str], source: str
) -> str:
    """Return the one column that holds the duration.

    In this order: a column whose unit the user states; `duration_us`; a word for duration with a
    unit; an average with a unit; any other column with a unit of time whose name does not say that
    it is another (`_ANOTHER`: a total of all calls, a limit, a prediction). Several columns
    ``duration``, each with its unit, are not distinguished.
    """
    timed = {column: base for column, (base, unit) in named.items() if unit in TIME_UNITS}
    choices = (
        [column for column in timed if column in units],
        [column for column, base in timed.items() if base == "duration"],
        [column for column, base in timed.items() if base in _DURATION_WORDS],
        [column for column, base in timed.items() if _AVERAGE.match(base)],
        [column for column, base in timed.items() if not _ANOTHER.search(base)],
    )
    for columns in choices:
        if len(columns) == 1:
            return columns[0]
        if columns:
            unit = named[columns[0]][1]
            raise DataError(
                f"columns {', '.join(columns)} could each be the duration: give unit "
                f"{columns[0]}={unit}, or another's",
                source=source,
            )
    bare = [
        column
        for column, (base, unit) in named.items()
        if unit is None and (base in _DURATION_WORDS or _AVERAGE.match(base))
    ]
    if bare:
        raise DataError(
            f"column {bare[0]!r} has no unit: give unit {bare[0]}=us, or ms, ns, s", source=source
        )
    if timed:
        what = f"{few([*timed])} may be another time than that of one call: of the one that is"
        raise DataError(
            f"{what} give unit {next(iter(timed))}={named[next(iter(timed))][1]}", source=source
        )
    raise NoDurationError(
        f"no column is a duration with its unit (columns: {', '.join(named)}): give unit "
        "COLUMN=ms, "
        "or rename COLUMN=duration_ms, of a rate COLUMN=tflops",
        source=source,
    )


def filled(rows: pd.DataFrame, column: str, value: str) -> pd.Series:
    """Return the column with `value` where nothing is given."""
    if column not in rows:
        return pd.Series(value, index=rows.index)
    blank = as_text(rows[column]).eq("")
    if blank.any():
        return rows[column].astype(object).where(~blank, value)
    return rows[column]


_OWN = frozenset(
    {
        "device",
        "op",
        "duration_us",
        "spread_us",
        "repeats",
        "energy_j",
        "power_w",
        "index",
        RUN,
        "tuned",
    }
)


def _whole_workloads(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a table of whole workloads alone with their name under ``variant``, and other numbers as counters."""
    if not rows["op"].isin(WHOLE).all() or rows.empty:
        return rows
    if "variant" not in rows:
        rows = rows.rename(columns={"name": "variant"})
    counted = [str(name) for name in rows.select_dtypes("number") if name not in _OWN]
    return rows.rename(
        columns={name: COUNTER + name for name in counted if not name.startswith(COUNTER)}
    )


def _rows_and_cols(rows: pd.DataFrame) -> None:
    """Read B x H, or tokens x hidden size, of row-wise and element-wise operators as rows x cols, in place."""
    flat = rows["op"].isin([name for name, op in OPS.items() if "rows" in op.dims])
    for pair in (("batch", "H"), ("batch", "h"), ("tokens", "model_dim")):
        if not flat.any() or not {*pair} <= set(rows):
            continue
        for name, given in zip(("rows", "cols"), pair, strict=True):
            if name not in rows:
                rows[name] = np.nan
            rows[name] = rows[name].where(~flat | rows[name].notna(), rows[given])
            rows[given] = rows[given].mask(flat, np.nan)
        if rows[pair[1]].isna().all():
            del rows[pair[1]]


def _add_dtypes(rows: pd.DataFrame, notes: list[Note], source: str) -> None:
    """Take number formats that no column gives from the kernel's name, else assume fp32 and say so; in place.

    Those of a run of serving have no default: PyTorch's is of a kernel.

    Raises DataError for a column that is called like one of number formats and is none of ours.
    """
    unread = [
        str(name)
        for name in rows
        if _FORMAT.search(str(name).lower()) and name not in DTYPE_COLUMNS
    ]
    if unread:
        what = "holds number formats, by its name, and is none that is known"
        ours = _format_of(unread[0], rows)
        if ours in rows:
            todo = "remove it"
        else:
            todo = f"give rename {unread[0]}={ours}, or remove it"
        raise DataError(f"column {unread[0]!r} {what}: {todo}", source=source)
    given = filled(rows, "dtype_a", "")
    blank = given.eq("")
    if not blank.any():
        return
    if "kernel" in rows:
        stated = dtypes_in_kernel_names(as_text(rows["kernel"]))
        given = given.where(~blank, stated)
    missing = given.eq("") & as_text(rows["op"]).ne(SERVING)
    assumed = int(missing.sum())
    rows["dtype_a"] = given.mask(missing, "fp32")
    if assumed:
        text = (
            "no number format given: fp32 assumed (PyTorch's default); or give default dtype_a=NAME"
        )
        notes.append(Note(remark("fp32-assumed", text), assumed))


def _format_of(name: str, rows: pd.DataFrame) -> str:
    """Return which of our columns of number formats another one is, by its name."""
    if re.search("kv|cache", name.lower()) and as_text(rows["op"]).eq(SERVING).all():
        return "dtype_kv"
    if "weight" in name.lower():
        return "dtype_b"
    return "dtype_a"
