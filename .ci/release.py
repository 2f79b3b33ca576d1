"""Make a release: `make release VERSION=0.2.0` after `make test`. Nothing is published: it prints what is left to do.

The version goes into `__init__.py` (which pyproject.toml reads) and CITATION.cff, what is
unreleased in the changelog gets version and date, wheel and sdist are built, and the wheel is
installed in a clean environment. A software bill of materials (CycloneDX) lists what that
environment holds. Commit and tag come last, when all of that has worked.
"""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def bump(root: Path, version: str, day: str) -> None:
    """Write a version above the present one, and its day, into the files that name it; something must be unreleased."""
    init, citation, changelog = (
        root / name for name in ("__init__.py", "CITATION.cff", "CHANGELOG.md")
    )
    code = init.read_text(encoding="utf-8")
    (present,) = re.findall(r'^__version__ = "(.+)"$', code, re.MULTILINE)
    if not re.fullmatch(r"\d+\.\d+\.\d+", version) or _numbers(version) < _numbers(present):
        sys.exit(f"VERSION must be X.Y.Z, at least {present}, got {version!r}")
    text = changelog.read_text(encoding="utf-8")
    head, mark, rest = text.partition("## Unreleased\n")
    if not mark or not rest.partition("\n## ")[0].strip():
        sys.exit("CHANGELOG.md has nothing under '## Unreleased'")
    changelog.write_text(f"{head}{mark}\n## {version} ({day})\n{rest}", encoding="utf-8")
    init.write_text(
        code.replace(f'__version__ = "{present}"', f'__version__ = "{version}"'), encoding="utf-8"
    )
    cited = re.sub(
        r"(?m)^version: .*$", f"version: {version}", citation.read_text(encoding="utf-8")
    )
    citation.write_text(cited, encoding="utf-8")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def run(*command: str | Path) -> str:
    """Run a command in the root; its output, or the end of everything."""
    print("+", *command, file=sys.stderr)
    return subprocess.run(
        list(map(str, command)), cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def main(version: str) -> None:
    """Make the release of a version."""
    if run("git", "status", "--porcelain"):
        sys.exit("the working tree has changes: commit them first")
    bump(ROOT, version, datetime.date.today().isoformat())
    dist = ROOT / "dist" / version
    run(sys.executable, "-m", "build", "--outdir", dist)
    (wheel,) = dist.glob("*.whl")
    with tempfile.TemporaryDirectory() as folder:
        clean = Path(folder) / "venv"
        run(sys.executable, "-m", "venv", clean)
        run(clean / "bin" / "pip", "install", "--quiet", wheel)
        said = run(clean / "bin" / "flopcast", "--version").strip()
        if said != f"flopcast {version}":
            sys.exit(f"the installed wheel says {said!r}")
        run(
            Path(sys.executable).parent / "cyclonedx-py",
            "environment",
            clean,
            "--of",
            "JSON",
            "-o",
            dist / "sbom.cdx.json",
        )
    run("git", "commit", "--all", "--message", f"Release {version}")
    run("git", "tag", "--annotate", f"v{version}", "--message", f"flopcast {version}")
    print(
        f"{dist} holds wheel, sdist and sbom.cdx.json; left to do: git push --follow-tags, and "
        "upload the first two"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
