"""CONTRIBUTING.md: every file of the package is named in it, and everything it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PARTS = ("hardware", "features", "models", "evaluation", "measuring", "projection", "report", "telemetry")


def section(folder: str) -> str:
    """Return the table of a folder."""
    return PAGE.split(f"**`{folder}/`")[1].split("**")[1]


@pytest.mark.parametrize("folder", PARTS)
def test_every_module_is_named_in_the_table_of_its_folder(folder: str) -> None:
    modules = (path.relative_to(ROOT / folder) for path in (ROOT / folder).rglob("*.py"))
    missing = [
        str(path)
        for path in modules
        if path.name != "__init__.py"
        and f"`{path}`" not in section(folder)
        and f"`{path.parent}/`" not in section(folder)
    ]
    assert not missing


def test_every_module_of_the_root_is_named() -> None:
    assert not [path.name for path in ROOT.glob("*.py") if path.stem != "__init__" and f"| `{path.name}` |" not in PAGE]


@pytest.mark.parametrize("folder", PARTS)
def test_what_a_table_names_is_there(folder: str) -> None:
    named = re.findall(r"`([\w/]+\.(?:py|toml|csv))`", section(folder))
    assert named
    assert not [name for name in named if not (ROOT / folder / name).is_file()]


def test_paths_exist() -> None:
    elsewhere = {"runs/demo", "shared/data"}
    named = set(re.findall(r"`([a-z_]+/[\w/.]+)`", PAGE)) - elsewhere
    assert "models/stepwise.py" in named
    assert not [name for name in named if not any((ROOT / folder / name).exists() for folder in ("", *PARTS))]


def test_every_make_target_is_described() -> None:
    (line,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert not [target for target in line.split() if f"`make {target}`" not in PAGE]
