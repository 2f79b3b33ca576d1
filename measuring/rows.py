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
import io
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from ..errors import DataError, ParameterError, few, one_line
from ..operators.op import word
from ..operators.operators import DIMENSIONS, OPS, op_of, work_of
from ..readers.base import of_rows
from ..readers.files import content, csv_header, decimal_commas, head, with_points
from ..readers.reading import read_rows
from ..readers.tidy import ALIASES
from ..remarks import Remark, remark
from ..table.measurements import DTYPE_COLUMNS, REFUSED, REFUSED_DETAIL
from .backend import Backend
from .machine import STATE
from .timing import Call

Row = dict[str, Any]
DTYPES = ("fp32", "bf16")
_SMALL_WEIGHTS = (
    (256, 256),
    (768, 768),
    (1024, 4096),
    (2304, 768),
    (3072, 768),
    (512, 2048),
    (4096, 1024),
    (1000, 1280),
)
_SMALL_BATCHED = (
    (64, 64, 64),
    (128, 128, 64),
    (128, 64, 128),
    (197, 197, 64),
    (256, 256, 32),
    (384, 384, 64),
    (512, 64, 512),
)
_SMALL_LAYERS = (  # in_channels, out_channels, image side, filter side, stride, groups
    (3, 32, 112, 3, 2, 1),
    (3, 64, 64, 7, 2, 1),
    (64, 64, 28, 1, 1, 1),
    (64, 64, 28, 3, 1, 1),
    (64, 128, 28, 3, 2, 1),
    (128, 128, 14, 3, 1, 1),
    (128, 512, 14, 1, 1, 1),
    (256, 256, 14, 3, 1, 1),
    (512, 512, 7, 3, 1, 1),
    (96, 96, 28, 3, 1, 96),
)


def shapes() -> Iterator[Row]:
    """Yield operators in sizes of small models, in two number formats."""
    attention = (
        (1, 64, 64),
        (1, 197, 197),
        (1, 512, 512),
        (4, 128, 128),
        (8, 1, 256),
        (8, 1, 1024),
    )
    for dtype in DTYPES:
        for (n, k), m in itertools.product(_SMALL_WEIGHTS, (1, 4, 16, 50, 64, 128, 200, 512)):
            yield {"dtype_a": dtype, "op": "gemm", "m": m, "n": n, "k": k}
        for (m, n, k), batch in itertools.product(_SMALL_BATCHED, (2, 8, 12, 48)):
            yield {"dtype_a": dtype, "op": "batched_gemm", "batch": batch, "m": m, "n": n, "k": k}
        for sizes in _convolutions(_SMALL_LAYERS, (1, 4, 8)):
            yield {"dtype_a": dtype, "op": "conv", **sizes}
        for (heads, head_dim), (batch, seq_q, seq_kv) in itertools.product(
            ((4, 64), (12, 64), (16, 128)), attention
        ):
            yield {
                "dtype_a": dtype,
                "op": "attention",
                "batch": batch,
                "heads": heads,
                "kv_heads": heads,
                "seq_q": seq_q,
                "seq_kv": seq_kv,
                "head_dim": head_dim,
                "causal": False,
            }
        for op in ("softmax", "layer_norm", "reduction"):
            for cols, rows in itertools.product((128, 768, 1024, 4096), (16, 128, 512, 1000, 3152)):
                yield {"dtype_a": dtype, "op": op, "rows": rows, "cols": cols}
        for op in ("add", "gelu", "copy"):
            for cols, rows in itertools.product((256, 768, 3072, 4096), (16, 128, 512, 1000, 3152)):
                yield {"dtype_a": dtype, "op": op, "rows": rows, "cols": cols}


