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
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ...arrays import BoolArray, FloatArray
from ...hardware import GPU, all_gpus
from ...remarks import Remark, remark
from ...traces.dispatches import (
    Finding,
    Severity,
    Trace,
    call_table,
    dispatch_table,
    empty_calls,
    empty_ranges,
    in_order,
)
from ..base import DataFile, Options, TraceReader, of_file, register
from ..files import view
from ..labels import known_gpu
from .decode import MISSING, DeviceProperties, Document, decode, refusing, uncollected
from .link import (
    Links,
    columns_of,
    described,
    in_unknown_unit,
    integers,
    link,
    operator_columns,
    ranges_of,
    step_at,
    steps_of,
)

# The GPU behind the number that a PyTorch trace gives it.
#
# CUDA numbers devices as `deviceProperties` does. ROCm gives activities the number of the HSA node, which counts the
# CPUs too (2 for the first GPU of a machine with two sockets), while `deviceProperties` starts at 0. On ROCm the name
# may also be empty (containers) or "AMD Radeon Graphics" (MI250, ROCm 6.2); the figures beside it are right.

_WAVE64 = 64
_GIB = 2**30
#: Memory that the driver keeps for itself, as a share: 79.2 of 80 GiB on an H100.
_MEMORY_TOLERANCE = 0.1


@dataclass(frozen=True)
class Named:
    """A device's name in the catalogue, or the file's own; and what was assumed to find it, None for nothing."""

    name: str
    assumption: Remark | None = None


def is_rocm(devices: Sequence[DeviceProperties]) -> bool:
    """Return whether the devices are AMD's (of those PyTorch supports by wavefronts of 64, or by name)."""
    return any(device.warp_size == _WAVE64 or "AMD" in device.name for device in devices)


def devices_of(numbers: Sequence[int], devices: Sequence[DeviceProperties]) -> dict[int, Named]:
    """Return the device behind each number of a GPU that did something; the name is "" where nothing tells."""
    if not is_rocm(devices):
        by_id = {device.id: device for device in devices}
        return {number: _named(by_id[number]) if number in by_id else Named("") for number in numbers}
    named = [_named(device) for device in devices]
    if len({one.name for one in named}) == 1:
        return dict.fromkeys(numbers, named[0])
    if len(numbers) == len(named):
        return dict(zip(sorted(numbers), named, strict=True))
    return dict.fromkeys(numbers, Named(""))


def _named(device: DeviceProperties) -> Named:
    gpu = known_gpu(device.name)
    if gpu is None:
        return _by_figures(device)
    units = gpu.reported_cus or gpu.cus
    if device.num_sms and units and device.num_sms != units:
        return Named(
            gpu.name,
            remark(
                "other-compute-units",
                f"{device.name} has {device.num_sms} compute units here, not {units}: part of a GPU?",
                device=device.name,
                units=device.num_sms,
                known=units,
            ),
        )
    return Named(gpu.name)


def _by_figures(device: DeviceProperties) -> Named:
    """Return the device by its architecture, compute units and memory."""
    same = sorted((gpu for gpu in all_gpus() if _fits(gpu, device)), key=lambda gpu: bool(gpu.same_id_as))
    if not same:
        return Named(device.name)
    name, alike = same[0].name, tuple(gpu.name for gpu in same[1:])
    units, memory_gib = device.num_sms, device.total_global_mem / _GIB
    others = "".join(f"; {other} would look the same" for other in alike)
    text = f"device {device.name!r}, {units} compute units, {memory_gib:.0f} GiB is read as {name}{others}"
    figures = {"units": units, "memory_gib": memory_gib}
    return Named(name, remark("device-by-figures", text, word=device.name, **figures, device=name, same=alike))


def _fits(gpu: GPU, device: DeviceProperties) -> bool:
    architecture = f"{device.compute_major}.{device.compute_minor}"
    if is_rocm([device]):  # gfx942 is 9.4: the stepping is not given
        alike = gpu.gfx.startswith("gfx") and gpu.gfx[3:-1] == architecture.replace(".", "")
    else:
        alike = gpu.gfx == architecture
    if not alike or device.num_sms != (gpu.reported_cus or gpu.cus) or gpu.memory_gb is None:
        return False
    return abs(device.total_global_mem / _GIB / gpu.memory_gb - 1) < _MEMORY_TOLERANCE


# What a reader of PyTorch traces should be told of one.

_GRAPH = ("hipGraphLaunch", "cudaGraphLaunch", "cuGraphLaunch")


