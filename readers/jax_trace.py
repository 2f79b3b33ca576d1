"""Traces of JAX and XLA (``jax.profiler``): every kernel, copy and fill on the streams of each GPU.

::

    {"displayTimeUnit": "ns", "metadata": {"highres-ticks": true}, "traceEvents": [
      {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/device:GPU:0"}},
      {"ph": "M", "pid": 1, "tid": 14, "name": "thread_name", "args": {"name": "Stream #14(Compute,MemcpyD2D)"}},
      {"ph": "X", "pid": 1, "tid": 14, "ts": 10.125, "dur": 2.5, "name": "loop_add_fusion", "args": {
       "correlation_id": "23", "hlo_op": "loop_add_fusion", "hlo_module": "jit_step", "tf_op": "jit(step)/add",
       "kernel_details": "regs:16 static_shared:0 dynamic_shared:0 grid:64,1,1 block:128,1,1 occ_pct:100"}}, ...]}

``jax.profiler.start_trace(..., create_perfetto_trace=True)`` and the plugin of TensorBoard write it, as
``*.trace.json.gz`` or ``perfetto_trace.json.gz`` (JAX 0.3 to 0.7). Times are microseconds. Lines of a GPU
that are no stream (``XLA Ops``, ``Steps``, ...) repeat the same time and are passed over. The file has no
shapes, and no name of the device; it is cut at 1,000,000 events, which a remark says. Grids are those of
CUDA; where kernels are AMD's, their unit is unknown, and they are left missing. TPUs are not read.

Source: https://github.com/openxla/xla (Apache-2.0), ``xla/tsl/profiler/convert/trace_events_to_json.cc``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..errors import DataError
from ..remarks import Remark, remark
from ..traces.dispatches import KERNEL, MEMCPY, MEMSET, Trace, dispatch_table, in_order
from .base import DataFile, Options, TraceReader, register
from .files import text
from .records import number

_DEVICE: Final = re.compile(r"/device:GPU:(?P<number>\d{1,6})")
_SNIFF: Final = re.compile(rb'"name"\s*+:\s*+"/(?:device:[GT]PU:\d|host:CPU)')
_STREAM: Final = re.compile(r"Stream #(?P<number>\d{1,18})")
_DETAIL: Final = re.compile(r"(?<![a-z_])(?P<name>[a-z_]++):(?P<value>[\d,]++)")
_BYTES: Final = re.compile(r"\bsize:(?P<bytes>\d{1,18})")
_COPY: Final = re.compile(r"^Memcpy(?P<source>[HDP])2(?P<target>[HDP])$")
_OF_AMD: Final = re.compile(r"^(?:Cijk_|__amd_|rocprim|void rocprim)|\.kd$")
_MOST_EVENTS: Final = 1_000_000
_LATEST_US: Final = 9e15  # nanoseconds in 64 bits
_AXES: Final = ("x", "y", "z")


@register
class JaxTraceReader(TraceReader):
    """Traces of jax.profiler and XLA."""

    name = "JAX/XLA trace"

    def sniff(self, path: Any, head: bytes) -> bool:
        """Recognise the names that XLA gives to devices and to the host."""
        return b'"traceEvents"' in head and _SNIFF.search(head) is not None

    def trace(self, files: Sequence[DataFile], options: Options) -> Trace:
        """Return the activities of the streams of each GPU; `source` numbers the events of the file."""
        (file,) = files
        events = _events(file, options)
        devices, streams = _names(events)
        if not devices:
            raise DataError(
                "is a trace of JAX without a GPU: profile on one, TPUs are not read",
                source=str(file.path),
            )
        rows = list[dict[str, Any]]()
        for place, event in enumerate(events, start=1):
            if event.get("ph") == "X" and event.get("pid") in devices:
                row = _activity(event, streams)
                if row is not None:
                    row["gpu"] = devices[event["pid"]]
                    row["source"] = f"{file.label}:{place}"
                    rows.append(row)
        if any(_OF_AMD.search(row["name"]) for row in rows):
            for row in rows:
                for name in ("grid", "block"):
                    for axis in _AXES:
                        row.pop(f"{name}_{axis}", None)
        columns: dict[str, list[Any]] = {name: [] for name in ("start_ns", "duration_ns")}
        every_name = []
        for cells in rows:
            every_name.extend(cells)
        for name in dict.fromkeys(every_name):
            columns[name] = [row.get(name) for row in rows]
        if not rows:
            columns |= {"kind": [], "name": []}
        return Trace(in_order(dispatch_table(columns)), notes=_notes(len(events), len(rows)))


def _notes(events: int, rows: int) -> tuple[Remark, ...]:
    """Return the remarks on the file as a whole."""
    notes = []
    if not rows:
        text_ = f"no activity of a GPU among its {events} events"
        notes.append(remark("no-gpu-activity", text_, events=events))
    else:
        text_ = "the GPU is not named: give default device=NAME"
        notes.append(remark("device-not-recorded", text_, by="JAX"))
    if events >= _MOST_EVENTS:
        text_ = f"the trace has {events} events and may be cut there, as XLA does at 1,000,000"
        notes.append(remark("jax-trace-cut", text_, events=events))
    return tuple(notes)


def _events(file: DataFile, options: Options) -> list[Mapping[str, Any]]:
    """Return the events of a file that are objects; a DataError if it is incomplete JSON."""
    try:
        document = json.loads(text(file.path, max_bytes=options.table_bytes))
    except (ValueError, RecursionError) as error:
        raise DataError(f"is no whole trace of JAX ({error})", source=str(file.path)) from None
    if isinstance(document, Mapping):
        events = document.get("traceEvents")
    else:
        events = None
    if not isinstance(events, list):
        raise DataError("is a trace without a list of events", source=str(file.path))
    return [event if isinstance(event, Mapping) else {} for event in events]


def _names(events: Sequence[Mapping[str, Any]]) -> tuple[dict[Any, int], dict[Any, int]]:
    """Return the number of the GPU of each process, and of the stream of each process and thread."""
    devices = dict[Any, int]()
    streams = dict[Any, int]()
    for event in events:
        arguments = event.get("args")
        process = event.get("pid")
        thread = event.get("tid")
        if event.get("ph") != "M" or not isinstance(arguments, Mapping):
            continue
        if not isinstance(process, int | str) or not isinstance(thread, int | str | None):
            continue
        name = str(arguments.get("name", ""))
        if event.get("name") == "process_name" and (device := _DEVICE.search(name)):
            devices[process] = int(device["number"])
        if event.get("name") == "thread_name" and (stream := _STREAM.search(name)):
            streams[process, thread] = int(stream["number"])
    return devices, streams


def _activity(event: Mapping[str, Any], streams: Mapping[Any, int]) -> dict[str, Any] | None:
    """Return the row of an event, None for one that is not on a stream or has no time."""
    process = event.get("pid")
    thread = event.get("tid")
    if not isinstance(thread, int | str | None):
        return None
    arguments = event.get("args")
    if not isinstance(arguments, Mapping):
        arguments = {}
    if streams and (process, thread) not in streams:
        return None
    start = number(event.get("ts"))
    duration = number(event.get("dur"))
    if start is None or duration is None or not 0 <= abs(start) + abs(duration) < _LATEST_US:
        return None
    name = str(event.get("name", ""))
    row: dict[str, Any] = {
        "kind": KERNEL,
        "name": name,
        "start_ns": round(start * 1000),
        "duration_ns": round(duration * 1000),
        "stream": streams.get((process, thread)),
        "op_name": str(arguments.get("tf_op", arguments.get("hlo_op", ""))),
        "linked": "correlation_id" in arguments,
    }
    correlation = str(arguments.get("correlation_id", ""))
    if correlation.isascii() and correlation.isdecimal() and len(correlation) < 19:
        row["correlation"] = int(correlation)
    copy = _COPY.match(name)
    if copy:
        row |= {"kind": MEMCPY, "name": f"{copy['source']}to{copy['target']}"}
    elif name.startswith("Memset"):
        row |= {"kind": MEMSET, "name": "memset"}
    else:
        row |= _launch(str(arguments.get("kernel_details", "")))
    size = _BYTES.search(str(arguments.get("memcpy_details", arguments.get("memset_details", ""))))
    if size and row["kind"] != KERNEL:
        row["bytes"] = int(size["bytes"])
    return row


def _launch(details: str) -> dict[str, Any]:
    """Return grid, workgroup and resources of a kernel from the words of `kernel_details`."""
    launch = dict[str, Any]()
    shared = 0
    for detail in _DETAIL.finditer(details):
        values = [int(one) for one in detail["value"].split(",") if one and len(one) < 10]
        if detail["name"] in ("grid", "block") and len(values) == 3:
            for axis, value in zip(_AXES, values, strict=True):
                launch[f"{detail['name']}_{axis}"] = value
        elif detail["name"] == "regs" and values:
            launch["vgpr"] = values[0]
        elif detail["name"] in ("static_shared", "dynamic_shared") and values:
            shared += values[0]
            launch["lds_bytes"] = shared
    return launch
