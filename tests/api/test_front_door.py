"""``import flopcast as fc``: what it offers, what it imports, and that data of any kind get in."""

from __future__ import annotations

import inspect
import subprocess
import sys
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import ArtifactError, ParameterError

GEMMS = {"m": (None, 64)}


@pytest.fixture(scope="module")
def measured() -> fc.Measurements:
    return fc.read(where=GEMMS)


@pytest.fixture
def run(ols: fc.Run) -> fc.Run:
    return ols


def test_every_name_is_there() -> None:
    assert {"read", "train", "predict", "Run", "DataError"} <= set(fc.__all__)
    assert set(fc.__all__) <= set(dir(fc))
    for name in fc.__all__:
        assert callable(getattr(fc, name)) or name == "datasets"
    with pytest.raises(AttributeError, match="trian"):
        fc.trian  # type: ignore[attr-defined]  # noqa: B018


def test_the_package_imports_nothing_until_it_is_asked() -> None:
    code = "import sys; import flopcast; print({'numpy', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.no_cover
def test_data_are_files_tables_and_what_was_read(measured: fc.Measurements, tmp_path: Path) -> None:
    table = measured.frame
    table.to_csv(tmp_path / "a.csv", index=False)
    values = table["duration_us"].tolist()
    for data in (str(tmp_path / "a.csv"), tmp_path / "a.csv", tmp_path, table, measured, [table]):
        assert fc.read(data).frame["duration_us"].tolist() == values
    half = len(table) // 2
    mixed = fc.read(table[:half], [fc.read(table[half:])]).frame
    assert sorted(mixed["duration_us"]) == sorted(values)
    assert len(fc.read(measured, where={"m": 64}).frame) == int(table["m"].eq(64).sum()) > 0


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ({"data": [3], "target": "MI300X"}, "data"),
        ({"data": [b"x"], "target": "MI300X"}, "data"),
        ({"host": 3}, "host"),
        ({"where": "gemm"}, "where"),
        ({"where": 5}, "where"),
        ({"models": [1], "where": GEMMS}, "models"),
        ({"group": "", "where": GEMMS}, "group"),
        ({"jobs": 0}, "jobs"),
        ({"budget": "soon"}, "budget"),
        ({"default": "MI300X"}, "default"),
        ({"data": [pd.DataFrame({"m": [1]})], "target": "MI300X", "rename": ["m"]}, "rename"),
        ({"host": "MI300X", "target": ["MI355X", "MI308X"]}, "host"),
    ],
)
def test_a_wrong_type_is_named_by_its_parameter(arguments: dict[str, Any], parameter: str) -> None:
    data = arguments.pop("data", [])
    with pytest.raises(ParameterError) as raised:
        fc.train(*data, **arguments)
    assert raised.value.parameter == parameter


SEVERAL = (
    "advise", "calibrate", "check", "clean", "compare", "counters", "curve", "explain", "fidelity", "ingest", "needed",
    "predict", "project_job", "read", "scale_counters", "scale_devices", "train", "train_each", "validate",
)  # fmt: skip


def test_who_reads_data_takes_several() -> None:
    for name in SEVERAL:
        kinds = [one.kind for one in inspect.signature(getattr(fc, name)).parameters.values()]
        assert inspect.Parameter.VAR_POSITIONAL in kinds, name


def test_several_data_are_one_list(run: fc.Run, measured: fc.Measurements) -> None:
    half = len(measured.frame) // 2
    parts = measured.frame[:half], measured.frame[half:]
    whole = run.predict(measured)["predicted_us"].tolist()
    assert (
        run.predict(*parts)["predicted_us"].tolist()
        == run.predict([*parts])["predicted_us"].tolist()
        == whole
    )
    small: dict[str, Any] = {"host": "MI300X", "target": "MI355X", "models": ["OLS"], "jobs": 1}
    assert fc.train(*parts, **small).metrics["data"]["n"] == run.metrics["data"]["n"]
    found = fc.validate(*parts, host="MI300X", target="MI355X", replicates=10)
    assert len(found.dataset) == run.metrics["data"]["n"]


