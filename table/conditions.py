"""How data are read, and rows of a table by conditions on its columns: values, lists of them, and ranges of numbers."""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict

from ..errors import DataError, FlopcastError, ParameterError, few
from ..values import Assigned

if TYPE_CHECKING:  # conditions are checked before anything is read
    import pandas as pd

Where: TypeAlias = Mapping[str, Any] | Sequence[str] | str | None
"""Conditions on columns: column -> value, list of values or ``(from, to)``; or texts such as ``m=16..512``."""
TRUTH: Final = {
    "true": 1.0,
    "1": 1.0,
    "1.0": 1.0,
    "yes": 1.0,
    "false": 0.0,
    "0": 0.0,
    "0.0": 0.0,
    "no": 0.0,
}
_TO: Final = ".."
_LISTED: Final = 12  # values named in an error message


class TableReading(TypedDict, total=False):
    """How a plain table is read: which rows, and what its columns are called here."""

    where: Where
    rename: Assigned | None


class Reading(TableReading, total=False):
    """How data are read: keywords of every function that reads some; `read` says what each means."""

    unit: Assigned | None
    default: Assigned | None


class MeasuredReading(Reading, total=False):
    """How measurements are read, of which some may look impossible."""

    keep: Collection[str]


@dataclass(frozen=True)
class Condition:
    """What a column must have: one of the texts, each a value or, of numbers, a range such as ``16..512``."""

    column: str
    texts: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.column}={','.join(self.texts)}"


def conditions(where: Where) -> tuple[Condition, ...]:
    """Return conditions on columns, all of which a row must meet.

    By column they are a value, or a list of values of which a row has one. A tuple of two numbers
    is a range with both its ends; None in the place of one leaves it open. A text may hold several
    values (``"bf16,fp8"``) or a range (``"16..512"``, ``"..256"``, ``"1024.."``). Or conditions are
    texts: ``["op=gemm", "m=16..512"]``. Raises ParameterError: a condition has no column, or a
    range cannot hold a number.

    >>> [str(one) for one in conditions({"op": "gemm", "m": (16, None), "n": [32, 64]})]
    ['op=gemm', 'm=16..', 'n=32,64']
    >>> conditions("m=16..512")
    (Condition(column='m', texts=('16..512',)),)
    """
    if where is None:
        return ()
    if isinstance(where, Mapping):
        return tuple(
            Condition(str(column), _texts(str(column), values)) for column, values in where.items()
        )
    texts = where
    if isinstance(where, str):
        texts = [where]
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) for text in texts):
        raise ParameterError(
            "where", f"must map columns to values, such as {{'op': 'gemm'}}, got {where!r}"
        )
    parsed = []
    for text in texts:
        column, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not column:
            raise ParameterError(
                "where", f"must be COLUMN=VALUE, got {text!r}: write e.g. op=gemm or m=16..512"
            )
        parsed.append(Condition(column, _texts(column, value)))
    return tuple(parsed)


def select(frame: pd.DataFrame, where: Where) -> pd.DataFrame:
    """Return the rows, renumbered, that meet all conditions (`conditions`).

    Numbers are compared as numbers ("m=16" is "m=16.0"), flags as words ("tuned=true"); a text that
    a column of words holds as it stands is that value, with its commas; operators, devices and
    number formats may have any of their names. Raises DataError for a column that the table lacks
    (with the closest), a value or range that no row has (with those present), or conditions that
    leave no row between them.
    """
    chosen = frame
    every = conditions(where)
    for place, one in enumerate(every):
        if one.column not in frame.columns:
            names = [name for name in map(str, frame.columns) if not name.startswith("_")]
            close = difflib.get_close_matches(one.column, names, n=3) or names
            raise DataError(f"the table has no column {one.column!r}: try {few(close, _LISTED)}")
        met = _meeting(chosen[one.column], frame[one.column], one)
        left = chosen
        if not met.all():
            left = chosen[met]
        if left.empty:
            same = [other for other in every[:place] if other.column == one.column]
            if same:
                either = f"{same[0]},{','.join(one.texts)}"
                raise DataError(
                    f"no row has {same[0]} and {one} at once: for either of them write {either}"
                )
            raise DataError(
                f"no row has {one} after the other conditions: there {_held(chosen[one.column])}"
            )
        chosen = left
    return chosen.reset_index(drop=True)


