"""rccl-tests and nccl-tests where they write no table for people: JSON and CSV. Times are microseconds.

- rccl-tests ``-Z json -x FILE`` (2.12 to 2.27): a JSON object a line for each way of each size, with
  ``name``, ``size``, ``type``, ``redop``, ``inPlace``, ``gpus``, ``time``, ``algBw``, ``busBw``, ``#wrong``;
- rccl-tests ``-Z csv -x FILE``: the same names as columns, with ``nodes`` and ``ranks``;
- nccl-tests ``-J FILE`` (2.17): an object with ``config``, ``devices`` and ``results``, of which each has
  ``out_of_place`` and ``in_place``;
- wrappers' "nccl-tests structured output": sizes as keys, ``oop_time`` and ``ip_time``.

Names are looked up without regard to case and underscores. Each time is a row, as in the table for
people (`readers.rccl_tests`); where neither the file nor its name says the collective, or its ranks,
`Options.defaults` states ``variant`` and ``ranks``.

Source: ``src/common.cu`` of https://github.com/ROCm/rccl-tests and https://github.com/NVIDIA/nccl-tests
(both BSD-3-Clause).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ..errors import DataError
from .base import LINE, MOST_RANKS, Options, RawTable, Reader, is_json, register
from .files import csv_header, text
from .rccl_tests import IN_PLACE, Log, Run, collective_of, measurements
from .records import Row, csv_records, json_records, number, refused

_LINES: Final = re.compile(rb'(?m)^(?=[^\n]*"algBw"\s*+:)(?=[^\n]*"busBw"\s*+:)')
_NCCL: Final = re.compile(
    rb'"nccl-tests structured output"|"oop_(?:time|algbw)"\s*:'
    rb'|"(?:out_of_place|in_place)"\s*:\s*\{[^{}]*"(?:alg|bus)_?bw"'
)
_COLUMNS: Final = frozenset({"size", "type", "time", "algbw", "busbw"})
_WAYS: Final = (
    ("", ("out_of_place", "oop")),
    (IN_PLACE, ("in_place", "ip")),
)
_WORDS: Final = re.compile(r"([a-z])([A-Z])")


class _Structured(Reader):
    """Records of timings in place of a table for people; JSON that has the mark, where they are not CSV."""

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise JSON with what each record has."""
        return is_json(head) and super().sniff(path, head)

    def timings(self, words: str, source: str) -> Iterator[tuple[int, Row, Run]]:
        """Yield line, values and run of each size."""
        raise NotImplementedError

    def read(self, path: Path, options: Options) -> RawTable:
        """Return a row for each time; wrong results are refused."""
        log = Log(runs=[])
        for line, values, run in self.timings(text(path, max_bytes=options.table_bytes), str(path)):
            if not log.runs or log.runs[-1] is not run:
                log.runs.append(run)
            row: Row = {name: str(value) for name, value in values.items() if value is not None}
            row |= refused("", "")
            if number(values.get("size")) is None:
                row |= refused("not-a-run", str(values)[:80])
            log.rows.append(row | {LINE: line, "run": len(log.runs) - 1})
        if not log.rows:
            raise DataError("holds no timing", source=str(path))
        return measurements(
            log, collective_of(path.name) or options.defaults.get("variant", ""), path
        )


@register
class RcclJsonReader(_Structured):
    """JSON of rccl-tests: a record for each way of each size."""

    name = "rccl-tests JSON"
    mark = _LINES

    def timings(self, words: str, source: str) -> Iterator[tuple[int, Row, Run]]:
        """Yield both ways of each size together."""
        yield from _paired(json_records(words, source))


