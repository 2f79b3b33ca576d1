"""From dispatches to measurements: the calls of one operator on one shape become a row, whatever kernels they ran."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ..ops import OPS
from ..table import DEFECT, DEFECT_DETAIL
from .annotate import FLAGS, Annotated
from .operators import WORDS
from .table import counters_of
from .work import SAME_CALL, UNKNOWN

_SIZES = tuple(name for name in dict.fromkeys(name for op in OPS.values() for name in op.dims) if name not in WORDS)
_IMPOSSIBLE = ("zero-duration", "negative-duration", "impossible-duration")


def measurements(annotated: Annotated, campaign: str, *, each: bool = False) -> pd.DataFrame:
    """Return the raw rows of the measurement table that a trace gives.

    A call is one call of an operator; its time is the sum of its activities on the GPU, its kernel the longest of
    them. Activities without a call (collectives, copies, kernels of unknown operators) count as a call each. Calls
    that agree in device, operator, variant, dimensions, precisions and kernel are repeats.

    Parameters
    ----------
    annotated : Annotated
        A trace with operators and classes.
    campaign : str
        What to call the trace in the column of that name.
    each : bool, default=False
        Whether every call is a row; else repeats are one.

    Returns
    -------
    DataFrame
        `device`, `op`, `variant`, dimensions, precisions, `kernel`, `op_class`; `duration_us`, the median of the
        repeats, `spread_us`, their median absolute deviation, `repeats`; `kernels`, activities per call; `share`, of
        the GPU time of the trace; counters as medians over the repeats (sums over a call); `source` of the first call.
        Calls with an impossible time, and kernels whose launch is unknown, are rows of their own with a `_defect`.
    """
    table = annotated.dispatches
    if table.empty:
        return pd.DataFrame()
    calls = _calls(table)
    keys = _keys(calls)
    grouped = calls.groupby(keys, sort=False, dropna=False, observed=True).ngroup().to_numpy()
    codes = np.arange(len(calls)) if each else grouped
    repeats = calls.groupby(codes, sort=True)
    first = calls.loc[~pd.Series(codes).duplicated().to_numpy()].reset_index(drop=True)
    duration = calls["duration_us"]
    median = repeats["duration_us"].median()
    deviation = (duration - median.to_numpy()[codes]).abs().groupby(codes, sort=True).median()
    count = repeats.size()
    rows = first.drop(columns=["duration_us"]).assign(
        duration_us=median.to_numpy(),
        spread_us=np.where(count > 1, deviation, np.nan),
        repeats=count.to_numpy(dtype=float),
        share=(repeats["duration_us"].sum() / max(float(duration.clip(lower=0).sum()), 1e-9)).to_numpy(),
        campaign=campaign,
    )
    counters = counters_of(calls)
    if not counters:
        return rows
    medians = repeats[counters].median().reset_index(drop=True)
    return pd.concat([rows.drop(columns=counters), medians], axis=1)


def _keys(calls: pd.DataFrame) -> list[str]:
    """Return the columns that make two calls repeats of each other; calls with a defect stay apart by it."""
    return ["device", *WORDS, "kernel", *_present(calls, _SIZES), DEFECT]


def _calls(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per call, in the order of the first activity of each."""
    code = call_codes(table)
    order = np.lexsort((-table["duration_ns"].to_numpy(), code))  # within a call the longest activity first
    main = order[np.r_[True, code[order][1:] != code[order][:-1]]]
    grouped = table.groupby(code, sort=True)
    calls = table.iloc[main].reset_index(drop=True)
    found = {
        **{name: calls[name].astype(str) for name in ("device", *WORDS, "op_class", "kernel_class")},
        **{name: calls[name].astype("Float64").astype(float) for name in _present(calls, _SIZES)},
        "kernel": calls["name"].astype(str),
        "duration_us": grouped["duration_ns"].sum().to_numpy() / 1e3,
        "kernels": grouped.size().to_numpy(),
        "flops": grouped["flops"].sum(min_count=1).to_numpy(),
        "bytes": grouped["bytes_moved"].sum(min_count=1).to_numpy(),
        "flags": _flags(table, code),
        "source": grouped["source"].first().astype(str).to_numpy(),
    }
    counters = counters_of(table)
    counted = grouped[counters].sum(min_count=1).reset_index(drop=True) if counters else pd.DataFrame(index=calls.index)
    return _with_defects(pd.concat([pd.DataFrame(found, index=calls.index), counted], axis=1), calls)


def call_codes(table: pd.DataFrame) -> np.ndarray:
    """Return the number of each row's call, in order of appearance; rows without an operator's call have one each."""
    named = (table["op_id"].notna() & ~table["op"].isin(["", UNKNOWN, "collective"])).to_numpy()
    alone = np.where(named, 0, np.arange(1, len(table) + 1))
    own = [pd.factorize(table[name], use_na_sentinel=False)[0] * named for name in (*SAME_CALL, "op")]
    return pd.MultiIndex.from_arrays([alone, *own]).factorize()[0].astype(np.int64)


def _flags(table: pd.DataFrame, code: np.ndarray) -> np.ndarray:
    """Return the quality codes of each call: those of any of its activities."""
    found = np.full(int(code.max()) + 1, "", dtype=object)
    pairs = pd.DataFrame({"call": code, "flags": table[FLAGS].astype("str")}).drop_duplicates()
    for call, text in pairs[pairs["flags"] != ""].itertuples(index=False):
        found[call] = ";".join(dict.fromkeys([*filter(None, found[call].split(";")), *text.split(";")]))
    return found


def _with_defects(calls: pd.DataFrame, main: pd.DataFrame) -> pd.DataFrame:
    """Say which calls cannot be measurements."""
    defect, detail = np.full(len(calls), "", dtype=object), np.full(len(calls), "", dtype=object)
    impossible = calls["flags"].astype(str).str.contains("|".join(_IMPOSSIBLE)).to_numpy() & (calls["flags"] != "")
    unknown = (calls["op"].eq(UNKNOWN) & main["grid_x"].isna()).to_numpy()
    defect[unknown], detail[unknown] = "launch not recorded", calls["kernel"][unknown]
    defect[impossible], detail[impossible] = "impossible time in the trace", calls["flags"][impossible].astype(str)
    return calls.assign(**{DEFECT: defect, DEFECT_DETAIL: detail})


def _present(frame: pd.DataFrame, names: Sequence[str]) -> list[str]:
    return [name for name in names if name in frame.columns and frame[name].notna().any()]
