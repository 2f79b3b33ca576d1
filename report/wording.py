"""What codes and fields are called, as ``words.toml`` declares it; imports nothing of data."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path


def wording(topic: str) -> dict[str, str]:
    """Return what the codes or fields of a topic are called, in the order in which they are shown."""
    return _words()[topic]


@cache
def _words() -> dict[str, dict[str, str]]:
    return tomllib.loads((Path(__file__).parent / "words.toml").read_text("utf-8"))
