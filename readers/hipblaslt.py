"""Output of hipblaslt-bench, rocblas-bench and hipblas-bench (ROCm 5 to 7): a header and a line for each timing.

::

    Device ID 0 : AMD Instinct MI300X gfx942:sramecc+:xnack-
    [0]:transA,transB,grouped_gemm,batch_count,m,n,k,...,a_type,...,bias_type,...,hipblaslt-Gflops,hipblaslt-GB/s,us
        T,N,0,1,4096,16,7168,...,bf16_r,...,non-supported type,...,93112,812.4,10.09
        --Solution index: 71243
        --Solution name:  Cijk_Alik_Bljk_BBS_BH_...

Columns vary by version and flags (frequencies, checks against the CPU, M,N,K in capitals) and are
matched by name. A log may hold many such blocks, with the log's other lines between them. Times are
microseconds; problems are BLAS's, by columns. With several solutions the fastest line is printed
again after ``Winner:``.

rocBLAS's table has no number formats: they are those of the command line above it (``rocblas-bench -f
gemm_ex --a_type f16_r ...``, or ``-r h``), where the log has it; else `Options.defaults` states them.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from ..remarks import remark
from ..table.measurements import DEFECT, DEFECT_DETAIL
from .base import LINE, Note, Options, RawTable, Reader, register
from .blas import device_of_gfx, padding, row_major, text_column
from .files import campaign_of, text
from .labels import canonical_device

_HEADER = re.compile(r"^\s*+(?:\[\d++\]:\s*+)?(transA,transB,\S.*)$")
_TIMED = re.compile(
    rb"^[ \t]*+(?:\[\d++\]:[ \t]*+)?transA,transB,[^\n]*,us(?:,|[ \t\r]*$)", re.MULTILINE
)
_ROW = re.compile(r"^\s*[NTC],[NTC],")
_DEVICE = re.compile(r"^Device ID\s+(\d+)\s*:(.*)$")
_GFX = re.compile(r"(?<!\S)gfx[0-9a-f]\S*$")
_SOLUTION = re.compile(r"^\s*+--\s*(Solution index|Solution name)\s*:\s*(\S.*)$", re.IGNORECASE)
_COMMAND = re.compile(r"(?<![\w-])(?:rocblas|hipblas|hipblaslt)-bench\s(?P<options>.*)$")
_WINNER = re.compile(r"^\s*Winner\b", re.IGNORECASE)
_TYPES = ("a_type", "b_type", "c_type", "d_type", "compute_type")
_PRECISIONS = {
    "h": "f16_r",
    "s": "f32_r",
    "d": "f64_r",
    "c": "f32_c",
    "z": "f64_c",
}
_LIBRARY = re.compile(r"^(rocblas|hipblas|hipblaslt)-gflops$")
_DEVICE_WORD = "_device"
_DEVICE_GFX = "_gfx"
#: `--scaleA`, `--scaleB`: one scale, one for each row or column, one for each 32 elements (OCP MX).
_SCALES = {
    "0": "",
    "1": "tensor",
    "2": "token",
    "3": "1x32",
}
_OFF = frozenset({"", "0", "none", "false"})
#: The arithmetic that hipBLASLt chooses unasked, and TF32, which the number format states.
_USUAL_COMPUTE = frozenset({"", "f32_r", "f64_r", "i32_r", "xf32_r"})
#: Columns that change the work where they are not off, and what the table calls that.
_SWITCHES = {
    "bias_vector": "bias",
    "beta": "beta",
    "gradient": "gradient",
    "use_e": "aux",
    "swizzlea": "swizzle_a",
    "swizzleb": "swizzle_b",
    "rotating_buffer": "rotating",
}


@register
class HipblasltReader(Reader):
    """Timings that hipblaslt-bench and its kin print, one row each, anywhere in a log."""

    name = "hipblaslt-bench log"
    mark = _TIMED

    def read(self, path: Path, options: Options) -> RawTable:
        """Return one row for each timing; grouped GEMM and lines that do not fit their header are refused."""
        words = text(path, max_bytes=options.table_bytes)
        log = _Log()
        for number, line in enumerate(words.split("\n"), start=1):
            log.take(number, line.rstrip("\r"))
        given = pd.DataFrame(log.rows, dtype=object)
        notes = log.notes()
        if given.empty:
            return RawTable(
                pd.DataFrame(),
                [
                    *notes,
                    Note(
                        remark(
                            "no-timings",
                            "no timings: headers without a line of values",
                            by="hipblaslt-bench",
                        ),
                        0,
                    ),
                ],
            )
        rows = _measurements(given)
        rows["device"] = _devices(given, options, notes)
        return RawTable(rows.assign(campaign=campaign_of(path)), notes)


@dataclass
class _Log:
    """The log's lines, taken one by one, with the header, solution and device in force."""

    rows: list[dict[str, str | int]] = field(default_factory=list)
    _names: list[str] = field(default_factory=list)
    _devices: dict[str, tuple[str, str]] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)
    _stated: dict[str, str] = field(default_factory=dict)
    _after_winner: bool = False
    _repeated: int = 0

    def take(self, number: int, line: str) -> None:
        """Take the next line."""
        header = _HEADER.match(line)
        if header:
            self._names = [name.strip().lower() for name in header[1].split(",")]
        elif _ROW.match(line):
            self._take_row(number, line.strip())
        elif solution := _SOLUTION.match(line):
            if self.rows and not self._after_winner:
                self.rows[-1].setdefault(solution[1].lower(), solution[2].rstrip())
        elif command := _COMMAND.search(line):
            self._stated = _stated_types(command["options"])
        elif _WINNER.match(line):
            self._after_winner = True
        elif device := _DEVICE.match(line):
            if device[1] in self._devices:
                self._devices = {}
            word = device[2].strip()
            gfx = _GFX.search(word)
            if gfx:
                self._devices[device[1]] = (word[: gfx.start()].rstrip(), gfx[0])
            else:
                self._devices[device[1]] = (word, "")

    def _take_row(self, number: int, line: str) -> None:
        if self._after_winner and line in self._seen:
            self._repeated += 1
            return
        self._after_winner = False
        self._seen.add(line)
        values = line.split(",")
        row: dict[str, str | int] = {
            LINE: number,
            DEFECT: "",
            DEFECT_DETAIL: "",
        }
        if len(values) == len(self._names):
            row.update(self._stated)
            row.update(zip(self._names, (value.strip() for value in values), strict=True))
            row["library"] = next(
                (library[1] for name in self._names if (library := _LIBRARY.match(name))),
                "hipblaslt",
            )
        else:
            row[DEFECT] = "line-unlike-header"
            row[DEFECT_DETAIL] = f"{len(values)} values for {len(self._names)} columns"
        listed = set(self._devices.values())
        if len(listed) == 1:
            row[_DEVICE_WORD], row[_DEVICE_GFX] = next(iter(listed))
        else:
            row[_DEVICE_WORD] = ""
            row[_DEVICE_GFX] = ""
        self.rows.append(row)

    def notes(self) -> list[Note]:
        """Return the remarks on the log as a whole."""
        notes = []
        if self._repeated:
            notes.append(
                Note(
                    remark("winners-repeated", "winners are printed a second time: counted once"),
                    self._repeated,
                )
            )
        if len(set(self._devices.values())) > 1:
            listed = sorted({" ".join(device).strip() for device in self._devices.values()})
            text = (
                f"the log lists different devices ({', '.join(listed)}): give default device=NAME"
            )
            notes.append(
                Note(remark("several-devices", text, devices=tuple(listed)), len(self.rows))
            )
        return notes


