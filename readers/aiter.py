"""AMD AITER's tuned-kernel tables (github.com/ROCm/aiter, `aiter/configs`, as of 2025-2026): one CSV per kernel family.

Each row is the winner of a search over kernels for one problem; `us` is its time in microseconds.
The device is (`gfx` or `arch`, `cu_num`). More than 20 headers are about, so columns are found by
name, in any case and order; the family is in the file's name, between the names of models
("dsv4_a8w8_blockscale_tuned_gemm.csv" is family "a8w8_blockscale"). Comments may stand before the
header.

- products and batches of them (``M,N,K`` and ``B``); ``grouped_gemm_*`` is a batch of ``G`` with the
  times of two libraries (``hip_us``, ``triton_us``), a row each
- fused and grouped experts (``token,model_dim,inter_dim,expert,topk``). Where the table has ``tp``,
  ``inter_dim`` is a GPU's slice; the table here has the whole, and the slices as ``tp``. With
  ``comm_mode`` (``mega_moe``) the time is that of the slowest GPU with the exchange of its tokens,
  which the variant says. Without ``us`` (``tuned_fhmoe``, ``untuned_*``) rows are work to predict
- ``chunk_gdn_h_*``: states of a gated delta rule, chunk by chunk (`chunk_state`); ``T_flat`` tokens
  in ``N`` sequences, which must be of one length
- ``gdr_decode``: steps of a gated delta rule; ``duration`` is in microseconds
- ``conv3d_*``: convolutions, forward
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
from .blas import device_of_gfx
from .files import Csv, campaign_of, csv_header, parse_csv, text, with_overlong
from .labels import device_of
from .words import vocabulary

_GEMM = frozenset({"m", "n", "k"})
_MOE = frozenset({"token", "model_dim", "inter_dim", "expert", "topk"})
_DIGITS = 6  # of a number of compute units
_CHUNKED = frozenset({"bt", "h", "hg", "k", "n", "v", "t_flat"})
_STEPS = frozenset({"num_k_heads", "num_v_heads", "head_k_dim", "head_v_dim", "duration"})
_CONVOLUTION = frozenset({"kt", "kh", "kw", "stride_h", "pad_h"})
_GROUPED = frozenset({"g", "m", "n", "k", "hip_us", "triton_us"})
_FAMILY = re.compile(
    r"(?:^|_)((?:a\d+w\d+|mxfp8|bf16|fp16)"
    r"(?:_(?:blockscale|bpreshuffle|mxscale|mxfp8))*)(?=_|$)"
)
_COMMENTS = re.compile(r"\A(?:\s*+#[^\n]*+\n)++")
_COMMENT_BYTES = re.compile(rb"\A(?:\s*+#[^\n]*+\n)++")
#: AITER writes no gfx id in older fused-MoE files: the architectures it tuned these counts of compute units on.
_GFX_OF_CUS = {"80": "gfx942", "304": "gfx942", "256": "gfx950"}


@dataclass(frozen=True)
class _Family:
    """The defaults of a family whose table lacks these columns."""

    dtype: str
    scale_block: str
    weights: str = ""  # where they have another format

    @property
    def dtype_b(self) -> str:
        return self.weights or self.dtype


#: FP8 block scales are 1x128 for activations (128x128 for weights), MX scales 1x32, the rest one scale per token.
#: `a8w8` without a `q_dtype_w` column is the batched row-wise kernel, which is INT8. Formats of fewer than 8 bits
#: have MX scales always.
_FAMILIES = {name: _Family(*given) for name, given in vocabulary("aiter_families").items()}
_QUANTISATION = vocabulary("aiter_quantisation")


@register
class AiterReader(Reader):
    """Tuned tables of AITER: products, experts, gated delta rules, convolutions."""

    name = "AITER tuned CSV"

    def sniff(self, path: Path, head: bytes) -> bool:
        """Recognise the header: a device by its units, a time, and the dimensions of a kernel AITER tunes."""
        names = {name.lower() for name in csv_header(_COMMENT_BYTES.sub(b"", head))}
        if names >= _MOE and names & {"act_type", "act"}:
            return True
        if not names & {"gfx", "arch", "cu_num"}:
            return False
        if names >= _STEPS or names >= _GROUPED:
            return True
        tuned = "kernelname" in names or "kernelname1" in names
        problem = names >= _GEMM or names >= _MOE or names >= _CONVOLUTION
        return "us" in names and (names >= _CHUNKED or (tuned and problem))

    def read(self, path: Path, options: Options) -> RawTable:
        """Return one row for each tuned problem, and two for one that two libraries were timed on."""
        words = text(path, max_bytes=options.table_bytes)
        plain = _COMMENTS.sub("", words)
        before = words[: len(words) - len(plain)].count("\n")
        csv = parse_csv(plain, str(path), before)
        table = _Table(csv)
        notes: list[Note] = []
        timed = table.get("us", "duration")
        if table.names >= _MOE:
            columns = _moe(table, campaign_of(path))
        elif table.names >= _CHUNKED:
            columns = _chunk_states(table)
        elif table.names >= _STEPS:
            columns = _steps(table)
        elif table.names >= _CONVOLUTION:
            columns = _convolutions(table, campaign_of(path))
        else:
            columns = _gemm(table, campaign_of(path), notes)
        columns["device"] = _devices(table, options, notes)
        columns |= {
            "tuned": True,
            "campaign": campaign_of(path),
            LINE: pa.array(csv.lines),
        }
        if table.names >= _GROUPED:
            cells = _of_two_libraries(table, columns)
        else:
            cells = _cells(table, columns | {"duration_us": timed})
        if csv.overlong:
            return RawTable(with_overlong(cells.to_pandas(), csv), notes)
        return RawTable(notes=notes, cells=cells)


def _cells(table: _Table, columns: dict[str, Any]) -> pa.Table:
    """Return the columns with the words shared by all rows repeated in every row."""
    whole = columns.copy()
    for name, value in columns.items():
        if isinstance(value, str | bool):
            whole[name] = pa.repeat(value, table.rows)
    return pa.table(whole)


def _of_two_libraries(table: _Table, columns: dict[str, Any]) -> pa.Table:
    """Return the rows twice, each with the time of one library."""
    tables = []
    for library in ("hip", "triton"):
        timing = {
            "library": library,
            "kernel": library,
            "tuned": False,
            "duration_us": table[f"{library}_us"],
        }
        tables.append(_cells(table, columns | timing))
    return pa.concat_tables(tables)


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

    def says(
        self,
        name: str,
        word: str,
        then: str,
        otherwise: str,
    ) -> pa.ChunkedArray | str:
        """Return one of two words for each row, by whether a column has the word."""
        if name not in self.names:
            return otherwise
        return pc.if_else(pc.equal(self[name], word), then, otherwise)

    def numbers(self, *names: str) -> pa.Array:
        """Return the numbers of the first of the columns that the table has; missing where there is none."""
        cells = self.get(*names)
        plain = plain_numbers(cells)
        if plain is not None:
            return plain
        return pa.array(pd.to_numeric(cells.to_numpy(), errors="coerce"), from_pandas=True)

    def sizes(self, name: str) -> np.ndarray:
        """Return the numbers of a column of shape (n_rows,), NaN where there is none."""
        return self.numbers(name).to_numpy(zero_copy_only=False).astype(float)

    def said(self, say: Callable[..., str], *columns: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return `say` of the values of each row, computed once for equal values."""
        codes, different = distinct(*columns)
        return pa.chunked_array(
            [pa.array([say(*values) for values in different], pa.string()).take(codes)]
        )


