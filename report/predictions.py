"""Predictions of a run: their columns, their files, what there is to say of them as a whole, and of one of them why."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from ..errors import few
from ..evaluation.paired import IDENTITY, SIZES
from ..evaluation.stated_error import LEVEL as STATED
from ..hardware import Comparison
from ..models.explanation import Part
from ..operators.operators import OPS
from ..output import (
    MADE_BY,
    PREDICTION_FORMATS,
    SCHEMA,
    check_file,
    printable_json,
    whole_file,
    whole_table,
)
from ..table.measurements import prediction_columns, quantity
from .document import (
    Bar,
    Bars,
    Column,
    Document,
    Fact,
    Facts,
    Figure,
    Headline,
    Lines,
    Listing,
    Row,
    Section,
    Table,
    Tone,
    columns,
    lines,
    picked,
    remarked,
)
from .figures import intervals, over_measured, thinned
from .formats import NONE, alike, counted, figure, has_value, number, percent, share
from .layouts import laid_out
from .training import metric, speedup_parts, title

SHOWN = 10  # first rows that are kept where all are written to a file
# on a terminal
_ROWS = 6
_CAUSES = 3
_LEAST_SURE: Final = 10  # rows of a page
_WORKLOAD = 48  # columns of text for a workload
_ENDS: Final = ("predicted", "lower", "upper")
_ALWAYS = ("op", "dtype_a", "source")
ABOUT: Final = ("target", "metric", "level", "basis")
"""Columns that say of every row what is predicted of it, and how its interval is to be read."""
Report = Mapping[str, Any]


class Identity:
    """The columns that identify the workload of a row, without empty ones; whole numbers are written as integers.

    Operator, family and variant, number formats, dimensions, kernel, device, group, campaign and
    source; the measured time and metric go along. Which, and what they hold, is settled when all rows
    have been seen.
    """

    def __init__(self, metric: str) -> None:
        self._wanted = tuple(dict.fromkeys((*IDENTITY, "duration_us", metric)))
        self._filled: set[str] = set()
        self._whole: dict[str, bool] = {}  # of the columns of numbers that have some

    def see(self, rows: pd.DataFrame) -> None:
        """Record the columns of some rows, as `readers.read_rows` returns them."""
        for name in (name for name in self._wanted if name in rows):
            column = rows[name]
            if name not in self._filled and (
                name in _ALWAYS or (column.notna() & column.ne("")).any()
            ):
                self._filled.add(name)
            if not pd.api.types.is_float_dtype(column) or not self._whole.get(name, True):
                continue
            values = column.dropna().to_numpy(dtype=np.float64)
            if len(values):
                whole = (np.floor(values) == values) & (np.abs(values) < 2**53)
                self._whole[name] = bool(whole.all())

    def of(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the columns of some of the rows."""
        columns: dict[str, pd.Series] = {}
        for name in (name for name in self._wanted if name in self._filled):
            if name in rows:
                column = rows[name]
            else:
                column = pd.Series(np.nan if name in self._whole else "", rows.index)
            as_whole = self._whole.get(name, False) and pd.api.types.is_float_dtype(column)
            if as_whole:
                columns[name] = column.astype("Int64")
            else:
                columns[name] = column
        return pd.DataFrame(columns, index=rows.index)


def in_order(frame: pd.DataFrame, answer: Sequence[str]) -> pd.DataFrame:
    """Return rows whose first columns are operator, format and dimensions, and then the ``answer``."""
    first = [name for name in ("op", "dtype_a", *SIZES) if name in frame]
    first += [name for name in answer if name in frame]
    return frame[[*first, *(name for name in frame if name not in first)]]


BASES = {
    "known group": "of trained groups: intervals as learnt from new rows of known groups",
    "new group": "of new groups: intervals as learnt from groups left out",
    "new campaign": "of new groups of no trained campaign: intervals as learnt from campaigns left out",
    "new device": "of devices that were not trained: intervals, if any, as learnt from devices left out",
    "new host": "measured on devices that were no hosts in training: no intervals",
    "blend": "of them little outside the trained range: model and simple rule mixed (column basis)",
    "rule": "of them far outside the trained range: a simple rule",
    "law": "of them never trained: the law at trained rates, a rough figure",
}
"""What answered for a row that the model alone did not."""


