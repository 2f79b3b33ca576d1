"""Rows held against what their device can do: times that no kernel can take, and times in another unit than stated.

The least time of a row (`bound_of`) is that of its work at the peaks of its device. Those are of
`hardware`, dense; a row that says it is sparse has twice the arithmetic (2:4 sparsity of AMD and
NVIDIA), and fp32 products may have run as TF32, as PyTorch lets convolutions do. Bytes count
against the memory only beyond the caches: what fits there may lie there from the call before. What
the last-level cache holds counts against its bandwidth, beyond the L2; and every byte enters a
compute unit, at most `BYTES_PER_CLOCK` a clock. What a collective sends counts against the links to
its peers.

A row above a peak of its device is a finding from `FINDING` on and refused from `REFUSED_FROM` on:
clocks run somewhat above the published ones, caches keep more than was thought. Powers are left out
above `REFUSED_FROM` times the board power. A file all of whose times, or all those of one device,
lie far off by the same power of a thousand is in another unit; so are rows that lie a thousand
times off all others of their operator.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd

from ..errors import ParameterError
from ..hardware import GPU, all_gpus
from ..hardware.constants import constant
from ..hardware.spec import FIGURES, PEAKS, UNITS
from ..operators.kinds.serving_run import requests_under_way
from ..operators.operators import Op, each_op
from ..operators.work import as_numbers

BYTES_PER_CLOCK = 128
"""What the first-level cache of a compute unit delivers in a clock, at most: CDNA 3 white paper
(AMD, 2023) and H100 white paper (NVIDIA, 2022), 128 bytes; others 64 or 128."""
LOADS = "loads"  # the limit of the compute units together, in place of the key of a figure
_MIB = 2.0**20
_SPARSE = re.compile(r"sparse|(?<!\d)2:4(?!\d)", re.IGNORECASE)
_SPARSE_WORDS = ("variant", "family", "kernel")


@dataclass(frozen=True)
class Bound:
    """The least time of every row on its device, microseconds, and the peak behind it (key of a figure, or `LOADS`).

    Both of shape (n_rows,); NaN and "" where the device is none of the catalogue, or the work is
    unknown.
    """

    least_us: np.ndarray
    peak: np.ndarray


def bound_of(frame: pd.DataFrame, user_gpu: GPU | None = None) -> Bound:
    """Return the least time of complete rows of any operators on the devices that they name.

    ``user_gpu`` is one that the catalogue does not have, or has otherwise.
    """
    least = np.full(len(frame), np.nan)
    peak = np.full(len(frame), "", dtype=object)
    gpus = {gpu.name: gpu for gpu in all_gpus()}
    if user_gpu is not None:
        gpus[user_gpu.name] = user_gpu
    devices, names = pd.factorize(frame["device"])
    sparse = _sparse(frame)
    for op, rows in each_op(frame):
        if len(rows) < len(frame):
            part = frame[[name for name in op.identity if name in frame]].iloc[rows]
        else:
            part = frame
        flops, moved = op.least(part)
        sent = op.sent(part)
        dtypes, formats = pd.factorize(op.compute_dtype(part))
        kinds, pairs = pd.factorize(devices[rows] * max(len(formats), 1) + dtypes)
        for kind, pair in enumerate(pairs):
            gpu = gpus.get(str(names[int(pair) // len(formats)]))
            if gpu is None:
                continue
            of_kind = kinds == kind
            dtype = str(formats[pair % len(formats)])
            limits = [*_times(gpu, op, dtype, flops[of_kind], moved[of_kind])]
            if sent is not None and gpu.link_bw_gbs:
                limits.append(("link_bw_gbs", _link_times(gpu, sent[0][of_kind], sent[1][of_kind])))
            for key, times in limits:
                at = rows[of_kind]
                if key in gpu.peaks:
                    needed = np.where(sparse[at], times / 2, times)
                else:
                    needed = times
                longer = ~(needed <= least[at]) & ~np.isnan(needed)
                least[at[longer]] = needed[longer]
                peak[at[longer]] = key
    return Bound(least, peak)


def _times(
    gpu: GPU, op: Op, dtype: str, flops: np.ndarray, moved: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield every limit of a device by its key, and the microseconds of the work at it."""
    if dtype == "fp32":
        formats = (dtype, "tf32")
    else:
        formats = (dtype,)
    units = UNITS
    if op.unit == "vector":
        units = ("vector",)
    keys = [f"{name}_{unit}" for name, unit in product(formats, units)]
    peaks = [key for key in keys if key in gpu.peaks]
    if peaks:
        key = max(peaks, key=lambda name: gpu.peaks[name])
        yield key, flops / (gpu.peaks[key] * 1e6)
    l2, llc = ((size or 0.0) * _MIB for size in (gpu.l2_mb, gpu.llc_mb))
    if gpu.memory_bw_gbs:
        yield "memory_bw_gbs", np.maximum(moved - l2 - llc, 0) / (gpu.memory_bw_gbs * 1e3)
    if gpu.llc_bw_gbs:
        yield "llc_bw_gbs", np.maximum(moved - l2, 0) / (gpu.llc_bw_gbs * 1e3)
    if gpu.cus and gpu.boost_mhz:
        yield LOADS, moved / (BYTES_PER_CLOCK * gpu.cus * gpu.boost_mhz)


