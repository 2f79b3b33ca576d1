"""What other tools write, as layers in the words of a layer graph (`layer_graph`).

A file of PyTorch's ExecutionTraceObserver or of Chakra enters `traced_layers`: what its operators
compute by shape, what its collectives send by size. Of nested calls the outermost whose operator is
stated counts. Operators wait for each other in the order in which they were called, as on one
stream. A message goes out when what was called before it is computed, and is waited for by the next
operator that has one of its tensors among the arguments; by the next of all where the file does not
say which tensors those are. A Chakra trace in which no operator has a shape, as simulators take
them, has times: they are taken as they stand, its messages are computed anew, and what waits for
what is what the nodes say.

An ONNX model enters `onnx_layers`: every node that computes is a layer, and waits for those whose
values it needs. Nodes are taken one by one, as a runtime without fusion runs them. Views,
constants, and what is computed of constants or of sizes alone are no layers.

A trace of an MPI program (`readers.mpi_trace`: SimGrid's time-independent form, OTF2) enters
`mpi_layers`: what every rank does between its messages, with its times, and the messages, which are
computed anew. Ranks run beside each other and meet in their collectives; what follows a receive
waits for the message. A blocking message and a wait hold a rank up; a message sent in the
background goes out beside what it computes.

The input of two published planners enters `published_layers`, nodes with the times that were
measured and edges between them:

- Device placement (Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph
  Operators", NeurIPS 2020): ``fpgaLatency`` of a node on an accelerator of any kind, ``cpuLatency``
  where it is not ``supportedOnFpga``.
- Parallelism (Tarnawski et al., "Piper: Multidimensional Planner for DNN Parallelization", NeurIPS
  2021): ``TMPCs`` of a node by degree of tensor parallelism, each with its ``timePerSample``,
  forward and backward.

Neither says its unit, and published files of one form differ in it: it has to be stated. Costs of
edges count between devices only, and are not read: one device, or one group of ``tp``, computes the
graph.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from ..errors import DataError, ParameterError, counted, few
from ..evaluation.metrics import NINETY_PERCENT
from ..operators.call import Tensor
from ..operators.kinds.convolution import AXES
from ..operators.operators import OPS
from ..projection.collective_laws import collective_of
from ..readers.base import MOST_RANKS
from ..readers.execution_trace import LAUNCH, read_execution_trace
from ..readers.mpi_trace import (
    LATER,
    MESSAGE,
    RECEIVE,
    RECEIVE_LATER,
    WAIT,
    Action,
    MpiTrace,
    read_mpi_trace,
)
from ..readers.onnx_model import OnnxNode, Value, read_onnx
from ..remarks import Remark, remark, visible
from ..table.measurements import DTYPE_COLUMNS
from ..traces.activity_work import call_text, describe, describe_call
from .rank_times import COMPUTES, MEETS, RECEIVES, SENDS, RankStep

Layers = tuple[list[dict[str, Any]], list[Remark]]
NAMED: Final = 5  # operators without a law that are named
_SPEED: Final = re.compile(
    r"([0-9]{1,15}(?:\.[0-9]{1,15})?(?:[eE][0-9]{1,2})?) ?([kMGTPE]?)(?:f|flop/s)"
)
"""A speed as SimGrid writes it."""
_OPERATOR: Final = re.compile(r"\w+::\w+")
_PHASES: Final = (("autograd::engine", "backward"), ("Optimizer.step", "optimizer"))
_NO_KERNEL: Final = frozenset(
    {
        "alias",
        "as_strided",
        "chunk",
        "contiguous",
        "detach",
        "diagonal",
        "dropout",
        "empty",
        "empty_like",
        "empty_quantized",
        "empty_strided",
        "expand",
        "expand_as",
        "flatten",
        "is_same_size",
        "lift_fresh",
        "narrow",
        "new_empty",
        "new_empty_strided",
        "permute",
        "real",
        "record_stream",
        "reshape",
        "reshape_alias",
        "resize",
        "result_type",
        "select",
        "set",
        "slice",
        "split",
        "split_with_sizes",
        "squeeze",
        "t",
        "to",
        "transpose",
        "unbind",
        "unflatten",
        "unsafe_view",
        "unsqueeze",
        "view",
        "view_as",
    }
)
"""Calls that launch nothing where they call no other: views, memory, copies that were not needed, no dropout."""


def traced_layers(path: Path) -> tuple[list[dict[str, Any]], Sequence[Remark], float]:
    """Return the layers of an execution trace, the remarks, and the spread of times that are forecasts.

    Raises DataError: the file cannot be read, or holds neither an operator with a shape, nor a
    message, nor a time.
    """
    trace = read_execution_trace(path)
    nodes = trace.nodes.sort_values("id", kind="stable", ignore_index=True)
    described = describe(
        nodes.rename(columns={"name": "op_name", "inputs": "op_inputs"})[["op_name", "op_inputs"]]
    )
    shapes = _records(described)
    rows = _records(nodes)
    layers: list[dict[str, Any]] = []
    if (described["op"] == "").all() and nodes["duration_us"].notna().any():
        names = {row["id"]: f"{_short(row['name'])} {row['id']}" for row in rows}
        for row in rows:  # one without a time takes none
            after = [
                names[one]
                for one in (*row["waits"], row["parent"])
                if one in names and one != row["id"]
            ]
            if pd.isna(row["duration_us"]):
                us = 0
            else:
                us = int(row["duration_us"])
            does = (_message_of(row) if row["collective"] else None) or {"time_us": us}
            layers.append({"name": names[row["id"]], "after": after, **does})
        text = f"no operator has its shape: {len(layers):,} nodes keep their times of the trace"
        notes = [
            remark("times-of-trace", f"{text}, and messages are recomputed", layers=len(layers))
        ]
        return layers, notes, trace.spread
    tree = _Tree(nodes, described)
    computed: list[str] = []  # the last layer that computes
    sent: dict[str, set[int]] = {}  # messages that nothing has waited for yet, with their tensors
    unsized = 0
    for place in tree.outermost():
        row = rows[place]
        name = f"{_short(rows[place]['name'])} {len(layers) + 1}"
        if row["collective"]:
            message = _message_of(row)
            unsized += message is None
            if message:
                layers.append(
                    {"name": name, "phase": tree.phase(place), "after": computed, **message}
                )
                sent[name] = set(row["storages"])
            continue
        waits = [
            one for one, tensors in sent.items() if not tensors or tensors & set(row["storages"])
        ]
        for one in waits:
            del sent[one]
        described_as = shapes[place]
        sizes = {
            one: described_as[one]
            for one in ("op", *OPS[described_as["op"]].dims, *DTYPE_COLUMNS)
            if one in described_as
        }
        shape = {one: size for one, size in sizes.items() if size != "" and size == size}
        layers.append(
            {"name": name, "phase": tree.phase(place), "after": computed + waits, **shape}
        )
        computed = [name]
    unsized += sum(
        tree.owner[place] < 0 and str(row["name"]).startswith(LAUNCH)
        for place, row in enumerate(rows)
    )
    if not layers:
        raise DataError(
            "holds no operator with its shape, no message and no time: nothing to forecast"
        )
    notes = [*tree.unknown(len(layers))]
    if unsized:
        text = f"{unsized:,} messages are left out: their sizes were not recorded"
        notes.append(remark("messages-without-size", text, messages=unsized))
    return layers, notes, 0.0


def _message_of(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the collective of a row with its message; None if its size was not recorded, {} for a wait."""
    collective = collective_of(row["collective"])
    if not collective:
        return {}
    if pd.isna(row["collective_bytes"]):
        return None
    if pd.isna(row["group_size"]):
        ranks = {}
    else:
        ranks = {"ranks": int(row["group_size"])}
    return {"collective": collective, "message_bytes": int(row["collective_bytes"]), **ranks}


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as dictionaries."""
    records = []
    for row in table.to_dict("records"):
        records.append({str(name): value for name, value in row.items()})
    return records


class _Tree:
    """The nesting of calls; rows in the order in which they began."""

    def __init__(self, nodes: pd.DataFrame, described: pd.DataFrame) -> None:
        self.nodes = nodes
        place = {number: row for row, number in enumerate(nodes["id"].tolist())}
        parents = [place.get(number, -1) for number in nodes["parent"].tolist()]
        self.parent = [-1 if above == row else above for row, above in enumerate(parents)]
        self._names, self._calling = nodes["name"].tolist(), set(self.parent)
        has_work = ((described["op"] != "") | (nodes["collective"] != "")).to_numpy(dtype=bool)
        idle = [
            row not in self._calling and _plain(name) in _NO_KERNEL
            for row, name in enumerate(self._names)
        ]
        has_work = has_work & ~np.array(idle, dtype=bool)
        # the outermost recognised operator that encloses a row or is it
        owner = np.full(len(self.parent), -2, dtype=np.int64)
        for row in range(len(self.parent)):
            way = []
            above = row
            while above >= 0 and owner[above] == -2:
                owner[above] = -1  # of a circle: nothing above it
                way.append(above)
                above = self.parent[above]
            of = -1
            if above >= 0:
                of = owner[above]
            for one in reversed(way):
                if of < 0 and has_work[one]:
                    of = one
                owner[one] = of
        self.owner = owner

    def outermost(self) -> list[int]:
        """Return the outermost calls; the pieces into which Chakra cuts a call count as one."""
        is_outermost = self.owner == np.arange(len(self.owner))
        pieces = self.nodes[["rf_id", "name"]].duplicated() & self.nodes["rf_id"].notna()
        return np.flatnonzero(is_outermost & ~pieces.to_numpy(dtype=bool)).tolist()

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
        """Yield what is left out: kernels by their time if the file has them, else calls by their number."""
        on_gpu = ~self.nodes["on_cpu"].fillna(True).to_numpy(dtype=bool) & (
            self.nodes["collective"] == ""
        )
        lost = self.owner < 0
        if on_gpu.any():
            us = self.nodes["duration_us"].astype("Float64").fillna(0.0).to_numpy(dtype=float)
            rows = np.flatnonzero(on_gpu & lost).tolist()
            share = float(us[rows].sum() / max(us[on_gpu].sum(), 1.0))
            above = [self._names[self.parent[row]] if self.parent[row] >= 0 else "" for row in rows]
            launched = [
                one if _OPERATOR.match(one) else self._names[row]
                for one, row in zip(above, rows, strict=True)
            ]
            yield from left_out(launched, share, "time")
            return
        names = []
        for row in np.flatnonzero(lost).tolist():
            name = self._names[row]
            called = bool(_OPERATOR.fullmatch(name)) and not name.startswith(
                ("autograd::", "c10d::")
            )
            computes = (called and _plain(name) not in _NO_KERNEL) or self.nodes[
                "kernel_backend"
            ].iloc[row]
            if row not in self._calling and computes:
                names.append(name)
        yield from left_out(names, len(names) / max(len(names) + layers, 1), "calls")


def _plain(name: str) -> str:
    """Return an operator's name without its library and the marks of private and in-place forms."""
    return name.rpartition("::")[2].strip("_")