class Tally:
    """What the predictions have in common, counted batch by batch."""

    def __init__(self, metric: str) -> None:
        self.rows = self.predicted = self.outside = 0
        self.parts: Counter[tuple[str, str]] = Counter()
        self._names = prediction_columns(metric).values()
        self._counts: dict[str, Counter[Hashable]] = {
            key: Counter() for key in ("not_predicted", "basis", "causes")
        }
        self._figures: list[np.ndarray] = []

    def add(
        self,
        frame: pd.DataFrame,
        first: pd.Series,
        parts: pd.DataFrame | None = None,
    ) -> None:
        """Count rows, by basis and part too (`TrainedModel.parts`).

        `first` is the first way in which each is unlike training, or why it has no prediction: in
        words without figures (`remarks.Remark.general`); "" where there is none.
        """
        predicted, lower, upper = (frame[name].to_numpy(dtype=float) for name in self._names)
        done = ~np.isnan(predicted)
        outside = frame["extrapolated"].to_numpy(dtype=bool)
        self.rows = self.rows + len(frame)
        self.predicted = self.predicted + int(done.sum())
        self.outside += int(outside.sum())
        labels = {
            "not_predicted": first[~done],
            "basis": frame["basis"][frame["basis"].ne("")],
            "causes": first[outside],
        }
        if parts is not None:
            answered = parts[done & ~outside]
            counts = answered.value_counts(sort=False)
            for (basis, part), count in zip(counts.index.to_list(), counts, strict=True):
                self.parts[str(basis), str(part)] += int(count)
        for key, words in labels.items():
            self._counts[key].update(words.value_counts(sort=False).to_dict())
        with np.errstate(invalid="ignore", divide="ignore"):
            self._figures.append(np.stack([predicted, (upper - lower) / predicted]))

    @property
    def refused(self) -> str:
        """Why rows have no prediction, the most frequent reason first, each with its rows."""
        reasons = self._counts["not_predicted"].most_common()
        return few((f"{why} ({counted(count, 'row')})" for why, count in reasons), limit=3)

    def report(self, facts: Report, notes: Sequence[str]) -> dict[str, Any]:
        """Return the summary for terminal and JSON.

        `facts` on the model and the data go along as they are; `notes` are remarks
        for the user.
        """
        predicted, width = np.concatenate(self._figures, axis=1)
        return {
            "schema": SCHEMA,
            **facts,
            "n": self.rows,
            "predicted": self.predicted,
            "not_predicted": dict(self._counts["not_predicted"].most_common()),
            "extrapolated": self.outside,
            "basis": dict(self._counts["basis"].most_common()),
            "causes": dict(self._counts["causes"].most_common()),
            "median_predicted": _median(pd.Series(predicted)),
            "median_relative_width": _median(pd.Series(width)),
            "notes": list(notes),
        }


def write_file(frame: pd.DataFrame, report: Report, out: Path) -> None:
    """Write predictions in the format of the suffix, whole or not at all; an earlier file of flopcast is replaced.

    Raises DataError: `output.check_file` refuses ``out``, or it cannot be written.
    """
    check_file(out, PREDICTION_FORMATS)
    if out.suffix.lower() == ".json":
        with whole_file(out) as path:
            path.write_text(to_json(frame, report), encoding="utf-8")
    else:
        write_batches([frame], out)


def write_batches(frames: Iterable[pd.DataFrame], out: Path) -> None:
    """Write a ``.csv`` or ``.parquet`` file of frames with the same columns, as they come, and as `write_file` does."""
    tables = (pa.Table.from_pandas(frame, preserve_index=False) for frame in frames)
    first = next(tables)
    repeating = [field.name for field in first.schema if not pa.types.is_floating(field.type)]
    with whole_table(out, first.schema, repeating=repeating) as file:
        for table in chain([first], tables):
            file.write_table(table)


