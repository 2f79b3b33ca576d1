"""The words of formats as tables (``words.toml``): a file's name of something -> ours."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any


@cache
def _tables() -> dict[str, Any]:
    file = resources.files("flopcast.readers").joinpath("words.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


def vocabulary(table: str) -> Any:
    """Return a table of ``words.toml``: a mapping, or a list.

    >>> vocabulary("miopen_driver_formats")["convfp16"]
    'fp16'
    """
    return _tables()[table]
