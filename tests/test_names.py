"""What `dir` shows of a package: what it is made for and its modules, none of the tools that it imports."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import pytest

import flopcast
from flopcast import models

PARTS = [part.name for part in pkgutil.walk_packages(flopcast.__path__, "flopcast.") if part.ispkg]
PACKAGES = [name for name in PARTS if name.split(".")[1] not in ("tests", "build", "docs", "src")]


def test_packages_are_looked_at() -> None:
    assert {
        "flopcast.datasets",
        "flopcast.models",
        "flopcast.models.linear",
        "flopcast.readers",
    } <= set(PACKAGES)


@pytest.mark.parametrize("name", PACKAGES)
def test_dir_of_a_package_has_its_public_names_and_modules_alone(name: str) -> None:
    package = importlib.import_module(name)
    public = getattr(package, "__all__", ())
    modules = {part.name for part in pkgutil.iter_modules(package.__path__)}
    leaked = []
    for shown in dir(package):
        of_python = shown.startswith("__") and shown.endswith("__")
        is_module = shown in modules and isinstance(getattr(package, shown), ModuleType)
        if not of_python and not is_module and shown not in public:
            leaked.append(shown)
    assert leaked == []


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_of_a_package_is_there(name: str) -> None:
    package = importlib.import_module(name)
    public = getattr(package, "__all__", ())
    assert set(public) <= set(dir(package))
    assert [one for one in public if not hasattr(package, one)] == []


def test_an_estimator_that_is_unknown_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="NoSuch"):
        models.NoSuch  # noqa: B018
