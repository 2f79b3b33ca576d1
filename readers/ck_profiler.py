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
from pathlib import Path
from typing import Any, Final

import pandas as pd

from ..errors import DataError
from ..table.measurements import DEFECT, DEFECT_DETAIL
from .base import LINE, Options, RawTable, Reader, register
from .files import campaign_of, short_lines
from .labels import TIME_UNITS
from .serving_benchmarks import contradiction, number

_SNIFF: Final = re.compile(rb"(?m)^Best Perf for[^\n]{0,400}\bM = \d")
_BEST: Final = re.compile(
    r"^Best Perf for (?P<problem>.*?) : (?P<time>\S+) (?P<unit>ns|us|ms|s), (?P<rest>.*)$"
)
_STATED: Final = re.compile(r"(?<![A-Za-z_])(?P<name>[A-Za-z_]++)\s*+=\s*+(?P<value>[\w.]+)")
_RATE: Final = re.compile(r"(?<![\d.e+])(?P<rate>\d[\d.e+]*+)\s*+TFlops")
_FORMATS: Final = {
    "f16": "fp16",
    "f32": "fp32",
    "f64": "fp64",
    "f8": "fp8",
    "i8": "int8",
    "int8_t": "int8",
    "ck::half_t": "fp16",
    "ck::bhalf_t": "bf16",
}
_LETTERS: Final = {"rowmajor": "N", "columnmajor": "T", "row": "N", "col": "T", "r": "N", "c": "T"}


@register
class CkProfilerReader(Reader):
    """Logs of ckProfiler: the best kernel of each problem."""

    name = "ckProfiler log"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the line of the best kernel."""
        return _SNIFF.search(head) is not None

    def read(self, path: Path, options: Options) -> RawTable:
        """Return a row for each problem."""
        rows = list[dict[str, Any]]()
        for line_number, line in short_lines(path, max_bytes=options.table_bytes):
            best = _BEST.search(line)
            if best is not None:
                rows.append(_row(best) | {LINE: line_number})
        if not rows:
            raise DataError("holds no best kernel of a problem", source=str(path))
        frame = pd.DataFrame(rows)
        frame["campaign"] = campaign_of(path)
        return RawTable(frame)


def _row(best: re.Match[str]) -> dict[str, Any]:
    """Return the row of a problem."""
    stated = {match["name"].lower(): match["value"] for match in _STATED.finditer(best["problem"])}
    m, n, k = (number(stated.get(name)) for name in ("m", "n", "k"))
    batch = number(stated.get("batch_count", stated.get("batch"))) or 1.0
    value = number(best["time"])
    if value is None:
        microseconds = None
    else:
        microseconds = value * TIME_UNITS[best["unit"]]
    word = stated.get("datatype", stated.get("adatatype", ""))
    layout = ""
    for name in ("alayout", "blayout"):
        layout += _LETTERS.get(stated.get(name, "").lower(), "")
    row: dict[str, Any] = {
        "op": "gemm",
        "m": m,
        "n": n,
        "k": k,
        "split_k": number(stated.get("kbatch")),
        "layout": layout if len(layout) == 2 else "",
        "dtype_a": _FORMATS.get(word, word),
        "dtype_b": _FORMATS.get(stated.get("bdatatype", word), stated.get("bdatatype", word)),
        "library": "composable_kernel",
        "kernel": best["rest"].rpartition("GB/s,")[2].strip(),
        "duration_us": microseconds,
        DEFECT: "",
        DEFECT_DETAIL: "",
    }
    if batch > 1:
        row |= {"op": "batched_gemm", "batch": batch}
    rate = _RATE.search(best["rest"])
    if rate and microseconds and m is not None and n is not None and k is not None:
        derived = 2 * batch * m * n * k / microseconds * 1e-6
        row |= contradiction("TFLOP/s", number(rate["rate"]), derived)
    return row
