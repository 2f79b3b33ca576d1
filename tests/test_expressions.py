"""Regular expressions read data of others: none takes longer than in proportion to what it reads.

Every expression of the package is tried as it is used (from the start of a text, or anywhere within it) on texts made
from its own parts: what fits before a repetition, then many of what is repeated, then an end that does not fit. Steps
are counted, not time: those of a matcher that tries what `re` tries, in the same order.
"""

from __future__ import annotations

import ast
import importlib
import itertools
import re
import re._compiler as compiler  # type: ignore[import-not-found]
import re._constants as code  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.no_cover  # the source is read
ROOT = Path(__file__).parents[1]
TIMES = 6, 16
"""How often what is repeated stands in the shortest text, half as often where steps may grow with the square.

Where steps seem to grow, longer texts tell whether what grows is limited.
"""
MOST_STEPS = 100_000
MOST_TIMES = 9
"""Repetitions of no more than these are limited."""
NAMES = {
    "flopcast.readers.nsys._REPORT", "flopcast.readers.rocprofv3_csv._FILE_NAME", "flopcast.staging._NAME",
    "flopcast.traces.classes._DECORATION",
}  # fmt: skip
"""Those of names of files and kernels, which have 255 and `LONGEST_TEXT` letters: steps may grow with the square."""
WHOLE = {"match", "fullmatch"}
ANYWHERE = {
    "search",
    "sub",
    "subn",
    "split",
    "findall",
    "finditer",
    "extract",
    "contains",
    "replace",
}
SINGLES: dict[tuple[str, int], re.Pattern] = {}
"""The expression of each letter or place that any expression has: item and flags -> compiled."""
SAMPLES = {"SPACE": " \n", "DIGIT": "1", "WORD": "a1_"}


def expressions() -> Iterator[tuple[str, re.Pattern, set[str]]]:
    """Yield every expression of the package: its place, and the ways in which its module uses it."""
    folders = [
        path.parent
        for path in ROOT.glob("*/__init__.py")
        if path.parent.name not in ("tests", "benchmarks")
    ]
    for path in sorted(
        [*ROOT.glob("[a-z]*.py"), *(path for folder in folders for path in folder.rglob("*.py"))]
    ):
        if path.name in ("setup.py", "train.py", "predict.py", "validate.py", "__init__.py"):
            continue
        name, text = (
            ".".join(("flopcast", *path.relative_to(ROOT).with_suffix("").parts)),
            path.read_text("utf-8"),
        )
        own = {
            key: one
            for key, one in vars(importlib.import_module(name)).items()
            if isinstance(one, re.Pattern)
        }
        if not own and not re.search(r"\bre\.|\.str\.", text):
            continue
        nodes = list(ast.walk(ast.parse(text)))
        for key, value in own.items():
            yield f"{name}.{key}", value, uses(nodes, key)
        for node in nodes:
            match node:
                case ast.Call(
                    ast.Attribute(ast.Name("re") | ast.Attribute(_, "str"), use),
                    [ast.Constant(str() as text), *_],
                ):
                    if use in WHOLE | ANYWHERE and not (
                        use in ("split", "replace") and "regex" not in ast.dump(node)
                    ):
                        yield f"{name}:{node.lineno}", re.compile(text), {use}


def kernel_patterns() -> Iterator[tuple[str, re.Pattern]]:
    """Yield the expressions by which kernels and operators are told apart: they are searched for in a name."""
    data = tomllib.loads((ROOT / "traces" / "patterns.toml").read_text(encoding="utf-8"))
    for rule in data["rule"]:
        own = [rule[key] for key in ("operator", "kernel", "name") if key in rule]
        words = [word for key in ("aten", "fused") for word in rule.get(key, "").split()]
        for text in [
            *itertools.chain(*own),
            *words,
            *([rule["within"]] if "within" in rule else []),
        ]:
            yield f"{rule['class']}: {text}", re.compile(text)
    for text in data["opaque"]:
        yield text, re.compile(text)


