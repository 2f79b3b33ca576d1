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
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .base import LINE, Options, register
from .files import short_lines
from .records import Records, Row, number, product

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
_LAYOUT: Final = str.maketrans("TN", "NT")
_SIZES: Final = ("M", "N", "K", "rowMajorA", "rowMajorB")


@register
class TuneGemmReader(Records):
    """Results of tune_gemm.py: a row for each size."""

    name = "tune_gemm YAML"
    mark = _SNIFF
    nothing = "holds no size"

    def rows(self, path: Path, options: Options) -> Iterator[Row]:
        """Yield a row for each size; one without a time is work to predict."""
        for line_number, line in short_lines(path, max_bytes=options.table_bytes):
            yaml = _YAML.match(line.rstrip())
            if yaml:
                row = _of_settings(yaml["config"])
                rest = yaml["rest"] or ""
            elif printed := _PRINTED.match(line.rstrip()):
                row = printed.groupdict("")
                rest = row.pop("rest")
                best = _BEST.search(rest)
                if best:
                    row["kernel"] = best["kernel"]
                else:
                    row["kernel"] = ""
            else:
                continue
            row["layout"] = re.sub("[^NT]", "", row["layout"].translate(_LAYOUT))
            rate = _RATE.search(rest)
            timing = _TIME.search(rest)
            shared: Row = {"library": "triton", "tuned": True, LINE: line_number}
            shared["duration_us"] = number(timing and timing["time"])
            yield product(row | shared, "TFLOP/s", rate and rate["rate"])


def _of_settings(config: str) -> Row:
    """Return size, layout and settings of a kernel."""
    stated = {entry["name"]: entry["value"] for entry in _ENTRY.finditer(config)}
    settings = [f"{name}={value}" for name, value in stated.items() if name not in _SIZES]
    return {
        "m": stated.get("M"),
        "n": stated.get("N"),
        "k": stated.get("K"),
        "layout": stated.get("rowMajorA", "") + stated.get("rowMajorB", ""),
        "kernel": " ".join(settings),
        "split_k": number(stated.get("SPLIT_K")),
    }
