"""What the API declares of its verbs: signature and docstring, read from the source, so that nothing heavy is imported.

The first sentence that a docstring says of a parameter is the help of its option. ``As for `train` ``
is what that function says.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
WORKED_OUT: Final = object()
"""Stands for a default that the source does not state as a literal: the function's is taken."""
_IMPORTED: Final = re.compile(r"^from \.([\w.]+) import (\w+) as \2$", re.MULTILINE)
_IMPORTS: Final = re.compile(r"^from (\.++)([\w.]*+) import (\([^()]*+\)|[^\n]*+)", re.MULTILINE)
_DEFAULT: Final = re.compile(r"\bdefault[ =]([^\n]++)")
_CHOICES: Final = re.compile(r"\{([^{}]*+)\}")
_ENTRY: Final = re.compile(
    r"^(\*?\w+(?:, \*?\w+)*)(?: : ([^\n]+))?\n((?: [^\n]*\n|\n)+)", re.MULTILINE
)
_REFERENCE: Final = re.compile(r"As for `(?:\w+\.)*(\w+)`")
_MARKUP: Final = re.compile(r"``([^`\n]{1,200})``|`(?:\w++\.)*+(\w++)`")
_SENTENCE: Final = re.compile(r".+?\.(?=\s+[A-Z]|\s*$)", re.DOTALL)


@dataclass(frozen=True)
class Keyword:
    """A parameter of a verb.

    Attributes
    ----------
    name, annotation : str
        As in the signature; of ``*data`` without its star.
    default : Any
        None where there is none, `WORKED_OUT` where it is no literal.
    is_positional : bool
        Whether it may be told by its place: one of the first, or those that follow them.
    is_list : bool
        Whether it is ``*data``.
    is_optional : bool
        Whether the docstring says so.
    is_needed : bool
        Whether it has no default.
    shown : str
        The default as the docstring has it, "" where it says none.
    choices : tuple of str
        The words that it may be, where the docstring lists them: ``{"tuned", "stock"}``.
    help : str
        The first sentence that the docstring says of it.
    """

    name: str
    annotation: str
    default: Any
    is_positional: bool
    is_list: bool
    is_optional: bool
    is_needed: bool
    shown: str
    choices: tuple[str, ...]
    help: str


@dataclass(frozen=True)
class Declared:
    """A verb: its module, what its docstring says before the parameters, and these."""

    name: str
    module: str
    text: str
    keywords: tuple[Keyword, ...]


@cache
def public_names() -> dict[str, str]:
    """Return each name of the front door with its module."""
    stub = (ROOT / "__init__.pyi").read_text(encoding="utf-8")
    return {name: module for module, name in _IMPORTED.findall(stub)}


@cache
def declared(name: str, module: str = "") -> Declared:
    """Return what a function of the API declares; without a module that of a name of the front door."""
    module = module or public_names()[name]
    lower, home = _defined(name, module)
    function = _function(lower, home)
    text = cleandoc(ast.get_docstring(function) or "")
    given = function.args
    places = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(places) - len(given.defaults))
    defaults += given.defaults
    keywords = []
    for parameter, default in zip(places, defaults, strict=True):
        keywords.append(_keyword(lower, home, parameter, default, is_positional=True))
    if given.vararg is not None:
        keywords.append(_keyword(lower, home, given.vararg, None, is_positional=True, is_list=True))
    for parameter, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        keywords.append(_keyword(lower, home, parameter, default))
    if given.kwarg is not None and given.kwarg.annotation is not None:
        annotation = ast.unparse(given.kwarg.annotation)
        kind = annotation.removeprefix("Unpack[").removesuffix("]")
        for field in _fields(kind, home):
            keywords.append(_keyword(lower, home, field, ast.Constant(None)))
        order = list(_described(lower, home))
        keywords.sort(key=lambda keyword: order.index(keyword.name))
    return Declared(name, module, text.partition("\nParameters\n")[0].strip(), tuple(keywords))


@cache
def fields_of(kind: str, module: str) -> tuple[str, ...]:
    """Return the names of the keywords that a kind of a module declares, and those that it goes on from.

    >>> fields_of("Reading", "table.conditions")
    ('where', 'rename', 'unit', 'default')
    """
    return tuple(field.arg for field in _fields(kind, module))


def constant_of(name: str, module: str) -> Any:
    """Return the value of a literal that a module assigns to a name, or imports; None where it does neither."""
    home = _home(name, module)
    source = _source(home)
    assigned = re.search(rf"^{name}(?:: [^=\n]+)? = ", source, re.MULTILINE)
    if assigned is None:
        return None
    text = ""
    for line in source[assigned.end() :].splitlines():
        text += f"{line}\n"
        try:
            return ast.literal_eval(text.strip())
        except SyntaxError:  # it goes on in the next line
            continue
        except ValueError:
            return None
    return None


