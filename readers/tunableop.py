"""PyTorch TunableOp's results (`tunableop_results0.csv`; `aten/src/ATen/cuda/tunable` of PyTorch 2.3 to 2.8).

First come lines ``Validator,NAME,VALUE`` (PT_VERSION, ROCM_VERSION, GCN_ARCH_NAME, ...), then a
line for each problem::

    GemmTunableOp_BFloat16_TN,tn_4096_16_7168,Gemm_Hipblaslt_386955,0.0098
    GemmStridedBatchedTunableOp_Half_NT,nt_64_512_512_B_16_ld_64_512_64,Gemm_Rocblas_1216,0.0121
    GemmAndBiasTunableOp_BFloat16_TN,tn_4096_16_7168_ld_7168_7168_4096,Default,0.0153
    ScaledGemmTunableOp_Float8_e4m3fnuz_Float8_e4m3fnuz_BFloat16_TN,tn_4096_16_7168_ld_..._rw_1_bias_None,...

that is operator, parameters (transpositions, M, N, K, then what the operator has besides),
solution, **milliseconds**; with PYTORCH_TUNABLEOP_BLAS_LOG a fifth field follows that repeats the
problem. Problems are BLAS's, by columns. `tunableop_untuned0.csv` has no solutions and no times:
workloads that wait for a run.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from ..remarks import Remark
from ..table.measurements import DEFECT, DEFECT_DETAIL, as_text
from .base import LINE, Note, Options, RawTable, Reader, register
from .blas import LEADING, device_of_gfx, padding, row_major
from .files import campaign_of, text
from .labels import TIME_UNITS

_KIND = "GemmAndBias|GemmStridedBatched|ScaledGemm|Gemm"
_TYPE = r"(?:c10::)?(?:Float\d+_e\dm\d[a-z0-9]*(?:_x2)?|[A-Za-z][A-Za-z0-9:<>]*)"
_OPERATOR = re.compile(
    rf"^(?P<kind>{_KIND})TunableOp_(?P<type_a>{_TYPE})(?:_(?P<type_b>{_TYPE})_(?P<type_c>{_TYPE}))?_(?P<trans>[NTC]{{2}})$"
)
_PARAMETERS = re.compile(
    r"^(?P<trans_a>[ntc])(?P<trans_b>[ntc])_(?P<M>\d+)_(?P<N>\d+)_(?P<K>\d+)(?P<rest>.*)$"
)
#: What may follow M, N, K: batches, leading dimensions, scales per row, and the number format of a bias.
_REST = re.compile(
    r"_(?:B_(?P<batch>\d+)|ld_(?P<lda>\d+)_(?P<ldb>\d+)_(?P<ldc>\d+)|rw_(?P<rowwise>[01])"
    r"|bias_(?P<bias>[A-Za-z0-9:]+(?:_r|_e\dm\d[a-z0-9]*)?))"
)
_SNIFF = re.compile(
    rb"^(?:Validator,(?:PT|ROCM|CUDA|HIPBLASLT|ROCBLAS)_VERSION,|Validator,GCN_ARCH_NAME,"
    rb"|(?:GemmAndBias|GemmStridedBatched|ScaledGemm|Gemm)TunableOp_[\w:<>]++,[ntc]{2}_\d++_\d++_\d)",
    re.MULTILINE,
)
_FIELDS = ("op", "params", "solution", "ms")
_COLUMNS = (
    "kind",
    "type_a",
    "type_b",
    "type_c",
    "trans_a",
    "trans_b",
    "M",
    "N",
    "K",
    "batch",
    *LEADING,
    "rowwise",
    "bias",
    DEFECT,
    DEFECT_DETAIL,
)


@register
class TunableOpReader(Reader):
    """Results of PyTorch's TunableOp: GEMM, with bias, batched and scaled; the winner of each search is a row."""

    name = "PyTorch TunableOp CSV"
    mark = _SNIFF

    def read(self, path: Path, options: Options) -> RawTable:
        """Return a row for each problem; lines of another form and problems without a tuned solution are refused."""
        words = text(path, max_bytes=options.table_bytes)
        lines = pd.Series([line.strip() for line in words.split("\n")], dtype=object)
        lines.index = pd.RangeIndex(1, len(lines) + 1)
        validators = lines.str.startswith("Validator,").astype(bool)
        entries = lines[lines.ne("") & ~validators]
        rows = _rows(entries, options)
        rows["device"], notes = _devices(lines[validators], entries.index, options)
        return RawTable(rows.assign(campaign=campaign_of(path)), notes)


