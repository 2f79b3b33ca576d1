"""Measure kernels: ``flopcast measure -o runs.parquet`` times a suite, a list of shapes or the user's function."""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd
import typer

from ..errors import DataError, FlopcastError
from ..measuring.backend import Backend, import_torch
from ..measuring.bench import Bench
from ..measuring.environment import environment, machine, monitor
from ..measuring.grids import Row, operators, suite
from ..measuring.journal import Journal, journal_folder
from ..measuring.listed import UserFunction, read_shapes
from ..measuring.protocol import Rule
from ..measuring.results import check_table_path, measurement_table, pass_differences, provenance_path, write_table
from ..measuring.session import BUDGET, DONE, INTERRUPTED, LOST, Plan, Progress, Session, failed_rows, unmeasured
from ..output import dumps
from ..report.console import note, output, say_written
from ..report.measuring import measurements_json, show_measurements
from ..report.progress import shown_progress
from .options import JsonOption, parse_budget, parse_counts, parse_names

DEFAULT_OUT = Path("measured.parquet")


@dataclass(frozen=True)
class Measured:
    """What was measured.

    Attributes
    ----------
    table : DataFrame
        The measurement table (`measuring.results`).
    provenance : dict
        Machine, versions, protocol, what failed, and the runs it took (`parts`: command, date, seconds, budget, the
        smallest and largest limit of time that the budget gave a visit, how it ended), but for one that was killed;
        the JSON beside the table.
    differences : Series
        Change of each time from the first pass to the last, percent; empty with one pass.
    failures : list of dict
        Rows that cannot be measured, in words (`row`), and why (`reason`).
    ended : str
        ``done``, ``interrupted`` (Ctrl-C), ``budget``, or ``device lost``.
    lost : str
        The row that left the device useless, and what it raised.
    """

    table: pd.DataFrame
    provenance: dict[str, Any]
    differences: pd.Series
    failures: list[dict[str, str]]
    ended: str
    lost: str = ""


@dataclass(frozen=True)
class Grid:
    """Rows to measure, rows of the file that cannot be, and remarks."""

    rows: list[Row]
    refused: list[dict[str, str]]
    notes: tuple[str, ...]


