"""A saved run again: ``flopcast show RUN`` prints its tables, ``--plot`` draws its predictions, ``--verify`` its seal.

No model is loaded: the answer is there in about a second.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import ArtifactError, ParameterError
from ..report.run_folder import read_metrics, read_run
from ..sealing import SIGNATURE, check, signed_by
from .options import AllOption, JsonOption, PlotOption, RunArgument, TopOption

PLACE = 40
EXAMPLES = ("flopcast show runs/gemm --all", "flopcast show runs/fp8 --plot")


def command(
    run: RunArgument,
    every: AllOption = False,
    top: TopOption = 10,
    plot: PlotOption = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Print the files of the run and their SHA-256; refuse one not sealed.")
    ] = False,
    signers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --verify: allowed signers (ssh-keygen), one of whom must have signed."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the tables of a saved run again, from its folder.

    They are those that train printed when it wrote the folder; the page of the run is report.html in it, and --json
    prints its metrics.json with the answer in a sentence. The files of a run must be those that were sealed in its
    manifest.json, for this and every other command.
    """
    if signers is not None and not verify:
        raise ParameterError("signers", "belongs to --verify")
    manifest = check(run) if verify and run.is_dir() else None
    metrics, predictions = read_run(run) if plot or verify else (read_metrics(run), None)
    from ..report.terminal import show  # here: what it imports takes time, and the folder is checked before
    from ..report.training import seal_document, training_document

    if verify:
        if manifest is None:
            raise ArtifactError(f"{run} has no seal to verify: it is of an earlier version, train again")
        signer = None if signers is None else signed_by(run, signers)
        show(seal_document(str(run), manifest, signer, signed=(run / SIGNATURE).exists()), as_json=as_json)
        return
    show(training_document(metrics, predictions, rank=top, run=run, every=every, plot=plot), as_json=as_json)
