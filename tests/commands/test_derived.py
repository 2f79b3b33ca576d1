"""Commands that follow from functions of the API: every option is a keyword, with its default and the docstring's words."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import pytest
import typer

import flopcast as fc
from flopcast.api.learning import with_curve
from flopcast.commands.app import load
from flopcast.commands.declared import declared, plain, public_names, said
from flopcast.commands.derived import KINDS, NOT_ASKED
from flopcast.commands.verbs import VERBS
from flopcast.table.conditions import Reading
from flopcast.tests.commands.running import call
from flopcast.workloads.setting import Setting
from flopcast.workloads.supercomputers import Spread

OF_THE_TERMINAL = {"out", "every", "as_json", "plot", "short", "quiet", "force", "help"}
THEN = {"check": (with_curve,)}
"""Command -> the functions that its result goes through, whose keywords are options too."""


def function_of(name: str) -> Any:
    return getattr(fc, VERBS[name].function or name)


def command_of(name: str) -> Any:
    """Return a command, also one of a group."""
    group, _, word = name.partition(" ")
    command = load(group)
    return command.commands[word] if word else command


def keywords(name: str) -> dict[str, inspect.Parameter]:
    """Return the parameters of the functions behind a command."""
    found = dict(inspect.signature(function_of(name)).parameters)
    for function in THEN.get(name, ()):
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY:
                found.setdefault(parameter.name, parameter)
    return found


@pytest.mark.parametrize("name", VERBS)
def test_options_are_the_keywords_of_the_function_with_their_defaults(name: str) -> None:
    stated = keywords(name)
    options = {option.name: option for option in command_of(name).params}
    saved = {"out", "overwrite"}
    assert options.keys() - OF_THE_TERMINAL == stated.keys() - {*NOT_ASKED} - saved
    assert saved <= stated.keys()
    for keyword in stated.keys() & options.keys():
        default = stated[keyword].default
        if options[keyword].default is None and isinstance(options[keyword].show_default, str):
            continue
        if isinstance(default, int | float | str):
            assert options[keyword].default == default, keyword
        assert (
            options[keyword].required
            == (default is inspect.Parameter.empty and "data" not in keyword)
            or options[keyword].param_type_name == "argument"
        )


def test_a_default_that_a_docstring_states_is_the_functions_own() -> None:
    tried = 0
    of_scores = ("forecast_hpl", "forecast_hpcg", "forecast_hpl_mxp", "forecast_kernel")
    for name in of_scores:
        for keyword in declared(name).keywords:
            default = inspect.signature(getattr(fc, name)).parameters[keyword.name].default
            if isinstance(default, Spread):
                assert Spread.read(keyword.name, keyword.shown) == default
                tried += 1
            elif isinstance(default, float):
                assert float(keyword.shown or keyword.default) == default
                tried += 1
    fields = {field.name: field.default for field in dataclasses.fields(Setting)}
    for keyword in declared("forecast").keywords:
        shown = keyword.shown.partition(",")[0].partition(";")[0]
        default = fields.get(keyword.name)
        if shown and isinstance(default, int | float) and shown[0].isdigit():
            assert float(shown) == default or keyword.name == "zero"
            tried += 1
    assert tried > 10


@pytest.mark.parametrize("name", VERBS)
def test_the_help_is_what_the_docstring_says(name: str) -> None:
    told = inspect.getdoc(function_of(name)) or ""
    assert plain(told.partition("\n\n")[0]) in " ".join(command_of(name).help.split())
    for option in command_of(name).params:
        if option.name in keywords(name):
            assert option.help.removesuffix(" Repeatable.").endswith(".")


@pytest.mark.parametrize("name", VERBS)
def test_every_annotation_has_a_meaning(name: str) -> None:
    for module_and_name in ((VERBS[name].function or name, ""), *VERBS[name].then):
        for keyword in declared(*module_and_name).keywords:
            if not keyword.is_positional and keyword.name not in NOT_ASKED:
                assert keyword.annotation.removesuffix(" | None") in KINDS


def test_a_sentence_is_followed_to_the_function_that_says_it() -> None:
    assert said("curve", "interval") == said("predict", "interval") != ""
    assert said("advise", "group") == said("train", "group")
    assert public_names()["check"] == "api.checking"


def test_defaults_may_be_constants_of_the_module() -> None:
    found = {keyword.name: keyword.default for keyword in declared("curve").keywords}
    assert found["rows"] == (10, 30, 100, 300, 1000)
    assert found["models"][0] == "Additive"
    assert {one.name: one.default for one in declared("advise").keywords}["row_seconds"] == 10.0
    imported = {
        one.name: one.default for one in declared("project_traces", "api.projecting").keywords
    }
    assert (imported["compute_law"], imported["ranks_per_node"]) == ("affine", 8)


def test_how_data_are_read_is_declared_once_for_all_functions() -> None:
    for name in (
        "train",
        "check",
        "validate",
        "curve",
        "compare",
        "advise",
        "counters",
        "predict",
        "explain",
        "forecast",
    ):
        stated = {one.name: one for one in declared(name).keywords}
        fields = Reading.__annotations__.keys() | ({"keep"} & stated.keys())
        assert fields <= stated.keys()
        for field in fields:
            assert stated[field].help == said("read", field)
        with pytest.raises(
            TypeError, match=rf"^{name}\(\) got an unexpected keyword argument 'wher'"
        ):
            getattr(fc, name)(wher={"m": 1})


def test_a_run_predicts_by_the_keywords_of_predict() -> None:
    keywords = dict(inspect.signature(fc.predict).parameters)
    for name in ("run", "out", "overwrite"):
        del keywords[name]
    of_a_run = dict(inspect.signature(fc.Run.predict).parameters)
    del of_a_run["self"]
    assert of_a_run == keywords


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("check none none.csv", "none: no such file"),
        ("check {here} {here} --margin 2", "--margin"),
        ("curve --target MI355X --rows 20,", "--rows"),
        ("advise {here} {here} --budget soon", "--budget"),
        ("validate --host MI30X", "MI300X"),
        ("explain {here} {here} --where m", "--where"),
        ("compare {here} {here} --unit time", "--unit"),
        ("check {here} {here} --corrected {file}", "choose another folder"),
        ("advise {here} {here} --out x.txt", "--out"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_before_anything_is_read(
    line: str, refused: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def imported(*_: Any) -> None:
        pytest.fail("the work has begun")

    monkeypatch.setattr("flopcast.commands.derived._called", imported)
    (tmp_path / "file").write_text("x")
    done = call(*line.format(here=tmp_path, file=tmp_path / "file").split())
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert refused in done.stderr


def test_a_result_of_any_verb_is_written_and_shown(tmp_path: Path, trained: Path) -> None:
    rows = tmp_path / "rows.csv"
    fc.read(where={"m": (65, 256)}).save(rows)
    for name, needed in (("explain", ()), ("check", ("--seed", "1"))):
        out = tmp_path / name
        done = call(name, trained, rows, *needed, "--out", out, "--json")
        assert done.exit_code == 0, done.output
        assert {path.name for path in out.iterdir()} == {f"{name}.json", f"{name}.html"}
        assert f"flopcast {name} " in (out / f"{name}.html").read_text(encoding="utf-8")


def test_a_command_is_typers_own() -> None:
    assert isinstance(load("check"), typer.core.TyperCommand)