def findings_of(document: Document, links: Links, table: pd.DataFrame, rocm: bool, label: str) -> tuple[Finding, ...]:
    """Return what is missing or odd in a trace whose dispatch table is in the order of the file."""
    linked = links.launch >= 0
    replayed = _replayed(document, links)
    without = linked & (links.operator < 0)
    cases: list[tuple[Remark, Severity, BoolArray]] = [
        (
            remark(
                "orphan",
                "activities launched before the recording began: no operator, no step; leave them out of totals",
                launched="before the recording",
            ),
            "warning",
            ~linked,
        ),
        (
            remark(
                "graph-replay",
                "kernels of replayed graphs: their operator, if any, is the one that launched the whole "
                "graph; their own operators and shapes are in a trace of the capture",
            ),
            "info",
            replayed,
        ),
        (
            remark("no-operator", "activities launched outside of any operator that the file has: no shapes"),
            "info",
            without & ~replayed,
        ),
        (
            remark(
                "operator-by-time",
                "activities whose operator the file does not name correctly: the one running at their launch is taken",
            ),
            "info",
            links.by_time & ~replayed,
        ),
        (
            remark("unresolved-device", "activities of a GPU that the file does not name: set device=NAME"),
            "warning",
            table["device"].eq("").to_numpy(dtype=bool),
        ),
        (
            remark(
                "grid-unit",
                "activities whose grid may be in workgroups or in work-items, which only their launch would "
                "tell: left out",
            ),
            "info",
            in_unknown_unit(document, links, rocm),
        ),
    ]
    durations = table["duration_ns"].clip(lower=0).to_numpy(dtype=np.float64)
    found = [_finding(*case, table, durations) for case in cases if case[2].any()]
    return (*found, *_of_times(document, label))


def _finding(
    what: Remark,
    severity: Severity,
    rows: BoolArray,
    table: pd.DataFrame,
    durations: FloatArray,
) -> Finding:
    total = durations.sum()
    share = float(durations[rows].sum() / total) if total else None
    return Finding(what, severity, int(rows.sum()), share, str(table["source"].iloc[int(rows.argmax())]))


def _replayed(document: Document, links: Links) -> BoolArray:
    calls = [name in _GRAPH for name in document.launches.names]
    return np.array([*calls, False], dtype=bool)[links.launch]


def _of_times(document: Document, label: str) -> list[Finding]:
    found: list[Finding] = []
    if document.coarse:
        found.append(
            Finding(
                remark(
                    "coarse-start",
                    "starts that the file's numbers do not resolve to the nanosecond: gaps are not exact",
                ),
                "warning",
                document.coarse,
                source=label,
            )
        )
    if document.clipped:
        found.append(
            Finding(
                remark(
                    "clipped-time",
                    "times beyond what an integer holds, cut off there: damaged timestamps",
                    clipped="times",
                ),
                "error",
                document.clipped,
                source=label,
            )
        )
    return found


_CATEGORIES = re.compile(
    rb'"cat"\s*:\s*"(?:cpu_op|user_annotation|cuda_runtime|cuda_driver|kernel|gpu_memcpy|gpu_memset|python_function'
    rb'|cpu_instant_event|gpu_user_annotation|ac2g|fwdbwd|Operator|Runtime|Kernel|Memcpy|Memset)"',
)
_MANGLED = "_Z"


@register
class KinetoReader(TraceReader):
    """Chrome traces written by PyTorch's profiler, one process and rank a file."""

    name = "PyTorch trace"

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
            document = decode(view(file.path, max_bytes=options.trace_bytes))
            return _trace(document, file.label, options)


def _trace(document: Document, label: str, options: Options) -> Trace:
    steps = steps_of(document)
    calls = _calls(document) if options.calls else empty_calls()
    if not len(document.gpu):
        text = f"no activity of a GPU among its {document.count} events"
        note = of_file(label, remark("no-gpu-activity", text, events=document.count))
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
    table, assumed = described(table, document.world)
    findings = findings_of(document, links, table, rocm, label)
    ranges = ranges_of(document, links) if options.ranges else empty_ranges()
    return Trace(in_order(table), steps, findings, tuple(_notes(document, named, assumed)), calls, ranges)


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


def _notes(document: Document, named: dict[int, Named], assumed: int) -> list[Remark]:
    notes = list(dict.fromkeys(device.assumption for device in named.values() if device.assumption))
    mangled = sum(name.startswith(_MANGLED) for name in set(document.gpu.names))
    if mangled:
        notes.append(
            remark(
                "mangled-names",
                f"mangled kernel names are kept as they are in the file: {mangled} of them",
                names=mangled,
            )
        )
    if assumed:
        notes.append(
            remark(
                "groups-of-world",
                f"{assumed} collectives do not state their group: assumed to be all {document.world} ranks of the job",
                count=assumed,
                ranks=document.world,
            )
        )
    return notes
