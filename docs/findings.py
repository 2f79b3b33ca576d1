"""The page of findings: every code that the package can report, read from its source, with what it says."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import flopcast
from flopcast.table.refusals import REASONS

ROOT = Path(flopcast.__file__).parent
AREAS = {
    "readers": "Files as they are read",
    "traces": "Traces: their quality, and how they are cleaned",
    "table": "Rows of the measurement table",
    "features": "Features",
    "models": "Models",
    "evaluation": "Training, intervals and verdicts",
    "api": "Predicting",
    "laws": "Laws",
    "projection": "Projecting a trace",
    "workloads": "Forecasting",
    "scaling": "Other sizes",
    "measuring": "Measuring",
    "power": "Power and energy",
    "errors.py": "Figures of GPUs",
}
"""Folder -> its heading."""
LISTED = (
    "readers/aiconfigurator.py", "readers/reading.py", "traces/quality.py", "table/physics.py", "evaluation/domain.py",
    "evaluation/verdicts.py", "projection/comparison.py", "measuring/session.py", "workloads/graph_files.py",
)  # fmt: skip
"""Files that write codes out in tuples and dictionaries, beside their text."""
CURES = {
    "above-peak": "a wrong unit, work counted twice, or another GPU than stated: see the rows named; "
    "`--keep impossible` keeps them",
    "above-trained-range": "train on workloads as large, or mind the interval, which is wider there",
    "baseline-wins": "nothing: the line is the better model here; more groups would tell whether another is",
    "cannot-win": "nothing: it saves time; `--models NAME` runs it through",
    "coverage-incomplete": "record another pass, or leave out the counters named",
    "does-not-fit": "what it names, more GPUs, a smaller format or batch, or `--memory-utilisation`",
    "dropped-dispatches": "profile again with a larger buffer, or fewer kernels",
    "few-groups": "measure workloads of other groups, or group by other columns with `--group`",
    "rows-alone": "measure more rows of each group, or group by other columns with `--group`",
    "never-varies": "see whether the column holds what was measured, in a unit fine enough",
    "few-steps-kept": "record more steps",
    "files-skipped": "give the files that hold measurements alone, or see [formats](../formats.rst)",
    "fp32-assumed": "`--default dtype_a=bf16`",
    "tp-assumed": "`--default tp=8`",
    "law-too-few-data": "measure more rows of the class",
    "mean-of-calls": "export a trace (`prof.export_chrome_trace`), which has each call, for medians and their spread",
    "need-not-reached": "measure what it names",
    "never-trained": "train on rows that have it, or predict with a law (`--fallback`)",
    "quick": "train without `--quick`",
    "row-refused": "correct the row named; `flopcast schema OP` has its columns",
    "rows-drawn": "nothing: on large data more rows did not err less; `--where` chooses others",
    "spikes": "measure again, or leave the rows in: `flopcast clean` takes outliers out of traces",
    "repeats-disagree": "measure again: two repeats of one problem differ by more than noise",
    "unlike-epochs": "pair tables of the same software, or choose with `--where`",
    "unmatched-pass": "profile all passes with the same command and input",
    "unseen-level": "train on rows that have it; the interval tells nothing of it",
    "back-to-back": "nothing: mind it when sums of two GPUs' kernel times are compared",
    "below-trained-range": "train on workloads as small, or mind the interval, which is wider there",
    "before-first-step": "nothing: `flopcast clean` leaves them out",
    "broken-lines": "export the file again",
    "coarse-timer": "record with a finer clock, or longer kernels",
    "contradicting-repeats": "keep the right one: nobody else can know which it is",
    "device-by-gfx": "`--default device=NAME`, where it is the other",
    "dimension-not-a-number": "correct the row named",
    "far-off-neighbours": "measure again, or `--keep impossible` if it is true",
    "impossible-duration": "record again; `--keep impossible` keeps them",
    "infinite-duration": "correct the row named, or leave it out",
    "launch-not-recorded": "begin the recording a step or two earlier: the shapes stand at the launch",
    "launched-before": "begin the recording a step or two earlier",
    "idle-head": "nothing; begin the recording later, or project the step alone, if it is part of the work",
    "idle-tail": "nothing; end the recording earlier",
    "long-gap": "look what the program did there: loading, compiling, a pause between requests",
    "graph-as-a-whole": "profile with `--cuda-graph-trace=node`",
    "messages-unmatched": "record all ranks of the program",
    "ranks-missing": "record all ranks of the program",
    "missing-dimension": "give it in the table, by `--default COLUMN=VALUE`, or map its name (`--rename`); "
    "record traces with `record_shapes=True`",
    "missing-value": "give the column that it is made of",
    "negative-duration": "record again",
    "events-left-out": "record again where they are many",
    "events-mended": "nothing",
    "prompts-cached": "measure with prompts that the server has not seen, or without its prefix cache",
    "several-turns": "measure single requests with prompts of one length",
    "grid-not-recorded": "record what the text names",
    "odd-arguments": "nothing: the launch counts where the kernel's own argument is odd",
    "never-in-training": "train on rows that have it",
    "new-device-without-interval": "train with `--group device`",
    "new-group-without-interval": "measure rows of more groups",
    "no-activities": "profile with what the text names",
    "no-device": "`--default device=NAME`",
    "no-number-format": "`--default dtype_a=NAME`",
    "no-operator": "record with `record_shapes=True`; kernels stay known by name and launch",
    "operator-unknown": "record with `record_shapes=True`, and a step more",
    "orphan": "begin the recording a step or two earlier",
    "ranks-merged": "give the file of each rank by itself",
    "overrun": "nothing: it is kept out of measurements; record again where many are",
    "other-gpu": "fit a release to runs of that GPU: `flopcast calibrate`",
    "other-model": "fit a release to runs of that model: `flopcast calibrate`",
    "other-unit": "state the unit: `--unit COLUMN=UNIT`",
    "own-ep": "`--ep N` asks for the others",
    "outlier": "nothing; `flopcast clean --mad 0` keeps all",
    "power-few-runs": "record more runs",
    "beyond-measured": "measure one run with as many requests and tokens, and add it with `flopcast calibrate`",
    "serving-basis": "two measured runs narrow it: `flopcast calibrate`",
    "spoiled-timestamps": "export again, and do not save the file in a spreadsheet",
    "far-off-forecast": "check the unit of the times: clients write milliseconds, InferenceX seconds",
    "stray-time": "measure again; `--keep impossible` keeps it",
    "truncated": "record or copy the file again",
    "unknown-device": "its own figures as a TOML file (`flopcast gpus --help`), or `--default device=NAME`",
    "unknown-operator": "`flopcast schema` lists those that are known; others are kernels without work",
    "unlike-training": "mind the interval, or train on such rows",
    "widened": "nothing: the interval says so; calibrate on your runs to narrow it (`flopcast calibrate`)",
    "zero-counter": "the counter is not there on this GPU, or was not recorded: leave it out",
}
"""Code -> what to do, where what is said does not end with it."""


_PLACES = {"remark": 0, "Alike": 0, "findings_on": 1, "_find": 1}
"""What makes a finding -> the place of its code among the arguments; its text is the next."""
_CALL = re.compile(rf"\b({'|'.join(_PLACES)})\(")


@cache
def findings() -> dict[str, tuple[str, str]]:
    """Return code -> the area that reports it, and what it says, with … for the figures and names of the case."""
    findings_of: dict[str, tuple[str, str]] = {}
    for area in AREAS:
        for path in (
            sorted((ROOT / area).rglob("*.py")) if (ROOT / area).is_dir() else [ROOT / area]
        ):
            text = path.read_text(encoding="utf-8")
            lines = [at for at, line in enumerate(text.splitlines(), 1) if _CALL.search(line)]
            listed = path.relative_to(ROOT).as_posix() in LISTED
            if not lines and not listed:
                continue
            tree = ast.parse(text)
            module = ".".join(
                ["flopcast", *path.relative_to(ROOT).with_suffix("").parts]
            ).removesuffix(".__init__")
            functions = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
            for function in (*(one for one in functions if _within(one, lines)), tree):
                for call in (one for one in ast.walk(function) if isinstance(one, ast.Call)):
                    name = getattr(call.func, "id", "") or getattr(call.func, "attr", "")
                    place = _PLACES.get(name)
                    if place is None or len(call.args) <= place:
                        continue
                    for code in _codes(call.args[place], module, function):
                        if code not in findings_of:
                            findings_of[code] = (area, _said(call, place + 1, function))
            if listed:
                for code, said in _listed(tree):
                    findings_of.setdefault(code, (area, said))
    return {code: ("table", text) for code, text in REASONS.items()} | findings_of


def _within(function: ast.FunctionDef, lines: list[int]) -> bool:
    return any(function.lineno <= line <= (function.end_lineno or 0) for line in lines)


def _listed(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the codes that stand first in a tuple, or are the keys of a dictionary, with the longest text beside."""
    for node in ast.walk(tree):
        pairs = list(zip(node.keys, node.values, strict=True)) if isinstance(node, ast.Dict) else []
        pairs += (
            [(node.elts[0], ast.Tuple(node.elts[1:]))]
            if isinstance(node, ast.Tuple) and node.elts
            else []
        )
        for key, value in pairs:
            if isinstance(key, ast.Constant) and re.fullmatch(
                r"[a-z0-9]+(-[a-z0-9]+)+", str(key.value)
            ):
                texts = map(_text, value.elts if isinstance(value, ast.Tuple) else [value])
                yield str(key.value), max(texts, key=len, default="…") or "…"


