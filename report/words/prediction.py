"""Words of what is said of a predicted row: how it is unlike training, or why it has no prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from ...errors import few
from ...remarks import Alike, Reasons, Remark
from .reading import reason_of


def _outside(feature: str, limit: float, only: bool, log: bool, factor: bool, *, above: bool) -> str:
    """Return the words of a feature beyond one end of its trained range, to be filled with its value and how far."""
    number = "2^%.1f" if log else "%.4g"
    trained = "only at" if only else "to" if above else "from"
    unit, side = "x" if factor else " spans", "beyond" if above else "below"
    return f"{feature.replace('%', '%%')} is {number}, trained {trained} {number % limit} (%.1f{unit} {side})"


OF_MANY: Final[dict[str, Callable[..., str]]] = {
    "above-trained-range": partial(_outside, above=True),
    "below-trained-range": partial(_outside, above=False),
}
"""Code -> what makes of the values that many remarks share the words that those of each, in order, are put into."""


def _one_of_many(code: str, own: Sequence[str]) -> Callable[..., str]:
    def words(**values: Any) -> str:
        figures = tuple(values.pop(name) for name in own)
        return OF_MANY[code](**values) % figures

    return words


def _unseen_level(category: str, level: str, known: Sequence[str]) -> str:
    return f"{category} {level} was not in training ({few(known)})"


def _never_trained(category: str, level: str, known: Sequence[str]) -> str:
    return f"{category} {level} was never trained ({few(known)}): nothing is known of it"


def _refused(reason: str, detail: str) -> str:
    return f"{reason_of(reason)} ({detail})" if detail else reason_of(reason)


WORDS: Final[dict[str, str | Callable[..., str]]] = {
    **{code: _one_of_many(code, ("value", "far")) for code in OF_MANY},
    "missing-value": "{feature} is missing, trained always with a value",
    "never-in-training": "{feature} never occurred in training",
    "never-trained": _never_trained,
    "unseen-level": _unseen_level,
    "was-constant": "{feature} is {value:.4g}, in training always {trained:.4g}",
    "was-proportional": "{feature} is not {factor:.4g} x {to} as in training",
    "further-reasons": "and {count} more",
    "no-positive-prediction": "not a positive prediction: no interval",
    "slower-kernel": "another kernel solves this problem faster on {host}: trained on the fastest only",
    "figure-not-published": "{figure} of {gpu} is not published",
    "features-impossible": "{problem}",
    "feature-unknown": "{feature} is unknown for this row",
    "row-refused": _refused,
    "fixed-widening": (
        "outside the trained range the model itself answers, and its intervals grow by a fixed {widening:.0%} a "
        "doubling, which was never measured: for that, ranges are left out of training, and it takes {least} rows at "
        "each end"
    ),
    "never-stated": (
        "no row states its {column}, in training it was always {trained}: if that holds, state {column}={trained}"
    ),
    "other-devices": "{rows} rows name another device: their shapes are predicted for {target}",
    "law-lacks": "no {law} where {why}",
    "no-positive-metric": "no positive {metric}",
}

CAUSES: Final[dict[str, str | Callable[..., str]]] = {
    "above-trained-range": "{feature} is above the trained range",
    "below-trained-range": "{feature} is below the trained range",
    "never-trained": "{category} {level} was never trained",
    "unseen-level": "{category} {level} was not in training",
    "was-constant": "{feature} never varied in training",
    "row-refused": lambda reason, detail: reason_of(reason),
}
"""Code -> words without the figures of one row, under which rows are counted; other codes have none to leave out."""


BASES: Final = {
    "blend": "of them little outside the trained range: model and simple rule mixed (column `basis`)",
    "rule": "of them far outside the trained range: a simple rule",
    "law": "of them never trained: the law at trained rates, a rough figure",
}
"""What answered for a row that the model alone did not."""


def say_all(reasons: Sequence[Remark]) -> str:
    """Return the reasons of a row in one line, "" where there are none.

    Examples
    --------
    >>> from flopcast.remarks import remark
    >>> say_all([remark("missing-value", feature="m"), remark("further-reasons", count=2)])
    'm is missing, trained always with a value; and 2 more'
    """
    return "; ".join(map(_say, reasons))


def in_words_of_rows(reasons: Reasons) -> tuple[np.ndarray, np.ndarray]:
    """Return `say_all` of each row's reasons, and `cause` of its first ("" where it has none); arrays of object (n,).

    Examples
    --------
    >>> from flopcast.remarks import remark
    >>> said, first = in_words_of_rows(Reasons.of([(remark("missing-value", feature="m"),), ()]))
    >>> said.tolist()
    ['m is missing, trained always with a value', '']
    """
    said, first = (np.full(reasons.rows, "", dtype=object) for _ in range(2))
    for rows, what in reasons.parts:
        words = np.array(_say_each(what) if isinstance(what, Alike) else [_say(what)], dtype=object)
        new = said[rows] == ""
        first[rows[new]] = cause(what)
        said[rows] = np.where(new, words, said[rows] + "; " + words)
    return said, first


def causes_of(reasons: Iterable[Sequence[Remark]]) -> list[str]:
    """Return `cause` of the first reason of each row, "" where there is none.

    Examples
    --------
    >>> from flopcast.remarks import remark
    >>> causes_of([(remark("missing-value", feature="m"),), ()])
    ['m is missing, trained always with a value', '']
    """
    return in_words_of_rows(Reasons.of(list(reasons)))[1].tolist()


def _say_each(what: Alike) -> list[str]:
    words = OF_MANY[what.code](**dict(what.shared))
    return [words % figures for figures in zip(*what.own.values(), strict=True)]


def cause(reason: Remark | Alike) -> str:
    """Return a reason without the figures of one row."""
    return _say(reason, CAUSES.get(reason.code))


def _say(reason: Remark | Alike, words: str | Callable[..., str] | None = None) -> str:
    text = words or WORDS[reason.code]
    values = dict(reason.shared) if isinstance(reason, Alike) else reason.values
    return text(**values) if callable(text) else text.format(**values)