WORDS = (
    "op",
    "variant",
    "layout",
    *DTYPE_COLUMNS,
)  # cells of a row that are words, whatever its operator
SUITES = ("small", "full", "fingrav")
_BY_FAMILY = [(op.measured.family or name, name) for name, op in OPS.items() if op.measured]
FAMILIES: dict[str, tuple[str, ...]] = {
    **{
        family: tuple(name for one, name in _BY_FAMILY if one == family) for family, _ in _BY_FAMILY
    },
    "collective": ("collective",),
}
"""Names of kernels that can be chosen, and the operators each stands for."""
_WEIGHTS = (
    (4096, 4096),
    (6144, 4096),
    (14336, 4096),
    (4096, 14336),
    (8192, 8192),
    (28672, 8192),
    (7168, 2048),
)
_LAYERS = (  # in_channels, out_channels, image side, filter side, stride, groups: ResNet-50, MobileNetV2
    (3, 64, 224, 7, 2, 1),
    (64, 64, 56, 1, 1, 1),
    (64, 64, 56, 3, 1, 1),
    (128, 128, 28, 3, 1, 1),
    (256, 256, 14, 3, 1, 1),
    (512, 512, 7, 3, 1, 1),
    (512, 1024, 28, 1, 2, 1),
    (96, 96, 56, 3, 1, 96),
)
_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall")
_GPU_DTYPES, _HALF = ("fp32", "bf16", "fp16"), ("bf16", "fp16")


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
    whole = {
        name: int(value)
        for name, value in cells.items()
        if isinstance(value, float) and value.is_integer()
    }
    dims = [f"{name}={value}" for name, value in {**cells, **whole}.items()]
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
    if suite == "fingrav":
        every = _published_rows(ranks)
    elif gpu:
        every = _gpu_rows(ranks)
    else:
        every = _cpu_rows()
    rows = [row for row in every if row["op"] in ops]
    if not rows:
        if families == ["collective"]:
            hint = "collectives need two GPUs or more"
        else:
            hint = "choose other kernels"
        raise DataError(f"suite {suite} has none of {', '.join(families or ())} here: {hint}")
    if suite == "small":
        return _spread(rows)
    return rows


def operators(families: Sequence[str] | None) -> set[str]:
    """Return the operators of some families, or of all; what is neither a family nor an operator is refused."""
    chosen: set[str] = set()
    every = set()
    for ops in FAMILIES.values():
        for op in ops:
            every.add(op)
    for name in FAMILIES if families is None else families:
        if name not in FAMILIES and name not in every:
            raise ParameterError("op", f"must be among {', '.join(FAMILIES)}, got {name!r}")
        chosen |= set(FAMILIES.get(name, (name,)))
    return chosen


