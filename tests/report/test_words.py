"""Words of remarks: every code of the package has some, and they take the values that the code is given."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import pytest

from flopcast.remarks import remark
from flopcast.report import words
from flopcast.report.words import WORDS, in_words, say

ROOT = Path(__file__).parents[2]
OTHER = {"build", "tests", "benchmarks", "examples", "docs"}


def package() -> Iterator[tuple[Path, ast.Module]]:
    """Yield the modules of the package."""
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT)
        if place.parts[0] not in OTHER and not place.parts[0].startswith("."):
            yield place, ast.parse(path.read_text(encoding="utf-8"))


def remarks() -> list[tuple[str, str, list[str | None]]]:
    """Return place, code and keys of every call of `remark` whose code is a literal; the key of ``**`` is None."""
    found = []
    for path, tree in package():
        for node in ast.walk(tree):
            named = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "remark" and node.args
            if named and isinstance(code := node.args[0], ast.Constant):
                found.append((f"{path}:{node.lineno}", code.value, [word.arg for word in node.keywords]))
    return found


REMARKS = remarks()


def test_there_are_remarks() -> None:
    assert len({code for _, code, _ in REMARKS}) > 100


@pytest.mark.parametrize(("place", "code", "keys"), REMARKS, ids=lambda one: one if isinstance(one, str) else "")
def test_every_code_has_words_that_take_its_values(place: str, code: str, keys: list[str | None]) -> None:
    assert code in WORDS, f"report/words has none for {code!r} of {place}"
    text = WORDS[code]
    if None in keys:
        return  # some values are only known when it runs
    if callable(text):
        inspect.signature(text).bind(**dict.fromkeys(keys))
    else:
        asked = {name.split(".")[0].split("[")[0] for _, name, _, _ in Formatter().parse(text) if name}
        assert asked <= set(keys), f"{code!r} of {place} lacks {asked - set(keys)}"


def test_no_words_are_left_of_codes_that_are_gone() -> None:
    literals = {
        node.value
        for path, tree in package()
        if path.parts[:2] != ("report", "words")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(WORDS) <= literals


def test_a_code_has_its_words_in_one_area_and_every_area_is_listed() -> None:
    counts = Counter(code for area in words._AREAS for code in area)
    assert [code for code, count in counts.items() if count > 1] == []
    beside = {path.stem for path in (ROOT / "report" / "words").glob("*.py")} - {"__init__"}
    assert {name for name in beside if any(vars(words)[name].WORDS is area for area in words._AREAS)} == beside


def test_templates_and_functions_say_remarks() -> None:
    known = remark("unseen-level", category="dtype", level="fp6", known=("fp8",))
    assert say(known) == "dtype fp6 was not in training (fp8)"
    missing = remark("missing-value", feature="m")
    assert in_words([missing, "a sentence"]) == ["m is missing, trained always with a value", "a sentence"]
    with pytest.raises(KeyError):
        say(remark("no-such-code"))