def _link_times(gpu: GPU, sent: np.ndarray, peers: np.ndarray) -> np.ndarray:
    """Return the microseconds on the links: those to every peer, at most all; NaN where they do not join it."""
    every = gpu.require("link_bw_gbs")
    joined = np.where((peers > 1) & gpu.joins_two, np.nan, peers)
    return sent / (np.minimum(every, joined * (gpu.p2p_uni_gbs or every)) * 1e3)


def _sparse(frame: pd.DataFrame) -> np.ndarray:
    said = np.zeros(len(frame), dtype=bool)
    for name in _SPARSE_WORDS:
        if name in frame:
            codes, words = pd.factorize(frame[name], use_na_sentinel=False)
            said |= np.array([_SPARSE.search(str(word)) is not None for word in words], dtype=bool)[
                codes
            ]
    return said


KEEP = "impossible"  # what to ask for to keep rows that this module refuses
# no kernel takes an hour, none less than some twenty steps of its GPU's clock
LONGEST_US = 3600e6
SHORTEST_US = 0.01
# shares of a peak
FINDING = 1.0
REFUSED_FROM = 1.5
POWERS = {"power_w": "impossible-power", "energy_j": "impossible-energy"}
"""What is measured beside the time and must be above zero and finite -> the code of a value that is not."""
AGREES = 2.0
"""Power is sampled over more than a kernel, a duration is a mean of several: further apart two
measures of one row, and what follows from them, are not of the same thing or not in the units that
they state."""
_LAUNCH_US = constant("launch.before_work").value  # added to the least time
# times the least time and a launch that the rows of a file take in the middle (measured: 2 to 104)
_USUAL = (
    0.3,
    1000.0,
)
_MIDDLE = 15.0  # of what is usual, on a scale of factors
_FACTORS = (1e3, 1e6, 1e9)
_APART = (300.0, 3400.0)
_EMPTY = 30.0
"""Factor between the middles of two clusters of times that differ in their unit (1,000 or 1,024,
and how unlike their work is), and the least one between the clusters, in which no row lies. Of
measured tables none has such two."""
_NEARLY_ALL = 0.98
_LEAST_ROWS = 3
SLIPPED = "other-unit-than-others"  # code of a row a thousand times off the others of its operator
STRAY = "stray-time"
"""The same of one or two rows, which are no cluster: whatever the factor, they are as far off all others."""


_OFF = 30.0
_NEAR = 4.0
"""Requests at once by Little's law and as stated: so far off, a unit is wrong; so near, another unit is right."""
_MORE_TOKENS = 1.25
"""Times the throughput by its times that a run may state: of 1,145 public runs 0.80 to 1.23."""
_TOKEN_TIMES = (("tpot_ms", "ttft_ms"), ("tpot_ms",))
_TOKEN_UNITS = {"s": 1e3, "us": 1e-3, "ns": 1e-6}  # to milliseconds


def peak_name(key: str) -> str:
    """Return the name of a peak (`Bound.peak`)."""
    figure = PEAKS.get(key) or FIGURES.get(key)
    if figure:
        return figure.label
    return "load rate of the compute units"


def check_keep(keep: Collection[str]) -> None:
    """Refuse reasons that are never kept out: a ParameterError names ``keep``."""
    if isinstance(keep, str):
        unknown = [keep]
    else:
        unknown = [word for word in keep if word != KEEP]
    if unknown:
        raise ParameterError("keep", f"must be a list of {KEEP!r} alone, got {unknown[0]!r}")


@dataclass(frozen=True)
class Held:
    """The verdict on every row, arrays of shape (n_rows,).

    `share` of the peak named `peak` that its time would take, NaN where it is unknown, and the
    time at that peak; `reason` and `detail` of the rows to refuse, "" for the others. `slipped` is
    how many times too long the rows are that lie a thousand times off the others of their operator,
    else 1. `units` has the number of each file in another unit, with the device whose times are (""
    where all are), and what these times are to be multiplied by.
    """

    share: np.ndarray
    peak: np.ndarray
    least_us: np.ndarray
    reason: np.ndarray
    detail: np.ndarray
    slipped: np.ndarray
    units: Mapping[tuple[int, str], float]


