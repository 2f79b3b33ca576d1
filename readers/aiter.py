"""AMD AITER's tuned-kernel tables (github.com/ROCm/aiter, `aiter/configs`, as of 2025-2026): one CSV per kernel family.

Each row is the winner of a search over kernels for one problem; `us` is its time in microseconds.
The device is (`gfx`, `cu_num`). More than 16 headers are about, so columns are found by name, in
any case and order; the family is in the file's name, between the names of models
("dsv4_a8w8_blockscale_tuned_gemm.csv" is family "a8w8_blockscale").
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ..remarks import remark
from ..table.measurements import plain_numbers
from .base import LINE, Note, Options, RawTable, Reader, register
from .files import Csv, campaign_of, csv_header, parse_csv, text, with_overlong
from .labels import device_of

_GEMM = frozenset({"m", "n", "k"})
_MOE = frozenset({"token", "model_dim", "inter_dim", "expert", "topk"})
_DIGITS = 6  # of a number of compute units
_GATED_DELTA = frozenset({"bt", "hg", "t_flat"})
_FAMILY = re.compile(
    r"(?:^|_)((?:a\d+w\d+|bf16|fp16)(?:_(?:blockscale|bpreshuffle|mxscale))*)(?=_|$)"
)
#: AITER writes no gfx id in older fused-MoE files: the architectures it tuned these counts of compute units on.
_GFX_OF_CUS = {"80": "gfx942", "304": "gfx942", "256": "gfx950"}


@dataclass(frozen=True)
class _Family:
    """What a family's name says where its table has no column for it."""

    dtype: str
    scale_block: str


#: FP8 block scales are 1x128 for activations (128x128 for weights), MX scales 1x32, the rest one scale per token.
#: `a8w8` without a `q_dtype_w` column is the batched row-wise kernel, which is INT8.
_FAMILIES = {
    "a8w8_blockscale": _Family("fp8", "1x128"),
    "a8w8_blockscale_bpreshuffle": _Family("fp8", "1x128"),
    "a8w8_blockscale_mxscale": _Family("fp8", "1x128"),
    "a8w8_bpreshuffle": _Family("fp8", "token"),
    "a8w8": _Family("int8", "token"),
    "a4w4_blockscale": _Family("fp4", "1x32"),
    "a16w16": _Family("bf16", ""),
    "bf16": _Family("bf16", ""),
    "fp16": _Family("fp16", ""),
}
_QUANTISATION = {
    "no": "",
    "per_tensor": "tensor",
    "per_token": "token",
    "per_1x128": "1x128",
    "per_128x128": "128x128",
    "per_1x32": "1x32",
}


@register
class AiterReader(Reader):
    """Tuned tables of AITER: GEMM of all families, batched GEMM, fused and grouped mixture of experts."""

    name = "AITER tuned CSV"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the header: a device by its units, a time in `us`, and the dimensions of a kernel AITER tunes."""
        names = {name.lower() for name in csv_header(head)}
        if "us" not in names or not names & {"gfx", "cu_num"}:
            return False
        tuned = "kernelname" in names or "kernelname1" in names
        return (tuned and (names >= _GEMM or names >= _MOE)) or names >= _GATED_DELTA

    def read(self, path: Path, options: Options) -> RawTable:
        """Return one row for each tuned problem; gated-delta files are skipped with a note."""
        csv = parse_csv(text(path, max_bytes=options.table_bytes), str(path))
        table = _Table(csv)
        if table.names >= _GATED_DELTA:
            return RawTable(
                notes=[
                    Note(
                        remark(
                            "gated-delta-skipped",
                            "gated delta-rule kernels (chunk_gdn) have no operator here yet: "
                            "skipped",
                        ),
                        len(csv.lines),
                    )
                ]
            )
        notes: list[Note] = []
        if table.names >= _MOE:
            columns = _moe(table)
        else:
            columns = _gemm(table, campaign_of(path), notes)
        columns["device"] = _devices(table, options, notes)
        columns |= {
            "duration_us": table["us"],
            "tuned": True,
            "campaign": campaign_of(path),
            LINE: pa.array(csv.lines),
        }
        same = {
            name: pa.repeat(value, table.rows)
            for name, value in columns.items()
            if isinstance(value, str | bool)
        }
        cells = pa.table(columns | same)
        if csv.overlong:
            return RawTable(with_overlong(cells.to_pandas(), csv), notes)
        return RawTable(notes=notes, cells=cells)


class _Table:
    """Columns by lower-case name."""

    def __init__(self, csv: Csv) -> None:
        self._columns = {name.lower(): csv.cells[name] for name in csv.cells.column_names}
        self.names = frozenset(self._columns)
        self.rows = len(csv.lines)

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        return self._columns[name]

    def get(self, *names: str, default: str = "") -> pa.ChunkedArray:
        """Return the first of the columns that the table has."""
        present = next((self._columns[name] for name in names if name in self._columns), None)
        if present is None:
            return pa.chunked_array([pa.repeat(default, self.rows)])
        return present

    def says(self, name: str, word: str, then: str, otherwise: str) -> pa.ChunkedArray | str:
        """Return one or the other word for each row, by whether it has that word in a column."""
        if name not in self.names:
            return otherwise
        return pc.if_else(pc.equal(self[name], word), then, otherwise)

    def numbers(self, *names: str) -> pa.Array:
        """Return the numbers of the first of the columns that the table has; missing where there is none."""
        cells = self.get(*names)
        if (plain := plain_numbers(cells)) is not None:
            return plain
        return pa.array(pd.to_numeric(cells.to_numpy(), errors="coerce"), from_pandas=True)

    def said(self, say: Callable[..., str], *columns: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return what `say` makes of the values of each row; it is asked once for those that are equal."""
        codes, different = distinct(*columns)
        return pa.chunked_array(
            [pa.array([say(*values) for values in different], pa.string()).take(codes)]
        )


