"""FLOPS scaling of a whole workload: one ratio of peaks."""

from __future__ import annotations

import numpy as np

from ...errors import DataError, NotPublishedError
from ..base import COMPUTE, MATRIX, Law, Pair, Rows, Scaled, filled
from ..rates import no_unit, run_as


class UniformFlops(Law):
    """One ratio of peaks for all rows: that of the precision in which the matrix operators spend most time.

    The published methodology as such; bf16 where no matrix operator is known.
    """

    name = "flops-uniform"
    needs = ("peak_tflops",)
    source = "constant hardware efficiency, of a whole workload"

    def scaled(self, rows: Rows, pair: Pair) -> Scaled:
        """Return the one ratio."""
        matrix = rows.known & (rows.work.unit == MATRIX)
        names = np.unique(rows.work.dtype[matrix]).tolist() or ["bf16"]
        dtype = max(names, key=lambda name: float(rows.host_us[matrix & (rows.work.dtype == name)].sum()))
        found, why = np.nan, None
        try:
            own, others = (gpu.peak_tflops(run_as(dtype, gpu)) for gpu in (pair.host, pair.target))
            found = own / others
        except NotPublishedError as error:
            why = error.remark
        except DataError as error:  # products of integers that no GPU has a unit for
            why = no_unit(error)
        return Scaled(np.full(len(rows), found), filled(COMPUTE, rows), filled(why, rows))


LAW = UniformFlops()