def uses(nodes: list[ast.AST], key: str) -> set[str]:
    """Return the methods of an expression that a module calls; where it passes it on, it may be any."""
    called = [
        n.attr
        for n in nodes
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == key
    ]
    named = sum(isinstance(node, ast.Name) and node.id == key for node in nodes)
    return set(called) if named - 1 == len(called) else ANYWHERE


def texts(pattern: re.Pattern) -> set[tuple[str, str]]:
    """Return beginnings, and what is to be repeated behind each."""
    tree = parser.parse(pattern.pattern, pattern.flags)
    return {
        (start, unit) for variant in range(2) for start, unit in repeated(tree, "", variant) if unit
    }


def grows(tree: Any) -> bool:
    """Say whether an expression repeats anything without end: the steps of all others are limited at every place."""
    for operation, argument in tree:
        endless = (
            operation in (code.MAX_REPEAT, code.MIN_REPEAT, code.POSSESSIVE_REPEAT)
            and argument[1] > MOST_TIMES
        )
        looked_at = (
            [argument[1]]
            if operation in (code.ASSERT, code.ASSERT_NOT)
            else parts(operation, argument)
        )
        if endless or any(map(grows, looked_at)):
            return True
    return False


def repeated(tree: Any, start: str, variant: int) -> Iterator[tuple[str, str]]:
    for node in tree:
        operation, argument = node
        if (
            operation in (code.MAX_REPEAT, code.MIN_REPEAT, code.POSSESSIVE_REPEAT)
            and argument[1] > MOST_TIMES
        ):
            yield from ((start, sample(argument[2], other)) for other in range(3))
            yield "", start
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
            least = (
                1
                if operation in (code.SUBPATTERN, code.ATOMIC_GROUP)
                else max(argument[0], variant % 2)
            )
            found += sample(inner[0], variant) * min(least, 9)
    return found


def member(items: Any, variant: int) -> str:
    """Return a letter of a class."""
    if items[0][0] is code.NEGATE:
        letters = re.compile(
            "[" + "".join(re.escape(chr(a)) for o, a in items[1:] if o is code.LITERAL) + "\\0]"
        )
        return next(
            letter for letter in ("a1 (~"[variant:] + "~a")[::1] if not letters.match(letter)
        )
    operation, argument = items[variant % len(items)]
    if operation is code.CATEGORY:
        letters_of = next(
            (found for key, found in SAMPLES.items() if str(argument).endswith(key)), "a"
        )
        return "a" if "NOT" in str(argument) else letters_of[variant % len(letters_of)]
    return chr(argument if operation is code.LITERAL else argument[0])