def _stated_types(command: str) -> dict[str, str]:
    """Return the number formats that a command line states, by the names of the table's columns.

    >>> _stated_types("-f gemm_ex --a_type f16_r --compute_type f32_r -m 5")
    {'a_type': 'f16_r', 'compute_type': 'f32_r'}
    """
    words = command.replace("=", " ").split()
    options = {name.lstrip("-"): value for name, value in itertools.pairwise(words)}
    precision = options.get("r", options.get("precision", ""))
    types = {}
    for name in _TYPES:
        word = options.get(name, precision)
        if word:
            types[name] = _PRECISIONS.get(word, word)
    return types


def _measurements(given: pd.DataFrame) -> pd.DataFrame:
    blas = pd.DataFrame(
        {
            "M": text_column(given, "m"),
            "N": text_column(given, "n"),
            "K": text_column(given, "k"),
        }
        | {
            "trans_a": text_column(given, "transa").str.lower(),
            "trans_b": text_column(given, "transb").str.lower(),
        }
        | {name: text_column(given, name) for name in ("lda", "ldb")}
        | {"ldc": text_column(given, "ldd")}
        | {f"type_{side}": _dtypes(given, f"{side}_type") for side in "ab"}
        | {"type_c": _dtypes(given, "d_type")}
    )
    rows = row_major(blas)
    batch = text_column(given, "batch_count").replace("", "1")
    rows["op"] = np.where(batch.eq("1"), "gemm", "batched_gemm")
    rows["batch"] = batch
    rows["library"] = text_column(given, "library")
    index = text_column(given, "solution index")
    rows["kernel"] = text_column(given, "solution name").mask(lambda name: name.eq(""), index)
    rows["layout"] = blas["trans_a"] + blas["trans_b"]
    # The scales of the table are those of its A, which is BLAS's B.
    rows["scale_block"] = text_column(given, "scaleb").map(_SCALES).fillna("")
    # What else tells two problems apart: bias, activation, arithmetic, scales, spaced matrices.
    activation = text_column(given, "activation_type")
    compute = (
        text_column(given, "compute_type")
        .str.removeprefix("c_")
        .str.replace("f32_fast_xf32_r", "xf32_r")
    )
    scale_a = text_column(given, "scalea").replace("", "0")
    scale_b = text_column(given, "scaleb").replace("", "0")
    odd = scale_a.ne(scale_b) | ~scale_b.isin(list(_SCALES))
    words = [
        *(
            pd.Series(word, given.index).mask(_is_off(text_column(given, name)), "")
            for name, word in _SWITCHES.items()
        ),
        activation.mask(_is_off(activation), ""),
        ("compute " + compute).mask(compute.isin(_USUAL_COMPUTE), ""),
        ("scales " + scale_b + " " + scale_a).where(odd, ""),
        padding(blas),
    ]
    joined = [" ".join(of_row) for of_row in zip(*words, strict=True)]
    variants = pd.Series(joined, given.index, dtype=str)
    rows["variant"] = variants.str.replace(r" +", " ", regex=True).str.strip()
    rows["duration_us"] = text_column(given, "us")
    rows[LINE] = given[LINE].astype("int64")
    rows[DEFECT] = given[DEFECT]
    rows[DEFECT_DETAIL] = given[DEFECT_DETAIL]
    grouped = ~text_column(given, "grouped_gemm").isin(_OFF) & rows[DEFECT].eq("")
    rows.loc[grouped, DEFECT] = "group-sizes-not-given"
    rows.loc[grouped, DEFECT_DETAIL] = (
        "grouped_gemm = " + text_column(given, "grouped_gemm")[grouped]
    )
    return rows


