"""Which GPUs serve a model, asked in Python and on the command line: what is told, written and refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pandas as pd
import pytest

import flopcast as fc
from flopcast.api.asked import ALSO_CALLED, Fields
from flopcast.commands.declared import said
from flopcast.errors import ParameterError, UnknownGPUError
from flopcast.tests.commands.running import call

ASKED = {
    "gpu": ["MI300X", "H200", "MI355X"],
    "gpus": [1, 2, 4, 8, 16],
    "ttft": "2s",
    "tpot": "50ms",
    "rate": "4/s",
    "tuning": "tuned",
}
PRICE = {"MI300X": "$2.5/h", "H200": "$3.5/h", "MI355X": "$4/h"}


@pytest.fixture(scope="module")
def found() -> fc.Deployments:
    answer = fc.forecast("llama-3.1-70b", **ASKED, price=PRICE)
    assert isinstance(answer, fc.Deployments)
    return answer


@pytest.mark.parametrize(
    "model", ["llama-3.1-70b", "deepseek-r1", "qwen3-235b-a22b", "gpt-oss-120b"]
)
def test_every_gpu_has_a_way_to_serve_the_models_that_people_ask_about(model: str) -> None:
    table = fc.forecast(model, **ASKED, price=PRICE).table
    assert set(table["gpu"]) == {"MI300X", "H200 SXM", "MI355X"}
    assert table.loc[0, "holds"] >= 0.9
    held = table[table["holds"] >= 0.9]
    assert held["cost_per_million"].is_monotonic_increasing
    assert (
        held["memory_gb"] <= held["gpu"].map({"MI300X": 192, "H200 SXM": 141, "MI355X": 288}) * 0.9
    ).all()


def test_units_say_the_same_as_bare_numbers(found: fc.Deployments) -> None:
    bare = fc.forecast(
        "llama-3.1-70b", **{**ASKED, "ttft": 2000, "tpot": 50.0, "rate": 4}, price=PRICE
    )
    assert bare.table.equals(found.table)


def test_tighter_limits_never_hold_more_surely(found: fc.Deployments) -> None:
    tight = fc.forecast("llama-3.1-70b", **{**ASKED, "ttft": "0.5s", "tpot": "20ms"}, price=PRICE)
    assert (tight.ways["holds"] <= found.ways["holds"]).all()
    assert tight.table.loc[0, "cost_per_million"] > found.table.loc[0, "cost_per_million"]


def test_two_choices_are_compared_way_by_way_however_they_were_saved(
    found: fc.Deployments, tmp_path: Path
) -> None:
    found.save(tmp_path / "answer")
    other = fc.forecast("llama-3.1-70b", **{**ASKED, "rate": "8/s"}, price=PRICE)
    other.save_table(tmp_path / "other.csv")
    table = fc.compare(tmp_path / "answer" / "forecast.csv", tmp_path / "other.csv").table
    pd.testing.assert_frame_equal(table, fc.compare(found, other).table, rtol=1e-9)
    slower = table[table["what"].str.startswith("TPOT")]
    assert (slower["ratio"] > 1).all()  # twice the requests
    same = fc.compare(tmp_path / "answer", found).table
    assert (same["ratio"] == 1).all()
    assert (same["ratio_lower"] == 1).all()
    found.ways.to_csv(tmp_path / "old.csv", index=False)
    with pytest.raises(fc.DataError, match="states no model and level"):
        fc.compare(tmp_path / "old.csv", found)


def test_saved_choices_without_a_price_are_compared_by_all_but_the_cost(tmp_path: Path) -> None:
    asked = {"gpu": "MI300X", "gpus": 8, "rate": "1/s", "tuning": "tuned"}
    fc.forecast("llama-3.1-70b", **asked, ttft="2s").save(tmp_path / "free")
    fc.forecast("llama-3.1-70b", **asked, ttft="2s", price=2).save(tmp_path / "priced")
    for first in ("free", "priced"):
        table = fc.compare(tmp_path / first, tmp_path / "free").table
        assert [what.partition(",")[0] for what in table["what"]] == [
            "TTFT",
            "TPOT",
            "tokens per GPU",
            "energy of a token",
        ]
    old = pd.read_csv(tmp_path / "free" / "forecast.csv")
    old = old.drop(columns=[name for name in old if name.startswith("joules_per_token")])
    old.to_csv(tmp_path / "old.csv", index=False)
    table = fc.compare(tmp_path / "old.csv", tmp_path / "free").table
    assert not table["what"].str.startswith("energy").any()


def test_the_price_of_electricity_is_told_in_the_currency_of_the_gpus(tmp_path: Path) -> None:
    line = "forecast llama-3.1-8b --gpu MI355X --gpus 1 --concurrency 8 --json"
    priced = call(*line.split(), "--electricity", "0.12", "--price", "$4")
    told = json.loads(priced.stdout)
    assert told["question"]["electricity"] == {"per_kwh": 0.12, "currency": "$"}
    best = told["best"][0]
    assert best["electricity_per_million"] == pytest.approx(best["joules_per_token"] * 0.12 / 3.6)
    free = json.loads(call(*line.split()).stdout)
    assert free["question"]["electricity"] is None
    assert free["best"][0]["electricity_per_million"] is None
    assert free["best"][0]["power_w"] == pytest.approx(best["power_w"])


def test_a_gpu_without_a_published_board_power_is_served_from_all_the_same(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(
        'name = "Own"\nvendor = "AMD"\nmemory_gb = 192\nmemory_bw_gbs = 5000\n'
        "link_bw_gbs = 400\n[peak_tflops]\nbf16_matrix = 1000\n"
    )
    found = fc.forecast("llama-3.1-8b", gpu=str(own), gpus=1, concurrency=8, electricity=0.12)
    assert found.table["power_w"].isna().all()
    assert "board power of Own" in str(found.report())


def test_without_limits_every_gpu_is_told_of_at_each_pace() -> None:
    table = fc.forecast(
        "llama-3.1-70b", gpu=["MI300X", "H200"], gpus=8, tp=8, concurrency=[1, 16, 64]
    ).table
    assert (table["tpot_ms"] <= table["pace_ms"]).all()
    assert set(table["concurrency"]) <= {1, 16, 64}
    assert set(table["gpu"]) == {"MI300X", "H200 SXM"}


@pytest.mark.parametrize("limits", [{}, {"ttft": "2s", "tpot": "50ms", "rate": "1/s"}])
def test_every_gpu_and_engine_that_is_asked_for_has_its_line(limits: dict[str, str]) -> None:
    gpus, engines = ["MI300X", "MI325X", "MI355X"], ["vllm", "sglang", "atom"]
    found = fc.forecast("llama-3.1-70b", gpu=gpus, engine=engines, gpus=8, tp=8, **limits)
    assert {*zip(found.table["gpu"], found.table["engine"], strict=True)} == {
        (gpu, engine) for gpu in gpus for engine in engines
    }
    headline, others = found.document().opening[:2]
    said = {line.text.partition(":")[0]: line.text for line in others.lines}
    for gpu in gpus:
        line = said[gpu]
        if gpu in headline.answer:
            line += headline.answer
        assert all(engine in line for engine in engines)
    ways = [part for section in found.document().sections for part in section.parts]
    (on_terminal,) = [one for one in ways if one.shape == "table" and one.medium == "terminal"]
    assert len(on_terminal.rows) == len(found.table)
    assert on_terminal.shown is None


def test_a_gpu_without_a_way_says_why_beside_the_answer() -> None:
    found = fc.forecast("llama-3.1-70b", gpu=["MI300X", "L4"], gpus=1, rate="0.1/s", ttft="2s")
    said = " ".join(line.text for line in found.document().opening[1].lines)
    assert "L4 has no way to serve it" in said
    assert "GiB are missing" in said


def test_a_pace_is_kept_with_the_probability_asked_for() -> None:
    asked = {"gpu": "MI300X", "gpus": 8, "tp": 8}
    by_sure = {}
    for sure in (0.5, 0.9, 0.99):
        table = fc.forecast("llama-3.1-70b", **asked, sure=sure).table
        assert (table["holds"] >= sure).all()
        by_sure[sure] = table.groupby("pace_ms")["tokens_per_s_per_gpu"].max()
    assert (by_sure[0.5] > by_sure[0.9].reindex(by_sure[0.5].index).fillna(0.0)).all()
    assert (by_sure[0.9] >= by_sure[0.99].reindex(by_sure[0.9].index).fillna(0.0)).all()
    line = "forecast llama-3.1-70b --gpu MI300X --gpus 8 --tp 8 --sure 0.5 --json"
    assert [one["holds"] for one in json.loads(call(*line.split()).stdout)["best"]] == list(
        fc.forecast("llama-3.1-70b", **asked, sure=0.5).table["holds"]
    )


def test_the_answer_is_written_as_page_json_and_table(
    found: fc.Deployments, tmp_path: Path
) -> None:
    found.save(tmp_path / "answer")
    assert sorted(file.name for file in (tmp_path / "answer").iterdir()) == [
        "forecast.csv",
        "forecast.html",
        "forecast.json",
    ]
    told = json.loads((tmp_path / "answer" / "forecast.json").read_text())
    assert told["question"]["rate"] == 4.0
    assert told["question"]["price"]["currency"] == "$"
    assert [one["gpu"] for one in told["best"]] == found.table["gpu"].tolist()
    assert len(pd.read_csv(tmp_path / "answer" / "forecast.csv")) == len(found.ways)
    drawn = found.plot_front()
    rows, *named = drawn.data
    assert [*rows.ids] == [
        at for at in found.table.index if found.table.loc[at, "tokens_per_s_per_user"] > 0
    ]
    assert {trace.name for trace in named} == {"MI300X", "H200 SXM", "MI355X"}
    assert {"MI300X", "H200 SXM", "MI355X"} <= {note.text for note in drawn.layout.annotations}
    assert found.table.loc[0, "gpu"] in found._repr_html_()


def test_the_command_asks_the_same(found: fc.Deployments, tmp_path: Path) -> None:
    line = (
        "forecast llama-3.1-70b --gpu MI300X,H200,MI355X --gpus 1:16 --ttft 2s --tpot 50ms --rate 4/s "
        "--tuning tuned --json --price"
    )
    result = call(
        *line.split(), "MI300X=$2.5/h,H200=$3.5/h,MI355X=$4/h", "--out", str(tmp_path / "ways.csv")
    )
    assert result.exit_code == 0
    assert json.loads(result.stdout) == json.loads(json.dumps(found.document().data))
    assert len(pd.read_csv(tmp_path / "ways.csv")) == len(found.ways)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("--ttft soon", "--ttft"),
        ("--tpot -3ms", "--tpot"),
        ("--rate 4/s --concurrency 8", "--rate"),
        ("--price MI355X=2", "--price"),
        ("--electricity 0.12/h", "--electricity must be a number above 0"),
        ("--electricity $0.12 --price €2", "--electricity must be in the currency of --price"),
        ("--electricity 0.12 --batch 4", "--electricity goes with no --batch"),
        ("--engine tgi", "--engine"),
        (
            "--dtype int3",
            "--dtype must be one of fp32, fp16, bf16, fp8, int8, fp6, fp4, int4, got 'int3'",
        ),
        ("--kv-dtype int3", "--kv-dtype must be one of"),
        ("--dtype int3 --batch 1 --input-len 8 --output-len 8", "--dtype must be one of"),
        ("--ttft 2s --batch 4", "--ttft"),
        ("--tpot 50ms --output-len 1", "--tpot"),
        ("--ttft 2s --pp 2", "--batch (or --num-prompts) is needed beside --pp"),
        ("--tuning stock --batch 4", "--tuning goes with no --batch"),
        ("--tuning stock --num-prompts 4", "--tuning goes with no --num-prompts"),
        ("--speculation mtp --num-prompts 16", "--speculation goes with no --num-prompts"),
        ("--isl 1000000", "--input-len and --output-len must be"),
        (
            "--rate 4/s --concurrency 1:8",
            "--rate says how many requests are under way: give it or --concurrency",
        ),
        ("--lengths equal --batch 4", "--lengths goes with no --batch"),
        ("--lengths mixed", "--lengths must be one of drawn, equal, got 'mixed'"),
        ("--prefill-gpus 8", "--prefill-gpus 8 of --gpus 8 leaves none"),
        ("--out answer.txt", "answer.txt: would be a folder"),
        ("--chakra sim", "--chakra"),
    ],
)
def test_mistakes_are_one_line_that_names_the_option(line: str, named: str) -> None:
    result = call("forecast", "llama-3.1-70b", "--gpus", "8", *line.split())
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {named}")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--ttft p90<2s", "give --ttft='p99<2s'"),
        ("--ttft p99<2s --rate 2/s", "(--concurrency), not at a --rate"),
    ],
)
def test_an_option_that_a_message_asks_for_is_one_that_can_be_typed(line: str, said: str) -> None:
    assert said in call("forecast", "llama-3.1-70b", *line.split()).stderr


def test_counts_are_written_in_full_and_one_is_singular() -> None:
    many = fc.forecast("deepseek-r1", gpu="MI355X", gpus=8, tp=8, dtype="fp8", concurrency=1024)
    few = fc.forecast("llama-3.1-8b", gpu="MI300X", gpus=1, concurrency=1, dtype="bf16")
    page = many.document()
    opening = repr(page.opening)
    assert "1,024 requests under way" in opening
    assert "1,020" not in repr(page)
    alone = few.document()
    assert "on 1 GPU;" in str(alone.lead)
    assert ", 1 request under way" in repr(alone.opening)
    beside = fc.forecast("llama-3.1-8b", gpu="MI300X", gpus=2, prefill_gpus=1)
    assert ", 1 GPU of each replica" in str(beside.document().lead)


@pytest.mark.parametrize("work", [{"rate": 1}, {"batch": 1, "input_len": 8, "output_len": 8}])
def test_a_gpu_of_ones_own_does_not_take_the_place_of_a_known_one(
    work: dict[str, int], tmp_path: Path
) -> None:
    own = tmp_path / "own.toml"
    own.write_text('name = "MI300X"\nbased_on = "MI300X"\nmemory_bw_gbs = 9999\n')
    other = tmp_path / "other.toml"
    for gpus in (["MI300X", str(own)], [str(own), "MI300X"]):
        asked = fc.forecast("llama-3.1-8b", gpu=gpus, gpus=1, **work)
        if isinstance(asked, fc.Deployments):
            assert set(asked.ways["gpu"]) == {"MI300X", "MI300X (your own)"}
        else:
            assert len({answer.predicted for answer in asked.answers}) == 2
    other.write_text(own.read_text())
    with pytest.raises(ParameterError, match=r"your own\): give your own another name"):
        fc.forecast("llama-3.1-8b", gpu=[str(own), str(other)], gpus=1, **work)
    assert set(
        fc.forecast("llama-3.1-8b", gpu=["MI300X", "mi300x"], gpus=1, rate=1).ways["gpu"]
    ) == {"MI300X"}
    assert set(fc.forecast("llama-3.1-8b", gpu=str(own), gpus=1, rate=1).ways["gpu"]) == {
        "MI300X (your own)"
    }


def test_an_engine_is_asked_for_as_its_vendor_spells_it() -> None:
    asked = {"gpu": "H200", "gpus": 1, "dtype": "fp8", "concurrency": 8}
    found = fc.forecast("llama-3.1-8b", engine=["TensorRT-LLM", "vLLM"], **asked)
    assert set(found.table["engine"]) == {"trtllm", "vllm"}


@pytest.mark.parametrize("name", ["gpu", "engine", "tp", "dtype"])
def test_an_empty_list_is_named(name: str) -> None:
    with pytest.raises(ParameterError, match=rf"{name} must have a value, got \[\]"):
        fc.forecast("llama-3.1-8b", **{name: []})


def test_limits_go_with_no_table_of_cases() -> None:
    with pytest.raises(ParameterError, match="ttft goes with no cases"):
        fc.forecast(cases=pd.DataFrame({"model": ["llama-3.1-8b"]}), ttft=1)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("nvidia/Qwen3-235B-A22B-NVFP4", "fp4"),
        ("Qwen/Qwen3-32B-FP8", "fp8"),
        ("Qwen2.5-72B-Instruct-AWQ", "int4"),
        ("unsloth/gpt-oss-20b-BF16", "bf16"),
        ("amd/DeepSeek-R1-0528-MXFP4", "fp4"),
    ],
)
def test_the_format_that_a_name_states_is_asked_for(name: str, dtype: str) -> None:
    found = fc.forecast(name, gpu="MI355X", gpus=8, concurrency=8)
    assert isinstance(found, fc.Deployments)
    assert set(found.ways["dtype"]) == {dtype}
    assert "quantised" not in {note.code for note in found.choice.remarks}


def test_the_first_lines_say_which_two_runs_narrow_the_answer_and_to_what(
    found: fc.Deployments, tmp_path: Path
) -> None:
    said = call("forecast", "llama-3.1-70b", "--ttft", "2s", "--all").stdout
    before = " ".join(said.partition("Ways to serve it")[0].split())
    assert (
        "two measured runs of this setting, with the fewest and the most requests under way, narrow it to"
        in before
    )
    assert "per token and" in before
    assert "Tokens are output tokens." in said


def test_the_page_has_the_command_as_it_was_typed(tmp_path: Path) -> None:
    call(
        "forecast",
        "llama-3.1-8b",
        "--gpus",
        "1",
        "--concurrency",
        "8",
        "--out",
        str(tmp_path / "page"),
    )
    page = (tmp_path / "page" / "forecast.html").read_text()
    assert "flopcast forecast llama-3.1-8b --gpus 1 --concurrency 8" in page


def test_what_is_sure_enough_decides_who_is_first(found: fc.Deployments) -> None:
    likely = fc.forecast("llama-3.1-70b", **ASKED, price=PRICE, sure=0.5)
    first = likely.table.loc[0]
    assert found.table.loc[0, "holds"] >= 0.9
    assert 0.5 <= first["holds"] < 0.9
    assert first["cost_per_million"] < found.table.loc[0, "cost_per_million"]
    assert likely.ways.equals(found.ways)


@pytest.mark.parametrize("sure", [0, 1, -0.1, "much"])
def test_what_is_no_probability_is_refused(sure: object) -> None:
    with pytest.raises(ParameterError) as refused:
        fc.forecast("llama-3.1-70b", **ASKED, sure=sure)
    assert refused.value.parameter == "sure"


def test_an_unknown_tuning_and_an_endless_interval_are_told_of_where_they_stand() -> None:
    limits = {"rate": "2/s", "ttft": "2s", "tpot": "50ms"}
    answer = fc.forecast("deepseek-r1", gpu="MI355X", gpus=8, engine="atom", **limits)
    first = answer.table.iloc[0]
    assert first["holds"] < 0.9 < answer.choice.as_tuned
    assert math.isinf(first["ttft_ms_upper"])
    said = " ".join(line.text for line in answer.document().opening[1].lines)
    assert "tuning=tuned or tuning=stock" in said
    assert "∞" in said
    tuned = fc.forecast(
        "deepseek-r1", gpu="MI355X", gpus=8, engine="atom", tuning="tuned", **limits
    )
    said = " ".join(line.text for line in tuned.document().opening[1].lines)
    assert "tuning=" not in said
    assert "∞" not in said


def test_a_batch_says_how_its_engine_is_set_up_and_takes_no_other() -> None:
    asked = {"gpus": 8, "batch": 4, "input_len": 128, "output_len": 128}
    answer = fc.forecast("llama-3.1-70b", **asked)
    assert "as the vendor tunes it" in answer.document().opening[0].answer
    with pytest.raises(ParameterError, match="tuning goes with no batch, whose"):
        fc.forecast("llama-3.1-70b", **asked, tuning="stock")


def test_a_batch_is_not_asked_how_sure_it_is() -> None:
    with pytest.raises(ParameterError) as refused:
        fc.forecast("llama-3.1-8b", batch=1, input_len=8, output_len=8, sure=0.9)
    assert refused.value.parameter == "sure"


def test_names_and_numbers_of_gpus_that_are_taken_for_each_other_are_told_apart() -> None:
    with pytest.raises(ParameterError, match="which ones says gpu"):
        fc.forecast("llama-3.1-70b", gpus="H200,MI300X")
    with pytest.raises(UnknownGPUError, match="how many there are says gpus"):
        fc.forecast("llama-3.1-70b", gpu="8")
    refused = call("forecast", "llama-3.1-70b", "--gpus", "H200,MI300X")
    assert refused.exit_code == 2
    assert "which ones says --gpu" in refused.stderr
    assert "says gpus" in call("forecast", "llama-3.1-70b", "--gpu", "8").stderr


def test_words_of_the_field_say_the_same_on_both_doors() -> None:
    ours = fc.forecast("llama-3.1-8b", gpu="H200", batch=2, input_len=64, output_len=32)
    theirs = fc.forecast("llama-3.1-8b", device="H200", batch=2, isl=64, osl=32)
    assert theirs.table.equals(ours.table)
    words = ("--batch", 2, "--json")
    told = [
        call(
            "forecast",
            "llama-3.1-8b",
            "--gpu",
            "H200",
            "--input-len",
            64,
            "--output-len",
            32,
            *words,
        ),
        call("forecast", "llama-3.1-8b", "--device", "H200", "--isl", 64, "--osl", 32, *words),
    ]
    assert [one.exit_code for one in told] == [0, 0]
    assert told[0].stdout == told[1].stdout
    with pytest.raises(ParameterError, match="input_len"):
        fc.forecast("llama-3.1-8b", batch=2, isl=64, input_len=64, output_len=32)


def test_the_answer_has_the_command_that_runs_it(found: fc.Deployments) -> None:
    first = found.table.loc[0]
    words = found.command.split()
    assert words[:3] == ["vllm", "serve", "meta-llama/Llama-3.1-70B"]
    if first["tp"] > 1:
        assert words[words.index("-tp") + 1] == str(first["tp"])
    assert ("--quantization" in words) == (first["dtype"] == "fp8")
    assert found.document().data["command"] == found.command


def test_a_slow_rate_is_a_request_alone_and_the_line_runs_the_way_that_leads() -> None:
    slow = fc.forecast("deepseek-r1", gpu="MI355X", rate="2/h")
    assert isinstance(slow, fc.Deployments)
    assert slow.table.loc[0, "holds"] > 0.9
    free = fc.forecast("llama-3.1-70b", gpu="MI355X", gpus=8, tp=[2, 4], concurrency=[16, 64])
    assert isinstance(free, fc.Deployments)
    usual = free.table[free.table["pace_ms"] == 50.0].iloc[0]
    assert f"-tp {usual['tp']:.0f}" in free.command
    question = free.to_dict()["question"]
    assert (question["tuning"], question["sure"]) == ("either", 0.9)


SPECULATED = {
    "gpu": "MI355X",
    "engine": "sglang",
    "concurrency": 16,
    "isl": 1024,
    "osl": 1024,
    "gpus": 8,
    "tp": 8,
    "ep": 1,
    "dtype": "fp8",
    "tuning": "tuned",
}


def test_speculation_is_a_condition_that_is_asked_for() -> None:
    plain = fc.forecast("deepseek-r1", **SPECULATED)
    drafted = fc.forecast("deepseek-r1", **SPECULATED, speculation="mtp")
    none = fc.forecast("deepseek-r1", **SPECULATED, speculation="none")
    assert drafted.table.loc[0, "tpot_ms"] < 0.8 * plain.table.loc[0, "tpot_ms"]
    assert "with speculation (mtp)" in drafted.document().lead
    assert drafted.document().data["question"]["speculation"] == "mtp"
    assert drafted.command == ""
    assert none.document().data == plain.document().data
    (note,) = [note for note in drafted.choice.remarks if note.code == "speculation"]
    assert note.values["basis"] == "setting"


def test_lengths_are_a_condition_that_is_asked_for() -> None:
    asked = SPECULATED | {"engine": "atom", "isl": 10000, "osl": 1000}
    answers = [fc.forecast("deepseek-r1", **asked)]
    for word in ("equal", "drawn"):
        answers.append(fc.forecast("deepseek-r1", **asked, lengths=word))
    as_published, equal, drawn = answers
    times = ["ttft_ms", "ttft_ms_upper", "tpot_ms"]
    pd.testing.assert_frame_equal(as_published.table[times], equal.table[times])
    ratio = (drawn.table["ttft_ms"] / equal.table["ttft_ms"]).tolist()
    assert max(ratio) < 0.8
    (note,) = [note for note in as_published.choice.remarks if note.code == "lengths-as-published"]
    assert note.values["ratio"] == pytest.approx(ratio[0], rel=0.1)
    assert "lengths=drawn" in note.text
    assert "with equal lengths" in equal.document().lead
    assert equal.document().data["question"]["lengths"] == "equal"
    assert "lengths" not in as_published.document().data["question"]
    codes = {note.code for found in (equal, drawn) for note in found.choice.remarks}
    assert not {code for code in codes if code.startswith("lengths")}


def test_a_model_without_such_a_run_has_a_wider_answer() -> None:
    asked = {**SPECULATED, "speculation": "mtp"}
    widths = []
    for model in ("deepseek-r1", "qwen3-235b-a22b"):
        row = fc.forecast(model, **asked).table.loc[0]
        widths.append(row["tpot_ms_upper"] / row["tpot_ms_lower"])
    assert widths[1] > 1.5 * widths[0]


def test_prompts_on_gpus_of_their_own_are_asked_for() -> None:
    asked = {**SPECULATED, "gpus": 16, "isl": 8192, "concurrency": [64]}
    apart = fc.forecast("deepseek-r1", **asked, prefill_gpus=8)
    assert set(apart.table["gpus"]) == {16}
    assert set(apart.table["replicas"]) == {1}
    assert "8 GPUs of each replica only reading prompts" in apart.document().lead
    together = fc.forecast("deepseek-r1", **{**asked, "gpus": 8})
    assert apart.table.loc[0, "tpot_ms"] < together.table.loc[0, "tpot_ms"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"speculation": "medusa"}, "none, mtp"),
        ({"speculation": "mtp", "batch": 4}, "goes with no batch"),
        ({"prefill_gpus": 2, "batch": 4}, "goes with no batch"),
        ({"lengths": "equal", "batch": 4}, "lengths goes with no batch"),
        ({"lengths": "equal", "global_batch": 4, "seq_len": 128}, "lengths goes with no global_b"),
        ({"lengths": "equal", "gpus": 2, "prefill_gpus": 1}, "lengths goes with no prefill_gpus"),
        ({"lengths": "mixed"}, "lengths must be one of drawn, equal, got 'mixed'"),
        ({"prefill_gpus": 0}, "prefill_gpus"),
        ({"prefill_gpus": 8, "gpus": [4, 8]}, "8 of gpus 8 leaves none to write answers"),
        ({"tuning": "tuned", "batch": 4}, "tuning goes with no batch"),
        ({"prefill_gpus": 1, "gpus": 9}, "must hold the weights"),
    ],
)
def test_conditions_that_cannot_be_are_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(fc.FlopcastError, match=said):
        fc.forecast("deepseek-r1", gpu="MI300X", input_len=128, output_len=128, **fields)


def test_own_runs_with_speculation_are_forecast_as_measured(tmp_path: Path) -> None:
    run = {
        "op": "serving",
        "device": "MI355X",
        "model": "deepseek-r1",
        "engine": "sglang",
        "dtype_a": "fp8",
        "dtype_b": "fp8",
        "tp": 8,
        "input_len": 1024,
        "output_len": 1024,
    }
    measured = {4: 9.0, 64: 22.0}
    runs = pd.DataFrame(
        [
            {**run, "variant": "eagle", "concurrency": n, "tpot_ms": tpot, "ttft_ms": 40.0 * n}
            for n, tpot in measured.items()
        ]
    )
    own = fc.calibrate(runs)
    own.save(tmp_path / "own.parquet")
    asked = {**SPECULATED, "concurrency": [4, 64], "release": str(tmp_path / "own.parquet")}
    drafted = fc.forecast("deepseek-r1", **asked, speculation="mtp").ways
    plain = fc.forecast("deepseek-r1", **asked).ways
    assert drafted["tpot_ms"].tolist() == pytest.approx([*measured.values()], rel=0.05)
    width, wider = (ways["tpot_ms_upper"] / ways["tpot_ms"] for ways in (drafted, plain))
    assert (wider > width).all()
    with pytest.raises(ParameterError, match="calibrate each from the model that ships"):
        fc.calibrate(runs.assign(variant=""), prior=str(tmp_path / "own.parquet"))
    drafted = fc.forecast("deepseek-r1", **(asked | {"tuning": "stock"}), speculation="mtp")
    assert "as your own runs, with speculation" in drafted.document().lead
    notes = {note.code: note for note in drafted.choice.remarks}
    assert "2 of your own" in notes["serving-basis"].text
    assert "as tuned" not in notes["serving-basis"].text
    assert "tuning=stock" in notes["own-stack"].text
    stated = runs.rename(columns={"variant": "speculation"}).assign(speculation="mtp")
    same = fc.calibrate(stated.assign(tuning="stock", prefill_gpus=0, num_prompts=512))
    for time, fit in own.fits.items():
        assert same.fits[time].weights == pytest.approx(fit.weights)
    unread = [note for note in same.about["notes"] if "[option-not-read]" in note]
    assert len(unread) == 1, unread


SEVERAL = {
    "Counts": "8,16",
    "Numbers": "0.5,0.8",
    "Names": "fp8,bf16",
    "OneOrMoreDevices": "MI300X,H200",
}
"""Kind of a field -> two values, as its option takes them."""
WORK = {"batch", "num_prompts", "global_batch", "micro_batch"}


@pytest.mark.parametrize("name", sorted(Fields.__annotations__.keys() - WORK))
def test_a_field_takes_several_or_its_help_says_one(name: str) -> None:
    kind = Fields.__annotations__[name].__forward_arg__.removesuffix(" | None")
    if kind not in SEVERAL:
        return
    asked = {"gpu": "MI300X", "input_len": 128, "output_len": 64, name: SEVERAL[kind]}
    ours = ALSO_CALLED.get(name, name)
    if ours != name:
        del asked[ours]
    problem = ""
    try:
        fc.forecast("mixtral-8x7b", **asked)
    except ParameterError as refusal:
        problem = refusal.problem
    says_one = "one where GPUs are chosen" in said("forecast", ours)
    refuses_several = problem.startswith("must be one where GPUs are chosen, got [")
    assert says_one == refuses_several
    if problem and not says_one:
        assert "is needed beside" in problem


@pytest.mark.parametrize("option", ["--isl", "--osl", "--node-gpus"])
def test_one_value_is_asked_for_in_one_line(option: str) -> None:
    given = {"--isl": "128", "--osl": "64", "--gpu": "MI300X", option: "16,128"}
    words = [word for pair in given.items() for word in pair]
    answer = call("forecast", "llama-3.1-8b", *words)
    assert answer.exit_code == 2
    assert "must be one where GPUs are chosen, got [16, 128]" in answer.stderr
    several = call("forecast", "llama-3.1-8b", *words, "--batch", "1")
    assert several.exit_code == 0
