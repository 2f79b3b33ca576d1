"""Options that train, predict and validate share: from words on the command line to tables and devices."""

from __future__ import annotations

import functools
import glob
import inspect
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    NoReturn,
    ParamSpec,
    TextIO,
    cast,
    get_type_hints,
)

import typer
from typer.models import ArgumentInfo

if sys.platform != "win32":  # where a process has no such limit
    import resource

from ..errors import DataError, FlopcastError, ParameterError, UnknownGPUError, few
from ..hardware import GPU, Comparison, all_gpus, find, others_named
from ..output import check_output, replacing
from ..remarks import visible
from ..report.spelling import as_options
from ..table.conditions import conditions
from .declared import said

if TYPE_CHECKING:  # what options are checked with need not import what shows results
    from ..report.result import Result

P = ParamSpec("P")
# exit codes: the user got something wrong; Ctrl-C (128 + SIGINT, as shells report it)
USER_ERROR = 2
INTERRUPTED = 130
_LEAST_MEMORY: Final = {"numpy": 15 * 2**25, "scipy": 2**30}
"""Bytes that must be allowed before a library is imported: tables map 0.45 GiB, a small training 0.8."""
_ROOM: Final = "allow more, or give fewer rows at a time"
_SHOWN_ONLY = (
    "out",
    "force",
    "chakra",
    "jobs",
    "cluster",
    "resume",
    "as_json",
    "every",
    "quiet",
    "top",
    "plot",
)
"""Parameters of commands that change no result, but where it goes and how it is told."""
_WRITES = ("out", "script", "removed", "corrected", "chakra")
"""Parameters of commands that say where a result goes: who has one has ``--force`` too."""
_GPUS = ("host", "target", "gpu", "measured_on", "names")  # parameters of commands that name GPUs


def gpu_names(incomplete: str) -> list[str]:
    """Return the GPUs of the catalogue whose names go on from what was typed, in any case.

    Hyphens stand for the blanks in names, at which a shell would part them.

    >>> gpu_names("MI300X,mi35")
    ['MI300X,mi350X', 'MI300X,mi355X']
    """
    typed = incomplete.rpartition(",")[2]
    names = (gpu.name.replace(" ", "-") for gpu in all_gpus())
    return [
        incomplete + name[len(typed) :]
        for name in names
        if name.casefold().startswith(typed.casefold())
    ]


def model_names(incomplete: str) -> list[str]:
    """Return the models of language of the list whose names go on from what was typed."""
    from ..workloads.model_catalogue import names  # here: only a shell that completes asks

    return [name for name in names() if name.startswith(incomplete.casefold())]


def column_names(incomplete: str) -> list[str]:
    """Return the columns of the measurement table that go on from what was typed, each with its equals sign."""
    from ..api.tables import schema  # here: it takes seconds, and only a shell that completes asks

    return [
        f"{name}="
        for name in dict.fromkeys(schema().index.get_level_values("column"))
        if name.startswith(incomplete)
    ]


def option(
    text: str,
    metavar: str | None = None,
    panel: str | None = None,
    *,
    spelt: str = "",
    shown: str | bool = True,
    **how: Any,
) -> Any:
    """Return an option of a command: its help, what stands for its value, and its panel of the help.

    It is ``spelt`` as given (``--out -o``) where that is not its keyword; ``shown`` is what the
    help says of its default, True for the default itself; all else as `typer.Option` takes it.
    """
    return typer.Option(
        *spelt.split(), metavar=metavar, help=text, rich_help_panel=panel, show_default=shown, **how
    )


