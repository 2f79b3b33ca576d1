"""What a reader of measured data is, and the registry that detects which one a file belongs to.

A new format is one class: subclass :class:`Reader`, decorate it with :func:`register`, and every
command reads it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from codecs import BOM_UTF8
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import counted, few
from ..remarks import Remark
from ..table.conditions import Condition
from ..traces.dispatches import Trace
from .not_read import not_read

#: Column of the 1-based line in the file.
LINE = "file_line"
#: Column: place of a row among the lines of all files, each of which has fewer than so many.
ORDER = "_order"
MOST_LINES = 2**40
#: Code of the finding that a file has no grids, and how to record them.
GRID_NOT_RECORDED = "grid-not-recorded"
#: No job has more ranks: a larger number is damage.
MOST_RANKS = 100_000
#: Bytes of content (after decompression) that a reader may look at to recognise its format.
HEAD_BYTES = 65536
#: First bytes of every Parquet file, and of every SQLite database.
PARQUET = b"PAR1"
SQLITE = b"SQLite format 3\0"
ARCHIVE = b"PK\x03\x04"  # the first bytes of an .xlsx, as of every archive
#: Default limits of a file's decompressed size, for 16 GB of memory: text that is cut into fields needs 12 to 31 times
#: its size, the columns of a trace less than four times.
TABLE_BYTES = 2**29
TRACE_BYTES = 2**32


@dataclass(frozen=True)
class Note:
    """A remark on some rows of one file; equal remarks on several files are reported as one."""

    remark: Remark
    rows: int


def of_file(file: str, note: Remark) -> Remark:
    """Return a note prefixed with the file it is about."""
    return Remark(
        note.code,
        (("file", file), *note.items),
        f"{file}: {note.text}",
        note.text,
    )


def of_rows(note: Remark, rows: int, files: Sequence[str] = ()) -> Remark:
    """Return a note that ends with the number of rows it concerns, and the files.

    >>> from flopcast.remarks import remark
    >>> of_rows(remark("repeats-merged", "repeats were merged"), 2, ("a.csv", "b.csv"))
    [repeats-merged] repeats were merged (2 rows in a.csv, b.csv)
    """
    if rows:
        concerned = [counted(rows, "row")]
    else:
        concerned = []
    concerned += [few(files, 3)] if files else []
    text = note.text
    if concerned:
        text += f" ({' in '.join(concerned)})"
    items = (*note.items, ("rows", rows), ("files", tuple(files)))
    return Remark(note.code, items, text, note.text)


def without(note: Remark, *names: str) -> Remark:
    """Return a note without the parts that `of_file` ("file") or `of_rows` ("rows", "files") added."""
    return Remark(
        note.code, tuple(item for item in note.items if item[0] not in names), note.general
    )


@dataclass(frozen=True)
class Options:
    """The user's options for the files: units of columns, and values for missing columns.

    `each` keeps every repeat as a separate row. `timed` is false where rows need no duration:
    workloads that nobody has run yet, and runs of serving of which one time is enough. `channels`
    keeps every channel of a per-channel counter as a separate column. `calls` asks traces for the
    CPU's calls of the runtime too, `ranges` for the user's annotations. `max_bytes` limits the size
    of a file once decompressed, in place of the defaults. `keep` names what is kept though it would
    be refused (`table.physics.KEEP`). `renames` says what columns of tables are called here: the
    file's name -> ours. Rows that do not meet `where`, or of none of the `devices` if any are
    named, a reader may leave out at once.
    """

    units: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    timed: bool = True
    each: bool = False
    channels: bool = False
    calls: bool = False
    ranges: bool = False
    max_bytes: int | None = None
    keep: Collection[str] = ()
    where: tuple[Condition, ...] = ()
    devices: Collection[str] = ()
    renames: Mapping[str, str] = field(default_factory=dict)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions on rows: the operator first, then the user's others, and the devices."""
        asked = sorted(self.where, key=lambda one: one.column != "op")
        if self.devices:
            asked.append(Condition("device", tuple(self.devices)))
        return tuple(asked)

    @property
    def table_bytes(self) -> int:
        """Limit of a file that is cut into fields."""
        if self.max_bytes is None:
            return TABLE_BYTES
        return self.max_bytes

    @property
    def trace_bytes(self) -> int:
        """Limit of a file whose values are decoded into columns."""
        if self.max_bytes is None:
            return TRACE_BYTES
        return self.max_bytes


