"""Measure kernels of PyTorch, or a function of the user: the front of `measuring`.

`measure` takes what to measure and where to write it; a `Bench` makes each row a call on the device
at hand; what was measured comes back as `Measured`. `measure_sizes` measures with a part of a GPU's
compute units, size after size.
"""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pandas as pd

from .. import values
from ..errors import DataError, FlopcastError, ParameterError
from ..hardware import find
from ..operators.op import word
from ..output import replacing
from ..remarks import Remark, remark
from ..values import Assigned, Counts, Duration, Names
from .backend import SMS, Backend, Device, Group, Operands, build, import_torch
from .machine import environment, machine, monitor
from .rows import Row, UserFunction, operators, read_shapes, suite_rows
from .session import (
    DONE,
    INTERRUPTED,
    Journal,
    Plan,
    Progress,
    Session,
    check_table_path,
    failed_rows,
    journal_folder,
    measurement_table,
    pass_differences,
    unmeasured,
    write_table,
)
from .timing import PRECISION, ROUNDS, Call, Rule, Timer


@dataclass(frozen=True)
class Measured:
    """The result of a measurement."""

    table: pd.DataFrame  # the measurement table (see `session`)
    # the JSON beside the table: machine, versions, protocol, what failed, and the runs it took
    # (`parts`, as `_part` tells them), but for one that was killed
    provenance: dict[str, Any]
    # change of each time from the first pass to the last, percent; empty with one pass
    differences: pd.Series
    # rows that cannot be measured, in words (`row`), and why (`reason`)
    failures: list[dict[str, str]]
    ended: str  # ``done``, ``interrupted`` (Ctrl-C), ``budget``, or ``device lost``
    lost: str = ""  # the row that left the device useless, and what it raised
    notes: tuple[Remark, ...] = ()  # what was assumed, left out and said once
    out: Path | None = None  # the file of the table


@dataclass(frozen=True)
class Grid:
    """Rows to measure, rows of the file that cannot be measured, and remarks."""

    rows: list[Row]
    refused: list[dict[str, str]]
    notes: tuple[Remark, ...]


