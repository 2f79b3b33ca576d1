"""Output of rccl-tests and nccl-tests (`all_reduce_perf` and its kin, 2019 to 2026): a table of collectives by size.

::

    # Collective test starting: all_reduce_perf
    # nThread 1 nGpus 8 minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20 ...
    rccl-tests: Version develop:448c4c7
    #  Rank  0 Group  0 Pid   4242 on   node01 device  0 [0000:05:00.0] AMD Instinct MI300X
    #  size    count    type   redop    root     time   algbw   busbw  #wrong     time   algbw
    busbw  #wrong
          8        2   float     sum      -1    19.28    0.00    0.00       0    18.91    0.00
          0.00     N/A

Each line times one collective twice, out of place and then in place, and so gives two rows; times
are microseconds. The collective's name stands in the line of its start, in a command that the log
repeats, or in the file's name. Older releases have no `root`, and `error` in place of `#wrong`:
columns are matched by name. Launchers put a rank, a host or the time before each line, messages of
other ranks break lines in two, and the ``#`` may be missing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from ..errors import DataError
from ..remarks import remark
from ..table.measurements import DEFECT, DEFECT_DETAIL
from .base import HEAD_BYTES, LINE, Note, Options, RawTable, Reader, is_json, register
from .blas import text_column
from .files import campaign_of, content, text
from .words import vocabulary

#: What launchers put before each line: a rank (`mpirun --tag-output`, `srun -l`), a host (`pdsh`), the time.
_TAG = re.compile(
    r"^(?:\s*(?:\[\d+,\d+\]<\w+>:|\d+:|[A-Za-z][\w.-]*:(?=\s+(?:#|\d+\s+\d+\s))"
    r"|\d{4}-\d\d-\d\d[T ][\d:.,+Z-]+(?=\s))\s?)+"
)
_SNIFF = re.compile(
    rb"^(?:[^\n#]{0,80}(?:[:\]\dZ](?=[^\S\n])|>:))?[^\S\n]*+"
    rb"(?:(?:#[^\S\n]*+)?size[^\S\n]+count[^\S\n]+type[^\S\n][^\n]*\btime\b|rccl-tests: Version"
    rb"|(?:#[^\S\n]*+)?nThread \d+ nGpus \d+|(?:#[^\S\n]*+)?Collective test starting: \w+)",
    re.MULTILINE,
)
_PREAMBLE = re.compile(rb"[NR]CCL|[nr]ccl|_perf\b")
_PREAMBLE_BYTES = 2**24  # of a log before its table
_TABLE = re.compile(r"^#?\s*(size\s+count\s+type\s.*\btime\b.*)$")
_RANK = re.compile(
    r"^#?\s*Rank\s+(?P<rank>\d+)\s+(?:Group\s+(?P<group>\d+)\s+)?Pid\s+\d+\s+on\s+(?P<host>\S+)"
    r"\s+device\s+\d+\s+\[[^\]]*\]\s*(?P<device>.*?)\s*$"
)
_START = re.compile(r"^#?\s*Collective test (starting|concluded):\s*(\S+)")
_THREADS = re.compile(r"^#?\s*nThread \d")
_AVERAGE = re.compile(r"^#?\s*Avg bus bandwidth")
_COMMAND = re.compile(r"(?:^|[\s/])([a-z_]+)_perf(?:_mpi)?\b")
_NUMBER = r"(?:-?\d[\d.e+-]*\*?|N/A|-?inf|-?nan)"
#: A line of values, as far as it goes: a message of another rank may stand in the middle of it.
_ROW = re.compile(rf"^\s*\d+\s+\d+\s+[A-Za-z]\w*(?:\s+[a-z]+)?(?:\s+{_NUMBER})*")
_REST = re.compile(rf"^\s*{_NUMBER}(?:\s+{_NUMBER})*\s*$")
_WORDS = vocabulary("collectives")
#: Collectives under the names of their test programs, and how programs and files spell them.
_COLLECTIVES = {
    name: re.compile(rf"(?:^|[-_. ]|[rn]ccl){word}(?=[-_. ]|$)") for name, word in _WORDS.items()
}
#: Another spelling of FP8 in rccl-tests.
_DTYPES = {"f8e4m3": "fp8", "f8e5m2": "fp8"}
_PLAIN_REDUCTIONS = frozenset({"sum", "none", ""})
IN_PLACE = "in_place_"


@register
class RcclTestsReader(Reader):
    """Tables of rccl-tests and nccl-tests, one after another in a log, with other lines between."""

    name = "rccl-tests log"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the table's header, or the lines that every run begins with; they may stand behind a long log."""
        if _SNIFF.search(head):
            return True
        if len(head) < HEAD_BYTES or not _PREAMBLE.search(head) or is_json(head):
            return False
        return _SNIFF.search(content(path, _PREAMBLE_BYTES)) is not None

    def read(self, path: Path, options: Options) -> RawTable:
        """Return two rows for each line, out of place and in place; wrong results are refused.

        Raises DataError where neither the log, nor the file's name, nor the user names the
        collective.
        """
        words = text(path, max_bytes=options.table_bytes)
        log = Log()
        for number, line in enumerate(words.split("\n"), start=1):
            log.take(number, _TAG.sub("", line.rstrip("\r")))
        if not log.rows:
            return RawTable(
                pd.DataFrame(),
                [
                    Note(
                        remark(
                            "no-timings",
                            "no timings: the log ends before the first row of its table",
                            by="rccl-tests",
                        ),
                        0,
                    )
                ],
            )
        return measurements(
            log, collective_of(path.name) or options.defaults.get("variant", ""), path
        )


