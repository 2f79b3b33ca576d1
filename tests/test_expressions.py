"""Regular expressions read data of others: none takes longer than in proportion to what it reads.

Every expression of the package is tried as it is used (from the start of a text, or anywhere within it) on texts made
from its own parts: what fits before a repetition, then many of what is repeated, then an end that does not fit.
"""

from __future__ import annotations

import ast
import importlib
import re
import re._constants as code  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.no_cover  # the source is read, and time is taken
ROOT = Path(__file__).parents[1]
SIZES = (60, 600, 4000)
MOST_SECONDS = 0.02
"""For the longest text: linear expressions take a thousandth of a second."""
BOUNDED = {"flopcast.readers.nsight.nsys._REPORT", "flopcast.staging._NAME"}
"""Those of names of files, which have 255 bytes at most."""
WHOLE = {"match", "fullmatch"}
ANYWHERE = {"search", "sub", "subn", "split", "findall", "finditer", "extract", "contains", "replace"}
SAMPLES = {"SPACE": " \n", "DIGIT": "1", "WORD": "a1_"}


def expressions() -> Iterator[tuple[str, re.Pattern, set[str]]]:
    """Yield every expression of the package: its place, and the ways in which its module uses it."""
    folders = [path.parent for path in ROOT.glob("*/__init__.py") if path.parent.name not in ("tests", "benchmarks")]
    for path in sorted([*ROOT.glob("[a-z]*.py"), *(path for folder in folders for path in folder.rglob("*.py"))]):
        if path.name in ("setup.py", "train.py", "predict.py", "validate.py", "__init__.py"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        name = ".".join(("flopcast", *path.relative_to(ROOT).with_suffix("").parts))
        for key, value in vars(importlib.import_module(name)).items():
            if isinstance(value, re.Pattern):
                yield f"{name}.{key}", value, uses(tree, key)
        for node in ast.walk(tree):
            match node:
                case ast.Call(
                    ast.Attribute(ast.Name("re") | ast.Attribute(_, "str"), use), [ast.Constant(str() as text), *_]
                ):
                    if use in WHOLE | ANYWHERE and not (use in ("split", "replace") and "regex" not in ast.dump(node)):
                        yield f"{name}:{node.lineno}", re.compile(text), {use}


def kernel_patterns() -> Iterator[tuple[str, re.Pattern, set[str]]]:
    """Yield the expressions by which kernels and operators are told apart."""
    stack: list[Any] = [tomllib.loads((ROOT / "traces" / "patterns.toml").read_text(encoding="utf-8"))]
    while stack:
        item = stack.pop()
        if isinstance(item, dict | list):
            stack += item.values() if isinstance(item, dict) else item
        elif isinstance(item, str) and re.search(r"[*+{]", item):
            with suppress(re.error):  # words that describe a class
                yield item, re.compile(item), {"search"}


def uses(tree: ast.Module, key: str) -> set[str]:
    """Return the methods of an expression that a module calls; where it passes it on, it may be any."""
    called = {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and ast.unparse(node.value) == key
    }
    named = sum(isinstance(node, ast.Name) and node.id == key for node in ast.walk(tree))
    return (
        called
        if named - 1 == len([n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and ast.unparse(n.value) == key])
        else ANYWHERE
    )


def texts(pattern: re.Pattern) -> set[tuple[str, str]]:
    """Return beginnings, and what is to be repeated behind each."""
    tree = parser.parse(pattern.pattern, pattern.flags)
    return {(start, unit) for variant in range(2) for start, unit in repeated(tree, "", variant) if unit}


def repeated(tree: Any, start: str, variant: int) -> Iterator[tuple[str, str]]:
    for node in tree:
        operation, argument = node
        if operation in (code.MAX_REPEAT, code.MIN_REPEAT, code.POSSESSIVE_REPEAT) and argument[1] > 9:
            yield from ((start, sample(argument[2], other)) for other in range(3))
        for inner in parts(operation, argument):
            yield from repeated(inner, start, variant)
        start += sample([node], variant)
        yield "", start


def parts(operation: Any, argument: Any) -> list[Any]:
    """Return the expressions within one."""
    if operation in (code.MAX_REPEAT, code.MIN_REPEAT, code.POSSESSIVE_REPEAT):
        return [argument[2]]
    if operation is code.SUBPATTERN:
        return [argument[3]]
    if operation is code.ATOMIC_GROUP:
        return [argument]
    return list(argument[1]) if operation is code.BRANCH else []


def sample(tree: Any, variant: int) -> str:
    """Return a text that fits; variants differ in the letters and alternatives they choose."""
    found = ""
    for operation, argument in tree:
        inner = parts(operation, argument)
        if operation is code.LITERAL:
            found += chr(argument)
        elif operation in (code.ANY, code.NOT_LITERAL):
            found += "a ("[variant % 3]
        elif operation is code.IN:
            found += member(argument, variant)
        elif operation is code.BRANCH:
            found += sample(inner[variant % len(inner)], variant)
        elif inner:
            least = 1 if operation in (code.SUBPATTERN, code.ATOMIC_GROUP) else max(argument[0], variant % 2)
            found += sample(inner[0], variant) * min(least, 9)
    return found


def member(items: Any, variant: int) -> str:
    """Return a letter of a class."""
    if items[0][0] is code.NEGATE:
        letters = re.compile("[" + "".join(re.escape(chr(a)) for o, a in items[1:] if o is code.LITERAL) + "\\0]")
        return next(letter for letter in ("a1 (~"[variant:] + "~a")[::1] if not letters.match(letter))
    operation, argument = items[variant % len(items)]
    if operation is code.CATEGORY:
        letters_of = next((found for key, found in SAMPLES.items() if str(argument).endswith(key)), "a")
        return "a" if "NOT" in str(argument) else letters_of[variant % len(letters_of)]
    return chr(argument if operation is code.LITERAL else argument[0])


def seconds(pattern: re.Pattern, text: str, methods: set[str]) -> float:
    given: Any = text.encode("latin1", "replace") if isinstance(pattern.pattern, bytes) else text
    began = time.process_time()
    if methods & ANYWHERE:
        sum(1 for _ in pattern.finditer(given))
    else:
        (pattern.match if "match" in methods else pattern.fullmatch)(given)
    return time.process_time() - began


def slow(pattern: re.Pattern, methods: set[str]) -> tuple[str, str, int] | None:
    """Return a text that takes too long: its beginning, what is repeated, and how many times; None if there is none."""
    for (start, unit), size in product(sorted(texts(pattern)), SIZES):
        text = start + unit * (size // len(unit) + 1) + "\0"
        most = MOST_SECONDS * max(size / SIZES[-1], 0.1)
        if all(seconds(pattern, text, methods) > most for _ in range(3)):
            return start, unit, size
    return None


@pytest.mark.long
def test_every_expression_takes_time_in_proportion() -> None:
    found = {}
    for place, pattern, methods in (*expressions(), *kernel_patterns()):
        if place in BOUNDED:
            continue
        if (text := slow(pattern, methods)) is not None:
            found[place] = text
    assert found == {}


@pytest.mark.parametrize("expression", [r"\s*a?\s*b", r"(.*),us", r"^\s*-?\s*$"])
def test_what_takes_longer_is_found(expression: str) -> None:
    assert slow(re.compile(expression), {"search"}) is not None