def hold(
    frame: pd.DataFrame,
    files: np.ndarray,
    keep: Collection[str] = (),
    units: Mapping[tuple[int, str], float] | None = None,
) -> Held:
    """Check clean, complete rows of the measurement table against their devices.

    ``files`` (n_rows,) is the number of the file of each; with `KEEP` in ``keep`` nothing is
    refused; ``units`` are as in `Held`, by default those of these rows (`other_units`).
    """
    duration = frame["duration_us"].to_numpy(dtype=float)
    bound = bound_of(frame)
    share = bound.least_us / duration
    reason = np.full(len(frame), "", dtype=object)
    detail = np.full(len(frame), "", dtype=object)
    slipped = np.ones(len(frame))
    devices = frame["device"].to_numpy()
    if units is None:
        units = _other_units(duration, bound.least_us, files, devices)
    if KEEP not in keep:
        impossible = (duration > LONGEST_US) | (duration < SHORTEST_US)
        above = share > REFUSED_FROM
        other = np.zeros(len(frame), dtype=bool)
        for (file, device), factor in units.items():
            if factor > 1:
                other |= (files == file) & ((devices == device) | (device == ""))
        slipped, stray = _slipped(
            np.where(other, np.nan, duration), bound.least_us, frame["op"].to_numpy()
        )
        odd = slipped != 1
        refused = (
            (above, "above-peak"),
            (impossible, "impossible-duration"),
            (other, "other-unit"),
            (odd, SLIPPED),
            (stray, STRAY),
        )
        for rows, code in refused:
            reason[rows] = code
        beyond = np.flatnonzero((above | other) & ~np.isnan(share))
        detail[beyond] = [
            f"{100 * share[row]:.0f} % of {bound.peak[row]} of {devices[row]}" for row in beyond
        ]
        detail[odd | stray] = [f"{time:.4g} µs" for time in duration[odd | stray]]
        detail[impossible] = [f"{time:.3g} µs" for time in duration[impossible]]
    return Held(share, bound.peak, bound.least_us, reason, detail, slipped, units)


