"""The bench: where a row becomes a call on the device at hand."""

from __future__ import annotations

from .backend import Backend, Device, Operands
from .collectives import Group
from .grids import Row
from .journal import word
from .kernels import build
from .listed import UserFunction
from .timing import Call, Timer


class Bench:
    """Makes calls ready on one device of PyTorch.

    Parameters
    ----------
    backend : Backend
    cold : bool
        Whether the cache is filled with other data before each sample.
    function : UserFunction, optional
        In place of the suite's kernels.
    """

    def __init__(self, backend: Backend, *, cold: bool = False, function: UserFunction | None = None) -> None:
        self.backend, self.function = backend, function
        self.timer: Timer = backend.timer(cold)
        self._group: Group | None = None

    @property
    def ranks(self) -> int:
        """GPUs that collectives have."""
        return int(self.backend.torch.cuda.device_count()) if self.backend.is_gpu else 1

    def use(self, device: Device, row: Row) -> None:
        """Make the device the one that the next calls run on, with the arithmetic that the row asks for.

        A user's function sets its own.

        Raises
        ------
        DataError
            The device does not compute in that number format.
        """
        self.backend.use(device)
        if self.function is None:
            self.backend.multiply_as(word(row, "dtype_a"))

    def build(self, row: Row, seed: int) -> Call:
        """Return the call of a row, its operands drawn with ``seed``.

        Raises
        ------
        DataError
            The row cannot be measured.
        """
        if self.function is not None:
            return self.function.build(self.backend, seed, row)
        if row["op"] == "collective":
            if self._group is None:
                self._group = Group(self.backend, self.ranks)
            return self._group.build(row, seed)
        return build(Operands(self.backend, seed), row)

    def recover(self) -> None:
        """Make the device ready for the next row after one that failed; see `Backend.recover`."""
        self.backend.recover()

    def close(self) -> None:
        """End the processes of collectives, if there are any; give PyTorch its settings back."""
        self.backend.restore()
        if self._group is not None:
            self._group.close()
            self._group = None
