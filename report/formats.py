"""How numbers are written, on the terminal and on pages: every topic of `report` takes its formats from here.

A figure that does not exist (None, NaN) is ``–`` in each of them.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable
from typing import Any, Final

import pandas as pd

from ..errors import counted as counted

NONE: Final = "–"
_UNIT: Final = re.compile(
    r"(?<=\d) (?=(?:%|[µmn]?s|m?J|kJ|[mk]?W|[GM]B|GiB|GB/s|[GTPE]FLOP/s)(?![\w/]))"
)


def unbroken(text: str) -> str:
    r"""Return a sentence in which no line ends between a figure and its unit.

    >>> unbroken("9.1 % of 3 files in 2 µs").replace("\xa0", "~")
    '9.1~% of 3 files in 2~µs'
    """
    return _UNIT.sub("\xa0", text)


def escape(text: str) -> str:
    """Return a text as figures show it: plotly reads ``&lt;``, but leaves ``&quot;`` as it stands.

    >>> escape('<b a="1">')
    '&lt;b a="1"&gt;'
    """
    return html.escape(text, quote=False)


def has_value(value: Any) -> bool:
    """Whether there is a figure: not None, NaN or NA."""
    return value is not None and not pd.isna(value)


def formatted(value: Any, form: str) -> str:
    """Return a finite figure in a format of `str.format`.

    >>> formatted(1234.5, "{:,.2f}"), formatted(float("nan"), "{:.1f}")
    ('1,234.50', '–')
    """
    if has_value(value) and math.isfinite(value):
        return form.format(value)
    return NONE


def number(value: float | None) -> str:
    """Return a figure with one decimal, or in powers of ten if it is huge.

    >>> number(9.25), number(1.3e9), number(None)
    ('9.2', '1.3e+09', '–')
    """
    return formatted(value, "{:.1f}" if value is None or abs(value) < 1e5 else "{:.1e}")


def percent(value: float | None) -> str:
    """Return a percentage (9.4, not 0.094) with one decimal and its sign."""
    return f"{number(value)} %"


def share(part: float | None, digits: int = 1) -> str:
    """Return a share of one as a percentage.

    >>> share(0.1234), share(0.1234, 0), share(None)
    ('12.3 %', '12 %', '–')
    """
    return formatted(None if part is None else 100 * part, f"{{:.{digits}f}} %")


def figure(value: Any) -> str:
    """Return four significant digits, thousands with commas, from ten thousand on without decimals.

    >>> figure(3.14159), figure(1234.5), figure(123456.7), figure(float("nan"))
    ('3.142', '1,234', '123,457', '–')
    """
    if not has_value(value) or not math.isfinite(value):
        return NONE
    if abs(value) < 1e4:
        return f"{value:,.4g}"
    return f"{value:,.0f}"


def alike(*values: Any) -> list[str]:
    """Return figures aligned: all with the decimals that give the largest four significant digits.

    >>> alike(6.5, 5.2231, 0.0008235, None)
    ['6.500', '5.223', '0.001', '–']
    """
    largest = max(
        (abs(value) for value in values if has_value(value) and math.isfinite(value)), default=0.0
    )
    decimals = 0
    if largest:
        decimals = max(3 - math.floor(math.log10(largest)), 0)
    return [formatted(value, f"{{:,.{decimals}f}}") for value in values]


def significant(value: Any) -> str:
    """Return four significant digits, trailing zeros included, for columns that span magnitudes.

    >>> significant(6.06), significant(1234.5), significant(0), significant(None)
    ('6.060', '1,234', '0', '–')
    """
    if not has_value(value) or value == 0 or abs(value) >= 1e3:
        return formatted(value, "{:,.0f}")
    return formatted(value, "{:#.4g}").rstrip(".")


def milliseconds(microseconds: float) -> str:
    """Return µs as ms with three decimals, the unit being that of the column.

    >>> milliseconds(1234567.8)
    '1,234.568'
    """
    return formatted(microseconds / 1e3, "{:,.3f}")


def duration(microseconds: float) -> str:
    """Return a time in µs or ms, with its unit and four significant digits; from ten seconds on without decimals.

    >>> duration(12.3456), duration(1234567.8), duration(12345678.9)
    ('12.35 µs', '1,235 ms', '12,346 ms')
    """
    if math.isnan(microseconds):
        return NONE
    if microseconds < 1000:
        return f"{microseconds:.4g} µs"
    if microseconds < 1e7:
        return f"{microseconds / 1000:,.4g} ms"
    return f"{microseconds / 1000:,.0f} ms"


def clock(seconds: float) -> str:
    """Return seconds as a clock would.

    >>> clock(125), clock(12.4)
    ('2 min 05 s', '12 s')
    """
    minutes, rest = divmod(round(seconds), 60)
    if minutes:
        return f"{minutes} min {rest:02d} s"
    return f"{rest} s"


def between(lower: float, upper: float, form: str = "{:,.3f}") -> str:
    """Return an interval, ``–`` where its lower limit is missing.

    >>> between(1.5, 2.25), between(float("nan"), 1.0)
    ('1.500 … 2.250', '–')
    """
    if has_value(lower):
        return f"{form.format(lower)} … {form.format(upper)}"
    return NONE


def agreed(value: str, label: str) -> str:
    """Return the label of a count, in the singular where it counts one.

    >>> agreed("1", "new rows"), agreed("2", "new rows"), agreed("1", "profiling passes, of 3")
    ('new row', 'new rows', 'profiling pass, of 3')
    """
    if value != "1":
        return label
    return _PLURAL.sub(lambda match: match[1] + match[2], label)


_PLURAL: Final = re.compile(
    r"^((?:\w+ )?)(pair|group|row|workload|feature|counter|campaign|pass)(?:s|es)\b"
)


def shortened(name: str, width: int) -> str:
    """Return a name of so many characters at most, cut in the middle: names of kernels differ at their ends.

    >>> shortened("Cijk_Alik_Bljk_MT64", 9), shortened("copy", 9)
    ('Cijk…MT64', 'copy')
    """
    if len(name) <= width:
        return name
    if width < 2:
        return "…"
    end = (width - 1) // 2
    return f"{name[: width - 1 - end]}…{name[len(name) - end :]}"


def distinct(name: str, others: Iterable[str], width: int) -> str:
    """Return a name of at most so many characters that differs from the others; of a shared prefix the beginning stays.

    >>> names = ["Cijk_Alik_MT16x16x8_WG16_4_4", "Cijk_Alik_MT32x16x8_WG16_4_4"]
    >>> [distinct(name, names, 18) for name in names]
    ['Cijk_…_MT16x16x8_…', 'Cijk_…_MT32x16x8_…']
    """
    short = shortened(name, width)
    shared = None
    for other in others:
        if other != name and shortened(other, width) == short:
            alike = _shared(name, other)
            if shared is None:
                shared = alike
            else:
                shared = min(shared, alike)
    if shared is None:
        return short
    head = max(width // 3 - 1, 1)
    left = width - head - 2
    start = max(shared - left // 3, head)
    if start + left >= len(name):
        return short
    return f"{name[:head]}…{name[start : start + left]}…"


def _shared(name: str, other: str) -> int:
    """Return the length of the common prefix of two names."""
    for place, (mine, theirs) in enumerate(zip(name, other, strict=False)):
        if mine != theirs:
            return place
    return min(len(name), len(other))


def data_size(value: float) -> str:
    """Return bytes in the unit that gives the shortest number.

    >>> data_size(67_108_864), data_size(12.0), data_size(float("nan"))
    ('67.11 MB', '12 B', '–')
    """
    if not math.isfinite(value):
        return NONE
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= factor:
            return f"{value / factor:.4g} {unit}"
    return f"{value:.4g} B"