def _slipped(
    duration: np.ndarray, least_us: np.ndarray, ops: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the factor by which rows in a separate cluster are too long, a thousand times off the others.

    Times are compared as what they are of the least time of their work and a launch; of two
    clusters that one is in another unit which is less usual. Arrays of shape (n_rows,), NaN where a
    time is unknown; 1 for all other rows. And which of them are strays: one or two, as far off
    all others.
    """
    factors = np.ones(len(duration))
    stray = np.zeros(len(duration), dtype=bool)
    with np.errstate(divide="ignore", invalid="ignore"):
        usual = np.log(duration / (least_us + _LAUNCH_US) / _MIDDLE)
    usable = np.flatnonzero(np.isfinite(usual))
    codes, names = pd.factorize(ops[usable])
    for code in range(len(names)):
        rows = usable[codes == code]
        rows = rows[np.argsort(usual[rows], kind="stable")]
        if len(rows) < 2 * _LEAST_ROWS:
            continue
        gaps = np.diff(usual[rows])
        few = _LEAST_ROWS - 1
        wide = np.log(_APART[0])
        low = np.flatnonzero(gaps[:few] > wide)
        high = np.flatnonzero(gaps[-few:] > wide)
        below = low.max(initial=-1) + 1
        above = 0
        if len(high):
            above = few - high.min()
        rows = rows[below : len(rows) - above]
        stray[usable[codes == code]] = ~np.isin(usable[codes == code], rows)
        gaps = np.diff(usual[rows])
        cut = int(np.argmax(gaps)) + 1
        sides = rows[:cut], rows[cut:]
        middles = [float(np.median(usual[side])) for side in sides]
        factor = np.exp(middles[1] - middles[0])
        if (
            gaps[cut - 1] < np.log(_EMPTY)
            or not _APART[0] <= factor <= _APART[1]
            or min(map(len, sides)) < _LEAST_ROWS
        ):
            continue
        long = abs(middles[1]) > abs(middles[0])
        if long:
            factors[sides[1] if long else sides[0]] = factor
        else:
            factors[sides[1] if long else sides[0]] = 1 / factor
    return factors, stray


def _other_units(
    duration: np.ndarray, least_us: np.ndarray, files: np.ndarray, devices: np.ndarray
) -> dict[tuple[int, str], float]:
    """Return `other_units` of the files, and of devices within the other files."""
    codes, names = pd.factorize(devices)
    factors = {(file, ""): factor for file, factor in other_units(duration, least_us, files)}
    for code, factor in other_units(duration, least_us, files * len(names) + codes):
        file, device = divmod(code, len(names))
        if (file, "") not in factors:
            factors[file, str(names[device])] = factor
    return factors


def other_units(
    duration: np.ndarray, least_us: np.ndarray, files: np.ndarray
) -> Iterator[tuple[int, float]]:
    """Yield each file whose times are impossible or absurd as they stand but usual times a power of a thousand.

    From the times of all rows, the least they can take (NaN where that is unknown), and their
    files, all (n_rows,).
    """
    has_bound = ~np.isnan(least_us)
    least = least_us[has_bound]
    usual = pd.Series(duration[has_bound] / (least + _LAUNCH_US))
    if usual.between(*_USUAL).all():
        return
    by_file = usual.groupby(files[has_bound])
    middle = by_file.median()[by_file.size() >= _LEAST_ROWS]
    for file in middle.index[(middle < _USUAL[0]) | (middle > _USUAL[1])]:
        in_file = files[has_bound] == file
        share = least[in_file] / duration[has_bound][in_file]
        fast = middle[file] < _USUAL[0]
        if fast and not (share > FINDING).any():
            continue
        for factor in _FACTORS:
            scale = factor
            if not fast:
                scale = 1 / factor
            possible = np.mean(share <= FINDING * scale) >= _NEARLY_ALL
            if possible and _USUAL[0] <= middle[file] * scale <= _USUAL[1]:
                yield int(file), scale
                break


def token_units(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Return the time columns of serving runs in another unit than milliseconds, and that unit.

    Requests at once follow from throughput and times (`requests_under_way`); where these are not
    those stated, and would be with another unit, that is the unit. Arrays of shape (n_rows,): names
    joined by a blank; "" elsewhere.
    """
    stated = as_numbers(frame, "concurrency")
    columns = np.full(len(frame), "", dtype=object)
    units = np.full(len(frame), "", dtype=object)
    with np.errstate(all="ignore"):
        off = np.abs(np.log(requests_under_way(frame) / stated))
        nearest = np.where(off > np.log(_OFF), np.log(_NEAR), 0.0)
        for names in _TOKEN_TIMES:
            for unit, factor in _TOKEN_UNITS.items():
                scaled = frame.assign(**{name: factor * as_numbers(frame, name) for name in names})
                far = np.abs(np.log(requests_under_way(scaled) / stated))
                nearer = far < nearest
                nearest = np.where(nearer, far, nearest)
                columns[nearer] = " ".join(names)
                units[nearer] = unit
    return columns, units


def throughputs_off(frame: pd.DataFrame) -> np.ndarray:
    """Return how many times the throughput by its times and requests under way each run of serving states, (n_rows,).

    NaN where both agree or one is missing (`requests_under_way`). Where a benchmark ends, fewer
    requests are under way than were allowed: less than the times say is usual, more is not.
    """
    with np.errstate(all="ignore"):
        off = requests_under_way(frame) / as_numbers(frame, "concurrency")
    agree = (off >= 1 / AGREES) & (off <= _MORE_TOKENS)
    return np.where(agree, np.nan, off)


def measured_beside(
    frame: pd.DataFrame, keep: Collection[str] = ()
) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield of every measure beside the time its column, the code of an impossible value, and the rows with one."""
    for column, code in POWERS.items():
        if column in frame:
            values = pd.to_numeric(frame[column], errors="coerce").to_numpy(dtype=float)
            wrong = ~np.isnan(values) & ~(np.isfinite(values) & (values > 0))
            if wrong.any():
                yield column, code, wrong
            if column == "power_w" and KEEP not in keep:
                codes, names = pd.factorize(frame["device"])
                tdp_w = {gpu.name: gpu.tdp_w for gpu in all_gpus()}
                board_w = np.array([*(tdp_w.get(str(name)) for name in names), None], dtype=float)[
                    codes
                ]
                above = (values > REFUSED_FROM * board_w) & ~wrong
                if above.any():
                    yield column, "above-board-power", above


def contradictions(frame: pd.DataFrame) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield of each measure that contradicts others of its row a code, the contradiction, and the factor.

    Arrays of shape (n_rows,), NaN where both agree within `AGREES` or one is missing. Timestamps
    are in ns.
    """
    no = pd.Series(np.nan, frame.index)
    energy, power, start, end = (
        pd.to_numeric(frame.get(name, no), errors="coerce").to_numpy(dtype=float)
        for name in ("energy_j", "power_w", "Start_Timestamp", "End_Timestamp")
    )
    duration = frame["duration_us"].to_numpy(dtype=float)
    with np.errstate(all="ignore"):
        for code, what, stated, others in (
            (
                "energy-contradicts-power",
                "energy is not power times time",
                energy,
                power * duration * 1e-6,
            ),
            (
                "duration-mismatch",
                "durations are not End_Timestamp - Start_Timestamp",
                duration * 1e3,
                end - start,
            ),
        ):
            off = np.where((stated > 0) & (others > 0), stated / others, np.nan)
            off[(off >= 1 / AGREES) & (off <= AGREES)] = np.nan
            if not np.isnan(off).all():
                yield code, what, off
