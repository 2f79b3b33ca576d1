"""Whole runs against the truth: train, save, load, predict; what was stated beside what was delivered.

Every run is asked as a user asks it, by the public API, for rows that were kept from it: new sizes
of the weight shapes that it knows, and new weight shapes. *Stated* is the error that `predict` says
of the rows that are asked for, with its 95 % interval; *delivered* the mean error of its predictions.
`made_up_runs` has laws whose truth is known, `real_runs` AITER's embedded products, convolutions of
MIOpen and operators of PyTorch. Rows beyond the
trained range are left out: no error is stated of them. What is delivered is a mean over the rows
that are asked for, and errs itself: the 95 % interval holds where it reaches what is delivered, give
or take what that may be off by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import pandas as pd

import flopcast as fc

from ...api.tables import load_measurements
from ...arrays import FloatArray
from ...evaluation.metrics import ape
from ...features.matrix import build_dataset
from ...hardware import find
from ...table.problems import HOST as HOST_COLUMN
from ..shared_data import SHARED_DATA
from .rows import Row, Rows, products

SCHEMES: Final = ("known groups", "new groups")
"""What is asked for."""
STRATA: Final = (0, 10, 25, 60, 200, np.inf)
"""Rows of a group that were trained: limits of the strata of known groups."""
HOST, TARGET = "MI300X", "MI355X"
KEPT: Final = 96
"""Rows of each known group that are kept from a made-up run."""
NORMAL: Final = 1.96
"""Standard errors of what is delivered that its 95 % interval reaches."""
NEW_GROUPS, NEW_ROWS = 60, 6
"""New groups of a made-up table, and rows of each."""


@dataclass
class Delivered:
    """What runs of one kind of table stated and delivered: a list with a value a run, but for ``rows``."""

    stated: list[float] = field(default_factory=list)
    true: list[float] = field(default_factory=list)
    held: list[bool] = field(default_factory=list)  # by the 95 % interval of what is stated
    # rows of all runs: columns inside, width, trained (rows of the group), format
    rows: list[pd.DataFrame] = field(default_factory=list)


def saved_and_loaded(rows: pd.DataFrame, **options: Any) -> fc.Run:
    """Return a run as a user has it on another day: trained, saved and loaded."""
    with TemporaryDirectory() as folder:
        place = Path(folder) / "run"
        fc.train(rows, jobs=1, **options).save(place)
        return fc.load(place)


def ask(
    run: fc.Run, rows: pd.DataFrame, observed: FloatArray, kind: str, seen: pd.Series, to: Delivered
) -> None:
    """Predict the rows and note what the run stated and delivered of them; ``seen`` has the rows trained by group."""
    if not len(rows):
        return
    prediction = fc.predict(run, rows.drop(columns="shape"))
    answers, stated = prediction.frame, prediction.summary["stated_error"]
    outside = answers["extrapolated"].to_numpy(dtype=bool)
    within = answers["predicted_us"].notna().to_numpy() & ~outside
    predicted = answers["predicted_us"].to_numpy(dtype=float)
    lower, upper = (answers[name].to_numpy(dtype=float) for name in ("lower_us", "upper_us"))
    if stated is None:
        return
    errors = ape(observed, predicted)[within]
    error = float(np.mean(errors))
    units = rows["shape"].to_numpy()[within]
    if kind == "known groups":
        units = np.arange(len(errors))
    off = _standard_error(errors, units)
    side = stated["upper"] if error > stated["error"] else stated["lower"]
    reach = abs(np.log(side / stated["error"]))
    apart = abs(np.log(error / stated["error"]))
    to.stated.append(float(stated["error"]))
    to.true.append(error)
    to.held.append(bool(apart <= np.hypot(reach, NORMAL * off / error)))
    run_answers = pd.DataFrame(
        {
            "inside": (lower <= observed) & (observed <= upper),
            "width": (upper - lower) / predicted,
            "trained": rows["shape"].map(seen).fillna(0).to_numpy(),
            "format": rows["dtype_a"].to_numpy(),
        }
    )
    to.rows.append(run_answers[within])


def _standard_error(errors: FloatArray, units: np.ndarray) -> float:
    """Return the standard error of a mean over rows of which those of a unit err together."""
    code = pd.factorize(units)[0]
    sums = np.bincount(code, errors - errors.mean())
    count = len(sums)
    if count < 2:
        return 0.0
    return float(np.sqrt((sums**2).sum() * count / (count - 1)) / len(errors))


def figures(name: str, kind: str, delivered: Delivered) -> Rows:
    """Yield the figures of one kind of table and question."""
    runs = len(delivered.true)
    if not runs:
        return
    ratios = np.array(delivered.stated) / np.array(delivered.true)
    rows = pd.concat(delivered.rows)
    where = f"{name}, {kind}"
    yield Row(f"{where}: stated error, mean", float(np.mean(delivered.stated)), runs, " %")
    yield Row(f"{where}: delivered error, mean", float(np.mean(delivered.true)), runs, " %")
    yield Row(f"{where}: stated / delivered, median", float(np.median(ratios)), runs, "")
    yield Row(f"{where}: 95 % interval of the error holds", float(np.mean(delivered.held)), runs)
    yield Row(f"{where}: 90 % intervals hold", float(rows["inside"].mean()), len(rows))
    yield Row(f"{where}: width, median", 100 * float(rows["width"].median()), len(rows), " %")
    if len(rows["format"].unique()) > 1:
        for dtype, part in rows.groupby("format"):
            share = float(part["inside"].mean())
            yield Row(f"{where}, {dtype}: 90 % intervals hold", share, len(part))


def strata(rows: Iterable[pd.DataFrame]) -> Rows:
    """Yield what intervals hold of known groups, by how many rows of the group were trained."""
    every = pd.concat(list(rows), ignore_index=True)
    for least, limit in pairwise(STRATA):
        part = every[(every["trained"] > least) & (every["trained"] <= limit)]
        if len(part):
            name = f"known groups of {least + 1:.0f} to {limit:.0f} trained rows"
            yield Row(f"{name}: 90 % intervals hold", float(part["inside"].mean()), len(part))


def _sides(rows: pd.DataFrame) -> tuple[FloatArray, FloatArray, FloatArray]:
    m, n, k = (rows[name].to_numpy(dtype=float) for name in "mnk")
    return m, n, k


CUS: Final = 304
FLOP_US, BYTES_US = 1e9, 4e6
"""Of the made-up GPU, by a microsecond: 1 PFLOP/s, 4 TB/s."""
START_US: Final = 3.0


def _memory_us(rows: pd.DataFrame) -> FloatArray:
    m, n, k = _sides(rows)
    return START_US + (m * k + n * k + 2 * m * n) / BYTES_US


def roofline_us(rows: pd.DataFrame) -> FloatArray:
    """Return start and roofline."""
    m, n, k = _sides(rows)
    return np.maximum(START_US + 1.3 * 2 * m * n * k / FLOP_US, _memory_us(rows))


def split_k_us(rows: pd.DataFrame) -> FloatArray:
    """Return the best split of k: waves of 128 x 128 tiles, and for parts of k a sum of partial results."""
    m, n, k = _sides(rows)
    best = np.full(len(rows), np.inf)
    for split in (1, 2, 4, 8, 16):
        waves = np.ceil(np.ceil(m / 128) * np.ceil(n / 128) * split / CUS)
        depth = np.ceil(k / 128 / split) * 128
        us = START_US + 1.3 * waves * CUS * 2 * 128 * 128 * depth / FLOP_US
        if split > 1:
            us = us + 1.5 + 2 * split * m * n * 4 / BYTES_US
        best = np.minimum(best, us)
    return np.maximum(best, _memory_us(rows))


MENU: Final = ((256, 256, 1.0), (128, 128, 0.85), (64, 128, 0.6), (64, 64, 0.45), (16, 64, 0.2))
"""Tiles of a made-up library, with the part of the peak that each reaches."""


def menu_us(rows: pd.DataFrame) -> FloatArray:
    """Return the best of a menu of tiles."""
    m, n, k = _sides(rows)
    best = np.full(len(rows), np.inf)
    for tall, wide, part in MENU:
        waves = np.ceil(np.ceil(m / tall) * np.ceil(n / wide) / CUS)
        best = np.minimum(best, START_US + waves * CUS * 2 * tall * wide * k / (part * FLOP_US))
    return np.maximum(best, _memory_us(rows))


@dataclass(frozen=True)
class MadeUp:
    """A kind of table: its law, the trained rows of each group, and how groups and rows deviate from the law."""

    law: Callable[[pd.DataFrame], FloatArray] = roofline_us
    sizes: tuple[int, ...] = (12,) * 16
    between: float = 0.04  # standard deviation of a group's logarithm
    noise: float = 0.03  # of a row's
    family: float = 0.0  # of what four groups share, a campaign; new groups are of new ones
    spikes: float = 0.0  # share of rows that something else delayed
    hidden: float = 1.0  # how many times slower another library is, from some m of each group on
    rare: tuple[int, ...] = ()  # groups of bf16, twice as slow; of new ones every second
    host: float | None = None  # noise of the host's times; None: one device


MADE_UP: Final = {
    "roofline": MadeUp(),
    "split-K": MadeUp(split_k_us),
    "split-K, 8 groups": MadeUp(split_k_us, (24,) * 8),
    "menu of tiles": MadeUp(menu_us),
    "hidden library": MadeUp(sizes=(20,) * 10, hidden=1.4),
    "spikes": MadeUp(noise=0.06, spikes=0.05),
    "host noise": MadeUp(host=0.15),
    "campaigns of four groups": MadeUp(sizes=(12,) * 24, between=0.02, family=0.12),
    "unequal groups": MadeUp(sizes=(200, 60, 20, 6, 4), between=0.08),
    "barely known groups": MadeUp(sizes=(40,) * 8 + (5,) * 8, between=0.06),
    "rare formats": MadeUp(rare=(3, 11)),
}
"""Kinds of tables by the name that is printed."""


def table(kind: MadeUp, rng: np.random.Generator) -> pd.DataFrame:
    """Return products with the columns shape (the group's number), kept (from the run), us, and host_us if any."""
    groups = len(kind.sizes)
    rows = products(rng, [*(size + KEPT for size in kind.sizes), *[NEW_ROWS] * NEW_GROUPS])
    group = rows["shape"].to_numpy()
    last = rows.groupby("shape").cumcount(ascending=False).to_numpy() < KEPT
    every = groups + NEW_GROUPS
    shifts = rng.normal(0, kind.between, every)
    if kind.family:
        shifts = shifts + np.repeat(rng.normal(0, kind.family, every // 4 + 1), 4)[:every]
        rows = rows.assign(campaign=[f"search {number}" for number in group // 4])
    deviation = shifts[group] + kind.noise * rng.normal(size=len(rows))
    if kind.spikes:
        delayed = rng.random(len(rows)) < kind.spikes
        deviation = deviation + delayed * np.exp(rng.normal(-0.9, 0.5, len(rows)))
    us = kind.law(rows) * np.exp(deviation)
    if kind.hidden > 1:
        from_m = np.exp(rng.normal(np.log(400), 1, every))
        us = np.where(rows["m"].to_numpy() > from_m[group], kind.hidden * us, us)
    rows = rows.assign(kept=(group >= groups) | last, new=group >= groups, us=us)
    if kind.rare:
        odd = np.isin(group, kind.rare) | ((group >= groups) & (group % 2 == 0))
        rows = rows.assign(dtype_a=np.where(odd, "bf16", "fp8"), us=np.where(odd, 2 * us, us))
    if kind.host is not None:
        noisy = rows["us"] * np.exp(rng.normal(0, kind.host, len(rows)))
        rows = rows.assign(host_us=noisy, us=0.6 * rows["us"])
    return rows


def measured(rows: pd.DataFrame, *, host_alone: bool = False) -> pd.DataFrame:
    """Return rows as a table of measurements: of one device, or of host and target, ``host_alone`` of the host."""
    plain = rows.drop(columns=["kept", "new", "us", "host_us"], errors="ignore")
    if "host_us" not in rows:
        return plain.assign(device=HOST, duration_us=rows["us"])
    of_host = plain.assign(device=HOST, duration_us=rows["host_us"])
    if host_alone:
        return of_host
    of_target = plain.assign(device=TARGET, duration_us=rows["us"])
    return pd.concat([of_host, of_target], ignore_index=True)


def made_up_runs(sets: int, seed: int = 0, kinds: Iterable[str] = tuple(MADE_UP)) -> Rows:
    """Yield what runs on made-up tables state and deliver of known and of new groups; all runs are quick."""
    rows_of_groups: list[pd.DataFrame] = []
    every = {question: Delivered() for question in SCHEMES}
    for name in kinds:
        delivered = {question: Delivered() for question in SCHEMES}
        kind = MADE_UP[name]
        if kind.host is None:
            devices = {"target": HOST}
        else:
            devices = {"host": HOST, "target": TARGET}
        for number in range(sets):
            rows = table(kind, np.random.default_rng([seed, number]))
            trained = rows[~rows["kept"]]
            run = saved_and_loaded(
                measured(trained).drop(columns="shape"), quick=True, seed=number, **devices
            )
            seen = trained["shape"].value_counts()
            _ask_each(run, rows[rows["kept"]], seen, delivered)
        for question, to in delivered.items():
            yield from figures(name, question, to)
            every[question].held += to.held
        rows_of_groups += delivered["known groups"].rows
    yield from _in_all("made-up tables", every)
    yield from strata(rows_of_groups)


def _ask_each(
    run: fc.Run, kept: pd.DataFrame, seen: pd.Series, delivered: Mapping[str, Delivered]
) -> None:
    """Ask a run for the rows that were kept from it, those of each question apart."""
    for question, to in delivered.items():
        asked = kept[kept["new"] == (question == "new groups")].reset_index(drop=True)
        given = measured(asked, host_alone=True)
        ask(run, given, asked["us"].to_numpy(), question, seen, to)


SHIFT: Final = 1.26
"""Times as long as in training all rows of a corrected run take."""
CHECKED: Final = (24, 3)
"""Rows of each known group, and of each new one, that are checked; the others are asked for."""


def corrected_runs(
    sets: int, seed: int = 0, kinds: Iterable[str] = ("roofline", "split-K", "unequal groups")
) -> Rows:
    """Yield what runs that `check` corrected state and deliver of rows that take `SHIFT` times as long."""
    every = {question: Delivered() for question in SCHEMES}
    for name in kinds:
        delivered = {question: Delivered() for question in SCHEMES}
        for number in range(sets):
            rows = table(MADE_UP[name], np.random.default_rng([seed, number]))
            trained = rows[~rows["kept"]]
            data = measured(trained).drop(columns="shape")
            run = fc.train(data, quick=True, seed=number, target=HOST, jobs=1)
            later = rows[rows["kept"]]
            later = later.assign(us=SHIFT * later["us"])
            place = later.groupby("shape").cumcount()
            checked = place < np.where(later["new"], CHECKED[1], CHECKED[0])
            answer = run.check(measured(later[checked]).drop(columns="shape"), seed=number)
            if answer.verdict != "shifted":
                continue
            with TemporaryDirectory() as folder:
                answer.correct(Path(folder) / "corrected")
                corrected = fc.load(Path(folder) / "corrected")
            seen = trained["shape"].value_counts()
            _ask_each(corrected, later[~checked], seen, delivered)
        for question, to in delivered.items():
            yield from figures(f"corrected, {name}", question, to)
            every[question].held += to.held
    yield from _in_all("corrected runs", every)


DEMO: Final = ("OLS", "NNLS", "Lasso", "BoostedTrees/Residual", "Mean/Transfer")
"""Models of `make demo`."""
MOST_ROWS: Final = 2_500
"""Rows of a table of `SHARED_DATA` that runs are made of: whole groups, drawn at random."""


@dataclass(frozen=True)
class Real:
    """A measured table: how runs on it are trained, and the folder of `SHARED_DATA`; None: the embedded products."""

    options: Mapping[str, Any]
    folder: str | None = None


REAL: Final = {
    "MI300X alone": Real({"target": HOST, "quick": True}),
    "MI355X alone": Real({"target": TARGET, "quick": True}),
    "pairs": Real({"host": HOST, "target": TARGET, "models": DEMO}),
    "MIOpen": Real({"host": "MI210", "target": "MI300X", "quick": True}, "miopen"),
    "operators": Real({"host": "MI100", "target": "MI210", "quick": True}, "ops"),
}
"""Real tables by the name that is printed."""
DERIVED: Final = ("flops", "bytes", "compute_dtype", "bound")
"""Columns of a data set's rows that a table of measurements does not have."""


def real_runs(sets: int, seed: int = 0, tables: Iterable[str] = tuple(REAL)) -> Rows:
    """Yield the same of measured tables: a fifth of the groups left out, and of the others' rows too.

    MIOpen's and the operators' are skipped where the measured data are not on this machine.
    """
    rows_of_groups: list[pd.DataFrame] = []
    every = {question: Delivered() for question in SCHEMES}
    for name in tables:
        real = REAL[name]
        if real.folder is not None and not SHARED_DATA.is_dir():
            continue
        delivered = {question: Delivered() for question in SCHEMES}
        whole = _workloads(real)
        for number in range(sets):
            draw = np.random.default_rng([seed, number])
            rows = _some(whole, draw) if real.folder is not None else whole
            shapes = draw.permutation(rows["shape"].unique())
            new = rows["shape"].isin(shapes[: len(shapes) // 5])
            left_out = new | (draw.random(len(rows)) < 0.2)
            if real.folder is None:
                trained = _embedded_without(rows[left_out], real)
            else:
                trained = _as_measured(rows[~left_out], real)
            run = saved_and_loaded(trained, seed=number, **real.options)
            seen = rows.loc[~left_out, "shape"].value_counts()
            for question, to in delivered.items():
                asked = rows[left_out & (new == (question == "new groups"))]
                asked = asked.reset_index(drop=True)
                given = _as_asked(asked, real).assign(shape=asked["shape"])
                ask(run, given, asked["us"].to_numpy(), question, seen, to)
        for question, to in delivered.items():
            yield from figures(name, question, to)
            every[question].held += to.held
        rows_of_groups += delivered["known groups"].rows
    yield from _in_all("real tables", every)
    yield from strata(rows_of_groups)


def _workloads(real: Real) -> pd.DataFrame:
    """Return the rows that a run may be asked for, with their group, shape, and their true times, us."""
    options = real.options
    if real.folder is not None:
        names = [str(options[side]) for side in ("host", "target")]
        table = load_measurements([SHARED_DATA / real.folder], devices=names).frame
        dataset = build_dataset(table, host=find(names[0]), target=find(names[1]))
        rows = dataset.rows.drop(columns=[name for name in DERIVED if name in dataset.rows])
        return rows.assign(shape=dataset.groups.astype(str), us=dataset.y).reset_index(drop=True)
    embedded = fc.read().frame
    problem = ["m", "n", "k"]
    shape = embedded["n"].astype(int).astype(str) + "x" + embedded["k"].astype(int).astype(str)
    embedded = embedded.assign(shape=shape)
    target = embedded[embedded["device"].eq(options["target"])].drop_duplicates(problem)
    if "host" not in options:
        return target.assign(us=target["duration_us"]).reset_index(drop=True)
    host = embedded[embedded["device"].eq(options["host"])].drop_duplicates(problem)
    true = target[[*problem, "duration_us"]].rename(columns={"duration_us": "us"})
    return host.merge(true, on=problem)


def _some(rows: pd.DataFrame, draw: np.random.Generator) -> pd.DataFrame:
    """Return the rows of whole groups, drawn until they have `MOST_ROWS`."""
    counts = rows["shape"].value_counts(sort=False)
    order = draw.permutation(len(counts))
    enough = np.cumsum(counts.to_numpy()[order]) <= MOST_ROWS
    return rows[rows["shape"].isin(counts.index[order[enough]])].reset_index(drop=True)


def _as_asked(rows: pd.DataFrame, real: Real) -> pd.DataFrame:
    """Return workloads as a run is asked for them: with what the host measured of them, if there is one."""
    if real.folder is None:
        return rows.drop(columns=["us", "shape"])
    host = [str(name) for name in rows if str(name).startswith(HOST_COLUMN)]
    theirs = {name.removeprefix(HOST_COLUMN): rows[name] for name in host}
    plain = rows.drop(columns=[*host, "us", "shape"])
    return plain.assign(**theirs, device=real.options["host"])


def _as_measured(rows: pd.DataFrame, real: Real) -> pd.DataFrame:
    """Return workloads as a table of what both GPUs measured of them."""
    host = [name for name in rows if str(name).startswith(HOST_COLUMN)]
    of_target = rows.drop(columns=[*host, "us", "shape"])
    return pd.concat([_as_asked(rows, real), of_target], ignore_index=True)


def _embedded_without(rows: pd.DataFrame, real: Real) -> pd.DataFrame:
    """Return the embedded table without the target's rows of some workloads."""
    embedded = fc.read().frame
    ids = set(rows[["m", "n", "k"]].apply(tuple, axis=1))
    out = embedded[["m", "n", "k"]].apply(tuple, axis=1).isin(ids)
    return embedded[~(out & embedded["device"].eq(real.options["target"]))]


def _in_all(name: str, delivered: dict[str, Delivered]) -> Rows:
    for question, to in delivered.items():
        if to.held:
            share = float(np.mean(to.held))
            yield Row(f"{name}, {question}: 95 % interval of the error holds", share, len(to.held))
