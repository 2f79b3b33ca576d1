"""The document of a training run: the headline of each scheme, every model, features, groups, intervals.

It is built from the content of ``metrics.json``, so that any run folder can be shown; parts that
are missing there are left out. The page adds figures, from the predictions, and the first rows that
reading kept out.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain
from math import exp, nan
from pathlib import Path
from typing import Any, Final

import pandas as pd
from msgspec import to_builtins
from scipy.stats import kendalltau

from ..errors import few
from ..hardware import Comparison
from ..remarks import Remark
from ..sealing import Manifest
from ..table.irregular import times
from ..table.measurements import quantity
from ..table.noise import TUNINGS
from ..table.refusals import coded
from . import figures
from .document import (
    JSON,
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
    Medium,
    Part,
    Row,
    Section,
    Table,
    Tone,
    columns,
    footer,
    lines,
    losses,
    rows,
)
from .figures import agreement_chart, inlier_chart
from .formats import NONE, agreed, counted, figure, has_value, number, percent, share
from .layouts import laid_out
from .run_folder import ANALYTIC, Metrics, as_trained, ordered, reference, simplest

COLUMNS: Final = (
    Column("model", "name"),
    *(
        Column(head, "number", unit="%")
        for head in ("E_out", "groups", "E_in", "median", "worst", "IR 5", "IR 10", "IR 20")
    ),
    Column("feat.", "number"),
    Column("fitted to"),
    Column("fit, s", "number"),
)
CAPTION: Final = (
    "E_out: mean error of what a fit had not seen, beside its median and worst; groups: the mean "
    "over groups of their "
    "mean errors; E_in: of what it had seen; IR T: share of workloads within T %; feat.: features "
    "used, of those "
    "available; fit s: seconds of a fit. * selected · ≈ not distinguishable from the best · † "
    "stopped early"
)
TOP: Final = 20  # most features and groups that are drawn
# groups on a terminal, and rows quoted for a reason why they were kept out
_WORST = 5
_EXAMPLES = 3
_COUNTED: Final = ("pairs of host and target", "workloads", "groups")
_SURE = 1.645
_MUCH = 1.25
"""Standard deviations, and times as much, by which a part must err more than all rows to be named in a line."""
"""Labels of `counts` that say how much the errors rest on."""
_WHOLE: Final = {
    "kfold": "rows left out at random, ",
    "grouped": "whole groups left out, ",
    "campaign": "whole campaigns left out, ",
}
_BEFORE: Final = "before correction"  # the column of what a corrected run erred by as trained
_UNSAVED: Final = (
    "Nothing was saved: --out RUN writes the model to predict with, the evidence and a page."
)
_MARKS: Final[dict[str, tuple[str, Tone]]] = {
    "selected": ("*", "strong"),
    "tied": ("≈", "near"),
    "baseline": (" ", "soft"),
    "left": ("†", "soft"),
    "": (" ", ""),
}


def training_document(
    metrics: Metrics,
    predictions: pd.DataFrame | None = None,
    rejected: pd.DataFrame | None = None,
    *,
    rank: int = 10,
    run: Path | None = None,
    saved: bool = True,
    every: bool = False,
    plot: bool = False,
    what_if: Sequence[Part] = (),
) -> Document:
    """Return the document of a training run, for terminal, page and machines.

    A terminal gets the answer, then the best model of each family; with ``every`` all models, the
    ranking of features and the groups. `run` is the folder that its commands of what to do next
    name.

    `metrics` and `predictions` are as in ``metrics.json`` and ``predictions.parquet``; without the
    latter a page has no figures of workloads and errors. Of the rows that reading kept out,
    `rejected` (``source``, ``reason``, ``detail``), a page quotes the first; without them it shows
    the counts of ``metrics["data"]``. `rank` is how many features of the ranking a terminal shows
    by each measure; 0 for none. Where the run is not ``saved``, a terminal says so. With ``plot``
    it draws what the predictions of the saved model's scheme look like. A page has ``what_if``: the
    sliders of `report.what_if`.
    """
    data = metrics.get("data") or {}
    schemes = metrics.get("cv") or []
    kept = _answering(schemes)
    facts = [Fact(value, label) for label, value in counts(data)]
    shown = ", ".join(f"{fact.value} {fact.words}" for fact in facts if fact.value != "0")
    lost = losses(
        data.get("rejected") or {}, data.get("notes") or [], first=data.get("rejected_at") or {}
    )
    software = ", ".join(
        f"{name} {version}" for name, version in (metrics.get("versions") or {}).items()
    )
    return Document(
        title=title(data),
        lead=f"Predicted: {metric(data)}",
        opening=[
            Lines([Line(shown)] if shown else [], medium="terminal"),
            *_headlines(schemes, scheme, "page"),
            *_headlines(schemes, lambda cv: left_out(cv["scheme"]), "terminal"),
            lines(
                [
                    *_left_out(schemes),
                    *_corrected(metrics),
                    *kept,
                    *_of_campaigns(metrics),
                    *_noise(data),
                    *_trust(metrics),
                ]
            ),
            lines(_next(data, run), medium="terminal"),
            lines(_next(data, Path("RUN")), medium="page"),
            Facts(facts, medium="page"),
            Lines([Line(software, "soft")] if software else [], medium="page"),
        ],
        sections=[
            *(
                _scheme(cv, predictions, metric(data), every=every, last=cv is schemes[-1])
                for cv in schemes
            ),
            *(_rest_of_scheme(cv, predictions, metric(data)) for cv in schemes),
            Section("What if", what_if, "what-if", folded=True),
            _ranking(metrics.get("ranking") or [], rank if every else 0),
            _groups(metrics.get("groups") or [], schemes, every=every),
            _campaigns(metrics, every=every),
            *(
                [_pairs(metrics["pairs"], metrics["model"]["scheme"], every=every)]
                if metrics.get("pairs")
                else []
            ),
            _intervals(metrics.get("intervals") or {}, schemes, every=every),
            Section("Against the target's own cost", speedup_parts(metrics), "speedup", "Speed-up"),
            _data(data, rejected),
        ],
        closing=[
            *(_charts(metrics, predictions) if plot and predictions is not None else ()),
            Lines(lost.lines),
            lines([] if saved else [_UNSAVED]),
        ],
        short=_short(metrics, run, saved=saved),
        footer=footer(metrics.get("provenance") or {}),
        data={**metrics, "answer": {cv["scheme"]: said for cv in schemes if (said := answer(cv))}},
    )


def seal_document(run: str, manifest: Manifest, signer: str | None, *, signed: bool) -> Document:
    """Return the document of a seal that was just checked: its files, its data, and who signed it."""
    if signer:
        signature = f"signed by {signer}"
    elif signed:
        signature = "signed, by whom was not asked"
    else:
        signature = "not signed"
    cells = [(name, f"{entry.bytes:,}", entry.sha256) for name, entry in manifest.files.items()]
    return Document(
        title=run,
        lead=f"Training data: SHA-256 {manifest.data_sha256 or 'not stated'}",
        sections=[
            Section(
                "Files",
                [Table(columns("file", numbers=("bytes", "SHA-256")), rows(cells), "files")],
            )
        ],
        closing=[lines([f"{counted(len(cells), 'file')} as sealed; {signature}."])],
        data={**to_builtins(manifest), "signed": signed, "signer": signer},
    )


def targets_document(runs: Mapping[str, Metrics], places: Mapping[str, Path] | None) -> Document:
    """Return the targets of runs from one host side by side: their honest errors, and those of the rules.

    ``runs`` are their ``metrics.json`` by target, ``places`` the folders they are saved in.
    """
    shown: dict[str, list[tuple[JSON, JSON]]] = {}
    for target, metrics in runs.items():
        for cv in metrics["cv"]:
            chosen = cv.get("selected") or {}
            rule = simplest(cv) or {}
            law = reference(cv) or {}
            bounds = chosen.get("interval") or (nan, nan)
            row = {
                "target": target,
                "scheme": cv["scheme"],
                "n": metrics["data"]["n"],
                "rule": rule.get("name"),
                "rule_e_out": rule.get("e_out"),
                "flops_e_out": law.get("e_out") if law.get("name") == ANALYTIC else None,
                "selected": chosen.get("name"),
                "e_out": chosen.get("e_out"),
                "ir_10": (chosen.get("ir") or {}).get("10"),
            }
            beside = {"groups": metrics["data"]["groups"], "lower": bounds[0], "upper": bounds[1]}
            shown.setdefault(cv["scheme"], []).append((row, beside))
    tables = {}
    for name, rows_of in shown.items():
        words = {"scheme": left_out(name)}
        tables[name] = laid_out(
            "training-targets",
            [row | more for row, more in rows_of],
            words,
        )
    first = next(iter(runs.values()))
    saved = [f"{target}: {place}" for target, place in (places or {}).items()]
    return Document(
        title=f"{first['data']['host']} → {', '.join(runs)}",
        lead=f"Predicted: {metric(first['data'])}; a model for each target",
        sections=[Section(left_out(name), [table]) for name, table in tables.items()],
        closing=[lines(saved or [_UNSAVED], medium="terminal")],
        short=[
            lines([f"{first['data']['host']} → {', '.join(runs)}"], tone="strong"),
            *tables.values(),
        ],
        footer=footer(first.get("provenance") or {}),
        data={
            "schema": 1,
            "host": first["data"]["host"],
            "targets": [row for row, _ in chain.from_iterable(shown.values())],
            "folders": {one: place.name for one, place in (places or {}).items()},
        },
    )


def title(data: Metrics) -> str:
    """Name the prediction: ``MI300X → MI355X``, or ``MI300X, new workloads`` where host and target are one."""
    host = data.get("host")
    target = data.get("target") or "?"
    comparison = _comparison(data)
    if comparison.has_many_hosts and comparison.is_many:
        return f"{host} → every other"
    if host and host != target:
        return f"{host} → {target}"
    return f"{target}, new workloads"


def metric(data: Metrics) -> str:
    """Return the axis label of the trained metric, e.g. ``time, µs`` for ``duration_us``."""
    return quantity(str(data.get("metric") or "duration_us")).label


def left_out(name: str) -> str:
    """Say in two words what is predicted under a scheme."""
    words = {
        "kfold": "known groups",
        "grouped": "new groups",
        "range": "sizes outside the trained range",
        "campaign": "new campaigns",
    }
    words |= {"sibling": "new devices of a trained family", "stranger": "devices of new families"}
    return words.get(name, name)


def scheme(cv: Metrics) -> str:
    """Say what a cross-validation scheme predicts and how."""
    folds = f"{cv.get('folds', '?')} folds"
    return f"{left_out(cv['scheme'])} ({_WHOLE.get(cv['scheme'], '')}{folds})"


def counts(data: Metrics) -> list[tuple[str, str]]:
    """Return what the model was trained on, as (label, value)."""
    comparison = _comparison(data)
    paired = comparison.is_pair or comparison.is_from_hosts_to_many
    numbers = [
        ("pairs of host and target" if paired else "workloads", data.get("n")),
        (_groups_counted(data), data.get("groups")),
        ("features available", data.get("features_available")),
        ("host rows without a target", data.get("unpaired_host") if paired else None),
        ("target rows without a host", data.get("unpaired_target") if paired else None),
        ("rows of slower kernels left out", data.get("slower_kernels")),
        (f"rows without {data.get('metric')}", data.get("without_metric")),
        (
            f"rows whose {data.get('metric')} is not a positive number",
            data.get("metric_not_positive"),
        ),
        ("rows of kernels without an operator left out", data.get("without_operator")),
    ]
    return [(label, f"{value:,}") for label, value in numbers if value is not None]


def _groups_counted(data: Metrics) -> str:
    """Name the groups, with the number of their campaigns if they come in campaigns."""
    if not data.get("campaigns"):
        return "groups"
    return f"groups of {counted(data['campaigns'], 'campaign')}"


def family(name: str) -> str:
    """Return the family that a model is of: of the literature's one, else its name without a variant."""
    literature = next((pattern for pattern in figures.FAMILIES if fnmatchcase(name, pattern)), None)
    return literature or name.partition("/")[0]


