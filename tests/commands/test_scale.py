"""Scaling over size from the command line: tables, stated values, devices, published results, configurations."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.api.scaling import scale, scale_devices
from flopcast.errors import DataError
from flopcast.measuring.rows import shapes
from flopcast.output import FILES
from flopcast.readers import Measurements
from flopcast.report.scaling import trial_table
from flopcast.scaling import trials
from flopcast.scaling.curves import published_curves
from flopcast.tests.commands import running

run = partial(running.call, "scale")
ROOT = Path(__file__).parents[2]
SIZES = np.array([8, 16, 32, 64, 128])


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five benchmarks that follow power laws, with simulation times; the last reaches 16 only."""
    parts = [
        pd.DataFrame(
            {
                "benchmark": name,
                "size": SIZES,
                "ipc": 10 * SIZES**power,
                "simulation_time_s": SIZES * 10.0,
            }
        )
        for name, power in {"a": 1.0, "b": 0.95, "c": 0.9, "d": 0.85, "e": 0.8}.items()
    ]
    path = tmp_path_factory.mktemp("sizes") / "sizes.csv"
    pd.concat([*parts[:4], parts[4].head(2)]).assign(unit="SM").to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def two_devices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Softmax and GELU on two GPUs of one architecture, which scale with their units but for a launch."""
    rows = pd.DataFrame([shape for shape in shapes() if shape["op"] in ("softmax", "gelu")])
    moved = rows["rows"] * rows["cols"]
    parts = [
        rows.assign(device=name, duration_us=3 + moved / cus)
        for name, cus in (("MI308X", 80), ("MI300X", 304))
    ]
    path = tmp_path_factory.mktemp("devices") / "devices.csv"
    pd.concat(parts).to_csv(path, index=False)
    return path


@pytest.mark.no_cover
def test_a_table_is_predicted(measured: Path, golden: Callable[[str, str], None]) -> None:
    asked = (
        "predict",
        measured,
        "--fit",
        "8,16",
        "--sizes",
        "128",
        "--law",
        "proportional",
        "--all",
    )
    code, text, error = run(*asked)
    assert (code, error) == (0, "")
    golden("scale.txt", text)


def test_json_holds_every_law_for_every_benchmark(measured: Path) -> None:
    code, text, _ = run(
        "predict", measured, "--fit", "8,16", "--sizes", "64,128", "--json", "--interval", "0.8"
    )
    found = json.loads(text)
    assert (code, found["level"], found["fit"], found["targets"]) == (0, 0.8, [8, 16], [64, 128])
    assert [one["benchmark"] for one in found["benchmarks"]] == list("abcde")
    power = {one["law"]: one for one in found["laws"] if one["target"] == 128}["power law"]
    assert (power["benchmarks"], power["maximum"]) == (4, pytest.approx(0, abs=1e-6))
    assert found["benchmarks"][0]["simulation"][1]["speedup"] == pytest.approx(1280 / 240)


def test_without_a_target_every_measured_size_beyond_is_predicted(measured: Path) -> None:
    assert scale(measured, [8, 16]).targets == (32, 64, 128)
    with pytest.raises(DataError, match="beyond 128"):
        scale(measured, [64, 128], where={"benchmark": ["a"]})


def test_laws_and_benchmarks_can_be_chosen(measured: Path) -> None:
    names = scale(measured, [8, 16], [128], law=["proportional"], where={"benchmark": ["a"]})
    assert names.names == ["proportional"]
    assert [one.curve.benchmark for one in names.benchmarks] == ["a"]


def test_values_can_be_stated_one_by_one() -> None:
    code, text, _ = run(
        "predict",
        "--fit",
        "8,16",
        "--performance",
        "100,200",
        "--sizes",
        "64",
        "--law",
        "proportional",
        "--json",
    )
    (prediction,) = json.loads(text)["benchmarks"][0]["predictions"]
    assert (code, prediction["predicted"], prediction["measured"]) == (0, pytest.approx(800), None)


@pytest.mark.no_cover
def test_the_folder_holds_json_and_page(measured: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs" / "scaling"
    asked = ("predict", measured, "--fit", "8,16", "--sizes", "128", "--law", "proportional")
    code, text, _ = run(*asked, "--out", out)
    assert code == 0
    assert f"Wrote {out / FILES['scale'][0]}" in text.replace("\n", "")
    assert sorted(path.name for path in out.iterdir()) == sorted(FILES["scale"])
    printed = run(*asked, "--json")[1]
    assert (out / "scale.json").read_text() == printed
    assert "Measured and predicted" in (out / "scale.html").read_text()


def test_a_folder_with_other_files_is_refused_before_the_work(measured: Path) -> None:
    code, _, error = run("predict", "no-such-file.csv", "--fit", "8,16", "--out", measured.parent)
    assert code == 2
    assert "sizes.csv" in error


@pytest.mark.no_cover
def test_measured_devices_need_no_command_either(two_devices: Path, tmp_path: Path) -> None:
    devices = "MI300X,MI308X"
    code, text, _ = run(
        "devices",
        two_devices,
        "--devices",
        devices,
        "--where",
        "op=softmax",
        "-o",
        tmp_path / "out",
    )
    assert code == 0
    for words in (
        "MI308X (80), MI300X (304)",
        "softmax fp32",
        "CU scaling",
        "two sizes give an exponent",
    ):
        assert words in text
    found = json.loads((tmp_path / "out" / "scale.json").read_text())
    assert found["sizes"] == [80, 304]
    assert {one["op"] for one in found["families"]} == {"softmax"}


def test_results_have_plain_tables_and_figures(measured: Path) -> None:
    found = scale(pd.read_csv(measured), [8, 16], [128], law=["linear", "power law"])
    assert found.table.columns.tolist()[:4] == ["benchmark", "scenario", "law", "size"]
    assert found.table["error_percent"].notna().sum() == 8
    assert set(found.errors["law"]) == {"linear", "power law"}
    assert len(found.plot_benchmarks().data) == 5 * 4
    assert repr(found) == "<Scaling of 5 benchmarks to 128 by 2 laws>"
    assert "power law" in found._repr_html_()


def test_devices_as_a_function(two_devices: Path) -> None:
    result = scale_devices(
        two_devices, devices=["MI300X", "MI308X"], where={"op": ["gelu"]}, replicates=100
    )
    assert [device.name for device in result.measured.devices] == ["MI308X", "MI300X"]
    assert len(result.measured.rows) == 40
    assert result.table[["op", "problems"]].to_numpy().tolist() == [["gelu", 20], ["gelu", 20]]
    assert result.plot_families().data
    assert result.plot_problems().data


@pytest.mark.long
def test_tuned_kernels_of_two_mi300_are_too_few_to_judge(aiter_data: Measurements) -> None:
    result = scale_devices(aiter_data, devices=["MI308X", "MI300X"])
    assert result.measured.sizes.tolist() == [80, 304]
    assert {one.name for one in result.families} == {"moe fmoe bf16", "gemm a8w8_bpreshuffle int8"}
    assert {"figure-out-of-proportion", "two-sizes-only"} <= {one.code for one in result.limits}


def test_scale_models_are_listed() -> None:
    code, text, _ = run("configs", "MI300X", "--sizes", "38,76,304")
    assert code == 0
    assert all(words in text for words in ("MI300X", "38 CUs", "76 CUs", "304 CUs"))
    found = json.loads(run("configs", "mi300x", "--by", "chiplets", "--sizes", "1,8", "--json")[1])
    assert [one["cus"] for one in found["gpus"]] == [38, 304]


def test_the_published_results_are_reproduced_and_every_figure_is_drawn(tmp_path: Path) -> None:
    code, text, _ = run("facts", "--out", str(tmp_path / "facts"))
    assert (code, "Wrote" in text) == (0, True)
    lines = [line.split() for line in text.splitlines()]
    assert [
        "strong",
        "proportional",
        "8",
        "16",
        "128",
        "21.93",
        "22.00",
        "113.62",
        "113.00",
    ] in lines
    assert [
        "strong",
        "scale",
        "model",
        "(program)",
        "8",
        "16",
        "128",
        "4.06",
        "4.00",
        "17.02",
        "17.00",
    ] in lines
    page = (tmp_path / "facts" / "scale.html").read_text(encoding="utf-8")
    assert page.count('<div class="plot"') == 12
    assert all(
        f"strong, size {size} from {fit}" in page
        for size in (64, 128)
        for fit in ("8 and 16", "16 and 32")
    )
    assert len(json.loads((tmp_path / "facts" / "scale.json").read_text())["published"]) == 36


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict", "FILE"], "--fit"),
        (["predict", "FILE", "--fit", "8"], "--fit 8"),
        (["predict", "FILE", "--fit", "16,8"], "--fit 16, 8"),
        (["predict", "FILE", "--fit", "8;16"], "--fit '8;16'"),
        (["predict", "FILE", "--fit", "8,16", "--sizes", "inf"], "--sizes 'inf'"),
        (["predict", "FILE", "--fit", "8,16", "--law", "quadratic"], "--law 'quadratic'"),
        (["predict", "FILE", "--fit", "8,16", "--where", "benchmark=z"], "benchmark=z"),
        (["predict", "FILE", "--fit", "8,16", "--where", "colour=red"], "'colour'"),
        (
            ["predict", "FILE", "--fit", "8,16", "--scenario", "medium"],
            "--scenario strong, weak, chiplets",
        ),
        (
            ["predict", "FILE", "--fit", "8,16", "--mpki", "1,2"],
            "--mpki",
        ),
        (["predict", "FILE", "--fit", "8,16", "--interval", "90"], "--interval 90"),
        (["predict", "nothing.csv", "--fit", "8,16"], "nothing.csv"),
        (["predict", "--fit", "8,16"], "--performance"),
        (["predict", "--fit", "8,16", "--performance", "1,-2", "--sizes", "64"], "performance -2"),
        (["predict", "--fit", "8,16", "--performance", "1", "--sizes", "64"], "2 sizes, 1"),
        (
            ["predict", "--fit", "8,16", "--performance", "1,2", "--sizes", "64", "--mpki", "1"],
            "--mpki",
        ),
        (["predict", "--fit", "8,16", "--performance", "1,2"], "--sizes 16"),
        (["devices", "--devices", "MI300X", "FILE"], "--devices"),
        (["devices", "FILE"], "--devices"),
        (["devices", "FILE", "--devices", "MI300X,"], "--devices 'MI300X,'"),
        (["predict", "FILE", "--fit", "8,16", "--law", ""], "--law ''"),
        (["configs", "MI300Y"], "'MI300Y'"),
        (["configs", "MI300X", "--sizes", "8,8"], "sizes 8, 8"),
        (["configs", "MI300X", "--sizes", "8.5"], "--sizes '8.5'"),
    ],
)
def test_what_the_user_got_wrong_is_one_line(
    measured: Path, arguments: list[str], message: str
) -> None:
    code, text, error = run(
        *(str(measured) if argument == "FILE" else argument for argument in arguments)
    )
    assert (code, text) == (2, "")
    assert all(word in error for word in message.split())
    assert error.count("\n") == 1


def test_the_help_names_every_command() -> None:
    code, text, _ = run("--help")
    assert code == 0
    for name in ("predict", "devices", "facts", "configs"):
        assert name in text


def test_the_papers_method_comes_first_among_the_laws() -> None:
    laws = ["linear", "scale model (program)"]
    found = trials.summary(trials.trial(published_curves(), "weak", 128, laws))
    shown = [row.cells[1] for row in trial_table(found).rows]
    assert shown == ["scale model (program)", "linear"]
