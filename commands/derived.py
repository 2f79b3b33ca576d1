"""Commands that follow from a function of the API: arguments and options are its parameters, the help its docstring.

`verbs` says of each what is not in the function. What an annotation means on the command line stands in `KINDS`,
once; the options that several commands have are those of `options`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from .. import values
from ..errors import check_drawn, check_margin
from ..output import FILES, check_file, check_output
from ..report.run_folder import check_run_folder
from . import options as opt
from .declared import WORKED_OUT, Declared, Keyword, declared, plain
from .verbs import VERBS


@dataclass(frozen=True)
class Kind:
    """What an annotation means on the command line: type, what stands for a value, how that is read and completed.

    Of ``by_place`` it is an argument, where the function may be told it by its place: what is read is by default.
    """

    parsed: Any
    metavar: str | None = None
    read: Callable[[str, Any], Any] | None = None
    completed: Callable[[str], list[str]] | None = None
    by_place: bool | None = None

    @property
    def is_argument(self) -> bool:
        """Whether it is told by its place."""
        if self.by_place is None:
            return self.parsed is Path
        return self.by_place


def _gpu(_: str, given: str | None) -> Any:
    return opt.parse_gpu(given)


def _where(_: str, given: list[str] | None) -> Any:
    return opt.parse_where(given)


def _listed(_: str, given: list[str] | None) -> list[str]:
    return given or []


def _margin(_: str, given: float) -> float:
    return check_margin(given)


def _drawn(parameter: str, given: str) -> list[int]:
    return check_drawn(values.counts(parameter, given) or [])


def _run_folder(_: str, given: Path | None) -> Path | None:
    if given is not None:
        check_run_folder(given)
    return given


KINDS: Final = {
    "Device": Kind(str, "GPU", _gpu, opt.gpu_names),
    "DeviceName": Kind(str, "GPU"),
    "OneOrMoreDevices": Kind(str, "GPU[,GPU]", None, opt.gpu_names),
    "Where": Kind(list[str], "COLUMN=VALUE", _where),
    "Assigned": Kind(list[str], "NAME=VALUE", values.assigned),
    "AssignedCounts": Kind(list[str], "NAME=N", values.assigned_counts),
    "Collection[str]": Kind(list[str], "WORD", _listed),
    "Names": Kind(str, "NAME[,NAME]", values.names),
    "Columns": Kind(str, "COLUMN[,COLUMN]", values.columns),
    "Column": Kind(str, "COLUMN"),
    "Count": Kind(str, "N"),
    "Counts": Kind(str, "N[,N]|N:N", values.counts),
    "DeviceCount": Kind(str, "N[,N]|N:N", values.counts),
    "Drawn": Kind(str, "N[,N]", _drawn),
    "Numbers": Kind(str, "VALUE[,VALUE]", values.numbers),
    "Devices": Kind(str, "NAME,NAME[,...]", values.names),
    "Duration": Kind(str, "TIME", values.duration),
    "Time": Kind(str, "TIME"),
    "Limit": Kind(str, "TIME|PERCENTILE<TIME"),
    "Rate": Kind(str, "RATE"),
    "Price": Kind(str, "PRICE"),
    "PriceByGPU": Kind(str, "PRICE|GPU=PRICE,..."),
    "Probability": Kind(float, "PART"),
    "Spread | str | float": Kind(str, "MEDIAN[±SPREAD]"),
    "Repeated": Kind(list[str], "[TIMES*]N|NAME,..."),
    "Folder": Kind(Path, "FOLDER"),
    "Beside": Kind(Path, "FILE", by_place=False),
    "By": Kind(str),
    "SizesByName": Kind(str, "NAME=N,..."),
    "Margin": Kind(float, None, _margin),
    "RunFolder": Kind(Path, "FOLDER", _run_folder),
    "RunGiven": Kind(Path, "RUN"),
    "RunsGiven": Kind(list[Path], "RUN"),
    "str | Path | Run": Kind(Path, "RUN"),
    "Models": Kind(str, "NAME[,NAME]", values.names),
    "Features": Kind(str, "COLUMN[,COLUMN]", values.columns),
    "Targets": Kind(str, "GPU"),
    "str | Client": Kind(str, "ADDRESS"),
    "Data | Sequence[Data]": Kind(list[Path], "DATA"),
    "Path | str | RunLike": Kind(Path, "RUN"),
    "Path | str | pd.DataFrame": Kind(Path, "DATA"),
    "Fidelity | Path | str": Kind(str, "RUN|NAME"),
    "tuple[float, float] | Path | str": Kind(str, "HOST:TARGET|FILE"),
    "int | str": Kind(str, "[MEASURED:]NEW"),
    "str | Mapping[str, float]": Kind(str, "NAME=SIGMA,..."),
    "Groups": Kind(list[str], "GROUP", _listed),
    "Sweeps": Kind(list[str], "FIGURE=A:B[:STEP]", _listed),
    "Mapping[str, str]": Kind(list[str], "NAME=VALUE", values.assigned),
    "str | Path": Kind(Path, "FILE"),
    "GPU | str | Path": Kind(str, "GPU", None, opt.gpu_names),
    "KernelName": Kind(str, by_place=True),
    "Size": Kind(str, "SIZE", values.size),
    "bool": Kind(bool),
    "int": Kind(int),
    "float": Kind(float),
    "str": Kind(str),
}
"""Annotation -> what it means; ``X | None`` is an X that may be left out."""
SHARED: Final = {
    "host": opt.HostOption,
    "target": opt.TargetOption,
    "where": opt.WhereOption,
    "group": opt.GroupOption,
    "unit": opt.UnitOption,
    "default": opt.DefaultOption,
    "rename": opt.RenameOption,
    "keep": opt.KeepOption,
    "metric": opt.MetricOption,
    "margin": opt.MarginOption,
    "interval": opt.IntervalOption,
    "seed": opt.SeedOption,
    "budget": opt.BudgetOption,
    "prior_run": opt.PriorOption,
    "jobs": opt.JobsOption,
    "cluster": opt.ClusterOption,
    "each": opt.EachOption,
    "need": opt.NeedOption,
    "target_cost": opt.TargetCostOption,
    "sizes": opt.SizesOption,
    "without_features": opt.WithoutFeaturesOption,
}
"""Options that several commands have: their panels, completion and what stands for their values."""
SHOWN: Final = {"plot": opt.PlotOption, "short": opt.ShortOption, "quiet": opt.QuietOption}
PANELS: Final = (None, opt.DATA, opt.MORE)
NOT_ASKED: Final = ("progress",)  # keywords that have no meaning on a command line


def derive(name: str) -> Callable[..., None]:
    """Return a command as a function whose signature typer reads."""
    verb = VERBS[name]
    made = declared(verb.function or name)
    added = [declared(*function) for function in verb.then]
    keywords = {keyword.name: keyword for keyword in made.keywords}
    for further in added:
        for keyword in further.keywords:
            if not _is_argument(keyword):
                keywords.setdefault(keyword.name, keyword)
    doing = ""
    first = verb.doing
    terminal = list(verb.shows)
    if "progress" in keywords:
        doing = verb.doing or name
        first = ""
        terminal.append("quiet")
    asked = [keyword for keyword in keywords.values() if keyword.name not in NOT_ASKED]

    def run(context: typer.Context, **given: Any) -> None:
        shown = {option: given.pop(option, False) for option in ("every", "as_json", *SHOWN)}
        out = given.pop("out")
        paths = [*_paths(asked, given)]
        _check_place(name, out, paths)
        read = {keyword.name: _read(keyword, given[keyword.name]) for keyword in asked}
        opt.check_data(paths)
        result = _called(made, added, read, doing=doing, first=first, **shown)
        _finish(name, context, result, out, **shown)

    parameters = [_parameter("context", typer.Context, inspect.Parameter.empty)]
    for keyword in asked:
        panel = None
        if keyword.name in verb.more:
            panel = opt.MORE
        parameters.append(_declared_parameter(keyword, panel))
    parameters.append(_parameter("out", Annotated[Path | None, _out_option(name)], None))
    parameters.append(_parameter("every", opt.AllOption, False))
    for option in terminal:
        parameters.append(_parameter(option, SHOWN[option], False))
    parameters.append(_parameter("as_json", opt.JsonOption, False))
    parameters.sort(key=_panel)
    vars(run)["__signature__"] = inspect.Signature(parameters)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = plain(made.text)
    return run


def with_options_of(
    verb: str,
    panels: Mapping[str, Collection[str]],
    without: Collection[str],
    module: str = "",
    also: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a function of the API, which it takes as ``**given``, before its own keywords.

    ``panels`` of the help have the options named; ``without`` these keywords; ``also`` are other names of some.
    `as_taken` reads what is given.
    """
    others: dict[str, list[str]] = {}
    for other, name in (also or {}).items():
        others.setdefault(name, []).append(other)
    panel_of = {}
    for panel, names in panels.items():
        panel_of.update(dict.fromkeys(names, panel))
    derived = []
    for keyword in declared(verb, module).keywords:
        if keyword.name not in without:
            panel = panel_of.get(keyword.name)
            derived.append(_declared_parameter(keyword, panel, others.get(keyword.name, ())))
    derived.sort(key=lambda parameter: _panel(parameter, panels))

    def wrap(command: Callable[..., None]) -> Callable[..., None]:
        first = []
        last = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                last.append(parameter)
            elif parameter.kind is not inspect.Parameter.VAR_KEYWORD:
                first.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        parameters = [*first, *derived, *last]
        vars(command)["__signature__"] = inspect.Signature(parameters)
        command.__annotations__ = {one.name: one.annotation for one in parameters}
        return command

    return wrap


