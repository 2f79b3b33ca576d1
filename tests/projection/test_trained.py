from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.api.training import train
from flopcast.errors import DataError
from flopcast.evaluation.trained_model import TrainedModel
from flopcast.features.recipe import FeatureRecipe
from flopcast.hardware import find
from flopcast.projection.kernel_laws import compute_factors, predicted_factors
from flopcast.remarks import remark
from flopcast.tests.projection.oracles.activities import (
    HOST,
    TARGET,
    activities,
    gemm,
    kernel,
    relu,
)


def host_us(m: float, n: float, k: float) -> float:
    return 2.0 + 2 * m * n * k / (0.5 * 1000 * 1e6)


def measured(folder: Path) -> Path:
    """Write products of matrices that take three times as long on the target."""
    cells = [(2**i, n, k) for i in range(6, 13) for n in (512, 1024, 4096) for k in (1024, 2048)]
    table = pd.DataFrame(cells, columns=["m", "n", "k"]).assign(
        op="gemm", dtype_a="bf16", layout="NN", kernel="k"
    )
    times = np.array([host_us(*cell) for cell in cells])
    both = [
        table.assign(device=HOST.name, duration_us=times),
        table.assign(device=TARGET.name, duration_us=3 * times),
    ]
    pd.concat(both).to_csv(folder / "measured.csv", index=False)
    return folder / "measured.csv"


