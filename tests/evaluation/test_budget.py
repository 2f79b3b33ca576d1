"""Models that a budget left out did not fail, and nothing is concluded about them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from itertools import count
from pathlib import Path

import pytest

import flopcast as fc
from flopcast.api import training
from flopcast.evaluation.observers.budget import Budget
from flopcast.tests.commands.running import call
from flopcast.tests.evaluation.test_corrected_error import products
from flopcast.tests.report.pages import printed

FOLDS = 18  # of eight groups: ten of rows, eight of groups


def spent_after(fits: int) -> partial[Budget]:
    """Return a budget that lets so many fits begin, whatever they take."""
    ticks = count()
    return partial(Budget, clock=lambda: float(max(next(ticks) - fits, 0)))


def test_what_the_budget_left_out_is_named_and_has_not_failed(
    monkeypatch: pytest.MonkeyPatch, all_folds: Callable[[], AbstractContextManager[None]]
) -> None:
    monkeypatch.setattr(training, "Budget", spent_after(FOLDS))
    rows = products(0, 0.02)
    with all_folds():
        run = fc.train(
            rows,
            host="MI300X",
            target="MI355X",
            models=["OLS", "Lasso", "RandomForest"],
            budget=1,
            jobs=1,
        )
    for cv in run.metrics["cv"]:
        assert cv["selected"]["left_out"] == ["Lasso", "RandomForest"]
        for row in cv["models"]:
            assert row["error"] is None
            assert (row["left"] is None) == (row["name"] == "OLS")
    document = run.document()
    for told in (printed(document), repr(document.short)):
        assert "as the budget was spent: Lasso, RandomForest" in told
        assert "failed" not in told
    codes = [str(note) for note in run.metrics["data"]["notes"]]
    assert any("left-out-by-budget" in note for note in codes)


def test_of_models_that_never_ran_it_is_not_said_that_none_is_better(
    monkeypatch: pytest.MonkeyPatch, all_folds: Callable[[], AbstractContextManager[None]]
) -> None:
    monkeypatch.setattr(training, "Budget", spent_after(FOLDS))
    rows = products(0, 0.02)
    options = {"host": "MI300X", "target": "MI355X", "models": ["OLS", "RandomForest"], "jobs": 1}
    with all_folds():
        whole = fc.train(rows, **options)
        cut = fc.train(rows, **options, budget=1)
    for run, words in ((whole, "No model is shown"), (cut, "No model that ran is shown")):
        answers = [said for said in run.document().data["answer"].values() if "shown" in said]
        assert answers
        assert all(said.startswith(words) for said in answers)


def test_a_budget_that_lets_nothing_run_says_so(tmp_path: Path) -> None:
    data = tmp_path / "rows.csv"
    products(0, 0.02).to_csv(data, index=False)
    where = ("--host", "MI300X", "--target", "MI355X")
    models = ("--models", "OLS,NNLS,Lasso", "--budget", "0.000001s")
    ended = call("train", data, *where, *models)
    assert ended.exit_code == 2
    assert ended.stderr.count("the budget of 1e-06 s was spent (OLS, NNLS, Lasso)") == 1
    assert ended.stderr.strip().endswith(
        "allow a larger budget, or fit fewer models (quick, models)"
    )
    assert ended.stderr.count("\n") == 1
