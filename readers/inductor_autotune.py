"""What PyTorch's Inductor prints as it tunes a product: each choice of kernel with its time.

::

    AUTOTUNE mm(1024x512, 512x2048)
    strides: [512, 1], [1, 512]
    dtypes: torch.bfloat16, torch.bfloat16
      mm 0.0123 ms 100.0%
      triton_mm_12 0.0145 ms 84.8% ACC_TYPE='tl.float32', BLOCK_K=64
    SingleProcess AUTOTUNE benchmarking takes 2.3 seconds

``torch.compile(mode="max-autotune")`` (PyTorch 2.1 to 2.9) prints it in a log, behind any prefix. Times
are in the unit that they have. ``mm``, ``addmm`` (its first operand is the bias), ``bmm`` and ``baddbmm``
are read; others, such as convolutions, lack what tells their size and are refused. Strides and dtypes
are printed since 2.5: without them `Options.defaults` states ``dtype_a``. The device is not in it.

Source: https://github.com/pytorch/pytorch (BSD-3-Clause), ``torch/_inductor/select_algorithm.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ..errors import DataError
from ..operators.work import canonical_dtype
from .base import LINE, Options, is_json, register
from .files import short_lines
from .labels import TIME_UNITS
from .records import Records, Row, refused

_SNIFF: Final = re.compile(rb"AUTOTUNE \w+\(\d")
_TITLE: Final = re.compile(r"AUTOTUNE (?P<op>\w+)\((?P<shapes>[\dx, ]*)\)")
_STRIDES: Final = re.compile(r"strides: (?P<lists>\[[\d, \[\]]*\])\s*$")
_DTYPES: Final = re.compile(r"dtypes: (?P<words>[\w.,](?:[\w., ]*[\w.,])?+)\s*+$")
_CHOICE: Final = re.compile(
    r"^(?:.*\]:?)?\s*(?P<kernel>[A-Za-z_][\w:.]*) (?P<time>\d{1,12}(?:\.\d+)?(?:e-?\d{1,2})?) (?P<unit>ns|us|ms|s)"
    r" \d[\d.]*%"
)
_END: Final = "AUTOTUNE benchmarking takes"
_FIRST: Final = {
    "mm": 0,
    "bmm": 0,
    "addmm": 1,
    "baddbmm": 1,
    "int_mm": 0,
}


@register
class InductorAutotuneReader(Records):
    """Logs in which Inductor printed its choices."""

    name = "Inductor autotune log"
    mark = _SNIFF
    nothing = "holds no timed choice of Inductor"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the title of a product that is tuned."""
        return not is_json(head) and super().sniff(path, head)

    def rows(self, path: Path, options: Options) -> Iterator[Row]:
        """Yield a row for each choice of each product."""
        problem: Row | None = None
        for line_number, line in short_lines(path, max_bytes=options.table_bytes):
            title = _TITLE.search(line)
            if title:
                problem = _product(title["op"], _shapes(title["shapes"]))
            elif problem is None:
                continue
            elif _END in line:
                problem = None
            elif strides := _STRIDES.search(line):
                problem |= _layout(strides["lists"], problem)
            elif dtypes := _DTYPES.search(line):
                problem |= _formats(dtypes["words"], problem)
            elif choice := _CHOICE.match(line):
                time = float(choice["time"]) * TIME_UNITS[choice["unit"]]
                timing = {"kernel": choice["kernel"], "duration_us": time, LINE: line_number}
                yield {name: value for name, value in problem.items() if name != "first"} | timing


def _shapes(words: str) -> list[list[int]]:
    """Return the sizes of each operand: "2x3, 3x4" is [[2, 3], [3, 4]]."""
    shapes = []
    for word in words.split(","):
        sizes = word.strip().split("x")
        if all(size.isdecimal() and len(size) < 12 for size in sizes):
            shapes.append([int(size) for size in sizes])
    return shapes


def _product(name: str, shapes: list[list[int]]) -> Row:
    """Return the product of the two operands, or a defect if they do not multiply."""
    unknown = {"op": "gemm", **refused("not-a-gemm", name)}
    first = _FIRST.get(name.lstrip("_"), len(shapes))
    operands = shapes[first : first + 2]
    if len(operands) < 2 or len(operands[0]) != len(operands[1]):
        return unknown
    a, b = operands
    if len(a) not in (2, 3) or a[-1] != b[-2] or a[:-2] != b[:-2]:
        return unknown
    product: Row = {
        "op": "gemm",
        "m": a[-2],
        "n": b[-1],
        "k": a[-1],
        "variant": "",
        "first": first,
    }
    if len(a) == 3:
        product |= {"op": "batched_gemm", "batch": a[0]}
    if first:
        bias = shapes[0]
        if len(bias) > 1 and bias[-2] > 1:
            product["variant"] = "addend"
        else:
            product["variant"] = "bias"
    return product


def _layout(words: str, problem: Row) -> Row:
    """Return how both operands lie in memory: T where columns lie one after the other; a bias of stride 0."""
    lists = [re.findall(r"\d+", one) for one in re.findall(r"\[([\d, ]*)\]", words)]
    first = problem.get("first", 0)
    operands = lists[first : first + 2]
    if len(operands) < 2 or min(map(len, operands)) < 2:
        return {}
    letters = ""
    for strides in operands:
        if strides[-2] == "1" and strides[-1] != "1":
            letters += "T"
        else:
            letters += "N"
    described: Row = {"layout": letters}
    if first and len(lists[0]) > 1 and lists[0][-2] == "0":
        described["variant"] = "bias"
    return described


def _formats(words: str, problem: Row) -> Row:
    """Return the number formats of both operands, and of the result if they agree."""
    listed = [word.strip() for word in words.split(",")]
    first = problem.get("first", 0)
    operands = listed[first : first + 2]
    if len(operands) < 2:
        return {}
    try:
        a, b = (canonical_dtype(word) for word in operands)
    except DataError:
        return {"dtype_a": operands[0]}
    return {"dtype_a": a, "dtype_b": b}
