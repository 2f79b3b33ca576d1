"""The library family of a kernel, read off its name."""

from __future__ import annotations

import re

_CUT = re.compile(r"[<(]| \[clone")
_TILE = re.compile(r"^(?:MT|t|BK|bk)?\d+x\d+")
_NUMBERS = re.compile(r"^[\dx.]+$")


def kernel_family(name: str) -> str:
    """Return the part of a kernel's name that stays when only its tile and tuning change.

    Template arguments and parameter lists are cut off, mangled names (``_ZN5aiter41f4gemm_bf16_...E``) reduced to
    their last part, and the name ends before its first tile size (``256x16x64x256``, ``MT64x32x32``, ``t16x64x128``:
    Composable Kernel, Tensile and FlyDSL, ROCm 6 and 7). MIOpen's solver names have none of these and stay.

    Parameters
    ----------
    name : str
        A kernel or solver name.

    Returns
    -------
    str
        The family; "" for "".

    Examples
    --------
    >>> kernel_family("a8w8_blockscale_1x128x128_256x16x64x256_16x16_16x16_1x1_intrawave_v1")
    'a8w8_blockscale'
    >>> kernel_family("Cijk_Ailk_Bljk_SB_MT64x32x32_MI16x16x4x1_SN_1LDSB1")
    'Cijk_Ailk_Bljk_SB'
    """
    bare = _demangled(name.strip()).replace("(anonymous namespace)::", "")
    plain = _CUT.split(bare, maxsplit=1)[0].removeprefix("void ").strip()
    kept: list[str] = []
    for word in plain.split("_"):
        if kept and (_TILE.match(word) or _NUMBERS.match(word)):
            break
        kept.append(word)
    return "_".join(kept).rstrip("_")


def _demangled(name: str) -> str:
    """Return the innermost name of a mangled one: lengths precede the parts, ``_ZN5aiter41f4gemm...E``."""
    if not name.startswith("_Z"):
        return name
    rest, part = re.sub(r"^_ZN?K?", "", name), ""
    while match := re.match(r"(\d+)", rest):
        length, start = int(match[1]), match.end()
        part, rest = rest[start : start + length], rest[start + length :]
    return part or name
