"""The estimators, by module: `__init__.py` imports each from here when it is first asked for."""

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
