"""A release writes its version and day wherever they stand; an audit says what it does not know."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
NAMES = ("__init__.py", "CITATION.cff", "CHANGELOG.md")
bump = runpy.run_path(str(ROOT / ".ci" / "release.py"))["bump"]
findings = runpy.run_path(str(ROOT / ".ci" / "audit.py"))["findings"]


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
    assert (
        (tree / "CHANGELOG.md")
        .read_text("utf-8")
        .endswith(f"## Unreleased\n\n## 9.8.7 (2030-01-02)\n{unreleased}")
    )


@pytest.mark.parametrize("version", ["0.0.1", "1.0", "x"])
def test_what_is_no_newer_version_changes_nothing(tree: Path, version: str) -> None:
    with pytest.raises(SystemExit, match="VERSION"):
        bump(tree, version, "2030-01-02")
    assert all((tree / name).read_bytes() == (ROOT / name).read_bytes() for name in NAMES)


def test_nothing_unreleased_is_no_release(tree: Path) -> None:
    bump(tree, "9.8.7", "2030-01-02")
    with pytest.raises(SystemExit, match="Unreleased"):
        bump(tree, "9.8.8", "2030-01-03")


@pytest.mark.parametrize(
    ("vulns", "said", "mended"),
    [
        (None, ["0 of 1 packages audited: the index tells nothing of the other 1"], False),
        ([], ["1 of 1 packages audited", "no known vulnerability"], False),
        (
            [{"id": "CVE-1", "fix_versions": ["3"]}],
            ["1 of 1 packages audited", "a 2: CVE-1, mended by 3"],
            True,
        ),
        (
            [{"id": "CVE", "fix_versions": []}],
            ["1 of 1 packages audited", "a 2: CVE, mended by no version yet"],
            False,
        ),
    ],
)
def test_what_the_index_does_not_know_is_not_called_safe(
    vulns: list[dict[str, Any]] | None, said: list[str], mended: bool
) -> None:
    package = (
        {"name": "a", "version": "2", "vulns": vulns}
        if vulns is not None
        else {"name": "a", "skip_reason": "x"}
    )
    assert findings({"dependencies": [package]}) == (said, mended)