def _texts(column: str, values: Any) -> tuple[str, ...]:
    """Return values as texts, a pair of numbers as the text of a range; refuse empty ranges."""
    if (
        isinstance(values, tuple)
        and len(values) == 2
        and all(v is None or _is_number(v) for v in values)
    ):
        values = _TO.join("" if value is None else str(value) for value in values)
    if isinstance(values, set | frozenset):
        values = sorted(values, key=str)
    listed = [values]
    if isinstance(values, Collection) and not isinstance(values, str | bytes | Mapping):
        listed = list(values)
    texts = tuple(map(_text, listed))
    for text in _parts(texts):
        ends = _range(text)
        if ends is not None and (ends[0] > ends[1] or text.strip() == _TO):
            raise ParameterError(
                "where", f"{column}={text} holds no number: a range is 16..512, ..256 or 1024.."
            )
    return texts


def _text(value: Any) -> str:
    """Return a value as a text; a GPU is its name in tables."""
    if isinstance(value, str | Real):
        return str(value)
    from ..hardware import word_of  # here: conditions are checked before what this imports

    return str(word_of(value))


def _meeting(column: pd.Series, every: pd.Series, one: Condition) -> pd.Series:
    """Return which of some rows of a column meet a condition; each of its values must occur in `every` row."""
    met = column.isin([])
    for text in one.texts:
        whole = _is_words(every) and every.eq(text).any()
        for part in [text] if whole else _parts([text]):
            if _equal(every, part).any():
                value = part
            else:
                value = _as_in_table(one.column, part, every)
            if not _equal(every, value).any():
                raise DataError(f"no row has {one.column}={part}: {_held(every)}")
            met |= _equal(column, value)
    return met


def _as_in_table(column: str, text: str, every: pd.Series) -> str:
    """Return a word for an operator, a device or a number format in the table's spelling, others in any case."""
    from ..hardware import find
    from ..operators.operators import canonical_op

    # here: conditions are checked before what this imports
    from ..operators.work import canonical_dtype

    with suppress(FlopcastError):
        if column == "op":
            return canonical_op(text)
        if column.startswith("dtype_"):
            return canonical_dtype(text)
        if column == "device" and not text.endswith(".toml"):
            return find(text).name
    if _is_words(every):
        same = [word for word in every.unique() if str(word).casefold() == text.casefold()]
        if len(same) == 1:
            return str(same[0])
        return text
    return text


def _equal(column: pd.Series, text: str) -> pd.Series:
    """Return which rows have the value, or lie in the range, that a text names for a column of its type."""
    if _is_words(column):
        return column.eq(text)
    word = TRUTH.get(text.lower())
    if column.dtype.kind == "b":
        if word is not None:
            return column.eq(bool(word))
        return column.isin([])
    ends = _range(text)
    if ends is not None:
        return column.between(*ends)
    try:
        return column.eq(float(text) if word is None else word)
    except ValueError:
        kinds = "16, 16,32, 16..512, ..256 or 1024.."
        raise DataError(
            f"column {column.name!r} holds numbers, got {text!r}: write e.g. {kinds}"
        ) from None


def _range(text: str) -> tuple[float, float] | None:
    """Return the ends of a range of numbers, None if the text is none."""
    if _TO not in text:
        return None
    start, _, end = (part.strip() for part in text.partition(_TO))
    try:
        ends = float(start or "-inf"), float(end or "inf")
    except ValueError:
        return None
    if any(map(math.isnan, ends)):
        return None
    return ends


def _parts(texts: Iterable[str]) -> list[str]:
    result = []
    for text in texts:
        for part in text.split(","):
            result.append(part.strip())
    return result


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_words(column: pd.Series) -> bool:
    return column.dtype.kind not in "biuf"


def _held(column: pd.Series) -> str:
    """Describe a column: its values, the most frequent first; of many numbers the least and the greatest."""
    counts = column.value_counts()
    if not _is_words(column) and len(counts) > _LISTED:
        return f"{column.name} is {column.min():g}..{column.max():g}"
    shown = [
        f"{value:g}" if isinstance(value, float) else repr(value) if value == "" else str(value)
        for value in counts.index
    ]
    return f"{column.name} is {few(shown, _LISTED)}"
