"""The document model: the result of a command as headlines, facts, tables, figures and lines, for every reader at once.

A topic (training, validation, a projected trace, ...) is one file that builds a `Document` from
results. What enters a document is finished text, of `report.formats` and of remarks;
`report.terminal` prints it, `report.html` makes a page, and ``Document.data`` is its JSON
(`report.terminal.show` with ``as_json``). The renderers know nothing of topics, and topics nothing
of rich, HTML or JavaScript. `report.validation` is the example to read first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from ..remarks import Remark, visible
from ..table.refusals import coded
from .formats import agreed, counted

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

JSON = dict[str, Any]
"""An object of JSON."""
Tone = Literal["", "strong", "near", "soft", "good", "accent", "warning", "error"]
"""How a cell, row or line is meant; renderers choose the look: ``strong`` the chosen one, ``near`` nearly as good."""
Kind = Literal["words", "name", "cut", "kernel", "place", "prose", "number"]
"""What a column holds: words fold on a terminal, names do not, what is ``cut`` ends in ``…`` where
there is no room, of a place (file and line) pages keep the end, prose folds on pages too, numbers
stand to the right and never fold."""
Look = Literal["plain", "list", "answer"]
Medium = Literal["both", "terminal", "page"]


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a document; ``medium`` says where it is shown."""

    shape: ClassVar[str]
    medium: Medium = "both"


@dataclass(frozen=True)
class Column:
    """A column: its head, its kind of content, its least and greatest width on a terminal, in characters.

    Pages name the ``unit`` in the head; terminals do where it stands nowhere else.
    """

    head: str
    kind: Kind = "words"
    least: int | None = None
    most: int | None = None
    unit: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell whose tone differs from its row's."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Row:
    """A row."""

    # where there are fewer than columns, the last one runs to the end of the row; a terminal shows
    # such rows beneath the table
    cells: tuple[str | Cell, ...]
    tone: Tone = ""  # how it is meant
    title: bool = False  # whether it heads the rows below it
    ends: bool = False  # whether a terminal draws a line under it


@dataclass(frozen=True)
class Table(Part):
    """A table, left out where it has no rows."""

    shape: ClassVar[str] = "table"
    # see `columns` and `rows`, which make them of plain text
    columns: Sequence[Column]
    rows: Sequence[Row]
    title: str = ""  # above it; pages leave it out where it begins with the heading of its section
    caption: str = ""  # under it: how to read it
    # rows on a terminal, of which the title then says how many they are; on a page there are all
    shown: int | None = None
    rest: Row | None = None  # what a terminal shows under those rows, instead, where there are more
    folded: str = ""  # words under which a page folds the table; without them it lies open
    name: str = ""  # by which figures refer to it, and that of the file it is downloaded as


@dataclass(frozen=True)
class Listing(Part):
    """A long table of a page, built with the page; terminals omit it."""

    shape: ClassVar[str] = "listing"
    columns: Sequence[Column]  # as of a `Table`
    # gives the cells of each column; without rows the listing is left out
    texts: Callable[[], Sequence[Sequence[str]]]
    # as of a `Table`
    name: str
    caption: str = ""
    folded: str = ""


@dataclass(frozen=True)
class Figure(Part):
    """A figure of a page, drawn when the page is built, omitted if drawing returns None; terminals omit it.

    Its points are the rows of the table of a page whose name is ``of``: by their ``ids``, or in
    order.
    """

    shape: ClassVar[str] = "figure"
    draw: Callable[[], go.Figure | None]
    caption: str
    of: str = ""


@dataclass(frozen=True)
class Chart(Part):
    """A chart in characters, left out where it has no curves. For terminals; pages have figures."""

    shape: ClassVar[str] = "chart"
    title: str  # above it
    # arrays of equal length; those whose name is in ``points`` are clouds of points, the others
    # lines
    curves: Sequence[tuple[str, Any, Any]]
    axes: tuple[str, str]  # what x and y are, with their unit
    limits: tuple[tuple[float, float], tuple[float, float]] | None = None  # of x and of y
    # whether x, y and the limits are logarithms to base 10, whose ticks then name the values
    logarithmic: bool = field(default=False, kw_only=True)
    # whether the user asked to see it; else a first screen leaves it out
    asked: bool = field(default=True, kw_only=True)
    points: frozenset[str] = field(default=frozenset(), kw_only=True)
    medium: Medium = field(default="terminal", kw_only=True)


