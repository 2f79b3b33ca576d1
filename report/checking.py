"""The documents of `check`, `advise` and `curve`: does a run still hold, what to measure next, and how much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from ..evaluation.checking import EACH, MATERIAL_ERROR, Checked, Outcome, Part, material_shift
from ..evaluation.verdicts import ALPHA, MIN_GROUPS, MIN_ROWS, MOST_TIMES
from ..hardware import Comparison
from ..output import SCHEMA
from ..report import figures
from ..table.measurements import DTYPE_COLUMNS, quantity
from .document import (
    Cell,
    Chart,
    Column,
    Document,
    Fact,
    Facts,
    Figure,
    Headline,
    Line,
    Lines,
    Listing,
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
from .figures import BASELINE, GRID, NEUTRAL, SELECTED, THRESHOLDS, dots, farthest, styled
from .formats import (
    NONE,
    clock,
    counted,
    escape,
    figure,
    formatted,
    number,
    percent,
    share,
    significant,
)
from .predictions import stated_error, workload
from .static_figures import Drawing
from .training import left_out, metric, title

_TONES: Final[dict[Outcome, Tone]] = {
    Outcome.VALID: "good",
    Outcome.SHIFTED: "warning",
    Outcome.RETRAIN: "error",
    Outcome.UNDECIDED: "warning",
    Outcome.TOO_FEW: "soft",
    Outcome.TRAINED: "warning",
}
_ALL_TRAINED: Final = "the run was trained on all of these rows: they say nothing about new ones"
_ROWS: Final = "rows"  # the name of their table, to which the figure's points lead
_SHOWN: Final = 8  # groups on a terminal
_MANY_TIMES: Final = 1_000  # from which on a ratio of errors is not said more exactly


@dataclass(frozen=True)
class CheckFacts:
    """What was checked against which data, and what of these was left out.

    ``host`` measured the features, ``trained_host`` did in training. Where they differ and the data
    hold both, ``other_e_out`` and ``own_e_out`` are the errors from either, on the ``common_rows``
    that both measured. ``factor`` is that of an earlier correction of the run, whose rows out of
    sample are those before it.
    """

    run: str
    model: str
    host: str | None
    trained_host: str | None
    target: str
    trained_target: str
    metric: str
    level: float
    trained_rows: int
    all_trained: bool
    not_predicted: Mapping[str, int]
    rejected: Mapping[str, int]
    rejected_at: Mapping[str, str]
    notes: Sequence[str]
    common_rows: int = 0
    other_e_out: float | None = None
    own_e_out: float | None = None
    saved: str | None = None
    unsaved: str | None = None  # where it would have been saved, had it been shifted
    factor: float | None = None

    @property
    def before(self) -> str:
        """What the errors out of sample of the run are, where it was corrected since."""
        if self.factor is None:
            return ""
        return f", before it was corrected by {self.factor:.2f}"


_NEXT: Final = {
    Outcome.VALID: "flopcast predict RUN NEW.csv goes on with the run",
    Outcome.SHIFTED: "the same command with --corrected FOLDER saves the run corrected by the factor",
    Outcome.RETRAIN: "flopcast train on the old rows and the new ones",
    Outcome.UNDECIDED: "measure more rows, of more groups, and check again",
    Outcome.TOO_FEW: "measure more rows, of more groups, and check again",
    Outcome.TRAINED: "flopcast check RUN NEW.csv with rows that it was not trained on",
}


def _next(outcome: Outcome, facts: CheckFacts) -> str:
    """Return the command to run next; a run is never corrected from another GPU, nor if it covers many GPUs."""
    if outcome is Outcome.SHIFTED and facts.target != facts.trained_target:
        return f"multiply what it says of {facts.target} by the factor, or train with these rows"
    return _NEXT[outcome]


def check_document(
    checked: Checked, table: pd.DataFrame, facts: CheckFacts, learnt: Document | None = None
) -> Document:
    """Return what new measurements say of a run, for terminal, page and machines.

    ``table`` holds the rows scored; ``learnt`` is the learning curve of another target than the
    run's.
    """
    outcome = f"{verdict(checked)}."
    tone = _TONES[checked.outcome]
    answer = Lines([Line(outcome, tone)], "answer", medium="terminal")
    sentences = reasons(checked, facts)
    if learnt is not None:
        sentences.append(anew(learnt.data, max(row["rows"] for row in learnt.data["curve"])))
    why = Lines([Line(f"{said}.") for said in sentences], "answer")
    closing = []
    if facts.unsaved:
        unsaved = f"{facts.unsaved} is not written: a factor corrects only a run that is shifted."
        closing.append(lines([unsaved], tone="warning"))
    if not facts.saved:
        closing.append(upcoming(_next(checked.outcome, facts)))
    devices = " → ".join(name for name in (facts.host, facts.target) if name)
    ratios = Figure(
        partial(_ratios, table, checked, facts.metric),
        "Observed / predicted of every row; band: the shift",
        _ROWS,
    )
    curves = Figure(
        partial(_curves, table, checked),
        f"Share of rows within an error: new rows, and out of sample{facts.before}",
    )
    new = percent(checked.score.e_out)
    expected = percent(checked.expected.e_out)
    scored = "the new"
    if facts.all_trained:
        scored = "these"
    promised = f"on {left_out(checked.scheme)} of its training it erred by {expected}{facts.before}"
    if checked.stated is not None:
        promised = f"of rows like these it states {stated_error(checked.stated._asdict())}"
    once = ""
    if checked.corrected is not None:
        once = f", once corrected by {percent(checked.corrected.e_out)}"
    beneath = f"On {scored} rows the run errs by {new}{once}; {promised}."
    return Document(
        title=f"Does the run still hold? {devices}",
        lead=f"{facts.run}: {facts.model}, {quantity(facts.metric).label}",
        opening=[
            Headline("", outcome, beneath=beneath, medium="page"),
            answer,
            Facts(
                [
                    Fact(f"{checked.score.n:,}", "new rows"),
                    Fact(str(checked.groups), f"groups, {checked.known_groups} of them trained"),
                    *_campaigns(checked),
                    Fact(
                        share(checked.out_of_range / checked.score.n), "outside the trained range"
                    ),
                ]
            ),
            why,
        ],
        sections=[
            Section(
                "Errors beside those out of sample",
                [_scores(checked, facts), curves],
                "errors",
                "Errors",
            ),
            Section(
                "Shift by class",
                [
                    ratios,
                    _rows(table, facts.metric),
                    _parts(checked.classes, "class", len(checked.classes)),
                ],
                "shift",
                "Classes",
            ),
            Section(
                "Shift by group", [_parts(checked.by_group, "group", _SHOWN)], "groups", "Groups"
            ),
            *(learnt.sections if learnt is not None else ()),
            Section("What was left out", [_lost(checked, facts)], "data", "Data"),
        ],
        closing=closing,
        data=_json(checked, facts) | ({"anew": learnt.data} if learnt is not None else {}),
    )


def _campaigns(checked: Checked) -> list[Fact]:
    if checked.campaigns is None:
        return []
    label = f"campaigns, beside {checked.trained_campaigns} trained"
    return [Fact(str(checked.campaigns), label)]


def verdict(checked: Checked) -> str:
    """Return the verdict in words."""
    return {
        Outcome.VALID: "still valid",
        Outcome.SHIFTED: f"shifted by {checked.shift}: correct it",
        Outcome.RETRAIN: "no longer valid: retrain",
        Outcome.UNDECIDED: f"cannot tell whether it is still valid within {share(checked.margin, 0)}: {_open(checked)}",
        Outcome.TOO_FEW: f"too few data: {MIN_ROWS} rows and {MIN_GROUPS} groups {_that_count(checked)} are needed",
        Outcome.TRAINED: f"proves nothing: {_ALL_TRAINED}",
    }[checked.outcome]


def _that_count(checked: Checked) -> str:
    """Say which rows count for the verdict."""
    if checked.nothing_promised:
        return "within the trained range, of which the run promises something,"
    return "within the trained range"


def _open(checked: Checked) -> str:
    if checked.more_groups is None:
        return f"{MOST_TIMES} times as many groups like these would not settle it{_in_campaigns(checked)}"
    return f"measure about {counted(checked.more_groups, 'group')} more like these"


def _in_campaigns(checked: Checked) -> str:
    """Say how many campaigns the groups come from, if that is why the verdict is open."""
    if checked.campaigns is None:
        return ""
    new = counted(checked.campaigns, "campaign")
    return f", as they are of {new}, and {checked.trained_campaigns} were trained"


def reasons(checked: Checked, facts: CheckFacts) -> list[str]:
    """Return the reasons of the verdict, and how much another host costs."""
    said = []
    test = checked.corrected_coverage
    lie = "of the rows lie"
    errs = "the run errs"
    if checked.corrected is not None:
        lie = "of the corrected rows lie"
        errs = "once corrected, the run errs"
    if checked.shift is not None and checked.outcome is not Outcome.SHIFTED:
        shift = checked.shift
        said.append(
            f"observed / predicted is {shift} in the median ({100 * shift.level:.1f} % interval)"
        )
    if test is not None:
        said.append(
            f"{100 * test.coverage:.1f} % {lie} inside their {100 * test.level:g} % intervals "
            f"(binomial test with {test.rows:.0f} independent rows: p = {test.p_value:.2g})"
        )
    if checked.without_interval:
        count = counted(checked.without_interval, "row")
        said.append(f"{count} of {checked.score.n} have no interval: nothing was promised of them")
    if checked.nothing_promised:
        count = counted(checked.nothing_promised, "row")
        said.append(
            f"the run states no error of {count} without interval: they do not count for the "
            "verdict; train on such groups"
        )
    if checked.growth is not None:
        growth = checked.growth
        against = f"out of sample{facts.before}"
        if checked.growth_of_stated and checked.stated is not None:
            against = f"it states of rows like these, {stated_error(checked.stated._asdict())}"
        if growth.lower > _MANY_TIMES:
            said.append(f"{errs} more than {_MANY_TIMES:,} times as much as {against}")
        else:
            said.append(
                f"{errs} {growth.value:.2f} times as much as {against} (at least {growth.lower:.2f})"
            )
    if facts.target != facts.trained_target:
        said.append(
            f"the run was trained for {facts.trained_target}; these rows are {facts.target}'s"
        )
    trained = Comparison.of_names(facts.trained_host, facts.trained_target)
    if facts.host != facts.trained_host and not trained.has_many_hosts:
        replaced = f"from {facts.host} in place of {facts.trained_host} the error is"
        if facts.other_e_out is not None and facts.own_e_out is not None:
            instead = f"{facts.other_e_out:.1f} % instead of {facts.own_e_out:.1f} %"
            said.append(f"{replaced} {instead} on {facts.common_rows} workloads of both")
        else:
            expected = f"out of sample it was {checked.expected.e_out:.1f} %{facts.before}"
            said.append(f"{replaced} {checked.score.e_out:.1f} %; {expected}")
    if checked.beyond is not None:
        said.append(
            f"{checked.out_of_range} of {checked.score.n} rows lie outside the trained range (error "
            f"{checked.beyond.e_out:.1f} %): they do not count for the verdict"
        )
    return said


def _scores(checked: Checked, facts: CheckFacts) -> Table:
    """Return the errors of the new rows, what is stated of rows like these, and those of the run out of fold."""
    named = {"new rows": checked.score}
    if checked.corrected is not None:
        named["new rows, once corrected"] = checked.corrected
    named[f"{left_out(checked.scheme)}, out of sample{facts.before}"] = checked.expected
    cells: list[tuple[str, ...]] = [
        (
            name,
            f"{one.n:,}",
            number(one.e_out),
            number(one.median_ape),
            *map(number, one.ir.values()),
            formatted(one.kendall, "{:.3f}"),
            share(one.coverage),
        )
        for name, one in named.items()
    ]
    if checked.stated is not None:
        unstated = [NONE] * (len(checked.score.ir) + 3)
        count = f"{checked.stated.rows:,}"
        error = number(checked.stated.error)
        cells.insert(-1, ("stated of rows like these", count, error, *unstated))
    heads = (
        "rows",
        "E_out, %",
        "median, %",
        *(f"IR {limit}" for limit in checked.score.ir),
        "Kendall",
        "covered",
    )
    caption = "IR T: share of rows within T %, in %. Kendall's tau: order preserved, 1 = wholly"
    return Table(
        columns("", numbers=heads), rows(cells), "errors beside those out of sample", caption
    )


def _rows(table: pd.DataFrame, metric: str) -> Listing:
    """List every row as the figure draws it, and where it was read."""
    numbers = (
        Column(name, "number", unit=quantity(metric).unit) for name in ("observed", "predicted")
    )
    heads = (
        *columns("group", "class"),
        *numbers,
        Column("observed / predicted", "number"),
        Column("file and line", "place"),
    )

    def texts() -> list[list[str]]:
        ratio = table["observed"] / table["predicted"]
        shown = table.assign(ratio=ratio)
        forms = {"group": str, "class": str} | dict.fromkeys(
            ("observed", "predicted", "ratio"), figure
        )
        return [[*map(form, shown[name])] for name, form in (forms | {"source": str}).items()]

    folded = f"All {counted(len(table), 'row')} as a table: search, sort, download"
    return Listing(heads, texts, _ROWS, folded=folded)


def _parts(parts: Sequence[Part], kind: str, shown: int) -> Table:
    cells = [
        (
            part.name,
            f"{part.rows:,}",
            Cell(str(part.shift), "accent" if part.shift.excludes(1) else "")
            if part.shift
            else f"{part.ratio:.2f}",
            number(part.e_out),
            share(part.coverage),
        )
        for part in parts
    ]
    heads = columns(
        kind,
        numbers=("rows", f"observed / predicted [{share(1 - ALPHA, 0)}]", "E_out, %", "covered"),
    )
    title, how = {
        "class": ("classes", "groups drawn with replacement"),
        "group": ("groups, the most shifted first", "the sign test of its rows"),
    }[kind]
    caption = f"median with its interval ({how}); without one: too few data"
    return Table(heads, rows(cells), title, caption, shown)


def _lost(checked: Checked, facts: CheckFacts) -> Lines:
    said = losses(facts.rejected, facts.notes, first=facts.rejected_at).lines
    unable = facts.not_predicted.items()
    left = [
        Line(f"{counted(count, 'row')} not predicted: {why}", "warning") for why, count in unable
    ]
    if facts.trained_rows and not facts.all_trained:
        left.append(
            Line(
                f"{counted(facts.trained_rows, 'row')} left out: the run was trained on them",
                "soft",
            )
        )
    rule = (
        f"The rule: each of three tests at {share(EACH, 2)}; a shift counts from "
        f"{percent(100 * material_shift(checked.margin))} on, whatever the margin, a "
        f"larger error from {MATERIAL_ERROR:g} times on; still valid: the shift is shown, at "
        f"{share(ALPHA, 0)}, to lie "
        f"within {share(checked.margin, 0)}; groups are drawn with replacement on both sides."
    )
    return Lines([*left, *said, Line(rule, "soft")], "list")


def _json(checked: Checked, facts: CheckFacts) -> dict[str, Any]:
    """Return the result for machines; keys are stable within a schema, a figure that does not exist is null."""
    other_host = None
    if facts.host != facts.trained_host:
        errors = {"e_out": facts.other_e_out, "own_e_out": facts.own_e_out}
        other_host = {"rows": facts.common_rows, **errors}
    return {
        "schema": SCHEMA,
        **picked(facts, "run", "model", "host", "trained_host", "target", "trained_target"),
        **picked(facts, "metric", "level"),
        **vars(checked.score),
        "verdict": str(checked.outcome),
        "margin": checked.margin,
        "more_groups": checked.more_groups,
        "text": verdict(checked),
        "shift": checked.shift and checked.shift.value,
        "shift_interval": checked.shift and vars(checked.shift),
        "coverage_test": checked.coverage and vars(checked.coverage),
        "coverage_corrected": checked.corrected_coverage and vars(checked.corrected_coverage),
        "error_growth": checked.growth and vars(checked.growth),
        **picked(checked, "groups", "known_groups", "campaigns", "trained_campaigns"),
        **picked(checked, "without_interval", "nothing_promised"),
        "out_of_range": {
            "rows": checked.out_of_range,
            "share": checked.out_of_range / checked.score.n,
        }
        | (
            {"e_out": checked.beyond.e_out, "coverage": checked.beyond.coverage}
            if checked.beyond
            else {}
        ),
        "expected": {"scheme": checked.scheme, **vars(checked.expected)},
        "stated_error": checked.stated and checked.stated._asdict(),
        "other_host": other_host,
        "correction": checked.correction and vars(checked.correction),
        "corrected": checked.corrected and vars(checked.corrected),
        "corrected_before": facts.factor,
        "classes": [_part(part) for part in checked.classes],
        "by_group": [_part(part) for part in checked.by_group],
        **picked(facts, "trained_rows", "not_predicted", "rejected", "saved", "notes"),
    }


def _part(part: Part) -> dict[str, Any]:
    return {**vars(part), "shift": part.shift and vars(part.shift)}


def _ratios(table: pd.DataFrame, checked: Checked, metric: str) -> go.Figure:
    """Draw observed / predicted of every row by its prediction, and the shift as a band."""
    figure = Drawing()
    shown = table.reset_index(drop=True)
    for position, (name, part) in enumerate(shown.groupby("class", sort=True)):
        figure.add_scattergl(
            name=escape(str(name)),
            x=part["predicted"],
            y=part["observed"] / part["predicted"],
            text=part["group"].astype(str).map(escape),
            ids=part.index.tolist(),
            hovertemplate="%{x:.4g}, %{y:.3f}<br>%{text}",
            **dots(None, 5, opacity=0.6, symbol=position % 8),
        )
    ratio = shown["observed"] / shown["predicted"]
    figure.add_hline(y=1, line_width=1, line_color=NEUTRAL)
    names = [escape(str(one)) for one in shown["group"]]
    named = farthest(np.log10(shown["predicted"]), ratio.where(ratio > 1), names)
    if checked.shift is not None:
        figure.add_hrect(
            y0=checked.shift.lower,
            y1=checked.shift.upper,
            fillcolor=BASELINE,
            opacity=0.25,
            line_width=0,
        )
    figure.update_xaxes(
        type="log", title="predicted: " + escape(quantity(metric).label), gridcolor=GRID
    )
    figure.update_yaxes(type="log", title="observed / predicted", gridcolor=GRID)
    return styled(figure, 460, legend={"itemsizing": "constant"}, annotations=named)


def _curves(table: pd.DataFrame, checked: Checked) -> go.Figure:
    """Draw the share of rows within each error, for new rows and for the run out of sample."""
    errors = 100 * (table["predicted"] / table["observed"] - 1).abs().to_numpy()
    within = [100 * float(np.mean(errors <= limit)) for limit in THRESHOLDS]
    figure = Drawing(
        go.Scatter(
            name="new rows",
            x=THRESHOLDS,
            y=within,
            line={"color": SELECTED, "width": 3},
        )
    )
    limits = [(float(limit), value) for limit, value in checked.expected.ir.items()]
    line = {"color": NEUTRAL, "width": 2, "dash": "dash"}
    x, y = zip(*limits, strict=True)
    figure.add_scatter(name="out of sample", x=x, y=y, line=line)
    figure.update_xaxes(title_text="error at most, %", range=[0, 50])
    figure.update_yaxes(title_text="rows, %", range=[0, 101])
    return styled(figure, 380, legend={})


def advice_document(batch: pd.DataFrame, report: Mapping[str, Any]) -> Document:
    """Return the advice for terminal and machines; `batch` and `report` are those of `api.checking.Advice`."""
    errors = report["expected"]
    where = report["target"]
    many = Comparison.means_all(where)
    if many:
        where = "the GPU that each names"
    facts = [
        Fact(
            f"{report['rows']:,}",
            f"rows to measure on {where}, of {report['candidates']:,} candidates",
        ),
        Fact(str(report["groups"]), f"groups, {errors['new_groups']} of them never trained"),
        Fact(clock(report["cost_s"]), "of measuring"),
    ]
    now = percent(errors["now"])
    after = percent(errors["after"])
    said = f"Expected error of the candidates: {now} now, {after} once the batch is trained on too"
    if after == now:
        said += ": more rows of these groups are not expected to change it"
    expected = [f"{said}."]
    if report["not_stated"]:
        unstated = counted(report["not_stated"], "candidate")
        expected.append(
            f"The run states no error of {unstated}: they are taken to err as new groups beyond "
            "the trained range did, where that was measured, else as new groups."
        )
    before = report["errors"]["before_correction"]
    if before:
        questions = " and ".join(map(left_out, before))
        expected.append(
            f"The error of {questions} is that before the run was corrected: none was measured "
            "since."
        )
    wanted = ("family", "variant", *DTYPE_COLUMNS[1:])
    if many:
        names = ["device"]
    else:
        names = []
    names += [name for name in wanted if name in batch and len(batch[name].unique()) > 1]
    cells = []
    chosen = []
    for row in records(batch):
        words = [str(row[name]) for name in (*names, "group")]
        cells.append((workload(row), *words, significant(row["predicted"])))
        chosen.append({name: _plain(value) for name, value in row.items()})
    heads = columns(
        "workload", *names, "group", numbers=[f"predicted {quantity(report['metric']).label}"]
    )
    table = Table(heads, rows(cells), "the most useful first", shown=15)
    return Document(
        title=f"{title(report)}: what to measure next",
        opening=[Facts(facts), lines(expected)],
        sections=[Section("What to measure", [table])],
        closing=[upcoming(f"measure these on {where}; then train on old and new rows")],
        offer="--out FILE writes what to measure",
        data={**report, "batch": chosen},
    )


def _plain(value: Any) -> Any:
    """Return a cell as JSON has it: numbers of numpy as Python's, null for what is missing."""
    if value is pd.NA:
        return None
    if hasattr(value, "item"):
        return value.item()
    return value