@dataclass
class Run:
    """One run of a test program, as its comments describe it."""

    collective: str = ""
    columns: list[str] = field(default_factory=list)
    ranks: set[tuple[str, str]] = field(default_factory=set)  # group, rank
    hosts: set[str] = field(default_factory=set)
    devices: set[str] = field(default_factory=set)
    begun: bool = False
    concluded: bool = False

    @property
    def size(self) -> int | None:
        """Ranks that take part in one collective; None where the log does not list them, or groups differ in size."""
        groups = [group for group, _ in self.ranks]
        sizes = {groups.count(group) for group in groups}
        if len(sizes) == 1:
            return next(iter(sizes))
        return None

    @property
    def device(self) -> str:
        """The device of all ranks, "" if they differ or it is not stated."""
        if len(self.devices) == 1:
            return next(iter(self.devices))
        return ""


@dataclass
class Log:
    """The log's lines, taken one by one."""

    rows: list[dict[str, str | int]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=lambda: [Run()])
    _commanded: str = ""
    # the values of the last row, as long as some are missing
    _open: list[str] = field(default_factory=list)

    def take(self, number: int, line: str) -> None:
        """Take the next line: a comment that describes the run, values, or a command that the log repeats."""
        if (
            line.startswith("#")
            or _TABLE.match(line)
            or _RANK.match(line)
            or _START.match(line)
            or _THREADS.match(line)
        ):
            self._take_comment(line)
        elif row := _ROW.match(line):
            self._take_values(number, row[0].split())
        elif self._open and _REST.match(line):
            self._take_rest(line.split())
        elif command := _COMMAND.search(line):
            # Within a table the line may be anything that names the program: the name is kept for
            # the run that follows.
            collective = collective_of(command[1])
            self._commanded = collective or self._commanded
            if collective and not self.runs[-1].begun:
                self.runs[-1].collective = collective

    def _take_values(self, number: int, values: list[str]) -> None:
        """Take a row, or the part of it before a message of another rank."""
        self.runs[-1].begun = True
        self._open = values
        self.rows.append({LINE: number, "run": len(self.runs) - 1})
        self._fill()

    def _take_rest(self, values: list[str]) -> None:
        """Take the rest of a row after the message."""
        self._open = [*self._open, *values]
        self._fill()

    def _fill(self) -> None:
        """Write the values of the last row into it."""
        columns = self.runs[-1].columns
        values = self._open
        row = self.rows[-1]
        row[DEFECT] = ""
        row[DEFECT_DETAIL] = ""
        if len(values) == len(columns):
            row.update(zip(columns, values, strict=True))
        else:
            row[DEFECT] = "line-unlike-header"
            row[DEFECT_DETAIL] = f"{len(values)} values for {len(columns)} columns"
        if len(values) >= len(columns):
            self._open = []

    def _take_comment(self, line: str) -> None:
        run = self.runs[-1]
        if _THREADS.match(line):
            self._next_run()
        elif match := _TABLE.match(line):
            names: list[str] = []
            for word in match[1].split():
                name = word.removeprefix("#")
                names.append(f"{IN_PLACE}{name}" if name in names else name)
            run.columns = names
        elif rank := _RANK.match(line):
            run.ranks.add((rank["group"] or "0", rank["rank"]))
            run.hosts.add(rank["host"])
            run.devices.add(rank["device"])
        elif _AVERAGE.match(line):
            run.concluded = True
        elif start := _START.match(line):
            if start[1] == "starting":
                run = self._next_run()
            run.collective = collective_of(start[2]) or start[2]

    def _next_run(self) -> Run:
        """Return the run that a line of a beginning belongs to: a new one if the last has rows already."""
        if self.runs[-1].begun or self.runs[-1].concluded:
            self.runs.append(Run(self._commanded))
            self._commanded = ""
        return self.runs[-1]


