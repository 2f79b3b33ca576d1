"""The shape of the package: layers point one way, nothing imports in circles.

From the root, ``import models`` finds a second copy of `flopcast.models` whose classes are others than the package's.
Every file is parsed once; a test that fails names all offenders at once.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from flopcast.commands.app import COMMANDS, load

pytestmark = pytest.mark.no_cover  # the source is read, not run
ROOT = Path(__file__).parents[1]
SCRIPTS = ("train.py", "predict.py", "validate.py")
"""Run from the root, never imported: they name the package."""
LAYERS = (
    (
        "errors",
        "allowed",
        "arrays",
        "output",
        "staging",
        "sealing",
        "workers",
        "remarks",
        "settings",
        "datasets",
        "values",
    ),
    ("hardware",),
    ("operators",),
    ("laws",),
    ("table",),
    ("traces",),
    ("readers",),
    ("features",),
    ("models",),
    ("evaluation",),
    ("power",),
    ("projection", "scaling", "measuring"),
    ("workloads",),
    ("report",),
    ("api",),
    ("commands",),
    ("benchmarks", "__main__"),
)
"""From the ground up: a module imports from its own folder and the layers before it."""
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
SHARED_NAMES = ("__init__.py", "__main__.py", "base.py")
OTHER_TOOLS = {
    "measuring/machine.py": {"--json", "--power"},
    "power/logs.py": {"--json"},
    "readers/ncu.py": {"--set"},
}
"""Options of other tools that are spelt as one of ours, by the file that names them."""


@cache
def tree(path: Path) -> ast.Module:
    """Return a parsed file, given its path from the root."""
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


@cache
def parts(code: ast.Module) -> list[ast.Import | ast.ImportFrom]:
    """Return the imports of a file, wherever in it they stand."""
    within: list[ast.AST] = [*code.body]
    for node in within:  # statements, and what holds some: no expression does
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            within += getattr(node, name, ())
    return [node for node in within if isinstance(node, (ast.Import, ast.ImportFrom))]


@cache
def package_files() -> list[Path]:
    """Return the modules of the package, relative to the root."""
    folders = [path.parent for path in ROOT.glob("*/__init__.py")]
    found = (
        path.relative_to(ROOT)
        for folder in (ROOT, *folders)
        for path in _modules(folder, folder != ROOT)
    )
    return sorted(path for path in found if str(path) not in (*SCRIPTS, "setup.py"))


def other_files() -> list[Path]:
    """Return the modules that use the package, relative to the root."""
    found = (
        path for folder in ("tests", "examples", "docs") for path in (ROOT / folder).rglob("*.py")
    )
    return sorted(path.relative_to(ROOT) for path in found)


def _modules(folder: Path, nested: bool) -> Iterator[Path]:
    return folder.rglob("*.py") if nested else folder.glob("*.py")


def offenders(paths: Iterable[Path], fault: Callable[[Path], object]) -> dict[str, object]:
    """Return what is wrong with each file, where something is."""
    return {str(path): wrong for path in paths if (wrong := fault(path))}


def bare_imports(code: ast.Module, own: set[str]) -> list[str]:
    """Return the absolute imports of a name of the root, as they are written."""
    found = []
    for node in parts(code):
        if isinstance(node, ast.Import):
            found += [
                f"import {alias.name}" for alias in node.names if alias.name.split(".")[0] in own
            ]
        elif (
            isinstance(node, ast.ImportFrom)
            and not node.level
            and (node.module or "").split(".")[0] in own
        ):
            found.append(f"from {node.module} import ...")
    return found


def imported(code: ast.Module, module: Path) -> Iterator[tuple[str, ...]]:
    """Yield the path under flopcast of everything that the module imports from the package, type-only imports too."""
    for node in parts(code):
        if isinstance(node, ast.Import):
            yield from (
                tuple(alias.name.split(".")[1:])
                for alias in node.names
                if alias.name.startswith("flopcast.")
            )
        elif isinstance(node, ast.ImportFrom):
            folder = (
                module.parent.parts[: len(module.parent.parts) - node.level + 1]
                if node.level
                else ()
            )
            path = (*folder, *(node.module or "").split(".")) if node.module else folder
            if not node.level:
                if path[0] != "flopcast":
                    continue
                path = path[1:]
            yield from (
                (*path, alias.name) for alias in node.names if not alias.name.startswith("__")
            )


def upward(code: ast.Module, module: Path) -> list[str]:
    """Return what the module imports from layers above its own, or from a neighbour in its own."""
    own = _part(module)
    names = {path[0] for path in imported(code, module)}
    return sorted(name for name in names if RANK[name] > RANK[own] or _beside(name, own))


def _part(module: Path) -> str:
    return module.parts[0].removesuffix(".py")


def _beside(name: str, own: str) -> bool:
    """Whether both are folders of one layer: the wings do not know each other."""
    return RANK[name] == RANK[own] > 0 and name != own


def import_graph(code: dict[Path, ast.Module]) -> dict[str, set[str]]:
    """Return the modules that each module imports from.

    A name that a folder's ``__init__`` passes on counts as imported from it, wherever it is defined. A folder that
    names its own modules waits for them; that they in turn are inside of it counts for nothing.
    """
    known = {_dotted(path) for path in code}
    graph = {}
    for path, parsed in code.items():
        targets = {_module_of(target, known) for target in imported(parsed, path)}
        graph[_dotted(path)] = targets - {_dotted(path), ""}
    return graph


def _dotted(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__").removesuffix("__init__")


def _module_of(target: tuple[str, ...], known: set[str]) -> str:
    """Return the longest beginning of an imported path that is a module."""
    return next(
        name
        for size in range(len(target), -1, -1)
        if (name := ".".join(target[:size])) in known or not size
    )


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules of a circle of imports, or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def options_named(text: str) -> set[str]:
    """Return the command-line options that a text names, anybody's."""
    return set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text))


