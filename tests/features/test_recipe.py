"""Recipes: learned once, applied to new rows, kept as JSON."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import ArtifactError, DataError, NotPublishedError, ParameterError
from flopcast.evaluation.domain import TrainedRange
from flopcast.features.recipe import FeatureRecipe, learn_matrix
from flopcast.hardware import GPU
from flopcast.remarks import remark

HOST = GPU(
    name="slow", cus=10, peaks={"bf16_matrix": 100.0, "fp32_matrix": 50.0}, memory_bw_gbs=1000.0
)
TARGET = GPU(
    name="fast", cus=20, peaks={"bf16_matrix": 400.0, "fp32_matrix": 100.0}, memory_bw_gbs=3000.0
)


def rows(count: int = 40, **columns: object) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "op": "gemm",
            "device": "slow",
            "dtype_a": draw.choice(["bf16", "fp32"], count),
            "m": draw.integers(1, 4096, count).astype(float),
            "n": draw.choice([512.0, 4096.0], count),
            "k": 1024.0,
            "kernel": draw.choice(["ck_16x16", "ck_32x32", "asm"], count),
            "duration_us": draw.uniform(5, 500, count),
            "source": [f"t.csv:{i + 2}" for i in range(count)],
        }
    )
    return frame.assign(**columns)


def paired(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(
        host_duration_us=frame["duration_us"], host_kernel=frame["kernel"], duration_us=1.0
    )


@pytest.fixture(scope="module")
def recipe() -> FeatureRecipe:
    return learn_matrix(paired(rows()), HOST, TARGET)[0]


def test_columns_tell_rows_apart_and_what_is_left_out_is_recorded(recipe: FeatureRecipe):
    matrix = recipe.transform(rows())
    assert tuple(matrix.columns) == recipe.columns
    assert set(matrix.dtypes) == {np.dtype("float64")}
    assert (np.ptp(matrix.to_numpy(), axis=0) > 0).all()
    assert recipe.constant["log2.k"] == 10
    assert recipe.redundant["law.bandwidth_us"] == ("host_us", pytest.approx(1 / 3))
    assert "dtype=bf16" in recipe.columns
    assert "host_kernel=ck" in recipe.columns
    assert recipe.roles["host_us"] == "additive"


def test_features_can_be_done_without_and_rows_need_them_no_more():
    data = paired(
        rows(**{"counter.TCC_HIT": np.arange(40.0), "counter.SQ_WAVES": np.arange(40.0) % 7})
    )
    data["host_counter.TCC_HIT"], data["host_counter.SQ_WAVES"] = (
        data["counter.TCC_HIT"],
        data["counter.SQ_WAVES"],
    )
    every = learn_matrix(data, HOST, TARGET)[0]
    less = learn_matrix(data, HOST, TARGET, without=["counter.TCC*", "host_kernel=*"])[0]
    assert "counter.TCC_HIT" in every.columns
    assert set(less.skipped) >= {"counter.TCC_HIT", "host_kernel=ck"}
    assert not [name for name in less.columns if name.startswith(("counter.TCC", "host_kernel="))]
    assert "counter.SQ_WAVES" in less.columns
    assert less.transform(rows(**{"counter.SQ_WAVES": 1.0})).shape == (40, len(less.columns))
    for pattern in ("counter.L9*", "*"):
        with pytest.raises(ParameterError, match=r"^without_features"):
            learn_matrix(data, HOST, TARGET, without=[pattern])[0]


def test_rows_of_the_host_and_paired_rows_give_the_same_matrix(recipe: FeatureRecipe):
    pd.testing.assert_frame_equal(recipe.transform(rows()), recipe.transform(paired(rows())))


def test_each_row_stands_for_itself(recipe: FeatureRecipe):
    whole, order = recipe.transform(rows()), np.random.default_rng(1).permutation(40)
    shuffled = recipe.transform(rows().iloc[order])
    pd.testing.assert_frame_equal(shuffled, whole.iloc[order].reset_index(drop=True))
    pd.testing.assert_frame_equal(
        recipe.transform(rows().iloc[[7]]), whole.iloc[[7]].reset_index(drop=True)
    )


def test_json_gives_back_the_same_recipe(recipe: FeatureRecipe):
    again = FeatureRecipe.from_dict(json.loads(json.dumps(recipe.to_dict())))
    assert again == recipe
    pd.testing.assert_frame_equal(again.transform(rows()), recipe.transform(rows()))


def test_damaged_or_foreign_recipes_are_refused(recipe: FeatureRecipe):
    saved = recipe.to_dict()
    with pytest.raises(ArtifactError, match="schema 99"):
        FeatureRecipe.from_dict(saved | {"schema": 99})
    with pytest.raises(ArtifactError, match="damaged: KeyError 'levels'"):
        FeatureRecipe.from_dict({name: part for name, part in saved.items() if name != "levels"})
    with pytest.raises(ArtifactError, match="warp_drive"):
        FeatureRecipe.from_dict(
            saved | {"columns": [{"name": "warp_drive", "unit": "1", "role": "shape"}]}
        )


def test_unseen_names_what_is_unlike_training(recipe: FeatureRecipe):
    assert recipe.unseen(rows()).of_rows() == [()] * 40
    new = rows(4)
    new.loc[0, "k"] = 2048.0
    new.loc[1, "kernel"] = "triton"
    new["family"] = ["", "", "blockscale", ""]
    constant, kernel, family, same = recipe.unseen(new).of_rows()
    assert remark("was-constant", feature="log2.k", trained=10.0, value=11.0) in constant
    near = recipe.unseen(rows(1, k=1025.0)).of_rows()[0]  # a tenth of a percent more
    assert "log2.k" in [one.values["feature"] for one in near if one.code == "was-constant"]
    assert kernel == (
        remark("unseen-level", category="host_kernel", level="triton", known=("asm", "ck")),
    )
    assert family == (
        remark("unseen-level", category="family", level="blockscale", known=("none",)),
    )
    assert same == ()


def test_the_search_of_the_hosts_kernel_is_a_feature_whose_new_levels_are_nothing_unusual():
    names = np.where(np.arange(40) % 3, "first", "second")
    found = paired(rows(campaign=names, tuned=True)).assign(host_campaign=names)
    recipe = learn_matrix(found, HOST, TARGET)[0]
    assert recipe.levels["host_campaign"] == ("first", "second")
    assert recipe.transform(found)["host_campaign=first"].tolist() == (names == "first").tolist()
    new = rows(campaign="third", tuned=True)
    assert (
        recipe.transform(new)[["host_campaign=first", "host_campaign=second"]].to_numpy().sum() == 0
    )
    assert recipe.unseen(new).of_rows() == [()] * 40
    assert learn_matrix(found.assign(tuned=False), HOST, TARGET)[0].levels["host_campaign"] == (
        "none",
    )


def test_what_the_host_ran_is_nothing_unusual_where_no_training_row_says_it():
    recipe = learn_matrix(paired(rows(kernel="")), HOST, TARGET)[0]
    assert recipe.levels["host_kernel"] == ("none",)
    assert recipe.unseen(rows()).of_rows() == [()] * 40


def test_three_ways_to_be_unlike_are_named_and_the_others_counted(recipe: FeatureRecipe):
    new = rows(1, kernel="triton").assign(k=2048.0, family="blockscale", layout="TT")
    (ways,) = recipe.unseen(new).of_rows()
    assert len(ways) == 4
    assert ways[3].code == "further-reasons"
    assert dict(ways[3].items)["count"] >= 1


def test_what_was_never_trained_is_told_from_what_is_unlike_training(recipe: FeatureRecipe):
    assert recipe.never_trained(rows()).of_rows() == [()] * 40
    known = ("bf16", "fp32")
    new = pd.concat(
        [rows(1), rows(1, dtype_a="fp8"), rows(1, family="blockscale")], ignore_index=True
    ).fillna("")
    assert recipe.never_trained(new).of_rows() == [
        (),
        (remark("never-trained", category="dtype", level="fp8", known=known),),
        (),
    ]
    # no training row says what its layout was
    assert recipe.never_trained(rows(1, layout="NCHW")).of_rows() == [()]
    stated = learn_matrix(paired(rows(layout="NCHW")), HOST, TARGET)[0]
    found = [
        stated.never_trained(rows(1, layout=layout)).of_rows() for layout in ("NCHW", "NHWC", "")
    ]
    assert [bool(why) for (why,) in found] == [False, True, False]


def test_words_that_a_row_does_not_state_are_not_held_against_it() -> None:
    trained = rows(family="blockscale", scale_block="1x128", kernel="ck_16x16")
    recipe = learn_matrix(paired(trained), HOST, TARGET)[0]
    bare = trained.head(3).drop(columns=["family", "kernel"])
    assert recipe.unseen(bare).of_rows() == [()] * 3
    scales = recipe.unseen(bare.assign(scale_block="")).of_rows()[0]
    assert scales == (
        remark("unseen-level", category="scale_block", level="none", known=("1x128",)),
    )


def test_features_of_the_name_of_a_kernel_are_unknown_where_there_is_none() -> None:
    draw = np.random.default_rng(1)
    sizes = draw.choice([64, 128, 256], (40, 2))
    names = [f"Cijk_Ailk_Bljk_SB_MT{m}x{n}x32_MI16x16x4x1_SN" for m, n in sizes]
    trained = rows(kernel=names)
    recipe, matrix = learn_matrix(paired(trained), HOST, TARGET)
    domain = TrainedRange.of(matrix)
    bare = trained.head(2).assign(kernel=["", names[1]])
    unknown = recipe.unknown(bare)
    assert set(unknown) == {"log2.macro_tile_0.host", "log2.macro_tile_1.host"}
    assert all(rows_of.tolist() == [True, False] for rows_of in unknown.values())
    assert recipe.unseen(bare).of_rows() == [()] * 2
    X = recipe.transform(bare)
    assert domain.check(X).extrapolated.tolist() == [True, False]
    assert domain.check(X, unknown).extrapolated.tolist() == [False, False]


def test_unseen_notices_that_columns_are_no_longer_proportional():
    square = {
        "op": "conv",
        "direction": "F",
        "dtype_a": "bf16",
        "batch": 1,
        "in_channels": 8,
        "out_channels": 8,
    }
    square |= {"fil_h": 1, "fil_w": 1}
    sides = ("in_h", "in_w", "out_h", "out_w")
    frame = pd.DataFrame([square | dict.fromkeys(sides, side) for side in (7, 14, 28)]).assign(
        batch=[1, 8, 2]
    )
    recipe = learn_matrix(frame, None, TARGET)[0]
    assert recipe.redundant["log2.in_w"][0] == "log2.in_h"
    assert recipe.unseen(frame).of_rows() == [()] * 3
    ways = recipe.unseen(frame.assign(in_w=9, out_w=9)).of_rows()[0]
    assert remark("was-proportional", feature="log2.in_w", factor=1.0, to="log2.in_h") in ways


def test_rare_kernels_share_a_level_and_new_ones_join_it():
    many = rows(300)
    # the last have 1 %, which is enough
    many.loc[:4, "kernel"] = ["rare", "odd", "some", "some", "some"]
    recipe = learn_matrix(paired(many), HOST, TARGET)[0]
    assert recipe.levels["host_kernel"] == ("asm", "ck", "some", "other")
    assert recipe.transform(many)["host_kernel=other"].sum() == 2
    new = rows(1, kernel="never seen")
    assert recipe.transform(new)["host_kernel=other"].tolist() == [1]
    assert recipe.unseen(new).of_rows() == [()]


def test_missing_dimensions_are_named(recipe: FeatureRecipe):
    with pytest.raises(DataError, match="gemm rows need"):
        recipe.transform(rows().drop(columns=["m", "n"]))
    sides = ("in_channels", "in_h", "in_w", "out_channels", "out_h", "out_w", "fil_h", "fil_w")
    conv = {"op": "conv", "direction": "F", "dtype_a": "bf16"}
    convolutions = learn_matrix(
        pd.DataFrame(conv | {"batch": [1, 2]} | dict.fromkeys(sides, 4)), None, TARGET
    )[0]
    with pytest.raises(DataError, match=r"in_channels.*out_channels"):
        convolutions.transform(pd.DataFrame([conv]))


def test_times_of_the_host_are_needed_and_only_of_the_host(recipe: FeatureRecipe):
    with pytest.raises(DataError, match="rows of slow, 40"):
        recipe.transform(rows(device="fast"))
    with pytest.raises(DataError, match="duration_us"):
        recipe.transform(rows().drop(columns="duration_us"))
    broken = rows()
    broken.loc[3, "duration_us"] = np.nan
    with pytest.raises(DataError, match=r"host_duration_us.*40.*t.csv:5"):
        recipe.transform(broken)


def test_a_precision_without_peak_is_an_error_for_new_rows_and_a_note_in_training(
    recipe: FeatureRecipe,
):
    with pytest.raises(NotPublishedError, match="fp8"):
        recipe.transform(rows(dtype_a="fp8"))
    secret = GPU(name="secret", cus=8, memory_bw_gbs=500.0)
    without = learn_matrix(paired(rows()), secret, TARGET)[0]
    assert "_matrix" in without.skipped["compute.host_us"]
    assert "secret" in without.skipped["compute.host_us"]
    assert "compute.target_us" in without.columns
    assert "memory.target_us" in without.columns


def test_rows_without_host_have_gaps_exactly_where_its_measurement_is_needed(recipe: FeatureRecipe):
    matrix = recipe.without_host(rows().drop(columns=["duration_us", "kernel"]))
    missing = set(matrix.columns[matrix.isna().all()])
    measured = {
        "host_us",
        "law.flops_us",
        "law.roofline_us",
        "log2.host_us",
        "he.host",
        "bandwidth_efficiency.host",
    }
    measured |= {"log2.slowdown.host", "host_kernel=asm", "host_kernel=ck"}
    assert missing == measured & set(recipe.columns)
    assert np.isfinite(matrix.drop(columns=sorted(missing)).to_numpy()).all()
    pd.testing.assert_frame_equal(
        matrix.drop(columns=sorted(missing)), recipe.transform(rows()).drop(columns=sorted(missing))
    )


def test_description_has_a_formula_for_every_column(recipe: FeatureRecipe):
    described = recipe.describe()
    assert described["name"].tolist() == list(recipe.columns)
    assert (described["formula"] != "").all()
    assert described.set_index("name").loc["host_kernel=ck", "unit"] == "0/1"


def test_kinds_are_known_by_every_category_but_the_hosts(recipe: FeatureRecipe):
    alone = rows(3).drop(columns=["duration_us", "kernel"])
    alone["dtype_a"] = ["bf16", "fp8", "fp32"]
    assert recipe.knows(alone).tolist() == [True, False, True]


def test_a_kind_that_joins_the_rare_ones_is_known():
    families = paired(rows(300, family=["rare", *["usual"] * 299]))
    recipe = learn_matrix(families, HOST, TARGET)[0]
    assert recipe.levels["family"] == ("usual", "other")
    assert recipe.knows(rows(2, family="new")).tolist() == [True, True]


def test_counters_of_the_host_enter_where_every_row_has_them():
    frame = rows().assign(
        **{"counter.waves": np.arange(40.0), "counter.hits": [np.nan] + [2.0] * 39}
    )
    pairs = paired(frame).rename(
        columns=lambda name: f"host_{name}" if name.startswith("counter.") else name
    )
    recipe = learn_matrix(pairs, HOST, TARGET)[0]
    assert recipe.roles["counter.waves"] == "additive"
    assert re.findall(r"\d+", recipe.skipped["counter.hits"]) == ["1", "40"]
    assert recipe.transform(frame)["counter.waves"].tolist() == list(range(40))
    assert FeatureRecipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe
    with pytest.raises(DataError, match=r"counter\.waves"):
        recipe.transform(rows())


def test_counters_of_the_run_itself_serve_where_there_is_no_host():
    frame = rows().assign(
        **{"counter.waves": np.arange(40.0), "counter.GRBM_GUI_ACTIVE": np.arange(40.0) ** 2}
    )
    recipe = learn_matrix(frame, None, TARGET)[0]
    assert recipe.transform(frame)["counter.waves"].tolist() == list(range(40))
    assert "counter.GRBM_GUI_ACTIVE" not in recipe.columns
    assert "counter.GRBM_GUI_ACTIVE" in recipe.skipped
