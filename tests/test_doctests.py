"""The examples in docstrings run, and print what they say; those of the gallery run."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import pkgutil
import runpy
from collections.abc import Callable, Iterator
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

import flopcast
from flopcast.api import training, validating
from flopcast.tests.commands.running import hurry

SCRIPTS = ("setup", "train", "predict", "validate")
GALLERY = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def modules_with_examples() -> list[str]:
    """Return the modules whose source has an example."""
    walked = pkgutil.walk_packages(flopcast.__path__, "flopcast.")
    names = [
        module.name for module in walked if module.name.removeprefix("flopcast.") not in SCRIPTS
    ]
    sources = {
        name: spec.origin
        for name in names
        if (spec := importlib.util.find_spec(name)) and spec.origin
    }
    return [
        name
        for name, origin in sources.items()
        if ">>> " in Path(origin).read_text(encoding="utf-8")
    ]


@pytest.fixture(scope="module", autouse=True)
def one_training() -> Iterator[None]:
    """Train, and validate, once for all examples that ask for the same, and in a hurry."""
    known: dict[str, Any] = {}

    def once(call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def remembered(*data: object, **options: object) -> Any:
            key = repr((call.__name__, data, options))
            if key not in known:
                known[key] = call(*data, **options)
            return known[key]

        return remembered

    with pytest.MonkeyPatch.context() as patch:
        hurry(patch)
        for module, name in ((training, "train"), (validating, "validate")):
            remembered = once(getattr(module, name))
            # first: its name is looked up in the module, and put back after
            patch.setattr(flopcast, name, remembered)
            patch.setattr(module, name, remembered)
        yield


@pytest.mark.no_cover
@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_in_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failures, tried = doctest.testmod(importlib.import_module(name))
    assert tried
    assert not failures


@pytest.mark.long
@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_examples_of_the_gallery(path: Path) -> None:
    runpy.run_path(str(path))


def test_examples_are_found() -> None:
    assert len(GALLERY) >= 10
    assert {"flopcast.commands.options", "flopcast.models.linear.stepwise"} <= set(
        modules_with_examples()
    )
