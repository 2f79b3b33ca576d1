"""Imports: nobody takes a folder of the root for a package of its own, and the layers point one way.

From the root, ``import models`` finds a second copy of `flopcast.models` whose classes are others than the package's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMMANDS = ("train", "predict", "validate", "ingest", "clean", "measure", "power", "scale", "project", "fidelity")
"""Run from the root as well as imported: they name the package."""
LAYERS = (
    ("errors", "output", "datasets"),
    ("hardware",),
    ("features",),
    ("models",),
    ("evaluation", "telemetry", "measuring"),
    ("projection",),
    ("report",),
    ("options",),
    COMMANDS,
    ("cli", "benchmarks"),
    ("__main__",),
)
"""From the ground up: a module imports from its own layer and those before it."""
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def package_files() -> list[Path]:
    """Return the modules of the package, relative to the root."""
    folders = [path.parent for path in ROOT.glob("*/__init__.py")]
    return sorted(path.relative_to(ROOT) for folder in (ROOT, *folders) for path in _modules(folder, folder != ROOT))


def other_files() -> list[Path]:
    """Return the modules that use the package, relative to the root."""
    found = (path for folder in ("tests", "examples", "docs") for path in (ROOT / folder).rglob("*.py"))
    return sorted(path.relative_to(ROOT) for path in found)


def _modules(folder: Path, nested: bool) -> Iterator[Path]:
    return folder.rglob("*.py") if nested else folder.glob("*.py")


def bare_imports(source: str, own: set[str]) -> list[str]:
    """Return the absolute imports of a name of the root, as they are written."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [f"import {alias.name}" for alias in node.names if alias.name.split(".")[0] in own]
        elif isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] in own:
            found.append(f"from {node.module} import ...")
    return found


def imported(source: str, module: Path) -> Iterator[str]:
    """Yield the first name under flopcast of everything that the module imports from the package."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("flopcast."))
        elif isinstance(node, ast.ImportFrom):
            folder = module.parent.parts[: len(module.parent.parts) - node.level + 1] if node.level else ()
            path = [*folder, *(node.module or "").split(".")] if node.module else [*folder]
            if not node.level:
                if path[0] != "flopcast":
                    continue
                path = path[1:]
            yield from path[:1] or (alias.name for alias in node.names if not alias.name.startswith("__"))


def upward(source: str, module: Path) -> list[str]:
    """Return what the module imports from layers above its own."""
    own = RANK[module.parts[0].removesuffix(".py")]
    return sorted({name for name in imported(source, module) if RANK[name] > own})


def test_every_part_of_the_package_has_a_layer() -> None:
    parts = {path.parts[0].removesuffix(".py") for path in package_files()} - {"__init__"}
    assert parts <= set(RANK)
    assert {"hardware", "features", "models", "cli"} <= parts


@pytest.mark.parametrize("path", [*package_files(), *other_files()], ids=str)
def test_nothing_imports_a_folder_of_the_root_as_a_package(path: Path) -> None:
    own = {*RANK, "tests", "benchmarks", "examples", "docs"}
    assert not bare_imports((ROOT / path).read_text(encoding="utf-8"), own)


@pytest.mark.parametrize("path", [path for path in package_files() if path.name != "__init__.py"], ids=str)
def test_imports_point_one_way(path: Path) -> None:
    assert not upward((ROOT / path).read_text(encoding="utf-8"), path)


@pytest.mark.parametrize("path", package_files(), ids=str)
def test_the_package_imports_itself_relatively_and_its_scripts_by_name(path: Path) -> None:
    imports = [
        n for n in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))) if isinstance(n, ast.ImportFrom)
    ]
    relative = [node for node in imports if node.level]
    by_name = [node for node in imports if not node.level and (node.module or "").split(".")[0] == "flopcast"]
    assert not (relative if str(path.with_suffix("")) in COMMANDS else by_name)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import models", ["import models"]),
        ("import numpy, models.base as b", ["import models.base"]),
        ("def f():\n    from features.readers import read", ["from features.readers import ..."]),
        ("import flopcast.models\nfrom flopcast.models import base\nfrom .models import base", []),
    ],
)
def test_bare_imports_are_found(source: str, found: list[str]) -> None:
    assert bare_imports(source, set(RANK)) == found


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("features/table.py", "from ..models.base import fit", ["models"]),
        ("features/readers/base.py", "from ...report import html", ["report"]),
        ("features/readers/base.py", "from ..table import clean\nfrom ...hardware import find", []),
        ("models/base.py", "from .. import evaluation, features", ["evaluation"]),
        ("models/base.py", "if True:\n    from . import suite\n    from ..errors import DataError", []),
        ("evaluation/metrics.py", "import flopcast.report.html", ["report"]),
        ("train.py", "from flopcast.cli import app\nfrom flopcast.options import P", ["cli"]),
        ("cli.py", "from . import __version__, train", []),
        ("options.py", "from .train import Run", ["train"]),
    ],
)
def test_upward_imports_are_found(module: str, source: str, found: list[str]) -> None:
    assert upward(source, Path(module)) == found