def _fields(kind: str, module: str) -> list[ast.arg]:
    """Return the fields of a TypedDict that a module defines or imports, after those of the kinds it goes on from."""
    home = _home(kind, module)
    source = _source(home)
    start = source.index(f"\nclass {kind}(") + 1
    (defined,) = ast.parse(source[start : source.index("\n\n\n", start)]).body
    assert isinstance(defined, ast.ClassDef)
    fields = []
    for base in defined.bases:
        if ast.unparse(base) != "TypedDict":
            fields += _fields(ast.unparse(base), home)
    for field in defined.body:
        if isinstance(field, ast.AnnAssign):
            fields.append(ast.arg(ast.unparse(field.target), field.annotation))
    return fields


def _defined(name: str, module: str) -> tuple[str, str]:
    """Return name and module of the function that a module has under a name.

    That is its own one, one that has another name too (``scale_predict = scale``), or one of a lower room:
    ``measure = returning(Measured, timing.measure)``.
    """
    taken = re.search(
        rf"^{name} = (?:\w+\((?:\w+, )?)*(\w+)\.(\w+)\)*$", _source(module), re.MULTILINE
    )
    if taken is None:
        same = re.search(rf"^{name} = (\w+)$", _source(module), re.MULTILINE)
        if same is not None:
            name = same[1]
        return name, module
    return _defined(taken[2], _home(taken[1], module))


@cache
def _home(name: str, module: str) -> str:
    """Return the module that defines, or is, what another module calls by a name."""
    for dots, path, names in _IMPORTS.findall(_source(module)):
        imported = re.search(rf"\b(?:(\w+) as )?{name}\b", names)
        if imported is not None:
            parts = module.split(".")[: -len(dots)]
            parts += filter(None, path.split("."))
            inner = [*parts, imported[1] or name]
            if _file(".".join(inner)).exists():
                return ".".join(inner)
            return ".".join(parts)
    return module


@cache
def said(name: str, parameter: str, module: str = "") -> str:
    """Return the first sentence that the docstring of a function says of a parameter, as plain text.

    >>> said("read", "each")
    'Every repeat is a row of its own; else repeats are one row, their median.'
    """
    lower, home = _defined(name, module or public_names()[name])
    _, text = _described(lower, home).get(parameter, ("", ""))
    reference = _REFERENCE.match(text)
    if reference:
        if reference[1] in public_names():
            return said(reference[1], parameter)
        return said(reference[1], parameter, home)
    sentence = _SENTENCE.match(text)
    return plain(sentence[0] if sentence else text)


def plain(text: str) -> str:
    """Return text without the marks of code and of references.

    >>> plain("As ``m=16..512``, which `flopcast.train` takes.")
    'As m=16..512, which train takes.'
    """
    return _MARKUP.sub(lambda match: match[1] or match[2], text)


def _keyword(
    name: str,
    module: str,
    parameter: ast.arg,
    default: ast.expr | None,
    *,
    is_positional: bool = False,
    is_list: bool = False,
) -> Keyword:
    stated = _described(name, module).get(parameter.arg, ("", ""))
    annotation = ""
    if parameter.annotation is not None:
        annotation = ast.unparse(parameter.annotation)
    shown = _DEFAULT.search(stated[0])
    listed = _CHOICES.match(stated[0])
    choices = tuple[str, ...]()
    if listed is not None:
        choices = tuple(word.strip().strip('"') for word in listed[1].split(","))
    return Keyword(
        name=parameter.arg,
        annotation=annotation,
        default=None if default is None else _value(default, module),
        is_positional=is_positional,
        is_list=is_list,
        is_optional="optional" in stated[0],
        is_needed=default is None,
        shown="" if shown is None else shown[1].strip('"'),
        choices=choices,
        help=said(name, parameter.arg, module),
    )


def _value(default: ast.expr, module: str) -> Any:
    """Return the value of a default: a literal, or a constant that its module has or imports, else `WORKED_OUT`."""
    if isinstance(default, ast.Name):
        value = constant_of(default.id, module)
        return WORKED_OUT if value is None else value
    try:
        return ast.literal_eval(default)
    except ValueError:
        return WORKED_OUT


@cache
def _described(name: str, module: str) -> dict[str, tuple[str, str]]:
    """Return what a docstring says of each parameter: its kind, and the text in one line."""
    text = cleandoc(ast.get_docstring(_function(name, module)) or "")
    block = text.partition("\nParameters\n----------\n")[2]
    block = re.split(r"\n\w+\n-{3,}\n", block)[0] + "\n"
    texts = {}
    for names, kind, said_of_them in _ENTRY.findall(block):
        for parameter in names.split(", "):
            texts[parameter.lstrip("*")] = kind, " ".join(said_of_them.split())
    return texts


@cache
def _function(name: str, module: str) -> ast.FunctionDef:
    """Return the syntax tree of a function alone: that of its module takes twenty times as long."""
    source = _source(module)
    start = source.index(f"\ndef {name}(") + 1
    ends = source.find("\n\n\n", start)
    tree = ast.parse(source[start : None if ends < 0 else ends])
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    return function


def _file(module: str) -> Path:
    return ROOT / f"{module.replace('.', '/')}.py"


@cache
def _source(module: str) -> str:
    return _file(module).read_text(encoding="utf-8")
