"""`config`: settings of a block and of a program, and the keywords that win over them."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import flopcast as fc
from flopcast.errors import ParameterError
from flopcast.settings import NAMES, configured

SMALL: dict[str, Any] = {"where": {"m": (None, 64)}, "models": ["OLS"]}


@configured
def asked(*data: str, jobs: int = -1, seed: int = 0, interval: float = 0.9) -> tuple[Any, ...]:
    return data, jobs, seed, interval


def test_a_block_has_its_settings_and_those_before_are_back_after_it() -> None:
    with fc.config(seed=3, jobs=2):
        assert asked("a") == (("a",), 2, 3, 0.9)
        with fc.config(seed=4):
            assert asked() == ((), 2, 4, 0.9)
        assert asked() == ((), 2, 3, 0.9)
    assert asked() == ((), -1, 0, 0.9)


def test_settings_are_shown() -> None:
    assert repr(fc.config()).startswith("config(): nothing is set, of jobs, cluster,")
    with fc.config(seed=3):
        fc.config(jobs=2)
        assert repr(fc.config()) == "config(jobs=2, seed=3)"
    assert "nothing is set" in repr(fc.config())


def test_a_block_that_fails_leaves_nothing_behind() -> None:
    with pytest.raises(ZeroDivisionError), fc.config(seed=3):
        1 / 0  # noqa: B018
    assert asked()[2] == 0


def test_settings_hold_until_they_are_set_anew() -> None:
    before = fc.config(interval=0.5)
    assert asked()[3] == 0.5
    fc.config(seed=1)
    assert asked() == ((), -1, 1, 0.5)
    with before:
        pass
    assert asked() == ((), -1, 0, 0.9)


def test_a_block_that_is_entered_again_has_its_settings_again() -> None:
    block = fc.config(seed=3)
    with block:
        with block:
            assert asked()[2] == 3
        assert asked()[2] == 3
    assert asked()[2] == 0
    with fc.config(seed=4), block:
        assert asked()[2] == 3
    assert asked()[2] == 0


def test_a_keyword_wins_over_the_settings() -> None:
    with fc.config(seed=3, jobs=2):
        assert asked(seed=0, jobs=-1) == ((), -1, 0, 0.9)


@pytest.mark.parametrize(
    "setting",
    [
        {"jobs": 0},
        {"jobs": "x"},
        {"jobs": 1.5},
        {"jobs": True},
        {"progress": "yes"},
        {"seed": -1},
        {"seed": 0.5},
        {"interval": 1.0},
        {"interval": 0.0},
        {"interval": 0.001},
        {"interval": 0.999},
    ],
)
def test_a_setting_out_of_its_range_is_refused_and_sets_nothing(setting: dict[str, Any]) -> None:
    with pytest.raises(ParameterError) as raised:
        fc.config(**setting)
    assert raised.value.parameter in setting
    assert asked() == ((), -1, 0, 0.9)


def test_every_function_takes_the_settings_that_it_has_keywords_for() -> None:
    for name in fc.__all__:
        function = getattr(fc, name)
        if not inspect.isfunction(function) or name == "config":
            continue
        keywords = inspect.signature(function).parameters
        if not set(NAMES).isdisjoint(keywords):
            assert hasattr(function, "__wrapped__"), name


def test_a_training_has_the_seed_and_reports_to_whom_the_settings_name() -> None:
    told: list[tuple[int, int]] = []
    with fc.config(jobs=1, seed=7, progress=lambda done, total, *_: told.append((done, total))):
        run = fc.train(**SMALL)
    assert run.provenance["seed"] == 7
    assert told[-1][0] == told[-1][1] > 0
    assert "seed=7" in run.provenance["command"]
    again = fc.train(**SMALL, jobs=1, seed=7)
    assert run.metrics["cv"][0]["selected"] == again.metrics["cv"][0]["selected"]


def test_a_prediction_has_the_level_of_the_settings(ols: fc.Run) -> None:
    rows = fc.read(where={"m": (None, 16)})
    with fc.config(interval=0.5):
        narrow = fc.predict(ols, rows).frame
        wide = fc.predict(ols, rows, interval=0.9).frame
        assert ols.predict(rows)["upper_us"].equals(narrow["upper_us"])
    assert (narrow["upper_us"] < wide["upper_us"]).all()