def to_json(frame: pd.DataFrame, report: Report) -> str:
    """Return the report and, under ``rows``, one object per row on a separate line; null where there is no number."""
    head = json.dumps(_finite({**MADE_BY, **report}), ensure_ascii=False, allow_nan=False)
    columns = [_values(frame[name]) for name in frame]
    names = [str(name) for name in frame]
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    rows = ",\n".join(
        encode(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)
    )
    return printable_json(f'{head[:-1]}, "rows": [\n{rows}\n]}}\n')


def predictions_document(frame: pd.DataFrame, report: Report, *, whole: bool = False) -> Document:
    """Return the summary and the first rows, for terminals; what a `Tally` says of them is `report`.

    Unless the `whole` is written elsewhere, a terminal says how to write all rows.
    """
    middle = f"median {figure(report['median_predicted'])} ({metric(report)})"
    width = "no bound known at this level, or of such rows"
    if report["median_relative_width"] is not None:
        width = f"median width {share(report['median_relative_width'])}"
    spread = f"{100 * report['level']:g} % intervals: {width}"
    expected = [*_expected(report)]
    unit = quantity(report["metric"]).unit
    answer = f"median {figure(report['median_predicted'])} {unit} on {report['target']}"
    rival = ""
    is_whole = len(frame) == report["n"]
    if report["host"] is not None and report["metric"] in frame and is_whole:
        predicted = frame[prediction_columns(report["metric"])["predicted"]].notna()
        measured = _median(frame[report["metric"]][predicted])
        rival = f"median {figure(measured)} {unit} measured on {report['host']}"
    beneath = f"{'; '.join([spread, *expected])}."
    more = f"These are the first of {len(frame):,} rows: --out FILE.csv writes them all"
    return Document(
        title=f"{title(report)}: {metric(report)}, by {report['model']}",
        opening=[
            Headline("", answer, rival, beneath, medium="page"),
            Facts(tuple(_counts(report))),
            lines([f"{middle}, {spread}", *expected], medium="terminal"),
            first_rows(frame, report),
            *speedup_parts(report),
        ],
        sections=_sections(frame, report),
        closing=[
            lines([] if whole or len(frame) <= _ROWS else [more]),
            Lines(remarked(report["notes"])),
        ],
        data=report,
    )


def _sections(frame: pd.DataFrame, report: Report) -> list[Section]:
    """Return what a page has of the rows: their intervals, beside what was measured, the least sure, and all."""
    predicted, lower, upper = prediction_columns(report["metric"]).values()
    done = frame[frame[predicted].notna()]
    half_width = (done[upper] - done[lower]) / (2 * done[predicted])
    order = half_width.fillna(np.inf).sort_values(ascending=False, kind="stable").index
    least_sure = replace(
        _rows_of(done.loc[order].head(_LEAST_SURE), report),
        title="least sure",
        caption="The widest intervals, relative to the prediction.",
        medium="page",
    )
    remarks = replace(Lines(remarked(report["notes"]), "list"), medium="page")
    return [
        Section("How sure each prediction is", _drawn(done, report), "intervals", "Intervals"),
        Section("Least sure", [least_sure]),
        Section("All predictions", [_listing(frame, report)], "rows", "Rows"),
        Section("Remarks", [remarks]),
    ]


def _drawn(done: pd.DataFrame, report: Report) -> list[Figure]:
    """Return the figures of predicted rows: their intervals, and the predictions over what was measured."""
    name = report["metric"]
    predicted = prediction_columns(name)["predicted"]
    rows = thinned(done.sort_values(predicted, kind="stable"))
    bars = f"bars are {100 * report['level']:g} % intervals"
    if len(rows) < len(done):
        bars += f" ({len(rows):,} of {len(done):,} rows, evenly chosen by their place)"
    drawn = f"Predictions from the smallest to the largest; {bars}"
    pictures = [Figure(partial(intervals, rows, name), drawn)]
    where = report["host"]
    if where is None and "device" in rows:
        where = report["target"]
        # measured elsewhere, such a row says nothing of the target
        rows = rows[rows["device"] == where]
    if where is None or name not in rows:
        return pictures
    drawn = f"Predicted over measured on {where}; {bars}"
    return [*pictures, Figure(partial(over_measured, rows, name, str(where)), drawn)]


