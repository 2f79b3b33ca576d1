"""The command ``flopcast``: its commands are the modules of this folder; one is imported when it is called."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand
from typer.main import get_command

from .. import __version__
from ..remarks import visible
from . import options as opt
from .verbs import VERBS, help_of

START: Final = """\
flopcast predicts GPU kernel times on other GPUs, at other sizes and for new workloads, from measured profiles.

  kernels were measured: learn from them, predict others
      flopcast train DATA --host MI300X --target MI355X --out runs/mine
      flopcast predict runs/mine NEW.csv
  a whole trace: how long does it take on another GPU?
      flopcast project TRACE.json.gz --target MI355X
  nothing was measured: which GPUs serve a model, how fast, at what cost?
      flopcast forecast llama-3.1-70b --gpu MI300X,H200 --gpus 1:8 --ttft 2s --tpot 50ms --rate 4/s

To try it without data of your own: flopcast train --quick
All commands: flopcast --help; of one: flopcast train --help"""
"""What the command says that is called without any other."""
LAST: Final = 1000  # place of a command that states none: after the others, by name
PANELS: Final = {
    40: "Learn from measured kernels, predict others",
    49: "A whole trace, a workload, other sizes",
    89: "Does it hold, and what to measure next",
    189: "Read, measure and clean",
    LAST: "Look up",
}
"""Panels of the help, by the last place in each."""
_PLACE = re.compile(r"^PLACE = (\d+)$", re.MULTILINE)


def _read_commands() -> dict[str, tuple[str, str]]:
    """Return the commands by their ``PLACE``: the first paragraph of the help of each, and its panel. Imports none."""
    commands = []
    for path in Path(__file__).parent.glob("[a-z]*.py"):
        text = path.read_text(encoding="utf-8")
        said = (
            text.partition("\ndef command(")[2]
            .partition('"""')[2]
            .partition('"""')[0]
            .partition("\n\n")[0]
        )
        if said:
            place = _PLACE.search(text)
            commands.append((int(place[1]) if place else LAST, path.stem, " ".join(said.split())))
    commands += [
        (verb.place, name, help_of(name)) for name, verb in VERBS.items() if " " not in name
    ]
    return {
        name: (said, next(panel for last, panel in PANELS.items() if place <= last))
        for place, name, said in sorted(commands)
    }


_READ = _read_commands()
COMMANDS: Final = {name: said for name, (said, _) in _READ.items()}
"""Command -> first paragraph of its help: of `verbs`, or of a module of this folder with a function ``command``."""


@cache
def load(name: str) -> Any:
    """Return a command with its options, derived (`verbs`) or from the module of its name.

    A module holds a function ``command``; one of several commands holds them in ``app``, and
    ``command`` has their common help.
    """
    if name in VERBS:
        from .derived import derive  # here: other commands need none of it

        made = _single(name, derive(name))
        examples = VERBS[name].examples
    else:
        module = import_module(f".{name}", __package__)
        examples = getattr(module, "EXAMPLES", ())
        if hasattr(module, "app"):
            module.app.callback()(module.command)
            made = get_command(module.app)
        else:
            made = _single(name, module.command)
    for inner, command in {"": made, **getattr(made, "commands", {})}.items():
        named = f"flopcast {name} {inner}".strip()
        examples_of_command = [
            one for one in examples if f"{one} ".startswith(f"{named} ")
        ] or examples
        if examples_of_command:
            command.epilog = "\n\n".join(
                ["Examples:", *(f"    {one}" for one in examples_of_command)]
            )
        else:
            command.epilog = None
    return _legible(made)


def _single(name: str, command: Callable[..., Any]) -> Any:
    """Return a function as a command by itself."""
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    single.command(name)(opt.run_command(command))
    return get_command(single)


def _plain(error: typer.BadParameter) -> str:
    """Return what is wrong with a value in plain words, and the value: typer's come from pydantic."""
    text = error.message.rstrip(".").removeprefix("Value error, ").partition(", unable to parse")[0]
    text = text.replace("Input should be", "must be", 1).replace(
        "greater than or equal to", "at least", 1
    )
    given = [one["input"] for one in getattr(error.__cause__, "errors", list)()]
    if given and text.startswith("must"):
        return f"{text}, got {given[0]!r}"
    return text


