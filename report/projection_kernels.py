"""Every kernel of a trace on another GPU as a list, those whose work is unknown, and their share of the time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .document import Column, Listing, columns
from .formats import counted, formatted, share, significant
from .predictions import workload
from .words.projection import say_all

BOUNDS = {"": "unknown"}


def unknown(kernels: pd.DataFrame) -> list[str]:
    """Say how much of the projected time is of kernels whose work is not known; nothing where there is none."""
    own, total = kernels[kernels["unknown"]], float(kernels["projected_us"].sum())
    if own.empty or not total:
        return []
    part = share(float(own["projected_us"].sum()) / total)
    count = counted(int(own["count"].sum()), "kernel")
    return [
        f"{part} of the activities' time is of {count} whose work is not known: the law has only their time to go by"
    ]


def unknown_json(kernels: pd.DataFrame) -> dict[str, Any]:
    """Return the same as JSON types, with the kernels by name."""
    own, total = kernels[kernels["unknown"]], float(kernels["projected_us"].sum())
    by = own.groupby("name", sort=False)[["count", "measured_us", "projected_us"]].sum().reset_index()
    part = float(own["projected_us"].sum()) / total if total else 0.0
    return {"share": part, "kernels": records(by)}


def kernel_listing(kernels: pd.DataFrame, name: str, total: float) -> Listing:
    """List kinds of activities with all that is known of each, and their share of a total."""
    heads = (
        Column("kernel", "cut"), Column("class"), *columns(numbers=("count", "measured, µs", "projected, µs")),
        Column("share", "number"), Column("ratio", "number"), Column("± 1 σ", "number"),
        Column("on critical path, µs", "number"), Column("bound"), Column("law"), Column("work"), Column("because"),
        Column("file and line", "place"),
    )  # fmt: skip

    def texts() -> list[list[str]]:
        rows = [
            (
                str(row["name"]), str(row["op_class"]), f"{row['count']:,}", significant(row["measured_us"]),
                significant(row["projected_us"]), share(row["projected_us"] / total if total else None, 2),
                formatted(row["projected_us"] / row["measured_us"] if row["measured_us"] else None, "{:.3f}"),
                spread(row["sigma"]), significant(row["critical_us"]), BOUNDS.get(str(row["bound"]), str(row["bound"])),
                str(row["law"]), _work(row), say_all(row["why"]), str(row["source"]),
            )
            for row in kernels.to_dict("records")
        ]  # fmt: skip
        return [list(column) for column in zip(*rows, strict=True)] if rows else [[]]

    caption = (
        "ratio: projected / measured; share: of the projected time of all activities; ± 1 σ: how far the law errs, "
        "relative, – where it is not known; file and line: of the first of its kind."
    )
    return Listing(heads, texts, name, caption)


def _work(row: dict[Any, Any]) -> str:
    return "unknown" if row["unknown"] or str(row["op"]) in ("", "kernel") else workload(row)


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table as JSON types."""
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def spread(sigma: float) -> str:
    """Return the relative standard deviation of a factor, as users state it (`uncertainty.parse_sigmas`)."""
    return formatted(100 * np.sqrt(np.expm1(sigma**2)), "{:.0f} %")
