"""Read an operator's dimensions and precisions out of a table, or say which are missing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa

from ..errors import DataError, few

BITS = {
    "fp64": 64, "int64": 64,
    "fp32": 32, "tf32": 32, "int32": 32,
    "fp16": 16, "bf16": 16, "int16": 16,
    "fp8": 8, "int8": 8, "uint8": 8, "bool": 8,
    "fp6": 6,
    "fp4": 4, "int4": 4, "uint4": 4,
}  # fmt: skip
"""Bits of one stored element; TF32 is stored as FP32, and sub-byte types are packed."""

_WORDS = {"true": 1.0, "false": 0.0}


def _where(frame: pd.DataFrame, bad: np.ndarray) -> str:
    """Return where the bad rows stand, five at most."""
    if "source" not in frame:
        return ""
    sources = frame["source"][bad].head(6).tolist()
    return f" ({', '.join(map(str, sources[:5]))}{', ...' if len(sources) > 5 else ''})"


def as_numbers(frame: pd.DataFrame, name: str) -> np.ndarray:
    """Return a column as floats, NaN where it is absent, empty or no number; yes and no become 1.0 and 0.0."""
    if name not in frame:
        return np.full(len(frame), np.nan)
    column = frame[name]
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiub":
        return column.to_numpy(dtype=float, copy=True)
    if not pd.api.types.is_numeric_dtype(column):
        column = column.astype(object).map(lambda value: _WORDS.get(str(value).lower(), value))
    return pd.to_numeric(column, errors="coerce").to_numpy(dtype=float, na_value=np.nan)


def with_default(frame: pd.DataFrame, name: str, default: float | np.ndarray) -> np.ndarray:
    """Return a column as floats, with the default where it is absent or empty; a DataError for what is no number."""
    values = as_numbers(frame, name)
    missing = np.isnan(values)
    if name in frame and missing.any():
        wrong = missing & (texts(frame, name) != "")
        if wrong.any():
            said = frame[name][wrong].iloc[0]
            raise DataError(f"{name} must be a number, got {said!r}{_where(frame, wrong)}")
    return np.where(missing, default, values)


def numbers(frame: pd.DataFrame, *names: str, minimum: float = 1.0) -> list[np.ndarray]:
    """Return the named dimensions, each at least `minimum` in every row, as float arrays of shape (n_rows,).

    Raises DataError with the dimensions that are missing, empty or too small: five at most, and the rows at fault.
    """
    arrays = [as_numbers(frame, name) for name in names]
    bad = [~(np.isfinite(values) & (values >= minimum)) for values in arrays]
    faulty = [name for name, rows in zip(names, bad, strict=True) if rows.any()]
    if faulty:
        op = frame["op"].iloc[0] if "op" in frame else "these"
        rows = np.logical_or.reduce(bad)
        raise DataError(
            f"{op} rows need {few(faulty)} >= {minimum:g}, missing or smaller in {int(rows.sum())} of {len(frame)} rows"
            f"{_where(frame, rows)}: add the columns, or leave these rows out"
        )
    return arrays


def positive(frame: pd.DataFrame, name: str) -> np.ndarray:
    """Return a measured column as floats; a DataError for a value that is missing, not finite, zero or negative."""
    values = as_numbers(frame, name)
    bad = ~(np.isfinite(values) & (values > 0))
    if bad.any():
        count = f"{int(bad.sum())} of {len(frame)} rows"
        raise DataError(f"{name} must be > 0: missing, zero or negative in {count}{_where(frame, bad)}")
    return values


def as_arrow(words: pd.Series) -> pa.Array:
    """Return a column of dtype str as Arrow has it: nothing is copied where it is one piece."""
    given = pa.array(words.array)
    return given.combine_chunks() if isinstance(given, pa.ChunkedArray) else given


def coded(frame: pd.DataFrame, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a text column as positions (n_rows,) in its words, an object array; ``""`` where it is missing or empty.

    There are few words and many rows. Some of the words may be in no row.
    """
    if name not in frame:
        return np.zeros(len(frame), dtype=np.int64), np.array([""], dtype=object)
    column = frame[name]
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy(), np.array([*column.cat.categories, ""], dtype=object)
    if column.dtype == "str" and len(frame):
        given = as_arrow(column)
        words = (given.fill_null("") if given.null_count else given).dictionary_encode()
        return words.indices.to_numpy(), words.dictionary.to_numpy(zero_copy_only=False)
    codes, levels = pd.factorize(column.astype(object))
    return codes, np.array([*levels, ""], dtype=object)


def as_categories(column: pd.Series) -> np.ndarray | pd.Categorical:
    """Return a column with words as categories, numbers as they are: words are few, and asked for many times."""
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy()
    return pd.Categorical.from_codes(*pd.factorize(column))


def texts(frame: pd.DataFrame, name: str) -> np.ndarray:
    """Return a text column as an object array, with ``""`` where it is missing or empty."""
    codes, words = coded(frame, name)
    return words[codes]


def element_bytes(frame: pd.DataFrame, name: str) -> np.ndarray:
    """Return the bytes of one element of the precision in column `name` (0.5 for fp4, 0.75 for fp6).

    Raises DataError where it is missing or unknown.
    """
    codes, words = coded(frame, name)
    sizes = np.array([BITS.get(word, 0) / 8 for word in words])[codes]
    if (bad := sizes == 0).any():
        unknown = dict.fromkeys(words[codes[bad]])
        raise DataError(f"unknown {name} {few(map(repr, unknown))}{_where(frame, bad)}: known are {', '.join(BITS)}")
    return sizes