def _listing(frame: pd.DataFrame, report: Report) -> Listing:
    """List every row, of very many evenly chosen ones."""
    shown = thinned(frame)
    which = f"All {counted(len(frame), 'prediction')}"
    if len(shown) < len(frame):
        which = f"{len(shown):,} of {len(frame):,} predictions, evenly chosen by their place,"
    folded = f"{which} as a table: search, sort, download"

    def texts() -> list[list[str]]:
        table = _rows_of(shown, report)
        cells = [[str(cell) for cell in row.cells] for row in table.rows]
        return [list(column) for column in zip(*cells, strict=True)]

    return Listing(_rows_of(shown[:0], report).columns, texts, "predictions", folded=folded)


def _expected(report: Report) -> Iterator[str]:
    """Say what the rows are expected to err by, where the run states it."""
    stated = report.get("stated_error")
    if stated is not None:
        error = f"mean error expected: {stated_error(stated)}"
        if stated["rows"] < report["predicted"]:
            error += f" of the {counted(stated['rows'], 'row')} within what was trained"
        yield error


def stated_error(stated: Mapping[str, Any]) -> str:
    """Return a `StatedError` in words: the error with its interval."""
    level = f"{100 * STATED:g} % interval"
    reach = f"{number(stated['lower'])} – {percent(stated['upper'])}"
    return f"{percent(stated['error'])} ({level} {reach})"


def first_rows(frame: pd.DataFrame, report: Report) -> Table:
    """Return the first rows, for terminals, whose lines have no room for whole workloads."""
    table = _rows_of(frame.head(_ROWS), report)
    first, *others = table.columns
    return replace(table, columns=[replace(first, kind="cut"), *others], medium="terminal")


def _rows_of(frame: pd.DataFrame, report: Report) -> Table:
    """Return rows as a table: the workload, what the host measured, the prediction and its interval."""
    names = dict(zip(prediction_columns(report["metric"]).values(), _ENDS, strict=True))
    words = {}
    if report["host"] is not None and report["metric"] in frame:
        names = {report["metric"]: str(report["host"]), **names}
    if Comparison.means_all(report["host"]):
        words["device"] = "on"
        names = {name: head if head in _ENDS else "measured" for name, head in names.items()}
    body = []
    for row in frame.to_dict("records"):
        cells = (*(row[name] for name in words), *(figure(row[name]) for name in names))
        tone: Tone = "warning" if row["reason"] else ""
        body.append(Row((workload(row), *cells, row["reason"]), tone))
    unit = quantity(report["metric"]).unit
    heads = (
        Column("workload", most=_WORKLOAD),
        *columns(*words.values()),
        *(Column(head, "number", unit=unit) for head in names.values()),
        Column("unlike training, or not predicted", "prose"),
    )
    return Table(heads, body)


def _counts(report: Report) -> Iterator[Fact]:
    """Yield how many rows were predicted, and why others were not or are unlike training."""
    yield Fact(f"{report['predicted']:,}", f"of {counted(report['n'], 'workload')} predicted")
    for reason, count in report["not_predicted"].items():
        yield Fact(f"{count:,}", f"not predicted: {reason}", "warning")
    for device, count in report["other_devices"].items():
        host = report["host"]
        yield Fact(
            f"{count:,}",
            f"rows of {device} left out: this run predicts from what {host} measured",
            "soft",
        )
    yield Fact(f"{report['extrapolated']:,}", "unlike anything in training (column extrapolated)")
    for basis, words in BASES.items():
        count = report["basis"].get(basis)
        if count:
            yield Fact(f"{count:,}", words)
    named = Counter(report["causes"])
    shown = dict(named.most_common(_CAUSES))
    if len(named) > _CAUSES:
        shown["other reasons"] = named.total() - sum(shown.values())
    for why, count in shown.items():
        yield Fact(f"{count:,}", f"– {why}", "warning")


