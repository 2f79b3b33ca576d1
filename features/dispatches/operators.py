"""From calls of a framework's operators to operators with dimensions: what the call had to do, whatever kernels ran.

Seen in traces of PyTorch 1.13 to 2.9 and of the libraries AITER, sgl-kernel, vLLM and flash-attn called from it. What
has no line in the tables of the ``aten_*`` modules, or arguments that do not tell its size, has no operator: custom
Triton kernels, graphs replayed as a whole, attention on sequences of unequal or unrecorded lengths, indexing by a mask,
sorting, pooling, composite operators that a mode has intercepted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..dtypes import DTYPES
from ..ops import OPS
from ..table import FLAGS, MAY_BE_ZERO, TEXT_DIMENSIONS
from .aten_attention import ATTENTION
from .aten_call import NotToldError, parse_call
from .aten_elements import ELEMENTS
from .aten_matrix import MATRIX, Described
from .aten_rows import ROWS

DTYPES_OF = ("dtype_a", "dtype_b", "dtype_out")
WORDS = ("op", "variant", "layout", "direction", "scale_block", *DTYPES_OF)
"""Text columns of a description."""
_READ = {**ELEMENTS, **ROWS, **ATTENTION, **MATRIX}
#: Arguments of another operator of that name, or spoiled ones: too few dimensions, sizes of 0, shapes that differ.
_NO_FIT = (NotToldError, IndexError, ZeroDivisionError, ValueError)
#: The same word as a reduction of one tensor and element-wise of two.
_EITHER = {f"aten::{name}": (ROWS[f"aten::{name}"], ELEMENTS[f"aten::{name}"]) for name in ("max", "min")}


def describe(calls: pd.DataFrame) -> pd.DataFrame:
    """Return the operator of each call with its dimensions.

    Parameters
    ----------
    calls : DataFrame
        Columns `op_name`, the framework's operator ("aten::addmm"), and `op_inputs`, its arguments as JSON (see
        `table`), "" where they were not recorded.

    Returns
    -------
    DataFrame
        With the index of `calls`: `op`, a name in `ops.OPS`, "" where the call has no such operator; `variant`;
        `layout`, `direction`, `scale_block`; the dimensions of the operators that occur, float64, missing where an
        operator has none of that name; `dtype_a`, `dtype_b`, `dtype_out`. Members of a list of tensors have no
        recorded format: their operator is given with `dtype_a` "".

    Notes
    -----
    Only the innermost operator of a kernel is recorded with it. Where that has no arguments in the file, those of the
    operator that called it are lost, and so is its operator: no shape is guessed.
    """
    codes, unique = unique_calls(calls["op_name"], calls["op_inputs"])
    return unique.iloc[codes].set_axis(calls.index)


def unique_calls(names: pd.Series, inputs: pd.Series) -> tuple[np.ndarray, pd.DataFrame]:
    """Return the number of each row's call among the different ones, and what `describe` says of those.

    Parameters
    ----------
    names, inputs : Series of str
        Columns `op_name` and `op_inputs`.

    Returns
    -------
    codes : ndarray of int of shape (n_rows,)
    unique : DataFrame
        One row per different call.
    """
    name_codes, levels = pd.factorize(names, use_na_sentinel=False)
    input_codes, told = pd.factorize(inputs, use_na_sentinel=False)
    codes, pairs = pd.factorize(name_codes.astype(np.int64) * len(told) + input_codes)
    spelled, recorded = levels.tolist(), told.tolist()
    calls = [(str(spelled[pair // len(told)]), str(recorded[pair % len(told)])) for pair in pairs.tolist()]
    rows = [describe_call(name, text) for name, text in calls]
    sizes = list(dict.fromkeys(key for row in rows for key in row if key not in WORDS))
    columns: dict[str, Any] = {name: pd.Series([row.get(name, "") for row in rows], dtype="str") for name in WORDS}
    columns |= {name: np.array([row.get(name, np.nan) for row in rows], dtype=float) for name in sizes}
    return codes, pd.DataFrame(columns, index=pd.RangeIndex(len(rows)))


def describe_call(name: str, inputs: str) -> Described:
    """Return operator, dimensions and formats of one call; an empty mapping where it has no operator."""
    readers = _readers(name)
    call = parse_call(name, inputs) if readers else None
    if call is None:
        return {}
    for read in readers:
        try:
            found = read(call)
        except _NO_FIT:
            continue
        if _usable(found):
            return found
    return {}


def _readers(name: str) -> tuple[Any, ...]:
    """Return what may read a call of that name, which may be of the in-place form."""
    for known in (name, name.rstrip("_")):
        if known in _EITHER:
            return _EITHER[known]
        if known in _READ:
            return (_READ[known],)
    return ()


def _usable(found: Described) -> bool:
    """Return whether every dimension the operator needs is there and positive, and every format known or not recorded.

    A tensor without elements has no work, and a format such as complex64 no size here.
    """
    op = OPS[found["op"]]
    for name in op.dims:
        if name in TEXT_DIMENSIONS:
            continue
        value = found.get(name)
        if value is None:
            if name not in op.defaults:
                return False
        elif not (0 if name in MAY_BE_ZERO | FLAGS else 1) <= value <= 2**62:
            return False
    formats = [found[name] for name in DTYPES_OF]
    return all(word in DTYPES for word in formats) or formats == ["", "", ""]
