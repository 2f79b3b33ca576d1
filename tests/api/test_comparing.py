"""Two runs side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import DataError, ParameterError
from flopcast.evaluation.paired import common_rows
from flopcast.tests.commands.running import call


class Run:
    """The evidence of a run: models with their errors, row by row."""

    folder = None

    def __init__(self, errors: dict[str, np.ndarray], rows: np.ndarray, metric: str = "duration_us") -> None:
        observed = 10.0 + rows
        parts = [
            pd.DataFrame(
                {
                    "row": np.arange(len(rows)), "scheme": "grouped", "model": name, "observed": observed, "ape": ape,
                    "predicted": observed * (1 + ape / 100), "group": [f"g{row % 10}" for row in rows],
                    "source": [f"a.csv:{row}" for row in rows], "fold": 0,
                }
            )
            for name, ape in errors.items()
        ]  # fmt: skip
        self.predictions = pd.concat(parts, ignore_index=True)
        best = min(errors, key=lambda name: errors[name].mean())
        models = [{"name": name, "e_out": float(ape.mean())} for name, ape in errors.items()]
        selected = {"name": best, "e_out": float(errors[best].mean()), "tied": [best]}
        data = {"metric": metric, "n": len(rows), "host": "MI300X", "target": "MI355X"}
        cv = [{"scheme": "grouped", "folds": 10, "baselines": [], "models": models, "selected": selected}]
        self.metrics: dict[str, Any] = {"data": data, "cv": cv}


def errors(size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).gamma(4, 2, size)


def test_runs_are_paired_on_the_rows_both_have_whatever_their_order() -> None:
    first, second = np.arange(80), np.arange(20, 100)[::-1]
    ape = errors(100, 0)
    found = fc.compare(Run({"OLS": ape[first]}, first), Run({"OLS": ape[second] - 1, "Stack": ape[second]}, second))
    assert found.common == 60
    (grouped,) = found.schemes
    assert grouped.names == ("OLS", "OLS")
    assert grouped.paired.difference == pytest.approx(-1)
    assert grouped.paired.apart
    assert set(grouped.by_group["group"]) == {f"g{group}" for group in range(10)}
    table = found.table.set_index("model")
    assert table.loc["OLS", "difference"] == pytest.approx(-1)
    assert np.isnan(table.loc["Stack", "first"])


def test_rows_of_renamed_files_are_found_by_group_and_observed_value() -> None:
    own = Run({"OLS": errors(30, 1)}, np.arange(30)).predictions
    assert len(common_rows(own, own.assign(source="b.csv:" + own["row"].astype(str)))) == 30
    assert len(common_rows(own, own.assign(source="dir/" + own["source"]))) == 30
    assert len(common_rows(own, own.assign(observed=own["observed"] * 3.7))) == 0


def test_runs_without_a_common_row_are_not_tested() -> None:
    found = fc.compare(Run({"OLS": errors(9, 1)}, np.arange(9)), Run({"OLS": errors(9, 2)}, np.arange(50, 59)))
    assert (found.common, found.schemes[0].paired) == (0, None)
    assert found.document().opening[0].rival == "first: –"


def test_what_cannot_be_compared_is_refused() -> None:
    rows, ape = np.arange(9), errors(9, 1)
    with pytest.raises(DataError, match="different figures"):
        fc.compare(Run({"OLS": ape}, rows), Run({"OLS": ape}, rows, "energy_j"))
    with pytest.raises(ParameterError, match="first"):
        fc.compare(3, Run({"OLS": ape}, rows))


def test_the_command_writes_a_page_and_says_the_same_as_json(ols: fc.Run, additive: fc.Run, tmp_path: Path) -> None:
    for name, run in (("OLS", ols), ("Additive", additive)):
        run.save(tmp_path / name)
    paths = [str(tmp_path / name) for name in ("OLS", "Additive")]
    done = call("compare", *paths, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found == json.loads((tmp_path / "out" / "compare.json").read_text(encoding="utf-8"))
    assert (found["kind"], found["names"]) == ("runs", ["OLS", "Additive"])
    differing = {one["setting"] for one in found["settings"] if one["first"] != one["second"]}
    assert "command" in differing
    assert not {"rows", "training data (SHA-256)", "metric"} & differing
    page = (tmp_path / "out" / "compare.html").read_text(encoding="utf-8")
    assert found["schemes"][0]["statement"].replace("'", "&#39;") in page.replace("\xa0", " ")
    refused = call("compare", tmp_path, paths[0])
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