def model_table(cv: Metrics, *, every: bool = True, caption: str = CAPTION, **where: Any) -> Table:
    """Return the models of one scheme: baselines first, then by E_out, then those that failed and why.

    Without ``every`` it has FLOPS scaling (or the baseline in its place) and the best simple rule,
    the selected model and the best of each family. ``where`` is its medium.
    """
    rules = {row["name"] for row in (reference(cv), simplest(cv)) if row}
    families = set[str]()
    baselines = len(cv.get("baselines") or [])
    last = -1
    some = list[tuple[Metrics, str]]()
    body = list[Row]()
    for place, (row, kind) in enumerate(ordered(cv)):
        # failures are shown everywhere, with their reason
        name = row["name"]
        failed = bool(row.get("error"))
        if place < baselines:
            first = name in rules
        else:
            first = failed or (kind != "left" and family(name) not in families)
        if every or first or kind == "selected":
            some.append((row, kind))
        if place < baselines:
            last = len(some) - 1
        elif not failed:
            families.add(family(name))
    for place, (row, kind) in enumerate(some):
        mark, tone = _MARKS[kind]
        name = f"{mark} {row['name']}"
        if row.get("error"):
            body.append(Row((name.strip(), Cell(f"failed: {row['error']}", "error"))))
        elif row.get("left") and row.get("e_out") is None:
            body.append(Row((name, Cell(str(Remark.from_dict(row["left"])), "soft")), tone))
        else:
            ir = row.get("ir") or {}
            used = (row.get("features_selected"), row.get("features_available"))
            cells = (
                *(
                    number(row.get(key))
                    for key in ("e_out", "e_out_groups", "e_in", "median_ape", "max_ape")
                ),
                *(number(ir.get(threshold)) for threshold in ("5", "10", "20")),
                "/".join(str(count) if has_value(count) else NONE for count in used),
                row.get("space") or NONE,
                number(row.get("fit_seconds")),
            )
            body.append(Row((name, *cells), tone, ends=place == last))
    shown = ""
    if len(some) < len(ordered(cv)):
        shown = "; best of each family"
    title = f"{scheme(cv)}: errors and inlier ratios (IR) in %{shown}{before_correction(cv)}"
    return Table(COLUMNS, body, title, caption, **where)


