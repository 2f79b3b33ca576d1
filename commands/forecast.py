"""Whole workloads: ``flopcast forecast llama-3.1-405b --gpu MI300X --gpus 8 --batch 16 --input-len 2048 ...``.

With a model alone it is inference, serving, or the user's own operators; ``train`` (a training
step), ``cases`` (a table of settings), ``hpl``, ``hpcg``, ``hpl-mxp`` and ``kernel`` are commands
of their own. An option is called as the field that it sets (`workloads.setting.FIELDS`).
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from ..errors import ParameterError
from ..output import FILES, FORMATS, check_file, check_output
from . import options as opt

PLACE = 44
EXAMPLES = (
    "flopcast forecast llama-3.1-70b --gpu MI300X,H200 --gpus 1:16 --ttft 2s --tpot 50ms --rate 4/s "
    "--price 'MI300X=$2.5/h,H200=$3.5/h'",
    "flopcast forecast llama-3.1-405b --gpu MI300X --gpus 8 --dtype fp8 --batch 16 --input-len "
    "2048 --output-len 2048",
    "flopcast forecast train llama-3.1-8b --gpus 8 --global-batch 128 --seq-len 4096",
    "flopcast forecast cases cases.csv --need 0.1 --price MI300X=2.5,H200=3.5 --out answers.csv",
    'flopcast forecast hpl --gpu "MI250X (per GCD)" --gpus 8:512 --n 65536',
    'flopcast forecast hpcg --gpu "MI250X (per GCD)" --gpus 8:32768',
    'flopcast forecast hpl-mxp --gpu "MI250X (per GCD)" --gpus 73984',
    "flopcast forecast kernel fft --gpu MI300X --gpus 8:512 --points 2048",
)
CUTS = "Parallelism"
SERVE = "Which GPUs serve it, where no batch is given"


def _counted(text: str, default: str | bool = False, panel: str | None = None, **how: Any) -> Any:
    return opt.option(text, "N[,...]|N:N", panel, shown=default, parser=str, **how)


def _named(text: str, default: str | bool = False, panel: str | None = None, **how: Any) -> Any:
    return opt.option(text, "NAME[,...]", panel, shown=default, parser=str, **how)


def _limit(text: str, metavar: str) -> Any:
    return opt.option(text, metavar, SERVE, shown=False)


def _drawn(text: str, default: str | bool) -> Any:
    return opt.option(text, "MEDIAN[±SPREAD]", opt.MORE, shown=default, parser=str)


TuningOption = Annotated[
    Any,
    _named("Engine or framework: tuned by the vendor, stock as it comes, or either.", "either"),
]
NETWORK_GBS = "GB/s that a GPU sends over the network, one way."
GpuOption = Annotated[
    Any,
    _named(
        "GPUs that are asked about: names or TOML files.",
        "MI300X",
        autocompletion=opt.gpu_names,
        spelt="--gpu --device",
    ),
]
HOW_MANY = "How many GPUs; several numbers make a grid: 1:16 is 1, 2, 4, 8 and 16."
GpusOption = Annotated[Any, _counted(HOW_MANY)]
TpOption = Annotated[Any, _counted("GPUs that share each layer.", panel=CUTS)]
PpOption = Annotated[Any, _counted("Stages that the layers are cut into.", panel=CUTS)]
EpOption = Annotated[Any, _counted("GPUs that share the experts.", panel=CUTS)]
DtypeOption = Annotated[
    Any, _named("Format of weights and products: fp8, bf16, ...", "that of the model")
]
ReleaseOption = Annotated[
    Any,
    _named(
        "Software release, such as vllm-0.10.0, or the file of flopcast calibrate.", "any", opt.MORE
    ),
]
NetworkGbsOption = Annotated[
    Any, opt.option(NETWORK_GBS, "GB/S[,...]", CUTS, shown="50", parser=str)
]
NetworkUsOption = Annotated[
    Any,
    opt.option("Time of a message between nodes, µs.", "US[,...]", CUTS, shown="10", parser=str),
]
NodeGpusOption = Annotated[
    Any, _counted("GPUs that share links in a node.", "that of the GPU, else 8", CUTS)
]
RunOption = Annotated[
    list[Path] | None,
    opt.option(
        "Run folder of train (forecasts: or shipped): its model goes before any law.",
        "RUN",
        opt.MORE,
    ),
]
DataOption = Annotated[
    list[Path] | None,
    opt.option("Measured kernels, in place of laws (repeatable).", "DATA", opt.MORE),
]
PriceOption = Annotated[
    str | None,
    opt.option(
        "Of a GPU for an hour, as in $2.5/h or MI300X=2.5,H200=3.5; the answer has the cost.",
        "PRICE|GPU=PRICE,...",
        shown=False,
    ),
]
OutOption = Annotated[
    Path | None,
    opt.option(
        "Folder for the page, its JSON and a table; or the table alone, .csv.", spelt="--out -o"
    ),
]
RankGpuOption = Annotated[
    str, opt.option("GPUs that are asked about: names or TOML files.", "NAME")
]
RankGpusOption = Annotated[Any, _counted(HOW_MANY, False)]


class _Nameless(typer.Context):
    """Of a command that is not called by its name: its usage has one blank where the name would stand, not two."""

    @property
    def command_path(self) -> str:
        return super().command_path.rstrip()


class _Model(TyperGroup):
    """Takes what is no command as the model of one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = args and (args[0] in self.commands or args[0] == "--help")
        return super().parse_args(ctx, args if not args or named else [opt.MODEL, *args])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete the names of models beside those of commands."""
        named = next(one for one in self.commands[opt.MODEL].params if one.name == "model")
        return [*super().shell_complete(ctx, incomplete), *named.shell_complete(ctx, incomplete)]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if name != opt.MODEL:
            return name, command, rest
        cast("Any", command).context_class = _Nameless
        return "", command, rest


app = typer.Typer(
    cls=_Model, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


def command() -> None:
    """Forecast a whole workload from its configuration: inference, serving, a training step, benchmarks of HPC.

    Which GPUs serve a model, how fast and at what cost: forecast MODEL with --ttft, --tpot, --rate and --price. All of
    its options: forecast MODEL --help.
    """


def run_(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A known name, a config.json; operators: CSV, JSON graph of layers, execution trace, ONNX.",
            autocompletion=opt.model_names,
        ),
    ],
    gpu: GpuOption = None,
    gpus: GpusOption = None,
    dtype: DtypeOption = None,
    batch: Annotated[
        Any, _counted("Sequences that start and end together: all prompts at once.")
    ] = None,
    input_len: Annotated[Any, _counted("Tokens of each prompt.", spelt="--input-len --isl")] = None,
    output_len: Annotated[
        Any, _counted("Tokens of each answer.", spelt="--output-len --osl")
    ] = None,
    num_prompts: Annotated[
        Any, _counted("Requests served as they fit, all there at the start, for --batch.")
    ] = None,
    engine: Annotated[
        Any, _named("Engines to serve with: vllm, sglang, trtllm, atom.", "vllm", SERVE)
    ] = None,
    tuning: TuningOption = None,
    speculation: Annotated[
        str | None, opt.option("How tokens are drafted: none or mtp.", "WORD", SERVE, shown="none")
    ] = None,
    prefill_gpus: Annotated[
        str | None,
        opt.option(
            "GPUs of each replica that only read prompts, the others then only write answers.",
            "N",
            SERVE,
            shown="none: all do both",
        ),
    ] = None,
    ttft: Annotated[
        str | None,
        _limit("Time to the first token at most: 2s, 500ms, 'p99<2s'.", "TIME|PERCENTILE<TIME"),
    ] = None,
    tpot: Annotated[
        str | None,
        _limit("Time per further token at most: 50ms, 'p99<50ms'.", "TIME|PERCENTILE<TIME"),
    ] = None,
    rate: Annotated[
        str | None, _limit("Requests that come at a rate, of all GPUs: 4/s, 240/min.", "RATE")
    ] = None,
    concurrency: Annotated[
        Any, _counted("Requests under way at a replica: a closed loop.", "searched", SERVE)
    ] = None,
    sure: Annotated[
        float | None,
        opt.option("Probability of keeping the limits that is enough.", "PART", SERVE, shown="0.9"),
    ] = None,
    electricity: Annotated[
        str | None, _limit("Price of a kilowatt hour: 0.12, '$0.12/kWh'.", "PRICE")
    ] = None,
    tp: TpOption = None,
    pp: PpOption = None,
    ep: EpOption = None,
    network_gbs: NetworkGbsOption = None,
    network_us: NetworkUsOption = None,
    node_gpus: NodeGpusOption = None,
    kv_dtype: Annotated[
        Any, _named("Format of the cache.", "that of the weights", opt.MORE)
    ] = None,
    max_num_seqs: Annotated[
        Any, _counted("Requests that may run at once.", "1024", opt.MORE)
    ] = None,
    max_batched_tokens: Annotated[
        Any, _counted("Tokens of the largest step.", "65536", opt.MORE)
    ] = None,
    memory_utilisation: Annotated[
        Any,
        opt.option(
            "Part of the memory that may be used.",
            "PART[,...]",
            opt.MORE,
            shown="0.9",
            parser=str,
        ),
    ] = None,
    release: ReleaseOption = None,
    eager: Annotated[
        bool | None,
        opt.option("Kernels are launched one by one, no graph.", panel=opt.MORE, spelt="--eager"),
    ] = None,
    prefix_cache: Annotated[
        bool | None,
        opt.option("Prompts are found in the cache.", panel=opt.MORE, spelt="--prefix-cache"),
    ] = None,
    dims: Annotated[
        str | None, opt.option("Sizes that an ONNX model leaves free.", "NAME=N,...", opt.MORE)
    ] = None,
    time_unit: Annotated[
        str | None, opt.option("Of a graph that says none: us, ms or s.", panel=opt.MORE)
    ] = None,
    measured_on: Annotated[
        str | None, opt.option("GPU of the times that a graph states.", "NAME", opt.MORE)
    ] = None,
    congestion: Annotated[
        str | None,
        opt.option("Whether messages that meet share a link: fair or none.", panel=opt.MORE),
    ] = None,
    rendezvous_bytes: Annotated[
        str | None,
        opt.option("From which size on MPI's sends wait for receivers: 64K.", "SIZE", opt.MORE),
    ] = None,
    bins: Annotated[
        str | None,
        opt.option("Bins of time that tell what MPI's ranks do, as 10ms.", "TIME", opt.MORE),
    ] = None,
    run: RunOption = None,
    data: DataOption = None,
    where: opt.WhereOption = None,
    need: opt.NeedOption = None,
    price: PriceOption = None,
    interval: opt.IntervalOption = 0.9,
    seed: opt.SeedOption = 0,
    out: OutOption = None,
    chakra: opt.ChakraOption = None,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Forecast a batch from its start to its end, or requests served as they fit; several values make a grid."""
    fields = {
        "gpu": gpu or "MI300X",
        "gpus": gpus,
        "tp": tp,
        "pp": pp,
        "ep": ep,
        "dtype": dtype,
        "kv_dtype": kv_dtype,
        "batch": batch,
        "input_len": input_len,
        "output_len": output_len,
        "num_prompts": num_prompts,
        "max_num_seqs": max_num_seqs,
        "max_batched_tokens": max_batched_tokens,
        "memory_utilisation": memory_utilisation,
        "release": release,
        "eager": eager,
        "prefix_cache": prefix_cache,
        "dims": dims,
        "time_unit": time_unit,
        "measured_on": measured_on,
        "congestion": congestion,
        "rendezvous_bytes": rendezvous_bytes,
        "bins": bins,
        "network_gbs": network_gbs,
        "network_us": network_us,
        "node_gpus": node_gpus,
        "kind": "throughput" if num_prompts else None,
    }
    asked = {
        "run": run or (),
        "data": opt.check_data(data),
        "where": where,
        "need": need,
        "price": price,
    }
    served = {
        "electricity": electricity,
        "engine": engine,
        "tuning": tuning,
        "speculation": speculation,
        "prefill_gpus": prefill_gpus,
        "ttft": ttft,
        "tpot": tpot,
        "rate": rate,
        "concurrency": concurrency,
        "sure": sure,
    }
    given = asked | {"interval": interval, "seed": seed} | _stated(fields | served)
    _answer(context, model, given, out, as_json, every, chakra)


