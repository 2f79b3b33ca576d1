"""Fit the alpha-beta model to measured messages, and its error on messages left out.

1. Waiting for peers only adds time, and a longer message never takes less: a message that took
   longer than a larger one of the same group has waited. The transfer time of a message is the
   least time of all that are as large or larger.
2. At most `PER_OCTAVE` sizes per octave and number of ranks count, so that every scale of size has
   the same weight.
3. For every place where the protocol may change, each side is fitted apart: least sum of relative
   errors (L1, robust against the messages that still wait), no parameter negative. The place with
   the least sum is taken, among the `LIKELIEST` by least squares.

On a mesh what a ring of an untuned number of ranks carries (`Link.untuned`) is searched for, with
all of this at each value; the rings themselves are given. Of another collective than the all-reduce
only a share of its efficiencies is fitted (`fit_share`), where it was measured at one size of
message.

The sum of relative errors ``sum_i |1 - a_i b|``, b >= 0, is minimised exactly, as the dual linear
program ``max sum_i d_i  subject to  sum_i d_i a_i <= 0,  -1 <= d_i <= 1``, whose multipliers are b.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import linprog, minimize_scalar, nnls

from ..arrays import BoolArray, FloatArray
from ..errors import DataError
from ..hardware import GPU
from ..projection.collective_laws import (
    BYTES_PER_US,
    Link,
    Nvls,
    Protocol,
    cost_terms,
    link_bandwidth_gbs,
)

PER_OCTAVE = 4
"""Sizes that count in each octave."""

LEAST_SIZES = 3
"""Different sizes on either side of a change of protocol."""

LIKELIEST = 8
"""Changes of protocol that are fitted, by the least squares of relative errors on both sides."""

OCTAVE_FOLDS = 4
"""Every so many octaves of size are left out together."""


@dataclass(frozen=True)
class Timings:
    """Measured messages of one collective on one kind of node.

    Attributes
    ----------
    message_bytes, ranks, time_us : ndarray of shape (n_messages,)
        Message of one rank, ranks that took part, measured time; above 0.
    """

    message_bytes: FloatArray
    ranks: FloatArray
    time_us: FloatArray

    def __post_init__(self) -> None:
        shapes = {np.shape(values) for values in (self.message_bytes, self.ranks, self.time_us)}
        if len(shapes) != 1:
            raise ValueError(
                f"the columns of Timings must be equally long, got shapes {sorted(shapes)}"
            )
        if not all(np.all(values > 0) for values in (self.message_bytes, self.ranks, self.time_us)):
            raise DataError(
                "measured messages must have sizes, ranks and times above 0: leave the others out"
            )

    def take(self, rows: BoolArray | NDArray[np.intp]) -> Timings:
        """Return some of the messages."""
        return Timings(self.message_bytes[rows], self.ranks[rows], self.time_us[rows])

    def transfer(self) -> Timings:
        """Return the messages that count, with the times of their transfer alone, by ranks and size."""
        order = np.lexsort((self.message_bytes, self.ranks))
        sorted_ = self.take(order)
        least = pd.Series(sorted_.time_us[::-1]).groupby(sorted_.ranks[::-1]).cummin()
        times = np.asarray(least, dtype=np.float64)[::-1]
        cell = np.floor(PER_OCTAVE * np.log2(sorted_.message_bytes))
        last = np.r_[(np.diff(cell) != 0) | (np.diff(sorted_.ranks) != 0), True]
        return Timings(sorted_.message_bytes, sorted_.ranks, times).take(last)


LEAST_UNTUNED = 0.5
"""Least part of a tuned ring's bandwidth that one of an untuned number of ranks is looked for at."""


def fit_link(
    timings: Timings,
    gpu: GPU,
    collective: str,
    algorithm: str,
    *,
    protocols: int = 2,
    rings: Mapping[int, int] | None = None,
) -> Link:
    """Fit the model to measured messages.

    Parameters
    ----------
    timings : Timings
        Messages within one node.
    gpu : GPU
        Its published bandwidth is what `Protocol.efficiency` counts in.
    collective, algorithm : str
        What was measured, and how to count its steps and bytes.
    protocols : {1, 2}
        Lines over the size of the message.
    rings : mapping, optional
        Rings at untuned numbers of ranks (`Link.rings`).

    Returns
    -------
    Link
        Without errors of messages left out: see `held_out`. With a single number of steps the base
        cannot be told from the steps, and all latency is put into the steps.

    Raises
    ------
    DataError
        If there are too few sizes for the lines.
    NotPublishedError
        If the GPU's bandwidth is not published.
    """
    if protocols not in (1, 2):
        raise ValueError(f"parameter protocols of fit_link must be 1 or 2, got {protocols}")
    messages = timings.transfer()
    if len(np.unique(messages.message_bytes)) < protocols * LEAST_SIZES:
        raise DataError(
            f"{collective} on {gpu.name}: {protocols * LEAST_SIZES} sizes of message are needed "
            "at least"
        )
    names = tuple(int(n) for n in np.unique(messages.ranks))
    blank = Link(
        (gpu.name,), collective, algorithm, (Protocol(0.0, 1.0, 0.0, 1.0),), names, rings or {}
    )
    if not np.isin(names, list(blank.rings)).any():
        return _fitted(blank, messages, gpu, protocols)

    def error(untuned: float) -> float:
        return _sum_of_errors(
            _fitted(replace(blank, untuned=untuned), messages, gpu, protocols), messages, gpu
        )

    best = minimize_scalar(
        error, bounds=(LEAST_UNTUNED, 1.0), method="bounded", options={"xatol": 1e-3}
    )
    return _fitted(replace(blank, untuned=round(float(best.x), 3)), messages, gpu, protocols)