def distinct(*columns: pa.ChunkedArray) -> tuple[pa.Array, list[tuple[str, ...]]]:
    """Return a code for each row's values in text columns, and the distinct values in order of appearance."""
    coded = [column.combine_chunks().dictionary_encode() for column in columns]
    numbers = coded[0].indices.to_numpy().astype(np.int64)
    for one in coded[1:]:
        numbers = numbers * max(len(one.dictionary), 1) + one.indices.to_numpy()
    encoded = pa.array(numbers).dictionary_encode()
    rest = encoded.dictionary.to_numpy()
    values = list[list[str]]()
    for one in reversed(coded):
        rest, places = np.divmod(rest, max(len(one.dictionary), 1))
        values.insert(0, one.dictionary.take(pa.array(places)).to_pylist())
    return encoded.indices, list(zip(*values, strict=True))


def _gemm(table: _Table, stem: str, notes: list[Note]) -> dict[str, Any]:
    family = _family(table, stem, notes)
    settings = _FAMILIES.get(family, _Family("", ""))
    op = "gemm"
    if table.names & {"b", "g"}:
        op = "batched_gemm"
    return {
        "op": op,
        "family": table.says("bpreshuffle", "True", f"{family}_bpreshuffle", family),
        "variant": table.says("bias", "True", "bias", ""),
        "kernel": table.get("kernelname", "kernelname1"),
        "library": table.get("libtype"),
        "split_k": table.numbers("splitk"),
        "m": table["m"],
        "n": table["n"],
        "k": table["k"],
        "batch": table.get("b", "g", default="1"),
        "scale_block": table.says(
            "scaleab",
            "True",
            "tensor",
            settings.scale_block,
        ),
        "dtype_a": table.get("q_dtype_w", "dtype", default=settings.dtype),
        "dtype_b": table.get("q_dtype_w", "dtype", default=settings.dtype_b),
        "dtype_out": table.get("outdtype", default="bf16"),
    }


