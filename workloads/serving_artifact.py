"""The file of a model of serving: read within bounds, every number in its range, held against its seal.

Enters: a path. Leaves: `Parts`, whose numbers can be what they are called, or a DataError of one
line. `CONSTANTS` and the structures above it declare what a file may hold: a constant is a field
with its range. The seal is a SHA-256 of columns and texts, whatever Parquet makes of them.
Start at `read`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa

from ..errors import DataError, check_plain_file, few, one_line
from ..laws.serving_steps import TPOT_PARTS, TTFT_PARTS
from ..operators.kinds.serving_run import OPERATORS
from ..readers.base import TABLE_BYTES
from ..readers.files import check_names, open_parquet, plain_frame, whole_table
from ..remarks import visible

SEAL: Final = "sha256"
"""Key of the metadata that holds the seal."""
MOST_BYTES: Final = 2**26  # of the file
MOST_RUNS: Final = 2**16  # the covariance of so many is the most that a machine can hold
_MOST_TEXT: Final = 2**23  # bytes of a text of JSON
_MOST_WORD: Final = 500  # characters of a name
_MOST_NUMBER: Final = 1e18

Logarithm = Annotated[float, msgspec.Meta(ge=-6.0, le=6.0)]
"""Of a factor on a part of a time: it takes 400 times as long at most."""
Median = Annotated[float, msgspec.Meta(ge=-1.0, le=1.0)]
Variance = Annotated[float, msgspec.Meta(ge=0.0, le=25.0)]
Noise = Annotated[float, msgspec.Meta(ge=1e-6, le=25.0)]
Octaves = Annotated[float, msgspec.Meta(ge=0.01, le=1e3)]
Spread = Annotated[float, msgspec.Meta(ge=0.005, le=10.0)]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Longer = Annotated[float, msgspec.Meta(ge=0.0, le=6.0)]
"""Of a stock engine: it is no faster than a tuned one."""
Width = Annotated[float, msgspec.Meta(ge=0.0, le=10.0)]
Place = Annotated[int, msgspec.Meta(ge=0, le=2**25)]
Word = Annotated[str, msgspec.Meta(max_length=_MOST_WORD)]
(SERVED,) = OPERATORS
_WEIGHT: Final = 1e5  # most of a run, either way
_PARTS: Final = {"tpot_ms": len(TPOT_PARTS), "ttft_ms": len(TTFT_PARTS)}


class TreesText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`Trees` as JSON; their nodes are looked into by `Trees.from_json`."""

    nodes: str
    roots: Annotated[list[Place], msgspec.Meta(min_length=1, max_length=10_000)]
    words: Annotated[list[tuple[Word, Word]], msgspec.Meta(max_length=1000)]


class StockText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`serving_model.Stock` as JSON."""

    start: Longer
    octave: Longer
    between: Width


class FitText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was learnt of one time, as JSON: `serving_model.Fit` has the meanings."""

    constants: dict[Word, list[Logarithm]]
    terms: list[Variance]
    lengths: list[Octaves]
    noise: Noise
    centre: Median
    spreads: dict[Word, tuple[Spread, Spread]]
    trust: dict[Word, tuple[Share, Share]] = {}
    trees: TreesText | None = None
    stock: StockText | None = None
    stacks: dict[Word, tuple[Logarithm, Width]] = {}
    repeats: dict[Word, Width] = {}
    across: Share = 1.0


CONSTANTS: Final[Mapping[str, Any]] = {
    "fits": dict[Word, FitText],
    "about": dict[Word, Any],
    "slower": dict[Word, Logarithm],
}
"""Text of the metadata -> its type, with the range of each number."""


@dataclass(frozen=True)
class Parts:
    """What a file holds, checked."""

    runs: pd.DataFrame  # settings, figures and weights
    fits: Mapping[str, FitText]
    about: Mapping[str, Any]
    slower: Mapping[str, float]


def seal_of(columns: pa.Table, texts: Mapping[str, str]) -> str:
    """Return the SHA-256 of columns and texts; the texts are those of `CONSTANTS`."""
    digest = hashlib.sha256()
    for name in sorted(CONSTANTS):
        digest.update(json.dumps([name, texts.get(name, "")]).encode())
    for name in columns.column_names:
        column = columns.column(name)
        digest.update(json.dumps(name).encode())
        if pa.types.is_floating(column.type):
            values = column.to_numpy().astype("<f8")
            values[np.isnan(values)] = np.nan
            digest.update(values.tobytes())
        else:
            digest.update(json.dumps(column.to_pylist(), default=str).encode())
    return digest.hexdigest()


def read(file: Path, *, ours: bool = False) -> Parts:
    """Return the content of a file of a model of serving.

    ``ours`` is the file of the package, which the package's own list of hashes covers.

    Raises DataError: it is no such file, is larger than any, has no seal or was changed after it was
    sealed, or a number of it cannot be what it is called.
    """
    try:
        table, texts = _read(file)
        parts = {name: _decoded(name, texts) for name in CONSTANTS}
        runs = plain_frame(table)
        _check_runs(runs)
        _check_fits(parts["fits"])
        _check_about(parts["about"], len(runs))
    except _RefusedError as error:
        why = visible(one_line(error))
        raise DataError(
            f"is no model of serving that flopcast saved ({why}): calibrate it anew",
            source=str(file),
        ) from None
    seal = texts.get(SEAL)
    if seal is not None and seal != seal_of(table, texts):
        raise DataError(
            "is not the model that was saved (its SHA-256 differs from the one in it): calibrate it "
            "anew, or take it from where it was made",
            source=str(file),
        )
    if seal is None and not ours:
        raise DataError(
            "has no seal, so nobody knows whether it is whole: calibrate it anew", source=str(file)
        )
    return Parts(runs, **parts)


