"""Kernels timed on this machine, and times of a running program, as results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..measuring import inline_times
from ..measuring import measure as timing
from ..measuring.session import write_table
from ..output import READABLE, replacing
from ..report.document import Document
from ..report.measuring import inline_document, measuring_document
from ..report.result import Result, returning
from ..settings import configured


class Measured(Result, timing.Measured):
    """Kernels that were timed: `measuring.measure.Measured`; its ``table`` is the measurement table."""

    heading = "Measured kernels"

    def document(self) -> Document:
        """Return rows by operator and device for readers, what failed, and how far the passes agree."""
        return measuring_document(self)

    def save(
        self, path: str | Path, *, made: Mapping[str, Any] | None = None, overwrite: bool = False
    ) -> None:
        """Write the table (.parquet, .csv) with its provenance beside it, as `measure` does; else as every result.

        Raises DataError: a file cannot be written, or flopcast did not write it and ``overwrite``
        is not set.
        """
        _save_timed(self, self.provenance, path, made, overwrite=overwrite)


class InlineTimes(Result, inline_times.InlineTimes):
    """Times of modules and regions of a program as it ran: `measuring.inline_times.InlineTimes`."""

    __repr__ = inline_times.InlineTimes.__repr__

    def document(self) -> Document:
        """Return the modules and regions for readers, and what timing them cost."""
        return inline_document(self)

    def save(
        self, path: str | Path, *, made: Mapping[str, Any] | None = None, overwrite: bool = False
    ) -> None:
        """Write the table (.parquet, .csv) with what timing cost beside it, as JSON; else as every result.

        Raises DataError: there is no table, a file cannot be written, or flopcast did not write it
        and ``overwrite`` is not set.
        """
        _save_timed(self, self.about, path, made, overwrite=overwrite)


class Inline(inline_times.Inline):
    """Times a model's modules within a ``with`` block, or whenever a function that it decorates runs; see `inline`."""

    kind = InlineTimes


@configured
def inline(
    model: Any = None, *, device: str | None = None, name: str | None = None, warmup: int = 0
) -> Inline:
    """Time every module of a model while it runs, and named regions: in a ``with`` block, or as a decorator.

    Parameters
    ----------
    model : torch.nn.Module, optional
        Its modules are timed under their names (``layers.0.mlp``), itself under that of its class.
        None: regions alone.
    device : str, optional
        Whose clock is taken: ``cpu`` or ``cuda:0``; by default where the model's parameters are,
        without any the first GPU, or the CPU where there is none.
    name : str, optional
        Of the device in the table.
    warmup : int, default 0
        Calls of each module that are left out at first.

    Returns
    -------
    Inline
        As a block it gives an `InlineTimes`: ``times.region("loss")`` times what is no module;
        after the block ``times.table`` has the times in µs, ``times.overhead_us`` what each timed
        call costs, ``times.overhead_share`` the part of the time that this is. A decorated function
        has the same as its attribute ``times``, over all of its calls, each of which is a region of
        its name.

    Raises
    ------
    FlopcastError
        PyTorch is not installed, or there is no such device. What the block itself raises goes on;
        no hook stays.

    Examples
    --------
    With your model::

        with fc.inline(model, warmup=2) as times:
            for batch in batches:
                loss = criterion(model(batch))
                with times.region("backward"):
                    loss.backward()
        times.save("times.csv")  # what `train`, `fidelity` and `project` take

    and of a function that runs anyway::

        @fc.inline(model, warmup=2)
        def step(batch): ...

        step.times.table, step.times.overhead_share
    """
    return Inline(model, device, name, warmup)


measure = returning(Measured, timing.measure)


def _save_timed(
    timed: Measured | InlineTimes,
    about: Mapping[str, Any],
    path: str | Path,
    made: Mapping[str, Any] | None,
    *,
    overwrite: bool,
) -> None:
    """Write what was timed: a table that can be read again has its JSON beside it."""
    if Path(path).suffix.lower() not in READABLE:
        Result.save(timed, path, made=made, overwrite=overwrite)
        return
    table = timed.table
    with replacing(overwrite=overwrite):
        timing.check_table_path(Path(path))
        write_table(table, dict(about), Path(path))
