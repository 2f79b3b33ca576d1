"""A workload of the user: a list of operators, or a graph of layers that wait for each other.

A JSON object with a list ``layers``, a CSV with a row per layer, an execution trace, a trace of an
MPI program, an ONNX model or the input of a planner (`graph_files`) enters `read_layers`; a
`LayerGraph` leaves, in an order in which every layer stands behind those it waits for. A layer has
what it computes (an operator with its dimensions and ``dtype``, or a stated time), a message with
its collective, or both: the message goes out when the computing is done. Its keys are ``name``,
``after`` (names; where no layer has it each waits for the one before), ``count`` (times that it
runs), ``phase``, ``op`` with dimensions as ``flopcast schema`` names them, or ``time_us``
(``time_ms``, ``time_s``); ``collective``, ``message_bytes``, ``ranks``, and ``rank`` where several
run beside each other, with the ``peer`` that a send_recv goes to. ``dims`` may hold all dimensions
in one field: ``m=64 n=1280 k=8192``.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from graphlib import CycleError, TopologicalSorter
from os.path import isfile  # False of a name too long to be one, where Path.is_file raises
from pathlib import Path
from typing import Any, Final

from ..errors import DataError, ParameterError, check_plain_file, nearest
from ..hardware import GPU, Network, find
from ..hardware.networks import NODE_GPUS
from ..operators.operators import OPS, canonical_op, nearest_op
from ..operators.work import canonical_dtype
from ..projection.collective_laws import COLLECTIVES, ONE_NODE, SEND_RECV, collective_of
from ..remarks import Remark, visible
from ..table.measurements import DTYPE_COLUMNS, LARGEST
from ..values import size
from .congestion import CONGESTIONS, FAIR, NONE
from .quantities import MILLISECONDS, quantity
from .rank_times import RankStep
from .setting import stated_of, understood

_US: Final = {"time_us": 1.0, "time_ms": 1e3, "time_s": 1e6}
_OTHER_NAMES: Final = {
    **dict.fromkeys(("operator", "operation"), "op"),
    **dict.fromkeys(("layer", "id"), "name"),
    **dict.fromkeys(("depends_on", "dependencies", "deps"), "after"),
    **dict.fromkeys(("dtype", "precision"), "dtype_a"),
    **dict.fromkeys(("bytes", "message"), "message_bytes"),
}
_KEYS: Final = (
    "name",
    "after",
    "op",
    "count",
    "phase",
    "collective",
    "message_bytes",
    "ranks",
    "rank",
    "peer",
    *_US,
)
_TEXTS: Final = (*DTYPE_COLUMNS, "variant", "layout", "direction", "scale_block")
MOST: Final = 20_000  # layers of a graph


@dataclass(frozen=True, kw_only=True)
class LayerOfGraph:
    """One layer: ``stated_us``, or ``op`` with its ``sizes``, is computed; ``collective`` is sent afterwards.

    ``after`` are the positions of the layers it waits for, ``count`` how often it runs; ``ranks`` 0
    means all GPUs. ``rank`` is the one it runs on: ranks run beside each other. ``peer`` is the
    rank that a send_recv goes to, -1 where that is unknown.
    """

    name: str
    after: tuple[int, ...]
    count: int = 1
    phase: str = ""
    op: str = ""
    sizes: Mapping[str, Any] = field(default_factory=dict)
    stated_us: float | None = None
    collective: str = ""
    message_bytes: float = 0.0
    ranks: int = 0
    rank: int = 0
    peer: int = -1


@dataclass(frozen=True)
class LayerGraph:
    """Layers in topological order; ``chained`` if each waits for the one before it by default.

    ``remarks`` say what the file held that no layer stands for; ``spread`` is that of the log of
    stated times: those that another forecast made, or of ranks of which some wait for messages
    nobody is seen to send. ``steps`` are those of the ranks of an MPI program, by rank;
    ``rendezvous`` are the names of its messages that wait for their receivers.
    """

    name: str
    layers: tuple[LayerOfGraph, ...]
    chained: bool = False
    remarks: tuple[Remark, ...] = ()
    spread: float = 0.0
    steps: Mapping[int, tuple[RankStep, ...]] = field(default_factory=dict)
    rendezvous: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class GraphSetting:
    """A graph on GPUs: ``dtype`` of layers that state none, ``eager`` launches, the network beyond a node.

    ``dims`` are the sizes that an ONNX model leaves free, as in ``batch=8,sequence=128``;
    ``time_unit`` (us, ms, s; of amounts a speed, `graph_files.mpi_layers`) and ``tp`` are those of
    the input of a planner (`published_layers`); ``measured_on`` is the GPU whose times are stated,
    where it is another. ``congestion`` says whether messages between named ranks that cross the
    same link share it, one of `congestion.CONGESTIONS`; ``bins_s`` is the width of the bins of time
    in which is told what the ranks of an MPI program do, None for none; its messages of
    ``rendezvous_bytes`` and more wait for their receivers.
    """

    model: LayerGraph
    gpu: GPU
    gpus: int = 1
    dtype: str = "bf16"
    eager: bool = False
    dims: str | Mapping[str, int] = ""
    time_unit: str = ""
    tp: int = 1
    measured_on: GPU | None = None
    congestion: str = NONE
    bins_s: float | None = None
    rendezvous_bytes: int | None = None
    network_gbs: float = ONE_NODE.gbs
    network_us: float = ONE_NODE.step_us
    node_gpus: int = NODE_GPUS
    kind: str = "graph"

    @property
    def network(self) -> Network:
        """The network between nodes."""
        return Network(self.network_gbs, self.network_us, self.node_gpus)

    def network_of(self, layer: LayerOfGraph) -> Network:
        """Return the network that a layer's message takes: a send_recv whose ends are in two nodes shares no node."""
        if layer.peer < 0 or layer.rank // self.node_gpus == layer.peer // self.node_gpus:
            return self.network
        return replace(self.network, node_gpus=1)

    def between_nodes(self, layer: LayerOfGraph) -> bool:
        """Return whether a layer's message goes over the network between nodes."""
        return self.network_of(layer).nodes(layer.ranks or self.gpus) > 1


