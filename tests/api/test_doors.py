"""Every public function and method, every parameter: a value of the wrong type is one line, before any work."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from inspect import unwrap
from typing import Any

import pytest

import flopcast as fc
from flopcast.allowed import Declared
from flopcast.errors import FlopcastError

ODD = [3, 3.5, "x", b"x", [], {}, (1,), object(), True, None, float("nan")]


class BegunError(Exception):
    """The values were let in."""


def public_calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield every public function, and every method of a public class that is its own."""
    for name in fc.__all__:
        public = getattr(fc, name)
        if not inspect.isclass(public):
            if callable(public):
                yield name, public
            continue
        for member in dir(public):
            held = inspect.getattr_static(public, member)
            is_method = isinstance(held, classmethod | staticmethod) or inspect.isfunction(held)
            if is_method and not member.startswith("_") and not issubclass(public, Exception):
                method = getattr(public, member)
                if unwrap(method).__module__.startswith("flopcast."):
                    yield f"{name}.{member}", method


CALLS = dict(public_calls())


def parameters_of(call: Callable[..., Any]) -> list[inspect.Parameter]:
    kept = []
    for parameter in inspect.signature(call).parameters.values():
        if parameter.name != "self" and parameter.kind is not parameter.VAR_KEYWORD:
            kept.append(parameter)
    return kept


class Anybody:
    """Of whom a method is called; it has none of the object's attributes."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def selves(call: Callable[..., Any]) -> list[Any]:
    """Return what a method is called of; it is not looked at before the values are."""
    first = next(iter(inspect.signature(call).parameters), "")
    if first != "self":
        return []
    if call.__qualname__.startswith("GPU."):
        return [fc.gpu("MI300X")]
    return [Anybody()]


def called_with(call: Callable[..., Any], parameter: inspect.Parameter, value: Any) -> None:
    """Call a function with one value; what else it needs is a text, which is looked at after it."""
    places = selves(call)
    if parameter.kind is parameter.VAR_POSITIONAL:
        for before in parameters_of(call):
            if before.kind is before.POSITIONAL_OR_KEYWORD:
                places.append(0.5 if before.annotation == "float" else "x")
        call(*places, value)
        return
    with_value = {parameter.name: value}
    for other in parameters_of(call):
        is_needed = other.default is other.empty and other.kind is not other.VAR_POSITIONAL
        if is_needed and other.name not in with_value:
            with_value[other.name] = "bf16"
    call(*places, **with_value)


@pytest.mark.parametrize("name", CALLS)
def test_a_value_of_a_wrong_type_is_refused_at_the_door(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = CALLS[name]
    checked = Declared.check
    asked = ""

    def check(self: Declared, places: tuple[Any, ...], keywords: Any) -> None:
        checked(self, places, keywords)
        if asked in self:
            raise BegunError

    monkeypatch.setattr(Declared, "check", check)
    for parameter in parameters_of(call):
        asked = parameter.name
        for value in ODD:
            with suppress(FlopcastError, BegunError):  # or it is answered
                called_with(call, parameter, value)
        if parameter.annotation not in ("Any", Any):
            with pytest.raises(FlopcastError):
                called_with(call, parameter, object())
