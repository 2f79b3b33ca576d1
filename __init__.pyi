"""What is public, by module: `__init__.py` imports each name from here when it is first asked for."""

from . import datasets as datasets
from .api.checking import advise as advise
from .api.checking import check as check
from .api.checking import needed as needed
from .api.cleaning import clean as clean
from .api.comparing import compare as compare
from .api.deployments import Deployments as Deployments
from .api.devices import gpu as gpu
from .api.devices import gpus as gpus
from .api.forecasting import Forecasts as Forecasts
from .api.forecasting import calibrate as calibrate
from .api.forecasting import forecast as forecast
from .api.ingesting import Ingested as Ingested
from .api.ingesting import ingest as ingest
from .api.learning import Curve as Curve
from .api.learning import curve as curve
from .api.predicting import Prediction as Prediction
from .api.predicting import explain as explain
from .api.predicting import predict as predict
from .api.profilers import counters as counters
from .api.profilers import fidelity as fidelity
from .api.profilers import plan as plan
from .api.projecting import ProjectedTrace as ProjectedTrace
from .api.projecting import project as project
from .api.scaling import Scaling as Scaling
from .api.scaling import scale as scale
from .api.tables import Measurements as Measurements
from .api.tables import read as read
from .api.tables import schema as schema
from .api.targets import train_each as train_each
from .api.training import Run as Run
from .api.training import load as load
from .api.training import train as train
from .api.validating import Validation as Validation
from .api.validating import validate as validate
from .errors import DataError as DataError
from .errors import FlopcastError as FlopcastError
from .errors import ParameterError as ParameterError
from .hardware import GPU as GPU
from .measuring.inline_times import inline as inline
from .measuring.measure import measure as measure

__version__: str
