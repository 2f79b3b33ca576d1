"""What a table of measurements looks like: ``flopcast schema [OP]``, and ``--out FILE`` to fill in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import ParameterError
from ..output import READABLE, check_file, is_as_written, replacing, write_table
from . import options as opt

PLACE = 200
EXAMPLES = ("flopcast schema gemm --out gemm.csv", "flopcast schema serving --template")


def command(
    op: Annotated[
        str | None, typer.Argument(metavar="[OP]", help="An operator, e.g. gemm. None: all.")
    ] = None,
    out: Annotated[
        Path | None, opt.option("Write a table to fill in: .csv.", "FILE", spelt="--out -o")
    ] = None,
    template: Annotated[
        bool, opt.option("Print the table to fill in, as CSV, and nothing else.")
    ] = False,
    as_json: opt.JsonOption = False,
) -> None:
    """List the operators and the columns of their measurements, with units and an example row."""
    if template and (out is not None or as_json):
        raise ParameterError("template", "prints the table to fill in: leave out --out and --json")
    # whether it is filled in is seen below
    with replacing(overwrite=out is not None and out.is_file()):
        check_file(out, READABLE)
    from ..api import tables  # here: what it imports takes time, and the options are checked before
    from ..operators.operators import canonical_op
    from ..report.reference import schema_document
    from ..report.terminal import show

    if template:
        typer.echo(tables.template(op).to_csv(index=False), nl=False)
        return
    document = schema_document(tables.schema(op), op and canonical_op(op))
    if out is not None:
        import pyarrow as pa

        table = pa.Table.from_pandas(tables.template(op), preserve_index=False)
        with replacing(overwrite=is_as_written(out, table)):
            write_table(table, out, "{}")
    show(document, *([out] if out else []), as_json=as_json)
