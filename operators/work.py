"""Read an operator's dimensions and precisions out of a table, or say which are missing; one spelling of a format."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from ..errors import DataError, few

CATALOGUE: Final[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("catalogue.toml").read_text("utf-8")
)
"""What operators and number formats are called."""
_SPELLINGS: dict[str, list[str]] = CATALOGUE["formats"]
_CANONICAL = {spelling: name for name, spellings in _SPELLINGS.items() for spelling in spellings}
_NAMESPACE = re.compile(r"^(?:torch|c10|dtypes|numpy|np|jnp|tl)(?:\.|::)")
#: PyTorch's narrow floats carry their bits: float8_e4m3fnuz (gfx942), float8_e4m3fn (gfx950), float4_e2m1fn_x2.
_NARROW_FLOAT = re.compile(r"^(?:float|fp)([468])_e\dm\d[a-z0-9_]*$")
DTYPES = tuple(_SPELLINGS)

#: What library kernel names say of the type of A. Tensile (ROCm 5-7, `Cijk_Ailk_Bljk_SB_MT...`): after the index
#: assignment comes the type, S, D, H (fp16), B (bf16), I8, F8 or B8, then B for beta. PyTorch 2: `kernel<float, ...`;
#: profilers may cut the name short, so a trailing `<floa` counts.
_KERNEL_NAMES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"^Cijk_[A-Za-z]+_[A-Za-z]+_(?:F8|B8)"), "fp8"),
    (re.compile(r"^Cijk_[A-Za-z]+_[A-Za-z]+_(?:4x)?[iI]8"), "int8"),
    (re.compile(r"^Cijk_[A-Za-z]+_[A-Za-z]+_S[A-Z]*_"), "fp32"),
    (re.compile(r"^Cijk_[A-Za-z]+_[A-Za-z]+_D[A-Z]*_"), "fp64"),
    (re.compile(r"^Cijk_[A-Za-z]+_[A-Za-z]+_H[A-Z]*_"), "fp16"),
    (re.compile(r"^Cijk_[A-Za-z]+_[A-Za-z]+_B[A-Z]*_"), "bf16"),
    (re.compile(r"<(?:float\b|floa?$)"), "fp32"),
    (re.compile(r"<(?:double\b|doubl?$)"), "fp64"),
    (re.compile(r"<(?:c10::)?Half\b"), "fp16"),
    (re.compile(r"<(?:c10::)?BFloat16\b"), "bf16"),
)


def canonical_dtype(spelling: str) -> str:
    """Return which of `DTYPES` a number format is ("torch.float8_e4m3fnuz" -> "fp8", "FP16" -> "fp16").

    Case, `torch.` and `c10::` do not matter. Formats that take the same bits and run at the same
    rate share a name (both FP8 encodings, IEEE and `fnuz` alike). Raises DataError where it is not
    known; the message names the closest ones.
    """
    name = _lookup(spelling)
    if name is None:
        close = [
            _CANONICAL[word]
            for word in difflib.get_close_matches(_plain(spelling), _CANONICAL, n=3)
        ] or DTYPES[:6]
        raise DataError(
            f"unknown number format {spelling!r}: use one of {', '.join(dict.fromkeys(close))}"
        )
    return name


def canonical_dtypes(spellings: pd.Series) -> pd.Series:
    """Return the canonical name of every spelling; "" where there is none or it is unknown."""
    return each_word(spellings, _lookup)


def dtypes_in_kernel_names(kernels: pd.Series) -> pd.Series:
    """Return the type of A that each kernel's name states; "" where it states none."""
    return each_word(kernels, _stated)


def each_word(words: pd.Series, name_of: Callable[[str], str | None]) -> pd.Series:
    """Return `name_of` each word, asked once per distinct word; "" for a missing word or name."""
    codes, levels = pd.factorize(words)
    names = pd.array([*(name_of(str(level)) or "" for level in levels), ""], dtype="str")
    return pd.Series(names.take(codes), index=words.index)


def _stated(kernel: str) -> str | None:
    return next((name for pattern, name in _KERNEL_NAMES if pattern.search(kernel)), None)


def _plain(spelling: str) -> str:
    return _NAMESPACE.sub("", str(spelling).strip().strip("'\"").lower())


def _lookup(spelling: str) -> str | None:
    plain = _plain(spelling)
    narrow = _NARROW_FLOAT.match(plain)
    if narrow:
        return f"fp{narrow[1]}"
    return _CANONICAL.get(plain)


BITS: dict[str, int] = CATALOGUE["bits"]
"""Bits of one stored element; TF32 is stored as FP32, and sub-byte types are packed."""
_WORDS = {"true": 1.0, "false": 0.0}


