"""What the documents and the help let their readers type runs, and prints what they say it does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

import flopcast as fc
from flopcast.api import learning, training
from flopcast.evaluation import competition, counter_choice
from flopcast.measuring import timing
from flopcast.report import html
from flopcast.report.document import Figure, Part
from flopcast.tests.commands.running import hurry

from .blocks import Step, help_texts, steps
from .following import FEW, Reader, hasty_train, once, unsaid

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "datasets/README.md")),
    *(path for end in ("md", "rst") for path in sorted((ROOT / "docs").rglob(f"*.{end}"))),
]
MADE = ("gallery", "generated")
"""Folders of docs/ that `make docs` writes."""
TEXTS = {
    str(path.relative_to(ROOT)): path.read_text("utf-8")
    for path in PAGES
    if not {*MADE} & {*path.parts}
}
HASTY = timing.Rule(precision=0.9, least=6, least_seconds=0.0, seconds=2.0, rounds=2)
"""How kernels are timed: as few times as can be."""
FOUND = {
    name: found for name, text in {**TEXTS, **dict(help_texts())}.items() if (found := steps(text))
}


def first_told(pages: dict[str, list[Step]]) -> dict[str, list[Step]]:
    """Leave out what prints and writes nothing where it is also told with that, and what helps and cookbook repeat."""
    told = [step for found in pages.values() for step in found if not step.python]
    known = {
        _shown(step.code)
        for step in told
        if step.printed or _shown(step.code) != _script(step.code)
    }
    kept = {
        name: [step for step in found if step.printed or _script(step.code) not in known]
        for name, found in pages.items()
    }
    copies = [name for name in pages if name.endswith(" --help") or name == "docs/cookbook.md"]
    guided = {
        _script(step.code) for name, found in pages.items() if name not in copies for step in found
    }
    for name in copies:
        kept[name] = [
            step for step in kept[name] if step.printed or _script(step.code) not in guided
        ]
    return {name: found for name, found in kept.items() if found}


def _shown(code: str) -> str:
    """Return a command that writes nothing."""
    return re.sub(r" (--out|-o) \S+", "", _script(code))


def _script(code: str) -> str:
    """Return a command without its remark, called as ``flopcast`` where a page calls the script of a checkout."""
    return re.sub(r"^python (\w+)\.py\b", r"flopcast \1", re.sub(r"\s+#.*$", "", code))


FOLLOWED = first_told(FOUND)
PLACED = html._placed
STEPS = {name: once(getattr(training, name)) for name in ("compete", "fit_final")}


def without_figures(parts: Sequence[Part]) -> list[Part]:
    """Return the parts of a page but for its figures: those are drawn, and looked at, in tests of the pages."""
    return [part for part in parts if not isinstance(part, Figure)]


@pytest.mark.no_cover
@pytest.mark.parametrize("name", FOLLOWED)
def test_a_reader_can_type_what_a_document_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(fc, "train", hasty_train, raising=False)
    for step, known in STEPS.items():
        monkeypatch.setattr(training, step, known)
    hurry(monkeypatch)
    monkeypatch.setattr(html, "_placed", lambda parts, plots: PLACED(without_figures(parts), plots))
    monkeypatch.setattr(counter_choice, "CATEGORIES", {"NNLS": ("NNLS",)})
    monkeypatch.setattr(competition, "QUICK", FEW)
    # the class stays: a lambda in its place would reach only modules that are imported later
    hasty = vars(HASTY)
    monkeypatch.setattr(timing.Rule, "__init__", lambda rule, **asked: vars(rule).update(hasty))
    monkeypatch.setattr(learning, "MODELS", ("Additive",))
    monkeypatch.setattr(learning, "curve", partial(learning.curve, rows=[10], draws=1))
    reader = Reader()
    for step in FOLLOWED[name]:
        reader.follow(step)
    if reader.left_out and len(reader.left_out) == len(FOLLOWED[name]):
        pytest.skip("; ".join(reader.left_out))


PAGE = """# A page

Type `flopcast gpus MI300X`, as `flopcast gpus` does, or

    flopcast predict runs/fp8 $(flopcast fetch aiter) \\
        --out x.csv  # all of them

which prints

    model  E_out
    affine   9.5

```python
fc.read("x.csv")
```

```text
$ cat x.toml
a = 1
$ flopcast gpus x.toml
...
error: no
```
"""


def test_what_a_page_lets_its_reader_type() -> None:
    predict = "flopcast predict runs/fp8 $(flopcast fetch aiter) --out x.csv  # all of them"
    assert steps(PAGE) == [
        Step("flopcast gpus MI300X"),
        Step(predict, printed=["model  E_out", "affine   9.5"]),
        Step('fc.read("x.csv")', python=True),
        Step("cat x.toml", printed=["a = 1"]),
        Step("flopcast gpus x.toml", printed=["...", "error: no"]),
    ]


OUTPUT = """
 model     E_out  E_in  median
 ─────────────────────────────
 * affine    9.5   9.2     6.6
   OLS      12.1  10.0     7.0

note: the collectives took 63 times
what the model says
"""


@pytest.mark.parametrize(
    ("told", "missing"),
    [
        (
            [
                "model E_out median",
                "affine 9.6 6.6",
                "...",
                "OLS 12.0",
                "the collectives took 63 times what the model",
            ],
            [],
        ),
        (["affine 9.9", "OLS 12.1"], ["affine 9.9"]),
        (["OLS 12.1", "affine 9.5"], ["affine 9.5"]),
        (["affine 6.6 9.5"], ["affine 6.6 9.5"]),
        (["took 63 times what they are"], ["took 63 times what they are"]),
        (["affine 9.5 %"], ["affine 9.5 %"]),
    ],
)
def test_what_a_page_prints_is_held_against_the_output(told: list[str], missing: list[str]) -> None:
    assert unsaid(told, OUTPUT) == missing