def _spread(rows: Iterable[Row]) -> list[Row]:
    """Return the smallest, the middle and the largest of each operator, variant and format, by bytes moved."""
    frame = pd.DataFrame(list(rows))
    frame["variant"] = frame["variant"].fillna("") if "variant" in frame else ""
    keys = frame.groupby(["op", "variant", "dtype_a"], sort=False, dropna=False).ngroup()
    moved = pd.Series(work_of(frame).bytes)
    chosen: set[int] = set()
    for _, part in moved.groupby(keys.to_numpy(), sort=False):
        order = part.sort_values(kind="stable").index
        chosen |= {int(order[at]) for at in (0, len(order) // 2, -1)}
    listed = list(rows)
    return [listed[index] for index in sorted(chosen)]


def _cpu_rows() -> Iterator[Row]:
    """Yield `shapes` and the operators they lack, in sizes for a few cores."""
    yield from shapes()
    sides = list(itertools.product((16, 128, 1000), (256, 1024, 4096)))
    for dtype in ("fp32", "bf16"):
        for op, (rows, cols) in itertools.product(("rms_norm", "relu", "mul"), sides):
            yield {"op": op, "dtype_a": dtype, "rows": rows, "cols": cols}
        yield from _channels(dtype, itertools.product((64, 256), (196, 784, 3136)))
        yield from _tokens(dtype, itertools.product((16, 256), (256, 1024)), (1000, 32_000))


def _published_rows(ranks: int) -> Iterator[Row]:
    for side in (8192, 4096, 2048):
        yield {"op": "gemm", "dtype_a": "bf16", "m": side, "n": side, "k": side}
        yield {"op": "gemm", "dtype_a": "bf16", "m": side, "n": 1, "k": side}
    if ranks > 1:
        for variant, message in itertools.product(
            ("all_gather", "all_reduce"), (2**16, 2**17, 2**29, 2**30)
        ):
            yield {
                "op": "collective",
                "variant": variant,
                "dtype_a": "bf16",
                "message_bytes": message,
                "ranks": ranks,
            }


def _gpu_rows(ranks: int) -> Iterator[Row]:
    for dtype in _GPU_DTYPES:
        yield from _gemms(dtype)
        for sizes in _convolutions(_LAYERS, (1, 32, 128)):
            yield {"op": "conv", "dtype_a": dtype, **sizes}
        sides = list(itertools.product((16, 256, 4096, 16_384), (1024, 4096, 8192, 16_384)))
        row_wise = (
            "softmax",
            "layer_norm",
            "rms_norm",
            "add",
            "mul",
            "relu",
            "gelu",
            "copy",
            "fill",
        )
        for op, (rows, cols) in itertools.product(row_wise, sides):
            yield {"op": op, "dtype_a": dtype, "rows": rows, "cols": cols}
        for rows, cols in sides:
            yield {
                "op": "reduction",
                "variant": "sum",
                "dtype_a": dtype,
                "rows": rows,
                "cols": cols,
            }
        yield from _channels(dtype, itertools.product((64, 512, 2048), (784, 12_544, 100_352)))
        yield from _tokens(
            dtype, itertools.product((16, 512, 8192), (1024, 4096, 8192)), (32_000, 128_256)
        )
    for dtype in _HALF:
        yield from _attentions(dtype)
    for dtype in ("tf32", "fp8"):
        yield from _gemms(dtype, batched=False)
    for variant, exponent in itertools.product(("DtoD", "HtoD", "DtoH"), range(12, 31, 3)):
        yield {"op": "copy", "variant": variant, "dtype_a": "uint8", "rows": 1, "cols": 2**exponent}
    if ranks > 1:
        for variant, exponent in itertools.product(_COLLECTIVES, range(12, 31, 3)):
            message = {"message_bytes": 2**exponent // (2 * ranks) * 2 * ranks, "ranks": ranks}
            yield {"op": "collective", "variant": variant, "dtype_a": "bf16", **message}


def _gemms(dtype: str, *, batched: bool = True) -> Iterator[Row]:
    if dtype == "fp8":
        formats = {"dtype_out": "bf16", "scale_block": "tensor"}
    else:
        formats = {}
    for (n, k), m in itertools.product(_WEIGHTS, (16, 64, 256, 1024, 4096, 8192)):
        yield {"op": "gemm", "dtype_a": dtype, **formats, "m": m, "n": n, "k": k}
    if batched:
        for (m, n, k), batch in itertools.product(
            ((128, 128, 128), (512, 512, 64), (1024, 64, 1024)), (8, 64, 256)
        ):
            yield {"op": "batched_gemm", "dtype_a": dtype, "batch": batch, "m": m, "n": n, "k": k}


def _convolutions(layers: Iterable[tuple[int, ...]], batches: Iterable[int]) -> Iterator[Row]:
    for (c_in, c_out, side, fil, stride, groups), batch in itertools.product(layers, batches):
        pad = fil // 2
        out = (side + 2 * pad - fil) // stride + 1
        yield {
            "direction": "F",
            "layout": "NCHW",
            "batch": batch,
            "groups": groups,
            "in_channels": c_in,
            "in_d": 1,
            "in_h": side,
            "in_w": side,
            "out_channels": c_out,
            "out_d": 1,
            "out_h": out,
            "out_w": out,
            "fil_d": 1,
            "fil_h": fil,
            "fil_w": fil,
            "pad_d": 0,
            "pad_h": pad,
            "pad_w": pad,
            "stride_d": 1,
            "stride_h": stride,
            "stride_w": stride,
            "dil_d": 1,
            "dil_h": 1,
            "dil_w": 1,
        }


def _attentions(dtype: str) -> Iterator[Row]:
    """Yield prefill (causal) and decode (one query), with as many heads for keys as for queries and with an eighth."""
    lengths = [(1, 512), (1, 2048), (1, 8192), (8, 2048)]
    cached = [(1, 2048), (16, 2048), (64, 2048), (16, 16_384)]
    for (heads, kv_heads), (batch, length) in itertools.product(((32, 32), (64, 8)), lengths):
        yield _attention(dtype, batch, heads, kv_heads, length, length, causal=True)
    for (heads, kv_heads), (batch, length) in itertools.product(((32, 32), (64, 8)), cached):
        yield _attention(dtype, batch, heads, kv_heads, 1, length, causal=False)


def _attention(
    dtype: str, batch: int, heads: int, kv_heads: int, seq_q: int, seq_kv: int, *, causal: bool
) -> Row:
    sizes = {
        "batch": batch,
        "heads": heads,
        "kv_heads": kv_heads,
        "seq_q": seq_q,
        "seq_kv": seq_kv,
        "head_dim": 128,
    }
    return {"op": "attention", "dtype_a": dtype, **sizes, "causal": causal}


def _channels(dtype: str, sides: Iterable[tuple[int, int]]) -> Iterator[Row]:
    for channels, cols in sides:
        yield {"op": "batch_norm", "dtype_a": dtype, "rows": channels, "cols": cols}


def _tokens(
    dtype: str, sides: Iterable[tuple[int, int]], vocabularies: Sequence[int]
) -> Iterator[Row]:
    """Yield the ends of a language model: embeddings, and the loss over the vocabulary."""
    for tokens, width in (listed := list(sides)):
        yield {
            "op": "gather",
            "variant": "embedding",
            "dtype_a": dtype,
            "dtype_b": "int64",
            "rows": tokens,
            "cols": width,
        }
    for tokens, words in itertools.product(
        dict.fromkeys(tokens for tokens, _ in listed), vocabularies
    ):
        yield {
            "op": "loss",
            "variant": "cross_entropy",
            "dtype_a": dtype,
            "rows": tokens,
            "cols": words,
        }


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
    parquet = beginning.startswith(b"PAR1")
    if parquet:
        names = pq.read_schema(io.BytesIO(content(path))).names
    else:
        names = csv_header(beginning)
    given = {(rename or {}).get(str(name), str(name)).strip().lower() for name in names}
    if (
        function is not None
    ):  # its columns may have decimal commas; those of the measurement table were read so already
        frame, read = with_points(frame, function.wanted(sorted(map(str, frame))), str(path))
        numbers = {name: pd.to_numeric(frame[name], errors="coerce") for name in read}
        frame = frame.assign(
            **{name: numbers[name].where(numbers[name].notna(), frame[name]) for name in read}
        )
        if read:
            notes = (*notes, of_rows(decimal_commas(read), len(frame), (str(path),)))
    chosen = operators(families) if families else None
    rows, refused = list[Row](), []
    keys, repeated = set[tuple[tuple[str, Any], ...]](), list[str]()
    kernels = {*DIMENSIONS, *WORDS, *_TAKEN}
    foreign = few(name for name in map(str, frame) if name.lower() in given and name not in kernels)
    for cells in frame.to_dict("records"):
        if cells[REFUSED]:
            refused.append(
                {
                    "source": cells["source"],
                    "reason": cells[REFUSED],
                    "detail": cells[REFUSED_DETAIL],
                }
            )
        elif chosen is None or cells["op"] in chosen:
            named = {str(name): cell for name, cell in cells.items()}
            row = _row(named, given)
            if function is None:
                row |= {}
            else:
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
    if len(repeated) == 1:
        was = "1 row that repeats another is"
    else:
        was = f"{len(repeated)} rows that repeat others are"
    text = f"{path.name}: {was} measured once"
    if repeated:
        once = (remark("measured-once", text, file=path.name, rows=len(repeated)),)
    else:
        once = ()
    return Listed(rows, refused, repeated, foreign, (*notes, *once))


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
    for name in function.wanted(
        sorted({*(cell for cell in cells if cell.lower() in given), *given})
    ):
        if name in cells:
            column = name
        else:
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
        self.name, self._function = name, _imported(module, attribute)
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
        free = [name for name in names if name not in _TAKEN]
        return [
            name
            for name in free
            if name in self._parameters or (self._takes_all and name not in _CANONICAL)
        ]

    @property
    def _takes_all(self) -> bool:
        return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in self._parameters.values())

    def row(self) -> Row:
        """Return the row of a call without dimensions; its work is unknown."""
        return {"op": "kernel", "variant": self.name}

    def build(self, backend: Backend, seed: int, row: Row) -> Call:
        """Return the call to time. Raises DataError: the function needs an argument that the row does not have."""
        values = {**row, "device": backend.word, "seed": seed}
        arguments = {
            n: v
            for n, v in values.items()
            if n in self._parameters or (self._takes_all and n in row)
        }
        lacking = [
            name
            for name, p in self._parameters.items()
            if p.default is p.empty
            and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
            and name not in arguments
        ]
        if lacking:
            if _TAKEN.intersection(lacking):
                taken = "; names of the measurement table's own columns do not count"
            else:
                taken = ""
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
    if here not in sys.path:
        sys.path.insert(
            0, here
        )  # as `python -m` does: the user's module lies in the current folder
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
