"""Say which known vulnerabilities the packages of an environment have: ``python .ci/audit.py .venv/bin/python``.

pip-audit has an environment of its own, ``build/audit``. It asks the package index; where that does
not answer, or knows nothing of a package, this says so, for "no known vulnerabilities" is then no
news. A finding is printed and fails nothing: a build is to depend on what is in it. With
``--strict``, as before a release, one that a newer version mends ends with 1.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PLACE = Path(__file__).parents[1] / "build" / "audit"


def findings(report: dict[str, Any]) -> tuple[list[str], bool]:
    """Return what there is to say of pip-audit's JSON, and whether a newer version mends a finding."""
    packages = report["dependencies"]
    audited = [one for one in packages if "vulns" in one]
    sentences, mended = [f"{len(audited)} of {len(packages)} packages audited"], False
    if len(audited) < len(packages):
        sentences[0] += f": the index tells nothing of the other {len(packages) - len(audited)}"
    for one in audited:
        for weakness in one["vulns"]:
            newer = ", ".join(weakness["fix_versions"]) or "no version yet"
            sentences.append(f"{one['name']} {one['version']}: {weakness['id']}, mended by {newer}")
            mended = mended or bool(weakness["fix_versions"])
    return sentences if len(sentences) > 1 or not audited else [
        *sentences,
        "no known vulnerability",
    ], mended


def main(python: str, *options: str) -> int:
    """Audit the environment of an interpreter; return the exit code."""
    try:
        if not (PLACE / "bin" / "pip-audit").exists():
            subprocess.run([sys.executable, "-m", "venv", PLACE], check=True)
            subprocess.run(
                [PLACE / "bin" / "python", "-m", "pip", "install", "--quiet", "pip-audit>=2.7"],
                check=True,
            )
        listing = [python, "-m", "pip", "list", "--format=freeze", "--exclude-editable"]
        (PLACE / "packages.txt").write_text(
            subprocess.run(listing, check=True, capture_output=True, text=True).stdout
        )
        (PLACE / "found.json").unlink(missing_ok=True)
        asked = [
            "--disable-pip",
            "--no-deps",
            "--progress-spinner=off",
            "--timeout=10",
            "--format=json",
        ]
        files = ["--requirement", PLACE / "packages.txt", "--output", PLACE / "found.json"]
        done = subprocess.run(
            [PLACE / "bin" / "pip-audit", *asked, *files],
            capture_output=True,
            text=True,
            timeout=300,
        )
        if not (PLACE / "found.json").exists():
            raise OSError((done.stderr.strip().splitlines() or ["pip-audit says nothing"])[-1])
        sentences, mended = findings(json.loads((PLACE / "found.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        sentences, mended = [f"not audited, as the index does not answer: {error}"], False
    print("\n".join(f"pip-audit: {line}" for line in sentences))
    return int(mended and "--strict" in options)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
