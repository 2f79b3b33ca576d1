"""Whole workloads: ``flopcast forecast llama-3.1-405b --gpu MI300X --gpus 8 --batch 16 --input 2048 --output 2048``.

Four commands in one: ``run`` (inference and serving; needs no name), ``train`` (a training step), ``hpl`` and ``hpcg``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from ..errors import ParameterError
from ..output import check_file, check_output
from .options import JsonOption, LevelOption, SeedOption, announce, run_command

FILES: Final = ("forecast.json", "forecast.html", "forecast.csv")

GpuOption = Annotated[str, typer.Option("--gpu", metavar="NAME[,...]", help="GPUs: names or TOML files.")]
CountsOption = Annotated[str | None, typer.Option(metavar="N[,...]|N:N", help="Several make a grid; 1:256 doubles.")]
OutOption = Annotated[Path | None, typer.Option("--out", "-o", help="Folder for forecast.json, .html and .csv.")]
RunsOption = Annotated[
    list[Path] | None, typer.Option("--model", metavar="RUN", help="Runs that predict matrix products (repeatable).")
]
NeedOption = Annotated[str | None, typer.Option("--need", help="Half-width needed: 10% says whether it is reached.")]
PriceOption = Annotated[str | None, typer.Option("--price", help="Of a GPU: 2.5/h gives cost.")]


class _Group(TyperGroup):
    """Commands of which ``run`` may be left out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``run`` in front, unless the arguments name a command."""
        named = args and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named or not args else ["run", *args])


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    help="Forecast a whole workload from its configuration: inference, serving, a training step, HPL, HPCG.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def forecast_command(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="A known name, or the path of a config.json.")
    ] = None,
    gpu: GpuOption = "MI300X",
    gpus: CountsOption = None,
    tp: CountsOption = None,
    pp: CountsOption = None,
    ep: CountsOption = None,
    dtype: Annotated[str | None, typer.Option(help="Of the weights: fp8, bf16, ...")] = None,
    kv_dtype: Annotated[str | None, typer.Option(help="Of the cache. Default: that of the weights.")] = None,
    batch: CountsOption = None,
    input_: Annotated[str | None, typer.Option("--input", metavar="N[,...]", help="Tokens of each prompt.")] = None,
    output: Annotated[str | None, typer.Option("--output", metavar="N[,...]", help="Tokens of each answer.")] = None,
    requests: Annotated[
        str | None, typer.Option(metavar="N[,...]", help="Requests served as they fit, in place of --batch.")
    ] = None,
    max_num_seqs: Annotated[str | None, typer.Option(help="Requests that may run at once.")] = None,
    release: Annotated[str | None, typer.Option(help="Software release: vllm-0.10.0. Default: any.")] = None,
    eager: Annotated[bool, typer.Option("--eager", help="Kernels are launched one by one, no graph.")] = False,
    prefix_cache: Annotated[bool, typer.Option("--prefix-cache", help="Prompts are found in the cache.")] = False,
    max_batched_tokens: Annotated[str | None, typer.Option(help="Tokens of the largest step.")] = None,
    memory_utilisation: Annotated[float | None, typer.Option(help="Part of the memory that may be used.")] = None,
    model_run: RunsOption = None,
    cases: Annotated[Path | None, typer.Option(help="CSV with a row per setting, in place of MODEL.")] = None,
    need: NeedOption = None,
    price: PriceOption = None,
    out: OutOption = None,
    level: LevelOption = 0.9,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Forecast a batch from its start to its end, or requests served as they fit; needs no name in front of MODEL."""
    fields = {
        "kind": "throughput" if requests else "inference",
        "gpu": _names(gpu),
        "gpus": _counts(gpus, "gpus"),
        "tp": _counts(tp, "tp"),
        "pp": _counts(pp, "pp"),
        "ep": _counts(ep, "ep"),
        "dtype": _names(dtype),
        "kv_dtype": kv_dtype,
        "batch": _counts(batch, "batch"),
        "input_len": _counts(input_, "input_len"),
        "output_len": _counts(output, "output_len"),
        "num_prompts": _counts(requests, "num_prompts"),
        "max_num_seqs": max_num_seqs,
        "release": _names(release),
        "eager": eager or None,
        "prefix_cache": prefix_cache or None,
        "max_batched_tokens": max_batched_tokens,
        "memory_utilisation": memory_utilisation,
    }
    if cases is not None:
        fields = {}
    asked: dict[str, Any] = {"need": need, "price": price, "level": level, "seed": seed}
    _answer(model, fields, cases, runs=model_run, out=out, as_json=as_json, **asked)


