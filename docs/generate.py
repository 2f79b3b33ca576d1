"""Pages made from the package itself, so that they cannot go stale: columns, GPUs, laws, commands, findings, API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import findings
import pandas as pd
import pictures

import flopcast as fc
from flopcast import models
from flopcast.commands.app import COMMANDS, load
from flopcast.laws import OF_COMPUTATION
from flopcast.laws.applied import EVERY, OF_ONE, SCALING
from flopcast.operators.operators import ALIASES, DIMENSIONS

BEYOND = ("projecting.project_traces",)
"""Calls of the commands, by their module of the API."""
MEANING = {name: dim.meaning for name, dim in DIMENSIONS.items()} | {
    "device": "the GPU: a name, or what the driver calls it",
    "op": "the operator",
    "dtype_a": "number format of the first input",
    "dtype_b": "number format of the second input",
    "dtype_out": "number format of the result",
    "duration_us": "time, the median where there are repeats; other units: `latency_ms`, or `--unit time=ms`",
    "spread_us": "median absolute deviation over the repeats",
    "ttft_ms": "mean time to the first token, for `--metric ttft_ms`",
    "tpot_ms": "mean time per further token, for `--metric tpot_ms`",
    "output_tokens_per_s": "tokens of answers a second, of all GPUs together",
    "repeats": "how many measurements stand behind the row",
    "family": "library family of the kernel, as in `a8w8_blockscale`",
    "speculation": "how tokens of an answer are drafted: `mtp`, or `none`",
    "variant": "what tells apart problems of equal dimensions, as in `bias`; the name of a collective or workload",
    "kernel": "name of the kernel or solver",
    "group": "rows of one group are never split between folds; default: the operator's (a weight shape, say)",
    "energy_j": "energy of one execution, for `--metric energy_j`",
    "power_w": "mean power of one execution, for `--metric power_w`",
}
"""Column -> what it is, for the page of the columns."""


def pages(folder: Path) -> None:
    """Write all of them; a page that is as it was is left alone, so that it is not built again."""
    folder.mkdir(exist_ok=True)
    made = {
        "columns.md": columns(),
        "gpus.md": gpus(),
        "laws.md": laws(),
        "commands.md": commands(),
        "api.rst": api(),
    }
    made["findings.md"] = findings.page()
    for name, lines in made.items():
        path, text = folder / name, "\n".join(lines) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    pictures.draw(folder, Path(__file__).parents[1] / "README.md")


def columns() -> Iterator[str]:
    """Yield the page of the measurement table: the columns of every operator, then those that only some have."""
    yield "# Columns by operator"
    yield (
        "\nOne row of the measurement table is one kernel, or workload, on one device, summarised over its repeats. "
        "It has the columns of every operator, and the dimensions of its own; what is not needed has a default or "
        "may be missing. `flopcast schema conv` prints all columns of an operator, `--out FILE.csv` writes a "
        "table to fill in, and [formats](../formats.rst) says how files of other programs become such rows.\n"
    )
    table = fc.schema().reset_index()
    everywhere = table.groupby("column")["op"].nunique() == table["op"].nunique()
    common = table[(table["op"] == "gemm") & table["column"].map(everywhere)]
    needed = common["column"][common["required"]]
    of_operators = table[
        ~table["column"].map(everywhere) | (table["required"] & ~table["column"].isin(needed))
    ]
    yield "\n(common-columns)=\n## Every operator\n"
    yield from _columns(common)
    yield "`dtype_a` may be missing where nothing is computed: of collectives, kernels and whole applications.\n"
    parts = dict(iter(of_operators.groupby("op", sort=False)))
    kinds = {
        op: part[["column", "required", "default"]].to_string(index=False)
        for op, part in parts.items()
    }
    for kind in dict.fromkeys(kinds.values()):
        ops = [op for op in kinds if kinds[op] == kind]
        yield "\n" + "".join(f"({op}-columns)=\n" for op in ops) + f"## {', '.join(ops)}\n"
        called = [word for word, op in ALIASES.items() if op in ops and not word.startswith("_")]
        yield f"Also called {', '.join(called)}.\n" if called else ""
        yield "Beside [those of every operator](#common-columns):\n"
        yield from _columns(parts[ops[0]])


def _columns(rows: pd.DataFrame) -> Iterator[str]:
    """Yield the table of some columns, without what none of them has."""
    shown = pd.DataFrame(
        {
            "column": [f"`{name}`" for name in rows["column"]],
            "what it is": [MEANING[name] for name in rows["column"]],
            "unit": list(rows["unit"]),
            "needed": ["yes" if required else "" for required in rows["required"]],
            "default": list(map(_cell, rows["default"])),
            "also read as": list(rows["also"]),
            "example": list(map(_cell, rows["example"])),
        }
    )
    shown = shown.loc[:, (shown != "").any()]
    yield from _table(shown.columns, shown.to_numpy())


def _cell(value: Any) -> str:
    return "" if pd.isna(value) else f"{value:g}" if isinstance(value, float) else str(value)


def gpus() -> Iterator[str]:
    """Yield the page of the GPUs of the catalogue."""
    yield "# Known GPUs"
    yield (
        "\nFigures are as published; what is not published is empty. `flopcast gpus MI300X MI355X` compares all "
        "that is known, dense peaks of every number format included, `flopcast gpus NAME --sources` says where "
        "each figure is from.\n"
    )
    heads = (
        "GPU",
        "maker",
        "gfx id or compute capability",
        "compute units",
        "memory, GB",
        "bandwidth, GB/s",
        "TDP, W",
    )
    shown = fc.gpus().reset_index()[
        ["name", "vendor", "gfx", "cus", "memory_gb", "memory_bw_gbs", "tdp_w"]
    ]
    yield from _table(heads, (map(_cell, row) for row in shown.itertuples(index=False)))


def laws() -> Iterator[str]:
    """Yield the page of the laws: what each says, what it needs of a GPU, where it is from, who reads it."""
    yield "# Laws"
    yield (
        "\nA law says from the work of a kernel, and the published figures of a GPU, what it takes there; from host to "
        "target it multiplies by the ratio of what it says of both. None is fitted to your data. Baselines are in the "
        "tables of `train` and `validate`; laws of computation are those of `project --compute-law`; the others are of "
        "`forecast`, which takes products, attention and what streams by them.\n"
    )
    titles = {
        id(one): name
        for table in (*OF_ONE.values(), *SCALING.values())
        for name, one in table.items()
    }
    rows = []
    for one in EVERY:
        used = [f"baseline *{titles[id(one)]}*"] if id(one) in titles else []
        used += ["law of computation"] if one.name in OF_COMPUTATION else []
        says = (type(one).__doc__ or "").partition("\n")[0].replace("``", "`")
        needs = ", ".join(f"`{key}`" for key in one.needs)
        rows.append(
            (
                f"`{one.name}`",
                " ".join(says.split()),
                needs,
                one.source,
                "; ".join(used) or "forecasts",
            )
        )
    yield "| law | what it says | needs | from | read by |\n|---|---|---|---|---|"
    yield from ("| " + " | ".join(row) + " |" for row in rows)
    yield ""


def commands() -> Iterator[str]:
    """Yield the page of the commands: what each does, its arguments and options."""
    yield "# Commands"
    yield "\n`flopcast COMMAND --help` prints the same; `train`, `predict`, `validate` are scripts of a checkout too.\n"
    for name, line in COMMANDS.items():
        yield f"\n(command-{name})=\n## flopcast {name}\n\n{_plain(line)}\n"
        yield from _command(load(name), f"flopcast {name}")


def api() -> Iterator[str]:
    """Yield the page of the Python API, as reStructuredText: every name of the door, then the estimators."""
    yield "The Python API\n==============\n"
    yield "``import flopcast as fc`` is all it takes. Each name is loaded when it is first asked for.\n"
    door = {
        name: one for name in fc.__all__ if not isinstance(one := getattr(fc, name), ModuleType)
    }
    errors = [
        name for name, one in door.items() if isinstance(one, type) and issubclass(one, Exception)
    ]
    classes = [name for name, one in door.items() if isinstance(one, type) and name not in errors]
    yield from _listed(
        "Calls", "flopcast", [name for name in door if name not in (*errors, *classes)]
    )
    yield from _listed("What they return", "flopcast", classes)
    yield from _listed("Errors", "flopcast", errors)
    yield from _listed(
        "Public tables",
        "flopcast.datasets",
        ["fetch_aiter", "fetch_miopen", "fetch_aiconfigurator"],
    )
    yield from _listed("Further calls, of the commands", "flopcast.api", BEYOND)
    yield from _listed("Estimators", "flopcast.models", models.__all__)


def _listed(title: str, module: str, names: Iterable[str]) -> Iterator[str]:
    yield f"{title}\n{'-' * len(title)}\n\n.. currentmodule:: {module}\n\n.. autosummary::\n   :toctree: api\n"
    yield from (f"   {name}" for name in names)
    yield ""


def _command(command: Any, called: str) -> Iterator[str]:
    for name, inner in getattr(command, "commands", {}).items():
        yield f"\n### {called} {name}\n\n{_plain(inner.help or '')}\n"
        yield from _command(inner, f"{called} {name}")
    rows = [
        (_spelt(one), getattr(one, "help", None) or "", _default(one)) for one in command.params
    ]
    if rows and not hasattr(command, "commands"):
        yield from _table(("argument or option", "what it is", "default"), rows)


def _spelt(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    return ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))


def _default(parameter: Any) -> str:
    value = parameter.default
    return (
        ""
        if callable(value) or value is None or isinstance(value, bool) or not str(value)
        else f"`{value}`"
    )


def _table(heads: Iterable[Any], rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    heads = [str(head) for head in heads]
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield "| " + " | ".join(_plain(str(cell)) for cell in row) + " |"
    yield ""


def _plain(text: str) -> str:
    """Return a text that Markdown shows as it is; code is code already."""
    text = " ".join(text.split()).replace("|", r"\|")
    return (
        text
        if text.startswith("`")
        else text.replace("*", r"\*").replace("<", r"\<").replace("[", r"\[")
    )
