from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from flopcast.output import dumps


def test_numpy_values_are_written_as_the_python_values_they_hold():
    value = {
        "a": np.float64(0.1),
        "b": np.int64(3),
        "c": np.bool_(True),
        "d": np.arange(3),
        "e": (1, "x", None),
    }
    assert json.loads(dumps(value)) == {
        "a": 0.1,
        "b": 3,
        "c": True,
        "d": [0, 1, 2],
        "e": [1, "x", None],
    }


def test_floats_read_back_equal_unless_digits_are_asked_for():
    value = [1 / 3, 1e-300, 123456789.123456789]
    assert json.loads(dumps(value)) == value
    assert json.loads(dumps(value, digits=3)) == [0.333, 1e-300, 123000000.0]


def test_keys_keep_their_order_or_sort_with_numbers_by_value():
    value = {"b": 1, "10": 2, "5": 3, "a": 4}
    assert list(json.loads(dumps(value))) == ["b", "10", "5", "a"]
    assert list(json.loads(dumps(value, sort=True))) == ["5", "10", "a", "b"]
    assert list(json.loads(dumps({10: 0, 5: 0}, sort=True))) == ["5", "10"]


@pytest.mark.parametrize("number", [math.nan, math.inf, np.float64(-math.inf)])
def test_numbers_that_json_lacks_are_an_error_with_their_path_or_null(number):
    with pytest.raises(ValueError, match=r"value\.interval\[1\] is -?(nan|inf)"):
        dumps({"interval": [1.0, number]})
    assert json.loads(dumps({"interval": [1.0, number]}, missing=True)) == {"interval": [1.0, None]}


def test_text_is_kept_as_it_is_and_ends_in_a_newline():
    text = dumps({"kernel": "gemm<fp8> – 9 %", "path": Path("a") / "b"})
    assert "gemm<fp8> – 9 %" in text
    assert json.loads(text)["path"] == "a/b"
    assert text.endswith("}\n")


def test_other_objects_are_refused_by_path():
    with pytest.raises(TypeError, match=r"value\.x is a object"):
        dumps({"x": object()})
