"""Pages made from the package itself, so that they cannot go stale: columns, GPUs, commands, the Python API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import flopcast as fc
from flopcast import models
from flopcast.commands.app import COMMANDS, load

RETURNED = ("Forecasts", "Ingested", "Scaling")
"""Classes that calls return and the door does not name."""
BEYOND = (
    "cleaning.clean",
    "forecasting.calibrate",
    "passes.plan",
    "projecting.project_traces",
    "scaling.scale_devices",
)
"""Calls of the commands, by their module of the API."""


def pages(folder: Path) -> None:
    """Write all of them; a page that is as it was is left alone, so that it is not built again."""
    folder.mkdir(exist_ok=True)
    made = {"columns.md": columns(), "gpus.md": gpus(), "commands.md": commands(), "api.rst": api()}
    for name, lines in made.items():
        path, text = folder / name, "\n".join(lines) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def columns() -> Iterator[str]:
    """Yield the page of the measurement table: the columns of each operator."""
    yield "# Columns by operator"
    yield (
        "\nOne row of the measurement table is one kernel, or workload, on one device, summarised over its repeats. "
        "These are the columns that each operator has; what is not required has a default or may be missing. "
        "`flopcast schema OP` prints the same, `--template FILE.csv` writes a table to fill in, and "
        "[formats](../formats.rst) says how files of other programs become such rows.\n"
    )
    table = fc.schema().reset_index()
    for op, own in table.groupby("op", sort=False):
        yield f"\n({op}-columns)=\n## {op}\n"
        rows = own.drop(columns="op").fillna("")
        rows["required"] = rows["required"].map({True: "yes", False: ""})
        rows["column"] = [f"`{name}`" for name in rows["column"]]
        yield from _table(rows.columns, rows.to_numpy())


def gpus() -> Iterator[str]:
    """Yield the page of the known GPUs."""
    yield "# Known GPUs"
    yield (
        "\nPeaks and bandwidths are dense and as published; what is not published is empty. "
        "`flopcast gpus NAME --sources` says where each figure is from.\n"
    )
    shown = fc.gpus().reset_index()[["name", "vendor", "gfx", "cus", "memory_gb", "memory_bw_gbs", "tdp_w"]]
    yield from _table(shown.columns, shown.astype(object).where(shown.notna(), "").to_numpy())


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
    door = {name: getattr(fc, name) for name in sorted({*fc.__all__, *RETURNED})}
    errors = [name for name, one in door.items() if isinstance(one, type) and issubclass(one, Exception)]
    classes = [name for name, one in door.items() if isinstance(one, type) and name not in errors]
    yield from _listed("Calls", "flopcast", [name for name in door if name not in (*errors, *classes)])
    yield from _listed("What they return", "flopcast", classes)
    yield from _listed("Errors", "flopcast", errors)
    yield from _listed("Public tables", "flopcast.datasets", ["fetch_aiter", "fetch_miopen"])
    yield from _listed("Beyond the door", "flopcast.api", BEYOND)
    yield from _listed("Estimators", "flopcast.models", models.__all__)


def _listed(title: str, module: str, names: Iterable[str]) -> Iterator[str]:
    yield f"{title}\n{'-' * len(title)}\n\n.. currentmodule:: {module}\n\n.. autosummary::\n   :toctree: api\n"
    yield from (f"   {name}" for name in names)
    yield ""


def _command(command: Any, called: str) -> Iterator[str]:
    for name, inner in getattr(command, "commands", {}).items():
        yield f"\n### {called} {name}\n\n{_plain(inner.help or '')}\n"
        yield from _command(inner, f"{called} {name}")
    rows = [(_spelt(one), getattr(one, "help", None) or "", _default(one)) for one in command.params]
    if rows and not hasattr(command, "commands"):
        yield from _table(("argument or option", "what it is", "default"), rows)


def _spelt(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    return ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))


def _default(parameter: Any) -> str:
    value = parameter.default
    return "" if callable(value) or value is None or isinstance(value, bool) or not str(value) else f"`{value}`"


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
    return text if text.startswith("`") else text.replace("*", r"\*").replace("<", r"\<").replace("[", r"\[")