def _fitted(blank: Link, messages: Timings, gpu: GPU, protocols: int) -> Link:
    """Return the model with the protocols of the least sum of errors, all else as it is."""
    design = _design(messages, gpu, blank)
    cuts = _cuts(design, messages) if protocols == 2 else [0.0]
    tried = [replace(blank, protocols=_fit(design, messages, cut)) for cut in cuts]
    return min(tried, key=lambda link: _sum_of_errors(link, messages, gpu))


def _sum_of_errors(link: Link, messages: Timings, gpu: GPU) -> float:
    return float(np.abs(np.expm1(log_errors(link, messages, gpu))).sum())


def fit_share(timings: Timings, gpu: GPU, collective: str, all_reduce: Link) -> tuple[float, float]:
    """Fit what another collective reaches of the efficiencies of the all-reduce, and `Link.untuned` of its own.

    Latencies are those of the all-reduce, by the steps of the collective. Where no untuned number
    of ranks was measured, `Link.untuned` is that of the all-reduce.
    """
    odd = np.isin(timings.ranks, list(all_reduce.rings))
    link = replace(all_reduce, collective=collective, nvls=None)
    share = _share(timings.take(~odd), gpu, link)
    if not odd.any():
        return share, link.untuned
    return share, link.untuned * _share(timings.take(odd), gpu, link) / share


def _share(timings: Timings, gpu: GPU, link: Link) -> float:
    """Return the share of the efficiencies with the least sum of relative errors: a weighted median."""
    rate = _bandwidths(timings, gpu, link.collective)
    latency, transfer = link.parts_us(link.collective, timings.message_bytes, timings.ranks, rate)
    shares = transfer / (timings.time_us - latency)
    order = np.argsort(shares)
    weights = np.cumsum((transfer / timings.time_us)[order])
    return float(shares[order][np.searchsorted(weights, weights[-1] / 2)])


def fit_nvls(timings: Timings, gpu: GPU, from_ranks: int, from_bytes: float) -> Nvls:
    """Fit a line to the all-reduces that the switch adds up: those of so many ranks and bytes at least."""
    messages = timings.transfer()
    messages = messages.take(
        (messages.ranks >= from_ranks) & (messages.message_bytes >= from_bytes)
    )
    at_peak_us = messages.message_bytes / (_bandwidths(messages, gpu, "all_reduce") * BYTES_PER_US)
    nothing = np.zeros_like(at_peak_us)
    line = _line(
        np.column_stack([np.ones_like(at_peak_us), nothing, at_peak_us]), messages.time_us, 0.0
    )
    return Nvls(from_ranks, line.base_us, line.efficiency)


def refit(link: Link, timings: Timings, gpu: GPU, others: Mapping[str, Link]) -> Link:
    """Fit a model of links.toml again, in the way in which it was: all but its switch (`fit_nvls`).

    ``others`` are all-reduces by GPU: that of a model whose share of it is fitted, and of the mesh
    that it goes by.
    """
    if link.of_all_reduce is not None:
        all_reduce = others[link.gpus[0]]
        share, untuned = fit_share(timings, gpu, link.collective, all_reduce)
        return replace(
            all_reduce.at_share(share),
            collective=link.collective,
            untuned=untuned,
            of_all_reduce=share,
        )
    if link.carried_from:
        alone = fit_link(
            timings, gpu, link.collective, link.algorithm, protocols=len(link.protocols)
        )
        return carried_over(alone, others[link.carried_from])
    count = len(link.protocols)
    return fit_link(
        timings, gpu, link.collective, link.algorithm, protocols=count, rings=link.rings
    )


def carried_over(link: Link, mesh: Link) -> Link:
    """Return a model measured at one number of ranks, with what another GPU of the same mesh says of the others.

    That is how latency is split between base and steps, line by line, and the rings.
    """
    (ranks,) = link.ranks
    steps, _ = cost_terms(link.algorithm, link.collective, [ranks])
    lines = []
    for line, other in zip(link.protocols, mesh.protocols, strict=True):
        part = float(line.latency_us(steps)[0] / other.latency_us(steps)[0])
        lines.append(replace(line, base_us=part * other.base_us, step_us=part * other.step_us))
    return replace(
        link,
        protocols=tuple(lines),
        rings=mesh.rings,
        untuned=mesh.untuned,
        carried_from=mesh.gpus[0],
    )