def test_devices_are_names_files_and_gpus() -> None:
    assert fc.gpu(fc.gpu("mi300x")) == fc.gpu("MI300X")
    assert fc.gpus().loc["MI355X", "memory_gb"] == fc.gpu("MI355X").memory_gb
    assert "tdp_w" in fc.gpus()


@pytest.mark.no_cover
def test_a_run_predicts_the_same_trained_and_loaded(
    run: fc.Run, measured: fc.Measurements, tmp_path: Path
) -> None:
    run.save(tmp_path / "run")
    loaded = fc.load(tmp_path / "run")
    rows = measured.frame.set_index(np.arange(len(measured.frame))[::-1])
    found = run.predict(rows)
    pd.testing.assert_frame_equal(loaded.predict(rows), found)
    pd.testing.assert_frame_equal(fc.predict(tmp_path / "run", rows).frame, found)
    assert {"predicted_us", "lower_us", "upper_us", "extrapolated", "reason"} <= set(found)
    own = rows[rows["device"].eq(run.metrics["data"]["host"])]
    assert found.index.tolist() == own.index.tolist()
    pd.testing.assert_frame_equal(loaded.predictions, run.predictions)
    pd.testing.assert_frame_equal(
        loaded.table.drop(columns="fit_seconds"), run.table.drop(columns="fit_seconds")
    )
    assert loaded.selected["name"] == run.selected["name"]
    assert loaded.report() == run.report()
    assert fc.load(tmp_path / "run").plot_workloads().to_json() == run.plot_workloads().to_json()
    loaded.save(tmp_path / "copy")
    assert fc.load(tmp_path / "copy").metrics == loaded.metrics
    with pytest.raises(ArtifactError, match="training rows"):
        loaded.dataset  # noqa: B018


def test_results_show_themselves_in_notebooks(run: fc.Run, measured: fc.Measurements) -> None:
    prediction = fc.predict(run, measured)
    for result in (run, measured, prediction, fc.gpu("MI300X")):
        assert "<table" in unescape(result._repr_html_())
    assert len(prediction.plot_intervals().data) == 2
    assert run.plot_inliers().data
    assert run.plot_inliers("kfold", families=True).data
    assert run.plot_order().data
    with pytest.raises(ParameterError, match="trees"):
        run.plot_trees()
    assert run.plot_workloads("kfold").data
    with pytest.raises(ParameterError, match=r"scheme.*'best'"):
        run.plot_inliers("best")


def test_the_columns_of_an_operator() -> None:
    table = fc.schema("gemm")
    assert table.index[table["required"]].tolist() == [
        "device",
        "op",
        "dtype_a",
        "duration_us",
        "m",
        "n",
        "k",
    ]
    assert table.loc["batch", "default"] == 1.0
    assert table.loc["duration_us", "unit"] == "µs"
    assert fc.schema("aten::mm").equals(table)
    assert fc.schema().loc["gemm"].equals(table)
    with pytest.raises(fc.DataError, match="did you mean gemm"):
        fc.schema("gem")