@register
class RcclCsvReader(_Structured):
    """CSV of rccl-tests: a line for each way of each size."""

    name = "rccl-tests CSV"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the columns."""
        names = {_plain(name) for name in csv_header(head)}
        return names >= _COLUMNS and "inplace" in names

    def timings(self, words: str, source: str) -> Iterator[tuple[int, Row, Run]]:
        """Yield both ways of each size together."""
        yield from _paired(csv_records(words, source))


@register
class NcclJsonReader(_Structured):
    """JSON of nccl-tests: a record for each size, with both ways in it."""

    name = "nccl-tests JSON"
    mark = _NCCL

    def timings(self, words: str, source: str) -> Iterator[tuple[int, Row, Run]]:
        """Yield each size."""
        for _, report in json_records(words, source):
            if not isinstance(report, Mapping):
                continue
            run = _run_of(report)
            for place, record in enumerate(_sizes(report), start=1):
                yield place, _both_ways(record), run


def _plain(name: object) -> str:
    """Return a name without case, blanks and underscores: "algbw" for "algBw" and "alg_bw"."""
    return str(name).strip().lower().replace("_", "").removeprefix("#")


def _paired(records: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Row, Run]]:
    """Yield records of one way each as pairs, where the second follows the first."""
    runs = dict[tuple[str, ...], Run]()
    pending: tuple[int, Row, Run] | None = None
    for line, record in records:
        values = _values(record)
        run = _same_run(values, runs)
        way = ""
        if str(values.get("inplace", "0")).lower() in ("1", "true", "yes"):
            way = IN_PLACE
        timing = {f"{way}time": values.get("time"), f"{way}wrong": values.get("wrong")}
        problem = {name: values.get(name) for name in ("size", "type", "redop")}
        if pending is not None:
            together = pending[1]
            same = all(together.get(name) == value for name, value in problem.items())
            if same and pending[2] is run and f"{way}time" not in together:
                yield pending[0], together | timing, run
                pending = None
                continue
            yield pending
        pending = (line, problem | timing, run)
    if pending is not None:
        yield pending


def _values(record: Any) -> Row:
    """Return the values of a record under their plain names."""
    if not isinstance(record, Mapping):
        return {}
    return {_plain(name): value for name, value in record.items()}


def _same_run(values: Mapping[str, Any], runs: dict[tuple[str, ...], Run]) -> Run:
    """Return the run of a record: its collective, and the number of GPUs and nodes."""
    key = tuple(
        str(values.get(name, "")) for name in ("name", "gpus", "ranks", "gpusperrank", "nodes")
    )
    if key not in runs:
        gpus = number(values.get("gpus"))
        processes = number(values.get("ranks"))
        if gpus is None and processes is not None:
            gpus = processes * (number(values.get("gpusperrank")) or 1)
        runs[key] = _run(
            str(values.get("name", "")),
            gpus,
            number(values.get("nodes")),
            set(),
        )
    return runs[key]


def _run(
    name: str,
    gpus: float | None,
    nodes: float | None,
    devices: set[str],
) -> Run:
    """Return a run of a collective on so many GPUs."""
    spelled = _WORDS.sub(r"\1_\2", name)
    run = Run(collective_of(spelled), devices=devices)
    if gpus is not None and 0 < gpus <= MOST_RANKS:
        run.ranks = {("0", str(rank)) for rank in range(int(gpus))}
    if nodes is not None and 0 < nodes <= MOST_RANKS:
        run.hosts = {str(node) for node in range(int(nodes))}
    return run


def _run_of(report: Mapping[str, Any]) -> Run:
    """Return the run of a report: collective, ranks, hosts and GPUs."""
    config = report.get("config")
    if isinstance(config, Mapping):
        stated = dict(config)
    else:
        stated = {}
    stated = {**{str(name): value for name, value in report.items()}, **stated}
    devices = set[str]()
    hosts = set[str]()
    listed = report.get("devices")
    if not isinstance(listed, list):
        listed = stated.get("devices")
    ranks = None
    if isinstance(listed, list) and listed:
        entries = [entry for entry in listed if isinstance(entry, Mapping)]
        ranks = float(len(entries))
        for entry in entries:
            devices.add(str(entry.get("device_info", "")))
            hosts.add(str(entry.get("hostname", "")))
    name = ""
    for key in ("collective", "test", "name", "command", "argv", "args"):
        value = stated.get(key)
        if isinstance(value, list):
            words = value
        else:
            words = [value]
        for word in words[:100]:
            if isinstance(word, str) and not name:
                name = collective_of(_WORDS.sub(r"\1_\2", word.rpartition("/")[2]))
    for key in ("ngpus", "nranks", "ranks", "num_ranks"):
        if ranks is None:
            ranks = number(stated.get(key))
    if hosts:
        nodes = float(len(hosts))
    else:
        nodes = number(stated.get("num_nodes"))
    return _run(name, ranks, nodes, devices)


def _sizes(report: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the record of each size, whether sizes are values or keys."""
    results = report.get("results")
    if isinstance(results, list):
        yield from results
    by_size = report.get("benchmark")
    if isinstance(by_size, Mapping):
        by_size = [by_size]
    if not isinstance(by_size, list):
        return
    for entry in by_size:
        if not isinstance(entry, Mapping):
            continue
        for size, record in entry.items():
            if isinstance(record, Mapping):
                yield {"size": size, **record}


def _both_ways(record: Any) -> Row:
    """Return the values of a size under the names of the table for people."""
    if not isinstance(record, Mapping):
        return {}
    row = {name: record.get(name) for name in ("size", "type", "redop")}
    for prefix, (nested, short) in _WAYS:
        inner = record.get(nested)
        values = _values(inner)
        if not isinstance(inner, Mapping):
            values = {
                _plain(name).removeprefix(short): value
                for name, value in record.items()
                if str(name).startswith(f"{short}_")
            }
        row[f"{prefix}time"] = values.get("time")
        wrong = values.get("wrong", values.get("nwrong", values.get("error")))
        row[f"{prefix}wrong"] = wrong
    return row
