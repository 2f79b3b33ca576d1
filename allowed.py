"""What annotations allow: a value of another type is refused in one line, before a function begins.

`Declared` has the parameters of a function, or keywords that several share. Whoever wraps the functions of the API
(`settings`, `report.result`) asks it about what they are given.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from inspect import Parameter, signature, unwrap
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin, is_typeddict

from .errors import ParameterError

_WORDS: Final = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    bytes: "bytes",
    NoneType: "None",
    Path: "a path",
    PathLike: "a path",
}
_SHOWN: Final = (str, bytes, int, float, complex, list, tuple, dict, set, frozenset, NoneType)
"""Types whose values are shown; of others the name of the type says enough."""


class Declared:
    """Parameters by name, each with its annotation: values that it does not allow are refused.

    Parameters
    ----------
    parameters : mapping of str to Parameter
        As of a signature; annotations are texts, or types.
    home : mapping
        The names of the module that the annotations stand in.
    """

    def __init__(self, parameters: Mapping[str, Parameter], home: Mapping[str, Any]) -> None:
        self._parameters = parameters
        self._home = home

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Declared:
        """Return the parameters of a function; those that it hands on to another are declared there."""
        parameters = dict(signature(function).parameters)
        for name, parameter in signature(function).parameters.items():
            if parameter.kind is Parameter.VAR_KEYWORD:
                del parameters[name]
        return cls(parameters, cast("Any", unwrap(function)).__globals__)

    def check(self, places: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
        """Refuse a value that its annotation does not allow.

        Raises ParameterError: it names the parameter, what it takes, and what it is given.
        """
        given = [*zip(self._by_place, places, strict=False)]
        if self._rest is not None:
            given += [(self._rest, value) for value in places[len(self._by_place) :]]
        for name, value in keywords.items():
            if name in self:
                given.append((name, value))
        for name, value in given:
            kind = self._kinds[name]
            if not _allows(kind, value):
                raise ParameterError(name, self._problem(name, kind, value))

    def __contains__(self, name: str) -> bool:
        """Say whether a parameter of the name is declared here."""
        return name in self._parameters

    @cached_property
    def _by_place(self) -> list[str]:
        names = []
        for name, parameter in self._parameters.items():
            if parameter.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
                names.append(name)
        return names

    @cached_property
    def _rest(self) -> str | None:
        """The parameter that takes what stands at further places."""
        for name, parameter in self._parameters.items():
            if parameter.kind is Parameter.VAR_POSITIONAL:
                return name
        return None

    @cached_property
    def _kinds(self) -> dict[str, Any]:
        """The annotations as types, read when a function is first called: at import not all have their names."""
        kinds = {}
        for name, parameter in self._parameters.items():
            kinds[name] = _resolved(parameter.annotation, self._home)
        return kinds

    def _problem(self, name: str, kind: Any, value: Any) -> str:
        kinds = _alternatives(kind)
        words = list(dict.fromkeys(_words(one) for one in kinds if one is not NoneType))
        takes = " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
        example = _example(kind)
        default = self._parameters[name].default
        is_stated = default not in (Parameter.empty, True)
        if not example and is_stated and default:
            example = repr(default)
        if example:
            takes += f", such as {example}"
        got = type(value).__name__
        if isinstance(value, _SHOWN):
            got = f"{value!r:.40} ({got})"
        return f"must be {takes}, got {got}"


class _Named(type):
    """The class of a name that is imported for type checkers alone: its values are told by the name of their class."""

    def __instancecheck__(cls, value: object) -> bool:
        return any(base.__name__ == cls.__name__ for base in type(value).__mro__)


class _Names(Mapping[str, Any]):
    """What the names in an annotation mean."""

    def __init__(self, home: Mapping[str, Any]) -> None:
        self._home = home

    def __getitem__(self, name: str) -> Any:
        if name in self._home:
            return _resolved(self._home[name], self._home)
        if hasattr(builtins, name):
            return getattr(builtins, name)
        if name.startswith("__"):
            raise KeyError(name)
        return _Named(name, (), {})

    def __iter__(self) -> Any:
        return iter(self._home)

    def __len__(self) -> int:
        return len(self._home)


def _resolved(annotation: Any, home: Mapping[str, Any]) -> Any:
    """Return the type that an annotation is, which may be the text of one; without an annotation any."""
    if annotation is Parameter.empty:
        return Any
    if isinstance(annotation, str):
        return eval(annotation, {}, _Names(home))
    return annotation


def declared_keywords(kind: Any, parameters: Mapping[str, Parameter]) -> list[Declared]:
    """Return what a kind of keywords (a TypedDict) declares, by the modules that its fields are written in."""
    homes: dict[str, dict[str, Parameter]] = {}
    for name, annotation in kind.__annotations__.items():
        home = annotation.__forward_module__ or kind.__module__
        homes.setdefault(home, {})[name] = parameters[name]
    return [Declared(fields, vars(sys.modules[home])) for home, fields in homes.items()]


def _alternatives(kind: Any) -> list[Any]:
    """Return the types of which a value must have one."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _alternatives(get_args(kind)[0])
    if origin in (Union, UnionType):
        alternatives = []
        for inner in get_args(kind):
            for one in _alternatives(inner):
                if one not in alternatives:
                    alternatives.append(one)
        return alternatives
    return [kind]


