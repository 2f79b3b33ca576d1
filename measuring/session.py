"""One measurement from beginning to end: every row, in a random order, in rounds and passes, until done or stopped."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from ..errors import one_line
from .backend import Device
from .journal import Entry, Journal
from .machine import Monitor
from .protocol import Rule, half_widths, row_statistics, visit
from .rows import Row, described
from .timing import Call, Timer

DONE, INTERRUPTED, BUDGET, LOST = "done", "interrupted", "budget", "device lost"
"""How a session ends."""
_OUT_OF_MEMORY = re.compile("out of memory|outofmemory|allocate memory|not enough memory", re.IGNORECASE)
"""Words of PyTorch's allocators and of CUDA; memory that others use may be free the next time."""

MOST_VISITS = 12
"""Visits of a row and pass from which a budget buys no more: the interval of their median has a quarter of its width
with three."""

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
    """What is measured, and how; a journal continues only its own plan.

    Attributes
    ----------
    rows : list of dict
        Operators with their dimensions.
    devices : list of Device
        Each row is measured on all of them before the next, so that a slow drift of the machine hits them alike.
    rule : Rule
    passes : int
        Times that the whole grid is measured, each a row of the table (column ``campaign``).
    seed : int
        Of the operands, and of the order: drift in the course of hours shall not look like an effect of size.
    cold : bool
        Whether the cache is filled with other data before each call.
    function : str
        The user's function, "" for the suite's kernels.
    machine : mapping of str to str
        Processor, GPU and version of PyTorch: times of two of them are not one measurement.
    """

    rows: list[Row]
    devices: list[Device]
    rule: Rule
    passes: int = 1
    seed: int = 0
    cold: bool = False
    function: str = ""
    machine: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON types."""
        return {
            "rows": self.rows,
            "devices": [[device.name, device.threads] for device in self.devices],
            "protocol": self.rule.to_dict(),
            "passes": self.passes,
            "seed": self.seed,
            "cache": "cold" if self.cold else "warm",
            "function": self.function,
            **self.machine,
        }

    def steps(self) -> Iterator[Step]:
        """Yield pass, round (both from 1) and row of each visit, every round in a random order of its own."""
        for campaign in range(1, self.passes + 1):
            for turn in range(1, self.rule.rounds + 1):
                yield from ((campaign, turn, row) for row in self.order(campaign, turn))

    def order(self, campaign: int, turn: int) -> list[int]:
        """Return the rows in the random order of a round."""
        order = np.random.default_rng([self.seed, campaign, turn]).permutation(len(self.rows))
        return [int(row) for row in order]

    def __len__(self) -> int:
        return self.passes * self.rule.rounds * len(self.rows)


@dataclass
class Session:
    """The course of a measurement.

    Attributes
    ----------
    plan : Plan
    bench : Workbench
    journal : Journal or None
        Where visits are kept; None: in memory only.
    monitor : Monitor
    visits : list of dict
        One for each row, device, round and pass: ``samples_us`` (an array) and what `protocol.Visit` says.
    failures : dict of int to str
        Rows that cannot be measured, and why. The journal does not keep those that ran out of memory: when the
        measurement is resumed, they are tried again.
    ended : str
        `DONE`, `INTERRUPTED`, `BUDGET`, or `LOST`: a row left the device useless for the rest of the process.
    lost : str
        That row and what it raised; the journal does not keep it.
    limits_s : tuple of float or None
        The smallest and the largest limit of time that the budget gave a visit; None without a budget.
    """

    plan: Plan
    bench: Workbench
    journal: Journal | None = None
    monitor: Monitor = field(default_factory=lambda: Monitor(None))
    visits: list[Entry] = field(default_factory=list)
    failures: dict[int, str] = field(default_factory=dict)
    ended: str = DONE
    lost: str = ""
    limits_s: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.journal is not None:
            for entries in self.journal.steps:
                self._remember(entries)
            self.journal.steps.clear()

    def run(
        self,
        budget_seconds: float | None = None,
        progress: Progress | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Measure what is not measured yet; Ctrl-C, or the end of the budget, leaves what is measured as it is.

        While a budget lasts, rows whose interval is wider than asked for are visited again after the planned rounds, up
        to `MOST_VISITS` times in each pass.

        Parameters
        ----------
        budget_seconds : float, optional
            Time for the whole of it, shared out evenly among the visits that are left; a visit that takes less leaves
            the rest to the others.
        progress : callable, optional
            ``(done, total, label, eta_seconds)``.
        clock : callable
            Returns seconds.
        """
        course = _Course(clock, budget_seconds, progress)
        known = {(entry["pass"], entry["round"], entry["row"]) for entry in self.visits}
        todo = [step for step in self.plan.steps() if step not in known]
        self.ended, self.lost, self.limits_s = DONE, "", None
        try:
            self.ended = self._course(todo, len(self.plan) - len(todo), len(todo), course)
            for turn in range(self.plan.rule.rounds + 1, MOST_VISITS + 1):
                if self.ended != DONE or budget_seconds is None:
                    return
                todo = [step for step in self._further(turn) if step not in known]
                shares = len(todo) * (MOST_VISITS + 1 - turn)
                ended = self._course(todo, len(self.visits) // len(self.plan.devices), shares, course)
                if ended == BUDGET:
                    return  # what was planned is done, and the rows say how well they are known
                self.ended = ended
        except KeyboardInterrupt:
            self.ended = INTERRUPTED

    def _course(self, todo: Sequence[Step], before: int, shares: int, course: _Course) -> str:
        """Make the visits, each with the time of one of so many shares; return what ended them."""
        for done, step in enumerate(todo):
            course.tell(before + done, before + len(todo), described(self.plan.rows[step[2]]))
            left = course.left()
            if left is not None and left <= 0:
                return BUDGET
            self._visit(step, self._rule(None if left is None else left / (shares - done)))
            if self.lost:
                return LOST
        return DONE

    def _further(self, turn: int) -> Iterator[Step]:
        """Yield the visits of a round beyond those planned: of the rows that are not known well enough.

        Whether a row is one of them depends on its own visits alone, so a resumed measurement finds the same.
        """
        places = [(entry["pass"], entry["row"], entry["device"]) for entry in self.visits]
        if not places:
            return
        number = {place: index for index, place in enumerate(dict.fromkeys(places))}
        samples, rule = [entry["samples_us"] for entry in self.visits], self.plan.rule
        rows = [number[place] for place in places]
        width = half_widths(row_statistics(samples, rows, level=rule.level, threshold=rule.threshold))
        wide = {place[:2] for place, index in number.items() if not width[index] <= rule.interval}
        for campaign in range(1, self.plan.passes + 1):
            order = self.plan.order(campaign, turn)
            yield from ((campaign, turn, row) for row in order if (campaign, row) in wide and row not in self.failures)

    def _rule(self, share: float | None) -> Rule:
        """Return the rule for a visit of one device, its time that of the step's share."""
        if share is None:
            return self.plan.rule
        seconds = share / len(self.plan.devices)
        least, most = self.limits_s or (seconds, seconds)
        self.limits_s = min(least, seconds), max(most, seconds)
        return replace(self.plan.rule, seconds=seconds, least_seconds=min(self.plan.rule.least_seconds, seconds))

    def _visit(self, step: Step, rule: Rule) -> None:
        index = step[2]
        if index in self.failures:
            return
        try:
            entries = self._measured(step, rule)
        except (Exception, SystemExit) as error:  # whatever a kernel or a user's function raises fails this row alone
            reason = one_line(error)
        else:
            self._keep(entries)
            return
        self._failed(index, reason)  # here, as the exception held the operands in its frames

    def _measured(self, step: Step, rule: Rule) -> list[Entry]:
        """Visit a row on every device."""
        campaign, turn, index = step
        row, entries = self.plan.rows[index], []
        self.bench.use(self.plan.devices[0], row)
        call = self.bench.build(row, self.plan.seed + index)
        for device in self.plan.devices:
            self.bench.use(device, row)
            visited = visit(self.bench.timer, call, rule)
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
                    **self.monitor.reading(partial(self.bench.timer.samples, call, 1, visited.calls)),
                }
            )
        return entries

    def _failed(self, index: int, reason: str) -> None:
        """Note a row that failed, unless it took the device with it."""
        try:
            self.bench.recover()
        except Exception:  # the first error says what happened; the device repeats it for whatever is asked of it
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
                self.visits.append({**entry, "samples_us": np.array(entry["samples_us"])})  # a quarter of a list's size


@dataclass
class _Course:
    """The time of a session, and who is told of it."""

    clock: Callable[[], float]
    budget: float | None
    progress: Progress | None

    def __post_init__(self) -> None:
        self.started, self.made = self.clock(), 0

    def left(self) -> float | None:
        """Return what is left of the budget, seconds."""
        return None if self.budget is None else self.budget - (self.clock() - self.started)

    def tell(self, done: int, total: int, label: str) -> None:
        """Report that another visit begins."""
        if self.progress is not None:
            eta = (self.clock() - self.started) / self.made * (total - done) if self.made else float("nan")
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