def _rows(entries: pd.Series, options: Options) -> pd.DataFrame:
    """Return the row of each line, indexed by line."""
    cut = [line.split(",", 4)[:4] for line in entries]
    fields = pd.DataFrame(
        [(part + [""] * 4)[:4] for part in cut], columns=_FIELDS, index=entries.index, dtype=object
    )
    parsed = [
        _problem(op, params) for op, params in zip(fields["op"], fields["params"], strict=True)
    ]
    blas = pd.DataFrame(
        parsed,
        columns=list(_COLUMNS),
        index=entries.index,
        dtype=object,
    )
    rows = row_major(blas)
    rows["op"] = blas["batch"].notna().map({True: "batched_gemm", False: "gemm"})
    rows["batch"] = blas["batch"].fillna("1")
    rows["library"] = (
        fields["solution"]
        .str.extract(r"(?i)_(hipblaslt|rocblas)_", expand=False)
        .str.lower()
        .fillna("")
    )
    rows["kernel"] = fields["solution"]
    rows["tuned"] = True
    rows["layout"] = as_text(blas["trans_a"]) + as_text(blas["trans_b"])
    rows["scale_block"] = blas["rowwise"].map({"1": "token", "0": "tensor"}).fillna("")
    biased = blas["kind"].eq("GemmAndBias") | ~blas["bias"].fillna("None").eq("None")
    rows["variant"] = (biased.map({True: "bias ", False: ""}) + padding(blas)).str.strip()
    milliseconds = pd.to_numeric(fields["ms"], errors="coerce").astype(float)
    rows["duration_us"] = (
        (milliseconds * TIME_UNITS["ms"]).astype(object).where(milliseconds.notna(), fields["ms"])
    )
    rows[DEFECT] = blas[DEFECT]
    rows[DEFECT_DETAIL] = blas[DEFECT_DETAIL]
    if options.timed:
        # Problems that no search has timed, or for which it kept the library's choice.
        reasons = (
            (fields["solution"].eq(""), "not-tuned"),
            (fields["solution"].eq("Default"), "default-kept"),
            (fields["ms"].eq(""), "no-duration"),
        )
        for mask, reason in reasons:
            new = mask & rows[DEFECT].eq("")
            rows.loc[new, DEFECT] = reason
            rows.loc[new, DEFECT_DETAIL] = (
                fields["params"][new] + " took " + fields["ms"][new].replace("", "?") + " ms"
            )
    rows[LINE] = entries.index
    return rows.reset_index(drop=True)


def _problem(op: str, params: str) -> dict[str, str | None]:
    """Return a problem in BLAS's words, or why the line is not one."""
    operator = _OPERATOR.match(op)
    parameters = _PARAMETERS.match(params)
    if operator is None:
        return _defect("not-a-gemm", op)
    if parameters is None or (rest := _rest(parameters["rest"])) is None:
        return _defect("unknown-parameters", params)
    if operator["trans"].lower() != parameters["trans_a"] + parameters["trans_b"]:
        return _defect("transpositions-disagree", f"{op},{params}")
    if operator["kind"] == "GemmStridedBatched" and rest.get("batch") is None:
        return _defect("missing-dimension", params)
    types = {name: operator[name] or operator["type_a"] for name in ("type_a", "type_b", "type_c")}
    return {
        **parameters.groupdict(),
        **rest,
        **types,
        "kind": operator["kind"],
        DEFECT: "",
        DEFECT_DETAIL: "",
    }


def _rest(text: str) -> dict[str, str] | None:
    """Return what stands behind M, N, K; None where it is not understood to its end."""
    fields: dict[str, str] = {}
    end = 0
    while end < len(text):
        match = _REST.match(text, end)
        if match is None:
            return None
        fields.update(
            {name: value for name, value in match.groupdict().items() if value is not None}
        )
        end = match.end()
    return fields


def _defect(reason: str, detail: str) -> dict[str, str | None]:
    return {DEFECT: reason, DEFECT_DETAIL: detail}


def _devices(
    validators: pd.Series, lines: pd.Index, options: Options
) -> tuple[list[str], list[Note]]:
    """Return the device of each entry, by the validation above it, and remarks."""
    stated = validators[validators.str.startswith("Validator,GCN_ARCH_NAME,")]
    above = pd.Series(stated.str.split(",").str[2], index=stated.index, dtype=object).reindex(
        lines, method="ffill"
    )
    words = as_text(above)
    none: tuple[str, Remark | None] = ("", None)
    devices = {gfx: device_of_gfx(gfx, options) if gfx else none for gfx in words.unique()}
    notes = [
        Note(assumption, int(words.eq(gfx).sum()))
        for gfx, (_, assumption) in devices.items()
        if assumption
    ]
    return [devices[gfx][0] for gfx in words], notes