def measure(
    shapes: str | Path | None = None,
    *,
    out: str | Path | None = None,
    preset: str | None = None,
    op: Names | None = None,
    function: str | None = None,
    device: str | None = None,
    budget: Duration | None = None,
    cold: bool = False,
    precision: float = PRECISION,
    rounds: int = ROUNDS,
    rule: Rule | None = None,
    passes: int = 1,
    threads: Counts = (),
    device_name: str | None = None,
    rename: Assigned | None = None,
    seed: int = 0,
    resume: bool = False,
    overwrite: bool = False,
    date: str | None = None,
    command: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Measured:
    """Time kernels of PyTorch, or a function of the user.

    Parameters
    ----------
    shapes : str or Path, optional
        Rows to measure; by default those of a suite.
    out : str or Path, optional
        Table to write, .parquet or .csv; the journal lies beside it until all is measured.
    preset : {"small", "full", "fingrav"}, default small
        What to measure without shapes: small, full or fingrav. See `rows.SUITES`.
    op : sequence of str, default all
        Only these operators, e.g. gemm,conv. Families of them too.
    function : str, optional
        Time this function, MODULE:FUNCTION, called with each row's columns. It gets the other columns of `shapes`
        that it has parameters for, in place of the kernels.
    device : str, default the first GPU
        As PyTorch names it: cuda:0 and the like (ROCm's GPUs, too), or cpu. The CPU where there is no GPU.
    budget : float or str, optional
        As for `train`: of the whole; rows that are imprecise after their rounds are
        visited again with what is left of it.
    cold : bool
        Fill the last-level cache with other data before each call.
    precision : float, default=0.01
        Repeat until the median is known to ± this part of it.
    rounds : int, default=3
        Visits of a row in each pass, with fresh operands.
    rule : Rule, optional
        When a row has been repeated enough, in place of both.
    passes : int
        Times to measure everything; 2 show how far they agree.
    threads : sequence of int
        Threads on a CPU; several: a device for each.
    device_name : str, optional
        Name of the device in the table.
    rename : mapping of str to str, optional
        As for `read`: of the table of shapes.
    seed : int
        As for `train`: of operands and order.
    resume : bool
        Whether to go on with the journal beside ``out``.
    overwrite : bool
        Whether ``out``, and the provenance beside it, may replace what is there.
    date : str, default today
        Date for the provenance, YYYY-MM-DD.
    command : sequence of str, optional
        For the provenance; this process's command line by default.
    progress : callable, optional
        ``(done, total, label, eta_seconds)``.

    Raises
    ------
    FlopcastError
        A parameter, the file or the device cannot be used, PyTorch is missing, or nothing could be
        measured.

    Examples
    --------
    >>> from pathlib import Path
    >>> import flopcast as fc
    >>> found = fc.measure(out=Path("mine.csv"), op=["gemm"], device="cuda:0")  # doctest: +SKIP
    """
    op = values.names("op", op)
    threads = values.counts("threads", threads) or []
    if rule is None:
        rule = Rule(precision=precision, rounds=rounds)
    budget = values.duration("budget", budget)
    rename = values.assigned("rename", rename)
    if out is not None:
        out = Path(out)
    if shapes is not None:
        shapes = Path(shapes)
    with replacing(overwrite=overwrite, reads=[] if shapes is None else [shapes]):
        _check_parameters(
            out, preset, shapes, op, function, passes=passes, date=date, resume=resume
        )
    torch = import_torch()
    backend = Backend(torch, device)
    devices = backend.devices(threads, device_name)
    called = None
    if function:
        called = UserFunction(function)
    started = time.monotonic()
    threads_before = torch.get_num_threads()
    with closing(Bench(backend, cold=cold, function=called)) as bench:
        grid = _grid(
            shapes,
            preset,
            op,
            called,
            bench,
            rename,
        )
        plan = Plan(grid.rows, devices, rule, passes, seed, cold, function or "", machine(backend))
        journal = None
        if out:
            journal = Journal(journal_folder(out), plan.to_dict(), resume=resume)
        session = Session(plan, bench, journal, monitor(backend))
        about = environment(
            backend,
            devices,
            bench.timer,
            seed=seed,
            date=date,
            command=command,
        )
        try:
            with nullcontext() if called else torch.inference_mode():
                session.run(budget, progress)
        finally:
            torch.set_num_threads(threads_before)
    if journal is not None and not session.visits:
        journal.remove()
    part = _part(
        session,
        about,
        budget,
        time.monotonic() - started,
    )
    if journal is not None and session.visits:
        journal.end_part(part)
    result = _measured(
        session,
        grid,
        about,
        [part] if journal is None else journal.parts,
    )
    result = replace(result, out=out)
    if out is not None and journal is not None:
        write_table(result.table, result.provenance, out)
        if session.ended == DONE:
            journal.remove()
    return result


def _check_parameters(
    out: Path | None,
    suite: str | None,
    shapes: Path | None,
    kernels: Sequence[str] | None,
    function: str | None,
    *,
    passes: int,
    date: str | None,
    resume: bool,
) -> None:
    """Refuse contradictory parameters, before PyTorch is imported."""
    if passes < 1:
        raise ParameterError("passes", f"must be 1 or more, got {passes}")
    if date is not None and not _is_date(date):
        raise ParameterError("date", f"must be YYYY-MM-DD, got {date!r}")
    if suite is not None and (shapes is not None or function is not None):
        raise ParameterError(
            "preset", "must be left out where shapes or a function say what to measure"
        )
    if shapes is None and function is not None and kernels:
        raise ParameterError(
            "op", "must be left out where a function alone is measured, or give shapes"
        )
    if resume and out is None:
        raise ParameterError("resume", "continues the measurement of a file: name it")
    if out is not None:
        check_table_path(out, resume=resume)
    if kernels is not None:
        if not kernels:
            raise ParameterError("op", "names no operator: write e.g. gemm, conv, or leave it out")
        operators(kernels)


def _is_date(text: str) -> bool:
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _grid(
    shapes: Path | None,
    suite: str | None,
    kernels: Sequence[str] | None,
    function: UserFunction | None,
    bench: Bench,
    rename: Mapping[str, str] | None = None,
) -> Grid:
    """Return the rows: of the user's list, of the user's function alone, or of a suite."""
    if shapes is not None:
        listed = read_shapes(shapes, kernels, function, rename)
        return Grid(listed.rows, listed.refused, listed.notes)
    if function is not None:
        return Grid([function.row()], [], ())
    suite = suite or "small"
    rows = suite_rows(
        suite,
        gpu=bench.backend.is_gpu,
        families=kernels,
        ranks=bench.ranks,
    )
    single = bench.ranks == 1 and (kernels is None or "collective" in kernels)
    needed = remark(
        "collectives-need-two-gpus", "collectives are left out: they need two GPUs or more"
    )
    return Grid(rows, [], (needed,) if single else ())


def _part(
    session: Session, about: Mapping[str, Any], budget: float | None, seconds: float
) -> dict[str, Any]:
    """Return the record of one run; a resumed measurement has several."""
    return {
        "command": about["command"],
        "date": about["date"],
        "seconds": round(seconds, 1),
        "budget_seconds": budget,
        "visit_limit_seconds": session.limits_s and [round(limit, 4) for limit in session.limits_s],
        "ended": session.ended,
    }


def _measured(
    session: Session, grid: Grid, about: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]
) -> Measured:
    plan = session.plan
    failures = failed_rows(session)
    if not session.visits:
        if session.ended == INTERRUPTED:
            raise KeyboardInterrupt
        why = " before it was stopped"
        if failures:
            why = f": {failures[0]['row']}: {failures[0]['reason']}"
        if session.lost:
            why = f": {session.lost}"
        raise DataError(f"nothing was measured{why}")
    table = measurement_table(plan, session.visits)
    differences = pass_differences(table)
    quantiles = differences.quantile([0.5, 0.9]).round(3)
    stated = plan.to_dict()
    between_passes = None
    if len(differences):
        between_passes = {"median": quantiles[0.5], "p90": quantiles[0.9]}
    provenance = {
        "schema": 1,
        **about,
        **{name: stated[name] for name in ("protocol", "cache", "passes", "function")},
        "workloads": len(plan.rows),
        "seconds": round(sum(part["seconds"] for part in parts), 1),
        "parts": list(parts),
        "ended": session.ended,
        "unmeasured": len(unmeasured(session)),
        "pass_difference_percent": between_passes,
        "failed": failures,
        "refused": grid.refused,
        "remarks": [one.to_dict() for one in grid.notes],
    }
    return Measured(
        table, provenance, differences, failures, session.ended, session.lost, grid.notes
    )