def train_command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A known name, or the path of a config.json.")],
    gpu: GpuOption = "MI300X",
    gpus: CountsOption = None,
    tp: CountsOption = None,
    pp: CountsOption = None,
    cp: CountsOption = None,
    ep: CountsOption = None,
    dtype: Annotated[str | None, typer.Option(help="Of the products: bf16, fp8, fp16.")] = None,
    micro_batch: CountsOption = None,
    global_batch: CountsOption = None,
    seq_len: CountsOption = None,
    recompute: Annotated[str | None, typer.Option(help="none, selective or full.")] = None,
    recompute_layers: Annotated[str | None, typer.Option(help="How many layers full recomputes. Default: all.")] = None,
    optimizer: Annotated[str | None, typer.Option(help="adam, adam-8bit or sgd.")] = None,
    zero: Annotated[str | None, typer.Option(help="ZeRO stage, 0 to 3.")] = None,
    schedule: Annotated[str | None, typer.Option(help="Of the pipeline: 1f1b, zbv, v-half, v-min.")] = None,
    interleave: Annotated[str | None, typer.Option(help="Model chunks per pipeline stage.")] = None,
    sequence_parallel: Annotated[bool, typer.Option("--sequence-parallel", help="Norms cut too.")] = False,
    lora: Annotated[bool, typer.Option("--lora", help="Only low-rank adapters are trained.")] = False,
    unfused: Annotated[bool, typer.Option("--unfused", help="Attention keeps its scores: no fused kernel.")] = False,
    network: Annotated[float | None, typer.Option(help="Bandwidth per GPU between nodes, one way, GB/s.")] = None,
    model_run: RunsOption = None,
    need: NeedOption = None,
    price: PriceOption = None,
    out: OutOption = None,
    level: LevelOption = 0.9,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Forecast one optimizer step."""
    fields = {
        "kind": "training",
        "gpu": _names(gpu),
        "gpus": _counts(gpus, "gpus"),
        "tp": _counts(tp, "tp"),
        "pp": _counts(pp, "pp"),
        "cp": _counts(cp, "cp"),
        "ep": _counts(ep, "ep"),
        "dtype": _names(dtype),
        "micro_batch": _counts(micro_batch, "micro_batch"),
        "global_batch": _counts(global_batch, "global_batch"),
        "seq_len": _counts(seq_len, "seq_len"),
        "recompute": _names(recompute),
        "recompute_layers": recompute_layers,
        "optimizer": optimizer,
        "zero": zero,
        "schedule": schedule,
        "interleave": interleave,
        "sequence_parallel": sequence_parallel or None,
        "lora": lora or None,
        "flash": False if unfused else None,
        "network_gbs": network,
    }
    asked: dict[str, Any] = {"need": need, "price": price, "level": level, "seed": seed}
    _answer(model, fields, None, runs=model_run, out=out, as_json=as_json, **asked)


def hpl_command(
    gpu: Annotated[str, typer.Option("--gpu", help="The device that a rank sees: 'MI250X (per GCD)'.")],
    devices: Annotated[int, typer.Option(help="Devices, P · Q.")],
    n: Annotated[int | None, typer.Option(help="Size of the matrix. Default: four fifths of the memory.")] = None,
    nb: Annotated[int, typer.Option(help="Width of a panel.")] = 512,
    p: Annotated[int | None, typer.Option("--p", help="Rows of the grid. Default: next to the root.")] = None,
    product: Annotated[str | None, typer.Option(help="Part of the 64-bit peak that products reach: 0.74±0.06.")] = None,
    panel: Annotated[str | None, typer.Option(help="Part of it that a panel reaches: 0.02±0.3.")] = None,
    network: Annotated[str | None, typer.Option(help="GB/s per device between nodes, one way: 20±0.15.")] = None,
    noise: Annotated[float, typer.Option(help="Relative noise of the time of one panel.")] = 0.02,
    level: LevelOption = 0.9,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Forecast the score of HPL."""
    stated = {"product": _spread(product), "panel_share": _spread(panel), "network_gbs": _spread(network)}
    options = {name: value for name, value in stated.items() if value is not None}
    _score("hpl", gpu, devices, level, as_json, n=n, nb=nb, p=p, noise=noise, seed=seed, **options)


