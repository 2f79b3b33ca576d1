"""Whole workloads: ``flopcast forecast llama-3.1-405b --gpu MI300X --gpus 8 --batch 16 --input-len 2048 ...``.

With a model alone it is inference, serving, or the user's own operators; ``train`` (a training
step), ``cases`` (a table of settings), ``hpl``, ``hpcg``, ``hpl-mxp`` and ``kernel`` are commands
of their own. Their options are the keywords of `api.forecasting.forecast`, in groups.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from ..errors import ParameterError
from ..output import FILES, FORMATS, check_file, check_output
from . import options as opt
from .declared import constant_of, fields_of, said
from .derived import as_taken, derive, with_options_of

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
FORECASTING = "api.asked"
ALSO = constant_of("ALSO_CALLED", FORECASTING)
INPUTS = ("model", "cases", "kind", *ALSO)
OUT = "Folder for the page, its JSON and a table; or the table alone, .csv."
PANELS = {
    "Which GPUs serve it, where no batch is given": (
        "engine",
        "speculation",
        "prefill_gpus",
        "lengths",
        "ttft",
        "tpot",
        "rate",
        "concurrency",
        "sure",
        "electricity",
    ),
    "Parallelism": (
        "tp",
        "pp",
        "dp",
        "cp",
        "ep",
        "zero",
        "schedule",
        "interleave",
        "sequence_parallel",
        "network_gbs",
        "network_us",
        "node_gpus",
    ),
    opt.MORE: (
        "kv_dtype",
        "max_num_seqs",
        "max_batched_tokens",
        "memory_utilisation",
        "release",
        "eager",
        "prefix_cache",
        "recompute",
        "recompute_layers",
        "optimizer",
        "lora",
        "flash",
        *fields_of("OfGraph", FORECASTING),
        "run",
        "data",
    ),
}
SERVED = PANELS["Which GPUs serve it, where no batch is given"]
MODEL = typer.Argument(
    metavar="MODEL", help=said("forecast", "model"), autocompletion=opt.model_names
)


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


@with_options_of("forecast", PANELS, (*INPUTS, *fields_of("OfTraining", FORECASTING)), also=ALSO)
def run_(
    context: typer.Context,
    model: Annotated[str, MODEL],
    *,
    out: Annotated[Path | None, opt.option(OUT, spelt="--out -o")] = None,
    chakra: opt.ChakraOption = None,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
    **given: Any,
) -> None:
    """Forecast a batch from its start to its end, or requests served as they fit; several values make a grid."""
    _answer(context, model, given, out, as_json, every, chakra)


@with_options_of(
    "forecast",
    PANELS,
    (*INPUTS, *SERVED, *fields_of("OfInference", FORECASTING), *fields_of("OfGraph", FORECASTING)),
    also=ALSO,
)
def train(
    context: typer.Context,
    model: Annotated[str, MODEL],
    *,
    out: Annotated[Path | None, opt.option(OUT, spelt="--out -o")] = None,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
    **given: Any,
) -> None:
    """Forecast one optimizer step; several values make a grid."""
    _answer(context, model, given | {"kind": "training"}, out, as_json, every)


@with_options_of(
    "forecast", PANELS, (*INPUTS, *SERVED, "tuning", *fields_of("Fields", FORECASTING))
)
def cases(
    context: typer.Context,
    cases: Annotated[Path, typer.Argument(metavar="CASES", help=said("forecast", "cases"))],
    *,
    out: Annotated[
        Path | None,
        opt.option(
            "Table (.csv, .parquet, .xlsx), or folder for page, JSON and table.", spelt="--out -o"
        ),
    ] = None,
    every: opt.AllOption = False,
    as_json: opt.JsonOption = False,
    **given: Any,
) -> None:
    """Forecast every row of a table of settings."""
    _answer(context, None, given, out, as_json, every, cases=cases)


def _answer(
    context: typer.Context,
    model: str | None,
    given: dict[str, Any],
    out: Path | None,
    as_json: bool,
    every: bool,
    chakra: Path | None = None,
    cases: Path | None = None,
) -> None:
    table = out is not None and out.suffix.lower() in FORMATS
    if table:
        check_file(out, FORMATS, [cases] if cases else [])
    else:
        check_output(out, FILES["forecast"])
    opt.check_chakra(chakra)
    asked = as_taken("forecast", given)
    opt.check_data(given["data"])
    opt.announce("forecasting", quiet=as_json)
    # neither what is imported nor answers by the thousand hold many circles
    gc.set_threshold(200_000, 20, 100)
    from ..api.forecasting import Forecasts, forecast  # here: what it imports takes seconds

    answer = forecast(model, cases=cases, **asked)
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
    # of a table: not one row could be understood
    if isinstance(answer, Forecasts) and all(one.setting is None for one in answer.answers):
        raise typer.Exit(2)


app.command(opt.MODEL)(opt.run_command(run_))
app.command("train")(opt.run_command(train))
app.command("cases")(opt.run_command(cases))
for word in ("hpl", "hpcg", "hpl-mxp", "kernel"):
    app.command(word)(opt.run_command(derive(f"forecast {word}")))
