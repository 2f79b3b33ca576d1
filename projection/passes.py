"""Profiling in passes, a few kernels at a time: the plan, the proof, and durations in the place of a full trace's.

A profiler that records every kernel slows every kernel; one that records a few slows less, but
knows no whole. The full trace says what waits for what, the passes (`traces.cleaning.joining`) how
long it takes: kernels meet by their name and the number of their occurrence. The trace is then
played again (`replay`) with the durations of the passes, so that what followed a kernel follows it
still. What no pass measured keeps its time, and is told.

`plan_passes` says which kernels each pass records and how often they run in it, `command` how a
profiler is told so; `proof` holds what was recorded against the plan, kernel by kernel and
occurrence by occurrence. Kernels that run about equally often share a pass, since rocprofv3 counts
launches of each kernel and takes one range for all. Recording begins with the first launch: then
the n-th of a name is the same in every pass and in the full trace.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np
import pandas as pd

from ..errors import DataError, ParameterError, counted
from ..remarks import Remark, remark
from ..traces.activity_work import UNKNOWN
from ..traces.classes import bare_name
from ..traces.cleaning.joining import Coverage, check_launches, merge_coverage, places_of
from ..traces.summary import Annotated, call_codes, measurements
from .comparison import SIGNATURE, common_spelling
from .graph import build
from .replay import replay
from .split import longest_first
from .whole_trace import replayed

KERNELS_PER_PASS: Final = 20
STEPS: Final = 50
COUNTER: Final = "SQ_WAVES"
"""What rocprofv3 counts in a pass by default: it filters kernels in collections of counters only."""


class Profiler(StrEnum):
    """Profilers that passes are planned for; torch.profiler records all kernels, so that it has one pass."""

    ROCPROFV3 = "rocprofv3"
    TORCH = "torch"


@dataclass(frozen=True)
class PassPlan:
    """Which kernels each pass records."""

    profiler: Profiler
    steps: int  # of the program, that a pass runs
    # one row per kernel, pass by pass: `pass` (from 1 on), `name`, `per_step` (launches in a step,
    # the most of any), `launches` (in a pass, those before the first step with them), `time_us` (in
    # the full trace; NaN for a list of names)
    kernels: pd.DataFrame

    @property
    def passes(self) -> int:
        """Number of passes."""
        return int(self.kernels["pass"].max())

    @property
    def notes(self) -> tuple[Remark, ...]:
        """The outcome, ``passes-planned``, and what limits the profiler: ``filters-with-counters``, ``records-all``."""
        if self.profiler == Profiler.TORCH:
            text = "torch.profiler records every kernel: one pass, whose first step warms up"
            limit = remark("records-all", text)
        else:
            text = (
                "rocprofv3 filters kernels only where it collects counters, and runs them one at "
                "a time then; it "
                "counts launches from the start of PROGRAM: let the full trace begin there too"
            )
            limit = remark("filters-with-counters", text)
        size = {"kernels": len(self.kernels), "passes": self.passes, "steps": self.steps}
        profiler = self.profiler.value
        plan = (
            f"{counted(self.passes, 'pass', 'passes')} of {profiler}, "
            f"{counted(self.steps, 'step')} each"
        )
        plan = f"{plan}, to record {counted(len(self.kernels), 'kernel')}"
        return remark("passes-planned", plan, profiler=profiler, **size), limit


def plan_passes(
    full: pd.DataFrame,
    profiler: str = Profiler.ROCPROFV3,
    *,
    kernels_per_pass: int = KERNELS_PER_PASS,
    steps: int = STEPS,
) -> PassPlan:
    """Return which kernels each pass records, and how often they are launched in it.

    ``full`` are all kernels of the program: the dispatch table of a full trace, with its steps if
    it records them, else one step; or any table with `name`, one row per launch of a step. In a
    pass rocprofv3 records ``kernels_per_pass`` different kernels, in so many ``steps``. Raises
    ParameterError: an unknown profiler, or a number below 1; DataError: no kernels.
    """
    if profiler not in list(Profiler):
        raise ParameterError("profiler", f"must be one of {', '.join(Profiler)}, got {profiler!r}")
    for name, value in (("kernels_per_pass", kernels_per_pass), ("steps_per_pass", steps)):
        if value < 1:
            raise ParameterError(name, f"must be at least 1, got {value}")
    if "start_ns" in full:  # of each kernel the launches of the rank that launches it most
        places = places_of(full)
        step = full["step"].reindex(places.index)
        if step.isna().all():
            step = pd.Series(1, index=step.index)
        within = places.assign(step=step).dropna(subset="step")
        per_step = (
            within.groupby(["name", "rank", "step"], sort=False)
            .size()
            .groupby("name", sort=False)
            .max()
        )
        before = (
            places[step.isna()]
            .groupby(["name", "rank"], sort=False)
            .size()
            .groupby("name", sort=False)
            .max()
        )
        time_us = places["duration_us"].clip(lower=0).groupby(places["name"], sort=False).sum()
        table = time_us.rename("time_us").rename_axis("name").reset_index()
        table["per_step"] = table["name"].map(per_step).fillna(0).astype(np.int64)
        table["launches"] = table["per_step"] * steps + table["name"].map(before).fillna(0).astype(
            np.int64
        )
        table = table[["name", "per_step", "launches", "time_us"]]
    else:
        counts = full.groupby("name", sort=False).size().rename("per_step").reset_index()
        table = counts.assign(launches=counts["per_step"] * steps, time_us=np.nan)
    if table.empty:
        raise DataError("no kernels to plan for: give a trace or a list of names that has some")
    table = table.sort_values(
        ["per_step", "launches"], ascending=False, kind="stable", ignore_index=True
    )
    count = kernels_per_pass
    if profiler == Profiler.TORCH:
        count = len(table)
    return PassPlan(
        Profiler(profiler), steps, table.assign(**{"pass": np.arange(len(table)) // count + 1})
    )


def pattern(names: list[str]) -> str:
    """Return a regular expression that finds these kernels in rocprofv3's names, whose parameters may be left out.

    >>> pattern(["void f<float>(float*) [clone .kd]", "g"])
    '(^|[^A-Za-z0-9_])(f<float>|g)($|[^A-Za-z0-9_])'
    """
    stems = dict.fromkeys(_without_parameters(bare_name(name)) for name in names)
    escaped = "|".join(re.sub(r"[\\^$.|?*+()\[\]{}]", r"\\\g<0>", stem) for stem in stems)
    around = "[^A-Za-z0-9_]"
    return f"(^|{around})({escaped})($|{around})"


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
    """Return the command line of a pass, from 1 on, or lines of Python; what to run goes in the place of ``PROGRAM``.

    rocprofv3 filters kernels in collections of ``counters`` only. Passes write to ``folder``.
    """
    launched = plan.kernels[plan.kernels["pass"] == number]
    name = f"pass_{number:0{len(str(plan.passes))}}"
    if plan.profiler == Profiler.TORCH:
        return (
            "from torch.profiler import ProfilerActivity, profile, schedule, "
            "tensorboard_trace_handler\n"
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
        "rocprofv3",
        "--pmc",
        *counters.split(),
        "--kernel-include-regex",
        pattern(launched["name"].tolist()),
        "--kernel-iteration-range",
        f"[1-{launched['launches'].max()}]",
        "--output-format",
        "csv",
        "--output-directory",
        f"{folder}/{name}",
        "--output-file",
        name,
    ]
    return f"{shlex.join(words)} -- PROGRAM"


def proof(plan: PassPlan, runs: Mapping[str, pd.DataFrame]) -> Coverage:
    """Return the coverage of the plan's places by passes, each a dispatch table; each rank must have them all.

    Raises DataError: there are no kernels, or passes launch the kernel of a place differently.
    """
    places = merge_coverage(runs).places
    (names, planned), _ = common_spelling([places["name"], plan.kernels["name"]])
    places["spelt"] = names
    wanted = (
        plan.kernels.assign(spelt=planned)
        .groupby("spelt", sort=False)
        .agg({"name": "first", "launches": "sum"})
    )
    have = places.groupby(["spelt", "rank"], sort=False).size()
    every = pd.MultiIndex.from_product(
        [wanted.index, sorted(places["rank"].unique())], names=["spelt", "rank"]
    )
    table = pd.DataFrame({"covered": have.reindex(every).fillna(0).astype(np.int64)}).reset_index()
    table = (
        table.join(wanted, on="spelt")
        .rename(columns={"launches": "wanted"})
        .assign(device_number=-1, run="")
    )
    short = table[table["covered"] < table["wanted"]].reset_index(drop=True)
    nth = places.groupby(["spelt", "rank"], sort=False).cumcount() + 1
    asked = nth <= wanted["launches"].reindex(places["spelt"]).fillna(0).to_numpy()
    placed = places[asked].drop(columns="spelt").reset_index(drop=True)
    return Coverage(
        placed, short[["rank", "device_number", "name", "covered", "wanted", "run"]], proved=True
    )


NEEDED: Final = ("name", "occurrence", "duration_us")
"""Columns of a table of durations; those of `joining.places_of` beside them are used where they are there."""
_GPU: Final = ["rank", "device_number"]
_LAUNCH: Final = ["workgroups", "threads"]
_NAMED: Final = 3


@dataclass(frozen=True)
class Retimed:
    """A trace with durations of passes."""

    trace: Annotated  # the trace, its starts and the CPU's calls as they are with these durations
    # one row per kernel of the trace, the longest recorded first: `name`, `launches`, `measured`
    # (of these, in passes), `recorded_us` (in the full trace), `unmeasured_us` (of that, not
    # measured in passes), `retimed_us`
    kernels: pd.DataFrame

    @property
    def note(self) -> Remark:
        """What was measured: ``durations-of-passes``, with shares of kernels and time, 0 to 1, and names left out."""
        table = self.kernels
        left = table[table["measured"] < table["launches"]]
        total = int(table["launches"].sum())
        total_us = float(table["recorded_us"].sum())
        kernels = int(table["measured"].sum())
        first = tuple(left["name"].head(_NAMED))
        time_share = 0.0
        if total_us:
            time_share = 1.0 - float(table["unmeasured_us"].sum()) / total_us
        ratio = 1.0
        if total_us:
            ratio = float(table["retimed_us"].sum()) / total_us
        names = ", ".join(name[:40] for name in first) + (", ..." if len(left) > len(first) else "")
        text = (
            f"passes measured {kernels} of {total} kernels, {100 * time_share:.0f} % of the time; "
            "the times of kernels "
            f"are {ratio:.3f} of those "
            f"recorded{f'; as recorded, not measured in passes: {names}' if first else ''}"
        )
        return remark(
            "durations-of-passes",
            text,
            kernels=kernels,
            of=total,
            time_share=time_share,
            ratio=ratio,
            unmeasured=len(left),
            first=first,
        )


def with_durations(trace: Annotated, durations: pd.DataFrame) -> Retimed:
    """Return a full trace whose kernels take as long as passes measured.

    ``durations`` has a row per execution of a kernel: `NEEDED`, in microseconds, occurrences
    counted from 1 for each name, and where stated `rank`, `device_number`, `workgroups`, `threads`,
    `source`; the places of `joining.merge_coverage` are such a table. Occurrences count from where
    a recording begins: let passes and trace begin at one place. Several rows of one occurrence
    count as their median. Passes that ran a kernel more often than the trace are several executions
    of it: of the whole trace, else of a step. The durations of one GPU are taken for every GPU of
    the trace. Or the table of `measuring.inline_times`: calls of an operator, shape and format then
    take the median of its modules, and their kernels keep their shares of it.

    Raises DataError: columns are missing or no durations; no kernel is common; the durations
    contradict the trace: another launch at a place, another number of GPUs, a number of executions
    that is not whole, or names that are not told apart.
    """
    wanted = places_of(trace.dispatches)
    if wanted.empty:
        raise DataError("the trace has no kernel whose duration could be replaced")
    if "name" not in durations and {"op", "duration_us"} <= set(durations):
        return _retimed(trace, wanted, _of_calls(trace, durations).reindex(wanted.index))
    given = _checked(durations)
    (wanted["spelt"], given["spelt"]), cut = common_spelling([wanted["name"], given["name"]])
    if cut:
        wanted["occurrence"] = wanted.groupby([*_GPU, "spelt"], sort=False).cumcount() + 1
        kinds = given.drop_duplicates(["spelt", "name"])
        double = kinds[kinds.duplicated("spelt", keep=False)]
        if len(double):
            one, other = double[double["spelt"] == double["spelt"].iloc[0]]["name"].iloc[:2]
            raise DataError(
                f"{one!r} and {other!r} are one name in the trace: give a trace with full kernel "
                "names"
            )
    given = given[given["spelt"].isin(wanted["spelt"])]
    if given.empty:
        raise DataError(
            "no kernel of the durations is in the trace: give passes of the program that it records"
        )
    # of several GPUs those of the passes are numbered as those of the trace
    keys = ["spelt"]
    gpus, others = (
        rows[_GPU].drop_duplicates().sort_values(_GPU, ignore_index=True)
        for rows in (given, wanted)
    )
    if len(gpus) > 1:
        if len(gpus) != len(others):
            raise DataError(
                f"durations of {len(gpus)} GPUs for a trace of {len(others)}: give those of one "
                "GPU, or of the same ones"
            )
        gpus[["rank_there", "device_there"]] = others[_GPU]
        placed = given.merge(gpus, on=_GPU, how="left")
        given = placed.assign(rank=placed["rank_there"], device_number=placed["device_there"])
        keys = [*_GPU, "spelt"]
    wanted["place"] = _folded(wanted, given, keys, trace.dispatches["step"])
    unit = wanted.groupby(keys, sort=False)["place"].max().rename("unit").reset_index()
    units = given[keys].merge(unit, on=keys, how="left")["unit"].to_numpy()
    given = given.assign(place=(given["occurrence"] - 1) % units + 1)
    by = given.groupby([*keys, "place"], sort=False)
    medians = by.agg(
        duration_us=("duration_us", "median"), **{name: (name, "first") for name in _LAUNCH}
    ).reset_index()
    matched = (
        wanted[[*keys, "place"]]
        .merge(medians, on=[*keys, "place"], how="left")
        .set_index(wanted.index)
    )
    launches = wanted.assign(run="the trace")
    others = launches.assign(
        run="the durations", source="passes", **{name: matched[name] for name in _LAUNCH}
    )
    check_launches(pd.concat([launches, others], ignore_index=True))
    return _retimed(trace, wanted, matched["duration_us"])


def _of_calls(trace: Annotated, inline: pd.DataFrame) -> pd.Series:
    """Return the duration, µs, of each activity whose call was timed in line, NaN elsewhere; indexed as the trace."""
    table = trace.dispatches
    calls = measurements(trace, "trace", each=True)
    code = pd.Series(call_codes(table), index=table.index)
    both = pd.concat(
        [
            calls.reindex(columns=[*SIGNATURE, "duration_us"]),
            inline.reindex(columns=[*SIGNATURE, "duration_us"]),
        ]
    )
    both = both.astype(dict.fromkeys(SIGNATURE[2:], float))
    kind = both.groupby(list(SIGNATURE), dropna=False, sort=False).ngroup().to_numpy()
    of_calls = kind[: len(calls)]
    timed = kind[len(calls) :]
    middle = inline["duration_us"].groupby(timed).median()
    recognised = ~calls["op"].isin(["", UNKNOWN, "collective"]).to_numpy()
    ratio = np.where(
        recognised, middle.reindex(of_calls).to_numpy() / calls["duration_us"].to_numpy(), np.nan
    )
    if not np.isfinite(ratio).any():
        raise DataError(
            "no call of the trace has an operator and shape that was timed in line: give the same "
            "workload"
        )
    return table["duration_ns"].clip(lower=0) / 1e3 * code.map(pd.Series(ratio))


def _retimed(trace: Annotated, wanted: pd.DataFrame, duration_us: pd.Series) -> Retimed:
    """Return a trace with durations (µs, NaN where there is none) of the kernels of `places_of`."""
    table = trace.dispatches
    given_ns = (1e3 * duration_us).round().reindex(table.index)
    duration_ns = given_ns.where(given_ns.notna(), table["duration_ns"]).astype(np.int64)
    graph = build(table, trace.calls)
    times = replay(graph, np.maximum(duration_ns.to_numpy(), 0)[graph.rows].astype(float))
    start_ns, calls = replayed(graph, times, table.index)
    measured = duration_us.notna()
    recorded = wanted["duration_us"].clip(lower=0)
    kernels = pd.DataFrame(
        {
            "name": wanted["name"],
            "launches": 1,
            "measured": measured.astype(np.int64),
            "recorded_us": recorded,
            "unmeasured_us": recorded.where(~measured, 0.0),
            "retimed_us": duration_us.where(measured, recorded),
        }
    )
    kernels = kernels.groupby("name", sort=False).sum().reset_index()
    return Retimed(
        replace(
            trace, dispatches=table.assign(start_ns=start_ns, duration_ns=duration_ns), calls=calls
        ),
        longest_first(kernels, "recorded_us"),
    )


def _checked(durations: pd.DataFrame) -> pd.DataFrame:
    """Return the durations with all columns of places."""
    lacking = [name for name in NEEDED if name not in durations]
    if lacking:
        raise DataError(
            f"durations need the columns {', '.join(NEEDED)}: {', '.join(lacking)} missing"
        )
    rows = durations.reindex(columns=[*NEEDED, *_GPU, *_LAUNCH, "source"]).reset_index(drop=True)
    for name in ("occurrence", "duration_us"):
        rows[name] = pd.to_numeric(rows[name], errors="coerce")
    valid = (
        rows["occurrence"].ge(1)
        & rows["occurrence"].mod(1).eq(0)
        & rows["duration_us"].between(0, np.inf, "left")
    )
    if rows.empty or not valid.all():
        if rows.empty:
            where = "they are empty"
        else:
            where = f"row {int(np.argmin(valid)) + 1} is not"
        raise DataError(f"durations must be numbers from 0 on, occurrences from 1 on: {where}")
    whole = {"occurrence": np.int64, "name": str, **dict.fromkeys(_LAUNCH, np.float64)}
    return rows.assign(
        rank=rows["rank"].fillna(-1), device_number=rows["device_number"].fillna(0)
    ).astype(whole)


def _folded(
    wanted: pd.DataFrame, given: pd.DataFrame, keys: list[str], steps: pd.Series
) -> pd.Series:
    """Return the place of each kernel within the execution of a pass: the whole trace, or one step.

    It is the number of the occurrence, unless the passes have a kernel more often than the trace,
    in whole steps but not in whole traces: then it is the number within the step.
    """
    most_given = given.groupby(keys, sort=False)["occurrence"].max().rename("given").reset_index()
    count = wanted.groupby([*_GPU, "spelt"], sort=False)["occurrence"].transform("max")
    given_count = (
        wanted[keys].merge(most_given, on=keys, how="left")["given"].set_axis(wanted.index)
    )
    kinds = [wanted[name] for name in (*_GPU, "spelt")]
    of_step = wanted.groupby([*kinds, steps.reindex(wanted.index)])["occurrence"].transform("size")
    per_step = of_step.where(of_step.groupby(kinds).transform("nunique", dropna=False) == 1).fillna(
        count
    )
    whole = given_count.isna() | (given_count <= count) | (given_count % count == 0)
    in_steps = ~whole & (given_count % per_step == 0)
    if (odd := ~whole & ~in_steps).any():
        row = wanted[odd].iloc[0]
        raise DataError(
            f"kernel {row['name']!r} runs {int(given_count[odd].iloc[0])} times in the durations, "
            f"{count[odd].iloc[0]} times "
            "in the trace: give passes of whole executions"
        )
    return (wanted["occurrence"] - 1) % per_step.where(in_steps, count) + 1
