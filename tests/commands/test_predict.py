"""Predictions from a run folder: order, the host's rows only, what is unlike training; the command."""

from __future__ import annotations

import json
import runpy
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.api.predicting import predict
from flopcast.errors import DataError
from flopcast.evaluation.extrapolation import fixed_widening
from flopcast.evaluation.trained_model import TrainedModel
from flopcast.hardware import find
from flopcast.models import OLS
from flopcast.models.baselines import AdditiveTime
from flopcast.readers import read
from flopcast.table.refusals import reason_of, row_refused
from flopcast.tests.commands.predicted_runs import (
    HEADER,
    HOST,
    ROOT,
    TARGET,
    csv,
    invoke,
    law,
    measured,
    save_run,
    shapes,
)


def refused(reason: str, detail: str) -> str:
    return row_refused(reason, detail).text


def never_trained(category: str, level: str, *known: str) -> str:
    return f"{category} {level} was never trained ({', '.join(known)}): the model cannot predict it"


def test_columns_of_other_names_are_predicted_as_ours(run: Path, tmp_path: Path) -> None:
    data = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9")
    ours = predict(run, [data]).frame
    data.write_text(data.read_text().replace("m,n,k", "rows of A,n,k"), encoding="utf-8")
    result = invoke(run, data, "--rename", "rows of A=m", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["rows"][0]["predicted_us"] == pytest.approx(
        ours["predicted_us"][0]
    )


def test_one_row_per_input_row_in_order_refused_ones_included(run: Path, tmp_path: Path) -> None:
    other = tmp_path / "more.csv"
    other.write_text(f"{HEADER}\nlabchip,gemm,bf16,64,1024,1024,2.3\n", encoding="utf-8")
    good = "LabChip,gemm,bf16,512,1024,2048,9"
    data = csv(
        tmp_path, good, "LabChip,gemm,bf16,64,1024,2048,0", good, "LabChip,gemm,bf16,x,1024,2048,9",
        "LabChip,gemm,bf16,1,2,3,4,5", "", "LabChip,gemm,bf16,64,4096,1024,5", ",gemm,bf16,64,4096,1024,5",
    )  # fmt: skip
    frame = predict(run, [data, other]).frame
    lines = [2, 3, 4, 5, 6, 8, 9]
    assert frame["source"].tolist() == [*(f"queries.csv:{line}" for line in lines), "more.csv:2"]
    assert frame["predicted_us"].isna().tolist() == [
        False,
        True,
        False,
        True,
        True,
        False,
        True,
        False,
    ]
    assert frame["reason"].tolist() == [
        "",
        refused("zero-duration", "0.0"),
        "",
        refused("dimension-not-a-number", "m = x"),
        refused("line-unlike-header", "LabChip,gemm,bf16,1,2,3,4,5"),
        "",
        refused("no-device", "give default device=NAME"),
        "",
    ]
    assert frame.loc[0, "predicted_us"] == frame.loc[2, "predicted_us"]
    assert frame["device"].iloc[-1] == "LabChip"
    assert not frame["extrapolated"].any()
    assert predict(run, [other, data]).frame["source"].iloc[0] == "more.csv:2"


def test_predictions_are_the_estimators_and_the_columns_are_as_documented(
    run: Path, tmp_path: Path
) -> None:
    data = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9", "LabChip,gemm,bf16,64,4096,1024,5")
    found = predict(run, [data]).frame
    model = TrainedModel.load(run)
    rows = read([data]).frame
    np.testing.assert_array_equal(
        found["predicted_us"], model.saved.predict(model.recipe.transform(rows))
    )
    assert found.columns.tolist() == [
        "op", "dtype_a", "m", "n", "k", "batch", "predicted_us", "lower_us", "upper_us", "basis",
        "dtype_b", "dtype_out", "device", "campaign", "source", "duration_us", "target", "metric", "level",
        "extrapolated", "reason", "FLOPS scaling", "bandwidth scaling", "roofline scaling", "tiles scaling",
        "constant ratio", "affine",
    ]  # fmt: skip
    assert found[["m", "n", "k", "batch"]].to_numpy().tolist() == [
        [512, 1024, 2048, 1],
        [64, 4096, 1024, 1],
    ]
    assert (found["lower_us"] < found["predicted_us"]).all()
    assert (found["predicted_us"] < found["upper_us"]).all()
    np.testing.assert_allclose(found["FLOPS scaling"], [4.5, 2.5])
    np.testing.assert_allclose(found["bandwidth scaling"], [9 * 5 / 8, 5 * 5 / 8])
    np.testing.assert_allclose(found["constant ratio"], [4.5, 2.5])
    np.testing.assert_allclose(found["affine"], [6.6, 5.0])


def test_only_rows_of_the_host_are_read_and_the_others_counted(run: Path, tmp_path: Path) -> None:
    size = "gemm,bf16,512,1024,2048"
    data = csv(
        tmp_path, f"MI375X,{size},5", f"LabChip,{size},9", f"MI210,{size},50", f"MI375X,{size},5"
    )
    found = predict(run, [data])
    assert found.frame["source"].tolist() == ["queries.csv:3"]
    assert found.summary["other_devices"] == {"MI375X": 2, "MI210": 1}
    without = csv(tmp_path, f"MI375X,{size},5", f"MI210,{size},50")
    with pytest.raises(DataError, match=r"LabChip.*MI375X.*MI210"):
        predict(run, [without])


def test_a_precision_that_was_never_trained_is_not_predicted_and_costs_no_other_row(
    run: Path, tmp_path: Path
) -> None:
    data = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9", "LabChip,gemm,fp16,512,1024,2048,9")
    found = predict(run, [data])
    assert found.frame[["predicted_us", "lower_us", "upper_us"]].isna().all(axis=1).tolist() == [
        False,
        True,
    ]
    assert not found.frame["extrapolated"].any()
    model, rows = TrainedModel.load(run), read([data]).frame
    assert [[one.code for one in why] for why in model.predict(rows, 0.9)["reasons"]] == [
        [],
        ["never-trained"],
    ]
    assert (found.summary["predicted"], sum(found.summary["not_predicted"].values())) == (1, 1)
    code, text, error = invoke(run, data, "--where", "dtype_a=fp16")
    assert (code, text, error.count("\n")) == (2, "", 1)


def test_a_precision_without_published_peak_is_not_predicted_and_costs_no_other_row(
    run: Path, tmp_path: Path
) -> None:
    data = csv(tmp_path, "LabChip,gemm,fp8,512,1024,2048,9", "LabChip,gemm,bf16,512,1024,2048,9")
    found = predict(run, [data])
    assert found.frame["predicted_us"].isna().tolist() == [True, False]
    assert "fp8" in found.frame["reason"][0]
    assert found.frame["FLOPS scaling"].isna().tolist() == [True, False]
    assert found.summary["predicted"] == 1
    with pytest.raises(DataError, match=r"queries.csv:2.*fp8"):
        predict(run, [data], where={"dtype_a": ["fp8"]})


def test_the_law_answers_where_nothing_was_trained_and_is_marked(run: Path, tmp_path: Path) -> None:
    data = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9", "LabChip,gemm,fp16,512,1024,2048,9")
    found = predict(run, [data], fallback="law")
    assert found.frame["basis"].tolist() == ["model", "law"]
    assert found.frame["extrapolated"].tolist() == [False, True]
    assert found.frame["reason"][1] == never_trained("dtype", "fp16", "bf16")
    width = np.log(found.frame["upper_us"] / found.frame["lower_us"])
    assert found.frame["lower_us"][1] < 0.5 * 9 < found.frame["upper_us"][1]
    assert width[1] > width[0]
    assert found.summary["basis"] == {"model": 1, "law": 1}
    assert predict(run, [data]).frame["basis"].tolist() == ["model", ""]
    code, _, error = invoke(run, data, "--fallback", "guess")
    assert (code, error.count("--fallback")) == (2, 1)


def test_ten_times_the_trained_work_is_flagged_wider_and_near_the_law(
    run: Path, tmp_path: Path
) -> None:
    size = (40960, 4096, 8192)
    data = csv(
        tmp_path, *(f"LabChip,gemm,bf16,{m},4096,8192,{law(m, 4096, 8192, HOST)}" for m in (4096, 40960)),
    )  # fmt: skip
    found = predict(run, [data])
    frame = found.frame
    assert frame["extrapolated"].tolist() == [False, True]
    assert "10x beyond" in frame["reason"][1]
    assert repr(fixed_widening()) in found.summary["notes"]
    inside = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9")
    assert repr(fixed_widening()) not in predict(run, [inside]).summary["notes"]
    assert frame["predicted_us"][1] == pytest.approx(law(*size, TARGET), rel=0.3)
    width = np.log(frame["upper_us"] / frame["lower_us"])
    assert width[1] > 1.9 * width[0]


def test_columns_are_found_by_name_and_missing_ones_are_named(run: Path, tmp_path: Path) -> None:
    straight = predict(run, [csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9")]).frame
    turned = csv(
        tmp_path, "9,2048,1024,512,bf16,gemm,LabChip", header=",".join(reversed(HEADER.split(",")))
    )
    pd.testing.assert_frame_equal(predict(run, [turned]).frame, straight)
    short = csv(
        tmp_path, "LabChip,gemm,bf16,512,1024,9", header="device,op,dtype_a,m,n,duration_us"
    )
    with pytest.raises(DataError, match=r"used \(missing-dimension: 1\); first"):
        predict(run, [short])
    untimed = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048", header="device,op,dtype_a,m,n,k")
    with pytest.raises(DataError, match="duration"):
        predict(run, [untimed])


def test_units_values_and_conditions_are_passed_on(run: Path, tmp_path: Path) -> None:
    data = csv(
        tmp_path, "gemm,16,1024,1024,0.009", "gemm,512,1024,2048,0.009", header="op,m,n,k,time"
    )
    found = predict(
        run,
        [data],
        unit={"time": "ms"},
        default={"device": "LabChip", "dtype_a": "bf16"},
        where={"m": ["512"]},
    )
    assert found.frame[["m", "duration_us"]].to_numpy().tolist() == [[512, 9.0]]
    assert found.frame["dtype_a"].tolist() == ["bf16"]


def test_intervals_follow_the_level(run: Path, tmp_path: Path) -> None:
    data = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9")
    narrow, wide = (predict(run, [data], interval=level).frame for level in (0.5, 0.95))
    assert wide["lower_us"][0] < narrow["lower_us"][0] < narrow["upper_us"][0] < wide["upper_us"][0]
    for level in (0.0, 1.0, 90, float("nan")):
        with pytest.raises(DataError, match=r"interval.*0.005.*0.995.*0.9.*90"):
            predict(run, [data], interval=level)


def test_slower_kernels_of_a_problem_are_flagged(run: Path, tmp_path: Path) -> None:
    size = "LabChip,gemm,bf16,512,1024,2048"
    data = csv(
        tmp_path, f"{size},9,fast", f"{size},12,slow", f"{size},9.5,fast", header=f"{HEADER},kernel"
    )
    frame = predict(run, [data]).frame
    reasons = frame["reason"].str.contains("faster on LabChip", regex=False)
    assert reasons.tolist() == [False, True, False]
    assert frame["extrapolated"][1]


def test_without_a_host_shapes_are_enough(alone: Path, tmp_path: Path) -> None:
    data = csv(tmp_path, "gemm,bf16,512,1024,2048", "gemm,bf16,0,1,1", header="op,dtype_a,m,n,k")
    found = predict(alone, [data])
    frame = found.frame
    assert frame["predicted_us"][0] == pytest.approx(law(512, 1024, 2048, TARGET), rel=0.05)
    assert frame["reason"].tolist() == ["", refused("dimension-not-positive", "m = 0")]
    assert frame.columns[-4:].tolist() == ["roofline", "tiles", "constant ratio", "affine"]
    roofline = 2 * 512 * 1024 * 2048 / 2e9
    np.testing.assert_allclose(frame["roofline"][0], roofline)
    np.testing.assert_allclose(frame["affine"][0], 3 + 0.4 * roofline)
    assert found.summary["host"] is None
    assert "duration_us" not in frame
    assert "device" not in frame


def test_a_number_format_that_was_only_assumed_is_called_so_where_nothing_is_predicted(
    alone: Path, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="fp32 assumed"):
        predict(alone, [csv(tmp_path, "gemm,512,1024,2048", header="op,m,n,k")])


def test_without_a_host_times_and_devices_of_the_rows_do_not_matter(
    alone: Path, tmp_path: Path
) -> None:
    size = "gemm,bf16,512,1024,2048"
    data = csv(tmp_path, f"MI210,{size},50", f"MI375X,{size},-1", f",{size},")
    found = predict(alone, [data])
    assert len(set(found.frame["predicted_us"].tolist())) == 1
    assert found.frame["predicted_us"].notna().all()
    assert any(
        note.startswith("[other-devices] 1 row of another device")
        for note in found.summary["notes"]
    )


def test_another_metric_must_be_there(tmp_path: Path) -> None:
    data = measured(tmp_path, HOST, TARGET, energy_j=shapes()["m"] ** 1.1 * 1e-3)
    run = save_run(
        tmp_path / "run", data, HOST, TARGET, AdditiveTime(["host_energy_j"]), metric="energy_j"
    )
    queries = csv(
        tmp_path, "LabChip,gemm,bf16,512,1024,2048,9,0.5", "LabChip,gemm,bf16,512,1024,2048,9,",
        header=f"{HEADER},energy_j",
    )  # fmt: skip
    frame = predict(run, [queries]).frame
    assert frame["reason"].tolist() == ["", "no positive energy_j"]
    assert frame["predicted_j"][0] == pytest.approx(0.5, rel=0.1)
    laws = [f"TDP x {law} scaling" for law in ("FLOPS", "bandwidth", "roofline", "tiles")]
    assert frame.columns[-7:].tolist() == ["reason", *laws, "constant ratio", "affine"]
    np.testing.assert_allclose(frame["constant ratio"][0], 0.25)
    with pytest.raises(DataError, match="energy_j"):
        predict(run, [csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9")])


class Below:
    """Fits a line, and lowers it by a second."""

    def fit(self, X: pd.DataFrame, y: np.ndarray) -> OLS:
        line = OLS().fit(X, y)
        line.intercept_ -= 1e6
        return line


def test_a_prediction_that_is_not_positive_has_no_interval(tmp_path: Path) -> None:
    run = save_run(tmp_path / "run", measured(tmp_path, HOST, TARGET), HOST, TARGET, Below())
    frame = predict(run, [csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9")]).frame
    assert (frame["predicted_us"] < 0).all()
    assert frame["upper_us"].isna().all()
    assert frame["reason"].tolist() == ["the prediction is not positive: no interval"]


def test_what_no_row_states_but_training_always_had_is_a_remark(tmp_path: Path) -> None:
    run = save_run(
        tmp_path / "run", measured(tmp_path, HOST, TARGET, family="a16w16"), HOST, TARGET
    )
    data = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9")
    found = predict(run, [data])
    assert not found.frame["extrapolated"].any()  # what is not stated is unknown, not unlike
    assert any("state family=a16w16" in note for note in found.summary["notes"])
    stated = predict(run, [data], default={"family": "a16w16"})
    assert not stated.frame["extrapolated"].any()
    assert not any("family" in note for note in stated.summary["notes"])


def test_operators_that_the_features_cannot_describe_are_not_predicted(tmp_path: Path) -> None:
    table = pd.DataFrame({"batch": [1, 2, 4, 8, 16, 32, 64, 128]}).assign(
        seq_q=128, seq_kv=[128, 256] * 4
    )
    table = table.assign(
        op="attention", dtype_a="bf16", heads=[8, 16, 32, 8] * 2, head_dim=64, device="MI375X"
    )
    table.assign(duration_us=table["batch"] * 2.0 + 1).to_csv(
        tmp_path / "measured.csv", index=False
    )
    run = save_run(tmp_path / "run", tmp_path / "measured.csv", None, TARGET)
    rows = "gemm,bf16,512,1024,2048,,,,,", "attention,bf16,,,,4,8,128,128,64"
    data = csv(tmp_path, *rows, header="op,dtype_a,m,n,k,batch,heads,seq_q,seq_kv,head_dim")
    frame = predict(run, [data]).frame
    assert frame["predicted_us"].isna().tolist() == [True, False]
    assert frame["reason"][0] == never_trained("op", "gemm", "attention")


def test_kernels_whose_work_is_unknown_are_not_predicted_and_cost_no_other_row(
    tmp_path: Path,
) -> None:
    host, target = (
        replace(gpu, peaks={**gpu.peaks, "fp32_vector": 100.0}) for gpu in (HOST, TARGET)
    )
    run = save_run(tmp_path / "run", measured(tmp_path, host, target), host, target)
    rows = "LabChip,gemm,bf16,512,1024,2048,,,9", "LabChip,kernel,,,,,16,256,9"
    data = csv(tmp_path, *rows, header="device,op,dtype,m,n,k,workgroups,threads,us")
    frame = predict(run, [data]).frame
    assert frame["predicted_us"].isna().tolist() == [False, True]
    assert frame["reason"][1] == never_trained("op", "kernel", "gemm")


def test_the_command_prints_a_summary_and_writes(run: Path, tmp_path: Path) -> None:
    data = csv(
        tmp_path, "LabChip,gemm,bf16,512,1024,2048,9", "LabChip,gemm,fp16,512,1024,2048,9", "MI210,gemm,bf16,1,1,1,9",
    )  # fmt: skip
    code, text, _ = invoke(run, data, "--out", tmp_path / "out.csv", "--interval", "0.8")
    assert code == 0
    for shown in ("LabChip → MI375X", "MI210", "fp16", "80 %", "gemm bf16 m=512 n=1024 k=2048"):
        assert shown in text
    assert len(pd.read_csv(tmp_path / "out.csv")) == 2


def test_the_command_prints_json(run: Path, tmp_path: Path) -> None:
    data = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9", "LabChip,gemm,bf16,512,1024,2048,0")
    code, text, _ = invoke(run, data, "--json", "--out", tmp_path / "out.json")
    told = json.loads(text)
    assert (code, told["host"], told["target"], told["n"], told["predicted"]) == (
        0,
        "LabChip",
        "MI375X",
        2,
        1,
    )
    assert told["not_predicted"] == {reason_of("zero-duration"): 1}
    assert [row["predicted_us"] is None for row in told["rows"]] == [False, True]
    assert (tmp_path / "out.json").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{data}", "{data}"], "`train` wrote"),
        (["{run}", "missing.csv"], "missing.csv"),
        (["{run}", "{data}", "--where", "m=3"], "no row has m=3"),
        (["{run}", "{data}", "--interval", "95"], "--interval must lie between"),
        (["{run}", "{data}", "--unit", "time"], "--unit must be COLUMN=VALUE"),
    ],
)
def test_what_the_user_got_wrong_is_one_line(
    run: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    data = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9")
    code, text, error = invoke(*(word.format(run=run, data=data) for word in arguments))
    assert (code, text) == (2, "")
    assert all(word in error for word in message.split())
    assert error.count("\n") == 1


def test_data_are_needed(run: Path) -> None:
    assert invoke(run)[0] == 2
    with pytest.raises(DataError, match="data is missing"):
        predict(run, [])


def test_the_script_runs(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = csv(tmp_path, "LabChip,gemm,bf16,512,1024,2048,9")
    monkeypatch.setattr(sys, "argv", ["predict.py", str(run), str(data), "--json"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "predict.py"), run_name="__main__")
    printed = capsys.readouterr()
    assert (ended.value.code, json.loads(printed.out)["predicted"], printed.err) == (0, 1, "")


def test_devices_of_the_catalogue_are_known_by_any_name(tmp_path: Path) -> None:
    host, target = find("MI300X"), find("MI355X")
    run = save_run(tmp_path / "run", measured(tmp_path, host, target), host, target)
    data = csv(tmp_path, "AMD Instinct MI300X VF,gemm,bf16,512,1024,2048,9")
    assert predict(run, [data]).frame["device"].tolist() == ["MI300X"]
