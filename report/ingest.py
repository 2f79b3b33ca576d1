"""What was read, as a document: traces and the table in numbers, findings, rows above a peak, refused rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pandas as pd

from ..errors import few
from ..hardware import all_gpus
from ..readers.aiconfigurator import Surveyed
from ..remarks import Remark
from ..table.contents import Profile
from ..table.irregular import times
from ..table.physics import peak_name
from ..table.refusals import reason_of
from ..traces.dispatches import KERNEL, Finding
from ..traces.quality import by_severity
from ..traces.summary import UNCLASSIFIED, Overview
from .document import (
    Cell,
    Column,
    Document,
    Headline,
    Lines,
    Medium,
    Row,
    Section,
    Table,
    Tone,
    columns,
    lines,
    losses,
    picked,
    rows,
    upcoming,
)
from .formats import NONE, counted, duration, milliseconds, share, shortened

_TONES: Final[dict[str, Tone]] = {"error": "error", "warning": "warning", "info": "soft"}
NOT_READ: Final = "whole modules"
"""What stands for the operator of tables whose rows have none of ours, or are of unknown kind."""
_NAMED: Final = 10  # kernels without a class that are listed
_WORDS: Final = 60  # columns for a kernel's name
_KINDS: Final = 10  # operators and formats, and rejected rows, that a terminal shows
_DEVICES: Final = 2  # devices named of an operator
_PEAK_CAPTION: Final = (
    "peak: share of a peak of the device (dense arithmetic, memory beyond the caches, caches) "
    "that the least work of "
    "a row takes; time: the median; merged: further rows of the same kernel on the same problem; "
    "spread: that of the "
    "repeats, of the time"
)
_NUMBERS: Final = ("activities", "time, ms", "share")


def ingest_document(
    traces: Sequence[Overview],
    rejected: Mapping[Any, int],
    notes: Iterable[Remark | str],
    unreadable: Sequence[str],
    *,
    profile: Sequence[Profile] = (),
    above_peak: pd.DataFrame | None = None,
    examples: pd.DataFrame | None = None,
    irregular: pd.DataFrame | None = None,
    tables: Sequence[Surveyed] = (),
    held: str = "",
    data: Mapping[str, Any] | None = None,
) -> Document:
    """Return what was read: what traces and the table hold, and what was lost (as for `losses`).

    Rows above a peak, irregular ones and the first rejected are those of `readers.Measurements`,
    `tables` what was counted of AIConfigurator's (`readers.aiconfigurator`); `held` says in words
    how many rows the table has, where no file says so.
    """
    parts = (trace_table, class_table, unclassified_table, finding_table)
    lost = losses(rejected, notes, unreadable)
    refused = []
    if examples is not None and len(examples):
        refused = [example_table(examples)]
    above = []
    if above_peak is not None and len(above_peak):
        above = [peak_table(above_peak)]
    if irregular is not None and len(irregular):
        above += [irregular_table(irregular)]
    medium: Medium = "both" if traces or profile or tables else "page"
    return Document(
        opening=[
            Headline("", *_answer(traces, profile, rejected, unreadable, tables), medium=medium)
        ],
        sections=[
            Section("Traces", [table(traces) for table in parts if traces]),
            Section(
                "Tables",
                [counted_table(tables), held_table(tables), doubtful_table(tables)]
                if tables
                else [],
            ),
            Section(
                "Measurements",
                [profile_table(profile), size_table(profile), *above] if profile else above,
            ),
            Section(
                "Rejected rows and remarks",
                [*refused, replace(lost, medium="page")],
                "data",
                "Data",
            ),
        ],
        closing=[
            lost,
            lines([held] if held and not (profile or tables) else []),
            *_next(traces, profile, tables),
        ],
        data=data or {},
    )


def _next(
    traces: Sequence[Overview], profile: Sequence[Profile], tables: Sequence[Surveyed]
) -> list[Lines]:
    """Say what the data can be used for: training on the devices with most rows, projecting a trace to another GPU."""
    if any(one.op for one in tables):
        return [
            upcoming(
                f"flopcast train DATA {_first_pair(tables)} --quick learns from some of these rows"
            )
        ]
    counts = sum((Counter(one.devices) for one in profile), Counter[str]())
    catalogue = {gpu.name for gpu in all_gpus()}
    gpus = [name for name, _ in counts.most_common() if name in catalogue][:2]
    paired = any(set(gpus) <= set(one.devices) for one in profile)
    names = [f"'{name}'" if " " in name else name for name in gpus[: 1 + paired]]
    if len(names) < 2:
        asked = ["--target", *names]
    else:
        asked = ["--host", names[0], "--target", names[1]]
    steps = []
    if names:
        steps = [f"flopcast train DATA {' '.join(asked)} learns from the measurements"]
    if traces:
        steps += ["flopcast project TRACE --target GPU says how long a trace takes there"]
    if steps:
        return [upcoming(*steps)]
    return []


def _first_pair(tables: Sequence[Surveyed]) -> str:
    """Return options that train on the operator and engine with most rows (products first), on its two largest GPUs."""
    counts = Counter[tuple[str, str, str]]()
    for one in (one for one in tables if one.op):
        for (device, engine, _), number in one.rows.items():
            counts[one.op, engine, device] += number
    engines = Counter[tuple[str, str]]()
    for (op, engine, _), number in counts.items():
        engines[op, engine] += number
    op, engine = max(engines, key=lambda pair: (pair[0] == "gemm", engines[pair]))
    measured = Counter(
        {
            device: number
            for (name, by, device), number in counts.items()
            if (name, by) == (op, engine)
        }
    )
    names = [f"'{name}'" if " " in name else name for name, _ in measured.most_common(2)]
    if len(names) < 2:
        asked = f"--target {names[0]}"
    else:
        asked = f"--host {names[1]} --target {names[0]}"
    return f"--where op={op} --where engine={engine} {asked}"


def _answer(
    traces: Sequence[Overview],
    profile: Sequence[Profile],
    rejected: Mapping[Any, int],
    unreadable: Sequence[str],
    tables: Sequence[Surveyed],
) -> tuple[str, str, str]:
    """Return the headline: what was read, no rival, and whether it can be used as it is."""
    measured = sum(one.rows for one in profile)
    answer = (
        f"{counted(measured, 'measurement')} of "
        f"{counted(len({one.op for one in profile}), 'operator')}"
    )
    if traces:
        kernels, time = (
            sum(one.activities.get(KERNEL, 0) for one in traces),
            sum(one.kernel_us for one in traces),
        )
        of = (
            f"{counted(kernels, 'kernel')} of {counted(len(traces), 'trace')}, {duration(time)} "
            "of the GPU's time"
        )
        answer = f"{of}: {answer}" if profile else of
    if tables:
        number = sum(sum(one.rows.values()) for one in tables)
        gpus = set()
        for survey in tables:
            for device, _, _ in survey.rows:
                gpus.add(device)
        devices = len(gpus)
        of = (
            f"{counted(number, 'measured time')} in {counted(len(tables), 'table')} of "
            f"{counted(devices, 'GPU')}"
        )
        answer = f"{of}; {answer}" if traces or profile else of
    severities = {}
    for trace in traces:
        for one in trace.findings:
            severities[(one.code)] = one.severity
    grave = {}
    for name in ("error", "warning"):
        grave[name] = [code for code, severity in severities.items() if severity == name]
    doubts = [
        f"{counted(len(codes), name)} ({few(codes)})" for name, codes in grave.items() if codes
    ]
    if lost := sum(rejected.values()):
        doubts += [f"{counted(lost, 'row')} kept out"]
    if unreadable:
        doubts += [f"{counted(len(unreadable), 'file')} not read"]
    none = "Nothing was kept out."
    if tables:
        none = "Rows of these tables are counted, not checked."
    return answer, "", f"To look at before it is used: {'; '.join(doubts)}." if doubts else none


def survey_json(tables: Sequence[Surveyed]) -> list[dict[str, Any]]:
    """Return what tables hold as JSON types."""
    result = []
    for one in tables:
        result.append(
            {
                **picked(one, "table", "op", "spikes", "doubles", "zeros", "apart"),
                "rows": [
                    {"device": device, "engine": engine, "release": release, "rows": rows}
                    for (device, engine, release), rows in one.rows.items()
                ],
            }
        )
    return result


def counted_table(tables: Sequence[Surveyed]) -> Table:
    """Return a row per operator: its number of GPUs, and the rows of each engine."""
    counts: dict[str, Counter[str]] = {}
    devices: dict[str, set[str]] = {}
    for one in tables:
        for (device, engine, _), number in one.rows.items():
            counts.setdefault(one.op or NOT_READ, Counter())[engine] += number
            devices.setdefault(one.op or NOT_READ, set()).add(device)
    names = set()
    for by_engine in counts.values():
        names.update(by_engine)
    engines = sorted(names)
    body = []
    for op, by_engine in sorted(counts.items(), key=lambda item: (-item[1].total(), item[0])):
        body.append(
            (
                op,
                str(len(devices[op])),
                *(f"{by_engine[one]:,}" if by_engine[one] else NONE for one in engines),
                f"{by_engine.total():,}",
            )
        )
    return Table(
        columns("operator", numbers=("GPUs", *engines, "all")), rows(body), "times by operator"
    )


def held_table(tables: Sequence[Surveyed]) -> Table:
    """Return a row per operator and device: the rows of each engine, and its versions."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    releases: dict[str, set[str]] = {}
    for one in tables:
        for (device, engine, release), number in one.rows.items():
            counts.setdefault((one.op or NOT_READ, device), Counter())[engine] += number
            releases.setdefault(engine, set()).add(release)
    engines = sorted(releases)
    totals = Counter[str]()
    for (op, _), by_engine in counts.items():
        totals[op] += by_engine.total()
    body = []
    for (op, gpu), of_gpu in sorted(
        counts.items(), key=lambda item: (-totals[item[0][0]], item[0][0], -item[1].total())
    ):
        body.append(
            (
                op,
                gpu,
                *(f"{of_gpu[engine]:,}" if of_gpu[engine] else NONE for engine in engines),
                f"{of_gpu.total():,}",
            )
        )
    versions = "; ".join(f"{engine} {few(sorted(releases[engine]), 4)}" for engine in engines)
    return Table(
        columns("operator", "device", numbers=(*engines, "all")),
        rows(body),
        "times by operator and GPU",
        f"versions: {versions}",
    )


