"""CUTLASS's profiler: products by each kernel, a line of CSV each.

``cutlass_profiler --operation=Gemm --output=FILE`` writes ``FILE.gemm.csv`` (CUTLASS 2.4 to 4.2):
``Problem,Provider,OperationKind,Operation,Disposition,Status,...,m,n,k,A,B,C,...,batch_count,...,Bytes,
Flops,Flops/Byte,Runtime,GB/s,GFLOPs``. ``Runtime`` is in milliseconds, A, B and C have format and layout
(``f16:column``). Columns are matched by name. A line whose disposition is ``incorrect``, ``failed`` or
``not_supported`` is refused, and so is one whose FLOPs are not those of its shape. The device is not
in it.

Source: https://github.com/NVIDIA/cutlass (BSD-3-Clause), ``tools/profiler/src``.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pandas as pd

from ..errors import DataError
from ..table.measurements import DEFECT, DEFECT_DETAIL
from .base import LINE, Options, RawTable, Reader, register
from .files import campaign_of, csv_header, text
from .labels import TIME_UNITS
from .serving_benchmarks import contradiction, number

_COLUMNS: Final = frozenset({"operationkind", "disposition", "runtime", "gflops"})
_FORMATS: Final = {
    "f16": "fp16",
    "f32": "fp32",
    "f64": "fp64",
    "s8": "int8",
    "u8": "uint8",
    "s32": "int32",
    "s4": "int4",
    "e4m3": "fp8",
    "e5m2": "fp8",
    "fe4m3": "fp8",
    "fe5m2": "fp8",
    "e2m1": "fp4",
    "fe2m1": "fp4",
}
_LETTERS: Final = {"row": "N", "t": "N", "column": "T", "n": "T"}
_WRONG: Final = frozenset({"incorrect", "failed", "not_supported", "not_run"})


@register
class CutlassProfilerReader(Reader):
    """Tables of CUTLASS's profiler."""

    name = "CUTLASS profiler CSV"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the header."""
        return {name.strip().lower() for name in csv_header(head)} >= _COLUMNS

    def read(self, path: Path, options: Options) -> RawTable:
        """Return a row for each line; operations other than products are refused."""
        words = text(path, max_bytes=options.table_bytes)
        lines = csv.DictReader(words.splitlines(), skipinitialspace=True)
        rows = list[dict[str, Any]]()
        try:
            for record in lines:
                values = {
                    str(name).strip().lower(): str(value).strip()
                    for name, value in record.items()
                    if name is not None and value is not None
                }
                rows.append(_row(values) | {LINE: lines.line_num})
        except csv.Error as error:
            raise DataError(f"is no table of CSV ({error})", source=str(path)) from None
        if not rows:
            raise DataError("have no rows", source=str(path))
        frame = pd.DataFrame(rows)
        frame["campaign"] = campaign_of(path)
        return RawTable(frame)


def _row(values: Mapping[str, str]) -> dict[str, Any]:
    """Return the row of a line."""
    m, n, k = (number(values.get(name)) for name in ("m", "n", "k"))
    batch = number(values.get("batch_count")) or 1.0
    milliseconds = number(values.get("runtime"))
    formats, layout = [], ""
    for name in ("a", "b", "c"):
        word, _, order = values.get(name, "").partition(":")
        formats.append(_FORMATS.get(word, word))
        layout += _LETTERS.get(order, "") if name != "c" else ""
    if milliseconds is None:
        duration_us = None
    else:
        duration_us = milliseconds * TIME_UNITS["ms"]
    row: dict[str, Any] = {
        "op": "gemm",
        "m": m,
        "n": n,
        "k": k,
        "split_k": number(values.get("split_k_slices")),
        "layout": layout if len(layout) == 2 else "",
        "dtype_a": formats[0],
        "dtype_b": formats[1],
        "dtype_out": formats[2],
        "library": values.get("provider", "").lower(),
        "kernel": values.get("operation", ""),
        "duration_us": duration_us,
        DEFECT: "",
        DEFECT_DETAIL: "",
    }
    if batch > 1:
        row |= {"op": "batched_gemm", "batch": batch}
    kind, disposition = values.get("operationkind", ""), values.get("disposition", "").lower()
    if kind.lower() != "gemm":
        return row | {DEFECT: "not-a-gemm", DEFECT_DETAIL: kind}
    if disposition in _WRONG:
        return row | {DEFECT: "not-verified", DEFECT_DETAIL: disposition}
    stated = number(values.get("gflops"))
    if milliseconds and m is not None and n is not None and k is not None:
        derived = 2 * batch * m * n * k / milliseconds * 1e-6
        row |= contradiction("GFLOP/s", stated, derived)
    return row