def complete_graph(given: Mapping[str, Any]) -> GraphSetting:
    """Return the setting of a graph by named values, as `setting.complete` does; a FlopcastError if impossible."""
    names = [one.name for one in fields(GraphSetting) if one.name not in ("kind", "bins_s")]
    stated = stated_of(given, [*names, "bins"])
    if "gpu" not in stated:
        raise ParameterError("gpu", "is needed to forecast a graph")
    settings = understood(stated)
    if "measured_on" in stated:
        host = stated["measured_on"]
        if isinstance(host, GPU):
            settings["measured_on"] = host
        else:
            settings["measured_on"] = find(host)
    dims = stated.get("dims", "")
    sizes = {}
    if isinstance(dims, Mapping):
        pairs = dims.items()
    else:
        pairs = (one.partition("=")[::2] for one in _words(dims))
    for name, elements in pairs:
        if not (str(elements).isdecimal() and 0 < int(elements) < 2**31):
            raise ParameterError(
                "dims",
                f"must be whole numbers from 1, as in batch=8,sequence=128, got {name}={elements}",
            )
        sizes[str(name)] = int(elements)
    rendezvous_bytes = size("rendezvous_bytes", stated.get("rendezvous_bytes"))
    settings["rendezvous_bytes"] = rendezvous_bytes
    graph = read_layers(
        stated["model"],
        sizes,
        str(stated.get("time_unit", "")),
        settings.get("tp", 1),
        rendezvous_bytes,
    )
    if rendezvous_bytes is not None and not graph.steps:
        raise ParameterError(
            "rendezvous_bytes", f"are for an MPI program's trace, {graph.name} is none"
        )
    for name in ("time_unit", "tp"):
        if name in stated and not any(one.code == "times-of-graph" for one in graph.remarks):
            raise ParameterError(name, f"is for the input of a planner, {graph.name} is none")
    settings["model"] = graph
    congestion = settings.setdefault("congestion", NONE)
    if congestion not in CONGESTIONS:
        raise ParameterError(
            "congestion", f"must be one of {', '.join(CONGESTIONS)}, got {congestion!r:.40}"
        )
    if congestion == FAIR and all(one.peer < 0 for one in graph.layers):
        raise ParameterError(
            "congestion", f"is for messages that name their ends, and {graph.name} has none"
        )
    if "bins" in settings:
        settings["bins_s"] = quantity("bins", settings.pop("bins"), MILLISECONDS) / 1e3
        if not graph.steps:
            raise ParameterError(
                "bins", f"are for the ranks of an MPI program's trace, {graph.name} is none"
            )
    settings.setdefault("node_gpus", settings["gpu"].node_gpus or NODE_GPUS)
    return GraphSetting(**settings)


