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
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from ..operators.kinds.convolution import AXES
from ..table.measurements import DEFECT
from .base import LINE, Options, register
from .files import short_lines
from .labels import TIME_UNITS
from .records import Records, Row, contradiction, number, refused, scaled
from .words import vocabulary

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
_FORMATS: Final = vocabulary("miopen_driver_formats")
_OPTIONS: Final = vocabulary("miopen_driver_options")
_CHANNELS: Final = ("in_channels", "out_channels")
_SIDES: Final = ("in", "fil", "pad", "stride", "dil")
_LEAST: Final = {
    "in_d": 1.0,
    "fil_d": 1.0,
    "pad": 0.0,
    "stride": 1.0,
    "dil": 1.0,
}


@register
class MiopenDriverReader(Records):
    """Logs of MIOpenDriver: a row for each direction of each convolution."""

    name = "MIOpenDriver log"
    mark = _SNIFF
    nothing = "holds no time of a convolution"

    def rows(self, path: Path, options: Options) -> Iterator[Row]:
        """Yield a row for each time."""
        rows = list[Row]()
        problem = refused("unknown-parameters", "no command line before it")
        device = ""
        solver = ""
        names = list[str]()
        for line_number, line in short_lines(path, max_bytes=options.table_bytes):
            command = _COMMAND.search(line)
            if command:
                problem = _problem(command["rest"].split())
                solver = ""
            elif model := _DEVICE.search(line):
                device = model["device"].strip()
            elif algorithm := _ALGORITHM.search(line):
                solver = algorithm["solver"]
            elif timing := _TIME.search(line):
                row = _row(problem, timing["what"], timing["time"])
                rows.append(
                    row
                    | {
                        "device": device,
                        "kernel": solver,
                        LINE: line_number,
                    }
                )
            elif _STATS in line and rows:
                cells = [cell.strip() for cell in line.partition(_STATS)[2].split(",")]
                if cells[0] == "name":
                    names = cells
                else:
                    _hold_against(rows[-1], dict(zip(names, cells, strict=False)))
        yield from rows


def _problem(typed: list[str]) -> Row:
    """Return the convolution of a command line, or a defect."""
    driver, *options = typed
    stated = dict[str, str]()
    while options:
        name, joined, value = options.pop(0).partition("=")
        if name.startswith("-"):
            if not joined and options:
                value = options.pop(0)
            name = name.lstrip("-")
            stated[_OPTIONS.get(name, name)] = value
    if driver not in _FORMATS:
        return refused("not-a-convolution", driver)
    mode = stated.get("mode", "conv")
    if mode != "conv" or stated.get("pad_mode", "default") != "default":
        return refused("unknown-parameters", f"{mode} {stated.get('pad_mode', '')}".strip())
    fixed = {
        "op": "conv",
        "dtype_a": _FORMATS[driver],
        "layout": stated.get("in_layout", ""),
    }
    return _sizes(stated) | fixed


def _sizes(stated: dict[str, str]) -> Row:
    """Return the dimensions of a convolution, None if the command line lacks one."""
    sizes: Row = {name: number(stated.get(name)) for name in ("batch", *_CHANNELS)}
    sizes["groups"] = number(stated.get("groups", "1"))
    for axis in AXES:
        for name in _SIDES:
            place = f"{name}_{axis}"
            sizes[place] = number(stated.get(place, _LEAST.get(name, _LEAST.get(place))))
        side, taps, pad, stride, dilation = (sizes[f"{name}_{axis}"] for name in _SIDES)
        sizes[f"out_{axis}"] = None
        if None not in (side, taps, pad, stride, dilation) and stride > 0:
            out = (side + 2 * pad - dilation * (taps - 1) - 1) // stride + 1
            sizes[f"out_{axis}"] = max(out, 1.0)
    return sizes


def _row(problem: Row, what: str, milliseconds: str) -> Row:
    """Return the row of a time."""
    row = problem | {
        "direction": _DIRECTIONS.get(what, ""),
        "duration_us": scaled(milliseconds, TIME_UNITS["ms"]),
    }
    if what not in _DIRECTIONS and DEFECT not in row:
        row |= refused("not-a-convolution", what)
    return row


def _hold_against(row: Row, stats: dict[str, str]) -> None:
    """Refuse a row whose FLOPs differ from the driver's count."""
    sizes = [row.get(name) for name in ("batch", *_CHANNELS)]
    for axis in AXES:
        sizes += [row.get(f"fil_{axis}"), row.get(f"out_{axis}")]
    groups = row.get("groups")
    if DEFECT in row or not groups or None in sizes:
        return
    counted = 2.0 * float(np.prod(np.array(sizes, dtype=float))) / groups
    row |= contradiction("FLOPs", number(stats.get("flopCnt")), counted)
