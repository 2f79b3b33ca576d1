"""Words of what is said of a predicted row: how it is unlike training, or why it has no prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ...errors import few
from ...remarks import Remark
from .reading import reason_of


def _outside(trained: Sequence[str], side: str) -> Callable[..., str]:
    """Return the words of a feature beyond one end of its trained range; `trained`: where it varied, and did not."""

    def words(feature: str, value: float, limit: float, only: bool, log: bool, far: float, factor: bool) -> str:
        shown, edge = (f"2^{value:.1f}", f"2^{limit:.1f}") if log else (f"{value:.4g}", f"{limit:.4g}")
        spans = "x" if factor else " spans"
        return f"{feature} is {shown}, trained {trained[only]} {edge} ({far:.1f}{spans} {side})"

    return words


def _unseen_level(category: str, level: str, known: Sequence[str]) -> str:
    return f"{category} {level} was not in training ({few(known)})"


def _never_trained(category: str, level: str, known: Sequence[str]) -> str:
    return f"{category} {level} was never trained ({few(known)}): nothing is known of it"


def _refused(reason: str, detail: str) -> str:
    return f"{reason_of(reason)} ({detail})" if detail else reason_of(reason)


WORDS: Final[dict[str, str | Callable[..., str]]] = {
    "above-trained-range": _outside(("to", "only at"), "beyond"),
    "below-trained-range": _outside(("from", "only at"), "below"),
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
        "doubling, which was never measured: for that, ranges are left out of training, and it takes {least} rows in "
        "each half"
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


def in_words_of_rows(reasons: Sequence[Sequence[Remark]]) -> tuple[list[str], list[str]]:
    """Return `say_all` of each row's reasons, and `cause` of its first ("" where it has none).

    A remark that several rows share is put into words once.

    Examples
    --------
    >>> from flopcast.remarks import remark
    >>> missing = remark("missing-value", feature="m")
    >>> in_words_of_rows([(missing,), ()])
    (['m is missing, trained always with a value', ''], ['m is missing, trained always with a value', ''])
    """
    words: dict[int, str] = {}
    causes: dict[int, str] = {}
    said, first = [""] * len(reasons), [""] * len(reasons)
    for row, why in enumerate(reasons):
        for one in why:
            if id(one) not in words:
                words[id(one)] = _say(one)
        if why:
            said[row] = words[id(why[0])] if len(why) == 1 else "; ".join([words[id(one)] for one in why])
            if id(why[0]) not in causes:
                causes[id(why[0])] = cause(why[0])
            first[row] = causes[id(why[0])]
    return said, first


def cause(reason: Remark) -> str:
    """Return a reason without the figures of one row."""
    return _say(reason, CAUSES.get(reason.code))


def _say(reason: Remark, words: str | Callable[..., str] | None = None) -> str:
    text = words or WORDS[reason.code]
    return text(**reason.values) if callable(text) else text.format(**reason.values)