def before_correction(cv: Metrics) -> str:
    """Say of figures of a scheme that they are of the model as trained, where it was corrected since."""
    if as_trained(cv):
        return ", before the correction"
    return ""


def verdict(cv: Metrics) -> list[str]:
    """Return the sentences about the selected model of one scheme: its honest error, its baseline, its ties."""
    chosen = cv.get("selected")
    if not chosen:
        return []
    before = as_trained(cv)
    if before:
        said = [answer(cv)]
        parts = by_part(cv)
        if parts:
            said.append(f"{parts}.")
        return [*said, f"As trained, before the correction: {_honest(before)}."]
    said = [f"{_honest(chosen)}."]
    baseline = simplest(cv) or reference(cv)
    others = baseline is not None and baseline["name"] != chosen["name"]
    if (
        baseline is not None
        and others
        and chosen.get("e_out")
        and baseline.get("e_out") is not None
    ):
        ratio = baseline["e_out"] / chosen["e_out"]
        tied = baseline["name"] in (chosen.get("tied") or [])
        if ratio >= 1:
            times = f"{ratio:.1f} times as much"
        else:
            times = f"{ratio:.2f} times as much"
        against = f"against {percent(baseline['e_out'])} of {baseline['name']}"
        said = [f"{_honest(chosen)}, {against}: {'not distinguishable' if tied else times}."]
    naive = chosen.get("e_out_table")
    if naive is not None:
        flatters = ""
        if naive < (chosen.get("e_out") or 0.0):
            flatters = ", so it flatters"
        method = ""
        if chosen.get("method"):
            method = f" ({chosen['method']})"
        used = f"The table's {percent(naive)} was also used to choose it{flatters}"
        said.append(f"{used}; the honest figure includes the choice{method}.")
    if chosen.get("e_out_groups") is not None:
        said.append(f"With every group counting alike: {percent(chosen['e_out_groups'])}.")
    parts = by_part(cv)
    if parts:
        said.append(f"{parts}.")
    single = chosen.get("best_model")
    if single:
        said.append(f"Of the models alone: {_honest(single)}.")
    ties = [name for name in chosen.get("tied") or [] if name != chosen["name"]]
    if ties:
        said.append(f"Not distinguishable from the best with these data: {few(ties)}.")
    regular = cv.get("regular")
    if regular:
        errors = regular["e_out"]
        table = [*(cv.get("baselines") or []), *(cv.get("models") or [])]
        errors_before = {row["name"]: row["e_out"] for row in table if row.get("e_out") is not None}
        shown = dict.fromkeys(
            row["name"] for row in (chosen, baseline, reference(cv)) if row is not None
        )
        without = [
            f"{name} {percent(errors[name])} (instead of {percent(errors_before[name])})"
            for name in shown
            if name in errors_before and errors.get(name) is not None
        ]
        odd = regular["irregular"]
        every = regular["irregular"] + regular["rows"]
        which = f"the {odd:,} of {every:,} workloads that are spikes or whose repeats disagree"
        said.append(f"Without {which}, the table's errors are: {', '.join(without)}.")
    return said


def by_part(cv: Metrics) -> str:
    """Return the error of each part of a scheme's rows, where there are several; else ""."""
    parts = (cv.get("selected") or {}).get("parts") or {}
    if len(parts) < 2:
        return ""
    if cv["scheme"] == "grouped":
        named = [
            f"{name} the trained range {percent(parts[name]['e_out'])}"
            for name in ("within", "beyond")
            if name in parts
        ]
        return f"New groups: {', '.join(named)}"
    named = []
    for name in sorted(parts, key=_by_rows):  # the keys of a saved run are in the order of letters
        named.append(f"{name}: {percent(parts[name]['e_out'])}")
    return f"By the trained rows of the group: {'; '.join(named)}"


