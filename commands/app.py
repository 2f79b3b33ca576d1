"""The command ``flopcast``: a table of its commands; the module of one is imported when that command is called."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand
from typer.main import get_command

from .. import __version__
from ..output import visible
from .options import INTERRUPTED, run_command

COMMANDS: Final = {
    "train": "Cross-validate models of measured times (or energy, power) next to FLOPS scaling, and save the best.",
    "predict": (
        "Predict new workloads with a run's model: times with intervals, and what lies outside the trained range."
    ),
    "validate": (
        "Test whether times (or energy, power) scale linearly from device to device, per class (op × dtype × bound)."
    ),
    "show": "Print the tables of a saved run again, from its folder.",
    "compare": (
        "Compare two runs (settings, errors, a paired test), or two traces (what was added, removed, faster, slower)."
    ),
    "check": "Score a saved run on new measurements: still valid, shifted by a factor, or to be trained again.",
    "advise": "Choose what to measure next on the target: the batch that teaches a run most about unseen groups.",
    "counters": "Say which few hardware counters keep the accuracy, with how many passes of the profiler.",
    "ingest": "Read profiler traces, counter files and tuner logs into one table, and check their quality.",
    "measure": (
        "Time kernels of PyTorch on this machine, for training: repeated until the median is known, outliers removed."
    ),
    "clean": "Clean repeated measurements in traces: steps, warm-up, outliers; report the spread of each kernel.",
    "project": (
        "Say how long a profiled trace takes on another GPU: kernel by kernel, gaps, overlap, and how sure that is."
    ),
    "forecast": "Forecast a whole workload from its configuration: inference, serving, a training step, HPL, HPCG.",
    "calibrate": "Fit what is not a kernel to measured runs of a software release, for forecasts of others.",
    "plan": "Plan passes of a profiler that record a few kernels each, and prove that they have recorded all of them.",
    "fidelity": "Say what each profiler adds to a workload, and which of them to believe.",
    "scale": (
        "Predict performance at other sizes (SMs, CUs, chiplets) from small scale models; `flopcast scale` alone "
        "reproduces the published results."
    ),
    "power": (
        "Power and energy of single kernels from a power log: clocks synchronised, golden runs chosen, readings "
        "stitched (FinGraV, ISPASS 2025)."
    ),
    "fetch": "Bring public tables to try (of AITER, MIOpen, AIConfigurator) to a cache, and print their folder.",
    "schema": "List the operators and the columns of their measurements, with units and an example row.",
    "gpus": "List the known GPUs, or compare some figure by figure.",
}
"""Command -> first line of its help, as the list of commands shows it; a test holds both equal."""


@cache
def load(name: str) -> Any:
    """Return a command with its options, from the module of its name.

    A module holds a function ``command`` (``OPTIONS`` beside it names options that its parameters of the library do not
    have by `options.OPTIONS`), or ``app`` with commands of its own.
    """
    module = import_module(f".{name}", __package__)
    if hasattr(module, "app"):
        return _legible(get_command(module.app))
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command(name)(run_command(module.command, **getattr(module, "OPTIONS", {})))
    return _legible(get_command(single))


def _legible(command: Any) -> Any:
    """Return a command whose complaints about its arguments can be shown: they repeat what was given."""

    def told(call: Callable[..., Any]) -> Callable[..., Any]:
        def careful(*args: Any, **kwargs: Any) -> Any:
            try:
                return call(*args, **kwargs)
            except Exception as error:
                if isinstance(given := getattr(error, "message", None), str):
                    error.message = visible(given)  # type: ignore[attr-defined]
                raise

        return careful

    command.make_context, command.invoke = told(command.make_context), told(command.invoke)
    return command


class _Unloaded(TyperCommand):
    """What stands for a command until it is called: its name and the first line of its help."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the arguments as the command itself does."""
        try:
            command = load(str(self.name))
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
        return command.make_context(info_name, args, parent=parent, **extra)


def _unloaded() -> None:
    """Stand for a command; never called."""


app = typer.Typer(
    name="flopcast",
    help="Predict GPU kernel times on other GPUs, at other sizes and for new workloads, from measured profiles.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for _name, _help in COMMANDS.items():
    app.command(_name, cls=_Unloaded, help=_help)(_unloaded)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"flopcast {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = (
        False
    ),
) -> None:
    """Options of the command itself."""


def main() -> None:
    """Run the command line."""
    _run(lambda: _legible(get_command(app))())


def script(name: str) -> None:
    """Run one command, as a script of its name does."""
    _run(lambda: load(name).main(sys.argv[1:], prog_name=f"{name}.py"))


def _run(command: Callable[[], Any]) -> None:
    """Run a command; what ends it (Ctrl-C, the end of a batch job) lets it remove its unfinished files."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        command()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except Exception:  # a bug, whose message may hold what the data hold
        print(visible(traceback.format_exc()), end="", file=sys.stderr)
        sys.exit(1)
    finally:
        signal.signal(signal.SIGTERM, before)
