"""Whole workloads forecast from their configuration: one setting, a grid of them, or a table of cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Unpack, cast

import numpy as np
import pandas as pd
import pyarrow as pa

from .. import values
from ..datasets.embedded import is_shipped
from ..errors import DataError, FlopcastError, ParameterError, check_level, check_plain_file
from ..evaluation.advising import check_need
from ..hardware import GPU
from ..hardware import find as find_gpu
from ..operators.kinds.serving_run import LENGTHS, SERVING
from ..operators.work import as_numbers, texts
from ..output import FILES, FORMATS, check_file, replacing, whole_file, write_table, write_text
from ..readers.base import LINE
from ..readers.files import head, plain_cells, read_plain_table, table_header
from ..readers.reading import check_renames, why_none_is_left
from ..remarks import Remark, remark
from ..report.forecast import (
    MEASURED,
    SPREAD_OF,
    cost_of,
    curve_figure,
    forecast_document,
    learnt_document,
    pareto_figure,
    parts_figure,
    release_document,
)
from ..report.formats import counted
from ..report.result import Result, also_saving, saving
from ..settings import configured, spelt_out
from ..staging import temporary_folder
from ..table.conditions import Reading, conditions
from ..table.measurements import as_text, count_reasons
from ..values import Assigned, Count, Counts, Limit, Names, Price, PriceByGPU, Probability, Rate
from ..workloads.architecture import Architecture
from ..workloads.critical_path import chakra_tasks
from ..workloads.deployments import ENGINES, SURE
from ..workloads.disaggregation import APART
from ..workloads.forecasting import Forecast, forecast_all, parts_of
from ..workloads.forecasting import forecast as forecast_one
from ..workloads.kernel_times import Times, measured_times
from ..workloads.layer_graph import GraphSetting, is_graph
from ..workloads.measured_ratios import NONE
from ..workloads.quantities import Prices, check_priced, prices
from ..workloads.releases import Release, as_rows, as_toml, find_release, unknown_release, widened
from ..workloads.releases import calibrate as fit_release
from ..workloads.serving import described
from ..workloads.serving_model import EITHER, TUNINGS, ServingModel, shipped
from ..workloads.serving_model import load as load_serving
from ..workloads.setting import FIELDS, complete
from ..workloads.speculation import MTP, check_same_drafts, drafted, without
from ..workloads.speculation import OWN as OWN_SPECULATION
from .asked import (
    DEFAULT_GPU,
    Asked,
    AskedOfTraining,
    fields_of,
    grid,
    listed,
    other_names,
    reading_of,
)
from .deployments import Deployments, deployments, gpus_of
from .tables import Data, items, load_measurements

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from ..report.document import Document
    from .runs import Run

RunsGiven: TypeAlias = "str | PathLike[str] | Run | Sequence[str | PathLike[str] | Run]"
"""A run or its folder, or several."""


@dataclass(frozen=True)
class Forecasts(Result):
    """Forecasts of one or more settings.

    Attributes
    ----------
    answers : tuple of Forecast
        In the order asked.
    asked : tuple of mapping
        The fields of each, as given.
    level : float
        Of the intervals.
    need : float or None
        Half-width that is asked for, as a share of the answer.
    price : Prices
        Of a GPU for an hour.
    """

    saved_as = FILES["forecast"]
    answers: tuple[Forecast, ...]
    asked: tuple[Mapping[str, Any], ...]
    level: float = 0.9
    need: float | None = None
    price: Prices = field(default_factory=Prices)

    @property
    def table(self) -> pd.DataFrame:
        """One row per setting: what was asked, then the answer.

        Columns: the fields given, ``predicted``, ``lower``, ``upper``, ``unit``, ``memory_gb`` (GiB
        of one GPU), ``fits``, ``level`` (of the interval), ``reason`` (why there is no answer, else
        empty), ``tokens_per_second``, ``energy_j``, ``power_w`` (of all GPUs), ``cost`` where there
        is a price, ``sure`` where a half-width is needed, and ``spread.SOURCE``, the deviation of
        the logarithm by source. `answers.read_table` reads it back.
        """
        rows = []
        for asked, answer in zip(self.asked, self.answers, strict=True):
            row: dict[str, Any] = {}
            for name, value in asked.items():
                if isinstance(value, GPU | Architecture):
                    named = value.name
                else:
                    named = value
                if isinstance(value, Mapping):
                    row[name] = value.get("name", "stated")
                else:
                    row[name] = named
            row |= {
                name: getattr(answer, name)
                for name in ("predicted", "lower", "upper", "unit", "memory_gb", "fits")
            }
            row["level"] = self.level
            if answer.reason is None:
                row["reason"] = ""
            else:
                row["reason"] = answer.reason.text
            for name in ("tokens_per_second", "energy_j", "power_w"):
                row[name] = answer.details.get(name, float("nan"))
            if self.price:
                row["cost"] = cost_of(answer, self.price)
            if self.need is not None:
                row["sure"] = answer.sure(self.need)
            row |= {f"{SPREAD_OF}{name}": deviation for name, deviation in answer.spreads.items()}
            rows.append(row)
        return pd.DataFrame(rows)

    def document(self) -> Document:
        """Return the forecasts for readers; its ``data`` are those of ``forecast.json``."""
        return forecast_document(
            self.answers, self.asked, level=self.level, need=self.need, price=self.price
        )

    def _beside(self) -> tuple[str, ...]:
        return (self.table.to_csv(index=False),)

    def save_table(self, file: str | Path, *, overwrite: bool = False) -> None:
        """Write `table` as .csv, .parquet or .xlsx, whole or not at all.

        Raises
        ------
        DataError
            The file cannot be written, or flopcast did not write it and ``overwrite`` is not set.
        """
        table = pa.Table.from_pandas(self.table, preserve_index=False)
        with replacing(overwrite=overwrite):
            write_table(table, Path(file), "{}")

    def save_chakra(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write ``chakra.RANK.et`` for every GPU of one graph of layers, for simulators of networks.

        Raises
        ------
        FlopcastError
            There are several settings, or it is no graph; the folder holds other files, or files
            that flopcast did not write and ``overwrite`` is not set, or cannot be written.
        """
        # here: few forecasts are written so
        from ..projection.chakra_export import SPREAD, write_chakra

        if len(self.answers) == 1:
            setting = self.answers[0].setting
        else:
            setting = None
        if not isinstance(setting, GraphSetting):
            raise ParameterError(
                "chakra", "must be asked for one graph of layers, an execution trace or a CSV"
            )
        tasks = chakra_tasks(self.answers[0].layers, setting.model, setting.gpus)
        about = {
            "what": "forecast, not a measurement",
            "gpu": setting.gpu.name,
            "workload": setting.model.name,
        }
        about[SPREAD] = f"{self.answers[0].computing_spread(self.level):.4f}"
        with replacing(overwrite=overwrite):
            write_chakra(Path(folder), dict.fromkeys(range(setting.gpus), tasks), about)

    def plot_parts(self) -> go.Figure:
        """Draw what the time of each answer is made of, with the interval of each part."""
        return parts_figure(self.answers)

    def plot_batch(self, over: str = "batch") -> go.Figure | None:
        """Draw latency and throughput over the batch, or another field, a line with its band per way of the others.

        ``over`` may be ``input_len``, ``output_len`` or ``num_prompts`` too. None where it does not
        vary.
        """
        return curve_figure(self.answers, over)

    def plot_pareto(self) -> go.Figure | None:
        """Draw tokens per second and GPU against seconds per token; the front is marked. None for one answer."""
        return pareto_figure(self.answers)

    def __repr__(self) -> str:
        answered = sum(one.reason is None for one in self.answers)
        return f"<Forecasts: {counted(len(self.answers), 'setting')}, {answered} answered>"


