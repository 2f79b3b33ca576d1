"""Values as people write them: ``OLS,NNLS``, ``1:8``, ``20m``, ``500M``, ``time=ms``, ``0.74±0.06``.

The command line and the library read every value here, so that both take the same. What is no text passes as it is, in
the shape that the parameter has. Every function raises ParameterError, which names the parameter, where a text is
malformed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from .errors import ParameterError

Names: TypeAlias = str | Sequence[str]
"""``OLS,NNLS``, or a sequence of names."""
Columns: TypeAlias = str | Sequence[str]
"""``n,k``, or a sequence of columns."""
Column: TypeAlias = str
"""The name of a column of the data."""
Counts: TypeAlias = int | str | Sequence[int]
"""``1,2,4`` or ``1:8``, a whole number, or a sequence of them."""
Count: TypeAlias = int | str
"""One whole number."""
Probability: TypeAlias = float
"""Above 0 and below 1."""
Drawn: TypeAlias = Counts
"""Numbers of rows that are drawn to train on, 10 or more each."""
Numbers: TypeAlias = float | str | Sequence[float]
"""``8,16.5``, a number, or a sequence of them."""
Duration: TypeAlias = float | str
"""Seconds, or ``20m``."""
Limit: TypeAlias = float | str
"""Milliseconds, or ``2s``, or of a percentile ``p99<2s``."""
Time: TypeAlias = float | str
"""Seconds, or ``10ms``."""
Rate: TypeAlias = float | str
"""A second, or ``240/min``."""
Price: TypeAlias = float | str
"""``$0.12/kWh``."""
PriceByGPU: TypeAlias = float | str | Mapping[Any, float | str]
"""Of an hour: ``$2.5/h``, or ``MI300X=2.5,H200=3.5``, or a mapping of GPUs or their names."""
Size: TypeAlias = int | str
"""Bytes, or ``500M``."""
Repeated: TypeAlias = str | Sequence[str | Sequence[int]]
"""``40*1,2``, or a sequence of such, or of places."""
Folder: TypeAlias = str | Path
"""A folder."""
Beside: TypeAlias = str | Path
"""A file that is read beside another."""
Margin: TypeAlias = float
"""What counts as the same: 0.1 is within ±10 %."""
Assigned: TypeAlias = Mapping[str, Any] | str | Iterable[str]
"""``COLUMN=VALUE``, several of it, or a mapping."""
AssignedCounts: TypeAlias = Mapping[str, int] | str | Iterable[str]
"""``NAME=N``, several of it, or a mapping of whole numbers."""
SECONDS: Final = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
BYTES: Final = {"K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}
_QUANTITY: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]+)")
_MOST_BYTES: Final = 2**63
_MOST_COUNTS: Final = 1_000_000


def names(parameter: str, given: str | Iterable[str] | None) -> list[str] | None:
    """Return the names of ``OLS,NNLS``, or of a sequence; None stays None.

    >>> names("models", "OLS, NNLS")
    ['OLS', 'NNLS']
    """
    if given is None:
        return None
    if isinstance(given, str):
        listed = [name.strip() for name in given.split(",")]
        if not all(listed):
            raise ParameterError(parameter, f"must be NAME[,NAME], got {given!r}")
        return listed
    listed = list(given)
    if not all(isinstance(name, str) and name for name in listed):
        raise ParameterError(parameter, f"must be names, got {given!r}")
    return listed


def columns(parameter: str, given: str | Iterable[str] | None) -> list[str] | None:
    """Return the columns of ``n,k``, each of which may be given once; None stays None."""
    listed = names(parameter, given)
    if listed is None:
        return None
    if not listed or len(set(listed)) < len(listed):
        raise ParameterError(parameter, f"must be COLUMN[,COLUMN], each once, got {given!r:.60}")
    return listed


def numbers(parameter: str, given: str | float | Iterable[float] | None) -> list[float] | None:
    """Return the finite numbers of ``8,16.5``, one number or several as a list; None stays None.

    >>> numbers("sizes", "8, 16.5")
    [8.0, 16.5]
    """
    if given is None:
        return None
    if isinstance(given, Real):
        return [cast("float", given)]
    if not isinstance(given, str):
        return list(cast("Iterable[float]", given))
    try:
        listed = [float(part) for part in given.split(",")]
    except ValueError:
        listed = [math.nan]
    if not all(map(math.isfinite, listed)):
        problem = f"must be numbers with commas between, as in 50 or 50,100.5, got {given!r}"
        raise ParameterError(parameter, problem)
    return listed


def counts(parameter: str, given: str | int | Iterable[int] | None) -> list[int] | None:
    """Return the whole numbers of ``8``, ``1,2,4`` or ``1:8``, which doubles from the first to the last.

    One number or several are returned as a list; None stays None.

    >>> counts("gpus", "1:8"), counts("rows", "20,40")
    ([1, 2, 4, 8], [20, 40])
    """
    if given is None:
        return None
    if isinstance(given, Real):
        return [cast(int, given)]
    if not isinstance(given, str):
        return list(cast("Iterable[int]", given))
    listed: list[int] = []
    for part in given.split(","):
        listed += _doubled(parameter, part, given)
    return listed


def _doubled(parameter: str, part: str, given: str) -> list[int]:
    first, colon, last = part.partition(":")
    try:
        count = int(first)
        end = count
        if colon:
            end = int(last)
    except ValueError:
        problem = f"must be whole numbers, as in 8 or 1,2,4 or 1:256, got {given!r}"
        if parameter == "gpus":
            problem += ": it is how many there are, which ones says `gpu`"
        raise ParameterError(parameter, problem) from None
    if count < 0 or end < count or (colon and count == 0):
        problem = f"must rise from a number above 0, as in 1:256, got {part!r}"
        raise ParameterError(parameter, problem)
    if not colon:
        return [count]
    listed: list[int] = []
    while count <= end:
        listed.append(count)
        count *= 2
    return listed


def duration(parameter: str, given: str | float | None) -> float | None:
    """Return a time such as ``90s``, ``20m`` or ``1.5h`` in seconds; a number is of seconds, None stays None.

    >>> duration("budget", "20m"), duration("budget", 90)
    (1200.0, 90)
    """
    if not isinstance(given, str):
        return given
    value = _quantity(given, SECONDS)
    if value is None:
        raise ParameterError(parameter, f"must be a time such as 90s, 10m or 1.5h, got {given!r}")
    return value


def size(parameter: str, given: str | int | None) -> int | None:
    """Return a size such as ``500M`` or ``16G`` (powers of 1024) in bytes; a number is of bytes, None stays None.

    >>> size("max_size", "500M")
    524288000
    """
    if not isinstance(given, str):
        return given
    value = _quantity(given.upper(), BYTES)
    if value is None or not 1 <= value < _MOST_BYTES:
        raise ParameterError(parameter, f"must be a size such as 500M or 16G, got {given!r}")
    return int(value)


def _quantity(text: str, units: Mapping[str, float]) -> float | None:
    """Return a number times its unit, None where it is not a positive number with one of the units."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2] not in units:
        return None
    value = float(match[1]) * units[match[2]]
    if not 0 < value < math.inf:
        return None
    return value


