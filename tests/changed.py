"""Print the test files of what differs from the branch main; ``make check`` runs them.

The tests of a module are the file of its name in the folder of tests that mirrors its own, or else that whole folder.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
ALWAYS = "tests/test_imports.py"


def changed(root: Path = ROOT) -> list[str]:
    """Return the files that differ from the branch main, new ones included, relative to the root."""
    commands = (("diff", "--name-only", "main"), ("ls-files", "--others", "--exclude-standard"))
    told = (
        subprocess.run(["git", *command], cwd=root, capture_output=True, text=True)
        for command in commands
    )
    return [line for done in told for line in done.stdout.splitlines()]


def called_for(paths: Iterable[str], root: Path = ROOT) -> list[str]:
    """Return the test files and folders to run for changes of these files, all relative to the root."""
    found = {ALWAYS}
    for path in map(PurePosixPath, paths):
        if path.parts[0] == "tests":
            found |= {str(path)} if path.match("test_*.py") else {str(path.parent)} - {"tests"}
        elif path.suffix in (".py", ".toml"):
            found.add(_mirror(path, root))
    return sorted(path for path in found if path and (root / path).exists())


def _mirror(path: PurePosixPath, root: Path) -> str:
    """Return the test file or folder of a file of the package; "" where it has none."""
    folder = "tests" / path.parent
    twin = folder / f"test_{path.stem.removesuffix('_reader')}.py"
    if (root / twin).is_file():
        return str(twin)
    while not (root / folder).is_dir():
        folder = folder.parent
    return "" if folder == PurePosixPath("tests") else str(folder)


if __name__ == "__main__":
    print(*called_for(changed()))
