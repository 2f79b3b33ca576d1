"""Runs of serving: their models as figures, and what the model that ships says of settings.

Rows of the operator ``serving`` enter `described`, and leave with the figures of the model that
they name.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
import pandas as pd

from ..arrays import FloatArray
from ..errors import DataError
from ..hardware import GPU
from ..operators.kinds.serving_run import FIGURES, SERVING, together
from ..operators.work import as_numbers, texts
from ..table.physics import REFUSED_FROM, bound_of
from .architecture import Architecture
from .model_catalogue import find


def figures(model: Architecture) -> dict[str, float]:
    """Return the figures of a model that a run of serving is described by (`operators.kinds.serving_run.FIGURES`).

    What only recent tokens are looked at (sliding attention) and recurrent layers keep no cache
    that grows.

    >>> from flopcast.workloads.model_catalogue import find
    >>> found = figures(find("llama-3.1-70b"))
    >>> round(found["parameters"] / 1e9, 1), found["cached_elements"], found["routed_experts"]
    (70.6, 163840.0, 1.0)
    """
    routed = float(model.mixture_layers * model.experts * model.expert_parameters)
    inner = sum(one.layers * one.width for one in model.dense)
    if model.mixture:
        inner += model.mixture.layers * model.mixture.shared
    else:
        inner += 0
    total = float(model.parameters)
    embedding = float(model.hidden * model.vocab * 2)
    # a matrix that is used twice is read as two are
    total += embedding - model.embedding_parameters
    reaching = [one for one in model.attention if not one.window] or list(model.attention)
    return {
        "parameters": total,
        "active_parameters": float(model.active_parameters)
        + embedding
        - model.embedding_parameters,
        "routed_parameters": routed,
        "attention_parameters": max(
            total - routed - embedding - model.ffn_matrices * model.hidden * float(inner), 1.0
        ),
        "embedding_parameters": embedding,
        "layers": float(model.layers),
        "width": float(model.hidden),
        "routed_experts": float(max(model.experts, 1)),
        "visited_experts": float(max(model.experts_per_token, 1)),
        "cached_elements": float(
            sum(one.layers * (one.cached() + one.index_dim) for one in reaching)
        )
        or 1.0,
        "cache_heads": 1.0 if model.latent is not None else float(max(model.kv_heads, 1)),
        "attention_width": float(
            sum(one.layers * one.heads * (one.head_dim + one.value) for one in reaching)
        )
        or 1.0,
    }


@cache
def _figures_of(name: str) -> dict[str, float] | str:
    """Return the figures of a model by its name, or why there are none."""
    why = ""
    # of a path of the server, the last part
    for word in dict.fromkeys((name, name.rstrip("/").rpartition("/")[2])):
        try:
            return figures(find(word))
        except DataError as error:
            why = why or str(error)
    return why


def described(frame: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """Return runs of serving with the figures of their models, and of each row why it has none ("" where it has).

    What a row states itself is kept. Rows of other operators stay as they are.
    """
    why = np.full(len(frame), "", dtype=object)
    if "op" not in frame or not (serving := texts(frame, "op") == SERVING).any():
        return frame, why
    names = [dim.name for dim in FIGURES]
    given = np.column_stack([as_numbers(frame, name) for name in names])
    lacking = serving & ~np.isfinite(given).all(axis=1)
    words = texts(frame, "model")
    for model in dict.fromkeys(map(str, words[lacking])):
        rows = lacking & (words == model)
        figures = _figures_of(model)
        if isinstance(figures, str):
            why[rows] = figures
            continue
        values = np.array([figures[name] for name in names])
        given[rows] = np.where(np.isfinite(given[rows]), given[rows], values)
    return frame.assign(**dict(zip(names, given.T, strict=True))), why


_FLOORS: Final[dict[str, tuple[str, dict[str, float]]]] = {
    "tpot_ms": ("a token", {"input_len": 1.0, "output_len": 1.0, "concurrency": 1.0}),
    "ttft_ms": ("a prompt", {"output_len": 1.0, "concurrency": 1.0}),
    "duration_us": ("a request", {}),
}
"""Column of a time -> what it is of, and the part of a run's work that is done in it, by one request alone at least."""
DRAFTED: Final = 10.0
"""Tokens of a step at most where some are drafted: each step reads the weights once."""
_LEAST_STEPS: Final = 0.1
"""Times per token that a first token takes at least where both are the same GPUs': it is a separate step.

The least of 3,995 published runs is 1.5."""
# times faster than the floor: the unit is wrong, not the figures of the model
_ANOTHER_UNIT = 300.0


def least(frame: pd.DataFrame, column: str, user_gpu: GPU | None = None) -> FloatArray:
    """Return the least time of a request alone at the peaks of its GPUs, in the unit of the column.

    ``column`` is ``tpot_ms``, ``ttft_ms`` or ``duration_us``. NaN where a peak or the model is
    unknown. Rows are complete; ``user_gpu`` as for `bound_of`.
    """
    _, work = _FLOORS[column]
    microseconds = bound_of(frame.assign(**work), user_gpu).least_us
    if column == "duration_us":
        return microseconds
    return microseconds / 1e3


def impossible(frame: pd.DataFrame) -> np.ndarray:
    """Return why each described run of serving cannot be, "" where it can or its GPUs are not in the catalogue.

    A token takes at least the time to read the weights that it meets, a prompt at least that of its
    FLOPs, both at the peaks of all GPUs of the run (`operators.kinds.serving_run`); and a first
    token is a separate step, so it is not far below the time per token.
    """
    why = np.full(len(frame), "", dtype=object)
    serving = np.flatnonzero(texts(frame, "op") == SERVING)
    why[serving] = _too_fast(frame.iloc[serving])
    return why


def _too_fast(frame: pd.DataFrame) -> np.ndarray:
    """Return why each run cannot be, "" where it can."""
    why = np.full(len(frame), "", dtype=object)
    limit = np.where(texts(frame, "variant") != "", REFUSED_FROM * DRAFTED, REFUSED_FROM)
    devices = texts(frame, "device")
    for column, (what, _) in _FLOORS.items():
        unit = "µs" if column == "duration_us" else "ms"
        time = as_numbers(frame, column)
        needed = least(frame, column)
        with np.errstate(all="ignore"):
            share = np.where(time > 0, needed / time, np.nan)
        if column == "ttft_ms":
            share = np.where(together(frame), share, np.nan)
        for row in np.flatnonzero((share > limit) & (why == "")):
            reason = (
                f"{column} is {time[row]:.3g}, but {what} takes its GPUs ({devices[row]}) "
                f"{needed[row]:.3g} {unit}"
            )
            if share[row] > _ANOTHER_UNIT and unit == "ms":
                reason += f": give unit {column}=s where that is its unit"
            why[row] = reason
    first, further = (as_numbers(frame, name) for name in ("ttft_ms", "tpot_ms"))
    sooner = (first > 0) & (first < _LEAST_STEPS * further) & together(frame)
    for row in np.flatnonzero(sooner & (why == "")):
        why[row] = (
            f"ttft_ms is {first[row]:.3g}, but a step takes {further[row]:.3g} ms (tpot_ms): "
            "give unit ttft_ms=s where that is its unit"
        )
    return why
