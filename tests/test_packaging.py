"""The wheel and the sdist: they hold the package and its data, nothing else, and what they install works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

import pytest

from flopcast import __version__

ROOT = Path(__file__).parents[1]
OTHER_FOLDERS = ("src", "tests", "benchmarks", "docs", "examples", "build", "dist", "runs")
"""Folders of the root that are no part of the package."""
LEFT_BEHIND = (".*", "__pycache__", "*.egg-info", "build", "dist", "runs")
DATA = {
    "__init__.pyi",
    "py.typed",
    "datasets/README.md",
    "datasets/aiter_fp8.parquet",
    "datasets/h100_h200.csv",
    "datasets/h100_parts.csv",
    "datasets/instinct_kernels.parquet",
    "datasets/scale_model.csv",
    "datasets/serving_conditions.parquet",
    "datasets/serving_model.parquet",
    "readers/words.toml",
    "traces/patterns.toml",
    "hardware/constants.toml",
    "hardware/counter_blocks.toml",
    "hardware/gpus.toml",
    "hardware/measured.csv",
    "measuring/suites.toml",
    "operators/catalogue.toml",
    "models/__init__.pyi",
    "power/logs.toml",
    "projection/law_errors.toml",
    "projection/links.toml",
    "report/answer_schema.toml",
    "report/layouts.toml",
    "report/page.css",
    "report/page.html.j2",
    "report/page.js",
    "report/run_schema.toml",
    "report/sliders.js",
    "report/tables.js",
    "report/words.toml",
    "scaling/published.toml",
    "workloads/constants.toml",
    "workloads/model_types.json",
    "workloads/hpl_scores.csv",
    "workloads/models.toml",
    "workloads/releases.toml",
}

BUILDING = {
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "PKG-INFO",
}
"""What the sdist holds beside the package; setuptools writes setup.cfg and PKG-INFO."""


def folders_with_init() -> set[PurePosixPath]:
    """Return the packages of the tree, relative to the root."""
    found = (PurePosixPath(path.relative_to(ROOT).parent) for path in ROOT.glob("**/__init__.py"))
    return {path for path in found if not path.parts or not _outside(path.parts[0])}


def _outside(folder: str) -> bool:
    return folder.startswith(".") or folder in OTHER_FOLDERS


def modules() -> set[str]:
    """Return the Python files of the package, relative to the root."""
    found = {
        str(folder / path.name)
        for folder in folders_with_init()
        for path in (ROOT / folder).glob("*.py")
    }
    return found - {"setup.py", "train.py", "predict.py", "validate.py"}


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Run a command and return what it printed; on failure the test shows all of it."""
    result = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist from a copy of the tree, and the wheel from the sdist; return the folder of both."""
    folder = tmp_path_factory.mktemp("packaging")
    shutil.copytree(
        ROOT, folder / "tree", symlinks=True, ignore=shutil.ignore_patterns(*LEFT_BEHIND)
    )
    run(
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--outdir",
        folder / "dist",
        folder / "tree",
        cwd=folder,
    )
    return folder / "dist"


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:  # all that installing it does, but for the script
        archive.extractall(folder / "site")
    return folder / "site"


def test_every_folder_with_init_is_listed_as_a_package() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "setuptools"
    ]["packages"]
    assert listed == sorted(".".join(("flopcast", *path.parts)) for path in folders_with_init())


def test_the_citation_names_this_version_and_licence() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert {f"version: {__version__}", f"license: {project['license']}"} <= set(cited)


def test_every_data_file_is_named_here() -> None:
    beside = (
        path for folder in folders_with_init() for path in (ROOT / folder).iterdir() if folder.parts
    )
    data = {
        str(path.relative_to(ROOT))
        for path in beside
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert data == DATA - {"__init__.pyi", "py.typed"}


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not fnmatch(name, "flopcast-*.dist-info/*")}
    assert names == {f"flopcast/{name}" for name in modules() | DATA}


def test_the_sdist_holds_the_package_what_builds_it_and_nothing_else(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {
            "/".join(member.name.split("/")[1:])
            for member in archive.getmembers()
            if member.isfile()
        }
    package = {f"src/flopcast/{name}" for name in modules() | DATA}
    assert {
        name for name in names if not name.startswith("src/flopcast.egg-info/")
    } == package | BUILDING


def test_an_editable_install_is_a_path_that_type_checkers_follow(
    built: Path, tmp_path: Path
) -> None:
    code = (
        "import sys; from setuptools.build_meta import build_editable; build_editable(sys.argv[1])"
    )
    run(sys.executable, "-c", code, tmp_path, cwd=built.parent / "tree")
    (path,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        added = [name for name in archive.namelist() if ".dist-info/" not in name]
        paths = [archive.read(name).decode("utf-8").split() for name in added]
    ((place,),) = paths
    assert [name for name in added if name.endswith(".pth")] == added
    assert (Path(place) / "flopcast" / "py.typed").is_file()
    assert (Path(place) / "flopcast" / "__init__.pyi").samefile(
        built.parent / "tree" / "__init__.pyi"
    )


def test_the_wheel_needs_what_pyproject_says(wheel: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode("utf-8")
        entry_points = archive.read(name.replace("METADATA", "entry_points.txt")).decode("utf-8")
    needed = [
        line.removeprefix("Requires-Dist: ")
        for line in metadata.splitlines()
        if line.startswith("Requires-Dist")
    ]
    assert [line for line in needed if "extra" not in line] == project["dependencies"]
    assert f"Version: {__version__}\n" in metadata
    assert "flopcast = flopcast.__main__:main" in entry_points


def test_what_the_wheel_installs_works_away_from_the_checkout(
    installed: Path, tmp_path: Path
) -> None:
    code = (
        "import flopcast.commands.app; from flopcast.datasets import DEFAULT_HOST, default_paths; "
        "from flopcast.readers import read; from flopcast.hardware import find; "
        "print(flopcast.commands.app.__file__, len(read(default_paths()).frame)); "
        "print(find(DEFAULT_HOST).name, find('MI355X').cus)"
    )
    place, rows, host, cus = run(
        sys.executable, "-c", code, cwd=tmp_path, PYTHONPATH=str(installed)
    ).split()
    assert Path(place).is_relative_to(installed)
    assert (rows, host, cus) == ("28300", "MI300X", "256")


def test_each_python_that_is_named_is_one_that_the_package_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {name.rpartition(" :: ")[2] for name in project["classifiers"] if ":: 3." in name}
    assert {"3.11", "3.12", "3.13"} <= named
    assert project["requires-python"] == ">=3.11"
    jobs = re.search(
        r"^  (python3.*)\) exec make test-newest", (ROOT / ".ci/run").read_text(), re.M
    )
    assert jobs is not None
    assert {f"python{version}" for version in named - {"3.11"}} == {*jobs[1].split(" | ")}
    asked = subprocess.run(
        ["make", "-n", "test-newest"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert "--upgrade" in asked
    assert "build/newest/bin/python -m pytest" in asked
