"""DeepBench's tables: products, and convolutions with a time for each direction.

::

        m       n      k      a_t     b_t      precision        time (usec)
     1760     16   1760      0      0         float             180
       w      h      c      n      k      f_w    f_h  pad_w  pad_h    stride_w  stride_h    fwd_time (usec)  ...
     700    161      1      4     32      20      5      0      0           2         2      100  ...

``gemm_bench`` and ``conv_bench`` (2016 to 2019, CUDA and ROCm, and benchmarks derived from them).
Times are in microseconds. Products are BLAS's, by columns. Columns are matched by name; a table
without ``precision`` (ROCm's) has the format that `Options.defaults` states. The device is not in
it. Its tables of recurrent layers are not read.

Source: https://github.com/baidu-research/DeepBench (Apache-2.0), ``code``.
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
from .serving_benchmarks import number

_SNIFF: Final = re.compile(
    rb"(?m)^[ \t]*+(?:m[ \t]++n[ \t]++k[ \t]++a_t[ \t]++b_t|w[ \t]++h[ \t]++c[ \t]++n[ \t]++k[ \t]++f_w)[ \t]"
)
_PRODUCT: Final = ["m", "n", "k", "a_t", "b_t"]
_CONVOLUTION: Final = ["w", "h", "c", "n", "k", "f_w"]
_UNIT: Final = " (usec)"
_DIRECTIONS: Final = {
    "fwd_time": "F",
    "bwd_inputs_time": "B",
    "bwd_params_time": "W",
}


@register
class DeepBenchReader(Reader):
    """Tables of DeepBench: products and convolutions."""

    name = "DeepBench table"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the line of names."""
        return _SNIFF.search(head) is not None

    def read(self, path: Path, options: Options) -> RawTable:
        """Return a row for each product, and for each direction of each convolution."""
        rows = list[dict[str, Any]]()
        names = list[str]()
        for line_number, line in short_lines(path, max_bytes=options.table_bytes):
            cells = line.replace(_UNIT, "").split()
            if cells[:5] == _PRODUCT or cells[:6] == _CONVOLUTION:
                names = cells
            elif names and cells and cells[0].isdecimal():
                given = dict(zip(names, cells, strict=False))
                for row in _rows(given, len(cells) - len(names)):
                    rows.append(row | {LINE: line_number})
        if not rows:
            raise DataError("holds no time of DeepBench", source=str(path))
        frame = pd.DataFrame(rows)
        frame["campaign"] = campaign_of(path)
        return RawTable(frame)


def _rows(given: dict[str, str], more: int) -> list[dict[str, Any]]:
    """Return the rows of a line; a line with more or fewer values than names is refused."""
    shared: dict[str, Any] = {
        "dtype_a": given.get("precision", ""),
        DEFECT: "",
        DEFECT_DETAIL: "",
    }
    if more:
        shared |= {DEFECT: "line-unlike-header", DEFECT_DETAIL: f"{more:+d} values"}
    if "a_t" in given:
        letters = ""
        for name in ("a_t", "b_t"):
            letters += {"0": "n", "1": "t"}.get(given.get(name, ""), "")
        return [
            shared
            | {
                "op": "gemm",
                "m": number(given["n"]),
                "n": number(given["m"]),
                "k": number(given["k"]),
                "layout": letters,
                "duration_us": number(given.get("time")),
            }
        ]
    shared |= _sizes(given)
    rows = []
    for name, direction in _DIRECTIONS.items():
        if name in given:
            kernel = given.get("fwd_algo", "") if direction == "F" else ""
            timing = {"direction": direction, "duration_us": number(given[name])}
            rows.append(shared | timing | {"kernel": kernel})
    return rows


def _sizes(given: dict[str, str]) -> dict[str, Any]:
    """Return the dimensions of a convolution."""
    sizes: dict[str, Any] = {
        "op": "conv",
        "batch": number(given["n"]),
        "in_channels": number(given["c"]),
        "out_channels": number(given["k"]),
        "in_d": 1.0,
        "out_d": 1.0,
    }
    for axis in ("h", "w"):
        side, taps = number(given[axis]), number(given.get(f"f_{axis}"))
        pad, stride = number(given.get(f"pad_{axis}")), number(given.get(f"stride_{axis}"))
        sizes |= {f"in_{axis}": side, f"fil_{axis}": taps, f"pad_{axis}": pad}
        sizes[f"stride_{axis}"] = stride
        if side is None or taps is None or pad is None or not stride:
            sizes[f"out_{axis}"] = None
        else:
            sizes[f"out_{axis}"] = (side + 2 * pad - taps) // stride + 1
    return sizes