class Matcher:
    """Matches as `re` does, without its short cuts, and counts every item of the expression it looks at."""

    def __init__(self, pattern: re.Pattern) -> None:
        self.pattern, self.tree = pattern.pattern, parser.parse(pattern.pattern, pattern.flags)
        self._begin = before(self.tree, None)
        self._single = dict[int, re.Pattern]()

    def count(self, text: str, methods: set[str]) -> int:
        """Return the steps of matching as a method does, wherever it would start."""
        self.text: Any = (
            text.encode("latin1", "replace") if isinstance(self.pattern, bytes) else text
        )
        self.steps = place = 0
        while place <= len(self.text) and self.steps < MOST_STEPS:
            end = self.match(self._begin, place, whole=methods == {"fullmatch"})
            if not methods & ANYWHERE:
                break
            place = place + 1 if end is None else max(end, place + 1)
        return self.steps

    def match(self, items: Any, place: int, *, whole: bool = False) -> int | None:
        """Return where a match of items, a linked list, ends that starts here."""
        stack = [(items, place)]  # what is still to be matched, and from where
        while stack and self.steps < MOST_STEPS:
            self.steps += 1
            rest, place = stack.pop()
            if rest is None:
                if not whole or place == len(self.text):
                    return place
                continue
            item, rest = rest
            operation, argument = item
            if operation in (code.MAX_REPEAT, code.MIN_REPEAT):
                least, most, inner, *begun = argument
                left = most if most is code.MAXREPEAT else most - 1
                again = before(inner, ((operation, (max(least - 1, 0), left, inner, place)), rest))
                ways = (
                    [again] if least else [rest] if most == 0 or begun == [place] else [again, rest]
                )
                stack += [
                    (way, place) for way in (ways[::-1] if operation is code.MAX_REPEAT else ways)
                ]
            elif operation is code.BRANCH:
                stack += [(before(inner, rest), place) for inner in reversed(argument[1])]
            elif operation is code.SUBPATTERN:
                stack.append((before(argument[3], rest), place))
            elif operation in (code.ASSERT, code.ASSERT_NOT):
                direction, inner = argument
                start = place if direction > 0 else place - inner.getwidth()[0]
                items = before(inner, None)
                found = start >= 0 and self.match(items, start) is not None
                stack += [(rest, place)] * (found == (operation is code.ASSERT))
            elif operation in (code.ATOMIC_GROUP, code.POSSESSIVE_REPEAT):
                inner = (
                    argument if operation is code.ATOMIC_GROUP else [(code.MAX_REPEAT, argument)]
                )
                end = self.match(before(inner, None), place)
                if end is not None:
                    stack.append((rest, end))
            elif found := self.single(item).match(self.text, place):
                stack.append((rest, found.end()))
        return None

    def single(self, item: Any) -> re.Pattern:
        """Return the expression of one letter or place."""
        if id(item) not in self._single:
            state = self.tree.state
            key = repr(item), state.flags
            if key not in SINGLES:
                SINGLES[key] = compiler.compile(parser.SubPattern(state, [item]), state.flags)
            self._single[id(item)] = SINGLES[key]
        return self._single[id(item)]


def before(tree: Any, rest: Any) -> Any:
    """Return what an expression and then the rest match, as a linked list."""
    for item in reversed(getattr(tree, "data", tree)):
        rest = item, rest
    return rest


def slow(
    pattern: re.Pattern, methods: set[str], power: int = 1
) -> tuple[str, str, list[int]] | None:
    """Return a text whose steps grow faster than a power of its length; None if there is none.

    It is told as its beginning, what is repeated, and the steps; texts of equal distance show a polynomial's degree.
    """
    matcher = Matcher(pattern)
    if not grows(matcher.tree):
        return None
    for start, unit in sorted(texts(pattern)):
        for times in TIMES:
            sizes = range(times // power, times // power * (power + 3), times // power)
            steps = [matcher.count(start + unit * size + "\0", methods) for size in sizes]
            if max(steps) < MOST_STEPS and np.diff(steps, power + 1)[0] <= 0:
                break
        else:
            return start, unit, steps
    return None


@pytest.mark.long
def test_every_expression_takes_steps_in_proportion_to_its_text() -> None:
    found = {
        place: slow(pattern, methods, 1 + (place in NAMES))
        for place, pattern, methods in expressions()
    }
    found |= {text: slow(pattern, {"search"}, 2) for text, pattern in kernel_patterns()}
    assert {place: text for place, text in found.items() if text} == {}


@pytest.mark.parametrize(
    "expression",
    [r"\s*a?\s*b", r"(.*),us", r"^\s*-?\s*$", r"(a+)+b", r"(a|aa)+b", r"(?=a*b)a", r"a*?b"],
)
def test_what_takes_more_is_found(expression: str) -> None:
    assert slow(re.compile(expression), {"search"}) is not None


def test_where_steps_may_grow_with_the_square_those_that_grow_with_the_cube_are_found() -> None:
    assert slow(re.compile(r"\s*a?\s*b"), {"search"}, 2) is not None
    assert slow(re.compile(r"\s*b"), {"search"}, 2) is None


@pytest.mark.parametrize(
    "expression", [r"^a*b", r"(?<!\s)\s*+a", r"^(?>a*)b", r"^(?:a|b)*c", r"^a{2,4}b", r"(?<!a)a+b"]
)
def test_what_takes_steps_in_proportion_is_not(expression: str) -> None:
    assert slow(re.compile(expression), {"search"}) is None