@dataclass(frozen=True)
class Line:
    """A sentence and its tone."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Lines(Part):
    """Sentences: ``plain`` ones, a ``list`` (pages set it as such), or the ``answer`` (a page sets it apart)."""

    shape: ClassVar[str] = "lines"
    lines: Sequence[Line]
    look: Look = "plain"


@dataclass(frozen=True)
class Fact:
    """A figure and what it counts: ``429``, ``pairs of host and target``."""

    value: str
    label: str
    tone: Tone = ""

    @property
    def words(self) -> str:
        """The label, in the singular where it counts one."""
        return agreed(self.value, self.label)


@dataclass(frozen=True)
class Facts(Part):
    """Figures, each with what it counts."""

    shape: ClassVar[str] = "facts"
    facts: Sequence[Fact]


@dataclass(frozen=True)
class Headline(Part):
    """The answer in large: its topic, the answer, the rival it is compared with, and a line beneath."""

    shape: ClassVar[str] = "headline"
    about: str
    answer: str
    rival: str = ""
    beneath: str = ""


@dataclass(frozen=True)
class Bar:
    """A bar: its label, its length (0 to 1), the figure beside it, and its tone."""

    label: str
    share: float
    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Bars(Part):
    """Bars under a title, left out where there are none; they need no script. For pages."""

    shape: ClassVar[str] = "bars"
    title: str
    bars: Sequence[Bar]
    medium: Medium = field(default="page", kw_only=True)


@dataclass(frozen=True)
class Sliders(Part):
    """A slider per axis, and beneath them the findings for the values that they stand at. For pages."""

    shape: ClassVar[str] = "sliders"
    axes: Sequence[tuple[str, Sequence[str]]]  # what is varied, each value in words
    # for every combination of values, that of the last axis varying fastest
    choices: Sequence[Sequence[Part]]
    first: int = 0  # which of them is shown at first, and where there is no script
    medium: Medium = field(default="page", kw_only=True)

    @property
    def words(self) -> list[bool]:
        """Whether the values of each axis are words: these become a list, because words have no order."""
        result = []
        for _, values in self.axes:
            result.append(not all(value[:1].isdigit() for value in values))
        return result

    @property
    def places(self) -> list[int]:
        """Return where each slider stands at first."""
        path = []
        left = self.first
        for _, values in reversed(self.axes):
            left, place = divmod(left, len(values))
            path.append(place)
        return path[::-1]


@dataclass(frozen=True)
class Section:
    """A section; its heading, and its entry in the navigation, stand on pages only."""

    heading: str  # of the section
    parts: Sequence[Part]  # what it shows; a page leaves a section without parts out
    # of its entry in the navigation; by default made of the heading
    anchor: str = ""
    link: str = ""
    folded: bool = False  # whether a page shows the heading alone until it is opened


@dataclass(frozen=True)
class Document:
    """The result of a command."""

    title: str = ""  # what was asked of which data; a document that is never a page needs none
    lead: str = ""  # a line to it
    # the first screen of a page, and what a terminal prints first: the answer
    opening: Sequence[Part] = ()
    sections: Sequence[Section] = ()  # why, then everything
    # what a terminal prints last, where its reader looks; pages leave it out
    closing: Sequence[Part] = ()
    short: Sequence[Part] = ()  # the answer in a few lines: of ``--short``, in place of all above
    offer: str = ""  # what would write files, which a terminal says after that where there are none
    # the last lines of a page: where what it shows comes from; terminals leave it out
    footer: Sequence[Part] = ()
    data: Mapping[str, Any] = field(default_factory=dict)  # the same for machines (``--json``)
    # whether its page stands within another, a notebook's: no room for navigation and large letters
    framed: bool = False

    def with_remark(self, name: str, message: Remark) -> Document:
        """Return the document with a remark last on terminals, and in its data under a name."""
        return self._with(name, Lines(remarked([message])), message.to_dict)

    def with_remarks(self, name: str, messages: Mapping[str, Remark]) -> Document:
        """Return the document with a remark of each, by its name, last on terminals, and in its data under a name."""
        said = lines([f"{of}: {one!r}" for of, one in messages.items()])
        return self._with(name, said, lambda: {of: one.to_dict() for of, one in messages.items()})

    def _with(
        self,
        name: str,
        said: Lines,
        data: Callable[[], Mapping[str, Any]],
    ) -> Document:
        return replace(
            self,
            closing=[*self.closing, said],
            short=[*self.short, said],
            data=Later(lambda: {**self.data, name: data()}),
        )


class Later(Mapping[str, Any]):
    """JSON that takes long to compute: computed at first access."""

    def __init__(self, make: Callable[[], Mapping[str, Any]]) -> None:
        self._made = cache(make)

    def __getitem__(self, key: str) -> Any:
        return self._made()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made())

    def __len__(self) -> int:
        return len(self._made())


_NUMBERS: Final = {float, int, type(None)}


def printable(shown: Any) -> Any:
    """Return what is shown (a part, a section, JSON, a text) with every text made visible (`output.visible`)."""
    if isinstance(shown, str):
        return visible(shown)
    if isinstance(shown, Mapping):
        return {printable(key): printable(value) for key, value in shown.items()}
    if isinstance(shown, list | tuple):
        if {*map(type, shown)} <= _NUMBERS:
            return shown
        return type(shown)(map(printable, shown))
    if is_dataclass(shown) and not isinstance(shown, type):
        return replace(
            shown, **{one.name: printable(getattr(shown, one.name)) for one in fields(shown)}
        )
    return shown


def columns(
    *words: str, numbers: Sequence[str] = (), prose: Sequence[str] = ()
) -> tuple[Column, ...]:
    """Return columns of words, then of numbers, then of prose, by their heads.

    >>> [(column.head, column.kind) for column in columns("kernel", numbers=["time, µs"])]
    [('kernel', 'words'), ('time, µs', 'number')]
    """
    kinds: tuple[tuple[Kind, Sequence[str]], ...] = (
        ("words", words),
        ("number", numbers),
        ("prose", prose),
    )
    made = []
    for kind, heads in kinds:
        made += [Column(head, kind) for head in heads]
    return tuple(made)


def rows(cells: Iterable[Sequence[str | Cell]], tone: Tone = "") -> tuple[Row, ...]:
    """Return rows of these cells, all with one tone."""
    return tuple(Row(tuple(one), tone) for one in cells)


def picked(source: object, *names: str) -> JSON:
    """Return attributes of an object under their names, for JSON."""
    return {name: getattr(source, name) for name in names}


def records(table: pd.DataFrame) -> list[JSON]:
    """Return a table as JSON types."""
    result = []
    for row in table.to_dict("records"):
        result.append({str(name): value for name, value in row.items()})
    return result


def lines(
    texts: Iterable[str],
    look: Look = "plain",
    *,
    tone: Tone = "",
    medium: Medium = "both",
) -> Lines:
    """Return sentences, all with one tone."""
    return Lines(tuple(Line(text, tone) for text in texts), look, medium=medium)


def upcoming(*steps: str) -> Lines:
    """Return what to do next, a command or a sentence each, for terminals: pages are read by others too."""
    return Lines((Line(f"Next: {'; '.join(steps)}."),), medium="terminal")


def remarked(remarks: Iterable[Remark | str]) -> list[Line]:
    """Return remarks as every command shows them, each once: ``note: [fp8-variant] fp8 is read as e4m3``."""
    said = (repr(one) if isinstance(one, Remark) else one for one in remarks)
    return [Line(f"note: {text}", "soft") for text in dict.fromkeys(said)]


def warned(remarks: Iterable[Remark]) -> list[Part]:
    """Return what must be read before an answer, above it, each once."""
    said = dict.fromkeys(str(one) for one in remarks)
    if said:
        return [Lines([Line(text, "warning") for text in said], "answer")]
    return []


def losses(
    rejected: Mapping[Any, int],
    remarks: Iterable[Remark | str] = (),
    unreadable: Iterable[str] = (),
    *,
    first: Mapping[Any, str] | None = None,
) -> Lines:
    """Return the rejected rows by reason, the most frequent first, then remarks, then unread files.

    ``first`` says for each reason where the first of its rows was read (``own.csv:17``).
    """
    said = [
        (count, repr(why) if isinstance(why, Remark) else coded(why), why)
        for why, count in rejected.items()
    ]
    lost = list[Line]()
    for count, reason, why in sorted(said, key=lambda one: (-one[0], one[1])):
        place = None
        if first:
            place = first.get(why)
        lost.append(
            Line(
                f"{counted(count, 'row')} rejected: "
                f"{reason}{f' (first: {place})' if place else ''}",
                "warning",
            )
        )
    return Lines(
        (
            *lost,
            *remarked(remarks),
            *(Line(f"unreadable: {error}", "error") for error in unreadable),
        ),
        "list",
    )


def origin(made: Mapping[str, Any]) -> list[str]:
    """Say in a few words which data something was made from and when, as far as it is recorded."""
    if not made:
        return []
    seed = []
    if made.get("seed") is not None:
        seed = [f"seed {made['seed']}"]
    files = []
    if made["files"]:
        files = [counted(len(made["files"]), "file")]
    return [", ".join([*files, *seed, made["date"]])]


def footer(made: Mapping[str, Any]) -> list[Part]:
    """Return the end of a page, from the ``provenance`` of ``metrics.json``; nothing where that is empty.

    That is how it was asked for, when and where it was made, every file with its hash, and
    ``versions`` where they are in it.
    """
    if not made:
        return []
    machine = made["machine"]
    where = (
        f"on {machine['cpu']} ({counted(machine['cores'], 'core')}), {machine['os']}, Python "
        f"{machine['python']}"
    )
    conditions = []
    if made["where"]:
        conditions = [f"rows with {', '.join(made['where'])}"]
    software = ", ".join(
        f"{name} {version}" for name, version in (made.get("versions") or {}).items()
    )
    said = [
        made["command"],
        "; ".join([*origin(made), *conditions, where]),
        *([software] if software else []),
    ]
    files = [
        (file["name"], f"{file['bytes']:,}", file["sha256"] or "not hashed")
        for file in made["files"]
    ]
    heads = (Column("file", "place"), Column("bytes", "number"), Column("SHA-256"))
    folded = f"{counted(len(files), 'file')} with size and SHA-256"
    return [
        lines(said, tone="soft"),
        Table(
            heads,
            rows(files),
            "files",
            folded=folded,
        ),
    ]
