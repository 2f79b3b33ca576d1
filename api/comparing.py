"""Comparing: runs, traces, tables or answers, two or more, to what differs and where it comes from."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from os.path import exists  # False of a name too long to be one, where that of Path raises
from pathlib import Path
from typing import Any, Final, Unpack

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ..arrays import FloatArray
from ..errors import DataError, ParameterError, check_level, check_number
from ..evaluation.campaigns import Campaigns
from ..evaluation.paired import (
    Estimate,
    SchemeComparison,
    common_rows,
    compare_scheme,
    drift,
    estimated_difference,
    same_workloads,
)
from ..output import FILES, FORMATS
from ..projection.chrome import as_profiled, is_projected
from ..projection.comparison import TraceChanges, trace_changes
from ..projection.uncertainty import CPU, SPECS
from ..readers import Options, traces_of
from ..readers.base import TRACE_BYTES
from ..readers.files import content, head, suffix_of
from ..readers.labels import canonical_device
from ..remarks import Remark
from ..report.answer_schema import check_answer
from ..report.comparing import (
    Answers,
    answers_of_estimates,
    answers_of_runs,
    answers_of_tables,
    answers_of_traces,
    estimates_document,
    runs_document,
    several_document,
    tables_document,
    traces_document,
)
from ..report.document import Document
from ..report.many_runs import many_runs_document, runs_frame
from ..report.predictions import workload
from ..report.result import Shown, saving
from ..report.run_folder import METRICS, read_metrics, read_run
from ..settings import configured, spelt_out
from ..staging import temporary_folder
from ..table.conditions import Reading
from ..table.measurements import prediction_columns, quantity
from ..traces.summary import Annotated, with_possible_times
from .answers import WAY, Prediction, read_answers, read_predictions
from .deployments import Deployments
from .devices import stated_defaults
from .forecasting import Forecasts
from .predicting import RunLike
from .projecting import ProjectedTrace
from .tables import load_measurements


@dataclass(frozen=True)
class RunComparison(Shown):
    """Two runs side by side.

    Attributes
    ----------
    names : tuple of str
        What they are called.
    metrics : tuple of dict
        Their ``metrics.json``.
    schemes : tuple of SchemeComparison
        The schemes of cross-validation that both have: paired test, errors by model and group.
    common : int
        Rows that both predicted.
    """

    saved_as = FILES["compare"]
    names: tuple[str, str]
    metrics: tuple[dict[str, Any], dict[str, Any]]
    schemes: tuple[SchemeComparison, ...]
    common: int

    @property
    def table(self) -> pd.DataFrame:
        """One row per scheme and model: E_out of each run on the common rows, %, and the second minus the first."""
        return pd.concat(
            [one.by_model.assign(scheme=one.scheme) for one in self.schemes], ignore_index=True
        )

    def document(self) -> Document:
        """Return the comparison as `report` shows it on terminals and pages."""
        return runs_document(self.names, self.metrics, self.schemes, self.common)

    def answers(self) -> Answers:
        """Return what is compared in few figures, each of both sides."""
        return answers_of_runs(self.schemes, self.metrics)


@dataclass(frozen=True)
class TraceComparison(Shown):
    """Two traces side by side.

    Attributes
    ----------
    found : TraceChanges
        What the difference is made of, part by part and call by call (`projection.comparison`).
    """

    saved_as = FILES["compare"]
    found: TraceChanges

    @property
    def table(self) -> pd.DataFrame:
        """One row per kind of call, the largest difference first (`TraceChanges.calls`)."""
        return self.found.calls

    @property
    def names(self) -> tuple[str, str]:
        """What they are called."""
        return self.found.before.label, self.found.after.label

    def document(self) -> Document:
        """Return the comparison as `report` shows it on terminals and pages."""
        return traces_document(self.found)

    def answers(self) -> Answers:
        """Return what is compared in few figures, each of both sides."""
        return answers_of_traces(self.found)


@dataclass(frozen=True)
class TableComparison(Shown):
    """Two tables of measurements side by side.

    Attributes
    ----------
    names : tuple of str
        What they are called.
    table : DataFrame
        How the times of the problems that both hold changed, by operator
        (`evaluation.paired.drift`).
    level : float
        Of the intervals.
    """

    saved_as = FILES["compare"]
    names: tuple[str, str]
    table: pd.DataFrame
    level: float

    def document(self) -> Document:
        """Return the comparison as `report` shows it on terminals and pages."""
        return tables_document(self.names, self.table, self.level)

    def answers(self) -> Answers:
        """Return what is compared in few figures, each of both sides."""
        return answers_of_tables(self.table)


@dataclass(frozen=True)
class EstimateComparison(Shown):
    """Two projections of traces, or two sets of forecasts, side by side.

    Attributes
    ----------
    names : tuple of str
        What they are called.
    kind : str
        ``projections``, ``forecasts``, ``predictions`` or ``ways`` to serve.
    table : DataFrame
        One row per answer that both have: ``what``; ``first`` and ``second`` with ``_lower`` and
        ``_upper``; ``unit``; and the fields of `evaluation.paired.EstimatedDifference`, the
        interval of the second against the first.
    level : float
        Of the intervals of ratio and difference.
    unknown : mapping of str to Remark
        Which of the two predicts for a GPU that the catalogue does not have -> that.
    """

    saved_as = FILES["compare"]
    names: tuple[str, str]
    kind: str
    table: pd.DataFrame
    level: float
    unknown: Mapping[str, Remark] = field(default_factory=dict)

    def document(self) -> Document:
        """Return the comparison as `report` shows it on terminals and pages."""
        document = estimates_document(self.names, self.kind, self.table, self.level)
        if self.unknown:
            return document.with_remarks("unknown", self.unknown)
        return document

    def answers(self) -> Answers:
        """Return what is compared in few figures, each of both sides."""
        return answers_of_estimates(self.table)


Comparison = RunComparison | TraceComparison | TableComparison | EstimateComparison


@dataclass(frozen=True)
class SeveralComparison(Shown):
    """Three or more of a kind side by side, each against the first.

    Attributes
    ----------
    pairs : tuple of RunComparison, TraceComparison, TableComparison or EstimateComparison
        The first and each of the others; runs on the rows that all of them predicted.
    """

    saved_as = FILES["compare"]
    pairs: tuple[Comparison, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What they are called."""
        return (self.pairs[0].names[0], *(pair.names[1] for pair in self.pairs))

    @property
    def table(self) -> pd.DataFrame:
        """The tables of the pairs, below one another; ``second_is`` names the other of each."""
        return pd.concat(
            [pair.table.assign(second_is=pair.names[1]) for pair in self.pairs], ignore_index=True
        )

    def document(self) -> Document:
        """Return the comparison as `report` shows it on terminals and pages."""
        return several_document(
            self.names,
            [pair.answers() for pair in self.pairs],
            [pair.document() for pair in self.pairs],
        )


