"""Record the power of kernels as FinGraV does (Singhania, Aga, Ibrahim, ISPASS 2025): what `power profile` reads.

Each kernel is timed. Trains of executions tell how far its power lags behind and, by bisection, how
long a train may be that does not throttle; `power.runs.plan` says with these how many executions to
make. Where power is not steady by then, the first execution of steady power is searched for. Then
its runs are made, a random delay before each. Every run is on disk when it ends: a recording that
was stopped, or killed, goes on after its last.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from .. import values
from ..errors import DataError, FlopcastError, ParameterError, counted
from ..hardware import find
from ..laws.rates import machine_balance
from ..operators.operators import work_of
from ..output import MADE_BY, check_output, replacing, whole_file
from ..power.logs import TOTAL
from ..power.profile import LEAST_FALL, STANDARD_ERRORS
from ..power.readings import COMMUNICATION, Facts
from ..power.runs import AFTER, COARSE_US, LEAST_EXECUTIONS, SWING_US, Plan, plan, read_share
from ..traces.cleaning.robust import MAD_TO_SIGMA
from ..values import Assigned, Repeated
from .backend import Backend, import_torch
from .machine import machine
from .power_rigs import INTERVAL_US, SIMULATED, Rig, SimulatedGPU, TorchRig, Train, power_reader
from .rows import Row, described, read_shapes, suite_rows
from .session import Journal, Progress, journal_folder

LOG = "log.csv"
EXECUTIONS = "executions.csv"
CLOCKS = "clocks.csv"
RECORD = "record.json"
FILES: Final = (LOG, EXECUTIONS, CLOCKS, RECORD)
TIMED: Final = 5  # times that a kernel is timed, each the last execution of a short train
REST_US: Final = 5000.0
"""The GPU idles for so long and a window before each run, the random delay aside: power is then at rest."""
USUAL_RUNS: Final = 200  # that progress counts of a kernel whose time is not yet measured
PROBES: Final = 16  # trains that tell the power at the end of a train of one length
LONGEST_US: Final = 50_000.0
"""Trains are searched for throttling up to this time, or up to four times the planned executions."""
SIMULATED_RANKS: Final = 8  # of the published collectives on the simulated GPU
SETTLED: Final = 0.01
"""Power has settled where it is within this of that of the longest train, or within the error of both."""
LEAST_RISE: Final = 5.0  # times the scatter of the readings, or their power does not tell a lag
_DELAY = 1
_PROBE = 2
_TIMING = 3


@dataclass(frozen=True)
class Protocol:
    """The protocol of one kernel."""

    row: int  # place among the kernels
    kernel: str
    kernel_us: float  # time of one execution
    repeats: int  # launches that count as one execution
    runs: int
    # time constant of the read power behind the drawn one, measured; None: no rise tells it
    lag_us: float | None
    # time of the longest train that does not throttle; 0: none searched throttles
    settling_us: float
    planned: int  # executions per run that `power.runs.plan` asks for with these
    executions: int  # per run
    # first execution of steady power: as planned, or later where it was searched for
    steady_from: int
    # executions of the longest train that does not throttle; None: none searched throttles
    unthrottled: int | None
    searched: int  # executions of the longest train searched


@dataclass(frozen=True)
class Recorded:
    """A recording and its folder."""

    out: Path
    protocols: list[Protocol]
    plans: list[Plan]
    logger: str
    interval_us: float
    readings: int
    resumed: int  # runs that an earlier process had made
    clocks: bool  # whether the log is on the GPU's clock, and clock pairs were written

    @property
    def files(self) -> list[Path]:
        """The written files."""
        return [self.out / name for name in FILES if self.clocks or name != CLOCKS]


def record(
    kernels: str | Path | None = None,
    *,
    out: str | Path,
    logger: str = SIMULATED,
    window_us: float | None = None,
    runs: int | None = None,
    device: str | None = None,
    interleaved: bool = False,
    sequence: Repeated = (),
    seed: int = 0,
    rename: Assigned | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Recorded:
    """Record the power of kernels into a folder of the tables that `power.profile.profile_files` reads.

    A recording of the same settings that was stopped goes on: its journal lies beside the folder
    until all is written.

    Parameters
    ----------
    kernels : str or Path, optional
        CSV or Parquet with ``op``, ``dtype_a`` and the dimensions of each operator, as for
        `measure.measure`; None for the published kernels (the suite ``fingrav``), the collectives
        of which only the simulated GPU runs.
    out : str or Path
        Folder for ``log.csv``, ``executions.csv``, ``record.json`` and, of a logger on the GPU's
        clock, ``clocks.csv``.
    logger : {"amdsmi", "hwmon", "amd-smi", "rocm-smi", "nvml", "simulated"}
        What reads the power: amdsmi, hwmon, amd-smi, rocm-smi, nvml; simulated: the GPU too, to try it.
    window_us : float, optional
        As for `power_plan`: and between its readings; by default that of
        `power_rigs.INTERVAL_US`.
    runs : int, default as published
        Runs of each kernel. From 1 on.
    device : str, default the first GPU
        As for `measure`.
    interleaved : bool
        Run all kernels in turn, too: each is compared with itself alone. After the runs of each.
    sequence : sequence of str, or of sequences of int
        Run these of the list in turn, too, each after the one before it: 1,2 or 40*gemv,gemm. Kernels are named, or
        told by their place in the list from 1 on; it shows what a kernel draws by what ran before
        it. A place that is named several
        times in a row runs as often: ``[1] * 40 + [2]`` are 40 executions of the first before each
        of the second.
    seed : int
        As for `train`: of operands, random delays, and whatever is simulated.
    rename : mapping of str to str, optional
        As for `read`: of the table of kernels.
    overwrite : bool
        Whether files of ``out`` that flopcast did not write may be replaced.
    progress : callable, optional
        ``(done, total, label, eta_seconds)``.

    Raises
    ------
    FlopcastError
        A parameter, the file, the GPU or the logger cannot be used, or PyTorch is missing.

    Examples
    --------
    >>> from pathlib import Path
    >>> import flopcast as fc
    >>> fc.power_record(Path("gemms.csv"), out=Path("power"), logger="simulated")  # doctest: +SKIP
    >>> tables = [Path("power", f"{name}.csv") for name in ("log", "executions", "clocks")]
    >>> found = fc.power_profile(*tables, window_us=1000)  # doctest: +SKIP
    """
    if logger not in INTERVAL_US:
        raise ParameterError("logger", f"must be one of {', '.join(INTERVAL_US)}, got {logger!r}")
    if window_us is None:
        interval = INTERVAL_US[logger]
    else:
        interval = window_us
    if not 0 < interval < math.inf:
        raise ParameterError("window_us", f"must be above 0, got {interval:g}")
    if logger == SIMULATED and device is not None:
        raise ParameterError("device", "must be left out where the GPU is simulated")
    if runs is not None and runs < 1:
        raise ParameterError("runs", f"must be 1 or more, got {runs}")
    if isinstance(sequence, str):
        sequence = [sequence]
    rename = values.assigned("rename", rename)
    out = Path(out)
    if kernels is not None:
        kernels = Path(kernels)
    with replacing(overwrite=overwrite, reads=[] if kernels is None else [kernels]):
        check_output(out, FILES)
    if kernels is None:
        ranks = 1
        if logger == SIMULATED:
            ranks = SIMULATED_RANKS
        rows = suite_rows("fingrav", gpu=True, ranks=ranks)
    else:
        listed = read_shapes(kernels, rename=rename)
        if listed.foreign:
            problem = (
                f"no kernel has a column {listed.foreign}: rename it (dtype_a, m, n, k, ...) or "
                "leave it out"
            )
            raise DataError(problem, source=str(kernels))
        lost = [f"{one['source']}: {one['reason']} {one['detail']}" for one in listed.refused]
        lost += listed.repeated
        if lost:
            problem = f"{counted(len(lost), 'kernel')} would not be recorded; first: {lost[0]}"
            raise DataError(problem, source=str(kernels))
        rows = listed.rows
    if interleaved and len(rows) < 2:
        raise ParameterError(
            "interleaved", "must be left out of one kernel: there is none to run in turn with"
        )
    names = [short_name(row) for row in rows]
    sequences = [values.repeated("sequence", one, names) for one in sequence]
    if interleaved:
        turns = [tuple(range(len(rows)))]
    else:
        turns = []
    for one in sequences:
        blocks = [place for place, _ in itertools.groupby(one)]
        distinct = {*blocks}
        named = distinct <= {*range(1, len(rows) + 1)}
        if not named or len(blocks) < 2 or len(distinct) < len(blocks):
            problem = (
                f"must be two or more of the kernels 1 to {len(rows)}, each in one place, got "
                f"{_written(one)}"
            )
            raise ParameterError("sequence", problem)
        turns.append(tuple(place - 1 for place in one))
    rig, about = _rig(logger, interval, device, seed)
    settings: dict[str, Any] = {
        "rows": rows,
        "logger": logger,
        "interval_us": interval,
        "runs": runs,
        "seed": seed,
        **about,
        "interleaved": interleaved,
    }
    if sequences:
        settings["sequences"] = sequences
    folder = journal_folder(out)
    journal = Journal(folder, settings, resume=(folder / "plan.json").exists())
    course = _Course(
        rig,
        journal,
        rows,
        runs,
        seed,
        progress,
        turns=turns,
    )
    try:
        course.run()
    finally:
        rig.close()
    readings, clocks = _write(course, out, settings)
    journal.remove()
    plans = [
        plan(one.kernel_us, interval, lag_us=one.lag_us, settling_us=one.settling_us)
        for one in course.protocols
    ]
    return Recorded(
        out, course.protocols, plans, logger, interval, readings, course.resumed, clocks
    )


def short_name(row: Mapping[str, Any]) -> str:
    """Return the name of a kernel in sequences: its operator, or its collective; a thin product is a gemv.

    >>> short_name({"op": "gemm", "m": 8192, "n": 1, "k": 8192})
    'gemv'
    """
    if row["op"] == "gemm" and 1 in (row.get("m"), row.get("n")):
        return "gemv"
    if row["op"] == "collective":
        return str(row["variant"])
    return str(row["op"])


def _written(sequence: Sequence[int]) -> str:
    """Return a sequence of places as the command line takes it.

    >>> _written([1, 1, 1, 2])
    '3*1,2'
    """
    blocks = list[str]()
    for place, repeated in itertools.groupby(sequence):
        times = len(list(repeated))
        blocks.append(f"{place}" if times == 1 else f"{times}*{place}")
    return ",".join(blocks)


def _rig(
    logger: str, interval_us: float, device: str | None, seed: int
) -> tuple[Rig, Mapping[str, str]]:
    """Return the rig, and what two parts of one recording must share."""
    if logger == SIMULATED:
        return SimulatedGPU(interval_us, seed), {}
    backend = Backend(import_torch(), device)
    return TorchRig(
        backend,
        power_reader(logger, backend),
        interval_us,
        seed,
    ), machine(backend)


class _Course:
    """The course of a recording: kernel by kernel, first the protocol, then the runs."""

    def __init__(
        self,
        rig: Rig,
        journal: Journal,
        rows: Sequence[Row],
        runs: int | None,
        seed: int,
        progress: Progress | None,
        *,
        turns: Sequence[tuple[int, ...]],
    ) -> None:
        self.rig = rig
        self.journal = journal
        self.rows = rows
        self.seed = seed
        # which kernels run at each place, in turn
        self.trained = [
            *((place,) for place in range(len(rows))),
            *turns,
        ]
        self.protocols = list[Protocol]()
        self.trains = list[tuple[int, Train]]()
        self._runs = runs
        self._progress = progress
        self._started = time.monotonic()
        self._made = 0
        self._last = 0  # when the last execution ended, CPU's nanoseconds
        # readings of a kernel's probes: µs since their train began, watts
        self._risen = list[tuple[float, float]]()
        for (entry,) in journal.steps:
            if "protocol" in entry:
                self.protocols.append(Protocol(**entry["protocol"]))
            else:
                train = Train(
                    entry["executions"], entry["readings"], entry["pairs"], entry["components"]
                )
                self.trains.append((entry["row"], train))
        self.resumed = len(self.trains)
        if journal.steps:
            last = journal.steps[-1][0]
            rig.after(last["ended_ns"] if "protocol" in last else last["executions"][-1][1])

    def run(self) -> None:
        """Record what is still missing."""
        for place in range(len(self.trained)):
            made = sum(of == place for of, _ in self.trains)
            if place < len(self.protocols) and made == self.protocols[place].runs:
                continue
            protocol = None
            if place < len(self.protocols):
                protocol = self.protocols[place]
            self.rig.use(*self._kernels(place, 1 if protocol is None else protocol.repeats))
            chosen = protocol or self._chosen(place)
            for run in range(made, chosen.runs):
                self._tell(f"{chosen.kernel}, run {run + 1}")
                self._made += 1
                train = self._train(chosen.executions, (place, _DELAY, run))
                self.trains.append((place, train))
                self.journal.add([{"row": place, **vars(train)}])

    def _kernels(self, place: int, repeats: int = 1) -> list[tuple[Row, int]]:
        """Return the kernels of a place, with the launches that count as one execution."""
        if place < len(self.rows):
            return [(self.rows[place], repeats)]
        return [(self.rows[one], self.protocols[one].repeats) for one in self.trained[place]]

    def _name(self, place: int) -> str:
        if place < len(self.rows):
            return described(self.rows[place])
        those = self.trained[place]
        which = _written([one + 1 for one in those]).replace(",", ", ")
        if those == tuple(range(len(self.rows))):
            which = f"all {len(those)}"
        return f"{which} in turn"

    def _train(self, executions: int, key: tuple[int, ...]) -> Train:
        """Run a train after a random delay, by the time of the run within the logger's period."""
        interval = self.rig.interval_us
        delay = np.random.default_rng([self.seed, *key, 1]).uniform(0, interval)
        return self.rig.train(executions, REST_US + interval + float(delay), key)

    def _chosen(self, place: int) -> Protocol:
        """Time a kernel and choose its protocol; kernels in turn are planned as one, with the runs of the shortest."""
        interval = self.rig.interval_us
        kernel_us = self._time_us(place, 0)
        repeats = plan(kernel_us, interval).repeats
        if repeats > 1:
            self.rig.use(*self._kernels(place, repeats))
            kernel_us = self._time_us(place, 1)
        kernel_us = round(kernel_us, 4)
        filled = plan(kernel_us, interval).executions_filled
        self._risen.clear()
        longest_us = LONGEST_US
        if interval >= COARSE_US:
            longest_us = SWING_US
        longest = max(4 * filled, math.ceil(longest_us / kernel_us))
        probes = _Probes(partial(self._ends, place, kernel_us), filled, longest)
        unthrottled = probes.unthrottled()
        settling_us = round((unthrottled or 0) * kernel_us, 1)
        lag_us = self._lag_us(place, settling_us or math.inf)
        chosen = plan(
            kernel_us,
            interval,
            lag_us=lag_us,
            settling_us=settling_us,
        )
        in_window = math.ceil(max(interval, kernel_us) / kernel_us)
        # the shortest train whose last window is steady throughout
        seen_steady = chosen.steady_from - 1 + in_window
        later = probes.settled(seen_steady) - seen_steady
        appended = max(chosen.executions - chosen.steady_from, AFTER if later else 0)
        made = [chosen.row.runs if chosen.row else 400]
        if place >= len(self.rows):
            made += [self.protocols[one].runs for one in self.trained[place]]
        protocol = Protocol(
            row=place,
            kernel=self._name(place),
            kernel_us=kernel_us,
            repeats=repeats,
            runs=self._runs or max(made),
            lag_us=lag_us,
            settling_us=settling_us,
            planned=chosen.executions,
            executions=chosen.steady_from + later + appended,
            steady_from=chosen.steady_from + later,
            unthrottled=unthrottled,
            searched=longest,
        )
        self.protocols.append(protocol)
        self.journal.add([{"row": place, "protocol": asdict(protocol), "ended_ns": self._last}])
        return protocol

    def _time_us(self, place: int, turn: int) -> float:
        """Return the kernel's time: the median of the steady executions of a few trains."""
        times = []
        for part in range(TIMED):
            train = self._train(LEAST_EXECUTIONS, (place, _TIMING, turn, part))
            start, _ = train.executions[-len(train.executions) // LEAST_EXECUTIONS]
            _, self._last = train.executions[-1]
            times.append((self._last - start) / 1e3)
        return float(np.median(times))

    def _ends(self, place: int, kernel_us: float, executions: int) -> np.ndarray:
        """Return readings of the power at the end of trains of so many executions, shape (n,)."""
        self._tell(f"{self._name(place)}, trains of {executions}")
        window_ns = 1e3 * max(self.rig.interval_us, kernel_us)
        watts = list[float]()
        for probe in range(PROBES):
            train = self._train(executions, (place, _PROBE, executions, probe))
            self._last = train.executions[-1][1]
            gpu_ns, cpu_ns, _ = train.pairs[-1] if train.pairs else (0, 0, 0)
            ahead = gpu_ns - cpu_ns  # of the logger's clock
            start = train.executions[0][0] + ahead
            end = train.executions[-1][1] + ahead
            for stamp, one in train.readings:
                if end - window_ns < stamp <= end:
                    watts.append(one)
                if start < stamp <= end:
                    self._risen.append(((stamp - start) / 1e3, one))
        return np.array(watts)

    def _lag_us(self, place: int, until_us: float) -> float | None:
        """Return the lag of the read power; in turn, the largest of the kernels alone, since it is the board's."""
        if place >= len(self.rows):
            alone = [self.protocols[one].lag_us for one in self.trained[place]]
            return max((one for one in alone if one is not None), default=None)
        since_us, watts = np.array(self._risen).T
        before = since_us <= until_us
        return measured_lag_us(since_us[before], watts[before], self.rig.interval_us)

    def _tell(self, label: str) -> None:
        if self._progress is not None:
            unknown = (len(self.trained) - len(self.protocols)) * (self._runs or USUAL_RUNS)
            total = sum(one.runs for one in self.protocols) + unknown
            eta = math.nan
            if self._made:
                left = total - len(self.trains)
                eta = (time.monotonic() - self._started) / self._made * left
            self._progress(
                len(self.trains),
                total,
                label,
                eta,
            )


class _Probes:
    """The power at the end of trains of executions, by their number.

    ``ends`` goes from a number of executions to readings of the power at the end of such trains,
    (n,); the ``shortest`` fills the logger's window. Power is taken to rise to its highest, then to
    fall once at most. Medians tell, as some runs are slower. Raises DataError: the logger reads too
    seldom.
    """

    def __init__(self, ends: Callable[[int], np.ndarray], shortest: int, longest: int) -> None:
        self._ends = ends
        self._shortest = shortest
        self._longest = longest
        self._probed: dict[int, tuple[float, float]] = {}

    def unthrottled(self) -> int | None:
        """Return the longest train that does not throttle, by bisection; None: none does.

        A train throttles that draws less than shorter ones by `power.profile.LEAST_FALL` and four
        standard errors.
        """
        # power may rise before it falls: both ends alone could draw the same
        for part in (0, 1 / 3, 2 / 3, 1):
            self._end(round(self._shortest * (self._longest / self._shortest) ** part))
        if self._throttles(self._longest):
            return _bisected(self._throttles, self._shortest, self._longest)
        return None

    def settled(self, planned: int) -> int:
        """Return the shortest train from the planned one on that draws as much as the longest, by bisection.

        They draw the same within `SETTLED`, or within four standard errors of both.
        """
        if planned >= self._longest or self._has_settled(planned):
            return planned
        return _bisected(self._has_settled, planned, self._longest) + 1

    def _end(self, executions: int) -> tuple[float, float]:
        """Return the median of the readings, and its standard error."""
        if executions not in self._probed:
            watts = self._ends(executions)
            if len(watts) < PROBES / 2:
                raise DataError(
                    "the power logger reads too seldom to tell when power has settled: log faster"
                )
            middle = float(np.median(watts))
            scatter = MAD_TO_SIGMA * float(np.median(np.abs(watts - middle)))
            self._probed[executions] = middle, 1.25 * scatter / math.sqrt(len(watts))
        return self._probed[executions]

    def _throttles(self, executions: int) -> bool:
        watts, error = self._end(executions)
        highest, of_highest = max(
            self._probed[other] for other in self._probed if other <= executions
        )
        return highest - watts > max(
            LEAST_FALL * highest, STANDARD_ERRORS * float(np.hypot(error, of_highest))
        )

    def _has_settled(self, executions: int) -> bool:
        (watts, _) = self._end(executions)
        (last, of_last) = self._end(self._longest)
        both = math.sqrt(2) * of_last  # the error of the shorter would count its rise as scatter
        return abs(watts - last) <= max(SETTLED * last, STANDARD_ERRORS * both)


def measured_lag_us(since_us: np.ndarray, watts: np.ndarray, window_us: float) -> float | None:
    """Return the time constant of the power's rise behind a logger's window, by least squares, µs.

    Readings, (n,), were taken so long after their runs began. Outliers, of slower runs, weigh
    little. None: power rises by less than `LEAST_RISE` times the scatter of the readings, or these
    are fewer than `PROBES`.
    """
    if len(watts) < PROBES:
        return None
    late = watts[since_us >= np.median(since_us)]
    highest = float(np.median(late))
    lowest = float(watts.min())
    scatter = MAD_TO_SIGMA * float(np.median(np.abs(late - highest)))
    if highest - lowest < LEAST_RISE * scatter:
        return None

    def missed(solution: np.ndarray) -> np.ndarray:
        rest_w, rise_w, log_lag = solution
        return rest_w + rise_w * read_share(since_us, window_us, math.exp(log_lag)) - watts

    shortest = math.log(window_us / 1000)
    longest = math.log(float(since_us.max()))
    start = lowest, highest - lowest, math.log(window_us / 4)
    bounds = [-math.inf, 0.0, shortest], [math.inf, math.inf, longest]
    solved = least_squares(
        missed, start, bounds=bounds, loss="soft_l1", f_scale=max(scatter, 1e-3 * highest)
    )
    return float(f"{math.exp(solved.x[2]):.4g}")


def _bisected(reached: Callable[[int], bool], before: int, after: int) -> int:
    """Return the last number that does not reach something; the first one does not, the last one does."""
    while after - before > 1:
        middle = (before + after) // 2
        if reached(middle):
            after = middle
        else:
            before = middle
    return before


def _write(course: _Course, out: Path, settings: Mapping[str, Any]) -> tuple[int, bool]:
    """Write the tables, each whole or not at all; return the number of readings, and whether there are clock pairs."""
    paired = list[tuple[int, int, int]]()
    readings = list[tuple[int, float]]()
    for _, train in course.trains:
        paired += train.pairs
        readings += train.readings
    pairs = pd.DataFrame(paired, columns=["gpu_ns", "cpu_ns", "delay_ns"])
    log = pd.DataFrame(readings, columns=["gpu_ns" if len(pairs) else "time_ns", "power_w"])
    parts = course.trains[0][1].components
    if parts:
        logs = [log.assign(component=TOTAL)]
        for part in parts:
            watts = itertools.chain.from_iterable(
                train.components[part] for _, train in course.trains
            )
            logs.append(log.assign(component=part, power_w=[*watts]))
        log = pd.concat(logs)
    if course.rig.limit_w is not None:
        log["limit_w"] = course.rig.limit_w
    protocols = zip(course.rows, course.protocols, strict=False)
    kernels = pd.DataFrame([_labels(row, one, course.rig.gpu_name) for row, one in protocols])
    executions = _executions(course, kernels)
    (out / CLOCKS).unlink(missing_ok=True)  # of an earlier recording
    tables = {LOG: log, EXECUTIONS: executions, **({CLOCKS: pairs} if len(pairs) else {})}
    for name, table in tables.items():
        with whole_file(out / name) as path:
            table.to_csv(path, index=False)
    content = {
        **MADE_BY,
        "schema": 1,
        **settings,
        "kernels": [asdict(one) for one in course.protocols],
    }
    with whole_file(out / RECORD) as path:
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return len(readings), bool(len(pairs))


def _labels(row: Row, protocol: Protocol, gpu_name: str) -> dict[str, Any]:
    """Return the facts of a kernel for `power.lessons`; fewer of an unknown GPU or operator."""
    labels = {"kernel": protocol.kernel, "launches": protocol.repeats}
    if row["op"] == "collective":
        alike = described({name: value for name, value in row.items() if name != "message_bytes"})
        moved = {"class": COMMUNICATION, "bytes": row["message_bytes"]}
        return labels | moved | {"collective": alike}
    work = work_of(pd.DataFrame([row]))
    try:
        balance = float(machine_balance(work, find(gpu_name))[0])
    except FlopcastError:
        balance = math.nan
    facts = Facts(flops=float(work.flops[0]), bytes=float(work.bytes[0]), balance=balance)
    return {
        **labels,
        "class": facts.bound,
        "flops": facts.flops,
        "bytes": facts.bytes,
        "balance": facts.balance,
    }


def _executions(course: _Course, kernels: pd.DataFrame) -> pd.DataFrame:
    """Return the executions of trains, each of one kernel or of several in turn."""
    parts = []
    for run, (place, train) in enumerate(course.trains):
        those = np.array(course.trained[place])
        turns = np.arange(len(train.executions) // len(those))
        count = len(train.executions)
        # executions of each kernel in a turn, and those of them before each
        each = np.array([np.sum(those == one) for one in those])
        within = np.array([np.sum(those[:before] == one) for before, one in enumerate(those)])
        number = (within + 1 + np.outer(turns, each)).ravel()
        steady = (course.protocols[place].steady_from - 1) * np.tile(each, len(turns)) + 1
        of = np.tile(those, len(turns)), np.full(count, run), number
        parts.append(np.column_stack([train.executions, *of, steady]))
    rows = pd.DataFrame(
        np.concatenate(parts),
        columns=["start_ns", "end_ns", "of", "run", "execution", "steady_from"],
    )
    facts = kernels.iloc[rows.pop("of")].reset_index(drop=True)
    return pd.concat([rows, facts], axis="columns").dropna(axis="columns", how="all")
