"""A release writes its version and day wherever they stand."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMES = ("__init__.py", "CITATION.cff", "CHANGELOG.md")
bump = runpy.run_path(str(ROOT / ".ci" / "release.py"))["bump"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in NAMES:
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def test_version_and_day_are_written(tree: Path) -> None:
    unreleased = (tree / "CHANGELOG.md").read_text(encoding="utf-8").partition("## Unreleased\n")[2]
    bump(tree, "9.8.7", "2030-01-02")
    assert '__version__ = "9.8.7"\n' in (tree / "__init__.py").read_text(encoding="utf-8")
    assert "\nversion: 9.8.7\n" in (tree / "CITATION.cff").read_text(encoding="utf-8")
    assert (tree / "CHANGELOG.md").read_text("utf-8").endswith(f"## Unreleased\n\n## 9.8.7 (2030-01-02)\n{unreleased}")


@pytest.mark.parametrize("version", ["0.0.1", "1.0", "x"])
def test_what_is_no_newer_version_changes_nothing(tree: Path, version: str) -> None:
    with pytest.raises(SystemExit, match="VERSION"):
        bump(tree, version, "2030-01-02")
    assert all((tree / name).read_bytes() == (ROOT / name).read_bytes() for name in NAMES)


def test_nothing_unreleased_is_no_release(tree: Path) -> None:
    bump(tree, "9.8.7", "2030-01-02")
    with pytest.raises(SystemExit, match="Unreleased"):
        bump(tree, "9.8.8", "2030-01-03")
