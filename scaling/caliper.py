"""Profiles of Caliper as curves: a folder of its JSON, a file for each size.

::

    {"data": [[0, 4.5, 0], [1, 4.25, 0]], "columns": ["path", "time", "rank"],
     "column_metadata": [{"is_value": false}, {"is_value": true}, {"is_value": true}],
     "nodes": [{"label": "main", "column": "path"}, {"label": "solve", "column": "path", "parent": 0}],
     "mpi.world.size": "8"}

Caliper writes it with the output ``json-split`` (``hatchet-region-profile``), and ``cali-query -q "format
json-split" FILE.cali`` makes it of ``.cali``. Each region with the ones around it is a benchmark. The size
is the global value that ``rename`` calls ``size``, else the number of MPI ranks. Of several rows of one
region, such as ranks, the largest time counts and the least of a throughput, since the slowest decides.
See `scaling.extrap` for the use of times.

Source: https://github.com/LLNL/Caliper (BSD-3-Clause), ``src/reader/JsonSplitFormatter.cpp`` of Caliper 2.11.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pandas as pd

from ..errors import DataError, few
from ..readers.files import head, text
from ..readers.records import number
from ..remarks import Remark
from .extrap import SIZE, Experiment, Value, rows_of

_SIZES: Final = ("mpi.world.size", "jobsize", "mpi.size", "num_ranks")
_MARKS: Final = (b'"columns"', b'"column_metadata"', b'"nodes"')
_NOT_MEASURED: Final = frozenset({"rank", "mpi.rank", "nid", "path"})
_DEEPEST: Final = 1000  # regions within each other


def is_caliper(path: Path) -> bool:
    """Return whether a file is Caliper's JSON, by its content; marks may stand behind a long list of data."""
    beginning = head(path)
    if beginning.lstrip()[:1] != b"{" or b'"data"' not in beginning:
        return False
    words = text(path).encode()
    return all(mark in words for mark in _MARKS)


def caliper_rows(
    folder: Path, scenario: str, rename: Mapping[str, str]
) -> tuple[pd.DataFrame, tuple[Remark, ...]]:
    """Return the table of benchmark, size and performance of a folder of profiles, and what was assumed.

    Raises DataError: no file is Caliper's, one breaks off or does not state its size, or no metric
    is a time or a throughput.
    """
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and is_caliper(path)]
    if not files:
        raise DataError(
            'holds no JSON of Caliper: cali-query -q "format json-split" FILE.cali makes it',
            source=str(folder),
        )
    values = list[Value]()
    names = set[str]()
    for path in files:
        name, rows_of_file = _profile(path, rename)
        names.add(name)
        values += rows_of_file
    if len(names) > 1:
        raise DataError(
            f"files state their size by different values ({few(sorted(names))})", source=str(folder)
        )
    return rows_of(Experiment(tuple(names), values), str(folder), scenario, rename)


def _profile(path: Path, rename: Mapping[str, str]) -> tuple[str, list[Value]]:
    """Return the name of a file's size, and the values of each region and metric."""
    source = str(path)
    try:
        document = json.loads(text(path))
        columns = document["columns"]
        nodes = document["nodes"]
        data = document["data"]
        measured = [bool(one.get("is_value")) for one in document["column_metadata"]]
        place = columns.index("path")
        regions = _regions(nodes)
        grouped = dict[tuple[str, str], list[float]]()
        for row in data:
            for column, is_value, cell in zip(columns, measured, row, strict=True):
                value = number(cell)
                if is_value and column not in _NOT_MEASURED and value is not None and value > 0:
                    region = regions.get(row[place], "")
                    grouped.setdefault((region, column), []).append(value)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, RecursionError) as error:
        raise DataError(f"is no whole profile of Caliper ({error!r})", source=source) from None
    name = _size_name(document, rename, source)
    size = number(document[name])
    if size is None or size <= 0:
        raise DataError(f"{name} must be a number above 0, got {document[name]!r}", source=source)
    values = []
    for (region, metric), numbers in grouped.items():
        if "time" in metric:
            slowest = max(numbers)
        else:
            slowest = min(numbers)
        values.append(Value(region or "all", metric, (size,), (slowest,)))
    return name, values


def _size_name(document: Mapping[str, Any], rename: Mapping[str, str], source: str) -> str:
    """Return which global value is the size."""
    for name, ours in rename.items():
        if ours == SIZE and name in document:
            return name
    for name in _SIZES:
        if name in document:
            return name
    stated = [key for key, value in document.items() if number(value) is not None]
    raise DataError(
        f"does not state its number of ranks: give rename NAME=size, of {few(stated) or 'none'}",
        source=source,
    )


def _regions(nodes: list[Mapping[str, Any]]) -> dict[Any, str]:
    """Return the name of each node: its labels from the outermost region on, joined by slashes."""
    regions = dict[Any, str]()
    for place, node in enumerate(nodes):
        labels = [str(node["label"])]
        parent = node.get("parent")
        while parent is not None and len(labels) < _DEEPEST:
            labels.append(str(nodes[parent]["label"]))
            parent = nodes[parent].get("parent")
        regions[place] = "/".join(reversed(labels))
    return regions