def workload(row: Mapping[Any, Any]) -> str:
    """Return operator, format and the dimensions that differ from their default."""
    op = OPS.get(str(row["op"]))
    if op:
        defaults = op.defaults
    else:
        defaults = {}
    sizes = [
        f"{name}={f'{row[name]:.15g}' if isinstance(row[name], float) else row[name]}"
        for name in (op.dims if op else ())
        if name in row and not pd.isna(row[name]) and row[name] not in ("", defaults.get(name))
    ]
    return " ".join([str(row["op"]) or "?", str(row["dtype_a"]) or "?", *sizes])


def _median(values: pd.Series) -> float | None:
    middle = float(values.dropna().median())
    if np.isfinite(middle):
        return middle
    return None


def _values(column: pd.Series) -> list[Any]:
    """Return a column as JSON values."""
    if pd.api.types.is_float_dtype(column):
        finite = np.isfinite(column.to_numpy(dtype=float, na_value=np.nan))
        return column.astype(object).where(finite, None).tolist()
    return column.astype(object).where(column.notna(), None).tolist()


def _finite(value: Any) -> Any:
    """Return JSON values with null in place of NaN and infinity."""
    if isinstance(value, Mapping):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


_DEEPER: Final = "\u00a0" * 4  # blanks that pages keep too
_KINDS: Final = {
    "shape": "model of the shape alone",
    "member": "member",
    "base": "base",
    "residual": "residual: a factor on the base",
    "term": "term",
    "model": "model",
    "coefficient": "× column",
}
_BASES: Final = {
    "model": "the model",
    "known group": "the model, of a group that was trained",
    "new group": "the model, of a group that was not trained",
    "new campaign": "the model, of a group and a campaign that were not trained",
    "new device": "the model, on a device that was not trained",
    "new host": "the model, from a device that was no host in training",
    "beyond": "the model, outside the range of its operator",
    "blend": "a blend of model and simple rule",
    "rule": "a simple rule",
    "": "nothing",
}


@dataclass(frozen=True)
class Explained:
    """What one prediction rests on.

    Attributes
    ----------
    workload, metric, model : str
        What was predicted, of which metric, by which model.
    answer : Mapping
        ``predicted``, ``lower``, ``upper``, ``level``, ``basis``, ``reasons`` (words), ``host``
        (what was measured there, or None).
    alone : float
        What the model alone says, before a rule outside its range or a correction.
    correction : float or None
        The factor that the run was corrected by since, on all answers but those of ``laws``.
    rule : str or None
        The simple rule that erred least in training, one of ``laws``.
    parts : sequence of Part
        Of that (`models.explanation`).
    laws : mapping of str to float
        What the laws and simple rules say.
    neighbours : DataFrame
        Trained rows, the nearest first: ``group``, ``source``, ``observed``, ``predicted``,
        ``ape``, ``apart``, the factor by which what laws say of them differs at most.
    features : DataFrame
        Where its features lie in the trained range (`evaluation.domain.TrainedRange.places`).
    """

    workload: str
    metric: str
    model: str
    answer: Mapping[str, Any]
    alone: float
    correction: float | None
    rule: str | None
    parts: Sequence[Part]
    laws: Mapping[str, float]
    neighbours: pd.DataFrame
    features: pd.DataFrame