@dataclass(frozen=True)
class RunTable(Shown):
    """The runs of a folder side by side.

    Attributes
    ----------
    folder : str
        Its name.
    table : DataFrame
        A row for each run (`report.many_runs.runs_frame`): what it predicts, its model, rows and
        groups; its honest error with interval, the best simple rule, both in percent, and the share
        that its intervals held, for new groups (``grouped_``) and known ones (``kfold_``).
    """

    saved_as = FILES["compare"]
    folder: str
    table: pd.DataFrame

    def document(self) -> Document:
        """Return the runs as `report` shows them on terminals and pages."""
        return many_runs_document(self.folder, self.table)


Given = str | Path | RunLike | ProjectedTrace | Forecasts | Deployments | Prediction


@saving
@spelt_out
@configured
def compare(
    first: Given | Sequence[Given] = (),
    *others: Given,
    interval: float = 0.95,
    seed: int = 0,
    **reading: Unpack[Reading],
) -> Comparison | SeveralComparison | RunTable:
    """Compare runs (settings, errors, a paired test), traces (what was added, removed, faster), tables or answers.

    Runs are compared by model and group on the rows that both predicted. Traces are matched by
    operator and shape; the difference of their times is taken apart without rest. Of measurements,
    the times of the problems that both hold. Of projections, forecasts and predictions, ratio and
    difference with paired intervals: what errs alike cancels. Several are compared with the first,
    figure by figure, runs on the rows that all predicted. A folder of runs alone lists all of them.

    Parameters
    ----------
    first : path, Run, or what `project`, `forecast` or `predict` returned
        A run folder, a trace, measurements, or a saved projection, forecast or prediction; or,
        alone, a folder that holds run folders. In Python also a run, and what `project`, `forecast`
        or `predict` returned; a list of all that are to be compared may be given instead.
    *others : as the first, optional
        Others of its kind, each compared with the first.
    interval : float, default=0.95
        As for `predict`: of differences between runs and of ratios between tables.
    where, unit, default, rename
        As for `read`: of measurements.
    seed : int
        As for `train`: of the bootstrap of tables.

    Returns
    -------
    RunComparison, TraceComparison, TableComparison, EstimateComparison, SeveralComparison or RunTable
        With ``table``, a page and JSON; of a folder of runs a `RunTable`.

    Raises
    ------
    FlopcastError
        Fewer than two were given, they are not of one kind, or the runs share no scheme of
        cross-validation.

    Examples
    --------
    >>> import flopcast as fc
    >>> small = {"m": (None, 64)}
    >>> one, other = (fc.train(where=small, models=[name], jobs=1) for name in ("OLS", "Additive"))
    >>> found = fc.compare(one, other)
    >>> found.common == one.metrics["data"]["n"]
    True
    """
    check_level(interval)
    check_number("seed", seed, 0)
    given: list[Any] = (
        [*first] if isinstance(first, list | tuple) and not others else [first, *others]
    )
    if len(given) == 1 and (runs := _runs_within(given[0])):
        metrics = {folder.name: read_metrics(folder) for folder in runs}
        return RunTable(Path(given[0]).resolve().name, runs_frame(metrics))
    if len(given) < 2:
        raise ParameterError(
            "others",
            "must name what the first is compared with: give two or more, or a folder of runs",
        )
    for one in given:
        if isinstance(one, str | Path) and not exists(one):
            raise DataError("no such file or folder", source=str(one))
    called = ["first", "second", *(f"no. {place}" for place in range(3, len(given) + 1))]
    names = _names(
        [
            Path(one if isinstance(one, str | Path) else getattr(one, "folder", None) or name)
            for one, name in zip(given, called, strict=True)
        ]
    )
    held = [(name, _answers(one)) for one, name in zip(given, names, strict=True)]
    answers = [answer | {"called": name} for name, answer in held if answer is not None]
    if 0 < len(answers) < len(given):
        other = next(name for name, answer in held if answer is None)
        what = (
            f"{other} holds no answers with intervals, as {answers[0]['called']} does: give those "
            "of one kind"
        )
        raise DataError(what)
    if len(answers) == len(given):
        pairs: Sequence[Comparison] = _of_answers(answers, _on_targets(answers, names), interval)
    elif any(not isinstance(one, str | Path) or (Path(one) / METRICS).exists() for one in given):
        pairs = _of_runs(
            [_evidence(run, name) for run, name in zip(given, called, strict=True)], names, interval
        )
    else:
        pairs = _of_measured(
            [*map(Path, given)],
            names,
            interval,
            seed,
            reading,
        )
    if len(pairs) == 1:
        return pairs[0]
    return SeveralComparison(tuple(pairs))