def left_out(names: Sequence[str], share: float, by: str) -> Iterator[Remark]:
    """Yield the operators without a law, and their share of the ``time`` or of the ``calls``."""
    if names:
        counts = Counter(names).most_common()
        named = tuple(f"{count} {_short(name)}" for name, count in counts[:NAMED])
        if len(counts) > len(named):
            others = f" and {len(counts) - len(named):,} kinds more"
        else:
            others = ""
        if by == "time":
            of = "of the time of kernels where it was recorded"
        else:
            of = "of the operators"
        listed = f"{', '.join(named)}{others}"
        text = (
            f"{len(names):,} operators without a law are left out, {100 * share:.2g} % {of}: "
            f"{listed}"
        )
        values = {
            "calls": len(names),
            "share": share,
            "by": by,
            "named": named,
            "kinds": len(counts),
        }
        yield remark("operators-without-law", text, **values)


def _short(name: str) -> str:
    """Return the short name of an operator; of a kernel the part before its templates and arguments."""
    return re.split(r"[<(]", name.removeprefix("void "), maxsplit=1)[0][:60]


Shape = dict[str, Any]
_NO_WORK: Final = frozenset(
    {
        "Constant",
        "ConstantOfShape",
        "Dropout",
        "Flatten",
        "Identity",
        "Range",
        "Reshape",
        "Shape",
        "Size",
        "Squeeze",
        "Unsqueeze",
    }
)
_ELEMENTWISE: Final = frozenset(
    {
        "Abs",
        "Add",
        "And",
        "Cast",
        "Ceil",
        "Celu",
        "Clip",
        "Cos",
        "DequantizeLinear",
        "Div",
        "Elu",
        "Equal",
        "Erf",
        "Exp",
        "FastGelu",
        "Floor",
        "Gelu",
        "Greater",
        "GreaterOrEqual",
        "HardSigmoid",
        "HardSwish",
        "IsInf",
        "IsNaN",
        "LeakyRelu",
        "Less",
        "LessOrEqual",
        "Log",
        "Max",
        "Mean",
        "Min",
        "Mish",
        "Mod",
        "Mul",
        "Neg",
        "Not",
        "Or",
        "PRelu",
        "Pow",
        "QuantizeLinear",
        "QuickGelu",
        "Reciprocal",
        "Relu",
        "Round",
        "Selu",
        "Sigmoid",
        "Sign",
        "Sin",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Sub",
        "Sum",
        "Swish",
        "Tanh",
        "ThresholdedRelu",
        "Where",
        "Xor",
    }
)
_POOLS: Final = frozenset({"AveragePool", "LpPool", "MaxPool", "Resize", "Upsample"})
"""Read their input once and write an output of another size."""
_COPIES: Final = frozenset(
    {
        "Concat",
        "DepthToSpace",
        "Expand",
        "Pad",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Tile",
        "Transpose",
    }
)
_REDUCTIONS: Final = ("Reduce", "Global", "ArgM")


