"""Profiles of ONNX Runtime: matrix products that its CUDA, ROCm or MIGraphX provider ran on a GPU.

``SessionOptions.enable_profiling`` (ONNX Runtime 1.12 to 1.23) writes a list of events of Chrome's form,
times in microseconds. An event of category ``Node`` has the operator, its provider and, in
``input_type_shape``, format and sizes of each input; the kernels that it launched, of category
``Kernel``, follow it. A product's time is the sum of its kernels; the node's time is that of the CPU
and is not read. Nodes of other operators, and those without a kernel, are refused with their names.
Kernels are recorded where the build has CUPTI or roctracer. The device is not in it.

Source: https://github.com/microsoft/onnxruntime (MIT), ``onnxruntime/core/common/profiler.cc``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ..table.measurements import DEFECT
from ..traces.activity_work import describe_call
from .base import LINE, Options, register
from .files import text
from .records import Records, Row, json_records, number, refused

_SNIFF: Final = re.compile(rb'\A\s*\[\s*\{[^{}]*"cat"\s*:\s*"(?:Node|Session|Api|Kernel)"')
_PRODUCTS: Final = frozenset({"MatMul", "FusedMatMul", "Gemm", "FusedGemm"})


@register
class OnnxRuntimeReader(Records):
    """Profiles of ONNX Runtime, a row for each product."""

    name = "ONNX Runtime profile"
    mark = _SNIFF
    nothing = "is a profile of ONNX Runtime in which no node ran"

    def rows(self, path: Path, options: Options) -> Iterator[Row]:
        """Yield a row for each node, with the time of its kernels."""
        rows = list[Row]()
        content = text(path, max_bytes=options.table_bytes)
        for line, event in json_records(content, str(path)):
            if not isinstance(event, Mapping):
                continue
            name = str(event.get("name", ""))
            arguments = event.get("args")
            if not isinstance(arguments, Mapping):
                arguments = {}
            if event.get("cat") == "Node" and name.endswith("_kernel_time"):
                rows.append(
                    _node(arguments)
                    | {
                        LINE: line,
                        "duration_us": 0.0,
                        "kernel": "",
                    }
                )
            elif event.get("cat") == "Kernel" and rows:
                row = rows[-1]
                row["duration_us"] += number(event.get("dur")) or 0.0
                row["kernel"] = " + ".join(filter(None, (row["kernel"], name)))
        for row in rows:
            if not row["kernel"] and DEFECT not in row:
                row |= refused("no-duration", "no kernel follows the node")
            yield row


def _node(arguments: Mapping[str, Any]) -> Row:
    """Return the product of a node, else the defect that it is another operator."""
    operator = str(arguments.get("op_name", ""))
    other = {"op": "gemm", **refused("not-a-gemm", operator)}
    if operator not in _PRODUCTS:
        return other
    dims = list[Any]()
    types = list[str]()
    inputs = arguments.get("input_type_shape")
    for entry in inputs if isinstance(inputs, list) else []:
        if isinstance(entry, Mapping) and len(entry) == 1:
            word, sizes = next(iter(entry.items()))
            types.append(str(word))
            dims.append(sizes)
    call = json.dumps(
        {
            "dims": dims,
            "types": types,
            "strides": [],
            "values": [""] * len(dims),
        }
    )
    readings = ["aten::matmul"]
    if "Gemm" in operator:  # may have its weight as n x k
        readings.append("aten::linear")
    for reading in readings:
        described = describe_call(reading, call)
        if described:
            return dict(described)
    return other
