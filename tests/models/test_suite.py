from __future__ import annotations

from dataclasses import replace

import pytest

from flopcast.errors import DataError
from flopcast.evaluation.competition import by_preference
from flopcast.models.suite import Columnar, baselines, suite

ROLES = {
    "host_us": "additive", "compute.target_us": "additive", "waves.target": "additive",
    "law.roofline_us": "additive", "log2.m": "shape", "dtype=fp8": "category",
}  # fmt: skip
LITERATURE = {
    "HALWPE": (
        "OLS", "OLS/Forward/AIC", "OLS/Forward/BIC", "OLS/Backward/AIC", "OLS/Backward/BIC", "NNLS", "NNLS/Forward/AIC",
        "NNLS/Forward/BIC", "NNLS/Backward/AIC", "NNLS/Backward/BIC", "Lasso", "ElasticNet", "RandomForest",
    ),
    "RastSim": (
        "OLS", "OLS/Forward/AIC", "OLS/Forward/BIC", "OLS/Backward/AIC", "OLS/Backward/BIC", "NNLS", "NNLS/Forward/AIC",
        "NNLS/Forward/BIC", "NNLS/Backward/AIC", "NNLS/Backward/BIC", "Lasso", "Lasso/NNLS", "ElasticNet",
        "ElasticNet/NNLS", "RandomForest",
    ),
    "HLSPredict": (
        "OLS", "NNLS", "OLS/RFECV", "NNLS/RFECV", "Lasso", "Lasso/NNLS", "ElasticNet", "ElasticNet/NNLS",
        "RandomForest", "MLP",
    ),
}  # fmt: skip
"""The models each of O'Neal's predictors compared (O'Neal, Brisk et al., 2017-2018: 13, 15 and 10 of them)."""


def _data(*, host: bool = True, unpaired: bool = True, n_rows: int = 400) -> Columnar:
    roles = (
        ROLES
        if host
        else {
            name: role for name, role in ROLES.items() if name not in ("host_us", "law.roofline_us")
        }
    )
    shape = tuple(name for name in roles if name not in ("host_us", "law.roofline_us"))
    return Columnar(roles=roles, shape_columns=shape, n_rows=n_rows, host=host, unpaired=unpaired)


def test_the_names_of_the_design_are_there_in_both_suites() -> None:
    wanted = {
        "OLS", "OLS/Forward/AIC", "OLS/Forward/BIC", "OLS/Backward/AIC", "OLS/Backward/BIC", "NNLS",
        "NNLS/Forward/AIC", "NNLS/Forward/BIC", "NNLS/Backward/AIC", "NNLS/Backward/BIC", "Lasso", "Lasso/NNLS",
        "ElasticNet", "ElasticNet/NNLS", "OLS/RFECV", "NNLS/RFECV", "RandomForest", "MLP",
    }  # fmt: skip
    for kind in ("default", "literature"):
        assert wanted <= {candidate.name for candidate in suite(kind, _data())}
    assert {candidate.space for candidate in suite("literature", _data())} == {"measured time"}


@pytest.mark.parametrize(("paper", "count"), [("HALWPE", 13), ("RastSim", 15), ("HLSPredict", 10)])
def test_the_papers_models_are_in_the_literature_suite(paper: str, count: int) -> None:
    names = {candidate.name for candidate in suite("literature", _data())}
    assert len(LITERATURE[paper]) == len(set(LITERATURE[paper])) == count
    assert set(LITERATURE[paper]) <= names


def test_learners_of_the_residual_do_not_see_the_search_of_the_hosts_kernel() -> None:
    plain = _data()
    searched = replace(
        plain, roles={**ROLES, "host_campaign=a": "category", "host_campaign=b": "category"}
    )
    assert (plain.seen("shape_us"), searched.seen("shape_us")) == (None, [*ROLES, "shape_us"])
    found = {candidate.name: candidate.estimator for candidate in suite("default", searched)}
    assert [found[f"{name}/Residual"].columns for name in ("BoostedTrees", "ExtraTrees")] == [
        list(ROLES)
    ] * 2
    for stack, columns in (
        (found["Stack"], [*ROLES]),
        (found["Stack/Transfer"].regressor, [*ROLES, "shape_us"]),
    ):
        assert [part.columns for name, part in stack.parts if name in ("trees", "boosted")] == [
            columns
        ] * 2


