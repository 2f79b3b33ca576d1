"""Rows to measure: default grids of kernels over the sizes of today's models, for a GPU or a CPU, or those of a list.

A row has the columns of the measurement table before it is measured: operator, number formats,
dimensions. Of the grids ``full`` has every row; ``small`` the smallest, the middle and the largest
of each operator, variant and number format; ``fingrav`` the kernels whose power was published
(Singhania, Aga and Ibrahim, ISPASS 2025): products by a matrix and by a vector of three sizes, two
collectives bound by latency and by bandwidth. The sizes for a CPU are those of small models, so
spread that every operator is bound by launches, by memory and by computing on two cores.
`read_shapes` reads a list of the user, `UserFunction` calls a function of the user.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import os
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import DataError, ParameterError, few, one_line
from ..operators.op import word
from ..operators.operators import DIMENSIONS, OPS, op_of, work_of
from ..readers.base import PARQUET, of_rows
from ..readers.files import csv_header, decimal_commas, head, parquet_columns, with_points
from ..readers.reading import read_rows
from ..readers.tidy import ALIASES
from ..remarks import Remark, remark
from ..table.measurements import DTYPE_COLUMNS, REFUSED, REFUSED_DETAIL
from .backend import Backend
from .machine import STATE
from .timing import Call

Row = dict[str, Any]
# cells of a row that are words, whatever its operator
WORDS = (
    "op",
    "variant",
    "layout",
    *DTYPE_COLUMNS,
)
_FIRST = (
    "op",
    "variant",
    "dtype_a",
    "dtype_b",
    "dtype_out",
    "scale_block",
    "direction",
    "layout",
    "batch",
)
SUITES = ("small", "full", "fingrav")
_BY_FAMILY = [(op.measured.family or name, name) for name, op in OPS.items() if op.measured]
FAMILIES: dict[str, tuple[str, ...]] = {
    **{
        family: tuple(name for one, name in _BY_FAMILY if one == family) for family, _ in _BY_FAMILY
    },
    "collective": ("collective",),
}
"""Names of kernels that can be chosen, and the operators each stands for."""
_SUITES: dict[str, Any] = tomllib.loads(
    resources.files("flopcast.measuring").joinpath("suites.toml").read_text(encoding="utf-8")
)


def parameters(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells outside the problem: the other arguments of a user's function."""
    return {
        name: value for name, value in row.items() if name not in (*WORDS, *op_of(row["op"]).dims)
    }


def described(row: Mapping[str, Any]) -> str:
    """Return a row in words, e.g. ``gemm bf16 m=16 n=4096 k=7168``."""
    first = [word(row, name) for name in ("op", "variant", "dtype_a", "direction", "layout")]
    skipped = {"op", "variant", "dtype_a", "dtype_b", "dtype_out", "direction", "layout", "kernel"}
    cells = {name: value for name, value in row.items() if name not in skipped and word(row, name)}
    dims = [f"{name}={_plain(name, value)}" for name, value in cells.items()]
    return " ".join([part for part in first if part] + dims)


def suite_rows(
    suite: str, *, gpu: bool, families: Sequence[str] | None = None, ranks: int = 1
) -> list[Row]:
    """Return the rows of a default grid, of some kernels (see `FAMILIES`) or all.

    `gpu` says whether the sizes are those for a GPU, `ranks` how many GPUs collectives have; with
    one there are none. Raises DataError: the suite or a kernel is unknown, or nothing is left.
    """
    if suite not in SUITES:
        raise ParameterError("preset", f"must be one of {', '.join(SUITES)}, got {suite!r}")
    ops = operators(families)
    if gpu:
        stages = ["gpu"]
    else:
        stages = ["shapes", "cpu"]
    if suite == "fingrav":
        stages = [suite]
    every = itertools.chain.from_iterable(_stages(stage, ranks) for stage in stages)
    rows = [row for row in every if row["op"] in ops]
    if not rows:
        hint = "choose other kernels"
        if families == ["collective"]:
            hint = "collectives need two GPUs or more"
        raise DataError(f"suite {suite} has none of {', '.join(families or ())} here: {hint}")
    if suite == "small":
        return _spread(rows)
    return rows


def operators(families: Sequence[str] | None) -> set[str]:
    """Return the operators of some families, or of all; what is neither a family nor an operator is refused."""
    chosen = set[str]()
    every = set(itertools.chain.from_iterable(FAMILIES.values()))
    for name in FAMILIES if families is None else families:
        if name not in FAMILIES and name not in every:
            raise ParameterError("op", f"must be among {', '.join(FAMILIES)}, got {name!r}")
        chosen |= set(FAMILIES.get(name, (name,)))
    return chosen


