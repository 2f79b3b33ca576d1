"""ONNX models (onnx.ai): the nodes of a graph, with the shape and number format of every value.

A file enters `read_onnx`, with the sizes that it leaves free; an `OnnxModel` leaves. Shapes are
those of the package `onnx`, node by node, the arithmetic of shapes computed on the way; weights in
files beside the model are not read.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..errors import DataError, FlopcastError, ParameterError, nearest
from ..operators.work import canonical_dtype
from ..remarks import visible

_SMALL: Final = 64  # numbers of the longest list that counts as sizes


@dataclass(frozen=True)
class Value:
    """A tensor: sizes and number format, "" where it has none here (complex numbers, texts)."""

    dims: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class OnnxNode:
    """A node: its operator, inputs and outputs; an omitted input is ""."""

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OnnxModel:
    """The nodes in topological order, and the values whose shape is stated.

    ``constants`` are the names of weights, and of what follows from sizes alone.
    """

    nodes: tuple[OnnxNode, ...]
    values: Mapping[str, Value]
    constants: frozenset[str]


def read_onnx(path: Path, dims: Mapping[str, int] | None = None) -> OnnxModel:
    """Return the graph of an ``.onnx`` model.

    ``dims`` are the sizes that it leaves free, by their names (``batch``), those without a name as
    ``INPUT.AXIS``. Raises FlopcastError: the package ``onnx`` is missing; the file is no ONNX
    model; a size is free and not stated, or stated and not free.
    """
    onnx = _onnx()
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:  # of protobuf, of any kind
        raise DataError(
            f"is no ONNX model ({visible(str(error))[:80]})", source=str(path)
        ) from None
    graph = model.graph
    weights = {one.name for one in graph.initializer} | {
        one.values.name for one in graph.sparse_initializer
    }
    _settle(
        graph,
        weights,
        dict(dims or {}),
        path,
    )
    shapes = _Shapes(onnx, model)
    for node in graph.node:
        shapes.add(node)
    read = onnx.helper.get_attribute_value
    described = []
    for one in graph.node:
        described.append(
            OnnxNode(
                _text(one.op_type),
                _text(one.name),
                tuple(one.input),
                tuple(one.output),
                {a.name: read(a) for a in one.attribute},
            )
        )
    nodes = tuple(described)
    return OnnxModel(nodes, shapes.values, frozenset(weights) | shapes.computed)


def _text(name: str | bytes) -> str:
    """Return a name as text: what is not UTF-8 comes as bytes."""
    if isinstance(name, str):
        return name
    return name.decode(errors="replace")


def _onnx() -> Any:
    try:
        for part in ("shape_inference", "reference", "numpy_helper"):
            importlib.import_module(f"onnx.{part}")
        return importlib.import_module("onnx")
    except ModuleNotFoundError as error:
        raise FlopcastError(
            'reading ONNX models needs their package: pip install "flopcast[onnx]"'
        ) from error


def _settle(
    graph: Any,
    weights: set[str],
    dims: dict[str, int],
    path: Path,
) -> None:
    """Put the stated sizes in the place of the free ones."""
    free: dict[str, None] = {}
    for value in graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if value.name in weights or dim.dim_value > 0:
                continue
            name = dim.dim_param or f"{value.name}.{axis}"
            free[name] = None
            if name in dims:
                dim.dim_value = dims[name]
    for name in dims:
        if name not in free:
            hint = "it has none"
            if free:
                hint = nearest(name, free)
            raise ParameterError(
                "dims", f"must name sizes that {path.name} leaves free, got {name!r}: {hint}"
            )
    missing = [name for name in free if name not in dims]
    if missing:
        stated = ",".join(f"{name}=8" for name in missing)
        raise ParameterError(
            "dims", f"must state the sizes that {path.name} leaves free, as in {stated}"
        )


class _Shapes:
    """The types of values, inferred node by node, and the data of those that are sizes."""

    def __init__(self, onnx: Any, model: Any) -> None:
        self._onnx = onnx
        graph = model.graph
        self._versions = {one.domain: one.version for one in model.opset_import}
        self._opsets = list(model.opset_import)
        self._ir = model.ir_version
        tensor = onnx.helper.make_tensor_type_proto
        self._types = {one.name: tensor(one.data_type, one.dims) for one in graph.initializer}
        self._types |= {one.name: one.type for one in graph.input}
        self._data: dict[str, Any] = {}
        for one in graph.initializer:
            if one.data_location != onnx.TensorProto.EXTERNAL:
                self._keep(one.name, one)

    @property
    def values(self) -> dict[str, Value]:
        """The values whose whole shape is stated."""
        sizes = (
            (name, self._sizes(one), one.tensor_type.elem_type) for name, one in self._types.items()
        )
        return {
            name: Value(dims, _dtype(self._onnx, kind))
            for name, dims, kind in sizes
            if dims is not None
        }

    @property
    def computed(self) -> frozenset[str]:
        """Values that follow from sizes and small weights alone."""
        return frozenset(self._data)

    def add(self, node: Any) -> None:
        """Infer the types of a node's outputs; they stay unknown where the package does not know the operator."""
        types = {name: self._types[name] for name in node.input if name in self._types}
        data = {name: self._data[name] for name in node.input if name in self._data}
        try:
            schema = self._onnx.defs.get_schema(
                node.op_type, self._versions.get(node.domain, 1), node.domain
            )
            self._types |= self._onnx.shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=self._opsets, ir_version=self._ir
            )
            self._compute(node, data)
        except Exception:  # of any kind: the operator has no rule, or what it gets is unknown
            return

    def _compute(self, node: Any, data: Mapping[str, Any]) -> None:
        """Compute outputs made of sizes alone, if they are as short."""
        made = [self._sizes(self._types[name]) for name in node.output if name in self._types]
        if len(made) < len(node.output) or any(
            sizes is None or math.prod(sizes) > _SMALL for sizes in made
        ):
            return
        to_array = self._onnx.numpy_helper.to_array
        if node.op_type in ("Shape", "Size"):
            sizes = self._sizes(self._types[node.input[0]])
        else:
            sizes = None
        if sizes is not None:
            given = {node.input[0]: np.broadcast_to(np.float32(0), sizes)}
        elif all(name in data for name in node.input if name):
            given = {name: to_array(one) for name, one in data.items()}
        else:
            return
        for name, array in zip(
            node.output, self._onnx.reference.ReferenceEvaluator(node).run(None, given), strict=True
        ):
            self._keep(name, self._onnx.numpy_helper.from_array(np.asarray(array), name))

    def _keep(self, name: str, tensor: Any) -> None:
        if math.prod(tensor.dims) <= _SMALL:
            self._data[name] = tensor

    def _sizes(self, given: Any) -> tuple[int, ...] | None:
        tensor = given.tensor_type
        is_static = tensor.HasField("shape") and all(
            dim.HasField("dim_value") for dim in tensor.shape.dim
        )
        if is_static:
            return tuple(dim.dim_value for dim in tensor.shape.dim)
        return None


def _dtype(onnx: Any, kind: int) -> str:
    try:
        return canonical_dtype(onnx.TensorProto.DataType.Name(kind).lower())
    except (DataError, ValueError):
        return ""