def _stated(stem: str) -> _Family:
    """Return the defaults of the family that the file's name says, empty where it says none."""
    named = _FAMILY.search(stem)
    return _FAMILIES.get(named[1] if named else "", _Family("", ""))


def _family(table: _Table, stem: str, notes: list[Note]) -> str:
    """Return the library family: from the file's name, else from what most kernels are called."""
    named = _FAMILY.search(stem)
    if named:
        return named[1]
    called = table.get("kernelname", "kernelname1").to_pandas().str.extract(_FAMILY)[0].dropna()
    if called.empty:
        why = "neither the file's name nor its kernels say the GEMM family: left empty"
        notes.append(Note(remark("gemm-family-unknown", why), table.rows))
        return ""
    family = str(called.mode()[0])
    text = f"the file's name says no GEMM family: {family} by the names of its kernels"
    notes.append(Note(remark("gemm-family-by-kernels", text, family=family), table.rows))
    return family


def _moe(table: _Table, stem: str) -> dict[str, Any]:
    """Return the columns of a fused or grouped mixture-of-experts table (both stages together)."""
    family = _stated(stem)
    exchanged = "comm_mode" in table.names
    if exchanged:
        kind = "mega_moe"
    elif "max_m" in table.names:
        kind = "grouped_fmoe"
    elif "shared_expert_id" in table.names:
        kind = "fhmoe"
    else:
        kind = "fmoe"
    scale = table.said(lambda name: name.removeprefix("QuantType.").lower(), table.get("q_type"))
    first = table.get("kernelname1", "kernelname")
    second = table.get("kernelname2")
    variant = (
        table.get("act_type", "act"),
        table.get("doweight_stage1"),
        table.get("_tag"),
        table.get("comm_mode"),
    )
    slices = np.nan_to_num(table.sizes("tp"), nan=1.0)
    scale_block: Any = family.scale_block
    if not exchanged:
        scale_block = table.said(lambda name: str(_QUANTISATION.get(name, name)), scale)
    return {
        "op": "moe",
        "family": table.said(lambda name: f"{kind}_{name.replace('no', '')}".rstrip("_"), scale),
        "variant": table.said(_moe_variant, *variant),
        "kernel": table.said(lambda one, two: f"{one} + {two}" if two else one, first, second),
        "split_k": table.numbers("ksplit", "split_k1"),
        "tokens": table["token"],
        "model_dim": table["model_dim"],
        "inter_dim": pa.array(table.sizes("inter_dim") * slices, from_pandas=True),
        "tp": pa.array(slices),
        "experts": table["expert"],
        "topk": table["topk"],
        "gated": table.get("use_g1u1", default="1" if exchanged else ""),
        "scale_block": scale_block,
        "dtype_a": table.get("q_dtype_a", "dtype", default=family.dtype),
        "dtype_b": table.get("q_dtype_w", "dtype", default=family.dtype_b),
        "dtype_out": table.get("dtype", default="bf16"),
    }


def _moe_variant(
    activation: str,
    weighted: str,
    tag: str,
    exchange: str,
) -> str:
    """Return the activation, whether the first stage applies the weights, AITER's tag, and the exchange."""
    words = (
        activation.removeprefix("ActivationType.").lower(),
        "doweight_stage1" * (weighted == "1"),
        tag.strip(),
        f"with {exchange}" * bool(exchange),
    )
    return " ".join(filter(None, words)).strip()