@dataclass(frozen=True)
class MpiLayers:
    """The layers of all ranks, and the steps of each, which name them; the messages that wait for their receivers."""

    layers: list[dict[str, Any]]
    steps: dict[int, tuple[RankStep, ...]]
    rendezvous: frozenset[str]


def mpi_layers(
    path: Path, unit: str = "", rendezvous_bytes: int | None = None
) -> tuple[MpiLayers, list[Remark], float]:
    """Return the layers of all ranks of an MPI program's trace, the remarks, and the spread of times.

    Ranks meet in the collectives that all of them have; what follows a receive waits for the
    message. Where partners are not in the trace, the ranks may run beside each other or one after
    the other: the spread of the logarithm of their times lets a 90 % interval reach from the one to
    the other. There a rank that is not in the trace, although messages or higher numbers tell of
    it, computes as long as the busiest.

    ``unit`` is the speed by which amounts of SimGrid's traces are divided, as SimGrid was given it:
    ``120Gf``. A message of ``rendezvous_bytes`` and more begins when its receiver wants it, too.
    Raises ParameterError: the trace has amounts and no speed is stated, or it has times and one is,
    or rendezvous, as it does not say when receives began; DataError: it cannot be read, or holds no
    action.
    """
    trace = read_mpi_trace(path)
    stated = _SPEED.fullmatch(unit.strip())
    if trace.timed == bool(unit) or (unit and not stated):
        if trace.timed:
            problem = "is for traces without times, and this one has them"
        else:
            problem = (
                "must say the speed that the amounts stand for, as smpi/host-speed did: 120Gf, "
                "1e9f, "
                f"got {unit!r}"
            )
        raise ParameterError("time_unit", problem)
    if trace.timed and rendezvous_bytes is not None:
        problem = "is for SimGrid's traces: this one does not say since when receives wait"
        raise ParameterError("rendezvous_bytes", problem)
    if stated is None:
        per_us = 1e-6
    else:
        per_us = float(stated[1]) * 1000.0 ** " kMGTPE".index(stated[2] or " ") / 1e6
    if not 1e-9 < per_us < 1e15:
        raise ParameterError("time_unit", f"must be a speed above 1 kf, got {unit!r}")
    scale = 1e6
    if stated is not None:
        scale = 1 / per_us
    lost = Counter(trace.skipped)
    together = _meetings(trace)
    layers: list[dict[str, Any]] = []
    met: dict[int, dict[str, Any]] = {}  # the layer of each collective that all ranks share
    # sender, receiver and number of a message -> its layer
    sent: dict[tuple[int, int, int], str] = {}
    wanted: dict[str, list[str]] = {}  # a message -> what its receiver ends before it wants it
    alone = _sent_to_nobody(trace)  # messages whose partners are in no rank's trace
    for rank, actions in sorted(trace.ranks.items()):
        for number, action in enumerate(_numbered(rank, actions)):
            if action.kind in (MESSAGE, LATER) and action.peer >= 0:
                sent[rank, action.peer, action.place] = f"rank {rank}: {number + 1}"
    steps: dict[int, tuple[RankStep, ...]] = {}
    for rank, actions in sorted(trace.ranks.items()):
        course: list[RankStep] = []
        before: list[str] = []  # what the next one waits for
        under_way: list[str] = []
        collectives = 0
        for number, action in enumerate(_numbered(rank, actions)):
            collective = collective_of(action.collective)
            if action.kind == WAIT:
                course.append(RankStep(RECEIVES, tuple(under_way)))
                before = before + under_way
                under_way = []
                continue
            if action.kind in (RECEIVE, RECEIVE_LATER):
                message = sent.get((action.peer, rank, action.place), "")
                alone += not message
                if message:
                    arrived = [message]
                else:
                    arrived = []
                if message:
                    wanted[message] = list(before)
                if action.kind == RECEIVE:
                    course.append(RankStep(RECEIVES, tuple(arrived)))
                    before = before + arrived
                else:
                    under_way += arrived
                continue
            if action.collective and not collective:
                lost[action.collective] += 1
                continue
            name = f"rank {rank}: {number + 1}"
            shared = -1
            if collective and action.peer < 0 and action.kind == MESSAGE:
                shared = -1
                if collectives < together:
                    shared = collectives
                collectives += 1
                alone += shared < 0
            if shared in met:
                course.append(RankStep(MEETS, (met[shared]["name"],)))
                met[shared]["after"] += before
                before = [met[shared]["name"]]
                continue
            if collective:
                does = {"collective": collective, "message_bytes": action.message_bytes}
                if action.peer >= 0:
                    does["peer"] = action.peer
            else:
                does = {"time_us": action.amount * scale}
            layers.append({"name": name, "after": [*before], "rank": rank, **does})
            if shared >= 0:
                met[shared] = layers[-1]
            if action.kind == LATER:
                under_way.append(name)
                continue
            before = [name]
            kind = COMPUTES
            if collective:
                kind = SENDS
                if action.peer < 0:
                    kind = MEETS
            course.append(RankStep(kind, (name,)))
        steps[rank] = tuple(course)
    rendezvous = set()
    for layer in layers:
        if rendezvous_bytes is None or layer["name"] not in wanted:
            continue
        if layer["message_bytes"] >= rendezvous_bytes:
            rendezvous.add(layer["name"])
            layer["after"] += wanted[layer["name"]]
    if len(trace.ranks) > 1:
        of = f"{len(trace.ranks)} ranks are played together"
    else:
        of = "1 rank is played"
    code = "times-of-graph"
    times = f"its amounts are taken at {unit}"
    if trace.timed:
        code = "times-of-trace"
        times = "its times are those of the trace"
    notes = [remark(code, f"{of}; {times}, and messages are recomputed", ranks=len(trace.ranks))]
    if alone:
        text = (
            f"{counted(alone, 'message')} whose partners are not in the trace: what waits for "
            "them is unknown"
        )
        notes.append(remark("messages-unmatched", text, messages=alone))
    missing = _missing_ranks(trace)
    if missing:
        text = (
            f"{counted(missing, 'rank')} without an action in the trace: what waits for them is "
            "unknown"
        )
        notes.append(remark("ranks-missing", text, ranks=missing))
    busy = []
    for of_rank in trace.ranks.values():
        busy.append(sum(one.amount for one in of_rank))
    longest = max(busy)
    apart = (alone or missing) and longest > 0
    if apart:
        spread = float(np.log(sum(busy) / longest + missing) / NINETY_PERCENT)
    else:
        spread = 0.0
    if lost:
        listed = few(f"{count} {visible(name)[:40]}" for name, count in lost.most_common())
        notes.append(
            remark(
                "actions-left-out",
                f"actions without a law are left out: {listed}",
                actions=lost.total(),
            )
        )
    return MpiLayers(layers, steps, frozenset(rendezvous)), notes, spread


