"""A saved run again: ``flopcast show RUN`` prints its tables, ``--plot`` draws its predictions, ``--verify`` its seal.

No model is loaded: the answer is there in about a second.
"""

from __future__ import annotations

from typing import Any

from ..errors import ParameterError
from ..report.run_folder import read_metrics
from . import options as opt
from .derived import as_taken, with_options_of

PLACE = 40
EXAMPLES = ("flopcast show runs/gemm --all", "flopcast show runs/fp8 --plot")


@with_options_of("show", {}, ("run", "every", "top", "plot"))
def command(
    run: opt.RunArgument,
    *,
    every: opt.AllOption = False,
    top: opt.TopOption = 10,
    plot: opt.PlotOption = False,
    as_json: opt.JsonOption = False,
    **given: Any,
) -> None:
    """Print the tables of a saved run again, from its folder.

    They are those that train printed when it wrote the folder; the page of the run is report.html
    in it, and --json prints its metrics.json with the answer in a sentence. The files of a run must
    be those that were sealed in its manifest.json, for this and every other command. A model of
    serving that calibrate wrote (.parquet) has its seal in it: --verify and --signers hold for it.
    """
    if given["signers"] is not None and not given["verify"]:
        raise ParameterError("signers", "belongs to --verify")
    if not run.is_file():
        read_metrics(run)
    from ..api import runs  # here: what it imports takes time, and the folder is checked before
    from ..report.terminal import show

    answer = runs.show(run, every=every, top=top, plot=plot, **as_taken("show", given))
    show(answer.document(), as_json=as_json)
