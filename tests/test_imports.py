"""Imports: nobody takes a folder of the root for a package of its own, and the layers point one way.

From the root, ``import models`` finds a second copy of `flopcast.models` whose classes are others than the package's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = ("train.py", "predict.py", "validate.py")
"""Run from the root, never imported: they name the package."""
LAYERS = (
    ("errors", "output", "remarks", "datasets"),
    ("hardware",),
    ("operators",),
    ("table",),
    ("traces",),
    ("readers",),
    ("features",),
    ("models",),
    ("evaluation",),
    ("power",),
    ("projection", "scaling", "measuring"),
    ("report",),
    ("api",),
    ("commands",),
    ("benchmarks", "__main__"),
)
"""From the ground up: a module imports from its own folder and the layers before it."""
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}


def package_files() -> list[Path]:
    """Return the modules of the package, relative to the root."""
    folders = [path.parent for path in ROOT.glob("*/__init__.py")]
    found = (path.relative_to(ROOT) for folder in (ROOT, *folders) for path in _modules(folder, folder != ROOT))
    return sorted(path for path in found if str(path) not in (*SCRIPTS, "setup.py"))


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
    """Return what the module imports from layers above its own, or from a neighbour in its own."""
    own = module.parts[0].removesuffix(".py")
    return sorted({name for name in imported(source, module) if RANK[name] > RANK[own] or _beside(name, own)})


def _beside(name: str, own: str) -> bool:
    """Whether both are folders of one layer: the wings do not know each other."""
    return RANK[name] == RANK[own] > 0 and name != own


def test_every_part_of_the_package_has_a_layer() -> None:
    parts = {path.parts[0].removesuffix(".py") for path in package_files()} - {"__init__"}
    assert parts <= set(RANK)
    assert {"hardware", "features", "models", "commands"} <= parts


@pytest.mark.parametrize("path", [*package_files(), *other_files()], ids=str)
def test_nothing_imports_a_folder_of_the_root_as_a_package(path: Path) -> None:
    own = {*RANK, "tests", "benchmarks", "examples", "docs"}
    assert not bare_imports((ROOT / path).read_text(encoding="utf-8"), own)


@pytest.mark.parametrize("path", [path for path in package_files() if path.name != "__init__.py"], ids=str)
def test_imports_point_one_way(path: Path) -> None:
    assert not upward((ROOT / path).read_text(encoding="utf-8"), path)


@pytest.mark.parametrize("path", package_files(), ids=str)
def test_the_package_imports_itself_relatively(path: Path) -> None:
    imports = [n for n in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))) if isinstance(n, ast.ImportFrom)]
    assert not [node for node in imports if not node.level and (node.module or "").split(".")[0] == "flopcast"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_name_the_package_and_are_not_imported(script: str) -> None:
    tree = ast.parse((ROOT / script).read_text(encoding="utf-8"))
    (node,) = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    assert (node.level, node.module) == (0, "flopcast.commands.app")


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import models", ["import models"]),
        ("import numpy, models.base as b", ["import models.base"]),
        ("def f():\n    from readers.kineto import read", ["from readers.kineto import ..."]),
        ("import flopcast.models\nfrom flopcast.models import base\nfrom .models import base", []),
    ],
)
def test_bare_imports_are_found(source: str, found: list[str]) -> None:
    assert bare_imports(source, set(RANK)) == found


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("features/recipe.py", "from ..models.base import fit", ["models"]),
        ("readers/kineto/link.py", "from ...report import html", ["report"]),
        ("readers/kineto/link.py", "from ..base import Reader\nfrom ...hardware import find", []),
        ("models/base.py", "from .. import evaluation, features", ["evaluation"]),
        ("models/base.py", "if True:\n    from . import suite\n    from ..errors import DataError", []),
        ("evaluation/metrics.py", "import flopcast.report.html", ["report"]),
        ("scaling/trials.py", "from ..projection.replay import replay", ["projection"]),
        ("api/training.py", "from ..commands.options import OUT", ["commands"]),
    ],
)
def test_upward_imports_are_found(module: str, source: str, found: list[str]) -> None:
    assert upward(source, Path(module)) == found
