"""Rows the user lists in a file, and functions of the user's own."""

from __future__ import annotations

import importlib
import inspect
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from ..errors import DataError, ParameterError, one_line
from ..operators.operands import word
from ..operators.operators import op_of
from ..readers.base import of_rows
from ..readers.files import content, csv_header, decimal_commas, head, with_points
from ..readers.reading import read_rows
from ..readers.tidy import ALIASES
from ..remarks import Remark, remark
from ..table.measurements import REFUSED, REFUSED_DETAIL
from .backend import Backend
from .results import MEASURED
from .rows import WORDS, Row, operators
from .timing import Call

_TAKEN = frozenset({*MEASURED, "device", "seed", "kernel", "family", "cache", "tuned", "source"})
"""Columns of the measurement table that are no parameters of a function."""
_CANONICAL = {other: name for name, others in ALIASES.items() for other in others}


@dataclass(frozen=True)
class Listed:
    """What a file lists."""

    rows: list[Row]  # what can be measured, each once
    refused: list[dict[str, str]]  # `source`, `reason`, `detail` of each row that cannot
    notes: tuple[Remark, ...]  # what was assumed on reading, and how many rows repeat others


def read_shapes(path: Path, families: Sequence[str] | None = None, function: UserFunction | None = None) -> Listed:
    """Read a list of rows to measure: a table like that of measurements, without a duration or device.

    CSV or Parquet with ``op``, ``dtype_a`` (fp32 where nothing tells) and the dimensions of each operator. `families`
    are the kernels to keep (see `rows.FAMILIES`). Where a function is called with the rows, they keep the other columns
    that it has parameters for.

    Raises
    ------
    DataError
        The file cannot be read or no row can be used; the message names the first reason.
    """
    frame, notes = read_rows([path], timed=False)
    given = _columns(path)
    if function is not None:
        frame, commas = _with_points(frame, function.wanted(sorted(map(str, frame))), str(path))
        notes = (*notes, *commas)
    chosen = operators(families) if families else None
    rows, refused = list[Row](), []
    known, repeated = set[tuple[tuple[str, Any], ...]](), 0
    for cells in frame.to_dict("records"):
        if cells[REFUSED]:
            refused.append({"source": cells["source"], "reason": cells[REFUSED], "detail": cells[REFUSED_DETAIL]})
        elif chosen is None or cells["op"] in chosen:
            named = {str(name): cell for name, cell in cells.items()}
            row = _row(named, given)
            row |= {} if function is None else _parameters(named, given - set(row), function)
            key = tuple(sorted(row.items()))
            if key in known:
                repeated += 1
            else:
                known.add(key)
                rows.append(row)
    if not rows:
        raise DataError(f"no row is one of {', '.join(families or ())}: choose other kernels", source=str(path))
    was = "1 row that repeats another is" if repeated == 1 else f"{repeated} rows that repeat others are"
    text = f"{path.name}: {was} measured once"
    once = (remark("measured-once", text, file=path.name, rows=repeated),) if repeated else ()
    return Listed(rows, refused, (*notes, *once))


def _with_points(frame: pd.DataFrame, names: Sequence[str], source: str) -> tuple[pd.DataFrame, list[Remark]]:
    """Return the table with the numbers for decimal commas in the columns of a function, and a remark on them.

    Those of the measurement table were read so already.
    """
    frame, read = with_points(frame, names, source)
    numbers = {name: pd.to_numeric(frame[name], errors="coerce") for name in read}
    frame = frame.assign(**{name: numbers[name].where(numbers[name].notna(), frame[name]) for name in read})
    return frame, [of_rows(decimal_commas(read), len(frame), (source,))] if read else []


def _columns(path: Path) -> set[str]:
    """Return the columns of a table that was read before, in lower case."""
    beginning = head(path)
    parquet = beginning.startswith(b"PAR1")
    names = pq.read_schema(io.BytesIO(content(path))).names if parquet else csv_header(beginning)
    return {str(name).strip().lower() for name in names}