def hpcg_command(
    gpu: Annotated[str, typer.Option("--gpu", help="The device that a rank sees: 'MI250X (per GCD)'.")],
    devices: Annotated[int, typer.Option(help="Devices.")],
    stream: Annotated[str | None, typer.Option(help="Part of the bandwidth that a stream reaches: 0.8±0.05.")] = None,
    reached: Annotated[str | None, typer.Option(help="Part of that which HPCG reaches: 0.75±0.05.")] = None,
    scaling: Annotated[str | None, typer.Option(help="Part that is left on all devices: 0.945±0.03.")] = None,
    level: LevelOption = 0.9,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Forecast the score of HPCG."""
    stated = {"stream": _spread(stream), "reached": _spread(reached), "scaling": _spread(scaling)}
    options = {name: value for name, value in stated.items() if value is not None}
    _score("hpcg", gpu, devices, level, as_json, seed=seed, **options)


def _answer(
    model: str | None,
    fields: dict[str, Any],
    cases: Path | None,
    *,
    runs: list[Path] | None,
    need: str | None,
    price: str | None,
    out: Path | None,
    level: float,
    seed: int,
    as_json: bool,
) -> None:
    wanted, paid = _part(need), _price(price)
    answers = cases is not None and out is not None and out.suffix == ".csv"
    if out is not None:
        check_file(out, (".csv",), [cases] if cases else []) if answers else check_output(out, FILES)
    announce("forecasting", quiet=as_json)
    from ..api.forecasting import forecast  # here: what it imports takes seconds
    from ..report.terminal import show

    stated = {name: value for name, value in fields.items() if value is not None}
    found = forecast(model, cases=cases, runs=runs or (), level=level, seed=seed, need=wanted, price=paid, **stated)
    if out is None:
        show(found.document(), as_json=as_json)
    elif answers:
        found.save_table(out)
        show(found.document(), out, as_json=as_json)
    else:
        found.save(out)
        show(found.document(), *(out / name for name in FILES), as_json=as_json)


def _score(benchmark: str, gpu: str, devices: int, level: float, as_json: bool, **options: Any) -> None:
    from ..hardware import find
    from ..report.forecast import score_document
    from ..report.terminal import show
    from ..workloads import supercomputers

    forecast: Callable[..., supercomputers.Score] = getattr(supercomputers, benchmark)
    show(score_document(forecast(find(gpu), devices, level=level, **options), level), as_json=as_json)


def _names(text: str | None) -> list[str] | str | None:
    found = [part.strip() for part in (text or "").split(",") if part.strip()]
    return found if len(found) > 1 else found[0] if found else None


def _counts(text: str | None, name: str) -> list[int] | int | None:
    """Return the numbers of ``8``, ``1,2,4`` or ``1:256`` (doubled from the first to the last)."""
    if text is None:
        return None
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
    return found if len(found) > 1 else found[0]


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


def _spread(text: str | None) -> Any:
    if text is None:
        return None
    from ..workloads.supercomputers import Spread

    median, _, sigma = text.partition("±")
    try:
        return Spread(float(median), float(sigma or 0.0))
    except ValueError:
        raise ParameterError("product", f"must be a median and its spread, as in 0.74±0.06, got {text!r}") from None


app.command("run")(run_command(forecast_command))
app.command("train")(run_command(train_command))
app.command("hpl")(run_command(hpl_command))
app.command("hpcg")(run_command(hpcg_command))
