"""Documents as self-contained pages: what enters is a `report.document.Document`, what leaves is one text of HTML.

Nothing is fetched when a page is opened: style, script and, where there are figures, plotly.js
stand in it. What it is made of lies beside this file: ``page.html.j2`` (escapes every name of the
data), ``page.css`` and ``page.js``.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from isal import igzip

from ..remarks import visible
from .document import (
    Bars,
    Document,
    Facts,
    Figure,
    Headline,
    Lines,
    Listing,
    Part,
    Row,
    Sliders,
    Table,
    printable,
)
from .formats import unbroken

if TYPE_CHECKING:
    from jinja2 import Template

_BESIDE = Path(__file__).parent
# rows of a listing that stand in the page itself, for who reads it without scripts
_PLAIN: Final = 50
_REPEATED: Final = 100  # texts from which on a list holds each once


@dataclass(frozen=True)
class _Plot(Part):
    """The place of a figure on a page."""

    shape: ClassVar[str] = "plot"
    number: int
    caption: str
    height: int
    of: str


@dataclass(frozen=True)
class _Listed(Table):
    """A listing: its first rows, and all of them as JSON, column by column."""

    shape: ClassVar[str] = "listed"
    packed: str = ""
    count: str = ""


def page(document: Document) -> str:
    """Return a document as a complete page, its figures drawn now; the same document gives the same text."""
    plots: list[str] = []
    opening = [
        (of_headlines, printable(list(_placed(list(parts), plots))))
        for of_headlines, parts in groupby(
            document.opening, lambda part: isinstance(part, Headline)
        )
    ]
    sections = []
    for one in document.sections:
        parts = list(_placed(one.parts, plots))
        if parts:
            anchor = one.anchor or re.sub(r"[^a-z0-9]+", "-", one.heading.lower()).strip("-")
            sections.append(
                printable(replace(one, parts=parts, anchor=anchor, link=one.link or one.heading))
            )
    every = []
    for section in sections:
        every.extend(section.parts)
    ending = printable(list(_placed(document.footer, plots)))
    document = replace(document, title=visible(document.title), lead=visible(document.lead))
    first = chain.from_iterable(parts for _, parts in opening)
    shown = [*first, *every, *ending]
    tables = ""
    if plots or any(isinstance(part, Table) for part in shown):
        tables = _read("tables.js")
    if plots:
        plotly = _plotly()
        script = _read("page.js")
    else:
        plotly = ""
        script = ""
    sliders = ""
    if any(isinstance(part, Sliders) for part in every):
        sliders = _read("sliders.js")
    return _template().render(
        document=document,
        opening=opening,
        sections=sections,
        footer=ending,
        plots=plots,
        plotly=plotly,
        style=_read("page.css"),
        script=script,
        tables=tables,
        sliders=sliders,
    )


@cache
def _template() -> Template:
    """Return the template of all pages; compiling it takes as long as filling it."""
    # here: an answer on a terminal needs no page
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_BESIDE), autoescape=True, undefined=StrictUndefined
    )
    filters: dict[str, Any] = {"joined": unbroken, "opened": opened}
    environment.filters.update(filters)
    return environment.get_template("page.html.j2")


def frame(document: Document, height: int) -> str:
    """Return a page within another, a notebook's, so many pixels high.

    A notebook that is not trusted shows no frames, but what is written between their tags.
    """
    look = f"width:100%;height:{height}px;border:0"
    name = escape(document.title)
    said = f"{name} (trust this notebook, or run the cell, to see the table)"
    return (
        f'<iframe srcdoc="{escape(page(document))}" title="{name}" style="{look}">{said}</iframe>'
    )


def _placed(parts: Sequence[Part], plots: list[str]) -> Iterator[Part]:
    """Yield the parts that a page shows, figures as their places; their JSON goes to ``plots``."""
    for part in parts:
        if part.medium == "terminal" or _empty(part):
            continue
        if isinstance(part, Listing):
            yield from _listed(part)
        elif not isinstance(part, Figure):
            yield part
        elif (figure := part.draw()) is not None:
            yield _Plot(len(plots), part.caption, figure.layout.height, part.of)
            shown = json.loads(figure.to_json(validate=False, engine="json"))
            for trace in shown["data"]:
                trace.update(
                    {name: _packed(trace[name]) for name in ("text", "customdata") if name in trace}
                )
            plots.append(_script(printable(shown)))


def _listed(part: Listing) -> Iterator[_Listed]:
    """Yield a listing that has rows."""
    texts = [list(column) for column in part.texts()]
    if not texts[0]:
        return
    first = []
    for place in range(min(_PLAIN, len(texts[0]))):
        first.append(Row(tuple(column[place] for column in texts)))
    yield _Listed(
        part.columns,
        first,
        caption=part.caption,
        folded=part.folded,
        name=part.name,
        packed=_script([printable(_packed(column)) for column in texts]),
        count=f"{len(texts[0]):,}" if len(texts[0]) > _PLAIN else "",
    )


def _packed(texts: Any) -> Any:
    """Return a long list of repeating texts as the distinct texts and an index; anything else as it is."""
    if (
        not isinstance(texts, list)
        or len(texts) < _REPEATED
        or not all(isinstance(text, str) for text in texts)
    ):
        return texts
    words = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    if 2 * len(words) < len(texts):
        return {"words": list(words), "at": [words[text] for text in texts]}
    return texts


def _script(content: Any) -> str:
    """Return JSON in which nothing can close the script element."""
    return json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")


def _empty(part: Part) -> bool:
    kinds = (
        (Table, "rows"),
        (Lines, "lines"),
        (Facts, "facts"),
        (Bars, "bars"),
        (Sliders, "choices"),
    )
    return any(isinstance(part, kind) and not getattr(part, name) for kind, name in kinds)


def opened(text: str) -> str:
    """Return a sentence with a capital first letter, unless it begins with a name or code.

    >>> opened("still valid."), opened("t_target over the law"), opened("gemm bf16 m=64 n=64")
    ('Still valid.', 't_target over the law', 'gemm bf16 m=64 n=64')
    """
    if _PLAIN_WORD.match(text) and "=" not in text:
        return text[:1].upper() + text[1:]
    return text


_PLAIN_WORD: Final = re.compile(r"[a-z]+(?=[ ,;.]|$)(?!\.\S)")


def _read(name: str) -> str:
    return (_BESIDE / name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    """Return plotly.js in gzip and base64, 2 MB of 5; importing plotly takes a while, so only pages with figures do."""
    from plotly.offline import get_plotlyjs

    return b64encode(igzip.compress(get_plotlyjs().encode(), mtime=0)).decode()
