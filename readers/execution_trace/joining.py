"""Arguments of operator calls from an execution trace, put beside the kernels of a profiler's trace of the same run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ...remarks import Remark, remark
from ...table.measurements import as_text
from ...traces.dispatches import KERNEL, Finding, Trace
from .nodes import ExecutionTrace

SAME_RUN = 0.95
"""Share of the calls found in both, by number, that must bear the same name: 1 where the numbers correspond; up to 0.24
was seen where they do not, as networks repeat their layers."""
OTHER_RUN = "execution-trace-other-run"
#: Kernels of NCCL and RCCL ("ncclDevKernel_Generic", "ncclKernel_AllReduce_RING", "mscclKernel_Sum"): copies that an
#: operator makes beside its collective have none of its bytes.
_COLLECTIVE_KERNEL = r"(?i)(?:nccl|rccl|msccl)"


@dataclass(frozen=True)
class JoinReport:
    """How a trace and an execution trace fit each other.

    Attributes
    ----------
    joined : bool
        Whether they are of one run.
    calls : int
        Operator calls found in both by their number.
    agreeing : int
        Those of them that have the same name in both.
    filled : int
        Activities of the GPU that got arguments or a collective.
    same_process : bool or None
        Whether the process is the same; None where one of the files does not say.
    finding : Finding or None
        Why they were not joined.
    """

    joined: bool
    calls: int
    agreeing: int
    filled: int
    same_process: bool | None
    finding: Finding | None = None


def join(trace: Trace, other: ExecutionTrace) -> tuple[Trace, JoinReport]:
    """Return the trace with what the execution trace knows of its operator calls.

    Calls are the same where `op_id` equals `rf_id` and the operator has the same name. The profiler writes that number
    as "Record function id" (seen in 2024, not in 2023). Its "External id" equals it only in short runs, up to 512
    calls of the first thread: these ids are given out to threads in blocks. A pair that has no more than them, and is
    longer, is not joined.

    Parameters
    ----------
    trace : Trace
        A PyTorch profiler's trace.
    other : ExecutionTrace
        What the observer recorded, of the same run or not.

    Returns
    -------
    trace : Trace
        With `op_inputs`, `collective`, `collective_bytes` and `group_size` filled where they were missing, nothing
        replaced, and a note; or the same dispatches with the finding `execution-trace-other-run`, if the process is
        another one or less than `SAME_RUN` of the calls found in both agree.
    report : JoinReport
        What was found.
    """
    table = trace.dispatches
    calls = _calls(other.nodes)
    same_process = _same_process(table["process"], other.pid)
    place = _places(table, calls, other.pid)
    agrees = (place >= 0) & (_taken(calls["name"], place) == as_text(table["op_name"]).to_numpy(dtype=object))
    shared, agreeing = (table["op_id"][rows].nunique() for rows in (place >= 0, agrees))
    problem = _problem(same_process, shared, agreeing)
    if problem:
        finding = Finding(problem, "warning", 1, source=other.source)
        report = JoinReport(False, shared, agreeing, 0, same_process, finding)
        return replace(trace, findings=(*trace.findings, finding)), report
    place[~agrees] = -1
    columns, filled = _filled(table, calls, place)
    note = remark("execution-trace-joined", trace=other.source, filled=filled, agreeing=agreeing, calls=shared)
    joined = replace(trace, dispatches=table.assign(**columns), notes=(*trace.notes, *other.notes, note))
    return joined, JoinReport(True, shared, agreeing, filled, same_process)


def _calls(nodes: pd.DataFrame) -> pd.DataFrame:
    """Return one row per number of a call; a number under which there are different operators is left out."""
    named = nodes[nodes["rf_id"].notna()].drop_duplicates(["rf_id", "name"])
    single = named[~named["rf_id"].duplicated(keep=False)]
    return single.set_index(single["rf_id"].astype(np.int64))


def _same_process(processes: pd.Series, pid: int | None) -> bool | None:
    known = processes.dropna()
    return None if pid is None or known.empty else bool((known == pid).any())


def _places(table: pd.DataFrame, calls: pd.DataFrame, pid: int | None) -> np.ndarray:
    """Return the position among the calls of the one that each activity belongs to, -1 where there is none."""
    place = calls.index.get_indexer(pd.Index(table["op_id"].fillna(0).to_numpy(dtype=np.int64)))
    if pid is not None:
        place[(table["process"] != pid).fillna(False).to_numpy(dtype=bool)] = -1
    return place


def _taken(column: pd.Series, place: np.ndarray) -> np.ndarray:
    """Return the value at each place, None at -1."""
    return np.array([*column, None], dtype=object)[place]


def _problem(same_process: bool | None, shared: int, agreeing: int) -> Remark | None:
    """Return why the two are not of one run, None if they are."""
    if same_process is False:
        return remark(OTHER_RUN, why="process")
    if not shared:
        return remark(OTHER_RUN, why="no calls")
    if agreeing < SAME_RUN * shared:
        return remark(OTHER_RUN, why="names", agreeing=agreeing, calls=shared)
    return None


def _filled(table: pd.DataFrame, calls: pd.DataFrame, place: np.ndarray) -> tuple[dict[str, pd.Series], int]:
    """Return the columns with what was missing in them, and in how many rows something was."""
    inputs, got = _words(table["op_inputs"], _taken(calls["inputs"], place))
    kernels = (table["kind"] == KERNEL) & as_text(table["name"]).str.contains(_COLLECTIVE_KERNEL)
    there = np.where(kernels.to_numpy(dtype=bool), place, -1)
    names, named = _words(table["collective"], _taken(calls["collective"], there))
    there = np.where(as_text(names).to_numpy(dtype=object) == _taken(calls["collective"], there), there, -1)
    columns, touched = {"op_inputs": inputs, "collective": names}, got | named
    for name in ("collective_bytes", "group_size"):
        known = pd.Series(_taken(calls[name], there), index=table.index).astype("Int64")
        touched |= (table[name].isna() & known.notna()).to_numpy(dtype=bool)
        columns[name] = table[name].fillna(known)
    return columns, int(touched.sum())


def _words(column: pd.Series, found: np.ndarray) -> tuple[pd.Series, np.ndarray]:
    """Return the column with the words found where it had none, and where that was."""
    own = as_text(column)
    missing = (own == "").to_numpy(dtype=bool) & np.array([bool(word) for word in found], dtype=bool)
    words = own.mask(missing, pd.Series(found, index=own.index).astype("str"))
    return (words.astype("category") if isinstance(column.dtype, pd.CategoricalDtype) else words), missing
