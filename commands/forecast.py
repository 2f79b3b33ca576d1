"""Whole workloads: ``flopcast forecast llama-3.1-405b --gpu MI300X --gpus 8 --batch 16 --input 2048 --output 2048``.

Four commands in one: ``run`` (inference, serving, and the user's own operators; needs no name), ``train`` (a training
step), ``hpl`` and ``hpcg``. A parameter is called as the field that it sets (`workloads.setting.FIELDS`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from ..errors import ParameterError
from ..hardware import find
from ..output import FORMATS, check_file, check_output
from .options import (
    ChakraOption,
    JsonOption,
    LevelOption,
    SeedOption,
    announce,
    check_chakra,
    check_data,
    made_by,
    run_command,
)

PLACE = 130

FILES: Final = ("forecast.json", "forecast.html", "forecast.csv")

Text = str | None
Counts = Annotated[Text, typer.Option(metavar="N[,...]|N:N", help="Several make a grid; 1:256 doubles.")]
GpuOption = Annotated[str, typer.Option("--gpu", metavar="NAME[,...]", help="GPUs: names or TOML files.")]
DtypeOption = Annotated[Text, typer.Option(metavar="NAME[,...]", help="Of weights and products: fp8, bf16, ...")]
BandwidthOption = Annotated[
    Text,
    typer.Option(
        "--network-bandwidth", "--network", metavar="GB/S[,...]", help="Between nodes, per GPU, one way. Default: 50."
    ),
]
LatencyOption = Annotated[
    Text, typer.Option("--network-latency", metavar="US[,...]", help="Of a message between nodes, µs. Default: 10.")
]
NodeOption = Annotated[Text, typer.Option(metavar="N[,...]", help="GPUs that share links in a node. Default: 8.")]
OutOption = Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the page, its JSON and a table.")]
RunsOption = Annotated[
    list[Path] | None, typer.Option("--model", metavar="RUN", help="Runs that predict kernels (repeatable).")
]
DataOption = Annotated[
    list[Path] | None, typer.Option("--data", metavar="DATA", help="Measured kernels, taken as they are (repeatable).")
]
NeedOption = Annotated[Text, typer.Option("--need", help="Half-width needed: 10% says whether it is reached.")]
PriceOption = Annotated[Text, typer.Option("--price", help="Of a GPU: 2.5/h gives cost.")]
DeviceOption = Annotated[str, typer.Option("--gpu", help="The device that a rank sees: 'MI250X (per GCD)'.")]
DevicesOption = Annotated[int, typer.Option(help="Devices, P · Q.")]
SpreadOption = Annotated[Text, typer.Option(metavar="MEDIAN[±SPREAD]", help="With the spread of its logarithm.")]


class _Group(TyperGroup):
    """Commands of which ``run`` may be left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``run`` in front, unless the arguments name a command."""
        named = args and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named or not args else ["run", *args])


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def command() -> None:
    """Forecast a whole workload from its configuration: inference, serving, a training step, HPL, HPCG."""


def forecast_command(
    context: typer.Context,
    model: Annotated[
        Text,
        typer.Argument(
            metavar="[MODEL]",
            help="A known name, a config.json; operators: CSV, JSON graph of layers, execution trace, ONNX.",
        ),
    ] = None,
    gpu: GpuOption = "MI300X",
    gpus: Counts = None,
    tp: Counts = None,
    pp: Counts = None,
    ep: Counts = None,
    dtype: DtypeOption = None,
    kv_dtype: Annotated[Text, typer.Option(help="Of the cache. Default: that of the weights.")] = None,
    batch: Counts = None,
    input_len: Annotated[Text, typer.Option("--input", metavar="N[,...]|N:N", help="Tokens of each prompt.")] = None,
    output_len: Annotated[Text, typer.Option("--output", metavar="N[,...]|N:N", help="Tokens of each answer.")] = None,
    num_prompts: Annotated[
        Text, typer.Option("--requests", metavar="N[,...]", help="Requests served as they fit, in place of --batch.")
    ] = None,
    max_num_seqs: Annotated[Text, typer.Option(help="Requests that may run at once.")] = None,
    release: Annotated[Text, typer.Option(help="Software release: vllm-0.10.0. Default: any.")] = None,
    eager: Annotated[bool, typer.Option("--eager", help="Kernels are launched one by one, no graph.")] = False,
    prefix_cache: Annotated[bool, typer.Option("--prefix-cache", help="Prompts are found in the cache.")] = False,
    max_batched_tokens: Annotated[Text, typer.Option(help="Tokens of the largest step.")] = None,
    memory_utilisation: Annotated[Text, typer.Option(help="Part of the memory that may be used.")] = None,
    dims: Annotated[Text, typer.Option(metavar="NAME=N,...", help="Sizes that an ONNX model leaves free.")] = None,
    time_unit: Annotated[Text, typer.Option(help="Of a graph that says none: us, ms or s.")] = None,
    measured_on: Annotated[Text, typer.Option(metavar="NAME", help="GPU of the times that a graph states.")] = None,
    network_gbs: BandwidthOption = None,
    network_us: LatencyOption = None,
    node_gpus: NodeOption = None,
    model_run: RunsOption = None,
    data: DataOption = None,
    cases: Annotated[Path | None, typer.Option(help="CSV with a row per setting, in place of MODEL.")] = None,
    need: NeedOption = None,
    price: PriceOption = None,
    out: OutOption = None,
    chakra: ChakraOption = None,
    level: LevelOption = 0.9,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Forecast a batch from its start to its end, or requests served as they fit; needs no name in front of MODEL."""
    _answer(context, {"kind": "throughput"} if num_prompts else {})


