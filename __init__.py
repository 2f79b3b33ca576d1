"""flopcast: how long GPU kernels take where nobody has measured them.

``import flopcast as fc`` is all it takes: the names listed below are the front door, each imported when it is first
asked for. ``fc.read`` takes measurements of any format, ``fc.train`` finds the best model and says how good it is,
``fc.load`` reads a run back, ``fc.predict``, ``fc.validate``, ``fc.project`` and ``fc.scale`` answer questions.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the one list of what is public: type checkers read it here, and `_DOOR` from this text
    from .api.checking import advise as advise
    from .api.checking import check as check
    from .api.comparing import compare as compare
    from .api.devices import gpu as gpu
    from .api.devices import gpus as gpus
    from .api.forecasting import Forecasts as Forecasts
    from .api.forecasting import forecast as forecast
    from .api.ingesting import Ingested as Ingested
    from .api.ingesting import ingest as ingest
    from .api.predicting import Prediction as Prediction
    from .api.predicting import predict as predict
    from .api.profilers import counters as counters
    from .api.profilers import fidelity as fidelity
    from .api.projecting import ProjectedTrace as ProjectedTrace
    from .api.projecting import project as project
    from .api.scaling import Scaling as Scaling
    from .api.scaling import scale as scale
    from .api.tables import Measurements as Measurements
    from .api.tables import read as read
    from .api.tables import schema as schema
    from .api.training import Run as Run
    from .api.training import load as load
    from .api.training import train as train
    from .api.validating import Validation as Validation
    from .api.validating import validate as validate
    from .errors import DataError as DataError
    from .errors import FlopcastError as FlopcastError
    from .errors import ParameterError as ParameterError
    from .hardware import GPU as GPU

__version__ = "0.1.0"

_LISTED = re.compile(r"^    from \.([\w.]+) import (\w+) as \2$", re.MULTILINE)
_DOOR = {name: module for module, name in _LISTED.findall(Path(__file__).read_text(encoding="utf-8"))}
"""Name -> module that has it; PEP 562 imports it when the name is asked for."""

__all__ = sorted(_DOOR)


def __getattr__(name: str) -> Any:
    if name in _DOOR:
        return getattr(import_module(f".{_DOOR[name]}", __name__), name)
    if name == "datasets":
        return import_module(".datasets", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
