"""Runs, traces, tables, projections or forecasts side by side, as documents: what differs, and where from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import pandas as pd

from ..errors import DataError
from ..evaluation.campaigns import LEAST
from ..evaluation.paired import PairedDifference, SchemeComparison
from ..output import SCHEMA
from ..projection.comparison import FASTER, LEVEL, REMOVED, SAME, SLOWER, TraceChanges
from ..table.measurements import quantity
from . import figures
from .document import (
    JSON,
    Bar,
    Bars,
    Cell,
    Column,
    Document,
    Figure,
    Headline,
    Line,
    Lines,
    Listing,
    Row,
    Section,
    Table,
    columns,
    lines,
    picked,
    records,
    remarked,
    rows,
    upcoming,
    warned,
)
from .formats import (
    NONE,
    between,
    counted,
    duration,
    figure,
    formatted,
    has_value,
    number,
    percent,
    share,
    shortened,
    significant,
)
from .layouts import laid_out
from .predictions import workload
from .run_folder import Metrics, simplest
from .training import answer, asked, by_part, left_out, metric, title
from .wording import wording

DRAWN: Final = 20  # answers that a figure compares
NOT_MEASURED: Final = "not measured since the correction"
_SINCE: Final = ("e_out", "interval", "level", "rows", "groups")
"""What a corrected run says of its error since."""
# rows of a table on a terminal
_GROUPS = 10
_MODELS = 12


def runs_document(
    names: tuple[str, str],
    metrics: tuple[Metrics, Metrics],
    schemes: Sequence[SchemeComparison],
    common: int,
) -> Document:
    """Return two runs side by side, for terminal, page and machines, with the number of rows that both predicted."""
    asked = settings(*metrics)
    heads = []
    data = []
    for one in schemes:
        said = sentence(one, names, metrics)
        if one.paired is None:
            heads.append(Headline(left_out(one.scheme), "cannot be compared", "", said))
        else:
            first, second = _delivered(one.scheme, one.paired, metrics)
            now, rival = f"{names[1]}: {second[1]}", f"{names[0]}: {first[1]}"
            heads.append(Headline(left_out(one.scheme), now, rival, said))
        since = []
        for run in metrics:
            chosen = _selection(run, one.scheme)
            stated = None
            if chosen.get("as_trained"):
                stated = {key: chosen.get(key) for key in _SINCE}
            since.append(stated)
        data.append(
            {
                "scheme": one.scheme,
                "selected": list(one.names),
                "since_correction": since,
                "paired": one.paired and {**vars(one.paired), "apart": one.paired.apart},
                "statement": said,
                "models": records(one.by_model),
                "groups": records(one.by_group),
            }
        )
    changed = [Row(row) for row in asked if row[1] != row[2]]
    equal = [Row(row) for row in asked if row[1] == row[2]]
    heading = "Settings and data that differ"
    shared = _settings(equal, names, "", folded=counted(len(equal), "equal setting"))
    sections = [
        Section(
            heading,
            [_settings(changed, names, "settings and data that differ")],
            "settings",
            "Settings",
        ),
        *(_scheme(one, names, metrics) for one in schemes if one.paired is not None),
        Section("What both runs share", [shared]),
    ]
    leads = [f"{title(one['data'])}, {metric(one['data'])}" for one in metrics]
    keys = ("setting", "first", "second")
    return Document(
        title=f"{names[0]} and {names[1]}",
        lead="; ".join(dict.fromkeys(leads)),
        opening=[*heads, _before_corrections(names, metrics), lines_of_missing(metrics, common)],
        sections=sections,
        closing=[upcoming(_choice(names, metrics, schemes))],
        offer="--out FOLDER writes the page",
        data=_compared(
            names,
            "runs",
            common_rows=common,
            settings=[dict(zip(keys, row, strict=True)) for row in asked],
            schemes=data,
        ),
    )


def _selection(metrics: Metrics, scheme: str) -> Metrics:
    """Return what a run selected under a scheme; nothing of a scheme that it lacks."""
    for cv in metrics.get("cv") or []:
        if cv["scheme"] == scheme:
            return cv.get("selected") or {}
    return {}


def _delivered(
    scheme: str, paired: PairedDifference, metrics: tuple[Metrics, Metrics]
) -> list[tuple[float, str]]:
    """Return the error of each of two runs, NaN where unknown, and what it is.

    That of the rows that both predicted; of a run that was corrected that which it states since.
    """
    errors = []
    for run, of_common in zip(metrics, (paired.first, paired.second), strict=True):
        chosen = _selection(run, scheme)
        if not chosen.get("as_trained"):
            errors.append((of_common, percent(of_common)))
        elif chosen.get("e_out") is None:
            errors.append((math.nan, NOT_MEASURED))
        else:
            error = float(chosen["e_out"])
            errors.append((error, f"{percent(error)}, since its correction"))
    return errors


def _choice(
    names: tuple[str, str], metrics: tuple[Metrics, Metrics], schemes: Sequence[SchemeComparison]
) -> str:
    """Say which run to predict with: the one with the smaller error under every scheme in which the two differ."""
    if any(one.get("correction") for one in metrics):
        return (
            "flopcast check each on the same new rows: what a corrected run errs by since was "
            "measured on other rows"
        )
    if all(one.paired is None for one in schemes):
        return "predict the same rows with both runs, and compare the files of predictions"
    differences = [
        one.paired.difference for one in schemes if one.paired is not None and one.paired.apart
    ]
    if not differences:
        return "either run will do, or more measured rows tell them apart"
    better = [names[difference < 0] for difference in differences]
    if len(set(better)) == 1:
        return (
            f"flopcast predict {better[0]} NEW.csv{asked(metrics[names.index(better[0])]['data'])}"
        )
    return "predict with the run that errs less on rows like yours"


def sentence(
    one: SchemeComparison, names: tuple[str, str], metrics: tuple[Metrics, Metrics]
) -> str:
    """Return what the paired test says of the models that two runs selected, and corrected ones since."""
    paired = one.paired
    if paired is None:
        return (
            "No row was predicted by both: the two errors are of different data and cannot be "
            "compared row by row."
        )
    what = f"On the {counted(paired.rows, 'common row')} in {counted(paired.groups, 'group')}"
    if paired.campaigns is not None:
        what += f" of {counted(paired.campaigns, 'campaign')}"
    each = []
    since = []
    for name, model, error, run in zip(
        names, one.names, (paired.first, paired.second), metrics, strict=True
    ):
        selected = _selection(run, one.scheme)
        trained = ""
        if selected.get("as_trained"):
            trained = ", as trained,"
            since.append(f"{name}: {answer({'scheme': one.scheme, 'selected': selected})} ")
        each.append(f"{model} of {name}{trained} errs by {percent(error)}")
    return f"{''.join(since)}{what} {' and '.join(each)}: {difference(paired)}."


def difference(paired: PairedDifference) -> str:
    """Return the difference of two errors with its interval, its p-value and what they come to.

    >>> difference(PairedDifference(9, 3, None, 5.0, 4.0, -1.0, -1.5, -0.4, 0.02, 0.95))
    '1.0 points less (95 % interval -1.5 to -0.4, p = 0.02), more than chance'
    """
    size = f"{abs(paired.difference):.1f} points {'less' if paired.difference < 0 else 'more'}"
    if paired.lower is None or paired.upper is None or paired.p_value is None:
        unit = "campaign"
        if paired.campaigns is None:
            unit = "group"
        return f"{size}, of one {unit}: nothing is known of chance"
    reach = (
        f"{100 * paired.level:g} % interval {paired.lower:.1f} to {paired.upper:.1f}, p = "
        f"{paired.p_value:.2g}"
    )
    verdict = "a coin toss"
    if paired.campaigns is not None and paired.campaigns < LEAST:
        verdict = f"cannot tell from {counted(paired.campaigns, 'campaign')}"
    if paired.apart:
        verdict = "more than chance"
    return f"{size} ({reach}), {verdict}"


def settings(first: Metrics, second: Metrics) -> list[tuple[str, str, str]]:
    """Return the settings of both runs, as (setting, first, second)."""
    one = _facts(first)
    other = _facts(second)
    return [(name, one.get(name, NONE), other.get(name, NONE)) for name in {**one, **other}]


def _facts(metrics: Metrics) -> dict[str, str]:
    """Return setting -> value of a run, without what older runs did not record."""
    data = metrics.get("data") or {}
    made = metrics.get("provenance") or {}
    facts: JSON = {
        "prediction": title(data),
        "metric": data.get("metric"),
        "rows": data.get("n"),
        "groups": data.get("groups"),
        "features": data.get("features_available"),
        "training data (SHA-256)": str(data.get("sha256") or "")[:12] or None,
        "saved model": (metrics.get("model") or {}).get("name"),
        "for": left_out((metrics.get("model") or {}).get("scheme") or "") or None,
        "corrected afterwards by": metrics.get("correction")
        and "{factor:.3f} [{lower:.3f}, {upper:.3f}]".format(**metrics["correction"]),
        "command": made.get("command"),
        "conditions": ", ".join(made.get("where") or []) or None,
        "seed": made.get("seed"),
        "date": made.get("date"),
        **{f"file {one['name']}": one["sha256"][:12] for one in made.get("files") or []},
        **{
            f"version of {name}": version
            for name, version in (metrics.get("versions") or {}).items()
        },
    }
    for cv in metrics.get("cv") or []:
        where = left_out(cv["scheme"])
        rule = simplest(cv) or {}
        facts[f"folds, {where}"] = cv.get("folds")
        facts[f"selected, {where}"] = (cv.get("selected") or {}).get("name")
        facts[f"honest error, {where}"] = _honest_error(cv.get("selected") or {})
        facts[f"by part, {where}"] = by_part(cv) or None
        if rule:
            facts[f"best simple rule, {where}"] = (
                f"{rule.get('name')}: {percent(rule.get('e_out'))}"
            )
        else:
            facts[f"best simple rule, {where}"] = None
    return {
        name: f"{value:,}" if isinstance(value, int) else str(value)
        for name, value in facts.items()
        if has_value(value)
    }


def _honest_error(chosen: Metrics) -> str | None:
    """Return the honest error of a selection, since the correction if there was one."""
    if chosen.get("e_out") is not None:
        return percent(chosen["e_out"])
    if chosen.get("as_trained"):
        return NOT_MEASURED
    return None


def _before_corrections(names: tuple[str, str], metrics: tuple[Metrics, Metrics]) -> Lines:
    """Say which errors of rows that both predicted out of sample are those before a correction."""
    said = []
    for name, one in zip(names, metrics, strict=True):
        correction = one.get("correction")
        if correction:
            factor = f"{correction['factor']:.3f}"
            said.append(
                f"{name} was corrected by {factor} since: its errors on common rows, by model and "
                "group, are those before."
            )
    return lines(said, tone="warning")


def lines_of_missing(metrics: tuple[Metrics, Metrics], common: int) -> Lines:
    """Say how many rows both runs share, unless they share all."""
    counts = [int((one.get("data") or {}).get("n") or 0) for one in metrics]
    if not common or all(count == common for count in counts):
        return Lines([])
    return Lines(
        [Line(f"{common:,} rows are in both runs, of {counts[0]:,} and {counts[1]:,}.", "soft")]
    )


def _settings(
    body: Sequence[Row],
    names: tuple[str, str],
    heading: str,
    folded: str = "",
) -> Table:
    medium: Any = "page" if folded else "both"
    heads = columns("setting", prose=names)
    return Table(heads, body, heading, folded=folded, medium=medium)


def _scheme(
    one: SchemeComparison, names: tuple[str, str], metrics: tuple[Metrics, Metrics]
) -> Section:
    """Show the errors of every model and of every group under a scheme."""
    where = left_out(one.scheme)
    numbers = (f"{names[0]}, %", f"{names[1]}, %", "difference")
    ranked = one.by_model.sort_values(["first", "second"], kind="stable").to_dict("records")
    models = [
        Row((str(row["model"]), *_figures(row)), "strong" if row["model"] in one.names else "")
        for row in ranked
    ]
    groups = [
        (str(row["group"]), f"{row['rows']:,}", *_figures(row))
        for row in one.by_group.to_dict("records")
    ]
    caption = (
        "E_out of the common rows, %, and the second minus the first, points. – : not in that "
        "run, or left early"
    )
    differing = one.by_group[one.by_group["difference"].notna()].head(DRAWN)
    names_of = differing["group"].astype(str).tolist()
    unknown = [(math.nan, math.nan)] * len(differing)
    points = f"error of {names[1]} minus that of {names[0]}, points"
    drawn = Figure(
        partial(figures.changes, names_of, differing["difference"].tolist(), unknown, points),
        f"To the left the groups in which {names[1]} errs less",
    )
    parts = [
        *([drawn] if names_of else []),
        Table(
            columns("model", numbers=numbers),
            models,
            f"{where}: models",
            caption,
            shown=_MODELS,
            name=f"models-{one.scheme}",
        ),
        Table(
            columns("group", numbers=("rows", *numbers)),
            rows(groups),
            f"{where}: groups, the selected models",
            shown=_GROUPS,
            name=f"groups-{one.scheme}",
        ),
    ]
    return Section(
        f"{where.capitalize()}: by model and group", parts, f"cv-{one.scheme}", where.capitalize()
    )


def _figures(row: Mapping[Any, Any]) -> Iterator[str | Cell]:
    yield from (number(row[name]) for name in ("first", "second"))
    change = row["difference"]
    tone: Any = (
        "" if not has_value(change) or abs(change) < 0.05 else "good" if change < 0 else "warning"
    )
    yield Cell(f"{round(change, 2) + 0.0:+.2f}" if has_value(change) else NONE, tone)


PARTS: Final = wording("comparing-parts")
"""Part of a difference of two traces (`projection.comparison.PARTS`) -> words."""
_TONES: Final[dict[str, Any]] = {
    FASTER: "good",
    REMOVED: "soft",
    SLOWER: "warning",
    SAME: "",
}
# rows of a table on a terminal; columns of a name there
_CALLS = 15
_NAME = 44


def traces_document(changes: TraceChanges) -> Document:
    """Return two traces side by side, for terminal, page and machines."""
    before = changes.before
    after = changes.after
    names = before.label, after.label
    head = Headline(
        "end to end" + (", a step" if before.steps else ""),
        f"{after.label}: {duration(after.total_us)}",
        f"{before.label}: {duration(before.total_us)}",
        trace_sentence(changes),
    )
    changed = {PARTS[name]: value for name, value in changes.parts.items() if value}
    unknown = [(math.nan, math.nan)] * len(changed)
    values = [value / 1e3 for value in changed.values()]
    drawn = Figure(
        partial(figures.changes, [*changed], values, unknown, "change, ms"),
        "Where the difference comes from: to the left what became shorter",
    )
    numbers = ("calls", "calls after", "time, µs", "after, µs", "change, µs", "per call")
    kernels = (Column(f"kernel, {name}", "kernel") for name in names)
    heads = (Column("outcome"), Column("call", "cut"), *columns(numbers=numbers), *kernels)
    texts = [call_row(row, None) for row in changes.calls.to_dict("records")]
    shown = []
    for row in changes.calls.head(_CALLS).to_dict("records"):
        outcome, *cells = call_row(row, _NAME)[:-2]
        shown.append(Row((outcome, *cells), _TONES.get(outcome, "")))
    parts = [
        (name, signed(value, significant), f"{100 * value / before.total_us:+.1f} %")
        for name, value in changed.items()
    ]
    numbers = ("change, µs", "of the first")
    made = Table(columns("where the difference comes from", numbers=numbers), rows(parts))
    both = Table(heads[:-2], shown, "calls that changed most", medium="terminal")
    listing = Listing(
        heads,
        lambda: list(zip(*texts, strict=True)) or [[]],
        "calls",
    )
    calls = []
    for call in records(changes.calls):
        calls.append({name: value for name, value in call.items() if has_value(value)})
    return Document(
        title=f"{before.label} and {after.label}",
        lead=times_text(changes),
        opening=[*warned(changes.notes), head],
        offer="--out FOLDER writes a page with every call",
        sections=[
            Section("Difference, part by part", [*([drawn] if changed else []), made]),
            Section("Every call", [listing, both], "calls", "Calls"),
            Section("Remarks", [Lines(remarked(changes.notes), "list")]),
        ],
        data=_compared(
            names,
            "traces",
            before=vars(before),
            after=vars(after),
            change_us=changes.change_us,
            interval_us=changes.interval_us and list(changes.interval_us),
            parts_us=changes.parts,
            notes=[*map(repr, changes.notes)],
            statement=trace_sentence(changes),
            calls=calls,
        ),
    )


def _operators(operators: pd.DataFrame) -> Iterator[JSON]:
    """Yield the rows of a comparison of tables, the most problems first, with ``formats`` in words and ``apart``."""
    for row in records(operators.sort_values("problems", ascending=False, kind="stable")):
        formats = "/".join(dict.fromkeys(filter(None, (row["dtype_a"], row["dtype_b"]))))
        formats = " ".join(filter(None, (formats, row["scale_block"])))
        apart = None
        if has_value(row["lower"]):
            apart = row["lower"] > 1 or row["upper"] < 1
        yield {**row, "formats": formats, "apart": apart}


def _estimated(row: Mapping[Any, Any], name: str) -> str:
    """Return an estimate, or with its sign a difference of two, with its unit."""
    value = row[name]
    size = duration(abs(value))
    if row["unit"] != "us":
        size = f"{figure(abs(value))} {quantity('_' + row['unit']).unit}"
    if name in ("first", "second"):
        return size
    return f"{'-' if value < 0 else '+'}{size}"


def tables_document(names: tuple[str, str], operators: pd.DataFrame, level: float) -> Document:
    """Return two tables of measurements side by side, for terminal, page and machines."""
    each = list(_operators(operators))
    apart = [row for row in each if row["apart"]]
    said = [
        f"{row['op']} {row['formats']} takes {row['ratio']:.3g} times as long" for row in apart[:5]
    ]
    answer = "No operator is shown to have changed."
    if said:
        answer = f"{'; '.join(said)}."
    table = laid_out("compare-operators", each, {"level": f"{100 * level:g}"})
    count = f"{len(apart)} of {len(operators)}"
    check = f"flopcast check RUN {names[1]} says whether a run still holds"
    return Document(
        title=f"{names[0]} and {names[1]}",
        lead=f"{counted(int(operators['problems'].sum()), 'problem')} in common",
        opening=[Headline("operators that changed", count, "", answer)],
        sections=[Section("By operator", [table])],
        closing=[upcoming(f"{check}; train again where it does not")],
        data=_compared(names, "tables", operators=records(operators)),
    )


def _compared(names: Sequence[str], kind: str, **more: Any) -> JSON:
    """Return what was compared, for machines."""
    return {"schema": SCHEMA, "kind": kind, "names": list(names), **more}


def estimates_document(
    names: tuple[str, str], kind: str, estimates: pd.DataFrame, level: float
) -> Document:
    """Return two projections or sets of forecasts side by side, for terminal, page and machines."""
    sure = f"{100 * level:g} % interval"
    numbers = (*names, "second / first", sure, "difference", f"its {sure}", "shared errors")
    heads = (Column(kind.removesuffix("s"), "cut"), *columns(numbers=numbers))
    each = records(estimates)
    cells = []
    for row in each:
        values = (_estimated(row, name) for name in ("first", "second"))
        ratio = f"{row['ratio']:.3f}", between(row["ratio_lower"], row["ratio_upper"])
        reach = f"{_estimated(row, 'lower')} … {_estimated(row, 'upper')}"
        apart = _estimated(row, "difference"), reach, share(row["shared"], 0)
        cells.append((str(row["what"]), *values, *ratio, *apart))
    first = each[0]
    reach = f"{sure} {between(first['ratio_lower'], first['ratio_upper'])}"
    verdict = "within the errors of both"
    if first["apart"]:
        verdict = "more than the errors of both"
    answer = f"{first['what']}: {first['ratio']:.3f} times the first ({reach}), {verdict}."
    caption = (
        "intervals of the second against the first; shared errors: share of their variance that "
        "is of one law, release or figure on one GPU, which moves both alike and so cancels"
    )
    table = Table(heads, rows(cells), "answer by answer", caption, shown=20)
    times = _estimated(first, "second"), _estimated(first, "first")
    return Document(
        title=f"{names[0]} and {names[1]}",
        lead=kind,
        opening=[Headline(str(first["what"]), *times, answer)],
        sections=[Section("Answer by answer", [_ratios(estimates, names), table])],
        offer="--out FOLDER writes the page",
        data=_compared(names, kind, level=level, statement=answer, answers=each),
    )


def _ratios(estimates: pd.DataFrame, names: tuple[str, str]) -> Figure:
    """Draw by how much the second's answers differ from the first's, the first ones of many."""
    shown = estimates.head(DRAWN)
    values = 100 * (shown["ratio"] - 1)
    lower = 100 * (shown["ratio_lower"] - 1)
    upper = 100 * (shown["ratio_upper"] - 1)
    work = partial(
        figures.changes,
        [str(what) for what in shown["what"]],
        values.tolist(),
        list(zip(lower, upper, strict=True)),
        f"{names[1]} against {names[0]}, %",
    )
    return Figure(work, f"By how much {names[1]} differs from {names[0]}, with intervals")


@dataclass(frozen=True)
class Answer:
    """A compared figure: its value and text on each side, and the change from first to second in words.

    A value that is unknown is NaN.
    ``apart`` is whether they differ by more than chance, or than the errors of both; None where
    that is unknown.
    """

    first: tuple[float, str]
    second: tuple[float, str]
    against: str
    apart: bool | None


Answers = Mapping[str, Answer]  # what a figure is -> it, the most important first


def answers_of_runs(
    schemes: Sequence[SchemeComparison], metrics: tuple[Metrics, Metrics]
) -> Answers:
    """Return the errors of the models that two runs selected, by scheme; of corrected runs those since."""
    answers = {}
    for one in reversed(schemes):  # groups that nobody measured first
        pair = one.paired
        if pair is None:
            continue
        (error, text), (error_then, text_then) = _delivered(one.scheme, pair, metrics)
        first = (error, f"{text} ({one.names[0]})")
        second = (error_then, f"{text_then} ({one.names[1]})")
        against = ""
        apart = None
        if not any(_selection(run, one.scheme).get("as_trained") for run in metrics):
            against = f"{pair.difference:+.1f} points"
            if pair.lower is not None:
                against += f" ({pair.lower:+.1f} to {pair.upper:+.1f})"
                apart = pair.apart
        answers[f"error, {left_out(one.scheme)}"] = Answer(first, second, against, apart)
    return answers


def answers_of_traces(changes: TraceChanges) -> Answers:
    """Return the times of two traces: end to end, of all activities, and busy."""
    sides = changes.before, changes.after
    apart = None
    if changes.interval_us is not None:
        low, high = changes.interval_us
        apart = low > 0 or high < 0
    read = {"end to end": "total_us", "activities": "kernels_us", "busy": "busy_us"}
    step = ""
    if sides[0].steps:
        step = ", a step"
    made = {}
    for what, name in read.items():
        one, other = (float(getattr(side, name)) for side in sides)
        size = signed(other - one)
        if one:
            size += f" ({100 * (other / one - 1):+.1f} %)"
        clear = None
        if name == "kernels_us":
            clear = apart
        made[what + step] = Answer(
            (one, duration(one)),
            (other, duration(other)),
            size,
            clear,
        )
    return made


def answers_of_tables(operators: pd.DataFrame) -> Answers:
    """Return how the times of each operator changed between two tables, the most problems first."""
    made = {}
    for row in _operators(operators):
        what = " ".join(
            filter(None, (row["op"], row["formats"], f"on {row['device']}", "/ the first"))
        )
        reach = f"{between(row['lower'], row['upper'])} of {counted(row['problems'], 'problem')}"
        made[what] = Answer(
            (1.0, "1"),
            (row["ratio"], f"{row['ratio']:.3f}"),
            reach,
            row["apart"],
        )
    return made


def answers_of_estimates(estimates: pd.DataFrame) -> Answers:
    """Return the answers that two projections, or two sets of forecasts, have in common."""
    made = {}
    for row in records(estimates):
        first, second = ((row[side], _estimated(row, side)) for side in ("first", "second"))
        reach = f"{row['ratio']:.3f} times ({between(row['ratio_lower'], row['ratio_upper'])})"
        # fields that both sides share
        alike = [one for one in str(row["what"]).split(", ") if "→" not in one]
        what = ", ".join(alike) or f"answer {len(made) + 1}"
        if what in made:
            what += f" ({len(made) + 1})"
        made[what] = Answer(first, second, reach, row["apart"])
    return made


def several_document(
    names: Sequence[str], answers: Sequence[Answers], pairs: Sequence[Document]
) -> Document:
    """Return three or more side by side, each of the others against the first, for terminal, page and machines."""
    figures = [part for part in answers[0] if all(part in other for other in answers)]
    if not figures:
        raise DataError(
            f"{', '.join(names)}: no row, problem or answer is common to all of them: nothing is "
            "compared"
        )
    bars = list[Bars]()
    body = list[Row]()
    machine = list[JSON]()
    for what in figures:
        each = [other[what] for other in answers]
        first, text = each[0].first
        values = [first, *(one.second[0] for one in each)]
        largest = max([value for value in values if has_value(value)], default=0.0) or 1.0
        of_figure = [_bar(names[0], first, largest, text)]
        body.append(Row((what, names[0], text, "", "")))
        for name, one in zip(names[1:], each, strict=True):
            value, text = one.second
            of_figure.append(_bar(name, value, largest, text, apart=one.apart))
            cells = (what, name, text, one.against, _APART[one.apart])
            body.append(Row(cells, "strong" if one.apart else ""))
            answer = {"what": what, "name": name, "value": value, "first": first}
            machine.append({**answer, **picked(one, "against", "apart")})
        bars.append(Bars(what, of_figure))
    lead = [(name, other[figures[0]]) for name, other in zip(names[1:], answers, strict=True)]
    said = []
    for state, apart in _APART.items():
        agreeing = [name for name, one in lead if one.apart is state]
        if agreeing:
            said.append(f"{apart}: {', '.join(agreeing)}")
    answer = "; ".join(f"{name}: {one.second[1]}" for name, one in lead)
    heads = (
        Column("figure"),
        Column("of", "cut"),
        Column("is", "number"),
        *columns("against the first", "that is"),
    )
    caption = ""
    if pairs[0].data["kind"] == "runs":
        caption = (
            "on the rows that all of them predicted; since a correction, on those of the check"
        )
    table = Table(heads, body, "figure by figure", caption, shown=20)
    sections = [Section("Side by side", [table])]
    for place, (name, pair) in enumerate(zip(names[1:], pairs, strict=True), 1):
        for one in pair.sections:
            anchor = f"{place}-{one.anchor or one.heading.lower().replace(' ', '-')}"
            parts = []
            for part in one.parts:
                if isinstance(part, Table | Listing) and part.name:
                    part = replace(part, name=f"{part.name}-{place}")
                parts.append(part)
            link = f"{name}: {one.link or one.heading}"
            sections.append(Section(f"{name}: {one.heading}", parts, anchor, link))
    first = f"{names[0]}: {answers[0][figures[0]].first[1]}"
    return Document(
        title=", ".join(names),
        lead=pairs[0].lead,
        opening=[
            Headline(
                figures[0],
                answer,
                first,
                f"{'; '.join(said)}.",
            ),
            *bars[:_SMALL],
        ],
        sections=sections,
        offer="--out FOLDER writes the page, each pair in full",
        data=_compared(
            names, "several", answers=machine, pairs=[dict(pair.data) for pair in pairs]
        ),
    )


def _bar(name: str, value: float, largest: float, text: str, *, apart: bool | None = None) -> Bar:
    """Return the bar of a figure; one of no length where it is unknown."""
    length = 0.0
    if has_value(value):
        length = value / largest
    if apart:
        return Bar(name, length, text, "accent")
    return Bar(name, length, text)


_APART: Final[dict[bool | None, str]] = {
    True: "more than chance",
    False: "cannot be told apart",
    None: "chance is unknown",
}
"""`Answer.apart` -> what that comes to."""
_SMALL: Final = 9  # figures that a page draws as bars


def trace_sentence(changes: TraceChanges) -> str:
    """Say by how much the second trace is longer or shorter, and which parts contribute most."""
    change = changes.change_us
    if not change:
        return "Both take the same time."
    way = "more"
    if change < 0:
        way = "less"
    size = f"{duration(abs(change))} {way} ({100 * change / changes.before.total_us:+.1f} %)"
    same = {name: value for name, value in changes.parts.items() if value * change > 0}
    largest = sorted(same, key=lambda name: -abs(same[name]))[:2]
    sentence = (
        f"{size}, first of all by "
        f"{' and '.join(f'{PARTS[name]} ({signed(same[name])})' for name in largest)}"
    )
    if changes.interval_us is None:
        return f"{sentence}. One run of each: what of it is noise is unknown."
    low, high = (signed(value) for value in changes.interval_us)
    return f"{sentence}. The activities of a step take {low} to {high} more ({100 * LEVEL:g} % interval)."


def times_text(changes: TraceChanges) -> str:
    """Say how many steps, and which of their activities, are compared."""
    sides = []
    for one in (changes.before, changes.after):
        steps = ""
        if one.steps:
            steps = f"{counted(one.steps, 'step')}, "
        times = f"activities {duration(one.kernels_us)}, busy {duration(one.busy_us)}"
        sides.append(f"{one.label}: {steps}{times}")
    return "; ".join(sides)


def signed(value: float, form: Callable[[float], str] = duration) -> str:
    """Return a time difference (µs) with its sign; ``form`` formats its magnitude.

    >>> signed(-1234.5), signed(2.0), signed(2.0, significant)
    ('-1.234 ms', '+2 µs', '+2.000')
    """
    return f"{'-' if value < 0 else '+'}{form(abs(value))}"


def call_row(row: Mapping[Any, Any], width: int | None) -> tuple[str, ...]:
    """Return a kind of call in words: its change, its name, its kernels, counts and times."""
    kernels = [
        str(row[name]) if has_value(row[name]) else NONE for name in ("kernel", "kernel_after")
    ]
    name = kernels[kernels[0] == NONE]
    if row["op"] not in ("", "kernel"):
        name = workload(row)
    if width is not None:
        name = shortened(name, width)
    counts = (f"{row[name]:,.4g}" for name in ("count", "count_after"))
    times = (significant(row[name]) for name in ("time_us", "time_us_after"))
    change = signed(row["change_us"], significant), formatted(row["ratio"], "{:.3f}")
    return str(row["outcome"]), name, *counts, *times, *change, *kernels
