"""The kernels of several traces of one workload, matched by name and order of occurrence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..arrays import BoolArray, IntArray, ObjectArray
from ..table.problems import codes_of
from ..traces.classes import bare_name
from .split import DEVICE, STREAM

_ARGUMENTS = re.compile(r"[<(].*$")


@dataclass(frozen=True)
class Matching:
    """Kernels that every trace has.

    Attributes
    ----------
    names : ndarray of str of shape (n_matched,)
        Kernel names, without what profilers put around them.
    durations_ns : ndarray of int64 of shape (n_matched, n_traces)
        How long each took in each trace, 0 for negative durations; in the order of the first trace.
    by_queue : bool
        Whether order is that on a queue; else on a GPU, because the traces have different numbers of queues (a profiler
        may record streams, another the hardware queues they share).
    cut : bool
        Whether names were cut to the function, because a trace has no more than that.
    uneven_share : float
        Share of the kernel time of all traces that is of kernels which do not occur equally often in all of them, 0 to
        1. Of these, the order may be shifted by what only one trace recorded.
    """

    names: ObjectArray
    durations_ns: IntArray
    by_queue: bool
    cut: bool
    uneven_share: float


def match_kernels(traces: Sequence[pd.DataFrame]) -> Matching:
    """Return the kernels that all traces have: the nth of a name on a queue of one is the nth of it in the others.

    Queues have other numbers in every profiler: they correspond by their GPU, then by how many kernels they run, then
    by their first start. GPUs correspond by number. Each trace gives its kernels as rows of a dispatch table, at least
    one; the matching is of no kernel where no name is common to all.
    """
    names, cut = common_spelling([rows["name"] for rows in traces])
    by_queue = len({len(rows.groupby(list(STREAM), dropna=False, observed=True)) for rows in traces}) == 1
    columns = STREAM if by_queue else DEVICE
    rows = pd.concat([_keyed(own.assign(name=spelt), columns) for own, spelt in zip(traces, names, strict=True)])
    trace = np.repeat(np.arange(len(traces)), [len(own) for own in traces])
    kind = codes_of([rows["place"], rows["name"]])
    nth = rows.groupby([trace, kind]).cumcount().to_numpy()
    key = codes_of([kind, nth])
    matched = np.flatnonzero(np.bincount(key)[key] == len(traces))
    order = matched[np.lexsort((trace[matched], key[matched]))].reshape(-1, len(traces))
    durations = rows["duration_ns"].to_numpy()
    return Matching(
        names=rows["name"].to_numpy(dtype=object)[order[:, 0]],
        durations_ns=durations[order],
        by_queue=by_queue,
        cut=cut,
        uneven_share=_share(durations, _uneven(kind, trace, len(traces))),
    )


def common_spelling(traces: Sequence[pd.Series]) -> tuple[list[ObjectArray], bool]:
    """Return the names of each trace's kernels as all of the traces spell them, and whether that cut any.

    One profiler writes "void ns::function<float>(float*)", another "function" alone.
    """
    spelt = [pd.factorize(names.astype(object)) for names in traces]
    bare = [[bare_name(name) for name in names] for _, names in spelt]
    whole = [any(function_name(name) != name for name in names) for names in bare]
    cut = any(whole) and not all(whole)
    common = [[function_name(name) for name in names] for names in bare] if cut else bare
    return [np.array(names, dtype=object)[codes] for (codes, _), names in zip(spelt, common, strict=True)], cut


def function_name(name: str) -> str:
    """Return a kernel's name without namespaces, template arguments and parameters.

    Examples
    --------
    >>> function_name("at::native::(anonymous namespace)::softmax<float, 4>(float*, int)")
    'softmax'
    """
    whole = name.replace("(anonymous namespace)", "")
    return _ARGUMENTS.sub("", whole).rsplit("::", 1)[-1].strip()


def _keyed(rows: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return `place` (number of queue or GPU), `name` and `duration_ns` of each kernel, in the order of the starts."""
    ordered = rows.iloc[np.argsort(rows["start_ns"].to_numpy(), kind="stable")]
    return pd.DataFrame(
        {
            "place": _numbered(ordered, columns),
            "name": ordered["name"].to_numpy(dtype=object),
            "duration_ns": np.maximum(ordered["duration_ns"].to_numpy(dtype=np.int64), 0),
        }
    )


def _numbered(ordered: pd.DataFrame, columns: Sequence[str]) -> IntArray:
    """Return the number of each row's queue or GPU; rows are in the order of their starts."""
    codes = codes_of(ordered[name] for name in columns)  # in order of appearance, which is that of the first start
    parts = ordered["gpu"].groupby(codes).agg(["first", "size"])
    ranked = parts.assign(size=-parts["size"]).sort_values(["first", "size"], kind="stable").index
    numbers = np.empty(len(parts), dtype=np.int64)
    numbers[ranked] = np.arange(len(parts))
    return numbers[codes]


def _uneven(kind: IntArray, trace: IntArray, traces: int) -> BoolArray:
    """Return which rows are of a kind that the traces have in different numbers."""
    counts = np.bincount(kind * traces + trace, minlength=(int(kind.max()) + 1) * traces).reshape(-1, traces)
    return (counts.min(axis=1) < counts.max(axis=1))[kind]


def _share(durations: IntArray, chosen: BoolArray) -> float:
    return float(durations[chosen].sum() / max(durations.sum(), 1))
