"""What there is to say of data or of a result: a code and its values for programs, and a text for people.

The text stands where the remark is made, beside its code: ``remark("few-runs", f"{runs} runs only",
runs=runs)``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:  # errors hold remarks, and what refuses a wrong option need not wait for NumPy
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from .arrays import BoolArray

_JOINED: Final = 2**13  # rows whose texts are joined at a time


# Text as it may be shown: names come from data, and a name must not steer a terminal or turn the
# order of a line.


def visible(text: str) -> str:
    r"""Return text with escapes in place of the characters that cannot be seen; ends of lines, tabs and blanks stay.

    These are controls (ESC, C1), signs of direction and other formats, and bytes of file names that
    are no text.

    >>> print(visible("gemm\x1b[31m"), visible("a\u202eb"))
    gemm\x1b[31m a\u202eb
    """
    return without_hidden(text, lambda sign: sign.encode("unicode_escape").decode())


def without_hidden(text: str, escaped: Callable[[str], str]) -> str:
    """Return text with what stands for each character that cannot be seen in its place."""
    if text.isprintable():
        return text
    lines = text.split("\n")
    for place, line in enumerate(lines):
        if line.isprintable():
            continue
        signs = list(line)
        for at, sign in enumerate(line):
            is_blank = sign.isspace() and sign > "\x9f" and sign not in "\u2028\u2029"
            if not (sign.isprintable() or sign == "\t" or is_blank):
                signs[at] = escaped(sign)
        lines[place] = "".join(signs)
    return "\n".join(lines)


@dataclass(frozen=True, slots=True, repr=False)
class Remark:
    """One remark, reason or finding; remarks of equal code and values are equal and can be counted.

    Attributes
    ----------
    code : str
        Stable name, e.g. ``"above-trained-range"``: what code compares, never the text.
    items : tuple of (str, value)
        The figures and names of this case, each hashable.
    text : str
        One line without a full stop at its end. A remark without one (read from an old file) shows
        code and values.
    general : str
        The text without what belongs to this case alone, under which many are counted; otherwise
        the text.

    Examples
    --------
    >>> missing = remark("missing-value", "m is missing", feature="m")
    >>> missing, missing.code, missing.values
    ([missing-value] m is missing, 'missing-value', {'feature': 'm'})
    >>> Remark("missing-value", (("feature", "m"),))
    [missing-value] feature = m
    >>> remark("spikes", "spikes, over 1.3 times slower"), remark("quick")
    ([spikes] spikes, over 1.3 times slower, [quick])
    """

    code: str
    items: tuple[tuple[str, Hashable], ...] = ()
    text: str = field(default="", compare=False)
    general: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        text = self.text
        if not text:
            values = ", ".join(f"{name} = {value}" for name, value in self.items)
            if values:
                text = f"{self.code}: {values}"
            else:
                text = self.code
        object.__setattr__(self, "text", visible(text))
        object.__setattr__(self, "general", visible(self.general or text))

    def __repr__(self) -> str:
        if self.text == self.code:
            said = ""
        else:
            said = self.text.removeprefix(f"{self.code}: ")
        return f"[{self.code}] {said}".rstrip()

    def __str__(self) -> str:
        return self.text

    @property
    def values(self) -> Mapping[str, Any]:
        """The figures and names of this case by their key."""
        return dict(self.items)

    def to_dict(self) -> dict[str, Any]:
        """Return the code, the values and the text, for JSON."""
        return {"code": self.code, **dict(self.items), "text": self.text}

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Self:
        """Return what `to_dict` wrote; what old releases wrote has no text."""
        values = dict(saved)
        code = str(values.pop("code"))
        text = str(values.pop("text", ""))
        return cls(code, tuple(values.items()), text)


def remark(code: str, text: str = "", general: str = "", /, **values: Hashable) -> Remark:
    """Return a remark: its code, its finished text, and the values that the text is about."""
    return Remark(code, tuple(values.items()), text, general)


def joined(remarks: Iterable[Remark]) -> str:
    """Return the texts of remarks in one line, "" of none."""
    return "; ".join(map(str, remarks))


@dataclass(frozen=True, slots=True)
class Alike:
    """Remarks of one code that differ in some values only: a million of them take little time and memory."""

    code: str
    shared: tuple[tuple[str, Hashable], ...]  # what is the same in all of them
    differing: Mapping[str, NDArray[Any]]  # the values that differ: arrays (n,) of one length
    template: str  # their text, with a ``%`` conversion for each differing value, in order (``"m is %.4g"``)
    general: str  # as of `Remark`

    def __post_init__(self) -> None:
        object.__setattr__(self, "template", visible(self.template))
        object.__setattr__(self, "general", visible(self.general))

    def texts(self) -> tuple[NDArray[np.object_], NDArray[np.intp]]:
        """Return the texts that differ, and which of them each has: those of equal values are made once."""
        import numpy as np
        import pandas as pd

        codes = first = np.zeros(1, dtype=np.int64)
        for values in self.differing.values():
            bits = values
            if values.dtype == np.float64:  # 0.0 and -0.0 are written otherwise
                bits = values.view(np.int64)
            if (bits == bits[first][codes]).all():  # it follows from those before
                continue
            places, distinct = pd.factorize(bits)
            if 2 * len(distinct) > len(values):  # to find what is equal takes longer than the texts
                each = [self.template % row for row in self._rows()]
                return np.array(each, dtype=object), np.arange(len(each))
            codes = pd.factorize(codes * (len(distinct) + 1) + places)[0]
            first = np.empty(codes.max() + 1, dtype=np.int64)
            first[codes[::-1]] = np.arange(len(codes))[::-1]
        codes = np.broadcast_to(codes, len(next(iter(self.differing.values()))))
        texts = [self.template % row for row in self.take(first)._rows()]
        return np.array(texts, dtype=object), codes

    def each(self) -> list[Remark]:
        """Return them one by one."""
        names = tuple(self.differing)
        remarks = []
        for row in self._rows():
            items = (*self.shared, *zip(names, row, strict=True))
            remarks.append(Remark(self.code, items, self.template % row, self.general))
        return remarks

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        return zip(*(values.tolist() for values in self.differing.values()), strict=True)

    def take(self, places: NDArray[np.intp]) -> Alike:
        """Return some of them."""
        values_of_each = {name: values[places] for name, values in self.differing.items()}
        return Alike(self.code, self.shared, values_of_each, self.template, self.general)


class Reasons:
    """What is said of each of many ``rows``, in order, kept by what is said and not by row.

    ``parts`` are the positions of rows, each once, and what is said of all of them (`Remark`), or
    of each (`Alike`).

    >>> reasons = Reasons(3)
    >>> reasons.add([0, 2], remark("missing-value", "m is missing", feature="m"))
    >>> [len(said) for said in reasons.of_rows()], reasons.any().tolist()
    ([1, 0, 1], [True, False, True])
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self.parts: list[tuple[NDArray[np.intp], Remark | Alike]] = []

    @classmethod
    def of(cls, said: Sequence[Sequence[Remark]]) -> Self:
        """Return what is said of each row."""
        reasons = cls(len(said))
        stated = [(row, ways) for row, ways in enumerate(said) if ways]
        for place in range(max((len(ways) for _, ways in stated), default=0)):
            same: dict[int, tuple[Remark, list[int]]] = {}
            for row, ways in stated:
                if place < len(ways):
                    same.setdefault(id(ways[place]), (ways[place], []))[1].append(row)
            for one, rows in same.values():
                reasons.add(rows, one)
        return reasons

    def add(self, rows: Sequence[int] | NDArray[np.intp], what: Remark | Alike) -> None:
        """Say of some rows something more."""
        if len(rows):
            import numpy as np

            self.parts.append((np.asarray(rows, dtype=np.intp), what))

    def add_some(self, rows: NDArray[np.intp], what: Remark | Alike, kept: BoolArray) -> None:
        """Say of those ``rows`` that a mask keeps something more; it is told of all of them."""
        if isinstance(what, Alike) and not kept.all():
            what = what.take(kept.nonzero()[0])
        self.add(rows[kept], what)

    def extend(self, others: Reasons, at: NDArray[np.intp]) -> None:
        """Say what is said of other rows of those at these positions."""
        self.parts += [(at[rows], what) for rows, what in others.parts]

    def where(self, kept: BoolArray) -> Reasons:
        """Return what is said of the rows of a mask."""
        import numpy as np

        remaining = Reasons(int(kept.sum()))
        places = np.cumsum(kept) - 1
        for rows, what in self.parts:
            remaining.add_some(places[rows], what, kept[rows])
        return remaining

    def any(self) -> BoolArray:
        """Return of which rows anything is said."""
        import numpy as np

        has_reason = np.zeros(self.rows, dtype=bool)
        for rows, _ in self.parts:
            has_reason[rows] = True
        return has_reason

    def of_rows(self) -> list[tuple[Remark, ...]]:
        """Return what is said of each row."""
        said: list[list[Remark]] = [[] for _ in range(self.rows)]
        for rows, what in self.parts:
            if isinstance(what, Alike):
                each = what.each()
            else:
                each = [what] * len(rows)
            for row, one in zip(rows.tolist(), each, strict=True):
                said[row].append(one)
        return [tuple(why) for why in said]

    def texts(self) -> tuple[pa.ChunkedArray, NDArray[np.object_]]:
        """Return the text of all that is said of each row, and `general` of what comes first; "" where nothing is.

        >>> of_first = remark("missing-value", "m is missing"), remark("further-reasons", "and 2 more")
        >>> said, first = Reasons.of([of_first, ()]).texts()
        >>> said.to_pylist(), first.tolist()
        (['m is missing; and 2 more', ''], ['m is missing', ''])
        """
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        first = np.full(self.rows, "", dtype=object)
        count = np.zeros(self.rows, dtype=np.intp)  # what is said of each row so far
        pool = [pa.array([None, ""], pa.large_string())]
        pooled = 2
        in_order = [np.ones(self.rows, dtype=np.intp)]  # of each row the first, ... in the pool
        for rows, what in self.parts:
            if isinstance(what, Alike):
                texts, codes = what.texts()
            else:
                texts = np.array([what.text], dtype=object)
                codes = np.zeros(len(rows), np.intp)
            nth_of_rows = count[rows]
            first[rows[nth_of_rows == 0]] = what.general
            for nth in range(nth_of_rows.max() + 1):
                if nth == len(in_order):
                    in_order.append(np.zeros(self.rows, dtype=np.intp))
                at = nth_of_rows == nth
                in_order[nth][rows[at]] = pooled + codes[at]
            count[rows] += 1
            pool.append(pa.array(texts, pa.large_string()))
            pooled += len(texts)
        words = pa.concat_arrays(pool)
        joined = []
        between = pa.scalar("; ", pa.large_string())
        for start in range(0, self.rows, _JOINED):
            places_of_part = [places[start : start + _JOINED] for places in in_order]
            each = [words.take(pa.array(places)) for places in places_of_part]
            joined.append(pc.binary_join_element_wise(*each, between, null_handling="skip"))
        return pa.chunked_array(joined, pa.large_string()), first