def is_graph(model: object) -> bool:
    """Return whether a model argument is a graph of layers: a graph, a table, or JSON of a graph."""
    if isinstance(model, LayerGraph):
        return True
    if isinstance(model, Mapping):
        return isinstance(model.get("layers"), list) or _is_published(model)
    path = Path(str(model))
    if path.suffix.lower() == ".csv" or _is_onnx(path) or _is_trace(path) or _is_mpi(path):
        return True
    return path.suffix == ".json" and is_graph(_json(path))


def read_layers(
    model: str | Path | Mapping[str, Any] | LayerGraph,
    dims: Mapping[str, int] | None = None,
    unit: str = "",
    tp: int = 1,
    rendezvous_bytes: int | None = None,
) -> LayerGraph:
    """Return the graph of a file, or of its contents.

    ``dims`` are the sizes that an ONNX model leaves free; ``unit`` (us, ms, s) is that of the times
    of a planner's input, ``tp`` the degree of tensor parallelism whose times are taken;
    ``rendezvous_bytes`` are of an MPI program's trace (`graph_files.mpi_layers`). Raises
    DataError: the file cannot be read, or a layer cannot be: it waits for one that is not there, or
    for itself by way of others; neither its shape nor its time is stated; a figure is no number or
    negative. The layer is named.

    >>> graph = read_layers({"layers": [{"name": "a", "time_us": 5}, {"name": "b", "time_us": 7, "after": ["a"]}]})
    >>> [(one.name, one.after) for one in graph.layers]
    [('a', ()), ('b', (0,))]
    """
    if isinstance(model, LayerGraph):
        return model
    if isinstance(model, Mapping):
        return _of_contents(model, "the graph", unit, tp)
    path = Path(model)
    if dims and not _is_onnx(path):
        raise ParameterError("dims", f"are for ONNX models, {path.name} is none")
    try:
        if _is_onnx(path) or _is_trace(path):
            # here: most models are no graph, and readers take long
            from .graph_files import onnx_layers, traced_layers

            spread = 0.0
            if _is_onnx(path):
                layers, notes = onnx_layers(path, dims)
            else:
                layers, notes, spread = traced_layers(path)
            return replace(
                _graph(path.name.partition(".")[0], layers), remarks=tuple(notes), spread=spread
            )
        if _is_mpi(path):
            from .graph_files import mpi_layers

            of_ranks, notes, spread = mpi_layers(path, unit, rendezvous_bytes)
            graph = _graph(path.name.partition(".")[0], of_ranks.layers)
            return replace(
                graph,
                remarks=tuple(notes),
                spread=spread,
                steps=of_ranks.steps,
                rendezvous=of_ranks.rendezvous,
            )
        if path.suffix.lower() == ".csv":
            check_plain_file(path)
            try:
                with path.open(encoding="utf-8-sig", newline="") as file:
                    rows = list(csv.DictReader(file, strict=True))
            except (OSError, ValueError, csv.Error) as error:
                raise DataError(f"cannot be read as a list of operators: {error}") from None
            if any(None in row for row in rows):
                raise DataError("a row has more fields than the header")
            cells = []
            for row in rows:
                cells.append({name: text.strip() for name, text in row.items() if text})
            return _graph(
                path.stem,
                cells,
            )
        return _of_contents(_json(path), path.stem, unit, tp)
    except ParameterError:
        raise
    except DataError as error:
        raise error if error.source else DataError(str(error), source=str(path)) from None


def _of_contents(content: Mapping[str, Any], name: str, unit: str, tp: int) -> LayerGraph:
    """Return the graph of a JSON object with layers or a planner's nodes."""
    name = str(content.get("name") or name)
    if not _is_published(content):
        layers = content.get("layers")
        return _graph(name, layers if isinstance(layers, list) else [])
    from .graph_files import published_layers

    layers, notes = published_layers(content, unit, tp)
    return replace(_graph(name, layers), remarks=tuple(notes))


def _is_trace(path: Path) -> bool:
    if not isfile(path):
        return False
    from ..readers.execution_trace import is_execution_trace
    from ..readers.files import head

    return is_execution_trace(head(path))


def _is_mpi(path: Path) -> bool:
    if not isfile(path) or path.suffix.lower() in (".csv", ".json"):
        return False
    from ..readers.mpi_trace import is_mpi_trace

    return is_mpi_trace(path)


