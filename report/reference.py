"""Documents without data: GPUs and where their figures come from, operators and their columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Final

import pandas as pd

from ..errors import NotPublishedError
from ..hardware import FIGURES, GPU, PEAKS, all_gpus, measured, sources
from ..operators.operators import ALIASES, OPS
from ..output import SCHEMA
from .document import (
    JSON,
    Cell,
    Column,
    Document,
    Row,
    Section,
    Table,
    columns,
    lines,
    picked,
    rows,
)
from .formats import NONE, share
from .wording import wording

MISSING: Final = "not published"
_LIST_PEAKS: Final = ("bf16", "fp8", "fp32")
_RARE: Final = ("reported_cus", "matrix_mhz", "int8_vector")
_WORDS: Final = wording("reference-words")
_LIST_CAPTION: Final = (
    "Dense peaks in TFLOPS, of the matrix units where there are any; memory bandwidth and all "
    "links one way in GB/s; "
    f"–: {MISSING}. Confidence (cf) A: figures alike in two sources, B: one, C: thinner."
)


def gpus_document(
    gpus: Sequence[GPU], *, compared: bool = False, with_sources: bool = False
) -> Document:
    """Return one or more GPUs: as a list, figure by figure beside the first, or with the sources of their figures.

    With `with_sources` it is the sources and what others have measured, whatever `compared` says.
    """
    parts: list[Table] = [provenance_table(gpus), ceilings_table(gpus)]
    if not with_sources:
        parts = [compare_table(*gpus) if compared else gpu_table(gpus)]
    return Document(sections=[Section("GPUs", parts)], data=gpus_json(gpus))


def gpu_table(gpus: Iterable[GPU]) -> Table:
    """Return the list of GPUs, one row each: architecture, peaks, bandwidths, year and confidence."""
    body = []
    for gpu in gpus:
        figures = (
            gpu.cus,
            *(_peak(gpu, dtype) for dtype in _LIST_PEAKS),
            gpu.memory_bw_gbs,
            gpu.link_bw_gbs,
            gpu.year,
        )
        cells = (
            NONE if one is None else f"{one:.0f}" if one >= 100 else f"{one:.3g}" for one in figures
        )
        body.append((gpu.name, gpu.arch, gpu.gfx, *cells, gpu.confidence or NONE))
    numbers = columns(numbers=("CUs", *_LIST_PEAKS, "mem", "link", "year"))
    heads = (
        Column("name", "name"),
        Column("arch", least=9),
        Column("gfx", "name"),
        *numbers,
        Column("cf", "name"),
    )
    return Table(heads, rows(body), "GPUs", _LIST_CAPTION)


def compare_table(first: GPU, *others: GPU) -> Table:
    """Return every figure of the given GPUs side by side, each with its ratio to the first GPU's.

    A ratio is left out where either figure is not published; the first alone has its figures
    listed.
    """
    gpus = (first, *others)
    body: list[tuple[str | Cell, ...]] = []
    for key, label in _WORDS.items():
        texts = [getattr(gpu, key) or Cell(MISSING, "soft") for gpu in gpus]
        body.append((label, "", *_interleave(texts, [""] * len(others))))
    # what every GPU should publish, and rarer figures where one of these has them
    keys = [*_peak_keys(gpus), *FIGURES]
    for key in keys:
        if key in _RARE and all(_figure(gpu, key) is None for gpu in gpus):
            continue
        figure = PEAKS.get(key) or FIGURES[key]
        values = [_figure(gpu, key) for gpu in gpus]
        ratios = [
            ""
            if key == "year" or value is None or values[0] is None
            else Cell(f"× {value / values[0]:.3g}", "accent")
            for value in values[1:]
        ]
        body.append(
            (figure.label, figure.unit, *_interleave([_number(value) for value in values], ratios))
        )
    heads = [first.name, *chain.from_iterable((gpu.name, "ratio") for gpu in others)]
    title = " · ".join(gpu.name for gpu in gpus)
    return Table(columns("figure", "unit", numbers=heads), rows(body), title, "Peaks are dense.")


def provenance_table(gpus: Iterable[GPU]) -> Table:
    """Return where the figures come from, GPU by GPU: confidence, caveats, and each source with its address."""
    body = []
    for gpu in gpus:
        sources = "\n".join(_source_line(source) for source in gpu.sources)
        body.append(Row((gpu.name, gpu.confidence, gpu.note, sources), ends=True))
    return Table(
        columns("GPU", "confidence", prose=("note", "sources")),
        body,
        "Where the figures come from",
    )


def ceilings_table(gpus: Iterable[GPU]) -> Table:
    """Return what others have measured on the given GPUs, as a share of the published peak."""
    body: list[tuple[str | Cell, ...]] = []
    for gpu in gpus:
        for row in measured(gpu.name) if gpu in all_gpus() else ():
            part = row.share(gpu)
            of_peak = ""
            if part is not None:
                of_peak = share(part, 0)
            words = (row.method, row.conditions, row.source, row.confidence)
            body.append((gpu.name, row.metric, _number(row.value), row.unit, of_peak, *words))
    heads = (
        *columns("GPU", "metric", numbers=["value"]),
        *columns("unit", numbers=["of peak"]),
        *columns("method", "conditions", "source", "confidence"),
    )
    return Table(heads, rows(body), "Measured by others")


def gpus_json(gpus: Iterable[GPU]) -> JSON:
    """Return the GPUs for JSON: every figure with null where it is not published, the units, and the sources named.

    ``gpus`` are as `GPU.to_dict`, the peaks flat under ``peaks``; ``units`` are by figure,
    ``sources`` by key.
    """
    used = set[str]()
    listed = list[JSON]()
    for gpu in gpus:
        used.update(map(_source_key, gpu.sources))
        listed.append(
            {key: value for key, value in gpu.to_dict().items() if not key.startswith("peak_")}
            | picked(gpu, *FIGURES)
            | {"peaks": {key: gpu.peaks.get(key) for key in _peak_keys([gpu])}}
        )
    return {
        "schema": SCHEMA,
        "gpus": listed,
        "units": {figure.key: figure.unit for figure in (*PEAKS.values(), *FIGURES.values())},
        "sources": {key: vars(source) for key, source in sources().items() if key in used},
    }


def _peak_keys(gpus: Sequence[GPU]) -> list[str]:
    """Return the peaks that any GPU on record or one of these publishes."""
    present = set()
    for gpu in (*all_gpus(), *gpus):
        present.update(gpu.peaks)
    return [key for key in PEAKS if key in present]


def _figure(gpu: GPU, key: str) -> float | None:
    if key in PEAKS:
        return gpu.peaks.get(key)
    return getattr(gpu, key)


def _peak(gpu: GPU, dtype: str) -> float | None:
    try:
        return gpu.peak_tflops(dtype)
    except NotPublishedError:
        return None


def _number(value: float | None) -> str | Cell:
    if value is None:
        return Cell(MISSING, "soft")
    return f"{value:.7g}"


def _interleave(values: Sequence[str | Cell], ratios: Sequence[str | Cell]) -> list[str | Cell]:
    """Return the first value, then each other value followed by its ratio."""
    return [values[0], *chain.from_iterable(zip(values[1:], ratios, strict=True))]


def _source_key(source: str) -> str:
    return source.split(":")[0]


def _source_line(source: str) -> str:
    """Return a source of a GPU with its title and address; a user's source is returned as it is."""
    entry = sources().get(_source_key(source))
    if entry:
        return f"{source} — {entry.title}, {entry.url} (read: {entry.read})"
    return source


