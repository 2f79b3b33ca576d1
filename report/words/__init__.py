"""Remarks, reasons and findings in words: the one place where a code becomes a sentence. One file per area."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...remarks import Remark
from . import evaluation, measuring, prediction, projection, reading, scaling, traces, workloads

Words = Mapping[str, str | Callable[..., str]]
"""Code -> a template (``"{rows} rows lack {column}"``), or a function of the values where words depend on them."""

_AREAS: tuple[Words, ...] = (
    evaluation.WORDS,
    measuring.WORDS,
    prediction.WORDS,
    projection.WORDS,
    reading.WORDS,
    scaling.WORDS,
    traces.WORDS,
    workloads.WORDS,
)
"""``WORDS`` of every module beside this one; an area that is not listed here has no words."""
WORDS: dict[str, str | Callable[..., str]] = {code: text for area in _AREAS for code, text in area.items()}


def say(remark: Remark) -> str:
    """Return a remark in words: one line, without a full stop at its end.

    Raises
    ------
    KeyError
        No area has words for the code; a test sees to it that every code of the package has some.
    """
    text = WORDS[remark.code]
    values: Mapping[str, Any] = remark.values
    return text(**values) if callable(text) else text.format(**values)


def in_words(remarks: Iterable[Remark | str]) -> list[str]:
    """Return remarks in words; what is a sentence already stays one."""
    return [remark if isinstance(remark, str) else say(remark) for remark in remarks]
