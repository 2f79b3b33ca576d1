"""Runs that earlier versions wrote, kept as they were: what is installed now predicts what they predicted.

``stored/sklearn-1.7`` (line breaks left out): November 2026, scikit-learn 1.7.0, NumPy 2.0.0;
``train --where op=softmax --models Stack`` of kernels timed on one and two cores of a CPU, without most features, with
`_trees` of the suite cut to 5 trees of leaves of 3 rows, `_boosted` to 12 trees of 6 leaves, and a stack that does not
learn its weights, so that a small file holds every kind of tree.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.api.predicting import predict
from flopcast.measuring.rows import shapes
from flopcast.models.artifact import load
from flopcast.report.run_folder import read_metrics
from flopcast.table.measurements import prediction_columns

STORED = sorted((Path(__file__).parent / "stored").iterdir())


@pytest.mark.parametrize("run", STORED, ids=lambda run: run.name)
def test_a_run_of_an_earlier_version_predicts_its_probes_and_new_rows(run: Path) -> None:
    artifact = load(run / "model")  # which holds the probes against what they were
    assert artifact.manifest["probes"]["predictions"]
    rows = pd.DataFrame([shape for shape in shapes() if shape["op"] == "softmax"])
    made = predict(
        run, rows.assign(device="CPU-1T", duration_us=2 + rows["rows"] * rows["cols"] / 2000)
    )
    columns = prediction_columns("duration_us").values()
    predicted, lower, upper = (made.frame[name].to_numpy(dtype=float) for name in columns)
    assert len(predicted) == 40
    assert np.isfinite(predicted).all()
    assert (lower < predicted).all()
    assert (predicted < upper).all()
    assert read_metrics(run)["model"]["name"] == "Stack"