def _runs_within(given: object) -> list[Path]:
    """Return the run folders in a folder that is no run itself, by name; none of anything else."""
    if not isinstance(given, str | Path):
        return []
    folder = Path(given)
    if not folder.is_dir() or (folder / METRICS).exists():
        return []
    return sorted(path.parent for path in folder.glob(f"*/{METRICS}"))


def _on_targets(answers: Sequence[dict[str, Any]], names: Sequence[str]) -> Sequence[str]:
    """Return the targets of projections, which say more than folders, where these differ; else the names."""
    targets = [str(one.get("target", "")) for one in answers]
    if all(targets) and len(set(targets)) == len(targets):
        return targets
    return names


def _of_answers(
    answers: Sequence[dict[str, Any]], names: Sequence[str], level: float
) -> list[EstimateComparison]:
    """Compare projections, or forecasts, with the first."""
    kinds = [_KINDS[next(iter(_KINDS.keys() & one.keys()))] for one in answers]
    for kind in kinds:
        if kind != kinds[0]:
            raise DataError(f"{kinds[0]} and {kind} cannot be compared: give those of one kind")
    matched = {
        "projections": _projections,
        "forecasts": _forecasts,
        "predictions": _predictions,
        "ways": _ways,
    }[kinds[0]]
    tables = []
    for other in answers[1:]:
        tables.append(pd.DataFrame([_row(*pair, level) for pair in matched(answers[0], other)]))
    notes = {
        name: note for name, one in zip(names, answers, strict=True) if (note := _unknown(one))
    }
    result = []
    for name, table in zip(names[1:], tables, strict=True):
        result.append(
            EstimateComparison(
                (names[0], name),
                kinds[0],
                table,
                level,
                {of: notes[of] for of in (names[0], name) if of in notes},
            )
        )
    return result