def explanation_document(explained: Explained) -> Document:
    """Return the reasons of a prediction, for terminal, page and machines."""
    unit = quantity(explained.metric).unit
    law = explained.laws.get(explained.rule or "")
    predicted, by_rule = alike(explained.answer["predicted"], law)
    rival = ""
    if law is not None:
        rival = f"{explained.rule}: {by_rule} {unit}"
    says = alike(*explained.laws.values())
    said = []
    for (name, value), text in zip(explained.laws.items(), says, strict=True):
        ratio = None
        if value:
            ratio = explained.answer["predicted"] / value
        said.append({"law": name, "says": text, "ratio": ratio})
    laws = laid_out("explanation-laws", said, {"unit": unit})
    since = ""
    if explained.correction is not None:
        since = ", before the correction"
    names = {"unit": unit, "since": since}
    neighbours = laid_out("explanation-neighbours", explained.neighbours, names)
    features = laid_out("explanation-features", explained.features, tone=_outside)
    return Document(
        title=explained.workload,
        lead=f"predicted by {explained.model}: {quantity(explained.metric).label}",
        opening=[
            Headline("", f"{predicted} {unit} on the target", rival, sentence(explained)),
            lines(explained.answer["reasons"], "list", tone="warning"),
            _pictured(explained, unit),
        ],
        sections=[
            Section(
                "What each part of the model adds", [_parts(explained, unit)], "parts", "Parts"
            ),
            Section("Against the laws", [laws], "laws", "Laws"),
            Section("Nearest trained rows", [neighbours], "neighbours", "Neighbours"),
            Section("Features, the most unusual first", [features], "features", "Features"),
        ],
        data={
            "schema": SCHEMA,
            **picked(explained, "workload", "metric", "model"),
            **explained.answer,
            "model_alone": explained.alone,
            "correction": explained.correction,
            "statement": sentence(explained),
            "parts": [vars(part) for part in explained.parts],
            "laws": dict(explained.laws),
            "neighbours": explained.neighbours.to_dict("records"),
            "features": explained.features.to_dict("records"),
        },
    )


def _pictured(explained: Explained, unit: str) -> Bars:
    """Draw the prediction with its interval, the host's time, the laws' predictions, and the nearest trained row."""
    answer = explained.answer
    times: dict[str, Any] = {
        "predicted": answer["predicted"],
        "at least": answer["lower"],
        "at most": answer["upper"],
    }
    times |= {"measured on the host": answer.get("host")} | dict(explained.laws)
    if len(explained.neighbours):
        times["nearest trained row, measured"] = explained.neighbours.iloc[0]["observed"]
    finite = {name: float(value) for name, value in times.items() if has_value(value)}
    longest = max(finite.values())
    bars = [
        Bar(name, at / longest, f"{figure(at)} {unit}", "good" if name == "predicted" else "")
        for name, at in finite.items()
    ]
    return Bars("Prediction, its interval, and what else is known", bars)


def sentence(explained: Explained) -> str:
    """Return the prediction's interval, its basis, the host's time, and the nearest trained row."""
    answer = explained.answer
    unit = quantity(explained.metric).unit
    _, lower, upper = alike(answer["predicted"], answer["lower"], answer["upper"])
    text = f"Between {lower} and {upper} {unit} ({100 * answer['level']:g} % interval); "
    if not has_value(answer["lower"]):
        text = "No interval is known of such a row; "
    text += f"answered by {_BASES[str(answer['basis'])]}"
    if (
        answer["basis"] in ("blend", "rule")
        or abs(explained.alone / answer["predicted"] - 1) > 1e-9
    ):
        text += f" (the model alone says {figure(explained.alone)} {unit})"
    before = ""
    if explained.correction is not None:
        text += f", and corrected by {explained.correction:.3f}"
        before = " before the correction"
    if has_value(answer.get("host")):
        text += f". The host took {figure(answer['host'])} {unit}"
    if explained.rule in explained.laws:
        text += f"; {explained.rule} is the simple rule that erred least in training"
    if len(explained.neighbours):
        nearest = explained.neighbours.iloc[0]
        text += (
            f". The nearest trained row took {figure(nearest['observed'])} {unit}, predicted out "
            f"of fold with an error of {percent(nearest['ape'])}{before}"
        )
    return f"{text}."


def _parts(explained: Explained, unit: str) -> Table:
    *values, alone = alike(*(part.value for part in explained.parts), explained.alone)
    shown = []
    for part, value in zip(explained.parts, values, strict=True):
        kind = _DEEPER * part.depth + _KINDS[part.kind]
        name = part.name or ("at least" if part.kind == "term" else NONE)
        facts = picked(part, "weight", "factor")
        shown.append({"part": kind, "name": name, "says": value, **facts})
    table = laid_out("explanation-parts", shown, {"unit": unit})
    together = Row(("together", explained.model, alone, "", ""), "strong")
    return replace(table, rows=[*table.rows, together])


def _outside(row: Mapping[str, Any]) -> Tone:
    """Return the tone of a feature, which stands out where it lies outside the trained range."""
    return "warning" if row["distance"] > 0 else ""
