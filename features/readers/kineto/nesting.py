"""Operators inside each other: which was running on a thread at a time, and what it ran in.

Operators are given by their index; -1 stands for none. Nothing here loops over them one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from .decode import IntArray


class Nesting:
    """The operators of a trace, nested by time on each thread.

    Parameters
    ----------
    thread : ndarray of int64
        Number of the thread of each operator.
    start_ns, end_ns : ndarray of int64
        Operators of equal start (traces of before 2024 have whole microseconds) are taken in the order given, which is
        that of their calls in the file.

    Attributes
    ----------
    parent : ndarray of int64
        The operator around each: the last one started before it on its thread that still runs. One more value, of
        index -1, says that there is none around none.
    """

    def __init__(self, thread: IntArray, start_ns: IntArray, end_ns: IntArray) -> None:
        order = np.lexsort((start_ns, thread))
        self._order = order
        self._end_ns = np.r_[end_ns, np.iinfo(np.int64).max]
        self._thread, self._start_ns = thread[order], start_ns[order]
        self.parent = np.full(len(order) + 1, -1, dtype=np.int64)
        around = self._around(end_ns[order])
        self.parent[order] = np.r_[order, -1][around]

    def running(self, thread: IntArray, time_ns: IntArray) -> IntArray:
        """Return the innermost operator that ran on each thread at each time."""
        found = self._last_started(thread, time_ns)
        while (over := np.flatnonzero(self._end_ns[found] <= time_ns)).size:
            found[over] = self.parent[found[over]]
        return found

    def stacks(self, operators: IntArray, names: Sequence[str]) -> pd.Categorical:
        """Return the names of each operator and of those around it, outermost first, joined by ";".

        Parameters
        ----------
        operators : ndarray of int64
        names : sequence of str
            Name of every operator of the trace.
        """
        codes, levels = pd.factorize(np.array(names, dtype=object))
        path = np.zeros(len(operators), dtype=np.int64)
        texts = [""]
        for ancestor in reversed(self._ancestors(operators)):
            there = np.flatnonzero(ancestor >= 0)
            steps, path_of = np.unique(path[there] * len(levels) + codes[ancestor[there]], return_inverse=True)
            path[there] = len(texts) + path_of
            inner = [(texts[step // len(levels)], levels[step % len(levels)]) for step in steps.tolist()]
            texts += [f"{outer};{name}" if outer else str(name) for outer, name in inner]
        distinct, unique = pd.factorize(np.array(texts, dtype=object))
        return pd.Categorical.from_codes(distinct[path], categories=pd.Index(unique))

    def _around(self, end_ns: IntArray) -> IntArray:
        """Return the place, in the order of starts, of the operator around each.

        At first each points to the one before it; one that is over by then is passed over to where it points itself,
        all at once. Whatever lies between was over even before, so the pointers double their reach in every round.
        """
        around = np.arange(-1, len(end_ns) - 1)
        around[np.flatnonzero(np.diff(self._thread, prepend=-1))] = -1
        rest = np.flatnonzero(around >= 0)
        while (rest := rest[(around[rest] >= 0) & (end_ns[around[rest]] <= self._start_ns[rest])]).size:
            around[rest] = around[around[rest]]
        return around

    def _last_started(self, thread: IntArray, time_ns: IntArray) -> IntArray:
        """Return the operator that started last on each thread by each time."""
        found = np.full(len(thread), -1, dtype=np.int64)
        for number in np.unique(thread):
            first, end = np.searchsorted(self._thread, [number, number + 1])
            asked = np.flatnonzero(thread == number)
            place = np.searchsorted(self._start_ns[first:end], time_ns[asked], side="right") - 1
            found[asked] = np.where(place >= 0, self._order[first + place], -1) if end > first else -1
        return found

    def _ancestors(self, operators: IntArray) -> list[IntArray]:
        """Return the operators, those around them, those around these, until all are -1."""
        levels = [operators]
        while (outer := self.parent[levels[-1]]).max(initial=-1) >= 0:
            levels.append(outer)
        return levels