@dataclass(frozen=True)
class DataFile:
    """A file to read: its path, its label in messages, and whether the user named it or a folder contained it."""

    path: Path
    label: str
    named: bool

    def __str__(self) -> str:
        return str(self.path)


def by_folder(files: Sequence[DataFile], within: Collection[str] = ()) -> list[list[DataFile]]:
    """Return the files grouped by folder; a folder named in `within` counts as part of its parent."""
    folders: dict[Path, list[DataFile]] = {}
    for file in files:
        folder = file.path.parent
        folders.setdefault(folder.parent if folder.name in within else folder, []).append(file)
    return list(folders.values())


@dataclass(frozen=True)
class FileRead:
    """A file that was read: its label, its size in bytes, and its SHA-256."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class RawTable:
    """The rows of one file under the names of the measurement table, not yet checked."""

    # columns as in ``table.measurements``; numbers may be text; `file_line` is the 1-based line.
    # `_defect` and `_defect_detail` refuse a row for a reason of the format.
    rows: pd.DataFrame = field(default_factory=pd.DataFrame)
    notes: Sequence[Note] = ()  # assumptions made and rows skipped
    # the file's column names, where the user may state units of them; else none
    columns: Sequence[str] = ()
    # the column with the duration and the unit in which it was read, where the user may state
    # another
    times: tuple[str, str] | None = None
    cells: pa.Table | None = (
        None  # in place of ``rows``: many small files are joined several times faster so
    )

    def sourced(self, label: str, place: int) -> pd.DataFrame | pa.Table:
        """Return the rows with file and line of each in `source`, and its place among the lines of all files."""
        if self.cells is not None:
            line = self.cells[LINE]
            source = pc.binary_join_element_wise(label, line.cast(pa.string()), ":")
            cells = self.cells.drop_columns([LINE]).append_column("source", source)
            return cells.append_column(ORDER, pc.add(line, place * MOST_LINES))
        rows = self.rows
        if not len(rows):
            return rows
        if LINE in rows:
            line = rows.pop(LINE).to_numpy(dtype=np.int64)
            source = pc.binary_join_element_wise(label, pa.array(line).cast(pa.string()), ":")
            rows["source"] = pd.Series(pd.array(source, dtype="str"), rows.index)
        else:  # rows of a trace know the activity they come from
            line = np.arange(1, len(rows) + 1)
        rows[ORDER] = place * MOST_LINES + line
        return rows


@dataclass(frozen=True)
class Excluded:
    """Why a file is skipped: the condition that none of its rows meets, its column, and the file's values."""

    condition: str
    column: str
    held: tuple[str, ...]
    passed: int  # how many conditions it does meet