def page() -> Iterator[str]:
    """Yield the page."""
    every = findings()
    yield "# Findings and their cure"
    yield (
        "\nWhat a command notes of data or of an answer has a code. It stands in brackets before the text, on "
        "terminals, pages and in Python alike: `note: [fp32-assumed] …`, `3 rows rejected: [zero-duration] …`; "
        "programs compare `remark.code`, and the key `code` in JSON. Here is each of them with its text, in which … "
        "stands for the names and figures of the case. Where there is something to do that the text does not end "
        "with, it stands beside it.\n"
    )
    for area, title in AREAS.items():
        rows = sorted((code, said) for code, (where, said) in every.items() if where == area)
        if rows:
            yield f"## {title}\n\n| code | what it says | what to do |\n|---|---|---|"
            for code, said in rows:
                yield f'| <a id="{code}"></a>`{code}` | {_plain(said)} | {CURES.get(code, "")} |'
            yield ""


def _codes(node: ast.expr, module: str, function: ast.AST) -> Iterator[str]:
    """Yield a code that is written out, a constant of the module, or what a name is given in the function."""
    if isinstance(node, ast.Constant):
        yield str(node.value)
    elif isinstance(node, ast.Name) and node.id.isupper():
        yield str(getattr(importlib.import_module(module), node.id))
    elif isinstance(node, ast.Name):
        for given in ast.walk(function):
            if not isinstance(given, ast.Assign) or _targets(given) != node.id:
                continue
            if isinstance(given.value, ast.Constant):
                yield str(given.value.value)


def _said(call: ast.Call, place: int, function: ast.AST) -> str:
    """Return the text of a remark, an argument; of a name that which it was last given before."""
    node: ast.expr = ast.Constant("…")
    if len(call.args) > place:
        node = call.args[place]
    if isinstance(node, ast.Name):
        given = [
            one.value
            for one in ast.walk(function)
            if isinstance(one, ast.Assign)
            and one.lineno <= call.lineno
            and _targets(one) == node.id
        ]
        node = max(given, key=lambda one: one.lineno, default=node)
    return _text(node) or "…"


def _targets(assign: ast.Assign) -> str:
    return getattr(assign.targets[0], "id", "")


def _text(node: Any) -> str:
    """Return the words of an expression, … for what belongs to the case."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(one.value if isinstance(one, ast.Constant) else "…" for one in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left) + (_text(node.right) if isinstance(node.op, ast.Add) else "")
    if isinstance(node, ast.IfExp):
        return f"{_text(node.body)} / {_text(node.orelse)}"
    return "…"


def _plain(text: str) -> str:
    for sign in "|*<[_`":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())
