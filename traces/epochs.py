"""A long run cut into epochs, each a row of the measurement table: phases to train on.

An epoch is a step of the profiler, a piece between two markers, or a fixed amount of work. As a row
it has the operator ``epoch``, named by what ran (else the rule) and its number, so that those of
two GPUs pair; its features are whatever was counted: what an epoch did is in columns
``counter.epoch.*``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from ..arrays import FloatArray, IntArray
from ..errors import ParameterError
from ..table.measurements import COUNTER
from ..table.problems import codes_of
from .activity_work import launch_product
from .dispatches import KERNEL, counters_of, empty_ranges
from .quality import busy_ns, span_ns
from .summary import UNCLASSIFIED

OUTSIDE = -1  # number of activities that belong to no epoch
EPOCH = f"{COUNTER}epoch."  # prefix of the columns that say what an epoch did
KNOWN = 0.9
"""Share of an epoch's time for which FLOPs (or bytes) must be stated: the sum would be far too small otherwise."""
_FORMS = "step, kernels:N, flops:X or marker:REGEX"


@dataclass(frozen=True)
class EpochRule:
    """The rule for cutting a run: `amount` is kernels or FLOPs of an epoch.

    `pattern` is searched in the names of the user's ranges, or of kernels and of the operators
    around them. `name` is what ran; epochs pair with those of the same name.
    """

    by: Literal["step", "kernels", "flops", "marker"]
    amount: float = 0.0
    pattern: str = ""
    name: str = ""

    def __str__(self) -> str:
        """Return the text of the rule."""
        texts = {"step": "step", "marker": f"marker:{self.pattern}"}
        return texts.get(self.by, f"{self.by}:{self.amount:g}")


def parse_rule(text: str, name: str = "") -> EpochRule:
    """Return the rule of ``step``, ``kernels:1000``, ``flops:1e12`` or ``marker:REGEX``.

    Raises ParameterError (``epochs``) where it is none of these.
    """
    by, _, value = text.partition(":")
    if text == "step":
        return EpochRule("step", name=name)
    if by == "marker" and value:
        try:
            re.compile(value)
        except re.error as error:
            raise ParameterError("epochs", f"{text}: no regular expression ({error})") from None
        return EpochRule("marker", pattern=value, name=name)
    try:
        amount = float(value)
    except ValueError:
        amount = np.nan
    if by == "kernels" and amount >= 1 and amount == int(amount):
        return EpochRule("kernels", amount, name=name)
    if by == "flops" and 0 < amount < np.inf:
        return EpochRule("flops", amount, name=name)
    raise ParameterError("epochs", f"must be {_FORMS}, got {text!r}: write e.g. kernels:1000")


def epoch_numbers(
    table: pd.DataFrame, rule: EpochRule, ranges: pd.DataFrame | None = None
) -> IntArray:
    """Return the epoch of each activity of a run.

    - step: the profiler's number of the step; activities outside of every step belong to none.
    - kernels, flops: from the first activity of each GPU on, a new epoch after so many kernels or
      FLOPs; an activity is never cut. The last epoch of each GPU, which has less work, belongs to
      none. Copies count with the kernels around them.
    - marker: where the name of one of the `ranges` matches the pattern, the range that an activity
      starts in (the last that began, where they overlap); else a new epoch at each activity whose
      name, or an operator around which, matches and the one before on the GPU does not. What comes
      before the first marker belongs to none.

    The dispatch table has `flops` where the rule counts them; `ranges` are those of
    `dispatches.Trace`. Numbers are int64 of shape (n_activities,), `OUTSIDE` for none; those of
    different GPUs may be equal. Raises ParameterError (``epochs``) where the run has no steps, no
    FLOPs are stated, or nothing matches.
    """
    if rule.by == "step":
        numbers = table["step"].fillna(OUTSIDE).to_numpy(dtype=np.int64)
        if len(numbers) and (numbers == OUTSIDE).all():
            raise ParameterError(
                "epochs", "step: no activity has a step: cut by kernels:N, flops:X or marker:REGEX"
            )
        return numbers
    if rule.by == "marker" and len(chosen := matching(ranges, rule)):
        return _in_ranges(table, chosen)
    numbers = np.full(len(table), OUTSIDE, dtype=np.int64)
    gpus = table.groupby(["rank", "gpu"], sort=False, dropna=False).indices
    cut = _by_work
    if rule.by == "marker":
        cut = _between_markers
    for rows in gpus.values():
        of_gpu: IntArray = np.asarray(rows)[
            np.argsort(table["start_ns"].to_numpy()[rows], kind="stable")
        ]
        numbers[of_gpu] = cut(table.iloc[of_gpu], rule)
    if rule.by == "marker" and (numbers == OUTSIDE).all():
        raise ParameterError(
            "epochs", f"{rule}: no range, no kernel and no operator has a name that it matches"
        )
    return numbers


