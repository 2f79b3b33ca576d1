"""The times of one workload as one profiler recorded it: kernels, gaps, end to end, per step."""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

from ..errors import DataError
from ..traces.dispatches import KERNEL, empty_steps
from ..traces.quality import busy_ns, span_ns
from ..traces.summary import Annotated
from .split import DEVICE

_COLUMNS = ["kind", "name", "start_ns", "duration_ns", "device", "rank", "process", "gpu", "stream", "step"]
"""Columns that times and the matching of kernels need."""


@dataclass(frozen=True)
class Profiled:
    """One workload as one profiler, or one setting of it, recorded it.

    Attributes
    ----------
    label : str
        What to call it.
    activities : DataFrame
        Dispatch table.
    steps : DataFrame
        The profiler's steps (`Trace.steps`).
    step_count : int or None
        How many steps the whole trace holds, where the user says so; None: those that the trace records.
    """

    label: str
    activities: pd.DataFrame
    steps: pd.DataFrame = field(default_factory=empty_steps)
    step_count: int | None = None

    @classmethod
    def of(cls, label: str, trace: Annotated, step_count: int | None = None) -> Profiled:
        """Return the same of a trace as it was read."""
        return cls(label, trace.dispatches, trace.steps, step_count)

    def counted(self) -> pd.DataFrame:
        """Return the activities that count: those of the steps recorded, all where the user says how many there are.

        Only what times and the matching of kernels need is kept of them: traces have many columns.

        Raises
        ------
        DataError
            There are no kernels, or none with a duration, or `step_count` is not positive.
        """
        if self.step_count is not None and self.step_count < 1:
            raise DataError(f"the number of steps must be at least 1, got {self.step_count}", source=self.label)
        rows = self.activities[_COLUMNS]
        if self.step_count is None and rows["step"].notna().any():
            rows = rows[rows["step"].notna()]
        kernels = kernels_of(rows)
        if kernels.empty:
            raise DataError("no kernels in this trace: give one that has them", source=self.label)
        if kernels["duration_ns"].max() <= 0:
            raise DataError("no kernel of this trace has a duration: give a run that was timed", source=self.label)
        return rows


@dataclass(frozen=True)
class TraceTimes:
    """The times of one trace, in microseconds over all its steps.

    Where the trace records steps, what was launched outside them is left out. Of several GPUs the one with the longest
    end-to-end time counts.

    Attributes
    ----------
    label : str
        What the trace is called.
    gpus, kernels : int
        GPUs with kernels; kernels of the one that counts.
    steps : int or None
        Number of steps; None where nobody knows.
    kernel_us : float
        Sum of the kernels' durations, overlapping or not.
    busy_us, gaps_us, end_to_end_us : float
        Time with at least one kernel, copy or fill; time without; their sum: first start to last end.
    cpu_step_us : float or None
        Median duration of the steps as the CPU saw them; None where the trace records none.
    """

    label: str
    gpus: int
    kernels: int
    steps: int | None
    kernel_us: float
    busy_us: float
    gaps_us: float
    end_to_end_us: float
    cpu_step_us: float | None

    @property
    def end_to_end_per_step_us(self) -> float | None:
        """End-to-end time of a step, the mean over all; None where nobody knows how many there are."""
        return self.end_to_end_us / self.steps if self.steps else None


def kernels_of(activities: pd.DataFrame) -> pd.DataFrame:
    """Return the kernels among the activities."""
    return activities[activities["kind"] == KERNEL]


def kernel_us(kernels: pd.DataFrame) -> float:
    """Return the sum of the kernels' durations in microseconds; negative ones count as none."""
    return float(kernels["duration_ns"].clip(lower=0).sum()) / 1e3


def trace_times(trace: Profiled) -> TraceTimes:
    """Return the times of a trace.

    Raises
    ------
    DataError
        As `Profiled.counted`.
    """
    rows = trace.counted()
    parts = [part for _, part in rows.groupby(list(DEVICE), dropna=False, observed=True)]
    gpus = [part for part in parts if len(kernels_of(part))]
    longest = max(gpus, key=span_ns)
    kernels, busy, total = kernels_of(longest), busy_ns(longest), span_ns(longest)
    cpu = trace.steps.loc[trace.steps["step"].isin(rows["step"].dropna()), "duration_ns"]
    return TraceTimes(
        label=trace.label,
        gpus=len(gpus),
        kernels=len(kernels),
        steps=trace.step_count or int(rows["step"].nunique()) or None,
        kernel_us=kernel_us(kernels),
        busy_us=busy / 1e3,
        gaps_us=(total - busy) / 1e3,
        end_to_end_us=total / 1e3,
        cpu_step_us=float(cpu.median()) / 1e3 if len(cpu) else None,
    )
