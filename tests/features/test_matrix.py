"""Data sets: from measured rows to matrix, observed values, groups and laws."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.features.matrix import build_dataset, groups_of
from flopcast.hardware import GPU, find
from flopcast.readers import Measurements
from flopcast.table.conditions import select

HOST = GPU(
    name="slow", cus=10, peaks={"bf16_matrix": 100.0, "fp32_vector": 10.0}, memory_bw_gbs=1000.0
)
TARGET = GPU(
    name="fast", cus=20, peaks={"bf16_matrix": 400.0, "fp32_vector": 20.0}, memory_bw_gbs=3000.0
)


def table() -> pd.DataFrame:
    """Return 12 GEMMs on both devices, 3 on the target only, a softmax and its energy."""
    problems = [
        {"op": "gemm", "m": m, "n": n, "k": 512.0}
        for n in (256.0, 1024.0, 4096.0)
        for m in (1.0, 64.0, 500.0, 4e3)
    ]
    problems += [{"op": "gemm", "m": 17.0, "n": n, "k": 512.0} for n in (256.0, 1024.0, 4096.0)]
    problems += [{"op": "softmax", "rows": 100.0, "cols": 1000.0}]
    base = {
        "family": "",
        "variant": "",
        "kernel": "",
        "tuned": False,
        "dtype_a": "bf16",
        "scale_block": "",
    }
    base |= {"spread_us": np.nan, "repeats": 1.0, "campaign": "c"}
    records = []
    for index, problem in enumerate(problems):
        for device, factor in (("slow", 4.0), ("fast", 1.0)):
            if device == "fast" or problem.get("m") != 17.0:
                time = {"duration_us": factor * (index + 2), "energy_j": factor * (index + 1) / 100}
                records.append(base | problem | {"device": device} | time)
    return pd.DataFrame(records).assign(source=[f"t.csv:{i + 2}" for i in range(len(records))])


def gemms() -> pd.DataFrame:
    return table().query("op == 'gemm'")


def test_parts_agree_row_by_row():
    data = build_dataset(table(), host=HOST, target=TARGET)
    assert len(data) == 13
    assert len(data.X) == len(data.y) == len(data.groups) == len(data.rows) == len(data.laws) == 13
    assert data.X.index.equals(pd.RangeIndex(13))
    assert np.isfinite(data.X.to_numpy()).all()
    assert data.y.tolist() == data.rows["duration_us"].tolist()
    assert data.X["host_us"].tolist() == data.rows["host_duration_us"].tolist()
    assert data.X["host_us"].tolist() == (4 * data.y).tolist()
    assert data.laws["bandwidth scaling"].tolist() == pytest.approx((4 * data.y / 3).tolist())
    assert set(data.groups) == {"gemm 256x512", "gemm 1024x512", "gemm 4096x512", "softmax 1000"}
    assert data.rows["flops"].iloc[0] == 2 * 256 * 512
    assert set(data.rows["bound"]) <= {"launch", "memory", "compute"}
    pd.testing.assert_frame_equal(data.recipe.transform(data.rows), data.X)
    assert data.recipe.unseen(data.rows).of_rows() == [()] * 13
    json.dumps(data.report)


def test_rows_without_partner_keep_what_is_known():
    data = build_dataset(table(), host=HOST, target=TARGET)
    other = data.unpaired
    assert other is not None
    assert len(other) == 3
    assert other.X.columns.equals(data.X.columns)
    assert other.X["host_us"].isna().all()
    assert np.isfinite(other.X["compute.target_us"]).all()
    assert other.y.tolist() == other.rows["duration_us"].tolist()
    assert other.groups.tolist() == ["gemm 256x512", "gemm 1024x512", "gemm 4096x512"]
    assert other.unpaired is None
    assert data.report["target_only"] == 3


def test_rows_without_partner_of_a_kind_no_pair_has_are_counted_and_left_out():
    frame = table()
    frame = frame[(frame["op"] == "gemm") | (frame["device"] == "fast")]
    data = build_dataset(frame, host=HOST, target=TARGET)
    assert data.unpaired is not None
    assert set(data.unpaired.rows["op"]) == {"gemm"}
    assert data.report["unpaired_unlike_pairs"] == 1
    paired_only = frame[frame["m"] != 17.0]
    assert build_dataset(paired_only, host=HOST, target=TARGET).unpaired is None


def test_one_device_has_no_column_of_a_host():
    data = build_dataset(table(), host=None, target=TARGET)
    assert len(data) == 16
    assert data.host is None
    assert data.unpaired is None
    assert not [name for name in data.X if "host" in name or name.startswith("law.")]
    assert list(data.laws) == ["roofline", "tiles"]
    assert data.laws["roofline"].tolist() == data.X["roofline.target_us"].tolist()
    pd.testing.assert_frame_equal(
        data.recipe.transform(data.rows.drop(columns="duration_us")), data.X
    )


def test_another_metric_is_predicted_from_its_own_value_and_the_time_of_the_host():
    data = build_dataset(table(), host=HOST, target=TARGET, metric="energy_j")
    assert data.y.tolist() == data.rows["energy_j"].tolist()
    assert data.X["host_energy_j"].tolist() == pytest.approx((4 * data.y).tolist())
    assert data.recipe.units["host_energy_j"] == "j"
    assert "host_us" in data.X
    assert data.host_values.tolist() == data.X["host_energy_j"].tolist()
    assert list(data.laws) == [
        "TDP x FLOPS scaling",
        "TDP x bandwidth scaling",
        "TDP x roofline scaling",
        "TDP x tiles scaling",
    ]
    assert data.laws.isna().all(axis=None)
    assert {"tdp_w", "fast"} <= set(data.report["laws"]["TDP x FLOPS scaling"].split())
    host_rows = table().query("device == 'slow'")
    new = data.recipe.transform(host_rows)
    assert new["host_energy_j"].tolist() == host_rows["energy_j"].tolist()
    alone = build_dataset(table(), host=None, target=TARGET, metric="energy_j")
    assert list(alone.laws) == ["TDP x roofline", "TDP x tiles"]
    assert build_dataset(
        table().assign(x_mhz=1.0), host=HOST, target=TARGET, metric="x_mhz"
    ).laws.shape == (13, 0)


def test_rows_without_the_metric_are_left_out_and_counted_by_reason():
    frame = table().astype({"energy_j": object})
    for source, value in (
        ("t.csv:3", 0.0),
        ("t.csv:5", np.nan),
        ("t.csv:7", "N/A"),
        ("t.csv:9", -1.0),
    ):
        frame.loc[frame["source"] == source, "energy_j"] = value
    data = build_dataset(frame, host=HOST, target=TARGET, metric="energy_j")
    assert len(data) == 9
    assert (data.report["without_metric"], data.report["metric_not_positive"]) == (1, 3)
    assert (data.y > 0).all()
    with pytest.raises(DataError, match="power_w"):
        build_dataset(frame, host=HOST, target=TARGET, metric="power_w")
    with pytest.raises(DataError, match=r"energy_j.*16"):
        build_dataset(table().assign(energy_j=-1.0), host=None, target=TARGET, metric="energy_j")


def test_a_device_without_peaks_leaves_the_law_empty_and_says_why():
    secret = GPU(name="slow", cus=10, memory_bw_gbs=1000.0)
    data = build_dataset(gemms(), host=secret, target=TARGET)
    assert data.laws["FLOPS scaling"].isna().all()
    assert data.laws["bandwidth scaling"].notna().all()
    assert "slow" in data.report["laws"]["FLOPS scaling"].split()
    assert "compute.host_us" in data.report["features"]["not_published"]
    assert set(data.rows["bound"]) == {"unknown"}
    assert np.isfinite(data.X.to_numpy()).all()


def test_groups_of_the_user():
    frame = gemms().assign(model=["a", "b"] * 13 + ["a"])
    assert set(groups_of(frame, ["n", "model"])) >= {"n 256 model a", "n 256 model b"}
    assert set(groups_of(frame.assign(group="mine"))) == {"mine"}
    assert set(groups_of(frame.assign(group="mine"), ["n"])) == {"n 256", "n 1024", "n 4096"}
    assert groups_of(frame.assign(group=["mine", *[""] * 26]))[0] == "gemm 256x512"
    with pytest.raises(DataError, match="column layer"):
        groups_of(frame, ["layer"])
    with pytest.raises(DataError, match="group by k"):
        groups_of(table(), ["k"])


def test_the_table_is_not_changed():
    frame = table()
    before = frame.copy()
    build_dataset(frame, host=HOST, target=TARGET)
    pd.testing.assert_frame_equal(frame, before)


def test_ten_thousand_rows_keep_their_order():
    data = build_dataset(table(), host=HOST, target=TARGET)
    rows = pd.concat([table().query("device == 'slow'")] * 770, ignore_index=True).iloc[:10_000]
    matrix = data.recipe.transform(rows)
    assert matrix["host_us"].tolist() == rows["duration_us"].tolist()


@pytest.fixture(scope="module")
def fp8_pairs(aiter_data: Measurements) -> pd.DataFrame:
    return select(aiter_data.frame, {"op": ["gemm"], "family": ["a8w8_blockscale"]})


def test_published_fp8_gemms_give_429_pairs_in_16_weight_shapes(fp8_pairs: pd.DataFrame):
    data = build_dataset(fp8_pairs, host=find("MI300X"), target=find("MI355X"))
    assert len(data) == 429
    assert len(set(data.groups)) == 16
    errors = (data.laws.sub(data.y, axis=0).abs().div(data.y, axis=0)).mean() * 100
    assert errors["FLOPS scaling"] == pytest.approx(30.2, abs=0.1)
    assert errors["bandwidth scaling"] == pytest.approx(14.2, abs=0.1)
    assert errors["roofline scaling"] == pytest.approx(22.5, abs=0.1)
    assert data.unpaired is not None
    assert len(data.unpaired) + 429 == (fp8_pairs["device"] == "MI355X").sum()
