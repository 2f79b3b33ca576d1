"""Synthetic counters as profilers give them: many columns, few causes, units from 1 to 1e12.

`workloads` are whole applications that have more counters than there are applications,
with a known law: ``python -m flopcast.benchmarks.made_up_counters made_up.parquet`` writes them,
for ``flopcast counters made_up.parquet --host MI300X --target MI355X --max-passes 3``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..models.suite import Columnar
from ..table.counters import per_pass

FACTORS = 12
NAMED = ("host_us", "compute.target_us", "memory.target_us")


@dataclass(frozen=True)
class Counters:
    """Counters and times of workloads, as `evaluation.crossval.evaluate` wants them.

    Attributes
    ----------
    X : DataFrame of shape (n, p)
        The first columns are called as those the suite's additive base looks for, the others
        ``c0``, ``c1``, ...
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
        return Columnar(
            dict.fromkeys(self.X.columns, "additive"), (), len(self.y), host=True, unpaired=False
        )


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


CAUSES = tuple(
    f"{block}_CAUSE_{j}" for j, block in enumerate(("SQ", "TA", "TA", "TA", "TCC", "TCC"))
)
"""The counters that the time of `workloads` is a sum of."""


def workloads(n: int = 300, p: int = 577, seed: int = 0) -> pd.DataFrame:
    """Return n applications measured on MI300X, with p counters, and on MI355X: columns of the measurement table.

    Six counters, `CAUSES`, each count one kind of work. The time on the target is a constant and
    their sum, with 1 % noise; the host's is another sum of the same. Of the other counters, two of
    three mix the kinds of work, with 5 % noise of their own; the third counts what happens in 3 %
    of the applications only, by any amount: plain least squares lean on them, and miss by far where
    they are next seen. Blocks are those of an AMD Instinct GPU.
    """
    rng = np.random.default_rng(seed)
    others, rare = p - len(CAUSES), np.arange(p - len(CAUSES)) % 3 == 2
    work = rng.lognormal(size=(n, len(CAUSES)))
    blocks = rng.choice([block for block in per_pass() if block != "other"], size=others)
    mixed = (
        work
        @ rng.gamma(0.3, size=(len(CAUSES), others))
        * rng.lognormal(0, np.where(rare, 3, 0.05), (n, others))
    )
    mixed[rare & (rng.random((n, others)) > 0.03)] = 0
    counted = np.column_stack([work, mixed]) * 10.0 ** rng.uniform(3, 12, size=p)
    names = [*CAUSES, *(f"{block}_C{j}" for j, block in enumerate(blocks))]
    rows = pd.DataFrame(counted, columns=[f"counter.{name}" for name in names])
    rows = rows.assign(
        op="application",
        name=[f"app{i % 30}" for i in range(n)],
        index=np.arange(n),
        device="MI300X",
    )
    rows["group"] = rows["name"]
    host, target = (
        100 * (0.2 + work @ share) for share in (np.linspace(1, 0.1, 6), np.linspace(0.1, 1, 6))
    )
    times = [one * rng.lognormal(0, 0.01, size=n) for one in (host, target)]
    rows["duration_us"] = times[0]
    theirs = rows[["op", "name", "index", "group"]].assign(device="MI355X", duration_us=times[1])
    return pd.concat([rows, theirs], ignore_index=True)


if __name__ == "__main__":
    workloads().to_parquet(sys.argv[1])
