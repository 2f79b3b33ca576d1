"""Which tests a change calls for: the twin of a module, or the folder that mirrors its own."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

CHANGED = runpy.run_path(str(Path(__file__).with_name("changed.py")))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository of two folders with tests."""
    for name in (
        "test_imports.py",
        "models/test_forest.py",
        "readers/kineto/test_reader.py",
        "readers/conftest.py",
    ):
        path = tmp_path / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("models/forest.py", "tests/models/test_forest.py"),
        ("models/base.py", "tests/models"),
        ("readers/kineto/decode.py", "tests/readers/kineto"),
        ("readers/rpd.py", "tests/readers"),
        ("hardware/gpus.toml", None),
        ("errors.py", None),
        ("README.md", None),
        ("tests/models/test_forest.py", "tests/models/test_forest.py"),
        ("tests/models/test_deleted.py", None),
        ("tests/readers/conftest.py", "tests/readers"),
        ("tests/conftest.py", None),
    ],
)
def test_a_change_calls_for_its_tests(tree: Path, path: str, found: str | None) -> None:
    assert set(CHANGED["called_for"]([path], tree)) == {"tests/test_imports.py", found} - {None}


def test_changes_are_those_since_main_and_new_files(tmp_path: Path) -> None:
    assert CHANGED["changed"](tmp_path) == []  # no repository