def _unknown(answers: Mapping[str, Any]) -> Remark | None:
    if "predictions" in answers:
        targets = answers["predictions"].frame["target"].astype(str).unique()
    else:
        targets = ()
    return next((note for target in targets if (note := canonical_device(target)[1])), None)


def _of_measured(
    paths: Sequence[Path], names: Sequence[str], level: float, seed: int, reading: Reading
) -> Sequence[TraceComparison | TableComparison]:
    """Compare traces, or tables of measurements, with the first."""
    defaults = stated_defaults(reading.get("default"))
    held = [_traces(path, Options(defaults=defaults)) for path in paths]
    if any(held):
        traces = [
            (name, _one(each, path)) for name, each, path in zip(names, held, paths, strict=True)
        ]
        steps = all(trace.dispatches["step"].notna().any() for _, trace in traces)
        return [
            TraceComparison(trace_changes([traces[0], other], steps=steps)) for other in traces[1:]
        ]
    tables = [load_measurements(path, **reading).frame for path in paths]
    return [
        TableComparison((names[0], name), drift(tables[0], other, level=level, seed=seed), level)
        for name, other in zip(names[1:], tables[1:], strict=True)
    ]


def _of_runs(
    runs: Sequence[tuple[dict[str, Any], pd.DataFrame]], names: Sequence[str], level: float
) -> list[RunComparison]:
    """Compare runs with the first, on the rows that all predicted."""
    units = {one["data"]["metric"] for one, _ in runs}
    if len(units) > 1:
        raise DataError(
            f"the runs predict different figures, {' and '.join(sorted(units))}: compare runs of "
            "one"
        )
    (metrics, predictions) = runs[0]
    comparisons = list[RunComparison]()
    matched = [common_rows(predictions, other) for _, other in runs[1:]]
    everywhere = set(matched[0]["row_first"]).intersection(*(rows["row_first"] for rows in matched))
    schemes = []
    for one, _ in runs:
        schemes.append({cv["scheme"]: cv for cv in one["cv"]})
    for name, rows, (first_metrics, other), of_run in zip(
        names[1:], matched, runs[1:], schemes[1:], strict=True
    ):
        common = rows[rows["row_first"].isin(everywhere)].reset_index(drop=True)
        both = [scheme for scheme in schemes[0] if scheme in of_run]
        if not both:
            raise DataError(
                "the runs share no scheme of cross-validation: compare runs that have one in common"
            )
        compared = [
            compare_scheme(
                (schemes[0][one], of_run[one]),
                (predictions, other),
                common,
                campaigns=Campaigns.of_metrics(metrics),
                level=level,
            )
            for one in both
        ]
        comparisons.append(
            RunComparison((names[0], name), (metrics, first_metrics), tuple(compared), len(common))
        )
    return comparisons


_KINDS: Final = {
    "classes": "projections",
    "forecasts": "forecasts",
    "predictions": "predictions",
    "ways": "ways",
}
"""A key of the JSON of each kind -> what it is."""
# how far a figure may be from itself where a spreadsheet saved it with six digits
_DIGITS: Final = 5e-6
SERVED: Final = {
    "ttft_ms": ("TTFT", "ms"),
    "tpot_ms": ("TPOT", "ms"),
    "tokens_per_s_per_gpu": ("tokens per GPU", "1/s"),
    "cost_per_million": ("cost of a million tokens", ""),
    "joules_per_token": ("energy of a token", "J"),
}
"""Figures of a way to serve that are compared -> what they are, and their unit."""
_PHYSICS: Final = ("residual", "gpu", "model")
"""Sources of a forecast's error that two of one release share only of the same setting, GPU or model."""


