"""Answers that need no data: a saved run again, or its seal, and published results reproduced."""

from __future__ import annotations

from pathlib import Path

from ..errors import ArtifactError, ParameterError
from ..report.html import Answer
from ..report.run_folder import read_metrics, read_run
from ..report.scaling import published_document
from ..report.training import seal_document, training_document
from ..scaling.trials import published_trials, reproduction
from ..sealing import SIGNATURE, check, signed_by
from .training import Run


def show(
    run: str | Path | Run,
    *,
    every: bool = False,
    top: int = 10,
    plot: bool = False,
    verify: bool = False,
    signers: str | Path | None = None,
) -> Answer:
    """Return the tables of a saved run; no model is loaded.

    Parameters
    ----------
    run : path or Run
        The folder that `train` wrote, or what it returned.
    every : bool
        All tables, and not the first screen alone.
    top : int
        Features to name.
    plot : bool
        Whether inlier curves, and observed against predicted, are drawn for terminals.
    verify : bool
        The files of the run with their SHA-256 in place of its tables; one that is not sealed is refused.
    signers : path, optional
        With ``verify``: allowed signers (ssh-keygen), one of whom must have signed.

    Raises
    ------
    ArtifactError
        The folder is missing, foreign, damaged, or not as it was sealed.
    ParameterError
        ``signers`` without ``verify``.

    Examples
    --------
    >>> import tempfile, flopcast as fc
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fc.train(where={"m": (None, 64)}, models=["OLS"], jobs=1).save(folder)
    ...     [one["scheme"] for one in fc.show(folder).document().data["cv"]]
    ['kfold', 'grouped']
    """
    if not isinstance(run, str | Path):
        if verify or signers is not None:
            raise ParameterError("run", "must be the folder of a run to verify: a Run has no seal")
        if not isinstance(run, Run):
            raise ParameterError("run", f"must be a run or the folder of one, got {type(run).__name__}")
        told = training_document(run.metrics, run.predictions, rank=top, run=run.folder, saved=run.folder is not None,
                                 every=every, plot=plot)  # fmt: skip
        return Answer(told)
    folder = Path(run)
    if signers is not None and not verify:
        raise ParameterError("signers", "belongs to verify")
    manifest = check(folder) if verify and folder.is_dir() else None
    metrics, predictions = read_run(folder) if plot or verify else (read_metrics(folder), None)
    if not verify:
        return Answer(training_document(metrics, predictions, rank=top, run=folder, every=every, plot=plot))
    if manifest is None:
        raise ArtifactError(f"{folder} has no seal to verify: it is of an earlier version, train again")
    signer = None if signers is None else signed_by(folder, Path(signers))
    return Answer(seal_document(str(folder), manifest, signer, signed=(folder / SIGNATURE).exists()))


def scale_facts() -> Answer:
    """Return the published results of scale models, reproduced from the published simulations.

    Examples
    --------
    >>> import flopcast as fc
    >>> "trials" in fc.scale_facts().document().data
    True
    """
    return Answer(published_document(reproduction(), published_trials()))
