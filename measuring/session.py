"""One measurement from beginning to end: every row, in rounds and passes, until done or stopped; then its table.

A `Plan` says what is measured, every round in a random order, a `Session` makes its visits, and a `Journal` has each of
them on disk when it ends, so that a measurement that was stopped can go on. `measurement_table` makes a row of the
visits of each workload, `doubts` says which times are imprecise.

Besides the columns of ``table.measurements`` each row has

===========================  ==========================================================================================
column                       meaning
===========================  ==========================================================================================
kernel                       of a user's function: its name, and its parameters that are no dimensions (columns too)
duration_us                  median of the visits' medians, outliers left out (`timing.row_statistics`)
outliers                     samples removed, further than so many MAD from the median of their visit
interval_low_us, ..._high_   interval of the time (95 %): how far samples and visits lie apart, microseconds
rounds                       visits behind the row
calls_per_sample             calls that one sample is the mean of
warmed_up                    whether the times were stable after the warm-up of every visit
cache                        ``warm``, or ``cold``: filled with other data before each sample
clock_share                  part of a sample that the clock itself takes, more with a cold cache: there a sample is one
                             call
late_share                   part of the samples on a GPU that may hold some of the time it takes to launch a call: the
                             host had not enqueued them in time
stopped_by                   ``unfinished``: rounds are missing; ``interval``: the time is as precise as asked for;
                             if not, what ended a visit: ``time`` or ``repeats``; or ``rounds differ``: each visit was
                             steady, but not the same as the others
clock_mhz, power_w,          as the platform tells, median of the readings; missing where there are none
temperature_c
===========================  ==========================================================================================
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa

from .. import output
from ..errors import DataError, one_line
from ..output import READABLE, check_file, check_unread, overwriting, replacing, whole_file
from ..remarks import Remark, remark
from ..staging import remove_folder, sweep
from .backend import Device
from .machine import STATE, Monitor
from .rows import MEASURED, Row, described, parameters
from .timing import (
    DIFFER,
    INTERVAL,
    REPEATS,
    TIME,
    UNFINISHED,
    Call,
    Rule,
    Timer,
    half_widths,
    row_statistics,
    visit,
)

# how a session ends
DONE = "done"
INTERRUPTED = "interrupted"
BUDGET = "budget"
LOST = "device lost"
_OUT_OF_MEMORY = re.compile(
    "out of memory|outofmemory|allocate memory|not enough memory", re.IGNORECASE
)
"""Words of PyTorch's allocators and of CUDA; memory that others use may be free the next time."""
MOST_VISITS = 12
"""Visits of a row and pass from which a budget buys no more: the interval of their median has a
quarter of its width with three."""
PLAN = "plan.json"
VISITS = "visits.jsonl"
PARTS = "parts.jsonl"
SUFFIX = ".journal"  # files of a journal, and what ends the name of its folder
Entry = dict[str, Any]
Progress = Callable[[int, int, str, float], None]
Step = tuple[int, int, int]


class Workbench(Protocol):
    """Where calls are made ready; see `measure.Bench`."""

    timer: Timer

    def build(self, row: Row, seed: int) -> Call:
        """Return the call of a row with fresh operands."""
        ...

    def use(self, device: Device, row: Row) -> None:
        """Make the device the one that the next calls run on."""
        ...

    def recover(self) -> None:
        """Make the device ready for the next row after one that failed; raise if it is lost."""
        ...


