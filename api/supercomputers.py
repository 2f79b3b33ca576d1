"""Scores of supercomputers' benchmarks, and kernels of HPC cut over many GPUs, as results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec

import pandas as pd

from .. import values
from ..errors import ParameterError
from ..hardware import find
from ..output import FILES
from ..report.document import Document
from ..report.forecast import score_document, scores_document
from ..report.result import Result, saving
from ..settings import configured
from ..workloads import supercomputers

P = ParamSpec("P")


class Score(Result, supercomputers.Score):
    """A forecast score on one number of devices: `workloads.supercomputers.Score`."""

    saved_as = FILES["forecast"][:2]

    @property
    def table(self) -> pd.DataFrame:
        """One row: devices, score with mean and interval, peak, and the shares of the time."""
        return Scores((self,)).table

    def document(self) -> Document:
        """Return the score for readers; its ``data`` are those of ``forecast.json``."""
        return score_document(self)


@dataclass(frozen=True)
class Scores(Result):
    """Forecast scores on rising numbers of devices.

    Attributes
    ----------
    scores : tuple of Score
        In the order asked.
    """

    saved_as = FILES["forecast"][:2]
    scores: tuple[Score, ...]

    @property
    def table(self) -> pd.DataFrame:
        """One row per number of devices: score with mean and interval, peak, and ``share.PART`` of the time."""
        rows = []
        for score in self.scores:
            plain = [field.name for field in fields(score)]
            row = {name: getattr(score, name) for name in plain}
            shares = row.pop("shares")
            for name in ("inputs", "remarks"):
                row.pop(name)
            rows.append(row | {f"share.{part}": share for part, share in shares.items()})
        return pd.DataFrame(rows)

    def document(self) -> Document:
        """Return the scores for readers, with the number from which more devices pay less."""
        return scores_document(self.scores)


def _over_devices(call: Callable[..., supercomputers.Score]) -> Callable[..., Any]:
    """Return a forecast of one number of devices as one of several too: ``gpus="1:8"`` gives `Scores`."""
    shown = signature(call)

    @wraps(call)
    def called(*given: Any, **asked: Any) -> Score | Scores:
        bound = shown.bind(*given, **asked)
        gpus = bound.arguments["gpus"]
        counts = values.counts("gpus", gpus) or []
        if not counts:
            raise ParameterError("gpus", "must be one number of devices at least")
        bound.arguments["gpu"] = find(bound.arguments["gpu"])
        scores = []
        for count in counts:
            bound.arguments["gpus"] = count
            scores.append(Score.from_fields(call(*bound.args, **bound.kwargs)))
        if isinstance(gpus, int) or len(scores) == 1:
            return scores[0]
        return Scores(tuple(scores))

    several = shown.parameters["gpus"].replace(annotation="int | str | Sequence[int]")
    parameters = [several if name == "gpus" else kept for name, kept in shown.parameters.items()]
    answer = "Score | Scores"
    vars(called)["__signature__"] = shown.replace(parameters=parameters, return_annotation=answer)
    return called


forecast_hpl = saving(configured(_over_devices(supercomputers.hpl)))
forecast_hpcg = saving(configured(_over_devices(supercomputers.hpcg)))
forecast_hpl_mxp = saving(configured(_over_devices(supercomputers.hpl_mxp)))
forecast_kernel = saving(configured(_over_devices(supercomputers.kernel)))