@also_saving("chakra")
@saving
@spelt_out
@configured
def forecast(
    model: str | PathLike[str] | Mapping[str, Any] | Architecture | None = None,
    *,
    cases: str | PathLike[str] | pd.DataFrame | None = None,
    engine: Names | None = None,
    tuning: str | None = None,
    speculation: str | None = None,
    prefill_gpus: Count | None = None,
    lengths: str | None = None,
    ttft: Limit | None = None,
    tpot: Limit | None = None,
    rate: Rate | None = None,
    concurrency: Counts | None = None,
    sure: Probability | None = None,
    electricity: Price | None = None,
    run: RunsGiven = (),
    data: Data | Sequence[Data] | None = None,
    need: float | None = None,
    price: PriceByGPU | None = None,
    interval: float = 0.9,
    seed: int = 0,
    **asked: Unpack[Asked],
) -> Forecasts | Deployments:
    """Forecast what a model takes on GPUs, before anything is run.

    Without a batch, requests or a step to train, the question is which GPUs serve it: parallelism,
    precision and the requests under way are searched, and the cheapest way that keeps the limits is
    the answer. Several values of a keyword make a grid of all combinations, in the order given.

    Parameters
    ----------
    model : str, Path, mapping or Architecture, optional
        A known name or a config.json; of inference also operators: CSV, JSON graph of layers, execution trace, ONNX.
        A name of the list (``llama-3.1-405b``), a Hugging Face ``config.json`` or its contents; or your
        own operators, as a CSV, as a JSON graph of layers or its contents
        (`workloads.layer_graph`), as an execution trace of PyTorch or Chakra, plain or compressed,
        as an ONNX model (`workloads.graph_files`), or as the input of a planner
        (`workloads.layer_graph`), which take ``gpu``, ``gpus``, ``dtype``, ``eager``, ``network_gbs``,
        ``network_us`` and ``node_gpus``, of a planner ``tp``, and what is only of graphs.
    cases : path or DataFrame, optional
        CSV with a row per setting: columns are the keywords. In place of ``model`` and these. A row that
        cannot be understood has its reason, the others their answer. A column ``measured``, in the
        unit of the answer or empty, is what the answers are held against.
    kind : {"inference", "throughput", "training"}, optional
        What is asked for: a batch, requests that are served as they fit, or a step to train. By default what
        ``num_prompts`` or ``global_batch`` ask for, else a batch.
    gpu : str, Path or GPU, or several, default MI300X
        GPUs that are asked about: names or TOML files.
    device
        Another name of ``gpu``.
    gpus : int or several, optional
        How many GPUs; several numbers make a grid: 1:16 is 1, 2, 4, 8 and 16.
    tp : int or several, optional
        GPUs that share each layer.
    pp : int or several, optional
        Stages that the layers are cut into.
    dp : int or several, optional
        Replicas of the model.
    cp : int or several, optional
        GPUs that share each sequence.
    ep : int or several, optional
        GPUs that share the experts.
    zero : int or several, default 1, or 3 if only that fits
        ZeRO stage, 0 to 3 (FSDP).
    schedule : str or several, default 1f1b
        Of the pipeline: 1f1b, zbv, v-half, v-min.
    interleave : int or several, default 1
        Model chunks per pipeline stage.
    sequence_parallel : bool, optional
        Norms are cut along the sequence too.
    dtype : str or several, default that of the model
        Format of weights and products: fp8, bf16, ...
    kv_dtype : str or several, default that of the weights
        Format of the cache: one where GPUs are chosen.
    batch : int or several, optional
        Sequences that start and end together: all prompts at once.
    input_len : int or several, optional
        Tokens of each prompt: one where GPUs are chosen.
    output_len : int or several, optional
        Tokens of each answer: one where GPUs are chosen.
    isl, osl
        Other names of ``input_len`` and ``output_len``.
    num_prompts : int or several, optional
        Requests served as they fit, all there at the start, in place of a batch.
    micro_batch : int or several, default 1
        Sequences of a micro-batch, per replica.
    global_batch : int or several, optional
        Sequences of a step, over all GPUs.
    seq_len : int or several, optional
        Tokens of each sequence.
    tuning : {"either", "tuned", "stock"}, default either
        Engine or framework: tuned by the vendor, stock as it comes, or either. Of the engine that serves, or
        the framework that trains: ``"tuned"`` as the vendor tunes it for the setting, ``"stock"`` as it
        comes; the intervals of ``"either"`` hold both. A batch takes none: it is as the vendor tunes it.
    engine : str or several, default vllm
        Engines to serve with: vllm, sglang, trtllm, atom.
    speculation : {"none", "mtp"}, default none
        How tokens are drafted: none or mtp. The latter drafts by the model's own layers for it; times are
        those without it times what runs with it say (`workloads.speculation`).
    prefill_gpus : int, default none: all do both
        GPUs of each replica that only read prompts, the others then only write answers.
        Both are among ``gpus`` (`workloads.disaggregation`).
    lengths : {"drawn", "equal"}, default as the nearest published runs have them
        Lengths of prompts and answers: drawn around the mean, or all equal. Equal ones end together, so requests
        come in waves and wait longer for the first token.
    ttft : float or str, optional
        Time to the first token at most: 2s, 500ms, 'p99<2s'. A number is of milliseconds; of a percentile over
        requests (p50 and p99) where none come at a rate.
    tpot : float or str, optional
        Time per further token at most: 50ms, 'p99<50ms'. As ``ttft``.
    rate : float or str, optional
        Requests that come at a rate, of all GPUs: 4/s, 240/min. A number is a second; the requests under way
        follow.
    concurrency : int or several, default searched
        Requests under way at a replica: a closed loop. In place of a search from 1 to 1024.
    sure : float, default 0.9
        Probability of keeping the limits that is enough. A way to serve with less is not said to hold.
        Where there are no limits, it is that of keeping each pace.
    electricity : float or str, optional
        Price of a kilowatt hour: 0.12, '$0.12/kWh'. In the currency of ``price``. Which GPUs
        serve a model then says what the energy of a million tokens costs, that of GPUs alone.
    network_gbs : float or several, default 50
        GB/s that a GPU sends over the network, one way.
    network_us : float or several, default 10
        Time of a message between nodes, µs.
    node_gpus : int or several, default that of the GPU, else 8
        GPUs that share links in a node: one where GPUs are chosen.
    recompute : str or several, default none
        What the backward pass computes again: none, selective or full.
    recompute_layers : int or several, default all
        How many layers full recomputes.
    optimizer : str or several, default adam
        Optimizer: adam, adam-8bit or sgd.
    lora : bool, optional
        Only low-rank adapters are trained.
    flash : bool, default True
        Attention is one fused kernel, which keeps no scores.
    max_num_seqs : int or several, default 1024
        Requests that may run at once.
    max_batched_tokens : int or several, default 65536
        Tokens of the largest step.
    memory_utilisation : float or several, default 0.9; of training 1
        Part of the memory that may be used: one where GPUs are chosen.
    release : str or several, default any
        Software release, such as vllm-0.10.0, or the file of flopcast calibrate.
    eager : bool, optional
        Kernels are launched one by one, no graph.
    prefix_cache : bool, optional
        Prompts are found in the cache.
    dims : str or mapping, optional
        Sizes that an ONNX model leaves free.
    time_unit : {"us", "ms", "s"}, optional
        Of a graph that says none: us, ms or s.
    measured_on : str, Path or GPU, optional
        GPU of the times that a graph states.
    congestion : {"fair", "none"}, optional
        Whether messages that meet share a link: fair or none. Those between two ranks that meet on a link.
    rendezvous_bytes : int or str, optional
        From which size on MPI's sends wait for receivers: 64K.
    bins : str, optional
        Bins of time that tell what MPI's ranks do, as 10ms.
    run : Run or path, or several, optional
        Run folder of train (forecasts: or shipped): its model goes before any law. Trained without a
        host, or ``"shipped"`` (`predict`): they predict the matrix products, the
        attention and the operators of a graph that lie in their range, on their target, in place of
        the laws. The answer says how many products.
    data : path, DataFrame, Measurements, or several, optional
        Measured kernels, in place of laws. As `train` takes them, a folder of public tables too: what was measured on
        the GPU asked for takes its least measured time, products, attention, experts and
        collectives in between are interpolated (`workloads.kernel_times.measured_times`), unless a
        run answers. The answer says how much of the time.
    where, unit, default, rename
        As for `read`: of ``data``.
    need : float, optional
        As for `needed`. It says whether each answer is known within that, and else
        how many measured runs of the setting would reach it
        (`workloads.forecasting.Forecast.needed`).
    price : float, str or mapping, optional
        Of a GPU for an hour, as in $2.5/h or MI300X=2.5,H200=3.5; the answer has the cost.
    interval : float, default 0.9
        As for `predict`.
    seed : int, default 0
        As for `train`.

    Returns
    -------
    Forecasts or Deployments
        Of a batch and the like ``.table``, ``.plot_parts()``, ``.plot_batch()``,
        ``.plot_pareto()``, ``.report()``, ``.save(folder)``; of the question ``.table``, ``.ways``,
        ``.plot_front()``, ``.report()``, ``.save(folder)``.

    Raises
    ------
    FlopcastError
        A single setting cannot be understood; what is understood and cannot run has its reason
        instead.

    Examples
    --------
    >>> import flopcast as fc
    >>> found = fc.forecast("llama-3.1-70b", gpu="MI300X", gpus=8, dtype="fp8", batch=[1, 16], input_len=128,
    ...                     output_len=2048)
    >>> found.table[["batch", "unit", "fits"]].values.tolist()
    [[1, 's', True], [16, 's', True]]
    >>> found = fc.forecast("llama-3.1-70b", gpu=["MI300X", "H200"], ttft="2s", tpot="50ms", rate="4/s", price="$3/h")
    >>> bool(found.table.loc[0, "holds"] > 0.5)
    True
    """
    check_level(interval)
    check_need(need)
    fields = fields_of(asked)
    reading = reading_of(asked)
    if "kind" not in fields and "num_prompts" in fields:
        fields["kind"] = "throughput"
    if "kind" not in fields and "global_batch" in fields:
        fields["kind"] = "training"
    if "gpu" not in fields and cases is None:
        fields = {"gpu": DEFAULT_GPU, **fields}
    engine = listed("engine", engine)
    concurrency = listed("concurrency", concurrency)
    served = {
        "electricity": electricity,
        "engine": engine,
        "speculation": speculation,
        "prefill_gpus": prefill_gpus,
        "lengths": lengths,
        "ttft": ttft,
        "tpot": tpot,
        "rate": rate,
        "concurrency": concurrency,
    }
    if tuning is not None:
        tuning = str(tuning).lower()
        if tuning not in (EITHER, *TUNINGS):
            words = ", ".join((EITHER, *TUNINGS))
            raise ParameterError("tuning", f"must be one of {words}, got {tuning!r}")
    if sure is not None and not (isinstance(sure, Real) and 0 < sure < 1):
        raise ParameterError("sure", f"must be a probability above 0 and below 1, got {sure!r}")
    for name, value in {**fields, **served, "tuning": tuning}.items():
        if isinstance(value, Sized) and not len(value):
            raise ParameterError(
                name, f"must have a value, got {value!r}: leave it out where any will do"
            )
    gpu = fields.get("gpu")
    gpus = ()
    if gpu is not None:
        gpus = gpus_of(gpu)
    priced = check_priced(prices(price), gpus)
    stated = [name for name, value in (served | {"sure": sure}).items() if value is not None]
    work = [
        name
        for name in ("batch", "num_prompts", "global_batch", "kind")
        if fields.get(name) is not None
    ]
    if model is not None and cases is None and not work and not is_graph(model):
        others: dict[str, Any] = {
            "run": run or None,
            "data": data,
            "need": need,
            "tuning": tuning,
            **reading,
            **fields,
        }
        enough = SURE
        if sure is not None:
            enough = float(sure)
        return deployments(
            model, price=priced, interval=interval, sure=enough, seed=seed, **{**served, **others}
        )
    if tuning is not None and cases is None and fields.get("kind") != "training":
        stated.append("tuning")
    if stated:
        if work:
            beside = f"`{work[0]}`"
        elif cases is not None:
            beside = "`cases`"
        else:
            beside = "layers of your own"
        if stated == ["tuning"] and work:
            raise ParameterError(
                "tuning",
                f"goes with no {beside}, whose answer is of an engine as the vendor tunes it: ask "
                "with `concurrency` in its place, or leave tuning out",
            )
        raise ParameterError(stated[0], f"goes with no {beside}: it asks which GPUs serve a model")
    if tuning is not None:
        fields["tuning"] = tuning
    learned = [
        _times(one)
        for one in (run if isinstance(run, Sequence) and not isinstance(run, str) else [run])
    ]
    if data is not None:
        keep = [*map(str, conditions(reading.pop("where", None)))]
        names = [gpu.name for gpu in gpus_of(fields.get("gpu") or ())]
        if names and all(isinstance(one, Path) for one in items(data)):
            keep.append(f"device={','.join(names)}")  # of many tables the others need not be read
        kept = load_measurements(data, keep, **reading)
        learned.append(measured_times(kept.frame))
    elif reading:
        raise ParameterError(next(iter(reading)), "is of `data`, and none are given")
    if (model is None) == (cases is None):
        raise ParameterError("model", "must be given, or `cases` in its place, and not both")
    if cases is not None:
        if fields:
            raise ParameterError(
                "cases", f"hold every field themselves, got {', '.join(fields)} beside them"
            )
        rows = [
            {**row, **_measured(row, _place(cases, line))}
            for line, row in enumerate(_read(cases), start=2)
        ]
        settings = []
        for row in rows:
            settings.append({name: value for name, value in row.items() if name != MEASURED})
        answers = forecast_all(settings, level=interval, seed=seed, runs=learned)
        return Forecasts(tuple(answers), tuple(rows), interval, need, priced)
    settings = list(grid({"model": model, **fields}))
    if len(settings) == 1:
        answers = [forecast_one(settings[0], level=interval, seed=seed, runs=learned)]
    else:
        answers = forecast_all(settings, level=interval, seed=seed, runs=learned)
    return Forecasts(tuple(answers), tuple(settings), interval, need, priced)