def _answers(given: object) -> dict[str, Any] | None:
    """Return the JSON of a projection or of forecasts, from a result or a saved file; else None."""
    if isinstance(given, ProjectedTrace | Forecasts):
        return dict(given.document().data)
    if isinstance(given, Prediction):
        return {"predictions": given}
    if isinstance(given, Deployments):
        return {
            "ways": given.ways.assign(model=given.choice.question.model.name, level=given.level)
        }
    if not isinstance(given, str | Path):
        return None
    path = Path(given)
    if path.is_dir():
        files = [path / name for name in ("project.json", "forecast.json")]
    else:
        files = [path]
    if path.is_file() and suffix_of(path) in FORMATS:
        return read_answers(path)
    file = next((one for one in files if suffix_of(one) == ".json" and one.is_file()), None)
    if file is None:
        return None
    most = _MOST_BYTES
    if path.is_dir():
        most = TRACE_BYTES
    try:
        answer = json.loads(content(file, max_bytes=most))
    except (DataError, ValueError, RecursionError):  # a trace, or damaged: its reader says how
        return None
    if not isinstance(answer, dict) or "schema" not in answer:
        return None
    if {"rows", "median_predicted"} <= answer.keys():
        return {"predictions": read_predictions(file)}
    if {"question", "fronts"} <= answer.keys():  # the page's JSON: the best ways alone
        check_answer(answer, "best", str(file))
        return {
            "ways": pd.DataFrame(answer["best"]).assign(
                model=answer["question"]["model"], level=answer["level"]
            )
        }
    for key in ("classes", "forecasts"):
        if key in answer:
            check_answer(answer, key, str(file))
            return answer
    return None


# of a JSON file that is looked into for answers: a longer one is a trace
_MOST_BYTES: Final = 2**26
_Pair = tuple[str, str, tuple[float, ...], tuple[float, ...], Estimate, Estimate, frozenset[str]]


def _row(
    what: str,
    unit: str,
    first: tuple[float, ...],
    second: tuple[float, ...],
    one: Estimate,
    other: Estimate,
    shared: frozenset[str],
    level: float,
) -> dict[str, Any]:
    difference = estimated_difference(one, other, shared, level)
    sides = {}
    for side, values in (("first", first), ("second", second)):
        for end, value in zip(("", "_lower", "_upper"), values, strict=True):
            sides[(f"{side}{end}")] = value
    return {"what": what, "unit": unit, **sides, **asdict(difference), "apart": difference.apart}


def _log_ratio(upper: float, lower: float) -> float:
    """Return the logarithm of a ratio, which itself may be beyond all floats."""
    return math.log(upper) - math.log(lower)


def _projections(first: dict[str, Any], second: dict[str, Any]) -> list[_Pair]:
    """Return the ends and the classes of two projections.

    Between one pair of GPUs classes by one law err alike, and so do figures and the CPU's speed
    that are as sure.
    """
    sides = []
    laws = []
    for one in (first, second):
        interval = one["interval"]
        reach = 2 * float(ndtri((1 + interval["level"]) / 2))
        sources = {
            row["name"]: _log_ratio(row["high_us"], row["low_us"]) / reach
            for row in interval["tornado"]
        }
        whole = (one["projected_us"], interval["lower_us"], interval["upper_us"])
        estimates = {"end to end": (whole, Estimate(one["projected_us"], sources))}
        for row in one["classes"]:
            if row["projected_us"] > 0:
                values = (row["projected_us"], row["lower_us"], row["upper_us"])
                estimates[row["op_class"]] = (
                    values,
                    Estimate(row["projected_us"], {row["op_class"]: row["sigma"] or 0.0}),
                )
        sides.append(estimates)
        laws.append({row["op_class"]: row["law"] for row in one["classes"]})
    same = all(first[name] == second[name] for name in ("host", "target"))
    sigmas = []
    for answer in (first, second):
        sigmas.append({row["name"]: row["sigma"] for row in answer["interval"]["tornado"]})
    names = {name for name, law in laws[0].items() if laws[1].get(name) == law}
    names |= {name for name in (CPU, *SPECS) if sigmas[0].get(name) == sigmas[1].get(name)}
    shared = frozenset(names if same else ())
    return [
        (what, "us", values, sides[1][what][0], estimate, sides[1][what][1], shared)
        for what, (values, estimate) in sides[0].items()
        if what in sides[1]
    ]