def doubtful_table(tables: Sequence[Surveyed]) -> Table:
    """Return a row per kind of table: how many of its rows disagree with their neighbours."""
    kinds: dict[tuple[str, str], list[Surveyed]] = {}
    for one in tables:
        kinds.setdefault((one.table, one.op or NOT_READ), []).append(one)
    body = []
    for (table, op), reports in sorted(
        kinds.items(), key=lambda item: -sum(sum(one.rows.values()) for one in item[1])
    ):
        total = sum(sum(one.rows.values()) for one in reports)
        doubled = [one for one in reports if one.doubles]
        apart = None
        if doubled:
            apart = sorted(one.apart for one in doubled)[len(doubled) // 2]
        body.append(
            (
                table,
                op,
                f"{total:,}",
                f"{sum(one.spikes for one in reports):,}",
                f"{sum(one.doubles for one in reports):,}",
                NONE if apart is None else f"{apart:.2f}",
                f"{sum(one.zeros for one in reports):,}",
            )
        )
    caption = (
        "spikes: over 1.3 times slower, or faster, than both neighbours in the size that changes; "
        "doubles: rows of a "
        "problem that the table has more than once with one kernel; apart: the greatest of their "
        "times by the least "
        "(the middle of the tables); zeros: times of zero or below, kept out when they are read"
    )
    heads = columns("table", "operator", numbers=("rows", "spikes", "doubles", "apart", "zeros"))
    return Table(heads, rows(body), "irregular", caption)


def profile_json(one: Profile) -> dict[str, Any]:
    """Return the profile of an operator and number format as JSON types."""
    ranges = {"duration_us": one.duration_us, "share_of_peak": one.share}
    return {
        **picked(one, "op", "dtype", "rows", "duplicates"),
        "devices": dict(one.devices),
        "sizes": {name: {"min": low, "max": high} for name, (low, high) in one.sizes.items()},
        **{
            name: None if three is None else dict(zip(("min", "median", "max"), three, strict=True))
            for name, three in ranges.items()
        },
        "repeats": one.repeats,
        "spread": one.spread,
        "missing": dict(one.missing),
    }


def profile_table(profile: Sequence[Profile]) -> Table:
    """Return a row per operator and number format: its rows, and how close they come to the peaks."""
    body = []
    for one in profile:
        body.append(
            (
                one.op,
                one.dtype or NONE,
                few(one.devices, _DEVICES),
                f"{one.rows:,}",
                f"{one.duplicates:,}",
                duration(one.duration_us[1]),
                *(share(part) for part in one.share or [None] * 3),
                f"{one.repeats:,.0f}",
                share(one.spread),
            )
        )
    numbers = ("rows", "merged", "time", "peak: least", "median", "most", "repeats", "spread")
    return Table(
        columns("operator", "format", "devices", numbers=numbers),
        rows(body),
        "measurements",
        _PEAK_CAPTION,
        shown=_KINDS,
        rest=_more(body),
    )


def size_table(profile: Sequence[Profile]) -> Table:
    """Return the range of every dimension, and the columns in which rows have no value."""
    body = []
    for one in profile:
        sizes = (
            f"{name} {low:,.0f}" + (f"–{high:,.0f}" if high > low else "")
            for name, (low, high) in one.sizes.items()
        )
        lacking = (
            f"{name} {'all' if count == one.rows else f'{count:,}'}"
            for name, count in one.missing.items()
        )
        body.append((one.op, one.dtype or NONE, ", ".join(sizes), few(lacking, _NAMED)))
    heads = columns("operator", "format", prose=["sizes", "without a value"])
    return Table(heads, rows(body), "sizes", shown=_KINDS, rest=_more(body))


def peak_table(above: pd.DataFrame) -> Table:
    """Return the rows that are faster than a peak of their device allows, the worst first."""
    body = []
    for row in above.to_dict("records"):
        body.append(
            Row(
                (
                    *(str(row[name]) for name in ("source", "device")),
                    f"{row['op']} {row['dtype_a']}".strip(),
                    duration(row["duration_us"]),
                    share(row["share"], 0),
                    peak_name(row["peak"]),
                    "kept" if row["kept"] else "kept out",
                ),
                "warning" if row["kept"] else "error",
            )
        )
    heads = (
        Column("source", "place", least=24),
        *columns("device", "operator", numbers=("time", "of the peak")),
    )
    title = "rows above a peak of their device"
    rest = _more([row.cells for row in body])
    return Table((*heads, *columns("peak", "row")), body, title, shown=_KINDS, rest=rest)


def irregular_table(irregular: pd.DataFrame) -> Table:
    """Return spikes and problems whose repeats disagree, the largest deviation first."""
    body = []
    for row in irregular.to_dict("records"):
        body.append(
            (
                *(row[name] for name in ("source", "device", "op")),
                duration(row["duration_us"]),
                f"{times(row['factor'])} than {row['beside']}",
            )
        )
    heads = (
        Column("source", "place"),
        *columns("device", "operator", numbers=("time",), prose=["beside its like"]),
    )
    return Table(heads, rows(body, "warning"), "irregular rows", shown=_KINDS, rest=_more(body))


def example_table(examples: pd.DataFrame) -> Table:
    """Return the first rejected rows of each reason, with their values."""
    body = [
        (
            str(row["source"]),
            f"{reason_of(str(row['reason']))} ({shortened(str(row['detail']), _WORDS)})",
            str(row["values"]),
        )
        for row in examples.to_dict("records")
    ]
    heads = (Column("source", "place"), *columns(prose=["reason", "values"]))
    title = "first rejected rows of each reason"
    return Table(heads, rows(body, "warning"), title, shown=_KINDS, rest=_more(body))


def _more(body: Sequence[Sequence[object]]) -> Row | None:
    """Return how many rows a terminal leaves out."""
    if len(body) > _KINDS:
        return Row((f"{len(body) - _KINDS} more", *[""] * (len(body[0]) - 1)))
    return None


def overview_json(trace: Overview) -> dict[str, Any]:
    """Return what a trace holds as JSON types."""
    findings = [
        {
            "code": finding.code,
            "severity": finding.severity,
            "message": str(finding.remark),
            **picked(finding, "count", "share", "source"),
        }
        for finding in trace.findings
    ]
    return {
        "source": trace.label,
        "devices": list(trace.devices),
        **picked(trace, "activities", "linked", "kernel_us", "busy_us", "span_us"),
        "classes": trace.classes.to_dict("records"),
        "unclassified": trace.unclassified.to_dict("records"),
        "findings": findings,
        "notes": [*map(repr, trace.notes)],
    }


def trace_table(traces: Sequence[Overview]) -> Table:
    """Return one row per trace."""
    numbers = ("kernels", "copies", "linked", "kernel, ms", "busy, ms", "span, ms")
    body = []
    for trace in traces:
        kernels, every = trace.activities.get(KERNEL, 0), sum(trace.activities.values())
        times = (milliseconds(time) for time in (trace.kernel_us, trace.busy_us, trace.span_us))
        device = ", ".join(device or "not stated" for device in trace.devices) or NONE
        linked = share(trace.linked / every if every else None, 0)
        body.append((trace.label, device, f"{kernels:,}", f"{every - kernels:,}", linked, *times))
    return Table(
        (Column("source", "place", least=24), *columns("device", numbers=numbers)),
        rows(body),
        "traces",
    )


def class_table(traces: Sequence[Overview]) -> Table:
    """Return the time by operator class, all traces together."""
    every = pd.concat([trace.classes for trace in traces], ignore_index=True)
    classes = (
        every.groupby(["kernel_class", "op_class"], sort=False)[["count", "time_us"]]
        .sum()
        .reset_index()
    )
    classes = classes.sort_values("time_us", ascending=False, kind="stable")
    total = max(float(classes["time_us"].sum()), 1e-9)
    shown = [
        Row(
            (str(kernels), str(op), *_numbers(count, time, total)),
            "warning" if op == UNCLASSIFIED else "",
        )
        for kernels, op, count, time in classes.itertuples(index=False)
    ]
    return Table(columns("class", "operators", numbers=_NUMBERS), shown, "operator classes")


def unclassified_table(traces: Sequence[Overview]) -> Table:
    """Return the kernels without an operator class, the longest total time first."""
    parts = [trace.unclassified for trace in traces if len(trace.unclassified)]
    if parts:
        every = pd.concat(parts, ignore_index=True)
    else:
        every = pd.DataFrame()
    total = max(sum(trace.kernel_us for trace in traces), 1e-9)
    shown, rest = [], None
    if len(every):
        kernels = (
            every.groupby(["name", "op_name"], sort=False)[["count", "duration_us"]]
            .sum()
            .reset_index()
        )
        kernels = kernels.sort_values("duration_us", ascending=False, kind="stable")
        for name, op, count, time in kernels.itertuples(index=False):
            words = (shortened(str(word), _WORDS) for word in (name, op))
            shown.append((*words, *_numbers(count, time, total)))
        others = kernels.iloc[_NAMED:]
        figures = _numbers(int(others["count"].sum()), float(others["duration_us"].sum()), total)
        rest = Row((f"{len(others)} more", "", *figures))
    heads = columns("kernel", "operator", numbers=_NUMBERS)
    return Table(heads, rows(shown), "kernels without an operator class", shown=_NAMED, rest=rest)


def finding_table(traces: Sequence[Overview]) -> Table:
    """Return the findings of all traces, equal codes together, the gravest first."""
    cases: dict[str, list[tuple[Overview, Finding]]] = {}
    for trace in traces:
        for finding in trace.findings:
            cases.setdefault(finding.code, []).append((trace, finding))
    first = {code: traces_of[0][1] for code, traces_of in cases.items()}
    total = sum(trace.kernel_us for trace in traces)
    shown = []
    for finding in by_severity(list(first.values())):
        traces_of = cases[finding.code]
        count = sum(trace_finding.count for _, trace_finding in traces_of)
        where = f"{finding.source or traces_of[0][0].label}" + (
            f"; {len(traces_of)} traces" if len(traces_of) > 1 else ""
        )
        severity = Cell(finding.severity, _TONES[finding.severity])
        kernel_us = [
            trace.kernel_us * one.share for trace, one in traces_of if one.share is not None
        ]
        of_time = share(sum(kernel_us) / total if kernel_us and total else None)
        shown.append((severity, finding.code, f"{count:,}", of_time, f"{finding.remark} ({where})"))
    heads = columns(
        "severity", "code", numbers=("count", "of GPU time"), prose=["what, and where first"]
    )
    return Table(heads, rows(shown), "findings")


def _numbers(count: int, time_us: float, total_us: float) -> tuple[str, str, str]:
    """Return a number of activities, their time in ms, and its share."""
    return f"{count:,}", milliseconds(time_us), share(time_us / total_us, 2)
