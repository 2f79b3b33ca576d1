"""Durations of computation and copies on another GPU: a factor for each activity, with the law it comes from.

`compute_factors` applies a law of computation (`laws`), corrects it or puts the predictions of a
trained model in its place (`predicted_factors`), and adds how wrong each law was where both GPUs
have been measured (`ERRORS`). Corrections (`learn_corrections`) come from problems measured on
both: by what the times of a class lie off a law, and the spread that remains; a call of one of
these problems is corrected by what was measured of it. A trained model predicts call by call; its
times become factors of the activities of each call.

Laws see activities and measured rows as `Rows`: work, class, time on the host, queue
(`of_activities`, `of_pairs`). A kernel costs time beyond its work, and whose time that is differs:
on AMD GPUs durations hold the dispatch of the kernel (`Overhead`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Final, Literal

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ..arrays import BoolArray, FloatArray, IntArray, ObjectArray
from ..errors import DataError
from ..evaluation.intervals import LEVEL
from ..evaluation.trained_model import TrainedModel
from ..hardware import GPU
from ..laws.applied import KEPT, by_law
from ..laws.base import Overhead, Pair, Rows
from ..laws.rates import chosen
from ..operators.operators import COMMON, OPS, Work, complete, work_of
from ..operators.work import positive, texts
from ..remarks import joined, remark
from ..table.measurements import REFUSED, fill_text, judge
from ..table.problems import HOST, codes_of, problem_ids
from ..table.problems import pair as pair_rows
from ..table.refusals import row_refused
from ..traces.activity_work import UNKNOWN
from ..traces.cleaning.robust import MAD_TO_SIGMA
from ..traces.dispatches import COLUMNS as TRACE_COLUMNS
from ..traces.dispatches import MEMCPY, empty_steps
from ..traces.quality import gaps_ns
from ..traces.summary import Annotated, call_codes, measurements

CLOCK_NS = 160  # largest step of a GPU's clock in a profile (MI210); a gap up to it is none


def is_queued(activities: pd.DataFrame, overhead: Overhead) -> BoolArray:
    """Return whether each activity was waiting when the one before it in its queue ended.

    Where durations hold the dispatch on the GPU it was measured on, that leaves no gap (up to
    `CLOCK_NS`); where they do not, one of up to twice the usual dispatch.
    """
    if overhead.inside:
        longest_ns = CLOCK_NS
    else:
        longest_ns = max(CLOCK_NS, 2000 * overhead.dispatch_us)
    return np.asarray(gaps_ns(activities).le(longest_ns).fillna(False), dtype=bool)


TF32 = r"(?i)tf32|xf32|s1688"
"""Kernels that multiply fp32 operands as TF32 say so (cuBLAS and CUTLASS of CUDA 11 and 12: ``tf32``, ``s1688gemm``).

