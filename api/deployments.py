"""Which GPUs serve a model at which cost: the question that `forecast` answers where no batch is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import pyarrow as pa

from ..errors import ParameterError
from ..hardware import GPU
from ..hardware import find as find_gpu
from ..operators.kinds.serving_run import LENGTHS, engine_named
from ..output import FILES, replacing, write_table
from ..report.deployments import deployments_document, front_figure, headlined
from ..report.formats import counted
from ..report.notebook import framed
from ..report.result import Result
from ..settings import configured
from ..workloads import model_catalogue
from ..workloads.architecture import Architecture
from ..workloads.deployments import ENGINES, SURE, Choice, Question, choose
from ..workloads.launching import serve_command
from ..workloads.measured_ratios import NONE
from ..workloads.quantities import (
    PER_SECOND,
    Prices,
    check_priced,
    electricity,
    quantity,
)
from ..workloads.releases import check_no_runs
from ..workloads.serving_conditions import Conditions
from ..workloads.serving_model import EITHER, load, served
from ..workloads.serving_model import FILE as OWN
from ..workloads.serving_percentiles import limit
from ..workloads.setting import most_weights, stored_format
from ..workloads.speculation import OWN as OWN_SPECULATION
from ..workloads.speculation import check_speculation

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from ..report.document import Document

_COUNTS: Final = ("gpus", "tp", "ep", "concurrency")
ALONE: Final = ("input_len", "output_len", "node_gpus", "memory_utilisation", "kv_dtype")
"""Fields of which a choice of GPUs takes one value."""
FIELDS: Final = (
    "gpu",
    *_COUNTS,
    "electricity",
    "engine",
    "tuning",
    "speculation",
    "prefill_gpus",
    "lengths",
    "dtype",
    "kv_dtype",
    "input_len",
    "output_len",
    "ttft",
    "tpot",
    "rate",
    "node_gpus",
    "memory_utilisation",
    "release",
)
"""What may be asked of a model that is to be served."""


@dataclass(frozen=True)
class Deployments(Result):
    """Ways to serve a model, and the cheapest that holds.

    Attributes
    ----------
    choice : Choice
        The question, the ways, the fronts and what they rest on (`workloads.deployments`).
    level : float
        Of the intervals.
    """

    saved_as = FILES["forecast"]
    choice: Choice
    level: float

    @property
    def table(self) -> pd.DataFrame:
        """The cheapest way that holds of each GPU, engine and number of GPUs, else the nearest; the cheapest first.

        Columns: `workloads.deployments.Choice.ways`. Without limits, those ways that no other of
        their GPU beats in tokens per second of a user and of a GPU.
        """
        return self.choice.best

    @property
    def ways(self) -> pd.DataFrame:
        """Every way that was looked at, as `table` has the best."""
        return self.choice.ways

    @property
    def command(self) -> str:
        """The command line that starts a replica of the way that leads; "" where its engine needs more than options."""
        return serve_command(headlined(self.choice), self.choice.question)

    def document(self) -> Document:
        """Return the answer for readers; its ``data`` are those of ``forecast.json``."""
        return deployments_document(self.choice, self.level)

    def save_table(self, file: str | Path, *, overwrite: bool = False) -> None:
        """Write `ways`, with the model and the level of the intervals, as .csv, .parquet or .xlsx, whole or not at all.

        Raises
        ------
        DataError
            The file cannot be written, or flopcast did not write it and ``overwrite`` is not set.
        """
        table = pa.Table.from_pandas(self._stated, preserve_index=False)
        with replacing(overwrite=overwrite):
            write_table(table, Path(file), "{}")

    def plot_front(self) -> go.Figure:
        """Draw tokens per second of a GPU against those of a user, the front of each GPU."""
        return front_figure(self.choice)

    def _beside(self) -> tuple[str, ...]:
        return (self._stated.to_csv(index=False),)

    @property
    def _stated(self) -> pd.DataFrame:
        return self.ways.assign(model=self.choice.question.model.name, level=self.level)

    def __repr__(self) -> str:
        return (
            f"<Deployments of {self.choice.question.model.name}: {counted(len(self.ways), 'way')}>"
        )

    def _repr_html_(self) -> str:
        if self.command:
            said = [self.command]
        else:
            said = []
        return framed(repr(self)[1:-1], self.table, said, answer=self.document())


@configured
def deployments(
    model: str | PathLike[str] | Mapping[str, Any] | Architecture,
    *,
    price: Prices,
    interval: float = 0.9,
    sure: float = SURE,
    seed: int = 0,
    **asked: Any,
) -> Deployments:
    """Return the ways to serve a model; ``asked`` are `FIELDS`, several values of one being those to choose from.

    Raises FlopcastError: something asked for is unknown or cannot be, or the model has no room
    anywhere.
    """
    given = {name: value for name, value in asked.items() if value is not None}
    if not str(given.get("release", OWN)).endswith(OWN):
        check_no_runs(str(given["release"]))
        text = (
            f"(or `num_prompts`) is needed beside `release`, unless that is a {OWN} of flopcast "
            "calibrate"
        )
        raise ParameterError("batch", text)
    others = [name for name in given if name not in FIELDS]
    if others:
        named = [f"`{name}`" for name in others]
        raise ParameterError(
            "batch",
            f"(or `num_prompts`) is needed beside {', '.join(named)}, which the choice of a "
            "deployment does not take",
        )
    for name in ALONE:
        if name in given and len(_several(given[name])) > 1:
            problem = f"must be one where GPUs are chosen, got {given[name]!r:.40}"
            raise ParameterError(
                name, f"{problem}: beside `batch` or `num_prompts` it may be several"
            )
    gpus = gpus_of(given.get("gpu", "MI300X"))
    engines = tuple(engine_named(str(one)) for one in _several(given.get("engine", "vllm")))
    for name in engines:
        if name not in ENGINES:
            raise ParameterError("engine", f"must be one of {', '.join(ENGINES)}, got {name!r}")
    counts = {}
    for key in _COUNTS:
        if key in given:
            counts[key] = tuple(_whole(key, count) for count in _several(given[key]))
    fields: dict[str, Any] = {
        name: _whole(name, given[name])
        for name in ("input_len", "output_len", "node_gpus", "prefill_gpus")
        if name in given
    }
    fields |= {name: counts[name] for name in ("tp", "ep", "concurrency") if name in counts}
    percentiles = {}
    for name in ("ttft", "tpot"):
        if name in given:
            fields[f"{name}_ms"], percentile = limit(name, given[name])
            if percentile and "rate" in given:
                raise ParameterError(
                    name,
                    f"can be asked of {percentile} with so many requests under way (`concurrency`), "
                    "not at a `rate`: no public run of that states percentiles",
                )
            if percentile:
                percentiles[f"{name}_ms"] = percentile
    fields["percentiles"] = percentiles
    if "tpot_ms" in fields and fields.get("output_len") == 1:
        raise ParameterError(
            "tpot", "limits what follows the first token: of answers of one token leave it out"
        )
    if "rate" in given:
        if "concurrency" in counts:
            raise ParameterError(
                "rate", "says how many requests are under way: give it or `concurrency`, not both"
            )
        fields["rate"] = quantity("rate", given["rate"], PER_SECOND)
    if "memory_utilisation" in given:
        fields["memory_utilisation"] = quantity(
            "memory_utilisation", given["memory_utilisation"], {"": 1.0}
        )
    architecture = model_catalogue.find(model if not isinstance(model, PathLike) else Path(model))
    if isinstance(model, str):
        named = model_catalogue.format_in(model)
    else:
        named = None
    if named and not (architecture.formats and most_weights(architecture) == named):
        given.setdefault("dtype", named)  # Qwen3-235B-A22B-FP8 is asked for in FP8
    speculation = check_speculation(given.get("speculation", NONE))
    beside = fields.get("prefill_gpus", 0)
    lengths = str(given.get("lengths", "")).lower()
    if lengths not in ("", *LENGTHS):
        raise ParameterError(
            "lengths", f"must be one of {', '.join(LENGTHS)}, got {given['lengths']!r}"
        )
    if lengths and beside:
        raise ParameterError(
            "lengths", "goes with no `prefill_gpus`: leave it out, it changes no answer there"
        )
    sizes = counts.get("gpus", tuple(n + beside for n in (1, 2, 4, 8)))
    if max(sizes) <= beside:
        raise ParameterError(
            "prefill_gpus", f"{beside} of `gpus` {max(sizes)} leaves none to write answers"
        )
    question = Question(
        model=architecture,
        gpus=gpus,
        price=check_priced(price, gpus),
        electricity=electricity(given.get("electricity"), price),
        counts=tuple(sorted(set(sizes))),
        engines=engines,
        lengths=lengths,
        tuning=given.get("tuning", EITHER),
        speculation=speculation,
        dtypes=tuple(stored_format("dtype", one) for one in _several(given.get("dtype", ()))),
        sure=sure,
        kv_dtype=stored_format("kv_dtype", given["kv_dtype"]) if "kv_dtype" in given else "",
        **fields,
    )
    if "release" not in given:
        times = served
        drafted = NONE
    else:
        release = load(Path(str(given["release"])))
        times = release.served
        drafted = str(release.about.get(OWN_SPECULATION, NONE))
    under = Conditions(speculation, beside, check_speculation(drafted))
    choice = choose(question, under.times(times), level=interval, seed=seed)
    return Deployments(choice, interval)


def gpus_of(asked: Any) -> tuple[GPU, ...]:
    """Return the GPUs of names, TOML files, or GPUs, one or several, each once; two of one name are refused."""
    gpus_by_name = dict[str, GPU]()
    for one in map(find_gpu, _several(asked)):
        if gpus_by_name.setdefault(one.name, one) != one:
            raise ParameterError(
                "gpu", f"has two that are named {one.name}: give your own another name in its file"
            )
    return tuple(gpus_by_name.values())


def _several(value: Any) -> list[Any]:
    if isinstance(value, list | tuple | range | set):
        return list(value)
    return [value]


def _whole(name: str, value: Any) -> int:
    number = quantity(name, value, {"": 1.0})
    if not number.is_integer() or number > 10_000_000:
        raise ParameterError(name, f"must be a whole number from 1 to 10000000, got {value!r}")
    return int(number)