def _row(cells: Mapping[str, Any], given: set[str]) -> Row:
    """Return what the file states of a row, and the formats that its call reads and writes."""
    op = op_of(cells["op"])
    names = dict.fromkeys((*WORDS, *op.dims))
    row = {name: _plain(name, cells[name]) for name in names if name in cells and word(cells, name)}
    for name in ("dtype_b", "dtype_out"):
        if name not in given:
            row.pop(name, None)
    for name, dtype in op.measured.formats(row["dtype_a"]).items() if op.measured else ():
        row.setdefault(name, dtype)
    return row


def _parameters(cells: Mapping[str, Any], given: set[str], function: UserFunction) -> Row:
    """Return the cells of the file's other columns that the function has parameters for."""
    taken = {}
    for name in function.wanted(sorted({*(cell for cell in cells if cell.lower() in given), *given})):
        column = name if name in cells else _CANONICAL.get(name, name)
        if word(cells, column):
            taken[name] = _plain(column, cells[column])
    return taken


def _plain(name: str, value: Any) -> Any:
    if name == "causal":
        return bool(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


class UserFunction:
    """A function of the user, ``module:function``.

    It is called with those of the row's cells that it has parameters for: dimensions, number formats, ``op``,
    ``variant``, and any other column of the list, unless the measurement table has one of that name; and with
    ``device`` and ``seed`` if it has these. If it returns something that can be called, that is timed, and what came
    before is preparation; else the function itself is timed.

    Raises
    ------
    DataError
        There is no such module or function, importing it fails, or what it takes cannot be told.
    """

    def __init__(self, name: str) -> None:
        module, colon, attribute = name.partition(":")
        if not colon or not module or not attribute:
            raise ParameterError("function", f"must be module:function, got {name!r}: write e.g. mykernels:gemm")
        self.name, self._function = name, _imported(module, attribute)
        try:
            self._parameters = inspect.signature(self._function).parameters
        except ValueError as error:
            problem = f"{name} is built in and does not tell its parameters: name a function of yours calling it"
            raise ParameterError("function", problem) from error

    def wanted(self, names: Sequence[str]) -> list[str]:
        """Return those of the columns that it has parameters for."""
        free = [name for name in names if name not in _TAKEN]
        return [name for name in free if name in self._parameters or (self._takes_all and name not in _CANONICAL)]

    @property
    def _takes_all(self) -> bool:
        return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in self._parameters.values())

    def row(self) -> Row:
        """Return the row of a call without dimensions; what it has to do is unknown."""
        return {"op": "kernel", "variant": self.name}

    def build(self, backend: Backend, seed: int, row: Row) -> Call:
        """Return the call to time.

        Raises
        ------
        DataError
            The function needs an argument that the row does not have.
        """
        known = {**row, "device": backend.word, "seed": seed}
        arguments = {n: v for n, v in known.items() if n in self._parameters or (self._takes_all and n in row)}
        lacking = [
            name
            for name, p in self._parameters.items()
            if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) and name not in arguments
        ]
        if lacking:
            taken = (
                "; names of the measurement table's own columns do not count" if _TAKEN.intersection(lacking) else ""
            )
            raise DataError(
                f"{self.name} needs {', '.join(lacking)}, which the row does not have: add the columns{taken}"
            )
        call = partial(self._function, **arguments)
        prepared = call()
        return prepared if callable(prepared) else call


def _imported(module: str, attribute: str) -> Callable[..., Any]:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does: the user's module lies in the current folder
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        problem = f"needs a module {error.name!r}, which is not there (looked in {here} too)"
        raise ParameterError("function", problem) from error
    except (Exception, SystemExit) as error:  # a module may raise anything, and a script may end itself
        raise ParameterError("function", f"cannot be had: importing {module!r} fails: {one_line(error)}") from error
    function = getattr(imported, attribute, None)
    if function is None:
        raise ParameterError("function", f"must exist: module {module!r} has no {attribute!r}")
    if not callable(function):
        raise ParameterError("function", f"must be one that can be called, got {module}:{attribute}")
    return function