PyTorch takes fp32 for matrix products by default, so a name without a format means fp32."""
NO_WORK = remark("operator-unknown", "its operator is not recorded: work unknown")
HELPER = remark("helper-kernel", "a helper kernel of another kernel's call: work unknown")
"""A kernel that helps another of its call, whose separate work nothing states."""
_OPERANDS = frozenset(name for op in OPS.values() for name in (*COMMON, *op.dims)) - set(
    TRACE_COLUMNS
)


def of_activities(
    activities: pd.DataFrame, overhead: Overhead, queued: BoolArray | None = None
) -> Rows:
    """Return the rows of a trace: a dispatch table with classes and work (`traces.summary`).

    The overhead of the host decides which gaps count as none; ``queued`` is `is_queued` of the
    whole trace, where the activities are a part of it.
    """
    op = texts(activities, "op")
    flops, moved = (
        activities[name].to_numpy(dtype=float, na_value=np.nan) for name in ("flops", "bytes_moved")
    )
    described = (
        np.isfinite(flops)
        & np.isfinite(moved)
        & np.isin(op, [name for name in OPS if name != UNKNOWN])
    )
    copied = texts(activities, "kind") == MEMCPY
    helps = described & (flops == 0) & (moved == 0)
    workable = described & ~helps
    count = len(activities)
    numbers = {name: np.full(count, np.nan) for name in ("flops", "bytes", "batch", "m", "n", "k")}
    words = {name: np.full(count, "", dtype=object) for name in ("dtype", "unit")}
    # a trace repeats a few problems many times: the work of each is computed once
    if workable.any():
        part = activities.loc[workable, [name for name in activities.columns if name in _OPERANDS]]
        code = codes_of(part[name] for name in part)
        once = work_of(part.iloc[np.unique(code, return_index=True)[1]].reset_index(drop=True))
        for name, column in (numbers | words).items():
            column[workable] = getattr(once, name)[code]
        numbers["flops"][workable] = flops[workable]
        numbers["bytes"][workable] = moved[workable]
        single = words["dtype"] == "fp32"
        if single.any():
            codes, names = pd.factorize(activities["name"][single])
            says = pd.Series(names, dtype="str").str.contains(TF32).to_numpy(dtype=bool)
            words["dtype"][single] = np.where(says[codes], "tf32", "fp32")
    return Rows(
        work=Work(**numbers, **words),
        unknown=chosen([helps, ~described], [HELPER, NO_WORK]),
        op=op,
        op_class=texts(activities, "op_class"),
        host_us=np.maximum(activities["duration_ns"].to_numpy(dtype=float), 1.0) / 1e3,
        queued=is_queued(activities, overhead) if queued is None else queued,
        direction=np.where(copied, texts(activities, "name"), "").astype(object),
    )


def of_pairs(paired: pd.DataFrame) -> Rows:
    """Return the rows of a measurement table with the host's time (``host_duration_us``).

    They count as measured alone: the queue before them was empty. A DataError says that the host's
    times are missing or not positive, or that rows lack a dimension of their operator.
    """
    rows = complete(paired.reset_index(drop=True))
    count = len(paired)
    return Rows(
        work=work_of(rows),
        unknown=np.full(count, None, dtype=object),
        op=texts(rows, "op"),
        op_class=class_of(rows),
        host_us=positive(rows, f"{HOST}duration_us"),
        queued=np.zeros(count, dtype=bool),
        direction=np.full(count, "", dtype=object),
    )


def class_of(rows: pd.DataFrame) -> ObjectArray:
    """Return the op class of measured rows: what column `op_class` says, else what the operator is."""
    codes, names = pd.factorize(texts(rows, "op"))
    op_classes = np.array(
        [OPS[name].op_class if name in OPS else name for name in map(str, names)], dtype=object
    )[codes]
    stated = texts(rows, "op_class")
    return np.where(stated == "", op_classes, stated).astype(object)


FEWEST = 3  # pairs from which a spread can be estimated
FEW = 10  # pairs below which the median of deviations is no measure of it: of three it passes over the farthest


@dataclass(frozen=True)
class Correction:
    """The correction of a law in one op class, from measured pairs."""

    factor: float  # median of measured over projected time
    sigma: float  # standard deviation of its logarithm, robust from `FEW` pairs on; NaN for fewer than `FEWEST`
    n: int  # pairs
    # the pairs, clean rows of problems with `ratio`, measured over projected time, by which calls
    # of one of these problems are corrected; None without them
    problems: pd.DataFrame | None = field(default=None, compare=False, repr=False)

    @property
    def error(self) -> float:
        """Standard deviation of ln(factor) of the law without the correction: its bias and its spread together."""
        return float(np.hypot(np.log(self.factor), self.sigma))


def learn_corrections(
    measured: pd.DataFrame, host: GPU, target: GPU, law: str
) -> dict[str, Correction]:
    """Return by op class how the times measured on the target lie to those that a law projects from the host.

    Problems of the measurement table that were measured on both devices (column `device`) count,
    the fastest kernel of each (`table.problems`). ``law`` is as for `compute_factors`. A DataError
    says that the law is unknown, a device has no rows, or no problem was measured on both.
    """
    paired = pair_rows(measured, host.name, target.name).paired
    rows = of_pairs(paired)
    projected = rows.host_us * by_law(rows, Pair.of(host, target), law)["factor"].to_numpy()
    measured_us = paired["duration_us"].to_numpy(dtype=float)
    problems = paired.assign(ratio=measured_us / projected)
    return {
        name: replace(correction, problems=problems[rows.op_class == name])
        for name, correction in corrections_of(measured_us, projected, rows.op_class).items()
    }


def corrections_of(
    measured_us: np.ndarray, projected_us: np.ndarray, op_class: np.ndarray
) -> dict[str, Correction]:
    """Return the correction of each class from measured and projected times, arrays of shape (n_rows,)."""
    error = np.log(measured_us / projected_us)
    corrections = {}
    for name in sorted(set(op_class.tolist())):
        of_class = error[op_class == name]
        centre = float(np.median(of_class))
        spread = np.nan
        if len(of_class) >= FEWEST:
            spread = MAD_TO_SIGMA * float(np.median(np.abs(of_class - centre)))
        if FEWEST <= len(of_class) < FEW:
            spread = max(spread, float(np.std(of_class, ddof=1)))
        corrections[name] = Correction(float(np.exp(centre)), spread, len(of_class))
    return corrections


DURATION = "duration_us"


def predicted_factors(
    activities: pd.DataFrame, host: GPU, target: GPU, run: TrainedModel
) -> pd.DataFrame:
    """Return the factor of each activity: the predicted time of its call on the target over the measured one.

    The run was trained for the two devices, or for the target from shapes alone, or for many
    targets; a DataError says that it was trained for others, or does not predict durations.
    Activities are those of a dispatch table with classes and work.

    The columns are `factor`, equal for all activities of a call and NaN where the model does not
    apply: no work, a kernel or dimensions outside the trained range, no positive prediction; `why`,
    a tuple of `Remark`, in these rows, else (); `sigma`, the standard deviation of ln(factor) that
    the interval of the prediction gives.
    """
    trained = run.recipe.host
    of = run.recipe.target.name
    comparison = run.recipe.comparison
    if ((trained or host).name, of) != (host.name, target.name) and not (
        comparison.is_many and comparison.one_host in (None, host)
    ):
        if trained:
            way = f"from {trained.name} to {of}"
        else:
            way = f"for {of}"
        raise DataError(
            f"the run was trained {way}, not from {host.name} to {target.name}: give another run"
        )
    if run.recipe.metric != DURATION:
        raise DataError(f"the run predicts {run.recipe.metric}, not {DURATION}: give another run")
    calls, of_call = calls_of(activities)
    if calls.empty:
        return pd.DataFrame(
            {"factor": np.zeros(0), "why": np.zeros(0, dtype=object), "sigma": np.zeros(0)}
        )
    rows = fill_text(judge(calls))
    usable = rows[REFUSED].eq("").to_numpy()
    why = [(row_refused(reason),) if reason else () for reason in rows[REFUSED]]
    table = pd.DataFrame({"factor": np.nan, "sigma": np.nan}, index=range(len(rows)))
    if usable.any():  # repeats of one kernel on one problem are predicted once, from their median
        usable_rows = rows[usable].reset_index(drop=True)
        _, first, code = np.unique(
            problem_ids(usable_rows, kernel=True), return_index=True, return_inverse=True
        )
        median = usable_rows.groupby(code)[DURATION].median().to_numpy()
        asked = usable_rows.iloc[first].assign(**{DURATION: median}).reset_index(drop=True)
        if comparison.is_many:
            run, word = run.of_target(target)
            asked = run.asked_of(asked.assign(device=host.name), word)
        predicted = run.predict(asked, LEVEL)
        factor = predicted["predicted"].to_numpy(dtype=float) / median
        applies = (
            np.isfinite(factor) & (factor > 0) & ~predicted["extrapolated"].to_numpy(dtype=bool)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.log(
                predicted["upper"].to_numpy(dtype=float) / predicted["lower"].to_numpy(dtype=float)
            )
        sigma = reach / (2 * float(ndtri((1 + LEVEL) / 2)))
        table.loc[usable, "factor"] = np.where(applies, factor, np.nan)[code]
        table.loc[usable, "sigma"] = np.where(applies & np.isfinite(sigma), sigma, np.nan)[code]
        unlike = [
            ()
            if applied
            else (
                remark(
                    "unlike-training",
                    f"outside the trained range: {joined(reasons)}",
                    reasons=reasons,
                ),
            )
            for applied, reasons in zip(applies, predicted["reasons"], strict=True)
        ]
        for place, number in zip(np.flatnonzero(usable), code, strict=True):
            why[place] = unlike[number]
    table.insert(1, "why", pd.Series(why, dtype=object))
    return table.take(of_call).reset_index(drop=True)


def calls_of(activities: pd.DataFrame) -> tuple[pd.DataFrame, IntArray]:
    """Return the calls of activities as rows of the measurement table, and the place of each activity's call, (n,)."""
    table = activities.reset_index(drop=True)
    # names the rows, whatever file they come from
    table = table.assign(source=table.index.astype("str"))
    calls = measurements(Annotated(table, empty_steps(), (), ()), "trace", each=True)
    if calls.empty:
        return calls, np.zeros(0, dtype=np.int64)
    # a call is called as its first activity
    of_call = table["source"].groupby(call_codes(table)).transform("first")
    return calls, pd.Index(calls["source"].astype("str")).get_indexer(pd.Index(of_call))