ENOUGH: Final = 1.1  # times the least error of a way that is as good as that


def curve_document(table: pd.DataFrame, about: Mapping[str, Any]) -> Document:
    """Return a learning curve for terminal, page and machines, as `Curve` of the API has it."""
    ways = list(dict.fromkeys(table["way"]))
    what = left_out(about["scheme"])
    numbers = ["rows measured"]
    for named in ways:
        numbers += [f"{named}: error, %", "from … to"]
        numbers += [f"{about['interval']:.0%} covered", "width"]
    heads = (*columns(numbers=[*numbers, "affine, %"]), Column("selected"))
    body = []
    for count, part in table.groupby("rows", sort=True):
        by_way = part.set_index("way")
        cells = [f"{count:,}"]
        for way in ways:
            one = by_way.loc[way]
            cells += [number(one["e_out"]), f"{number(one['least'])} – {number(one['greatest'])}"]
            cells += [share(one["coverage"]), share(one["width"], 0)]
        cells += [number(by_way["affine"].iloc[-1]), by_way["model"].iloc[-1]]
        body.append(cells)
    drawn = f"Mean error on {what}, and its range over {counted(about['draws'], 'draw')}"
    caption = (
        f"{drawn}; affine: the line through "
        f"{'the times of the host' if about['host'] else 'the roofline'}, fitted to the same "
        "rows; selected: "
        f"by the folds of those rows, {ways[-1]}; width: that of the intervals, of the prediction "
        "(median)."
    )
    notes = [
        f"{counted(about['pool'], 'row')} to draw from, {counted(about['held_out'], 'row')} held "
        "out"
    ]
    if about["left_out"]:
        absent = ", ".join(map(str, about["left_out"]))
        notes.append(f"left out, as there are not so many rows: {absent}")
    if (table["answered"] < 1).any():
        notes.append("some rows held out have no answer, as what they compute was not drawn")
    each = [_enough(table[table["way"] == way], way) for way in ways]
    means = table.groupby("way")["e_out"].mean().fillna(np.inf)
    answer = (
        anew(about, table["rows"].max())
        or each[min(range(len(ways)), key=lambda place: means[ways[place]])]
    )
    said = [one for one in each if one != answer]
    answered = table[table["e_out"].notna()]
    lines_of_ways = []
    for name in ways:
        part = answered[answered["way"] == name]
        if len(part):
            rows_drawn = np.log10(part["rows"].to_numpy(dtype=float))
            errors_drawn = np.log10(part["e_out"].to_numpy(dtype=float))
            lines_of_ways.append((name, rows_drawn, errors_drawn))
    chart = Chart(
        "error against rows measured",
        lines_of_ways,
        ("rows measured", "error, %"),
        logarithmic=True,
        asked=False,
    )
    return Document(
        title=f"{title(about)}: how many rows must be measured",
        lead=f"{metric(about)}, {what}",
        opening=[Headline("rows of the target", answer)],
        sections=[
            Section(
                "Error against rows measured",
                [
                    lines(said, "list"),
                    Figure(lambda: figures.learning(table, about["interval"]), drawn),
                    chart,
                    Table(
                        heads,
                        rows(body),
                        f"{title(about)}: error by rows measured",
                        caption,
                        name="curve",
                    ),
                    lines([f"note: {note}" for note in notes], tone="soft"),
                ],
            )
        ],
        closing=[upcoming("flopcast advise RUN CANDIDATES --rows N chooses which rows to measure")],
        data={"schema": SCHEMA, **about, "curve": records(table)},
    )


