"""Measurements of Extra-P: its text, JSON, JSON lines, and saved experiments, of one or several parameters.

::

    PARAMETER p
    POINTS ( 8 ) ( 16 ) ( 32 )
    REGION solve
    METRIC time
    DATA 82.0 81.4
    DATA 44.5 44.6
    DATA 25.2 25.1

`scaling.terms` takes them as they are. As curves each region is a benchmark, one parameter is the size,
and the others are part of the benchmark's name. The size is the only parameter, the one that ``rename``
calls ``size``, or the one with a usual name (``p``, ``nodes``, ...). The median of repetitions counts.
Of a metric of time (by its name, or because ``rename`` calls it ``time``) the performance is its
inverse, in weak scaling times the size, since the work grows; a metric of throughput is the performance
itself, as is one that ``rename`` calls ``performance``. Other metrics, such as visits or bytes, are left
out.

Source: https://github.com/extra-p/extrap (BSD-3-Clause), ``docs/file-formats.md`` of Extra-P 4.2.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

import pandas as pd

from ..errors import DataError, few
from ..readers.base import LINE, TABLE_BYTES
from ..readers.files import WORKBOOK, content, text
from ..readers.records import number
from ..remarks import Remark, remark

SIZE = "size"
TIME = "time"
PERFORMANCE = "performance"
_TEXT: Final = re.compile(rb"(?m)\A(?:\s*+#[^\n]*+\n)*+\s*+PARAMETER[ \t]")
_JSON: Final = re.compile(rb'"(?:measurements|params|callpaths)"\s*+:|"metric"\s*+;?[:;]')
_POINT: Final = re.compile(r"\((?P<inner>(?:[^()]|\([^()]*+\))*+)\)|(?P<plain>[-+.\deE]++)")
_NUMBER: Final = re.compile(r"[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?")
_TIMES: Final = re.compile(r"(?i)time|duration|latency|elapsed|seconds")
_RATES: Final = re.compile(r"(?i)throughput|performance|\bipc\b|flops|per_s|/s$|bandwidth")
_SIZES: Final = (
    "size",
    "p",
    "n_procs",
    "procs",
    "processes",
    "ranks",
    "nodes",
    "gpus",
    "sms",
    "cus",
)
_EXPERIMENT: Final = "experiment.json"


class Value(NamedTuple):
    """What was measured of one metric of one region at one point, a value for each repetition."""

    region: str
    metric: str
    point: tuple[float, ...]
    measured: tuple[float, ...]

    @property
    def value(self) -> float:
        """The median of the repetitions."""
        return median(self.measured)


class Experiment(NamedTuple):
    """What a file of Extra-P holds."""

    parameters: tuple[str, ...]
    values: list[Value]


def is_extrap(beginning: bytes) -> bool:
    """Return whether a file's beginning is that of one of Extra-P's formats."""
    if beginning.startswith(WORKBOOK):
        return _EXPERIMENT.encode() in beginning
    if _TEXT.search(beginning):
        return True
    return beginning.lstrip()[:1] == b"{" and _JSON.search(beginning) is not None


def extrap_rows(
    path: Path, scenario: str, rename: Mapping[str, str]
) -> tuple[pd.DataFrame, tuple[Remark, ...]]:
    """Return the table of benchmark, size and performance that a file of Extra-P gives, and what was assumed.

    Raises DataError: the file breaks off or contradicts itself, no parameter is said to be the
    size, or no metric is a time or a throughput.
    """
    return rows_of(read_experiment(path), str(path), scenario, rename)


def rows_of(
    experiment: Experiment, source: str, scenario: str, rename: Mapping[str, str]
) -> tuple[pd.DataFrame, tuple[Remark, ...]]:
    """Return the table that `extrap_rows` does, of what was measured. Raises DataError as that does."""
    if not experiment.values:
        raise DataError("holds no measurement", source=source)
    place = _size_of(experiment.parameters, rename, source)
    kinds = _kinds({value.metric for value in experiment.values}, rename, source)
    rows = []
    for value in experiment.values:
        kind = kinds.get(value.metric)
        if kind is None or not value.value > 0:
            continue
        size = value.point[place]
        performance = value.value
        if kind == TIME:
            performance = 1 / value.value
            if scenario != "strong":
                performance *= size
        rows.append(
            {
                "benchmark": _named(value, experiment.parameters, place, len(kinds) > 1),
                "size": size,
                "performance": performance,
                "unit": experiment.parameters[place],
            }
        )
    if not rows:
        raise DataError("holds no measurement above zero", source=source)
    table = pd.DataFrame(rows).sort_values(["benchmark", "size"], kind="stable")
    table[LINE] = range(1, len(table) + 1)
    return table.reset_index(drop=True), _notes(experiment, kinds, scenario)


def _notes(experiment: Experiment, kinds: Mapping[str, str], scenario: str) -> tuple[Remark, ...]:
    """Return what is said of metrics that are times, and of those left out."""
    notes = []
    if TIME in kinds.values():
        work = "the size"
        if scenario == "strong":
            work = "1"
        text = f"performance is {work} over the time of each region"
        notes.append(remark("extrap-performance-of-times", text, scenario=scenario))
    others = sorted({value.metric for value in experiment.values} - kinds.keys())
    if others:
        text = f"metrics that are no time and no throughput are left out: {few(others)}"
        notes.append(remark("extrap-metrics-left-out", text, metrics=tuple(others)))
    return tuple(notes)


def _named(value: Value, parameters: tuple[str, ...], place: int, several: bool) -> str:
    """Return the name of a benchmark: its region, what else it was measured at, and its metric."""
    others = []
    for position, (name, at) in enumerate(zip(parameters, value.point, strict=True)):
        if position != place:
            others.append(f"{name}={at:g}")
    words = [value.region, *others]
    if several:
        words.append(value.metric)
    return ", ".join(words)


def _size_of(parameters: tuple[str, ...], rename: Mapping[str, str], source: str) -> int:
    """Return the place of the parameter that is the size."""
    called = [rename.get(name, name).lower() for name in parameters]
    if len(parameters) == 1:
        return 0
    for name in _SIZES:
        if called.count(name) == 1:
            return called.index(name)
    raise DataError(
        f"which of the parameters {', '.join(parameters)} is the size? give rename "
        f"{parameters[0]}=size",
        source=source,
    )


def _kinds(metrics: set[str], rename: Mapping[str, str], source: str) -> dict[str, str]:
    """Return of each metric that is one whether it is a time or a performance."""
    kinds = {}
    for metric in sorted(metrics):
        called = rename.get(metric, metric)
        if called == PERFORMANCE or _RATES.search(called):
            kinds[metric] = PERFORMANCE
        elif called == TIME or _TIMES.search(called):
            kinds[metric] = TIME
    if not kinds:
        first = min(metrics)
        raise DataError(
            f"no metric is a time or a throughput by its name ({few(sorted(metrics))}): give "
            f"rename {first}=time, or {first}=performance",
            source=source,
        )
    return kinds


def read_experiment(path: Path) -> Experiment:
    """Return what a file holds, whichever of the formats it has.

    Raises DataError: the file cannot be read, breaks off or contradicts itself.
    """
    beginning = content(path, 4)
    if beginning.startswith(WORKBOOK):
        return _of_json(_saved(path), str(path))
    words = text(path, max_bytes=TABLE_BYTES)
    if words.lstrip()[:1] == "{":
        try:
            document = json.loads(words)
        except (ValueError, RecursionError):
            return _of_lines(words, str(path))
        return _of_json(document, str(path))
    return _of_text(words, str(path))


def _saved(path: Path) -> Any:
    """Return the JSON of a saved experiment."""
    try:
        with zipfile.ZipFile(BytesIO(path.read_bytes())) as archive:
            if archive.getinfo(_EXPERIMENT).file_size > TABLE_BYTES:
                raise DataError("is larger than half a GiB once unpacked", source=str(path))
            return json.loads(archive.read(_EXPERIMENT))
    except (zipfile.BadZipFile, KeyError, ValueError, RecursionError, NotImplementedError) as error:
        raise DataError(f"is no whole experiment of Extra-P ({error})", source=str(path)) from None


def _of_text(words: str, source: str) -> Experiment:
    """Return what the text format holds."""
    parameters = list[str]()
    points = list[tuple[float, ...]]()
    values = list[Value]()
    region = ""
    metric = "time"
    place = 0
    for line_number, line in enumerate(words.split("\n"), start=1):
        tag, rest = (*line.split(None, 1), "", "")[:2]
        rest = rest.strip()
        if tag == "PARAMETER":
            parameters += rest.split()
        elif tag == "POINTS":
            points += _points(rest, len(parameters))
        elif tag == "REGION":
            region = rest
            place = 0
        elif tag == "METRIC":
            metric = rest
            place = 0
        elif tag == "DATA":
            numbers = [float(one) for one in _NUMBER.findall(rest)]
            if place >= len(points) or len(points[place]) != len(parameters) or not numbers:
                raise DataError(
                    f"a line of data for no point: {len(points)} points are given",
                    source=f"{source}:{line_number}",
                )
            values.append(Value(region, metric, points[place], tuple(numbers)))
            place += 1
    if not parameters and not values:
        raise DataError(
            "is in no format of Extra-P: give its text, which begins with PARAMETER, its JSON, "
            "its JSON lines or an experiment that it saved",
            source=source,
        )
    return Experiment(tuple(parameters), values)


def _points(words: str, count: int) -> Iterator[tuple[float, ...]]:
    """Yield the points of a line: of one parameter each number is one, of several those within brackets."""
    if count == 1:
        for one in _NUMBER.findall(words):
            yield (float(one),)
        return
    for match in _POINT.finditer(words):
        numbers = _NUMBER.findall(match["inner"] or match["plain"] or "")
        yield tuple(float(one) for one in numbers)


def _of_json(document: Any, source: str) -> Experiment:
    """Return what one of both JSON formats holds, or a saved experiment."""
    try:
        if "callpaths" in document:
            return _of_references(document)
        parameters = tuple(str(name) for name in document["parameters"])
        values = []
        for region, metrics in document["measurements"].items():
            for metric, points in metrics.items():
                for entry in points:
                    if "point" in entry:
                        point = entry["point"]
                    else:
                        point = entry["coordinate"]
                    if "values" in entry:
                        stated = entry["values"]
                    else:
                        stated = [entry["median"]]
                    values.append(_value(region, metric, point, stated, len(parameters)))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DataError(f"is no input of Extra-P ({error!r})", source=source) from None
    return Experiment(parameters, values)


def _of_references(document: Mapping[str, Any]) -> Experiment:
    """Return what the older JSON holds, whose parts refer to each other by numbers."""
    names = {}
    for kind in ("callpaths", "metrics", "parameters"):
        names[kind] = {entry["id"]: str(entry["name"]) for entry in document[kind]}
    numbers = list(names["parameters"])
    points = {}
    for entry in document["coordinates"]:
        pairs = {
            one["parameter_id"]: one["parameter_value"] for one in entry["parameter_value_pairs"]
        }
        points[entry["id"]] = [pairs[parameter] for parameter in numbers]
    stated = dict[tuple[str, str, int], list[Any]]()
    for entry in document["measurements"]:
        region = names["callpaths"][entry["callpath_id"]]
        metric = names["metrics"][entry["metric_id"]]
        stated.setdefault((region, metric, entry["coordinate_id"]), []).append(entry["value"])
    values = []
    for (region, metric, point), measured in stated.items():
        values.append(_value(region, metric, points[point], measured, len(numbers)))
    return Experiment(tuple(names["parameters"].values()), values)


def _of_lines(words: str, source: str) -> Experiment:
    """Return what lines of JSON hold, a measurement each; TaLPas parts its members by semicolons."""
    parameters: tuple[str, ...] = ()
    stated = dict[tuple[str, str, tuple[float, ...]], list[float]]()
    for line_number, line in enumerate(words.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line.replace(";", ","))
            if "params" in entry:
                at = entry["params"]
            else:
                at = entry["parameters"]
            parameters = parameters or tuple(at)
            point = [at[name] for name in parameters]
            given = entry["value"]
            if not isinstance(given, list):
                given = [given]
            region = str(entry.get("callpath", ""))
            metric = str(entry.get("metric", TIME))
            value = _value(region, metric, point, given, len(parameters))
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise DataError(
                f"is no measurement of Extra-P ({error!r})", source=f"{source}:{line_number}"
            ) from None
        stated.setdefault((region or "all", metric, value.point), []).extend(value.measured)
    values = [Value(*key, tuple(measured)) for key, measured in stated.items()]
    return Experiment(parameters, values)


def _value(region: str, metric: str, point: Any, stated: Any, count: int) -> Value:
    """Return a measured value. Raises ValueError: it is no number, or its point is of other parameters."""
    at = [number(one) for one in point]
    values = [number(one) for one in stated]
    if len(at) != count:
        raise ValueError(f"a point of {len(at)} values for {count} parameters")
    if not values:
        raise ValueError("a point without a value")
    coordinates = tuple(_finite(one) for one in at)
    return Value(region, metric, coordinates, tuple(_finite(one) for one in values))


def _finite(value: float | None) -> float:
    if value is None:
        raise ValueError("a value that is no number")
    return value
