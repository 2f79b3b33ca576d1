"""How calls run, set once for a program or a block: processes, cluster, progress, level of intervals, seed.

`config` sets them; `configured` lets a function take them in place of keywords that it is not given. `spelt_out`
spells the keywords out that functions share.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from functools import wraps
from inspect import Parameter, signature, unwrap
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeAlias, TypeVar, cast

from .allowed import Declared, declared_keywords
from .errors import DataError, check_jobs, check_level, check_number, check_progress, nearest

if TYPE_CHECKING:  # an extra
    from types import FunctionType

    from distributed import Client

P = ParamSpec("P")
R = TypeVar("R")
Report: TypeAlias = Callable[[int, int, str, float], None]
"""Called as ``report(done, total, label, eta_seconds)`` whenever something is done."""
NAMES: Final = ("jobs", "cluster", "progress", "interval", "seed")
_SETTINGS: ContextVar[Mapping[str, Any]] = ContextVar("settings", default={})  # noqa: B039


class _Block(AbstractContextManager[None]):
    """What `config` returns: a block that has the settings, and after which those before are back.

    Its text is the settings that hold now.
    """

    def __init__(self, stated: Mapping[str, Any], before: Mapping[str, Any]) -> None:
        self._stated = stated
        self._first: Mapping[str, Any] | None = before
        self._befores: list[Mapping[str, Any]] = []

    def __enter__(self) -> None:
        """Begin the block, again where it has been entered: `config` set the settings the first time."""
        settings = _SETTINGS.get()
        if self._first is None:
            self._befores.append(settings)
            _SETTINGS.set({**settings, **self._stated})
        else:
            self._befores.append(self._first)
            self._first = None

    def __exit__(self, *_: object) -> None:
        """Set the settings that were before this block."""
        _SETTINGS.set(self._befores.pop())

    def __repr__(self) -> str:
        settings = _SETTINGS.get()
        stated = [f"{name}={settings[name]!r}" for name in NAMES if name in settings]
        if not stated:
            return f"config(): nothing is set, of {', '.join(NAMES)}"
        return f"config({', '.join(stated)})"


def config(
    *,
    jobs: int | None = None,
    cluster: str | Client | None = None,
    progress: Report | None = None,
    interval: float | None = None,
    seed: int | None = None,
) -> AbstractContextManager[None]:
    """Set how calls run, from now on or within a ``with`` block; without settings, say which hold.

    Every function that has a keyword of such a name takes the setting where the keyword is not
    given; a keyword that is given wins. A setting holds in the thread, or the asynchronous task,
    that sets it. What is left out stays as it was.

    Parameters
    ----------
    jobs : int, optional
        Processes, -1: one per core.
    cluster : str or distributed.Client, optional
        Dask scheduler whose workers do the work, as for `train`.
    progress : callable, optional
        Told of long work as ``progress(done, total, label, eta_seconds)``.
    interval : float, optional
        Level of intervals, from 0.005 to 0.995.
    seed : int, optional
        Seed of everything random, 0 or more.

    Returns
    -------
    context manager
        At the end of its block the settings from before this call are back. Entered again, the
        block has the settings again.

    Raises
    ------
    ParameterError
        A setting is out of its range, or of another type.

    Examples
    --------
    >>> import flopcast as fc
    >>> with fc.config(jobs=1, seed=7):
    ...     run = fc.train(where={"m": (None, 64)}, models=["OLS"])
    >>> run.provenance["seed"]
    7
    >>> with fc.config(jobs=1, seed=7):
    ...     fc.config()
    config(jobs=1, seed=7)
    """
    given = locals()
    Declared.of(config).check((), given)
    if jobs is not None:
        check_jobs(jobs)
    if progress is not None:
        check_progress(progress)
    if seed is not None:
        check_number("seed", seed, 0)
    if interval is not None:
        check_level(interval)
    stated = {name: value for name, value in given.items() if value is not None}
    before = _SETTINGS.get()
    _SETTINGS.set({**before, **stated})
    return _Block(stated, before)


def configured(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with the settings of `config` in place of keywords that it is not given.

    A value that its annotation does not allow is refused before the function begins, and a text that is too long for
    the name of a file wherever the function looks for the file.
    """
    names = [name for name in NAMES if name in (function.__kwdefaults__ or {})]
    declared = Declared.of(function)

    @wraps(function)
    def called(*args: P.args, **given: P.kwargs) -> R:
        settings = _SETTINGS.get()
        for name in names:
            if name in settings:
                given.setdefault(name, settings[name])
        declared.check(args, given)
        try:
            return function(*args, **given)
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            what = "is too long for the name of a file: choose a shorter one"
            raise DataError(what, source=str(error.filename)) from error

    return called


def spelt_out(function: Callable[P, R]) -> Callable[P, R]:
    """Let the signature of a function spell out the kind of its ``**keywords: Unpack[KIND]``.

    Other keywords are refused, and values that the kind does not allow. What pandas calls missing is not given.
    """
    stated = signature(function)
    parameters = {}
    fields: Any = None
    for name, parameter in stated.parameters.items():
        if parameter.kind is Parameter.VAR_KEYWORD:
            kind = str(parameter.annotation).removeprefix("Unpack[").removesuffix("]")
            fields = cast("FunctionType", unwrap(function)).__globals__[kind]
        else:
            parameters[name] = parameter
    for name, annotation in fields.__annotations__.items():
        default = None
        if name == "keep":
            default = ()
        parameters[name] = Parameter(
            name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation.__forward_arg__
        )
    declared = declared_keywords(fields, parameters)

    @wraps(function)
    def called(*args: P.args, **given: P.kwargs) -> R:
        for name in given.keys() - parameters.keys():
            problem = f"got an unexpected keyword argument {name!r}: {nearest(name, parameters)}"
            raise TypeError(f"{function.__name__}() {problem}")
        for name in fields.__annotations__:
            if type(given.get(name)).__name__ == "NAType":  # of a row of a table: not given
                del given[name]
        for fields_of_module in declared:
            fields_of_module.check((), given)
        return function(*args, **given)

    vars(called)["__signature__"] = stated.replace(parameters=[*parameters.values()])
    return called