def anew(about: Mapping[str, Any], most_rows: int) -> str:
    """Say from how many rows on a new training run beats shifting a run for another target; "" if no curve says so."""
    if "anew_from" not in about:
        return ""
    shifted = f"the run for {about['shifted_target']}, shifted by one factor"
    if about["anew_from"] is None:
        return (
            f"with up to {most_rows:,} rows of {about['target']} training anew errs no less than "
            f"{shifted}"
        )
    return (
        f"from {counted(about['anew_from'], 'row')} of {about['target']} on training anew errs "
        f"less than {shifted}"
    )


def _enough(part: pd.DataFrame, way: str) -> str:
    """Say from how many rows on further rows hardly help."""
    best = part["e_out"].min()
    if np.isnan(best):
        return f"{way}: no answer for the rows held out"
    first = part[part["e_out"] <= ENOUGH * best].iloc[0]
    last = part.iloc[-1]
    agree = "are"
    if first["rows"] == 1:
        agree = "is"
    if len(part) == 1:
        return f"{way}: {percent(last['e_out'])} with {counted(int(last['rows']), 'row')}"
    if first["rows"] == last["rows"]:
        return f"{way}: {percent(last['e_out'])} with {last['rows']:,} rows, and still falling"
    return (
        f"{way}: {counted(int(first['rows']), 'row')} {agree} enough, {percent(first['e_out'])}; "
        f"{last['rows']:,} give {percent(last['e_out'])}"
    )