@dataclass(frozen=True)
class Plan:
    """The rows and settings of a measurement; a journal continues only its plan.

    Each row is measured on all devices before the next, so that a slow drift of the machine hits
    them alike.
    """

    rows: list[Row]  # operators with their dimensions
    devices: list[Device]
    rule: Rule
    # times that the whole grid is measured, each a row of the table (column ``campaign``)
    passes: int = 1
    seed: int = 0  # of operands and order: drift in the course of hours shall not look like an effect of size
    cold: bool = False  # whether the cache is filled with other data before each call
    function: str = ""  # the user's, "" for the suite's kernels
    # processor, GPU, PyTorch: those of one measurement
    machine: Mapping[str, str] = field(default_factory=dict)

    @property
    def cache(self) -> str:
        """How the cache is before each call."""
        return "cold" if self.cold else "warm"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON types."""
        return {
            "rows": self.rows,
            "devices": [[device.name, device.threads] for device in self.devices],
            "protocol": self.rule.to_dict(),
            "passes": self.passes,
            "seed": self.seed,
            "cache": self.cache,
            "function": self.function,
            **self.machine,
        }

    def steps(self) -> Iterator[Step]:
        """Yield pass, round (both from 1) and row of each visit, every round in its random order."""
        for campaign in range(1, self.passes + 1):
            for turn in range(1, self.rule.rounds + 1):
                yield from ((campaign, turn, row) for row in self.order(campaign, turn))

    def order(self, campaign: int, turn: int) -> list[int]:
        """Return the rows in the random order of a round."""
        order = np.random.default_rng([self.seed, campaign, turn]).permutation(len(self.rows))
        return [int(row) for row in order]

    def __len__(self) -> int:
        return self.passes * self.rule.rounds * len(self.rows)


def journal_folder(out: Path) -> Path:
    """Return the folder beside the table that is to be written."""
    return out.with_name(out.name + SUFFIX)


class Journal:
    """Visits of one plan, in a folder, which is created if needed; a journal of another plan is refused.

    ``steps`` are what an earlier run has measured, as it was written; ``parts`` what earlier runs
    said of themselves when they ended: one that was killed said nothing. Raises DataError: there is
    a journal and `resume` is not set, there is none and it is, it is of another plan, or it cannot
    be read.
    """

    def __init__(self, folder: Path, plan: Mapping[str, Any], *, resume: bool = False) -> None:
        self.folder = folder
        self.steps: list[list[Entry]] = []
        self.parts: list[Entry] = []
        sweep(folder)
        if not resume and folder.exists() and any(folder.iterdir()):
            raise DataError(
                "holds an unfinished measurement: resume it, or delete it", source=str(folder)
            )
        if resume:
            self._check(plan)
            self.steps, self.parts = self._lines(VISITS, _is_step), self._lines(PARTS, _is_part)
        else:
            with whole_file(folder / PLAN) as path:
                path.write_text(json.dumps(plan), encoding="utf-8")

    def add(self, entries: Sequence[Entry]) -> None:
        """Write the result of one step to disk, as one line."""
        with (self.folder / VISITS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(entries) + "\n")

    def end_part(self, part: Entry) -> None:
        """Write the record of this run."""
        with (self.folder / PARTS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(part) + "\n")
        self.parts.append(part)

    def remove(self) -> None:
        """Delete the folder, when everything is measured and written."""
        remove_folder(self.folder)

    def _check(self, plan: Mapping[str, Any]) -> None:
        where = str(self.folder)
        try:
            stored = json.loads((self.folder / PLAN).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise DataError(
                "there is nothing to resume: measure from the beginning", source=where
            ) from None
        except (OSError, ValueError) as error:
            raise DataError(
                f"its {PLAN} cannot be read ({error}): delete the folder, measure anew",
                source=where,
            ) from None
        plain = json.loads(json.dumps(plan))
        changed = [name for name in plain if stored.get(name) != plain[name]]
        if changed:
            raise DataError(
                f"was begun with other {' and '.join(changed)}: resume with the same settings, "
                "machine and PyTorch, or "
                "delete it",
                source=where,
            )

    def _lines(self, name: str, fits: Callable[[Any], bool]) -> list[Any]:
        """Return the contents of a file, line by line, each checked.

        The last line may be cut short by whatever stopped the process: what is lost of it is
        measured again; where its end alone is missing, that is added, so that the next step begins
        a line.
        """
        path = self.folder / name
        text = ""
        if path.exists():
            text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        steps = []
        for number, line in enumerate(lines, start=1):
            try:
                step = json.loads(line)
            except ValueError:
                if number == len(lines):
                    break
                step = None
            if not fits(step):
                raise DataError("is not a journal: delete the folder", source=f"{path}:{number}")
            steps.append(step)
        if text and not (text.endswith("\n") and len(steps) == len(lines)):
            whole = "".join(f"{line}\n" for line in lines[: len(steps)])
            with whole_file(path) as written:
                written.write_text(whole, encoding="utf-8")
        return steps


def _is_step(line: Any) -> bool:
    return isinstance(line, list) and all(
        isinstance(entry, dict) and set(entry) >= {"row"} for entry in line
    )


def _is_part(line: Any) -> bool:
    return isinstance(line, dict) and isinstance(line.get("seconds"), float | int)


@dataclass
class Session:
    """The course of a measurement.

    A visit is an `Entry`: ``samples_us`` (an array) and what `timing.Visit` says. The journal does
    not keep failures that ran out of memory: when the measurement is resumed, those rows are tried
    again.
    """

    plan: Plan
    bench: Workbench
    journal: Journal | None = None  # where visits are kept; None: in memory only
    monitor: Monitor = field(default_factory=lambda: Monitor(None))
    visits: list[Entry] = field(default_factory=list)  # of each row, device, round and pass
    failures: dict[int, str] = field(default_factory=dict)  # rows that cannot be measured, and why
    ended: str = DONE  # or `INTERRUPTED`, `BUDGET`, `LOST`: a row left the device useless for the rest of the process
    lost: str = ""  # that row and what it raised; the journal does not keep it
    # smallest and largest limit of time that the budget gave a visit
    limits_s: tuple[float, float] | None = None
    clock: Callable[[], float] = time.perf_counter  # of the budget and of the visits

    def __post_init__(self) -> None:
        if self.journal is not None:
            for entries in self.journal.steps:
                self._remember(entries)
            self.journal.steps.clear()

    def run(self, budget_seconds: float | None = None, progress: Progress | None = None) -> None:
        """Measure what is still missing; Ctrl-C, or the end of the budget, keeps the measured visits.

        The budget is the time for the whole of it, shared out evenly among the visits that are
        left; a visit that takes less leaves the rest to the others. While it lasts, rows whose
        interval is wider than asked for are visited again after the planned rounds, up to
        `MOST_VISITS` times in each pass. `progress` is told ``(done, total, label, eta_seconds)``.
        """
        course = _Course(self.clock, budget_seconds, progress)
        taken = {(entry["pass"], entry["round"], entry["row"]) for entry in self.visits}
        todo = [step for step in self.plan.steps() if step not in taken]
        self.ended = DONE
        self.lost = ""
        self.limits_s = None
        try:
            self.ended = self._course(
                todo,
                len(self.plan) - len(todo),
                len(todo),
                course,
            )
            for turn in range(self.plan.rule.rounds + 1, MOST_VISITS + 1):
                if self.ended != DONE or budget_seconds is None:
                    return
                todo = [step for step in self._further(turn) if step not in taken]
                shares = len(todo) * (MOST_VISITS + 1 - turn)
                ended = self._course(
                    todo, len(self.visits) // len(self.plan.devices), shares, course
                )
                if ended == BUDGET:
                    return  # the plan is done, and the rows state their precision
                self.ended = ended
        except KeyboardInterrupt:
            self.ended = INTERRUPTED

    def _course(self, todo: Sequence[Step], before: int, shares: int, course: _Course) -> str:
        """Make the visits, each with the time of one of so many shares; return the reason for the end."""
        for done, step in enumerate(todo):
            course.tell(before + done, before + len(todo), described(self.plan.rows[step[2]]))
            left = course.left()
            if left is not None and left <= 0:
                return BUDGET
            rule = self.plan.rule
            if left is not None:  # the visit of each device takes its part of the step's share
                seconds = left / (shares - done) / len(self.plan.devices)
                least, highest = self.limits_s or (seconds, seconds)
                self.limits_s = min(least, seconds), max(highest, seconds)
                rule = replace(
                    rule, seconds=seconds, least_seconds=min(rule.least_seconds, seconds)
                )
            self._visit(step, rule)
            if self.lost:
                return LOST
        return DONE

    def _further(self, turn: int) -> Iterator[Step]:
        """Yield the visits of a round beyond those planned: of rows that are still imprecise.

        Whether a row is one of them depends on its visits alone, so a resumed measurement finds
        the same.
        """
        places = [(entry["pass"], entry["row"], entry["device"]) for entry in self.visits]
        if not places:
            return
        number = {place: index for index, place in enumerate(dict.fromkeys(places))}
        samples = [entry["samples_us"] for entry in self.visits]
        rule = self.plan.rule
        rows = [number[place] for place in places]
        width = half_widths(
            row_statistics(
                samples,
                rows,
                level=rule.level,
                threshold=rule.threshold,
            )
        )
        wide = {place[:2] for place, index in number.items() if not width[index] <= rule.precision}
        for campaign in range(1, self.plan.passes + 1):
            for row in self.plan.order(campaign, turn):
                if (campaign, row) in wide and row not in self.failures:
                    yield campaign, turn, row

    def _visit(self, step: Step, rule: Rule) -> None:
        index = step[2]
        if index in self.failures:
            return
        try:
            entries = self._measured(step, rule)
        except (
            Exception,
            SystemExit,
        ) as error:  # whatever a kernel or a user's function raises fails this row alone
            reason = one_line(error)
        else:
            self._keep(entries)
            return
        self._failed(index, reason)  # here, as the exception held the operands in its frames

    def _measured(self, step: Step, rule: Rule) -> list[Entry]:
        """Visit a row on every device."""
        campaign, turn, index = step
        row = self.plan.rows[index]
        entries = []
        self.bench.use(self.plan.devices[0], row)
        call = self.bench.build(row, self.plan.seed + index)
        for device in self.plan.devices:
            self.bench.use(device, row)
            visited = visit(
                self.bench.timer,
                call,
                rule,
                clock=self.clock,
            )
            entries.append(
                {
                    "pass": campaign,
                    "round": turn,
                    "row": index,
                    "device": device.name,
                    "samples_us": [round(float(sample), 4) for sample in visited.samples_us],
                    "calls": visited.calls,
                    "warmup_samples": visited.warmup_samples,
                    "warm": visited.warm,
                    "ended": visited.ended,
                    "late": visited.late,
                    "clock_us": round(self.bench.timer.cost_us, 4),
                    **self.monitor.reading(
                        partial(
                            self.bench.timer.samples,
                            call,
                            1,
                            visited.calls,
                        )
                    ),
                }
            )
        return entries

    def _failed(self, index: int, reason: str) -> None:
        """Record a failed row, unless the device is lost with it."""
        try:
            self.bench.recover()
        except (
            Exception
        ):  # the first error says what happened; the device repeats it for whatever is asked of it
            self.lost = f"{described(self.plan.rows[index])}: {reason}"
            return
        entries = [{"row": index, "error": reason}]
        if _OUT_OF_MEMORY.search(reason):
            self._remember(entries)
        else:
            self._keep(entries)

    def _keep(self, entries: Sequence[Entry]) -> None:
        if self.journal is not None:
            self.journal.add(entries)
        self._remember(entries)

    def _remember(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if "error" in entry:
                self.failures[entry["row"]] = entry["error"]
            else:
                # a quarter of a list's size
                self.visits.append({**entry, "samples_us": np.array(entry["samples_us"])})


@dataclass
class _Course:
    """The time of a session, and its progress."""

    clock: Callable[[], float]
    budget: float | None
    progress: Progress | None

    def __post_init__(self) -> None:
        self.started = self.clock()
        self.made = 0

    def left(self) -> float | None:
        """Return the rest of the budget, seconds."""
        if self.budget is None:
            return None
        return self.budget - (self.clock() - self.started)

    def tell(self, done: int, total: int, label: str) -> None:
        """Report that another visit begins."""
        if self.progress is not None:
            eta = float("nan")
            if self.made:
                eta = (self.clock() - self.started) / self.made * (total - done)
            self.progress(done, total, label, eta)
        self.made += 1


def failed_rows(session: Session) -> list[dict[str, str]]:
    """Return the rows that cannot be measured, in words, and why."""
    return [
        {"row": described(session.plan.rows[index]), "reason": reason}
        for index, reason in sorted(session.failures.items())
    ]


def unmeasured(session: Session) -> Sequence[int]:
    """Return the rows that have neither a visit nor a failure yet."""
    seen = {entry["row"] for entry in session.visits} | set(session.failures)
    return [index for index in range(len(session.plan.rows)) if index not in seen]


VAGUE = 0.5  # half width of the interval, relative to the time, from which a row is worth a word
# shares of late samples, and of the clock in a sample, from which a row is worth a word
LATE = 0.1
CLOCK = 0.02


def measurement_table(plan: Plan, visits: Sequence[Entry]) -> pd.DataFrame:
    """Return one row for each workload, device and pass that has a visit, in the order of the grid.

    Raises DataError: there is no visit.
    """
    if not visits:
        raise DataError("nothing was measured")
    taken = [entry | {"samples_us": None, "taken": len(entry["samples_us"])} for entry in visits]
    frame = pd.DataFrame(taken)
    place = {device.name: number for number, device in enumerate(plan.devices)}
    frame["place"] = frame["device"].map(place)
    keys = ["pass", "row", "place"]
    order = frame.groupby(keys, sort=True).ngroup().to_numpy()
    samples = [entry["samples_us"] for entry in visits]
    rule = plan.rule
    numbers = row_statistics(
        samples,
        order,
        level=rule.level,
        threshold=rule.threshold,
    )
    firsts = frame.groupby(order)[[*keys, "device"]].first()
    rows = pd.DataFrame([plan.rows[int(index)] for index in firsts["row"]])
    named = {}
    if plan.function:  # with the parameters that it had: another block size is another kernel
        kernels = []
        for index in firsts["row"]:
            labels = parameters(plan.rows[int(index)]).items()
            kernels.append(" ".join([plan.function, *(f"{key}={value}" for key, value in labels)]))
        named = {"kernel": kernels}
    by_row = frame.groupby(order)
    calls = by_row["calls"].median()
    late = by_row["late"].sum() / by_row["taken"].sum()
    sample_us = calls * numbers["duration_us"]
    clock_share = by_row["clock_us"].median() / sample_us.where(sample_us > 0)
    ended = by_row["ended"].agg(
        lambda words: TIME if TIME in set(words) else REPEATS if REPEATS in set(words) else ""
    )
    cases = {
        UNFINISHED: by_row["round"].nunique().to_numpy() < rule.rounds,
        INTERVAL: (half_widths(numbers) <= rule.precision).to_numpy(),
    }
    stopped = np.select(
        [*cases.values(), ended.ne("").to_numpy()],
        [*cases, ended.to_numpy(dtype=object)],
        default=DIFFER,
    )
    state = (
        frame.reindex(columns=list(STATE)).groupby(order).median().dropna(axis="columns", how="all")
    )
    return pd.DataFrame(
        {
            "device": firsts["device"].to_numpy(),
            **{str(name): rows[name] for name in rows},
            **named,
            **{str(name): numbers[name].to_numpy() for name in numbers},
            "rounds": by_row["round"].nunique().to_numpy(),
            "calls_per_sample": calls.to_numpy(),
            "warmed_up": by_row["warm"].all().to_numpy(),
            "cache": plan.cache,
            "clock_share": clock_share.to_numpy().round(4),
            "late_share": late.to_numpy().round(4),
            "stopped_by": stopped,
            "campaign": [f"pass {number}" for number in firsts["pass"]],
            **{str(name): state[name].to_numpy() for name in state},
        }
    )


def pass_differences(table: pd.DataFrame) -> pd.Series:
    """Return the change from the first to the last pass of each workload and device: ``100 |t2 - t1| / t1``, percent.

    It is the floor under every prediction error: a second measurement does no better. What was not
    measured in both is not counted.
    """
    number = table["campaign"].str.removeprefix("pass ").astype(int)
    if number.max() == 1:
        return pd.Series(dtype=np.float64)
    identity = [column for column in table if column not in MEASURED]
    passes = {"first": number == 1, "last": number == number.max()}
    times = table.assign(
        **{name: table["duration_us"].where(rows) for name, rows in passes.items()}
    )
    pairs = times.groupby(identity, dropna=False, sort=False)[list(passes)].median().dropna()
    return (100 * (pairs["last"] - pairs["first"]).abs() / pairs["first"]).reset_index(drop=True)


def doubts(table: pd.DataFrame) -> list[Remark]:
    """Return the number of imprecise times, and of times that may include more than the kernel."""
    vague = (
        f"are uncertain by more than ±{100 * VAGUE:.0f} %: measure them again with nothing else "
        "running, or with a "
        "larger budget, before anything learns from them"
    )
    late = (
        f"have over {100 * LATE:.0f} % of samples for which the host launched too slowly: these "
        "may hold part of the "
        "launch (late_share)"
    )
    clock = f"spend over {100 * CLOCK:.0f} % of a sample on the clock itself (clock_share)"
    cases = (
        ("times-hardly-known", half_widths(table), VAGUE, vague),
        ("launches-late", table["late_share"], LATE, late),
        ("clock-in-samples", table["clock_share"], CLOCK, clock),
    )
    remarks = []
    for code, values, limit, text in cases:
        rows = int(values.gt(limit).sum())
        if rows:
            counts = {"rows": rows, "of": len(table), "limit": limit}
            remarks.append(remark(code, f"{rows} of {len(table)} rows {text}", **counts))
    return remarks


def check_table_path(out: Path, *, resume: bool = False) -> None:
    """Refuse, before minutes of measuring, a file that could not be written or would replace another.

    What was measured is no result that the same call makes again: an earlier table is refused too.
    Raises DataError: its suffix is neither .parquet nor .csv; or it, or the JSON that is written
    beside it, exists, and is not that of the measurement to resume, nor does `output.replacing`
    allow to replace it; or it is a file that is read.
    """
    beside = provenance_path(out)
    with replacing(overwrite=True):
        check_file(out, READABLE)
        check_unread(beside)
    if overwriting():
        return
    if out.exists() and not resume:
        raise DataError("exists: choose another file, or give overwrite=True", source=str(out))
    if beside.exists() and not out.exists():
        text = (
            f"exists, and the provenance of {out.name} would replace it: choose another file, or "
            "give overwrite=True"
        )
        raise DataError(text, source=str(beside))


def provenance_path(out: Path) -> Path:
    """Return where the provenance of a table stands, as JSON."""
    return out.with_suffix(".json")


def write_table(table: pd.DataFrame, provenance: Mapping[str, Any], out: Path) -> None:
    """Write the table, and its provenance beside it (Parquet: in its metadata as well), each whole or not at all.

    `check_table_path` has said that they may replace what is there. Raises DataError: a file cannot
    be written.
    """
    with replacing(overwrite=True):
        output.write_table(
            pa.Table.from_pandas(table, preserve_index=False), out, json.dumps(provenance)
        )
    # second: without a table it would count as another's
    with whole_file(provenance_path(out)) as path:
        path.write_text(json.dumps(provenance, indent=1) + "\n", encoding="utf-8")