def _is_onnx(path: Path) -> bool:
    return path.suffix.lower() == ".onnx" and isfile(path)


def _is_published(content: Mapping[str, Any]) -> bool:
    """Whether the contents of a JSON file are the input of a planner, in one of the two forms."""
    nodes = content.get("nodes")
    if isinstance(nodes, list) and nodes:
        first = nodes[0]
    else:
        first = None
    return isinstance(first, dict) and any(mark in first for mark in ("fpgaLatency", "TMPCs"))


def _json(path: Path) -> dict[str, Any]:
    """Return the object of a file, or an empty one."""
    try:
        if isfile(path):
            content = json.loads(path.read_text(encoding="utf-8"))
        else:
            content = {}
    except (OSError, ValueError, RecursionError):
        return {}
    if isinstance(content, dict):
        return content
    return {}


def _graph(name: str, given: Sequence[Any]) -> LayerGraph:
    if not 0 < len(given) <= MOST:
        raise DataError(f"must hold 1 to {MOST:,} layers, holds {len(given):,}")
    stated = [_named(place, one) for place, one in enumerate(given, start=1)]
    places = {one["name"]: place for place, one in enumerate(stated)}
    if len(places) < len(stated):
        twice = next(
            one["name"] for place, one in enumerate(stated) if places[one["name"]] != place
        )
        raise DataError(
            f"two layers are called {twice!r}: names must differ, or count says how often one runs"
        )
    chained = not any("after" in one for one in stated)
    waits: dict[int, tuple[int, ...]] = {}
    for place, one in enumerate(stated):
        asked = one.get("after", ())
        if isinstance(asked, str):
            names = [part.strip() for part in asked.split(";")]
        else:
            names = asked
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise DataError(
                f"layer {one['name']!r}: after must be a list of names, got "
                f"{visible(str(asked))[:40]!r}"
            )
        lost = [other for other in names if other not in places]
        if lost:
            raise DataError(
                f"layer {one['name']!r} waits for {lost[0]!r}: {nearest(lost[0], places)}"
            )
        if chained and place:
            before = [place - 1]
        else:
            before = [places[other] for other in names]
        waits[place] = tuple(dict.fromkeys(before))
    order = _in_order(waits, stated)
    moved = {place: new for new, place in enumerate(order)}
    layers = []
    for place in order:
        after = sorted(moved[one] for one in waits[place])
        layers.append(_layer(stated[place], tuple(after)))
    return LayerGraph(name, tuple(layers), chained)


def _named(place: int, given: Any) -> dict[str, Any]:
    """Return the stated fields of a layer under the names of the keys, without empty ones."""
    if not isinstance(given, Mapping):
        raise DataError(
            f"layer {place} must be an object with its name and shape, got "
            f"{visible(str(given))[:40]}"
        )
    layer = {
        _OTHER_NAMES.get(str(key), str(key)): value
        for key, value in given.items()
        if value not in (None, "")
    }
    dims = layer.pop("dims", None)
    if dims:
        if isinstance(dims, Mapping):
            pairs = dims.items()
        else:
            pairs = (re.split("[=:]", one, maxsplit=1) for one in _words(dims))
        for pair in pairs:
            if len(pair) != 2:
                raise DataError(
                    f"layer {place}: dims must be as in m=64 n=1280 k=8192, got "
                    f"{visible(str(dims))[:40]!r}"
                )
            key = str(pair[0]).strip().lower()
            layer.setdefault(_OTHER_NAMES.get(key, key), pair[1])
    layer["name"] = visible(
        str(layer.get("name") or f"{layer.get('op') or layer.get('collective') or 'layer'} {place}")
    )
    return layer


def _words(text: object) -> list[str]:
    return [word for word in re.split(r"[\s,;]+", str(text)) if word]


def _in_order(
    waits: Mapping[int, tuple[int, ...]], stated: Sequence[Mapping[str, Any]]
) -> list[int]:
    """Return the places in topological order, otherwise as they are written."""
    sorter = TopologicalSorter(waits)
    try:
        sorter.prepare()
    except CycleError as error:
        names = " -> ".join(str(stated[place]["name"]) for place in reversed(error.args[1][:6]))
        raise DataError(f"layers wait for each other in a circle: {names}") from None
    order: list[int] = []
    ready: list[int] = []
    while sorter.is_active():
        ready = sorted([*ready, *sorter.get_ready()])
        order.append(ready.pop(0))
        sorter.done(order[-1])
    return order