@saving
@spelt_out
@configured
def forecast_train(
    model: str | PathLike[str] | Mapping[str, Any] | Architecture,
    *,
    tuning: str | None = None,
    run: RunsGiven = (),
    data: Data | Sequence[Data] | None = None,
    need: float | None = None,
    price: PriceByGPU | None = None,
    interval: float = 0.9,
    seed: int = 0,
    **asked: Unpack[AskedOfTraining],
) -> Forecasts:
    """Forecast one optimizer step; several values make a grid.

    Parameters
    ----------
    model : str, Path, mapping or Architecture
        As for `forecast`.
    tuning, run, data, need, price, interval, seed, **asked
        As for `forecast`, of ``kind="training"``.

    Returns
    -------
    Forecasts
        A row of ``.table`` per setting: seconds of a step.

    Raises
    ------
    FlopcastError
        As for `forecast`.

    Examples
    --------
    >>> import flopcast as fc
    >>> step = fc.forecast_train("llama-3.1-8b", gpus=8, global_batch=128, seq_len=4096)
    >>> step.table[["unit", "fits"]].values.tolist()
    [['s', True]]
    """
    fields = cast("Asked", {**asked, "kind": "training"})
    answer = forecast(
        model,
        tuning=tuning,
        run=run,
        data=data,
        need=need,
        price=price,
        interval=interval,
        seed=seed,
        **fields,
    )
    return cast("Forecasts", answer)


