"""What `flopcast gpus` shows: the list of GPUs, some of them side by side, and the same for machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..errors import NotPublishedError
from ..hardware import FIGURES, GPU, PEAKS, all_gpus, measured, sources
from .console import plain_table

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


def gpu_table(gpus: Iterable[GPU]) -> Table:
    """Return the list of GPUs, one row each: what it is, its peaks, bandwidths, year and the confidence in them."""
    numbers = ["CUs", *_LIST_PEAKS, "mem", "links", "year"]
    table = plain_table("GPUs", ["name", "arch", "gfx"], numbers, caption=_LIST_CAPTION)
    table.add_column("conf.", no_wrap=True)
    table.padding, table.show_edge = 0, False  # it fits into 80 columns, names and all
    table.columns[0].no_wrap = table.columns[2].no_wrap = True
    table.columns[1].min_width = 9
    for gpu in gpus:
        figures = (gpu.cus, *(_peak(gpu, dtype) for dtype in _LIST_PEAKS), gpu.memory_bw_gbs, gpu.link_bw_gbs, gpu.year)
        cells = (Text("–" if figure is None else _short(figure)) for figure in figures)
        table.add_row(Text(gpu.name), Text(gpu.arch), Text(gpu.gfx), *cells, Text(gpu.confidence or "–"))
    return table


def compare_table(first: GPU, *others: GPU) -> Table:
    """Return every figure of the given GPUs side by side, each with its ratio to the first GPU's.

    Parameters
    ----------
    first : GPU
        The GPU that the ratios refer to; alone, its figures are listed.
    *others : GPU
        What to compare with it; a ratio is left out where either figure is not published.
    """
    gpus = (first, *others)
    title = " · ".join(gpu.name for gpu in gpus)
    table = plain_table(title, ["figure", "unit"], [first.name], caption="Peaks are dense.")
    for gpu in others:
        table.add_column(Text(gpu.name), justify="right")
        table.add_column("ratio", justify="right", style="cyan")
    for key, label in _WORDS.items():
        texts = [Text(value) if (value := getattr(gpu, key)) else _number(None) for gpu in gpus]
        table.add_row(label, "", *_interleave(texts, [Text("")] * len(others)))
    for key in _figure_keys(gpus):
        figure = PEAKS.get(key) or FIGURES[key]
        values = [_figure(gpu, key) for gpu in gpus]
        ratios = [_ratio(value, values[0]) if key != "year" else Text("") for value in values[1:]]
        table.add_row(figure.label, figure.unit, *_interleave([_number(value) for value in values], ratios))
    return table


def show_sources(console: Console, gpus: Sequence[GPU]) -> None:
    """Print where the figures of GPUs come from, and what others have measured on them."""
    console.print(provenance_table(gpus))
    ceilings = ceilings_table(gpus)
    if ceilings.row_count:
        console.print(ceilings)


def provenance_table(gpus: Iterable[GPU]) -> Table:
    """Return where the figures come from, GPU by GPU: confidence, caveats, and each source with its address."""
    table = plain_table("Where the figures come from", ["GPU", "confidence", "note", "sources"])
    table.show_lines = True
    for gpu in gpus:
        lines = "\n".join(_source_line(source) for source in gpu.sources)
        table.add_row(Text(gpu.name), Text(gpu.confidence), Text(gpu.note), Text(lines))
    return table


def ceilings_table(gpus: Iterable[GPU]) -> Table:
    """Return what others have measured on the given GPUs, as a share of the published peak."""
    table = plain_table("Measured by others")
    for column in ("GPU", "metric", "value", "unit", "of peak", "method", "conditions", "source", "confidence"):
        table.add_column(column, justify="right" if column in ("value", "of peak") else "left", overflow="fold")
    for gpu in gpus:
        for row in measured(gpu.name) if gpu in all_gpus() else ():
            share = row.share(gpu)
            part = "" if share is None else f"{100 * share:.0f} %"
            texts = (Text(text) for text in (row.method, row.conditions, row.source, row.confidence))
            table.add_row(Text(gpu.name), row.metric, _number(row.value), row.unit, part, *texts)
    return table


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
        "gpus": [_json(gpu) for gpu in listed],
        "units": {figure.key: figure.unit for figure in (*PEAKS.values(), *FIGURES.values())},
        "sources": {key: vars(source) for key, source in sources().items() if key in used},
    }


def _json(gpu: GPU) -> dict[str, Any]:
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


def _number(value: float | None) -> Text:
    return Text(MISSING, style="dim") if value is None else Text(f"{value:.7g}")


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(value: float | None, reference: float | None) -> Text:
    return Text("" if value is None or reference is None else f"× {value / reference:.3g}")


def _interleave(values: Sequence[Text], ratios: Sequence[Text]) -> list[Text]:
    """Return the first value, then each other value followed by its ratio."""
    pairs = zip(values[1:], ratios, strict=True)
    return [values[0], *(cell for pair in pairs for cell in pair)]


def _source_key(source: str) -> str:
    return source.split(":")[0]


def _source_line(source: str) -> str:
    """Return a source of a GPU with its title and address, as it stands where it is the user's own."""
    known = sources().get(_source_key(source))
    return f"{source} — {known.title}, {known.url} (read: {known.read})" if known else source