class Bench:
    """Makes calls ready on one device of PyTorch: those of the suite's kernels, or of a user's function.

    With `cold` the cache is filled with other data before each sample.
    """

    def __init__(
        self, backend: Backend, *, cold: bool = False, function: UserFunction | None = None
    ) -> None:
        self.backend = backend
        self.function = function
        self.timer: Timer = backend.timer(cold)
        self._group: Group | None = None

    @property
    def ranks(self) -> int:
        """Numbers of GPUs for collectives."""
        if self.backend.is_gpu:
            return int(self.backend.torch.cuda.device_count())
        return 1

    def use(self, device: Device, row: Row) -> None:
        """Select the device of the next calls, with the arithmetic that the row asks for.

        A user's function sets its own. A number format that the device does not compute in is a
        DataError.
        """
        self.backend.use(device)
        if self.function is None:
            self.backend.multiply_as(word(row, "dtype_a"))

    def build(self, row: Row, seed: int) -> Call:
        """Return the call of a row, its operands drawn with ``seed``. Raises DataError: the row cannot be measured."""
        if self.function is not None:
            return self.function.build(self.backend, seed, row)
        if row["op"] == "collective":
            if self._group is None:
                self._group = Group(self.backend, self.ranks)
            return self._group.build(row, seed)
        return build(Operands(self.backend, seed), row)

    def recover(self) -> None:
        """Make the device ready for the next row after one that failed; see `Backend.recover`."""
        self.backend.recover()

    def close(self) -> None:
        """End the processes of collectives, if there are any; give PyTorch its settings back."""
        self.backend.restore()
        if self._group is not None:
            self._group.close()
            self._group = None