@saving
@spelt_out
@configured
def forecast_cases(
    cases: str | PathLike[str] | pd.DataFrame,
    *,
    run: RunsGiven = (),
    data: Data | Sequence[Data] | None = None,
    need: float | None = None,
    price: PriceByGPU | None = None,
    interval: float = 0.9,
    seed: int = 0,
    **reading: Unpack[Reading],
) -> Forecasts:
    """Forecast every row of a table of settings.

    Parameters
    ----------
    cases : path or DataFrame
        As for `forecast`.
    run, data, need, price, interval, seed, **reading
        As for `forecast`.

    Returns
    -------
    Forecasts
        A row of ``.table`` per row of the cases.

    Raises
    ------
    FlopcastError
        The table cannot be read.

    Examples
    --------
    >>> import pandas as pd, flopcast as fc
    >>> asked = pd.DataFrame({"model": ["llama-3.1-8b"], "gpu": "MI300X", "batch": 1, "isl": 128, "osl": 128})
    >>> fc.forecast_cases(asked).table["unit"].tolist()
    ['s']
    """
    answer = forecast(
        cases=cases,
        run=run,
        data=data,
        need=need,
        price=price,
        interval=interval,
        seed=seed,
        **cast("Asked", reading),
    )
    return cast("Forecasts", answer)


