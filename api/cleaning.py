"""Cleaning of repeated measurements in traces: what distorts is left out, and how far the rest spreads is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from ..errors import DataError, ParameterError, check_jobs, check_level, check_plain_file, counted
from ..output import FORMATS, check_tables, dumps, replacing, write_table
from ..readers import Options, TraceFailure, read_traces
from ..readers.files import campaign_of
from ..report.cleaning import cleaning_document
from ..report.notebook import framed
from ..report.result import Result, also_saving, saving
from ..settings import configured
from ..traces.cleaning.pipeline import CleanedTraces, CleanOptions
from ..traces.cleaning.robust import THRESHOLD
from ..traces.cleaning.steady_state import STABLE
from ..traces.doubts import UNRECORDED
from ..traces.epochs import parse_rule
from ..traces.summary import Annotated, check_one_run
from ..values import Assigned
from ..workers import workers
from .devices import stated_defaults
from .tables import paths_of

if TYPE_CHECKING:
    from ..report.document import Document


class Cleaning(Result, CleanedTraces):
    """What cleaning made of traces: ``frame`` is the measurement table of what is left."""

    heading = "What cleaning left"

    @property
    def kernels(self) -> pd.DataFrame:
        """The spread of each kernel (`traces.cleaning.repeats.spread_report`), the one that takes most time first."""
        return self.cleaned.report

    @property
    def removed(self) -> pd.DataFrame:
        """Every activity left out, with its ``reason``."""
        return self.cleaned.removed

    @property
    def table(self) -> pd.DataFrame:
        """The measurement table of what is left: ``frame``."""
        return self.frame

    def document(self) -> Document:
        """Return the result for readers; its ``data`` are its JSON form."""
        return cleaning_document(self, saved=True)

    def save(
        self,
        path: str | Path,
        *,
        removed: str | Path | None = None,
        made: Mapping[str, Any] | None = None,
        overwrite: bool = False,
    ) -> None:
        """Write the measurement table, and what was left out, as .csv or .parquet, as of every result otherwise.

        Raises
        ------
        DataError
            A file cannot be written, or flopcast did not write it and ``overwrite`` is not set:
            neither is written.
        ParameterError
            A name has another suffix, or ``removed`` is the same file as ``out``.
        """
        with replacing(overwrite=overwrite):
            if Path(path).suffix.lower() in FORMATS:
                places = {"out": Path(path)}
                if removed is not None:
                    places["removed"] = Path(removed)
                check_tables(places)
            super().save(path, made=made)
            if removed is not None:
                self.save_removed(removed)

    def save_removed(self, out: str | Path, *, overwrite: bool = False) -> None:
        """Write everything left out, as .csv or .parquet; errors as of `save`."""
        with replacing(overwrite=overwrite):
            table = pa.Table.from_pandas(self.removed, preserve_index=False)
            write_table(table, Path(out), dumps(self.document().data, missing=True))

    def __repr__(self) -> str:
        kept = len(self.cleaned.dispatches)
        gone = len(self.removed)
        return (
            f"<Cleaning of {counted(len(self.sources), 'trace')}: {kept} activities kept, {gone} "
            "left out>"
        )

    def _repr_html_(self) -> str:
        shown = [
            "name",
            "op_class",
            "n",
            "median_us",
            "lower_us",
            "upper_us",
            "mad_us",
            "robust_cv",
            "drifts",
        ]
        table = self.kernels
        return framed(repr(self)[1:-1], table[[name for name in shown if name in table]])


@also_saving("removed")
@saving
@configured
def clean(
    *data: str | Path | Sequence[str | Path],
    mad: float | None = None,
    steps: str = STABLE,
    warm_up: bool | None = None,
    golden: bool = False,
    join: bool = False,
    cover: str | Path | None = None,
    epochs: str | None = None,
    interval: float = 0.95,
    default: Assigned | None = None,
    jobs: int = -1,
) -> Cleaning:
    """Read traces, clean them together, and summarise what is left as measurements.

    Parameters
    ----------
    *data : path, or sequence of path
        Files and folders with traces; several are repeated runs.
    mad : float, optional
        MAD that repeats may lie from their median, 7 by default; 0: no filter.
    steps : str, default="stable"
        Profiler's steps to keep: stable, all or A:B, from number A to B.
    warm_up : bool, optional
        Whether the first repeats of a series that has not settled yet are left out; they are by
        default.
    golden : bool
        Keep the fullest execution-time bin only. Each kernel has its own.
    join : bool
        Traces of one program that profile different kernels or counters. They are runs that are
        matched kernel by kernel, must not contradict each other, and counters go to every run with
        times.
    cover : path, optional
        A full trace, or kernel names: prove that all are covered. The names stand in a text file, one
        a line; the runs must have them all between them.
    epochs : str, optional
        A row per epoch: step, kernels:N, flops:X or marker:REGEX. An epoch without some of its
        kernels is none, so outliers and warm-up stay in.
    interval : float, default=0.95
        Of the intervals reported.
    default : mapping of str to str, optional
        As for `read`: for what the traces do not say; ``name`` is what
        ran, by which, and by their number, epochs of two GPUs pair.
    jobs : int
        As for `train`: processes that read.

    Returns
    -------
    Cleaning

    Raises
    ------
    ParameterError
        A parameter is impossible, or does not go with ``epochs``.
    DataError
        Nothing can be read or is left, runs that are to be joined contradict each other, or
        ``cover`` lacks kernels.

    Examples
    --------
    Twenty launches of one product, one of them interrupted:

    >>> import json, tempfile
    >>> import flopcast as fc
    >>> launch = {"ph": "X", "cat": "kernel", "name": "Cijk_Ailk_Bljk_BBS_BH_MT128x128x64", "args": {"device": 0}}
    >>> times = [500 if number == 7 else 50 for number in range(20)]
    >>> with tempfile.NamedTemporaryFile("w", suffix=".json") as trace:
    ...     events = [launch | {"ts": 1000 * number, "dur": time} for number, time in enumerate(times)]
    ...     print(json.dumps({"traceEvents": events}), file=trace, flush=True)
    ...     found = fc.clean(trace.name, default={"device": "MI300X"})
    >>> len(found.removed)
    1
    """
    check_jobs(jobs)
    check_level(interval)
    stated = stated_defaults(default)
    if epochs is None:
        rule = None
    else:
        rule = parse_rule(epochs, stated.get("name", ""))
    asked = {"mad": mad, "warm_up": warm_up, "golden": golden}
    if rule is not None and (given := [name for name, value in asked.items() if value]):
        problem = (
            "would take kernels out of the epochs, which are no whole epochs then: leave it out"
        )
        raise ParameterError(given[0], problem)
    options = CleanOptions(
        THRESHOLD if mad is None else mad or None, steps, warm_up is not False, golden, interval
    )
    options.check()
    reading = Options({}, stated, ranges=rule is not None and rule.by == "marker")
    paths = paths_of(data)
    with workers(jobs):
        traces, unreadable = _read(paths, reading)
        full = None
        if cover is not None:
            full = full_list(Path(cover), reading)
    campaigns = {label: campaign_of(Path(label)) for label in traces}
    return Cleaning.of(
        traces,
        options,
        join=join,
        full=full,
        rule=rule,
        campaigns=campaigns,
        unreadable=tuple(unreadable),
    )


def _read(paths: Sequence[Path], reading: Options) -> tuple[dict[str, Annotated], list[str]]:
    """Return the traces of one run that have activities of a GPU, and why others are none."""
    traces: dict[str, Annotated] = {}
    unreadable: list[str] = []
    for label, trace in read_traces(paths, options=reading):
        if isinstance(trace, TraceFailure):
            unreadable.append(str(trace.error))
        elif not len(trace.dispatches):
            unreadable.append(f"{label}: no activity of a GPU")
        else:
            try:
                check_one_run(trace, label)
            except DataError as error:
                unreadable.append(str(error))
            else:
                traces[label] = trace
    if not traces:
        among = (
            f"no trace among {', '.join(map(str, paths))}: `flopcast ingest` says what the files "
            "are"
        )
        raise DataError(f"no trace to clean: {'; '.join(unreadable)}" if unreadable else among)
    return traces, unreadable


def full_list(cover: Path, reading: Options) -> pd.DataFrame:
    """Return every kernel of the program: those of a trace, or the lines of a text file."""
    if cover.suffix.lower() in (".txt", ".lst"):
        check_plain_file(cover)
        try:
            lines = [line.strip() for line in cover.read_text(encoding="utf-8").splitlines()]
        except UnicodeDecodeError:
            raise DataError(
                "is no UTF-8 text: write one kernel name per line", source=str(cover)
            ) from None
        names = [line for line in lines if line]
        if not names:
            raise DataError(
                "has no kernel name: write one per line, as often as the kernel runs",
                source=str(cover),
            )
        return pd.DataFrame({"name": names})
    traces, _ = _read([cover], reading)
    if len(traces) > 1:
        raise DataError(
            f"holds {len(traces)} traces: give the one that has every kernel", source=str(cover)
        )
    (trace,) = traces.values()
    lacking = [finding for finding in trace.findings if finding.code in UNRECORDED]
    if lacking:
        doubts = "; ".join(f"{finding.count:,} {finding.remark}" for finding in lacking)
        text = (
            f"lacks kernels of the program ({doubts}): give a trace that has all of them, or their "
            "names"
        )
        raise DataError(text, source=str(cover))
    return trace.dispatches
