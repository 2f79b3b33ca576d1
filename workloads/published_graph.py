"""Layer graphs as two published planners take them: nodes with the times that were measured, edges between them.

The contents of a file enter `published_layers`; layers in the words of a layer graph leave (`layer_graph`).

- Device placement (Tarnawski et al., "Efficient Algorithms for Device Placement of DNN Graph Operators", NeurIPS
  2020): ``fpgaLatency`` of a node on an accelerator of any kind, ``cpuLatency`` where it is not ``supportedOnFpga``.
- Parallelism (Tarnawski et al., "Piper: Multidimensional Planner for DNN Parallelization", NeurIPS 2021): ``TMPCs`` of
  a node by degree of tensor parallelism, each with its ``timePerSample``, forward and backward.

Neither says its unit, and published files of one form differ in it: it has to be stated. Costs of edges count between
devices only, and are not read: one device, or one group of ``tp``, computes the graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from ..errors import DataError, ParameterError
from ..output import visible
from ..remarks import remark
from .traced_graph import Layers

UNITS: Final = ("us", "ms", "s")
TIMES_STATED: Final = "times-of-graph"
"""Remark of every graph that is read here."""
_MARKS: Final = ("fpgaLatency", "TMPCs")


def is_published(found: Mapping[str, Any]) -> bool:
    """Say whether the contents of a JSON file are in one of the two forms.

    Examples
    --------
    >>> is_published({"nodes": [{"id": 0, "fpgaLatency": 1.5}], "edges": []})
    True
    """
    nodes = found.get("nodes")
    first = nodes[0] if isinstance(nodes, list) and nodes else None
    return isinstance(first, dict) and any(mark in first for mark in _MARKS)


def published_layers(found: Mapping[str, Any], unit: str, tp: int = 1) -> Layers:
    """Return the layers of a graph whose times are in ``unit`` (us, ms or s), and what is to be said of them.

    ``tp`` chooses among the times of the second form; of several of that degree a node runs as the fastest.

    Raises
    ------
    ParameterError
        The unit is missing or unknown; the graph has no times for this ``tp``.
    DataError
        A node or an edge lacks what it needs; the node is named.

    Examples
    --------
    >>> nodes = [{"id": 0, "fpgaLatency": 1.5}, {"id": 1, "fpgaLatency": 2}]
    >>> layers, notes = published_layers({"nodes": nodes, "edges": [{"sourceId": 0, "destId": 1}]}, "ms")
    >>> [(one["name"], one["time_ms"], one["after"]) for one in layers]
    [('node 0', 1.5, []), ('node 1', 2, ['node 0'])]
    """
    if unit not in UNITS:
        stated = f"got {unit!r}" if unit else "the file does not say it"
        raise ParameterError("time_unit", f"must say what the times of the graph are in, {', '.join(UNITS)}: {stated}")
    nodes, edges = found["nodes"], found.get("edges")
    if not isinstance(edges, list) or not all(isinstance(one, dict) for one in [*nodes, *edges]):
        raise DataError("nodes and edges must be lists of objects")
    piper = "TMPCs" in nodes[0]
    if tp != 1 and not piper:
        raise ParameterError("tp", "is for graphs with times by degree (TMPCs), this one has none")
    names = _names(nodes)
    layers: list[dict[str, Any]] = []
    on_cpu: list[str] = []
    for node in nodes:
        name = names[str(node["id"])]
        computes = _computes(node)
        if not computes:
            on_cpu.append(name)
        time = _by_degree(node, tp, name) if piper else node.get("fpgaLatency" if computes else "cpuLatency")
        if time is None:
            raise DataError(f"node {name!r} has no time")
        phase = "backward" if node.get("isBackwardNode") else ""
        layers.append({"name": name, "after": [], "phase": phase, f"time_{unit}": time})
    waits = {layer["name"]: layer["after"] for layer in layers}
    for edge in edges:
        ends = [names.get(str(edge.get(key))) for key in ("sourceId", "destId")]
        if None in ends:
            raise DataError(f"an edge leads from {edge.get('sourceId')!r} to {edge.get('destId')!r}: no such node")
        waits[ends[1]].append(ends[0])
    notes = [remark(TIMES_STATED, layers=len(layers), unit=unit)]
    if on_cpu:
        notes.append(remark("layers-of-cpu", layers=len(on_cpu)))
    return layers, notes


def _computes(node: Mapping[str, Any]) -> bool:
    """Say whether a node can run on the accelerator."""
    return bool(node.get("supportedOnFpga", True))


def _names(nodes: list[dict[str, Any]]) -> dict[str, str]:
    """Return the name of each id, with the id where several have the name."""
    ids = [node.get("id") for node in nodes]
    for one, count in Counter(map(str, ids)).items():
        if count > 1:
            raise DataError(f"{count} nodes have the id {visible(one)[:40]}")
    if not all(isinstance(one, int) for one in ids):
        raise DataError("every node must have a whole number as its id")
    stated = {str(node["id"]): visible(str(node.get("name") or "node")) for node in nodes}
    counts = Counter(stated.values())
    return {one: name if counts[name] == 1 and name != "node" else f"{name} {one}" for one, name in stated.items()}


def _by_degree(node: Mapping[str, Any], tp: int, name: str) -> float:
    offered = node.get("TMPCs")
    if not isinstance(offered, dict) or not all(isinstance(one, list) and one for one in offered.values()):
        raise DataError(f"node {name!r}: TMPCs must hold lists by degree")
    if str(tp) not in offered:
        raise ParameterError("tp", f"must be one of {', '.join(offered)}, for which {name!r} has times, got {tp}")
    stated = [one.get("timePerSample") if isinstance(one, dict) else None for one in offered[str(tp)]]
    times = [time for time in stated if isinstance(time, int | float)]
    if len(times) < len(stated):
        raise DataError(f"node {name!r}: timePerSample must be a number")
    return min(times)