@dataclass(frozen=True)
class CalibratedRelease(Result, Release):
    """Constants of a software release, fitted to measured runs: `workloads.releases.Release`.

    Attributes
    ----------
    cases : DataFrame
        The runs: what `forecast` takes of each, and ``measured``.
    """

    cases: pd.DataFrame = field(default_factory=pd.DataFrame, kw_only=True)

    @property
    def table(self) -> pd.DataFrame:
        """One row per constant: its value as fitted, and the deviation of its logarithm."""
        spreads = np.sqrt((self.root**2).sum(axis=1))
        rows = []
        for (name, constant), mean, spread in zip(
            self.constants.items(), self.mean, spreads, strict=True
        ):
            fitted = constant.value * float(np.exp(mean))
            rows.append((name, constant.what, fitted, constant.unit, float(spread)))
        return pd.DataFrame(rows, columns=["constant", "what", "fitted", "unit", "spread"])

    def document(self) -> Document:
        """Return the constants for readers, and how sure forecasts of the runs were and are."""
        before, now = self._sharpened()
        measured = now.table[MEASURED].tolist()
        return release_document(self, before.answers, now.answers, measured)

    def _sharpened(self) -> tuple[Forecasts, Forecasts]:
        """Return forecasts of the runs by any release, and by this one."""
        with temporary_folder() as folder:
            file = folder / "release.toml"
            file.write_text(as_toml(self), encoding="utf-8")
            before = forecast(cases=self.cases.assign(release=""))
            now = forecast(cases=self.cases.assign(release=str(file)))
        assert isinstance(before, Forecasts)
        assert isinstance(now, Forecasts)
        return before, now

    def save(
        self, path: str | Path, *, made: Mapping[str, Any] | None = None, overwrite: bool = False
    ) -> None:
        """Write the constants as .toml, which ``release=`` of `forecast` takes; else as every result.

        Raises DataError: the file cannot be written, or flopcast did not write it and ``overwrite``
        is not set.
        """
        if Path(path).suffix.lower() == ".toml":
            write_text(Path(path), as_toml(self), overwrite=overwrite)
        else:
            super().save(path, made=made, overwrite=overwrite)


class CalibratedServing(Result, ServingModel):
    """What was learnt of serving, with the user's runs: `workloads.serving_model.ServingModel`."""

    @property
    def table(self) -> pd.DataFrame:
        """The runs that it has learnt from: ``runs``."""
        return self.runs

    def document(self) -> Document:
        """Return how wide its answers are, by what they rest on, for readers."""
        return learnt_document(self)

    def save(
        self, path: str | Path, *, made: Mapping[str, Any] | None = None, overwrite: bool = False
    ) -> None:
        """Write the model as .parquet, which ``release=`` of `forecast` takes; else as every result.

        Raises DataError: the file cannot be written, or flopcast did not write it and ``overwrite``
        is not set.
        """
        if Path(path).suffix.lower() != ".parquet":
            super().save(path, made=made, overwrite=overwrite)
            return
        with replacing(overwrite=overwrite):
            check_file(Path(path), (".parquet",))
            with whole_file(Path(path)) as beside:
                ServingModel.save(self, beside)


