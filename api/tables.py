"""Data of any kind a call takes: files, folders and tables in any mix, to the measurement table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import chain
from os import PathLike
from os.path import exists  # False of a name too long to be one, where that of Path raises
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

import numpy as np
import pandas as pd

from .. import readers, values
from ..datasets import default_paths
from ..errors import DataError, ParameterError, check_jobs
from ..hardware import GPU, Comparison, find, word_of
from ..operators.kinds.serving_run import SERVING, SPECULATION
from ..operators.operators import OPS, canonical_op, example_of, op_of
from ..readers.labels import UNKNOWN_DEVICE
from ..readers.tidy import ALIASES
from ..remarks import remark
from ..report.document import Document
from ..report.formats import counted
from ..report.notebook import framed
from ..report.result import Result
from ..sealing import check_no_run
from ..settings import configured, spelt_out
from ..table.conditions import MeasuredReading, Where, conditions, select
from ..table.measurements import REFUSED, REFUSED_DETAIL, examples, in_order, quantity
from ..table.physics import KEEP, SLIPPED
from ..traces.summary import trace_finding
from ..values import Assigned
from ..workers import workers
from ..workloads.serving import described, impossible
from .devices import stated_defaults
from .ingested import ingested

if TYPE_CHECKING:
    import plotly.graph_objects as go

Item: TypeAlias = str | PathLike[str] | pd.DataFrame | readers.Measurements
Data: TypeAlias = Item | Sequence[Item]
"""What names data: files and folders, tables with the columns of the measurement table, what `read` returned."""
SLIPS = 0.1  # share of rows in another unit than the others from which on nobody knows which of them are right
_OPTIONAL = {
    "family": "",
    "variant": "",
    "kernel": "",
    "group": "",
    "spread_us": "µs",
    "repeats": "",
    "energy_j": "J",
    "power_w": "W",
}


class Measurements(Result, readers.Measurements):
    """What was read: the usable rows, the rows kept out, and remarks; any call takes it for data.

    Attributes
    ----------
    frame : DataFrame
        The measurement table: usable rows, columns with their unit in the name.
    rejected : DataFrame
        Columns ``source`` (``file:line``), ``reason``, ``detail``: one row for each row kept out.
    notes : tuple of Remark
        Remarks on the reading: assumptions made, files skipped, repeats merged.
    traces : tuple of Overview
        What each profiler's trace among the files holds.
    unreadable : tuple of str
        Files left out because they cannot be read, and why.
    above_peak : DataFrame
        Rows faster than a peak of their device allows, the worst first, with their ``share`` of it;
        whether ``kept``.
    examples : DataFrame
        The first rejected rows of each reason, with their ``values``.
    irregular : DataFrame
        Spikes, and problems whose repeats disagree: ``source``, ``factor``, and ``beside`` what;
        all stay in the frame.
    files : tuple of FileRead
        The files that were read: ``name``, ``size`` in bytes, ``sha256``.

    Examples
    --------
    >>> import pandas as pd
    >>> import flopcast as fc
    >>> product = {"device": "MI300X", "op": "gemm", "dtype_a": "bf16", "m": 128, "n": 4096, "k": 7168}
    >>> data = fc.read(pd.DataFrame([product | {"duration_us": 150.0}, product | {"duration_us": 0.0}]))
    >>> len(data.frame), data.rejected["reason"].tolist()
    (1, ['zero-duration'])
    """

    heading = "What was read"

    @property
    def table(self) -> pd.DataFrame:
        """The measurement table: ``frame``."""
        return self.frame

    def document(self) -> Document:
        """Return what was read for readers, as `ingest` says it."""
        return ingested(self).document(counted(len(self.frame), "measurement"))

    def plot_efficiency(self, device: str | None = None) -> go.Figure:
        """Draw which share of its roofline each matrix product reaches, over m and the weight shape n × k.

        ``device`` is needed where several were measured. Raises DataError: there is no product of
        it, or several devices; UnknownGPUError: the catalogue has no figures of it.
        """
        names = self.frame["device"].unique()
        if device is None and len(names) > 1:
            raise ParameterError("device", f"must be one of {', '.join(map(str, names))}")
        from ..report.kernel_figures import efficiency_map  # here: it takes long to import

        return efficiency_map(self.frame, find(device or str(names[0])))

    def __repr__(self) -> str:
        if len(self.rejected):
            lost = f", {counted(len(self.rejected), 'row')} rejected"
        else:
            lost = ""
        return f"<Measurements: {counted(len(self.frame), 'row')}{lost}>"

    def _repr_html_(self) -> str:
        return framed(repr(self)[1:-1], in_order(self.frame), [*map(repr, self.notes)])


@spelt_out
@configured
def read(
    *data: Data,
    each: bool = False,
    jobs: int = 1,
    **reading: Unpack[MeasuredReading],
) -> Measurements:
    """Read measured files of any supported format into one measurement table.

    Parameters
    ----------
    *data : path, DataFrame or Measurements
        Files, folders and tables in any mix; the format is detected by content. None: the embedded
        measurements.
    where : mapping, or sequence of str, optional
        Keep these rows: op=gemm, dtype_a=bf16,fp8 or m=16..512; all conditions must hold. Texts as
        these; or a mapping of column -> value, list of values, or range ``(from, to)`` with both
        ends, None for an open one.
    unit : mapping of str to str, optional
        Unit of a column, or of the times of a file: time=ms, old.csv=ns. Needed where its name does
        not say it: a unit is never guessed.
    default : mapping of str to str, optional
        Value of a column the data lack, such as device=MI300X. What they say is never overridden. The
        value of ``device`` may be a `GPU`, and so may those of a column of a DataFrame.
    rename : mapping of str to str, optional
        A column of the data and what it is called here: M_size=m. Both ``unit`` and ``default`` take the
        name here.
    each : bool, default=False
        Every repeat is a row of its own; else repeats are one row, their median.
    keep : collection of str
        Keep rows that are faster than their device can be, or impossibly short. These are kept with
        ``("impossible",)``.
    jobs : int, default=1
        Processes that read traces; -1: one per core.

    Returns
    -------
    Measurements

    Raises
    ------
    DataError
        The data cannot be read, or no row is left.

    Examples
    --------
    >>> import flopcast as fc
    >>> fc.read(where={"device": "MI300X", "n": 4608, "m": (64, 128)}).frame["m"].unique().tolist()
    [64.0, 80.0, 96.0, 112.0, 128.0]
    """
    check_jobs(jobs)
    measurements = load_measurements(data or None, each=each, jobs=jobs, **reading)
    measurements = replace(measurements, frame=in_order(measurements.frame))
    return Measurements.from_fields(measurements)


@configured
def schema(op: str | None = None) -> pd.DataFrame:
    """Return the columns that describe a measurement of an operator, or of each.

    Parameters
    ----------
    op : str, optional
        Name of the operator, e.g. ``"gemm"``, or another of its names (``"aten::mm"``).

    Returns
    -------
    DataFrame
        One row per column of the measurement table, its name the index: ``unit`` ("" for a count or
        a word), ``required``, ``default`` where it may be left out, ``also``, the other names by
        which it is read, and ``example``, one of a row. Without ``op`` those of all operators, the
        operator the first level of the index.

    Raises
    ------
    DataError
        No operator has that name; says which come close.

    Examples
    --------
    >>> import flopcast as fc
    >>> table = fc.schema("conv")
    >>> table.index[table["required"]].tolist()[:4], table.loc["stride_h", "default"]
    (['device', 'op', 'dtype_a', 'duration_us'], 1.0)
    >>> fc.schema().loc[("gemm", "dtype_a"), "also"]
    'dtype, data_type, precision, torch_dtype, input_dtype'
    """
    if op is None:
        return pd.concat({name: schema(name) for name in OPS}, names=["op"])
    operator = op_of(canonical_op(op))
    rows: dict[str, tuple[str, bool, Any]] = {"device": ("", True, None), "op": ("", True, None)}
    rows["dtype_a"] = ("", operator.needs_dtype, None)
    rows["duration_us"] = (
        "µs",
        not operator.metrics,
        "as ttft_ms and tpot_ms say" if operator.metrics else None,
    )
    rows |= {name: (quantity(name).unit, False, None) for name in operator.metrics}
    for name in operator.dims:
        unit = ""
        if name.endswith("_bytes"):
            unit = "byte"
        default = operator.defaults.get(name)
        if isinstance(default, str) and default.startswith("="):
            stated = f"as {default[1:]}"
        else:
            stated = default
        rows[name] = (unit, name not in operator.defaults, stated)
    rows |= {
        "dtype_b": ("", False, "as dtype_a"),
        "dtype_out": ("", False, "as dtype_a, or bf16 of 8 bits and fewer"),
    }
    if operator.name == SERVING:
        rows[SPECULATION] = ("", False, "none, or mtp")
    rows |= {name: (unit, False, None) for name, unit in _OPTIONAL.items() if name not in rows}
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["unit", "required", "default"])
    also = {name: ", ".join(ALIASES.get(name, ())) for name in table.index}
    example = pd.Series(example_of(operator), dtype=object).reindex(table.index)
    return table.assign(
        also=pd.Series(also), example=example.where(example.notna(), None)
    ).rename_axis("column")


def template(op: str | None = None) -> pd.DataFrame:
    """Return a table to fill in: the columns of an operator, or of all, and a row of example for each.

    >>> template("softmax").iloc[0].dropna().to_dict()
    {'device': 'MI300X', 'op': 'softmax', 'dtype_a': 'bf16', 'duration_us': 150, 'rows': 4096, 'cols': 8192}
    """
    rows = [schema(name)["example"] for name in (OPS if op is None else [op])]
    return pd.DataFrame([row.to_dict() for row in rows]).convert_dtypes()


def items(data: Any, name: str = "data") -> list[Path | pd.DataFrame | readers.Measurements]:
    """Return what data consist of, one by one; nothing for None.

    Raises ParameterError: something is neither a path, a table nor what `read` returned; DataError:
    there is no file or folder of a name.
    """
    if data is None:
        return []
    if isinstance(data, str | PathLike):
        if data == "":
            raise ParameterError(
                name, "has an empty name, which would be the working folder: say '.' for that"
            )
        if not exists(data):
            raise DataError("no such file or folder", source=str(data))
        if Path(data).is_dir():
            check_no_run(Path(data))
        return [Path(data)]
    if isinstance(data, pd.DataFrame):
        return [_with_words(data)]
    if isinstance(data, readers.Measurements):
        return [data]
    if isinstance(data, Sequence) and not isinstance(data, bytes):
        result = []
        for one in data:
            result.extend(items(one, name))
        return result
    kinds = "a path, a DataFrame, what read() returned, or a list of these"
    raise ParameterError(name, f"must be {kinds}, got {type(data).__name__}")


def _with_words(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the name of each GPU in place of the GPU; the same table where it holds none."""
    worded = {}
    for name, column in frame.items():
        if column.dtype != object or pd.api.types.infer_dtype(column) == "string":
            continue
        if any(isinstance(cell, GPU) for cell in column.tolist()):
            worded[name] = column.map(word_of)
    if not worded:
        return frame
    frame = frame.copy()
    for name, column in worded.items():
        frame[name] = column
    return frame


def items_or_embedded(
    data: Data | Sequence[Data] | None,
) -> list[Path | pd.DataFrame | readers.Measurements]:
    """Return what data consist of, for None the measurements that flopcast has.

    Raises what `items` does, and ParameterError for an empty list, which a pattern gives that no
    file has.
    """
    if data is None:
        return [*default_paths()]
    given = items(data)
    if not given:
        raise ParameterError(
            "data", "is an empty list: leave it out for the measurements that flopcast has"
        )
    return given


def paths_among(given: Sequence[object]) -> list[Path]:
    """Return the files and folders of what data consist of."""
    return [item for item in given if isinstance(item, Path)]


def paths_of(data: Any, name: str = "data") -> list[Path]:
    """Return files and folders one by one. Raises what `items` does, and ParameterError: none, or something else."""
    sources = items(data, name)
    if not sources:
        raise ParameterError(name, "is missing: give files or folders")
    paths = paths_among(sources)
    if len(paths) < len(sources):
        raise ParameterError(name, "must be files or folders, got a table")
    return paths


def load_measurements(
    data: Data | Sequence[Data] | None,
    where: Where = None,
    *,
    unit: Assigned | None = None,
    default: Assigned | None = None,
    rename: Assigned | None = None,
    devices: Sequence[str] = (),
    each: bool = False,
    keep: Collection[str] = (),
    jobs: int = 1,
    only: Sequence[str] = (),
    timed: bool = True,
) -> readers.Measurements:
    """Read data (None: the embedded measurements) and keep the rows asked for, as `read`.

    Measurements alone are taken as they are; in a mix repeats are merged anew. No remark calls
    ``devices`` unknown that the user described; readers may leave out rows of others than those in
    ``only``, if any are named. Where rows are not ``timed``, they need no duration. Raises
    DataError: a file cannot be read, or no row is left.
    """
    conditions(where)  # refused before anything is read
    given = items_or_embedded(data)
    if len(given) == 1 and isinstance(given[0], readers.Measurements):
        return replace(given[0], frame=select(given[0].frame, where))
    before = [one for one in given if isinstance(one, readers.Measurements)]
    tables = [one.frame if isinstance(one, readers.Measurements) else one for one in given]
    stated = (values.assigned("unit", unit), stated_defaults(default))
    asked = only
    if any(map(Comparison.means_all, only)):
        asked = ()
    options = readers.Options(
        *stated,
        timed,
        each=each,
        keep=keep,
        renames=values.assigned("rename", rename),
        devices=asked,
    )
    paths = paths_among(tables)
    folders = [path for path in paths if path.is_dir()]
    with workers(jobs):
        if len(paths) == len(tables) and any(map(readers.is_dataset, folders)):
            measurements = readers.read_dataset(paths, options=options, where=where)
        else:
            measurements = readers.read(tables, options=options, where=where)
    measurements = _with_models(measurements, keep)
    every = (*before, measurements)
    notes = dict.fromkeys(chain.from_iterable(one.notes for one in every))
    described = [
        note for note in notes if note.code == UNKNOWN_DEVICE and note.values["device"] in devices
    ]
    traces = tuple(chain.from_iterable(one.traces for one in every))
    unreadable = tuple(chain.from_iterable(one.unreadable for one in every))
    doubts = []
    for trace in traces:
        for finding in trace.findings:
            if finding.severity != "info":
                doubts.append(trace_finding(trace.label, finding))
    missing = (
        remark("file-unreadable", f"left out, unreadable: {one}", problem=one) for one in unreadable
    )
    files_read = []
    for part in every:
        files_read.extend(part.files)
    return replace(
        measurements,
        rejected=pd.concat([one.rejected for one in every], ignore_index=True),
        notes=(*(note for note in notes if note not in described), *doubts, *missing),
        traces=traces,
        unreadable=unreadable,
        files=tuple(dict.fromkeys(files_read)),
        above_peak=pd.concat([one.above_peak for one in every], ignore_index=True),
        irregular=pd.concat([one.irregular for one in every], ignore_index=True).drop_duplicates(
            ignore_index=True
        ),
    )


