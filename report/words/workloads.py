"""What is said of forecasts of whole workloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final


def _does_not_fit(missing_gb: float, needed_tp: int | None, largest_batch: int, largest_step: int = 0) -> str:
    ways = []
    if needed_tp:
        ways.append(f"tp ≥ {needed_tp}")
    if largest_batch:
        ways.append(f"a batch of at most {largest_batch:,}")
    if largest_step:
        ways.append(f"steps of at most {largest_step:,} tokens")
    advice = f": needs {' or '.join(ways)}" if ways else ", however it is cut and with any batch"
    return f"does not fit, by {missing_gb:,.0f} GiB on each GPU{advice}"


def _any_release(releases: int) -> str:
    return f"no release was named: the interval spans all {releases} that are calibrated"


def _other_model(release: str, models: tuple[str, ...]) -> str:
    return f"{release} was calibrated on {' and '.join(models)}, not on this model: the interval is wider"


def _by_runs(share: float) -> str:
    return f"{100 * share:.0f} % of the matrix products are from the runs and measurements given, the others by the law"


def _by_source(stated: int, run: int, measured: int, law: int) -> str:
    told = (
        (stated, "stated"),
        (run, "predicted by the runs given"),
        (measured, "measured"),
        (law, "reckoned by laws of achieved rates"),
    )
    return f"times of layers: {', '.join(f'{count:,} {how}' for count, how in told if count) or 'messages alone'}"


def _without_law(calls: int, share: float, by: str, named: tuple[str, ...], kinds: int) -> str:
    others = f" and {kinds - len(named):,} kinds more" if kinds > len(named) else ""
    of = "of the time of kernels where it was recorded" if by == "time" else "of the operators"
    return f"{calls:,} operators without a law are left out, {100 * share:.2g} % {of}: {', '.join(named)}{others}"


def _other_gpu(gpu: str, calibrated: str) -> str:
    return f"what is not a kernel was calibrated on {calibrated}, not on {gpu}: the interval is wider"


WORDS: Final[Mapping[str, str | Callable[..., str]]] = {
    "does-not-fit": _does_not_fit,
    "any-release": _any_release,
    "other-model": _other_model,
    "other-gpu": _other_gpu,
    "more-sequences": (
        "{sequences:,.0f} sequences run at once, the calibrated runs had {calibrated:,.0f}: the interval is wider"
    ),
    "training-constants": "the step is counted kernel by kernel: no calibrated release of a framework was named",
    "memory-a-priori": (
        "memory is counted for 32-bit gradients and optimizer states; five published peaks of Llama-2-7B in pipelines "
        "were 0.42 to 0.52 of such a count: what is kept in 16 bits, and what the framework frees, is not known"
    ),
    "products-by-runs": _by_runs,
    "layers-by-source": _by_source,
    "operators-without-law": _without_law,
    "messages-without-size": "{messages:,} messages are left out: their sizes were not recorded",
    "times-of-trace": (
        "no operator has its shape: the times of {layers:,} nodes are those of the trace, messages are reckoned anew"
    ),
    "times-of-graph": (
        "the times of {layers:,} layers are those that the graph states, in {unit}, of the device on which they were "
        "measured; costs of edges count between devices only"
    ),
    "times-moved": (
        "stated times of {host} count {factor:.3g} times on {target}: what the layers do is not known, the interval "
        "reaches from the ratio of the peaks to that of the memories"
    ),
    "layers-of-cpu": "{layers:,} layers run on the CPU alone: their times there, reckoned in line with the others",
    "layers-in-a-row": "no layer says what it comes after: each waits for the one before it, and nothing overlaps",
    "network-stated": (
        "beyond a node messages are reckoned in two levels, from the bandwidth and latency between nodes; that was "
        "measured on no machine at hand: the interval is wider"
    ),
    "stages-not-calibrated": "serving in a pipeline is counted, and was calibrated on no run: the interval is wider",
    "not-understood": "{why}",
    "score-moves": (
        "one machine's own score moved by {percent:.0f} % in two years of tuning; published scores per device of "
        "machines of one kind differ by ±{machines:g} % (1 σ), which the interval holds"
    ),
    "score-by-frontier": (
        "the shares of the peak are those of Frontier's MI250X, not measured on {gpu}; with them eight H100 come out "
        "4.5 % low, El Capitan's MI300A 4.8 % high"
    ),
    "devices-idle": "the fastest grid, {rows:,} by {columns:,}, leaves {idle:,} of the devices idle",
}

PARTS: Final = {
    "products": "matrix products",
    "attention": "attention",
    "cache": "reading the cache",
    "collectives": "collectives",
    "layers": "launches, small kernels",
    "steps": "scheduling, per step",
    "sequences": "per sequence",
    "elementwise": "norms, activations",
    "head": "output matrix",
    "pipeline": "pipeline",
    "gradients": "sum of gradients",
    "optimizer": "optimizer",
    "stated": "stated times",
    "network": "messages between nodes",
    "stages": "stages of a pipeline",
    "update": "updates of the rest",
    "panel": "panels, not hidden",
    "swap": "swaps of rows",
    "residual": "what the model leaves",
    "model": "another model",
    "release": "another release",
    "gpu": "another GPU",
    "beyond": "more sequences than calibrated",
    "step": "what the count leaves out",
}
"""Parts of a time, and where its spread comes from."""

SOURCES: Final = {"stated": "stated", "run": "by a run", "measured": "measured", "law": "by law", "": "–"}
"""Where the time of a layer comes from."""

ASKED: Final = {
    "gpu": "GPU",
    "gpus": "GPUs",
    "batch": "batch",
    "input_len": "prompt, tokens",
    "output_len": "answer, tokens",
    "num_prompts": "requests",
    "dtype": "precision",
    "seq_len": "sequence, tokens",
    "micro_batch": "micro-batch",
    "global_batch": "global batch",
    "network_gbs": "network, GB/s",
    "network_us": "network, µs",
    "node_gpus": "GPUs of a node",
}
"""Fields of a setting, as heads; others are called as they are."""
INPUTS: Final = {
    "n": "size of the matrix",
    "nb": "width of a panel",
    "p": "rows of the grid",
    "q": "columns of the grid",
    "product": "share of the peak that matrix products reach",
    "panel": "share of the peak that a panel reaches",
    "network_gbs": "network, GB/s per device",
    "bandwidth_gbs": "memory bandwidth, GB/s per device",
    "stream": "share of the bandwidth that a stream reaches",
    "reached": "share of the stream that HPCG reaches",
    "scaling": "share that is left on so many devices",
}
"""What a score of HPL or HPCG is made of."""
MEMORY: Final = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer",
    "activations": "activations",
    "cache": "cache",
    "reserved": "runtime",
}
"""What fills the memory of a GPU."""
