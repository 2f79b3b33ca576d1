"""Rows of the measurement table that are the same problem: numbered, repeats merged, the fastest kernel chosen, paired.

`problem_ids` says which rows are the same problem; `pair` brings together what the host and the
target measured on it, and counts rows without partner; `pair_each` does so for many targets at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np
import pandas as pd

from ..errors import DataError, few
from ..hardware import Comparison
from ..laws.rates import HOST_DEVICE
from ..operators.operators import CACHE, COLD, DIMENSIONS, RUN, complete, each_op, op_of
from ..operators.work import as_arrow, as_numbers
from ..remarks import Remark, remark
from .measurements import (
    COUNTER,
    DTYPE_COLUMNS,
    OWN,
    TEXT_COLUMNS,
    TEXT_DIMENSIONS,
    as_text,
    fill_text,
)


def codes_of(keys: Iterable[Any]) -> np.ndarray:
    """Return a code for each distinct combination of values, in order of appearance; missing values are equal.

    At least one column of shape (n_rows,); int64 of that shape leaves. Once no two rows are alike,
    no more are read.

    >>> codes_of([["a", "b", "a"], [1, 1, 2]]).tolist()
    [0, 1, 2]
    """
    numbers: np.ndarray | None = None
    for key in keys:
        if isinstance(key, pd.Series) and key.dtype == "str":
            words = as_arrow(key).dictionary_encode(null_encoding="encode")
            codes = words.indices.to_numpy()
            levels = words.dictionary
        else:
            if isinstance(key, list):
                plain = np.asarray(key, dtype=object)
            else:
                plain = key
            codes, levels = pd.factorize(plain, use_na_sentinel=False)
        if numbers is None:
            numbers = codes.astype(np.int64)
        elif len(levels) > 1:
            numbers = pd.factorize(numbers * len(levels) + codes)[0].astype(np.int64)
        if numbers.max(initial=-1) + 1 == len(numbers):
            break
    assert numbers is not None
    return numbers


MEASURED_UNITS = (
    "_us",
    "_j",
    "_mhz",
    "power_w",
    "temperature_c",
    "ttft_ms",
    "tpot_ms",
    "tokens_per_s",
)
"""How names of measured quantities end; other numbers (``pad_w``, ``split_k``) describe the problem or the kernel."""


def merge_duplicates(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the repeats of one kernel on one problem and device as one row, in order of appearance.

    Rows are repeats when they agree in device, problem (operator, family, variant and the
    operator's identity) and kernel. The kernel does not count where it was found by a search
    (`tuned`): two campaigns time the same problem, whichever kernel each of them chose.

    `duration_us`, and every other measured quantity (see `is_measured`), is the median of the
    repeats, `spread_us` the median absolute deviation of their times (a row without repeats keeps
    its own), `repeats` their sum; `campaign` names all campaigns; `source` the fastest row and how
    many more. Everything else, the kernel too, is that of the fastest row.
    """
    frame = frame.reset_index(drop=True)
    return merged_by(frame, problem_ids(frame, kernel=True))


_FIRST: Final = ("device", "campaign", "op", "n", "k")  # columns that rows are ordered by first
# columns that say where a row stood, which is no content
_OF_PLACE: Final = (
    "source",
    "file_line",
)


