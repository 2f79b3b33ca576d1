"""What MIOpenDriver prints: convolutions, each with the time of its kernels.

::

    MIOpenDriver convfp16 -n 32 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 1 -t 1
    GPU Model: 8 x AMD Instinct MI300X; ...
    MIOpen Forward Conv. Algorithm: 1, Solution: 85/ConvHipConv
    GPU Kernel Time Forward Conv. Elapsed: 0.083398 ms (average)
    stats: name, n, c, ho, wo, y, x, k, flopCnt, bytesRead, bytesWritten, GFLOPs, GB/s, timeMs
    stats: fwd-conv3x3u1, 32, 64, 56, 56, 3, 3, 64, 7398752256, 12918784, 12845056, 88716, 309, 0.083398

``MIOpenDriver conv...`` with ``-t 1`` (MIOpen 1 to 3.5, behind any prefix) repeats its command line, in
short or long options; then come the algorithm, the time in milliseconds, an average, and its own
count of the work. Directions are distinguished by their lines. A row whose count of FLOPs is another than
that of its shape is refused; so are drivers of other operators, and transposed convolutions. The
device is read from ``GPU Model`` (since MIOpen 3.5).

Source: https://github.com/ROCm/MIOpen (MIT), ``driver/conv_driver.hpp``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from ..errors import DataError
from ..operators.kinds.convolution import AXES
from ..table.measurements import DEFECT, DEFECT_DETAIL
from .base import LINE, Options, RawTable, Reader, register
from .files import campaign_of, short_lines
from .labels import TIME_UNITS
from .serving_benchmarks import contradiction, number

_SNIFF: Final = re.compile(rb"GPU Kernel Time [A-Z][\w. ]{0,40}Elapsed: [\d.]++ ms")
_COMMAND: Final = re.compile(r"(?<![\w'])MIOpenDriver:?\s++(?P<rest>[a-z]\w*+\s.*)$")
_ALGORITHM: Final = re.compile(r"Conv\. Algorithm: \d++, Solution: \d++/(?P<solver>\S++)")
_TIME: Final = re.compile(
    r"GPU Kernel Time (?P<what>[A-Z][\w. ]{0,40}?)\s?Elapsed: (?P<time>\S++) ms"
)
_DEVICE: Final = re.compile(r"GPU Model: (?:\d++ x )?(?P<device>[^;]++)")
_STATS: Final = "stats: "
_DIRECTIONS: Final = {
    "Forward Conv.": "F",
    "Backward Data Conv.": "B",
    "Backward Weights Conv.": "W",
}
_FORMATS: Final = {
    "conv": "fp32",
    "convfp16": "fp16",
    "convbfp16": "bf16",
    "convint8": "int8",
    "convfp8": "fp8",
    "convbfp8": "fp8",
}
_OPTIONS: Final = {
    "n": "batchsize",
    "c": "in_channels",
    "H": "in_h",
    "W": "in_w",
    "k": "out_channels",
    "y": "fil_h",
    "x": "fil_w",
    "p": "pad_h",
    "q": "pad_w",
    "u": "conv_stride_h",
    "v": "conv_stride_w",
    "l": "dilation_h",
    "j": "dilation_w",
    "g": "group_count",
    "m": "mode",
    "z": "pad_mode",
    "I": "in_layout",
}
_LEAST: Final = {"in_d": 1.0, "fil_d": 1.0, "pad": 0.0, "stride": 1.0, "dil": 1.0}


@register
class MiopenDriverReader(Reader):
    """Logs of MIOpenDriver: a row for each direction of each convolution."""

    name = "MIOpenDriver log"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the line of a time."""
        return _SNIFF.search(head) is not None

    def read(self, path: Path, options: Options) -> RawTable:
        """Return a row for each time."""
        rows = list[dict[str, Any]]()
        problem = dict[str, Any]()
        device, solver, names = "", "", list[str]()
        for line_number, line in short_lines(path, max_bytes=options.table_bytes):
            if command := _COMMAND.search(line):
                problem, solver = _problem(command["rest"].split()), ""
            elif model := _DEVICE.search(line):
                device = model["device"].strip()
            elif algorithm := _ALGORITHM.search(line):
                solver = algorithm["solver"]
            elif timing := _TIME.search(line):
                row = _row(problem, timing["what"], number(timing["time"]))
                rows.append(row | {"device": device, "kernel": solver, LINE: line_number})
            elif _STATS in line and rows:
                cells = [cell.strip() for cell in line.partition(_STATS)[2].split(",")]
                if cells[0] == "name":
                    names = cells
                else:
                    _hold_against(rows[-1], dict(zip(names, cells, strict=False)))
        if not rows:
            raise DataError("holds no time of a convolution", source=str(path))
        frame = pd.DataFrame(rows)
        frame["campaign"] = campaign_of(path)
        return RawTable(frame)