def _legible(command: Any) -> Any:
    """Return a command whose complaints about its arguments can be shown, of a value as one line."""

    def spelled(call: Callable[..., Any]) -> Callable[..., Any]:
        def careful(*args: Any, **kwargs: Any) -> Any:
            try:
                return call(*args, **kwargs)
            except Exception as error:
                if (
                    isinstance(error, typer.BadParameter)
                    and error.param is not None
                    and error.message
                ):
                    named = opt.documented(error.param.opts) or max(error.param.opts, key=len)
                    opt.refuse(f"{named} {_plain(error)}")
                if isinstance(given := getattr(error, "message", None), str):
                    error.message = visible(given)  # pyrefly: ignore[missing-attribute]
                raise

        return careful

    for one in (*command.params, command.get_help_option(typer.Context(command))):
        if getattr(one, "is_flag", False):
            one.metavar = ""  # typer's own, <bool>, asks for a value that is then read as a file
        elif one.param_type_name == "argument":
            one.display_type_rich = lambda ctx: None  # beside its name typer has <list[Path]>
        elif one.metavar is None:
            one.metavar = _METAVARS.get(one.bare_type())
        if isinstance(getattr(one, "show_default", None), str):
            one._get_default_string = _as_it_is(one.show_default)  # typer's has brackets around it
    if command.help:
        command.help = "\n\n".join(_paragraphs(command.help))
    command.make_context = spelled(_complete(command))
    command.invoke = spelled(command.invoke)
    for inner in getattr(command, "commands", {}).values():
        _legible(inner)
    return command


_METAVARS: Final = {"str": "WORD", "int": "N", "float": "NUMBER", "Path": "PATH"}
"""What stands for a value whose option says nothing of it, in place of typer's ``<str>``."""


def _as_it_is(default: str) -> Callable[..., str]:
    return lambda **_: default


def _paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a help, each in one line: terminals are of any width."""
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]


def _complete(command: Any) -> Callable[..., Any]:
    """Return `make_context` of a command, which refuses an option given twice, and says all that is missing at once."""
    make = command.make_context

    def careful(name: str | None, args: list[str], *rest: Any, **kwargs: Any) -> Any:
        if "--" in args:
            words = args[: args.index("--")]
        else:
            words = [*args]
        for one in () if hasattr(command, "commands") else command.params:
            if one.param_type_name == "option" and not (one.multiple or one.is_flag or one.count):
                given = [word for word in words if word.partition("=")[0] in one.opts]
                if len(given) > 1:
                    opt.refuse(
                        f"{opt.documented(one.opts)} is given {len(given)} times and takes one "
                        "value"
                    )
        try:
            return make(name, args, *rest, **kwargs)
        except Exception as error:
            if type(error).__name__ != "MissingParameter":
                raise
            missed = error.param  # pyrefly: ignore[missing-attribute]
            order = [
                one for one in command.params if one.required and one.param_type_name == "argument"
            ]
            # an argument's place is all that tells it
            if missed in order:
                later = order[order.index(missed) :]
            else:
                later = []
            options = [
                one for one in command.params if one.required and {*one.opts}.isdisjoint(words)
            ]
            names = [one.metavar or str(one.name) for one in later]
            names += [
                opt.documented(one.opts) for one in options if one.param_type_name == "option"
            ]
            opt.refuse(f"{' and '.join(names)} must be given: see --help")

    return careful


class _Unloaded(TyperCommand):
    """What stands for a command until it is called: its name and the first line of its help."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Parse the arguments as the command itself does."""
        try:
            command = load(str(self.name))
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            raise typer.Exit(opt.INTERRUPTED) from None
        return command.make_context(info_name, args, parent=parent, **extra)


def _unloaded() -> None:
    """Stand for a command; never called."""


app = typer.Typer(
    name="flopcast",
    help="Predict GPU kernel times on other GPUs, at other sizes and for new workloads, from measured profiles.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)
for _name, (_help, _panel) in _READ.items():
    app.command(_name, cls=_Unloaded, help=_help, rich_help_panel=_panel)(_unloaded)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"flopcast {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    context: typer.Context,
    version: Annotated[
        bool, opt.option("Print the version.", spelt="--version", callback=_version, is_eager=True)
    ] = (False),
) -> None:
    """Options of the command itself."""
    if context.invoked_subcommand is None:
        print(START)


def main() -> None:
    """Run the command line."""
    _run(lambda: _legible(get_command(app)).main(prog_name="flopcast"))


def script(name: str) -> None:
    """Run one command, as a script of its name does."""
    _run(lambda: load(name).main(sys.argv[1:], prog_name=f"{name}.py"))


def _run(command: Callable[[], Any]) -> None:
    """Run a command; what ends it (Ctrl-C, the end of a batch job) lets it remove its unfinished files."""
    for stream in (sys.stdout, sys.stderr):  # one of ASCII gets ? for the signs that it cannot show
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    # before NumPy is imported: its products are small here, and more threads would wait for each
    # other
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.meta_path.insert(0, opt.MemoryFirst())
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        command()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(opt.INTERRUPTED)
    except Exception:  # a bug, whose message may hold what the data hold
        print(visible(traceback.format_exc()), end="", file=sys.stderr)
        sys.exit(1)
    finally:
        signal.signal(signal.SIGTERM, before)
