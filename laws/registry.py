"""The names of laws, and the law of a name."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .base import Law

OF_COMPUTATION: Final = (
    "flops",
    "flops-uniform",
    "bandwidth",
    "roofline",
    "roofline-achieved",
    "affine",
    "kept",
)
"""What a projection may go by, by the names that users give and tables show: an object each of `computation`."""
_OTHERS = {
    "tdp": "board_power.TDP",
    "product": "kernels.PRODUCT",
    "attention": "kernels.ATTENTION",
    "streaming": "kernels.STREAMING",
    "tiles": "tiles.TILES_LAW",
}
LAWS: Final = {
    **{name: f"computation.{name.replace('-', '_').upper()}" for name in OF_COMPUTATION},
    **_OTHERS,
}
"""All, in the order of tables: name -> module and object. Those of time that are baselines give one of energy each."""


@cache
def law(name: str) -> Law:
    """Return the law of that name, its module loaded when it is first asked for.

    >>> law("roofline").needs
    ('peak_tflops', 'memory_bw_gbs')
    """
    module, _, attribute = LAWS[name].rpartition(".")
    loaded: Law = getattr(import_module(f".{module}", __package__), attribute)
    return loaded
