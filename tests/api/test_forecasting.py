"""The front door to forecasts, and its command: grids, tables of cases, folders, lines for what cannot be."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.api.forecasting import calibrate
from flopcast.laws.kernels import Attention, product_law
from flopcast.tests.commands.running import call
from flopcast.workloads.kernel_times import LAUNCH_US
from flopcast.workloads.releases import as_toml

ASKED = {"gpu": "MI300X", "gpus": 8, "dtype": "fp8", "input_len": 512, "output_len": 128}


@pytest.fixture(scope="module")
def grid() -> fc.Forecasts:
    return fc.forecast(
        "llama-3.1-405b",
        **{**ASKED, "gpus": [2, 4, 8], "batch": [1, 8, 64, 4096]},
        price=2.5,
        need=0.2,
    )


def test_a_grid_is_a_table(grid: fc.Forecasts) -> None:
    table = grid.table
    assert table[["gpus", "batch"]].values.tolist() == [
        [g, b] for g in (2, 4, 8) for b in (1, 8, 64, 4096)
    ]
    answered = table[table["fits"]]
    assert (answered["lower"] < answered["predicted"]).all()
    assert answered["cost"].to_numpy() == pytest.approx(
        (answered["predicted"] * answered["gpus"] / 3600 * 2.5).to_numpy()
    )
    assert set(table["sure"]) <= {"reached", "not reached", "unknown"}
    assert table.loc[table["fits"] == False, "reason"].str.contains("tp").any()  # noqa: E712


def test_a_grid_is_drawn_and_saved(grid: fc.Forecasts, tmp_path: Path) -> None:
    grid.save(tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "forecast.csv",
        "forecast.html",
        "forecast.json",
    ]
    stored = json.loads((tmp_path / "out" / "forecast.json").read_text())
    assert [one["predicted"] for one in stored["forecasts"] if one["fits"]] == pytest.approx(
        grid.table["predicted"].dropna().tolist()
    )
    batch, pareto = grid.plot_batch(), grid.plot_pareto()
    assert batch is not None
    assert pareto is not None
    # a line, its band and its throughput for each of two ways of cutting
    assert len(batch.data) == 6
    assert "llama-3.1-405b" in grid._repr_html_()
    assert grid.plot_batch("input_len") is None
    shown = (tmp_path / "out" / "forecast.html").read_text()
    assert shown.count("<template>") == 12
    assert [
        len(json.loads(unescape(text))) for text in re.findall('data-values="([^"]*)"', shown)
    ] == [3, 4]


def test_cases_are_answered_row_by_row(tmp_path: Path) -> None:
    cases = pd.DataFrame(
        [{"model": "llama-3.1-8b", **ASKED, "batch": batch} for batch in (1, 0, 2)]
    )
    path, out = tmp_path / "cases.csv", tmp_path / "answers.csv"
    cases.to_csv(path, index=False)
    result = call("forecast", "cases", path, "--out", out)
    assert result.exit_code == 0, result.output
    answers = pd.read_csv(out)
    assert answers["predicted"].notna().tolist() == [True, False, True]
    assert answers["predicted"].dropna().tolist() == pytest.approx(
        fc.forecast(cases=cases).table["predicted"].dropna()
    )
    assert "batch" in answers["reason"][1]
    result = call("forecast", "cases", path, "--out", tmp_path / "answers.parquet")
    assert pd.read_parquet(tmp_path / "answers.parquet")["predicted"].notna().tolist() == [
        True,
        False,
        True,
    ]


def test_the_command_answers_in_json() -> None:
    line = "forecast llama-3.1-70b --gpu MI300X --gpus 8 --dtype fp8 --batch 1:8 --input-len 128 --output-len 64"
    result = call(*line.split(), "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [one["asked"]["batch"] for one in found["forecasts"]] == ["1", "2", "4", "8"]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("forecast llama-3.1-70b --batch x", "--batch"),
        ("forecast llama-3.1-70b --gpus 8 --release vllm-0.10.0", "--batch"),
        ("forecast llama-3.1-70b --gpus 8 --batch 8:2", "--batch"),
        ("forecast llama-3.1-70b --batch 1 --input-len 1 --output-len 1 --need much", "--need"),
        ("forecast llama-3.1-70b --batch 1 --output-len 1", "--input-len"),
        ("forecast train llama-3.1-70b --gpus 8 --seq-len 128", "--global-batch"),
        ("forecast hpl --gpu MI250X --gpus 0", "--gpus"),
        ("forecast train llama-3.1-70b --tp 3 --global-batch 8 --seq-len 128", "--tp"),
    ],
)
def test_mistakes_are_one_line_that_names_the_option(line: str, named: str) -> None:
    result = call(*line.split())
    assert result.exit_code == 2
    assert all(word in result.stderr for word in named.split())
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "line",
    [
        "train llama-2-7b --gpu MI300X --gpus 8 --global-batch 64 --seq-len 4096",
        "hpcg --gpu MI250X --gpus 9",
        "hpl --gpu MI250X --gpus 9 --product 0.8±0.1",
    ],
)
def test_steps_and_scores(line: str) -> None:
    result = call("forecast", *line.split(), "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["schema"] == 1


# Constants of one's own release.


@pytest.fixture(scope="module")
def measured() -> pd.DataFrame:
    """Return runs that take 1.2 times what vLLM 0.8.5 takes."""
    cases = pd.DataFrame(
        [{"model": "llama-3.1-70b", **ASKED, "batch": batch} for batch in (1, 4, 16, 64)]
    )
    answers = fc.forecast(cases=cases.assign(release="vllm-0.8.5")).table
    return cases.assign(measured=1.2 * answers["predicted"])


def test_own_runs_are_forecast_by_own_constants(measured: pd.DataFrame, tmp_path: Path) -> None:
    runs, out = tmp_path / "runs.csv", tmp_path / "mine.toml"
    measured.to_csv(runs, index=False)
    line = ["calibrate", str(runs), "-o", str(out), "--prior", "vllm-0.8.5", "--json"]
    result = call(*line)
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["runs"] == 64 + 4 - 24  # the prior's runs, and its own
    assert said["half_width"]["now"] < 0.8 * said["half_width"]["before"]
    assert said["error"]["now"] < 0.06 < said["error"]["before"]
    cases = measured.drop(columns="measured").assign(release=str(out))
    again = fc.forecast(cases=cases).table
    assert again["predicted"].to_numpy() == pytest.approx(measured["measured"].to_numpy(), rel=0.06)


def test_a_table_may_have_the_words_of_the_field(measured: pd.DataFrame, tmp_path: Path) -> None:
    words = {"gpu": "device", "input_len": "ISL", "output_len": "osl", "batch": "batch_size"}
    renamed = measured.rename(columns=words)
    renamed.to_csv(tmp_path / "runs.csv", index=False)
    whole = fc.forecast(cases=measured).table
    renamed_table = fc.forecast_cases(tmp_path / "runs.csv").table
    assert renamed_table["predicted"].tolist() == whole["predicted"].tolist()
    assert [*calibrate(renamed, prior="vllm-0.8.5").mean] == [
        *calibrate(measured, prior="vllm-0.8.5").mean
    ]


def test_a_step_and_a_table_have_functions_of_their_own(tmp_path: Path) -> None:
    step = {"gpus": 8, "global_batch": 128, "seq_len": 4096}
    table = fc.forecast_train("llama-3.1-8b", **step).table
    asked = fc.forecast("llama-3.1-8b", kind="training", **step).table
    assert table["predicted"].tolist() == asked["predicted"].tolist()
    line = "forecast train llama-3.1-8b --gpus 8 --global-batch 128 --seq-len 4096 --json"
    (told,) = json.loads(call(*line.split()).stdout)["forecasts"]
    assert told["predicted"] == table["predicted"].tolist()[0]
    with pytest.raises(TypeError, match="unexpected keyword argument 'batch'"):
        fc.forecast_train("llama-3.1-8b", batch=1)  # type: ignore[call-arg]


def test_a_result_is_saved_where_the_function_is_told(
    measured: pd.DataFrame, tmp_path: Path
) -> None:
    made = calibrate(measured, prior="vllm-0.8.5", out=tmp_path / "own.toml")  # type: ignore[call-arg]
    assert (tmp_path / "own.toml").read_text("utf-8") == as_toml(made)
    (tmp_path / "mine.toml").write_text("mine")
    with pytest.raises(fc.DataError, match="give overwrite=True"):
        calibrate(measured, prior="vllm-0.8.5", out=tmp_path / "mine.toml")  # type: ignore[call-arg]
    calibrate(measured, prior="vllm-0.8.5", out=tmp_path / "mine.toml", overwrite=True)  # type: ignore[call-arg]
    assert (tmp_path / "mine.toml").read_text("utf-8") == as_toml(made)


def test_runs_in_several_files_are_those_of_one(measured: pd.DataFrame, tmp_path: Path) -> None:
    whole, first, second = (tmp_path / f"{name}.csv" for name in ("whole", "first", "second"))
    measured.to_csv(whole, index=False)
    # 8 GPUs as well, in another column
    measured[:1].drop(columns="gpus").assign(tp=8).to_csv(first, index=False)
    measured[1:].rename(columns={"measured": "seconds"}).to_csv(second, index=False)
    told = []
    for files in ([whole], [first, second, "--rename", "seconds=measured"]):
        line = [*files, "--prior", "vllm-0.8.5", "-o", tmp_path / "own.toml", "--json"]
        told.append(json.loads(call("calibrate", *line).stdout) | {"source": ""})
    assert told[0] == told[1]
    assert [*calibrate([first, measured[1:]]).mean] == [*calibrate(whole).mean]
    with pytest.raises(fc.ParameterError, match="no table has a column 'time'"):
        calibrate(whole, rename={"time": "measured"})
    with pytest.raises(
        fc.ParameterError, match="all have a column measured or all be runs of serving"
    ):
        calibrate([first, second])
    with pytest.raises(fc.DataError, match="two columns are called 'measured'"):
        calibrate(measured.assign(seconds=1.0), rename={"seconds": "measured"})
    second.write_text(second.read_text().replace("llama-3.1-70b", "no such model"))
    with pytest.raises(fc.DataError, match=r"second\.csv:2"):
        calibrate([first, second], rename={"seconds": "measured"})


def test_answers_are_held_against_what_was_measured(measured: pd.DataFrame, tmp_path: Path) -> None:
    cases = measured.assign(
        measured=[*measured["measured"][:-1], ""], tp=[3, *[8] * (len(measured) - 1)]
    )
    cases.to_csv(tmp_path / "cases.csv", index=False)
    found = fc.forecast(cases=tmp_path / "cases.csv")
    assert found.table["measured"].isna().tolist() == [False] * (len(measured) - 1) + [True]
    held = found.table[:-1].dropna(subset="predicted")
    off = (held["predicted"] / held["measured"] - 1).abs()
    said = call("forecast", "cases", str(tmp_path / "cases.csv")).stdout
    assert f"{len(held)} settings, off by {100 * off.mean():.1f} % on average" in said
    assert "No answer for 1 setting: tp must divide" in said
    with pytest.raises(fc.DataError, match="line 3"):
        fc.forecast(cases=measured.assign(measured=[1.0, -1.0, *measured["measured"][2:]]))


@pytest.mark.parametrize(
    ("change", "named"), [({"measured": 0.0}, "above zero"), ({"tp": 3}, "line 2")]
)
def test_runs_that_cannot_be_are_refused(
    measured: pd.DataFrame, change: dict[str, float], named: str
) -> None:
    with pytest.raises(fc.DataError, match=named):
        calibrate(measured.assign(**change))


@pytest.mark.parametrize(
    ("times", "problem"),
    [
        ([1.0, 1.0, 1000.0, 1.0], r"runs.csv:4: states .* s was forecast: check its unit"),
        ([1e-3] * 4, r"runs.csv:2: states .* s was forecast: check its unit"),
        ([1.0, 1.0, 1.0, 8.0], r"runs.csv:\d: states .* that meet all of these runs best: check"),
    ],
)
def test_runs_in_another_unit_or_unlike_the_others_are_refused(
    measured: pd.DataFrame, times: list[float], problem: str, tmp_path: Path
) -> None:
    runs = tmp_path / "runs.csv"
    measured.assign(measured=measured["measured"] * times).to_csv(runs, index=False)
    with pytest.raises(fc.DataError, match=problem):
        calibrate(runs, prior="vllm-0.8.5")


def test_arrays_are_grids_as_lists_are() -> None:
    asked = {"gpu": "MI300X", "input_len": 8, "output_len": 8}
    found = fc.forecast("llama-3.1-8b", batch=np.array([1, 4]), **asked).table
    pd.testing.assert_frame_equal(found, fc.forecast("llama-3.1-8b", batch=[1, 4], **asked).table)


def test_a_default_is_of_runs_of_serving_alone(measured: pd.DataFrame) -> None:
    with pytest.raises(fc.FlopcastError, match="default"):
        calibrate(measured, default={"device": "MI300X"})


def test_a_file_that_is_no_release_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("[[release]]\nname = 1\n")
    with pytest.raises(fc.DataError, match=r"bad\.toml"):
        fc.forecast(
            "llama-3.1-8b", gpu="MI300X", batch=1, input_len=1, output_len=1, release=str(path)
        )


# Matrix products by a trained run.


@pytest.fixture(scope="module")
def slow_run() -> fc.Run:
    """Return a run that learnt products of 8 MI300X at twice the time of the law."""
    law = product_law(fc.gpu("MI300X"), "fp8")
    shapes = [(tokens, n, k) for tokens in 2 ** np.arange(0, 10) for n, k in PRODUCTS]
    rows = pd.DataFrame(shapes, columns=["m", "n", "k"]).assign(
        device="MI300X", op="gemm", dtype_a="fp8", dtype_b="fp8"
    )
    rows["duration_us"] = 2.0 * law.time_us(rows["n"], rows["m"], rows["k"]) + LAUNCH_US
    return fc.train(rows, target="MI300X", models=["OLS"], jobs=1)


PRODUCTS = (
    (1280, 8192),
    (8192, 1024),
    (7168, 8192),
    (8192, 3584),
    (2560, 8192),
    (9000, 2048),
    (3000, 5000),
)


def test_products_come_from_a_run_where_it_knows_them(slow_run: fc.Run) -> None:
    asked = {**ASKED, "batch": 16, "prefix_cache": True, "release": "vllm-0.8.5"}
    law, run = (
        fc.forecast("llama-3.1-70b", **asked),
        fc.forecast("llama-3.1-70b", **asked, run=slow_run),
    )
    ratio = run.answers[0].parts["products"][0] / law.answers[0].parts["products"][0]
    assert 1.6 < ratio < 2.1  # the output matrix, in 16 bits, is the law's
    told = {note.code: note.values for note in run.answers[0].remarks}
    assert 0.8 < told["kernels-by-source"]["products"] < 1.0
    other = fc.forecast("llama-3.1-70b", **{**asked, "gpu": "MI355X"}, run=slow_run)
    assert {note.code: note.values for note in other.answers[0].remarks}["kernels-by-source"][
        "products"
    ] == 0


def test_a_graph_takes_from_a_run_what_it_knows(slow_run: fc.Run) -> None:
    layers = [
        {"name": "qkv", "op": "gemm", "m": 64, "n": 1280, "k": 8192, "dtype": "fp8"},
        {"name": "wide", "op": "gemm", "m": 64, "n": 128000, "k": 8192, "dtype": "fp8"},
        {"name": "norm", "op": "rms_norm", "rows": 64, "cols": 8192},
    ]
    found = fc.forecast({"layers": layers}, gpu="MI300X", run=slow_run)
    assert [one.source for one in found.answers[0].layers] == ["run", "law", "law"]
    assert '"hovertext":["qkv","wide","norm"]' in found.report()


def test_attention_comes_from_a_run_that_knows_it() -> None:
    gpu, tokens, batches = fc.gpu("MI300X"), 2.0 ** np.arange(8, 13), (1.0, 2.0, 4.0, 8.0, 16.0)
    sizes = [(batch, length) for batch in batches for length in tokens]
    rows = pd.DataFrame(sizes, columns=["batch", "seq_q"]).assign(
        device="MI300X", op="attention", dtype_a="bf16"
    )
    rows = rows.assign(seq_kv=rows["seq_q"], heads=8, kv_heads=1, head_dim=128, causal=1)
    flop = 2.0 * rows["batch"] * 8 * rows["seq_q"] ** 2 * 128
    rows["duration_us"] = 2.0 * Attention(rows["seq_q"]).us(flop, gpu)
    run = fc.train(rows, target="MI300X", models=["OLS"], jobs=1, group=["batch"])
    asked = {**ASKED, "batch": 8, "input_len": 1024, "release": "vllm-0.8.5"}
    law, learnt = (fc.forecast("llama-3.1-70b", **asked, run=runs).answers[0] for runs in ((), run))
    us = 2.0 * float(Attention(1024).us(2.0 * 8 * 8 * 1024**2 * 128, gpu))
    assert learnt.parts["attention"][0] == pytest.approx(80 * us * 1e-6, rel=0.1)
    assert learnt.parts["products"][0] == pytest.approx(law.parts["products"][0])


def test_a_run_with_a_host_is_no_source(tmp_path: Path) -> None:
    with pytest.raises(fc.FlopcastError):
        fc.forecast("llama-3.1-70b", **ASKED, batch=1, run=tmp_path)


def test_steps_of_a_framework_are_calibrated_for_forecasts_of_others(tmp_path: Path) -> None:
    asked = {
        "kind": "training",
        "gpu": "MI300X",
        "gpus": 8,
        "tp": 8,
        "seq_len": 4096,
        "recompute": "full",
    }
    runs = [{**asked, "model": "llama-2-7b", "global_batch": batch} for batch in (8, 16, 32)]
    free = [fc.forecast(**run).answers[0].predicted for run in runs]
    own = tmp_path / "own.toml"
    own.write_text(
        as_toml(
            calibrate(
                pd.DataFrame(runs).assign(measured=[1.3 * time for time in free]), name="mine"
            )
        )
    )
    same = fc.forecast(**runs[1], release=str(own)).answers[0]
    assert same.predicted == pytest.approx(1.3 * free[1], rel=0.05)
    assert same.lower < 1.3 * free[1] < same.upper
    other = fc.forecast(**{**runs[1], "model": "llama-3.1-8b"}, release=str(own)).answers[0]
    assert other.half_width > same.half_width
    assert "training-constants" not in {note.code for note in same.remarks}
    with pytest.raises(fc.DataError, match="training"):
        fc.forecast(
            "llama-2-7b", gpu="MI300X", batch=1, input_len=1, output_len=1, release=str(own)
        )
    with pytest.raises(fc.DataError, match="training"):
        fc.forecast(**runs[0], release="vllm-0.10.0")


def test_what_is_assumed_of_runs_of_serving_is_told_by_calibrate(tmp_path: Path) -> None:
    runs = {
        "tokenizer_id": "a", "model_id": "llama-3.1-8b", "max_concurrency": 4, "completed": 10, "mean_ttft_ms": 90.0,
        "mean_tpot_ms": 12.0, "total_input_tokens": 10240, "total_output_tokens": 10240, "request_throughput": 0.3,
    }  # fmt: skip
    (tmp_path / "run.json").write_text(json.dumps(runs))
    stated = ("--default", "device=MI300X", "--default", "dtype_a=fp8")
    for more, said in (((), True), (("--default", "tp=1"), False)):
        told = call(
            "calibrate", tmp_path / "run.json", *stated, *more, "--out", tmp_path / "own.parquet"
        )
        assert told.exit_code == 0
        assert ("note: [tp-assumed]" in told.stdout) == said


def test_a_table_of_which_no_row_is_understood_is_the_users_mistake(tmp_path: Path) -> None:
    good, bad = "llama-3.1-8b,MI300X,1,8,8", "no such model,MI300X,1,8,8"
    for rows, code in (([bad], 2), ([bad, bad], 2), ([good, bad], 0)):
        (tmp_path / "cases.csv").write_text(
            "\n".join(["model,gpu,batch,input_len,output_len", *rows])
        )
        assert call("forecast", "cases", tmp_path / "cases.csv").exit_code == code


def test_each_gpu_has_its_price() -> None:
    asked = {**ASKED, "gpu": ["MI300X", "H200"], "batch": 4}
    found = fc.forecast("llama-3.1-8b", **asked, price={"mi300x": 2.0, "H200": 3.5}).table
    assert found["cost"].tolist() == pytest.approx(
        (found["predicted"] / 3600 * 8 * np.array([2.0, 3.5])).tolist()
    )
    with pytest.raises(fc.FlopcastError, match="none of H200"):
        fc.forecast("llama-3.1-8b", **asked, price={"MI300X": 2.0})
    line = "forecast llama-3.1-8b --gpu MI300X,H200 --batch 4 --input-len 8 --output-len 8 --json --price"
    assert call(*line.split(), "MI300X=2/h,H200=3.5").exit_code == 0
    assert call(*line.split(), "MI300X=2,3.5").exit_code == 2


def test_the_frontier_of_each_gpu_is_named_and_pages_choose_gpus_by_name(tmp_path: Path) -> None:
    found = fc.forecast(
        "llama-3.1-8b", **{**ASKED, "gpu": ["MI300X", "H200"], "batch": [1, 16, 64]}
    )
    pareto = found.plot_pareto()
    assert pareto is not None
    assert {note.text for note in pareto.layout.annotations} == {"MI300X", "H200 SXM"}
    found.save(tmp_path / "out")
    page = (tmp_path / "out" / "forecast.html").read_text()
    assert '<option value="0">MI300X</option>' in page
    assert page.count('<input type="range"') == 1


def test_a_model_alone_is_a_forecast_and_other_words_are_commands() -> None:
    line = "--batch 1 --input-len 8 --output-len 8 --json"
    for words in (f"llama-3.1-8b {line}", f"{line} llama-3.1-8b"):
        assert json.loads(call("forecast", *words.split()).stdout)["forecasts"][0]["fits"]
    assert (
        call("forecast", "MODEL", "--help").exit_code
        == call("forecast", "hpl", "--help").exit_code
        == 0
    )