def of_same_problem(
    calls: pd.DataFrame, problems: pd.DataFrame, how: Literal["median", "min"] = "median"
) -> FloatArray:
    """Return the ``ratio`` of each call's problem, (n_calls,); NaN for calls of other problems.

    Problems are the same where all agrees that both tables state: one of the user's may lack what a
    trace records, say the layout.
    """
    ratio = np.full(len(calls), np.nan)
    like = np.flatnonzero(calls["op"].isin(set(problems["op"])))
    if not len(like):
        return ratio
    tables = calls.iloc[like], problems
    stated = []
    for table in tables:
        filled = set()
        for name in table:
            empty = table[name].isna() | table[name].eq("")
            if not empty.all():
                filled.add(name)
        stated.append(filled)
    both = pd.concat(tables, ignore_index=True)[
        [name for name in problems if name in stated[0] & stated[1]]
    ]
    ids = problem_ids(fill_text(complete(both)), device=False)
    ratios = problems["ratio"].groupby(ids[len(like) :]).agg(how)
    ratio[like] = ratios.reindex(ids[: len(like)])
    return ratio


@dataclass(frozen=True)
class LawError:
    """What was measured of a law in one class from one architecture to another."""

    law: str  # as in `compute_factors`
    op_class: str
    host: str  # architecture
    target: str
    bias: float  # median of ln(measured / projected)
    spread: float  # its standard deviation, robust
    n: int  # problems measured on both

    @property
    def sigma(self) -> float:
        """Standard deviation of ln(factor): bias and spread together."""
        return float(np.hypot(self.bias, self.spread))