def _forecasts(first: dict[str, Any], second: dict[str, Any]) -> list[_Pair]:
    """Return the answers of two sets of forecasts in their order; those of one release share its constants."""
    lists = first["forecasts"], second["forecasts"]
    if len(lists[0]) != len(lists[1]):
        raise DataError(
            f"{len(lists[0])} and {len(lists[1])} forecasts cannot be paired: give the same "
            "settings of both"
        )
    pairs = []
    asked = [one["asked"] for one in (*lists[0], *lists[1])]
    varied = []
    names = []
    for case in asked:
        names.extend(case)
    for name in dict.fromkeys(names):
        if len({str(one.get(name)) for one in asked}) > 1:
            varied.append(name)
    for one, other in zip(*lists, strict=True):
        if (
            one["predicted"] is None
            or other["predicted"] is None
            or one.get("reason")
            or other.get("reason")
        ):
            continue
        if one["unit"] != other["unit"]:
            raise DataError(
                f"{one['unit']} and {other['unit']} cannot be compared: give forecasts of one kind"
            )
        values: list[Any] = []
        estimates: list[Any] = []
        for each, level in ((one, first["level"]), (other, second["level"])):
            values.append((each["predicted"], each["lower"], each["upper"]))
            deviations = float(ndtri((1 + level) / 2))
            whole = _log_ratio(each["upper"], each["lower"]) / (2 * deviations)
            scale = whole / (math.hypot(*each["spreads"].values()) or 1.0)
            estimates.append(
                Estimate(
                    each["predicted"], {name: c * scale for name, c in each["spreads"].items()}
                )
            )
        alike = {
            name: one["asked"].get(name) == other["asked"].get(name)
            for name in ("gpu", "model", "release")
        }
        if alike["release"]:
            common = set(one["spreads"]) & set(other["spreads"])
        else:
            common = set()
        common -= {name for name in _PHYSICS if not alike.get(name, one["asked"] == other["asked"])}
        fields = (
            (name, one["asked"].get(name, "–"), other["asked"].get(name, "–")) for name in varied
        )
        what = ", ".join(f"{name} {a}" if a == b else f"{name} {a} → {b}" for name, a, b in fields)
        pairs.append((what or "the answer", one["unit"], *values, *estimates, frozenset(common)))
    if not pairs:
        raise DataError("no setting has an answer in both: there is nothing to compare")
    return pairs