def distinct(*columns: pa.ChunkedArray) -> tuple[pa.Array, list[tuple[str, ...]]]:
    """Return a number for each row's values in columns of text, and the different values, in order of appearance."""
    coded = [column.combine_chunks().dictionary_encode() for column in columns]
    numbers = coded[0].indices.to_numpy().astype(np.int64)
    for one in coded[1:]:
        numbers = numbers * max(len(one.dictionary), 1) + one.indices.to_numpy()
    found = pa.array(numbers).dictionary_encode()
    rest, values = found.dictionary.to_numpy(), list[list[str]]()
    for one in reversed(coded):
        rest, places = np.divmod(rest, max(len(one.dictionary), 1))
        values.insert(0, one.dictionary.take(pa.array(places)).to_pylist())
    return found.indices, list(zip(*values, strict=True))


def _gemm(table: _Table, stem: str, notes: list[Note]) -> dict[str, Any]:
    family = _family(table, stem, notes)
    known = _FAMILIES.get(family, _Family("", ""))
    batched = "b" in table.names
    stated = table.get("q_dtype_w", "dtype", default=known.dtype)
    return {
        "op": "batched_gemm" if batched else "gemm",
        "family": table.says("bpreshuffle", "True", f"{family}_bpreshuffle", family),
        "variant": table.says("bias", "True", "bias", ""),
        "kernel": table.get("kernelname", "kernelname1"),
        "library": table.get("libtype"),
        "split_k": table.numbers("splitk"),
        "m": table["m"],
        "n": table["n"],
        "k": table["k"],
        "batch": table.get("b", default="1"),
        "scale_block": table.says("scaleab", "True", "tensor", known.scale_block),
        "dtype_a": stated,
        "dtype_b": stated,
        "dtype_out": table.get("outdtype", default="bf16"),
    }


def _family(table: _Table, stem: str, notes: list[Note]) -> str:
    """Return the library family: from the file's name, else from what most kernels are called."""
    if named := _FAMILY.search(stem):
        return named[1]
    called = table.get("kernelname", "kernelname1").to_pandas().str.extract(_FAMILY)[0].dropna()
    if called.empty:
        notes.append(
            Note(
                remark(
                    "gemm-family-unknown",
                    "neither the file's name nor its kernels say the GEMM family: left empty",
                ),
                table.rows,
            )
        )
        return ""
    family = str(called.mode()[0])
    text = f"the file's name says no GEMM family: {family} by the names of its kernels"
    notes.append(Note(remark("gemm-family-by-kernels", text, family=family), table.rows))
    return family


def _moe(table: _Table) -> dict[str, Any]:
    """Return the columns of a fused or grouped mixture-of-experts table (both stages together)."""
    kind = "grouped_fmoe" if "max_m" in table.names else "fmoe"
    scale = table.said(lambda name: name.removeprefix("QuantType.").lower(), table.get("q_type"))
    first, second = table.get("kernelname1", "kernelname"), table.get("kernelname2")
    variant = (table.get("act_type"), table.get("doweight_stage1"), table.get("_tag"))
    return {
        "op": "moe",
        "family": table.said(lambda name: f"{kind}_{name.replace('no', '')}".rstrip("_"), scale),
        "variant": table.said(_moe_variant, *variant),
        "kernel": table.said(lambda one, two: f"{one} + {two}" if two else one, first, second),
        "split_k": table.numbers("ksplit", "split_k1"),
        "tokens": table["token"],
        "model_dim": table["model_dim"],
        "inter_dim": table["inter_dim"],
        "experts": table["expert"],
        "topk": table["topk"],
        "gated": table.get("use_g1u1"),
        "scale_block": table.said(lambda name: str(_QUANTISATION.get(name, name)), scale),
        "dtype_a": table.get("q_dtype_a", "dtype"),
        "dtype_b": table.get("q_dtype_w", "dtype"),
        "dtype_out": table.get("dtype", default="bf16"),
    }


def _moe_variant(activation: str, weighted: str, tag: str) -> str:
    """Return the activation, whether the first stage applies the weights, and AITER's own tag."""
    words = (
        activation.removeprefix("ActivationType.").lower(),
        "doweight_stage1" * (weighted == "1"),
        tag.strip(),
    )
    return " ".join(filter(None, words)).strip()


def _devices(table: _Table, options: Options, notes: list[Note]) -> pa.Array:
    """Return the device of each row, "" where the file does not say; a guess is always a note."""
    codes, different = distinct(table.get("gfx"), table.get("cu_num"))
    counts = np.bincount(codes.to_numpy(), minlength=len(different)).tolist()
    names = [""] * len(different)
    stated = options.defaults.get("device", "")
    for (gfx, cus), rows, place in sorted(
        zip(different, counts, range(len(different)), strict=True)
    ):
        known = gfx
        if not gfx and cus in _GFX_OF_CUS and "device" not in options.defaults:
            known = _GFX_OF_CUS[cus]
            also = " (gfx1250 has 256 too)" if cus == "256" else ""
            text = f"no gfx id: {cus} CUs are read as {known}{also}"
            notes.append(Note(remark("gfx-by-units", text, cus=int(cus), gfx=known), rows))
        if known:
            names[place], assumption = device_of(
                known, int(cus) if cus.isdecimal() and len(cus) < _DIGITS else None, stated
            )
            notes.extend([Note(assumption, rows)] if assumption else [])
    return pa.array(names, pa.string()).take(codes)
