"""What the documents name is there."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import flopcast as fc
from flopcast import models
from flopcast.commands.app import COMMANDS
from flopcast.models.suite import Columnar, suite
from flopcast.operators.operators import OPS

ROOT = Path(__file__).parents[1]
DOCS = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "guides").glob("*.md")])
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
MARKER = re.compile(r'^:(?:start-after|end-before): "(.+)"$', re.MULTILINE)
MADE = ("gallery", "generated")
"""Folders of docs/ that `make docs` writes."""
PATH = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|toml|md|csv|json)|(?:\w+/)+)`")


@pytest.mark.parametrize("document", ["CONTRIBUTING.md"])
def test_paths_exist(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    named = PATH.findall(text)
    assert named
    assert not [
        path
        for path in named
        if not any((ROOT / place / path).exists() for place in (".", "models", "evaluation"))
    ]


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.stem)
def test_what_a_page_of_the_docs_links_and_includes_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = [
        page.parent / link for link in LINK.findall(text) if not set(MADE) & set(Path(link).parts)
    ]
    included = re.findall(r"^```\{include\} (.+)$", text, re.MULTILINE)
    assert not [
        str(path)
        for path in (*named, *(page.parent / path for path in included))
        if not path.exists()
    ]
    sources = "\n".join((page.parent / path).read_text(encoding="utf-8") for path in included)
    assert not [marker for marker in MARKER.findall(text) if marker not in sources]


@pytest.mark.parametrize("folder", ["methods", "."])
def test_the_modules_whose_texts_the_docs_show_are_there(folder: str) -> None:
    pages = (ROOT / "docs" / folder).glob("*.rst")
    names = [
        name
        for page in pages
        for name in re.findall(r"automodule:: flopcast\.(\S+)", page.read_text("utf-8"))
    ]
    assert names
    found = {
        name: [
            (ROOT / f"{name.replace('.', '/')}{end}").exists() for end in (".py", "/__init__.py")
        ]
        for name in names
    }
    assert not [name for name, places in found.items() if not any(places)]


def test_the_pages_that_are_made_from_the_package_name_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    runpy.run_path(str(ROOT / "docs" / "generate.py"))["pages"](tmp_path)
    made = {path.stem: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert not [name for name in COMMANDS if f"## flopcast {name}\n" not in made["commands"]]
    listed = {
        name: (f"   {name}\n", f"currentmodule:: flopcast.{name}\n")
        for name in (*fc.__all__, *models.__all__)
    }
    assert not [
        name for name, places in listed.items() if not any(place in made["api"] for place in places)
    ]
    assert not [name for name in OPS if f"({name}-columns)=\n" not in made["columns"]]
    assert "| MI300X |" in made["gpus"]


def test_the_models_of_the_suite_are_explained_by_name() -> None:
    data = Columnar({"host_us": "additive"}, (), n_rows=100, host=True, unpaired=True)
    text = (ROOT / "docs" / "methods" / "models.rst").read_text(encoding="utf-8")
    # Forward, Backward
    names = [model.name for model in suite("default", data) if "ward/" not in model.name]
    assert not [name for name in names if name not in text]


def test_the_examples_of_the_gallery_have_a_title_and_compile() -> None:
    for path in (ROOT / "examples").glob("*.py"):
        code = compile(path.read_text(encoding="utf-8"), str(path), "exec")
        title, line = code.co_consts[0].strip().splitlines()[:2]
        assert line == "=" * len(title), path.name
