"""flopcast: how long GPU kernels take where nobody has measured them.

``import flopcast as fc`` is all it takes: the names of ``__all__`` are the front door, each imported when it is first
asked for. ``fc.read`` takes measurements of any format, ``fc.train`` finds the best model and says how good it is,
``fc.load`` reads a run back, ``fc.predict``, ``fc.validate``, ``fc.project`` and ``fc.scale`` answer questions.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api.advising import advise
    from .api.checking import check
    from .api.comparing import compare
    from .api.counters import counters as counters
    from .api.devices import gpu, gpus
    from .api.forecasting import forecast
    from .api.ingesting import ingest
    from .api.passes import fidelity
    from .api.predicting import Prediction, predict
    from .api.projecting import ProjectedTrace, project
    from .api.scaling import scale
    from .api.tables import Measurements, read, schema
    from .api.training import Run, load, train
    from .api.validating import Validation, validate
    from .errors import DataError, FlopcastError, ParameterError
    from .hardware import GPU

__version__ = "0.1.0"

_DOOR = {
    "DataError": "errors",
    "FlopcastError": "errors",
    "Forecasts": "api.forecasting",
    "GPU": "hardware",
    "Ingested": "api.ingesting",
    "Measurements": "api.tables",
    "ParameterError": "errors",
    "Prediction": "api.predicting",
    "ProjectedTrace": "api.projecting",
    "Run": "api.training",
    "Scaling": "api.scaling",
    "Validation": "api.validating",
    "advise": "api.advising",
    "check": "api.checking",
    "compare": "api.comparing",
    "counters": "api.counters",
    "fidelity": "api.passes",
    "forecast": "api.forecasting",
    "gpu": "api.devices",
    "gpus": "api.devices",
    "ingest": "api.ingesting",
    "load": "api.training",
    "predict": "api.predicting",
    "project": "api.projecting",
    "read": "api.tables",
    "scale": "api.scaling",
    "schema": "api.tables",
    "train": "api.training",
    "validate": "api.validating",
}
"""Name -> module that has it; PEP 562 imports it when the name is asked for. Also of classes that calls return."""

__all__ = [
    "GPU",
    "DataError",
    "FlopcastError",
    "Measurements",
    "ParameterError",
    "Prediction",
    "ProjectedTrace",
    "Run",
    "Validation",
    "advise",
    "check",
    "compare",
    "fidelity",
    "forecast",
    "gpu",
    "gpus",
    "ingest",
    "load",
    "predict",
    "project",
    "read",
    "scale",
    "schema",
    "train",
    "validate",
]


def __getattr__(name: str) -> Any:
    if name in _DOOR:
        return getattr(import_module(f".{_DOOR[name]}", __name__), name)
    if name == "datasets":
        return import_module(".datasets", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