def _layer(stated: Mapping[str, Any], after: tuple[int, ...]) -> LayerOfGraph:
    name = str(stated["name"])
    rest = {key: value for key, value in stated.items() if key not in _KEYS}
    word = str(stated.get("op", ""))
    collective = str(stated.get("collective", ""))
    if not collective and word and canonical_op(word) not in OPS and collective_of(word):
        word, collective = "", word  # a separate row for a message
    times = [key for key in _US if key in stated]
    if bool(word) + len(times) + (bool(collective) and not word and not times) != 1:
        raise DataError(
            f"layer {name!r} needs its shape (op with its dimensions) or its time (time_us), one "
            "of them"
        )
    op = ""
    if word:
        op = canonical_op(word)
    if op and op not in OPS:
        raise DataError(f"layer {name!r}: unknown operator {word!r}: {nearest_op(word)}")
    for key in rest:
        names = ()
        if op:
            names = (*OPS[op].dims, *DTYPE_COLUMNS)
        if key not in names and not (times and key in DTYPE_COLUMNS):
            raise DataError(
                f"layer {name!r}: unknown key {key!r}: {nearest(key, (*_KEYS, *names))}"
            )
    sizes: dict[str, Any] = {}
    for key in rest if op else ():
        if key in DTYPE_COLUMNS:
            try:
                sizes[key] = canonical_dtype(str(stated[key]))
            except DataError as error:
                raise DataError(f"layer {name!r}: {error}") from None
        elif key in _TEXTS:
            sizes[key] = str(stated[key])
        else:
            sizes[key] = _number(name, stated, key)
            if sizes[key] > LARGEST:
                raise DataError(
                    f"layer {name!r}: {key} = {sizes[key]:g} is above {LARGEST:g}, which no "
                    "kernel computes"
                )
    message: dict[str, Any] = {}
    if collective:
        collective_op = collective_of(collective)
        if not collective_op:
            raise DataError(
                f"layer {name!r}: unknown collective {collective!r}: "
                f"{nearest(collective, COLLECTIVES)}"
            )
        if "message_bytes" not in stated:
            raise DataError(f"layer {name!r}: {collective_op} needs message_bytes")
        if "peer" in stated and collective_op != SEND_RECV:
            raise DataError(f"layer {name!r}: peer is for send_recv, not for {collective_op}")
        ranks = 0.0
        if collective_op == SEND_RECV:
            ranks = 2.0
        if "ranks" in stated:
            least = 1.0
        else:
            least = 0.0
        message = {
            "collective": collective_op,
            "message_bytes": _number(name, stated, "message_bytes"),
            "ranks": int(
                _number(
                    name,
                    stated,
                    "ranks",
                    ranks,
                    least=least,
                    whole=True,
                )
            ),
        }
    elif "message_bytes" in stated or "peer" in stated:
        raise DataError(
            f"layer {name!r} has a message and no collective: one of {', '.join(COLLECTIVES)}"
        )
    if "peer" in stated:
        message["peer"] = int(_number(name, stated, "peer", whole=True))
    if times:
        stated_us = _number(name, stated, times[0]) * _US[times[0]]
    else:
        stated_us = None
    return LayerOfGraph(
        name=name,
        after=after,
        count=int(_number(name, stated, "count", 1.0, least=1.0, whole=True)),
        phase=visible(str(stated.get("phase", ""))),
        op=op,
        sizes=sizes,
        stated_us=stated_us,
        rank=int(_number(name, stated, "rank", whole=True)),
        **message,
    )


def _number(
    name: str,
    stated: Mapping[str, Any],
    key: str,
    default: float = 0.0,
    *,
    least: float = 0.0,
    whole: bool = False,
) -> float:
    """Return a figure of a layer; yes and no are 1 and 0."""
    given = stated.get(key, default)
    try:
        value = float({"true": 1, "false": 0}.get(str(given).lower(), given))
    except (TypeError, ValueError, OverflowError):
        value = float("nan")
    if not least <= value < 1e18 or (whole and not value.is_integer()):
        kind = f"a {'whole ' if whole else ''}number from {least:g}"
        raise DataError(f"layer {name!r}: {key} must be {kind}, got {visible(str(given))[:40]!r}")
    return value