def _spread(rows: Iterable[Row]) -> list[Row]:
    """Return the smallest, the middle and the largest of each operator, variant and format, by bytes moved."""
    frame = pd.DataFrame(list(rows))
    if "variant" in frame:
        frame["variant"] = frame["variant"].fillna("")
    else:
        frame["variant"] = ""
    keys = frame.groupby(["op", "variant", "dtype_a"], sort=False, dropna=False).ngroup()
    moved = pd.Series(work_of(frame).bytes)
    chosen: set[int] = set()
    for _, part in moved.groupby(keys.to_numpy(), sort=False):
        order = part.sort_values(kind="stable").index
        chosen |= {int(order[at]) for at in (0, len(order) // 2, -1)}
    listed = list(rows)
    return [listed[index] for index in sorted(chosen)]


def shapes() -> Iterator[Row]:
    """Yield operators in sizes of small models, in two number formats."""
    return _stages("shapes", 1)


def _stages(suite: str, ranks: int) -> Iterator[Row]:
    """Yield the rows of the grids of a suite (``suites.toml``); collectives where there are ranks."""
    for stage in _SUITES["stages"][suite]:
        for dtype, grid in itertools.product(stage["dtype_a"], stage["grids"]):
            sizes = _SUITES["grids"][grid]
            for values in itertools.product(*sizes.values()):
                row = {"dtype_a": dtype}
                for names, value in zip(sizes, values, strict=True):
                    several = value
                    if " " not in names:
                        several = [value]
                    row |= zip(names.split(), several, strict=True)
                if row["op"] != "collective" or ranks > 1:
                    yield _complete(row, ranks)


def _complete(row: Row, ranks: int) -> Row:
    """Return a row of a grid with what its sizes imply, in the order of its operator's dimensions."""
    if row["op"] == "collective":
        row["ranks"] = ranks
    about = row.pop("message_about", 0)
    if about:
        row["message_bytes"] = about // (2 * ranks) * 2 * ranks
    if row.get("n") == 0:
        row["n"] = row["m"]
    if row["op"] == "conv":
        side = row["in_h"]
        filters = row["fil_h"]
        stride = row["stride_h"]
        pad = filters // 2
        out = (side + 2 * pad - filters) // stride + 1
        sizes = {
            "in": side,
            "fil": filters,
            "stride": stride,
            "pad": pad,
            "dil": 1,
            "out": out,
        }
        for name, size in sizes.items():
            row |= {f"{name}_d": int(name != "pad"), f"{name}_h": size, f"{name}_w": size}
        row |= {"direction": "F", "layout": "NCHW"}
    dims = op_of(row["op"]).dims
    return {name: row[name] for name in (*_FIRST, *dims, *row) if name in row}


MEASURED = (
    "duration_us",
    "spread_us",
    "repeats",
    "outliers",
    "interval_low_us",
    "interval_high_us",
    "rounds",
    "calls_per_sample",
    "warmed_up",
    "clock_share",
    "late_share",
    "stopped_by",
    "campaign",
    *STATE,
)
"""The columns that say how a row ran; the others say which one it is, and on which device."""
_TAKEN = frozenset({*MEASURED, "device", "seed", "kernel", "family", "cache", "tuned", "source"})
"""Columns of the measurement table that are no parameters of a function."""
_CANONICAL = {other: name for name, others in ALIASES.items() for other in others}


@dataclass(frozen=True)
class Listed:
    """The rows of a file."""

    rows: list[Row]  # what can be measured, each once
    refused: list[dict[str, str]]  # `source`, `reason`, `detail` of each row that cannot
    repeated: list[str]  # each row that is one before it
    foreign: str  # the first columns of the file that no kernel has
    notes: tuple[Remark, ...]  # what was assumed on reading, and how many rows repeat others


def read_shapes(
    path: Path,
    families: Sequence[str] | None = None,
    function: UserFunction | None = None,
    rename: Mapping[str, str] | None = None,
) -> Listed:
    """Read a list of rows to measure: a table like that of measurements, without a duration or device.

    CSV or Parquet with ``op``, ``dtype_a`` (fp32 by default) and the dimensions of each operator.
    `families` are the kernels to keep (see `FAMILIES`). Where a function is called with the rows,
    they keep the other columns that it has parameters for. Raises DataError: the file cannot be
    read or no row can be used; the message names the first reason.
    """
    frame, notes = read_rows([path], renames=rename, timed=False)
    beginning = head(path)
    names = csv_header(beginning)
    if beginning.startswith(PARQUET):
        names = parquet_columns(path)
    given = {(rename or {}).get(str(name), str(name)).strip().lower() for name in names}
    # its columns may have decimal commas; those of the measurement table were read so already
    if function is not None:
        frame, read = with_points(frame, function.wanted(sorted(map(str, frame))), str(path))
        for name in read:
            numbers = pd.to_numeric(frame[name], errors="coerce")
            frame[name] = numbers.where(numbers.notna(), frame[name])
        if read:
            notes = (*notes, of_rows(decimal_commas(read), len(frame), (str(path),)))
    chosen = None
    if families:
        chosen = operators(families)
    rows = list[Row]()
    refused = []
    keys = set[tuple[tuple[str, Any], ...]]()
    repeated = list[str]()
    kernels = {*DIMENSIONS, *WORDS, *_TAKEN}
    foreign = few(name for name in map(str, frame) if name.lower() in given and name not in kernels)
    for cells in frame.to_dict("records"):
        if cells[REFUSED]:
            why = {"reason": cells[REFUSED], "detail": cells[REFUSED_DETAIL]}
            refused.append({"source": cells["source"], **why})
        elif chosen is None or cells["op"] in chosen:
            named = {str(name): cell for name, cell in cells.items()}
            row = _row(named, given)
            if function is not None:
                row |= _parameters(named, given - set(row), function)
            key = tuple(sorted(row.items()))
            if key in keys:
                repeated.append(f"{cells['source']} repeats another row")
            else:
                keys.add(key)
                rows.append(row)
    if not rows:
        raise DataError(
            f"no row is one of {', '.join(families or ())}: choose other kernels", source=str(path)
        )
    if repeated:
        was = "1 row that repeats another is"
        if len(repeated) > 1:
            was = f"{len(repeated)} rows that repeat others are"
        text = f"{path.name}: {was} measured once"
        notes = (
            *notes,
            remark(
                "measured-once",
                text,
                file=path.name,
                rows=len(repeated),
            ),
        )
    return Listed(rows, refused, repeated, foreign, notes)


def _row(cells: Mapping[str, Any], given: set[str]) -> Row:
    """Return the row of a line, and the formats that its call reads and writes."""
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
    names = {cell for cell in cells if cell.lower() in given} | given
    for name in function.wanted(sorted(names)):
        column = name
        if name not in cells:
            column = _CANONICAL.get(name, name)
        if word(cells, column):
            taken[name] = _plain(column, cells[column])
    return taken


def _plain(name: str, value: Any) -> Any:
    if name == "causal":
        return bool(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


class UserFunction:
    """A function of the user, ``module:function``.

    It is called with those of the row's cells that it has parameters for: dimensions, number
    formats, ``op``, ``variant``, and any other column of the list, unless the measurement table has
    one of that name; and with ``device`` and ``seed`` if it has these. If it returns something that
    can be called, that is timed, and what came before is preparation; else the function itself is
    timed. Raises DataError: there is no such module or function, importing it fails, or what it
    takes cannot be told.
    """

    def __init__(self, name: str) -> None:
        module, colon, attribute = name.partition(":")
        if not colon or not module or not attribute:
            raise ParameterError(
                "function", f"must be module:function, got {name!r}: write e.g. mykernels:gemm"
            )
        self.name = name
        self._function = _imported(module, attribute)
        try:
            self._parameters = inspect.signature(self._function).parameters
        except ValueError as error:
            problem = (
                f"{name} is built in and does not tell its parameters: name a function of yours "
                "calling it"
            )
            raise ParameterError("function", problem) from error

    def wanted(self, names: Sequence[str]) -> list[str]:
        """Return the columns that it has parameters for."""
        others = names
        if self._takes_all:
            others = _CANONICAL
        return [
            name
            for name in names
            if name not in _TAKEN and (name in self._parameters or name not in others)
        ]

    @property
    def _takes_all(self) -> bool:
        return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in self._parameters.values())

    def row(self) -> Row:
        """Return the row of a call without dimensions; its work is unknown."""
        return {"op": "kernel", "variant": self.name}

    def build(self, backend: Backend, seed: int, row: Row) -> Call:
        """Return the call to time. Raises DataError: the function needs an argument that the row does not have."""
        given = row | {"device": backend.word, "seed": seed}
        names = given.keys() & self._parameters.keys()
        if self._takes_all:
            names |= row.keys()
        arguments = {name: given[name] for name in names}
        lacking = []
        for name, p in self._parameters.items():
            needed = p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
            if needed and name not in arguments:
                lacking.append(name)
        if lacking:
            taken = ""
            if _TAKEN.intersection(lacking):
                taken = "; names of the measurement table's own columns do not count"
            raise DataError(
                f"{self.name} needs {', '.join(lacking)}, which the row does not have: add the "
                f"columns{taken}"
            )
        call = partial(self._function, **arguments)
        prepared = call()
        if callable(prepared):
            return prepared
        return call


def _imported(module: str, attribute: str) -> Callable[..., Any]:
    here = os.getcwd()
    if here not in sys.path:  # as `python -m` does: the user's module lies in the current folder
        sys.path.insert(0, here)
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as error:
        problem = f"needs a module {error.name!r}, which is not there (looked in {here} too)"
        raise ParameterError("function", problem) from error
    except (
        Exception,
        SystemExit,
    ) as error:  # a module may raise anything, and a script may end itself
        raise ParameterError(
            "function", f"cannot be had: importing {module!r} fails: {one_line(error)}"
        ) from error
    function = getattr(imported, attribute, None)
    if function is None:
        raise ParameterError("function", f"must exist: module {module!r} has no {attribute!r}")
    if not callable(function):
        raise ParameterError(
            "function", f"must be one that can be called, got {module}:{attribute}"
        )
    return function