class _RefusedError(Exception):
    """What a file holds is none of a model; the reader names the file."""


def _read(file: Path) -> tuple[pa.Table, dict[str, str]]:
    check_plain_file(file)
    if not file.is_file():
        raise DataError("is no model of serving: no such file", source=str(file))
    with open_parquet(file, MOST_BYTES) as opened:
        kept = opened.metadata
        texts = {
            name.decode(errors="replace"): text.decode(errors="replace")
            for name, text in (kept.metadata or {}).items()
        }
        if not set(texts) >= {"fits", "about"}:
            raise _RefusedError("it states no fits")
        unknown = sorted(set(texts) - {*CONSTANTS, SEAL, "flopcast", "ARROW:schema"})
        if unknown:
            raise _RefusedError(f"it states {few(unknown)}, which this flopcast does not know")
        if kept.num_rows > MOST_RUNS:
            raise _RefusedError(f"it has {kept.num_rows:,} runs, more than {MOST_RUNS:,}")
        names = opened.schema_arrow.names
        check_names(sorted({name for name in names if names.count(name) > 1}), file)
        _check_kinds(opened.schema_arrow)
        table = whole_table(opened, file, TABLE_BYTES)
        table.validate(full=True)  # text of foreign bytes
        return table, texts


def _check_kinds(schema: pa.Schema) -> None:
    """Refuse a column of neither numbers nor text, some of whose values no Python object can be."""
    for column in schema:
        kind = column.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        if not text and not pa.types.is_floating(kind):
            raise _RefusedError(f"column {column.name} does not hold numbers or text")


def _decoded(name: str, texts: Mapping[str, str]) -> Any:
    """Return a text of the metadata as its declared type."""
    text = texts.get(name, "{}")
    if len(text) > _MOST_TEXT:
        raise _RefusedError(f"{name} has {len(text):,} characters, more than {_MOST_TEXT:,}")
    try:
        return msgspec.json.decode(text, type=CONSTANTS[name])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise _RefusedError(f"{name}: {error}") from None


def _check_fits(fits: Mapping[str, FitText]) -> None:
    if set(fits) != set(_PARTS):
        raise _RefusedError(f"its times are {few(sorted(fits))}, not {few(sorted(_PARTS))}")
    for time, fit in fits.items():
        if "" not in fit.constants:
            raise _RefusedError(f"{time} has no constants of all runs")
        sizes = {len(values) for values in fit.constants.values()}
        if sizes != {_PARTS[time]}:
            raise _RefusedError(f"{time} has constants of another number of parts")
        if any(process + trees > 1.0 for process, trees in fit.trust.values()):
            raise _RefusedError(f"{time} trusts more than the whole of what it learnt")


def _check_runs(runs: pd.DataFrame) -> None:
    """Refuse runs with a value that no run has, whatever the columns."""
    least, needed, words = dict[str, int](), set[str](), {"device", "dtype_a", "dtype_b", "group"}
    for dim in SERVED.dimensions:
        if dim.kind == "word":
            words.add(dim.name)
            continue
        least[dim.name] = dim.least
        if not pd.isna(dim.default if dim.default is not None else 0.0):
            needed.add(dim.name)
    weights = {f"weight_{time}" for time in _PARTS}
    if not weights <= set(runs):
        raise _RefusedError("it has no weights")
    weights |= {f"published_{time}" for time in _PARTS} & set(runs)
    needed |= weights
    for name in runs:
        column = runs[name]
        if str(name) in words:
            _check_words(str(name), column)
            continue
        if not pd.api.types.is_float_dtype(column):
            raise _RefusedError(f"column {name} does not hold numbers")
        values = column.to_numpy(dtype=np.float64)
        given = values[~np.isnan(values)]
        if name in needed and len(given) < len(values):
            raise _RefusedError(f"column {name} lacks a value")
        if name in weights:
            low, high = (-_WEIGHT, _WEIGHT)
        else:
            low, high = (least.get(str(name), 0), _MOST_NUMBER)
        if len(given) and not (low <= given.min() and given.max() <= high):
            raise _RefusedError(f"column {name} has a value outside {low:g} ... {high:g}")


def _check_words(name: str, column: pd.Series) -> None:
    for word in column.unique():
        if not isinstance(word, str):
            raise _RefusedError(f"column {name} does not hold text")
        if len(word) > _MOST_WORD or not (word.isprintable() or word == ""):
            raise _RefusedError(f"column {name} has a name of control characters, or too long")


def _check_about(about: Mapping[str, Any], count: int) -> None:
    first = about.get("own_from", count)
    for name, value, limit in (("own_from", first, count), ("runs", about.get("runs", 0), 2**40)):
        if type(value) is not int or not 0 <= value <= limit:
            raise _RefusedError(f"about.{name} must be a whole number from 0 to {limit}")
    for name in ("made", "sources"):
        said = about.get(name, "")
        if not isinstance(said, str) or not said.isprintable():
            raise _RefusedError(f"about.{name} must be a line of text")
