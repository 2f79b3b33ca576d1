"""Projecting the traces of several ranks of one job together: what they wait for each other is known then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..errors import DataError
from ..projection.job import Job
from ..projection.job import project_job as job_of
from ..readers import Options
from ..report.document import Document
from ..report.formats import duration
from ..report.job import job_document
from ..report.projection import in_words
from .devices import Device, device
from .projecting import Inputs, laws_of, save_projection


@dataclass(frozen=True)
class ProjectedJob:
    """Several ranks of a job on another GPU.

    Attributes
    ----------
    job : Job
        Everything that was computed (`projection.job.Job`).
    """

    job: Job

    @property
    def measured_us(self) -> float:
        """From the first start to the last end of all ranks, as measured."""
        return self.job.measured_us

    @property
    def projected_us(self) -> float:
        """The same on the target."""
        return self.job.projected_us

    @property
    def ranks(self) -> pd.DataFrame:
        """Where each rank's time goes, waiting for peers apart (`projection.job.Job.split`)."""
        return self.job.split

    @property
    def waits(self) -> pd.DataFrame:
        """What each rank waits in each collective (`projection.job.Job.waits`)."""
        return self.job.waits

    @property
    def kernels(self) -> pd.DataFrame:
        """One row per activity of every rank, on one clock, as replayed together (`projection.job.Job.activities`)."""
        return in_words(self.job.activities)

    def document(self) -> Document:
        """Return the job as `report` shows it on terminals and pages."""
        return job_document(self.job)

    def save(self, folder: Path | str, made: Mapping[str, Any] | None = None) -> None:
        """Write project.json, project.html, kernels.parquet and trace.json.gz (all ranks) into a folder, or nothing.

        The page ends with what it was ``made`` of, where that is given.

        Raises
        ------
        DataError
            The folder holds other files or cannot be written.
        """
        kernels = self.kernels
        times = (
            kernels["projected_start_ns"].to_numpy(),
            (1000 * kernels["projected_us"]).round().to_numpy(dtype=np.int64),
        )
        save_projection(Path(folder), self.document(), self.job.projections[0], kernels, (kernels, *times), made)

    def __repr__(self) -> str:
        return f"<ProjectedJob of {len(self.job.ranks)} ranks: {duration(self.projected_us)}>"


def project_job(
    traces: Sequence[Path | str],
    to: Device | None = None,
    *,
    host: Device | None = None,
    correct: Sequence[Path | str] = (),
    defaults: Mapping[str, str] | None = None,
    **laws: Any,
) -> ProjectedJob:
    """Project the traces of several ranks of one job to another GPU, replayed together.

    A collective starts when the last of its ranks arrives, which tells what the others wait for it from the transfer.

    Parameters
    ----------
    traces : sequence of path
        Files and folders: one trace for each rank, of the same steps.
    to : str, Path or GPU, optional
        The target; by default the GPU measured.
    host, correct, defaults
        As for `projecting.project_traces`.
    **laws
        As there too: ``compute_law``, ``comm_law``, ``gaps``, ``cpu_speed``, ``model``, ``network``,
        ``ranks_per_node``, ``ranks`` and ``grows``.

    Returns
    -------
    ProjectedJob

    Raises
    ------
    DataError
        A parameter cannot be used, a trace cannot be read or projected, or the ranks' collectives do not match.

    Examples
    --------
    With traces of your own::

        found = project_job(["rank0.json.gz", "rank1.json.gz"], to="MI355X")
        found.ranks[["rank", "waiting_us", "last"]]
    """
    target, known = None if to is None else device(to, "to"), None if host is None else device(host, "host")
    inputs = Inputs(laws_of(**laws), target, known, Options(defaults=dict(defaults or {}), calls=True), correct)
    read = list(inputs.read(traces))
    hosts = {inputs.host(label, trace).name: inputs.host(label, trace) for label, trace in read}
    if len(hosts) > 1:
        raise DataError(f"the ranks are of {' and '.join(sorted(hosts))}: one job of one GPU is replayed together")
    (made_on,) = hosts.values()
    return ProjectedJob(job_of(read, made_on, target or made_on, inputs.corrected(made_on)))
