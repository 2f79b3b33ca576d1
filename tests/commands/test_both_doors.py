"""What a command can do a function can: each option is a keyword, or it is said why it is only the terminal's."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import flopcast as fc
from flopcast.api.projecting import project_traces
from flopcast.commands.app import COMMANDS, load

OF_THE_TERMINAL = {
    "every": "how many rows are printed; a table has all",
    "short": "how much is printed",
    "plot": "charts of characters; a result has figures",
    "as_json": "what is printed; `to_dict` in Python",
    "quiet": "whether progress is printed; `progress` in Python",
    "force": "`overwrite` in Python",
}
"""Option of several commands -> why no function has it."""
ELSEWHERE = {
    ("train", "top"): fc.show,
    ("train", "need"): fc.needed,
    ("predict", "need"): fc.needed,
    ("project", "out"): fc.project,
    ("project", "chakra"): fc.project,
}
"""Command and option -> the function that has the keyword."""
OF_ONE = {
    ("measure", "cus"): "each size is a process of its own: units are masked before PyTorch starts",
    ("project", "together"): "`project_job` in Python",
    ("schema", "out"): "the table that `schema` returns is written by pandas",
    ("schema", "template"): "the columns of the table that `schema` returns",
    ("gpus", "sources"): "`GPU.sources` in Python",
}
"""Command and option -> why no function has it."""
FUNCTIONS = {"forecast MODEL": fc.forecast, "project": project_traces, "scale predict": fc.scale}
"""Command -> its function, where that has another name."""


def commands() -> dict[str, Any]:
    """Return every command, those of groups too, by its words."""
    every = {}
    for name in COMMANDS:
        command = load(name)
        if not hasattr(command, "commands"):
            every[name] = command
            continue
        for word, inner in command.commands.items():
            every[f"{name} {word}"] = inner
    return every


EVERY = commands()


def keywords_of(name: str) -> set[str]:
    public = FUNCTIONS.get(name) or getattr(fc, name.replace(" ", "_").replace("-", "_"))
    keywords = set(inspect.signature(public).parameters)
    if name == "check":
        keywords |= set(inspect.signature(fc.with_curve).parameters)
    return keywords


@pytest.mark.parametrize("name", EVERY)
def test_an_option_is_a_keyword_or_only_the_terminals(name: str) -> None:
    keywords = keywords_of(name)
    for option in EVERY[name].params:
        if option.name in keywords or option.name in OF_THE_TERMINAL:
            continue
        elsewhere = ELSEWHERE.get((name, option.name))
        if elsewhere is None:
            assert (name, option.name) in OF_ONE, option.name
        else:
            assert option.name in inspect.signature(elsewhere).parameters


def test_what_is_said_of_options_is_of_options_that_there_are() -> None:
    for name, option in (*ELSEWHERE, *OF_ONE):
        assert option in {given.name for given in EVERY[name].params}
        assert option not in keywords_of(name)


def test_a_keyword_writes_what_the_option_of_its_name_writes(tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("gemm\nadd\nadd\n")
    fc.plan("rocprofv3", names, script=tmp_path / "passes.sh")
    assert "rocprofv3" in (tmp_path / "passes.sh").read_text()
    asked: dict[str, Any] = {"gpu": "MI300X", "batch": 1, "input_len": 8, "output_len": 8}
    with pytest.raises(fc.ParameterError, match=r"^chakra must be asked for one graph"):
        fc.forecast("llama-3.1-8b", **asked, chakra=tmp_path / "et")
    with pytest.raises(fc.ParameterError, match=r"^chakra is not written of Deployments"):
        fc.forecast("llama-3.1-8b", gpu="MI300X", isl=8, osl=8, rate=1, chakra=tmp_path / "et")
    with pytest.raises(fc.ParameterError, match=r"^chakra must be text or a path, got 3"):
        fc.forecast("llama-3.1-8b", **asked, chakra=3)
    assert not (tmp_path / "et").exists()
    for public, keyword in (
        (fc.clean, "removed"),
        (fc.project, "chakra"),
        (fc.check, "corrected"),
        (fc.plan, "script"),
    ):
        assert keyword in inspect.signature(public).parameters


def test_a_check_saves_the_corrected_run(tmp_path: Path) -> None:
    run = fc.train(where={"m": (None, 64)}, models=["OLS"], jobs=1)
    rows = fc.read(where={"m": (65, 256)}).frame
    answer = run.check(rows, corrected=tmp_path / "corrected")
    assert (tmp_path / "corrected").exists() == (answer.correction is not None)
    assert bool(answer.facts.saved) == (answer.correction is not None)
