"""What formats share whose rows are read one by one: a dict of columns for each, with its line."""

from __future__ import annotations

import csv
import json
import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from ..errors import DataError
from ..table.measurements import DEFECT, DEFECT_DETAIL
from .base import Note, Options, RawTable, Reader
from .files import campaign_of
from .throughputs import FLOPS_A_MICROSECOND

Row = dict[str, Any]


class Records(Reader):
    """A format whose rows are made one by one.

    Attributes
    ----------
    nothing : str
        What is wrong with a file that has no row.
    """

    nothing: ClassVar[str]

    @abstractmethod
    def rows(self, path: Path, options: Options) -> Iterator[Row]:
        """Yield the columns of each row, its line among them; what refuses it is `refused`."""

    def notes(self, rows: pd.DataFrame) -> Sequence[Note]:
        """Return the remarks on the rows of a file."""
        return ()

    def read(self, path: Path, options: Options) -> RawTable:
        """Return the rows."""
        rows = pd.DataFrame(list(self.rows(path, options)))
        if rows.empty:
            raise DataError(self.nothing, source=str(path))
        for name in (DEFECT, DEFECT_DETAIL):
            if name in rows:
                rows[name] = rows[name].fillna("")
            else:
                rows[name] = ""
        return RawTable(rows.assign(campaign=campaign_of(path)), self.notes(rows))


def refused(reason: str, detail: str) -> Row:
    """Return the columns of a row that is refused."""
    return {DEFECT: reason, DEFECT_DETAIL: detail}


def number(value: object) -> float | None:
    """Return a finite number, None for anything else.

    >>> number("64"), number("inf"), number(None)
    (64.0, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        parsed = float(value)
    except (ValueError, OverflowError):
        return None
    if math.isfinite(parsed):
        return parsed
    return None


def scaled(value: object, factor: float) -> float | None:
    """Return a number in another unit.

    >>> scaled("1.5", 1000.0), scaled("", 1000.0)
    (1500.0, None)
    """
    parsed = number(value)
    if parsed is None:
        return None
    return parsed * factor


def contradiction(what: str, stated: float | None, derived: float | None) -> Row:
    """Return the defect of a run whose figures contradict each other by over 5 %, else nothing.

    >>> contradiction("output tokens/s", 100.0, 103.0), contradiction("output tokens/s", 100.0, None)
    ({}, {})
    """
    if stated is None or derived is None:
        return {}
    rounding = 0.006  # clients print two decimals
    if abs(stated - derived) <= 0.05 * max(abs(stated), abs(derived)) + rounding:
        return {}
    return refused("figures-contradict", f"{what}: {stated:g} stated, {derived:g} by the others")


def product(row: Row, unit: str, rate: object = None) -> Row:
    """Return the row of a product of ``m``, ``n``, ``k`` and ``batch``, refused where its rate contradicts them.

    The ``rate`` is in ``unit``, "TFLOP/s" or "GFLOP/s".
    """
    m, n, k = (number(row.get(name)) for name in ("m", "n", "k"))
    batch = number(row.pop("batch", None)) or 1.0
    time = row["duration_us"]
    row |= {
        "op": "gemm",
        "m": m,
        "n": n,
        "k": k,
    }
    if batch > 1:
        row |= {"op": "batched_gemm", "batch": batch}
    if time and m is not None and n is not None and k is not None:
        derived = 2 * batch * m * n * k / time / FLOPS_A_MICROSECOND[unit[0]]
        row |= contradiction(unit, number(rate), derived)
    return row


def json_records(words: str, source: str) -> Iterator[tuple[int, Any]]:
    """Yield the line and content of each record: of one JSON value, of a list, or of one a line."""
    try:
        document = json.loads(words)
    except RecursionError:
        raise DataError("is nested too deeply", source=source) from None
    except ValueError:
        for line_number, line in enumerate(words.split("\n"), start=1):
            if line.strip():
                try:
                    yield line_number, json.loads(line)
                except (ValueError, RecursionError):
                    yield line_number, line
        return
    if not isinstance(document, list):
        document = [document]
    yield from enumerate(document, start=1)


def csv_records(words: str, source: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line of each row of CSV, and its values by the names in the header; a DataError if it is damaged."""
    lines = csv.DictReader(words.splitlines(), skipinitialspace=True)
    try:
        for record in lines:
            yield lines.line_num, record
    except csv.Error as error:
        raise DataError(f"is no table of CSV ({error})", source=source) from None
