"""What tuners and benchmarks of BLAS libraries share: column-major problems, and devices given by their gfx id alone.

BLAS stores matrices by columns and computes ``C[M, N] = op(A)[M, K] op(B)[K, N]``. The measurement
table reads memory by rows, where the same bytes are ``C'[N, M] = op(B)'[N, K] op(A)'[K, M]``: its m
is BLAS's N and its n BLAS's M, its A (activations) is BLAS's B and its B (weights) BLAS's A.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..remarks import Remark, remark
from ..table.measurements import as_text
from .base import Options
from .labels import device_of, gpu_of_word

LEADING = ("lda", "ldb", "ldc")


def row_major(blas: pd.DataFrame) -> pd.DataFrame:
    """Return the columns `M`, `N`, `K`, `type_a`, `type_b`, `type_c` under the table's names, values as given."""
    names = {
        "m": "N",
        "n": "M",
        "k": "K",
        "dtype_a": "type_b",
        "dtype_b": "type_a",
        "dtype_out": "type_c",
    }
    return pd.DataFrame({name: blas[given] for name, given in names.items()})


def padding(blas: pd.DataFrame) -> pd.Series:
    """Return "ld A B C" for problems whose matrices are padded in memory, "" for all others.

    Of the columns M, N, K, `trans_a`, `trans_b` ("n", "t" or "c") and the leading dimensions `lda`,
    `ldb`, `ldc`, missing where they are not recorded. Dense matrices have the leading dimension of
    their number of stored rows: M or K of A, K or N of B, M of C.
    """
    given = {
        name: pd.to_numeric(blas[name], errors="coerce").astype(float)
        for name in ("M", "N", "K", *LEADING)
    }
    rows = (
        given["M"].where(blas["trans_a"].eq("n"), given["K"]),
        given["K"].where(blas["trans_b"].eq("n"), given["N"]),
        given["M"],
    )
    sparse = np.zeros(len(blas), dtype=bool)
    for name, dense in zip(LEADING, rows, strict=True):
        sparse |= given[name].gt(dense).to_numpy()
    words = blas["lda"].astype(str) + " " + blas["ldb"].astype(str) + " " + blas["ldc"].astype(str)
    return ("ld " + words).where(sparse, "")


def text_column(given: pd.DataFrame, name: str) -> pd.Series:
    """Return a column as text, "" where the table does not have it."""
    if name in given:
        return as_text(given[name])
    return pd.Series("", index=given.index, dtype="str")


def device_of_gfx(gfx: str, options: Options) -> tuple[str, Remark | None]:
    """Return the device of a gfx id without a number of compute units, and a remark.

    The id is as ROCm writes it, ``gfx942:sramecc+:xnack-``. Where several devices answer to it, the
    device stays the gfx id; it is "" where the user states which of them it was (`options`).
    """
    plain = gfx.strip().partition(":")[0].lower()
    name, assumption = device_of(plain, None)
    stated = options.defaults.get("device", "")
    if stated and _may_be(stated, plain):
        return "", remark(
            "device-as-stated", f"{plain} is read as {stated}, as stated", gfx=plain, device=stated
        )
    if name == plain:
        text = (
            f"{plain} without a number of compute units may be several devices: give default "
            "device=NAME"
        )
        assumption = remark("device-ambiguous", text, gfx=plain)
    return name, assumption


def _may_be(device: str, gfx: str) -> bool:
    """Return whether a device as the user names it can have this gfx id."""
    gpu = gpu_of_word(device, stated=True)
    if gpu:
        return gpu.gfx == gfx
    return device_of(gfx, None)[0] == gfx
