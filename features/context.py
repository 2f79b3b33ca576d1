"""What a feature is computed from: the rows, their work, and the two devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np
import pandas as pd

from ..arrays import IntArray, ObjectArray
from ..errors import DataError
from ..hardware import GPU, Comparison
from ..laws import rates
from ..laws.applied import SCALING, SIZES, laws_of_one, scaling_laws, size
from ..laws.base import DeviceLaw
from ..laws.bounds import Quantised, best_tile, quantise
from ..laws.serving_steps import Steps, steps
from ..operators.operators import Work, complete, work_of
from ..operators.work import coded, numbers, positive
from ..table.measurements import COUNTER, OWN
from ..table.problems import HOST

PRIOR = "prior_"  # prefix of the column with what a prior predicts
LEAST_INTENSITY = 1 / 64
"""FLOP per byte that stands for kernels without arithmetic (copies), where a logarithm is taken."""


class Device:
    """The rows as one device would run them; every figure is computed once, when first asked for.

    Where the device is `hardware.Comparison.MANY`, each row runs on the one that it names; figures of a GPU
    that nobody knows are NaN.
    """

    def __init__(self, work: Work, gpu: GPU, rows: pd.DataFrame) -> None:
        self.work = work
        self.gpu = gpu
        self._rows = rows

    def _figure(self, formula: Callable[[Work, GPU], np.ndarray]) -> np.ndarray:
        return rates.on_each(self.work, self._rows, self.gpu, formula)

    @cached_property
    def cus(self) -> np.ndarray:
        """Compute units."""
        return self._figure(lambda work, gpu: np.full(len(work), float(gpu.require("cus"))))

    @cached_property
    def peaks(self) -> np.ndarray:
        """Peak of the unit and precision of each row, TFLOPS."""
        return self._figure(rates.peaks)

    @cached_property
    def compute_us(self) -> np.ndarray:
        """Time of the arithmetic at peak."""
        return self.work.flops / (self.peaks * 1e6)

    @cached_property
    def memory_us(self) -> np.ndarray:
        """Time of the compulsory traffic at full bandwidth."""
        return self._figure(rates.memory_us)

    @cached_property
    def roofline_us(self) -> np.ndarray:
        """Larger of the two."""
        return np.maximum(self.compute_us, self.memory_us)

    @cached_property
    def ridge(self) -> np.ndarray:
        """Compute over memory time: above 1 the roofline says compute-bound (at least 1/64 FLOP per byte)."""
        least = LEAST_INTENSITY * self.work.bytes / (self.peaks * 1e6)
        return np.maximum(self.compute_us, least) / self.memory_us

    @cached_property
    def fit(self) -> Quantised:
        """Fit of 128 x 128 tiles to the compute units."""
        return quantise(self.work, self.cus)

    @cached_property
    def best_fit(self) -> Quantised:
        """Fit of the best tile and split of k."""
        return best_tile(self.work, self.cus)


Coded: TypeAlias = tuple[IntArray, ObjectArray]
"""Words of every row as positions (n,) among distinct words, and these; some may be in no row."""


class Context:
    """The rows a matrix is built from.

    Rows of the measurement table are completed here (see `operators.complete`). What the host
    measured stands in columns with the prefix ``host_``; without them, features of what was
    measured cannot be computed. `host` is None for models of one device; `metric` is the column to
    predict; `work` that of the rows, if computed already; `laws` are the user's.
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        host: GPU | None,
        target: GPU,
        metric: str = "duration_us",
        work: Work | None = None,
        laws: Sequence[DeviceLaw] = (),
    ) -> None:
        self.frame = complete(frame)
        self.metric = metric
        self._work = work
        self._user_laws = laws
        self._host = host
        self._target = target
        self._coded: dict[str, Coded] = {}
        self._levels: dict[str, Coded] = {}

    def __len__(self) -> int:
        return len(self.frame)

    @cached_property
    def ops(self) -> frozenset[str]:
        """Operators that occur."""
        codes, words = self.coded("op")
        return frozenset(map(str, words[pd.unique(codes)]))

    @property
    def has_host(self) -> bool:
        """Whether there is a host."""
        return self._host is not None

    @property
    def has_figures(self) -> bool:
        """Whether a peak or the memory bandwidth of the target is published; so it is of many targets."""
        many = Comparison.of_target(self._target).is_many
        return many or bool(self._target.peaks) or self._target.memory_bw_gbs is not None

    @property
    def has_prior(self) -> bool:
        """Whether the rows carry a prior's predictions for the target."""
        return f"{PRIOR}{self.metric}" in self.frame

    @property
    def prior(self) -> np.ndarray:
        """The predictions of a run over other devices for the target; NaN without one."""
        return self.frame[f"{PRIOR}{self.metric}"].to_numpy(dtype=np.float64)

    @property
    def has_measured(self) -> bool:
        """Whether the rows carry measurements of the host."""
        return f"{HOST}duration_us" in self.frame

    @cached_property
    def work(self) -> Work:
        """FLOPs, bytes and shape of every row."""
        if self._work is None:
            return work_of(self.frame)
        return self._work

    @cached_property
    def host(self) -> Device:
        """The rows on the host."""
        if self._host is None:
            raise DataError("there is no host in a model of one device")
        rows = rates.rows_of_hosts(self.frame, self._host)
        return Device(self.work, self._host, rows)

    @cached_property
    def target(self) -> Device:
        """The rows on the target."""
        return Device(self.work, self._target, self.frame)

    @cached_property
    def serving(self) -> Steps:
        """The parts of runs of serving."""
        return steps(self.frame, self._target)

    @cached_property
    def host_us(self) -> np.ndarray:
        """Time measured on the host."""
        return self.measured("duration_us")

    def law(self, name: str) -> np.ndarray:
        """Return a scaling law's predictions for the target, microseconds."""
        law = SCALING["duration_us"][name]
        factor = np.full(len(self), np.nan)
        for host, target, rows_of_pair in rates.each_pair(
            self.frame, self.host.gpu, self.target.gpu
        ):
            factor[rows_of_pair] = law.ratio(self.work.take(rows_of_pair), host, target)
        return self.host_us * factor

    def rule(self, name: str) -> np.ndarray:
        """Return the input of a simple rule: a law's prediction, the host's figure of the metric, or a size."""
        rows = self.frame
        target = self._target
        if name == "host":
            return self.measured(self.metric)
        if self._host is not None:
            times = self.measured(self.metric)
            laws = scaling_laws(
                self.metric, self.work, times, self._host, target, rows, self._user_laws
            )[0]
        else:
            laws = laws_of_one(self.metric, self.work, target, rows, self._user_laws)[0]
        if name in laws:
            return laws[name].to_numpy(dtype=np.float64)
        if name not in SIZES:
            raise DataError(f"the rule {name} says nothing of {self.metric} of such rows")
        return rates.on_each(self.work, rows, target, rates.published(partial(size, name)))

    def measured(self, metric: str) -> np.ndarray:
        """Return a figure measured on the host; it must be positive in every row."""
        return positive(self.frame, HOST + metric)

    @cached_property
    def counters(self) -> tuple[str, ...]:
        """Names of the hardware counters (``counter.NAME``) that were collected in the run that features come from."""
        collected = []
        for name in self._measured_columns(COUNTER):
            if self.frame[name].notna().any():
                collected.append(name.removeprefix(HOST))
        return tuple(collected)

    def counter(self, name: str) -> np.ndarray:
        """Return a hardware counter of the run that features come from, NaN where it was not collected.

        Raises DataError where the rows lack the counter.
        """
        column = name
        if self.has_host:
            column = HOST + name
        if column not in self.frame:
            raise DataError(
                f"the rows lack {name}, which the model uses: collect it with the profiler"
            )
        return self.frame[column].to_numpy(dtype=np.float64)

    @cached_property
    def user_columns(self) -> tuple[str, ...]:
        """Names of the columns (``own.NAME``) that the user added."""
        return tuple(name.removeprefix(HOST) for name in self._measured_columns(OWN))

    def _measured_columns(self, prefix: str) -> list[str]:
        """Return the columns under this prefix of the run that features come from."""
        if self.has_host:
            prefix = HOST + prefix
        return [str(name) for name in self.frame.columns if str(name).startswith(prefix)]

    def user_column(self, name: str) -> np.ndarray:
        """Return a column that the user added, by its name ``own.NAME``: from a host the one of its rows."""
        if HOST + name in self.frame:
            name = HOST + name
        return self.frame[name].to_numpy(dtype=np.float64)

    def dim(self, name: str, minimum: float = 1.0) -> np.ndarray:
        """Return a dimension as numbers of at least `minimum`, or raise the rows that lack it."""
        return numbers(self.frame, name, minimum=minimum)[0]

    def texts(self, name: str) -> np.ndarray:
        """Return a column of words, "" where there is none."""
        codes, words = self.coded(name)
        return words[codes]

    def coded(self, name: str) -> Coded:
        """Return a column of words, "" where there is none."""
        if name not in self._coded:
            codes, words = coded(self.frame, name)
            places = codes.astype(np.int64) % len(words)  # -1 stands for the last
            self._coded[name] = places, words
        return self._coded[name]

    def coded_pair(self, names: tuple[str, str], word: Callable[[str, str], str]) -> Coded:
        """Return the words that follow from the words of two columns."""
        (first, words), (second, others) = (self.coded(name) for name in names)
        pairs, occurring = pd.factorize(first * len(others) + second)
        levels = [
            word(words[pair // len(others)], others[pair % len(others)]) for pair in occurring
        ]
        return pairs, np.array(levels, dtype=object)

    def levels(self, name: str, compute: Callable[[Context], Coded]) -> Coded:
        """Return the words of a category, computed when first asked for under its name."""
        if name not in self._levels:
            self._levels[name] = compute(self)
        return self._levels[name]

    @cached_property
    def log_flops(self) -> np.ndarray:
        """Binary logarithm of the FLOPs, at least 1/64 FLOP per byte."""
        return np.log2(np.maximum(self.work.flops, LEAST_INTENSITY * self.work.bytes))
