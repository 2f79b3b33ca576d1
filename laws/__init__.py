"""Laws: what the work of a kernel takes on a GPU, and what its time is multiplied by on another, as one object each.

`operators.operators.Work` and a `hardware.GPU` enter, a value per row leaves; nothing is learnt
from the data at hand. Start with `base.Law`, then `computation.Roofline`. Projections may go by the
laws of `computation`; those of power and energy (`board_power`) and of forecasts (`kernels`) stand
beside it. `LAWS` names them all: the baselines of training and validation, the projections
(`applied`), the command line and the documentation read it. `rates` and `bounds` are what laws are
made of.

Other laws are elsewhere: how performance grows with the size of a GPU, fitted to curves
(`scaling.scaling_laws`), and collectives, which are of links (`projection.collective_laws`).
"""

from .registry import LAWS, OF_COMPUTATION, law

__all__ = ["LAWS", "OF_COMPUTATION", "law"]
