"""One run over many devices: each row on its own GPU, devices left out, intervals of new ones by how near they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import DataError
from flopcast.features.matrix import KnownGroups, build_dataset, groups_of
from flopcast.hardware import Comparison, find
from flopcast.tests.report.pages import printed

TRAINED = ("MI300X", "MI325X", "MI350X", "MI355X", "H100 SXM5", "H200 SXM", "L40S")
SIBLING, STRANGER = "B300", "A100 80GB SXM4"


def roofline_us(device: str, m: np.ndarray, n: np.ndarray, k: np.ndarray) -> np.ndarray:
    gpu, moved = find(device), 2 * (m * k + n * k + m * n)
    return np.maximum(
        2 * m * n * k / (gpu.peak_tflops("bf16") * 1e6),
        moved / (gpu.require("memory_bw_gbs") * 1e3),
    )


def measured(*devices: str, rows: int = 24, seed: int = 0) -> pd.DataFrame:
    """Return products whose time is a multiple of the roofline that each device and each family has, with noise."""
    random, found = np.random.default_rng(seed), []
    for device in devices:
        gpu = find(device)
        m, n, k = (2.0 ** random.integers(low, 14, rows) for low in (4, 8, 8))
        roofline = roofline_us(device, m, n, k)
        own = np.random.default_rng(sum(map(ord, device))).normal(0, 0.05)
        of_family = np.random.default_rng(sum(map(ord, gpu.family))).normal(0.6, 0.3)
        time = (3 + roofline) * np.exp(own + of_family + random.normal(0, 0.03, rows))
        sizes = {"m": m, "n": n, "k": k, "duration_us": time}
        found.append(pd.DataFrame({"op": "gemm", "dtype_a": "bf16", "device": gpu.name, **sizes}))
    return pd.concat(found, ignore_index=True)


@pytest.fixture(scope="module")
def run() -> fc.Run:
    return fc.train(
        measured(*TRAINED), target=list(TRAINED), group="device", models="Additive", jobs=1
    )


def test_a_run_says_how_many_rows_its_models_learn_from_where_these_are_not_all(
    run: fc.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for where in ("models.suite", "evaluation.final_model"):
        monkeypatch.setattr(f"flopcast.{where}.LEARNT", 40)
    few = fc.train(
        measured(*TRAINED), target=list(TRAINED), group="device", models="Additive", jobs=1
    )
    assert [
        note
        for note in few.metrics["data"]["notes"]
        if "rows-drawn" in note and "Additive from 40" in note
    ]
    assert not any("rows-drawn" in note for note in run.metrics["data"]["notes"])
    assert len(few.predictions) == len(run.predictions)
    assert few.selected["e_out"] != run.selected["e_out"]
    held, whole = (one.metrics["intervals"]["schemes"]["grouped"] for one in (few, run))
    assert (held["rows"], whole["rows"] > 40, held["rows_beyond"]) == (
        40,
        True,
        whole["rows_beyond"],
    )


def test_features_are_those_of_each_row_on_its_own_device() -> None:
    table = fc.read(measured("MI300X", "H100 SXM5", rows=10)).frame
    whole = build_dataset(table, host=None, target=Comparison.MANY)
    for device in ("MI300X", "H100 SXM5"):
        here = (whole.rows["device"] == device).to_numpy()
        alone = build_dataset(table, host=None, target=find(device))
        own = alone.recipe.transform(whole.rows[here])
        pd.testing.assert_frame_equal(whole.X[here].reset_index(drop=True)[list(own)], own)
        assert whole.laws["roofline"][here].tolist() == alone.laws["roofline"].tolist()
        assert whole.reference[here].tolist() == alone.reference.tolist()
        assert whole.rows["bound"][here].tolist() == alone.rows["bound"].tolist()


def test_rows_without_figures_of_their_gpu_are_left_out_and_named() -> None:
    table = fc.read(
        pd.concat([measured("MI300X", rows=5), measured("MI300X", rows=3).assign(device="Foo 9")])
    ).frame
    found = build_dataset(table, host=None, target=Comparison.MANY)
    assert set(found.rows["device"]) == {"MI300X"}
    assert [(note.values["devices"], note.values["rows"]) for note in found.report["remarks"]] == [
        (("Foo 9",), 3)
    ]
    with pytest.raises(DataError, match=r"Foo 9 \(3 rows\)"):
        build_dataset(table[table["device"] == "Foo 9"], host=None, target=Comparison.MANY)


def test_devices_and_families_are_groups() -> None:
    table = fc.read(measured("MI300X", "MI325X", "L40S", rows=2)).frame
    assert set(groups_of(table, ["device_family"])) == {
        "device_family CDNA3 HBM",
        "device_family Ada GDDR",
    }
    assert len(set(groups_of(table, ["device"]))) == 3


def test_nearness_is_by_family() -> None:
    known = KnownGroups(("device",), {}, frozenset({"MI300X", "L40S"}))
    rows = pd.DataFrame({"device": ["MI300X", "MI325X", "B300", "RTX 4090", "Arc Pro B60"]})
    assert known.nearness(rows).tolist() == ["", "sibling", "stranger", "sibling", "foreign"]
    assert KnownGroups(None, {}).nearness(rows).tolist() == [""] * 5


def test_a_gpu_of_another_maker_has_no_interval_and_the_reason(run: fc.Run) -> None:
    found = run.predict(measured("Arc Pro B60", rows=3))
    assert found["predicted_us"].notna().all()
    assert found["lower_us"].isna().all()
    assert found["reason"].str.contains("no device of this maker was trained").all()


def test_each_device_is_left_out_by_itself(run: fc.Run) -> None:
    grouped = run.predictions.query("scheme == 'grouped' and model == 'Additive'")
    assert grouped.groupby("group", observed=True)["fold"].nunique().eq(1).all()
    assert grouped["fold"].nunique() == len(TRAINED)


def test_new_devices_have_the_intervals_of_devices_left_out(run: fc.Run, tmp_path: Path) -> None:
    """A sibling errs by its own factor, a stranger by its family's: the interval of each holds nine rows of ten."""
    new = measured("MI300A", "RTX 4090", "B200", "A100 80GB SXM4", rows=60, seed=1)
    found = run.predict(new)
    assert found["basis"].isin(["new device", "blend", "rule"]).all()
    inside = (
        (found["lower_us"] <= new["duration_us"]) & (new["duration_us"] <= found["upper_us"])
    ).to_numpy()
    near = new["device"].isin(["MI300A", "RTX 4090"]).to_numpy()
    width = np.log(found["upper_us"] / found["lower_us"]).to_numpy()
    assert np.median(width[near]) < np.median(width[~near])
    assert inside[near].mean() > 0.7
    assert inside[~near].mean() > 0.7
    run.save(tmp_path / "run")
    pd.testing.assert_frame_equal(fc.load(tmp_path / "run").predict(new), found)
    known = run.predict(measured("MI300X", rows=20, seed=2))
    assert "new device" not in set(known["basis"])
    assert known["lower_us"].notna().all()


