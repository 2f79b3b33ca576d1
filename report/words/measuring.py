"""What is said of measured times: of rows that are hardly known, and of what was left out."""

from __future__ import annotations

from collections.abc import Callable


def _hardly_known(rows: int, of: int, limit: float) -> str:
    return (
        f"{rows} of {of} rows are known to no better than ±{100 * limit:.0f} %: measure them again with nothing "
        "beside, or with a larger --budget, before anything learns from them"
    )


def _late(rows: int, of: int, limit: float) -> str:
    return (
        f"{rows} of {of} rows: the host launched too slowly for over {100 * limit:.0f} % of the samples, which may "
        "hold part of it (late_share)"
    )


def _clock(rows: int, of: int, limit: float) -> str:
    return f"{rows} of {of} rows: the clock itself takes over {100 * limit:.0f} % of a sample (clock_share)"


def _once(file: str, rows: int) -> str:
    was = "1 row that repeats another is" if rows == 1 else f"{rows} rows that repeat others are"
    return f"{file}: {was} measured once"


WORDS: dict[str, str | Callable[..., str]] = {
    "times-hardly-known": _hardly_known,
    "launches-late": _late,
    "clock-in-samples": _clock,
    "measured-once": _once,
    "collectives-need-two-gpus": "collectives are left out: they need two GPUs or more",
}
