"""What was read, as a document: traces and the table in numbers, findings, rows above a peak, refused rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
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
    JSON,
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
    records,
    rows,
    upcoming,
)
from .formats import NONE, counted, duration, formatted, milliseconds, share, shortened
from .layouts import laid_out

_TONES: Final[dict[str, Tone]] = {
    "error": "error",
    "warning": "warning",
    "info": "soft",
}
NOT_READ: Final = "whole modules"
"""What stands for the operator of tables whose rows have none of ours, or are of unknown kind."""
_NAMED: Final = 10  # kernels without a class that are listed
_WORDS: Final = 60  # columns for a kernel's name
_DOUBTS: Final = 2  # findings of a severity that the answer names
_KINDS: Final = 10  # operators and formats, and rejected rows, that a terminal shows
_DEVICES: Final = 2  # devices named of an operator


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
    if examples is None or examples.empty:
        refused = []
    else:
        refused = [example_table(examples)]
    if profile:
        measured = [profile_table(profile), size_table(profile)]
    else:
        measured = []
    if above_peak is not None and len(above_peak):
        measured.append(peak_table(above_peak))
    if irregular is not None and len(irregular):
        measured.append(irregular_table(irregular))
    surveyed = []
    if tables:
        surveyed = [counted_table(tables), held_table(tables), doubtful_table(tables)]
    medium: Medium = "both" if traces or profile or tables else "page"
    return Document(
        opening=[
            Headline("", *_answer(traces, profile, rejected, unreadable, tables), medium=medium)
        ],
        sections=[
            Section("Traces", [table(traces) for table in parts if traces]),
            Section("Tables", surveyed),
            Section("Measurements", measured),
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
        pair = _first_pair(tables)
        return [upcoming(f"flopcast train DATA {pair} --quick learns from some of these rows")]
    counts = sum((Counter(one.devices) for one in profile), Counter[str]())
    catalogue = {gpu.name for gpu in all_gpus()}
    gpus = [name for name, _ in counts.most_common() if name in catalogue][:2]
    paired = any(set(gpus) <= set(one.devices) for one in profile)
    steps = []
    if gpus:
        asked = _as_pair(gpus[: 1 + paired])
        steps.append(f"flopcast train DATA {asked} learns from the measurements")
    if traces:
        steps.append("flopcast project TRACE --target GPU says how long a trace takes there")
    if steps:
        return [upcoming(*steps)]
    return []


def _first_pair(tables: Sequence[Surveyed]) -> str:
    """Return options that train on the operator and engine with most rows (products first), on its two largest GPUs."""
    rows = _surveyed(one for one in tables if one.op)
    counts = rows.groupby(["op", "engine"], sort=False)["number"].sum()
    op, engine = max(counts.index, key=lambda pair: (pair[0] == "gemm", counts[pair]))
    measured = rows[rows["op"].eq(op) & rows["engine"].eq(engine)]
    devices = measured.groupby("device", sort=False)["number"].sum().nlargest(2).index
    return f"--where op={op} --where engine={engine} {_as_pair(list(devices)[::-1])}"


def _as_pair(devices: Sequence[str]) -> str:
    """Return the options for a target, the last of these, from the host before it, if there is one."""
    names = [f"'{name}'" if " " in name else name for name in devices]
    return " ".join([*(f"--host {name}" for name in names[:-1]), f"--target {names[-1]}"])


def _surveyed(tables: Iterable[Surveyed]) -> pd.DataFrame:
    """Return the number of rows of each operator, device, engine and release."""
    rows = []
    for one in tables:
        rows += [(one.op or NOT_READ, *key, number) for key, number in one.rows.items()]
    return pd.DataFrame(rows, columns=["op", "device", "engine", "release", "number"])


def _answer(
    traces: Sequence[Overview],
    profile: Sequence[Profile],
    rejected: Mapping[Any, int],
    unreadable: Sequence[str],
    tables: Sequence[Surveyed],
) -> tuple[str, str, str]:
    """Return the headline: what was read, no rival, and whether it can be used as it is."""
    measured = sum(one.rows for one in profile)
    operators = counted(len({one.op for one in profile}), "operator")
    answer = f"{counted(measured, 'measurement')} of {operators}"
    if traces:
        kernels = sum(one.activities.get(KERNEL, 0) for one in traces)
        time = duration(sum(one.kernel_us for one in traces))
        recorded = f"{counted(kernels, 'kernel')} of {counted(len(traces), 'trace')}"
        of = f"{recorded}, {time} of the GPU's time"
        if profile:
            answer = f"{of}: {answer}"
        else:
            answer = of
    if tables:
        rows = _surveyed(tables)
        times = counted(int(rows["number"].sum()), "measured time")
        gpus = counted(rows["device"].nunique(), "GPU")
        of = f"{times} in {counted(len(tables), 'table')} of {gpus}"
        if traces or profile:
            answer = f"{of}; {answer}"
        else:
            answer = of
    findings = {}
    for trace in traces:
        for one in trace.findings:
            findings.setdefault(one.code, one)
    doubts = []
    for name in ("error", "warning"):
        words = [_in_words(one) for one in findings.values() if one.severity == name]
        if words:
            doubts.append(f"{counted(len(words), name)}: {few(words, _DOUBTS)}")
    lost = sum(rejected.values())
    if lost:
        doubts.append(f"{counted(lost, 'row')} kept out")
    if unreadable:
        doubts.append(f"{counted(len(unreadable), 'file')} not read")
    if doubts:
        return answer, "", f"To look at before it is used: {'; '.join(doubts)}."
    if tables:
        return answer, "", "Rows of these tables are counted, not checked."
    return answer, "", "Nothing was kept out."


def _in_words(finding: Finding) -> str:
    """Return what was found, without what follows from it, and its code."""
    what, _, _ = str(finding.remark).partition(": ")
    return f"{what} [{finding.code}]"


def survey_json(tables: Sequence[Surveyed]) -> list[JSON]:
    """Return what tables hold as JSON types."""
    result = []
    for one in tables:
        rows = _surveyed([one]).drop(columns="op").rename(columns={"number": "rows"})
        counts = picked(one, "table", "op", "spikes", "doubles", "zeros", "apart")
        result.append({**counts, "rows": records(rows)})
    return result


def counted_table(tables: Sequence[Surveyed]) -> Table:
    """Return a row per operator: its number of GPUs, and the rows of each engine."""
    gpus = _surveyed(tables).groupby("op")["device"].nunique()
    counts = _by_engine(tables, "op").sort_values("all", ascending=False, kind="stable")
    heads = columns("operator", numbers=("GPUs", *map(str, counts)))
    return Table(heads, _counts(counts, gpus), "times by operator")


def held_table(tables: Sequence[Surveyed]) -> Table:
    """Return a row per operator and device: the rows of each engine, and its versions."""
    counts = _by_engine(tables, "op", "device")
    of_op = counts["all"].groupby(level="op").transform("sum")
    order = ["of_op", "op", "all"]
    counts = counts.assign(of_op=of_op).sort_values(order, ascending=[False, True, False])
    counts = counts.drop(columns="of_op")
    releases = _surveyed(tables).groupby("engine")["release"].unique()
    versions = "; ".join(f"{engine} {few(sorted(of), 4)}" for engine, of in releases.items())
    return Table(
        columns("operator", "device", numbers=[*map(str, counts)]),
        _counts(counts),
        "times by operator and GPU",
        f"versions: {versions}",
    )


def _by_engine(tables: Sequence[Surveyed], *keys: str) -> pd.DataFrame:
    """Return the number of rows of each key by engine, and of all."""
    counts = _surveyed(tables).pivot_table("number", list(keys), "engine", "sum")
    return counts.assign(all=counts.sum(axis=1))


def _counts(counts: pd.DataFrame, *more: pd.Series) -> tuple[Row, ...]:
    """Return rows of counts by engine behind their keys, and what stands between."""
    body = []
    for key, *numbers in counts.itertuples():
        words = key
        if isinstance(key, str):
            words = [key]
        between = (str(of_key[key]) for of_key in more)
        body.append((*words, *between, *(formatted(number, "{:,.0f}") for number in numbers)))
    return rows(body)


def doubtful_table(tables: Sequence[Surveyed]) -> Table:
    """Return a row per kind of table: how many of its rows disagree with their neighbours."""
    counted = ["spikes", "doubles", "zeros"]
    reports = []
    for one in tables:
        apart = {"apart": one.apart if one.doubles else None}
        rows_of = {"op": one.op or NOT_READ, "rows": sum(one.rows.values())}
        reports.append({**picked(one, "table", *counted), **rows_of, **apart})
    by = pd.DataFrame(reports).astype({"apart": float}).groupby(["table", "op"], sort=False)
    sums = by[["rows", *counted]].sum()
    middle = by["apart"].quantile(0.5, interpolation="higher")
    longest = sums.assign(apart=middle).sort_values(
        "rows",
        ascending=False,
        kind="stable",
    )
    return laid_out("ingest-doubtful", longest.reset_index())


def profile_json(one: Profile) -> JSON:
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
        least, median, most = one.share or [None] * 3
        shares = {"least": least, "median": median, "most": most}
        body.append({**vars(one), **shares, "time_us": one.duration_us[1]})
    return _cut(laid_out("ingest-profile", body, devices=partial(few, limit=_DEVICES)))


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
    return _cut(Table(heads, rows(body), "sizes"))


def peak_table(above: pd.DataFrame) -> Table:
    """Return the rows that are faster than a peak of their device allows, the worst first."""
    operator = (above["op"] + " " + above["dtype_a"]).str.strip()
    outcome = above["kept"].map({True: "kept", False: "kept out"})
    shown = above.assign(operator=operator, outcome=outcome)
    tone: dict[bool, Tone] = {True: "warning", False: "error"}
    return _cut(
        laid_out(
            "ingest-peaks",
            shown,
            tone=lambda row: tone[row["kept"]],
            peak=peak_name,
        )
    )


def irregular_table(irregular: pd.DataFrame) -> Table:
    """Return spikes and problems whose repeats disagree, the largest deviation first."""
    rows = irregular.to_dict("records")
    beside = [f"{times(row['factor'])} than {row['beside']}" for row in rows]
    shown = irregular.assign(beside_like=beside)
    return _cut(laid_out("ingest-irregular", shown, tone=lambda _: "warning"))


def example_table(examples: pd.DataFrame) -> Table:
    """Return the first rejected rows of each reason, with their values."""
    why = [
        _with_detail(str(row["reason"]), str(row["detail"])) for row in examples.to_dict("records")
    ]
    shown = examples.assign(why=why)
    return _cut(laid_out("ingest-examples", shown, tone=lambda _: "warning"))


def _with_detail(reason: str, detail: str) -> str:
    """Return why a row was rejected, and what of it, where that is stated."""
    text = reason_of(reason)
    if detail:
        text += f" ({shortened(detail, _WORDS)})"
    return text


def _cut(table: Table) -> Table:
    """Return a table of which a terminal shows the first rows, and how many there are more."""
    if len(table.rows) <= _KINDS:
        return replace(table, shown=_KINDS)
    more = (f"{len(table.rows) - _KINDS} more", *[""] * (len(table.columns) - 1))
    return replace(table, shown=_KINDS, rest=Row(more))


def overview_json(trace: Overview) -> JSON:
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
        kernels = trace.activities.get(KERNEL, 0)
        every = sum(trace.activities.values())
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
    by = every.groupby(["kernel_class", "op_class"], sort=False)[["count", "time_us"]]
    classes = by.sum().sort_values("time_us", ascending=False, kind="stable").reset_index()
    classes["share"] = classes["time_us"] / max(float(classes["time_us"].sum()), 1e-9)
    tones: dict[str, Tone] = {UNCLASSIFIED: "warning"}
    return laid_out(
        "ingest-classes",
        classes,
        tone=lambda row: tones.get(row["op_class"], ""),
    )


def unclassified_table(traces: Sequence[Overview]) -> Table:
    """Return the kernels without an operator class, the longest total time first."""
    heads = columns("kernel", "operator", numbers=("activities", "time, ms", "share"))
    title = "kernels without an operator class"
    parts = [trace.unclassified for trace in traces if len(trace.unclassified)]
    parts = parts or [traces[0].unclassified]
    total = max(sum(trace.kernel_us for trace in traces), 1e-9)
    by = pd.concat(parts, ignore_index=True).groupby(["name", "op_name"], sort=False)
    sums = by[["count", "duration_us"]].sum()
    kernels = sums.sort_values("duration_us", ascending=False, kind="stable")

    def numbers(count: int, time_us: float) -> tuple[str, str, str]:
        return f"{count:,}", milliseconds(time_us), share(time_us / total, 2)

    shown = []
    for names, count, time in kernels.itertuples():
        words = (shortened(str(word), _WORDS) for word in names)
        shown.append((*words, *numbers(count, time)))
    others = kernels.iloc[_NAMED:]
    figures = numbers(int(others["count"].sum()), float(others["duration_us"].sum()))
    rest = Row((f"{len(others)} more", "", *figures))
    return Table(heads, rows(shown), title, shown=_NAMED, rest=rest)


def finding_table(traces: Sequence[Overview]) -> Table:
    """Return the findings of all traces, equal codes together, the gravest first."""
    cases: dict[str, list[tuple[Overview, Finding]]] = {}
    for trace in traces:
        for finding in trace.findings:
            cases.setdefault(finding.code, []).append((trace, finding))
    total = sum(trace.kernel_us for trace in traces)
    shown = []
    for finding in by_severity([traces_of[0][1] for traces_of in cases.values()]):
        traces_of = cases[finding.code]
        count = sum(one.count for _, one in traces_of)
        where = finding.source or traces_of[0][0].label
        if len(traces_of) > 1:
            where += f"; {len(traces_of)} traces"
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