def _by_rows(stratum: str) -> tuple[bool, int]:
    """Return what orders strata by their rows: ``up to 10``, ``up to 200``, ``more than 200``."""
    *words, limit = stratum.split()
    return words[0] == "more", int(limit)


def _worse_part(cv: Metrics) -> tuple[str, float] | None:
    """Return the part of known groups that errs most, and its error, where it is shown to err more than all rows."""
    chosen = cv.get("selected") or {}
    parts = chosen.get("parts") or {}
    if cv["scheme"] != "kfold" or len(parts) < 2 or not chosen.get("e_out"):
        return None
    name, worst = max(parts.items(), key=lambda item: item[1]["e_out"])
    if worst["e_out"] * exp(-_SURE * worst["sigma"]) < _MUCH * chosen["e_out"]:
        return None
    return str(name), float(worst["e_out"])


def answer(cv: Metrics) -> str:
    """Return the answer of one scheme in a sentence: the honest error with its interval beside the best simple rule's.

    Nothing where no model was selected. The paired bootstrap of the selection says whether the two
    are distinguishable.
    """
    chosen = cv.get("selected")
    rule = simplest(cv)
    law = reference(cv)
    before = as_trained(cv)
    if before:
        return _answer_since(cv["selected"], before)
    if not chosen or chosen.get("e_out") is None:
        return ""
    error = f"{percent(chosen['e_out'])}{_interval(chosen)}"
    if rule is None:
        return f"{chosen['name']} errs by {error}."
    others = ""
    if law and law["name"] != rule["name"]:
        others = f"; {law['name']} by {percent(law['e_out'])}"
    if chosen["name"] == rule["name"]:
        beaten = (
            f"which errs by {percent(rule.get('e_out'))}, and by {error} with the price of the "
            "choice"
        )
        none = "No model"
        if chosen.get("left_out"):
            none = "No model that ran"
        return (
            f"{none} is shown to be better than the simple rule {rule['name']}, {beaten}{others}."
        )
    against = f"the best simple rule, {rule['name']}, by {percent(rule['e_out'])}"
    if chosen["e_out"]:
        ratio = rule["e_out"] / chosen["e_out"]
    else:
        ratio = float("inf")
    apart = "not distinguishable"
    if rule["name"] not in chosen.get("tied") or []:
        apart = f"{ratio:.1f} times as much"
    return f"{chosen['name']} errs by {error}, {against}: {apart}{others}."


def _answer_since(chosen: Metrics, before: Metrics) -> str:
    """Return the answer of a scheme of a run that was corrected: its error since, beside that as trained."""
    name = f"{chosen['name']}, corrected,"
    then = f"before the correction it erred by {percent(before.get('e_out'))} out of sample"
    if chosen.get("e_out") is None:
        return f"{name} was not measured on such rows since; {then}."
    rows = f"{counted(chosen['rows'], 'further row')} of {counted(chosen['groups'], 'group')}"
    error = f"{percent(chosen['e_out'])}{_interval(chosen)}"
    if not chosen.get("ir"):  # `evaluation.corrected_error.no_better_than_trained`
        why = f"{rows} erred by far less, as workloads that were trained on do when timed again"
        return f"{name} is taken to err by {error}, as before: {why}."
    return f"{name} errs by {error}, measured on {rows}; {then}."


def _headlines(schemes: Sequence[Metrics], about: Any, medium: Any) -> Iterator[Headline]:
    """Yield the error of the best simple rule and of the selected model under each scheme; beneath, the sentence."""
    for cv in schemes:
        said = answer(cv)
        if said:
            rule = simplest(cv)
            rival = ""
            error = percent(cv["selected"]["e_out"])
            before = as_trained(cv)
            if before:
                rival = f"before the correction: {percent(before.get('e_out'))}"
                if cv["selected"]["e_out"] is None:
                    error = "not measured since"
            elif rule:
                rival = f"{rule['name']}: {percent(rule['e_out'])}"
                if rule["name"] in (cv["selected"].get("tied") or []):
                    error += ", not distinguishable"
            yield Headline(about(cv), f"flopcast: {error}", rival, said, medium=medium)


def _corrected(metrics: Metrics) -> list[str]:
    """Say by what a run was corrected, and what its tables and figures are of."""
    correction = metrics.get("correction")
    if not correction:
        return []
    factor = "{factor:.3f} [{lower:.3f}, {upper:.3f}]".format(**correction)
    on = f"{counted(correction['rows'], 'row')} of {counted(correction['groups'], 'group')}"
    said = (
        f"Corrected by {factor}, measured on {on}: errors and intervals stated here are those since"
    )
    return [f"{said}; tables of models and groups, and figures, are of the model as trained."]


def _left_out(schemes: Sequence[Metrics]) -> list[str]:
    """Say which models a budget left out, of which nothing is known."""
    by_names = dict[tuple[str, ...], list[str]]()
    for cv in schemes:
        names = (cv.get("selected") or {}).get("left_out")
        if names:
            by_names.setdefault(tuple(names), []).append(left_out(cv["scheme"]))
    said = []
    for names, questions in by_names.items():
        where = " and ".join(questions)
        said.append(f"Not tried for {where}, as the budget was spent: {', '.join(names)}.")
    return said


def _answering(schemes: Sequence[Metrics]) -> list[str]:
    """Say which model answers which rows."""
    names = {left_out(cv["scheme"]): cv["selected"]["name"] for cv in schemes if cv.get("selected")}
    if not names:
        return []
    if len(set(names.values())) == 1:
        return [f"Saved: {next(iter(names.values()))}, fitted for {' and for '.join(names)}."]
    parts = [f"{name} for {question}" for question, name in names.items()]
    return [f"Saved: {', '.join(parts)}; each row is answered by the one of its question."]


