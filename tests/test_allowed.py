"""A value that an annotation does not allow is refused, with what the parameter takes; its like goes on working."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from inspect import signature
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np
import pandas as pd
import pytest

from flopcast.allowed import Declared
from flopcast.errors import ParameterError

if TYPE_CHECKING:
    from distributed import Client

Texts: TypeAlias = "str | Sequence[str]"
Counts: TypeAlias = Annotated[int | str | Sequence[int], "1,2,4 or 1:8"]


class Word(str):
    """A text of a kind of its own."""

    __slots__ = ()


class Client2:
    """Of another name than the class that is imported for type checkers."""


def taking(
    *rest: str | PathLike[str],
    text: str = "",
    whole: int = 3,
    number: float = 0.5,
    truth: bool = False,
    path: str | Path | None = None,
    texts: Texts | None = None,
    counts: Counts | None = None,
    keep: Collection[str] = (),
    pairs: Mapping[str, float] | None = None,
    pair: tuple[str, int] | None = None,
    several: list[str] | tuple[str, ...] = (),
    unit: Literal["matrix", "vector"] | None = None,
    call: Callable[[int], int] | None = None,
    client: str | Client | None = None,
    anything: Any = None,
) -> None:
    """Take a value of each kind."""


FOREIGN = type("Client", (), {})
DECLARED = Declared.of(taking)
ALLOWED: list[tuple[str, Any]] = [
    ("text", Word("x")),
    ("text", np.str_("x")),
    ("whole", np.int64(3)),
    ("number", 3),
    ("number", np.float32(0.5)),
    ("number", np.int8(1)),
    ("truth", np.True_),
    ("path", "x"),
    ("path", Path("x")),
    ("path", None),
    ("texts", ["a", "b"]),
    ("texts", ("a",)),
    ("texts", pd.Series(["a"])),
    ("texts", pd.Index(["a"])),
    ("texts", {"a": 1}.keys()),
    ("texts", {"a"}),
    ("counts", range(3)),
    ("counts", np.arange(3)),
    ("counts", pd.Series([1, 2])),
    ("counts", "1:8"),
    ("keep", {"a"}),
    ("keep", []),
    ("pairs", {"a": 1, "b": np.float64(2)}),
    ("pairs", {}),
    ("pair", ("a", 1)),
    ("several", ["a"]),
    ("unit", "vector"),
    ("call", len),
    ("client", FOREIGN()),
    ("client", "tcp://x"),
    ("anything", object()),
]
REFUSED: list[tuple[str, Any, str]] = [
    ("text", 3, "must be text, got 3 (int)"),
    ("text", None, "must be text, got None (NoneType)"),
    ("text", b"x", "must be text, got b'x' (bytes)"),
    ("whole", "x", "must be a whole number, such as 3, got 'x' (str)"),
    ("whole", 3.5, "must be a whole number, such as 3, got 3.5 (float)"),
    ("whole", True, "must be a whole number, such as 3, got True (bool)"),
    ("number", "x", "must be a number, such as 0.5, got 'x' (str)"),
    ("number", np.True_, "must be a number, such as 0.5, got"),
    ("number", np.array([1.0]), "must be a number, such as 0.5, got ndarray"),
    ("truth", 1, "must be True or False, got 1 (int)"),
    ("path", [], "must be text or a path, got [] (list)"),
    ("path", {}, "must be text or a path, got {} (dict)"),
    ("texts", [1], "must be text or a list, got [1] (list)"),
    ("texts", {"a": 1}, "must be text or a list"),
    ("texts", pd.Series([1]), "must be text or a list, got Series"),
    ("texts", pd.DataFrame({"a": [1]}), "must be text or a list, got DataFrame"),
    ("counts", [1.5], "must be a whole number, text or a list, such as 1,2,4 or 1:8, got"),
    ("counts", np.ones((2, 2), int), "must be a whole number, text or a list"),
    ("keep", "x", "must be a list, got 'x' (str)"),
    ("pairs", {1: 1.0}, "must be a mapping"),
    ("pairs", {"a": "x"}, "must be a mapping"),
    ("pairs", [("a", 1.0)], "must be a mapping"),
    ("pair", ("a",), "must be a list, got ('a',) (tuple)"),
    ("several", {"a"}, "must be a list"),
    ("unit", "x", "must be 'matrix' or 'vector', got 'x' (str)"),
    ("call", "len", "must be a function, got 'len' (str)"),
    ("client", Client2(), "must be text or Client, got Client2"),
]


@pytest.mark.parametrize(("name", "value"), ALLOWED)
def test_what_an_annotation_allows_is_taken(name: str, value: Any) -> None:
    DECLARED.check((), {name: value})


@pytest.mark.parametrize(("name", "value", "problem"), REFUSED)
def test_what_no_annotation_allows_is_refused(name: str, value: Any, problem: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        DECLARED.check((), {name: value})
    assert refusal.value.parameter == name
    assert refusal.value.problem.startswith(problem)


def test_values_are_told_by_their_places() -> None:
    DECLARED.check(("a", Path("b"), PurePosixPath("c")), {})
    with pytest.raises(ParameterError, match=r"^rest must be text or a path, got 3"):
        DECLARED.check(("a", 3), {"text": "x"})

    def placed(first: str, second: int) -> None:
        """Take two."""

    with pytest.raises(ParameterError, match=r"^second must be a whole number"):
        Declared.of(placed).check(("x", "y"), {})


def test_keywords_that_are_not_declared_are_left_to_others() -> None:
    DECLARED.check((), {"other": object()})
    assert "other" not in signature(taking).parameters
