"""Numbers as programs print them for people: "1,234.56", "1.234,56", "1 234,56", "1'234.56".

What a comma or a point means is a matter of the locale, one for a whole file. "1,234" alone can be 1234 or 1.234: other
numbers of the file decide, and where none does, nobody can.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_SPACES = " \u00a0\u2009\u202f'’"
#: A number by its decimal mark: digits, or groups of three with another mark or a space between them.
_NUMBERS = {
    mark: re.compile(
        rf"^[+-]?(?:(?:\d+(?:[{mark}]\d*)?|[{mark}]\d+)(?:[eE][+-]?\d+)?"
        rf"|[1-9]\d{{0,2}}(?P<group>[{other}{_SPACES}])\d{{3}}(?:(?P=group)\d{{3}})*(?:[{mark}]\d*)?)$"
    )
    for mark, other in ((".", ","), (",", "."))
}


class AmbiguousNumbersError(ValueError):
    """Numbers contradict each other, or may be read either way; `examples` are some of them."""

    def __init__(self, message: str, examples: tuple[str, ...]) -> None:
        super().__init__(message)
        self.examples = examples


def decimal_mark(words: Iterable[str]) -> str:
    """Return the decimal mark, "." or ",", that all the words agree on.

    Parameters
    ----------
    words : iterable of str
        Printed values of one file; what is no number does not count.

    Returns
    -------
    str
        "." where no word has any mark.

    Raises
    ------
    AmbiguousNumbersError
        Some words need the one and some the other, or every word can be read either way.

    Examples
    --------
    >>> decimal_mark(["1,234", "56.7"])
    '.'
    >>> decimal_mark(["1.234", "56,7"])
    ','
    """
    witnesses: dict[str, str] = {}
    open_to_both = ""
    for word in words:
        mark = _mark_of(word)
        if mark == "either":
            open_to_both = open_to_both or word
        elif mark:
            witnesses.setdefault(mark, word)
    if len(witnesses) > 1:
        examples = tuple(sorted(witnesses.values()))
        raise AmbiguousNumbersError(f"numbers of different locales ({' and '.join(map(repr, examples))})", examples)
    if open_to_both and not witnesses:
        raise AmbiguousNumbersError(
            f"{open_to_both!r} may be a whole number or a fraction, and no other number tells", (open_to_both,)
        )
    return next(iter(witnesses), ".")


def parsed(word: str, mark: str) -> float | None:
    """Return the number that a word is under a decimal mark; None if it is not a number.

    Examples
    --------
    >>> parsed("1.234,5", ",")
    1234.5
    """
    if not _NUMBERS[mark].match(word):
        return None
    digits = word.replace("." if mark == "," else ",", "")
    for space in _SPACES:
        digits = digits.replace(space, "")
    return float(digits.replace(mark, "."))


def _mark_of(word: str) -> str:
    """Return the decimal mark that a word needs, "either" if it can be read both ways, "" if it says nothing."""
    readings = [mark for mark in ".," if parsed(word, mark) is not None]
    if not ("." in word or "," in word) or not readings:
        return ""
    return readings[0] if len(readings) == 1 else "either"