def _short(metrics: Metrics, run: Path | None, *, saved: bool) -> list[Part]:
    """Say what is predicted, how well for each question, which model answers it, and what to do next."""
    data = metrics.get("data") or {}
    first = [
        f"{value} {agreed(value, label)}"
        for label, value in dict(counts(data)).items()
        if label.startswith(_COUNTED)
    ]
    rows_of = ", ".join(first).replace(" of host and target", "")
    head = Line(f"{title(data)}: {metric(data)}, learnt from {rows_of}", "strong")
    answered = [cv for cv in metrics.get("cv") or [] if cv.get("selected")]
    if not answered:
        return [Lines([head], medium="terminal")]
    said = _short_table(metrics, answered)
    said += [*_left_out(answered), *_corrected(metrics)]
    names = {left_out(cv["scheme"]): cv["selected"]["name"] for cv in answered}
    if len(set(names.values())) == 1:
        models = next(iter(names.values()))
    else:
        models = ", ".join(f"{name} for {question}" for question, name in names.items())
    about = "Mean errors out of sample."
    if metrics.get("correction"):
        about = "Mean errors of rows that were not trained."
    said.append(f"{about} {'Saved' if saved else 'Fitted'}: {models}")
    if run is not None:
        said.append(f"Next: flopcast predict {shlex.quote(str(run))} NEW.csv{asked(data)}")
    return [Lines([head, *lines(said).lines], medium="terminal")]


def _short_table(metrics: Metrics, schemes: Sequence[Metrics]) -> list[str]:
    """Return a line for each question: the error of the model, those of the rules, intervals, the worst part."""
    rules = {row["name"]: row for cv in schemes for row in (simplest(cv), reference(cv)) if row}
    if metrics.get("correction"):
        rules = dict.fromkeys([_BEFORE])
    intervals = metrics.get("intervals") or {}
    level = intervals.get("level")
    heads = ["mean error of", "flopcast", *rules]
    if level:
        heads.append(f"{100 * level:.0f} % held")
    body = [[*heads, "at worst"]]
    for cv in schemes:
        row = [left_out(cv["scheme"]), percent(cv["selected"].get("e_out"))]
        errors = {rule["name"]: rule.get("e_out") for rule in cv.get("baselines") or []}
        before = as_trained(cv)
        if before:
            errors = {_BEFORE: before.get("e_out")}
        row += [percent(errors.get(name)) for name in rules]
        if level:
            held = (intervals.get("schemes") or {}).get(cv["scheme"]) or {}
            row.append(share(held.get("coverage")))
        worst = ""
        part = _worse_part(cv)
        if part:
            worst = f"{part[0]} rows {percent(part[1])}"
        new = _new_campaign(metrics)
        if cv["scheme"] == "grouped" and new and new.get("e_out") is not None:
            worst = f"new campaigns {percent(new['e_out'])}"
        body.append([*row, worst])
    if not any(row[-1] for row in body[1:]):
        body = [row[:-1] for row in body]
    widths = [max(map(len, column)) for column in zip(*body, strict=True)]
    said = []
    for first, *others in body:
        cells = [first.ljust(widths[0])]
        for cell, width in zip(others, widths[1:], strict=True):
            cells.append(cell.rjust(width))
        said.append("  ".join(cells).rstrip())
    return said


def _charts(metrics: Metrics, predictions: pd.DataFrame) -> Iterator[Chart]:
    """Yield what a terminal draws of the scheme that the saved model is for: inlier curves, observed and predicted."""
    wanted = (metrics.get("model") or {}).get("scheme")
    for cv in metrics.get("cv") or []:
        if cv["scheme"] == wanted and cv.get("selected"):
            errors = figures.errors_of(predictions, cv)
            name = cv["selected"]["name"]
            shown = [name, *(row["name"] for row in (simplest(cv), reference(cv)) if row)]
            what = f"{left_out(cv['scheme'])}{before_correction(cv)}"
            title = f"{what}: share of workloads predicted within an error"
            yield inlier_chart(
                {one: errors[one] for one in dict.fromkeys(shown) if one in errors}, title
            )
            rows_of = figures.selected(predictions, cv)
            yield agreement_chart(
                rows_of["observed"], rows_of["predicted"], name, metric(metrics["data"])
            )


def _trust(metrics: Metrics) -> list[str]:
    """Say how far the saved model can be trusted: its intervals, and the groups that it predicts worst."""
    intervals = metrics.get("intervals") or {}
    said = list[str]()
    order = [cv["scheme"] for cv in metrics.get("cv") or []]  # the keys of a saved run are sorted
    held = [
        f"{share(row['coverage'])} of {left_out(name)} (median width "
        f"{share(row.get('median_relative_width'))}"
        f"{_inside(row)})"
        for name, row in sorted(
            (intervals.get("schemes") or {}).items(),
            key=lambda item: [*order, item[0]].index(item[0]),
        )
        if row.get("coverage") is not None
    ]
    if held and intervals.get("level"):
        said.append(f"{100 * intervals['level']:.0f} % intervals hold {', '.join(held)}.")
    groups = sorted(metrics.get("groups") or [], key=lambda row: -(row.get("e_out") or 0.0))
    if len(groups) > 3 and not metrics.get("correction"):
        said.append(
            "Least sure: "
            + ", ".join(f"{row['group']} ({percent(row.get('e_out'))})" for row in groups[:3])
            + "."
        )
    return said


def _next(data: Metrics, run: Path | None) -> list[str]:
    """Say which commands go on from a saved run."""
    if run is None:
        return []
    at = shlex.quote(str(run))
    more = f"flopcast show {at} --all for every model, feature and group"
    return [f"Next: flopcast predict {at} NEW.csv{asked(data)}; {more}."]


def asked(data: Metrics) -> str:
    """Return the extra input that `predict` needs beside the run and the rows."""
    if _comparison(data).is_from_hosts_to_many:
        return " --target GPU"
    return ""


def _comparison(data: Metrics) -> Comparison:
    return Comparison.of_names(data.get("host"), data.get("target"))


def _scheme(
    cv: Metrics, predictions: pd.DataFrame | None, unit: str, *, every: bool, last: bool
) -> Section:
    """Show one cross-validation scheme: verdict, observed and predicted, the best models."""
    heading = scheme(cv)
    said = lines(verdict(cv)).lines
    caption = ""
    if last:
        caption = CAPTION
    parts: list[Part] = [Lines(said, "answer", medium="page")]
    if predictions is not None:
        parts += _agreement(cv, predictions, unit)
    parts += [
        model_table(cv, every=False, medium="page"),
        model_table(cv, every=every, caption=caption, medium="terminal"),
    ]
    if every:
        parts.append(Lines(said, "answer", medium="terminal"))
    link = left_out(cv["scheme"]).capitalize()
    return Section(
        heading[:1].upper() + heading[1:],
        parts,
        f"cv-{cv['scheme']}",
        link,
    )


