"""One vocabulary: an option is a keyword of the library, has one meaning wherever it stands, and says its default."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import flopcast as fc
from flopcast.api import projecting
from flopcast.commands.app import COMMANDS, load

CALLED: dict[str, Callable[..., Any]] = {
    "project": projecting.project_traces,
    "forecast MODEL": fc.forecast,
}
"""What a command calls, where that is not the function of its name at the front door."""
SHOWN = {
    "as_json",
    "every",
    "short",
    "quiet",
    "plot",
    "top",
    "chakra",
    "corrected",
    "force",
    "cus",
    "removed",
    "script",
    "sources",
    "together",
    "need",
}
"""Options that say how a result is shown, and what is written beside it; `together` replays ranks by `projecting.project_job`,
`cus` measures by `measure.measure_sizes`, `need` says of a result whether it is sure enough."""


def commands() -> Iterator[tuple[str, Any]]:
    for name in COMMANDS:
        command = load(name)
        inner = getattr(command, "commands", None)
        yield from (
            ((f"{name} {one}", leaf) for one, leaf in inner.items()) if inner else [(name, command)]
        )


def called_by(name: str) -> Callable[..., Any]:
    """Return what a command calls: ``flopcast power plan`` is `flopcast.power_plan`."""
    return CALLED.get(name) or getattr(fc, name.replace(" ", "_").replace("-", "_"))


def options() -> Iterator[tuple[str, Any]]:
    for name, command in commands():
        yield from (
            (name, one)
            for one in command.params
            if one.param_type_name == "option" and one.name != "help"
        )


def test_a_word_has_one_meaning() -> None:
    meanings: dict[str, set[str]] = {}
    for _, option in options():
        if option.name != "out":
            meanings.setdefault(option.name, set()).add(option.help.removesuffix(" Repeatable."))
    assert {word: said for word, said in meanings.items() if len(said) > 1 or not all(said)} == {}


def test_an_option_is_spelt_as_its_keyword() -> None:
    for name, option in options():
        if option.name not in ("as_json", "every"):  # json and all are names of Python
            assert f"--{option.name.replace('_', '-')}" in option.opts, name


@pytest.mark.parametrize("name", [name for name, _ in commands() if name not in ("gpus", "schema")])
def test_options_and_arguments_are_keywords_of_the_library(name: str) -> None:
    front = getattr(fc, name.replace(" MODEL", "").replace(" ", "_").replace("-", "_"))
    known = {*inspect.signature(called_by(name)).parameters, *inspect.signature(front).parameters}
    command = dict(commands())[name]
    assert {one.name for one in command.params} - SHOWN - {"help"} <= known


def test_defaults_are_those_of_the_library_and_shown() -> None:
    for name, option in options():
        assert "Default" not in option.help, (name, option.name)
        stated = inspect.signature(called_by(name)).parameters.get(option.name)
        if stated is None or stated.default in (None, inspect.Parameter.empty, ()):
            continue
        if option.default is None:  # several values, or one that the library works out
            shown = option.multiple or option.required or isinstance(option.show_default, str)
            assert shown, (name, option.name)
        else:
            assert option.default == stated.default, (name, option.name)


def test_who_takes_units_of_columns_takes_their_names() -> None:
    taken = {
        word: {name for name, one in options() if one.name == word} for word in ("unit", "rename")
    }
    assert set() < taken["unit"] <= taken["rename"]


def test_ranks_replayed_together_are_asked_for_in_the_same_words() -> None:
    assert set(inspect.signature(projecting.project_job).parameters) - {
        "laws",
        "out",
        "overwrite",
    } <= set(inspect.signature(projecting.project_traces).parameters)


def test_an_option_says_what_stands_for_its_value() -> None:
    for name, option in options():
        if not option.is_flag:
            assert option.metavar, (name, option.name)
            assert "<str>" not in option.metavar
    for name, word, listed in (
        ("train", "suite", "default|literature"),
        ("train", "scheme", "grouped|kfold"),
        ("forecast MODEL", "tuning", "either|tuned|stock"),
    ):
        (option,) = [one for of, one in options() if of == name and one.name == word]
        assert option.metavar == listed


def test_a_default_of_several_values_is_shown_as_it_is_typed() -> None:
    (rows,) = [one for of, one in options() if of == "curve" and one.name == "rows"]
    shown = rows._get_default_string(ctx=None, show_default_is_str=True, default_value=None)
    assert shown == "10,30,100,300,1000"


def test_help_is_written_in_paragraphs_whatever_the_width() -> None:
    for name, command in commands():
        for paragraph in command.help.split("\n\n"):
            assert "\n" not in paragraph, name
