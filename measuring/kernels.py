"""The kernels that can be measured: from a row of the measurement table to a call of PyTorch, as its operator says."""

from __future__ import annotations

from ..errors import DataError
from ..operators.operands import Row, word
from ..operators.operators import OPS
from .backend import Operands
from .timing import Call


def build(operands: Operands, row: Row) -> Call:
    """Return the call of a row; that of collectives takes several processes (`collectives`).

    Raises
    ------
    DataError
        The operator, the variant or the number format cannot be measured, or dimensions contradict each other.
    """
    op = OPS.get(word(row, "op"))
    if op is None or op.measured is None:
        raise DataError(f"{word(row, 'op')} cannot be measured: give a function of your own, or leave the rows out")
    return op.measured.build(operands, row)
