"""Which counters to record: measurements with many of them to the few that keep the accuracy in few passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ..errors import ParameterError
from ..evaluation.counter_choice import Trial, ablation, by_passes, choose, fewest, in_passes, recorded, scheme_of
from ..evaluation.crossval import Progress
from ..features.matrix import Dataset, build_dataset
from ..output import whole_file
from ..report.document import Document
from ..report.profilers import counters_document
from ..table.conditions import Where
from ..table.counters import per_pass
from ..workers import workers
from .devices import Device, device
from .tables import Data, check_jobs, load_measurements, names_of, titled


@dataclass(frozen=True)
class CounterChoice:
    """Which counters to record, and what that costs in accuracy.

    Attributes
    ----------
    trials : tuple of Trial
        The best model of each category with the counters of 0, 1, ... passes, with all, and without each family.
    passes : list of list of str
        The counters to record, pass by pass; chosen from all rows.
    report : dict
        Fit for JSON: devices, rows, groups, scheme, counters there are, and the passes advised.
    """

    trials: tuple[Trial, ...]
    passes: list[list[str]]
    report: dict[str, Any]

    @property
    def table(self) -> pd.DataFrame:
        """A row per trial: columns, passes, counters, category, model, e_out (%)."""
        names = ["columns", "passes", "counters", "category", "model", "e_out"]
        return pd.DataFrame([{name: getattr(one, name) for name in names} for one in self.trials])

    def document(self) -> Document:
        """Return the choice as `report` shows it."""
        return counters_document(self.table, self.passes, self.report)

    def save(self, out: str | Path) -> None:
        """Write the counters as an input file of rocprofv3 (``rocprofv3 -i FILE``), a line ``pmc:`` for each pass."""
        with whole_file(Path(out)) as path:
            path.write_text("".join(f"pmc: {' '.join(names)}\n" for names in self.passes), encoding="utf-8")

    def __repr__(self) -> str:
        return f"<CounterChoice: {sum(map(len, self.passes))} of {self.report['counters']} counters>"

    def _repr_html_(self) -> str:
        return titled(repr(self)[1:-1], self.table)


def counters(
    data: Data,
    *,
    host: Device | None = None,
    target: Device,
    passes: int = 2,
    without_features: Sequence[str] = (),
    per_pass: Mapping[str, int] | None = None,
    where: Where = None,
    group: str | Sequence[str] | None = None,
    metric: str = "duration_us",
    units: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    seed: int = 0,
    jobs: int = -1,
    progress: Progress | None = None,
) -> CounterChoice:
    """Say which few of many counters keep the accuracy with how many profiling passes.

    Parameters
    ----------
    data : path, DataFrame, Measurements, or a sequence of them
        Measured rows with counters (``counter.NAME``).
    host, target
        The devices, as for `flopcast.train`.
    passes : int, default=2
        Most profiling passes to try; the table goes from none to these, and has all counters beside.
    without_features : sequence of str
        Families of features to leave out in turn, as shell patterns (``"counter.TCC*"``; several with commas).
    per_pass : mapping of str to int, optional
        Hardware block -> counters in a pass, where yours differ from an AMD Instinct's; ``other``: all other blocks.
    where, group, metric, units, defaults, seed, jobs, progress
        As for `flopcast.train`.

    Returns
    -------
    CounterChoice

    Raises
    ------
    FlopcastError
        The data cannot be used or have no counters, or a parameter is wrong.

    Examples
    --------
    >>> import flopcast as fc
    >>> found = fc.counters("host_and_target.parquet", host="MI300X", target="MI355X", passes=2)  # doctest: +SKIP
    >>> found.save("pmc.txt")  # doctest: +SKIP
    """
    check_jobs(jobs)
    if passes < 0:
        raise ParameterError("passes", f"must be 0 or more, got {passes}")
    limits = _limits(per_pass or {})
    devices = device(host, "host") if host is not None else None, device(target, "target")
    with workers(jobs, None) as who:
        names = [gpu.name for gpu in devices if gpu is not None]
        frame = load_measurements(data, where, units, defaults, names).frame
        columns = names_of(group, "group")
        dataset = build_dataset(frame, host=devices[0], target=devices[1], metric=metric, group=columns)
        options: dict[str, Any] = {"seed": seed, "jobs": who, "progress": progress}
        tried = by_passes(dataset, passes, limits, **options)
        less = ablation(dataset, names_of(without_features, "without_features") or (), limits, **options)
    advised = fewest(tried, dataset, passes)
    every = recorded(list(map(str, dataset.X.columns)))
    chosen = every if advised.columns == "all" else recorded(choose(dataset.X, dataset.y, advised.passes, limits))
    return CounterChoice((*tried, *less), in_passes(chosen, limits), _report(dataset, limits, advised, every))


def _limits(given: Mapping[str, int]) -> dict[str, int]:
    known = dict(per_pass())
    for block, most in given.items():
        if block not in known or most < 1:
            problem = f"must be BLOCK=N with N of 1 or more and a block of {', '.join(known)}, got {block}={most}"
            raise ParameterError("per_pass", problem)
    return known | dict(given)


def _report(dataset: Dataset, limits: Mapping[str, int], advised: Trial, every: Sequence[str]) -> dict[str, Any]:
    return {
        "schema": 1,
        "host": dataset.host.name if dataset.host else None,
        "target": dataset.target.name,
        "metric": dataset.metric,
        "n": len(dataset),
        "groups": len(set(dataset.groups.astype(str))),
        "scheme": scheme_of(dataset),
        "counters": len(every),
        "per_pass": dict(limits),
        "advised": {
            "columns": advised.columns,
            "passes": advised.passes,
            "model": advised.model,
            "e_out": advised.e_out,
        },
    }