@saving
@configured
def calibrate(
    *cases: Data,
    name: str = "own",
    prior: str | None = None,
    source: str = "",
    default: Assigned | None = None,
    rename: Assigned | None = None,
) -> CalibratedRelease | CalibratedServing:
    """Fit the constants of a software release to measured runs, or add runs of serving to what was learnt of others.

    Parameters
    ----------
    *cases : path, DataFrame, Measurements, or a sequence of them
        CSV files and tables, a row per run of one release on one kind of GPU: columns as `forecast`
        takes them, of kind inference and throughput or all of kind training, and ``measured`` in
        the unit of the answer (seconds of a batch or a step, output tokens per second). Or files,
        folders and tables of runs of the operator ``serving`` in any formats that `read` knows
        (``vllm bench serve``, ...), with ``ttft_ms`` and ``tpot_ms``: two of a setting, with the
        fewest and the most requests under way, say most.
    name : str, default "own"
        Name of the release.
    prior : str, optional
        A known release to start from: one or two runs then sharpen it. It is published,
        or a file: its constants are the start, as far apart as releases are, which
        one or two runs of a new setting sharpen. For runs of serving a file of `CalibratedServing.save`,
        by default the model that ships.
    source : str, default ""
        Where the runs are from, kept with the constants.
    default : mapping of str to str, optional
        As for `read`: of columns that files of serving lack, ``{"device": "MI300X", "tp": "8"}``.
    rename : mapping of str to str, optional
        As for `read`: ``{"time": "measured"}``.

    Returns
    -------
    CalibratedRelease or CalibratedServing
        ``release=`` of `forecast` takes the file of its ``save``: .toml, of serving .parquet.

    Raises
    ------
    DataError
        A run cannot be understood or cannot run, has no time above zero or one that no constants
        make plausible, or the GPUs are several; the line is named.

    Examples
    --------
    >>> import pandas as pd
    >>> runs = pd.DataFrame({"model": "llama-3.1-8b", "gpu": "MI300X", "batch": [1, 8], "input_len": 128,
    ...                      "output_len": 512, "measured": [2.1, 2.4]})
    >>> calibrate(runs, name="mine").runs
    2
    """
    asked = _runs(cases, rename)
    if asked is None:
        served, lost, notes, drafts = _served(cases, default, rename)
        if prior is None:
            model = shipped()
        else:
            model = load_serving(Path(prior))
        check_same_drafts(model.about, drafts)
        served, followed = _with_token_times(served, model)
        notes = (*notes, *followed)
        if drafts != NONE:
            served = without(served)
        served, lost = _near_the_forecast(served, lost, model)
        fitted = model.calibrated(served)
        notes = (*notes, *fitted.contradictions)
        read = {"refused": count_reasons(lost), "notes": [*map(repr, notes)]}
        if drafts != NONE:
            read |= {OWN_SPECULATION: drafts}
        return CalibratedServing.from_fields(replace(fitted, about={**fitted.about, **read}))
    if default:
        raise ParameterError(
            "default",
            "goes with runs of serving: a table with the column measured states all itself",
        )
    columns = dict.fromkeys(column for _, case in asked for column in case)
    runs = pd.DataFrame([dict.fromkeys(columns, "") | case for _, case in asked])
    parts = []
    seconds = []
    settings = []
    for place, case in asked:
        try:
            measured = float(case.pop(MEASURED))
            if not 0 < measured < np.inf:
                raise DataError(f"measured must be a number above zero, got {measured:g}")
            setting = complete({**case, "release": None})
            served = setting.num_prompts * setting.output_len
            seconds.append(served / measured if setting.kind == "throughput" else measured)
            parts.append(parts_of(setting))
            settings.append(setting)
        except (FlopcastError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            if isinstance(error, KeyError):
                why = "the column measured is needed"
            else:
                why = str(error)
            raise DataError(why, source=place) from None
    kinds = {"training" if one.kind == "training" else "serving" for one in settings}
    if len({one.gpu.name for one in settings}) > 1 or len(kinds) > 1:
        raise ParameterError("cases", "must be on one kind of GPU, and all of training or none")
    kind = kinds.pop()
    if prior is None:
        start = None
    else:
        start = widened(find_release(prior, kind))
    fitted = fit_release(
        as_rows(parts, kind),
        np.array(seconds),
        name=name,
        gpu=settings[0].gpu.name,
        models=[one.model.name for one in settings],
        source=source,
        largest=float(max(max(one.batch // one.dp, one.num_prompts // one.dp) for one in settings)),
        kind=kind,
        prior=start,
    )
    for release, limit, basis in (
        (start or unknown_release(kind), _FAR, "was forecast"),
        (fitted, _UNMET, "is what the constants say that meet all of these runs best"),
    ):
        said = as_rows(parts, kind) @ np.exp(release.mean)
        for (place, _), stated, expected in zip(asked, seconds, said.tolist(), strict=True):
            if max(stated / expected, expected / stated) > limit:
                problem = (
                    f"states {stated:,.4g} s, and {expected:,.4g} s {basis}: check its unit (seconds, "
                    "or output tokens "
                    "per second) and its setting, or leave the run out"
                )
                raise DataError(problem, source=place)
    return replace(CalibratedRelease.from_fields(fitted), cases=runs)


_FAR = 30.0
_UNMET = 2.0
"""Times that a run may differ from what was forecast of it: more is a slip of units, of a thousand
in most cases; and from the constants fitted to all runs: where they miss one by more, they are
those of none. Judgements."""


def _runs(
    cases: Data | Sequence[Data], rename: Assigned | None
) -> list[tuple[str, dict[str, Any]]] | None:
    """Return the runs of `calibrate`, each after its place; None for those of serving: no column is ``measured``."""
    given = items(cases, "cases")
    names = values.assigned("rename", rename)
    if not given:
        raise ParameterError("cases", "must be one file, folder or table at least")
    tables = [one for one in given if isinstance(one, pd.DataFrame)]
    files = [one for one in given if isinstance(one, Path) and one.suffix.lower() in FORMATS]
    columns = [
        *([*map(str, table)] for table in tables),
        *(table_header(file, head(file)) for file in files),
    ]
    measured = 0
    for columns_of_table in columns:
        renamed = {names.get(name, name) for name in columns_of_table}
        measured += MEASURED in renamed
    if not measured:
        return None
    if measured < len(given):
        raise ParameterError(
            "cases",
            "must all have a column measured or all be runs of serving: calibrate these apart",
        )
    check_renames(files, names, tables, columns_used={*FIELDS, MEASURED})
    result = []
    for one in given:
        if isinstance(one, Path | pd.DataFrame):
            for line, run in enumerate(_read(one, names), start=2):
                result.append((_place(one, line), run))
    return result


def _served(
    cases: Data | Sequence[Data],
    default: Assigned | None,
    rename: Assigned | None,
) -> tuple[pd.DataFrame, pd.DataFrame, Sequence[Remark], str]:
    """Return runs of serving, complete, the rows refused, remarks, and how the runs draft tokens.

    Runs with drafted tokens are taken where all runs are such, else they are refused as those of
    other conditions are.
    """
    loaded = load_measurements(cases, default=default, rename=rename, each=True, timed=False)
    runs = described(loaded.frame[loaded.frame["op"] == SERVING])[0]
    for device in dict.fromkeys(texts(runs, "device")):
        find_gpu(str(device))
    engines = texts(runs, "engine")
    for row in np.flatnonzero(~np.isin(engines, ["", *ENGINES])):
        problem = f"engine must be one of {', '.join(ENGINES)}, got {engines[row]!r}"
        raise DataError(f"{problem}: leave its runs out", source=str(runs["source"].iloc[row]))
    lengths = texts(runs, "lengths")
    for row in np.flatnonzero(~np.isin(lengths, ["", *LENGTHS])):
        problem = f"lengths must be {' or '.join(LENGTHS)}, or empty, got {lengths[row]!r}"
        raise DataError(problem, source=str(runs["source"].iloc[row]))
    kept_notes = [note for note in loaded.notes if not note.code.startswith("repeats-")]
    notes = (*kept_notes, *_unread_options(runs))
    if "prefill_gpus" in runs:
        others = as_numbers(runs, "prefill_gpus") > 0.0
        runs = runs.assign(apart=np.where(others, APART, texts(runs, "apart")))
    varied = runs["variant"].ne("")
    if len(runs) and drafted(runs).all():
        return runs.reset_index(drop=True), loaded.rejected, notes, MTP
    apart = {
        "source": runs["source"][varied],
        "reason": "other-conditions",
        "detail": runs["variant"][varied],
    }
    rejected = pd.concat([loaded.rejected, pd.DataFrame(apart, dtype="str")], ignore_index=True)
    if varied.all() and len(runs):
        variants = ", ".join(dict.fromkeys(runs["variant"]))
        raise DataError(
            f"all runs are under conditions that no forecast asks about ({variants}): give runs "
            "without them"
        )
    kept = runs[~varied].reset_index(drop=True)
    return kept, rejected, notes, NONE


def _with_token_times(
    runs: pd.DataFrame, model: ServingModel
) -> tuple[pd.DataFrame, Sequence[Remark]]:
    """Return runs with the times per token that follow from the times of whole requests, and a remark.

    A time of a request is measured, or follows from throughput and requests under way. The first
    token is taken off it: as measured, else as forecast.
    """
    further = as_numbers(runs, "output_len") - 1.0
    lacking = np.isnan(as_numbers(runs, "tpot_ms")) & (as_numbers(runs, "duration_us") > 0.0)
    at = np.flatnonzero(lacking & (further > 0.0))
    if not len(at):
        return runs, ()
    asked = runs.iloc[at].reset_index(drop=True)
    measured = as_numbers(asked, "ttft_ms")
    first = np.where(np.isnan(measured), model.served(asked).ttft_ms, measured)
    times = as_numbers(runs, "tpot_ms")
    left = (as_numbers(asked, "duration_us") / 1e3 - first) / further[at]
    times[at] = np.where(left > 0.0, left, np.nan)
    forecast_first = int((np.isnan(measured) & (left > 0.0)).sum())
    text = (
        f"tpot_ms of {counted(len(at), 'run')} is what the time of a request leaves after the first "
        f"token, which is forecast of {forecast_first:,}: state tpot_ms where it was measured"
    )
    said = remark("tpot-from-requests", text, runs=len(at), first_forecast=forecast_first)
    return runs.assign(tpot_ms=times), (said,)


_IN_PLACE: Final = {
    "tuning": "the times of the runs say how the engine is set up",
    "release": "engine_version is the release of the engine",
    "gpus": "they are tp x pp x dp",
    "max_num_seqs": "running_limit is the most requests that run at once",
    "memory_utilisation": "memory_percent is the share of the memory",
}
"""What a run of serving says in place of an option of a forecast."""


def _unread_options(runs: pd.DataFrame) -> Iterator[Remark]:
    """Yield a remark on each column that is named like an option of a forecast and says what a run says otherwise."""
    for name, instead in _IN_PLACE.items():
        if name in runs and as_text(runs[name]).ne("").any():
            text = f"the column {name} is not read from runs of serving: {instead}"
            yield remark("option-not-read", text, column=name)


def _near_the_forecast(
    runs: pd.DataFrame, rejected: pd.DataFrame, model: ServingModel
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the runs without those whose times are in another unit, and the rows refused with them.

    Raises DataError: none is left.
    """
    if len(runs):
        expected = model.served(runs)
        detail = np.full(len(runs), "", dtype=object)
        for name, limit in _TOKEN_FAR.items():
            times = as_numbers(runs, name) / getattr(expected, name)
            for row in np.flatnonzero(times > limit):
                detail[row] = f"{name} is {times[row]:,.0f} times the forecast"
            for row in np.flatnonzero(times < _TOKEN_SOON):
                detail[row] = (
                    f"{name} is {times[row]:.2g} times the forecast: give unit {name}=s where "
                    "that is its unit"
                )
        far = detail != ""
        lost = {"source": runs["source"][far], "reason": "far-off-forecast", "detail": detail[far]}
        rejected = pd.concat([rejected, pd.DataFrame(lost, dtype="str")], ignore_index=True)
        runs = runs[~far].reset_index(drop=True)
    if runs.empty and len(rejected):
        raise DataError(why_none_is_left(rejected), source=str(rejected["source"].iloc[0]))
    if runs.empty:
        raise DataError(
            "no row is a run of serving (ttft_ms and tpot_ms), and no table has a column measured: "
            "give runs of either kind"
        )
    return runs, rejected


_TOKEN_SOON: Final = 1.0 / 30.0
"""Times the forecast below which no run is: a queue makes a first token later, and never sooner. A judgement."""
_TOKEN_FAR: Final = {"tpot_ms": 30.0, "ttft_ms": 300.0}
"""The same of runs of serving, whose first tokens may wait in a queue that no run tells of. Judgements."""


def _times(run: str | PathLike[str] | Run) -> Times:
    """Return what a run says of products: nothing of another GPU than its target."""
    from .predicting import predict  # here: models take long to import, and few forecasts need them
    from .runs import load
    from .shipped_kernels import shipped_times

    if is_shipped(run):
        return shipped_times
    if isinstance(run, str | PathLike):
        trained = load(Path(run))
    else:
        trained = run
    recipe = trained.trained.recipe
    if recipe.host is not None or recipe.metric != "duration_us":
        raise ParameterError(
            "run", "must be trained on times of one GPU, without a host: products have no host time"
        )

    def times(rows: pd.DataFrame) -> pd.DataFrame:
        unknown = pd.DataFrame({"predicted_us": np.nan, "extrapolated": True}, index=rows.index)
        if set(rows["device"]) != {recipe.target.name}:
            return unknown
        try:
            return predict(trained, rows).frame
        except DataError:  # not one row can be predicted
            return unknown

    return times


def _measured(row: Mapping[str, Any], place: str) -> dict[str, float]:
    """Return what was measured of a setting as a number, NaN where it is empty; nothing without the column."""
    if MEASURED not in row:
        return {}
    try:
        value = float("nan" if row[MEASURED] in ("", None) else row[MEASURED])
    except (TypeError, ValueError, OverflowError):
        value = -1.0
    if value <= 0 or np.isinf(value):
        raise DataError(
            f"measured must be a number above zero or empty, got {row[MEASURED]!r}", source=place
        )
    return {MEASURED: value}


def _place(cases: str | PathLike[str] | pd.DataFrame, line: int) -> str:
    if isinstance(cases, pd.DataFrame):
        return f"line {line}"
    return f"{Path(cases).name}:{line}"


def _read(
    cases: str | PathLike[str] | pd.DataFrame, rename: Assigned | None = None
) -> Sequence[dict[str, Any]]:
    if isinstance(cases, pd.DataFrame):
        table = plain_cells(cases)
    elif Path(cases).suffix.lower() in FORMATS[1:]:
        table = plain_cells(read_plain_table(Path(cases)).drop(columns=LINE, errors="ignore"))
    else:
        check_plain_file(Path(cases))
        try:
            table = pd.read_csv(cases, dtype=str, keep_default_na=False)
        except pd.errors.EmptyDataError:
            raise DataError("is empty", source=str(cases)) from None
        except FileNotFoundError:
            raise DataError("no such file", source=str(cases)) from None
        except (OSError, ValueError) as error:
            raise DataError(
                f"cannot be read as a table of cases: {error}", source=str(cases)
            ) from None
    table = table.rename(columns=values.assigned("rename", rename))
    table = table.rename(columns=other_names(map(str, table.columns)))
    if not table.columns.is_unique:
        twice = table.columns[table.columns.duplicated()][0]
        raise DataError(f"two columns are called {twice!r}: leave one out", source=_place(cases, 1))
    if "model" not in table or not len(table):
        raise DataError(
            "a table of settings must have rows, and a column model; columns are "
            f"{', '.join(FIELDS)}"
        )
    result = []
    for row in table.to_dict("records"):
        result.append({str(name): value for name, value in row.items()})
    return result