class Reader(ABC):
    """One format of measured data.

    Attributes
    ----------
    name : str
        Short name of the format.
    fallback : bool
        True for a general format, asked only after all the special ones have declined.
    containers : tuple of bytes
        First bytes of the containers that hold the format (`PARQUET`, `SQLITE`, `ARCHIVE`); empty for text.
    mark : re.Pattern
        What every beginning of the format holds, where that is enough to recognise it.
    """

    name: ClassVar[str]
    fallback: ClassVar[bool] = False
    containers: ClassVar[tuple[bytes, ...]] = (b"",)
    mark: ClassVar[re.Pattern[bytes]]

    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether the content is of this format; `head` is its (decompressed) beginning."""
        return self.mark.search(head) is not None

    def excluded(self, path: Path, options: Options) -> Excluded | None:
        """Return the condition of `options` that no row of the file meets; None if some row may meet all."""
        return None

    @abstractmethod
    def read(self, path: Path, options: Options) -> RawTable:
        """Return the file's rows.

        Parameters
        ----------
        path : Path
            A file whose content :meth:`sniff` has recognised.
        options : Options
            Units and values the user states.

        Returns
        -------
        RawTable
            Raw rows and remarks.

        Raises
        ------
        DataError
            The file as a whole cannot be read; single bad rows are returned with their `_defect`
            instead.
        """


class TraceReader(ABC):
    """One format of profiler output: files that record every activity of the GPU.

    Attributes
    ----------
    name : str
        Short name of the format.
    containers : tuple of bytes
        As of a `Reader`.
    """

    name: ClassVar[str]
    containers: ClassVar[tuple[bytes, ...]] = (b"",)

    @abstractmethod
    def sniff(self, path: Path, head: bytes) -> bool:
        """Return whether the content is of this format; `head` is its (decompressed) beginning."""

    def gather(self, files: Sequence[DataFile]) -> list[tuple[DataFile, ...]]:
        """Group the recognised files: each tuple is read as one trace.

        By default every file is a separate trace. Formats that spread one run over several files
        (a kernel trace, a counter collection and a list of agents in one folder) group them here.
        """
        return [(file,) for file in files]

    def tables(self, files: Sequence[DataFile]) -> Sequence[tuple[Reader, DataFile]]:
        """Return the files of a group that are tables, each with the reader of it; () where the group has launches.

        Sums over kernels are a table where nothing else was kept of a recording.
        """
        return ()

    @abstractmethod
    def trace(self, files: Sequence[DataFile], options: Options) -> Trace:
        """Return the recording of one group of :meth:`gather`.

        `source` of each row is ``label:number``, the 1-based line, row or event within that file.
        Raises DataError: a file cannot be read: truncated, not what its first bytes promise, larger
        than is allowed.
        """


_READERS: list[Reader | TraceReader] = []
R = TypeVar("R", bound=type[Reader] | type[TraceReader])


def register(cls: R) -> R:
    """Register a reader for detection (a class decorator)."""
    _READERS.append(cls())
    return cls


def readers() -> Iterator[Reader | TraceReader]:
    """Yield the readers in the order of detection: special formats by name, then the general ones.

    No two special formats recognise one file, so that the order decides nothing but what messages
    list first.
    """
    yield from sorted(
        _READERS,
        key=lambda reader: (isinstance(reader, Reader) and reader.fallback, reader.name.casefold()),
    )


def is_json(head: bytes) -> bool:
    """Return whether the beginning of a file is that of an object or a list of JSON."""
    return head.removeprefix(BOM_UTF8).lstrip()[:1] in (b"{", b"[")


def detect(path: Path, head: bytes) -> Reader | TraceReader | None:
    """Return the reader that recognises the content, or None; a container is shown to those of its formats alone."""
    container = b""
    for beginning in (PARQUET, SQLITE, ARCHIVE):
        if head.startswith(beginning):
            container = beginning
    for reader in readers():
        if container in reader.containers and reader.sniff(path, head):
            return reader
    return None


def formats() -> str:
    """Return one phrase that describes the columns of a plain table and names every other format."""
    others = [one.name for one in readers() if isinstance(one, TraceReader) or not one.fallback]
    needed = "columns device, op, its dimensions, and a duration with its unit such as latency_ms"
    return (
        f"a table needs {needed}, or its own names given by rename NAME=COLUMN; of tools, read "
        f"are {', '.join(others)}"
    )


def unsupported(head: bytes, *, is_recognised: bool = True) -> str:
    """Describe a file that no reader recognises by its beginning; ``is_recognised`` lists the supported formats.

    >>> unsupported(b"a,b,c", is_recognised=False)
    "no supported format, it begins with 'a,b,c'"
    """
    if not head.strip():
        return "is empty"
    reason = not_read(head)
    if reason:
        return reason
    if b"\0" in head:
        return "no supported format, it is binary"
    first = head.lstrip().split(b"\n", 1)[0].decode(errors="replace").strip()
    if re.search("[,;\t|].*[,;\t|]", first):
        needed = formats().partition("; of tools")[0]
    else:
        needed = formats()
    return f"no supported format, it begins with {first[:60]!r}{f': {needed}' if is_recognised else ''}"