def by_content(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows ordered by content, so that random draws do not depend on the order of input.

    Device, campaign, operator and dimensions come first; rows that are equal in these are ordered
    by all other columns but where they stood.

    >>> rows = pd.DataFrame({"op": "gemm", "m": [4, 2, 4], "duration_us": [9.0, 5.0, 8.0]})
    >>> by_content(rows)["duration_us"].tolist()
    [5.0, 8.0, 9.0]
    """
    dimensions = sorted(set(DIMENSIONS) & set(frame) - set(_FIRST))
    first = [name for name in (*_FIRST, *dimensions) if name in frame]
    others = sorted(str(name) for name in frame if name not in (*first, *_OF_PLACE))
    keys = [_sortable(frame[name]) for name in first]
    if not keys:
        return frame
    order = np.lexsort(keys[::-1])
    same = np.ones(max(len(order) - 1, 0), dtype=bool)
    for key in keys:
        ordered = key[order]
        same &= ordered[1:] == ordered[:-1]
    tied = np.flatnonzero(np.r_[False, same] | np.r_[same, False])
    if len(tied) and others:
        places = np.cumsum(~np.r_[False, same])[tied]
        rows = frame.iloc[order[tied]]
        rest = [_sortable(rows[name]) for name in others]
        order[tied] = order[tied][np.lexsort([*rest[::-1], places])]
    if (order == np.arange(len(order))).all():
        return frame
    return frame.iloc[order].reset_index(drop=True)


def _sortable(column: pd.Series) -> np.ndarray:
    """Return numbers that sort a column's values, (n,): numbers themselves, the rank of words."""
    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return np.nan_to_num(column.to_numpy(dtype=np.float64, na_value=np.nan), nan=np.inf)
    words = column.astype(object).where(column.notna(), "").astype(str)
    return pd.factorize(words, sort=True)[0].astype(np.float64)


def merged_by(frame: pd.DataFrame, ids: np.ndarray) -> pd.DataFrame:
    """Return the table with rows of equal `ids` (n_rows,) as one row, as `merge_duplicates` has it."""
    repeated = pd.Series(ids, index=frame.index).duplicated(keep=False)
    if not repeated.any():
        return frame
    single = frame[~repeated]
    merged = _summarised(frame[repeated], ids[repeated.to_numpy()])
    return fill_text(pd.concat([single, merged]).sort_index().reset_index(drop=True))


def number_runs(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the repeats of one kernel on one problem and device distinguished by the column ``run``.

    It counts from 1 in the order of the rows; with it `merge_duplicates` and pairing find no
    repeats: the first run on a host is paired with the first on the target.
    """
    frame = frame.reset_index(drop=True)
    ids = pd.Series(problem_ids(frame, kernel=True))
    order = ids.groupby(ids).cumcount()
    return frame.assign(**{RUN: order.to_numpy(dtype=float) + 1})


def best_kernel(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the fastest row of each problem on each device, with the number of its kernels in `solvers`.

    Of clean rows, for example every solver of a find-db; in order of first appearance, `tuned` set.
    """
    frame = frame.reset_index(drop=True)
    ids = problem_ids(frame)
    if pd.Series(ids).is_unique:  # each is the fastest: nothing is copied
        return frame.assign(solvers=frame["kernel"].notna().astype(np.int64), tuned=True)
    fastest = frame.groupby(ids, sort=False)["duration_us"].idxmin()
    best = frame.loc[fastest].copy()
    best["solvers"] = frame.groupby(ids, sort=False)["kernel"].nunique().to_numpy()
    best["tuned"] = True
    return best.reset_index(drop=True)


def slower_kernels(duration: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return which rows have a kernel that is not the fastest of its problem on its device.

    From the times (n_rows,) and the `problem_keys` of any number of tables. Repeats of one kernel
    (see `merge_duplicates`) count as their median.
    """
    medians = pd.Series(duration).groupby(codes_of(keys[2:]), sort=False).transform("median")
    return (medians > medians.groupby(codes_of(keys[:2]), sort=False).transform("min")).to_numpy()


def problem_keys(frame: pd.DataFrame) -> np.ndarray:
    """Return 128 bits for the problem of each row on its device, then 128 for its kernel on it; (4, n_rows), uint64.

    Rows of any tables have equal keys when `problem_ids` would number them equally, were they in
    one.
    """
    keys = np.zeros((4, len(frame)), dtype=np.uint64)
    for op, rows in each_op(frame):
        part = _distinguished(frame, op.name).take(rows)
        hashes = np.zeros((2, len(rows)), dtype=np.uint64)
        for name in ("device", *problem_columns(frame, op.name)):
            hashes += _hashed(part["device"] if name == "device" else comparable(part, name), name)
        keys[:2, rows] = hashes
        keys[2:, rows] = hashes + _hashed(part["kernel"].where(~part["tuned"], ""), "kernel")
    return keys


def _hashed(values: pd.Series | np.ndarray, name: str) -> np.ndarray:
    """Return 128 bits for each value of a column, (2, n_rows): 0 for missing values, like a missing column.

    Of a column with one value in all rows they are one for all, (2, 1).
    """
    codes, levels = pd.factorize(values)
    missing = np.r_[pd.isna(levels) | (levels == ""), True]
    hashes = np.r_[pd.util.hash_array(np.asarray(levels), categorize=False), np.uint64(0)]
    mixed_codes = np.empty((2, len(hashes)), dtype=np.uint64)
    for half in range(2):
        salt = int.from_bytes(hashlib.blake2b(f"{half} {name}".encode(), digest_size=8).digest())
        # the finaliser of splitmix64
        mixed = (hashes ^ np.uint64(salt)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed_codes[half] = np.where(missing, 0, mixed ^ (mixed >> np.uint64(31)))
    if len(levels) == 1 and (codes == 0).all():
        return mixed_codes[:, :1]
    return mixed_codes[:, codes]


def problem_ids(frame: pd.DataFrame, *, device: bool = True, kernel: bool = False) -> np.ndarray:
    """Return a number per problem: rows whose operator's identity columns agree get the same number.

    Rows are completed (see `operators.complete`); missing values equal each other. The same problem
    on two devices has two numbers if `device`; two kernels on one problem have two if `kernel`,
    unless a search found them (`tuned`).
    """
    ids = np.empty(len(frame), dtype=np.int64)
    first = 0
    for op, rows in each_op(frame):
        if len(rows) < len(frame):
            part = _distinguished(frame, op.name).take(rows)
        else:
            part = frame
        names = problem_columns(frame, op.name)[::-1]  # sizes tell most rows apart, and stand last
        keys = chain(
            (comparable(part, name) for name in names),
            (part["device"] for _ in range(device)),
            (part["kernel"].where(~part["tuned"], "") for _ in range(kernel)),
        )
        numbers = codes_of(keys)
        ids[rows] = first + numbers
        first += int(numbers.max()) + 1
    return ids


def problem_hashes(frame: pd.DataFrame) -> np.ndarray:
    """Return a number per clean row, equal for rows of one problem on one device across tables.

    Other problems may share it; kernels do not count.
    """
    hashes = np.zeros(len(frame), dtype=np.uint64)
    for op, rows in each_op(frame):
        part = frame.take(rows).reindex(columns=["device", *op.identity])
        keys = {name: comparable(part, name) for name in op.identity}
        # no -0.0
        plain = {
            name: key if isinstance(key, pd.Series) else key + 0.0 for name, key in keys.items()
        }
        hashes[rows] = pd.util.hash_pandas_object(
            pd.DataFrame(plain, index=part.index).assign(device=part["device"]), index=False
        )
    return hashes


def comparable(frame: pd.DataFrame, name: str) -> pd.Series | np.ndarray:
    """Return an identity column as words or as numbers, however the tables of two devices store it."""
    words = (
        name in ("op", CACHE)
        or name in TEXT_COLUMNS
        or name in TEXT_DIMENSIONS
        or name in DTYPE_COLUMNS
    )
    if words:
        return words_of(frame, name)
    return as_numbers(frame, name)


def words_of(frame: pd.DataFrame, name: str) -> pd.Series:
    """Return an identity column of words, "" where it is empty; of the cache, "cold" or "warm"."""
    words = as_text(frame[name])
    if name == CACHE:
        return words.str.strip().str.lower().eq(COLD).map({True: COLD, False: "warm"})
    return words


def _distinguished(frame: pd.DataFrame, op: str) -> pd.DataFrame:
    """Return the columns that distinguish rows of an operator: few of a wide table."""
    named = {"device", "kernel", "tuned", *problem_columns(frame, op)}
    return frame[[name for name in frame if name in named]]


def problem_columns(frame: pd.DataFrame, op: str) -> list[str]:
    """Return the columns of `frame` that make two rows of operator `op` the same problem."""
    return [name for name in op_of(op).identity if name in frame.columns]


def _summarised(rows: pd.DataFrame, ids: np.ndarray) -> pd.DataFrame:
    """Return one row for each of the `ids`, at the index of its first row."""
    by_id = rows["duration_us"].groupby(ids, sort=False)
    timed = rows["duration_us"].fillna(np.inf)  # of runs of serving one other time may be all
    fastest = rows.loc[timed.groupby(ids, sort=False).idxmin()]
    deviation = (rows["duration_us"] - by_id.transform("median")).abs()
    measured = [str(name) for name in rows.select_dtypes("number") if is_measured(str(name))]
    merged = fastest.assign(
        **{name: rows[name].groupby(ids, sort=False).median().to_numpy() for name in measured},
        spread_us=deviation.groupby(ids, sort=False).median().to_numpy(),
        repeats=rows["repeats"].groupby(ids, sort=False).sum().to_numpy(),
        campaign=rows["campaign"].groupby(ids, sort=False).agg(_joined).to_numpy(),
    )
    others = by_id.size().to_numpy() - 1
    merged["source"] = [
        f"{source} (+{n} more)" for source, n in zip(fastest["source"], others, strict=True)
    ]
    merged.index = pd.Index(rows.index.to_series().groupby(ids, sort=False).min())
    return merged


def is_measured(name: str) -> bool:
    """Whether a column of numbers holds a measured quantity (``duration_us``, ``energy_j``, ``counter.NAME``)."""
    return name.startswith(COUNTER) or (name != "spread_us" and name.endswith(MEASURED_UNITS))


def _joined(names: pd.Series) -> str:
    return " + ".join(sorted(name for name in names.unique() if name))


# Host and target, paired problem by problem.

HOST = "host_"  # prefix of the columns measured on the host in rows that also carry the target's
CARRIED = ("duration_us", "spread_us", "repeats", "kernel", "library", "campaign", "source")
"""Columns of the host's row that go along under that prefix, with the metric, the hardware counters and own columns."""


def carried(rows: pd.DataFrame, metric: str) -> list[str]:
    """Return the columns of the host's rows that are carried along under the prefix ``host_``."""
    more = [str(name) for name in rows.columns if str(name).startswith((COUNTER, OWN))]
    return [name for name in dict.fromkeys((*CARRIED, metric, *more)) if name in rows]


def beside(rows: pd.DataFrame, mates: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the rows with the columns `carried` from the host's, row by row, under the prefix ``host_``."""
    columns = mates[carried(mates, metric)].add_prefix(HOST).set_axis(rows.index)
    return pd.concat([rows.drop(columns=columns.columns, errors="ignore"), columns], axis=1)


# share by which FLOPs or bytes of two epochs may differ for these to be one problem
SAME_WORK = 0.1
_WORK_OF_EPOCHS = (f"{COUNTER}epoch.gflops", f"{COUNTER}epoch.mbytes")
_WORDS = (
    CACHE,
    "direction",
    "dtype_a",
    "dtype_b",
    "dtype_out",
    "family",
    "layout",
    "op",
    "scale_block",
    "variant",
)
"""Identity columns that hold words; the others hold numbers."""


@dataclass(frozen=True)
class Pairs:
    """The outcome of pairing: the target's rows with the host's figures (``host_duration_us``, ...), and the rest.

    `report` counts ``host_rows``, ``target_rows``, ``pairs``, ``host_only``, ``target_only``, and
    ``slower_kernels`` and ``merged_repeats``, rows left out because another kernel was faster or
    because they became one.
    """

    paired: pd.DataFrame
    target_only: pd.DataFrame
    host_only: pd.DataFrame
    report: dict[str, Any]


def rows_of(frame: pd.DataFrame, device: str) -> pd.DataFrame:
    """Return the rows measured on a device; without any, a DataError lists the devices.

    All are of `hardware.Comparison.MANY`: features then use each row's GPU.
    """
    rows = frame
    if not Comparison.means_all(device):
        rows = frame[frame["device"] == device]
    if rows.empty:
        counts = ", ".join(
            f"{name} ({count} rows)" for name, count in frame["device"].value_counts().items()
        )
        raise DataError(f"no row was measured on {device}: the data have {counts or 'no rows'}")
    return rows.reset_index(drop=True)


def one_per_problem(
    rows: pd.DataFrame, metric: str = "duration_us"
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the fastest kernel of each problem on the rows' one device, repeats merged, and the counts left out.

    Rows in which the metric is missing, or no positive number, are left out. The counts are by
    reason: ``without_metric``, ``metric_not_positive``, ``merged_repeats``, ``slower_kernels``.
    Raises DataError where no row is left.
    """
    usable, counts = _with_metric(rows, metric)
    if usable.empty:
        if counts["metric_not_positive"]:
            wrong = f" ({counts['metric_not_positive']} are not positive)"
        else:
            wrong = ""
        device = str(rows["device"].iloc[0])
        raise DataError(
            f"no row of {device} has {metric}{wrong}: choose another metric, or add it to the data"
        )
    whole = complete(usable)
    merged = merge_duplicates(whole)
    best = best_kernel(merged)
    return best, {
        **counts,
        "merged_repeats": len(whole) - len(merged),
        "slower_kernels": len(merged) - len(best),
    }


def _with_metric(rows: pd.DataFrame, metric: str) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the rows whose metric is a positive number, and the others' number and reasons."""
    if metric not in rows:
        return rows.iloc[:0], {"without_metric": len(rows), "metric_not_positive": 0}
    values = as_numbers(rows, metric)
    missing = rows[metric].isna().to_numpy() | rows[metric].eq("").to_numpy(dtype=bool)
    good = np.isfinite(values) & (values > 0)
    wrong = int((~good & ~missing).sum())
    counts = {"without_metric": int(missing.sum()), "metric_not_positive": wrong}
    whole = rows.assign(**{metric: values})
    return whole if good.all() else whole[good], counts


def pair(frame: pd.DataFrame, host: str, target: str, *, metric: str = "duration_us") -> Pairs:
    """Pair the rows of two devices by the identity of the problem.

    Of several kernels that solve one problem on a device the fastest by the metric counts (see
    `one_per_problem`); the host's value goes along as ``host_<metric>``. Raises DataError where a
    device has no rows, or no problem was measured on both. Epochs whose work differs by more than
    `SAME_WORK` are no pair: the report's ``remarks`` count them; an error where all are so.
    """
    if host == target:
        raise DataError(
            f"host and target are both {host}: leave the host out to predict from shapes alone"
        )
    if Comparison.means_all(host) or Comparison.means_all(target):
        raise DataError("host and target must be one device each")
    host_rows, host_counts = one_per_problem(rows_of(frame, host), metric)
    target_rows, target_counts = one_per_problem(rows_of(frame, target), metric)
    ids = problem_ids(pd.concat([host_rows, target_rows], ignore_index=True), device=False)
    host_ids = ids[: len(host_rows)]
    target_ids = ids[len(host_rows) :]
    partner = pd.Series(np.arange(len(host_rows)), index=host_ids).reindex(target_ids).to_numpy()
    matched = ~np.isnan(partner)
    if not matched.any():
        raise DataError(_no_pairs(host_rows, target_rows, host, target))
    places = np.flatnonzero(matched)
    between = f"on {target} than on {host}"
    alike, remarks = _of_one_work(
        target_rows.iloc[places], host_rows.iloc[partner[places].astype(int)], between
    )
    matched[places] = alike
    paired = target_rows[matched].reset_index(drop=True)
    mates = host_rows.iloc[partner[matched].astype(int)].reset_index(drop=True)
    target_only = target_rows[~matched].reset_index(drop=True)
    host_only = host_rows[~np.isin(host_ids, target_ids)].reset_index(drop=True)
    report = {
        "host_rows": len(host_rows),
        "target_rows": len(target_rows),
        "pairs": len(paired),
        "host_only": len(host_only),
        "target_only": len(target_only),
        "remarks": remarks,
        **{name: host_counts[name] + target_counts[name] for name in host_counts},
    }
    return Pairs(beside(paired, mates, metric), target_only, host_only, report)


def pair_each(
    rows: pd.DataFrame, hosts: Collection[str] | None, *, metric: str = "duration_us"
) -> Pairs:
    """Pair rows of many devices, of `one_per_problem`, with what a host measured on their problem (`HOST_DEVICE`).

    That is another device, one of ``hosts`` (None: any), drawn at random for each row, always in
    the same way, from those that measured the problem. Raises DataError where no host has rows, or
    no row has a partner.
    """
    devices = rows["device"].to_numpy(dtype=object)
    ids = problem_ids(rows, device=False)
    if hosts is None:
        able = np.ones(len(rows), dtype=bool)
    else:
        able = np.isin(devices, list(hosts))
    mates = np.flatnonzero(able)
    draws = np.random.default_rng(0)
    # those of a problem together, shuffled
    order = mates[np.lexsort((draws.random(len(mates)), ids[mates]))]
    first = np.searchsorted(ids[order], ids)
    sizes = np.bincount(ids[mates], minlength=ids.max() + 1)[ids]
    start = draws.random(len(rows))
    mate = np.full(len(rows), -1)
    for step in range(2):  # a random one of them, or the next: each device has one
        left = np.flatnonzero((mate < 0) & (step < sizes))
        places = (
            first[left] + (np.floor(start[left] * sizes[left]).astype(int) + step) % sizes[left]
        )
        mate[left] = np.where(order[places] != left, order[places], -1)
    paired = np.flatnonzero(mate >= 0)
    if not len(paired):
        if hosts is None:
            what = "two devices"
        else:
            what = f"{few(hosts)} and another device"
        raise DataError(f"no problem was measured on {what}: there are {few(sorted(set(devices)))}")
    alike, remarks = _of_one_work(
        rows.iloc[paired], rows.iloc[mate[paired]], "on the target than on the host"
    )
    mate[paired[~alike]] = -1
    paired = paired[alike]
    beside_them = rows.iloc[mate[paired]].reset_index(drop=True)
    paired_rows = beside(rows.iloc[paired].reset_index(drop=True), beside_them, metric)
    alone = rows[(mate < 0) & (~able if hosts is not None else True)].reset_index(drop=True)
    lost = {str(name): count for name, count in alone["device"].value_counts().items()}
    whole = [name for name in lost if name not in set(paired_rows["device"])]
    text = (
        f"no host measured what {', '.join(whole)} did: left out "
        f"({sum(lost[name] for name in whole)} rows)"
    )
    return Pairs(
        paired_rows.assign(**{HOST_DEVICE: beside_them["device"].to_numpy()}),
        alone,
        rows.iloc[:0],
        {
            "host_rows": len(mates),
            "target_rows": len(rows),
            "pairs": len(paired),
            "target_only": len(alone),
            "remarks": [
                *remarks,
                *([remark("devices-without-pairs", text, devices=tuple(whole))] if whole else []),
            ],
        },
    )


def _of_one_work(
    rows: pd.DataFrame, mates: pd.DataFrame, between: str
) -> tuple[np.ndarray, list[Remark]]:
    """Return which rows do the work of their mates, (n,), and a remark on epochs that do not; an error if none does."""
    off = _work_ratio(rows, mates)
    alike = np.abs(np.log(off)) <= np.log1p(SAME_WORK)
    if alike.all():
        return alike, []
    unlike = int((~alike).sum())
    ratios = off[~alike]
    unlike_text = f"{unlike} of {len(off)} pairs of epochs do other work {between}"
    far = f"{ratios.min():.2f} to {ratios.max():.2f} times its FLOPs or bytes"
    if not alike.any():
        raise DataError(
            f"{unlike_text} ({far}): cut both runs at the same places, by step or marker:REGEX"
        )
    return alike, [
        remark(
            "unlike-epochs", f"{unlike_text} ({far}) and are no pairs", pairs=unlike, of=len(off)
        )
    ]


def _work_ratio(rows: pd.DataFrame, mates: pd.DataFrame) -> np.ndarray:
    """Return the ratio of the work of epochs to that of their mates: the larger deviation of FLOPs and bytes.

    Epochs are paired by their numbers, and a number says nothing of what ran. 1 for other rows, and
    where it is unknown.
    """
    ratios = np.ones(len(rows))
    for name in _WORK_OF_EPOCHS:
        if name in rows and name in mates:
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = as_numbers(rows, name) / as_numbers(mates, name)
            is_usable = np.isfinite(ratio) & (ratio > 0) & rows["op"].eq("epoch").to_numpy()
            ratio = np.where(is_usable, ratio, 1.0)
            further = np.abs(np.log(ratio)) > np.abs(np.log(ratios))
            ratios = np.where(further, ratio, ratios)
    return ratios


def _no_pairs(host_rows: pd.DataFrame, target_rows: pd.DataFrame, host: str, target: str) -> str:
    """Say which identity columns of the common operators share no value."""
    common = sorted(set(host_rows["op"]) & set(target_rows["op"]))
    if not common:
        ops = {
            name: ", ".join(sorted(set(rows["op"])))
            for name, rows in ((host, host_rows), (target, target_rows))
        }
        return (
            f"no problem was measured on both devices: {host} has {ops[host]}, {target} has "
            f"{ops[target]}"
        )
    differing = []
    for name in (name for name in _WORDS if name in host_rows and name in target_rows):
        here, on_target = (
            list(dict.fromkeys(words_of(rows, name))) for rows in (host_rows, target_rows)
        )
        if not set(here) & set(on_target):
            differing.append(f"{name} ({_shown(here)} on {host}, {_shown(on_target)} on {target})")
    if differing:
        reason = "they differ in " + "; ".join(differing)
    else:
        reason = "no two rows agree in all dimensions"
    return f"no {' or '.join(common)} problem was measured on both {host} and {target}: {reason}"


def _shown(words: Sequence[str]) -> str:
    return few((word or "none" for word in words), limit=3)