def _where(frame: pd.DataFrame, bad: np.ndarray) -> str:
    """Return where the bad rows stand, five at most."""
    if "source" not in frame:
        return ""
    sources = list(map(str, frame["source"][bad].head(6)))
    if len(sources) > 5:
        sources[5] = "..."
    return f" ({', '.join(sources)})"


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


def with_columns(
    frame: pd.DataFrame, columns: Mapping[str, np.ndarray | pd.Series]
) -> pd.DataFrame:
    """Return a table with these columns as `assign` does, but new ones all at once: one by one they take longer."""
    new = {name: values for name, values in columns.items() if name not in frame}
    changed = {name: values for name, values in columns.items() if name in frame}
    whole = frame.assign(**changed)
    if new:
        return pd.concat([whole, pd.DataFrame(new, frame.index)], axis=1)
    return whole


def numbers(frame: pd.DataFrame, *names: str, minimum: float = 1.0) -> list[np.ndarray]:
    """Return the named dimensions, each at least `minimum` in every row, as float arrays of shape (n_rows,).

    Raises DataError with the dimensions that are missing, empty or too small: five at most, and the
    rows at fault.
    """
    arrays = []
    faulty = []
    bad = np.zeros(len(frame), dtype=bool)
    for name in names:
        values = as_numbers(frame, name)
        arrays.append(values)
        too_small = ~(np.isfinite(values) & (values >= minimum))
        if too_small.any():
            faulty.append(name)
            bad |= too_small
    if faulty:
        op = "these"
        if "op" in frame:
            op = frame["op"].iloc[0]
        raise DataError(
            f"{op} rows need {few(faulty)} >= {minimum:g}, missing or smaller in "
            f"{int(bad.sum())} of {len(frame)} rows"
            f"{_where(frame, bad)}: add the columns, or leave these rows out"
        )
    return arrays


def positive(frame: pd.DataFrame, name: str) -> np.ndarray:
    """Return a measured column as floats; a DataError for a value that is missing, not finite, zero or negative."""
    values = as_numbers(frame, name)
    bad = ~(np.isfinite(values) & (values > 0))
    if bad.any():
        count = f"{int(bad.sum())} of {len(frame)} rows"
        raise DataError(
            f"{name} must be > 0: missing, zero or negative in {count}{_where(frame, bad)}"
        )
    return values


def as_arrow(words: pd.Series) -> pa.Array:
    """Return a column of dtype str as Arrow has it: nothing is copied where it is one piece."""
    given = pa.array(words.array)
    if isinstance(given, pa.ChunkedArray):
        return given.combine_chunks()
    return given


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
        if given.null_count:
            given = given.fill_null("")
        words = given.dictionary_encode()
        return words.indices.to_numpy(), words.dictionary.to_numpy(zero_copy_only=False)
    codes, levels = pd.factorize(column.astype(object))
    return codes, np.array([*levels, ""], dtype=object)


def as_categories(column: pd.Series) -> np.ndarray | pd.Categorical:
    """Return a column with words as categories, numbers as they are: words are few, and asked for many times."""
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy()
    return pd.Categorical.from_codes(*pd.factorize(column))


MANY_ROWS: Final = 1000
"""From so many rows on it is faster to look at the distinct words alone."""


def texts(frame: pd.DataFrame, name: str) -> np.ndarray:
    """Return a text column as an object array, with ``""`` where it is missing or empty."""
    if name in frame and len(frame) < MANY_ROWS:
        column = frame[name]
        if column.dtype == "str":
            return column.to_numpy(dtype=object, na_value="")
    codes, words = coded(frame, name)
    return words[codes]


def distinct(*columns: np.ndarray) -> tuple[np.ndarray, list[tuple[Any, ...]]]:
    """Return the place of each row's values among the distinct ones, (n,), and these, in order of appearance.

    >>> codes, levels = distinct(np.array(["a", "b", "a"]), np.array([1, 1, 1]))
    >>> codes.tolist(), len(levels)
    ([0, 1, 0], 2)
    """
    places: dict[tuple[Any, ...], int] = {}
    codes = [
        places.setdefault(values, len(places))
        for values in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return np.array(codes, dtype=np.intp), [*places]


def element_bytes(frame: pd.DataFrame, name: str) -> np.ndarray:
    """Return the bytes of one element of the precision in column `name` (0.5 for fp4, 0.75 for fp6).

    Raises DataError where it is missing or unknown.
    """
    codes, words = coded(frame, name)
    sizes = np.array([BITS.get(word, 0) / 8 for word in words])[codes]
    bad = sizes == 0
    if bad.any():
        unknown = dict.fromkeys(words[codes[bad]])
        raise DataError(
            f"unknown {name} {few(map(repr, unknown))}{_where(frame, bad)}: known are "
            f"{', '.join(BITS)}"
        )
    return sizes
