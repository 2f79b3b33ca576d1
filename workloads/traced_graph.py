"""An execution trace as a workload: what its operators compute by shape, what its collectives send by size.

A file of PyTorch's ExecutionTraceObserver or of Chakra enters `traced_layers`; layers in the words of a layer graph
leave (`layer_graph`). Of nested calls the outermost whose operator is known counts. Operators wait for each other in
the order in which they were called, as on one stream. A message goes out when what was called before it is computed,
and is waited for by the next operator that has one of its tensors among the arguments; by the next of all where the
file does not say which tensors those are.

A Chakra trace in which no operator has a shape, as simulators take them, has times: they are taken as they stand, its
collectives are reckoned anew, and what waits for what is what the nodes say.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from ..errors import DataError
from ..operators.operators import OPS
from ..projection.alpha_beta import collective_of
from ..readers.execution_trace.execution_trace_reader import read_execution_trace
from ..remarks import Remark, remark
from ..traces.activity_work import DTYPES_OF, describe

Layers = tuple[list[dict[str, Any]], list[Remark]]

NAMED: Final = 5
"""Operators without a law that are named."""
_OPERATOR: Final = re.compile(r"\w+::\w+")
_PHASES: Final = (("autograd::engine", "backward"), ("Optimizer.step", "optimizer"))
_LAUNCH: Final = "nccl:"
_NO_WORK: Final = frozenset(
    {
        "alias", "as_strided", "chunk", "contiguous", "detach", "diagonal", "dropout", "empty", "empty_like",
        "empty_quantized", "empty_strided", "expand", "expand_as", "flatten", "is_same_size", "lift_fresh", "narrow",
        "new_empty", "new_empty_strided", "permute", "real", "record_stream", "reshape", "reshape_alias", "resize",
        "result_type", "select", "set", "slice", "split", "split_with_sizes", "squeeze", "t", "to", "transpose",
        "unbind", "unflatten", "unsafe_view", "unsqueeze", "view", "view_as",
    }
)  # fmt: skip
"""Calls that launch nothing where they call no other: views, memory, copies that were not needed, no dropout."""


def traced_layers(path: Path) -> Layers:
    """Return the layers of an execution trace, and what is to be said of them.

    Raises
    ------
    DataError
        The file cannot be read, or holds neither an operator with a shape, nor a message, nor a time.
    """
    nodes = read_execution_trace(path).nodes.sort_values("id", kind="stable", ignore_index=True)
    described = describe(nodes.rename(columns={"name": "op_name", "inputs": "op_inputs"})[["op_name", "op_inputs"]])
    timed = (described["op"] == "").all() and nodes["duration_us"].notna().any()
    layers, notes = _by_time(nodes) if timed else _by_shape(nodes, described)
    if not layers:
        raise DataError("holds no operator with its shape, no message and no time: nothing to forecast")
    return layers, notes


def _by_shape(nodes: pd.DataFrame, described: pd.DataFrame) -> Layers:
    tree = _Tree(nodes, described)
    shapes, rows = _records(described), _records(nodes)
    layers: list[dict[str, Any]] = []
    computed: list[str] = []  # the last layer that computes
    sent: dict[str, set[int]] = {}  # messages that nothing has waited for yet, with their tensors
    unsized = 0
    for place in tree.outermost():
        row, name = rows[place], f"{_short(rows[place]['name'])} {len(layers) + 1}"
        if row["collective"]:
            message = _message(row)
            unsized += message is None
            if message:
                layers.append({"name": name, "phase": tree.phase(place), "after": computed, **message})
                sent[name] = set(row["storages"])
            continue
        waits = [one for one, tensors in sent.items() if not tensors or tensors & set(row["storages"])]
        for one in waits:
            del sent[one]
        layers.append({"name": name, "phase": tree.phase(place), "after": computed + waits, **_shape(shapes[place])})
        computed = [name]
    unsized += sum(tree.owner[place] < 0 and str(row["name"]).startswith(_LAUNCH) for place, row in enumerate(rows))
    notes = [*tree.unknown(len(layers))]
    if unsized:
        notes.append(
            remark(
                "messages-without-size",
                f"{unsized:,} messages are left out: their sizes were not recorded",
                messages=unsized,
            )
        )
    return layers, notes


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


def _shape(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return operator, dimensions and number formats, without what was not recorded."""
    names = (*OPS[found["op"]].dims, *DTYPES_OF)
    sizes = {name: found[name] for name in names if name in found}
    return {"op": found["op"], **{name: size for name, size in sizes.items() if size != "" and size == size}}


