"""The documentation without running its examples: every page, reference and link inside it; a warning is an error."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flopcast.readers.base import readers
from flopcast.table.refusals import REASONS

ROOT = Path(__file__).parents[1]
ASKED = {
    "the columns of a convolution": "generated/columns.html#conv-columns",
    "how the honest error is computed": "methods/evaluation.html#honest-error",
    "how to add a format": "contributing.html#add-a-format",
    "how to forecast a model": "guides/forecasting.html",
}
"""What newcomers ask for -> where the first page leads in one step."""


def test_every_format_is_described() -> None:
    told = (ROOT / "docs" / "formats.rst").read_text(encoding="utf-8").split()
    assert [reader.name for reader in readers() if type(reader).__module__ not in told] == []


def test_every_code_that_is_reported_is_on_the_page_of_findings_and_no_cure_is_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    findings = importlib.import_module("findings")
    every = findings.findings()
    page = "\n".join(findings.page())
    assert all(f"</a>`{code}` |" in page for code in every)
    assert set(REASONS) | {
        "energy-contradicts-power",
        "above-trained-range",
        "law-slope-undecided",
    } <= set(every)
    assert set(findings.CURES) <= set(every)
    source = "".join(
        path.read_text(encoding="utf-8")
        for one in findings.AREAS
        for path in (ROOT / one).rglob("*.py")
    )
    written = set(re.findall(r"\bremark\(\s*\"([a-z0-9-]+)\"", source))
    assert len(written) > 200
    assert written <= set(every)


@pytest.mark.long
@pytest.mark.skipif(
    importlib.util.find_spec("sphinx_gallery") is None, reason="needs the dependency group docs"
)
def test_every_reference_leads_somewhere_and_the_first_page_to_what_is_asked_for(
    tmp_path: Path,
) -> None:
    for name in ("docs", "examples"):
        shutil.copytree(
            ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("generated", "gallery")
        )
    for path in ROOT.glob("*.md"):
        shutil.copy(path, tmp_path)
    command = (
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-D",
        "plot_gallery=0",
        "-D",
        "html_theme=basic",
        "docs",
        "out",
    )
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    first = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    for target in ASKED.values():
        assert f'href="{target}"' in first
        page, _, place = target.partition("#")
        assert not place or f'id="{place}"' in (tmp_path / "out" / page).read_text(encoding="utf-8")
