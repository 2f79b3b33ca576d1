"""An ONNX model as a workload: every node that computes is a layer, and waits for those whose values it needs.

A file enters `onnx_layers`; layers in the words of a layer graph leave (`layer_graph`). Nodes are taken one by one, as
a runtime without fusion runs them. Views, constants, and what is computed of constants or of sizes alone are no layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any, Final

from ..errors import DataError
from ..operators.call import Tensor
from ..readers.onnx_model import OnnxNode, Value, read_onnx
from ..traces.activity_work import DTYPES_OF, call_text, describe_call
from .traced_graph import Layers, left_out

Shape = dict[str, Any]
_AXES: Final = ("d", "h", "w")
_NO_WORK: Final = frozenset(
    {
        "Constant", "ConstantOfShape", "Dropout", "Flatten", "Identity", "Range", "Reshape", "Shape", "Size", "Squeeze",
        "Unsqueeze",
    }
)  # fmt: skip
_ELEMENTWISE: Final = frozenset(
    {
        "Abs", "Add", "And", "Cast", "Ceil", "Celu", "Clip", "Cos", "DequantizeLinear", "Div", "Elu", "Equal", "Erf",
        "Exp", "FastGelu", "Floor", "Gelu", "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "IsInf", "IsNaN",
        "LeakyRelu", "Less", "LessOrEqual", "Log", "Max", "Mean", "Min", "Mish", "Mod", "Mul", "Neg", "Not", "Or",
        "PRelu", "Pow", "QuantizeLinear", "QuickGelu", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin",
        "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tanh", "ThresholdedRelu", "Where", "Xor",
    }
)  # fmt: skip
_POOLS: Final = frozenset({"AveragePool", "LpPool", "MaxPool", "Resize", "Upsample"})
"""Read their input once and write an output of another size."""
_COPIES: Final = frozenset(
    {"Concat", "DepthToSpace", "Expand", "Pad", "Slice", "SpaceToDepth", "Split", "Tile", "Transpose"}
)
_REDUCTIONS: Final = ("Reduce", "Global", "ArgM")


def onnx_layers(path: Path, dims: Mapping[str, int] | None = None) -> Layers:
    """Return the layers of a model, and what is to be said of them; ``dims`` are the sizes that it leaves free.

    Raises
    ------
    FlopcastError
        The model cannot be read (`readers.onnx_model.read_onnx`), or has no node that computes.
    """
    model = read_onnx(path, dims)
    known, constant = model.values, set(model.constants)
    made_by: dict[str, tuple[str, ...]] = {}  # the layers that a value waits for
    layers: list[dict[str, Any]] = []
    names: set[str] = set()
    unknown: list[str] = []
    for place, node in enumerate(model.nodes, start=1):
        waits = tuple(dict.fromkeys(one for name in node.inputs for one in made_by.get(name, ())))
        if constant.issuperset(filter(None, node.inputs)):
            constant.update(node.outputs)
        elif node.op not in _NO_WORK and not constant.issuperset(node.outputs):
            shape = _shape(node, known)
            if shape:
                name = node.name if node.name and node.name not in names else f"{node.op} {place}"
                names.add(name)
                layers.append({"name": name, "after": list(waits), **shape})
                waits = (name,)
            else:
                unknown.append(node.op)
        made_by.update(dict.fromkeys(node.outputs, waits))
    if not layers:
        raise DataError("holds no node that computes and has a shape", source=str(path))
    return layers, list(left_out(unknown, len(unknown) / (len(unknown) + len(layers)), "calls"))


def _shape(node: OnnxNode, known: Mapping[str, Value]) -> Shape:
    """Return operator, dimensions and number formats; none where the operator or a shape is not known."""
    inputs = [known.get(name) if name else None for name in node.inputs]
    output = next((known[name] for name in node.outputs if name in known), None)
    first = inputs[0] if inputs else None
    if first is None or output is None or not first.dtype or 0 in (*first.dims, *output.dims):
        return {}
    if (read := _reader(node.op)) is None:
        return {}
    try:
        found = read(node, [one for one in inputs if one is not None], output)
    except (IndexError, ValueError, ZeroDivisionError):  # fewer inputs or sizes than the operator has
        return {}
    formats = {"dtype_a": first.dtype, "dtype_out": output.dtype}
    return {name: value for name, value in {**formats, **found}.items() if value != ""} if found else {}


def _reader(op: str) -> Callable[[OnnxNode, list[Value], Value], Shape] | None:
    if op in _ELEMENTWISE or op in _POOLS:
        return _elementwise
    if op in _COPIES:
        return _copy
    return _reduction if op.startswith(_REDUCTIONS) else _READ.get(op)


def _rows(op: str, dims: tuple[int, ...], cols: int | None = None) -> Shape:
    """Return an operator on the elements of a tensor, in rows of the last axis unless stated."""
    along = cols or (dims[-1] if dims else 1)
    return {"op": op, "rows": prod(dims) // along, "cols": along}


def _elementwise(node: OnnxNode, inputs: list[Value], output: Value) -> Shape:
    operands = [one for one in inputs if prod(one.dims) > 1] if node.op not in _POOLS else inputs[:1]
    sizes = [prod(one.dims) for one in operands] or [1]
    second = {"dtype_b": operands[1].dtype} if len(operands) > 1 else {}
    others = {"inputs": len(sizes), "elements_a": sizes[0], "elements_b": sum(sizes[1:])}
    return {**_rows("elementwise", output.dims), **others, **second}


def _copy(node: OnnxNode, inputs: list[Value], output: Value) -> Shape:
    return _rows("copy", inputs[0].dims if node.op == "Split" else output.dims)


def _gather(node: OnnxNode, inputs: list[Value], output: Value) -> Shape:
    data, indices = inputs[:2]
    return {**_rows("gather", output.dims, prod(data.dims[_axis(node, data, 0) + 1 :])), "dtype_b": indices.dtype}


def _reduction(node: OnnxNode, inputs: list[Value], output: Value) -> Shape:
    return _rows("reduction", inputs[0].dims, prod(inputs[0].dims) // prod(output.dims))


def _matmul(node: OnnxNode, inputs: list[Value], output: Value) -> Shape:
    return _product("aten::matmul", [_tensor(one) for one in inputs[:2]])


def _gemm(node: OnnxNode, inputs: list[Value], output: Value) -> Shape:
    turned = [node.attributes.get(name, 0) for name in ("transA", "transB")]
    pairs = zip(inputs[:2], turned, strict=True)
    a, b = (Tensor(one.dims[::-1] if turn else one.dims, one.dtype) for one, turn in pairs)
    return _product("aten::addmm", [_tensor(inputs[2]), a, b, "1"]) if len(inputs) > 2 else _product("aten::mm", [a, b])


def _product(name: str, arguments: list[Tensor | str | None]) -> Shape:
    found = describe_call(name, call_text(arguments))
    return {one: found[one] for one in ("op", "m", "n", "k", "batch", *DTYPES_OF) if one in found}


def _tensor(value: Value) -> Tensor:
    return Tensor(value.dims, value.dtype)


def _conv(node: OnnxNode, inputs: list[Value], output: Value) -> Shape:
    """Return a convolution; a transposed one is the backward pass by data of that from its result to its input."""
    weights, turned = inputs[1].dims, node.op == "ConvTranspose"
    near, far = (output.dims, inputs[0].dims) if turned else (inputs[0].dims, output.dims)
    axes = len(weights) - 2
    sides = {
        "in": near[2:],
        "out": far[2:],
        "fil": weights[2:],
        "stride": node.attributes.get("strides", [1] * axes),
        "dil": node.attributes.get("dilations", [1] * axes),
        "pad": node.attributes.get("pads", [0] * axes)[:axes],
    }
    found = {"op": "conv", "direction": "B" if turned else "F", "batch": near[0], "dtype_b": inputs[1].dtype}
    found |= {"in_channels": near[1], "out_channels": far[1], "groups": node.attributes.get("group", 1)}
    found |= {"in_h": 1, "out_h": 1, "fil_h": 1}
    for side, sizes in sides.items():
        found |= {f"{side}_{axis}": int(size) for axis, size in zip(_AXES[3 - axes :], sizes, strict=True)}
    return found


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
        "op": "attention", "batch": q[0], "heads": q[1], "kv_heads": k[1], "seq_q": q[2], "seq_kv": k[2],
        "head_dim": q[3], "head_dim_v": v[3], "causal": node.attributes.get("is_causal", 0),
    }  # fmt: skip


def _normalised(op: str, default: int = -1) -> Callable[[OnnxNode, list[Value], Value], Shape]:
    """Return what reads a normalisation over the axes from ``axis`` on."""

    def read(node: OnnxNode, inputs: list[Value], output: Value) -> Shape:
        return _rows(op, output.dims, prod(output.dims[_axis(node, output, default) :]))

    return read


def _softmax(node: OnnxNode, inputs: list[Value], output: Value) -> Shape:
    return _rows("softmax", output.dims, output.dims[_axis(node, output, -1)])


def _batch_norm(node: OnnxNode, inputs: list[Value], output: Value) -> Shape:
    op = "batch_norm" if node.attributes.get("training_mode") else "batch_norm_inference"
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