MASK: Final = "HSA_CU_MASK"
SM_STEP: Final = 8  # SMs that a green context is made of: least number, and step, from Hopper on (CUDA's driver API)
Once = Callable[[str, Path, Mapping[str, str]], int]
"""Measures a device of this name into this table in a process with this environment; returns its exit status."""


def measure_sizes(cus: Sequence[int], device: str, once: Once, index: int = 0) -> pd.DataFrame:
    """Measure with fewer and fewer compute units of a GPU, one size after the other: as scale models of it.

    A size is a separate process: ROCm reads the mask of compute units when it starts
    (``HSA_CU_MASK=0:0-37``: the first 38 units of GPU 0), and on NVIDIA's GPUs the process computes
    in a green context of so many SMs (`backend.SMS`). Caches and memory stay whole: such models
    shrink the units alone. A partition (CPX of MI300X: 38 units each) shrinks the rest too; it is a
    device of its own and needs no mask: measure it with ``device_name``.

    The ``device`` is named as ``flopcast gpus`` lists it; ``once`` measures one size; ``index`` is
    the GPU's number, as ROCm counts GPUs (NVIDIA's are named by the device of PyTorch). The
    measurement tables stand under each other, the device called ``MI300X, 38 CUs``, with
    ``benchmark``, ``size``, ``performance`` (calls per second) and ``unit`` for `scaling.curves`.

    Raises ParameterError: a size is none of the GPU's, or stated twice, or on a GPU of NVIDIA's is
    neither all nor a multiple of 8; FlopcastError: a size could not be measured.
    """
    gpu = find(device)
    whole = int(gpu.require("cus"))
    nvidia = gpu.vendor == "NVIDIA"
    unit = "CU"
    if nvidia:
        unit = "SM"
    if len(set(cus)) < len(cus) or not cus or not all(0 < one <= whole for one in cus):
        raise ParameterError(
            "cus",
            f"must be different numbers from 1 to {whole}, those of {device}, got {list(cus)}",
        )
    if nvidia and any(one % SM_STEP for one in cus if one != whole):
        raise ParameterError(
            "cus", f"must be multiples of {SM_STEP} or all {whole} of {device}, got {list(cus)}"
        )
    parts = []
    with TemporaryDirectory() as folder:
        for size in sorted(cus):
            out = Path(folder) / f"{size}.parquet"
            if nvidia:
                mask = {SMS: str(size)}
            else:
                mask = {MASK: f"{index}:0-{size - 1}"}
            status = once(f"{device}, {size} {unit}s", out, {**os.environ, **mask})
            if status or not out.exists():
                raise FlopcastError(
                    f"{size} compute units could not be measured (exit status {status})"
                )
            parts.append(pd.read_parquet(out).assign(size=float(size), unit=unit))
    table = pd.concat(parts, ignore_index=True)
    if not table["duration_us"].gt(0).any():
        raise DataError("nothing was measured")
    names = [
        name for name in ("op", "dtype_a", "batch", "m", "n", "k", "rows", "cols") if name in table
    ]
    called = []
    for row in table[names].itertuples(index=False):
        cells = [cell for cell in row if pd.notna(cell) and cell != ""]
        called.append(
            " ".join(f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in cells)
        )
    return table.assign(benchmark=called, performance=1e6 / table["duration_us"])
