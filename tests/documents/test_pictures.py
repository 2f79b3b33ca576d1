"""Pictures of the documentation say what the README says."""

from __future__ import annotations

import importlib
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]


def test_the_picture_of_accuracy_has_the_errors_of_the_readme(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    pictures = importlib.import_module("pictures")
    readme = ROOT / "README.md"
    rows = pictures.accuracies(readme.read_text(encoding="utf-8"))
    assert len(rows) >= 4
    pictures.draw(tmp_path, readme)
    drawn = ElementTree.fromstring((tmp_path / "accuracy.svg").read_text(encoding="utf-8"))
    bars = [float(bar.get("width", 0)) for bar in drawn.iter("{http://www.w3.org/2000/svg}rect")]
    errors = [error for row in rows for error in row[1:]]
    widths = bars[3:]  # after the legend
    scale = max(widths) / max(errors)
    assert widths == pytest.approx([scale * error for error in errors], abs=0.1)


def test_pictures_of_pages_have_a_bar_for_every_figure_of_their_tables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    pictures = importlib.import_module("pictures")
    pictures.draw(tmp_path, ROOT / "README.md")
    for name in ("serving", "public", "coverage"):
        drawn = ElementTree.fromstring((tmp_path / f"{name}.svg").read_text(encoding="utf-8"))
        bars = [*drawn.iter("{http://www.w3.org/2000/svg}rect")]
        assert len(bars) >= 10
        assert all(float(bar.get("width", 0)) > 0 for bar in bars)


def test_a_small_picture_of_a_table_has_its_first_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    miniature = importlib.import_module("miniature")
    table = pd.DataFrame({"kernel": ["gemm <a>", "x" * 90], "us": [1.5, 2.0]})
    drawn = ElementTree.fromstring(miniature.table_picture(table, "table"))
    cells = [text.text or "" for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert cells[:2] == ["kernel", "gemm <a>"]
    assert max(map(len, cells)) <= miniature.CELL
