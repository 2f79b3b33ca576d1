"""A fixed time of every kernel, and work at the achieved roofline: the default of projections."""

from __future__ import annotations

import numpy as np

from ..achieved import achieved, memory_shares
from ..base import LATENCY, Law, Pair, Rows, Scaled
from ..bounds import LAUNCH_FLOOR_US, bounded
from ..rates import ratio
from .bandwidth import LAW as BANDWIDTH


class Affine(Law):
    """``t' = a_target + (t - a_host) r``, relative to t.

    - a is the fixed time of a kernel on its device (`base.Overhead`): it does not shrink with any rate. On AMD it holds
      the dispatch in queues that are not empty. A kernel shorter than that is all fixed time.
    - r is the ratio of the achieved rooflines (`achieved`), the arithmetic in whole tiles and waves.
    - A kernel whose roofline is below `bounds.LAUNCH_FLOOR_US` on both devices waits for chains of dependent
      instructions: r is the ratio of the boost clocks. It passes into that of the rooflines over a factor of two around
      the floor.
    - Of kernels of unknown work r is the ratio of the achieved bandwidths.
    """

    name = "affine"
    needs = ("peak_tflops", "memory_bw_gbs")
    source = "fixed times of public traces (hardware/constants.toml), hardware/measured.csv"

    def scaled(self, rows: Rows, pair: Pair) -> Scaled:
        """Return ``t' / t``."""
        own, others = achieved(rows, pair)
        law = bounded(rows, own, others)
        memory = BANDWIDTH.scaled(rows, pair)
        shares = memory_shares(pair.host, pair.target)
        with np.errstate(divide="ignore", invalid="ignore"):  # 0 to 1 between the floor over and times the root of 2
            over_floor = np.log2(np.maximum(own.roofline_us, others.roofline_us) / LAUNCH_FLOOR_US)
            works = np.clip(over_floor + 0.5, 0.0, 1.0)
        clocks, missing = ratio(pair.host, pair.target, "boost_mhz")
        factor = law.factor**works * (1.0 if missing else clocks) ** (1 - works)
        bound, why = np.where(works < 0.5, LATENCY, law.bound).astype(object), law.why.copy()
        blind = np.isnan(factor) & ~rows.known & (rows.direction == "")
        factor[blind] = memory.factor[blind] * shares[0] / shares[1]
        fixed, fixed_there = (one.fixed_us(rows.queued) for one in pair.fixed)
        kept = np.minimum(fixed, rows.host_us)
        began = np.where(fixed > 0, kept * fixed_there / np.where(fixed > 0, fixed, 1.0), fixed_there)
        return Scaled((began + (rows.host_us - kept) * factor) / rows.host_us, bound, why)


LAW = Affine()
