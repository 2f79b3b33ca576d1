"""A document is followed: what its reader can type is run, and what that prints is held against the page."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path
from typing import Any, Final

import pytest

import flopcast as fc
from flopcast.api import training
from flopcast.api.provenance import data_hash
from flopcast.commands.app import load
from flopcast.evaluation import competition
from flopcast.models.suite import Columnar, suite
from flopcast.tests.commands import running

from .blocks import Step
from .laid import LAID, MEASURED, MissingError, tuned

NOT_RUN: Final = {
    "flopcast --install-completion": "writes into the start-up file of the reader's shell",
    "--cluster": "needs other machines; tests/test_workers.py starts workers",
    "dask_jobqueue": "needs SLURM",
    "flopcast fetch": "needs the network",
    "--cus": "needs a GPU; tests/measuring/test_masked.py simulates one",
    "--signers": "needs a key; tests/test_sealing.py makes one",
}
"""What is not run, and why."""

INSTEAD: Final = {
    "--rows 10,30,100": "--rows 10 --draws 1 --models Additive",
    "--preset small": "--op relu --threads 1",
    "--device cuda:0": "--device cpu",
    "--logger amdsmi": "--logger simulated --runs 5",
}
"""What stands for hardware that no test has, and for the time it would take."""

DEAR: Final = ("Mean/Transfer", "BoostedTrees", "flopcast:")
"""Lines of a printed training with these words are not held against it: the models behind them take long."""

FEW: Final = ("OLS", "Additive")
"""Models of a training that prints nothing, and says nothing of models."""

GIVEN: Final[dict[str, Callable[[], Any]]] = {
    "data": lambda: fc.read("DATA"),
    "new": lambda: fc.read("new.csv").frame,
    "model": lambda: torch().nn.Linear(4, 4),
    "batches": lambda: [torch().ones(2, 4)] * 4,
}
"""Names that Python of a page takes from its reader."""


ALL_FOLDS: Final = competition.FOLDS
"""Of a training whose figures a page prints."""


@dataclass
class Reader:
    """Somebody who types what a document says, in the working folder."""

    names: dict[str, Any] = field(default_factory=lambda: {"fc": fc})
    left_out: list[str] = field(default_factory=list)
    made_up: bool = False

    def follow(self, step: Step) -> None:
        """Run one step, and hold what it prints against the page."""
        if any(part in step.code.replace("$(flopcast", "") for part in NOT_RUN):
            return
        try:
            if step.python:
                self.python(step.code)
            else:
                self.command(step)
        except MissingError as missing:
            self.left_out.append(str(missing))

    def python(self, code: str) -> None:
        """Run a block."""
        tree = ast.parse(code)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                lay(node.value)
            elif isinstance(node, ast.Name) and node.id in GIVEN and node.id not in self.names:
                lay("DATA")
                lay("new.csv")
                self.names[node.id] = GIVEN[node.id]()
        exec(compile(tree, "page", "exec"), self.names)

    def command(self, step: Step) -> None:
        """Run a command; it ends well, or with 2 where the page prints that it is refused."""
        if step.code.startswith("cat "):
            Path(step.code.removeprefix("cat ")).write_text(
                "\n".join([*step.printed, ""]), encoding="utf-8"
            )
            return
        words, printed = self.words(step.code), step.printed
        if words[0] == "train" and not {"--quick", "--models"} & {*words}:
            printed = [line for line in printed if not any(dear in line for dear in DEAR)]
            words += ["--models", ",".join(models_in(printed) or FEW)]
        if any("--jobs" in one.opts for one in load(words[0]).params):
            words += ["--jobs", "1"]
        with pytest.MonkeyPatch.context() as patch:
            if printed:
                patch.setattr(competition, "FOLDS", ALL_FOLDS)
            ended = running.call(*words)
        refused = any(line.startswith("error: ") for line in printed)
        assert ended.exit_code == (2 if refused else 0), (step.code, ended.output)
        if not self.made_up and (missing := unsaid(printed, ended.output)):
            pytest.fail(
                "\n".join([f"{step.code} does not print", *missing, "but", ended.output]),
                pytrace=False,
            )

    def words(self, code: str) -> list[str]:
        """Return the arguments of a command, its files laid."""
        code = re.sub(
            r"\$\(flopcast fetch (\w+)\)", lambda found: self.fetched(found[1], code), code
        )
        for hardware, instead in INSTEAD.items():
            code = code.replace(hardware, instead)
        program, *words = shlex.split(code, comments=True)
        if program == "python":
            words[0] = words[0].removesuffix(".py")
        if words[0] == "measure":
            torch()
        for word in words[1:]:
            lay(word, words[0])
        return [one for word in words for one in (sorted(glob(word)) or [word])]

    def fetched(self, name: str, code: str) -> str:
        """Return a folder of public tables: the measured ones of the family asked for, or some made up like them."""
        if (MEASURED / name).is_dir():
            family = re.search(r"--where family=(\w+)", code)
            for path in (MEASURED / name).rglob(f"*{family[1] if family else ''}*.csv"):
                link = Path(name) / path.relative_to(MEASURED / name)
                link.parent.mkdir(parents=True, exist_ok=True)
                if not link.exists():
                    link.symlink_to(path)
            return name
        if name != "aiter":
            raise MissingError(f"the measured data (../shared/data/{name}) are not on this machine")
        self.made_up = True
        if not Path(name).exists():
            tuned(Path(name))
        return name


def hasty_train(*data: Any, **options: Any) -> fc.Run:
    """Train in this process, a few models where the page does not say which."""
    chosen = {} if {"quick", "models"} & {*options} else {"models": FEW}
    return training.train(*data, **{"jobs": 1, **chosen, **options})


WORKED_OUT: Final[dict[tuple[object, ...], Any]] = {}


def once(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a step of training that is worked out once for all commands of all pages that ask for the same."""

    def known(dataset: Any, *given: Any, **options: Any) -> Any:
        asked = {name: value for name, value in options.items() if name not in ("jobs", "progress")}
        whose = (dataset.host and dataset.host.name, dataset.target.name, dataset.metric)
        # a competition is one of those known here
        of = (one if isinstance(one, str) else id(one) for one in given)
        key = (call.__name__, data_hash(dataset), *whose, *of, repr(asked), competition.FOLDS)
        if key not in WORKED_OUT:
            WORKED_OUT[key] = call(dataset, *given, **options)
        return WORKED_OUT[key]

    return known