def schema_document(table: pd.DataFrame, op: str | None) -> Document:
    """Return the columns of an operator (``op``), or of all of them, as `flopcast.schema` has them."""
    if op:
        of_each = {op: table}
    else:
        groups = table.groupby("op", sort=False)
        of_each = {str(name): columns_of.droplevel("op") for name, columns_of in groups}
    data = {
        "schema": SCHEMA,
        "operators": [
            {
                "op": name,
                "also": _names(name),
                "columns": columns_of.astype(object)
                .where(columns_of.notna(), None)
                .reset_index()
                .to_dict("records"),
            }
            for name, columns_of in of_each.items()
        ],
    }
    if op is None:
        body = []
        # the dimensions it needs with an example, those it may have, its other names
        for name, columns_of in of_each.items():
            dims = columns_of.loc[list(OPS[name].dims)]
            examples = dims["example"][dims["required"]].items()
            needed = [f"{column}={value}" for column, value in examples]
            defaults = dims["default"][~dims["required"]].items()
            may = [f"{column}={_shown(value)}".rstrip("=") for column, value in defaults]
            public = [word for word in _names(name) if not word.startswith("_")]
            body.append((name, " ".join(needed), " ".join(may), " ".join(public)))
        heads = (Column("op", "name"), *columns("needs, for example", "may have", "also called"))
        common = [
            "Every row also needs device, op, dtype_a (not a collective or kernel) and "
            "duration_us, or a duration in "
            "another unit: latency_ms, time with --unit time=ms.",
            "flopcast schema OP lists every column of one with its unit; --out FILE.csv writes "
            "them to fill in.",
        ]
        parts = [
            Table(heads, rows(body), "operators and their dimensions"),
            lines(common, tone="soft"),
        ]
        return Document(sections=[Section("operators", parts)], data=data)
    listed = []
    for column, row in table.iterrows():
        needed_or_not = ""
        if row["required"]:
            needed_or_not = "needed"
        figures = _shown(row["default"]), _shown(row["example"])
        cells = (str(column), needed_or_not, row["unit"], *figures, row["also"])
        listed.append(Row(cells, "" if row["required"] else "soft"))
    heads = (Column("column", "name"), *columns("", "unit", "default", "example", "also read as"))
    names = ", ".join(_names(op))
    called = []
    if names:
        called = [
            f"Also called {names}; aten::, torch. and the like before a name are passed over."
        ]
    parts = [Table(heads, listed, f"columns of {op}"), lines(called, tone="soft")]
    return Document(sections=[Section(op, parts)], data=data)


def _names(op: str) -> list[str]:
    return [word for word, name in ALIASES.items() if name == op]


def _shown(value: Any) -> str:
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
