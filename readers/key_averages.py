"""The table that PyTorch's profiler prints, saved as text: ``print(prof.key_averages(...).table())``.

A row is an operator, with ``group_by_input_shape=True`` on one set of shapes; columns stand two
blanks apart (PyTorch 2.15 seen). Read are rows with shapes and time on the GPU itself (``Self
CUDA``), whose operator the shapes tell: number formats and the device are not in the table and have
to be stated, values of arguments are lost, and with them softmax and sums over an axis. A time is
the mean of the calls. A trace (``prof.export_chrome_trace("trace.json.gz")``) has all of it, and
each call.
"""

from __future__ import annotations

import json
import re
from ast import literal_eval
from pathlib import Path
from typing import Final

import pandas as pd

from ..errors import DataError
from ..remarks import remark
from ..table.measurements import DEFECT, DEFECT_DETAIL, DTYPE_COLUMNS
from ..traces.activity_work import describe_call
from .base import LINE, Note, Options, RawTable, Reader, register
from .files import campaign_of, text
from .labels import TIME_UNITS

_HEAD: Final = re.compile(
    r"^-+(?:  -+)+ *\r?\n( *Name +(?:Overload Name +)?Self CPU % .*# of Calls.*)$", re.MULTILINE
)
_SELF: Final = re.compile(r"Self (?!CPU)(?!.*(?:%|Mem)$)\w+")
_TIME: Final = re.compile(r"(\d+(?:\.\d*)?)(us|ms|s)")
_INSTEAD: Final = 'or give the trace: prof.export_chrome_trace("trace.json.gz")'


@register
class KeyAveragesReader(Reader):
    """Tables of PyTorch's profiler: operators by their shapes, with their mean time on the GPU."""

    name = "PyTorch key_averages table"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the header between its rules of hyphens."""
        return b"# of Calls" in head and _HEAD.search(head.decode(errors="replace")) is not None

    def read(self, path: Path, options: Options) -> RawTable:
        """Return a row for each operator and shapes with time on the GPU; a DataError names what is missing."""
        words = text(path, max_bytes=options.table_bytes)
        head = _HEAD.search(words)
        assert head is not None
        names = _cells(head[1])
        on_gpu = next(filter(_SELF.fullmatch, names), None)
        if on_gpu is None:
            problem = "has no time on a GPU (Self CUDA): profile with activities=[CPU, CUDA]"
            raise DataError(f"{problem}, {_INSTEAD}", source=str(path))
        if "Input Shapes" not in names:
            problem = (
                "has no input shapes: profile with record_shapes=True and print "
                "key_averages(group_by_input_shape=True)"
            )
            raise DataError(f"{problem}, {_INSTEAD}", source=str(path))
        asked = [("dtype_a", "bf16"), *([("device", "H100")] if options.timed else [])]
        if unsaid := [
            f"give default {name}={one}" for name, one in asked if name not in options.defaults
        ]:
            raise DataError(
                f"states neither GPU nor number format: {' and '.join(unsaid)}, {_INSTEAD}",
                source=str(path),
            )
        first = words.count("\n", 0, head.end()) + 2
        rows = []
        for line, content in enumerate(words[head.end() :].splitlines()[1:], first):
            cells = dict(zip(names, _cells(content), strict=False))  # stacks and totals have fewer
            time = _TIME.fullmatch(cells.get(on_gpu, ""))
            # kernels are not, whose time their operators have
            shaped = cells.get("Input Shapes", "[]") != "[]"
            if shaped and time and float(time[1]) > 0:
                rows.append({LINE: line, **_row(cells, float(time[1]) * TIME_UNITS[time[2]])})
        notes = [
            Note(
                remark(
                    "mean-of-calls",
                    "times of a table of key_averages are means of calls, not medians",
                ),
                len(rows),
            )
        ]
        return RawTable(
            pd.DataFrame(rows).assign(campaign=campaign_of(path)), notes if rows else ()
        )


def _cells(line: str) -> list[str]:
    """Return the cells of a line by separators, not positions: a head longer than its column shifts those after it."""
    return re.split(" {2,}", line.strip())


def _row(cells: dict[str, str], total_us: float) -> dict[str, object]:
    """Return the row of an operator, or why it is refused."""
    name, calls, shapes = (cells.get(head, "") for head in ("Name", "# of Calls", "Input Shapes"))
    cells_common: dict[str, object] = {
        DEFECT: "unknown-operator",
        DEFECT_DETAIL: f"{name} {shapes}",
    }
    try:
        sizes = literal_eval(shapes)
        made = json.dumps(
            {"dims": sizes, "types": ["float" if size else "Scalar" for size in sizes]}
        )
        time = total_us / int(calls)
    except (
        ValueError,
        SyntaxError,
        TypeError,
        ZeroDivisionError,
        MemoryError,
        RecursionError,
    ):  # cut at 80 letters
        return cells_common | {"duration_us": total_us}
    described = describe_call(name, made)
    sized = {
        name: value for name, value in described.items() if name not in (*DTYPE_COLUMNS, "layout")
    }
    if described:
        shape = {DEFECT: "", DEFECT_DETAIL: "", **sized}
    else:
        shape = {}
    return cells_common | {"duration_us": time, "repeats": float(calls), **shape}
