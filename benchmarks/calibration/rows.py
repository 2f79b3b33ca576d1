"""One figure of the laboratory, and the made-up matrix products that several cells train on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from ...arrays import FloatArray


class Row(NamedTuple):
    """A figure: a share of ``count`` (0 to 1), or where ``unit`` is not ``%`` a median or ratio over them."""

    name: str
    figure: float
    count: int
    unit: str = "%"

    def __str__(self) -> str:
        if self.unit != "%":
            return f"{self.name:92} {self.figure:6.2f}{self.unit}  of {self.count}"
        low, high = stats.binomtest(round(self.figure * self.count), self.count).proportion_ci()
        return (
            f"{self.name:92} {100 * self.figure:6.1f} %  [{100 * low:.0f}, {100 * high:.0f}]  of "
            f"{self.count}"
        )


Rows = Iterator[Row]

LAWS = ("affine", "power", "roofline", "waves")


def products(rng: np.random.Generator, sizes: Sequence[int]) -> pd.DataFrame:
    """Return matrix products: so many different m of each weight shape."""
    seen = rng.choice(96 * 96, len(sizes), replace=False)
    parts = [
        pd.DataFrame(
            {"m": m, "n": 128 * (4 + code // 96), "k": 128 * (4 + code % 96), "shape": shape}
        )
        for shape, (code, size) in enumerate(zip(seen, sizes, strict=True))
        for m in [rng.permutation(np.unique(np.round(2 ** rng.uniform(3, 14, 3 * size))))[:size]]
    ]
    return pd.concat(parts, ignore_index=True).assign(op="gemm", dtype_a="fp8", dtype_out="bf16")


def true_us(rows: pd.DataFrame, law: str) -> FloatArray:
    """Return the time of products by a law, (n,), in µs: 1 PFLOP/s, 4 TB/s, 304 compute units, tiles of 128 x 128."""
    m, n, k = (rows[name].to_numpy(dtype=float) for name in "mnk")
    compute, memory = 2 * m * n * k / 1e9, (m * k + n * k + 2 * m * n) / 4e6
    if law == "affine":
        return 3 + 1.4 * compute + 1.2 * memory
    if law == "power":
        return 2 * (compute + memory) ** 0.85
    if law == "roofline":
        return 3 + 1.3 * np.maximum(compute, memory)
    tiles = np.ceil(m / 128) * np.ceil(n / 128)
    return 3 + 1.3 * np.ceil(tiles / 304) * 304 * 128 * 128 * 2 * k / 1e9


def timed(
    rng: np.random.Generator,
    rows: pd.DataFrame,
    shifts: FloatArray,
    of_problem: float = 0.0,
    noise: float = 0.03,
    law: str = "roofline",
    tails: str = "normal",
) -> pd.DataFrame:
    """Return the products with a time on MI300X: the law, a shift of the weight shape and one of the product.

    ``of_problem`` is the standard deviation of the latter's logarithm, the same for repeats, ``noise``
    that of a measurement: normal, ``heavy`` (Student's t of 3 degrees, of the same variance), or
    ``short`` (kernels scatter up to 4 times as much as long ones).
    """
    us = true_us(rows, law)
    problem = rows.groupby(["m", "n", "k"]).ngroup().to_numpy()
    each = (
        rng.standard_t(3, len(rows)) / np.sqrt(3)
        if tails == "heavy"
        else rng.normal(size=len(rows))
    )
    spread = noise * (np.sqrt(np.clip(8 * us.min() / us, 0.3, 16)) if tails == "short" else 1.0)
    logs = (
        shifts[rows["shape"]]
        + rng.normal(0, of_problem, problem.max() + 1)[problem]
        + spread * each
    )
    return rows.assign(device="MI300X", duration_us=us * np.exp(logs)).drop(columns="shape")
