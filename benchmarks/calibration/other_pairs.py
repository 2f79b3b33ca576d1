"""What runs on other pair tables than the embedded one err by for new groups: AITER's products on MI308X and MI355X."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from ...api.tables import load_measurements
from ...evaluation.competition import compete
from ...features.matrix import build_dataset
from ...hardware import find
from ...models.suite import NEW_GROUPS
from ..shared_data import SHARED_DATA
from .rows import Row, Rows

FAMILIES: Final = ("a8w8_blockscale_bpreshuffle", "a8w8_bpreshuffle", "bf16")
HOST, TARGET = "MI308X", "MI355X"


def other_pairs(sets: int, seed: int = 0, families: Iterable[str] = FAMILIES) -> Rows:
    """Yield the honest error of new groups of each table, by rows and by groups, the mean of as many drawings of folds.

    The models that may be saved for new groups compete, and the baselines: what a run states of its
    choice does not depend on the models that it shows beside them. Without the measured data
    nothing is yielded.
    """
    if not SHARED_DATA.is_dir():
        return
    host, target = find(HOST), find(TARGET)
    for family in families:
        wanted = {"op": "gemm", "family": family}
        frame = load_measurements([SHARED_DATA / "aiter"], wanted).frame
        dataset = build_dataset(frame, host=host, target=target)
        by_rows, by_groups = [], []
        for number in range(sets):
            models = list(NEW_GROUPS)
            selected = compete(dataset, models=models, seed=seed + number, alone=True).selected
            by_rows.append(selected["grouped"]["e_out"])
            by_groups.append(selected["grouped"]["e_out_groups"])
        count = len(np.unique(dataset.groups.astype(str)))
        name = f"{HOST} to {TARGET}, {family}, {len(dataset)} rows of {count} groups"
        yield Row(f"{name}: honest error by rows, mean", float(np.mean(by_rows)), sets, " %")
        yield Row(f"{name}: the largest", float(np.max(by_rows)), sets, " %")
        yield Row(f"{name}: by groups, mean", float(np.mean(by_groups)), sets, " %")
