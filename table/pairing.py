"""Pair what the host and the target measured on the same problem, and say what found no partner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..errors import DataError, few
from ..operators.operators import CACHE, complete
from ..operators.work import as_numbers
from .measurements import COUNTER
from .problems import best_kernel, merge_duplicates, problem_ids, words_of

HOST = "host_"
"""Prefix of the columns measured on the host in rows that also carry the target's."""
CARRIED = ("duration_us", "spread_us", "repeats", "kernel", "library", "campaign", "source")
"""Columns of the host's row that go along under that prefix, with the metric and the hardware counters."""


def carried(rows: pd.DataFrame, metric: str) -> list[str]:
    """Return the columns of the host's rows that go along under the prefix ``host_``."""
    counters = [str(name) for name in rows.columns if str(name).startswith(COUNTER)]
    return [name for name in dict.fromkeys((*CARRIED, metric, *counters)) if name in rows]


_WORDS = (CACHE, "direction", "dtype_a", "dtype_b", "dtype_out", "family", "layout", "op", "scale_block", "variant")
"""Identity columns that hold words; the others hold numbers."""


@dataclass(frozen=True)
class Pairs:
    """The outcome of pairing.

    Attributes
    ----------
    paired : DataFrame
        The target's rows with a partner, and the host's figures in ``host_duration_us``, ``host_kernel``, ...
    target_only, host_only : DataFrame
        Rows without a partner.
    report : dict
        Counts: ``host_rows``, ``target_rows``, ``pairs``, ``host_only``, ``target_only``, and ``slower_kernels`` and
        ``merged_repeats``, rows left out because another kernel was faster or because they became one.
    """

    paired: pd.DataFrame
    target_only: pd.DataFrame
    host_only: pd.DataFrame
    report: dict[str, Any]


def rows_of(frame: pd.DataFrame, device: str) -> pd.DataFrame:
    """Return the rows measured on a device.

    Raises
    ------
    DataError
        There is none; the message lists the devices there are.
    """
    rows = frame[frame["device"] == device]
    if rows.empty:
        counts = ", ".join(f"{name} ({count} rows)" for name, count in frame["device"].value_counts().items())
        raise DataError(f"no row was measured on {device}: the data have {counts or 'no rows'}")
    return rows.reset_index(drop=True)


def one_per_problem(rows: pd.DataFrame, metric: str = "duration_us") -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the fastest kernel of each problem, repeats merged first.

    Parameters
    ----------
    rows : DataFrame
        Rows of one device.
    metric : str, default="duration_us"
        Column to predict; rows in which it is missing, or no positive number, are left out.

    Returns
    -------
    rows : DataFrame
    counts : dict
        ``without_metric``, ``metric_not_positive``, ``merged_repeats``, ``slower_kernels``: rows left out, by reason.

    Raises
    ------
    DataError
        No row is left.
    """
    usable, counts = _with_metric(rows, metric)
    if usable.empty:
        wrong = f" ({counts['metric_not_positive']} are not positive)" if counts["metric_not_positive"] else ""
        device = str(rows["device"].iloc[0])
        raise DataError(f"no row of {device} has {metric}{wrong}: choose another metric, or add it to the data")
    whole = complete(usable)
    merged = merge_duplicates(whole)
    best = best_kernel(merged)
    return best, {
        **counts,
        "merged_repeats": len(whole) - len(merged),
        "slower_kernels": len(merged) - len(best),
    }


def _with_metric(rows: pd.DataFrame, metric: str) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the rows in which the metric is a positive number, as a number, and how many others there are and why."""
    if metric not in rows:
        return rows.iloc[:0], {"without_metric": len(rows), "metric_not_positive": 0}
    values = as_numbers(rows, metric)
    missing = rows[metric].isna().to_numpy() | rows[metric].eq("").to_numpy(dtype=bool)
    good = np.isfinite(values) & (values > 0)
    wrong = int((~good & ~missing).sum())
    counts = {"without_metric": int(missing.sum()), "metric_not_positive": wrong}
    return rows.assign(**{metric: values})[good], counts


def pair(frame: pd.DataFrame, host: str, target: str, *, metric: str = "duration_us") -> Pairs:
    """Pair the rows of two devices by the identity of the problem.

    Of several kernels that solve one problem on a device the fastest counts (see `one_per_problem`).

    Parameters
    ----------
    frame : DataFrame
        Measurement table.
    host, target : str
        Canonical device names.
    metric : str, default="duration_us"
        Column to predict; the host's value goes along as ``host_<metric>``.

    Returns
    -------
    Pairs

    Raises
    ------
    DataError
        A device has no rows, or no problem was measured on both.
    """
    if host == target:
        raise DataError(f"host and target are both {host}: leave the host out to predict from shapes alone")
    host_rows, host_counts = one_per_problem(rows_of(frame, host), metric)
    target_rows, target_counts = one_per_problem(rows_of(frame, target), metric)
    ids = problem_ids(pd.concat([host_rows, target_rows], ignore_index=True), device=False)
    host_ids, target_ids = ids[: len(host_rows)], ids[len(host_rows) :]
    partner = pd.Series(np.arange(len(host_rows)), index=host_ids).reindex(target_ids).to_numpy()
    matched = ~np.isnan(partner)
    if not matched.any():
        raise DataError(_no_pairs(host_rows, target_rows, host, target))
    paired = target_rows[matched].reset_index(drop=True)
    mates = host_rows.iloc[partner[matched].astype(int)].reset_index(drop=True)
    columns = {HOST + name: mates[name] for name in carried(mates, metric)}
    target_only = target_rows[~matched].reset_index(drop=True)
    host_only = host_rows[~np.isin(host_ids, target_ids)].reset_index(drop=True)
    report = {
        "host_rows": len(host_rows),
        "target_rows": len(target_rows),
        "pairs": len(paired),
        "host_only": len(host_only),
        "target_only": len(target_only),
        **{name: host_counts[name] + target_counts[name] for name in host_counts},
    }
    return Pairs(paired.assign(**columns), target_only, host_only, report)


def _no_pairs(host_rows: pd.DataFrame, target_rows: pd.DataFrame, host: str, target: str) -> str:
    """Say which identity columns of the operators in common have no value in common."""
    common = sorted(set(host_rows["op"]) & set(target_rows["op"]))
    if not common:
        ops = {name: ", ".join(sorted(set(rows["op"]))) for name, rows in ((host, host_rows), (target, target_rows))}
        return f"no problem was measured on both devices: {host} has {ops[host]}, {target} has {ops[target]}"
    found = []
    for name in (name for name in _WORDS if name in host_rows and name in target_rows):
        here, there = (list(dict.fromkeys(words_of(rows, name))) for rows in (host_rows, target_rows))
        if not set(here) & set(there):
            found.append(f"{name} ({_shown(here)} on {host}, {_shown(there)} on {target})")
    reason = "they differ in " + "; ".join(found) if found else "no two rows agree in all dimensions"
    return f"no {' or '.join(common)} problem was measured on both {host} and {target}: {reason}"


def _shown(words: Sequence[str]) -> str:
    return few((word or "none" for word in words), most=3)
