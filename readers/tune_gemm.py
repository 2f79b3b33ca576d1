"""Tuned products of Triton's tune_gemm.py for ROCm: its YAML, and what it prints.

::

    - {'M': 16, 'N': 1280, 'K': 8192, 'rowMajorA': 'T', 'rowMajorB': 'N', 'BLOCK_SIZE_M': 16, ...} \
# TFLOPS: 25.68 time(us): 13.07
    SIZE: 16 1280 8192 TN nConfigs: 720 TFLOPS: 25.68 time(us): 13.07 best_config: BM16_BN64_BK256

``tune_gemm.py`` of Triton's perf-kernels (2023 to 2026): the winner of a search for each size. Times are
in microseconds and stand in the comment; a line whose TFLOP/s are not those of its size is refused.
``rowMajorA`` ``T`` is an operand that lies by rows. Number formats and the device are not in it:
`Options.defaults` states ``dtype_a`` and ``device``.

Source: https://github.com/ROCm/triton (MIT), ``python/perf-kernels/tools/tune_gemm``.
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
from .serving_benchmarks import contradiction, number

_SNIFF: Final = re.compile(
    rb"(?m)^(?:- \{'M': \d++, 'N': \d++, 'K': \d++[,}]|SIZE: \d++ \d++ \d++[^\n]{0,99}TFLOPS: )"
)
_YAML: Final = re.compile(r"^- \{(?P<config>[^}]*+)\}\s*+(?:#(?P<rest>.*))?$")
_PRINTED: Final = re.compile(
    r"^SIZE: (?P<m>\d++) (?P<n>\d++) (?P<k>\d++)\s++(?P<layout>[TN]{2})?(?P<rest>.*)$"
)
_ENTRY: Final = re.compile(r"'(?P<name>\w++)': '?(?P<value>[^',]++)")
_RATE: Final = re.compile(r"TFLOPS: (?P<rate>\S++)")
_TIME: Final = re.compile(r"time\(us\): (?P<time>\S++)")
_BEST: Final = re.compile(r"best_config: (?P<kernel>\S++)")
_LAYOUT: Final = {"T": "N", "N": "T"}
_SIZES: Final = ("M", "N", "K", "rowMajorA", "rowMajorB")


@register
class TuneGemmReader(Reader):
    """Results of tune_gemm.py: a row for each size."""

    name = "tune_gemm YAML"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise a size with its settings, or a printed line of one."""
        return _SNIFF.search(head) is not None

    def read(self, path: Path, options: Options) -> RawTable:
        """Return a row for each size; one without a time is work to predict."""
        rows = list[dict[str, Any]]()
        for line_number, line in short_lines(path, max_bytes=options.table_bytes):
            row = _of_line(line.rstrip())
            if row:
                rows.append(row | {LINE: line_number})
        if not rows:
            raise DataError("holds no size", source=str(path))
        frame = pd.DataFrame(rows)
        frame["campaign"] = campaign_of(path)
        return RawTable(frame)


def _of_line(line: str) -> dict[str, Any]:
    """Return the row of a line, nothing for a line of another kind."""
    if yaml := _YAML.match(line):
        stated = {entry["name"]: entry["value"] for entry in _ENTRY.finditer(yaml["config"])}
        settings = [f"{name}={value}" for name, value in stated.items() if name not in _SIZES]
        return _row(
            number(stated.get("M")),
            number(stated.get("N")),
            number(stated.get("K")),
            stated.get("rowMajorA", "") + stated.get("rowMajorB", ""),
            yaml["rest"] or "",
        ) | {"kernel": " ".join(settings), "split_k": number(stated.get("SPLIT_K"))}
    if printed := _PRINTED.match(line):
        best = _BEST.search(printed["rest"])
        row = _row(
            float(printed["m"]),
            float(printed["n"]),
            float(printed["k"]),
            printed["layout"] or "",
            printed["rest"],
        )
        if best:
            kernel = best["kernel"]
        else:
            kernel = ""
        return row | {"kernel": kernel}
    return {}


def _row(
    m: float | None, n: float | None, k: float | None, row_major: str, rest: str
) -> dict[str, Any]:
    """Return the row of a size, with what the line says of its time."""
    rate, timing = _RATE.search(rest), _TIME.search(rest)
    duration = number(timing["time"]) if timing else None
    row: dict[str, Any] = {
        "op": "gemm",
        "m": m,
        "n": n,
        "k": k,
        "layout": "".join(_LAYOUT.get(letter, "") for letter in row_major),
        "library": "triton",
        "tuned": True,
        "duration_us": duration,
        DEFECT: "",
        DEFECT_DETAIL: "",
    }
    if rate and duration and m is not None and n is not None and k is not None:
        row |= contradiction("TFLOP/s", number(rate["rate"]), 2 * m * n * k / duration * 1e-6)
    return row
