"""Laws: what the work of a kernel takes on a GPU, and what its time is multiplied by on another, as one object each.

`operators.operators.Work` and a `hardware.GPU` enter, a value per row leaves; nothing is learnt from the data at hand.
Start with `base.Law`. The object of each law stands in a module of this folder, and `LAWS` names it: the baselines of
training and validation and the laws of projections (`applied`), the command line and the documentation read it there.

Other laws are elsewhere: how performance grows with the size of a GPU, fitted to curves (`scaling.scaling_laws`), and
collectives, which are of links (`projection.collective_laws`).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .base import Law

OF_COMPUTATION: Final = {
    "flops": "ratios.FLOPS",
    "flops-uniform": "ratios.FLOPS_UNIFORM",
    "bandwidth": "ratios.BANDWIDTH",
    "roofline": "roofline.ROOFLINE",
    "roofline-achieved": "achieved.ROOFLINE_ACHIEVED",
    "affine": "affine.AFFINE",
    "kept": "ratios.KEPT",
}
"""What a projection may go by: the name that users give and tables show -> module and object."""
LAWS: Final = OF_COMPUTATION | {
    "tdp": "board_power.TDP",
    "energy-by-flops": "board_power.ENERGY_BY_FLOPS",
    "energy-by-bandwidth": "board_power.ENERGY_BY_BANDWIDTH",
    "energy-by-roofline": "board_power.ENERGY_BY_ROOFLINE",
    "product": "product.PRODUCT",
    "attention": "fused_attention.ATTENTION",
    "streaming": "streaming.STREAMING",
}
"""All, in the order of tables; those that are baselines say so themselves (`base.DeviceLaw`)."""


@cache
def law(name: str) -> Law:
    """Return the law of that name, its module loaded when it is first asked for.

    Examples
    --------
    >>> law("roofline").needs
    ('peak_tflops', 'memory_bw_gbs')
    """
    module, attribute = LAWS[name].split(".")
    found: Law = getattr(import_module(f".{module}", __name__), attribute)
    return found
