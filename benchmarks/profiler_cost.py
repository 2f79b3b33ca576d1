"""What PyTorch's profiler adds to the CPU's work: ``python -m flopcast.benchmarks.profiler_cost``.

Loops of small operators on the CPU, inference and training, timed without the profiler and with it
by setting. No GPU is needed: what is timed is the CPU's work for each operator, which is what a
profiler lengthens. The launches of a GPU, and what the profiler does at each, are not in it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import torch

SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "torch": {},
    "torch-shapes": {"record_shapes": True},
    "torch-stack": {"with_stack": True},
}
"""Name of hardware/constants.toml -> options of the profiler."""
WARMED, TIMED, PROFILED, REPEATS = 20, 40, 20, 3


def models() -> dict[str, tuple[torch.nn.Module, torch.Tensor]]:
    """Return small models with an input each: their operators take the CPU as long as dispatching them."""
    import torch
    from torch import nn

    blocks = []
    layers: list[nn.Module] = []
    for _ in range(20):
        blocks.append(nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()))
    for _ in range(30):
        layers += [nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)]
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
    return {
        "convolutions": (nn.Sequential(*blocks), torch.randn(1, 4, 4, 4)),
        "encoder": (encoder, torch.randn(1, 4, 16)),
        "perceptron": (nn.Sequential(*layers), torch.randn(2, 8)),
    }


def steps() -> dict[str, Callable[[], Any]]:
    """Return a step of inference and one of training for each model."""
    import torch

    def infer(model: torch.nn.Module, given: torch.Tensor) -> None:
        with torch.no_grad():
            model(given)

    def train(model: torch.nn.Module, given: torch.Tensor) -> None:
        model.zero_grad()
        model(given).sum().backward()

    calls: dict[str, Callable[[], Any]] = {}
    for name, (model, given) in models().items():
        calls[f"{name}, inference"] = lambda model=model, given=given: infer(model, given)
        calls[f"{name}, training"] = lambda model=model, given=given: train(model, given)
    return calls


def step_us(step: Callable[[], Any], times: int) -> float:
    """Return the median CPU time of a step, µs: what else the machine runs is not in it."""
    seconds = []
    for _ in range(times):
        began = time.process_time()
        step()
        seconds.append(time.process_time() - began)
    return 1e6 * statistics.median(seconds)


def slowdowns(step: Callable[[], Any]) -> dict[str, float]:
    """Return by setting the time of a step with the profiler over that without it, the median of repeats."""
    from torch.profiler import ProfilerActivity, profile

    for _ in range(WARMED):
        step()
    ratios: dict[str, list[float]] = {name: [] for name in SETTINGS}
    for _ in range(REPEATS):
        alone_us = step_us(step, TIMED)
        for name, options in SETTINGS.items():
            with profile(activities=[ProfilerActivity.CPU], **options):
                step()
                ratios[name].append(step_us(step, PROFILED) / alone_us)
    return {name: statistics.median(values) for name, values in ratios.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the slowdown of every step and setting, and their medians."""
    argparse.ArgumentParser(description=__doc__).parse_args(arguments)
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    ratios_of = {name: slowdowns(step) for name, step in steps().items()}
    for name, ratios in ratios_of.items():
        print(name, *(f"{setting} {ratio:.2f}" for setting, ratio in ratios.items()), sep=", ")
    for setting in SETTINGS:
        ratios = [row[setting] for row in ratios_of.values()]
        spread = float(np.std(np.log(ratios), ddof=1))
        print(
            f"{setting}: median {statistics.median(ratios):.2f} "
            f"({min(ratios):.2f} to {max(ratios):.2f}), spread of the logarithm {spread:.2f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
