"""Measure kernels: ``flopcast measure -o runs.parquet`` times a suite, a list of shapes or the user's function."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import values
from ..errors import DataError, FlopcastError
from ..output import READABLE, check_file
from ..remarks import visible
from . import options as opt
from .derived import as_taken, with_options_of

PLACE = 100
EXAMPLES = ("flopcast measure --preset small --device cuda:0 -o small.parquet",)
DEFAULT_OUT = Path("measured.parquet")


@with_options_of(
    "measure", {}, ("shapes", "out", "rule", "resume", "overwrite", "command", "progress")
)
def command(
    context: typer.Context,
    shapes: Annotated[
        Path | None,
        typer.Argument(metavar="[SHAPES]", help="CSV or Parquet with op, dtype_a and dimensions."),
    ] = None,
    *,
    out: Annotated[
        Path, opt.option("Table to write: .parquet or .csv.", spelt="--out -o")
    ] = DEFAULT_OUT,
    cus: Annotated[
        str | None,
        opt.option(
            "Measure with so many compute units (SMs) of the GPU, for scale predict.", "N,N[,...]"
        ),
    ] = None,
    resume: opt.ResumeOption = False,
    as_json: opt.JsonOption = False,
    **given: Any,
) -> None:
    """Time kernels of PyTorch on this machine, for training: repeated until the median is known, outliers removed.

    A --budget also buys more visits of the rows that need them. Ctrl-C keeps what is measured;
    --resume continues it. A preset leaves out what the device cannot do.
    """
    if cus is not None:
        check_file(out, READABLE, [shapes] if shapes else [])
        _sizes(context, values.counts("cus", cus) or [], out, as_json)
        return
    asked = as_taken("measure", given)
    check_file(out, READABLE, [shapes] if shapes else [])
    opt.check_data([shapes] if shapes else None)
    # here: what it imports takes seconds, and the options are checked before
    from ..api.measuring import measure
    from ..measuring.session import INTERRUPTED, LOST, provenance_path
    from ..report.measuring import resuming
    from ..report.terminal import show, shown_progress

    with shown_progress("measuring", quiet=as_json) as progress:
        measured = measure(shapes, out=out, resume=resume, progress=progress, **asked)
    document = measured.document()
    show(document, out, provenance_path(out), as_json=as_json, rows=len(measured.table))
    if measured.ended == INTERRUPTED:
        print(visible(resuming(measured)), file=sys.stderr)
        raise KeyboardInterrupt
    if measured.ended == LOST:
        raise FlopcastError(
            f"the device does not answer any more after {measured.lost}: {resuming(measured)}"
        )


def _sizes(context: typer.Context, cus: list[int], out: Path, as_json: bool) -> None:
    """Measure each size in a process of its own, with the other words of this command."""
    import pyarrow as pa

    from ..measuring.backend import Backend, import_torch
    from ..measuring.measure import measure_sizes
    from ..measuring.session import check_table_path
    from ..output import write_table
    from ..readers.labels import canonical_device
    from ..report.scaling import rows_document
    from ..report.terminal import show

    check_table_path(out)
    given = {name: value for name, value in context.params.items() if value not in (None, False)}
    device = given.get("device")
    shapes = given.pop("shapes", None)
    if not (backend := Backend(import_torch(), device)).is_gpu:
        raise DataError("--cus measures parts of a GPU, and PyTorch sees none here")
    name = given.get("device_name") or canonical_device(backend.gpu_name)[0]
    if shapes:
        words = [str(shapes)]
    else:
        words = []
    for option, value in given.items():
        if option not in ("cus", "out", "device_name", "as_json", "resume"):
            for one in value if isinstance(value, list | tuple) else [value]:
                words += [f"--{option.replace('_', '-')}", *([] if one is True else [str(one)])]

    def once(called: str, table: Path, environment: Mapping[str, str]) -> int:
        asked = [
            sys.executable,
            "-m",
            "flopcast",
            "measure",
            *words,
            "--device-name",
            called,
            "--out",
            str(table),
        ]
        return subprocess.run(asked, env=dict(environment), check=False).returncode

    table = measure_sizes(cus, name, once, int((device or "cuda:0").partition(":")[2] or 0))
    write_table(pa.Table.from_pandas(table, preserve_index=False), out, "{}")
    show(rows_document(table), out, as_json=as_json)
