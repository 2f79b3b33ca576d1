"""Predicting: a run and new workloads to times with their intervals, what is unlike training, and why it is so."""

from __future__ import annotations

import shutil
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, TypeVar, Unpack

import numpy as np
import pandas as pd

from .. import values
from ..datasets.embedded import is_shipped
from ..errors import DataError, NoDurationError, ParameterError, check_level, check_number, counted
from ..evaluation.counter_choice import passes_of
from ..evaluation.extrapolation import fixed_widening
from ..evaluation.metrics import COST, accounting, with_target_cost
from ..evaluation.trained_model import TrainedModel
from ..features.matrix import groups_of
from ..hardware import GPU, all_gpus
from ..models.explanation import Part, parts_of
from ..operators.work import coded
from ..output import FILES, FORMATS, PREDICTION_FORMATS, check_file, replacing
from ..readers import Measurements, RowBatches, TogetherError, read_rows, row_batches
from ..readers.labels import UNKNOWN_DEVICE
from ..remarks import Reasons, Remark, remark
from ..report.document import Document
from ..report.predictions import (
    ABOUT,
    SHOWN,
    Explained,
    Identity,
    Tally,
    explanation_document,
    in_order,
    workload,
    write_batches,
)
from ..report.result import Shown, saving
from ..report.run_folder import beside, read_metrics, read_run, simplest
from ..settings import configured, spelt_out
from ..staging import temporary_folder
from ..table.conditions import MeasuredReading, Reading, conditions, select
from ..table.measurements import REFUSED, REFUSED_DETAIL, fill_text, prediction_columns
from ..table.problems import HOST, codes_of, problem_keys, slower_kernels
from ..table.refusals import row_refused
from ..values import Assigned
from ..workers import one_thread, release_memory
from .answers import Prediction
from .devices import Device, device, stated_defaults
from .shipped_kernels import predict_shipped
from .tables import Data, items, refuse_unknown_models

STATED = ("family", "variant", "layout", "scale_block", "library")
"""Categories that a file may leave out and the user can state as defaults."""
PLACE = "_place"  # column: place of a row among those that were read
# rows predicted at a time, and how many batches at once
BATCH = 2**14
THREADS = 2
S = TypeVar("S")
T = TypeVar("T")


class RunLike(Protocol):
    """A run with its evidence and its model (`training.Run`)."""

    metrics: dict[str, Any]
    predictions: pd.DataFrame
    trained: TrainedModel
    folder: Path | None

    def save(
        self, path: str | Path, *, made: Mapping[str, Any] | None = None, overwrite: bool = False
    ) -> None:
        """Write the run folder."""


RunGiven: TypeAlias = str | Path | RunLike
"""A run, or the folder of one."""
RunFolder: TypeAlias = str | Path
"""Where a run is written."""


@dataclass
class _Stored:
    """A run folder as `RunLike`."""

    metrics: dict[str, Any]
    predictions: pd.DataFrame
    trained: TrainedModel
    folder: Path | None

    def save(
        self, path: str | Path, *, made: Mapping[str, Any] | None = None, overwrite: bool = False
    ) -> None:
        assert self.folder is not None
        shutil.copytree(self.folder, path, dirs_exist_ok=True)


def run_of(run: str | Path | RunLike) -> RunLike:
    """Return a run, or that of a folder; a ParameterError for anything else."""
    if isinstance(run, str | Path):
        return _Stored(*read_run(Path(run)), TrainedModel.load(Path(run)), Path(run))
    if isinstance(getattr(run, "trained", None), TrainedModel):
        return run
    raise ParameterError("run", f"must be a run or the folder of one, got {type(run).__name__}")


def _stated(default: Assigned | None) -> tuple[dict[str, str], Any]:
    """Return defaults as words, and what stands for the device: a GPU, a file or a name."""
    given: Any = ""
    if isinstance(default, Mapping):
        given = default.get("device", "")
    stated = stated_defaults(default)
    return stated, given or stated.get("device", "")


def on_user_gpu(
    model: TrainedModel, default: Assigned | None
) -> tuple[TrainedModel, dict[str, str]]:
    """Return the model, told of the user's GPU that the default of ``device`` describes, and defaults as words.

    A run over all devices is asked of that GPU; of another the name alone matters. Raises
    DataError: the file cannot be read, or describes no GPU.
    """
    stated, given = _stated(default)
    if not isinstance(given, GPU | Path) and not str(given).casefold().endswith(".toml"):
        return model, stated
    gpu = device(given, "default")
    if isinstance(given, GPU) and gpu in all_gpus():
        return model, stated
    if model.recipe.comparison.is_many:
        model = replace(model, user_gpu=(stated["device"], gpu))
    return model, stated