def our_options() -> set[str]:
    """Return the options of every command."""
    commands = map(load, COMMANDS)
    return {
        name
        for command in commands
        for option in command.params
        for name in option.opts
        if name[:2] == "--"
    }


def test_every_part_of_the_package_has_a_layer() -> None:
    parts = {_part(path) for path in package_files()} - {"__init__"}
    assert parts <= set(RANK)
    assert {"hardware", "features", "models", "commands"} <= parts


def test_nothing_imports_a_folder_of_the_root_as_a_package() -> None:
    own = {*RANK, "tests", "benchmarks", "examples", "docs"}
    named = re.compile(rf"^\s*(from\s+|import\s+(.*,\s*)?)({'|'.join(own)})\b", re.MULTILINE)
    suspects = [
        path
        for path in (*package_files(), *other_files())
        if named.search((ROOT / path).read_text("utf-8"))
    ]
    assert not offenders(suspects, lambda path: bare_imports(tree(path), own))


def test_imports_point_one_way() -> None:
    modules = [path for path in package_files() if path.name != "__init__.py"]
    assert not offenders(modules, lambda path: upward(tree(path), path))


def test_the_package_imports_itself_relatively() -> None:
    def absolute(path: Path) -> list[str]:
        imports = [
            node
            for node in parts(tree(path))
            if isinstance(node, ast.ImportFrom) and not node.level
        ]
        return [
            node.module
            for node in imports
            if node.module and node.module.split(".")[0] == "flopcast"
        ]

    assert not offenders(package_files(), absolute)


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_name_the_package_and_refuse_to_be_imported(script: str) -> None:
    (node,) = (node for node in tree(Path(script)).body if isinstance(node, ast.ImportFrom))
    assert (node.level, node.module) == (0, "flopcast.commands.app")
    name = script.removesuffix(".py")
    with pytest.raises(ImportError, match=rf"{script} is a script, .* flopcast\.{name}$"):
        importlib.import_module(f"flopcast.{name}")


def test_nothing_imports_in_circles() -> None:
    assert circle(import_graph({path: tree(path) for path in package_files()})) == []


def test_the_library_names_no_option_of_the_command_line() -> None:
    ours = our_options()

    def named(path: Path) -> set[str]:
        options = options_named((ROOT / path).read_text(encoding="utf-8"))
        return (options & ours) - OTHER_TOOLS.get(str(path), set())

    library = [
        path for path in package_files() if _part(path) not in ("commands", "report", "benchmarks")
    ]
    assert offenders(library, named) == {}


def test_modules_have_names_of_their_own() -> None:
    """A topic's module may be called alike where it is computed, offered, shown and put into words."""
    library = [
        path
        for path in package_files()
        if _part(path) not in ("api", "commands", "report", "benchmarks")
    ]
    names = Counter(path.name for path in library if path.name not in SHARED_NAMES)
    assert {name: count for name, count in names.items() if count > 1} == {}


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
    assert bare_imports(ast.parse(source), set(RANK)) == found


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("features/recipe.py", "from ..models.base import fit", ["models"]),
        ("readers/kineto/link.py", "from ...report import html", ["report"]),
        ("readers/kineto/link.py", "from ..base import Reader\nfrom ...hardware import find", []),
        ("models/base.py", "from .. import evaluation, features", ["evaluation"]),
        (
            "models/base.py",
            "if True:\n    from . import suite\n    from ..errors import DataError",
            [],
        ),
        ("evaluation/metrics.py", "import flopcast.report.html", ["report"]),
        ("scaling/trials.py", "from ..projection.replay import replay", ["projection"]),
        ("api/training.py", "from ..commands.options import OUT", ["commands"]),
    ],
)
def test_upward_imports_are_found(module: str, source: str, found: list[str]) -> None:
    assert upward(ast.parse(source), Path(module)) == found


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        (
            {"a/x.py": "from .y import f", "a/y.py": "if TYPE_CHECKING:\n    from .x import g"},
            {"a.x", "a.y"},
        ),
        ({"a/__init__.py": "from .x import f", "a/x.py": "from . import g"}, {"a", "a.x"}),
        ({"a/__init__.py": "from .x import f", "a/x.py": "from . import y", "a/y.py": ""}, set()),
        (
            {
                "a/__init__.py": "from .x import f",
                "a/x.py": "from ..b import g",
                "b.py": "from . import errors",
            },
            set(),
        ),
    ],
)
def test_circles_are_found(sources: dict[str, str], found: set[str]) -> None:
    assert (
        set(
            circle(
                import_graph({Path(name): ast.parse(source) for name, source in sources.items()})
            )
        )
        == found
    )


def test_options_are_found() -> None:
    assert options_named('"""Needs --cpu-speed."""\nfail("choose another --by")') == {
        "--cpu-speed",
        "--by",
    }
    assert options_named("a -- b, c--d, ----\n# ---- part") == set()
    assert {"--host", "--cpu-speed", "--interval"} <= our_options()
