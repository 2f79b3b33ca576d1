"""Hardware counters: channels of one counter summarised, values of several replay passes brought together.

A counter of a banked unit is written once for every bank, ``TCC_HIT[0]`` ... ``TCC_HIT[127]`` (the
L2 of an MI300X: 19 counters, 2 432 columns). Three numbers keep what matters: their sum, their
maximum, and how uneven they are.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from .. import hardware
from ..arrays import FloatArray

_CHANNEL = re.compile(r"^(.+)\[(\d{1,6})\]$")
_TIME = re.compile(
    r"GRBM_COUNT|CYCLE|BUSY|ACTIVE|STALL|WAIT|LEVEL|ACCUM|ELAPSED|DURATION|LATENCY|CLOCK|PER_SECOND|(?:^|_)TIME(?:_|$)|_[num]?s$",
    re.IGNORECASE,
)
"""Words of counters that go up with the clock (cycles, units busy or stalled, queue levels over time) and rates."""


@dataclass(frozen=True)
class Merged:
    """Counters of one set of dispatches, from several passes: the first recorded value of each dispatch, in `columns`.

    Of counters that more than one pass recorded: `spread` is the largest difference between passes
    over the dispatches, relative to the larger value (0 where all agree); `mean` (NaN where no pass
    has a value) and unbiased `variance` (NaN where fewer than two have), of shape (n_dispatches,),
    are over the passes that have a value for the dispatch.
    """

    columns: dict[str, FloatArray]
    spread: dict[str, float]
    mean: dict[str, FloatArray]
    variance: dict[str, FloatArray]


def channel_of(name: str) -> tuple[str, int] | None:
    """Return the counter and the number of the channel ("TCC_HIT[3]" -> ("TCC_HIT", 3)); None if it is no channel."""
    match = _CHANNEL.match(name)
    if match:
        return (match[1], int(match[2]))
    return None


def channels_of(names: Iterable[str]) -> dict[str, list[int]]:
    """Return the channels of every per-channel counter, in the order given."""
    channels: dict[str, list[int]] = {}
    for name in names:
        channel = channel_of(name)
        if channel:
            channels.setdefault(channel[0], []).append(channel[1])
    return channels


def counts_time(name: str) -> bool:
    """Return whether a counter counts clock ticks rather than events: the run's time in other units.

    Where it is collected in the run whose time is predicted, it holds what nobody can know before
    the run.

    >>> counts_time("GRBM_GUI_ACTIVE"), counts_time("sm__cycles_elapsed.max"), counts_time("SQ_INSTS_VALU")
    (True, True, False)
    """
    return _TIME.search(name) is not None


OTHER = "other"  # block of counters whose name begins with no block
_BLOCK = {"SQC": "SQ"}
_SUMMARY = re.compile(r"\[\d+\]$|\.(sum|max|imbalance)$|_(sum|avr|max|min)$")


@cache
def per_pass() -> Mapping[str, int]:
    """Return how many counters of each hardware block one pass of the profiler counts (``counter_blocks.toml``)."""
    text = (resources.files(hardware) / "counter_blocks.toml").read_text(encoding="utf-8")
    return {str(block): int(limit) for block, limit in tomllib.loads(text).items()}


def recorded_as(name: str) -> str:
    """Return the counter to request from a profiler for a value: that of all channels for a channel, or a sum.

    >>> recorded_as("TCC_HIT.imbalance"), recorded_as("TCC_HIT[3]"), recorded_as("SQ_WAVES")
    ('TCC_HIT', 'TCC_HIT', 'SQ_WAVES')
    """
    return _SUMMARY.sub("", name)


def block_of(name: str) -> str:
    """Return the hardware block of a counter, `OTHER` without one in its name.

    >>> block_of("SQC_TC_REQ"), block_of("TCP_TCC_READ_REQ_sum"), block_of("loss")
    ('SQ', 'TCP', 'other')
    """
    first = name.partition("_")[0]
    block = _BLOCK.get(first, first)
    if block in per_pass():
        return block
    return OTHER


def summarise(
    values: Mapping[str, FloatArray], *, keep_channels: bool = False
) -> dict[str, FloatArray]:
    """Return the counters with the channels of each in three: NAME.sum, NAME.max, NAME.imbalance.

    Values are of shape (n_dispatches,). Channels that are not recorded (NaN) count for nothing;
    where none is recorded the three are NaN. For `imbalance` see there. With `keep_channels` every
    channel stays as it is.
    """
    if keep_channels:
        return dict(values)
    groups: dict[str, list[str]] = {}
    for name in values:
        channel = channel_of(name)
        groups.setdefault(channel[0] + "[]" if channel else name, []).append(name)
    summary: dict[str, FloatArray] = {}
    for key, names in groups.items():
        if channel_of(names[0]) is None:
            summary[key] = values[key]
        else:
            summary.update(_three(key[:-2], np.stack([values[name] for name in names])))
    return summary


def imbalance(channels: FloatArray) -> FloatArray:
    """Return the maximum over the mean of the channels, of shape (n_channels, n_dispatches), of each dispatch.

    1 where all channels are equal, all zero included; `n_channels` where one has everything; NaN
    where none is recorded.
    """
    recorded = ~np.isnan(channels)
    count = recorded.sum(axis=0)
    total = np.where(recorded, channels, 0.0).sum(axis=0)
    largest = np.where(recorded, channels, -np.inf).max(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = largest * count / total
    even = (largest == 0.0) & (total == 0.0)
    return np.where(count == 0, np.nan, np.where(even, 1.0, ratio))


def merge_passes(columns: Iterable[tuple[str, FloatArray]]) -> Merged:
    """Return one column for each counter, and the differences between the passes that counted it, dispatch by dispatch.

    Counters come pass by pass, NaN where a pass has not recorded a dispatch; names may recur.
    """
    passes: dict[str, list[FloatArray]] = {}
    for name, values in columns:
        passes.setdefault(name, []).append(values)
    several = {name: np.stack(stacks) for name, stacks in passes.items() if len(stacks) > 1}
    moments = {name: _moments(values) for name, values in several.items()}
    return Merged(
        columns={name: _first(stacks) for name, stacks in passes.items()},
        spread={name: _spread(values) for name, values in several.items()},
        mean={name: mean for name, (mean, _) in moments.items()},
        variance={name: variance for name, (_, variance) in moments.items()},
    )


def _three(name: str, channels: FloatArray) -> dict[str, FloatArray]:
    recorded = ~np.isnan(channels)
    none = ~recorded.any(axis=0)
    total = np.where(recorded, channels, 0.0).sum(axis=0)
    largest = np.where(recorded, channels, -np.inf).max(axis=0)
    return {
        f"{name}.sum": np.where(none, np.nan, total),
        f"{name}.max": np.where(none, np.nan, largest),
        f"{name}.imbalance": imbalance(channels),
    }


def _first(series: Sequence[FloatArray]) -> FloatArray:
    values = series[0]
    for later in series[1:]:
        values = np.where(np.isnan(values), later, values)
    return values


def _moments(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and unbiased variance over the passes, for values of shape (n_passes, n_dispatches)."""
    recorded = ~np.isnan(values)
    count = recorded.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        sums = np.where(recorded, values, 0.0).sum(axis=0)
        mean = sums / np.where(count > 0, count, np.nan)
        off = np.where(recorded, values - mean, 0.0)
        squares = (off**2).sum(axis=0)
        variance = squares / np.where(count > 1, count - 1, np.nan)
    return mean, variance


def _spread(values: FloatArray) -> float:
    """Return the largest relative difference between passes over the dispatches that at least two have recorded."""
    several = (~np.isnan(values)).sum(axis=0) > 1
    if not several.any():
        return 0.0
    values = values[:, several]
    low = np.nanmin(values, axis=0)
    high = np.nanmax(values, axis=0)
    scale = np.maximum(np.abs(low), np.abs(high))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(low == high, 0.0, (high - low) / scale)
    return float(np.nanmax(relative, initial=0.0))