def collective_of(word: str) -> str:
    """Return the collective named in the name of a program or a file, "" for none."""
    plain = word.lower().replace("_perf", "")
    return next((name for name, pattern in _COLLECTIVES.items() if pattern.search(plain)), "")


def measurements(log: Log, fallback: str, path: Path) -> RawTable:
    """Return the rows of every run, under the names of the measurement table."""
    given = pd.DataFrame(log.rows, dtype=object)
    runs = [log.runs[number] for number in given["run"]]
    collectives = pd.Series(
        [run.collective or fallback for run in runs], index=given.index, dtype="str"
    )
    if collectives.eq("").any():
        line = given[LINE][collectives.eq("")].iloc[0]
        hint = "neither the log nor the file's name says which collective this is"
        raise DataError(f"{hint}: give default variant=all_reduce", source=f"{path}:{line}")
    # What tells equal collectives apart: a reduction other than the sum, and the number of nodes.
    reduction = text_column(given, "redop")
    apart = (" " + reduction).mask(reduction.isin(_PLAIN_REDUCTIONS), "")
    nodes = [f" {len(run.hosts)} nodes" if len(run.hosts) > 1 else "" for run in runs]
    common = pd.DataFrame(
        {
            "op": "collective",
            "variant": collectives + apart + pd.Series(nodes, index=given.index, dtype="str"),
            "message_bytes": text_column(given, "size"),
            "ranks": [run.size for run in runs],
            "nodes": [len(run.hosts) or None for run in runs],
            "dtype_a": text_column(given, "type").replace(_DTYPES),
            "device": [run.device for run in runs],
            "campaign": campaign_of(path),
            LINE: given[LINE].astype("int64"),
        }
    )
    unlisted = sum(run.size is None for run in runs)
    mixed = sum(len(run.devices) > 1 for run in runs)
    open_ = (
        "the log does not list its ranks, or groups of different sizes: give default ranks=NUMBER"
    )
    counts = {
        remark("ranks-not-listed", open_): unlisted,
        remark("ranks-on-several-devices", "the ranks ran on different devices: no device"): mixed,
    }
    notes = [Note(what, rows) for what, rows in counts.items() if rows]
    ways = []
    for prefix, word in (("", ""), (IN_PLACE, " in-place")):
        rows = common.assign(
            variant=common["variant"] + word, duration_us=text_column(given, f"{prefix}time")
        )
        rows[DEFECT] = given[DEFECT]
        rows[DEFECT_DETAIL] = given[DEFECT_DETAIL]
        # Newer releases print the number of wrong elements, older ones the largest error ("4e-07"),
        # small for any sum of floats, with an asterisk beyond the bound; "N/A" is a run without a
        # check.
        wrong = text_column(given, f"{prefix}wrong")
        error = text_column(given, f"{prefix}error")
        largest = pd.to_numeric(error.str.rstrip("*"), errors="coerce").astype(float)
        failed = (
            pd.to_numeric(wrong, errors="coerce").gt(0)
            | error.str.endswith("*")
            | np.isinf(largest)
        )
        failed &= rows[DEFECT].eq("")
        rows.loc[failed, DEFECT] = "wrong-result"
        rows.loc[failed, DEFECT_DETAIL] = ("#wrong = " + wrong).where(
            error.eq(""), "error = " + error
        )[failed]
        ways.append(rows)
    outside, inside = ways
    absent = inside["duration_us"].isin(["N/A", ""]) & inside[DEFECT].eq("")
    if absent.any():
        notes = [
            *notes,
            Note(
                remark("no-time-in-place", "no time in place (N/A): one row only"),
                int(absent.sum()),
            ),
        ]
    inside = inside[~absent & given[DEFECT].eq("")]
    alone = outside["duration_us"].eq("") & ~absent & outside[DEFECT].eq("")
    outside = outside[~alone]  # records of one way each: the other is not in the file
    return RawTable(
        pd.concat([outside, inside]).sort_values(LINE, kind="stable", ignore_index=True), notes
    )
