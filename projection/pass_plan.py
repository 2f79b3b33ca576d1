"""A plan of passes that profile a program's kernels a few at a time, and the proof that they did.

A profiler that times everything slows everything. `plan_passes` says which kernels each pass records and how often they
run in it, `command` how a profiler is told so; `proof` holds what was recorded against the plan, kernel by kernel and
occurrence by occurrence. Kernels that run about equally often share a pass, since rocprofv3 counts launches of each
kernel and takes one range for all. Recording begins with the first launch: then the n-th of a name is the same in every
pass and in the full trace, and `passes.with_durations` can put them together.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
import pandas as pd

from ..errors import DataError, ParameterError
from ..remarks import Remark, remark
from ..traces.classes import bare_name
from ..traces.cleaning.joining import Coverage, merge_coverage, places_of
from .kernel_matching import common_spelling

KERNELS_PER_PASS: Final = 20
STEPS: Final = 50
COUNTER: Final = "SQ_WAVES"
"""What rocprofv3 counts in a pass unless told otherwise: it filters kernels in collections of counters only."""
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
_LETTER = "[^A-Za-z0-9_]"


class Profiler(StrEnum):
    """Profilers that passes are planned for; torch.profiler records all kernels, so that it has one pass."""

    ROCPROFV3 = "rocprofv3"
    TORCH = "torch"


@dataclass(frozen=True)
class PassPlan:
    """Which kernels each pass records.

    Attributes
    ----------
    profiler : Profiler
    steps : int
        Of the program, that a pass runs.
    kernels : DataFrame
        One row per kernel, pass by pass: `pass` (from 1 on), `name`, `per_step` (launches in a step, the most of any),
        `launches` (in a pass, those before the first step with them), `time_us` (in the full trace; NaN for a list of
        names).
    """

    profiler: Profiler
    steps: int
    kernels: pd.DataFrame

    @property
    def passes(self) -> int:
        """Number of passes."""
        return int(self.kernels["pass"].max())

    @property
    def notes(self) -> tuple[Remark, ...]:
        """The outcome, ``passes-planned``, and what limits the profiler: ``filters-with-counters``, ``records-all``."""
        limit = "records-all" if self.profiler == Profiler.TORCH else "filters-with-counters"
        size = {"kernels": len(self.kernels), "passes": self.passes, "steps": self.steps}
        return remark("passes-planned", profiler=self.profiler.value, **size), remark(limit)


def plan_passes(
    full: pd.DataFrame,
    profiler: str = Profiler.ROCPROFV3,
    *,
    kernels_per_pass: int = KERNELS_PER_PASS,
    steps: int = STEPS,
) -> PassPlan:
    """Return which kernels each pass records, and how often they are launched in it.

    Parameters
    ----------
    full : DataFrame
        Every kernel of the program: the dispatch table of a full trace, with its steps if it records them, else one
        step; or any table with `name`, one row per launch of a step.
    profiler : str
        One of `Profiler`.
    kernels_per_pass : int
        Different kernels that rocprofv3 records in a pass.
    steps : int
        Steps of the program in a pass.

    Raises
    ------
    ParameterError
        An unknown profiler, or a number below 1.
    DataError
        There are no kernels.
    """
    if profiler not in list(Profiler):
        raise ParameterError("profiler", f"must be one of {', '.join(Profiler)}, got {profiler!r}")
    for name, value in (("kernels_per_pass", kernels_per_pass), ("steps", steps)):
        if value < 1:
            raise ParameterError(name, f"must be at least 1, got {value}")
    table = _launches(full, steps)
    if table.empty:
        raise DataError("no kernels to plan for: give a trace or a list of names that has some")
    table = table.sort_values(["per_step", "launches"], ascending=False, kind="stable", ignore_index=True)
    own = len(table) if profiler == Profiler.TORCH else kernels_per_pass
    return PassPlan(Profiler(profiler), steps, table.assign(**{"pass": np.arange(len(table)) // own + 1}))


def _launches(full: pd.DataFrame, steps: int) -> pd.DataFrame:
    """Return `name`, `per_step`, `launches` and `time_us` of each kernel, of the rank that launches it most."""
    if "start_ns" not in full:
        counts = full.groupby("name", sort=False).size().rename("per_step").reset_index()
        return counts.assign(launches=counts["per_step"] * steps, time_us=np.nan)
    places = places_of(full)
    step = full["step"].reindex(places.index)
    if step.isna().all():
        step = pd.Series(1, index=step.index)
    within = places.assign(step=step).dropna(subset="step")
    per_step = within.groupby(["name", "rank", "step"], sort=False).size().groupby("name", sort=False).max()
    before = places[step.isna()].groupby(["name", "rank"], sort=False).size().groupby("name", sort=False).max()
    time_us = places["duration_us"].clip(lower=0).groupby(places["name"], sort=False).sum()
    table = pd.DataFrame({"time_us": time_us})
    table["per_step"] = per_step.reindex(table.index).fillna(0).astype(np.int64)
    table["launches"] = table["per_step"] * steps + before.reindex(table.index).fillna(0).astype(np.int64)
    return table.rename_axis("name").reset_index()[["name", "per_step", "launches", "time_us"]]


def pattern(names: list[str]) -> str:
    """Return a regular expression that finds these kernels in rocprofv3's names, whose parameters may be left out.

    Examples
    --------
    >>> pattern(["void f<float>(float*) [clone .kd]", "g"])
    '(^|[^A-Za-z0-9_])(f<float>|g)($|[^A-Za-z0-9_])'
    """
    stems = dict.fromkeys(_without_parameters(bare_name(name)) for name in names)
    escaped = "|".join(_SPECIAL.sub(r"\\\g<0>", stem) for stem in stems)
    return f"(^|{_LETTER})({escaped})($|{_LETTER})"


def _without_parameters(name: str) -> str:
    if not name.endswith(")"):
        return name
    depth = 0
    for place in range(len(name) - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(name[place], 0)
        if depth == 0:
            return name[:place]
    return name


def command(plan: PassPlan, number: int, *, counters: str = COUNTER, folder: str = "passes") -> str:
    """Return the command line of a pass, or the lines of Python; what to run goes in the place of ``PROGRAM``.

    Parameters
    ----------
    number : int
        Of the pass, from 1 on.
    counters : str
        Counters for rocprofv3 to collect: it filters kernels in collections of counters only.
    folder : str
        Where the passes write.
    """
    own = plan.kernels[plan.kernels["pass"] == number]
    name = f"pass_{number:0{len(str(plan.passes))}}"
    if plan.profiler == Profiler.TORCH:
        return (
            "from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler\n"
            "with profile(\n"
            "    activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],\n"
            f"    schedule=schedule(wait=0, warmup=1, active={plan.steps}, repeat=1),\n"
            "    record_shapes=True,\n"
            f"    on_trace_ready=tensorboard_trace_handler({folder + '/' + name!r}),\n"
            ") as profiler:\n"
            f"    for _ in range({plan.steps + 1}):\n"
            "        ...  # one step of your program\n"
            "        profiler.step()"
        )
    words = [
        "rocprofv3", "--pmc", *counters.split(),
        "--kernel-include-regex", pattern(own["name"].tolist()),
        "--kernel-iteration-range", f"[1-{own['launches'].max()}]",
        "--output-format", "csv", "--output-directory", f"{folder}/{name}", "--output-file", name,
    ]  # fmt: skip
    return f"{shlex.join(words)} -- PROGRAM"


def proof(plan: PassPlan, runs: Mapping[str, pd.DataFrame]) -> Coverage:
    """Return what passes recorded, held against the plan.

    Parameters
    ----------
    plan : PassPlan
    runs : mapping of str to DataFrame
        Dispatch table of each pass.

    Returns
    -------
    Coverage
        Of the places that the plan asks for; of ranks, each must have them all.

    Raises
    ------
    DataError
        There are no kernels, or passes launch the kernel of a place differently.
    """
    places = merge_coverage(runs).places
    (names, planned), _ = common_spelling([places["name"], plan.kernels["name"]])
    places["spelt"] = names
    wanted = plan.kernels.assign(spelt=planned).groupby("spelt", sort=False).agg({"name": "first", "launches": "sum"})
    have = places.groupby(["spelt", "rank"], sort=False).size()
    every = pd.MultiIndex.from_product([wanted.index, sorted(places["rank"].unique())], names=["spelt", "rank"])
    table = pd.DataFrame({"covered": have.reindex(every).fillna(0).astype(np.int64)}).reset_index()
    table = table.join(wanted, on="spelt").rename(columns={"launches": "wanted"}).assign(device_number=-1, run="")
    short = table[table["covered"] < table["wanted"]].reset_index(drop=True)
    nth = places.groupby(["spelt", "rank"], sort=False).cumcount() + 1
    asked = nth <= wanted["launches"].reindex(places["spelt"]).fillna(0).to_numpy()
    found = places[asked].drop(columns="spelt").reset_index(drop=True)
    return Coverage(found, short[["rank", "device_number", "name", "covered", "wanted", "run"]], proved=True)