def test_a_gpu_of_a_trained_family_is_of_a_known_group() -> None:
    """Its rows have the intervals of shuffled rows, and not those of whole families left out."""
    families = fc.train(
        measured(*TRAINED), target="all", group="device_family", models="Additive", jobs=1
    )
    assert "known group" in set(families.predict(measured("MI300X", rows=20, seed=2))["basis"])


def test_without_devices_left_out_a_new_device_has_no_interval_and_the_reason() -> None:
    run = fc.train(
        measured("MI300X", "H100 SXM5", rows=60), target="all", models="Additive", jobs=1
    )
    found = run.predict(measured("L40S", rows=3))
    assert found["predicted_us"].notna().all()
    assert found["lower_us"].isna().all()
    assert found["reason"].str.contains("group=device").all()
    unknown = run.predict(measured("MI300X", rows=2).assign(device=["MI300X", "Foo 9"]))
    assert unknown["predicted_us"].notna().tolist() == [True, False]
    assert "Foo 9" in unknown["reason"].iloc[1]
    with pytest.raises(
        DataError,
        match=r"no GPU 'A100' is known: say which of 'A100 40GB PCIe', .* 'A100 80GB SXM4'",
    ):
        run.predict(measured("MI300X", rows=2).assign(device="A100"))


def test_a_gpu_of_ones_own_is_asked_of_a_run_over_many(run: fc.Run, tmp_path: Path) -> None:
    """Its figures are those that the file says, and its intervals those of a new device, near or far by its family."""
    own, far, shapes = (
        tmp_path / "own.toml",
        tmp_path / "far.toml",
        measured("B300", rows=12).drop(columns="device"),
    )
    own.write_text(
        'name = "H100 SXM5"\nbased_on = "H100 SXM5"\nmemory_bw_gbs = 6700\n', encoding="utf-8"
    )
    far.write_text('based_on = "B300"\n', encoding="utf-8")
    run.save(tmp_path / "run")
    found = fc.predict(tmp_path / "run", shapes, default={"device": str(own)})
    assert found.frame["target"].unique().tolist() == [str(own)]
    assert found.frame["basis"].isin(["new device", "blend", "rule"]).all()
    assert not any("catalogue" in note for note in found.summary["notes"])
    base = run.predict(shapes, default={"device": "H100 SXM5"})
    assert (found.frame["predicted_us"] < base["predicted_us"]).any()
    assert (found.frame["roofline"] <= base["roofline"]).all()
    like = run.predict(shapes, default={"device": far})
    figures = like.select_dtypes("number").columns
    pd.testing.assert_frame_equal(
        like[figures], run.predict(shapes, default={"device": "B300"})[figures]
    )
    width = [np.log(one["upper_us"] / one["lower_us"]).median() for one in (found.frame, like)]
    assert width[0] < width[1]

    mixed = measured("L40S", rows=12).assign(
        device=["L40S", str(own)] * 6, **{n: shapes[n] for n in "mnk"}
    )
    both = run.predict(mixed, default={"device": own})
    assert (
        both["predicted_us"].iloc[1::2].tolist() == found.frame["predicted_us"].iloc[1::2].tolist()
    )
    assert both["basis"].iloc[::2].isin(["known group", "beyond", "blend", "rule"]).all()
    unstated = run.predict(mixed)
    assert unstated["predicted_us"].notna().tolist() == [True, False] * 6
    assert "state it as the default of device" in unstated["reason"].iloc[1]
    assert fc.explain(run, shapes, row=2, default={"device": fc.gpu(own)}).found.answer[
        "predicted"
    ] == pytest.approx(found.frame["predicted_us"].iloc[1])
    with pytest.raises(DataError, match=r"none\.toml: cannot be read"):
        run.predict(shapes, default={"device": str(tmp_path / "none.toml")})


def test_what_to_measure_next_is_said_of_the_gpu_that_each_row_names(run: fc.Run) -> None:
    found = fc.advise(run, measured("MI300X", "B300", rows=6), rows=3)
    assert set(found.batch["group"]) <= {"device MI300X", "device B300"}  # as it was trained
    assert (found.batch["known"] == found.batch["device"].isin(TRAINED)).all()
    assert found.batch["predicted"].gt(0).all()
    told = " ".join(printed(found.document()).split())
    assert "rows to measure on the GPU that each names, of 12 candidates" in told
    with pytest.raises(DataError, match="the row names no device"):
        fc.advise(run, measured("B300", rows=6).drop(columns="device"), rows=3)
    assert "more (advise)" in repr(fc.needed(run, 0.001, measured("B300", rows=6)).told)
