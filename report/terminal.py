"""Documents on a terminal: what enters is a `report.document.Document`, what leaves is text in the terminal's width.

Charts are drawn in characters, in colour where the terminal has any; curves bear signs too, so that
they can be distinguished without colour. Long work shows its progress.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import StringIO
from itertools import chain
from pathlib import Path
from textwrap import fill, wrap
from typing import Any, Final, cast

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from .. import output as files
from ..remarks import visible
from ..settings import Report
from .document import (
    Cell,
    Chart,
    Column,
    Document,
    Facts,
    Headline,
    Line,
    Lines,
    Part,
    Row,
    Table,
    Tone,
    printable,
)
from .formats import clock, counted, distinct, unbroken
from .spelling import as_options

WIDTH: Final = 120  # columns that the widest table needs; what is not a terminal (a file, a pipe) gets at least so many
SCREEN: Final = 24  # lines of a first screen
# tones of what is said beside the answer
_REMARKS: Final[tuple[Tone, ...]] = (
    "error",
    "warning",
    "soft",
)
_SPARE: Final = 3  # lines beyond the screen that make a table whole
_REMARKED: Final = 3  # remarks of a first screen
_REMARK_LINES: Final = 8  # lines that those after the first may fill with it
_HEAD: Final = 10  # columns for a head, in lines, where a table is too wide
_FOLDED: Final = 20  # columns that words should have
_STYLES: Final = {
    "strong": "bold",
    "soft": "dim",
    "good": "green",
    "accent": "cyan",
    "warning": "yellow",
    "error": "red",
}
# lines of a chart; its columns, so that ticks are round; those of its axis
_HEIGHT = 20
_WIDTHS = (100, 50)
_AXIS = 20
_COLOURS: Final = ("cyan", "red", "yellow", "green", "magenta", "blue")  # of the curves of a chart
_SIGNS: Final = ("o", "x", "+", "*", "#", "%")


def output() -> Console:
    """Return the console for results: as wide as the terminal; outside one, wide enough for every table."""
    console = Console()
    if console.is_terminal or console.width >= WIDTH:
        return console
    return Console(width=WIDTH)


def print_json(text: str) -> None:
    """Print JSON on the standard output, whatever its encoding: what that lacks is escaped, so that nothing is lost."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(json.loads(text), indent=1) + "\n"
    print(text, end="")


def show(
    document: Document,
    *written: Path,
    as_json: bool = False,
    rows: int | None = None,
    every: bool = True,
    short: bool = False,
) -> None:
    """Print a document on the standard output, and the files where it has been written; or only its JSON.

    `rows` says how many rows the files hold. Without ``every`` the first screen is printed
    (`first_screen`), and with ``short`` the answer alone. Where no file has been written, the last
    line is the document's ``offer``.
    """
    if as_json:
        print_json(files.dumps(document.data, missing=True))
        return
    if short:
        answer = document.short
        document = replace(
            document,
            title="",
            lead="",
            opening=answer,
            sections=[],
            closing=[],
        )
    if document.offer and not written:
        said = Lines([Line(f"Nothing was written: {document.offer}.")])
        document = replace(document, closing=[*document.closing, said])
    console = output()
    print_document(console, document if every else first_screen(document, console))
    if written:
        say_written(console, *written, rows=rows)


def print_document(
    console: Console, document: Document, shown: Callable[[Part], Part] = printable
) -> None:
    """Print title and lead, the opening, the sections one after the other without their headings, the closing."""
    last: RenderableType | None = None
    for block in _blocks(document, console, shown):
        if isinstance(block, _Title) and last is not None and not isinstance(last, Grid):
            console.print()
        console.print(block, highlight=False)
        last = block


