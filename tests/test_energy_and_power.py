"""Energy and power from end to end, on measurements made up from known laws: train, predict, validate."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.api import predicting, training, validating
from flopcast.errors import DataError
from flopcast.evaluation.verdicts import Outcome
from flopcast.hardware import find
from flopcast.remarks import Remark
from flopcast.report.run_folder import reference
from flopcast.report.training import counts
from flopcast.report.training import metric as label
from flopcast.tests.commands.running import call

HOST, TARGET = find("MI300X"), find("MI355X")
DEVICES = {"host": "MI300X", "target": "MI355X"}
QUICK = ["Additive"]
TDP_RATIO = TARGET.require("tdp_w") / HOST.require("tdp_w")
FLOPS_RATIO = HOST.peak_tflops("bf16") / TARGET.peak_tflops("bf16")
LAWS = {
    "energy_j": [
        "TDP x FLOPS scaling",
        "TDP x bandwidth scaling",
        "TDP x roofline scaling",
        "TDP x tiles scaling",
    ],
    "power_w": ["TDP scaling"],
}
RATIO = {"energy_j": TDP_RATIO * FLOPS_RATIO, "power_w": TDP_RATIO}


def measured(noise: float = 0.02) -> pd.DataFrame:
    """Return compute-bound GEMMs of 12 weight shapes: time by FLOPS scaling, power a share of the TDP by its depth."""
    rng = np.random.default_rng(0)
    cells = [
        (m, n, k)
        for n in (2048, 3072, 4096, 8192)
        for k in (2048, 4096, 8192)
        for m in (1024, 2048, 4096, 8192)
    ]
    shapes = pd.DataFrame(cells, columns=["m", "n", "k"]).assign(op="gemm", dtype_a="bf16")
    load = 0.5 + 0.1 * np.log2(shapes["k"] / 2048)
    tables = []
    for gpu in (HOST, TARGET):
        time_us = 2.0 * shapes[["m", "n", "k"]].prod(axis=1) / (0.5 * gpu.peak_tflops("bf16") * 1e6)
        power_w = load * gpu.require("tdp_w") * np.exp(noise * rng.normal(size=len(shapes)))
        energy_mj = power_w * time_us * 1e-3
        tables.append(
            shapes.assign(
                device=gpu.name, duration_us=time_us, power_w=power_w, energy_mj=energy_mj
            )
        )
    return pd.concat(tables, ignore_index=True)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("energy") / "gemm.csv"
    measured().to_csv(path, index=False)
    return path


Train = Callable[..., tuple[training.Run, Path]]


@pytest.fixture(scope="module")
def train(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Train:
    """Return a function that trains for a metric and devices, once for all tests, and saves the run."""

    @cache
    def trained(metric: str, **devices: str) -> tuple[training.Run, Path]:
        found = training.train([data], **devices, metric=metric, models=QUICK, jobs=1)
        folder = tmp_path_factory.mktemp("run") / "run"
        found.save(folder)
        return found, folder

    return trained


def baselines(trained: training.Run, scheme: int = -1) -> dict[str, Any]:
    return {row["name"]: row for row in trained.metrics["cv"][scheme]["baselines"]}


@pytest.mark.long
@pytest.mark.parametrize("metric", LAWS)
def test_train_predict_and_validate_from_host_to_target(
    metric: str, data: Path, train: Train, tmp_path: Path
) -> None:
    trained, folder = train(metric, **DEVICES)
    rows = baselines(trained)
    assert list(rows) == [*LAWS[metric], "constant ratio", "affine"]
    # the law is the truth but for noise of 2 % on both sides
    assert rows[LAWS[metric][0]]["e_out"] < 4
    assert trained.metrics["data"]["n"] == 48
    assert (
        label(trained.metrics["data"]) == {"energy_j": "energy, J", "power_w": "power, W"}[metric]
    )
    assert reference(trained.metrics["cv"][0])["name"] == LAWS[metric][0]
    assert f"host_{metric}" in trained.dataset.X
    assert LAWS[metric][0] in (folder / "report.html").read_text(encoding="utf-8")

    found = predicting.predict(folder, [data])
    frame = found.frame
    assert len(frame) == 48
    assert frame[LAWS[metric][0]].to_numpy() == pytest.approx(
        RATIO[metric] * frame[metric].to_numpy()
    )
    unit = metric.rpartition("_")[2]
    assert (frame[f"predicted_{unit}"] / frame[LAWS[metric][0]]).to_numpy() == pytest.approx(
        1, abs=0.15
    )
    assert (
        np.diff(frame[[f"lower_{unit}", f"predicted_{unit}", f"upper_{unit}"]], axis=1) > 0
    ).all()
    assert found.summary["metric"] == metric

    result = validating.validate([data], **DEVICES, metric=metric, replicates=200)
    law = result.classes[0].law(LAWS[metric][0])
    assert law.verdict.outcome is Outcome.HOLDS
    assert law.ratio == pytest.approx(RATIO[metric])
    assert law.evidence is not None
    assert (law.evidence.slope is None) == (metric == "power_w")
    # of the time, whatever the metric
    assert result.classes[0].efficiency.host_flops == pytest.approx(0.5)
    result.save(tmp_path / "validation")
    page = (tmp_path / "validation" / "validation.html").read_text(encoding="utf-8")
    symbol = {"energy_j": "E", "power_w": "P"}[metric]
    assert f"median: of {symbol}_target / {symbol}_law" in page
    assert f"{symbol} by {LAWS[metric][0]}" in page
    told = json.loads((tmp_path / "validation" / "validation.json").read_text(encoding="utf-8"))
    fitted = {tuple(one["parameters"]) for one in told["classes"][0]["out_of_sample"]}
    assert fitted == {(), ("ratio",), (f"a_{metric[-1]}", "b")}


@pytest.mark.long
def test_one_device(data: Path, train: Train) -> None:
    trained, folder = train("power_w", target="MI355X")
    rows = baselines(trained)
    assert list(rows) == ["TDP", "constant ratio", "affine"]
    assert rows["TDP"]["error"] is None
    assert trained.model.fitted_baselines["reference"] == "constant"
    frame = predicting.predict(folder, [data], where={"device": ["MI355X"]}).frame
    assert frame["TDP"].to_numpy() == pytest.approx(np.full(len(frame), TARGET.require("tdp_w")))
    assert (frame[["predicted_w", "constant ratio", "affine"]] > 0).all(axis=None)


@pytest.mark.long
def test_power_does_not_grow_beyond_the_trained_sizes(train: Train, tmp_path: Path) -> None:
    for devices in (DEVICES, {"target": "MI355X"}):
        huge = measured()
        huge["duration_us"] *= 2**20 / huge["m"]
        huge["m"] = 2**20
        huge[huge["device"] == devices.get("host", "MI355X")].to_csv(
            tmp_path / "huge.csv", index=False
        )
        frame = predicting.predict(train("power_w", **devices)[1], [tmp_path / "huge.csv"]).frame
        assert frame["extrapolated"].all()
        assert frame["predicted_w"].max() < 1.2 * TARGET.require("tdp_w")


@pytest.mark.long
def test_without_the_board_power_the_laws_say_so_and_models_go_on(
    data: Path, tmp_path: Path
) -> None:
    table = pd.read_csv(data)
    table.replace({"device": {"MI355X": "Secret"}}).to_csv(tmp_path / "s.csv", index=False)
    (tmp_path / "Secret.toml").write_text(
        "cus = 256\nmemory_bw_gbs = 8000\npeak_tflops.bf16_matrix = 2000\n"
    )
    devices = {"host": "MI300X", "target": str(tmp_path / "Secret.toml")}
    trained = training.train(
        [tmp_path / "s.csv"], **devices, metric="power_w", models=QUICK, jobs=1
    )
    why = baselines(trained)["TDP scaling"]["error"]
    assert {"tdp_w", "Secret"} <= set(why.split())
    assert baselines(trained)["constant ratio"]["error"] is None
    found = predicting.predict(trained, [tmp_path / "s.csv"])
    assert found.frame["TDP scaling"].isna().all()
    assert found.frame["predicted_w"].notna().all()
    assert f"[law-lacks] no TDP scaling where {why}" in found.summary["notes"]
    result = call("validate", tmp_path / "s.csv", "--metric", "energy_j", *flags(devices))
    assert result.exit_code == 2
    assert (result.stderr.count(why), result.stderr.count("\n")) == (4, 1)


def flags(devices: dict[str, str]) -> list[str]:
    return [word for name, value in devices.items() for word in (f"--{name}", value)]


@pytest.mark.long
def test_rows_without_the_metric_are_counted_by_reason(tmp_path: Path) -> None:
    table = measured().astype({"energy_mj": object})
    table.loc[[0, 1], "energy_mj"] = ["", ""]  # of the host
    table.loc[[50, 51, 52], "energy_mj"] = ["N/A", -1.0, 0.0]  # of the target
    table.to_csv(tmp_path / "mixed.csv", index=False)
    trained = training.train(
        [tmp_path / "mixed.csv"], **DEVICES, metric="energy_j", models=QUICK, jobs=1
    )
    told = trained.metrics["data"]
    assert (told["n"], told["without_metric"]) == (43, 5)
    assert "5" in dict(counts(told)).values()
    frame = predicting.predict(trained, [tmp_path / "mixed.csv"]).frame
    assert frame["reason"].tolist()[:2] == ["no positive energy_j"] * 2
    assert frame["predicted_j"].isna().tolist() == [True, True] + [False] * 46
    judged = validating.validate(
        [tmp_path / "mixed.csv"], **DEVICES, metric="energy_j", replicates=50
    )
    assert judged.rejected == {"no energy_j": 5}
    assert "impossible-energy" in [note.code for note in judged.notes if isinstance(note, Remark)]


def test_a_file_without_the_metric_is_refused_in_one_line(
    data: Path, train: Train, tmp_path: Path
) -> None:
    pd.read_csv(data).drop(columns="power_w").to_csv(tmp_path / "t.csv", index=False)
    for command in ("train", "validate"):
        result = call(command, tmp_path / "t.csv", *flags(DEVICES), "--metric", "power_w")
        assert result.exit_code == 2
        (error,) = (line for line in result.stderr.splitlines() if line.startswith("error:"))
        assert "MI300X has power_w" in error
    with pytest.raises(DataError, match="no positive power_w"):
        predicting.predict(train("power_w", **DEVICES)[1], [tmp_path / "t.csv"])


@pytest.mark.long
def test_a_law_that_is_off_is_not_said_to_hold(tmp_path: Path) -> None:
    """Energy with a constant part, as of a board that idles, depends on size; power of a board that idles does not."""
    table = measured(noise=0.01)
    on_target = table["device"].eq("MI355X")
    table["energy_mj"] += np.where(on_target, 0.5 * table["energy_mj"][on_target].median(), 0.0)
    table.loc[on_target, "power_w"] *= 1.3
    table.to_csv(tmp_path / "off.csv", index=False)
    energy = validating.validate(
        [tmp_path / "off.csv"], **DEVICES, metric="energy_j", replicates=200
    )
    assert energy.classes[0].law("TDP x FLOPS scaling").verdict.outcome is Outcome.SIZE
    power = validating.validate([tmp_path / "off.csv"], **DEVICES, metric="power_w", replicates=200)
    assert power.classes[0].law("TDP scaling").verdict.outcome is Outcome.CORRECTED