def asked_for(model: TrainedModel, target: Device | None) -> tuple[TrainedModel, str]:
    """Return the model, told of the GPU that it is asked for, and the word that its rows then name that with.

    That is "" where they name it themselves, or the run predicts no other. Raises ParameterError
    where a run from hosts to many targets is told none, or another run one that is not its own;
    else as `devices.device`.
    """
    recipe = model.recipe
    comparison = recipe.comparison
    if target is None:
        if comparison.is_from_hosts_to_many:
            took = "others"
            if comparison.one_host is not None:
                took = comparison.one_host.name
            raise ParameterError(
                "target", f"is missing: this run predicts any GPU from what {took} measured"
            )
        return model, ""
    gpu = device(target, "target")
    if not comparison.is_many:
        if gpu != recipe.target:
            raise ParameterError(
                "target", f"must be {recipe.target.name}, which this run is for, got {gpu.name}"
            )
        return model, ""
    return model.of_target(gpu, str(target) if isinstance(target, str | Path) else "")


class Predicting(MeasuredReading, total=False):
    """What is predicted, of which rows: keywords of `predict`, which says what each means, and of a run's own."""

    target: Device | None
    target_cost: str | None
    fallback: str | None


@spelt_out
@configured
def predict(
    run: str | Path | RunLike,
    *data: Data,
    interval: float = 0.9,
    out: str | Path | None = None,
    overwrite: bool = False,
    **how: Unpack[Predicting],
) -> Prediction:
    """Predict new workloads with the model of a run.

    Parameters
    ----------
    run : path or Run
        Run folder that `train` wrote, or a run; or ``"shipped"``, what ships of kernels of AMD
        Instinct (`models.instinct_kernels.kernel_times`): products, grouped products and attention,
        forward and backward, in bf16, fp16 and fp8, of MI300X and MI355X.
    *data : path, DataFrame, Measurements, or a sequence of them
        If the run has a host: what it measured (rows of other devices are counted and left out). If
        not: shapes, with or without a device and a time.
    target : str, Path or GPU, optional
        The GPU to predict, where the run is of many: any of the catalogue, or a TOML file of your
        own. Without it the rows of a run without a host name theirs (``device``).
    interval : float, default=0.9
        Share of values that an interval is to hold, from 0.005 to 0.995.
    where : mapping, or sequence of str, optional
        As for `read`.
    unit, default, rename : mapping of str to str, optional
        As for `read`. A run over many devices takes as the default of ``device`` also your GPU, a TOML file
        or a `GPU`.
    keep : collection of str
        As for `read`.
    target_cost : str, optional
        Column with the time that measuring or simulating each workload on the target costs, in the
        unit that its name ends with, else seconds: ``speedup`` of the frame and of the report then
        say how many times less host, counters and this call cost. Not in batches.
    fallback : {"law"}, optional
        Answer for what was never trained: law, the roofline at trained rates. By default nothing
        answers. Those rates are what the training rows reached; the interval is a wide one of its
        own (``basis`` is then ``law``).
    out : path, optional
        File to write the rows to, as `Prediction.save` does. Large Parquet files are then read,
        predicted and written in batches (to ``.csv`` or ``.parquet``): memory grows by some 150
        bytes a row; ``frame`` has the first rows.
    overwrite : bool
        Whether ``out`` may replace a file that flopcast did not write; never one that is read.

    Returns
    -------
    Prediction
        Of one DataFrame its rows have the index of that.

    Raises
    ------
    FlopcastError
        If the run cannot be loaded, or the data cannot be read, or no row of them can be predicted.

    Examples
    --------
    >>> import flopcast as fc
    >>> small = {"m": (None, 64)}
    >>> run = fc.train(where=small, models=["OLS"], jobs=1)
    >>> found = fc.predict(run, fc.read(where=small))
    >>> bool((found.frame["lower_us"] < found.frame["predicted_us"]).all())
    True
    >>> import pandas as pd
    >>> product = pd.DataFrame({"op": ["gemm"], "dtype_a": ["bf16"], "m": [6144], "n": [4096], "k": [5120]})
    >>> found = fc.predict("shipped", product, target="MI300X")
    >>> bool(300 < found.frame["predicted_us"][0] < 600)
    True
    """
    started = time.perf_counter()
    target = how.get("target")
    fallback = how.get("fallback")
    target_cost = how.get("target_cost")
    where = how.get("where")
    keep = how.get("keep", ())
    unit = values.assigned("unit", how.get("unit"))
    default = how.get("default")
    rename = values.assigned("rename", how.get("rename"))
    check_level(interval)
    if fallback not in (None, "law"):
        raise ParameterError("fallback", f"must be law, got {fallback!r}")
    conditions(where)  # refused before anything is read
    given = items(data)
    if not given:
        raise ParameterError(
            "data", "is missing: give the files or folders that hold the workloads"
        )
    file = None
    if out is not None:
        file = Path(out)
    if is_shipped(run):
        if fallback or target_cost:
            raise ParameterError("fallback" if fallback else "target_cost", "goes with your run")
        tables = [one.frame if isinstance(one, Measurements) else one for one in given]
        with replacing(overwrite=overwrite, reads=[one for one in given if isinstance(one, Path)]):
            check_file(file, PREDICTION_FORMATS)
            if target is None:
                gpu = None
            else:
                gpu = device(target, "target").name
            stated, _ = _stated(default)
            chosen, notes = read_rows(
                tables,
                where=where,
                timed=False,
                units=unit,
                defaults=stated,
                renames=rename,
                keep=keep,
            )
            answer = predict_shipped(chosen.reset_index(drop=True), notes, interval, gpu or "")
            alone = None
            if len(given) == 1:
                alone = given[0]
            if isinstance(alone, pd.DataFrame):
                frame = answer.frame.set_axis(alone.index[chosen.index])
                answer = replace(answer, frame=frame)
            if file is not None:
                answer.save(file)
            return answer
    read = [one for one in (run, *given) if isinstance(one, str | Path)]
    # small trees by the hundred: threads would wait for each other
    with replacing(overwrite=overwrite, reads=map(Path, read)), one_thread():
        check_file(file, PREDICTION_FORMATS)
        if isinstance(run, str | Path):
            # which needs none of the run's evidence
            model = TrainedModel.load(Path(run))
            name = str(run)
        else:
            model = run_of(run).trained
            name = str(run.folder or "the run just trained")
        model, stated = on_user_gpu(model, default)
        model, word = asked_for(model, target)
        tables = [one.frame if isinstance(one, Measurements) else one for one in given]
        asked = _Asked(model, name, interval, fallback is not None, word)
        if target_cost is not None:
            if isinstance(run, str | Path):
                metrics = read_metrics(Path(run))
            else:
                metrics = run.metrics
            asked = replace(asked, training_s=(metrics.get("speedup") or {}).get("training_s"))
        options: dict[str, Any] = {
            "units": unit,
            "defaults": stated,
            "renames": rename,
            "keep": keep,
        }
        options["timed"] = model.recipe.host is not None
        in_batches = (
            file is not None
            and file.suffix.lower() in FORMATS
            and not (conditions(where) or target_cost)
        )
        try:
            if file is not None and in_batches:
                batches = row_batches(tables, **options)
                with suppress(TogetherError):
                    if batches is not None:
                        return _in_batches(asked, batches, file)
            chosen, notes = read_rows(tables, where=where, **options)
        except NoDurationError as error:
            raise _without_host_time(error, asked) from None
        chosen = chosen.reset_index(names=PLACE)
        if target_cost is not None:
            chosen = with_target_cost(chosen, target_cost, unit)
        predictions = _at_once(asked, chosen, notes, given, started)
        if file is not None:
            predictions.save(file)
        return predictions


