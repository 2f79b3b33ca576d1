"""What pyproject.toml cannot say: the scripts in the root are run from a checkout and are no part of the package."""

from setuptools import setup
from setuptools.command.build_py import build_py

SCRIPTS = ("setup", "train", "predict", "validate")


class BuildPackage(build_py):
    """Leave the scripts and this file out of the wheel."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """Return (package, module, file) of every module but the scripts."""
        modules = super().find_package_modules(package, package_dir)
        return [part for part in modules if package != "flopcast" or part[1] not in SCRIPTS]


setup(cmdclass={"build_py": BuildPackage})