def _predictions(first: dict[str, Any], second: dict[str, Any]) -> list[_Pair]:
    """Return all rows that both predicted, together and each.

    What is one figure for one GPU on both sides, to six digits (limits of another level apart), is
    the same and errs alike, and so does what differs by one factor in all rows: a run and the same
    run corrected. What intervals of one side are wider by is its own then. Nothing else is taken to
    err alike. In the sum the rows of a group err alike, and groups independently; without groups
    all rows are one.
    """
    tables: list[pd.DataFrame] = [one["predictions"].frame for one in (first, second)]
    metrics = [frame["metric"].iloc[0] for frame in tables]
    if metrics[0] != metrics[1]:
        raise DataError(
            f"{metrics[0]} and {metrics[1]} cannot be compared: give predictions of one metric"
        )
    names = prediction_columns(metrics[0])
    called = first["called"], second["called"]
    sides = same_workloads(
        tables[0], tables[1], names["predicted"], {"duration_us", metrics[0]}, called
    )
    one, other = (side[[*names.values()]].astype(float) for side in sides)
    same = (one - other).abs() <= _DIGITS * one.abs()
    same.loc[sides[0]["level"] != sides[1]["level"], [names["lower"], names["upper"]]] = True
    alike = same.all(axis=1) & (sides[0]["target"] == sides[1]["target"])
    sides[1].loc[alike, [*names.values(), "level"]] = sides[0].loc[
        alike, [*names.values(), "level"]
    ]
    if "group" in sides[0]:
        group = sides[0]["group"].astype(str)
    else:
        group = pd.Series("", alike.index)
    one_factor = _differ_by_a_factor(one[names["predicted"]], other[names["predicted"]], alike)
    alike |= one_factor & (sides[0]["target"] == sides[1]["target"])
    spreads = [_sigmas(side, names) for side in sides]
    common = np.where(alike, np.minimum(*spreads), 0.0)
    values = []
    each = []
    for side, sigmas in zip(sides, spreads, strict=True):
        ends = side[[*names.values()]].to_numpy(dtype=float)
        apart = np.sqrt(np.maximum(sigmas**2 - common**2, 0.0))
        total = float(ends[:, 0].sum())
        weights = pd.Series(ends[:, 0] / total)
        sources = {}
        grouped = (weights * np.where(alike, common, sigmas)).groupby([alike, group])
        for (is_same, of), sigma in grouped.agg(lambda of: of.sum(skipna=False)).items():
            sources[_source_of_group(is_same, of)] = float(sigma)
        sources[_FACTOR] = float((weights * np.where(alike, apart, 0.0)).sum(skipna=False))
        deviations = ndtri((1 + side["level"].iloc[0]) / 2)
        spread = math.exp(math.hypot(*sources.values()) * deviations)
        values.append([(total, total / spread, total * spread), *map(tuple, ends.tolist())])
        estimates = [Estimate(total, sources)]
        for place, value in enumerate(ends[:, 0]):
            sigma_of = {_ROW: float(sigmas[place])}
            if alike.iloc[place]:
                sigma_of = {_ROW: float(common[place]), _FACTOR: float(apart[place])}
            estimates.append(Estimate(value, sigma_of))
        each.append(estimates)
    targets = [" and ".join(dict.fromkeys(side["target"].astype(str))) for side in sides]
    titles = [f"all {len(alike):,} rows", *(workload(row) for row in sides[0].to_dict("records"))]
    if targets[0] != targets[1]:
        titles[0] = f"{titles[0]}, {targets[0]} → {targets[1]}"
    unit = quantity(metrics[0]).suffix
    shared = [frozenset(_source_of_group(True, of) for of in group)]
    for is_same in alike:
        shared.append(frozenset([_ROW] if is_same else []))
    return [(what, unit, *rest) for what, *rest in zip(titles, *values, *each, shared, strict=True)]


def _source_of_group(is_same: bool, group: str) -> str:
    """Name what makes the rows of a group uncertain: those that both sides answer alike, or the others."""
    if is_same:
        return f"rows answered alike of {group}"
    return f"other rows of {group}"