def _example(kind: Any) -> str:
    """Return the example that an annotation has, "" where it has none."""
    if get_origin(kind) is Annotated:
        return str(get_args(kind)[1])
    if get_origin(kind) in (Union, UnionType):
        for inner in get_args(kind):
            example = _example(inner)
            if example:
                return example
    return ""


def _words(kind: Any) -> str:
    """Return what a type is called in a message."""
    origin = get_origin(kind) or kind
    if origin is Literal:
        return " or ".join(map(repr, get_args(kind)))
    if origin in _WORDS:
        return _WORDS[origin]
    if origin is cast("Any", Callable):
        return "a function"
    if is_typeddict(origin) or issubclass(origin, Mapping):
        return "a mapping"
    if _is_collection(origin):
        return "a list"
    return origin.__name__


def _is_collection(origin: Any) -> bool:
    return origin in (list, tuple, set, frozenset) or (
        getattr(origin, "__module__", "") == "collections.abc"
    )


def _allows(kind: Any, value: Any) -> bool:
    """Say whether a value is of a type, its elements too."""
    return any(_is_of(one, value) for one in _alternatives(kind))


def _is_of(kind: Any, value: Any) -> bool:
    origin = get_origin(kind) or kind
    inner = get_args(kind)
    if origin is Any:
        return True
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if origin in (int, float):
        number: Any = Real
        if origin is int:
            number = Integral
        return isinstance(value, number) and not isinstance(value, bool)
    if origin is bool:
        return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")
    if origin is Path:
        return isinstance(value, PathLike)
    if origin is cast("Any", Callable):
        return callable(value)
    if is_typeddict(origin):
        return isinstance(value, Mapping)
    if issubclass(origin, Mapping):
        return isinstance(value, Mapping) and _holds_pairs(inner, value)
    if _is_collection(origin):
        return _holds(origin, inner, value)
    if getattr(origin, "_is_protocol", False):
        return all(hasattr(value, name) for name in _members(origin))
    return isinstance(value, origin)


def _members(protocol: type) -> list[str]:
    """Return the public names that a protocol asks for."""
    names = [*protocol.__annotations__, *vars(protocol)]
    return [name for name in names if not name.startswith("_")]


def _holds_pairs(inner: tuple[Any, ...], value: Mapping[Any, Any]) -> bool:
    if not inner:
        return True
    key_kind, kind = inner
    keys_fit = all(_allows(key_kind, key) for key in value)
    return keys_fit and all(_allows(kind, held) for held in value.values())


def _holds(origin: Any, inner: tuple[Any, ...], value: Any) -> bool:
    """Say whether a value is a collection of such elements; text, pairs and tables are none."""
    if isinstance(value, str | bytes | Mapping) or getattr(value, "ndim", 1) != 1:
        return False
    if origin in (list, tuple, set, frozenset):
        if not isinstance(value, origin):
            return False
    elif not isinstance(value, Collection):
        return False
    if not inner:
        return True
    if origin is tuple and inner[-1] is not Ellipsis:
        if len(inner) != len(value):
            return False
        return all(map(_allows, inner, value))
    for element in value:
        if not _allows(inner[0], element):
            return False
        if getattr(getattr(value, "dtype", None), "kind", "O") != "O":  # all others are of its type
            break
    return True
