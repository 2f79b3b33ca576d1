"""Several targets at once: the same host measurements to a model for each, its errors beside the others'."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import pandas as pd

from .. import values
from ..datasets import DEFAULT_HOST
from ..errors import ParameterError
from ..output import dumps, whole_folder
from ..report.document import Document
from ..report.html import page
from ..report.notebook import notebook_progress
from ..report.result import Result
from ..report.run_folder import TARGETS, check_runs_folder, folder_of
from ..report.training import targets_document
from ..settings import Report, configured
from ..table.problems import rows_of
from .devices import Device, device
from .runs import Run
from .tables import Data, check_devices, load_measurements
from .training import train


class Runs(Result, Mapping[str, Run]):
    """A run per target, by its name, all from one host.

    >>> import flopcast as fc
    >>> found = fc.train_each(host="MI355X", targets=["MI300X"], where={"m": (None, 64)}, models=["OLS"], jobs=1)
    >>> found["MI300X"].selected["name"] in ("OLS", *found["MI300X"].table["name"])
    True
    """

    saved_as = TARGETS

    def __init__(self, runs: Mapping[str, Run]) -> None:
        self._runs = dict(runs)
        self.folders = {name: folder_of(name) for name in runs}

    def __getitem__(self, target: str) -> Run:
        return self._runs[target]

    def __iter__(self) -> Iterator[str]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def table(self) -> pd.DataFrame:
        """Errors of all baselines and models (`Run.table`), the target in the first column."""
        return (
            pd.concat([run.table.assign(target=name) for name, run in self.items()])
            .set_index("target")
            .reset_index()
        )

    def document(self, out: str | Path | None = None) -> Document:
        """Return the targets beside each other, for readers; ``out`` is where the runs are saved."""
        return targets_document(
            {name: run.metrics for name, run in self.items()},
            None if out is None else self.places(out),
        )

    def places(self, out: str | Path) -> dict[str, Path]:
        """Return the run folder of each target in a folder."""
        return {name: Path(out) / folder for name, folder in self.folders.items()}

    def _write(self, folder: Path, made: Mapping[str, Any] | None) -> None:
        """Write a run folder per target, and beside them ``targets.json`` and ``targets.html``."""
        check_runs_folder(folder, self)
        document = self.document(folder)
        with whole_folder(folder) as stage:
            for name, place in self.places(stage).items():
                self[name].save(place)
            for name, text in zip(
                TARGETS, (dumps(document.data, missing=True), page(document)), strict=True
            ):
                (stage / name).write_text(text, encoding="utf-8")

    def __repr__(self) -> str:
        return f"<Runs for {', '.join(self)}>"


@configured
def train_each(
    *data: Data,
    host: Device | None = None,
    targets: str | Sequence[Device],
    fits: str | Path | None = None,
    resume: bool = False,
    progress: Report | None = None,
    **options: Any,
) -> Runs:
    """Train a model for each of several targets from what one host measured.

    Parameters
    ----------
    *data : path, DataFrame, Measurements, or a sequence of them, optional
        Read once; None: the embedded measurements.
    host : str, Path or GPU, optional
        The device that was measured; by default that of the embedded measurements.
    targets : sequence of str, Path or GPU, or str
        The devices to predict. One model over several devices, without a host, is what `train`
        makes of a list.
    fits, resume
        As for `train`; each target has a separate file, whose name has the target's before its
        suffix.
    progress
        As for `train`, of all trainings together.
    options
        Those of `train`.

    Returns
    -------
    Runs
        A mapping of each target's name to its `Run`.

    Raises
    ------
    FlopcastError
        As `train`; a device that no row is of is refused before the first training.

    Examples
    --------
    >>> import flopcast as fc
    >>> runs = fc.train_each(host="MI300X", targets=["MI355X"], where={"m": (None, 64)}, models=["OLS"], jobs=1)
    >>> list(runs)
    ['MI355X']
    """
    if isinstance(targets, str):
        targets = values.names("targets", targets) or []
    gpus = [device(one, "targets") for one in targets]
    host = device(DEFAULT_HOST if host is None else host, "host")
    names = [host.name, *(gpu.name for gpu in gpus)]
    if len(set(names)) < len(names) or not gpus:
        raise ParameterError(
            "targets", f"must be devices other than the host, each once, got {', '.join(names[1:])}"
        )
    read = {
        name: options[name]
        for name in ("where", "unit", "default", "rename", "each", "keep")
        if name in options
    }
    measured = load_measurements(data or None, devices=names, only=names, **read)
    check_devices(measured, names)
    for name in names:
        rows_of(measured.frame, name)  # refuses one that no row is of
    options_of = {
        name: {} if fits is None else _fits(fits, name, resume=resume) for name in names[1:]
    }
    if resume and not any(one.get("resume") for one in options_of.values()):
        raise ParameterError("resume", "has nothing to go on with: train without it")
    said = progress or notebook_progress("training")
    if said is None:
        all_of_them = None
    else:
        all_of_them = _OfAll(said, len(gpus), perf_counter)
    runs = dict[str, Run]()
    for gpu in gpus:
        asked: dict[str, Any] = options | options_of[gpu.name] | {"progress": all_of_them}
        runs[gpu.name] = train(measured, host=host, target=gpu, **asked)
        if all_of_them:
            all_of_them.next()
    return Runs(runs)


class _OfAll:
    """Progress of several trainings: those to come are taken to last as long as those done, else as this one will."""

    def __init__(self, said: Report, count: int, clock: Callable[[], float]) -> None:
        self._said = said
        self._left = count - 1
        self._clock = clock
        self._took = list[float]()
        self._begun = clock()

    def __call__(self, done: int, total: int, label: str, seconds: float) -> None:
        times = [self._clock() - self._begun + seconds]
        each = sum(self._took or times) / len(self._took or times)
        self._said(done, total, label, seconds + self._left * each)

    def next(self) -> None:
        """Begin with the next training."""
        self._took.append(self._clock() - self._begun)
        self._left, self._begun = self._left - 1, self._clock()


def _fits(fits: str | Path, target: str, *, resume: bool) -> dict[str, Any]:
    """Return where the fits for a target are kept, and whether there are any to go on with."""
    path = Path(fits)
    path = path.with_name(f"{path.stem}.{folder_of(target)}{path.suffix}")
    return {"fits": path, "resume": resume and path.exists()}
