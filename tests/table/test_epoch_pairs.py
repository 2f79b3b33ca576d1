"""Epochs of two runs are pairs where they do the same work."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import DataError
from flopcast.table.problems import pair


def epochs(device: str, gflops: list[float]) -> pd.DataFrame:
    """Return epochs of a run, cut by a number of kernels, that do so much work."""
    frame = pd.DataFrame({"variant": "kernels:25", "index": np.arange(len(gflops), dtype=float)})
    frame["duration_us"] = 100 + np.nan_to_num(gflops)
    return frame.assign(op="epoch", device=device, **{"counter.epoch.gflops": gflops})


def both(target: list[float]) -> pd.DataFrame:
    found = fc.read(
        pd.concat([epochs("MI300X", [100.0] * len(target)), epochs("H100 SXM5", target)])
    )
    return found.frame


def test_epochs_of_other_work_are_counted_and_no_pairs() -> None:
    frame = both([100.0, 109.0, 111.0, 341.0, 16.0, 95.0])
    found = pair(frame, "MI300X", "H100 SXM5")
    assert found.paired["index"].tolist() == [0, 1, 5]
    assert sorted(found.target_only["index"]) == [2, 3, 4]
    [note] = found.report["remarks"]
    assert (note.values["pairs"], note.values["of"]) == (3, 6)
    assert "0.16 to 3.41" in note.text


def test_runs_none_of_whose_epochs_are_alike_are_refused() -> None:
    frame = both([10.0, 341.0, 16.0])
    with pytest.raises(DataError, match="3 of 3 pairs"):
        pair(frame, "MI300X", "H100 SXM5")


def test_epochs_of_unknown_work_and_products_are_paired_as_before() -> None:
    frame = both([float("nan")] * 3)
    assert len(pair(frame, "MI300X", "H100 SXM5").paired) == 3
    assert pair(fc.read().frame, "MI300X", "MI355X").report["remarks"] == []


def test_training_says_how_many_pairs_of_epochs_are_left_out() -> None:
    work = [*np.linspace(91, 309, 12)]
    frame = pd.concat([epochs("MI300X", [*work, 100.0]), epochs("H100 SXM5", [*work, 300.0])])
    run = fc.train(frame, host="MI300X", target="H100 SXM5", models=["OLS"], jobs=1)
    assert run.metrics["data"]["n"] == 12
    assert any("1 of 13 pairs of epochs" in note for note in run.metrics["data"]["notes"])


def test_a_training_left_with_few_pairs_says_why(
    all_folds: Callable[[], AbstractContextManager[None]],
) -> None:
    frame = pd.concat(
        [epochs("MI300X", [100.0] * 12), epochs("H100 SXM5", [100.0] * 4 + [300.0] * 8)]
    )
    with all_folds(), pytest.raises(DataError, match=r"there are 4: 8 of 12 pairs"):
        fc.train(frame, host="MI300X", target="H100 SXM5", models=["OLS"], jobs=1)