def _agreement(cv: Metrics, predictions: pd.DataFrame, unit: str) -> list[Part]:
    """Draw predicted over observed values of the model that a scheme selected; nothing without any."""
    rows_of = figures.selected(predictions, cv)
    if not len(rows_of):
        return []
    tau = kendalltau(rows_of["observed"], rows_of["predicted"]).statistic  # 1: all of the order
    caption = (
        f"Predicted by {cv['selected']['name']} over observed, and the band of 90 % of the "
        f"workloads (Kendall's tau of their order: {tau:.3f}){before_correction(cv)}"
    )
    return [Figure(partial(figures.parity, predictions, cv, unit), caption)]


def _rest_of_scheme(cv: Metrics, predictions: pd.DataFrame | None, unit: str) -> Section:
    """Show what a scheme's answer rests on, which a page folds: all models, every workload, inlier ratios."""
    where = left_out(cv["scheme"]).capitalize()
    parts: list[Part] = []
    whole = model_table(cv, caption="", medium="page")
    if len(whole.rows) > len(model_table(cv, every=False).rows):
        title = f"All {len(whole.rows)} models and rules{before_correction(cv)}"
        parts.append(replace(whole, title=title))
    if predictions is not None:
        name = str((cv.get("selected") or {}).get("name"))
        seen = (
            f"Observed and predicted by {name}, every workload predicted by a fit that has not "
            f"seen it; errors below{before_correction(cv)}"
        )
        rows_of = figures.selected(predictions, cv)
        table = f"workloads-{cv['scheme']}"
        if len(rows_of) > figures.SHOWN:
            seen += (
                f" ({figures.SHOWN:,} of {len(rows_of):,} workloads, evenly chosen by their place)"
            )
        parts.append(Figure(partial(figures.workloads, predictions, cv, unit), seen, table))
        parts.append(_workloads(rows_of, cv, unit, table))
        every = "Every model and rule: share of workloads predicted within an error"
        every += before_correction(cv)
        kinds = (
            f"The literature's models, the best of each kind: the same share{before_correction(cv)}"
        )
        parts.append(Figure(partial(figures.inliers, predictions, cv), every))
        parts.append(Figure(partial(figures.families, predictions, cv), kinds))
    if cv.get("trees"):
        parts.append(
            Figure(
                partial(figures.trees, cv["trees"]),
                f"A forest's error against the number of its trees{before_correction(cv)}",
            )
        )
        parts.append(_trees(cv["trees"]))
    heading = f"{where}: every model and every workload"
    return Section(heading, parts, f"all-{cv['scheme']}", f"{where}: all", folded=True)


def _trees(rows_of: Sequence[Metrics]) -> Table:
    """Return the error of forests of 2, 4, 8, ... trees, and the share of workloads within 5, 10 and 20 %."""
    within = ({f"within_{name}": part for name, part in row["ir"].items()} for row in rows_of)
    return laid_out(
        "training-trees", [{**row, **of} for row, of in zip(rows_of, within, strict=True)]
    )


def _workloads(predictions: pd.DataFrame, cv: Metrics, unit: str, name: str) -> Listing:
    """List every workload as the figure draws them: what was measured and predicted, and where it was read."""
    every = len(predictions)
    predictions = figures.thinned(predictions)
    laws = [
        row["name"] for row in (reference(cv), simplest(cv)) if row and row["name"] in predictions
    ]
    _, _, unit = unit.rpartition(", ")
    numbers = [
        ("observed", "observed"),
        ("predicted", "predicted"),
        *((law, law) for law in dict.fromkeys(laws)),
    ]
    heads = (
        Column("group"),
        *(Column(head, "number", unit=unit) for _, head in numbers),
        Column("error", "number", unit="%"),
        Column("fold", "number"),
        Column("file", "place"),
        Column("line", "number"),
    )

    def texts() -> list[list[str]]:
        values = []
        for key, _ in numbers:
            values.append([figure(value) for value in predictions[key].astype(float)])
        errors = [number(value) for value in predictions["ape"].astype(float)]
        places = [
            str(source).rpartition(":")
            for source in predictions.get("source", pd.Series("", predictions.index))
        ]
        files = [file or row for file, _, row in places]
        rows_of = [row if file else "" for file, _, row in places]
        return [
            predictions["group"].astype(str).tolist(),
            *values,
            errors,
            predictions["fold"].astype(str).tolist(),
            files,
            rows_of,
        ]

    some = f"{len(predictions):,} of {every:,} workloads, evenly chosen by their place,"
    if len(predictions) < every:
        which = some
    else:
        which = f"All {counted(every, 'workload')}"
    folded = f"{which} as a table: search, sort, download"
    return Listing(heads, texts, name, folded=folded)


HINT: Final = (
    "A hint, not a cause: features that say the same share their importance and trade their "
    "signs. Sign: which way the "
    "prediction goes as the feature rises; selected: in how many folds the model chose it"
)