def assigned(
    parameter: str, given: Mapping[str, Any] | str | Iterable[str] | None
) -> dict[str, str]:
    """Return ``NAME=VALUE``, several of it, or a mapping as a dictionary of texts; nothing for None.

    A value may hold further equals signs; a name has one value. A number or a path of a mapping is its text.

    >>> assigned("unit", ["time=ms", "power=W"])
    {'time': 'ms', 'power': 'W'}
    """
    if given is None:
        return {}
    pairs: dict[str, str] = {}
    if isinstance(given, Mapping):
        for name, value in given.items():
            if not isinstance(value, str | Real | PathLike):
                problem = f"must be text, a number or a file for {name}, got {value!r:.60}"
                raise ParameterError(parameter, problem)
            pairs[name] = str(value)
        return pairs
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, Sequence):
        problem = f"must be a mapping such as {{'column': 'value'}}, got {given!r:.60}"
        raise ParameterError(parameter, problem)
    for text in given:
        name, equals, value = str(text).partition("=")
        name = name.strip()
        value = value.strip()
        if not equals or not name:
            raise ParameterError(parameter, f"must be COLUMN=VALUE, got {text!r}")
        if pairs.setdefault(name, value) != value:
            problem = f"gives {name} twice, as {pairs[name]!r} and {value!r}: keep one"
            raise ParameterError(parameter, problem)
    return pairs


def assigned_counts(
    parameter: str, given: Mapping[str, int] | str | Iterable[str] | None
) -> dict[str, int]:
    """Return ``NAME=N``, several of it, or a mapping as a dictionary of whole numbers; nothing for None."""
    if isinstance(given, Mapping):
        return dict(given)
    try:
        return {name: int(value) for name, value in assigned(parameter, given).items()}
    except ValueError:
        raise ParameterError(
            parameter, f"must be NAME=N with a whole number N, got {given!r}"
        ) from None


def repeated(parameter: str, given: str | Sequence[int], names: Sequence[str] = ()) -> list[int]:
    """Return ``[TIMES*]N[,[TIMES*]N]`` as whole numbers, each N so many times in a row; ``×`` is taken for ``*``.

    N is a number from 1 on, or one of the ``names``, which stands for its place among them. A
    ParameterError says that it is neither, or that several have the name.

    >>> repeated("sequence", "3*1,2")
    [1, 1, 1, 2]
    >>> repeated("sequence", "3×gemv,gemm", ["gemm", "gemv"])
    [2, 2, 2, 1]
    """
    if not isinstance(given, str):
        return list(given)
    places: list[int] = []
    for part in given.replace("×", "*").split(","):
        times, star, place = part.rpartition("*")
        try:
            count = 1
            if star:
                count = int(times)
            number = _place(parameter, place.strip(), names)
        except ValueError:
            problem = f"must be numbers or names of kernels, as in 40*1,2, got {given!r}"
            raise ParameterError(parameter, problem) from None
        if not 1 <= count <= _MOST_COUNTS:
            problem = f"must repeat a kernel at least once, as in 40*1,2, got {part!r}"
            raise ParameterError(parameter, problem)
        places += count * [number]
    return places


def _place(parameter: str, word: str, names: Sequence[str]) -> int:
    """Return the number that a word is, or the place of the one thing of that name, from 1 on."""
    places = [place for place, name in enumerate(names, 1) if name == word]
    if len(places) > 1:
        numbers = " or ".join(map(str, places))
        raise ParameterError(parameter, f"must say which {word} is meant: {numbers}")
    if places:
        return places[0]
    return int(word)


def spread(parameter: str, given: str) -> tuple[float, float]:
    """Return the median and the spread of its logarithm of ``0.74±0.06``; a median alone has none.

    >>> spread("product", "0.74±0.06")
    (0.74, 0.06)
    """
    median, _, sigma = given.partition("±")
    try:
        return float(median), float(sigma or 0.0)
    except ValueError:
        problem = f"must be a median and its spread, as in 0.74±0.06, got {given!r}"
        raise ParameterError(parameter, problem) from None