def log_errors(link: Link, timings: Timings, gpu: GPU) -> FloatArray:
    """Return ln(model / measured) of each message, shape (n_messages,)."""
    rate = _bandwidths(timings, gpu, link.collective)
    return np.log(
        link.time_us(link.collective, timings.message_bytes, timings.ranks, rate) / timings.time_us
    )


def held_out(
    timings: Timings,
    gpu: GPU,
    collective: str,
    algorithm: str,
    *,
    by: str,
    protocols: int = 2,
    rings: Mapping[int, int] | None = None,
) -> pd.DataFrame:
    """Return the errors of messages left out of the fit, one fold at a time.

    Parameters
    ----------
    timings, gpu, collective, algorithm, protocols, rings
        As in `fit_link`.
    by : {"ranks", "octaves", "decades"}
        What a fold is: one number of ranks, every fourth octave of sizes (interpolation), or a
        decade of sizes (the change of protocol may lie in it, and beyond the last one is
        extrapolation).

    Returns
    -------
    DataFrame
        One row per message of `Timings.transfer`: `fold`, `message_bytes`, `ranks`, `log_error` =
        ln(model / measured). Empty where there is a single fold.
    """
    messages = timings.transfer()
    folds = folds_of(messages, by)
    errors = np.full(len(folds), np.nan)
    for fold in np.unique(folds) if len(np.unique(folds)) > 1 else []:
        out = folds == fold
        link = fit_link(
            messages.take(~out), gpu, collective, algorithm, protocols=protocols, rings=rings
        )
        errors[out] = log_errors(link, messages.take(out), gpu)
    columns = {
        "fold": folds,
        "message_bytes": messages.message_bytes,
        "ranks": messages.ranks,
        "log_error": errors,
    }
    return pd.DataFrame(columns).dropna()


def folds_of(timings: Timings, by: str) -> FloatArray:
    """Return the fold of every message: its ranks, its octave of size modulo `OCTAVE_FOLDS`, or its decade of size."""
    if by == "ranks":
        return timings.ranks
    if by == "octaves":
        return np.floor(np.log2(timings.message_bytes)) % OCTAVE_FOLDS
    if by == "decades":
        return np.floor(np.log10(timings.message_bytes))
    raise ValueError(
        f"parameter by of folds_of must be 'ranks', 'octaves' or 'decades', got {by!r}"
    )


def _bandwidths(timings: Timings, gpu: GPU, collective: str) -> FloatArray:
    of_ranks = {n: link_bandwidth_gbs(gpu, collective, n) for n in np.unique(timings.ranks)}
    return np.array([of_ranks[n] for n in timings.ranks])


def _design(messages: Timings, gpu: GPU, link: Link) -> FloatArray:
    """Return base, steps and time of the bytes at the published bandwidth, shape (n_messages, 3)."""
    steps, volume = cost_terms(link.algorithm, link.collective, messages.ranks)
    rate = _bandwidths(messages, gpu, link.collective) * link.reach(messages.ranks)
    at_peak_us = messages.message_bytes * volume / (rate * BYTES_PER_US)
    base = np.full(len(steps), float(np.ptp(steps) > 0))
    return np.column_stack([base, steps, at_peak_us])


def _cuts(design: FloatArray, messages: Timings) -> FloatArray:
    """Return the sizes at which the protocol may change, half way between two measured ones: the likeliest."""
    sizes = np.unique(messages.message_bytes)
    between = np.sqrt(sizes[:-1] * sizes[1:])[LEAST_SIZES - 1 : len(sizes) - LEAST_SIZES]
    relative = design / messages.time_us[:, None]
    squares = [
        sum(nnls(relative[rows], np.ones(rows.sum()))[1] ** 2 for _, rows in _sides(messages, cut))
        for cut in between
    ]
    return between[np.argsort(squares, kind="stable")[:LIKELIEST]]


def _sides(messages: Timings, cut: float) -> list[tuple[float, BoolArray]]:
    """Return where each line begins and its messages: those below and above the cut, all of them for a cut at 0."""
    long = messages.message_bytes > cut
    return [(0.0, ~long), (float(cut), long)] if cut else [(0.0, long)]


def _fit(design: FloatArray, messages: Timings, cut: float) -> tuple[Protocol, ...]:
    """Return the lines of a cut."""
    return tuple(
        _line(design[rows], messages.time_us[rows], start) for start, rows in _sides(messages, cut)
    )


def _line(design: FloatArray, time_us: FloatArray, from_bytes: float) -> Protocol:
    relative = design / time_us[:, None]
    scale = np.where(relative.any(axis=0), relative.max(axis=0), 1.0)
    count = len(time_us)
    solution = linprog(
        -np.ones(count),
        A_ub=(relative / scale).T,
        b_ub=np.zeros(3),
        bounds=(-1, 1),
        method="highs-ds",
    )
    base, step, per_peak = np.maximum(-solution.ineqlin.marginals, 0.0) / scale
    return Protocol(
        from_bytes, float(base), float(step), float(1 / per_peak) if per_peak else float("inf")
    )
