"""What is said of many rows is what would be said of each."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import numpy as np
import pytest

import flopcast
from flopcast.remarks import Alike, Reasons, Remark, remark

MISSING = remark("missing-value", feature="m")
SAID = [(MISSING, remark("slow", factor=2.0)), (), (remark("slow", factor=3.0),), (MISSING,)]


def test_rows_keep_what_is_said_of_them_in_order() -> None:
    assert Reasons.of(SAID).of_rows() == SAID
    assert Reasons.of(SAID).any().tolist() == [True, False, True, True]


def test_remarks_that_differ_in_values_alone_are_taken_apart() -> None:
    found = Reasons(4)
    found.add([0, 3], MISSING)
    found.add(
        [0, 2], Alike("slow", (), {"factor": np.array([2.0, 3.0])}, "%g times as slow", "slow")
    )
    assert found.of_rows() == SAID
    assert found.where(np.array([False, True, True, True])).of_rows() == SAID[1:]


def test_said_of_some_rows_it_is_said_of_them_among_all() -> None:
    whole = Reasons(6)
    whole.extend(Reasons.of(SAID), np.array([5, 0, 2, 3]))
    assert whole.of_rows() == [(), (), SAID[2], (MISSING,), (), SAID[0]]


def test_the_text_of_many_is_that_of_each() -> None:
    found = Reasons(3)
    found.add(
        [0, 2],
        Alike(
            "slow",
            (("host", "a"),),
            {"factor": np.array([2.0, 3.5])},
            "100 %% of a: %g times",
            "slower than a",
        ),
    )
    found.add([2], MISSING)
    texts, first = found.texts()
    said = texts.to_pylist()
    assert said == ["; ".join(map(str, why)) for why in found.of_rows()]
    assert said[2].startswith("100 % of a: 3.5 times; ")
    assert first.tolist() == ["slower than a", "", "slower than a"]


def test_of_some_rows_alone_it_is_said_what_is_told_of_each() -> None:
    found = Reasons(4)
    slow = Alike("slow", (), {"factor": np.array([2.0, 3.0, 4.0])}, "%g times as slow", "slow")
    found.add_some(np.array([3, 1, 0]), slow, np.array([True, False, True]))
    found.add_some(np.array([0, 1]), MISSING, np.array([False, True]))
    assert found.texts()[0].to_pylist() == [
        "4 times as slow",
        "missing-value: feature = m",
        "",
        "2 times as slow",
    ]


def test_texts_of_equal_values_are_made_once_and_signs_of_zero_stay() -> None:
    values = np.tile([0.0, 2.0, -0.0, 2.0, np.nan, np.nan], 3)
    far = np.tile([1.0, 3.0, 1.0, 4.0, 1.0, 1.0], 3)
    found = Alike("slow", (), {"value": values, "far": far}, "%g is %g away", "is away")
    texts, codes = found.texts()
    assert texts[codes].tolist() == [str(one) for one in found.each()]
    assert len(texts) == 5


def test_texts_of_values_that_hardly_repeat_are_those_of_each() -> None:
    found = Alike("slow", (), {"value": np.array([3.0, -0.0, 0.0, 3.0])}, "%g slow", "slow")
    texts, codes = found.texts()
    assert texts[codes].tolist() == ["3 slow", "-0 slow", "0 slow", "3 slow"]


def test_names_in_a_text_of_many_cannot_steer_a_terminal() -> None:
    found = Alike("slow", (), {"factor": np.array([2.0])}, "a\x1b[31m is %g", "a\x1b[31m")
    assert found.texts()[0].tolist() == ["a\\x1b[31m is 2"]
    assert found.general == "a\\x1b[31m"


def test_remarks_are_equal_by_code_and_values_and_survive_json() -> None:
    found = remark("slow", "2 times as slow", factor=2.0)
    assert found == remark("slow", factor=2.0)
    assert len({found, remark("slow", factor=2.0), remark("slow", factor=3.0)}) == 2
    again = Remark.from_dict(json.loads(json.dumps(found.to_dict())))
    assert (again, again.text) == (found, found.text)


def test_what_an_old_run_holds_shows_its_code_and_values() -> None:
    old = Remark.from_dict({"code": "cannot-win", "folds": 2, "of": 10})
    assert all(part in str(old) for part in ("cannot-win", "folds", "2", "10"))


@pytest.mark.no_cover
def test_every_remark_of_the_package_has_its_text_beside_its_code() -> None:
    root = Path(flopcast.__file__).parent
    folders = [
        path
        for path in root.iterdir()
        if (path / "__init__.py").exists() and path.name not in ("build", "tests")
    ]
    files = [*root.glob("*.py"), *(file for folder in folders for file in folder.rglob("*.py"))]
    calls = [
        (f"{file.relative_to(root)}:{node.lineno}", node)
        for file in files
        if "remark(" in (text := file.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "remark"
    ]
    assert len(calls) > 200
    assert [place for place, call in calls if len(call.args) < 2] == []
