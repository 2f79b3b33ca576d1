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
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .base import LINE, Options, register
from .files import short_lines
from .records import Records, Row, number, refused

_SNIFF: Final = re.compile(
    rb"(?m)^[ \t]*+(?:m[ \t]++n[ \t]++k[ \t]++a_t[ \t]++b_t|w[ \t]++h[ \t]++c[ \t]++n[ \t]++k[ \t]++f_w)[ \t]"
)
_PRODUCT: Final = ["m", "n", "k", "a_t", "b_t"]
_CONVOLUTION: Final = ["w", "h", "c", "n", "k", "f_w"]
_UNIT: Final = " (usec)"
_DIRECTIONS: Final = {"fwd_time": "F", "bwd_inputs_time": "B", "bwd_params_time": "W"}


@register
class DeepBenchReader(Records):
    """Tables of DeepBench: products and convolutions."""

    name = "DeepBench table"
    mark = _SNIFF
    nothing = "holds no time of DeepBench"

    def rows(self, path: Path, options: Options) -> Iterator[Row]:
        """Yield a row for each product, and for each direction of each convolution."""
        names = list[str]()
        for line_number, line in short_lines(path, max_bytes=options.table_bytes):
            cells = line.replace(_UNIT, "").split()
            if cells[:5] == _PRODUCT or cells[:6] == _CONVOLUTION:
                names = cells
            elif names and cells and cells[0].isdecimal():
                given = defaultdict(str, zip(names, cells, strict=False))
                shared: Row = {"dtype_a": given["precision"], LINE: line_number}
                more = len(cells) - len(names)
                if more:
                    shared |= refused("line-unlike-header", f"{more:+d} values")
                for row in _rows(given):
                    yield shared | row


def _rows(given: defaultdict[str, str]) -> Iterator[Row]:
    """Yield the rows of a line."""
    if "a_t" in given:
        letters = given["a_t"] + given["b_t"]
        yield {
            "op": "gemm",
            "m": number(given["n"]),
            "n": number(given["m"]),
            "k": number(given["k"]),
            "layout": re.sub("[^nt]", "", letters.replace("0", "n").replace("1", "t")),
            "duration_us": number(given["time"]),
        }
        return
    sizes = _sizes(given)
    for name, direction in _DIRECTIONS.items():
        if name in given:
            kernel = ""
            if direction == "F":
                kernel = given["fwd_algo"]
            timing = {"direction": direction, "duration_us": number(given[name])}
            yield sizes | timing | {"kernel": kernel}


def _sizes(given: defaultdict[str, str]) -> Row:
    """Return the dimensions of a convolution."""
    sizes: Row = {
        "op": "conv",
        "batch": number(given["n"]),
        "in_channels": number(given["c"]),
        "out_channels": number(given["k"]),
        "in_d": 1.0,
        "out_d": 1.0,
    }
    for axis in ("h", "w"):
        side = number(given[axis])
        taps = number(given[f"f_{axis}"])
        pad = number(given[f"pad_{axis}"])
        stride = number(given[f"stride_{axis}"])
        sizes |= {f"in_{axis}": side, f"fil_{axis}": taps, f"pad_{axis}": pad}
        sizes[f"stride_{axis}"] = stride
        sizes[f"out_{axis}"] = None
        if stride and side is not None and taps is not None and pad is not None:
            sizes[f"out_{axis}"] = (side + 2 * pad - taps) // stride + 1
    return sizes
