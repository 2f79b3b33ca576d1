"""Runs of serving whose table says in a column ``speculation`` how tokens are drafted.

Clients and servers write it in many ways, which their readers return as ``variant``; a table may
say it under the name of the option of a forecast. It then is the ``variant`` of the run.
"""

from __future__ import annotations

from typing import Final

import pandas as pd

from ..operators.kinds.serving_run import SERVING, SPECULATION, drafts_as_mtp
from ..operators.work import each_word
from ..table.measurements import DEFECT, DEFECT_DETAIL, as_text
from .serving_benchmarks import NO_DRAFTS

_NO_DRAFTS: Final = (*NO_DRAFTS, "0.0")


def with_drafts(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the ``speculation`` of runs of serving as their ``variant``.

    "none" is "". A row whose ``variant`` states otherwise is refused.
    """
    if {SPECULATION, "variant"}.isdisjoint(rows.columns):
        return rows
    serving = as_text(rows["op"]).eq(SERVING)
    nothing = pd.Series("", rows.index)
    stated = as_text(rows.get(SPECULATION, nothing))
    before = as_text(rows.get("variant", nothing))
    drafts = each_word(stated, _method)
    variant = each_word(before, _method)
    as_mtp = each_word(drafts, _kind).eq(each_word(variant, _kind))
    contradicted = serving & stated.ne("") & before.ne("") & ~as_mtp
    taken = variant.mask(variant.eq(""), drafts)
    defect = as_text(rows.get(DEFECT, nothing))
    detail = as_text(rows.get(DEFECT_DETAIL, nothing))
    new = contradicted & defect.eq("")
    problem = SPECULATION + " is " + stated + ", variant " + before
    return rows.assign(
        variant=before.mask(serving, taken),
        **{
            DEFECT: defect.mask(new, "figures-contradict"),
            DEFECT_DETAIL: detail.mask(new, problem),
        },
    )


def _method(word: str) -> str:
    """Return how tokens are drafted, "" where they are not."""
    if word.strip().lower() in _NO_DRAFTS:
        return ""
    return word.strip()


def _kind(word: str) -> str:
    """Return one word for all that mean the model's own layers."""
    if drafts_as_mtp(word):
        return "mtp"
    return word.lower()