def first_screen(document: Document, console: Console, remarked: int = _REMARKED) -> Document:
    """Return the answer of a document and as much of the rest as fits `SCREEN` lines.

    Tables are cut where they do not fit, and left out where three rows of them do not, unless they
    are the answer, as are charts that nobody asked for; remarks stand at the end, each whole:
    three of them, fewer where they are long, or one where that leaves room for a table. The last
    line says what there is more.
    An answer that takes more lines is whole.
    """
    # Remarks are not of the answer itself: how data were read, what was lost.
    remarks = list[Line]()
    parts = list[Part]()
    every = chain.from_iterable(section.parts for section in document.sections)
    opening = [part for part in document.opening if part.medium != "page"]
    rest = [part for part in every if part.medium != "page"]
    closing = [part for part in document.closing if part.medium != "page"]
    for part in map(printable, (*opening, *rest, *closing)):
        if isinstance(part, Lines) and part.look != "answer":
            remarks += [line for line in part.lines if line.tone in _REMARKS]
            part = replace(part, lines=[line for line in part.lines if line.tone not in _REMARKS])
        parts.append(part)
    remarks.sort(key=lambda line: _REMARKS.index(line.tone))
    said = _whole(remarks[:remarked], console)
    outer = (*parts[: len(opening)], *parts[len(opening) + len(rest) :])
    fixed = [part for part in outer if not isinstance(part, Table)]
    taken = _lines(Document(document.title, document.lead, [*fixed, Lines(said)]), console)
    room = SCREEN - 2 - taken
    shown = list[Part]()
    tables = 0
    rows_left = 0
    for place, part in enumerate(parts):
        if any(part is one for one in fixed) or (isinstance(part, Chart) and part.asked):
            shown.append(part)
        elif isinstance(part, Table):
            spare = _SPARE
            if any(isinstance(one, Table) for one in shown):
                spare = 0
            fitting, needed = _fitting(part, room - bool(part.title), spare, console)
            if fitting is None and place < len(opening) and part.rows:  # of the answer itself
                fitting = replace(part, shown=min(3, len(part.rows)), rest=None)
                needed = _lines(Document(opening=[fitting]), console)
            room -= bool(part.title) + needed
            shown += [fitting] if fitting else []
            tables += fitting is None and bool(part.rows)
            if fitting:
                rows_left += len(part.rows) - (fitting.shown or len(part.rows))
        elif (needed := _lines(Document(opening=[part]), console)) <= room:
            shown.append(part)
            room -= needed
        elif isinstance(part, Lines):
            remarks += part.lines
    if tables and remarked > 1:
        other = first_screen(document, console, 1)
        if sum(isinstance(part, Table) for part in other.opening) > sum(
            isinstance(part, Table) for part in shown
        ):
            return other
    held = {
        "table": tables,
        "row": rows_left,
        "chart": sum(isinstance(part, Chart) and not part.asked for part in parts),
        "remark": len(remarks) - len(said),
    }
    more = ", ".join(counted(count, noun) for noun, count in held.items() if count)
    if more:
        said.append(Line(f"More with --all: {more}", "soft"))
    return replace(document, opening=shown, sections=[], closing=[Lines(said)])


