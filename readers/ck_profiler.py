"""Logs of ckProfiler of Composable Kernel: products by each kernel, and the best of a problem.

::

    Perf: 0.35 ms, 392.7 TFlops, 285.1 GB/s, DeviceGemmXdl<256, 256, 128, 32>
    Best Perf for datatype = f16 ALayout = RowMajor BLayout = ColumnMajor M = 3840 N = 4096 K = 4096 \
StrideA = 4096 StrideB = 4096 StrideC = 4096 KBatch = 1 : 0.35 ms, 392.7 TFlops, 285.1 GB/s, DeviceGemmXdl<...>

``ckProfiler gemm`` and its kin (ROCm 5.2 to 7.1). Lines of ``Best Perf`` have the problem and are read,
whatever stands before them in the line; a line of a kernel alone does not say its problem. Times are
in the unit that they have. Where TFLOP/s and time contradict each other by over 5 %, the row is
refused. The device is not in it.

Source: https://github.com/ROCm/composable_kernel (MIT), ``profiler/include/profiler``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .base import LINE, Options, register
from .files import short_lines
from .labels import TIME_UNITS
from .records import Records, Row, number, product, scaled
from .words import vocabulary

_SNIFF: Final = re.compile(rb"(?m)^Best Perf for[^\n]{0,400}\bM = \d")
_BEST: Final = re.compile(
    r"^Best Perf for (?P<problem>.*?) : (?P<time>\S+) (?P<unit>ns|us|ms|s), (?P<rest>.*)$"
)
_STATED: Final = re.compile(r"(?<![A-Za-z_])(?P<name>[A-Za-z_]++)\s*+=\s*+(?P<value>[\w.]+)")
_RATE: Final = re.compile(r"(?<![\d.e+])(?P<rate>\d[\d.e+]*+)\s*+TFlops")
_FORMATS: Final = vocabulary("ck_profiler_formats")
_LETTERS: Final = vocabulary("ck_profiler_layouts")


@register
class CkProfilerReader(Records):
    """Logs of ckProfiler: the best kernel of each problem."""

    name = "ckProfiler log"
    mark = _SNIFF
    nothing = "holds no best kernel of a problem"

    def rows(self, path: Path, options: Options) -> Iterator[Row]:
        """Yield a row for each problem."""
        for line_number, line in short_lines(path, max_bytes=options.table_bytes):
            best = _BEST.search(line)
            if best is not None:
                yield _row(best) | {LINE: line_number}


def _row(best: re.Match[str]) -> Row:
    """Return the row of a problem."""
    stated = {match["name"].lower(): match["value"] for match in _STATED.finditer(best["problem"])}
    word = stated.get("datatype", stated.get("adatatype", ""))
    weights = stated.get("bdatatype", word)
    layout = ""
    for name in ("alayout", "blayout"):
        layout += _LETTERS.get(stated.get(name, "").lower(), "")
    row: Row = {
        "m": stated.get("m"),
        "n": stated.get("n"),
        "k": stated.get("k"),
        "batch": stated.get("batch_count", stated.get("batch")),
        "split_k": number(stated.get("kbatch")),
        "layout": layout if len(layout) == 2 else "",
        "dtype_a": _FORMATS.get(word, word),
        "dtype_b": _FORMATS.get(weights, weights),
        "library": "composable_kernel",
        "kernel": best["rest"].rpartition("GB/s,")[2].strip(),
        "duration_us": scaled(best["time"], TIME_UNITS[best["unit"]]),
    }
    rate = _RATE.search(best["rest"])
    return product(row, "TFLOP/s", rate and rate["rate"])