def train(
    context: typer.Context,
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A known name, or the path of a config.json.")
    ],
    gpu: GpuOption = None,
    gpus: GpusOption = None,
    dtype: DtypeOption = None,
    micro_batch: Annotated[Any, _counted("Sequences of a micro-batch, per replica.", "1")] = None,
    global_batch: Annotated[Any, _counted("Sequences of a step, over all GPUs.")] = None,
    seq_len: Annotated[Any, _counted("Tokens of each sequence.")] = None,
    tp: TpOption = None,
    pp: PpOption = None,
    cp: Annotated[Any, _counted("GPUs that share each sequence.", panel=CUTS)] = None,
    ep: EpOption = None,
    zero: Annotated[
        Any, _counted("ZeRO stage, 0 to 3 (FSDP).", "1, or 3 if only that fits", CUTS)
    ] = None,
    schedule: Annotated[
        Any, _named("Of the pipeline: 1f1b, zbv, v-half, v-min.", "1f1b", CUTS)
    ] = None,
    interleave: Annotated[Any, _counted("Model chunks per pipeline stage.", "1", CUTS)] = None,
    sequence_parallel: Annotated[
        bool | None, opt.option("Norms cut too.", panel=CUTS, spelt="--sequence-parallel")
    ] = None,
    network_gbs: NetworkGbsOption = None,
    network_us: NetworkUsOption = None,
    node_gpus: NodeGpusOption = None,
    recompute: Annotated[Any, _named("none, selective or full.", "none", opt.MORE)] = None,
    recompute_layers: Annotated[
        Any, _counted("How many layers full recomputes.", "all", opt.MORE)
    ] = None,
    optimizer: Annotated[Any, _named("adam, adam-8bit or sgd.", "adam", opt.MORE)] = None,
    lora: Annotated[
        bool | None,
        opt.option("Only low-rank adapters are trained.", panel=opt.MORE, spelt="--lora"),
    ] = None,
    flash: Annotated[
        bool | None,
        opt.option(
            "Attention is one fused kernel, which keeps no scores.",
            panel=opt.MORE,
            spelt="--flash/--no-flash",
            shown="flash",
        ),
    ] = None,
    release: ReleaseOption = None,
    tuning: TuningOption = None,
    run: RunOption = None,
    data: DataOption = None,
    where: opt.WhereOption = None,
    need: opt.NeedOption = None,
    price: PriceOption = None,
    interval: opt.IntervalOption = 0.9,
    seed: opt.SeedOption = 0,
    out: OutOption = None,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Forecast one optimizer step; several values make a grid."""
    fields = {
        "gpu": gpu or "MI300X",
        "gpus": gpus,
        "tp": tp,
        "pp": pp,
        "cp": cp,
        "ep": ep,
        "dtype": dtype,
        "micro_batch": micro_batch,
        "global_batch": global_batch,
        "seq_len": seq_len,
        "recompute": recompute,
        "recompute_layers": recompute_layers,
        "optimizer": optimizer,
        "zero": zero,
        "schedule": schedule,
        "interleave": interleave,
        "release": release,
        "tuning": tuning,
        "sequence_parallel": sequence_parallel,
        "lora": lora,
        "flash": flash,
        "network_gbs": network_gbs,
        "network_us": network_us,
        "node_gpus": node_gpus,
        "kind": "training",
    }
    asked = {
        "run": run or (),
        "data": opt.check_data(data),
        "where": where,
        "need": need,
        "price": price,
    }
    _answer(
        context,
        model,
        asked | {"interval": interval, "seed": seed} | _stated(fields),
        out,
        as_json,
        every,
    )


def cases(
    context: typer.Context,
    cases: Annotated[
        Path,
        typer.Argument(metavar="CASES", help="CSV with a row per setting: columns are the fields."),
    ],
    run: RunOption = None,
    data: DataOption = None,
    where: opt.WhereOption = None,
    need: opt.NeedOption = None,
    price: PriceOption = None,
    interval: opt.IntervalOption = 0.9,
    seed: opt.SeedOption = 0,
    out: Annotated[
        Path | None,
        opt.option(
            "Table (.csv, .parquet, .xlsx), or folder for page, JSON and table.", spelt="--out -o"
        ),
    ] = None,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Forecast every row of a table of settings."""
    asked = {
        "run": run or (),
        "data": opt.check_data(data),
        "where": where,
        "need": need,
        "price": price,
    }
    _answer(
        context,
        None,
        asked | {"interval": interval, "seed": seed, "cases": cases},
        out,
        as_json,
        every,
    )


