"""A saved run again: ``flopcast show RUN`` prints its tables, ``--plot`` draws its predictions.

No model is loaded: the answer is there in about a second.
"""

from __future__ import annotations

from ..report.run_folder import read_metrics, read_run
from .options import JsonOption, PlotOption, RunArgument, TopOption

PLACE = 40


def command(
    run: RunArgument,
    top: TopOption = 10,
    plot: PlotOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print the tables of a saved run again, from its folder.

    They are those that train printed when it wrote the folder; the page of the run is report.html in it, and --json
    prints its metrics.json with the answer in a sentence.
    """
    metrics, predictions = read_run(run) if plot else (read_metrics(run), None)
    from ..report.terminal import show  # here: what it imports takes time, and the folder is checked before
    from ..report.training import training_document

    show(training_document(metrics, predictions, rank=top, plot=plot), as_json=as_json)