def _sent_to_nobody(trace: MpiTrace) -> int:
    """Return the number of messages that no receiver takes; a rank that names no senders takes any."""
    received: Counter[tuple[int, int]] = Counter()
    for rank, actions in trace.ranks.items():
        received.update((one.peer, rank) for one in actions if one.kind in (RECEIVE, RECEIVE_LATER))
    sent: Counter[tuple[int, int]] = Counter()
    for rank, actions in trace.ranks.items():
        sent.update(
            (rank, one.peer) for one in actions if one.kind in (MESSAGE, LATER) and one.peer >= 0
        )
    unnamed = {receiver for sender, receiver in received if sender < 0}
    kept = {way: count for way, count in sent.items() if way[1] not in unnamed}
    return sum(max(count - received[way], 0) for way, count in kept.items())


def _missing_ranks(trace: MpiTrace) -> int:
    """Return the number of ranks without actions that messages, or higher rank numbers, imply."""
    present = {rank for rank, actions in trace.ranks.items() if actions and rank < MOST_RANKS}
    named = set()
    for actions in trace.ranks.values():
        for one in actions:
            if 0 <= one.peer < MOST_RANKS:
                named.add(one.peer)
    return max(present | named, default=-1) + 1 - len(present)


def _meetings(trace: MpiTrace) -> int:
    """Return the number of leading collectives that all ranks share by name: they meet in them."""
    names = []
    for actions in trace.ranks.values():
        names.append(
            [
                one.collective
                for one in actions
                if one.kind == MESSAGE and one.peer < 0 and collective_of(one.collective)
            ]
        )
    shared = 0
    for each in zip(*names, strict=False):
        if len(set(each)) > 1:
            break
        shared += 1
    return shared


