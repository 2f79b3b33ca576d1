from __future__ import annotations

import csv
from pathlib import Path

import pytest

FACTS = Path(__file__).parents[2] / ".." / "shared" / "facts"


def _facts(name: str) -> list[dict[str, str]]:
    path = FACTS / name
    if not path.is_file():
        pytest.skip(f"the collected facts (../shared/facts/{name}) are not on this machine")
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="session")
def gpu_facts() -> list[dict[str, str]]:
    """Return the rows of the table the data file was made from."""
    return _facts("gpus.csv")


@pytest.fixture(scope="session")
def measured_facts() -> list[dict[str, str]]:
    return _facts("measured.csv")


@pytest.fixture
def write_toml(tmp_path: Path):
    def write(text: str, name: str = "mine.toml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write
