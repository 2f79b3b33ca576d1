"""What the documents name is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PATH = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|toml|md|csv|json)|(?:\w+/)+)`")


@pytest.mark.parametrize("document", ["CONTRIBUTING.md"])
def test_paths_exist(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    named = PATH.findall(text)
    assert named
    assert not [
        path for path in named if not any((ROOT / place / path).exists() for place in (".", "models", "evaluation"))
    ]