def _ranking(ranking: Sequence[Metrics], rank: int) -> Section:
    """Show the first features of each measure with their description, and on a page as figures."""
    from ..features.catalogue import explained_by  # here: reports that list no features need none

    measures: dict[str, list[Metrics]] = {}
    for entry in ranking:
        value = entry.get("value")
        of_test = entry.get("significant") is not None
        # what adds nothing is left out, a p-value of 0 is not
        if value or (value == 0 and of_test):
            measures.setdefault(str(entry["measure"]), []).append(entry)
    heads = (
        Column("#", "number"),
        Column("feature", "name"),
        Column("value", "number"),
        Column("sign"),
        Column("selected", "number"),
        Column("category"),
        Column("unit"),
        Column("meaning", "words"),
    )

    def listed(listed: int) -> list[Row]:
        shown = []
        for measure, entries in measures.items() if listed else ():
            shown.append(Row(("", f"by {measure}", *[""] * 6), title=True))
            for place, one in enumerate(entries[:listed], 1):
                chosen = ""
                if one.get("selected") is not None:
                    chosen = f"{one['selected']} of {one['folds']}"
                cells = (str(one.get("sign") or ""), chosen, *explained_by(str(one["feature"])))
                shown.append(
                    Row((str(place), str(one["feature"]), f"{float(one['value']):.3g}", *cells))
                )
        return shown

    drawn = []
    for measure, entries in measures.items():
        drawn.append(
            Figure(
                partial(
                    figures.ranking,
                    [(str(one["feature"]), float(one["value"])) for one in entries[:TOP]],
                    measure,
                ),
                f"By {measure}",
            )
        )
    title = "features by what they contribute"
    tables = (
        Table(heads, listed(rank), title, HINT, medium="terminal"),
        Table(heads, listed(TOP), title, HINT, medium="page"),
    )
    heading = "Features by what they contribute"
    return Section(heading, [*tables, *drawn], "ranking", "Features", folded=True)


def _groups(groups: Sequence[Metrics], schemes: Sequence[Metrics], *, every: bool) -> Section:
    """Show the error of each group, worst first."""
    worst = sorted(groups, key=lambda row: -(row.get("e_out") or 0.0))
    rule_named = next((str(row["rule"]) for row in worst if row.get("rule")), None)
    rule = rule_named or next((row["name"] for cv in schemes if (row := reference(cv))), "baseline")
    # runs of before know no rule
    marks = [row.get("rule_e_out" if rule_named else "baseline_e_out") for row in worst]
    cells = [
        (str(row["group"]), f"{row.get('n', 0):,}", number(row.get("e_out")), number(mark))
        for row, mark in zip(worst, marks, strict=True)
    ]
    heads = columns("group", numbers=("rows", "E_out, %", f"{rule}, %"))
    before = next(map(before_correction, schemes), "")
    folded = f"All {len(worst)} groups as a table"
    medium: Medium = "both" if every else "page"
    table = Table(
        heads,
        rows(cells),
        f"groups with the largest error{before}",
        shown=_WORST,
        folded=folded,
        medium=medium,
    )
    first = f"Worst first{before}"
    if len(worst) > TOP:
        first = f"The {TOP} groups with the largest error, of {len(worst)}{before}"
    drawn = []
    if worst:
        drawn = [Figure(partial(figures.groups, worst[:TOP], marks[:TOP], rule), first)]
    return Section("Error of each group", [*drawn, table], "groups", "Groups", folded=True)


def _noise(data: Metrics) -> list[str]:
    """Report the noise of the measurements, if repeats show it."""
    noise = data.get("noise")
    if not noise:
        return []
    count = counted(noise["workloads"], "workload")
    if noise["kind"] == TUNINGS:
        apart = f"Tunings of one workload lie {percent(noise['spread'])} from their median"
    else:
        apart = f"Repeats of one workload lie {percent(noise['spread'])} from their median"
    return [f"{apart} ({count}): no model can be better than about {percent(noise['floor'])}."]


def _new_campaign(metrics: Metrics) -> Metrics | None:
    """Return the model selected for new groups with its error in left-out campaigns; None if unknown."""
    new = (metrics.get("campaigns") or {}).get("new") or {}
    chosen = new.get("selected")
    if not chosen or (chosen.get("e_out") is None and not chosen.get("as_trained")):
        return None
    return chosen


def _of_campaigns(metrics: Metrics) -> list[str]:
    """Report the error of the model for new groups in a new campaign, and whether the campaigns suffice."""
    data = metrics.get("data") or {}
    chosen = _new_campaign(metrics)
    if not data.get("campaigns"):
        return []
    groups = (
        f"{counted(data.get('groups') or 0, 'group')} of {counted(data['campaigns'], 'campaign')}"
    )
    if chosen is None:
        return [f"{groups}: what a new campaign errs by cannot be told."]
    before = chosen.get("as_trained")
    if before:
        return [f"New campaigns: {_answer_since(chosen, before)}"]
    said = f"New campaigns: {chosen['name']} errs by {percent(chosen['e_out'])}{_interval(chosen)}"
    if metrics["campaigns"].get("resampled"):
        return [f"{said}; all that counts groups counts {groups}."]
    return [f"{said}; {groups} are too few for intervals of new campaigns."]


def _campaigns(metrics: Metrics, *, every: bool) -> Section:
    """Show the models for new groups with campaigns left out, and how many groups each campaign has."""
    new = (metrics.get("campaigns") or {}).get("new")
    said = _of_campaigns(metrics)
    medium: Medium = "both" if every else "page"
    parts: list[Part] = [Lines([Line(line) for line in said], medium="page")]
    if new:
        parts.append(model_table(new, medium=medium))
    groups = pd.DataFrame(metrics.get("groups") or [])
    if said and "campaign" in groups:
        sizes = groups.groupby("campaign").agg(groups=("group", "size"), rows=("n", "sum"))
        cells = []
        for name, size in sizes.sort_values("rows", ascending=False, kind="stable").iterrows():
            cells.append((str(name) or NONE, f"{size['groups']:,}", f"{size['rows']:,}"))
        heads = columns("campaign", numbers=("groups", "rows"))
        parts.append(Table(heads, rows(cells), "campaigns", shown=_WORST, medium=medium))
    return Section("New campaigns", parts if said else [], "campaigns", "Campaigns", folded=True)


def _pairs(pairs: Sequence[Metrics], scheme: str, *, every: bool) -> Section:
    medium: Medium = "both" if every else "page"
    table = laid_out("training-pairs", pairs, {"scheme": left_out(scheme)})
    folded = f"All {len(pairs)} pairs as a table"
    parts = [replace(table, folded=folded, medium=medium)]
    return Section("Error from each GPU to each other", parts, "pairs", "Pairs", folded=True)


def _inside(row: Metrics) -> str:
    """Say which rows the intervals of a scheme were judged on, if some lay outside the range of the other folds."""
    if row.get("rows_beyond"):
        return f"; {row['rows']:,} rows within the range of the others"
    return ""