def _fitting(table: Table, room: int, spare: int, console: Console) -> tuple[Table | None, int]:
    """Return a table with as many rows as fit, three at least, and its lines; else None, and 0.

    One that is whole with so many ``spare`` lines more is not cut.
    """
    most_rows = min(len(table.rows), table.shown or len(table.rows))
    least = min(3, len(table.rows))

    def cut(count: int) -> tuple[Table, int]:
        made = table
        if count != table.shown or len(table.rows):
            made = replace(table, shown=count, rest=None)
        return made, _lines(Document(opening=[made]), console)

    if most_rows and most_rows == len(table.rows) and room >= least:
        whole, lines = cut(most_rows)
        if lines <= room + spare:
            return whole, lines
    count = min(most_rows, max(room, 3))  # a row takes a line at least
    while 0 < least <= min(count, room):
        made, lines = cut(count)
        if lines <= room:
            return made, lines
        if count == min(most_rows, max(room, 3)) and (fewer := count - lines + room) >= least:
            made, needed = cut(fewer)  # where each row takes one line
            if needed == room:
                return made, needed
        count -= max((lines - room) // 3, 1)  # a row may take several lines
    return None, 0


def _lines(document: Document, console: Console) -> int:
    """Return how many lines a document takes, whose parts can be shown as they are."""
    apart = Console(width=console.width, file=StringIO())
    print_document(apart, document, lambda part: part)
    return cast("StringIO", apart.file).getvalue().count("\n")


def _whole(remarks: Sequence[Line], console: Console) -> list[Line]:
    """Return the first remark, and of the others those that fit `_REMARK_LINES` with it."""
    said = list(remarks[:1])
    for remark in remarks[1:]:
        lengthened = Document(opening=[Lines([*said, remark])])
        if _lines(lengthened, console) > _REMARK_LINES:
            break
        said.append(remark)
    return said


class _Title(Text):
    """The title of a table, with a blank line before it unless a table, which ends in one, stands there."""


def say_written(console: Console, *paths: Path, rows: int | None = None) -> None:
    """Print ``Wrote A and B (N rows)``, in one line however long: a path that is cut cannot be copied.

    Three and more of one folder are named after it.
    """
    names = [*map(str, paths)]
    folder = ""
    if len(paths) > 2 and len({path.parent for path in paths}) == 1:
        names = [path.name for path in paths]
        folder = f"{paths[0].parent}: "
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    held = ""
    if rows is not None:
        held = f" ({counted(rows, 'row')})"
    console.print(
        files.visible(f"Wrote {folder}{listed}{held}"),
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _blocks(
    document: Document, console: Console, shown: Callable[[Part], Part]
) -> Iterator[RenderableType]:
    heads = ((document.title, "bold"), (document.lead, ""))
    yield from (Text(files.visible(text), style) for text, style in heads if text)
    sections = chain.from_iterable(section.parts for section in document.sections)
    for part in (*document.opening, *sections, *document.closing):
        yield from rendered(part, console, shown)


def rendered(
    part: Part, console: Console, shown: Callable[[Part], Part] = printable
) -> Iterator[RenderableType]:
    """Yield what to print of a part; nothing of figures, of what is for pages, and of tables without rows."""
    if part.medium == "page":
        return
    part = shown(part)
    if isinstance(part, Table) and part.rows:
        yield from _table(part, console)
    elif isinstance(part, Facts) and part.facts:
        grid = Grid.grid(padding=(0, 2))
        grid.add_column(justify="right", no_wrap=True)
        grid.add_column(overflow="fold")
        for fact in part.facts:
            grid.add_row(Text(fact.value), Text(fact.words), style=_style(fact.tone))
        yield Padding(grid, (0, 0, 0, 1))
    elif isinstance(part, Headline):
        about = ""
        if part.about:
            about = f"{part.about} — "
        rival = ""
        if part.rival:
            rival = f"{part.rival} → "
        yield _sentence(f"{about}{rival}{part.answer}", console, "bold")
        if part.beneath:
            yield _sentence(f"  {part.beneath}", console)
    elif isinstance(part, Chart) and part.curves:
        yield _Title(part.title, "bold")
        yield Text.from_ansi(drawn(part, console.width, coloured=console.color_system is not None))
    elif isinstance(part, Lines):
        bullet = ""
        if part.look == "answer":
            bullet = "• "
        for line in part.lines:
            yield _sentence(f"{bullet}{as_options(line.text)}", console, _style(line.tone))


def _sentence(text: str, console: Console, style: str = "") -> Text:
    """Return a sentence whose lines do not end between a figure and its unit."""
    said = []
    for line in text.split("\n"):
        if cell_len(line) <= console.width:
            said.append(line)
        else:
            said += wrap(
                unbroken(line), console.width, break_long_words=False, break_on_hyphens=False
            )
    return Text("\n".join(said).replace("\N{NO-BREAK SPACE}", " "), style)


def _table(table: Table, console: Console) -> Iterator[RenderableType]:
    """Yield a table, and the rows that are sentences beneath it.

    One too wide for the terminal stands closer, and then without its last columns, which are named.
    """
    whole = [row for row in table.rows if len(row.cells) == len(table.columns)]
    cut = table.shown is not None and len(whole) > table.shown
    counts = ""
    if cut and table.title and not table.rest:
        counts = f" ({table.shown} of {len(whole):,})"
    shown = [*whole[: table.shown], *([table.rest] if cut and table.rest else [])]
    columns = [*table.columns]
    heads = [column.head for column in table.columns]
    gap = 2
    if _needed(columns, heads, shown, gap) > console.width:
        gap = 1
    if _needed(columns, heads, shown, gap) > console.width:
        heads = [fill(head, _HEAD) for head in heads]
    while _needed(columns, heads, shown, gap) > console.width and len(columns) > 2:
        del columns[-1], heads[-1]
    if table.title:
        yield _Title(table.title + counts, "bold")
    yield _grid(columns, heads, shown, gap)
    lost = dict.fromkeys(column.head for column in table.columns[len(columns) :])
    if lost:
        yield Text(f"too narrow a terminal for: {'; '.join(lost)}", "dim italic")
    sentences = Grid.grid(padding=(0, 1))
    for row in table.rows:
        if len(row.cells) < len(table.columns):
            sentences.add_row(
                Text("  "), *(_text(cell, "") for cell in row.cells), style=_style(row.tone)
            )
    if sentences.row_count:
        yield sentences
    if table.caption:
        yield Text(table.caption, "dim italic")


def _needed(
    columns: Sequence[Column],
    heads: list[str],
    shown: list[Row],
    gap: int,
) -> int:
    """Return the width at which a table reads well: names and numbers whole, words in a few lines."""
    widths = []
    for place, (column, head) in enumerate(zip(columns, heads, strict=True)):
        texts = []
        for row in shown:
            cell = row.cells[place]
            texts.append(cell.text if isinstance(cell, Cell) else cell)
        lines = chain.from_iterable(text.split("\n") for text in (head, *texts))
        widest = max(map(cell_len, lines))
        if column.kind not in ("name", "number"):
            widest = column.least or min(widest, _FOLDED)
        widths.append(widest)
    return sum(widths) + gap * len(widths) + 1


def _grid(
    columns: Sequence[Column],
    heads: list[str],
    shown: list[Row],
    gap: int,
) -> Grid:
    """Return a table whose columns stand ``gap`` blanks apart, the divider being one of them."""
    grid = Grid(
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, gap - 1, 0, 0),
    )
    for column, head in zip(columns, heads, strict=True):
        look: dict[str, Any] = {"overflow": "fold", "no_wrap": column.kind == "name"}
        if column.kind == "number":
            look = {"justify": "right", "no_wrap": True}
        grid.add_column(
            Text(head),
            min_width=column.least,
            max_width=column.most,
            **look,
        )
    names: dict[int, list[str]] = {}
    for place, column in enumerate(columns):
        if column.kind == "kernel":
            names[place] = [_text(row.cells[place], "").plain for row in shown]
    for row in shown:
        kept = row.cells[: len(columns)]
        cells: list[RenderableType] = []
        for place, (cell, column) in enumerate(zip(kept, columns, strict=True)):
            text = _text(cell, "bold" if row.title and not place else "")
            if column.kind == "cut":
                # set on the cell, not on the column: rich then narrows this column first
                text.no_wrap = True
                text.overflow = "ellipsis"
            if column.kind == "kernel":
                cells.append(_Name(text, names[place]))
            else:
                cells.append(text)
        grid.add_row(*cells, style=_style(row.tone), end_section=row.ends)
    return grid


class _Name:
    """The name of a kernel, cut where its column is narrower, so that it differs from the others."""

    def __init__(self, text: Text, others: Sequence[str]) -> None:
        self._text = text
        self._others = others

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        short = distinct(self._text.plain, self._others, options.max_width)
        yield Text(short.replace("\n", " "), self._text.style, no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        widest = min(self._text.cell_len, options.max_width)
        return Measurement(min(widest, _FOLDED), widest)


def _text(cell: str | Cell, style: str) -> Text:
    if isinstance(cell, Cell):
        return Text(cell.text, _style(cell.tone))
    return Text(cell, style)


def _style(tone: str) -> str:
    return _STYLES.get(tone, "")


def drawn(chart: Chart, width: int, *, coloured: bool = False) -> str:
    """Return a chart as text for a terminal of so many columns, with its legend."""
    import plotille  # here: few answers draw

    figure = plotille.Figure()
    figure.width = next((wide for wide in _WIDTHS if wide + _AXIS <= width), 25)
    figure.height = _HEIGHT
    figure.with_colors = coloured
    figure.origin = False
    figure.x_label = "x"
    figure.y_label = "y"
    figure.x_ticks_fkt = figure.y_ticks_fkt = lambda value, _: (
        f"{10.0**value if chart.logarithmic else value:.3g}"
    )
    if chart.limits:
        (left, right), (low, high) = chart.limits
        figure.set_x_limits(left, right)
        figure.set_y_limits(low, high)
    for place, (name, x, y) in enumerate(chart.curves):
        colour = None
        if coloured:
            colour = _COLOURS[place % len(_COLOURS)]
        if name in chart.points:
            figure.scatter(x, y, lc=colour, label=name)
        else:
            sign = None
            if not chart.points:
                sign = _SIGNS[place % len(_SIGNS)]
            figure.plot(x, y, lc=colour, label=name, marker=sign)
    body, _, legend = figure.show(legend=True).partition("\n\nLegend:\n-------\n")
    named = "   ".join([f"x: {chart.axes[0]}", f"y: {chart.axes[1]}", *legend.splitlines()])
    return f"{body.rstrip()}\n\n{named}\n"


@contextmanager
def shown_progress(title: str, *, first: str = "", quiet: bool = False) -> Generator[Report | None]:
    """Yield a callable ``(done, total, label, eta_seconds)`` that draws on stderr; None off a terminal or if ``quiet``.

    ``first`` says at once what is done before any of the work is counted. An ETA that is not finite
    is not yet known, and left out.
    """
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    from rich.progress import (  # here: most commands need none of it
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = [
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    ]
    with Progress(
        *columns, TextColumn("{task.fields[left]}"), console=console, transient=True
    ) as bars:
        bar = bars.add_task(
            visible(": ".join(filter(None, (title, first)))),
            total=None,
            left="",
        )

        def draw(done: int, total: int, label: str, eta_seconds: float) -> None:
            left = ""
            if math.isfinite(eta_seconds):
                left = f"about {clock(eta_seconds)} left"
            bars.update(
                bar,
                completed=done,
                total=total,
                description=visible(label),
                left=left,
            )

        yield draw
