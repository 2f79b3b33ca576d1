"""Tuned settings of Triton kernels in vLLM and SGLang, as work to predict: sizes without times.

::

    E=128,N=768,device_name=AMD_Instinct_MI300X,dtype=fp8_w8a8,block_shape=[128,128].json
    {"triton_version": "3.4.0", "1": {"BLOCK_SIZE_M": 16, ...}, "64": {"BLOCK_SIZE_M": 32, ...}}

Both engines (2023 to 2026) choose a kernel's settings by a file for each layer and device, which says
of how many tokens they were tuned. With ``E`` it is a layer of experts: each number is the tokens, N
the size between its projections on one GPU; the size of a token and the experts for each token are
not in it (`Options.defaults` states ``model_dim`` and ``topk``). With ``K`` it is a product: each number
is m. Without ``dtype`` the layer is in 16 bits, here bf16, with a remark.

Source: https://github.com/vllm-project/vllm (Apache-2.0), ``vllm/model_executor/layers/fused_moe/configs``
and ``layers/quantization/utils/configs``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pandas as pd

from ..errors import DataError
from ..remarks import remark
from .base import LINE, Note, Options, RawTable, Reader, register
from .files import campaign_of, text

_SNIFF: Final = re.compile(
    rb'\A\s*+\{(?:\s*+"triton_version"\s*+:\s*+"[^"]*+"\s*+,)?\s*+"\d{1,9}"\s*+:\s*+\{'
    rb'[^}]{0,400}"BLOCK_SIZE_[MNK]"'
)
_STATED: Final = re.compile(r"(?:^|,)(?P<name>[A-Za-z_]++)=(?P<value>\[[^\]]{0,40}+\]|[^,]++)")
_WIDTHS: Final = re.compile(r"^(?P<kind>fp|int|mxfp)\d_w(?P<weights>\d+)a(?P<activations>\d+)$")
_MOST_DIGITS: Final = 9


@register
class TritonConfigsReader(Reader):
    """Settings of vLLM's and SGLang's Triton kernels: a row without a time for each size."""

    name = "Triton settings JSON"
    mark = _SNIFF

    def read(self, path: Path, options: Options) -> RawTable:
        """Return a row for each number of tokens.

        Raises DataError: the file's name does not say the layer.
        """
        words = text(path, max_bytes=options.table_bytes)
        try:
            settings = json.loads(words)
        except (ValueError, RecursionError) as error:
            raise DataError(f"is no whole JSON ({error})", source=str(path)) from None
        stem = campaign_of(path)
        stated = {match["name"]: match["value"] for match in _STATED.finditer(stem)}
        if "N" not in stated or not ({"E", "K"} & stated.keys()):
            raise DataError(
                "has settings of kernels, but its name does not say of which layer: give it the "
                "name it has in vLLM, such as E=8,N=7168,device_name=AMD_Instinct_MI300X.json",
                source=str(path),
            )
        sizes = [int(name) for name in settings if name.isdecimal() and len(name) <= _MOST_DIGITS]
        rows = pd.DataFrame({LINE: range(1, len(sizes) + 1)})
        notes = list[Note]()
        for column, value in _layer(stated, len(sizes), notes).items():
            rows[column] = value
        rows["tokens" if "E" in stated else "m"] = sizes
        rows["duration_us"] = float("nan")
        rows["device"] = stated.get("device_name", "").replace("_", " ")
        rows["campaign"] = stem
        return RawTable(rows, notes)


def _layer(stated: dict[str, str], rows: int, notes: list[Note]) -> dict[str, Any]:
    """Return what all rows of a file share."""
    activations, weights = _formats(stated.get("dtype", ""))
    if "dtype" not in stated:
        text = "the file's name says no number format: bf16 stands for the 16 bits of its layer"
        notes.append(Note(remark("triton-settings-16-bits", text), rows))
    block = re.findall(r"\d++", stated.get("block_shape", ""))
    if block:
        scale_block = f"1x{block[-1]}"
    else:
        scale_block = ""
    layer = {
        "dtype_a": activations,
        "dtype_b": weights,
        "dtype_out": "bf16",
        "scale_block": scale_block,
    }
    if "E" in stated:
        return layer | {
            "op": "moe",
            "experts": stated["E"],
            "inter_dim": stated["N"],
            "gated": 1,
        }
    return layer | {
        "op": "gemm",
        "n": stated["N"],
        "k": stated["K"],
    }


def _formats(word: str) -> tuple[str, str]:
    """Return the formats of activations and weights.

    >>> _formats("fp8_w8a8"), _formats("int4_w4a16"), _formats("")
    (('fp8', 'fp8'), ('bf16', 'int4'), ('bf16', 'bf16'))
    """
    if not word or word in ("bfloat16", "bf16"):
        return "bf16", "bf16"
    widths = _WIDTHS.match(word)
    if widths is None:
        return word, word
    kind = widths["kind"].removeprefix("mx")
    weights = f"{kind}{widths['weights']}"
    if widths["activations"] == "16":
        return "bf16", weights
    return f"{kind}{widths['activations']}", weights