_ERRORS = tomllib.loads(
    (resources.files("flopcast.projection") / "law_errors.toml").read_text("utf-8")
)
ERRORS: Final = tuple(LawError(*row) for row in _ERRORS["errors"])
PAIR_SIGMA: Final = float(_ERRORS["pair"])
"""Standard deviation of ln(factor) of problems corrected by their pair. Of law_errors.toml, as `ERRORS`."""


def sigmas(op_class: np.ndarray, law: np.ndarray, host: GPU, target: GPU) -> np.ndarray:
    """Return the standard deviation of ln(factor) of each row, NaN where its law was never measured in its class.

    It is that between the architectures of the devices, if that was measured, else the root mean
    square over all pairs of architectures that were; 0 between equal devices. Arrays are of shape
    (n_rows,).
    """
    if host == target or not len(law):  # pandas before 3 has no codes of an empty index
        return np.zeros(len(law))
    codes, cases = pd.MultiIndex.from_arrays([law, op_class]).factorize()
    levels = np.zeros(len(cases))
    for position, case in enumerate(cases):
        errors = [error for error in ERRORS if (error.law, error.op_class) == case]
        # the error from one architecture to another is that of the way back
        pair_errors = [
            error for error in errors if {error.host, error.target} == {host.arch, target.arch}
        ] or errors
        if pair_errors:
            levels[position] = np.sqrt(np.mean([error.sigma**2 for error in pair_errors]))
        else:
            levels[position] = np.nan
    return levels[codes]


DEFAULT_LAW = "affine"
MODEL = "model"
CORRECTED = "+correction"
PAIRED = "+pair"
"""What the name of a law ends in where its class, or the very problem, corrects it."""
SPLITS = ("affine", f"affine{CORRECTED}", f"affine{PAIRED}")
"""Laws that tell the dispatch of a kernel from its work, and put it into the duration only where the target does so."""
COLUMNS = ("factor", "law", "why", "bound", "sigma")


