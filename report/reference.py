"""What is known without data, as documents: GPUs and where their figures come from, operators and their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pandas as pd

from ..errors import NotPublishedError
from ..hardware import FIGURES, GPU, PEAKS, all_gpus, measured, sources
from ..operators.operators import ALIASES, OPS
from .document import Cell, Column, Document, Lines, Row, Section, Table, columns, lines, rows
from .formats import NONE, share

SCHEMA: Final = 1
MISSING: Final = "not published"
_LIST_PEAKS: Final = ("bf16", "fp8", "fp32")
_RARE: Final = ("reported_cus", "matrix_mhz", "int8_vector")
_WORDS: Final = {
    "vendor": "maker",
    "arch": "architecture",
    "gfx": "gfx id",
    "form_factor": "form factor",
    "memory_type": "memory type",
    "link_name": "link type",
}
_LIST_CAPTION: Final = (
    "Dense peaks in TFLOPS, of the matrix units where there are any; memory bandwidth and all links one way in GB/s; "
    f"–: {MISSING}. Confidence A: figures alike in two sources, B: one, C: thinner."
)


def gpus_document(gpus: Sequence[GPU], *, compared: bool = False, with_sources: bool = False) -> Document:
    """Return GPUs, one or more: their list, or figure by figure beside the first, or where their figures come from.

    With `with_sources` it is the sources and what others have measured, whatever `compared` says.
    """
    parts: list[Table] = [provenance_table(gpus), ceilings_table(gpus)]
    if not with_sources:
        parts = [compare_table(*gpus) if compared else gpu_table(gpus)]
    return Document(sections=[Section("GPUs", parts)], data=gpus_json(gpus))


def gpu_table(gpus: Iterable[GPU]) -> Table:
    """Return the list of GPUs, one row each: what it is, its peaks, bandwidths, year and the confidence in them."""
    found = []
    for gpu in gpus:
        figures = (gpu.cus, *(_peak(gpu, dtype) for dtype in _LIST_PEAKS), gpu.memory_bw_gbs, gpu.link_bw_gbs, gpu.year)
        cells = (NONE if figure is None else _short(figure) for figure in figures)
        found.append((gpu.name, gpu.arch, gpu.gfx, *cells, gpu.confidence or NONE))
    numbers = columns(numbers=("CUs", *_LIST_PEAKS, "mem", "links", "year"))
    heads = (Column("name", "name"), Column("arch", least=9), Column("gfx", "name"), *numbers, Column("conf.", "name"))
    return Table(heads, rows(found), "GPUs", _LIST_CAPTION)


def compare_table(first: GPU, *others: GPU) -> Table:
    """Return every figure of the given GPUs side by side, each with its ratio to the first GPU's.

    A ratio is left out where either figure is not published; the first alone has its figures listed.
    """
    gpus = (first, *others)
    found: list[tuple[str | Cell, ...]] = []
    for key, label in _WORDS.items():
        texts = [getattr(gpu, key) or Cell(MISSING, "soft") for gpu in gpus]
        found.append((label, "", *_interleave(texts, [""] * len(others))))
    for key in _figure_keys(gpus):
        figure = PEAKS.get(key) or FIGURES[key]
        values = [_figure(gpu, key) for gpu in gpus]
        ratios = [_ratio(value, values[0]) if key != "year" else "" for value in values[1:]]
        found.append((figure.label, figure.unit, *_interleave([_number(value) for value in values], ratios)))
    heads = [first.name, *(head for gpu in others for head in (gpu.name, "ratio"))]
    title = " · ".join(gpu.name for gpu in gpus)
    return Table(columns("figure", "unit", numbers=heads), rows(found), title, "Peaks are dense.")


def provenance_table(gpus: Iterable[GPU]) -> Table:
    """Return where the figures come from, GPU by GPU: confidence, caveats, and each source with its address."""
    found = []
    for gpu in gpus:
        sources = "\n".join(_source_line(source) for source in gpu.sources)
        found.append(Row((gpu.name, gpu.confidence, gpu.note, sources), ends=True))
    return Table(columns("GPU", "confidence", prose=("note", "sources")), found, "Where the figures come from")


def ceilings_table(gpus: Iterable[GPU]) -> Table:
    """Return what others have measured on the given GPUs, as a share of the published peak."""
    found: list[tuple[str | Cell, ...]] = []
    for gpu in gpus:
        for row in measured(gpu.name) if gpu in all_gpus() else ():
            part = row.share(gpu)
            of_peak = "" if part is None else share(part, 0)
            words = (row.method, row.conditions, row.source, row.confidence)
            found.append((gpu.name, row.metric, _number(row.value), row.unit, of_peak, *words))
    numbers = {"value", "of peak"}
    heads = ("GPU", "metric", "value", "unit", "of peak", "method", "conditions", "source", "confidence")
    kinds = tuple(Column(head, "number" if head in numbers else "words") for head in heads)
    return Table(kinds, rows(found), "Measured by others")


def gpus_json(gpus: Iterable[GPU]) -> dict[str, Any]:
    """Return the GPUs for JSON: every figure with null where it is not published, the units, and the sources named.

    Returns
    -------
    dict
        ``schema``, ``gpus`` (list; as `GPU.to_dict`, peaks flat under ``peaks``), ``units`` (by figure), ``sources``
        (by key).
    """
    listed = list(gpus)
    used = {_source_key(source) for gpu in listed for source in gpu.sources}
    return {
        "schema": SCHEMA,
        "gpus": [_gpu_json(gpu) for gpu in listed],
        "units": {figure.key: figure.unit for figure in (*PEAKS.values(), *FIGURES.values())},
        "sources": {key: vars(source) for key, source in sources().items() if key in used},
    }


def _gpu_json(gpu: GPU) -> dict[str, Any]:
    written = {key: value for key, value in gpu.to_dict().items() if not key.startswith("peak_")}
    figures = {key: getattr(gpu, key) for key in FIGURES}
    return written | figures | {"peaks": {key: gpu.peaks.get(key) for key in _peak_keys([gpu])}}


def _figure_keys(gpus: Sequence[GPU]) -> list[str]:
    """Return the figures to compare: what every GPU should publish, and rarer ones where one of these has them."""
    keys = [*_peak_keys(gpus), *FIGURES]
    return [key for key in keys if key not in _RARE or any(_figure(gpu, key) is not None for gpu in gpus)]


def _peak_keys(gpus: Sequence[GPU]) -> list[str]:
    """Return the peaks that any GPU on record or one of these has: what a GPU may be expected to publish."""
    present = {key for gpu in (*all_gpus(), *gpus) for key in gpu.peaks}
    return [key for key in PEAKS if key in present]


def _figure(gpu: GPU, key: str) -> float | None:
    return gpu.peaks.get(key) if key in PEAKS else getattr(gpu, key)


def _peak(gpu: GPU, dtype: str) -> float | None:
    try:
        return gpu.peak_tflops(dtype)
    except NotPublishedError:
        return None


def _number(value: float | None) -> str | Cell:
    return Cell(MISSING, "soft") if value is None else f"{value:.7g}"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(value: float | None, first: float | None) -> str | Cell:
    return "" if value is None or first is None else Cell(f"× {value / first:.3g}", "accent")


def _interleave(values: Sequence[str | Cell], ratios: Sequence[str | Cell]) -> list[str | Cell]:
    """Return the first value, then each other value followed by its ratio."""
    pairs = zip(values[1:], ratios, strict=True)
    return [values[0], *(cell for pair in pairs for cell in pair)]


def _source_key(source: str) -> str:
    return source.split(":")[0]


def _source_line(source: str) -> str:
    """Return a source of a GPU with its title and address, as it stands where it is the user's own."""
    known = sources().get(_source_key(source))
    return f"{source} — {known.title}, {known.url} (read: {known.read})" if known else source


