"""A few results kept for whoever asks again about the same training rows."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

import numpy as np

Kept = TypeVar("Kept")
Rows = tuple[np.ndarray, ...]


class Recent(Generic[Kept]):
    """The last few things made from training rows, found again by equal rows.

    Forward/AIC and Forward/BIC, fitted one after the other, so walk along one path. A thing is handed out to one caller
    at a time: whoever asks while it is out makes another. What is handed back may have grown; that must not show in
    results.

    Parameters
    ----------
    size : int, default=4
        How many things are kept.
    most_bytes : int, default=2**24
        Rows larger than that are not kept.
    """

    def __init__(self, size: int = 4, most_bytes: int = 2**24) -> None:
        self._size, self._most_bytes = size, most_bytes
        self._kept: list[tuple[object, Rows, Kept]] = []
        self._lock = Lock()

    def take(self, kind: object, rows: Rows, make: Callable[[], Kept]) -> Kept:
        """Return the thing of this kind made from equal rows, which is then no longer kept, or make it."""
        with self._lock:
            candidates = [entry for entry in self._kept if entry[0] == kind]
        for entry in candidates:
            if all(np.array_equal(a, b) for a, b in zip(entry[1], rows, strict=True)):
                with self._lock:
                    if any(kept is entry for kept in self._kept):
                        self._kept = [kept for kept in self._kept if kept is not entry]
                        return entry[2]
        return make()

    def keep(self, kind: object, rows: Rows, thing: Kept) -> None:
        """Keep a thing and the rows it was made from, which must not be written to; the oldest makes room."""
        if sum(array.nbytes for array in rows) <= self._most_bytes:
            with self._lock:
                self._kept = [*self._kept, (kind, rows, thing)][-self._size :]

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept = []
