"""Predictions of a run: their columns, their files, what there is to say of them as a whole, and that as a document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ..operators.operators import OPS
from ..output import PREDICTION_FORMATS, check_file, printable_json, whole_file, write_csv
from ..table.measurements import DTYPE_COLUMNS, prediction_columns
from .document import Column, Document, Fact, Facts, Lines, Row, Table, columns, lines, remarked
from .formats import figure, share
from .training import left_out, metric, title
from .words.prediction import BASES

SCHEMA = 1
"""Version of the JSON that predictions are written as."""
SHOWN = 10
"""Rows of the table on the terminal."""
_CAUSES, _WORKLOAD = 5, 48  # causes named; columns of text for a workload

_DIMENSIONS = tuple(dict.fromkeys(name for op in OPS.values() for name in op.dims))
_ALWAYS = ("op", "dtype_a", "source")

Report = Mapping[str, Any]


def identifying(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the columns that say which workload a row is, those without any value left out.

    The rows are as `readers.read_rows` returns them. Operator, family and variant, number formats, dimensions (whole
    numbers), kernel, device, group, campaign and source; the measured time and metric go along.
    """
    names = ("op", "family", "variant", *DTYPE_COLUMNS, *_DIMENSIONS, "kernel", "device", "group", "campaign", "source")
    wanted = dict.fromkeys((*names, "duration_us", metric))
    columns = {name: _plain(rows[name]) for name in wanted if name in rows}
    kept = {name: values for name, values in columns.items() if name in _ALWAYS or _has_values(values)}
    return pd.DataFrame(kept, index=rows.index)


def report_of(frame: pd.DataFrame, first: pd.Series, facts: Report, notes: Sequence[str]) -> dict[str, Any]:
    """Return what the terminal and the JSON say of predictions as a whole.

    `first` is the first way in which each row is unlike training, or why it has no prediction, in words without figures
    (`words.prediction.cause`; "" where there is none); `facts`, what is known of the model and the data, go along as
    they are; `notes` are remarks for the user.
    """
    predicted, lower, upper = (frame[name] for name in prediction_columns(facts["metric"]).values())
    done = predicted.notna()
    width = (upper - lower) / predicted
    return {
        "schema": SCHEMA,
        **facts,
        "n": len(frame),
        "predicted": int(done.sum()),
        "not_predicted": causes(first[~done]),
        "extrapolated": int(frame["extrapolated"].sum()),
        "basis": {str(basis): int(count) for basis, count in frame["basis"].value_counts().items() if basis},
        "causes": causes(first[frame["extrapolated"]]),
        "median_predicted": _median(predicted),
        "median_relative_width": _median(width),
        "notes": list(notes),
    }


def causes(first: pd.Series) -> dict[str, int]:
    """Return how many rows have each first (worst) reason, figures left out, the most frequent first."""
    return {str(words): int(count) for words, count in first.value_counts().items()}


def write_file(frame: pd.DataFrame, report: Report, out: Path) -> None:
    """Write predictions in the format of the suffix, whole or not at all; an earlier file is replaced.

    Raises
    ------
    DataError
        `output.check_file` refuses ``out``, or it cannot be written.
    """
    check_file(out, PREDICTION_FORMATS)
    with whole_file(out) as path:
        if out.suffix.lower() == ".csv":
            write_csv(pa.Table.from_pandas(frame, preserve_index=False), path)
        elif out.suffix.lower() == ".parquet":
            frame.to_parquet(path, index=False, compression="zstd")
        else:
            path.write_text(to_json(frame, report), encoding="utf-8")


def to_json(frame: pd.DataFrame, report: Report) -> str:
    """Return the report and, under ``rows``, one object per row on a line of its own; null where there is no number."""
    head = json.dumps(_finite(dict(report)), ensure_ascii=False, allow_nan=False)
    columns = [_values(frame[name]) for name in frame]
    names = [str(name) for name in frame]
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    rows = ",\n".join(encode(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True))
    return printable_json(f'{head[:-1]}, "rows": [\n{rows}\n]}}\n')


def predictions_document(frame: pd.DataFrame, report: Report, *, whole: bool = False) -> Document:
    """Return the summary and the first rows, for terminals; what `report_of` says of them is `report`.

    Unless the `whole` is written elsewhere, a terminal says how to write all rows.
    """
    middle = f"median {figure(report['median_predicted'])} ({metric(report)})"
    width = report["median_relative_width"]
    spread = f"{100 * report['level']:g} % intervals for {left_out(report['scheme'])}: " + (
        "no bound known at this level" if width is None else f"median width {share(width)}"
    )
    more = f"First {SHOWN} of {len(frame):,} rows: --out FILE.csv writes them all"
    return Document(
        title=f"{title(report)}: {metric(report)}, by {report['model']}",
        opening=[
            Facts(tuple(_counts(report))),
            lines([f"{middle}, {spread}"]),
            Lines(remarked(report["notes"])),
            first_rows(frame, report),
        ],
        closing=[lines([] if whole or len(frame) <= SHOWN else [more])],
        data=report,
    )


def first_rows(frame: pd.DataFrame, report: Report) -> Table:
    """Return the first rows: the workload, what the host measured, the prediction and its interval."""
    measured = report["metric"] if report["host"] is not None and report["metric"] in frame else None
    figures = (*([measured] if measured else []), *prediction_columns(report["metric"]).values())
    found = [
        Row(
            (_workload(row), *(figure(row[name]) for name in figures), row["reason"]),
            "warning" if row["reason"] else "",
        )
        for row in frame.head(SHOWN).to_dict("records")
    ]
    numbers = ([str(report["host"])] if measured else []) + ["predicted", "lower", "upper"]
    heads = (Column("workload", "cut", most=_WORKLOAD), *columns(numbers=numbers))
    return Table((*heads, Column("unlike training, or not predicted", "cut")), found)


def _counts(report: Report) -> Iterator[Fact]:
    """Yield how many rows were predicted, and why others were not or are unlike training."""
    yield Fact(f"{report['predicted']:,}", f"of {report['n']:,} workloads predicted")
    for reason, count in report["not_predicted"].items():
        yield Fact(f"{count:,}", f"not predicted: {reason}", "warning")
    for device, count in report["other_devices"].items():
        host = report["host"]
        yield Fact(f"{count:,}", f"rows of {device} left out: this run predicts from what {host} measured", "soft")
    yield Fact(f"{report['extrapolated']:,}", "unlike anything in training (column `extrapolated`)")
    for basis, words in BASES.items():
        if count := report["basis"].get(basis):
            yield Fact(f"{count:,}", words)
    named = list(report["causes"].items())
    others = sum(count for _, count in named[_CAUSES:])
    for why, count in [*named[:_CAUSES], *([("other reasons", others)] if others else [])]:
        yield Fact(f"{count:,}", f"– {why}", "warning")


def _workload(row: Mapping[Any, Any]) -> str:
    """Return operator, format and the dimensions that are not at their default."""
    op = OPS.get(str(row["op"]))
    defaults = op.defaults if op else {}
    sizes = [
        f"{name}={row[name]}"
        for name in (op.dims if op else ())
        if name in row and not pd.isna(row[name]) and row[name] not in ("", defaults.get(name))
    ]
    return " ".join([str(row["op"]) or "?", str(row["dtype_a"]) or "?", *sizes])


def _plain(column: pd.Series) -> pd.Series:
    """Return whole numbers as such."""
    if not pd.api.types.is_float_dtype(column):
        return column
    known = column.dropna()
    return column.astype("Int64") if len(known) and (known % 1 == 0).all() and known.abs().max() < 2**53 else column


def _has_values(column: pd.Series) -> bool:
    return bool((column.notna() & column.ne("")).any())


def _median(values: pd.Series) -> float | None:
    middle = float(values.dropna().median())
    return middle if np.isfinite(middle) else None


def _values(column: pd.Series) -> list[Any]:
    """Return a column as JSON holds it."""
    if pd.api.types.is_float_dtype(column):
        finite = np.isfinite(column.to_numpy(dtype=float, na_value=np.nan))
        return column.astype(object).where(finite, None).tolist()
    return column.astype(object).where(column.notna(), None).tolist()


def _finite(value: Any) -> Any:
    """Return JSON values with null in place of what is no number."""
    if isinstance(value, Mapping):
        return {str(key): _finite(entry) for key, entry in value.items()}
    return None if isinstance(value, float) and not np.isfinite(value) else value