@dataclass(frozen=True)
class _Placed:
    """An action, and the index of its message among those between its rank and its peer."""

    kind: str
    amount: float
    collective: str
    message_bytes: float
    peer: int
    place: int


def _numbered(rank: int, actions: Sequence[Action]) -> Iterator[_Placed]:
    """Yield the actions of a rank with the index of each message among those in its direction and with its peer."""
    places: Counter[tuple[bool, int]] = Counter()
    for one in actions:
        way = one.kind in (RECEIVE, RECEIVE_LATER), one.peer
        yield _Placed(
            one.kind, one.amount, one.collective, one.message_bytes, one.peer, places[way]
        )
        if one.peer >= 0:
            places[way] += 1


def onnx_layers(path: Path, dims: Mapping[str, int] | None = None) -> Layers:
    """Return the layers of a model, and the remarks; ``dims`` are the sizes that it leaves free.

    Raises FlopcastError: the model cannot be read (`readers.onnx_model.read_onnx`), or has no node
    that computes.
    """
    model = read_onnx(path, dims)
    constant = set(model.constants)
    made_by: dict[str, tuple[str, ...]] = {}  # the layers that a value waits for
    layers: list[dict[str, Any]] = []
    names: set[str] = set()
    unknown: list[str] = []
    for place, node in enumerate(model.nodes, start=1):
        producers = chain.from_iterable(made_by.get(name, ()) for name in node.inputs)
        waits = tuple(dict.fromkeys(producers))
        if constant.issuperset(filter(None, node.inputs)):
            constant.update(node.outputs)
        elif node.op not in _NO_WORK and not constant.issuperset(node.outputs):
            shape = _shape(node, model.values)
            if shape:
                if node.name and node.name not in names:
                    name = node.name
                else:
                    name = f"{node.op} {place}"
                names.add(name)
                layers.append({"name": name, "after": list(waits), **shape})
                waits = (name,)
            else:
                unknown.append(node.op)
        made_by.update(dict.fromkeys(node.outputs, waits))
    if not layers:
        raise DataError("holds no node that computes and has a shape", source=str(path))
    return layers, list(left_out(unknown, len(unknown) / (len(unknown) + len(layers)), "calls"))