def _message(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the collective of a row with its message; None where its size was not recorded, {} for none (a wait)."""
    collective = collective_of(row["collective"])
    if not collective:
        return {}
    if pd.isna(row["collective_bytes"]):
        return None
    ranks = {} if pd.isna(row["group_size"]) else {"ranks": int(row["group_size"])}
    return {"collective": collective, "message_bytes": int(row["collective_bytes"]), **ranks}


class _Tree:
    """Which call encloses which; rows in the order in which they began."""

    def __init__(self, nodes: pd.DataFrame, described: pd.DataFrame) -> None:
        self.nodes = nodes
        place = {number: row for row, number in enumerate(nodes["id"].tolist())}
        parents = [place.get(number, -1) for number in nodes["parent"].tolist()]
        self.parent = [-1 if above == row else above for row, above in enumerate(parents)]
        self._names, self._calling = nodes["name"].tolist(), set(self.parent)
        known = ((described["op"] != "") | (nodes["collective"] != "")).to_numpy(dtype=bool)
        idle = [row not in self._calling and _plain(name) in _NO_WORK for row, name in enumerate(self._names)]
        self.owner = _owners(self.parent, known & ~np.array(idle, dtype=bool))

    def outermost(self) -> list[int]:
        """Return the calls that count; the pieces into which Chakra cuts one are one."""
        own = self.owner == np.arange(len(self.owner))
        pieces = self.nodes[["rf_id", "name"]].duplicated() & self.nodes["rf_id"].notna()
        return np.flatnonzero(own & ~pieces.to_numpy(dtype=bool)).tolist()

    def phase(self, place: int) -> str:
        """Return the part of a training step that a call belongs to, "forward" for all others."""
        for _ in range(len(self.parent)):
            for beginning, phase in _PHASES:
                if self._names[place].startswith(beginning):
                    return phase
            place = self.parent[place]
            if place < 0:
                break
        return "forward"

    def unknown(self, layers: int) -> Iterator[Remark]:
        """Yield what is left out: kernels by their time where the file has them, else calls by their number."""
        on_gpu = ~self.nodes["on_cpu"].fillna(True).to_numpy(dtype=bool) & (self.nodes["collective"] == "")
        lost = self.owner < 0
        if on_gpu.any():
            us = self.nodes["duration_us"].astype("Float64").fillna(0.0).to_numpy(dtype=float)
            rows = np.flatnonzero(on_gpu & lost).tolist()
            share = float(us[rows].sum() / max(us[on_gpu].sum(), 1.0))
            yield from left_out([self._caller(row) for row in rows], share, "time")
            return
        leaves = (row for row in np.flatnonzero(lost).tolist() if row not in self._calling and self._computes(row))
        names = [self._names[row] for row in leaves]
        yield from left_out(names, len(names) / max(len(names) + layers, 1), "calls")

    def _caller(self, row: int) -> str:
        """Return the operator that launched a kernel, the kernel's own name where there is none."""
        above = self._names[self.parent[row]] if self.parent[row] >= 0 else ""
        return above if _OPERATOR.match(above) else self._names[row]

    def _computes(self, row: int) -> bool:
        name = self._names[row]
        called = bool(_OPERATOR.fullmatch(name)) and not name.startswith(("autograd::", "c10d::"))
        return (called and _plain(name) not in _NO_WORK) or bool(self.nodes["kernel_backend"].iloc[row])


def _plain(name: str) -> str:
    """Return an operator's name without its library and the marks of private and in-place forms."""
    return name.rpartition("::")[2].strip("_")


def _owners(parent: Sequence[int], known: np.ndarray) -> np.ndarray:
    """Return for each row the outermost known one that encloses it or is it, -1 for none."""
    found = np.full(len(parent), -2, dtype=np.int64)
    for row in range(len(parent)):
        way = []
        above = row
        while above >= 0 and found[above] == -2:
            found[above] = -1  # of a circle: nothing above it
            way.append(above)
            above = parent[above]
        owner = found[above] if above >= 0 else -1
        for one in reversed(way):
            owner = owner if owner >= 0 else one if known[one] else -1
            found[one] = owner
    return found


def left_out(names: Sequence[str], share: float, by: str) -> Iterator[Remark]:
    """Yield which operators have no law, and what share of all they are: of ``time`` or of ``calls``."""
    if names:
        counts = Counter(names).most_common()
        named = tuple(f"{count} {_short(name)}" for name, count in counts[:NAMED])
        others = f" and {len(counts) - len(named):,} kinds more" if len(counts) > len(named) else ""
        of = "of the time of kernels where it was recorded" if by == "time" else "of the operators"
        listed = f"{', '.join(named)}{others}"
        text = f"{len(names):,} operators without a law are left out, {100 * share:.2g} % {of}: {listed}"
        values = {"calls": len(names), "share": share, "by": by, "named": named, "kinds": len(counts)}
        yield remark("operators-without-law", text, **values)


def _short(name: str) -> str:
    """Return the name of an operator, of a kernel what stands before its templates and arguments."""
    return re.split(r"[<(]", name.removeprefix("void "), maxsplit=1)[0][:60]


def _by_time(nodes: pd.DataFrame) -> Layers:
    """Return every node with its time; where it has none it takes none."""
    rows = _records(nodes)
    names = {row["id"]: f"{_short(row['name'])} {row['id']}" for row in rows}
    layers = []
    for row in rows:
        waits = [names[one] for one in (*row["waits"], row["parent"]) if one in names and one != row["id"]]
        us = 0 if pd.isna(row["duration_us"]) else int(row["duration_us"])
        does = (_message(row) if row["collective"] else None) or {"time_us": us}
        layers.append({"name": names[row["id"]], "after": waits, **does})
    return layers, [
        remark(
            "times-of-trace",
            f"no operator has its shape: {len(layers):,} nodes keep their times of the trace, and "
            "messages are recomputed",
            layers=len(layers),
        )
    ]
