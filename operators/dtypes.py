"""Number formats: one spelling for each, whatever the library, architecture or kernel name calls it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable

import numpy as np
import pandas as pd

from ..errors import DataError

_SPELLINGS: dict[str, tuple[str, ...]] = {
    "fp64": ("fp64", "float64", "double", "f64"),
    "fp32": ("fp32", "float32", "float", "single", "f32"),
    "tf32": ("tf32", "xf32", "tensorfloat32"),
    "fp16": ("fp16", "float16", "half", "f16"),
    "bf16": ("bf16", "bfloat16"),
    "fp8": ("fp8", "f8", "bf8", "mxfp8", "e4m3", "e5m2", "e4m3fn", "e4m3fnuz", "e5m2fnuz"),
    "fp6": ("fp6", "f6", "bf6", "mxfp6", "e2m3", "e3m2"),
    "fp4": ("fp4", "f4", "mxfp4", "nvfp4", "fp4x2", "e2m1"),
    "int64": ("int64", "i64", "long", "long int"),
    "int32": ("int32", "i32", "int"),
    "int16": ("int16", "i16", "short"),
    "int8": ("int8", "i8", "char", "signed char"),
    "int4": ("int4", "i4", "int4x2"),
    "uint8": ("uint8", "u8", "byte", "unsigned char"),
    "uint4": ("uint4", "u4"),
    "bool": ("bool",),
}
_CANONICAL = {spelling: name for name, spellings in _SPELLINGS.items() for spelling in spellings}
_NAMESPACE = re.compile(r"^(?:torch|c10|dtypes|numpy|np|jnp|tl)(?:\.|::)")
#: PyTorch's narrow floats carry their bits: float8_e4m3fnuz (gfx942), float8_e4m3fn (gfx950), float4_e2m1fn_x2.
_NARROW_FLOAT = re.compile(r"^(?:float|fp)([468])_e\dm\d[a-z0-9_]*$")

DTYPES = tuple(_SPELLINGS)

#: What library kernel names say of the type of A. Tensile (ROCm 5-7, `Cijk_Ailk_Bljk_SB_MT...`): after the index
#: assignment comes the type, S, D, H (fp16), B (bf16), I8, F8 or B8, then B for beta. PyTorch 2: `kernel<float, ...`;
#: profilers may cut the name short, so a trailing `<floa` counts.
_KERNEL_NAMES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"^Cijk_[A-Za-z]+_[A-Za-z]+_(?:F8|B8)"), "fp8"),
    (re.compile(r"^Cijk_[A-Za-z]+_[A-Za-z]+_(?:4x)?[iI]8"), "int8"),
    (re.compile(r"^Cijk_[A-Za-z]+_[A-Za-z]+_S[A-Z]*_"), "fp32"),
    (re.compile(r"^Cijk_[A-Za-z]+_[A-Za-z]+_D[A-Z]*_"), "fp64"),
    (re.compile(r"^Cijk_[A-Za-z]+_[A-Za-z]+_H[A-Z]*_"), "fp16"),
    (re.compile(r"^Cijk_[A-Za-z]+_[A-Za-z]+_B[A-Z]*_"), "bf16"),
    (re.compile(r"<(?:float\b|floa?$)"), "fp32"),
    (re.compile(r"<(?:double\b|doubl?$)"), "fp64"),
    (re.compile(r"<(?:c10::)?Half\b"), "fp16"),
    (re.compile(r"<(?:c10::)?BFloat16\b"), "bf16"),
)


def canonical_dtype(spelling: str) -> str:
    """Return which of `DTYPES` a number format is ("torch.float8_e4m3fnuz" -> "fp8", "FP16" -> "fp16").

    Case, `torch.` and `c10::` do not matter. Formats that take the same bits and run at the same rate share a name
    (both FP8 encodings, IEEE and `fnuz` alike). Raises DataError where it is not known; the message names the closest
    ones.
    """
    name = _lookup(spelling)
    if name is None:
        close = [_CANONICAL[word] for word in difflib.get_close_matches(_plain(spelling), _CANONICAL, n=3)] or DTYPES[
            :6
        ]
        raise DataError(f"unknown number format {spelling!r}: use one of {', '.join(dict.fromkeys(close))}")
    return name


def canonical_dtypes(spellings: pd.Series) -> pd.Series:
    """Return the canonical name of every spelling; "" where there is none or it is not known."""
    return _each(spellings, _lookup)


def dtypes_in_kernel_names(kernels: pd.Series) -> pd.Series:
    """Return the type of A that each kernel's name states; "" where it states none."""
    return _each(kernels, _stated)


def _each(words: pd.Series, name_of: Callable[[str], str | None]) -> pd.Series:
    """Return `name_of` each word, asked once per distinct word; "" for a missing word or name."""
    codes, levels = pd.factorize(words)
    names = np.array([*(name_of(str(level)) or "" for level in levels), ""], dtype=object)
    return pd.Series(names[codes], index=words.index, dtype="str")


def _stated(kernel: str) -> str | None:
    return next((name for pattern, name in _KERNEL_NAMES if pattern.search(kernel)), None)


def _plain(spelling: str) -> str:
    return _NAMESPACE.sub("", str(spelling).strip().strip("'\"").lower())


def _lookup(spelling: str) -> str | None:
    plain = _plain(spelling)
    if narrow := _NARROW_FLOAT.match(plain):
        return f"fp{narrow[1]}"
    return _CANONICAL.get(plain)
