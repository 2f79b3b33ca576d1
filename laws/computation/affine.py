"""A fixed time of every kernel, what its work explains, and the rest: the default of projections."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..base import LATENCY, Law, Pair, Rows, Scaled
from ..bounds import LAUNCH_FLOOR_US, achieved, bounded, memory_shares
from ..rates import ratio
from .bandwidth import LAW as BANDWIDTH

BLIND_SHARE: Final = 0.5
"""Of the time of a kernel whose work is not known, what memory is taken to explain."""


class Affine(Law):
    """``t' = a_target + (t - a_host) (e r + (1 - e) c)``, relative to t.

    - a is the fixed time of a kernel on its device (`base.Overhead`): it does not shrink with any rate. On AMD it holds
      the dispatch in queues that are not empty. A kernel shorter than that is all fixed time.
    - r is the ratio of the achieved rooflines of both devices (`achieved`), the arithmetic in whole tiles and waves.
      e is what that roofline explains on the host: the root of its share of ``t - a_host``, at most 1. To scale all of
      the time by r (e = 1) takes the efficiency of a kernel to be the same on both; to scale its share alone takes the
      rest to be waiting. Measured pairs of GPUs lie between the two.
    - The rest waits for chains of dependent instructions, for caches or for a last wave: c is the ratio of the boost
      clocks.
    - Of kernels of unknown work r is the ratio of the achieved bandwidths, for `BLIND_SHARE` of their time.
    """

    name = "affine"
    needs = ("peak_tflops", "memory_bw_gbs")
    source = "fixed times of public traces (hardware/constants.toml), hardware/measured.csv"

    def scaled(self, rows: Rows, pair: Pair) -> Scaled:
        """Return ``t' / t``."""
        own, others = achieved(rows, pair)
        law, memory = bounded(rows, own, others), BANDWIDTH.scaled(rows, pair)
        fixed, fixed_there = (one.fixed_us(rows.queued) for one in pair.fixed)
        kept = np.minimum(fixed, rows.host_us)
        began = np.where(fixed > 0, kept * fixed_there / np.where(fixed > 0, fixed, 1.0), fixed_there)
        blind = np.isnan(law.factor) & ~rows.known & (rows.direction == "")
        shares = memory_shares(pair.host, pair.target)
        with np.errstate(divide="ignore", invalid="ignore"):  # a kernel that is all fixed time
            explained = np.sqrt(np.minimum(own.roofline_us / (rows.host_us - kept), 1.0))
        explained = np.where(blind, BLIND_SHARE, explained)
        rates = np.where(blind, memory.factor * shares[0] / shares[1], law.factor)
        clocks, missing = ratio(pair.host, pair.target, "boost_mhz")
        factor = explained * rates + (1 - explained) * (1.0 if missing else clocks)
        waits = np.maximum(own.roofline_us, others.roofline_us) < LAUNCH_FLOOR_US
        bound = np.where(waits, LATENCY, law.bound).astype(object)
        return Scaled((began + (rows.host_us - kept) * factor) / rows.host_us, bound, law.why)


LAW = Affine()