def _chunk_states(table: _Table) -> dict[str, Any]:
    """Return the columns of a table of states of a gated delta rule, chunk by chunk."""
    sequences = table.sizes("n")
    with np.errstate(divide="ignore", invalid="ignore"):
        seq = table.sizes("t_flat") / sequences
    words = ("is_varlen", "use_h0", "store_fs", "state_bf16")
    variant = table.said(
        lambda *values: _switched(words, values), *(table.get(name) for name in words)
    )
    return {
        "op": "chunk_state",
        "family": "chunk_gdn_h",
        "variant": variant,
        "batch": table["n"],
        "seq": pa.array(seq, from_pandas=True),
        "heads": table.get("h"),
        "key_heads": table["hg"],
        "head_dim": table.get("k"),
        "head_dim_v": table.get("v"),
        "chunk": table["bt"],
        "dtype_a": table.get("dtype"),
        "dtype_out": table.says("snapshot_bf16", "True", "bf16", "fp32"),
    }


def _switched(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """Return the names of the switches that are on."""
    return " ".join(
        name for name, value in zip(names, values, strict=True) if value.lower() in ("true", "1")
    )


def _steps(table: _Table) -> dict[str, Any]:
    """Return the columns of a table of steps of a gated delta rule: decoding, and tokens to verify."""
    return {
        "op": "linear_attention",
        "family": "gdr_decode",
        "variant": table.said(
            lambda *words: " ".join(filter(None, words)),
            table.get("variant"),
            table.get("gate_mode"),
        ),
        "batch": table.get("b"),
        "seq": table.get("sq", default="1"),
        "heads": table["num_v_heads"],
        "key_heads": table["num_k_heads"],
        "head_dim": table["head_k_dim"],
        "head_dim_v": table["head_v_dim"],
        "dtype_a": table.get("dtype"),
    }


def _convolutions(table: _Table, stem: str) -> dict[str, Any]:
    """Return the columns of a table of forward convolutions, whose outputs follow from the rest."""
    columns: dict[str, Any] = {
        "op": "conv",
        "direction": "F",
        "family": "conv3d",
        "variant": table.says("bias", "True", "bias", ""),
        "kernel": table.get("kernelname"),
        "split_k": table.numbers("splitk"),
        "batch": table.get("n"),
        "in_channels": table.get("c"),
        "out_channels": table.get("k"),
        "groups": table.get("groups", default="1"),
        "dtype_a": _stated(stem).dtype,
    }
    for axis, filters in (("d", "kt"), ("h", "kh"), ("w", "kw")):
        side = table.sizes(axis)
        taps = table.sizes(filters)
        pad, stride, dilation = (table.sizes(f"{name}_{axis}") for name in ("pad", "stride", "dil"))
        with np.errstate(divide="ignore", invalid="ignore"):
            out = np.floor((side + 2 * pad - dilation * (taps - 1) - 1) / stride) + 1
        sizes = {
            "in": side,
            "fil": taps,
            "pad": pad,
            "stride": stride,
            "dil": dilation,
            "out": out,
        }
        for name, values in sizes.items():
            columns[f"{name}_{axis}"] = pa.array(values, from_pandas=True)
    return columns


def _devices(table: _Table, options: Options, notes: list[Note]) -> pa.Array:
    """Return the device of each row, "" where the file does not name it; every guess is noted."""
    codes, different = distinct(table.get("gfx", "arch"), table.get("cu_num"))
    counts = np.bincount(codes.to_numpy(), minlength=len(different)).tolist()
    names = [""] * len(different)
    stated = options.defaults.get("device", "")
    for (gfx, cus), rows, place in sorted(
        zip(
            different,
            counts,
            range(len(counts)),
            strict=True,
        )
    ):
        assumed = gfx
        if not gfx and cus in _GFX_OF_CUS and "device" not in options.defaults:
            assumed = _GFX_OF_CUS[cus]
            also = ""
            if cus == "256":
                also = " (gfx1250 has 256 too)"
            text = f"no gfx id: {cus} CUs are read as {assumed}{also}"
            notes.append(
                Note(
                    remark(
                        "gfx-by-units",
                        text,
                        cus=int(cus),
                        gfx=assumed,
                    ),
                    rows,
                )
            )
        if not assumed:
            continue
        if cus.isdecimal() and len(cus) < _DIGITS:
            names[place], assumption = device_of(assumed, int(cus), stated)
        else:
            names[place], assumption = device_of_gfx(assumed, options)
        notes.extend([Note(assumption, rows)] if assumption else [])
    return pa.array(names, pa.string()).take(codes)