def _dtypes(given: pd.DataFrame, column: str) -> pd.Series:
    """Return number formats without hipBLAS's suffixes ("f8_fnuz_r" -> "f8"); FP32 computed as TF32 is TF32."""
    plain = text_column(given, column).str.replace(r"_(?:fnuz_)?r$", "", regex=True)
    narrowed = plain.eq("f32") & text_column(given, "compute_type").str.contains(
        "xf32", regex=False
    )
    return plain.mask(narrowed & (column != "d_type"), "tf32")


def _is_off(column: pd.Series) -> pd.Series:
    return column.str.lower().isin(_OFF) | pd.to_numeric(column, errors="coerce").eq(0)


def _devices(given: pd.DataFrame, options: Options, notes: list[Note]) -> list[str]:
    """Return the device of each row: by its name where the catalogue has it, else by its gfx id; "" if not listed."""
    pairs = list(zip(given[_DEVICE_WORD], given[_DEVICE_GFX], strict=True))
    names: dict[tuple[str, str], str] = {}
    for word, gfx in dict.fromkeys(pairs):
        names[word, gfx] = word
        assumption = None
        if gfx and (not word or canonical_device(word)[1]):
            names[word, gfx], assumption = device_of_gfx(gfx, options)
        notes.extend([Note(assumption, pairs.count((word, gfx)))] if assumption else [])
    return [names[pair] for pair in pairs]