AGAIN = "Repeatable."  # ends the help of an option that may be given several times
# panels of the help: common options stand before both
DATA = "How data are read"
MORE = "More options"
DataArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="DATA", help="Measured files and folders, any mix. None: the embedded measurements."
    ),
]
HostOption = Annotated[
    str | None,
    option(
        said("train", "host"),
        "GPU",
        shown=False,
        autocompletion=gpu_names,
    ),
]
TARGET: Final = "Device to predict: a name or a TOML file."
TargetOption = Annotated[
    str | None,
    option(
        said("train", "target"),
        "GPU",
        shown=False,
        autocompletion=gpu_names,
    ),
]
PriorOption = Annotated[
    Path | None,
    option(
        said("train", "prior_run"),
        "RUN",
        MORE,
        spelt="--from --prior-run",
    ),
]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder that train wrote.")]
WhereOption = Annotated[
    list[str] | None,
    option(
        f"{said('read', 'where')} {AGAIN}",
        "COLUMN=VALUE",
        autocompletion=column_names,
    ),
]
GroupOption = Annotated[
    str | None,
    option(
        said("train", "group"),
        *("COLUMN[,COLUMN]", DATA),
        shown="by operator; of a run as it was trained",
    ),
]
UnitOption = Annotated[
    list[str] | None,
    option(
        f"{said('read', 'unit')} {AGAIN}",
        "COLUMN=UNIT",
        DATA,
    ),
]
DefaultOption = Annotated[
    list[str] | None,
    option(f"{said('read', 'default')} {AGAIN}", "COLUMN=VALUE", DATA),
]
RenameOption = Annotated[
    list[str] | None,
    option(
        f"{said('read', 'rename')} {AGAIN}",
        "NAME=COLUMN",
        DATA,
        spelt="--rename",
    ),
]
MetricOption = Annotated[str, option(said("train", "metric"), "COLUMN", DATA)]
EachOption = Annotated[
    bool,
    option(
        said("read", "each"),
        panel=DATA,
        spelt="--each",
    ),
]
KeepOption = Annotated[
    list[str] | None,
    option(
        said("read", "keep"),
        "impossible",
        DATA,
    ),
]
TargetCostOption = Annotated[
    str | None,
    option(
        said("train", "target_cost"),
        "COLUMN",
        DATA,
    ),
]
WithoutFeaturesOption = Annotated[
    list[str] | None,
    option(f"{said('train', 'without_features')} {AGAIN}", "PATTERN", MORE),
]
MarginOption = Annotated[float, option(said("validate", "margin"))]
SeedOption = Annotated[
    int,
    option(said("train", "seed"), "N", MORE, min=0),
]
IntervalOption = Annotated[float, option(said("predict", "interval"), "LEVEL")]
NeedOption = Annotated[
    float | None,
    option(said("needed", "need"), "PART", MORE),
]


ForceOption = Annotated[
    bool,
    option(
        "Replace files that flopcast did not write; never those that are read.",
        panel=MORE,
        spelt="--force",
    ),
]


def check_needed(need: float | None) -> None:
    """Raise a ParameterError for a half-width that nobody can need, before anything is computed."""
    if need is not None:
        from ..evaluation.advising import check_need  # here: it imports pandas

        check_need(need)


BudgetOption = Annotated[str | None, option(said("train", "budget"), "TIME")]
DeviceOption = Annotated[
    str | None,
    option(
        "As PyTorch names it: cuda:0 and the like (ROCm's GPUs, too), or cpu.",
        shown="the first GPU",
    ),
]
SizesOption = Annotated[str | None, option(said("scale", "sizes"), "SIZE[,SIZE]")]
JobsOption = Annotated[int, option(said("train", "jobs"), panel=MORE)]
ClusterOption = Annotated[
    str | None,
    option(said("train", "cluster"), "ADDRESS", MORE),
]
JsonOption = Annotated[bool, option("Print JSON instead of tables.", spelt="--json")]
PlotOption = Annotated[
    bool,
    option("Draw the inlier curve, and observed against predicted.", panel=MORE, spelt="--plot"),
]
AllOption = Annotated[
    bool,
    option("Print everything: all tables and remarks, beyond the first screen.", spelt="--all"),
]
ShortOption = Annotated[
    bool, option("Print the answer alone, in a few lines.", panel=MORE, spelt="--short")
]
TopOption = Annotated[int, option("Features to print with --all.", "N", MORE, min=0)]
ChakraOption = Annotated[
    Path | None,
    option("Write chakra.RANK.et there, which simulators of networks run.", "FOLDER", MORE),
]
ResumeOption = Annotated[
    bool, option("Go on with what was begun of --out and interrupted.", spelt="--resume")
]
QuietOption = Annotated[bool, option("Show no progress.", panel=MORE, spelt="--quiet")]


def parse_where(texts: list[str] | None) -> list[str] | None:
    """Return conditions on columns as they are given, None for none.

    Raises ParameterError: one is not ``COLUMN=VALUE[,VALUE]``, or a range holds nothing.
    """
    conditions(texts)
    return texts or None


def parse_gpu(gpu: str | None) -> GPU | None:
    """Return the GPU of a name or TOML file, None where none is given.

    Raises FlopcastError: no GPU answers to the name, or the file describes none.
    """
    if gpu is None:
        return None
    return find(gpu)


def named_or_measured(gpu: str | None, data: list[Path], *, several: bool = False) -> Any:
    """Return the GPU of a name or TOML file, for ``all`` what stands for every one; with ``several`` those of a list.

    A name that ``data`` may know stays as it is. Raises as `parse_gpu`.
    """
    if Comparison.means_all(gpu):
        return Comparison.MANY
    if several and gpu is not None and "," in gpu:
        return [find(name.strip()) for name in gpu.split(",")]
    try:
        return parse_gpu(gpu)
    except UnknownGPUError:
        if gpu is None or "," in gpu or not data:
            raise
        return gpu


