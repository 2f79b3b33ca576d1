"""Data of any kind a call takes: files, folders, tables, to the measurement table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..datasets import default_paths
from ..errors import ParameterError
from ..readers import Options, read
from ..table.measurements import Measurements


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
    described = tuple(f"device {name!r} is not in the catalogue" for name in devices)
    notes = tuple(note for note in found.notes if not note.startswith(described))
    findings = tuple(
        f"{trace.label}: {finding.code}: {finding.message} ({finding.count})"
        for trace in found.traces
        for finding in trace.findings
        if finding.severity != "info"
    )
    missing = tuple(f"left out, unreadable: {error}" for error in found.unreadable)
    return Measurements(found.frame, found.rejected, (*notes, *findings, *missing), found.traces, found.unreadable)


def check_jobs(jobs: int) -> None:
    """Refuse a number of processes that starts none.

    Raises
    ------
    ParameterError
        If it is 0.
    """
    if jobs == 0:
        raise ParameterError("jobs", "must be a number of processes, or -1 for one per core, got 0")
