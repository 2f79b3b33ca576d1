"""Hardware counters of one or several passes, brought to the dispatches of the run whose times are used.

A counter file is long: one row per dispatch and counter. Every pass is a run of the whole program, with times, threads
and correlation ids of its own, so passes are never joined by time: the n-th dispatch of a kernel in one pass is the
n-th in the other. Where a pass has another number of dispatches of a kernel (a filter, a program that is not
deterministic), the dispatches are joined by their numbers, if the other run has the same kernel under each of them;
else they are left out and reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...remarks import remark
from ...table.measurements import COUNTER
from ...traces.dispatches import Finding

_KERNEL = ["run", "name"]
_NUMBERED = [*_KERNEL, "dispatch_id"]


@dataclass(frozen=True)
class Pass:
    """Counters of one file.

    Attributes
    ----------
    rows : DataFrame
        Columns of `dispatch_key`, and `counter`, `value`: one row per dispatch and counter. RangeIndex.
    source : str
        The file, for messages.
    """

    rows: pd.DataFrame
    source: str


def dispatch_key(
    run: NDArray[np.int64], name: pd.Categorical, dispatch_id: pd.Series, items: pd.Series
) -> pd.DataFrame:
    """Return what tells the dispatches of a file apart, comparable between passes.

    Parameters
    ----------
    run : ndarray of int
        Number of the process, in the order in which the file mentions them.
    name : Categorical
        Kernel.
    dispatch_id : Series of Int64
        Number of the dispatch in its process.
    items : Series of Int64
        Work-items of the whole grid, missing if unknown.
    """
    return pd.DataFrame({"run": run, "name": name, "dispatch_id": dispatch_id.array, "items": items.array})


def counters(kernels: pd.DataFrame, passes: Sequence[Pass]) -> tuple[pd.DataFrame, list[Finding]]:
    """Return the counters of each dispatch, a column each, and what was odd about them.

    Parameters
    ----------
    kernels : DataFrame
        `dispatch_key` of the dispatches, RangeIndex.
    passes : sequence of Pass

    Returns
    -------
    values : DataFrame of float64
        Index as `kernels`; columns ``counter.NAME`` in the order of their names. The median, where a counter was taken
        more than once for a dispatch.
    findings : list of Finding
    """
    findings: list[Finding] = []
    kernels, *measured = _with_numbered_names([kernels, *(item.rows for item in passes)])
    joined = [
        _at_dispatches(kernels, values, item.source, findings) for values, item in zip(measured, passes, strict=True)
    ]
    every = pd.concat([part for part in joined if len(part)] or [_NOTHING], ignore_index=True)
    every = every.astype({"counter": "str"})
    grouped = every.groupby(["position", "counter"], sort=True)["value"]
    values = grouped.median()
    if len(values) < len(every):
        findings += _varying(grouped.nunique(), passes)
    wide = values.unstack("counter").reindex(kernels.index)  # noqa: PD010 (one value per cell, nothing to aggregate)
    return wide.rename(columns=lambda name: f"{COUNTER}{name}"), findings


_NOTHING = pd.DataFrame({"position": np.array([], dtype=np.int64), "counter": [], "value": np.array([], dtype=float)})


def _with_numbered_names(parts: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return the parts with a number for each kernel, the same in all, in place of its name."""
    numbers: dict[str, int] = {}
    numbered = []
    for part in parts:
        names = part["name"].cat
        own = np.array([numbers.setdefault(name, len(numbers)) for name in names.categories], dtype=np.int64)
        numbered.append(part.assign(name=own[names.codes.to_numpy()]))
    return numbered


def _at_dispatches(kernels: pd.DataFrame, values: pd.DataFrame, source: str, findings: list[Finding]) -> pd.DataFrame:
    """Return the values of a pass as rows of `position` (in `kernels`), `counter` and `value`."""
    launches = values[["run", "dispatch_id"]].drop_duplicates().index
    measured = values.loc[launches, ["run", "name", "dispatch_id", "items"]]
    position = _positions(kernels, measured)
    if (lost := int(position.isna().sum())) > 0:
        findings.append(Finding(remark("unmatched-pass", why="not timed"), "warning", lost, source=source))
    place = measured[["run", "dispatch_id"]].assign(position=position)
    found = values[["run", "dispatch_id", "counter", "value"]].merge(place, on=["run", "dispatch_id"], how="left")
    return found.loc[found["position"].notna(), ["position", "counter", "value"]].astype({"position": np.int64})


def _positions(kernels: pd.DataFrame, measured: pd.DataFrame) -> pd.Series:
    """Return at which position in `kernels` each dispatch of a pass stands, missing where at none."""
    timed = kernels.assign(position=np.arange(len(kernels)))
    sizes = timed.groupby(_KERNEL).size().rename("size")
    as_many = measured.groupby(_KERNEL)["name"].transform("size") == measured.join(sizes, on=_KERNEL)["size"]
    by_order = _joined(_ranked(measured), _ranked(timed), [*_KERNEL, "rank"])
    by_number = _joined(measured, timed.drop_duplicates(_NUMBERED), _NUMBERED)
    complete = by_number["position"].notna().groupby([measured["run"], measured["name"]]).transform("all")
    chosen = by_order.where(as_many, by_number.where(complete))
    other_grid = chosen["items_timed"].notna() & measured["items"].notna() & chosen["items_timed"].ne(measured["items"])
    return chosen["position"].mask(other_grid.fillna(False).astype(bool))


def _ranked(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with `rank`: which of the dispatches of its kernel it is, in the order of their numbers."""
    rank = rows.sort_values("dispatch_id", kind="stable").groupby(_KERNEL).cumcount()
    return rows.assign(rank=rank)


def _joined(measured: pd.DataFrame, timed: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return `position` and `items_timed` of the dispatches that agree in `by`, at the index of `measured`."""
    right = timed[[*by, "position", "items"]].rename(columns={"items": "items_timed"})
    found = measured[by].merge(right, on=by, how="left")
    return found[["position", "items_timed"]].set_index(measured.index)


def _varying(distinct: pd.Series, passes: Sequence[Pass]) -> list[Finding]:
    """Report counters that were taken several times for a dispatch, with different values."""
    differing = distinct[distinct > 1]
    if differing.empty:
        return []
    names = tuple(sorted(set(differing.index.get_level_values("counter"))))
    return [Finding(remark("replay-spread", counters=names), "info", len(differing), source=passes[0].source)]