def _problem(words: list[str]) -> dict[str, Any]:
    """Return the convolution of a command line, or a defect."""
    driver, stated = words[0], dict[str, str]()
    place = 1
    while place < len(words):
        name, joined, value = words[place].partition("=")
        place += 1
        if not name.startswith("-"):
            continue
        if not joined and place < len(words):
            value = words[place]
            place += 1
        name = name.lstrip("-")
        stated[_OPTIONS.get(name, name)] = value
    if driver not in _FORMATS:
        return {DEFECT: "not-a-convolution", DEFECT_DETAIL: driver}
    if stated.get("mode", "conv") != "conv" or stated.get("pad_mode", "default") != "default":
        detail = f"{stated.get('mode', 'conv')} {stated.get('pad_mode', '')}".strip()
        return {DEFECT: "unknown-parameters", DEFECT_DETAIL: detail}
    return _sizes(stated) | {
        "op": "conv",
        "dtype_a": _FORMATS[driver],
        "layout": stated.get("in_layout", ""),
        DEFECT: "",
        DEFECT_DETAIL: "",
    }


def _sizes(stated: dict[str, str]) -> dict[str, Any]:
    """Return the dimensions of a convolution, None if the command line lacks one."""
    sizes: dict[str, float | None] = {
        "batch": number(stated.get("batchsize")),
        "in_channels": number(stated.get("in_channels")),
        "out_channels": number(stated.get("out_channels")),
        "groups": number(stated.get("group_count", "1")),
    }
    for axis in AXES:
        for name, option in (
            ("in", "in"),
            ("fil", "fil"),
            ("pad", "pad"),
            ("stride", "conv_stride"),
            ("dil", "dilation"),
        ):
            value = stated.get(f"{option}_{axis}")
            if value is None:
                sizes[f"{name}_{axis}"] = _LEAST.get(name, _LEAST.get(f"{name}_{axis}"))
            else:
                sizes[f"{name}_{axis}"] = number(value)
        sizes[f"out_{axis}"] = _output(sizes, axis)
    return sizes


def _output(sizes: dict[str, float | None], axis: str) -> float | None:
    """Return the size of the output along an axis; None where a size is missing."""
    values = [sizes[f"{name}_{axis}"] for name in ("in", "fil", "pad", "stride", "dil")]
    side, taps, pad, stride, dilation = (np.nan if one is None else one for one in values)
    if not stride > 0:
        return None
    out = (side + 2 * pad - dilation * (taps - 1) - 1) // stride + 1
    if np.isnan(out):
        return None
    return max(out, 1.0)


def _row(problem: dict[str, Any], what: str, milliseconds: float | None) -> dict[str, Any]:
    """Return the row of a time."""
    row = dict[str, Any](problem)
    if not row:
        row |= {DEFECT: "unknown-parameters", DEFECT_DETAIL: "no command line before it"}
    elif what not in _DIRECTIONS and not row[DEFECT]:
        row |= {DEFECT: "not-a-convolution", DEFECT_DETAIL: what}
    row["direction"] = _DIRECTIONS.get(what, "")
    row["duration_us"] = None
    if milliseconds is not None:
        row["duration_us"] = milliseconds * TIME_UNITS["ms"]
    return row


def _hold_against(row: dict[str, Any], stats: dict[str, str]) -> None:
    """Refuse a row whose FLOPs differ from the driver's count."""
    sizes = [row.get(name) for name in ("batch", "in_channels", "out_channels")]
    for name in ("fil", "out"):
        for side in AXES:
            sizes.append(row.get(f"{name}_{side}"))
    groups = row.get("groups")
    if row[DEFECT] or not groups or None in sizes:
        return
    counted = 2.0 * float(np.prod(np.array(sizes, dtype=float))) / groups
    row |= contradiction("FLOPs", number(stats.get("flopCnt")), counted)
