"""What README prints of the demo is what `make demo` computes, whatever the processor."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from flopcast.tests.commands.running import call

pytestmark = pytest.mark.no_cover
ROOT = Path(__file__).parents[1]
MAKEFILE = ROOT / "Makefile"
SCHEMES = {"shuffled workloads": "kfold", "unseen groups": "grouped"}
HEADLINE = re.compile(
    r"(shuffled workloads|unseen groups) — (.+): ([\d.]+) % → flopcast: ([\d.]+) %"
)
ROW = re.compile(r"[*≈]? *([A-Z]\S*|\S+ scaling|constant ratio|affine) +((?:[\d.]+ +){3,7})")
COLUMNS = {
    "E_out": "e_out",
    "groups": "e_out_groups",
    "E_in": "e_in",
    "median": "median_ape",
    "worst": "max_ape",
    "IR": "",
}
"""Word above a column -> figure; IR stands before the threshold."""
TOLERANCE = {"max_ape": 1.0, "5": 0.5, "10": 0.5, "20": 0.5}
"""In percent, 0.1 elsewhere: half of the last digit, and what another processor may make of ties; a row is 0.23 %."""


def demo_command(out: Path) -> list[str]:
    """Return what `make demo` types once the environment is there, with another folder for the run."""
    (line,) = re.findall(
        r"^demo:.*\n\t\$\(BIN\)/python train\.py (.+)$", MAKEFILE.read_text("utf-8"), re.MULTILINE
    )
    return ["train", *({"runs/demo": str(out)}.get(word, word) for word in shlex.split(line))]


def printed(readme: str) -> list[tuple[str, str, str, float]]:
    """Return scheme, model, figure and value of what README shows of the demo: its first block that has a headline."""
    blocks = re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", readme, re.MULTILINE)
    block = next(block for block in blocks if HEADLINE.search(block))
    found, scheme, columns = list[tuple[str, str, str, float]](), "", list[str]()
    for line in block.splitlines():
        if headline := HEADLINE.search(line):
            scheme = SCHEMES[headline[1]]
            found += [
                (scheme, headline[2], "e_out", float(headline[3])),
                (scheme, "", "honest", float(headline[4])),
            ]
            continue
        scheme = next(
            (SCHEMES[words] for words in SCHEMES if line.strip().startswith(words)), scheme
        )
        if line.split()[:1] == ["model"]:
            columns = [
                COLUMNS.get(word, word)
                for word in line.split()[1:]
                if word.isdigit() or COLUMNS.get(word)
            ]
        elif row := ROW.match(f"{line.strip()} "):
            found += [
                (scheme, row[1], *figure)
                for figure in zip(columns, map(float, row[2].split()), strict=True)
            ]
    return found


def computed(metrics: dict[str, Any], scheme: str, model: str, figure: str) -> float:
    """Return what a run says of it."""
    (cv,) = (one for one in metrics["cv"] if one["scheme"] == scheme)
    if figure == "honest":
        return float(cv["selected"]["e_out"])
    (row,) = (one for one in (*cv["baselines"], *cv["models"]) if one["name"] == model)
    return float(row["ir"][figure] if figure.isdigit() else row[figure])


@pytest.mark.long
def test_the_demo_computes_what_the_readme_prints(
    tmp_path: Path, all_folds: Callable[[], AbstractContextManager[None]]
) -> None:
    with all_folds():
        ended = call(
            *demo_command(tmp_path / "run"), "--jobs", "1"
        )  # the same on any number of cores
    assert ended.exit_code == 0, ended.output
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text(encoding="utf-8"))
    told = printed((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(told) >= 4
    wrong = {
        (scheme, model, figure): (said, now)
        for scheme, model, figure, said in told
        if abs((now := computed(metrics, scheme, model, figure)) - said)
        > TOLERANCE.get(figure, 0.1)
    }
    assert wrong == {}


def test_figures_are_found_in_a_table_and_its_headline() -> None:
    readme = (
        "Text\n\n    make demo\n\nText\n\n    unseen groups (10 folds)\n\n"
        "       model            E_out E_in median worst IR 10\n"
        "       FLOPS scaling     30.2 30.3   27.4  68.8   4.0 no fitting\n"
        "     * Mean/Transfer      8.3  6.3    5.6  75.1  68.3 log time\n\n"
        "    shuffled workloads — affine: 9.3 % → flopcast: 4.2 %\n\nText\n"
    )
    found = printed(readme)
    assert found[:2] == [
        ("grouped", "FLOPS scaling", "e_out", 30.2),
        ("grouped", "FLOPS scaling", "e_in", 30.3),
    ]
    assert ("grouped", "Mean/Transfer", "10", 68.3) in found
    assert found[-2:] == [("kfold", "affine", "e_out", 9.3), ("kfold", "", "honest", 4.2)]