def compute_factors(
    activities: pd.DataFrame,
    host: GPU,
    target: GPU,
    law: str = DEFAULT_LAW,
    *,
    run: TrainedModel | None = None,
    overhead: Mapping[str, Overhead] | None = None,
    corrections: Mapping[str, Correction] | None = None,
    queued: BoolArray | None = None,
    trained_for: GPU | None = None,
) -> pd.DataFrame:
    """Return the factor on the duration of each activity on the target.

    Activities are those of a dispatch table with classes and work (`traces.summary`): kernels that
    compute, copies and fills. ``law`` is a name of `laws.OF_COMPUTATION`. The predictions of a
    ``run`` of `train`, for this host and target or the target alone, go before it wherever they
    apply; with ``trained_for``, the GPU of which the target has other figures, they go on to the
    target by the law. ``overhead`` are fixed times of kernels by vendor (`laws.base.OVERHEADS`),
    ``corrections`` what the factor of a class, or of a call whose problem was measured on both
    GPUs, is multiplied by (`learn_corrections`), ``queued`` `is_queued` of the whole trace, where
    the activities are a part of it.

    The columns are `factor` (> 0, finite); `law`, the one used: where the one asked for does not
    apply, "bandwidth", and where that does not, "kept"; `why`, a tuple of `Remark`, where another
    law was used or the work is not stated, else (); `bound`, of the target: compute, memory,
    latency, link or ""; `sigma`, the standard deviation of ln(factor), NaN where nobody measured
    it. Raises DataError: the law is unknown, or the run was trained for other devices.
    """
    pair = Pair.of(host, target, overhead)
    rows = of_activities(activities, pair.fixed[0], queued)
    factors = by_law(rows, pair, law)
    factors["sigma"] = sigmas(rows.op_class, factors["law"].to_numpy(dtype=object), host, target)
    if corrections:  # kept durations stay
        factor, sigma, used = (
            factors[name].to_numpy(copy=True) for name in ("factor", "sigma", "law")
        )
        calls, of_call = calls_of(activities)
        for name, correction in corrections.items():
            of_class = (rows.op_class == name) & (factors["law"] != KEPT).to_numpy()
            ratio = np.full(len(of_class), np.nan)
            if correction.problems is not None and of_class.any():
                ratio = of_same_problem(calls, correction.problems)[of_call]
            same_problem = of_class & np.isfinite(ratio)
            factor[of_class] *= np.where(same_problem, ratio, correction.factor)[of_class]
            sigma[of_class] = correction.sigma
            sigma[same_problem] = np.fmin(correction.sigma, PAIR_SIGMA)
            used[of_class] += np.where(same_problem, PAIRED, CORRECTED)[of_class].astype(object)
        factors = factors.assign(factor=factor, sigma=sigma, law=used)
    if run is not None:
        model = predicted_factors(activities, host, trained_for or target, run)
        if trained_for is not None and trained_for != target:
            first, whole = (
                by_law(rows, one, law)["factor"]
                for one in (replace(pair, target=trained_for), pair)
            )
            text = f"the model is of {trained_for.name}: projected from there by the law {law}"
            carried = (remark("carried-on-by-law", text, gpu=trained_for.name, law=law),)
            why = [
                carried if has else unmodelled
                for has, unmodelled in zip(model["factor"].notna(), model["why"], strict=True)
            ]
            model = model.assign(
                factor=model["factor"] * whole / first,
                why=pd.Series(why, model.index, dtype=object),
            )
        has = model["factor"].notna().to_numpy()
        why = []
        for predicted, unmodelled, stands_in in zip(has, model["why"], factors["why"], strict=True):
            if not predicted and unmodelled and stands_in:
                text = f"{joined(unmodelled)}: {joined(stands_in)}"
                why.append((remark("model-then-law", text, model=unmodelled, law=stands_in),))
            else:
                why.append(unmodelled if predicted else unmodelled or stands_in)
        factors = factors.assign(
            factor=np.where(has, model["factor"], factors["factor"]),
            law=np.where(has, MODEL, factors["law"]).astype(object),
            why=np.fromiter(why, dtype=object, count=len(why)),
            sigma=np.where(has, model["sigma"], factors["sigma"]),
        )
    return factors[list(COLUMNS)].set_axis(activities.index)