def measure(
    shapes: Path | None = None,
    out: Path | None = None,
    *,
    suite_name: str | None = None,
    kernels: Sequence[str] | None = None,
    function: str | None = None,
    device: str | None = None,
    threads: Sequence[int] = (),
    name: str | None = None,
    rule: Rule | None = None,
    passes: int = 1,
    cold: bool = False,
    budget: float | None = None,
    seed: int = 0,
    resume: bool = False,
    date: str | None = None,
    command: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Measured:
    """Time kernels of PyTorch, or a function of the user.

    Parameters
    ----------
    shapes : Path, optional
        Rows to measure; by default those of a suite.
    out : Path, optional
        Table to write, .parquet or .csv; the journal lies beside it until all is measured.
    suite_name : {"small", "full", "embedded"}, optional
        See `measuring.grids`; small by default.
    kernels : sequence of str, optional
        Kernels to measure; all by default.
    function : str, optional
        ``module:function`` in place of the kernels; it gets the other columns of `shapes` that it has parameters for.
    device : str, optional
        ``cpu`` or ``cuda:0`` and the like; the first GPU by default, or the CPU where there is none.
    threads : sequence of int
        Numbers of threads on a CPU, each a device of its own in the table.
    name : str, optional
        Name of the device.
    rule : Rule, optional
        When a row has been repeated enough.
    passes : int
        Times that everything is measured.
    cold : bool
        Whether the cache is filled with other data before each call.
    budget : float, optional
        Seconds for the whole of it; rows that are not known well enough after their rounds are visited again with what
        is left of it.
    seed : int
        Of operands and order.
    resume : bool
        Whether to go on with the journal beside ``out``.
    date, command
        For the provenance; today and this process's command line by default.
    progress : callable, optional
        ``(done, total, label, eta_seconds)``.

    Raises
    ------
    FlopcastError
        An option, the file or the device cannot be used, or nothing could be measured.
    """
    if passes < 1:
        raise DataError(f"--passes must be 1 or more, got {passes}")
    if date is not None and not _is_date(date):
        raise DataError(f"--date must be YYYY-MM-DD, got {date!r}")
    if resume and out is None:
        raise DataError("--resume continues the measurement of a file: name it with --out")
    if out is not None:
        check_table_path(out, resume=resume)
    if kernels is not None:
        if not kernels:
            raise DataError("--kernel names no kernel: write e.g. --kernel gemm,conv, or leave it out")
        operators(kernels)
    torch = import_torch()
    backend = Backend(torch, device)
    devices = backend.devices(threads, name)
    called = UserFunction(function) if function else None
    started, threads_before = time.monotonic(), torch.get_num_threads()
    with closing(Bench(backend, cold=cold, function=called)) as bench:
        grid = _grid(shapes, suite_name, kernels, called, bench)
        plan = Plan(grid.rows, devices, rule or Rule(), passes, seed, cold, function or "", machine(backend))
        journal = Journal(journal_folder(out), plan.to_dict(), resume=resume) if out else None
        session = Session(plan, bench, journal, monitor(backend))
        about = environment(backend, devices, bench.timer, seed=seed, date=date, command=command)
        try:
            with nullcontext() if called else torch.inference_mode():
                session.run(budget, progress)
        finally:
            torch.set_num_threads(threads_before)
    if journal is not None and not session.visits:
        journal.remove()
    part = _part(session, about, budget, time.monotonic() - started)
    if journal is not None and session.visits:
        journal.end_part(part)
    found = _measured(session, grid, about, [part] if journal is None else journal.parts)
    if out is not None and journal is not None:
        write_table(found.table, found.provenance, out)
        if session.ended == DONE:
            journal.remove()
    return found


def _is_date(text: str) -> bool:
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _grid(
    shapes: Path | None, name: str | None, kernels: Sequence[str] | None, function: UserFunction | None, bench: Bench
) -> Grid:
    """Return the rows: of the user's list, of the user's function alone, or of a suite."""
    if name is not None and (shapes is not None or function is not None):
        raise DataError("--suite says what to measure without SHAPES and --function: leave it out, or leave out these")
    if shapes is not None:
        listed = read_shapes(shapes, kernels, function)
        return Grid(listed.rows, listed.refused, listed.notes)
    if function is not None:
        if kernels:
            raise DataError("--kernel chooses rows of a suite or of SHAPES: leave it out, or give SHAPES")
        return Grid([function.row()], [], ())
    name = name or "small"
    rows = suite(name, gpu=bench.backend.is_gpu, families=kernels, ranks=bench.ranks)
    single = bench.ranks == 1 and name != "embedded" and (kernels is None or "collective" in kernels)
    return Grid(rows, [], ("collectives are left out: they need two GPUs or more",) if single else ())


def _part(session: Session, about: Mapping[str, Any], budget: float | None, seconds: float) -> dict[str, Any]:
    """Return what a run says of itself; a measurement that was resumed has several."""
    return {
        "command": about["command"],
        "date": about["date"],
        "seconds": round(seconds, 1),
        "budget_seconds": budget,
        "visit_limit_seconds": session.limits_s and [round(limit, 4) for limit in session.limits_s],
        "ended": session.ended,
    }


def _measured(session: Session, grid: Grid, about: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> Measured:
    plan, failures = session.plan, failed_rows(session)
    if not session.visits:
        if session.ended == INTERRUPTED:
            raise KeyboardInterrupt
        first = session.lost or (f"{failures[0]['row']}: {failures[0]['reason']}" if failures else "")
        raise DataError(f"nothing was measured{f': {first}' if first else ' before it was stopped'}")
    table = measurement_table(plan, session.visits)
    differences = pass_differences(table)
    quantiles = differences.quantile([0.5, 0.9]).round(3)
    stated = plan.to_dict()
    provenance = {
        "schema": 1,
        **about,
        **{name: stated[name] for name in ("protocol", "cache", "passes", "function")},
        "workloads": len(plan.rows),
        "seconds": round(sum(part["seconds"] for part in parts), 1),
        "parts": list(parts),
        "ended": session.ended,
        "unmeasured": len(unmeasured(session)),
        "pass_difference_percent": ({"median": quantiles[0.5], "p90": quantiles[0.9]} if len(differences) else None),
        "failed": failures,
        "refused": grid.refused,
        "notes": list(grid.notes),
    }
    return Measured(table, provenance, differences, failures, session.ended, session.lost)


def command(
    shapes: Annotated[
        Path | None, typer.Argument(metavar="[SHAPES]", help="CSV or Parquet with op, dtype_a and dimensions.")
    ] = None,
    suite_name: Annotated[
        Literal["small", "full", "embedded"] | None,
        typer.Option("--suite", help="What to measure without SHAPES. Default: small."),
    ] = None,
    kernel: Annotated[
        str | None, typer.Option(metavar="NAME[,NAME]", help="Only these kernels, e.g. gemm,conv. Default: all.")
    ] = None,
    function: Annotated[
        str | None,
        typer.Option(metavar="MODULE:FUNCTION", help="Time this function, called with each row's columns."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cpu, or cuda:0 and the like (ROCm's GPUs, too). Default: the first GPU.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="Time for all of it, e.g. 20m; more visits where needed.")
    ] = None,
    cache: Annotated[
        Literal["warm", "cold"], typer.Option(help="cold: fill the last-level cache with other data before each call.")
    ] = "warm",
    interval: Annotated[float, typer.Option(help="Repeat until the median is known to ± this part of it.")] = 0.01,
    rounds: Annotated[int, typer.Option(min=1, help="Visits of a row in each pass, with fresh operands.")] = 3,
    passes: Annotated[int, typer.Option(min=1, help="Times to measure everything; 2 show how far they agree.")] = 1,
    threads: Annotated[
        str | None, typer.Option(metavar="N[,N]", help="Threads on a CPU; several: a device for each.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the device in the table.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Table to write: .parquet or .csv.")] = DEFAULT_OUT,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the unfinished measurement of --out.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of operands and order.")] = 0,
    date: Annotated[
        str | None, typer.Option(metavar="YYYY-MM-DD", help="Date for the provenance. Default: today.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Time kernels of PyTorch on this machine, for training: repeated until the median is known, outliers removed.

    Ctrl-C keeps what is measured; --resume continues it. A suite leaves out what the device cannot do.
    """
    with shown_progress("measuring", unit="visits", quiet=as_json) as progress:
        found = measure(
            shapes,
            out,
            suite_name=suite_name,
            kernels=parse_names(kernel, "--kernel", "gemm,conv"),
            function=function,
            device=device,
            threads=parse_counts(threads, "--threads", "1,2") or (),
            name=name,
            rule=Rule(interval=interval, rounds=rounds),
            passes=passes,
            cold=cache == "cold",
            budget=parse_budget(budget),
            seed=seed,
            resume=resume,
            date=date,
            progress=progress,
        )
    if as_json:
        print(dumps(measurements_json(found.table, found.provenance), missing=True), end="")
    else:
        _show(found, out)
    if found.ended == INTERRUPTED:
        print(_resuming(found, out), file=sys.stderr)
        raise KeyboardInterrupt
    if found.ended == LOST:
        raise FlopcastError(f"the device does not answer any more after {found.lost}: {_resuming(found, out)}")


def _show(found: Measured, out: Path) -> None:
    console = output()
    show_measurements(console, found.table, found.failures, found.differences)
    for refused in found.provenance["refused"]:
        console.print(f"left out: {refused['source']}: {refused['reason']} ({refused['detail']})", markup=False)
    for words in found.provenance["notes"]:
        console.print(note(words))
    if found.ended not in (DONE, INTERRUPTED, LOST):
        console.print(_resuming(found, out), markup=False, highlight=False, soft_wrap=True)
    say_written(console, out, provenance_path(out), rows=len(found.table))


def _resuming(found: Measured, out: Path) -> str:
    why = {INTERRUPTED: "stopped: ", BUDGET: "the budget is spent: "}.get(found.ended, "")
    left = found.provenance["unmeasured"]
    missing = f" ({left} of {found.provenance['workloads']} workloads have no time yet)" if left else ""
    return f"{why}what is measured is in {out}{missing}; the same command with --resume continues"