def toml(folder: Path, gpu: object, name: str) -> str:
    peaks = "\n".join(f"{key} = {value}" for key, value in gpu.peaks.items())  # type: ignore[attr-defined]
    figures = {key: getattr(gpu, key) for key in ("cus", "boost_mhz", "memory_bw_gbs", "pcie_gen")}
    lines = [
        f'name = "{name}"',
        f'vendor = "{gpu.vendor}"',
        *(f"{k} = {v}" for k, v in figures.items()),
    ]  # type: ignore[attr-defined]
    path = folder / f"{name}.toml"
    path.write_text("\n".join([*lines, "[peak_tflops]", peaks, ""]), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> TrainedModel:
    folder = tmp_path_factory.mktemp("run")
    host, target = toml(folder, HOST, HOST.name), toml(folder, TARGET, TARGET.name)
    train([measured(folder)], host=host, target=target, models=("Additive",), jobs=1).save(
        folder / "run"
    )
    return TrainedModel.load(folder / "run")


def test_the_ratio_of_a_call_is_put_on_all_its_activities(run: TrainedModel) -> None:
    size, time = (2048, 1024, 2048), host_us(2048, 1024, 2048)
    split = [
        gemm(*size, us=share * time, op_id=4, start_ns=start)
        for share, start in ((0.9, 10**9), (0.1, 2 * 10**9))
    ]
    table = activities(
        *split, gemm(*size, us=time), gemm(256, 512, 1024, us=host_us(256, 512, 1024))
    )
    found = predicted_factors(table, HOST, TARGET, run)
    assert found["why"].tolist() == [()] * 4
    assert found["factor"].tolist() == pytest.approx([3.0] * 4, rel=0.1)
    assert found["factor"][0] == found["factor"][1] == pytest.approx(found["factor"][2])
    assert (found["sigma"] < 0.2).all()


def test_what_the_model_does_not_know_has_a_reason_and_a_law(run: TrainedModel) -> None:
    table = activities(
        gemm(10**5, 4096, 1024, us=900), relu(64, 64), kernel(), gemm(512, 512, 1024, us=0)
    )
    found = predicted_factors(table, HOST, TARGET, run)
    assert found["factor"].isna().all()
    (large,), (relus,), (unlinked,), (timeless,) = found["why"]
    assert [one.code for one in (large, relus, unlinked, timeless)] == ["unlike-training"] * 2 + [
        "row-refused"
    ] * 2
    assert "above-trained-range" in [reason.code for reason in large.values["reasons"]]
    assert "never-trained" in [reason.code for reason in relus.values["reasons"]]
    assert unlinked.values["reason"] == "launch-not-recorded"
    assert timeless.values["reason"] == "zero-duration"
    whole = compute_factors(table, HOST, TARGET, "roofline", run=run)
    law = compute_factors(table, HOST, TARGET, "roofline")
    assert whole["factor"].tolist() == law["factor"].tolist()
    assert whole["law"].tolist() == law["law"].tolist()
    assert whole["why"][0] == (large,)
    assert whole["why"][2] == (remark("model-then-law", model=(unlinked,), law=law["why"][2]),)


def test_kernels_of_an_unknown_operator_are_calls_of_their_own() -> None:
    """Two kernels of one call that no catalogue knows: each has a ratio of its own."""

    class ByKernel:
        recipe = FeatureRecipe(
            columns=(),
            roles={},
            units={},
            levels={},
            constant={},
            redundant={},
            skipped={},
            host=HOST,
            target=TARGET,
        )

        def predict(self, rows: pd.DataFrame, level: float) -> pd.DataFrame:
            predicted = rows["duration_us"] * rows["kernel"].map({"a": 2.0, "b": 3.0})
            limits = {"lower": predicted / 2, "upper": 2 * predicted}
            return pd.DataFrame(
                {
                    "predicted": predicted,
                    **limits,
                    "extrapolated": False,
                    "reasons": [()] * len(rows),
                }
            )

    launches = {"op_name": "mylib::thing", "op_stack": "mylib::thing", "op_id": 5, "block_x": 64}
    table = activities(kernel("a", 50, grid_x=2, **launches), kernel("b", 10, grid_x=3, **launches))
    assert predicted_factors(table, HOST, TARGET, ByKernel())["factor"].tolist() == [2.0, 3.0]


def test_beyond_the_target_of_the_run_the_law_goes_on(run: TrainedModel) -> None:
    table = activities(gemm(2048, 1024, 2048, us=host_us(2048, 1024, 2048)), kernel())
    there = compute_factors(table, HOST, TARGET, "roofline", run=run)
    fast = replace(TARGET, name="Fastchip", peaks={"bf16_matrix": 1000.0}, memory_bw_gbs=2000.0)
    found = compute_factors(table, HOST, fast, "roofline", run=run, trained_for=TARGET)
    assert found["law"].tolist() == ["model", "bandwidth"]
    assert found["factor"].tolist() == pytest.approx([there["factor"][0] / 2, 2.0])
    assert found["why"][0] == (remark("carried-on-by-law", gpu="Halfchip", law="roofline"),)
    with pytest.raises(DataError, match="Roundchip to Halfchip"):
        compute_factors(table, HOST, fast, "roofline", run=run)


def test_a_run_over_many_gpus_stands_for_any_of_them(tmp_path: Path) -> None:
    """With hosts it tells by the time of the call, from shapes alone by what the target takes; of one's own GPU too."""
    parts, cells = [], pd.read_csv(measured(tmp_path)).query("device == @HOST.name")
    luck = np.random.default_rng(0).lognormal(0, 0.5, len(cells))
    for name, slower in (("MI300X", 1.0), ("MI325X", 1.2), ("MI355X", 0.5), ("MI350X", 0.6)):
        parts.append(
            cells.assign(device=name, duration_us=3 * slower * luck * cells["duration_us"])
        )
    call = activities(gemm(2048, 1024, 2048, us=9 * host_us(2048, 1024, 2048)))
    own, factors = replace(find("MI355X"), name="Mine", memory_bw_gbs=16000.0), []
    for place, host in enumerate(("all", None)):
        found = train(
            pd.concat(parts), host=host, target="all", models="BoostedTrees/Residual", jobs=1
        )
        found.save(tmp_path / str(place))
        many = TrainedModel.load(tmp_path / str(place))
        there, mine = (
            predicted_factors(call, find("MI300X"), gpu, many) for gpu in (find("MI355X"), own)
        )
        assert there["why"].tolist() == [()]
        assert mine["factor"].notna().all()
        factors.append(there["factor"][0])
    assert factors[0] == pytest.approx(0.5, rel=0.2)
    assert factors[1] < factors[0]  # shapes alone know nothing of what made this call take so long
    one = replace(many, recipe=replace(many.recipe, host=find("MI325X")))
    with pytest.raises(DataError, match="MI325X to every GPU"):
        predicted_factors(call, find("MI300X"), find("MI355X"), one)


def test_a_run_for_other_devices_is_refused(run: TrainedModel) -> None:
    table = activities(gemm(64, 64, 64))
    with pytest.raises(DataError, match=r"Roundchip.*Halfchip.*Halfchip.*Roundchip"):
        predicted_factors(table, TARGET, HOST, run)
    watts = replace(run, recipe=replace(run.recipe, metric="energy_j"))
    with pytest.raises(DataError, match="predicts energy_j, not duration_us"):
        predicted_factors(table, HOST, TARGET, watts)
    alone = replace(run, recipe=replace(run.recipe, host=None))
    with pytest.raises(DataError, match=r"Halfchip.*Halfchip.*Roundchip"):
        predicted_factors(table, TARGET, HOST, alone)


def test_no_activities_have_no_factors(run: TrainedModel) -> None:
    assert predicted_factors(activities(kernel()).iloc[:0], HOST, TARGET, run).empty
