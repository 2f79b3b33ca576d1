"""What is said of a trace on another GPU, and of profilers held against each other, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ...remarks import Remark
from ..formats import duration
from .prediction import WORDS as OF_PREDICTIONS


def say_all(reasons: Sequence[Remark]) -> str:
    """Return why a law was applied as it was, in one line; "" where there is nothing to say.

    Examples
    --------
    >>> from flopcast.remarks import remark
    >>> say_all([remark("no-flops"), remark("figure-not-published", figure="bf16_matrix", gpu="MI375X")])
    'no FLOPs that count: its elements are read and written; bf16_matrix of MI375X is not published'
    """
    return "; ".join(map(_say, reasons))


SOURCES: Final = {"cpu_speed": "CPU speed"}
"""Source of error that is no class of operators -> its name."""


def _say(reason: Remark) -> str:
    text = WORDS[reason.code] if reason.code in WORDS else OF_PREDICTIONS[reason.code]
    return text(**reason.values) if callable(text) else text.format(**reason.values)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _pace_unknown(target: str, before: float, after: float) -> str:
    return (
        f"what sets the pace on {target} is not known, the trace has no calls of the CPU: activities of the GPU "
        f"are {_percent(after)} of the critical path ({_percent(before)} as measured)"
    )


def _share_of_cpu(before: float, after: float) -> str:
    return f"the CPU's work and launches are {_percent(after)} of the critical path ({_percent(before)} as measured)"


def _launch_bound(target: str, before: float, after: float, already: bool) -> str:
    verb = "stays" if already else "becomes"
    words = _share_of_cpu(before, after)
    return f"on {target} the trace {verb} launch-bound: {words}; a faster GPU does not shorten that part"


def _group_spans_nodes(ranks: float, per_node: int, law_of_one_node: bool, stated: bool) -> str:
    spans = f"a group of {ranks:g} spans nodes of {per_node}"
    if not stated:
        return f"{spans}: state the network's bandwidth of host and target"
    return f"{spans}, and the model is of one node" if law_of_one_node else spans


def _other_world(ranks: tuple[int, int], nodes: tuple[int, int]) -> str:
    levels = "; two levels were measured on no machine at hand" if max(nodes) > 1 else ""
    return f"{ranks[0]} → {ranks[1]} ranks, {nodes[0]} → {nodes[1]} nodes{levels}"


def _above_model(ratio: float, kept: bool) -> str:
    told = f"the collectives took {ratio:.3g} times what the model of the links says: they wait for peers"
    return f"{told}, which stays" if kept else f"{told}, which is projected too (--comm-wait keeps it)"


def _agrees(label: str, alone: bool, step_us: float, unprofiled_us: float, overhead: float, kernel_ratio: float) -> str:
    lead = label if alone else f"{label} agrees best"
    return (
        f"{lead}: {step_us / 1e3:.3f} ms per step, {unprofiled_us / 1e3:.3f} ms unprofiled ({overhead:+.1f} %); "
        f"its kernels add up to {kernel_ratio:.3f} of the unprofiled time"
    )


def _of_passes(kernels: int, of: int, time_share: float, ratio: float, unmeasured: int, first: Sequence[str]) -> str:
    told = f"passes measured {kernels} of {of} kernels, {_percent(time_share)} of the time; the times of kernels are "
    names = ", ".join(name[:40] for name in first) + (", ..." if unmeasured > len(first) else "")
    return f"{told}{ratio:.3f} of those recorded" + (f"; as recorded, not measured in passes: {names}" if first else "")


def _folded(repeats: Sequence[int], share: float, error: float) -> str:
    count, some = len(repeats), ", ".join(map(str, repeats[:5])) + (", ..." if len(repeats) > 5 else "")
    phases = f"{count} phases repeat {some} times" if count > 1 else f"one phase repeats {some} times"
    off = "less than 0.01 %" if error < 1e-4 else f"{100 * error:.2g} %"
    return (
        f"{phases}: {100 * share:.3g} % of the activities were projected for all, by which the time is off by {off} "
        "(1 σ, from how the repeats differ)"
    )


WORDS: Final[Mapping[str, str | Callable[..., str]]] = {
    # why a law was applied as it was, or another one in its place
    "operator-unknown": "its operator is not recorded: work unknown",
    "helper-kernel": "a kernel that helps another of its call: work unknown",
    "no-flops": "no FLOPs that count: its elements are read and written",
    "no-such-unit": "{problem}",
    "over-pcie": "a copy between host and GPU: by the generations of PCIe",
    "unlike-training": lambda reasons: f"outside the trained range: {say_all(reasons)}",
    "model-then-law": lambda model, law: f"{say_all(model)}: {say_all(law)}",
    "carried-on-by-law": "the model is of {gpu}: from there by the law {law}",
    "other-world": _other_world,
    "one-rank": "a group of one rank sends nothing",
    "no-link": "{problem}",
    "message-unknown": lambda missing: f"{' and '.join(missing)} not recorded",
    "group-spans-nodes": _group_spans_nodes,
    "links-not-measured": lambda gpus: f"links of {' and '.join(gpus)} not measured",
    "links-of-another": (
        "links of {unmeasured} not measured: latency of {measured}, bandwidth by the published figures"
    ),
    # what sets the pace on the target
    "pace-unknown": _pace_unknown,
    "gpu-sets-pace": lambda target, **shares: f"on {target} the GPU sets the pace: {_share_of_cpu(**shares)}",
    "launch-bound": _launch_bound,
    # what a reader should know of a projection
    "launched-before": "{count} activities were launched before the trace: they hold others up, and do not count",
    "phases-folded": _folded,
    "no-phases": "no phase of the trace repeats often enough to stand for its repeats: all of it was projected",
    "no-calls": "the trace has no calls of the CPU: gaps are kept, whatever their cause",
    "cpu-taken-as-fast": lambda sigma: (
        f"the target's CPU is taken to be as fast as the one measured, within {_percent(sigma)}: state --cpu-speed"
    ),
    "collectives-above-model": _above_model,
    "nothing-re-sized": ("no collective is re-sized: the trace has none whose name, message and group it says"),
    "kernels-keep-their-work": (
        "every rank keeps its batch: kernels stay as they are, those on shards (an optimiser's) too, whose work the "
        "ranks would change"
    ),
    "device-taken-for": lambda devices, host: f"the trace says {', '.join(devices)}; it is taken for {host}",
    # several ranks of a job
    "waits-for-peers": lambda share, measured, target: (
        f"the ranks wait for peers in {_percent(share)} of their time on {target} ({_percent(measured)} as measured): "
        "no faster network shortens that"
    ),
    "comes-last": lambda rank, last, of, late_us: (
        f"rank {rank} comes last to {last} of {of} collectives, {duration(late_us)} after the one before it in all"
    ),
    "computes-longest": lambda rank, over: (
        f"rank {rank} computes longest, {100 * over:.1f} % above the mean of the ranks, as measured"
    ),
    "clocks-aligned": lambda error_us: (
        f"the traces' clocks are aligned by the ends of common collectives, within {error_us:.3g} µs"
    ),
    "collectives-unmatched": "{count} collectives are in some of the traces only, or between two ranks: not waited for",
    "ranks-without-trace": (
        "{traced} of {ranks} ranks were given: a collective is taken to start with the last of those"
    ),
    "job-without-interval": "without an interval: each trace alone has one",
    # passes of a profiler
    "passes-planned": "{profiler}: kernels {kernels}, passes {passes}, steps in each {steps}",
    "filters-with-counters": (
        "rocprofv3 filters kernels only where it collects counters, and runs them one at a time then; it counts "
        "launches from the start of PROGRAM: let the full trace begin there too"
    ),
    "records-all": "torch.profiler records every kernel: one pass, whose first step warms up",
    "durations-of-passes": _of_passes,
    "bound-changes": lambda before, after, figure, value: f"{before} → {after} at {figure} = {value:,.4g}",
    "samples-converged": lambda samples, seed, convergence: (
        f"{samples} scrambled Sobol' samples, seed {seed}: median and bounds of the two halves differ by "
        f"at most {100 * convergence:.2g} % of the projection"
    ),
    # which profiler to believe
    "nearest-to-unprofiled": _agrees,
    "shortest-kernels": lambda label, matched_us, matched: (
        f"{label} has the shortest kernels ({matched_us:.1f} µs for the {matched} that all traces have): a weaker sign "
        "than agreement with the unprofiled time, which was not given"
    ),
    "queues-differ": "the traces have different numbers of queues: kernels were matched by their order on the GPU",
    "names-cut": "a trace has the names of functions only: kernels were matched without their template arguments",
    "kernels-uneven": lambda share: (
        f"kernels with {share:.0%} of the kernel time do not occur equally often in all traces: "
        "their order may be shifted; give the same steps of each"
    ),
    "gpus-differ": "the traces have different numbers of GPUs: give the same ranks of each",
}

PARTS_OF_RANKS: Final = {
    "computation_us": "computation", "communication_us": "communication", "waiting_us": "waiting for peers",
    "copy_us": "copies", "idle_us": "idle",
}  # fmt: skip
"""What the time of a rank of a job is made of (`projection.job.PARTS`); a moment counts for the first going on."""