def _without_host_time(error: NoDurationError, asked: _Asked) -> DataError:
    """Return the error of rows that lack the inputs of a run with a host."""
    host = asked.model.recipe.host
    if host is None:
        return error
    measured = host.name
    if asked.model.recipe.comparison.has_many_hosts:
        measured = "another GPU"
    columns = str(error).partition("(columns: ")[2].partition(")")[0]
    problem = (
        f"{asked.run} predicts from what {measured} measured, and no column holds that time "
        f"(columns: {columns}): measure the rows there and give duration_us; to predict from shapes "
        "alone, train without a host"
    )
    return DataError(problem, source=error.source)


@dataclass(frozen=True)
class _Asked:
    """What predicts, and how; `run` is what messages call it."""

    model: TrainedModel
    run: str
    level: float
    fallback: bool
    target: str = ""  # the word for the GPU that rows are asked of; "" where they name it, or there is but one
    training_s: float | None = None  # what the run has cost before, where that was asked for

    def usable(self, rows: pd.DataFrame) -> pd.Series:
        """Return which rows can be predicted: those the reader refused cannot, nor those without what it scales."""
        host = self.model.recipe.host
        metric = self.model.recipe.metric
        usable = rows[REFUSED].eq("")
        if host is not None and metric != "duration_us":
            usable &= rows[metric].gt(0) & np.isfinite(rows[metric])
        return usable

    def of(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return rows as the model is asked about them."""
        if self.target:
            return self.model.asked_of(rows, self.target)
        return rows


def _at_once(
    asked: _Asked,
    rows: pd.DataFrame,
    notes: Sequence[Remark],
    given: Sequence[Path | pd.DataFrame | Measurements],
    started: float,
) -> Prediction:
    survey = _Survey(asked)
    rows = survey.see(rows)
    worked = _Worked(asked, survey, [rows], [note for note in notes if note.code == "fp32-assumed"])
    frame = pd.concat(worked)
    report = worked.report(notes)
    if COST in rows:
        recipe = asked.model.recipe
        done = frame[prediction_columns(recipe.metric)["predicted"]].notna().to_numpy()
        cost = rows[COST][done]
        run = rows["duration_us"][done] if recipe.host else None
        passes = passes_of(recipe.columns)
        taken = time.perf_counter() - started
        times, report["speedup"] = accounting(cost, run, passes, taken, asked.training_s or 0.0)
        if asked.training_s is None:
            for name in ("training_s", "break_even"):
                report["speedup"].pop(name, None)
        frame["speedup"] = pd.Series(times, frame.index[done])
    alone = None
    if len(given) == 1:
        alone = given[0]
    if isinstance(alone, pd.DataFrame):
        frame = frame.set_axis(alone.index[rows[PLACE]])
    return Prediction(frame, report)


def _in_batches(asked: _Asked, batches: RowBatches, out: Path) -> Prediction:
    """Write the predictions of rows to a file; between being seen and being predicted they lie in a temporary one."""
    survey = _Survey(asked)
    kept = list[Path]()
    with temporary_folder() as folder:
        for rows in map(survey.see, batches):
            kept.append(folder / str(len(kept)))
            try:
                rows.to_feather(kept[-1], compression="uncompressed")
            except OSError as error:
                raise DataError(
                    f"cannot be written: {error.strerror or error}", source=str(folder)
                ) from error
        worked = _Worked(asked, survey, _stored(kept))
        write_batches(worked, out)
    return Prediction(worked.first, worked.report(batches.notes))


def _stored(files: Sequence[Path]) -> Iterator[pd.DataFrame]:
    """Yield the rows of temporary files, once what the survey took is given back: threads take memory too."""
    release_memory()
    yield from map(pd.read_feather, files)


class _Survey:
    """What all rows tell that each of them depends on, gathered before any is predicted."""

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked
        self._recipe = asked.model.recipe
        self.identity = Identity(self._recipe.metric)
        self.others: Counter[str] = Counter()
        self._host_rows = 0
        self._stated: set[str] = set()
        self._usable: list[np.ndarray] = []
        self._keys: list[np.ndarray] = []
        self._times: list[np.ndarray] = []

    def see(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Survey some of the rows; return those to predict: with a host, the rows that it measured."""
        rows = refuse_unknown_models(rows)
        host = self._recipe.host
        metric = self._recipe.metric
        if host is not None:
            if self._recipe.comparison.has_many_hosts:
                self._host_rows += len(rows)
            else:
                rows = self._of_host(rows, (host.name, *host.aliases))
            if metric != "duration_us":
                if metric in rows:
                    measured = pd.to_numeric(rows[metric], errors="coerce")
                else:
                    measured = np.nan
                rows = rows.assign(**{metric: measured})
            usable = self._asked.usable(rows)
            self._usable.append(usable.to_numpy())
            self._keys.append(problem_keys(rows[usable].reset_index(drop=True)))
            times = rows["duration_us"][usable]
            # alone: as a part of its table it would keep all columns of numbers
            self._times.append(times.to_numpy(dtype=float, copy=True))
        elif not self._recipe.comparison.is_many:
            self.others[""] += int(
                (rows["device"].ne("") & rows["device"].ne(self._recipe.target.name)).sum()
            )
        self.identity.see(rows)
        self._stated.update(name for name in STATED if name in rows and rows[name].ne("").any())
        return rows

    def _of_host(self, rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
        """Return the rows of the host, and those whose device is unknown; count the rows of other devices."""
        codes, words = coded(rows, "device")
        folded = [name.casefold() for name in names]
        of_host = np.array([word.casefold() in folded for word in words])
        counts = np.bincount(codes, minlength=len(words))
        self._host_rows += int(counts[of_host].sum())
        for word, count in zip(words[~of_host], counts[~of_host].tolist(), strict=True):
            if word and count:
                self.others[word] += count
        kept = (of_host | (words == ""))[codes]
        named = np.where(of_host, names[0], words)
        if (named != words).any():
            rows = rows.assign(device=pd.Series(named[codes], rows.index, dtype="str"))
        if not kept.all():
            rows = rows[kept]
        return rows.reset_index(drop=True)

    def slower(self) -> np.ndarray | None:
        """Return which of all rows are of a kernel that is not the fastest of its problem; None without a host.

        Raises DataError if the host measured none of them.
        """
        if self._recipe.host is None:
            return None
        if not self._host_rows:
            devices = (
                ", ".join(f"{name} ({n} rows)" for name, n in self.others.most_common())
                or "rows without a device"
            )
            name = self._recipe.host.name
            raise DataError(
                f"no row was measured on {name}, from whose measurements this run predicts: the "
                f"data have {devices}"
            )
        usable = np.concatenate(self._usable)
        keys = np.concatenate(self._keys, axis=1)
        times = np.concatenate(self._times)
        self._keys.clear()  # 40 bytes a row that nothing asks for again
        self._times.clear()
        slower = np.zeros(len(usable), dtype=bool)
        slower[usable] = slower_kernels(times, keys)
        return slower

    def remarks(self) -> Iterator[Remark]:
        """Say which columns that no row has were the same in all of training, and that other devices do not matter."""
        for name, levels in self._recipe.levels.items():
            column = name.removeprefix(HOST)
            if (
                column in STATED
                and column not in self._stated
                and len(levels) == 1
                and levels[0] != "none"
            ):
                text = (
                    f"no row states its {column}; in training it was always {levels[0]}: if that "
                    "holds here, "
                    f"state {column}={levels[0]}"
                )
                yield remark("never-stated", text, column=column, trained=levels[0])
        if self._recipe.host is None and (others := self.others[""]):
            text = (
                f"{counted(others, 'row')} of another device: predicted by shape for "
                f"{self._recipe.target.name}"
            )
            yield remark("other-devices", text, rows=others, target=self._recipe.target.name)


class _Worked:
    """The predictions of rows, batch by batch; after all of them there is a report."""

    def __init__(
        self,
        asked: _Asked,
        survey: _Survey,
        parts: Iterable[pd.DataFrame],
        assumed: Sequence[Remark] = (),
    ) -> None:
        self._asked = asked
        self._survey = survey
        self._parts = parts
        self._assumed = assumed
        self._tally = Tally(asked.model.recipe.metric)
        self._lacking: dict[str, str] = {}
        self.first = pd.DataFrame()

    def __iter__(self) -> Iterator[pd.DataFrame]:
        """Yield the frame of `Prediction` in parts; a DataError at the end if no row can be predicted."""
        slower = self._survey.slower()
        for frame, causes, lacking, parts in _ahead(
            partial(self._predicted, slower=slower), _batches(self._parts)
        ):
            if not self._tally.rows:
                self.first = frame.head(SHOWN)
            self._tally.add(frame, causes, parts)
            self._lacking |= lacking
            yield frame
        if not self._tally.predicted:
            if len(self.first):
                source = str(self.first["source"].iloc[0])
            else:
                source = None
            why = "; ".join([self._tally.refused, *map(str, self._assumed)])
            raise DataError(f"no row can be predicted: {why}", source=source)

    def report(self, notes: Sequence[Remark]) -> dict[str, Any]:
        """Return the report of `Prediction`; `notes` are what the reader remarked on."""
        model = self._asked.model
        recipe = self._asked.model.recipe
        facts = {
            "run": self._asked.run,
            "model": model.name,
            "host": recipe.host.name if recipe.host else None,
            "target": self._asked.target or recipe.target.name,
            "metric": recipe.metric,
            "level": self._asked.level,
            "scheme": model.scheme,
            "other_devices": {} if recipe.host is None else dict(self._survey.others.most_common()),
        }
        if model.correction is None:
            corrected = []
        else:
            corrected = [model.correction.remark]
        laws = (
            remark("law-lacks", f"no {law} where {why}", law=law, why=why)
            for law, why in self._lacking.items()
        )
        if model.beyond is None and self._tally.outside:
            outside = [fixed_widening()]
        else:
            outside = []
        user_name = model.user_gpu and model.user_gpu[0]
        described = [
            note
            for note in notes
            if note.code == UNKNOWN_DEVICE and note.values["device"] == user_name
        ]
        remarks = [note for note in notes if note not in described]
        facts["stated_error"] = None
        stated = model.stated_errors.of(self._tally.parts)
        if stated is not None:
            facts["stated_error"] = stated._asdict()
        return self._tally.report(
            facts, [*map(repr, (*remarks, *corrected, *self._survey.remarks(), *outside, *laws))]
        )

    def _predicted(
        self, rows: pd.DataFrame, slower: np.ndarray | None
    ) -> tuple[pd.DataFrame, pd.Series, dict[str, str], pd.DataFrame]:
        """Return the frame of a batch, the first reason of each row in general, laws that lack a figure, and parts.

        The parts are those of `TrainedModel.parts`.
        """
        model = self._asked.model
        metric = self._asked.model.recipe.metric
        slower_rows = np.zeros(len(rows), dtype=bool)
        if slower is not None:
            slower_rows = slower[rows.index]
        first, place = _distinct(rows, slower_rows)
        asked_rows = rows
        if len(first) < len(rows):
            asked_rows = rows.iloc[first]
        usable = self._asked.usable(asked_rows)
        is_slower = pd.Series(slower_rows[first], asked_rows.index)
        answers = _predict_batch(self._asked, asked_rows, usable, is_slower)
        answered = asked_rows[answers["predicted"].notna() & answers.isna().any(axis=1)]
        lacking = model.unpublished(self._asked.of(answered))
        parts = model.parts(asked_rows, answers["basis"])
        if len(first) < len(rows):
            answers = answers.iloc[place].set_axis(rows.index)
            parts = parts.iloc[place].reset_index(drop=True)
        names = {"reasons": "reason", **prediction_columns(metric)}
        worded = answers.drop(columns="cause").rename(columns=names)
        target = model.recipe.target.name
        if model.recipe.comparison.is_many:
            target = self._asked.target or rows["device"]
        said = (
            target,
            metric,
            self._asked.level,
        )
        for name, value in zip(ABOUT[:3], said, strict=True):
            worded.insert(list(worded).index("basis"), name, value)
        frame = pd.concat([self._survey.identity.of(rows), worded], axis=1)
        return (
            in_order(frame, [*prediction_columns(metric).values(), "basis"]),
            answers["cause"],
            lacking,
            parts,
        )


def _batches(parts: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Yield the rows of all parts, numbered, `BATCH` at a time, wherever the parts end."""
    rest = pd.DataFrame()
    start = 0
    for part in parts:
        if len(rest):
            rest = fill_text(pd.concat([rest, part], ignore_index=True))
        else:
            rest = part
        whole = len(rest) // BATCH * BATCH
        for place in range(0, whole, BATCH):
            yield rest.iloc[place : place + BATCH].set_axis(
                range(start + place, start + place + BATCH)
            )
        rest = rest.iloc[whole:]
        start = start + whole
    if len(rest):
        yield rest.set_axis(range(start, start + len(rest)))


def _ahead(task: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """Yield the result of a task for each item, in order, computed by `THREADS` threads and no more than that ahead."""
    waiting: deque[Future[T]] = deque()
    # trees are walked and arrays computed outside Python's lock
    with ThreadPoolExecutor(THREADS) as pool:
        for item in items:
            waiting.append(pool.submit(task, item))
            if len(waiting) > THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


_PLACES: Final = ("source", PLACE)
"""Columns that say where a row stood: of it nothing else depends on them."""


def _distinct(rows: pd.DataFrame, slower: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of rows that differ in content, and the place among them of each row, (n_rows,).

    All rows, where fewer than half repeat another: to ask for each is then as fast.
    """
    every = np.arange(len(rows))
    content = rows.drop(columns=[name for name in _PLACES if name in rows])
    numbers = [slower]
    words = []
    for name in content:
        column = content[name]
        if column.dtype == np.float64:
            numbers.append(column.to_numpy().view(np.int64))  # 0.0 and -0.0 are not the same
        elif pd.api.types.is_numeric_dtype(column):
            numbers.append(column.to_numpy())
        else:
            words.append(column)
    codes = codes_of(numbers)
    if 2 * (codes.max(initial=-1) + 1) > len(rows):
        return every, every
    codes = codes_of([codes, *words])
    if 2 * (codes.max(initial=-1) + 1) > len(rows):
        return every, every
    first = np.empty(codes.max(initial=-1) + 1, dtype=np.intp)
    first[codes[::-1]] = every[::-1]
    return first, codes


def _predict_batch(
    asked: _Asked, rows: pd.DataFrame, usable: pd.Series, slower: pd.Series
) -> pd.DataFrame:
    """Return the predictions of some rows: reasons as data are many times larger than as text.

    Rows refused by the reader have a reason instead. ``reasons`` and ``cause`` are text: all
    reasons of the row, and the first one in general.
    """
    model = asked.model
    answered, reasons_of = model.answer(asked.of(rows[usable]), asked.level, asked.fallback)
    reasons = Reasons(len(rows))
    host = model.recipe.host
    where = host and host.name
    if model.recipe.comparison.has_many_hosts:
        where = "the same GPU"
    text = (
        f"another kernel solves this problem faster on {where!s}; only the fastest were trained on"
    )
    reasons.add(np.flatnonzero(slower), remark("slower-kernel", text, host=str(host and host.name)))
    reasons.extend(reasons_of, np.flatnonzero(usable))
    lacking = remark(
        "no-positive-metric", f"no positive {model.recipe.metric}", metric=model.recipe.metric
    )
    refused_rows = rows.loc[~usable, [REFUSED, REFUSED_DETAIL]].assign(
        place=np.flatnonzero(~usable)
    )
    for why, refused in refused_rows.groupby(REFUSED, sort=False):
        for detail, same in refused.groupby(REFUSED_DETAIL, sort=False):
            reason = lacking
            if why:
                reason = row_refused(str(why), str(detail))
            reasons.add(same["place"].to_numpy(), reason)
    texts, causes = reasons.texts()
    whole = answered.reindex(rows.index)
    whole = whole.assign(
        basis=whole["basis"].fillna(""), extrapolated=whole["extrapolated"].eq(True) | slower
    )
    said = pd.Series(pd.array(texts, dtype="str"), rows.index)
    whole.insert(list(whole).index("extrapolated") + 1, "reasons", said)
    return whole.assign(cause=pd.Series(causes, rows.index, dtype=object))


NEIGHBOURS: Final = 50  # trained rows that are named


@dataclass(frozen=True)
class Explanation(Shown):
    """Why one workload is predicted as it is.

    Attributes
    ----------
    found : Explained
        Parts of the model, laws, neighbours, features (`report.predictions.Explained`).
    """

    saved_as = FILES["explain"]
    found: Explained

    @property
    def table(self) -> pd.DataFrame:
        """One row per part of the model."""
        return pd.DataFrame([vars(part) for part in self.parts])

    @property
    def parts(self) -> Sequence[Part]:
        """The contribution of each part of the model (`models.explanation.Part`)."""
        return self.found.parts

    @property
    def neighbours(self) -> pd.DataFrame:
        """The nearest trained rows, with what was measured and predicted out of fold."""
        return self.found.neighbours

    def document(self) -> Document:
        """Return the explanation as `report` shows it on terminals and pages."""
        return explanation_document(self.found)


@saving
@spelt_out
@configured
def explain(
    run: RunGiven,
    *data: Data,
    row: int = 1,
    target: Device | None = None,
    interval: float = 0.9,
    **reading: Unpack[Reading],
) -> Explanation:
    """Say why a row is predicted as it is: the parts of its time, and its nearest measured neighbours.

    Parameters
    ----------
    run : path or Run
        Run folder that `train` wrote.
    *data : path, DataFrame, Measurements, or a sequence of them
        Files and folders with workloads, any mix.
    row : int, default=1
        Which row, counted from 1. It is one of those that `predict` returns for these data.
    target : str, Path or GPU, optional
        As for `train`: where the run is of many, which of them.
    interval : float, default=0.9
        As for `predict`.
    where, unit, default, rename
        As for `read`.

    Returns
    -------
    Explanation

    Raises
    ------
    FlopcastError
        The run or the data cannot be used, there is no such row, or it cannot be predicted.

    Examples
    --------
    >>> import flopcast as fc
    >>> small = {"m": (None, 64)}
    >>> run = fc.train(where=small, models=["Additive"], jobs=1)
    >>> why = run.explain(fc.read(where=small), row=3)
    >>> round(sum(part.value for part in why.parts), 6) == round(why.found.alone, 6)
    True
    """
    check_level(interval)
    asked = run_of(run)
    metrics = asked.metrics
    predictions = asked.predictions
    model, stated = on_user_gpu(asked.trained, reading.get("default"))
    model, word = asked_for(model, target)
    recipe = model.recipe
    tables = [one.frame if isinstance(one, Measurements) else one for one in items(data)]
    rows, _ = read_rows(
        tables,
        units=reading.get("unit"),
        defaults=stated,
        renames=reading.get("rename"),
        timed=recipe.host is not None,
    )
    rows = select(rows, reading.get("where"))
    host = recipe.comparison.one_host
    if host is not None:
        names = [name.casefold() for name in ("", host.name, *host.aliases)]
        rows = rows[rows["device"].str.casefold().isin(names)]
    check_number("row", row, 1)
    if row > len(rows):
        raise ParameterError(
            "row", f"must be 1 to {len(rows)}, the rows that can be predicted, got {row}"
        )
    one = rows.iloc[[row - 1]].reset_index(drop=True)
    why = str(one[REFUSED].iloc[0])
    if why:
        raise DataError(
            f"row {row} cannot be predicted: {why} {one[REFUSED_DETAIL].iloc[0]}".rstrip()
        )
    asked_rows = one
    if word:
        asked_rows = model.asked_of(one, word)
    with one_thread():
        answer = model.predict(asked_rows, interval).iloc[0]
        reasons = [str(why) for why in answer["reasons"]]
        if not np.isfinite(answer["predicted"]):
            raise DataError(f"the row cannot be predicted: {'; '.join(reasons)}")
        model = model.answering(asked_rows)
        X = model.features(asked_rows)
        whole = model.completed(X)
        alone = model.saved.predict(whole)[0]
        parts = parts_of(model.saved.estimator, whole)
        places = model.domain.places(X)
    columns = ["predicted", "lower", "upper", "basis", "extrapolated", "reasons"]
    laws = {
        str(name): float(value)
        for name, value in answer.drop(columns).items()
        if np.isfinite(value)
    }
    scheme = model.scheme
    cv: Mapping[str, Any] = next((cv for cv in metrics["cv"] if cv["scheme"] == scheme), {})
    chosen = cv.get("selected", {}).get("name")
    rule = simplest(cv)
    trained = predictions[(predictions["scheme"] == scheme) & (predictions["model"] == chosen)]
    trained = beside(trained, predictions, laws)
    return Explanation(
        Explained(
            workload=workload(one.iloc[0].to_dict()),
            metric=recipe.metric,
            model=model.name,
            answer={
                **{name: float(answer[name]) for name in ("predicted", "lower", "upper")},
                "level": interval,
                "basis": str(answer["basis"]),
                "reasons": reasons,
                "host": None if recipe.host is None else float(one[recipe.metric].iloc[0]),
            },
            alone=float(alone),
            correction=None if model.correction is None else model.correction.factor,
            rule=None if rule is None else str(rule["name"]),
            parts=parts,
            laws=laws,
            neighbours=_neighbours(trained, str(groups_of(one)[0]), laws),
            features=places,
        )
    )


FITTED: Final = ("constant ratio", "affine")
"""Baselines fitted to other rows in every fold: of a trained row they say something else."""


def _neighbours(trained: pd.DataFrame, group: str, laws: Mapping[str, float]) -> pd.DataFrame:
    """Return trained rows: of the same group first, then by the largest factor between what a law says of both."""
    common = [
        name for name, value in laws.items() if name in trained and name not in FITTED and value > 0
    ]
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(trained[common].to_numpy(dtype=float)) - np.log(
            [laws[name] for name in common]
        )
    apart = np.exp(np.abs(logs).max(axis=1, initial=0.0))
    rows = trained.assign(apart=apart, other=trained["group"].astype(str).ne(group))
    nearest = rows.sort_values(["other", "apart", "row"], kind="stable").head(NEIGHBOURS)
    columns = [
        name
        for name in ("group", "source", "observed", "predicted", "ape", "apart")
        if name in nearest
    ]
    return nearest[columns].assign(source=nearest.get("source", "")).reset_index(drop=True)
