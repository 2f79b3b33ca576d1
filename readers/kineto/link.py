"""Which call launched an activity of the GPU, which operator that call ran in, and in which step.

Events are given by their index among the document's; -1 stands for none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .decode import Document, IntArray, op_id_of
from .format import MISSING

# Operators inside each other: which was running on a thread at a time, and what it ran in.
#
# Operators are given by their index; -1 stands for none. Nothing here loops over them one by one.


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


_STEP = re.compile(r"ProfilerStep#(\d{1,18})")


@dataclass(frozen=True)
class Links:
    """What belongs to each activity of the GPU.

    Attributes
    ----------
    launch : ndarray of int64
        The call that launched it.
    operator : ndarray of int64
        The innermost operator that the launch ran in.
    op_id : ndarray of int64
        The number of that operator, `MISSING` where there is none.
    by_time : ndarray of bool
        The file names another operator for it, or none, so that the one is taken that was running at the launch.
    nesting : Nesting
        All operators.
    """

    launch: IntArray
    operator: IntArray
    op_id: IntArray
    by_time: NDArray[np.bool_]
    nesting: Nesting


def link(document: Document) -> Links:
    """Return the launch and the operator of every activity of the GPU.

    The file names the operator by `External id`; that is believed if the launch lies within that operator on its
    thread. (Traces of 2023 give launches outside of operators, and some inside, the number of their correlation.)
    """
    gpu, launches, operators = document.gpu, document.launches, document.operators
    launch = first_with(gpu.integers["correlation"], launches.integers["correlation"])
    op_end_ns = operators.start_ns + operators.duration_ns
    nesting = Nesting(operators.threads, operators.start_ns, op_end_ns)
    operator = np.full(len(gpu), -1, dtype=np.int64)
    linked = np.flatnonzero(launch >= 0)
    at = launch[linked]
    operator[linked] = nesting.running(launches.threads[at], launches.start_ns[at])

    named = _named(document, launch)
    op_id = _ids(document, operator)
    disputed = np.flatnonzero((named != MISSING) & (named != op_id))
    if disputed.size:
        other = first_with(named[disputed], _ids(document, np.arange(len(operators))))
        right = np.flatnonzero(_around(document, other, launch[disputed]))
        operator[disputed[right]] = other[right]
        op_id[disputed[right]] = named[disputed[right]]
    return Links(launch, operator, op_id, (operator >= 0) & (op_id != named), nesting)


def _ids(document: Document, operators: IntArray) -> IntArray:
    """Return the numbers of operators, `MISSING` for -1; each is read from the file only now, because few are asked."""
    distinct, place = np.unique(operators, return_inverse=True)
    raw = document.operators.raw
    ids = [MISSING if number < 0 else op_id_of(raw[number]) for number in distinct.tolist()]
    return np.array(ids, dtype=np.int64)[place]


def _around(document: Document, operator: IntArray, launch: IntArray) -> NDArray[np.bool_]:
    """Return whether each operator was running at its launch; where there is none to check it by, it is believed."""
    operators, launches = document.operators, document.launches
    around = operator >= 0
    there = np.flatnonzero(around & (launch >= 0))
    which, call = operator[there], launch[there]
    start_ns, at_ns = operators.start_ns[which], launches.start_ns[call]
    same_thread = operators.threads[which] == launches.threads[call]
    around[there] = same_thread & (start_ns <= at_ns) & (at_ns <= start_ns + operators.duration_ns[which])
    return around


def steps_of(document: Document) -> pd.DataFrame:
    """Return the profiler's steps, in the order of their start: `step`, `start_ns`, `duration_ns`."""
    annotations = document.annotations
    found = [(place, match) for place, name in enumerate(annotations.names) if (match := _STEP.fullmatch(name))]
    places = np.array([place for place, _ in found], dtype=np.int64)
    table = pd.DataFrame(
        {
            "step": np.array([int(match[1]) for _, match in found], dtype=np.int64),
            "start_ns": annotations.start_ns[places] + document.base_ns,
            "duration_ns": annotations.duration_ns[places],
        }
    )
    return table.sort_values("start_ns", kind="stable", ignore_index=True)


def step_at(steps: pd.DataFrame, time_ns: IntArray) -> IntArray:
    """Return the step that each time falls into, `MISSING` where it falls into none."""
    if not len(steps):
        return np.full(len(time_ns), MISSING, dtype=np.int64)
    starts, lengths = steps["start_ns"].to_numpy(), steps["duration_ns"].to_numpy()
    last = np.searchsorted(starts, time_ns, side="right") - 1
    inside = (last >= 0) & (time_ns < starts[last] + lengths[last])
    return np.where(inside, steps["step"].to_numpy()[last], MISSING)


def first_with(wanted: IntArray, numbers: IntArray) -> IntArray:
    """Return the first place at which each of the numbers wanted stands, -1 where it does not or is `MISSING`."""
    if not len(numbers):
        return np.full(len(wanted), -1, dtype=np.int64)
    order = np.argsort(numbers, kind="stable")
    place = order[np.minimum(np.searchsorted(numbers[order], wanted), len(numbers) - 1)]
    return np.where((numbers[place] == wanted) & (wanted != MISSING), place, -1)


def _named(document: Document, launch: IntArray) -> IntArray:
    """Return the number of the operator that the file names for each activity, itself or on its launch.

    Without a launch to check it by, one that equals the correlation is taken for that.
    """
    own, correlation = document.gpu.integers["op_id"], document.gpu.integers["correlation"]
    own = np.where((launch < 0) & (own == correlation), MISSING, own)
    of_launch = np.r_[document.launches.integers["op_id"], MISSING][launch]
    return np.where(own != MISSING, own, of_launch)
