"""Synthetic counters as profilers give them: many columns, few causes, units from 1 to 1e12."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..models.suite import Columnar

FACTORS = 12
NAMED = ("host_us", "compute.target_us", "memory.target_us")


@dataclass(frozen=True)
class Counters:
    """Counters and times of workloads, as `evaluation.crossval.evaluate` wants them.

    Attributes
    ----------
    X : DataFrame of shape (n, p)
        The first columns are called as those the suite's additive base looks for, the others ``c0``, ``c1``, ...
    y : ndarray of shape (n,)
        Positive times.
    groups : ndarray of str, shape (n,)
        20 groups in turn.
    unpaired : None
        No workloads were measured on one of the devices alone.
    """

    X: pd.DataFrame
    y: np.ndarray
    groups: np.ndarray
    unpaired: None = None

    @property
    def rows(self) -> pd.DataFrame:
        """No identifying columns."""
        return pd.DataFrame(index=self.X.index)

    @property
    def columnar(self) -> Columnar:
        """What the suite must know of the columns: all may stand in a sum."""
        return Columnar(dict.fromkeys(self.X.columns, "additive"), (), len(self.y), host=True, unpaired=False)


def counters(n: int, p: int, seed: int = 0) -> Counters:
    """Return p counters driven by 12 latent kinds of work, with 5 % noise, and times with 10 %.

    Parameters
    ----------
    n, p : int
        Workloads and counters (at least 3).
    seed : int, default=0
    """
    rng = np.random.default_rng(seed)
    work = rng.lognormal(size=(n, FACTORS))
    X = work @ rng.gamma(0.3, size=(FACTORS, p)) * rng.lognormal(0, 0.05, size=(n, p))
    X *= 10.0 ** rng.uniform(0, 12, size=p)
    y = (1 + work @ np.linspace(1, 0.1, FACTORS)) * rng.lognormal(0, 0.1, size=n)
    names = [*NAMED, *(f"c{j}" for j in range(p - len(NAMED)))]
    return Counters(pd.DataFrame(X, columns=names), y, np.array([f"g{i % 20}" for i in range(n)]))