def hpl(
    context: typer.Context,
    gpu: RankGpuOption,
    gpus: RankGpusOption,
    n: Annotated[
        int | None, opt.option("Size of the matrix.", shown="four fifths of the memory")
    ] = None,
    nb: Annotated[int, opt.option("Width of a panel.")] = 512,
    p: Annotated[
        int | None, opt.option("Rows of the grid.", spelt="--p", shown="next to the root")
    ] = None,
    product: Annotated[Any, _drawn("Part of the peak that a product reaches.", "0.74±0.02")] = None,
    panel_share: Annotated[
        Any, _drawn("Part of the peak that a panel reaches.", "0.02±0.3")
    ] = None,
    network_gbs: Annotated[Any, _drawn(NETWORK_GBS, "its links in a node, else 20±0.15")] = None,
    noise: Annotated[float, opt.option("Relative noise of the time of one panel.")] = 0.02,
    machine: Annotated[Any, _drawn("One machine over others like it.", "1±0.07")] = None,
    out: OutOption = None,
    interval: opt.IntervalOption = 0.9,
    seed: opt.SeedOption = 0,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Forecast the score of HPL. A GPU is what a rank sees: 'MI250X (per GCD)'."""
    from ..api.supercomputers import forecast_hpl as forecast

    drawn = {
        "product": product,
        "panel_share": panel_share,
        "network_gbs": network_gbs,
        "machine": machine,
    }
    others = {"n": n, "nb": nb, "p": p, "noise": noise, "interval": interval, "seed": seed}
    _score(context, forecast, gpu, gpus, _stated(drawn) | others, out, as_json, every)


def hpcg(
    context: typer.Context,
    gpu: RankGpuOption,
    gpus: RankGpusOption,
    stream: Annotated[
        Any, _drawn("Part of the memory's bandwidth that STREAM reaches.", "as measured")
    ] = None,
    reached: Annotated[
        Any, _drawn("Part of STREAM that HPCG reaches on one GPU.", "0.708±0.05")
    ] = None,
    scaling: Annotated[Any, _drawn("Part of that which many GPUs keep.", "0.945±0.08")] = None,
    out: OutOption = None,
    interval: opt.IntervalOption = 0.9,
    seed: opt.SeedOption = 0,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Forecast the score of HPCG. A GPU is what a rank sees: 'MI250X (per GCD)'."""
    from ..api.supercomputers import forecast_hpcg as forecast

    drawn = _stated({"stream": stream, "reached": reached, "scaling": scaling})
    _score(
        context,
        forecast,
        gpu,
        gpus,
        drawn | {"interval": interval, "seed": seed},
        out,
        as_json,
        every,
    )


def hpl_mxp(
    context: typer.Context,
    gpu: RankGpuOption,
    gpus: RankGpusOption,
    peak_share: Annotated[
        Any, _drawn("Part of the 16-bit matrix peak that HPL-MxP reaches.", "0.63±0.3")
    ] = None,
    out: OutOption = None,
    interval: opt.IntervalOption = 0.9,
    seed: opt.SeedOption = 0,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Forecast the score of HPL-MxP, HPL in mixed precision. A GPU is what a rank sees."""
    from ..api.supercomputers import forecast_hpl_mxp as forecast

    drawn = _stated({"peak_share": peak_share})
    _score(
        context,
        forecast,
        gpu,
        gpus,
        drawn | {"interval": interval, "seed": seed},
        out,
        as_json,
        every,
    )


def kernel(
    context: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="fft, stencil (7 points) or dslash (Wilson's, of QCD)."
        ),
    ],
    gpu: RankGpuOption,
    gpus: RankGpusOption,
    points: Annotated[int, opt.option("Of each axis: three axes, four of dslash.")],
    number_format: Annotated[str, opt.option("fp64, fp32 or fp16.")] = "fp64",
    stream: Annotated[
        Any, _drawn("Part of the memory's bandwidth that STREAM reaches.", "as measured")
    ] = None,
    kernel_share: Annotated[
        Any, _drawn("Part of STREAM that the kernel reaches.", "by kernel")
    ] = None,
    network_gbs: Annotated[Any, _drawn(NETWORK_GBS, "its links in a node, else 20±0.15")] = None,
    out: OutOption = None,
    interval: opt.IntervalOption = 0.9,
    seed: opt.SeedOption = 0,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
) -> None:
    """Forecast a kernel of HPC cut over many GPUs: a transform, a stencil, or QCD's Wilson operator."""
    from ..api.supercomputers import forecast_kernel as forecast

    drawn = _stated({"stream": stream, "kernel_share": kernel_share, "network_gbs": network_gbs})
    options = drawn | {
        "points": points,
        "number_format": number_format,
        "interval": interval,
        "seed": seed,
    }
    _score(context, partial(forecast, name), gpu, gpus, options, out, as_json, every)


def _stated(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _answer(
    context: typer.Context,
    model: str | None,
    asked: dict[str, Any],
    out: Path | None,
    as_json: bool,
    every: bool,
    chakra: Path | None = None,
) -> None:
    table = out is not None and out.suffix.lower() in FORMATS
    if table:
        check_file(out, FORMATS, [asked["cases"]] if "cases" in asked else [])
    else:
        check_output(out, FILES["forecast"])
    opt.check_chakra(chakra)
    opt.announce("forecasting", quiet=as_json)
    gc.set_threshold(
        200_000, 20, 100
    )  # neither what is imported nor answers by the thousand hold many circles
    from ..api.forecasting import Forecasts, forecast  # here: what it imports takes seconds

    answer = forecast(model, **asked)
    if chakra:
        if not isinstance(answer, Forecasts):
            raise ParameterError(
                "chakra", "must be asked for one graph of layers, an execution trace or a CSV"
            )
        answer.save_chakra(chakra)
    if out is not None and table:
        answer.save_table(out)
    opt.finish(
        context,
        answer,
        None if table else out,
        *([out] if table else []),
        as_json=as_json,
        every=every,
    )
    if isinstance(answer, Forecasts) and all(
        one.setting is None for one in answer.answers
    ):  # of a table: not one row could be understood
        raise typer.Exit(2)


def _score(
    context: typer.Context,
    forecast: Callable[..., Any],
    gpu: str,
    gpus: str,
    options: dict[str, Any],
    out: Path | None,
    as_json: bool,
    every: bool,
) -> None:
    check_output(out, FILES["forecast"][:2])
    score = forecast(gpu=gpu, gpus=gpus, **options)
    opt.finish(context, score, out, as_json=as_json, every=every)


app.command(opt.MODEL)(opt.run_command(run_))
app.command("train")(opt.run_command(train))
app.command("cases")(opt.run_command(cases))
app.command("hpl")(opt.run_command(hpl))
app.command("hpcg")(opt.run_command(hpcg))
app.command("hpl-mxp")(opt.run_command(hpl_mxp))
app.command("kernel")(opt.run_command(kernel))