def as_taken(verb: str, given: Mapping[str, Any], module: str = "") -> dict[str, Any]:
    """Return what is given on the command line as the function takes it, without keywords that are not given."""
    taken = {}
    for keyword in declared(verb, module).keywords:
        if keyword.name in given:
            value = _read(keyword, given[keyword.name])
            if value is not None or keyword.default is None:
                taken[keyword.name] = value
    return taken


def _panel(parameter: inspect.Parameter, panels: Iterable[str] = ()) -> int:
    """Return the place of a parameter's panel in the help: common options come first, then a command's ``panels``."""
    (option,) = getattr(parameter.annotation, "__metadata__", (None,))
    order = [None, *(panel for panel in panels if panel not in PANELS), *PANELS[1:]]
    return order.index(getattr(option, "rich_help_panel", None))


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _declared_parameter(
    keyword: Keyword, panel: str | None = None, others: Collection[str] = ()
) -> inspect.Parameter:
    """Return a parameter of the API as an argument or option of the command line, of a panel of the help.

    The option has the ``others`` among its names too.
    """
    if _is_argument(keyword):
        return _argument(keyword)
    if keyword.name in SHARED:
        return _parameter(keyword.name, SHARED[keyword.name], _default(keyword))
    kind = _kind(keyword)
    shown: str | bool = True
    default = keyword.default
    if isinstance(default, tuple):
        shown = ",".join(map(str, default)) or False
        default = None
    elif default is None or default is WORKED_OUT:
        shown = keyword.shown or False
        default = None
    text = keyword.help
    if kind.parsed == list[str] or kind.parsed == list[Path]:
        text = f"{text} {opt.AGAIN}"
    spelt = ""
    if kind.parsed is bool or others:
        spelt = " ".join(map(_spelt, (keyword.name, *others)))
    if kind.parsed is bool and "True" in (str(keyword.default), keyword.shown):
        spelt = f"{spelt}/--no-{_spelt(keyword.name)[2:]}"
        shown = keyword.name.replace("_", "-")
    metavar = kind.metavar
    if kind.parsed is str and keyword.choices:
        metavar = "|".join(keyword.choices)
    option = opt.option(
        text, metavar, panel, shown=shown, spelt=spelt, autocompletion=kind.completed
    )
    if keyword.is_needed:
        return _parameter(keyword.name, Annotated[kind.parsed, option], inspect.Parameter.empty)
    if default is None:
        return _parameter(keyword.name, Annotated[kind.parsed | None, option], None)
    return _parameter(keyword.name, Annotated[kind.parsed, option], default)


