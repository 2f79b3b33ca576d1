"""The form of the law of computation, with pairs left out: ``python -m flopcast.benchmarks.projection_forms``.

The default law scales a part of a kernel's time by the rooflines: the share that the roofline
explains on the host, to a power (`laws.computation.Affine`). 0 scales all of it, 1 that share alone.
Every form is judged by all pairs of GPUs there are: kernels of tuners and benchmarks (AITER,
NeuSight, MIOpen, PyTorch on H100 and H200), vLLM's of AIConfigurator (with ``--fetched``), and the
models that PyTorch has profiled on MI300X and H100, end to end. What is quoted is the error of a
pair by the form that was chosen on the others.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd

from ..arrays import BoolArray
from ..datasets import H100_H200
from ..hardware import find
from ..laws.applied import by_law
from ..laws.base import Pair
from ..laws.computation import Affine
from ..projection.kernel_laws import of_pairs
from ..projection.whole_trace import Laws, project_trace
from ..readers import read
from ..report.terminal import output
from ..table.problems import pair as pair_rows
from .projection_laws import (
    CAMPAIGNS,
    CHOICE,
    H100,
    H200,
    MI300X,
    TRACES,
    Cells,
    fetched_pairs,
    paired,
    shown,
)
from .projection_traces import trace
from .shared_data import run_on_data

POWERS = (0.0, 0.25, 0.5, 0.75, 1.0, 2.0)
OTHERS = ("flops", "bandwidth", "roofline", "roofline-achieved")
"""Laws without such a form, beside it."""
MOST_ROWS = 15_000


@dataclass(frozen=True)
class Form:
    """A law, and the power of the share that it scales."""

    law: str
    power: float = Affine.power

    @property
    def label(self) -> str:
        """What tables call it."""
        if self.law == CHOICE:
            return f"power {self.power:g}"
        return self.law


FORMS = tuple(Form(CHOICE, power) for power in POWERS)
EVERY = (*FORMS, *(Form(law) for law in OTHERS))


def kernel_errors(
    what: str, table: pd.DataFrame, host: str, target: str, mask: BoolArray | None = None
) -> Cells:
    """Return the mean of |ln(measured / projected)| of paired kernels by each form, %."""
    if mask is not None:
        table = table[mask].reset_index(drop=True)
    if len(table) > MOST_ROWS:
        table = table.sample(MOST_ROWS, random_state=0).reset_index(drop=True)
    rows, measured = of_pairs(table), table["duration_us"].to_numpy(dtype=float)
    pair = Pair.of(find(host), find(target))
    cells: Cells = {"pair": f"{host} → {target}", "kernels": what, "n": len(table)}
    for form in EVERY:
        with patch.object(Affine, "power", form.power):
            factor = by_law(rows, pair, form.law)["factor"].to_numpy(dtype=float)
        cells[form.label] = 100 * float(np.abs(np.log(measured / (rows.host_us * factor))).mean())
    return cells


def tables(data: Path, *, fetched: bool) -> Iterator[Cells]:
    """Yield the errors of each set of kernels that two GPUs ran."""
    for campaign in CAMPAIGNS:
        table = paired(campaign, data)
        yield kernel_errors(campaign.name, table, campaign.host, campaign.target)
    pairs = pair_rows(read([H100_H200]).frame, H100, H200).paired
    yield kernel_errors("PyTorch", pairs, H100, H200)
    if not fetched:
        return
    for campaign, op, table in fetched_pairs():
        if op == "gemm":
            yield kernel_errors("vLLM: products", table, campaign.host, campaign.target)
            continue
        decodes = table["seq_q"].eq(1).to_numpy(dtype=bool)
        yield kernel_errors("vLLM: prefill", table, campaign.host, campaign.target, ~decodes)
        yield kernel_errors("vLLM: decode", table, campaign.host, campaign.target, decodes)


def trace_errors(data: Path) -> Iterator[Cells]:
    """Yield |ln(measured / projected)| of the end-to-end time of each model and direction by each form, %."""
    names = sorted(path.name for path in (data / TRACES[H100]).glob("*.json.gz"))
    for name in names:
        traces = {device: trace(data / folder / name) for device, folder in TRACES.items()}
        for host, target in ((MI300X, H100), (H100, MI300X)):
            gpus = find(host), find(target)
            measured = project_trace(traces[target], gpus[1], gpus[1]).measured_us
            cells: Cells = {"model": name.split("_")[0], "host": host}
            for form in EVERY:
                with patch.object(Affine, "power", form.power):
                    made = project_trace(traces[host], *gpus, Laws(compute=form.law))
                cells[form.label] = 100 * abs(float(np.log(measured / made.projected_us)))
            yield cells


def left_out(errors: pd.DataFrame, unit: str, forms: Sequence[str]) -> pd.DataFrame:
    """Return for each unit left out the form of the least mean error of the others, and its error of the unit.

    ``errors`` has a column for each form; the rows of a unit count together, as much as those of
    any other.
    """
    means = errors.groupby(unit, sort=False)[list(forms)].mean()
    choices = []
    for name in means.index:
        chosen = means.drop(index=name).mean().idxmin()
        choices.append(
            {unit: name, "chosen on the others": chosen, "error": means.loc[name, chosen]}
        )
    return pd.DataFrame(choices)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; return 0, also where there is nothing to measure against."""
    flags = {"--fetched": "vLLM's kernels of AIConfigurator too, which are fetched"}
    return run_on_data("projection_forms", __doc__, _show, arguments, flags)


def _show(options: argparse.Namespace) -> None:
    kernels = pd.DataFrame(tables(options.data, fetched=options.fetched))
    traces = pd.DataFrame(trace_errors(options.data))
    labels = [form.label for form in EVERY]
    whole = traces[labels].mean().to_dict()
    row = {"pair": f"{MI300X}, {H100}", "kernels": "models, end to end", "n": len(traces)}
    every = pd.concat([kernels, pd.DataFrame([row | whole])], ignore_index=True)
    forms = [form.label for form in FORMS]
    output().print(shown("Mean |ln(measured / projected)| by form, %", every))
    output().print(shown("A pair of GPUs left out, %", left_out(every, "pair", forms)))
    output().print(shown("End-to-end time: error by form, %", traces))
    output().print(shown("A model left out, every law, %", left_out(traces, "model", labels)))


if __name__ == "__main__":
    sys.exit(main())
