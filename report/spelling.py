"""Messages as the command line spells what they ask for; imports nothing, so that a command refuses at once."""

from __future__ import annotations

import re
from typing import Final

from .wording import wording

_KEYWORDS: Final = wording("spelling-keywords")


def as_options(text: str) -> str:
    """Return a message with the settings that it asks for as the command line spells them.

    A reader does not know the door it is called by: it says "give default op=gemm" or "give unit
    time=us".

    >>> as_options("no column 'op': give default op=gemm")
    "no column 'op': give --default op=gemm"
    >>> as_options("in fp8 its answers may differ (dtype=bf16 leaves fp8 out)")
    'in fp8 its answers may differ (--dtype bf16 leaves fp8 out)'
    >>> as_options("the target's CPU is assumed to be as fast: state cpu_speed")
    "the target's CPU is assumed to be as fast: state --cpu-speed"
    """
    for keyword, option in _KEYWORDS.items():
        text = text.replace(keyword, option)
    text = re.sub(r"\((dtype)=(\w+) leaves", r"(--\1 \2 leaves", text)
    return re.sub(r"\b(give|or|by) (default|unit|rename) (?=\S+=)", r"\1 --\2 ", text)
