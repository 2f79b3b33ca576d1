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
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pandas as pd

from ..errors import DataError
from ..table.measurements import DEFECT, DEFECT_DETAIL
from ..traces.activity_work import describe_call
from .base import LINE, Options, RawTable, Reader, register
from .files import campaign_of, text
from .serving_benchmarks import json_records, number

_SNIFF: Final = re.compile(rb'\A\s*\[\s*\{[^{}]*"cat"\s*:\s*"(?:Node|Session|Api|Kernel)"')
_PRODUCTS: Final = frozenset({"MatMul", "FusedMatMul", "Gemm", "FusedGemm"})


@register
class OnnxRuntimeReader(Reader):
    """Profiles of ONNX Runtime, a row for each product."""

    name = "ONNX Runtime profile"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the category of the first event."""
        return _SNIFF.search(head) is not None

    def read(self, path: Path, options: Options) -> RawTable:
        """Return a row for each node with kernels."""
        rows = list[dict[str, Any]]()
        words = text(path, max_bytes=options.table_bytes)
        for line, event in json_records(words, str(path)):
            if not isinstance(event, Mapping):
                continue
            category, name = event.get("cat"), str(event.get("name", ""))
            arguments = event.get("args")
            if not isinstance(arguments, Mapping):
                arguments = {}
            if category == "Node" and name.endswith("_kernel_time"):
                rows.append(_node(arguments) | {LINE: line, "duration_us": 0.0, "kernel": ""})
            elif category == "Kernel" and rows:
                row = rows[-1]
                row["duration_us"] += number(event.get("dur")) or 0.0
                row["kernel"] = " + ".join(filter(None, (row["kernel"], name)))
        if not rows:
            raise DataError("is a profile of ONNX Runtime in which no node ran", source=str(path))
        for row in rows:
            if not row["kernel"] and not row[DEFECT]:
                row[DEFECT], row[DEFECT_DETAIL] = "no-duration", "no kernel follows the node"
        frame = pd.DataFrame(rows)
        frame["campaign"] = campaign_of(path)
        return RawTable(frame)


def _node(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the product of a node, else the defect that it is another operator."""
    operator = str(arguments.get("op_name", ""))
    good = {DEFECT: "", DEFECT_DETAIL: ""}
    refused = {"op": "gemm", DEFECT: "not-a-gemm", DEFECT_DETAIL: operator}
    if operator not in _PRODUCTS:
        return refused
    dims, types = list[Any](), list[str]()
    inputs = arguments.get("input_type_shape")
    for entry in inputs if isinstance(inputs, list) else []:
        if isinstance(entry, Mapping) and len(entry) == 1:
            word, sizes = next(iter(entry.items()))
            types.append(str(word))
            dims.append(sizes)
    nothing = [""] * len(dims)
    call = json.dumps({"dims": dims, "types": types, "strides": [], "values": nothing})
    for reading in ("aten::matmul", "aten::linear"):  # Gemm may have its weight as n x k
        described = describe_call(reading, call)
        if described:
            return described | good
        if "Gemm" not in operator:
            break
    return refused