def _sigmas(side: pd.DataFrame, names: Mapping[str, str]) -> FloatArray:
    """Return the deviation of each row's logarithm, (n,), from its interval; NaN where it has no bound."""
    reach = 2 * ndtri((1 + side["level"].to_numpy(dtype=float)) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = side[names["upper"]].to_numpy(dtype=float) / side[names["lower"]].to_numpy(
            dtype=float
        )
        sigmas = np.log(ratio) / reach
    return np.where(np.isfinite(sigmas), sigmas, np.nan)


def _differ_by_a_factor(first: pd.Series, second: pd.Series, alike: pd.Series) -> pd.Series:
    """Return which rows that are not ``alike`` have one ratio, (n,): none unless all have, of three times or more."""
    ratio = (second / first)[~alike]
    several = first[~alike].nunique() >= _LEAST_TIMES
    if several and ratio.gt(0).all() and ratio.max() <= ratio.min() * (1 + 4 * _DIGITS):
        return ~alike
    return pd.Series(data=False, index=alike.index)


_FACTOR: Final = "factor"  # the error of a factor that one side has beside the other
_ROW: Final = "the row"  # what makes one row uncertain
_LEAST_TIMES: Final = 3  # different times whose ratio is no accident


def _ways(first: dict[str, Any], second: dict[str, Any]) -> list[_Pair]:
    """Return the figures of the ways to serve that both have, in the order of the first.

    What is one figure on both sides is the same and errs alike, nothing else is taken to.
    """
    sides: list[pd.DataFrame] = [one["ways"].fillna({"kv_dtype": ""}) for one in (first, second)]
    keys = [
        *WAY,
        *(["concurrency"] if any(side.duplicated([*WAY]).any() for side in sides) else []),
    ]
    pairs = []
    for row in sides[0].merge(sides[1], on=keys, suffixes=("_1", "_2")).to_dict("records"):
        way = f"{row['gpus']:g} × {row['gpu']}, {row['engine']} {row['dtype']}, tp {row['tp']:g}"
        if row["model_1"] == row["model_2"]:
            models = ""
        else:
            models = f"{row['model_1']} → {row['model_2']}, "
        for name, (what, unit) in SERVED.items():
            cells = []
            for side in (1, 2):
                cells.append([row.get(f"{name}{end}_{side}") for end in ("", "_lower", "_upper")])
            ends = []
            for side in cells:
                ends.append(tuple(math.nan if cell is None else float(cell) for cell in side))
            if not all(map(math.isfinite, (*ends[0], *ends[1]))):
                continue  # one has no such figure, as a cost without a price, or was saved without it
            reaches = [2 * float(ndtri((1 + row[f"level_{side}"]) / 2)) for side in (1, 2)]
            sigmas = [
                _log_ratio(one[2], one[1]) / reach for one, reach in zip(ends, reaches, strict=True)
            ]
            each = [
                Estimate(one[0], {name: sigma}) for one, sigma in zip(ends, sigmas, strict=True)
            ]
            title = f"{what}, {models}{way}"
            same = frozenset([name] if np.allclose(*ends, rtol=_DIGITS, atol=0) else [])
            pairs.append((title, unit, ends[0], ends[1], each[0], each[1], same))
    if not pairs:
        raise DataError(
            f"no way to serve is in both, the same {', '.join(keys)}: there is nothing to compare"
        )
    return pairs


def _traces(path: Path, options: Options) -> list[Annotated]:
    """Return the traces of a file or folder, also a projected one that flopcast wrote."""
    if path.is_file() and is_projected(head(path)):
        return [_projected_trace(path, options)]
    return [with_possible_times(trace, label) for label, trace in traces_of([path], options)]


def _projected_trace(path: Path, options: Options) -> Annotated:
    """Return a projected trace as one of its target."""
    try:
        profiled, target = as_profiled(content(path, max_bytes=TRACE_BYTES))
    except DataError as error:
        raise error.within(str(path)) from error
    of_target = replace(options, defaults={**options.defaults, "device": target})
    with temporary_folder() as folder:
        file = folder / "trace.json"
        file.write_bytes(profiled)
        traces = [trace for _, trace in traces_of([file], of_target)]
    return with_possible_times(_one(traces, path), path.name)


def _one(traces: list[Annotated], path: Path) -> Annotated:
    if len(traces) != 1:
        if traces:
            count = f"{len(traces)} traces"
        else:
            count = "neither a run nor a trace"
        raise DataError(
            f"holds {count}: give two runs, or two paths with one trace each", source=str(path)
        )
    return traces[0]


def _evidence(run: object, parameter: str) -> tuple[dict[str, Any], pd.DataFrame]:
    """Return the metrics and the predictions of a run."""
    if isinstance(run, str | Path):
        return read_run(Path(run))
    predictions: Any = getattr(run, "predictions", None)
    if not isinstance(predictions, pd.DataFrame):
        raise ParameterError(
            parameter, f"must be a run or the folder of one, got {type(run).__name__}"
        )
    made: Any = run
    return made.metrics, predictions


def _names(paths: Sequence[Path]) -> tuple[str, ...]:
    """Return the last parts of paths that all differ, as their names."""
    for parts in zip(*(reversed(path.resolve().parts) for path in paths), strict=False):
        if len(set(parts)) == len(paths):
            return parts
    return tuple(f"{path.name} ({place})" for place, path in enumerate(paths, 1))