def torch() -> Any:
    """Return PyTorch."""
    if importlib.util.find_spec("torch") is None:
        raise MissingError("PyTorch is not installed (pip install flopcast[measure])")
    return importlib.import_module("torch")


def lay(word: str, command: str = "") -> None:
    """Lay the file or folder of this name, or that it is in, if it is one that is laid and is not there."""
    within = (f"{folder}/" for folder in map(str, Path(word).parents))
    name = next(
        (name for name in (f"{command} {word}", word, f"{word}/", *within) if name in LAID), None
    )
    if name is None:
        return
    path = Path(name.split()[-1])
    if not glob(str(path)):
        path.parent.mkdir(parents=True, exist_ok=True)
        LAID[name](path)


def models_in(printed: list[str]) -> list[str]:
    """Return the models of the suite that a printed table has lines of."""
    data = Columnar({"host_us": "additive"}, (), n_rows=100, host=True, unpaired=True)
    first = {word for line in printed for word in line.lstrip(" *≈†").split()[:1]}
    return sorted(first & {model.name for model in suite("default", data)})


def unsaid(printed: list[str], output: str) -> list[str]:
    """Return the lines of a page that the output lacks, in its order.

    Between them the output may say more, and in a table have more columns: each line's words stand in one line of the
    output, in their order. A sentence may be broken elsewhere: then all its words follow each other.
    """
    lines = [words_of(line) for line in output.splitlines()]
    text = [word for line in lines for word in line]
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line))
    at, missing = 0, []
    for told in printed:
        wanted = words_of(told)
        if not wanted or wanted == ["..."]:
            continue
        last = len(text) - len(wanted)
        following = (
            place
            for place in range(at, last + 1)
            if all(map(same, wanted, text[place : place + len(wanted)]))
        )
        if (place := next(following, None)) is not None:
            at = place + len(wanted)
            continue
        rows = (
            row for row, line in enumerate(lines) if begins[row + 1] > at and within(wanted, line)
        )
        if (row := next(rows, None)) is None:
            missing.append(told)
        else:
            at = begins[row + 1]
    return missing


def words_of(line: str) -> list[str]:
    """Return the words of a line, without rules and the marks of tables."""
    return [word for word in line.split() if word.strip("─━*≈†•")]


def within(wanted: list[str], line: list[str]) -> bool:
    """Say whether all words stand in a line, in their order."""
    rest = iter(line)
    return all(any(same(word, other) for other in rest) for word in wanted)


TOLERANCE: Final = 0.015
"""By how much a figure may differ from the page's, relative, or by one of its last digit."""
_FIGURE: Final = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")


def same(wanted: str, found: str) -> bool:
    """Say whether two words are the same, figures within the tolerance."""
    if wanted == found:
        return True
    if _FIGURE.sub("#", wanted) != _FIGURE.sub("#", found) or "#" not in _FIGURE.sub("#", wanted):
        return False
    for one, other in zip(_FIGURE.findall(wanted), _FIGURE.findall(found), strict=True):
        step = 10.0 ** -len(one.partition(".")[2])
        value, real = (float(text.replace(",", "")) for text in (one, other))
        if abs(value - real) > max(TOLERANCE * abs(real), step if step < 1 else 0) * 1.0001:
            return False
    return True