def train_command(
    context: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A known name, or the path of a config.json.")],
    gpu: GpuOption = "MI300X",
    gpus: Counts = None,
    tp: Counts = None,
    pp: Counts = None,
    cp: Counts = None,
    ep: Counts = None,
    dtype: DtypeOption = None,
    micro_batch: Counts = None,
    global_batch: Counts = None,
    seq_len: Counts = None,
    recompute: Annotated[Text, typer.Option(help="none, selective or full.")] = None,
    recompute_layers: Annotated[Text, typer.Option(help="How many layers full recomputes. Default: all.")] = None,
    optimizer: Annotated[Text, typer.Option(help="adam, adam-8bit or sgd.")] = None,
    zero: Annotated[Text, typer.Option(help="ZeRO stage, 0 to 3.")] = None,
    schedule: Annotated[Text, typer.Option(help="Of the pipeline: 1f1b, zbv, v-half, v-min.")] = None,
    interleave: Annotated[Text, typer.Option(help="Model chunks per pipeline stage.")] = None,
    release: Annotated[Text, typer.Option(help="Constants of a framework: the file of flopcast calibrate.")] = None,
    sequence_parallel: Annotated[bool, typer.Option("--sequence-parallel", help="Norms cut too.")] = False,
    lora: Annotated[bool, typer.Option("--lora", help="Only low-rank adapters are trained.")] = False,
    unfused: Annotated[bool, typer.Option("--unfused", help="Attention keeps its scores: no fused kernel.")] = False,
    network_gbs: BandwidthOption = None,
    network_us: LatencyOption = None,
    node_gpus: NodeOption = None,
    model_run: RunsOption = None,
    data: DataOption = None,
    need: NeedOption = None,
    price: PriceOption = None,
    out: OutOption = None,
    level: LevelOption = 0.9,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Forecast one optimizer step."""
    _answer(context, {"kind": "training"} | ({"flash": False} if unfused else {}))


def hpl_command(
    context: typer.Context,
    gpu: DeviceOption,
    devices: DevicesOption,
    n: Annotated[int | None, typer.Option(help="Size of the matrix. Default: four fifths of the memory.")] = None,
    nb: Annotated[int, typer.Option(help="Width of a panel.")] = 512,
    p: Annotated[int | None, typer.Option("--p", help="Rows of the grid. Default: next to the root.")] = None,
    product: SpreadOption = None,
    panel_share: Annotated[Text, typer.Option("--panel", help="Part of the peak that a panel reaches.")] = None,
    network_gbs: Annotated[Text, typer.Option("--network", help="GB/s per device between nodes, one way.")] = None,
    noise: Annotated[float, typer.Option(help="Relative noise of the time of one panel.")] = 0.02,
    machine: Annotated[Text, typer.Option(help="One machine over others like it. Default: 1±0.07.")] = None,
    out: OutOption = None,
    level: LevelOption = 0.9,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Forecast the score of HPL."""
    _score("hpl", context)


def hpcg_command(
    context: typer.Context,
    gpu: DeviceOption,
    devices: DevicesOption,
    stream: SpreadOption = None,
    reached: SpreadOption = None,
    scaling: SpreadOption = None,
    out: OutOption = None,
    level: LevelOption = 0.9,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Forecast the score of HPCG."""
    _score("hpcg", context)


def _answer(context: typer.Context, fields: dict[str, Any]) -> None:
    given = context.params
    wanted, paid = _part(given["need"]), _price(given["price"])
    out: Path | None = given["out"]
    cases, as_json = given.get("cases"), given["as_json"]
    answers = cases is not None and out is not None and out.suffix.lower() in FORMATS
    if out is not None:
        check_file(out, FORMATS, [cases] if cases else []) if answers else check_output(out, FILES)
    check_chakra(given.get("chakra"))
    announce("forecasting", quiet=as_json)
    from ..api.forecasting import forecast  # here: what it imports takes seconds
    from ..report.terminal import show

    if cases is None:
        fields |= _fields(given)
    measured = check_data(given["data"])
    asked = {"runs": given["model_run"] or (), "data": measured, "level": given["level"], "seed": given["seed"]}
    found = forecast(given["model"], cases=cases, need=wanted, price=paid, **asked, **fields)
    if given.get("chakra"):
        found.save_chakra(given["chakra"])
    if out is None:
        show(found.document(), as_json=as_json)
    elif answers:
        found.save_table(out)
        show(found.document(), out, as_json=as_json)
    else:
        found.save(out, made_by(context))
        show(found.document(), *(out / name for name in FILES), as_json=as_json)


def _score(benchmark: str, context: typer.Context) -> None:
    given = context.params
    out, files = given["out"], FILES[:2]
    if out is not None:
        check_output(out, files)
    from ..report.document import footer
    from ..report.forecast import score_document
    from ..report.html import save_page
    from ..report.terminal import show
    from ..workloads import supercomputers

    forecast: Callable[..., supercomputers.Score] = getattr(supercomputers, benchmark)
    others = ("gpu", "devices", "out", "as_json")
    spread = ("product", "panel_share", "network_gbs", "machine", "stream", "reached", "scaling")
    options = {name: value for name, value in given.items() if value is not None and name not in others}
    options |= {name: _spread(options[name], name) for name in spread if name in options}
    gpu = find(given["gpu"])
    document = score_document(forecast(gpu, given["devices"], **options), given["level"], gpu.name)
    if out is not None:
        save_page(out, replace(document, footer=footer(made_by(context))), files)
    show(document, *(out / name for name in files if out is not None), as_json=given["as_json"])


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a setting that the options state, several values as a list."""
    found = {}
    for name, read in _READ.items():
        if (value := given.get(name)) not in (None, False):
            found[name] = read(value, name)
    return found


def _several(found: list[Any]) -> Any:
    return found if len(found) > 1 else found[0] if found else None


def _names(text: str, name: str) -> list[str] | str | None:
    return _several([part.strip() for part in text.split(",") if part.strip()])


def _numbers(text: str, name: str) -> list[float] | float:
    try:
        return _several([float(part) for part in text.split(",")])
    except ValueError:
        raise ParameterError(name, f"must be numbers, as in 50 or 50,100,400, got {text!r}") from None


def _counts(text: str, name: str) -> list[int] | int:
    """Return the numbers of ``8``, ``1,2,4`` or ``1:256`` (doubled from the first to the last)."""
    found: list[int] = []
    for part in text.split(","):
        first, colon, last = part.partition(":")
        try:
            start, end = int(first), int(last) if colon else int(first)
        except ValueError:
            raise ParameterError(name, f"must be numbers, as in 8 or 1,2,4 or 1:256, got {text!r}") from None
        if start < 0 or end < start or (colon and start == 0):
            raise ParameterError(name, f"must rise from a number above 0, as in 1:256, got {part!r}")
        while start <= end:
            found.append(start)
            start = 2 * start if colon else end + 1
    return _several(found)


def _as_it_is(value: Any, name: str) -> Any:
    return value


_READ: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    **dict.fromkeys(("gpu", "dtype", "kv_dtype", "release", "recompute", "schedule", "optimizer"), _names),
    **dict.fromkeys(("gpus", "tp", "pp", "cp", "ep", "batch", "input_len", "output_len", "num_prompts"), _counts),
    **dict.fromkeys(("micro_batch", "global_batch", "seq_len", "node_gpus", "zero", "interleave"), _counts),
    **dict.fromkeys(("network_gbs", "network_us", "memory_utilisation"), _numbers),
    **dict.fromkeys(("max_num_seqs", "max_batched_tokens", "recompute_layers"), _counts),
    **dict.fromkeys(
        ("dims", "time_unit", "measured_on", "eager", "prefix_cache", "sequence_parallel", "lora"), _as_it_is
    ),
}
"""How each field is read from what the command line states."""


def _part(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text.rstrip("% ")) / (100.0 if text.strip().endswith("%") else 1.0)
    except ValueError:
        raise ParameterError("need", f"must be a part, as in 10% or 0.1, got {text!r}") from None


def _price(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text.removesuffix("/h"))
    except ValueError:
        raise ParameterError("price", f"must be that of a GPU for an hour, as in 2.5/h, got {text!r}") from None


def _spread(text: str, name: str) -> Any:
    from ..workloads.supercomputers import Spread

    median, _, sigma = text.partition("±")
    try:
        return Spread(float(median), float(sigma or 0.0))
    except ValueError:
        raise ParameterError(name, f"must be a median and its spread, as in 0.74±0.06, got {text!r}") from None


_command = partial(
    run_command,
    input_len="--input",
    output_len="--output",
    num_prompts="--requests",
    network_gbs="--network-bandwidth",
    network_us="--network-latency",
    data="--data",
)
app.command("run")(_command(forecast_command))
app.command("train")(_command(train_command))
app.command("hpl")(run_command(hpl_command, network_gbs="--network", panel_share="--panel"))
app.command("hpcg")(run_command(hpcg_command))
