"""What ``metrics.json`` and ``predictions.parquet`` of a run must be, whoever wrote them: types, ranges, columns.

Readers take what ``run_schema.toml`` names as given. Other keys and columns are kept as they are;
what older runs do not have may be missing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

Text = Annotated[str, Meta(max_length=100_000)]
NUMBERS: Final = ("row", "observed", "predicted", "ape", "fold")
TEXTS: Final = ("scheme", "model", "group")
"""Columns of ``predictions.parquet`` that every run has; each baseline has one more, of numbers."""
_KINDS: Final[dict[str, Any]] = {
    "any": Any,
    "count": Annotated[int, Meta(ge=0, lt=2**53)],
    "flag": bool,
    "level": Annotated[float, Meta(gt=0, lt=1)],
    "number": float,
    "octaves": Annotated[float, Meta(ge=0, le=64)],
    "percent": Annotated[float, Meta(ge=0)],
    "plain": str | int | float | bool | None,
    "positive": Annotated[float, Meta(gt=0, lt=1e300)],
    "share": Annotated[float, Meta(ge=0, le=1)],
    "sigma": Annotated[float, Meta(ge=0, le=100)],
    "size": Annotated[float, Meta(ge=0, lt=1e300)],
    "text": Text,
    "whole": int,
    "trees": Annotated[int, Meta(ge=1, le=2**20)],
}
"""What a field holds, by the words of the schemas."""


@cache
def structures(name: str) -> Mapping[str, Any]:
    """Return the types that a schema beside this file declares, by their names."""
    kinds = dict(_KINDS)
    text = (Path(__file__).parent / name).read_text("utf-8")
    for struct, declared in tomllib.loads(text).items():
        fields: list[Any] = []
        for field, words in declared.items():
            presence, _, kind = words.partition(" ")
            if presence == "optional":
                fields.append((field, _kind(f"nullable {kind}", kinds), None))
            elif presence == "absent":
                fields.append((field, _kind(kind, kinds), None))
            else:
                fields.append((field, _kind(words, kinds)))
        kinds[struct] = msgspec.defstruct(struct, fields, kw_only=True)
    return kinds


def _kind(words: str, kinds: Mapping[str, Any]) -> Any:
    """Return the type that words of a schema name."""
    first, _, rest = words.partition(" ")
    if not rest:
        return kinds[first]
    inner = _kind(rest, kinds)
    if first == "nullable":
        return inner | None
    made: dict[str, Any] = {
        "list": list[inner],
        "named": dict[Text, inner],
        "pair": tuple[inner, inner],
    }
    made["some"] = Annotated[list[inner], Meta(min_length=1)]
    return made[first]


def check_metrics(content: Any) -> None:
    """Raise msgspec's ValidationError, which names the place, if content is no ``Metrics`` or repeats a scheme."""
    metrics = msgspec.convert(content, structures("run_schema.toml")["Metrics"])
    names = [cv.scheme for cv in metrics.cv]
    if len(set(names)) < len(names):
        raise msgspec.ValidationError("two entries of one scheme - at `$.cv`")
    for cv in metrics.cv:
        models = {row.name for row in (*(cv.baselines or ()), *(cv.models or ()))}
        if cv.selected and cv.selected.name not in models:
            raise msgspec.ValidationError(
                "the model that was selected is not in the table - at `$.cv`"
            )
    if not any(cv.scheme == metrics.model.scheme and cv.selected for cv in metrics.cv):
        raise msgspec.ValidationError(
            "no model was selected under the scheme of the saved one - at `$.model`"
        )
