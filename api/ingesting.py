"""Ingesting: profilers' and tuners' files to one table, measured or dispatched, its quality checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from .. import values
from ..errors import DataError, ParameterError, check_jobs, counted, few
from ..output import (
    check_output,
    check_table,
    dumps,
    replacing,
    whole_folder,
    whole_table,
    write_table,
)
from ..readers import Options, TraceFailure, read, read_traces
from ..readers.aiconfigurator import NAME, surveyed
from ..readers.files import find_files
from ..readers.parts import FOUND, PARTS, Totals, read_parts
from ..readers.reading import TracesAloneError, sort_files
from ..remarks import remark
from ..settings import configured, spelt_out
from ..staging import temporary_folder
from ..table.conditions import MeasuredReading, Where, conditions
from ..table.measurements import in_order
from ..traces.summary import Overview, overview
from ..values import Size
from ..workers import workers
from .devices import stated_defaults
from .ingested import Ingested, ingested
from .tables import paths_of

if TYPE_CHECKING:
    from distributed import Client


COUNTED = remark(
    "rows-counted",
    "rows are counted, not held against their devices: choose some with where, such as op=gemm "
    "and engine=vllm, "
    "or write them all to a folder in parts",
)
# what a folder holds that measurements are written to
FILES = (
    "measurements.parquet",
    FOUND,
    "ingest.html",
)


def check_place_of_table(out: Path, *, dispatches: bool = False, parts: bool = False) -> None:
    """Refuse a place that cannot be written: a table's file, or without a suffix a folder (`FILES`, or of parts).

    Raises DataError: as for `output.check_table` and `output.check_output`.
    """
    if parts:
        check_output(out, (PARTS, *FILES[1:]))
    elif out.suffix or dispatches:
        check_table(out)
    else:
        check_output(out, FILES)


@spelt_out
@configured
def ingest(
    *data: str | Path | Sequence[str | Path],
    out: str | Path | None = None,
    overwrite: bool = False,
    dispatches: bool = False,
    parts: bool = False,
    each: bool = False,
    channels: bool = False,
    max_size: Size | None = None,
    strict: bool = False,
    jobs: int = -1,
    cluster: str | Client | None = None,
    made: Mapping[str, Any] | None = None,
    **reading: Unpack[MeasuredReading],
) -> Ingested:
    """Read profilers' and tuners' files into one table, and check their quality.

    Parameters
    ----------
    *data : path or sequence of path
        Files and folders of any supported formats.
    out : path, optional
        Parquet or CSV file to write the table to, or (without a suffix) a folder for the table,
        what was found as JSON and the page: measurements.parquet, ingest.json, ingest.html.
    overwrite : bool, default=False
        Whether ``out`` may replace files that flopcast did not write; never one that is read.
    dispatches : bool, default=False
        One row per GPU activity, not per shape. Traces are read one after the other in bounded
        memory.
    parts : bool, default=False
        To a folder, a part per file: memory does not grow. Each source has a Parquet file, written
        as it is read. Repeats are merged when it is read, by `train` for
        example; a trace's own always are.
    where : mapping, or sequence of str, optional
        As for `read`: which measurements.
    unit, default, rename : mapping of str to str, optional
        As for `read`.
    each : bool, default=False
        As for `read`.
    keep : collection of str
        As for `read`.
    channels : bool, default=False
        Keep every channel of per-channel counters.
    max_size : int or str, optional
        Limit of a decompressed file: 512M, of a binary trace or JSON 4G.
    strict : bool, default=False
        Refuse unreadable files and impossible times. Nothing is written where a file is unreadable
        or has a finding of severity error.
    jobs : int, default=-1
        Processes; -1: one per core.
    cluster : str or distributed.Client, optional
        Scheduler of a Dask cluster, or a client of one, whose workers read the files instead; they
        must find them at the same paths. Needs ``flopcast[cluster]``.
    made : mapping, optional
        What the page says at its end of where it comes from (`report.document.footer`).

    Returns
    -------
    Ingested

    Raises
    ------
    DataError
        Nothing can be read, ``out`` cannot be written, or ``strict`` refuses.

    Examples
    --------
    >>> import flopcast as fc
    >>> from flopcast.datasets import default_paths
    >>> fc.ingest(default_paths(), jobs=1).rows
    28300
    """
    where = reading.get("where")
    conditions(where)
    paths = paths_of(data)
    place = None
    if out is not None:
        place = Path(out)
    if parts and (place is None or where or dispatches):
        raise ParameterError(
            "parts", "writes all measurements to the folder `out`: choose rows when it is read"
        )
    if dispatches and where:
        raise ParameterError(
            "where", "chooses rows of the measurement table: leave it out for dispatches"
        )
    stated: dict[str, Any] = {
        "each": each,
        "keep": reading.get("keep", ()),
        "channels": channels,
        "max_bytes": values.size("max_size", max_size),
    }
    options = Options(
        values.assigned("unit", reading.get("unit")),
        stated_defaults(reading.get("default")),
        renames=values.assigned("rename", reading.get("rename")),
        **stated,
    )
    check_jobs(jobs)
    with replacing(overwrite=overwrite, reads=paths), workers(jobs, cluster):
        if place is not None:
            check_place_of_table(place, dispatches=dispatches, parts=parts)
        if dispatches:
            return ingest_dispatches(paths, place, options=options, strict=strict)
        if parts and place is not None:
            return ingest_parts(paths, place, options=options, strict=strict, made=made)
        if (
            place is None
            and not (strict or any(reading.values()))
            and (survey := ingest_survey(paths, options))
        ):
            return survey
        return ingest_measurements(
            paths, place, where=where, options=options, strict=strict, made=made
        )


def ingest_survey(paths: Sequence[Path], options: Options) -> Ingested | None:
    """Count the rows of AIConfigurator's tables by operator, device and engine; None where there are none.

    Twelve million rows take seconds and one table's memory, as none is made a row of the
    measurement table. What else is there (the wheel has a table of served runs) is read as
    `ingest_measurements` reads it.
    """
    kinds = sort_files(find_files(paths))
    counted_here = [source for source in kinds.sources if source.reader.name == NAME]
    others = []
    for one in kinds.sources:
        if one.reader.name != NAME:
            for file in (*one.files, *one.companions):
                others.append(file)
    if not counted_here:
        return None
    surveys = [*surveyed([source.files[0] for source in counted_here])]
    tables = [one for one in surveys if not isinstance(one, DataError)]
    problems = [str(one) for one in surveys if isinstance(one, DataError)] + [
        str(error) for _, error in kinds.unreadable
    ]
    skipped = tuple(file.label for file in kinds.skipped)
    notes = [COUNTED]
    if skipped:
        text = f"{counted(len(skipped), 'file')} of no supported format skipped: {few(skipped, 3)}"
        notes.append(remark("files-skipped", text, files=skipped))
    rows = sum(sum(one.rows.values()) for one in tables)
    if not others:
        return Ingested(rows, (), {}, notes, problems, tables=tables)
    measurements = read(others, options=options, lenient=True)
    return replace(
        ingested(measurements),
        rows=rows + len(measurements.frame),
        notes=(*notes, *measurements.notes),
        unreadable=[*problems, *measurements.unreadable],
        tables=tables,
    )


def ingest_measurements(
    paths: Sequence[Path],
    out: Path | None = None,
    *,
    where: Where = None,
    options: Options | None = None,
    strict: bool = False,
    made: Mapping[str, Any] | None = None,
) -> Ingested:
    """Read files into the measurement table: a row for each operator, shape and kernel on each device.

    Parameters are those of `ingest`; with ``strict`` nothing is written where a file is unreadable
    or has a finding of severity error. Raises DataError: nothing can be read, ``out`` cannot be
    written, or ``strict`` refuses.
    """
    try:
        measurements = read(paths, options=options or Options(), where=where, lenient=True)
    except TracesAloneError as error:
        if out is not None:
            raise
        measurements = error.measurements
    result = ingested(measurements)
    if strict:
        result.refuse_errors()
    table = pa.Table.from_pandas(in_order(measurements.frame), preserve_index=False)
    if out is not None and out.suffix:
        write_table(table, out, result.to_json())
    elif out is not None:
        with whole_folder(out) as folder:
            write_table(table, folder / FILES[0], result.to_json())
            (folder / FILES[1]).write_text(result.to_json(), encoding="utf-8")
            (folder / FILES[2]).write_text(result.report(made), encoding="utf-8")
    return result


def ingest_parts(
    paths: Sequence[Path],
    out: Path,
    *,
    options: Options,
    strict: bool,
    made: Mapping[str, Any] | None = None,
) -> Ingested:
    """Write the rows of each source to a separate file in the folder ``out``, as they are read.

    Parameters and errors are those of `ingest_measurements`.
    """
    totals = Totals()
    with whole_folder(out) as folder:
        (folder / PARTS).mkdir()
        for number, (label, part) in enumerate(read_parts(paths, options=options)):
            rows = totals.count(part)
            if rows is not None:
                table = pa.Table.from_pandas(in_order(rows), preserve_index=False)
                write_table(
                    table, folder / PARTS / f"{number:06}.parquet", dumps({"source": label})
                )
        if not totals.rows:
            raise DataError(
                "nothing readable: "
                f"{'; '.join(totals.unreadable[:5]) or 'no file of a known format'}"
            )
        result = Ingested(
            totals.rows,
            totals.traces,
            dict(totals.rejected),
            totals.notes(),
            totals.unreadable,
            above_peak=totals.above_peak,
            examples=totals.examples,
        )
        if strict:
            result.refuse_errors()
        content = {
            **result.to_dict(),
            PARTS: sorted(path.name for path in (folder / PARTS).iterdir()),
        }
        (folder / FILES[1]).write_text(dumps(content, missing=True), encoding="utf-8")
        (folder / FILES[2]).write_text(result.report(made), encoding="utf-8")
    return result


def ingest_dispatches(
    paths: Sequence[Path],
    out: Path | None = None,
    *,
    options: Options | None = None,
    strict: bool = False,
) -> Ingested:
    """Read traces into the dispatch table: a row for every activity of a GPU, trace by trace in bounded memory.

    As `ingest_measurements`; a DataError too where there is no trace among the files.
    """
    traces: list[Overview] = []
    unreadable: list[str] = []
    rows = 0
    with temporary_folder() as folder:
        parts: list[Path] = []
        for label, trace in read_traces(paths, options=options or Options()):
            if isinstance(trace, TraceFailure):
                unreadable.append(str(trace.error))
                continue
            traces.append(overview(trace, label))
            rows += len(trace.dispatches)
            if out is not None and len(trace.dispatches):
                parts.append(folder / f"{len(parts)}.parquet")
                pq.write_table(_arrow(trace.dispatches), parts[-1])
        result = Ingested(
            rows,
            traces,
            {},
            list(dict.fromkeys(chain.from_iterable(one.notes for one in traces))),
            unreadable,
        )
        if not traces:
            raise DataError(
                f"no trace can be read: {'; '.join(unreadable) or 'the files are tables'}"
            )
        if strict:
            result.refuse_errors()
        if out is not None:
            _join(parts, out, result)
    return result


def _arrow(table: pd.DataFrame) -> pa.Table:
    """Return a dispatch table with words as plain strings, as parts of one file must agree in their types."""
    words = {
        str(name): table[name].astype("str")
        for name in table
        if isinstance(table[name].dtype, pd.CategoricalDtype)
    }
    return pa.Table.from_pandas(table.assign(**words), preserve_index=False)


def _join(parts: Sequence[Path], out: Path, result: Ingested) -> None:
    """Write the parts as one file, one part in memory at a time; columns that a part lacks are empty there."""
    schemas = [pq.read_schema(part).remove_metadata() for part in parts]
    schema = pa.unify_schemas(schemas, promote_options="permissive")
    with whole_table(out, schema, result.to_json()) as writer:
        for table in map(pq.read_table, parts):
            columns = [
                table[name].cast(schema.field(name).type)
                if name in table.column_names
                else pa.nulls(len(table), schema.field(name).type)
                for name in schema.names
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