def _intervals(intervals: Metrics, schemes_of: Sequence[Metrics], *, every: bool) -> Section:
    """Show how often the prediction intervals held, and how wide they are."""
    cells = [
        (
            left_out(name) + _inside(row),
            share(row["coverage"]),
            share(row.get("median_relative_width")),
        )
        for name, row in (intervals.get("schemes") or {"": intervals}).items()
        if row.get("coverage") is not None
    ]
    level = ""
    if intervals.get("level"):
        level = f"{100 * intervals['level']:.0f} %"
    held = f"Intervals that should hold {level} of new workloads held:"
    widths = ("covered", "median width, of the prediction")
    heads = (Column("predicting", "prose"), *columns(numbers=widths))
    medium: Medium = "both" if every else "page"
    table = Table(
        heads,
        rows(cells),
        "prediction intervals" + (f" at {level}" if level else ""),
        medium=medium,
    )
    said = Lines([Line(held)] if level and cells else [], medium="page")
    schemes = intervals.get("schemes") or {}
    beyond = list[str]()
    settings = schemes.get("range")
    if settings:  # what was measured on ranges of size that were left out
        rule, model, line = (
            percent(settings[key]) for key in ("e_out", "e_out_model", "e_out_affine")
        )
        beyond.append(
            f"Outside the trained range, {2 ** settings['fade']:g} x and more, a simple rule answers "
            f"({settings['rule']}): "
            f"error {rule}, the model {model}, the line {line}"
            f"{next(map(before_correction, schemes_of), '')}."
        )
    elif outside := intervals.get("outside"):
        beyond.append(f"Note: {Remark.from_dict(outside)}.")
    wider = []
    differing = intervals.get("difficulty")
    if differing:
        least, widest = (f"{width:.2g}" for width in differing["widths"])
        reach = f"eight rows of ten at {least} to {widest} x the middle"
        wider.append(
            f"Wider where the model errs more: {reach} ({', '.join(differing['features'])} ...)."
        )
    worst = (schemes.get("grouped") or {}).get("worst_groups") or []
    groups = replace(laid_out("training-held", worst), medium=medium)
    outside = []
    for texts in (beyond, wider):
        outside.append(Lines([Line(one) for one in texts], medium=medium))
    parts = [said, table, *outside, groups]
    return Section("Prediction intervals", parts, "intervals", "Intervals", folded=True)


def speedup_parts(metrics: Metrics) -> list[Part]:
    """Say how many times faster predictions are than the target itself, where that was asked, and what they cost."""
    speedup = metrics.get("speedup")
    if not speedup:
        return []
    if not speedup["n"]:
        return [lines(["No workload's cost on the target is known: no speed-up."])]
    over = (
        f"{speedup['mean']:,.4g} times faster than the target on average of "
        f"{counted(speedup['n'], 'workload')}"
    )
    costs = [
        ("target", speedup["target_s"]),
        ("run on the host", speedup["host_s"]),
        (f"counters, {counted(speedup['passes'], 'pass', 'passes')}", speedup["counters_s"]),
        ("model", speedup["model_s"]),
    ]
    heads = columns("cost of all together", numbers=("seconds",))
    table = Table(heads, rows([(name, f"{seconds:,.4g}") for name, seconds in costs]))
    unknown = ""
    if speedup["without_cost"]:
        unknown = f"; of {speedup['without_cost']:,} more no cost is known"
    said = [f"{over} ({speedup['least']:,.4g} to {speedup['most']:,.4g}){unknown}."]
    before = speedup.get("training_s")
    if before is not None:  # runs of before say nothing of it
        paid = speedup.get("break_even")
        data = f"training data and training cost {before:,.4g} s"
        said.append(
            f"{data}: they pay from {counted(paid, 'prediction')} on."
            if paid is not None
            else f"{data}, and a prediction saves nothing: it costs as much as the target."
        )
    return [lines(said), table]


def _data(data: Metrics, rejected: pd.DataFrame | None) -> Section:
    """Show the rejected rows with their first examples, and notes."""
    counted = data.get("rejected") or {}
    quoted: dict[str, list[str]] = {}
    if rejected is not None and len(rejected):
        counted = rejected["reason"].astype(str).value_counts().to_dict()
        for reason, source, detail in (
            rejected[["reason", "source", "detail"]].astype(str).itertuples(index=False)
        ):
            quoted.setdefault(reason, []).append(f"{source}: {detail}" if detail else source)
    reasons = [
        (coded(str(reason)), f"{count:,}", "\n".join(quoted.get(str(reason), [])[:_EXAMPLES]))
        for reason, count in sorted(counted.items(), key=lambda item: (-item[1], str(item[0])))
    ]
    heads = columns("rejected because", numbers=["rows"], prose=["first examples"])
    said = [line.text for line in losses({}, data.get("notes") or []).lines]
    if data.get("sha256"):
        said += [f"SHA-256 of the training data: {data['sha256']}"]
    odd = [
        (one["source"], f"{times(one['factor'])} than {one['beside']}")
        for one in data.get("irregular") or []
    ]
    irregular = Table(
        (Column("source", "place"), *columns(prose=["time"])),
        rows(odd),
        "irregular rows",
        medium="page",
    )
    parts = [
        Table(heads, rows(reasons), medium="page"),
        Lines([] if reasons else [Line("No row was rejected.")], medium="page"),
        irregular,
        lines(said, tone="soft", medium="page"),
    ]
    return Section("Rejected rows", parts, "data", "Data", folded=True)


def _honest(chosen: Metrics) -> str:
    return (
        f"{chosen['name']}: honest error {percent(chosen.get('e_out'))}{_interval(chosen)} out of "
        "sample"
    )


def _interval(chosen: Metrics) -> str:
    """Say between what the honest error lies."""
    bounds = chosen.get("interval")
    if not bounds:
        return ""
    level = ""
    if chosen.get("level"):
        level = f"{100 * chosen['level']:.0f} % interval "
    return f" ({level}{number(bounds[0])} – {percent(bounds[1])})"
