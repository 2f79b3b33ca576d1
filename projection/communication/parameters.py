"""The fitted models that come with flopcast (links.toml), and the errors of the laws."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from .alpha_beta import Link, Protocol
from .collectives import ALL_REDUCE


@dataclass(frozen=True)
class LawErrors:
    """Root mean square of ln(projected / measured) over the pairs of GPUs measured, in both directions.

    Attributes
    ----------
    alpha_beta : float
        Of the ratio of two measured models.
    one_sided : float
        Of the alpha-beta model where one of the two GPUs is taken as unmeasured.
    bandwidth : float
        Of the ratio of published bandwidths.
    """

    alpha_beta: float
    one_sided: float
    bandwidth: float


@cache
def measured_links() -> tuple[Link, ...]:
    """Return the models of links.toml."""
    return tuple(_link(table) for table in _data()["link"])


@cache
def law_errors() -> LawErrors:
    """Return the errors of links.toml."""
    return LawErrors(**_data()["law_errors"])


def find_link(links: Sequence[Link], gpu: str, collective: str) -> Link | None:
    """Return the model of a GPU for a collective: fitted to it, else to the all-reduce; None where there is neither."""
    of_gpu = {link.collective: link for link in links if gpu in link.gpus}
    return of_gpu.get(collective) or of_gpu.get(ALL_REDUCE)


@cache
def _data() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("links.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _link(table: dict[str, Any]) -> Link:
    lines = tuple(Protocol(**line) for line in table["protocols"])
    listed = {key: tuple(table[key]) for key in ("gpus", "ranks")}
    return Link(**{**table, **listed, "protocols": lines})
