"""Messages as the command line spells what they ask for; imports nothing, so that a command refuses at once."""

from __future__ import annotations

import re


def as_options(text: str) -> str:
    """Return a message with the settings that it asks for as the command line spells them.

    A reader does not know the door it is called by: it says "give default op=gemm" or "give unit time=us".

    >>> as_options("no column 'op': give default op=gemm")
    "no column 'op': give --default op=gemm"
    """
    return re.sub(r"\b(give|or|by) (default|unit|rename) (?=\S+=)", r"\1 --\2 ", text)
