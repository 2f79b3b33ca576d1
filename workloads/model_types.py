"""What transformers takes for granted of its types of language models, by ``model_type``.

model_types.json is written by benchmarks/model_counts.py from the classes of transformers 5.24.0:
the keys that may change a layer with their defaults, other names of keys, and what no key says. A
configuration may omit what equals the default of its class.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True, kw_only=True)
class ModelType:
    """A type of language model."""

    # that may change a layer, with their defaults
    keys: Mapping[str, Any] = field(default_factory=dict)
    # how files name a key: usual name -> the type's
    names: Mapping[str, str] = field(default_factory=dict)
    # whether a feed-forward part has three matrices; None: its activation says
    gated: bool | None = None
    # whether a gate as wide as the queries multiplies the result of attention
    attention_gate: bool = False
    # whether it only fills in masked tokens, so that every token attends to every other
    masked: bool = False
    # layer_types that repeat; empty: they follow no cycle; None: it has none
    cycle: tuple[str, ...] | None = None
    first_dense: int = 0  # first layers without experts, where no key says
    # of a model of several parts: the type of its language model, which says the rest
    language: str = ""


def find(kind: str) -> ModelType | None:
    """Return the facts of a type, or None.

    >>> find("gemma2").keys["head_dim"], find("gemma2").cycle
    (256, ('sliding_attention', 'full_attention'))
    """
    said = _types().get(kind)
    if said is None:
        return None
    cycle = said.get("cycle")
    return ModelType(
        keys=said["keys"],
        names=said["names"],
        gated=said.get("gated"),
        attention_gate=said.get("attention_gate", False),
        masked=said.get("masked", False),
        cycle=None if cycle is None else tuple(cycle),
        first_dense=said.get("first_dense", 0),
        language=said.get("language", ""),
    )


@cache
def _types() -> dict[str, dict[str, Any]]:
    text = (
        resources.files("flopcast.workloads")
        .joinpath("model_types.json")
        .read_text(encoding="utf-8")
    )
    types: dict[str, dict[str, Any]] = json.loads(text)
    return types
