"""The laws' errors where both GPUs were measured: one's messages projected to the other, none of them in the fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ...hardware import GPU
from .alpha_beta import Link
from .fitting import Timings, fit_link, folds_of
from .laws import ALPHA_BETA, BANDWIDTH, KEPT, CommunicationLaw, communication_factors

NS_PER_US = 1e3
ONE_SIDED = "one-sided"


@dataclass(frozen=True)
class Side:
    """A measured GPU: its messages, and how to count their steps."""

    gpu: GPU
    timings: Timings
    algorithm: str

    def fit_without(self, fold: float, collective: str, by: str, protocols: int) -> Link:
        """Return the model fitted to the other folds."""
        kept = self.timings.transfer()
        kept = kept.take(folds_of(kept, by) != fold)
        return fit_link(kept, self.gpu, collective, self.algorithm, protocols=protocols)


def projection_errors(host: Side, target: Side, collective: str, *, by: str, protocols: int = 2) -> pd.DataFrame:
    """Return the error of every law on the target's messages, the models fitted without them on either GPU.

    Parameters
    ----------
    host, target : Side
        What is projected, and what to. The host's times are interpolated at the target's sizes, on logarithmic scales.
    collective : str
        What was measured on both.
    by : {"ranks", "octaves", "decades"}
        What is left out at a time, as in `fitting.held_out`.
    protocols : {1, 2}
        As in `fitting.fit_link`.

    Returns
    -------
    DataFrame
        One row per message measured on both: `fold`, `message_bytes`, `ranks`, then ln(projected / measured) by
        "alpha-beta", "one-sided" (the alpha-beta model with the host's fit alone), "bandwidth" and "kept".
    """
    messages, on_target, on_host = _common(host.timings.transfer(), target.timings.transfer())
    folds = folds_of(messages, by)
    parts = []
    for fold in np.unique(folds):
        rows = folds == fold
        links = [side.fit_without(fold, collective, by, protocols) for side in (host, target)]
        measured = np.log(on_host[rows] / on_target[rows])
        errors = {
            name: measured + np.log(_factors(messages.take(rows), host.gpu, target.gpu, collective, law, known))
            for name, law, known in _laws(links)
        }
        left = {"fold": fold, "message_bytes": messages.message_bytes[rows], "ranks": messages.ranks[rows]}
        parts.append(pd.DataFrame({**left, **errors}))
    return pd.concat(parts, ignore_index=True)


def _laws(links: list[Link]) -> list[tuple[str, CommunicationLaw, list[Link]]]:
    """Return name, law and models of every column of errors."""
    return [
        (ALPHA_BETA, ALPHA_BETA, links),
        (ONE_SIDED, ALPHA_BETA, links[:1]),
        (BANDWIDTH, BANDWIDTH, []),
        (KEPT, KEPT, []),
    ]


def _common(host: Timings, target: Timings) -> tuple[Timings, np.ndarray, np.ndarray]:
    """Return the target's messages that lie among the host's, with the times on the target and on the host."""
    on_host = np.full(len(target.time_us), np.nan)
    for n in np.intersect1d(host.ranks, target.ranks):
        rows, known = target.ranks == n, host.take(host.ranks == n)
        at, sizes = np.log(target.message_bytes[rows]), np.log(known.message_bytes)
        on_host[rows] = np.exp(np.interp(at, sizes, np.log(known.time_us), left=np.nan, right=np.nan))
    both = ~np.isnan(on_host)
    messages = target.take(both)
    return messages, messages.time_us, on_host[both]


def _factors(
    messages: Timings, host: GPU, target: GPU, collective: str, law: CommunicationLaw, links: list[Link]
) -> np.ndarray:
    activities = pd.DataFrame(
        {
            "collective": collective,
            "name": "",
            "collective_bytes": messages.message_bytes,
            "group_size": messages.ranks,
            "duration_ns": messages.time_us * NS_PER_US,
        }
    )
    return communication_factors(activities, host, target, law, links=links)["factor"].to_numpy()
