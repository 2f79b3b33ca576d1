"""
A whole trace on another GPU
============================

A profiler's trace has what a table of kernels lacks: gaps, launches, the CPU. ``fc.project`` gives every kernel a new
time by the law that fits it, then plays the trace again.

The trace is made up here in the format of the PyTorch profiler: a matrix product and an element-wise kernel in turn,
twenty times, launched every 60 µs. Take one of your own instead.
"""

import json
import tempfile
from pathlib import Path

import flopcast as fc


def layer(number, start):
    """Return the events of a matrix product and of an addition: operator, launch and kernel of each."""
    shapes = {"aten::mm": [[512, 4096], [4096, 4096]], "aten::add": [[512, 4096], [512, 4096], []]}
    kernels = {
        "aten::mm": ("Cijk_Ailk_Bljk_BBS_BH", 45.0),
        "aten::add": ("vectorized_elementwise_kernel<add>", 6.0),
    }
    for place, (operator, (kernel, took)) in enumerate(kernels.items()):
        at, identity = start + 12 * place, 2 * number + place + 1
        inputs = {
            "Input Dims": shapes[operator],
            "Input type": ["c10::BFloat16", "c10::BFloat16", "Scalar"],
        }
        common = {"External id": identity, "correlation": identity}
        yield event("cpu_op", operator, at, 10.0, 7, **common, **inputs)
        yield event("cuda_runtime", "hipLaunchKernel", at + 3, 4.0, 7, **common)
        yield event("kernel", kernel, start + 8 + 46 * place, took, 0, **common, device=0, stream=0)


def event(category, name, start, duration, thread, **args):
    """Return one event of the format, with times in microseconds."""
    place = {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": thread}
    return {**place, "ts": start, "dur": duration, "args": args}


device = {
    "id": 0,
    "name": "AMD Instinct MI300X",
    "numSms": 304,
    "warpSize": 64,
    "totalGlobalMem": 206141652992,
}
events = [one for number in range(20) for one in layer(number, 60.0 * number)]
folder = tempfile.TemporaryDirectory()
trace = Path(folder.name) / "trace.json"
_ = trace.write_text(json.dumps({"deviceProperties": [device], "traceEvents": events}))

# %%
# What is in it? Every operator on a shape becomes a row; that is what ``train`` learns from.

fc.read(trace).frame[
    ["op", "m", "n", "k", "rows", "cols", "dtype_a", "duration_us", "repeats", "source"]
]

# %%
# On an MI355X:

projected = fc.project(trace, target="MI355X")
projected

# %%
# The GPU gets faster, the CPU's launches every 60 µs do not: the trace becomes launch-bound, and the time from end to
# end hardly falls.

print(f"{projected.measured_us:.0f} µs become {projected.projected_us:.0f} µs,")
print("between {:.0f} and {:.0f} µs with 90 % probability".format(*projected.interval_us))
projected.plot_classes()

# %%
# Which share of each roof is used, as measured and projected: on the MI355X the GPU waits between kernels, the CPU does
# not.

projected.plot_roofs()

# %%
# Of a part that exists only as a spec sheet: an MI355X with other memory, over a range of bandwidths.

projected = fc.project(trace, target="MI355X", sweep="memory_bw_gbs=6000:10000:2000")
projected.plot_sweeps()[0]

# %%
folder.cleanup()
