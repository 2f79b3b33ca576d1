"""The document model: what a command found, as headline, tables, figures and notes, for terminal, page and machines.

Every topic (training, validation, a projected trace, ...) is built once, as a `Document`, from results:
`report.terminal` prints it, `report.html` makes a page of it, ``Document.data`` is its JSON. Whatever a person reads is
decided when the document is built; renderers know nothing of the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import plotly.graph_objects as go

Tone = Literal["", "strong", "soft", "good", "warning", "error"]
"""How a line or row is meant: renderers choose the colour."""


@dataclass(frozen=True)
class Column:
    """A column of a table: its head, whether it holds figures (set to the right, never folded), its least width."""

    head: str
    number: bool = False
    width: int | None = None


@dataclass(frozen=True)
class Row:
    """A row: its cells as text, how it is meant, and whether it heads the rows below it."""

    cells: tuple[str, ...]
    tone: Tone = ""
    title: bool = False


@dataclass(frozen=True)
class Table:
    """A table: title, columns, rows, how to read it; ``shown`` rows on a terminal (None: all), on a page all."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    caption: str = ""
    shown: int | None = None
    folded: bool = False


@dataclass(frozen=True)
class Figure:
    """A figure of a page, drawn when it is asked for; terminals leave it out."""

    draw: Callable[[], go.Figure]
    caption: str


@dataclass(frozen=True)
class Note:
    """A sentence."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Headline:
    """The answer in large: what it is about, the answer, the rival it is measured by, and a line beneath."""

    about: str
    answer: str
    rival: str = ""
    beneath: str = ""


Part = Table | Figure | Note | Headline


@dataclass(frozen=True)
class Section:
    """A section of a page, with its entry in the navigation."""

    anchor: str
    link: str
    heading: str
    parts: Sequence[Part]


@dataclass(frozen=True)
class Document:
    """What a command found.

    Attributes
    ----------
    title : str
        One line: what was asked of which data.
    lead : str
        One line under it.
    opening : sequence of Part
        The first screen of a page, and what a terminal prints first: the answer.
    sections : sequence of Section
        Why, then everything.
    data : mapping
        The same for machines (``--json``).
    """

    title: str
    lead: str = ""
    opening: Sequence[Part] = ()
    sections: Sequence[Section] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
