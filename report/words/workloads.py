"""What is said of forecasts of whole workloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final


def _does_not_fit(missing_gb: float, needed_tp: int | None, largest_batch: int) -> str:
    ways = []
    if needed_tp:
        ways.append(f"tp ≥ {needed_tp}")
    if largest_batch:
        ways.append(f"a batch of at most {largest_batch:,}")
    advice = f": needs {' or '.join(ways)}" if ways else ", however it is cut and with any batch"
    return f"does not fit, by {missing_gb:,.0f} GB on each GPU{advice}"


def _any_release(releases: int) -> str:
    return f"no release was named: the interval spans all {releases} that are calibrated"


def _other_model(release: str, models: tuple[str, ...]) -> str:
    return f"{release} was calibrated on {' and '.join(models)}, not on this model: the interval is wider"


def _by_runs(share: float) -> str:
    return f"{100 * share:.0f} % of the matrix products are predicted by the runs given, the others by the law"


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
    "training-constants": "the step is counted kernel by kernel; no release of a training framework is calibrated",
    "memory-a-priori": (
        "memory is counted for 32-bit gradients and optimizer states; five published peaks of Llama-2-7B in pipelines "
        "were 0.42 to 0.52 of such a count: what is kept in 16 bits, and what the framework frees, is not known"
    ),
    "products-by-runs": _by_runs,
    "not-understood": "{why}",
    "score-moves": "one machine's own score moved by {percent:.0f} % in two years of tuning",
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
    "residual": "what the model leaves",
    "model": "another model",
    "release": "another release",
    "gpu": "another GPU",
    "beyond": "more sequences than calibrated",
    "step": "what the count leaves out",
}
"""Parts of a time, and where its spread comes from."""