def test_models_of_unpaired_rows_and_of_a_host_need_them() -> None:
    paired = {candidate.name for candidate in suite("default", _data()) if candidate.uses_unpaired}
    assert paired == {"Mean/Transfer", "Stack/Transfer"}
    assert not any(candidate.uses_unpaired for candidate in suite("default", _data(unpaired=False)))
    alone = next(
        c for c in suite("default", _data(host=False, unpaired=False)) if c.name == "Stack"
    )
    assert "affine" not in dict(alone.estimator.parts)


def test_names_choose_and_unknown_ones_are_listed() -> None:
    assert [c.name for c in suite("default", _data(), names=["Stack", "OLS"])] == ["OLS", "Stack"]
    with pytest.raises(DataError, match=r"'Lass'.*Lasso\?"):
        suite("default", _data(), names=["Lass"])
    left = {c.name for c in suite("default", _data())} - {
        c.name for c in suite("default", _data(), without=["Stack"])
    }
    assert left == {"Stack"}
    with pytest.raises(DataError, match="no model 'Stacks'"):
        suite("default", _data(), without=["Stacks"])
    with pytest.raises(DataError, match=r"suite.*'all'"):
        suite("all", _data())


def test_what_does_not_grow_with_the_work_is_no_sum_of_times() -> None:
    roles = ROLES | {"wave_efficiency.target": "shape", "host_power_w": "additive"}
    for host, terms in (
        (True, ["wave_efficiency.target", "host_power_w"]),
        (False, ["wave_efficiency.target"]),
    ):
        data = Columnar(
            roles,
            ("log2.m",),
            400,
            host=host,
            unpaired=False,
            host_time="host_power_w",
            noun="power",
            grows=False,
        )
        found = {candidate.name: candidate for candidate in suite("default", data)}
        assert found["Additive"].estimator.columns == terms
        assert found["BoostedTrees"].space == "log power"
        assert found["NNLS"].space == "relative error"
        assert {candidate.space for candidate in suite("literature", data)} == {"measured power"}


def test_linear_models_see_sums_only_and_baselines_one_column() -> None:
    terms = _data().additive
    assert "law.roofline_us" not in terms
    assert "log2.m" not in terms
    found = baselines(["FLOPS scaling"], "reference")
    assert [c.name for c in found] == ["FLOPS scaling", "constant ratio", "affine"]
    assert [c.space for c in found] == ["no fitting", "relative error", "relative error"]


def test_a_name_like_none_gets_the_list_and_nothing_left_is_refused() -> None:
    data = _data()
    with pytest.raises(DataError, match=r"Additive.*OLS"):
        suite("default", data, names=["FLOPS"])
    with pytest.raises(DataError, match="without"):
        suite("default", data, names=["OLS"], without=["OLS"])


def test_what_others_ask_of_a_model_is_a_property_of_it() -> None:
    for kind in ("default", "literature"):
        found = {candidate.name: candidate for candidate in suite(kind, _data())}
        assert [name for name, c in found.items() if c.is_forest] == ["RandomForest"]
        assert {name for name, c in found.items() if c.tests_features} == {
            name for name in found if name.startswith("OLS")
        }
        selecting = {name for name, c in found.items() if c.selects_features}
        assert {"OLS/Forward/AIC", "NNLS/RFECV", "Lasso", "ElasticNet/NNLS"} <= selecting
        assert not {"OLS", "NNLS", "RandomForest", "MLP", "Stack"} & selecting
        assert {c.family for name, c in found.items() if name.startswith("NNLS/Back")} == {
            "nnls/backward"
        }
        assert {found[name].family for name in ("OLS", "MLP", "RandomForest")} == {None}


def test_preference_falls_from_the_most_cautious() -> None:
    assert by_preference(suite("default", _data())) == [
        "Mean/Transfer", "Additive", "ExtraTrees/Residual", "BoostedTrees/Residual", "Stack", "Stack/Transfer",
    ]  # fmt: skip
