"""Kernels known only by name and launch, and whole workloads: their work is unknown."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..op import Dim, Op, OwnFeature, log_feature
from ..work import numbers

LAUNCHED = "kernel"  # operator of kernels known only by name and launch
KERNEL_MEAN = "kernel_mean"  # all launches of a kernel together, of which the mean time is recorded
WHOLE = ("application", "frame", "epoch", KERNEL_MEAN)
"""Workloads that are no single launch: identified by a name (column ``variant``, read as ``name`` too) and an
index. Every other column of numbers is what was counted of them."""


def unknown(frame: pd.DataFrame) -> np.ndarray:
    """Return NaN: nobody knows what the kernel computes or moves."""
    return np.full(len(frame), np.nan)


def kernel_view(frame: pd.DataFrame) -> pd.DataFrame:
    """Return m = workgroups, n = threads of a workgroup, batch = k = 1."""
    workgroups, threads = numbers(frame, "workgroups", "threads")
    one = np.ones(len(frame))
    return pd.DataFrame({"batch": one, "m": workgroups, "n": threads, "k": one})


def whole_view(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one of everything: what a whole workload multiplies is unknown."""
    one = np.ones(len(frame))
    return pd.DataFrame({"batch": one, "m": one, "n": one, "k": one})


OPERATORS = (
    Op(
        LAUNCHED,
        "vector",
        (
            Dim("variant", "name of the kernel", default="", kind="word"),
            Dim("workgroups", "workgroups of the launch", 1024),
            Dim("threads", "work-items of a workgroup", 256),
            Dim("lds_bytes", "local memory of a workgroup", default=np.nan, least=0),
        ),
        ("variant",),
        "kernel {variant}",
        unknown,
        unknown,
        kernel_view,
        needs_dtype=False,
        features=(
            OwnFeature(
                "workgroups",
                "1",
                "additive",
                "workgroups of the launch",
                lambda rows: rows.dim("workgroups"),
            ),
            OwnFeature(
                "work_items",
                "1",
                "additive",
                "workgroups x work-items of each",
                lambda rows: rows.dim("workgroups") * rows.dim("threads"),
            ),
            OwnFeature(
                "rounds.target",
                "1",
                "additive",
                "ceil(workgroups / CUs) on the target",
                lambda rows: np.ceil(rows.dim("workgroups") / rows.target.cus),
            ),
            log_feature("log2.workgroups", "log2(workgroups)", "workgroups"),
            log_feature("log2.threads", "log2(work-items of a workgroup)", "threads"),
        ),
    ),
    *(
        Op(
            name,
            "vector",
            (
                Dim("variant", "name of the workload", "hpcg", kind="word"),
                Dim("index", "number of the frame, epoch or run", default=np.nan, least=0),
            ),
            ("variant",),
            name + " {variant}",
            unknown,
            unknown,
            whole_view,
            needs_dtype=False,
        )
        for name in WHOLE
    ),
)