def _spelt(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _argument(keyword: Keyword) -> inspect.Parameter:
    needed = not keyword.is_optional
    parsed: Any = Path
    if keyword.is_list:
        parsed = list[Path]
    elif kind := KINDS.get(keyword.annotation.removesuffix(" | None")):
        parsed = kind.parsed
    argument = typer.Argument(metavar=keyword.name.upper(), help=keyword.help)
    if needed:
        return _parameter(keyword.name, Annotated[parsed, argument], inspect.Parameter.empty)
    return _parameter(keyword.name, Annotated[parsed | None, argument], None)


def _default(keyword: Keyword) -> Any:
    """Return the default of an option: of a list that is empty None, of what must be given none."""
    if keyword.is_needed:
        return inspect.Parameter.empty
    if keyword.default == () or keyword.default is WORKED_OUT:
        return None
    return keyword.default


def _is_argument(keyword: Keyword) -> bool:
    """Whether something to read is told by its place; a value that may be is an option all the same."""
    kind = KINDS.get(keyword.annotation.removesuffix(" | None"))
    return keyword.is_positional and (kind is None or kind.is_argument)


def _kind(keyword: Keyword) -> Kind:
    return KINDS[keyword.annotation.removesuffix(" | None")]


def _out_option(name: str) -> Any:
    suffixes = VERBS[name].suffixes
    if suffixes:
        listed = " or ".join(filter(None, (", ".join(suffixes[:-1]), suffixes[-1])))
        return opt.option(f"File to write: {listed}.", spelt="--out -o")
    return opt.option(f"Folder for {' and '.join(_files(name))}.", spelt="--out -o")


def _files(name: str) -> tuple[str, ...]:
    """Return what the folder of a result holds: the files of its kind (`Result.saved_as`)."""
    stem = name.partition(" ")[0]
    files = FILES.get(stem, (f"{stem}.json", f"{stem}.html"))
    if VERBS[name].has_table:
        return files
    return files[:2]


def _check_place(name: str, out: Path | None, paths: list[Path]) -> None:
    """Refuse a place that the result cannot be written to, before the work."""
    if VERBS[name].suffixes:
        check_file(out, VERBS[name].suffixes, paths)
    else:
        check_output(out, _files(name), paths)


def _paths(asked: list[Keyword], given: Mapping[str, Any]) -> list[Path]:
    """Return the files and folders that are given to read."""
    paths = []
    for keyword in asked:
        if keyword.is_list:
            paths += given[keyword.name] or []
        elif _is_argument(keyword) and isinstance(given[keyword.name], Path):
            paths.append(given[keyword.name])
    return paths


def _read(keyword: Keyword, given: Any) -> Any:
    """Return a value as the function takes it; a ParameterError says what is wrong with it."""
    if _is_argument(keyword):
        return given
    read = _kind(keyword).read
    if read is None or (given is None and keyword.default is not None):
        return given
    return read(keyword.name, given)


def _called(
    made: Declared,
    added: list[Declared],
    read: Mapping[str, Any],
    *,
    doing: str,
    first: str,
    as_json: bool,
    quiet: bool = False,
    **_: Any,
) -> Any:
    """Call the function, then those that its result goes through; progress is shown where any of them has it."""
    if "run" in read:
        first = f"loading {read['run']}"
    elif not first:
        first = "reading"
    progress_of: Any = nullcontext()
    if doing:
        from ..report.terminal import shown_progress

        progress_of = shown_progress(doing, first=first, quiet=as_json or quiet)
    else:
        opt.announce(first, quiet=as_json)
    with progress_of as progress:
        function = _function(made)  # here: what it imports takes seconds
        arguments = []
        for keyword in made.keywords:
            if keyword.is_list:
                arguments += read[keyword.name] or []
            elif _is_argument(keyword):
                arguments.append(read[keyword.name])
        result = function(*arguments, **_keywords(made, read, progress))
        for further in added:
            result = _function(further)(result, **_keywords(further, read, progress))
    return result


def _function(made: Declared) -> Callable[..., Any]:
    return getattr(import_module(f"..{made.module}", __package__), made.name)


def _keywords(made: Declared, read: Mapping[str, Any], progress: Any) -> dict[str, Any]:
    """Return the keywords of a function; one that is not given has the function's own default."""
    given = {}
    for keyword in made.keywords:
        if _is_argument(keyword):
            continue
        if keyword.name == "progress":
            given["progress"] = progress
        elif read[keyword.name] is not None or keyword.default is None:
            given[keyword.name] = read[keyword.name]
    return given


def _finish(
    name: str,
    context: typer.Context,
    result: Any,
    out: Path | None,
    *,
    every: bool,
    as_json: bool,
    plot: bool,
    short: bool,
    quiet: bool,
) -> None:
    """Write the result where one is asked for, and show it with what was written."""
    from ..report.terminal import show

    written = [*result.saved_besides]
    rows = None
    if out is not None and VERBS[name].suffixes:
        opt.save_file(context, result, out)
        written.append(out)
        rows = len(result.table)
    elif out is not None:
        result.save(out, made=opt.made_by(context))
        written += [out / file for file in result.saved_as]
    if plot:
        document = result.document(plot=True)
    else:
        document = result.document()
    show(document, *written, as_json=as_json, every=every, short=short, rows=rows)