def schema_document(table: pd.DataFrame, op: str | None) -> Document:
    """Return the columns of an operator (``op``), or of all of them, as `flopcast.schema` has them."""
    data = {
        "schema": SCHEMA,
        "operators": [_operator_json(name, part) for name, part in _by_operator(table, op).items()],
    }
    if op is None:
        return Document(sections=[Section("operators", [_operators(table), _common()])], data=data)
    parts = [_columns(table, op), lines([_called(op)] if _called(op) else [], tone="soft")]
    return Document(sections=[Section(op, parts)], data=data)


def _by_operator(table: pd.DataFrame, op: str | None) -> Mapping[str, pd.DataFrame]:
    return {op: table} if op else {str(name): part.droplevel("op") for name, part in table.groupby("op", sort=False)}


def _operators(table: pd.DataFrame) -> Table:
    """Return a row for each operator: the dimensions it needs with an example, those it may have, its other names."""
    found = []
    for name, part in _by_operator(table, None).items():
        own = part.loc[list(OPS[name].dims)]
        needed = [f"{column}={value}" for column, value in own["example"][own["required"]].items()]
        may = [_with_default(column, value) for column, value in own["default"][~own["required"]].items()]
        public = [word for word in _names(name) if not word.startswith("_")]
        found.append((name, " ".join(needed), " ".join(may), " ".join(public)))
    heads = (Column("op", "name"), *columns("needs, for example", "may have", "also called"))
    return Table(heads, rows(found), "operators and their dimensions")


def _common() -> Lines:
    return lines(
        [
            "Every row also needs device, op, dtype_a (not a collective or kernel) and duration_us, or a duration in "
            "another unit: latency_ms, time with --unit time=ms.",
            "flopcast schema OP lists every column of one with its unit; --template FILE.csv writes them to fill in.",
        ],
        tone="soft",
    )


def _columns(table: pd.DataFrame, op: str) -> Table:
    """Return a row for each column: needed or not, unit, default, example, the other names by which it is read."""
    found = []
    for name, row in table.iterrows():
        needed = "needed" if row["required"] else ""
        cells = (str(name), needed, row["unit"], _shown(row["default"]), _shown(row["example"]), row["also"])
        found.append(Row(cells, "" if row["required"] else "soft"))
    heads = (Column("column", "name"), *columns("", "unit", "default", "example", "also read as"))
    return Table(heads, found, f"columns of {op}")


def _called(op: str) -> str:
    names = ", ".join(_names(op))
    return f"Also called {names}; aten::, torch. and the like before a name are passed over." if names else ""


def _names(op: str) -> list[str]:
    return [word for word, name in ALIASES.items() if name == op]


def _with_default(column: object, value: Any) -> str:
    return f"{column}={_shown(value)}" if _shown(value) else str(column)


def _shown(value: Any) -> str:
    return "" if value is None or value != value else f"{value:g}" if isinstance(value, float) else str(value)


def _operator_json(op: str, table: pd.DataFrame) -> dict[str, Any]:
    told = table.astype(object).where(table.notna(), None).reset_index().to_dict("records")
    return {"op": op, "also": _names(op), "columns": told}
