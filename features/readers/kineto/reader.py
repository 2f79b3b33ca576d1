"""Traces of the PyTorch profiler (Kineto, `export_chrome_trace`): JSON or JSON.gz, CUDA and ROCm.

The file is an object with `traceEvents` beside `deviceProperties` and `distributedInfo`, or a bare list of events.
Times are microseconds with three decimals from `baseTimeNanoseconds` on; before 2024, whole microseconds since 1970. A
kernel, copy or fill (`cat` "kernel", "gpu_memcpy", "gpu_memset") carries the `correlation` of the call that launched it
("cuda_runtime", on ROCm too, or "cuda_driver"), and `External id`, the number of the operator ("cpu_op") which that
call was made in.

Seen: recordings of 2023 to 2026 (the files do not give PyTorch's version) on CUDA 12.0, 12.4 and older ones that do not
say, and on ROCm 6.2 to 7.1. The traps that are taken care of:

* ROCm writes the grid in work-items for `hipExtModuleLaunchKernel` and in workgroups for every other call; up to ROCm
  6.2 it stands on the launch only.
* Activities launched before the recording have no launch in the file ("orphans").
* Kernels of a replayed graph share the one call that launched the graph.
* In 2023 `External id` is often the correlation, which may be the number of another operator: it is believed only if
  the launch lies within that operator on its thread, else the operator that was running there is taken.
* `start_ns` counts from 1970 where the file says so (`baseTimeNanoseconds`, or times since 1970), else from the
  recording process's own zero.
* ROCm writes no registers, and of local memory only what is asked for at the launch: both stay missing there.
* "gpu_user_annotation" begins before its first activity and ends after its last, by 1 ns or, in early 2024, by 1 us and
  500 ns; see `ranges`.
* Some kernel names (Composable Kernel, AITER, cuDNN) are mangled, and are kept so: cutting off their template arguments
  would merge kernels that differ.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from ...dispatches.calls import call_table, empty_calls
from ...dispatches.ranges import empty_ranges
from ...dispatches.table import Trace, dispatch_table, in_order
from ..base import DataFile, Options, TraceReader, register
from ..files import view
from .columns import columns_of, integers, operator_columns
from .decode import Document, decode, refusing, uncollected
from .device import Named, devices_of, is_rocm
from .findings import findings_of
from .format import MISSING
from .link import Links, link, step_at, steps_of
from .ranges import ranges_of

_CATEGORIES = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|user_annotation|cuda_runtime|cuda_driver|kernel|gpu_memcpy|gpu_memset|python_function'
    rb'|cpu_instant_event|gpu_user_annotation|ac2g|fwdbwd|Operator|Runtime|Kernel|Memcpy|Memset)"',
)
_MANGLED = "_Z"


@register
class KinetoReader(TraceReader):
    """Chrome traces written by PyTorch's profiler, one process and rank a file."""

    name = "PyTorch trace"
    describes = "JSON or JSON.gz of torch.profiler with traceEvents or deviceProperties"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise what Kineto alone writes: its categories of events, or its schema beside device properties."""
        start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        if start == b"[":
            return bool(_CATEGORIES.search(head))
        if start != b"{" or b'"rocprofiler-sdk-tool"' in head:
            return False
        if b'"schemaVersion"' in head and (b'"deviceProperties"' in head or b'"traceEvents"' in head):
            return True
        return b'"traceEvents"' in head and bool(_CATEGORIES.search(head))

    def trace(self, files: Sequence[DataFile], options: Options) -> Trace:
        """Return what one file has recorded; see the module for what each column is made of."""
        (file,) = files
        with refusing(str(file.path)), uncollected():
            document = decode(view(file.path, max_bytes=options.max_bytes))
            return _trace(document, file.label, options)


def _trace(document: Document, label: str, options: Options) -> Trace:
    steps = steps_of(document)
    calls = _calls(document) if options.calls else empty_calls()
    if not len(document.gpu):
        note = f"{label}: no activity of a GPU among its {document.count} events"
        return Trace(dispatch_table({"start_ns": [], "duration_ns": []}), steps, notes=(note,), calls=calls)
    rocm = is_rocm(document.devices) or any(name.startswith("hip") for name in set(document.launches.names))
    links = link(document)
    number = document.gpu.integers["device"]
    named = devices_of(np.unique(number).tolist(), document.devices)
    table = dispatch_table(
        {
            **columns_of(document, links, rocm),
            **operator_columns(document, links),
            "device": _device(number, named),
            "step": integers(_step(document, links, steps)),
            "source": [f"{label}:{place}" for place in document.gpu.numbers.tolist()],
        }
    )
    findings = findings_of(document, links, table, rocm, label)
    ranges = ranges_of(document, links) if options.ranges else empty_ranges()
    return Trace(in_order(table), steps, findings, tuple(_notes(document, named)), calls, ranges)


def _calls(document: Document) -> pd.DataFrame:
    calls = document.launches
    return call_table(
        {
            "name": calls.names,
            "start_ns": calls.start_ns + document.base_ns,
            "duration_ns": calls.duration_ns,
            "process": integers(document.processes(calls)),
            "thread": calls.threads,
            "correlation": integers(calls.integers["correlation"]),
        }
    )


def _device(number: np.ndarray, named: dict[int, Named]) -> pd.Categorical:
    numbers, codes = np.unique(number, return_inverse=True)
    words = np.array([named[number].name for number in numbers.tolist()], dtype=object)
    return pd.Categorical(words[codes])


def _step(document: Document, links: Links, steps: pd.DataFrame) -> np.ndarray:
    """Return the step in which each activity was launched."""
    of_launch = step_at(steps, document.launches.start_ns + document.base_ns)
    return np.r_[of_launch, MISSING][links.launch]


def _notes(document: Document, named: dict[int, Named]) -> list[str]:
    notes = list(dict.fromkeys(device.remark for device in named.values() if device.remark))
    mangled = sum(name.startswith(_MANGLED) for name in set(document.gpu.names))
    if mangled:
        notes.append(f"mangled kernel names are kept as they are in the file: {mangled} of them")
    return notes
