"""Documents as self-contained pages: what enters is a `report.document.Document`, what leaves is one text of HTML.

Nothing is fetched when a page is opened: style, script and, where there are figures, plotly.js stand in it. What it is
made of lies beside this file: ``page.html.j2`` (escapes every name of the data), ``page.css`` and ``page.js``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import ClassVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..output import dumps, visible, write_texts
from .document import Bars, Document, Facts, Figure, Headline, Lines, Part, Sliders, Table, printable

_BESIDE = Path(__file__).parent


@dataclass(frozen=True)
class _Plot(Part):
    """The place of a figure on a page."""

    shape: ClassVar[str] = "plot"
    number: int
    caption: str
    height: int


def page(document: Document) -> str:
    """Return a document as a complete page, its figures drawn now; the same document gives the same text."""
    plots: list[str] = []
    opening = [
        (of_headlines, printable(list(_placed(list(parts), plots))))
        for of_headlines, parts in groupby(document.opening, lambda part: isinstance(part, Headline))
    ]
    sections = [
        printable(replace(one, parts=parts, anchor=one.anchor or _slug(one.heading), link=one.link or one.heading))
        for one in document.sections
        if (parts := list(_placed(one.parts, plots)))
    ]
    every = [part for section in sections for part in section.parts]
    footer = printable(list(_placed(document.footer, plots)))
    document = replace(document, title=visible(document.title), lead=visible(document.lead))
    environment = Environment(loader=FileSystemLoader(_BESIDE), autoescape=True, undefined=StrictUndefined)
    return environment.get_template("page.html.j2").render(
        document=document, opening=opening, sections=sections, footer=footer, plots=plots,
        plotly=_plotly() if plots else "", style=_read("page.css"), script=_read("page.js") if plots else "",
        sliders=_read("sliders.js") if any(isinstance(part, Sliders) for part in every) else "",
    )  # fmt: skip


def save_page(folder: Path, document: Document, names: tuple[str, ...], *more: str) -> None:
    """Write a document's JSON and its page into a folder, whole or not at all, under two names; ``more`` beside them.

    Parameters
    ----------
    folder : Path
        As for `output.write_texts`.
    document : Document
        What is written.
    names : tuple of str
        Names of the JSON, of the page, and of the texts in ``more``.

    Raises
    ------
    DataError
        The folder holds other files or cannot be written.
    """
    texts = (dumps(document.data, missing=True), page(document), *more)
    write_texts(folder, dict(zip(names, texts, strict=True)))


class Shown:
    """A result that readers see, on terminals, as a page and as files.

    Attributes
    ----------
    files : tuple of str
        Names of its JSON, its page, and what it writes beside them.
    """

    files: ClassVar[tuple[str, ...]]

    def document(self) -> Document:
        """Return the result for readers; its ``data`` are those of the JSON."""
        raise NotImplementedError

    def report(self) -> str:
        """Return the page: HTML that needs nothing beside it."""
        return page(self.document())

    def save(self, folder: str | Path) -> None:
        """Write ``files`` into a folder, whole or not at all.

        Raises
        ------
        DataError
            The folder holds other files or cannot be written.
        """
        save_page(Path(folder), self.document(), self.files, *self._beside())

    def _beside(self) -> tuple[str, ...]:
        return ()


def _placed(parts: Sequence[Part], plots: list[str]) -> Iterator[Part]:
    """Yield the parts that a page shows, figures as their places; their JSON goes to ``plots``."""
    for part in parts:
        if part.medium == "terminal" or _empty(part):
            continue
        if not isinstance(part, Figure):
            yield part
        elif (figure := part.draw()) is not None:
            yield _Plot(len(plots), part.caption, figure.layout.height)
            shown = printable(json.loads(figure.to_json(validate=False, engine="json")))
            plots.append(json.dumps(shown, separators=(",", ":")).replace("<", "\\u003c"))  # no name ends the script


def _empty(part: Part) -> bool:
    kinds = ((Table, "rows"), (Lines, "lines"), (Facts, "facts"), (Bars, "bars"), (Sliders, "choices"))
    return any(isinstance(part, kind) and not getattr(part, name) for kind, name in kinds)


def _slug(heading: str) -> str:
    """Return a heading as an anchor."""
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")


def _read(name: str) -> str:
    return (_BESIDE / name).read_text(encoding="utf-8")


def _plotly() -> str:
    """Return plotly.js; loading its Python takes a while, which pages without figures need not wait for."""
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()
