"""Pages made from the package itself, so that they cannot go stale: columns by operator, GPUs, commands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import flopcast as fc
from flopcast.commands.app import COMMANDS, load


def pages(folder: Path) -> None:
    """Write all of them as Markdown; a page that is as it was is left alone, so that it is not built again."""
    folder.mkdir(exist_ok=True)
    made = {"columns": columns(), "gpus": gpus(), "commands": commands()}
    for name, lines in made.items():
        path, text = folder / f"{name}.md", "\n".join(lines) + "\n"
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
    known = fc.gpus().reset_index()
    shown = known[
        [name for name in ("name", "vendor", "gfx", "cus", "memory_gb", "memory_bw_gbs", "tdp_w") if name in known]
    ]
    yield from _table(shown.columns, shown.astype(object).where(shown.notna(), "").to_numpy())


def commands() -> Iterator[str]:
    """Yield the page of the commands: what each does, its arguments and options."""
    yield "# Commands"
    yield "\n`flopcast COMMAND --help` prints the same; `train`, `predict`, `validate` are scripts of a checkout too.\n"
    for name, line in COMMANDS.items():
        yield f"\n(command-{name})=\n## flopcast {name}\n\n{_plain(line)}\n"
        yield from _command(load(name), f"flopcast {name}")


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
    """Return a text that Markdown shows as it is, code aside."""
    return " ".join(text.split()).replace("|", r"\|").replace("*", r"\*").replace("<", r"\<").replace("[", r"\[")