@pytest.mark.parametrize(
    ("parameter", "asked"),
    [
        ("others", lambda _: fc.compare()),
        ("others", lambda run: fc.compare(run)),
        ("run", lambda run: fc.show(run, verify=True)),
        ("run", lambda _: fc.show(3)),
        ("kernel_us", lambda _: fc.power_plan("120", 1000)),
        ("window_us", lambda _: fc.power_plan(120, "1000")),
        ("gpus", lambda _: fc.forecast_hpl("MI300X", "eight")),
        ("n", lambda _: fc.forecast_hpl("MI300X", 8, n="large")),
        ("noise", lambda _: fc.forecast_hpl("MI300X", 8, noise="some")),
        ("stream", lambda _: fc.forecast_hpcg("MI300X", 8, stream="fast")),
        ("points", lambda _: fc.forecast_kernel("fft", "MI300X", 8, points="64")),
        ("data", lambda _: fc.scale_counters([])),
        ("data", lambda _: fc.read("")),
        ("data", lambda _: fc.read([])),
        ("data", lambda _: fc.train([])),
        ("data", lambda _: fc.validate([])),
        ("data", lambda _: fc.clean([])),
        ("trace", lambda _: fc.plan("torch", "")),
        ("sizes", lambda _: fc.scale_counters(fc.read(where=GEMMS), sizes=["38"])),
        ("fit", lambda _: fc.scale(fit=8, sizes=[32], performance=[1, 2])),
        ("fit", lambda _: fc.scale(fit=["8", "16"], sizes=[32], performance=[1, 2])),
        ("sizes", lambda _: fc.scale(fit=[8, 16], sizes=[float("nan")], performance=[1, 2])),
        ("log", lambda _: fc.power_profile(None, "executions.csv")),
        (
            "window_us",
            lambda _: fc.power_profile("log.csv", "executions.csv", window_us=float("inf")),
        ),
        ("cap_w", lambda _: fc.power_profile("log.csv", "executions.csv", cap_w=-5)),
        ("sizes", lambda _: fc.scale_configs("MI300X", sizes=[1_000_000])),
        ("sizes", lambda _: fc.scale_configs("MI300X", sizes=[38.5])),
        ("by", lambda _: fc.scale_configs("MI300X", by="xcd")),
        ("interval", lambda run: fc.predict(run, fc.read(where=GEMMS), interval="0.9")),
        ("budget", lambda run: fc.advise(run, fc.read(where=GEMMS), budget="2 bananas")),
        ("seed", lambda _: fc.train(seed=-1)),
        ("seed", lambda _: fc.validate(seed=1.5)),
        ("seed", lambda run: fc.compare(run, run, seed=-1)),
        ("seed", lambda run: fc.check(run, fc.read(where=GEMMS), seed=None)),
    ],
)
def test_what_cannot_be_a_value_is_named_by_its_parameter(
    parameter: str, asked: Any, run: fc.Run
) -> None:
    with pytest.raises(ParameterError) as caught:
        asked(run)
    assert caught.value.parameter == parameter


def test_gpus_are_all_or_those_named() -> None:
    assert fc.gpus("mi300x", "MI355X")["memory_gb"].to_dict() == {"MI300X": 192, "MI355X": 288}
    assert len(fc.gpus()) > 20


def test_a_run_in_memory_is_shown_as_its_folder_is(run: fc.Run, tmp_path: Path) -> None:
    run.save(tmp_path / "run")
    shown = [str(fc.show(of).document().opening) for of in (run, tmp_path / "run")]
    for text in shown:
        assert text.index("known groups") < text.index("new groups")
    assert repr(fc.show(run)).count("flopcast: ") == len(run.metrics["cv"])
    told = [
        [one["selected"] for one in fc.show(of).document().data["cv"]]
        for of in (fc.load(tmp_path / "run"), tmp_path / "run")
    ]
    assert told[0] == told[1]
    names = [one["selected"]["name"] for one in fc.show(run).document().data["cv"]]
    assert names == [one["name"] for one in told[0]]


@pytest.mark.parametrize("interval", [0.004, 0.996])
def test_a_level_of_intervals_has_the_same_limits_everywhere(
    interval: float, run: fc.Run, measured: fc.Measurements
) -> None:
    doors = (
        lambda: fc.config(interval=interval),
        lambda: run.predict(measured, interval=interval),
        lambda: run.explain(measured, interval=interval),
        lambda: run.check(measured, interval=interval),
        lambda: fc.compare(run, run, interval=interval),
        lambda: fc.curve(measured, host="MI300X", target="MI355X", interval=interval),
        lambda: fc.clean("trace.json", interval=interval),
        lambda: fc.forecast("llama-3.1-8b", gpu="MI300X", batch=1, interval=interval),
        lambda: fc.scale(fit=[8, 16], sizes=[32], performance=[1, 2], interval=interval),
    )
    for door in doors:
        with pytest.raises(ParameterError) as caught:
            door()
        assert caught.value.parameter == "interval"


def test_a_run_does_itself_what_functions_do_with_it(run: fc.Run) -> None:
    host = fc.read(where={"m": (None, 64), "device": "MI300X"})
    pd.testing.assert_frame_equal(
        run.advise(host, rows=5).table, fc.advise(run, host, rows=5).table
    )
    assert run.needed(0.2).to_dict() == fc.needed(run, 0.2).to_dict()
