"""The benchmarks of the models: what is timed is what evaluation fits, and peers solve the same problems."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.ensemble import BaseEnsemble

from flopcast.benchmarks import growth as growth_module
from flopcast.benchmarks import harness
from flopcast.benchmarks import searches as searches_module
from flopcast.benchmarks import suite_time as suite_time_module
from flopcast.benchmarks.__main__ import main
from flopcast.benchmarks.growth import Growth, growth_table, growths
from flopcast.benchmarks.harness import Comparison
from flopcast.benchmarks.made_up_counters import counters
from flopcast.benchmarks.models import Report, models
from flopcast.benchmarks.r_session import RSession, r_lacks
from flopcast.benchmarks.searches import (
    GAP,
    TOLERANCES,
    Grown,
    Penalised,
    bounded_elimination,
    elimination,
    forests,
    gap,
    loosest,
    oob_share,
    penalties,
    worse,
)
from flopcast.benchmarks.suite_time import (
    FOREST,
    FORESTS,
    Measured,
    SuiteTime,
    peak_mb,
    reset_peak,
    suite_table,
    suite_time,
)
from flopcast.evaluation.crossval import cross_validate
from flopcast.models.base import Candidate
from flopcast.models.learners import Boosted, Forest
from flopcast.models.suite import suite

FEW = ("OLS", "Lasso", "OLS/RFECV")


@pytest.fixture
def without_r(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searches_module, "r_lacks", lambda package: f"R has no {package}")


def test_counters_are_driven_by_few_causes_in_many_units() -> None:
    data = counters(200, 40)
    X = data.X.to_numpy()
    assert X.max(axis=0).max() > 1e9 * X.max(axis=0).min()
    shares = np.linalg.svd((X - X.mean(axis=0)) / X.std(axis=0), compute_uv=False) ** 2
    assert shares[:12].sum() > 0.95 * shares.sum()
    assert data.y.min() > 0


def test_what_is_timed_is_what_evaluation_fits() -> None:
    data = counters(60, 6)
    timed = suite_time("default", data, names=FEW)
    evaluated = cross_validate(data, suite("default", data.columnar, names=FEW), schemes=("kfold",))
    for name in FEW:
        np.testing.assert_allclose(
            timed.models[name].predicted, evaluated["kfold"].predictions[name]
        )
        assert timed.models[name].seconds > 0


def test_some_folds_are_some_of_the_predictions() -> None:
    part = suite_time("literature", counters(40, 5), count=2, names=("OLS",))
    assert np.isfinite(part.models["OLS"].predicted).sum() == 8
    assert part.task == "literature suite, 40 x 5, 2 of 10 folds"
    assert 0 < part.error("OLS") < 1


def test_the_sum_is_compared_with_the_forests_of_the_suite() -> None:
    predicted = np.array([1.0, 3.0])
    result = SuiteTime("some suite", np.array([1.0, 2.0]))
    result.models.update({FOREST: Measured(predicted, 4.0, 300.0), "OLS": Measured(predicted, 1.0)})
    assert result.ratio == 1.25
    result.models["Stack"] = Measured(predicted, 2.0)
    assert result.total() == 7.0
    *_, last = result.rows()
    assert (last.name, last.ratio) == ("whole suite", pytest.approx(7 / 6))
    assert last.note == "1.17 times its forests: RandomForest, Stack"
    assert result.peak_mb == 300.0
    assert result.error("OLS") == 0.25
    table = suite_table([result])
    columns = [list(column.cells) for column in table.columns]
    assert columns[1][-3:] == ["7.00", "6.00", "1.17"]
    assert columns[2][:3] == ["300", "", ""]
    assert table.caption == "some suite: its forests are RandomForest, Stack"


def test_the_forests_are_the_models_that_grow_ensembles_of_trees() -> None:
    data = counters(40, 5)
    for form, beside in (("literature", 17), ("default", 19)):
        candidates = suite(form, data.columnar)
        names = [candidate.name for candidate in candidates if _ensembles_in(candidate.estimator)]
        assert sorted(names) == sorted({candidate.name for candidate in candidates} & set(FORESTS))
        assert len(candidates) - len(names) == beside


def _ensembles_in(part: object) -> bool:
    """Tell whether a model, or one that it wraps, is an ensemble of trees."""
    if isinstance(part, (Forest, Boosted, BaseEnsemble)):
        return True
    within = part.get_params(deep=False).values() if isinstance(part, BaseEstimator) else part
    return (
        not isinstance(within, str)
        and isinstance(within, Iterable)
        and any(map(_ensembles_in, within))
    )


def test_the_peak_of_memory_is_that_since_the_reset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, reset = tmp_path / "status", tmp_path / "clear_refs"
    monkeypatch.setattr(suite_time_module, "_STATUS", status)
    monkeypatch.setattr(suite_time_module, "_RESET", reset)
    assert peak_mb() is None
    status.write_text("VmPeak:\t  90000 kB\nVmHWM:\t  50000 kB\nVmRSS:\t  40000 kB\n")
    assert peak_mb() == pytest.approx(51.2)
    reset.touch()
    reset_peak()
    assert reset.read_text() == "5"  # what proc(5) says to write


def test_growth_is_the_slope_over_the_last_fourfold() -> None:
    growth = Growth(
        "columns", (10, 40, 80, 160), {"cubic": [9.0, 1.0, 8.0, 64.0], "stopped": [1.0, 16.0]}
    )
    assert growth.power("cubic") == pytest.approx(3)
    assert growth.power("stopped") == pytest.approx(2)
    assert np.isnan(Growth("columns", (10,), {"once": [1.0]}).power("once"))
    assert len(list(growth.rows())) == 6
    cells = [list(column.cells) for column in growth_table(growth).columns]
    assert cells[-2] == ["64.000", "> 60"]


def test_a_slow_model_is_not_run_on_larger_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        growth_module,
        "_fit_seconds",
        lambda candidate, *_: 1.0 if candidate.name == "OLS" else 20.0,
    )
    by_columns, by_rows = growths((5, 10), (30, 60))
    assert by_columns.seconds["OLS"] == [1.0, 1.0]
    assert by_rows.seconds["Lasso"] == [20.0]
    assert FOREST not in by_rows.seconds


def problem() -> tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    data = counters(60, 8)
    rows = np.arange(60)
    return data.X.to_numpy(), data.y, [(rows[rows % 3 != k], rows[rows % 3 == k]) for k in range(3)]


@pytest.mark.usefixtures("without_r")
def test_other_answers_are_told_apart() -> None:
    X, y, folds = problem()
    assert elimination(X, y, folds).differs([1, 2], [2]) == "columns [1] in one only"
    bounded = bounded_elimination(X, y, folds)
    coef = bounded.ours.call()
    assert coef.min() == 0 < coef.max()
    assert bounded.differs(coef, coef * (1 + 1e-10)) == ""
    assert bounded.differs(coef, coef + 1e-3) == "8 coefficients"
    (comparison,) = forests(X, y, 4)
    assert comparison.differs(Grown(1.0), Grown(2.0)) == "out-of-bag error 2 instead of 1"
    assert comparison.differs(Grown(1.0), Grown(1.001)) == "out-of-bag error 1.001 instead of 1"
    assert comparison.differs(Grown(1.0), Grown(1.001, oob_share(1024))) == ""
    Z, v = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    (comparison,) = penalties(X, y, folds, 0.5)
    ours = comparison.ours.call()
    assert worse(Z, v, 0.5, ours) == comparison.differs(ours, ours) == ""
    none = Penalised(ours.alpha, 0 * ours.u)
    assert worse(Z, v, 0.5, none).endswith("above the least")
    assert comparison.differs(ours, none) == worse(Z, v, 0.5, none)
    assert comparison.differs(none, ours) == f"ours has an {worse(Z, v, 0.5, none)}"
    elsewhere = replace(ours, alpha=1e9)
    assert (
        comparison.differs(Penalised(1e9, 0 * ours.u), ours)
        == f"penalty {ours.alpha:.3g} instead of 1e+09"
    )
    assert comparison.differs(ours, elsewhere) == f"penalty 1e+09 instead of {ours.alpha:.3g}"


@pytest.mark.parametrize("mix", [1.0, 0.5])
def test_the_gap_is_that_of_a_case_solved_by_hand(mix: float) -> None:
    Z = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    # orthogonal columns of length sqrt(n): each coefficient is thresholded by itself
    v = Z @ [0.8, 0.3]
    alpha = 0.4
    least = np.maximum(np.array([0.8, 0.3]) - alpha * mix, 0) / (1 + alpha * (1 - mix))
    assert gap(Z, v, mix, Penalised(alpha, least)) == pytest.approx(0, abs=1e-15)
    step = np.array([0.1, 0.0])
    curvature = (1 + alpha * (1 - mix)) * 0.1**2 / 2
    assert gap(Z, v, mix, Penalised(alpha, least + step)) == pytest.approx(curvature, abs=1e-15)


def test_the_gap_is_never_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, folds = problem()
    Z, v = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    (comparison, *_) = penalties(X, y, folds, 1.0)
    ours = comparison.ours.call()
    some = replace(ours, u=ours.u * 0.9)
    right = gap(Z, v, 1.0, some)
    monkeypatch.setattr(
        searches_module, "least_angles", lambda Z, v, l1, ridge: np.ones(Z.shape[1])
    )
    assert gap(Z, v, 1.0, some) > right > GAP


def test_a_solver_gets_the_loosest_tolerance_that_will_do() -> None:
    def answer(tol: float) -> Penalised:
        return Penalised(tol, np.zeros(1))

    assert loosest(answer, lambda found: found.alpha < 2e-3) == 1e-3
    assert loosest(answer, lambda found: False) == TOLERANCES[-1]


@pytest.mark.parametrize("package", ["glmnet", "randomForest"])
def test_r_agrees_where_it_is_installed(package: str) -> None:
    if why := r_lacks(package):
        pytest.skip(why)
    X, y, folds = problem()
    found: Iterator[Comparison] = (
        penalties(X, y, folds, 0.5) if package == "glmnet" else forests(X, y, 8)
    )
    for comparison in found:
        peer = comparison.peers[-1]
        assert peer.name.startswith("R ")
        assert peer.elsewhere
        assert (peer.same == "within 25 %") == (package == "randomForest")
        assert comparison.differs(comparison.ours.call(), peer.call()) == ""


def test_r_is_asked_again_and_failures_are_told() -> None:
    if why := r_lacks("stats"):
        pytest.skip(why)
    X, y = np.arange(6.0).reshape(3, 2), np.array([1.0, 2.0, 4.5])
    with RSession("task <- function() c(X[2, 1], y[3])", X, y) as session:
        assert [session().tolist(), session().tolist()] == [[2.0, 4.5]] * 2
    with RSession("task <- function() 2 * given", X, y) as session:
        assert session(1e-9).tolist() == [2e-9]
    with (
        RSession("task <- function() quit(status = 3)", X, y) as session,
        pytest.raises(RuntimeError, match="code 3"),
    ):
        session()
    assert r_lacks("no.such.package") == "R has no no.such.package"


def test_r_has_one_blas_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    if why := r_lacks("stats"):
        pytest.skip(why)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    code = "task <- function() as.numeric(Sys.getenv(c('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS')))"
    with RSession(code, np.ones((2, 1)), np.ones(2)) as session:
        assert session().tolist() == [1.0, 1.0]


def test_r_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert r_lacks("glmnet") == "Rscript is not installed"


@pytest.mark.long
@pytest.mark.usefixtures("without_r")
def test_the_smallest_configuration_runs_through_and_peers_come_to_the_same_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def few(*form: Any, **names: Any) -> list[Candidate]:
        chosen = [one for one in suite(*form, **names) if one.name in ("OLS", "NNLS/RFECV", FOREST)]
        for one in chosen:
            trees = {name: 16 for name in one.estimator.get_params() if name.endswith("max_trees")}
            one.estimator.set_params(**trees)
        return chosen

    for module in (growth_module, suite_time_module):
        monkeypatch.setattr(module, "suite", few)
    # traced, each call takes several times as long
    monkeypatch.setattr(harness, "_peak_mb", lambda call: 1.0)
    report = models(quick=True)
    tasks = list(dict.fromkeys(row.task for row in report.compared))
    assert len(tasks) == 4
    for task in tasks:
        found, peer, nothing = (
            row.note.split(", ")[0] for row in report.compared if row.task == task
        )
        assert (peer, nothing) == ("same answer", "does nothing")
        kinds = {"penalties": "gap ", "forest": "out-of-bag error "}
        assert found.startswith(next((said for kind, said in kinds.items() if kind in task), ""))
    assert report.lines[:2] == [
        "glmnet skipped: R has no glmnet",
        "randomForest skipped: R has no randomForest",
    ]
    assert all(row.seconds is not None and row.seconds > 0 for row in report.measured)
    assert {"whole suite", FOREST, "NNLS/RFECV"} <= {row.name for row in report.measured}
    whole = [row.task for row in report.measured if row.name == "whole suite"]
    assert whole == [
        "literature suite, 40 x 6, 1 of 10 folds",
        "default suite, 40 x 6, 1 of 10 folds",
    ]
    assert len(report.tables) == 4
    assert any("--full" in line for line in report.lines)


def test_the_report_is_printed_and_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = SuiteTime("some suite", np.ones(2), {FOREST: Measured(np.ones(2), 4.0)})
    report = Report(
        measured=list(result.rows()),
        tables=[suite_table([result])],
        lines=["glmnet skipped: [none]"],
    )
    monkeypatch.setattr("flopcast.benchmarks.__main__.models", lambda quick, full: report)
    assert main(["--part", "models"]) == 0
    printed = capsys.readouterr().out
    assert "glmnet skipped: [none]" in printed
    assert "whole / forests" in printed
    assert main(["--part", "models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == FOREST
