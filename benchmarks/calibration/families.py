"""Families of groups that no column states: how often a run says so, where there are some and where there are none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd

from ...api.tables import load_measurements
from ...evaluation.competition import compete
from ...features.matrix import build_dataset
from ...hardware import find
from .rows import Row, Rows
from .whole_runs import HOST, MADE_UP, MadeUp, measured, table

_SIX: Final = MADE_UP["campaigns of four groups"]
_FOUR: Final = replace(_SIX, sizes=(12,) * 16, between=0.04)
IN_FAMILIES: Final = {
    "six families of four that differ by 12 %": _SIX,
    "four families of four that differ by 12 %": _FOUR,
    "four families of four that differ by 8 %": replace(_FOUR, family=0.08),
}
"""Tables whose groups come in families, which they do not state: family after family."""
INDEPENDENT: Final = (
    "roofline",
    "split-K",
    "menu of tiles",
    "hidden library",
    "spikes",
    "unequal groups",
    "barely known groups",
    "rare formats",
)
MODEL: Final = "Additive"
"""Whose errors tell: a line in the work misses laws of tiles most, which might look like families."""


def unstated(sets: int, seed: int = 0, independent: Iterable[str] = INDEPENDENT) -> Rows:
    """Yield how often families are told of tables that have some, in order and shuffled, and of others."""
    for name, kind in IN_FAMILIES.items():
        told = [_told(kind, [seed, number]) for number in range(sets)]
        yield Row(f"{name}, unstated: told", float(np.mean(told)), sets)
    told = [_told(_FOUR, [seed, number], shuffled=True) for number in range(sets)]
    yield Row("four families of four, lines shuffled: told", float(np.mean(told)), sets)
    alarms = []
    for name in independent:
        of_kind = [_told(MADE_UP[name], [seed, number]) for number in range(sets)]
        yield Row(f"independent groups, {name}: told", float(np.mean(of_kind)), sets)
        alarms += of_kind
    yield Row("independent groups, all: told", float(np.mean(alarms)), len(alarms))


def _told(kind: MadeUp, seed: list[int], *, shuffled: bool = False) -> bool:
    rng = np.random.default_rng(seed)
    rows = table(kind, rng)
    trained = measured(rows[~rows["kept"]])
    plain: pd.DataFrame = trained.drop(columns=["shape", "campaign"], errors="ignore")
    if shuffled:
        plain = plain.iloc[rng.permutation(len(plain))]
    frame = load_measurements([plain.reset_index(drop=True)]).frame
    dataset = build_dataset(frame, host=None, target=find(HOST))
    notes = compete(dataset, models=[MODEL], alone=True).notes
    return any(note.code == "unstated-families" for note in notes)