def _with_models(measurements: readers.Measurements, keep: Collection[str]) -> readers.Measurements:
    """Return runs of serving with the figures of their models; rows of unknown models, and impossible ones, apart."""
    if not measurements.frame["op"].eq(SERVING).any():
        return measurements
    frame, why = described(measurements.frame)
    reason = np.where(why != "", "unknown-model", "")
    if KEEP not in keep:
        fast = impossible(frame)
    else:
        fast = np.full(len(frame), "", dtype=object)
    above = (fast != "") & (reason == "")
    reason[above] = "above-peak"
    detail = np.where(above, fast, why)
    lost = reason != ""
    apart = {"source": frame["source"][lost], "reason": reason[lost], "detail": detail[lost]}
    rejected = pd.DataFrame(apart, dtype="str").reset_index(drop=True)
    return replace(
        measurements,
        frame=frame[~lost].reset_index(drop=True),
        rejected=pd.concat([measurements.rejected, rejected], ignore_index=True),
        examples=pd.concat(
            [measurements.examples, examples(rejected, frame[lost].reset_index(drop=True))]
        ),
    )


def refuse_unknown_models(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows to predict with the figures of the models they serve, those of unknown models refused."""
    rows, why = described(rows)
    new = (why != "") & rows[REFUSED].eq("").to_numpy()
    if not new.any():
        return rows
    return rows.assign(
        **{
            REFUSED: np.where(new, "unknown-model", rows[REFUSED]),
            REFUSED_DETAIL: np.where(new, why, rows[REFUSED_DETAIL]),
        }
    )


def check_devices(measured: readers.Measurements, names: Sequence[str]) -> None:
    """Refuse data of which some, or all those of a device, are in another unit.

    Raises DataError: no row of a device is left, for their times are in another unit, or over
    `SLIPS` of all rows lie a thousand times off the others. It names the device, and what was said
    of the unit of its file.
    """
    for name in names:
        if not measured.frame["device"].eq(name).any():
            for note in measured.notes:
                if note.code in ("other-unit", SLIPPED) and note.values.get("device", name) == name:
                    raise DataError(f"no row of {name} is left: {note!r}")
    slipped = int(measured.rejected["reason"].eq(SLIPPED).sum())
    share = slipped / (slipped + len(measured.frame))
    for note in measured.notes:
        if note.code == SLIPPED and share > SLIPS:
            raise DataError(
                f"{100 * share:.0f} % of the rows are in another unit than the others: {note!r}"
            )
