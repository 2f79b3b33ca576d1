"""Everything that predicts: analytic laws, the literature's suite, what goes beyond it, and the saved artifact.

A feature matrix X and measured times y enter, fitted scikit-learn regressors leave. Start with `suite` (which models
compete, under which names), then `base` (what a model is to the rest of flopcast). `linear/` holds the sums of the
literature, `learners` forest and network, `baselines` the analytic laws and the additive model, `target_space` what a
model is fitted to, `ensembles` stacks and transfer; `artifact` and `persistence` save and load.

The estimators can be imported from here: ``from flopcast.models import OLS, Stepwise``. Each is loaded when it is asked
for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .base import Candidate as Candidate
    from .baselines import AdditiveTime as AdditiveTime
    from .baselines import Affine as Affine
    from .baselines import AnalyticLaw as AnalyticLaw
    from .baselines import ConstantRatio as ConstantRatio
    from .ensembles import CrossFitted as CrossFitted
    from .ensembles import GeometricStack as GeometricStack
    from .ensembles import LogResidual as LogResidual
    from .ensembles import PrecisionTransfer as PrecisionTransfer
    from .ensembles import Transfer as Transfer
    from .learners import MLP as MLP
    from .learners import Boosted as Boosted
    from .learners import Forest as Forest
    from .linear.least_squares import NNLS as NNLS
    from .linear.least_squares import OLS as OLS
    from .linear.regularised import ElasticNet as ElasticNet
    from .linear.regularised import Lasso as Lasso
    from .linear.rfecv import RFECV as RFECV
    from .linear.stepwise import Stepwise as Stepwise
    from .prior import Corrected as Corrected
    from .prior import Pooled as Pooled
    from .prior import Smooth as Smooth
    from .target_space import Columns as Columns
    from .target_space import LogTarget as LogTarget
    from .target_space import RelativeError as RelativeError

_HOMES = {
    "base": ("Candidate",),
    "baselines": ("AdditiveTime", "Affine", "AnalyticLaw", "ConstantRatio"),
    "ensembles": ("CrossFitted", "GeometricStack", "LogResidual", "PrecisionTransfer", "Transfer"),
    "learners": ("MLP", "Boosted", "Forest"),
    "linear.least_squares": ("NNLS", "OLS"),
    "linear.regularised": ("ElasticNet", "Lasso"),
    "linear.rfecv": ("RFECV",),
    "linear.stepwise": ("Stepwise",),
    "prior": ("Corrected", "Pooled", "Smooth"),
    "target_space": ("Columns", "LogTarget", "RelativeError"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [*sorted(_HOME)]  # pyrefly: ignore[unresolvable-dunder-all]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