def _shape(node: OnnxNode, values: Mapping[str, Value]) -> Shape:
    """Return operator, dimensions and number formats; none where the operator or a shape is unknown."""
    inputs = [values.get(name) if name else None for name in node.inputs]
    output = next((values[name] for name in node.outputs if name in values), None)
    first = None
    if inputs:
        first = inputs[0]
    if first is None or output is None or not first.dtype or 0 in (*first.dims, *output.dims):
        return {}
    present = [one for one in inputs if one is not None]
    try:
        if node.op in _ELEMENTWISE or node.op in _POOLS:
            if node.op not in _POOLS:
                operands = [one for one in present if prod(one.dims) > 1]
            else:
                operands = present[:1]
            sizes = [prod(one.dims) for one in operands] or [1]
            shape = _rows("elementwise", output.dims)
            shape |= {"inputs": len(sizes), "elements_a": sizes[0], "elements_b": sum(sizes[1:])}
            if len(operands) > 1:
                shape |= {"dtype_b": operands[1].dtype}
            else:
                shape |= {}
        elif node.op in _COPIES:
            shape = _rows("copy", present[0].dims if node.op == "Split" else output.dims)
        elif node.op.startswith(_REDUCTIONS):
            shape = _rows("reduction", present[0].dims, prod(present[0].dims) // prod(output.dims))
        elif node.op in _READ:
            shape = _READ[node.op](node, present, output)
        else:
            return {}
    except (
        IndexError,
        TypeError,
        ValueError,
        ZeroDivisionError,
    ):  # fewer inputs or sizes than the operator has
        return {}
    formats = {"dtype_a": first.dtype, "dtype_out": output.dtype}
    if shape:
        return {name: value for name, value in {**formats, **shape}.items() if value != ""}
    return {}


def _rows(op: str, dims: tuple[int, ...], cols: int | None = None) -> Shape:
    """Return an operator on the elements of a tensor, in rows of the last axis unless stated."""
    along = cols or (dims[-1] if dims else 1)
    return {"op": op, "rows": prod(dims) // along, "cols": along}


def _gather(node: OnnxNode, inputs: list[Value], output: Value) -> Shape:
    data, indices = inputs[:2]
    return {
        **_rows("gather", output.dims, prod(data.dims[_axis(node, data, 0) + 1 :])),
        "dtype_b": indices.dtype,
    }


def _matmul(node: OnnxNode, inputs: list[Value], output: Value) -> Shape:
    return _product("aten::matmul", [_tensor(one) for one in inputs[:2]])


def _gemm(node: OnnxNode, inputs: list[Value], output: Value) -> Shape:
    turned = [node.attributes.get(name, 0) for name in ("transA", "transB")]
    pairs = zip(inputs[:2], turned, strict=True)
    a, b = (Tensor(one.dims[::-1] if turn else one.dims, one.dtype) for one, turn in pairs)
    if len(inputs) > 2:
        return _product("aten::addmm", [_tensor(inputs[2]), a, b, "1"])
    return _product("aten::mm", [a, b])


def _product(name: str, arguments: list[Tensor | str | None]) -> Shape:
    described = describe_call(name, call_text(arguments))
    return {
        one: described[one]
        for one in ("op", "m", "n", "k", "batch", *DTYPE_COLUMNS)
        if one in described
    }


def _tensor(value: Value) -> Tensor:
    return Tensor(value.dims, value.dtype)


def _conv(node: OnnxNode, inputs: list[Value], output: Value) -> Shape:
    """Return a convolution; a transposed one is the backward pass by data of that from its result to its input."""
    weights = inputs[1].dims
    turned = node.op == "ConvTranspose"
    if turned:
        near = output.dims
        far = inputs[0].dims
    else:
        near = inputs[0].dims
        far = output.dims
    axes = len(weights) - 2
    sides = {
        "in": near[2:],
        "out": far[2:],
        "fil": weights[2:],
        "stride": node.attributes.get("strides", [1] * axes),
        "dil": node.attributes.get("dilations", [1] * axes),
        "pad": node.attributes.get("pads", [0] * axes)[:axes],
    }
    if turned:
        direction = "B"
    else:
        direction = "F"
    shape = {
        "op": "conv",
        "direction": direction,
        "batch": near[0],
        "dtype_b": inputs[1].dtype,
    }
    shape |= {
        "in_channels": near[1],
        "out_channels": far[1],
        "groups": node.attributes.get("group", 1),
    }
    shape |= {"in_h": 1, "out_h": 1, "fil_h": 1}
    for side, sizes in sides.items():
        shape |= {
            f"{side}_{axis}": int(size) for axis, size in zip(AXES[3 - axes :], sizes, strict=True)
        }
    return shape


def _attention(node: OnnxNode, inputs: list[Value], output: Value) -> Shape:
    """Return the attention of opset 23: [batch, heads, sequence, dim], or [batch, sequence, heads · dim]."""
    q, k, v = (one.dims for one in inputs[:3])
    heads, kv_heads = (node.attributes.get(name, 0) for name in ("q_num_heads", "kv_num_heads"))
    if len(q) == 3:
        q, k, v = (
            (one[0], count, one[1], one[2] // count)
            for one, count in zip((q, k, v), (heads, kv_heads, kv_heads), strict=True)
        )
    return {
        "op": "attention",
        "batch": q[0],
        "heads": q[1],
        "kv_heads": k[1],
        "seq_q": q[2],
        "seq_kv": k[2],
        "head_dim": q[3],
        "head_dim_v": v[3],
        "causal": node.attributes.get("is_causal", 0),
    }


def _normalised(op: str, default: int = -1) -> Callable[[OnnxNode, list[Value], Value], Shape]:
    """Return a reader of normalisations over the axes from ``axis`` on."""

    def read(node: OnnxNode, inputs: list[Value], output: Value) -> Shape:
        return _rows(op, output.dims, prod(output.dims[_axis(node, output, default) :]))

    return read


def _softmax(node: OnnxNode, inputs: list[Value], output: Value) -> Shape:
    return _rows("softmax", output.dims, output.dims[_axis(node, output, -1)])


def _batch_norm(node: OnnxNode, inputs: list[Value], output: Value) -> Shape:
    if node.attributes.get("training_mode"):
        op = "batch_norm"
    else:
        op = "batch_norm_inference"
    return _rows(op, output.dims, prod(output.dims) // output.dims[1])


def _group_norm(node: OnnxNode, inputs: list[Value], output: Value) -> Shape:
    groups = node.attributes.get("num_groups", output.dims[1])
    return _rows("group_norm", output.dims, prod(output.dims[1:]) // groups)


def _axis(node: OnnxNode, value: Value, default: int) -> int:
    axis = node.attributes.get("axis", default)
    return int(axis + len(value.dims) if axis < 0 else axis)


_READ: Final[Mapping[str, Callable[[OnnxNode, list[Value], Value], Shape]]] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "ConvTranspose": _conv,
    "Attention": _attention,
    "Gather": _gather,
    "LayerNormalization": _normalised("layer_norm"),
    "RMSNormalization": _normalised("rms_norm"),
    "SimplifiedLayerNormalization": _normalised("rms_norm"),
    "BatchNormalization": _batch_norm,
    "InstanceNormalization": _group_norm,
    "GroupNormalization": _group_norm,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
}
UNITS: Final = ("us", "ms", "s")


def published_layers(content: Mapping[str, Any], unit: str, tp: int = 1) -> Layers:
    """Return the layers of a graph whose times are in ``unit`` (us, ms or s), and the remarks.

    ``tp`` chooses among the times of the second form; of several of that degree a node runs as the
    fastest. Raises ParameterError: the unit is missing or unknown, or the graph has no times for
    this ``tp``; DataError: a node or an edge lacks what it needs; the node is named.

    >>> nodes = [{"id": 0, "fpgaLatency": 1.5}, {"id": 1, "fpgaLatency": 2}]
    >>> layers, notes = published_layers({"nodes": nodes, "edges": [{"sourceId": 0, "destId": 1}]}, "ms")
    >>> [(one["name"], one["time_ms"], one["after"]) for one in layers]
    [('node 0', 1.5, []), ('node 1', 2, ['node 0'])]
    """
    if unit not in UNITS:
        if unit:
            stated = f"got {unit!r}"
        else:
            stated = "the file does not say it"
        raise ParameterError(
            "time_unit",
            f"must say what the times of the graph are in, {', '.join(UNITS)}: {stated}",
        )
    nodes = content["nodes"]
    edges = content.get("edges")
    if not isinstance(edges, list) or not all(isinstance(one, dict) for one in [*nodes, *edges]):
        raise DataError("nodes and edges must be lists of objects")
    piper = "TMPCs" in nodes[0]
    if tp != 1 and not piper:
        raise ParameterError("tp", "is for graphs with times by degree (TMPCs), this one has none")
    ids = [node.get("id") for node in nodes]
    for one, count in Counter(map(str, ids)).items():
        if count > 1:
            raise DataError(f"{count} nodes have the id {visible(one)[:40]}")
    if not all(isinstance(one, int) for one in ids):
        raise DataError("every node must have a whole number as its id")
    called = {str(node["id"]): visible(str(node.get("name") or "node")) for node in nodes}
    counts = Counter(called.values())  # where several have a name, the id tells them apart
    names = {
        one: name if counts[name] == 1 and name != "node" else f"{name} {one}"
        for one, name in called.items()
    }
    layers: list[dict[str, Any]] = []
    on_cpu: list[str] = []
    for node in nodes:
        name = names[str(node["id"])]
        computes = bool(node.get("supportedOnFpga", True))
        if not computes:
            on_cpu.append(name)
        if piper:
            time = _by_degree(node, tp, name)
        else:
            time = node.get("fpgaLatency" if computes else "cpuLatency")
        if time is None:
            raise DataError(f"node {name!r} has no time")
        phase = ""
        if node.get("isBackwardNode"):
            phase = "backward"
        layers.append({"name": name, "after": [], "phase": phase, f"time_{unit}": time})
    waits = {layer["name"]: layer["after"] for layer in layers}
    for edge in edges:
        ends = [names.get(str(edge.get(key))) for key in ("sourceId", "destId")]
        if None in ends:
            source, target = (repr(edge.get(key))[:40] for key in ("sourceId", "destId"))
            raise DataError(f"an edge leads from {source} to {target}: no such node")
        waits[ends[1]].append(ends[0])
    text = (
        f"the times of {len(layers):,} layers are those that the graph states, in {unit}, of the "
        "device on which they "
        "were measured; costs of edges count between devices only"
    )
    notes = [remark("times-of-graph", text, layers=len(layers), unit=unit)]
    if on_cpu:
        text = (
            f"{len(on_cpu):,} layers run on the CPU only: their times there are added in sequence "
            "with the others"
        )
        notes.append(remark("layers-of-cpu", text, layers=len(on_cpu)))
    return layers, notes


def _by_degree(node: Mapping[str, Any], tp: int, name: str) -> float:
    offered = node.get("TMPCs")
    if not isinstance(offered, dict) or not all(
        isinstance(one, list) and one for one in offered.values()
    ):
        raise DataError(f"node {name!r}: TMPCs must hold lists by degree")
    if str(tp) not in offered:
        raise ParameterError(
            "tp", f"must be one of {', '.join(offered)}, for which {name!r} has times, got {tp}"
        )
    stated = [
        one.get("timePerSample") if isinstance(one, dict) else None for one in offered[str(tp)]
    ]
    times = [time for time in stated if isinstance(time, int | float)]
    if len(times) < len(stated):
        raise DataError(f"node {name!r}: timePerSample must be a number")
    return min(times)