def matching(ranges: pd.DataFrame | None, rule: EpochRule) -> pd.DataFrame:
    """Return the ranges matched by the pattern of a rule by markers, in the order of their start."""
    if ranges is None or rule.by != "marker":
        return empty_ranges()
    expression = re.compile(rule.pattern)
    names = ranges["name"].astype(str)
    hit = names.map({name: expression.search(name) is not None for name in names.unique()})
    return ranges[hit.to_numpy(dtype=bool)].sort_values(
        "start_ns", kind="stable", ignore_index=True
    )


def epochs(
    table: pd.DataFrame, rule: EpochRule, campaign: str = "", *, ranges: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return one raw row of the measurement table for each epoch of each GPU of a run (an annotated dispatch table).

    Columns are `device`, `op` ("epoch"), `variant` (what ran, else the rule), `index` (the epoch's
    number), `workgroups` (launched in it) and `threads` (of a workgroup, on average, rounded);
    `duration_us`, first start to last end, `busy_us`, time with an activity; `kernels`; `flops` and
    `bytes`, NaN where they are known for less than `KNOWN` of the activities' time (`flops_known`,
    `bytes_known`: for how much); `repeats` 1; hardware counters summed; what the epoch did as
    ``counter.epoch.kernels``, ``counter.epoch.gflops``, ``counter.epoch.mbytes`` and
    ``counter.epoch.share.CLASS``, the class's share of the activities' time; `dominant`, the class
    with the largest, `dominant_share`; `campaign`, what to call the run, and `source`, of the first
    activity.

    Raises ParameterError as `epoch_numbers` does, and where no epoch is whole.
    """
    numbers = epoch_numbers(table, rule, ranges)
    inside = table[numbers != OUTSIDE]
    if inside.empty:
        raise ParameterError("epochs", f"{rule}: the run has less than one epoch")
    epoch = numbers[numbers != OUTSIDE]
    code = codes_of([inside["rank"], inside["gpu"], pd.Series(epoch)])
    parts = [inside.iloc[np.flatnonzero(code == number)] for number in range(int(code.max()) + 1)]
    rows = pd.concat([_work(parts), _shares(parts)], axis=1)
    counters = counters_of(table)
    sums = inside[counters].groupby(code).sum(min_count=1).reset_index(drop=True)
    places = np.unique(code, return_index=True)[1]
    first = inside.iloc[places]
    named = rows.assign(
        device=first["device"].astype(str).to_numpy(),
        op="epoch",
        variant=rule.name or str(rule),
        index=epoch[places].astype(float),
        campaign=campaign,
        source=first["source"].astype(str).to_numpy(),
        repeats=1.0,
    )
    return pd.concat([named, sums], axis=1)


def _in_ranges(table: pd.DataFrame, ranges: pd.DataFrame) -> IntArray:
    """Return the number of the last range that had begun, and was not over, at the start of each activity."""
    at_ns = table["start_ns"].to_numpy(dtype=np.int64)
    order = np.argsort(at_ns, kind="stable")
    starts = ranges["start_ns"].to_numpy(dtype=np.int64)
    first, end = (
        np.searchsorted(at_ns[order], edge)
        for edge in (starts, starts + ranges["duration_ns"].to_numpy())
    )
    numbers = np.full(len(table), OUTSIDE, dtype=np.int64)
    for number, (low, high) in enumerate(zip(first.tolist(), end.tolist(), strict=True)):
        numbers[order[low:high]] = number
    return numbers


def _between_markers(part: pd.DataFrame, rule: EpochRule) -> IntArray:
    expression = re.compile(rule.pattern)
    keys = part["name"].astype(str) + "\n" + part["op_stack"].astype(str)
    codes, levels = pd.factorize(keys)
    hit = np.array([expression.search(level) is not None for level in levels], dtype=bool)[codes]
    begins = hit & ~np.r_[False, hit[:-1]]
    return np.cumsum(begins) - 1


def _by_work(part: pd.DataFrame, rule: EpochRule) -> IntArray:
    if rule.by == "kernels":
        work = (part["kind"].astype(str) == KERNEL).to_numpy(dtype=np.float64)
    else:
        work = np.nan_to_num(part["flops"].to_numpy(dtype=np.float64))
        if not work.any():
            raise ParameterError(
                "epochs", "flops: no kernel of known FLOPs: cut by kernels:N or marker:REGEX"
            )
    done: FloatArray = np.cumsum(work) - work
    piece = np.floor(done / rule.amount)
    number = codes_of([pd.Series(piece)])  # a kernel larger than an epoch leaves no number out
    whole = work.sum() >= (piece[-1] + 1) * rule.amount
    return np.where((number == number[-1]) & (not whole), OUTSIDE, number)


def _work(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    rows = []
    for part in parts:
        groups, threads = (launch_product(part, stem) for stem in ("grid", "block"))
        launched = float(np.nansum(groups)) or np.nan
        (flops, flops_known), (moved, bytes_known) = (
            _sum(part, name) for name in ("flops", "bytes_moved")
        )
        kernels = int((part["kind"].astype(str) == KERNEL).sum())
        rows.append(
            {
                "workgroups": launched,
                "threads": float(np.rint(np.nansum(groups * threads) / launched)),
                "duration_us": span_ns(part) / 1e3,
                "busy_us": busy_ns(part) / 1e3,
                "kernels": kernels,
                "flops": flops,
                "bytes": moved,
                "flops_known": flops_known,
                "bytes_known": bytes_known,
                f"{EPOCH}kernels": float(kernels),
                f"{EPOCH}gflops": flops / 1e9,
                f"{EPOCH}mbytes": moved / 1e6,
            }
        )
    return pd.DataFrame(rows)


def _sum(part: pd.DataFrame, name: str) -> tuple[float, float]:
    """Return the sum of a column, NaN if too little of it is stated, and the stated share of the time."""
    has_value = part[name].notna().to_numpy()
    time = part["duration_ns"].clip(lower=0).to_numpy(dtype=np.float64)
    share = 0.0
    if time.sum() > 0:
        share = float(time[has_value].sum() / time.sum())
    whole = np.nan
    if share >= KNOWN:
        whole = float(part[name].sum())
    return whole, share


def _shares(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the share of each class in the time of each epoch's activities, and the largest."""
    times = []
    for part in parts:
        words = part["op_class"].astype(str).replace("", UNCLASSIFIED)
        time = part["duration_ns"].clip(lower=0).groupby(words).sum()
        times.append(time / max(float(time.sum()), 1.0))
    table = pd.DataFrame(times).fillna(0.0).reset_index(drop=True)
    table = table.reindex(columns=sorted(map(str, table.columns)))
    shares = {"dominant": table.idxmax(axis=1), "dominant_share": table.max(axis=1)}
    return pd.concat([table.add_prefix(f"{EPOCH}share."), pd.DataFrame(shares)], axis=1)
