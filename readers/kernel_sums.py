"""Sums of kernels without single launches: of `nsys stats`, and of ``rocprof --stats`` and ``rocprofv3 --stats``.

::

     Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)  Name
     --------  ---------------  ---------  --------  --------  --------  --------  -----------  ------------------
         80.0           52,000         10   5,200.0   5,200.0     5,000     5,600        120.5  axpy(int, float *)

A row is a kernel with all its launches: operator ``kernel_mean``, whose time is the mean of them
(the total over the launches), ``repeats`` their number, ``counter.total_us`` the total. What was
launched when, and on how many workgroups, is not in it, so that nothing can be projected from it;
where the trace of the same recording lies beside it, that is read in its place. The device is not
in it.

Read are the report `cuda_gpu_kern_sum` (before 2022 `gpukernsum`), as text and as CSV, rocprof's
``*.stats.csv`` and rocprofv3's ``*_kernel_stats.csv``, which have the columns of sums of API calls
and are told from them by their names. Seen: nsys 2021 to 2025, ROCm 5 to 7, as documented by
their makers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pandas as pd

from ..errors import DataError
from ..operators.operators import KERNEL_MEAN
from ..remarks import remark
from ..table.measurements import COUNTER
from .base import LINE, DataFile, Note, Options, Reader, register
from .files import head, parse_csv, text
from .labels import KERNEL_ENDING, microseconds
from .records import Records, Row

_TEXT: Final = re.compile(
    r"^[ \t]*+Time ?\(%\) {2,}+Total Time ?\((?P<unit>[a-z]+)\) {2,}+Instances {2,}+.*\bName[ \t]*\r?\n"
    r"(?P<rules>[ \t]*+-[- \t]*)\r?$",
    re.MULTILINE,
)
_CSV: Final = re.compile(
    r'^"?Time ?\(%\)"?,"?Total Time ?\((?P<unit>[a-z]+)\)"?,"?Instances"?,.*\bName"?[ \t]*\r?$',
    re.MULTILINE,
)
_STATS: Final = re.compile(r'\A\ufeff?"?Name"?,"?Calls"?,"?TotalDurationNs"?,', re.IGNORECASE)
_OF_KERNELS: Final = re.compile(r"(?:(?:^|_)kernel_stats|(?<!\w)stats)\.csv(?:\.|$)", re.IGNORECASE)
_END: Final = re.compile(
    r"^[ \t]*\r?$|^(?:Processing|Generating|Exporting|SKIPPED:|NOTICE:| \*\* )", re.MULTILINE
)


@register
class KernelSumsReader(Records):
    """Sums of kernels: one row a kernel, without launches."""

    name = "sums of kernels"
    nothing = "holds no kernel"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the text of a sum; CSV belongs to the reader of the tool's traces, which hands it over."""
        return _TEXT.search(head.decode("utf-8-sig", errors="replace")) is not None

    def rows(self, path: Path, options: Options) -> Iterator[Row]:
        """Yield a row for each kernel."""
        return _rows(text(path, max_bytes=options.table_bytes), str(path))

    def notes(self, rows: pd.DataFrame) -> Sequence[Note]:
        """Return what to say of rows that are sums of kernels."""
        return [Note(_WITHOUT_LAUNCHES, len(rows))]


SUMS: Final = KernelSumsReader()
_WITHOUT_LAUNCHES: Final = remark(
    "no-dispatches",
    "sums of kernels: a row is the mean of all launches of a kernel, and no single launch is "
    "known, so that no trace can be projected or compared from them",
)


def tables_of(files: Sequence[DataFile]) -> list[tuple[Reader, DataFile]]:
    """Return the files that are sums of kernels, as CSV, each with the reader of it."""
    return [(SUMS, file) for file in files if _is_csv_sum(file.path)]


def _is_csv_sum(path: Path) -> bool:
    words = head(path).decode("utf-8-sig", errors="replace")
    if _CSV.search(words) is not None:
        return True
    return _STATS.search(words) is not None and _OF_KERNELS.search(path.name) is not None


def _rows(words: str, source: str) -> Iterator[Row]:
    """Yield the row of each kernel of the first sum of a file, with its line."""
    printed = _TEXT.search(words)
    if printed is not None:
        unit = printed["unit"]
        cells = _printed(words, printed)
    else:
        header = _CSV.search(words) or _STATS.search(words)
        assert header is not None
        unit = header.groupdict().get("unit") or "ns"
        cells = _separated(words, header, source)
    factor = microseconds(unit)
    if factor is None:
        raise DataError(f"has times in {unit}, which is no unit of time", source=source)
    for line, row in cells:
        plain = {name.partition("(")[0].strip().lower(): cell for name, cell in row.items()}
        total = _number(plain.get("total time", plain.get("totaldurationns", "")))
        calls = _number(plain.get("instances", plain.get("calls", "")))
        name = KERNEL_ENDING.sub("", plain.get("name", "").strip())
        yield {
            LINE: line,
            "op": KERNEL_MEAN,
            "variant": name,
            "kernel": name,
            "duration_us": total * factor / calls if calls > 0 else float("nan"),
            "spread_us": _number(plain.get("stddev", "")) * factor,
            "repeats": calls,
            f"{COUNTER}total_us": total * factor,
        }


def _printed(words: str, head: re.Match[str]) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield line and cells of each row of a printed table: the rules below its head are as wide as its columns."""
    names = head[0].splitlines()[0]
    rules = head["rules"]
    places = [slice(*match.span()) for match in re.finditer(r"-+", rules)]
    places[-1] = slice(places[-1].start, None)  # a name may be longer than its rule
    first = words.count("\n", 0, head.end()) + 2
    for line, content in enumerate(words[head.end() :].splitlines()[1:], first):
        if _END.match(content):
            return
        yield line, {names[place].strip(): content[place].strip() for place in places}


def _separated(
    words: str, header: re.Match[str], source: str
) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield line and cells of each row of a table as CSV, which ends at an empty line or a message."""
    end = _END.search(words, header.end() + 1)
    body = words[header.start() : end.start() if end else len(words)]
    csv = parse_csv(body, source, words.count("\n", 0, header.start()))
    table = csv.cells.to_pydict()
    for place, line in enumerate(csv.lines.tolist()):
        yield line, {name: cells[place] for name, cells in table.items()}


def _number(cell: str) -> float:
    """Return a number, printed with commas between thousands or not; NaN where it is none."""
    try:
        return float(cell.replace(",", ""))
    except ValueError:
        return float("nan")