def check_data(paths: list[Path] | None) -> list[Path] | None:
    """Return the files and folders of data, all of which must exist; None for the embedded measurements.

    Raises DataError: one does not exist.
    """
    for path in paths or ():
        if not path.exists():
            raise DataError("no such file or folder", source=str(path))
    return paths or None


def run_command(command: Callable[P, Any]) -> Callable[P, None]:
    """Wrap a command: what the user got wrong ends as one line on stderr and exit code 2, Ctrl-C as 130.

    The signature is that of ``command``, so that typer reads its options, with ``--force`` where it
    writes something.
    """

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        given = getattr(kwargs.get("context"), "params", {})
        # typer 0.26 leaves paths as texts
        given.update((name, kwargs[name]) for name in given.keys() & kwargs.keys())
        force = bool(kwargs.pop("force", False))
        try:
            with warnings.catch_warnings():
                warnings.showwarning = functools.partial(_noted, set())
                _note_short_names(kwargs)
                with replacing(overwrite=force, reads=_read_by(kwargs)):
                    command(*args, **kwargs)
        except ParameterError as error:
            refuse(error.message(lambda name: _spelt(name, command)))
        except FlopcastError as error:
            if isinstance(error.__cause__, MemoryError):  # no damage, whatever could not be read
                refuse(f"the memory is used up: {_ROOM}")
            refuse(str(error))
        except OSError as error:
            where = ""
            if error.filename:
                where = f"{error.filename}: "
            refuse(f"{where}{error.strerror or error}")
        except MemoryError:
            refuse(f"the memory is used up: {_ROOM}")
        except KeyboardInterrupt:
            print(_again(cast("typer.Context | None", kwargs.get("context"))), file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if not _is_killed_worker(error):
                raise
            refuse("a process was killed, most likely for memory: try --jobs 1 or fewer models")

    _add_force(wrapped)
    return wrapped


class MemoryFirst(MetaPathFinder):
    """Refuses to import numeric libraries where the shell allows less memory than they take.

    OpenBLAS would ask for its own forever. Commands that show a table alone (``gpus``) take less
    than those that learn, and help takes none of them.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Find nothing; refuse where too little memory is allowed."""
        if fullname not in _LEAST_MEMORY or sys.platform == "win32":
            return
        allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
        if 0 <= allowed < _LEAST_MEMORY[fullname]:  # no limit is -1
            refuse(f"{allowed // 2**20:,} MiB of memory are allowed (ulimit -v): {_ROOM}")


def _add_force(command: Callable[..., None]) -> None:
    """Give a command the option ``--force`` if it writes something."""
    # as typer does, which does not do it to what is set here
    signature = inspect.signature(command, eval_str=True)
    if signature.parameters.keys().isdisjoint(_WRITES):
        return
    force = inspect.Parameter(
        "force", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=ForceOption
    )
    vars(command)["__signature__"] = signature.replace(
        parameters=[*signature.parameters.values(), force]
    )
    command.__annotations__ = {**command.__annotations__, "force": ForceOption}


def _read_by(given: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the files and folders that a command is given to read, texts that name a file too (``device=a.toml``)."""
    for name, value in given.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            if name in _WRITES or not isinstance(one, str | Path):
                continue
            text = str(one)
            for place in (text, text.partition("=")[2]):
                if os.path.isfile(place) or (isinstance(one, Path) and os.path.isdir(place)):
                    yield Path(place)


def _note_short_names(given: Mapping[str, Any]) -> None:
    """Say which GPU a short name is taken for, where it could mean others: ``H100``."""
    named = [given[key] for key in _GPUS if given.get(key)]
    texts = []
    for one in named:
        for text in one if isinstance(one, list | tuple) else [one]:
            texts.append(text)
    for name in dict.fromkeys(part.strip() for text in texts for part in str(text).split(",")):
        others = others_named(name)
        if others:
            print(
                f"note: {name} is taken for {find(name).name}, not for {' or '.join(others)}",
                file=sys.stderr,
            )


def _again(context: typer.Context | None) -> str:
    """Return what Ctrl-C has left, and what goes on; a command that keeps parts of its work says so by itself."""
    given = getattr(context, "params", {})
    out = given.get("out")
    if out is not None and (kept := [*out.parent.glob(f"{glob.escape(out.name)}*.fits")]):
        return visible(
            f"interrupted: {few(kept)} keeps the fits done; the same command with --resume goes on"
        )
    if out is None or given.get("parts") or (context and context.command.name == "measure"):
        return "interrupted"
    return f"interrupted: {given['out']} is as it was; the same command starts again"


def _noted(
    said: set[str],
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning that is not among those said, as Python does."""
    text = warnings.formatwarning(message, category, filename, lineno, line)
    if text not in said:
        said.add(text)
        print(text, end="", file=file or sys.stderr)


def _spelt(parameter: str, command: Callable[..., Any]) -> str:
    """Return how a command spells a parameter of the library: arguments in capitals, options with hyphens."""
    kinds = getattr(
        get_type_hints(command, include_extras=True).get(parameter, str), "__metadata__", ()
    )
    if any(isinstance(kind, ArgumentInfo) for kind in kinds):
        return parameter.upper()
    # typer has the first there
    named = [name for kind in kinds for name in (kind.default, *(kind.param_decls or ()))]
    said = [name for name in named if isinstance(name, str) and name.startswith("--")]
    return documented(said) or f"--{parameter.replace('_', '-')}"


def documented(spellings: Sequence[str]) -> str:
    """Return how documents spell an option: the first of its spellings in full; "" where it has none."""
    return next((one for one in spellings if one.startswith("--")), "")


MODEL: Final = "MODEL"
"""What the command of `forecast` is listed as that is meant where no other is named: nobody types it."""


def command_line(context: typer.Context) -> str:
    """Return the command as it was called, options in full and in the order of the help, without `_SHOWN_ONLY`."""
    named = [str(context.command.name)]
    at = context.parent
    while at is not None and at.parent is not None:
        named = [str(at.info_name), *named]
        at = at.parent
    words = ["flopcast", *(one for one in named if one != MODEL)]
    for parameter in context.command.params:
        name = str(parameter.name)
        value = context.params.get(str(parameter.name))
        source = context.get_parameter_source(name)
        if name in _SHOWN_ONLY or source is None or source.name != "COMMANDLINE":
            continue
        if parameter.param_type_name == "argument":
            option = []
        else:
            option = [documented(parameter.opts)]
        if isinstance(value, list | tuple):
            values = value
        else:
            values = [value]
        if not getattr(parameter, "multiple", False) and parameter.nargs == 1:
            values = [",".join(str(each) for each in values)]
        if value is True:
            words += option
        else:
            words += [word for each in values for word in (*option, str(each))]
    return shlex.join(words)


def finish(
    context: typer.Context,
    result: Result,
    out: Path | None,
    *also: Path,
    as_json: bool = False,
    every: bool = False,
) -> None:
    """Write the folder of a result, where one is asked for, and show the result with its files, after others."""
    from ..report.terminal import show

    if out is not None:
        result.save(out, made=made_by(context))
    show(
        result.document(),
        *also,
        *(out / name for name in result.saved_as if out is not None),
        as_json=as_json,
        every=every,
    )


def save_file(context: typer.Context, result: Result, out: Path) -> None:
    """Write a result as one file; a page says what it was made of, for which all that was read is hashed."""
    made = None
    if out.suffix.lower() == ".html":
        made = made_by(context)
    result.save(out, made=made)


def made_by(context: typer.Context) -> dict[str, Any]:
    """Return where the page of a command comes from: the call, the files that it was given, its seed."""
    from ..api.provenance import made_of  # here: it takes time, and only pages need it
    from ..datasets import default_paths

    given = {name: value for name, value in context.params.items() if name not in _SHOWN_ONLY}
    arguments = {
        parameter.name
        for parameter in context.command.params
        if parameter.param_type_name == "argument"
    }
    if "data" in arguments and not given["data"]:  # of an option, none means none
        given["data"] = [Path(one) for one in default_paths()]
    paths = []
    for value in given.values():
        for one in value if isinstance(value, list | tuple) else [value]:
            paths.append(one)
    return made_of(
        command_line(context), [one for one in paths if isinstance(one, Path)], given.get("seed")
    )


def check_chakra(folder: Path | None) -> None:
    """Refuse, before the work, a folder for Chakra traces that holds other files, or that cannot be written."""
    if folder is not None:
        check_output(folder, [one.name for one in folder.glob("chakra.*.et")])


def announce(doing: str, *, quiet: bool = False) -> None:
    """Say on a terminal what begins, before what takes time is imported; a file or a pipe gets results alone."""
    if not quiet and sys.stderr.isatty():
        print(f"{visible(doing)} ...", file=sys.stderr, flush=True)


def _is_killed_worker(error: Exception) -> bool:
    """Whether joblib lost one of its processes; who has not imported it cannot have lost one."""
    if "joblib" not in sys.modules:
        return False
    # here: it takes a quarter of a second
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    return isinstance(error, TerminatedWorkerError)


def refuse(line: str) -> NoReturn:
    """End a command with one line about what the user got wrong."""
    print(f"error: {as_options(visible(' '.join(line.split())))}", file=sys.stderr)
    raise typer.Exit(USER_ERROR) from None
