"""Words of remarks: every code of the package has some, and they take the values that the code is given."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from re import fullmatch
from string import Formatter

import pytest

from flopcast.remarks import remark
from flopcast.report import words
from flopcast.report.words import WORDS, in_words, say, traces
from flopcast.report.words import reading as of_rows

ROOT = Path(__file__).parents[2]
REASONS = of_rows.REASONS | traces.REASONS
OTHER = {"build", "tests", "benchmarks", "examples", "docs"}


@cache
def package() -> list[tuple[Path, list[ast.Call | ast.Constant]]]:
    """Return the calls and the literals of each module of the package."""
    folders = [path for path in ROOT.iterdir() if path.name not in OTHER and (path / "__init__.py").exists()]
    own = [*ROOT.glob("*.py"), *(path for folder in folders for path in folder.rglob("*.py"))]
    read = ((path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))) for path in sorted(own))
    return [(place, [*_calls_and_literals(tree)]) for place, tree in read]


def _calls_and_literals(tree: ast.Module) -> Iterator[ast.Call | ast.Constant]:
    return (node for node in ast.walk(tree) if isinstance(node, (ast.Call, ast.Constant)))


def remarks() -> list[tuple[str, str, list[str | None]]]:
    """Return place, code and keys of every call of `remark` whose code is a literal; the key of ``**`` is None."""
    return [
        (f"{path}:{node.lineno}", str(code.value), [word.arg for word in node.keywords])
        for path, nodes in package()
        for node in nodes
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "remark" and node.args
        if isinstance(code := node.args[0], ast.Constant)
    ]


@pytest.mark.no_cover
def test_every_code_has_words_that_take_its_values() -> None:
    found = remarks()
    assert len({code for _, code, _ in found}) > 100
    assert [(place, code) for place, code, _ in found if code not in WORDS] == []
    for place, code, keys in found:
        if None in keys:
            continue  # some values are only known when it runs
        text = WORDS[code]
        if callable(text):
            inspect.signature(text).bind(**dict.fromkeys(keys))
        else:
            asked = {name.split(".")[0].split("[")[0] for _, name, _, _ in Formatter().parse(text) if name}
            assert asked <= set(keys), f"{code!r} of {place} lacks {asked - set(keys)}"


@pytest.mark.no_cover
def test_no_words_are_left_of_codes_that_are_gone() -> None:
    literals = {
        node.value
        for path, nodes in package()
        if path.parts[:2] != ("report", "words")
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(WORDS) | set(REASONS) <= literals


@pytest.mark.no_cover
def test_every_code_that_refuses_a_row_has_words() -> None:
    marks, statements = {"refuse", "defect", "_defect", "DEFECT"}, (ast.Assign, ast.Expr, ast.Return)
    codes = set[str]()
    for folder in ("readers", "table", "traces"):
        for path in (ROOT / folder).rglob("*.py"):
            for one in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                inside = [*ast.walk(one)] if isinstance(one, statements) else []
                if marks & {getattr(node, "id", getattr(node, "attr", "")) for node in inside}:
                    texts = (node.value for node in inside if isinstance(node, ast.Constant))
                    codes |= {text for text in texts if isinstance(text, str) and fullmatch("[a-z]+(-[a-z]+)+", text)}
    assert {"zero-duration", "launch-not-recorded", "line-unlike-header", "not-a-gemm"} <= codes
    assert codes <= set(REASONS)


def test_a_code_has_its_words_in_one_area_and_every_area_is_listed() -> None:
    counts = Counter(code for area in words._AREAS for code in area)
    assert [code for code, count in counts.items() if count > 1] == []
    beside = {path.stem for path in (ROOT / "report" / "words").glob("*.py")} - {"__init__"}
    assert {name for name in beside if any(vars(words)[name].WORDS is area for area in words._AREAS)} == beside


def test_templates_and_functions_say_remarks() -> None:
    known = remark("unseen-level", category="dtype", level="fp6", known=("fp8",))
    assert all(value in say(known) for value in ("dtype", "fp6", "fp8"))
    missing = remark("missing-value", feature="m")
    assert in_words([missing, "a sentence"]) == [say(missing), "a sentence"]
    with pytest.raises(KeyError):
        say(remark("no-such-code"))
