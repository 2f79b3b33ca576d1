"""Data of any kind a call takes: files, folders, tables, to the measurement table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..datasets import default_paths
from ..errors import ParameterError
from ..readers import Measurements, Options, read
from ..readers.labels import UNKNOWN_DEVICE
from ..remarks import remark


def load_measurements(
    paths: Sequence[Path | str] | None,
    where: Mapping[str, Sequence[str]] | None = None,
    units: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    devices: Sequence[str] = (),
    each: bool = False,
) -> Measurements:
    """Read measured files and keep the rows asked for.

    Parameters
    ----------
    paths : sequence of path, or None
        Files and folders; none of them: the embedded measurements.
    where : mapping of str to sequence of str, optional
        Column -> accepted values.
    units : mapping of str to str, optional
        Column -> unit, where its name does not carry one.
    defaults : mapping of str to str, optional
        Column -> value, where the files lack the column.
    devices : sequence of str
        Names of devices that the user described, so that no remark calls them unknown.
    each : bool
        Whether every repeat is a row of its own.

    Raises
    ------
    DataError
        If a file cannot be read, or no row is left.
    """
    options = Options(dict(units or {}), dict(defaults or {}), each=each)
    found = read(list(paths) if paths else default_paths(), options=options, where=where)
    notes = tuple(
        note for note in found.notes if not (note.code == UNKNOWN_DEVICE and note.values["device"] in devices)
    )
    findings = tuple(
        remark("trace-finding", trace=trace.label, finding=finding.remark, count=finding.count)
        for trace in found.traces
        for finding in trace.findings
        if finding.severity != "info"
    )
    missing = tuple(remark("file-unreadable", problem=problem) for problem in found.unreadable)
    return replace(found, notes=(*notes, *findings, *missing))


def check_jobs(jobs: int) -> None:
    """Refuse a number of processes that starts none.

    Raises
    ------
    ParameterError
        If it is 0.
    """
    if jobs == 0:
        raise ParameterError("jobs", "must be a number of processes, or -1 for one per core, got 0")
