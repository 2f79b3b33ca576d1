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

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from .base import LINE, Options, register
from .files import csv_header, text
from .labels import TIME_UNITS
from .records import Records, Row, csv_records, number, product, refused, scaled
from .words import vocabulary

_COLUMNS: Final = frozenset({"operationkind", "disposition", "runtime", "gflops"})
_FORMATS: Final = vocabulary("cutlass_formats")
_LETTERS: Final = vocabulary("cutlass_layouts")
_WRONG: Final = frozenset({"incorrect", "failed", "not_supported", "not_run"})


@register
class CutlassProfilerReader(Records):
    """Tables of CUTLASS's profiler."""

    name = "CUTLASS profiler CSV"
    nothing = "have no rows"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the header."""
        return {name.strip().lower() for name in csv_header(head)} >= _COLUMNS

    def rows(self, path: Path, options: Options) -> Iterator[Row]:
        """Yield a row for each line; operations other than products are refused."""
        for line, record in csv_records(text(path, max_bytes=options.table_bytes), str(path)):
            values = {
                str(name).strip().lower(): str(value).strip()
                for name, value in record.items()
                if name is not None and value is not None
            }
            yield _row(values) | {LINE: line}


def _row(values: Mapping[str, str]) -> Row:
    """Return the row of a line."""
    formats = []
    layout = ""
    for name in ("a", "b", "c"):
        word, _, order = values.get(name, "").partition(":")
        formats.append(_FORMATS.get(word, word))
        layout += _LETTERS.get(order, "") if name != "c" else ""
    row: Row = {
        "m": values.get("m"),
        "n": values.get("n"),
        "k": values.get("k"),
        "batch": values.get("batch_count"),
        "split_k": number(values.get("split_k_slices")),
        "layout": layout if len(layout) == 2 else "",
        "dtype_a": formats[0],
        "dtype_b": formats[1],
        "dtype_out": formats[2],
        "library": values.get("provider", "").lower(),
        "kernel": values.get("operation", ""),
        "duration_us": scaled(values.get("runtime"), TIME_UNITS["ms"]),
    }
    row = product(row, "GFLOP/s", values.get("gflops"))
    kind = values.get("operationkind", "")
    disposition = values.get("disposition", "").lower()
    if kind.lower() != "gemm":
        row |= refused("not-a-gemm", kind)
    elif disposition in _WRONG:
        row |= refused("not-verified", disposition)
    return row
