"""Which GPUs serve a model: requests under way by Little's law, shares that hold, what is cheapest, what has room."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError, FlopcastError, ParameterError, UnknownGPUError
from flopcast.hardware import GPU, find
from flopcast.remarks import remark
from flopcast.report.deployments import deployments_document
from flopcast.workloads import model_catalogue
from flopcast.workloads.deployments import Choice, Question, cheapest, choose
from flopcast.workloads.launching import serve_command, why_no_command
from flopcast.workloads.quantities import (
    MILLISECONDS,
    PER_SECOND,
    Electricity,
    Prices,
    check_priced,
    electricity,
    prices,
    quantity,
)
from flopcast.workloads.serving import figures
from flopcast.workloads.serving_model import Served, served

MI300X, H200 = find("MI300X"), find("H200")
Times = Callable[[pd.DataFrame, GPU], Served]


def constant(ttft_ms: float, tpot_ms: float, spread: float = 1e-9) -> Times:
    """Return times that are the same however many requests are under way."""

    def times(rows: pd.DataFrame, gpu: GPU) -> Served:
        one = np.ones(len(rows))
        return Served(ttft_ms * one, tpot_ms * one, spread * one, spread * one)

    return times


def asked(
    model: str = "llama-3.1-8b", gpus: tuple[GPU, ...] = (MI300X,), **fields: object
) -> Question:
    return Question(model=model_catalogue.find(model), gpus=gpus, **{"counts": (1, 2), **fields})  # type: ignore[arg-type]


def dominated(fronts: pd.DataFrame) -> bool:
    speeds = fronts[["tokens_per_s_per_user", "tokens_per_s_per_gpu"]].to_numpy()
    return any((other > one).all() for one in speeds for other in speeds)


def test_a_rate_gives_the_requests_under_way_by_littles_law() -> None:
    times = constant(100.0, 10.0)  # a request of 101 tokens takes 1.1 s
    ways = choose(asked(rate=4.0, output_len=101), times).ways
    assert ways["concurrency"].to_numpy() == pytest.approx(4.4, rel=1e-6)
    assert (ways["tokens_per_s_per_gpu"] * ways["gpus"]).to_numpy() == pytest.approx(404.0)


@pytest.mark.parametrize("rate", [None, 2.0])
@pytest.mark.parametrize("answer", [2, 16, 1024])
def test_times_and_throughput_of_an_answer_keep_littles_law(
    rate: float | None, answer: int
) -> None:
    question = asked(rate=rate, output_len=answer, counts=(1,), concurrency=(1, 8, 64))
    ways = choose(question, constant(400.0, 10.0, spread=0.7)).ways
    request_s = (ways["ttft_ms"] + (answer - 1) * ways["tpot_ms"]) / 1e3
    per_s = ways["tokens_per_s_per_gpu"] * ways["gpus"] / answer
    assert (per_s * request_s).to_numpy() == pytest.approx(ways["concurrency"].to_numpy())
    joules = ways["power_w"] / ways["tokens_per_s_per_gpu"]
    assert ways["joules_per_token"].to_numpy() == pytest.approx(joules.to_numpy())


def test_no_end_of_a_throughput_is_beyond_the_peak() -> None:
    question = asked(
        "llama-3.1-70b", (MI300X, H200), counts=(8,), dtypes=("bf16",), tp=(8,), output_len=1
    )
    ways = choose(question, served).ways
    active = figures(question.model)["active_parameters"]
    peaks = ways["gpu"].map({gpu.name: gpu.peaks["bf16_matrix"] * 1e12 for gpu in question.gpus})
    prompts = ways["tokens_per_s_per_gpu_upper"] * question.input_len
    assert (prompts * 2 * active <= peaks * (1 + 1e-9)).all()


def test_a_way_that_is_unsure_for_its_tuning_says_how_sure_it_is_as_tuned() -> None:
    limits = {"rate": 2.0, "ttft_ms": 2000.0, "tpot_ms": 50.0, "counts": (8,)}
    either = choose(asked("llama-3.1-70b", **limits), served)
    tuned = choose(asked("llama-3.1-70b", tuning="tuned", **limits), served)
    unsure = either.best.iloc[0]
    assert unsure["holds"] < either.question.sure
    same = tuned.ways
    for name in ("dtype", "kv_dtype", "tp", "dp", "ep", "replicas"):
        same = same[same[name] == unsure[name]]
    assert either.as_tuned == same["holds"].item()
    assert either.as_tuned > unsure["holds"]
    assert np.isnan(tuned.as_tuned)


def test_a_rate_beyond_the_most_requests_of_an_instance_needs_replicas() -> None:
    times = constant(100.0, 10.0)
    found = choose(
        asked(
            rate=12.0,
            output_len=101,
            counts=(1, 2, 4),
            tp=(1,),
            concurrency=(1, 4, 8),
            dtypes=("bf16",),
        ),
        times,
    )
    carried = found.ways.set_index("gpus")["holds"]  # one carries 8 / 1.1 a second
    assert carried.to_dict() == {1: 0.0, 2: 1.0, 4: 1.0}
    assert found.best["gpus"].tolist() == [2, 4, 1]
    assert not np.isfinite(found.ways.set_index("gpus").loc[1, "ttft_ms"])


@pytest.mark.parametrize(
    ("limits", "share"), [({"ttft_ms": 100.0}, 0.5), ({"ttft_ms": 100.0, "tpot_ms": 10.0}, 0.25)]
)
@pytest.mark.parametrize("rate", [None, 1.0])
def test_the_share_that_holds_is_that_of_the_distribution(
    limits: dict[str, float], share: float, rate: float | None
) -> None:
    found = choose(asked(**limits, rate=rate), constant(100.0, 10.0, spread=0.3))
    assert found.best["holds"].to_numpy() == pytest.approx(share, abs=0.03)
    assert np.log(
        found.best["ttft_ms_upper"] / found.best["ttft_ms_lower"]
    ).to_numpy() == pytest.approx(2 * 1.645 * 0.3, rel=0.05)


def test_the_cheapest_that_holds_is_first_and_costs_its_gpus_over_its_tokens() -> None:
    price = Prices({"MI300X": 2.0, "H200 SXM": 4.0})
    both = asked(gpus=(H200, MI300X), rate=4.0, output_len=101, price=price, ttft_ms=200.0)
    best = choose(both, constant(100.0, 10.0)).best
    assert best[["gpu", "gpus"]].to_numpy().tolist() == [
        ["MI300X", 1],
        ["H200 SXM", 1],
        ["MI300X", 2],
        ["H200 SXM", 2],
    ]
    assert best.loc[0, "cost_per_million"] == pytest.approx(2.0 / 3600 / 404 * 1e6)


@pytest.fixture(scope="module")
def by_the_law() -> Choice:
    price = Prices({"": 2.0})
    gpus = (MI300X, H200, find("MI355X"))
    return choose(
        asked("gpt-oss-120b", gpus, counts=(1, 2, 8, 16), tpot_ms=50.0, price=price), served
    )


def test_fronts_hold_what_nothing_of_the_same_gpu_beats(by_the_law: Choice) -> None:
    assert not any(dominated(own) for _, own in by_the_law.fronts.groupby("gpu"))
    assert dominated(by_the_law.ways[by_the_law.ways["gpu"] == "MI300X"])


def test_more_than_a_node_is_replicas_of_what_lies_in_one(by_the_law: Choice) -> None:
    ways = by_the_law.ways
    assert (ways["tp"] * ways["dp"]).max() == 8
    assert (ways["tp"] * ways["dp"] * ways["replicas"]).equals(ways["gpus"])
    assert set(ways.loc[ways["gpus"] == 16, "replicas"]) == {2}


def test_gpus_that_no_instance_has_are_replicas_of_the_largest_that_divides_them() -> None:
    found = choose(asked(counts=(12,)), constant(100.0, 10.0))
    assert set(found.ways["replicas"] * found.ways["tp"] * found.ways["dp"]) == {12}


def test_ways_that_are_all_slow_are_told_of_without_limits_and_compared_with_them() -> None:
    slow = choose(asked(concurrency=(4,)), constant(100.0, 110.0))
    assert set(slow.best["pace_ms"]) == {np.inf}
    assert deployments_document(slow, 0.9).opening[0].about == "most tokens per GPU at any pace"
    assert (
        choose(asked(concurrency=(4,), tpot_ms=200.0), constant(100.0, 110.0)).best["holds"].iloc[0]
        > 0.9
    )


def test_intervals_hold_their_middle_and_costs_follow_from_tokens(by_the_law: Choice) -> None:
    ways = by_the_law.ways
    for name in (
        "ttft_ms",
        "tpot_ms",
        "tokens_per_s_per_gpu",
        "tokens_per_s_per_user",
        "cost_per_million",
    ):
        assert (ways[f"{name}_lower"] <= ways[name]).all()
        assert (ways[name] <= ways[f"{name}_upper"]).all()
    tokens = 2.0 / 3600 * 1e6 / ways["cost_per_million"]
    assert tokens.to_numpy() == pytest.approx(ways["tokens_per_s_per_gpu"].to_numpy())


def test_what_is_said_of_times_is_said_of_the_answers_alone() -> None:
    def times(rows: pd.DataFrame, gpu: GPU) -> Served:
        found = constant(1.0, 1.0)(rows, gpu)
        ways = sorted({*rows["tp"].astype(int)})
        return replace(found, remarks=(remark("serving-basis", f"of tp {ways}"),))

    found = choose(asked("llama-3.1-70b", (MI300X, find("MI355X"))), times)
    first = found.best.drop_duplicates("gpu")
    said = [f"{one['gpu']}: of tp [{one['tp']}]" for _, one in first.iterrows()]
    texts = [note.text for note in found.remarks if note.code == "serving-basis"]
    assert texts in (said, [f"of tp [{first['tp'].iloc[0]}]"])


def test_weights_without_units_are_read_narrow_and_computed_in_16_bits() -> None:
    seen = []

    def times(rows: pd.DataFrame, gpu: GPU) -> Served:
        seen.append(rows)
        return constant(1.0, 1.0)(rows, gpu)

    choose(asked("gpt-oss-120b", (MI300X, find("MI355X"))), times)
    assert [set(zip(rows["dtype_b"], rows["dtype_a"], strict=True)) for rows in seen[:2]] == [
        {("fp4", "bf16")},
        {("fp4", "fp4")},
    ]


def test_formats_are_those_published_and_those_the_gpu_has_units_for() -> None:
    def formats(model: str, gpu: str, **fields: object) -> set[str]:
        return set(
            choose(asked(model, (find(gpu),), counts=(8,), **fields), constant(1.0, 1.0)).ways[
                "dtype"
            ]
        )

    assert formats("llama-3.1-8b", "MI300X") == {"bf16", "fp8"}
    assert formats("llama-3.1-8b", "A100 80GB SXM4") == {"bf16"}
    assert formats("deepseek-r1", "MI300X") == {"fp8"}
    assert formats("deepseek-r1", "MI355X") == {"fp8", "fp4"}
    assert formats("llama-3.1-8b", "MI300X", dtypes=("bf16",)) == {"bf16"}


def test_what_has_no_room_is_left_out_and_what_has_none_anywhere_refused() -> None:
    found = choose(
        asked("llama-3.1-405b", (H200,), counts=(1, 2, 4, 8), dtypes=("bf16",)), constant(1.0, 1.0)
    )
    assert set(found.ways["gpus"]) == {8}
    with pytest.raises(DataError, match="GiB are missing on 1 GPU"):
        choose(asked("llama-3.1-405b", (H200,), counts=(1,)), constant(1.0, 1.0))
    with pytest.raises(DataError, match="encoder"):
        choose(asked("bert-large"), constant(1.0, 1.0))


def test_the_missing_memory_is_that_of_the_cut_that_is_named_the_one_that_lacks_least() -> None:
    def refused(**cut: object) -> tuple[int, str]:
        with pytest.raises(DataError, match="GiB are missing") as error:
            choose(asked("deepseek-r1", (find("H100"),), counts=(8,), **cut), constant(1.0, 1.0))
        lacks, cut_named = re.findall(
            r"(\d+) GiB are missing on each of 8 GPUs (.+)", str(error.value)
        )[0]
        return int(lacks), cut_named

    assert refused()[1] == "(fp8, tp 8)"
    assert refused() == refused(tp=(8,), ep=(1,))
    experts_alone = refused(tp=(1,))
    assert experts_alone[1] == "(fp8, dp 8, ep 8)"
    assert experts_alone[0] > refused()[0]


def test_an_engine_is_left_out_where_it_does_not_run() -> None:
    found = choose(asked(gpus=(MI300X, H200), engines=("vllm", "trtllm")), constant(1.0, 1.0))
    assert found.ways.groupby("gpu")["engine"].unique().map(set).to_dict() == {
        "MI300X": {"vllm"},
        "H200 SXM": {"vllm", "trtllm"},
    }
    assert [note.code for note in found.remarks].count("engine-not-there") == 1


def test_what_is_said_of_one_gpu_names_it_and_of_all_is_said_once() -> None:
    def times(rows: pd.DataFrame, gpu: GPU) -> Served:
        notes = (
            remark("all", "fitted"),
            *([remark("amd", "wider")] if gpu.vendor == "AMD" else []),
        )
        return replace(constant(1.0, 1.0)(rows, gpu), remarks=notes)

    notes = choose(asked(gpus=(MI300X, H200), dtypes=("bf16",)), times).remarks
    assert [note.text for note in notes] == ["fitted", "MI300X: wider"]


def test_a_number_has_its_unit_or_the_one_that_is_stated() -> None:
    assert quantity("ttft", "2 s", MILLISECONDS) == quantity("ttft", 2000, MILLISECONDS) == 2000.0
    assert quantity("ttft", "1h", MILLISECONDS) == quantity("ttft", "60 min", MILLISECONDS) == 3.6e6
    assert quantity("rate", "240/min", PER_SECOND) == pytest.approx(4.0)
    assert prices("€2/h") == prices("2€/h") == prices("2 €") == Prices({"": 2.0}, "€")
    assert prices({"mi300x": "2.5 EUR/h"}) == Prices({"MI300X": 2.5}, "EUR")
    for wrong in ("-1", "0", "2 m", "soon", "nan"):
        with pytest.raises(ParameterError, match="ttft must be a number above 0"):
            quantity("ttft", wrong, MILLISECONDS)
    for far in ("1e308", "1e-308", "1e14/min", "1e-9/h"):
        with pytest.raises(ParameterError, match="rate must be from 1e-09/s to"):
            quantity("rate", far, PER_SECOND)
    with pytest.raises(ParameterError, match="price must be from"):
        prices("$1e308/h")
    for free in (0, "0.0/h", {"MI300X": 0}):
        with pytest.raises(ParameterError, match="price must be a number above 0"):
            prices(free)
    for wrong in ("MI300X=2,3", "$2,€3", "MI300X=$2,H200=€3", "2$5"):
        with pytest.raises(FlopcastError):
            prices(wrong)


def test_electricity_is_priced_by_the_kilowatt_hour_in_the_currency_of_the_gpus() -> None:
    free = Prices()
    assert electricity("$0.12", free) == electricity("120 $/MWh", free) == Electricity(0.12, "$")
    assert electricity(0.12, prices("€2/h")) == Electricity(0.12, "€")
    assert not electricity(None, free)
    for wrong in ("free", "0", "-1", "0.1/h", "$2/h"):
        with pytest.raises(ParameterError, match="electricity must be a number above 0"):
            electricity(wrong, free)
    with pytest.raises(ParameterError, match="electricity must be in the currency of price, €"):
        electricity("$0.12", prices("€2/h"))


def test_a_gpu_of_ones_own_is_priced_by_its_name() -> None:
    own = replace(MI300X, name="MI375X")
    assert check_priced(prices("MI375X=5,mi300x=4"), [own, MI300X]).of("MI375X") == 5
    with pytest.raises(UnknownGPUError, match="MI375X"):
        check_priced(prices("MI375X=5,MI300X=4"), [MI300X])


def test_a_gpu_without_links_serves_alone_and_replicas_of_it_more() -> None:
    found = choose(asked(gpus=(find("L40S"),), counts=(1, 2), tpot_ms=50.0), served)
    assert set(found.ways["tp"]) == {1}
    assert set(found.ways["gpus"]) == {1, 2}
    assert (found.ways[["ttft_ms", "tpot_ms"]] > 0).all(axis=None)
    with pytest.raises(DataError, match="all links, one way"):
        choose(asked("llama-3.1-70b", gpus=(find("L40S"),), counts=(4,), tpot_ms=50.0), served)


def growing(rows: pd.DataFrame, gpu: GPU) -> Served:
    """Return times that grow with the requests under way of an instance, and fall with the GPUs that share a layer."""
    tpot = ((5.0 + rows["concurrency"]) / rows["tp"]).to_numpy()
    return Served(10.0 * tpot, tpot, np.full(len(rows), 0.2), np.full(len(rows), 0.2))


def test_without_a_rate_smaller_instances_stand_for_a_number_that_is_none_of_theirs() -> None:
    question = asked(counts=(8,), dtypes=("bf16",))
    found = choose(question, growing)
    assert set(found.ways["tp"]) == {1, 2, 4, 8}
    assert set(found.ways["gpus"]) == set(found.best["gpus"]) == {8}
    assert set(choose(replace(question, tpot_ms=50.0), growing).best["gpus"]) == {8}


def test_of_ways_that_cost_the_same_and_are_as_sure_the_quickest_is_first() -> None:
    best = choose(asked(counts=(8,), dtypes=("bf16",), rate=1.0), growing).best.loc[0]
    assert (best["holds"], best["tp"]) == (1.0, 8)

    def by_first_token(rows: pd.DataFrame, gpu: GPU) -> Served:
        found = growing(rows, gpu)
        return replace(found, tpot_ms=np.full(len(rows), 5.0))

    best = choose(asked(counts=(8,), dtypes=("bf16",), rate=1.0), by_first_token).best.loc[0]
    assert (best["holds"], best["tp"]) == (1.0, 8)


def test_fewer_requests_under_way_are_surer_where_the_most_barely_hold() -> None:
    question = asked(counts=(1,), dtypes=("bf16",), tpot_ms=37.0)
    likely = choose(replace(question, sure=0.5), growing)
    assert likely.best.loc[0, "concurrency"] == 32
    assert likely.best.loc[0, "holds"] == pytest.approx(0.5)
    sure = choose(question, growing)
    assert sure.best.loc[0, "concurrency"] == 23
    assert sure.best.loc[0, "holds"] >= 0.9
    gamble = cheapest(sure, 0.5)
    assert gamble is not None
    assert gamble["concurrency"] == 32
    assert cheapest(sure, 1.1) is None


def test_what_cannot_end_the_requests_gives_the_tokens_that_it_ends() -> None:
    price = Prices({"": 2.0})
    question = asked(
        counts=(1,), rate=12.0, output_len=101, concurrency=(1, 8), dtypes=("bf16",), price=price
    )
    one = choose(question, constant(100.0, 10.0)).best.loc[0]
    assert one["tokens_per_s_per_gpu"] == pytest.approx(8 / 1.1 * 101)
    assert one["cost_per_million"] == pytest.approx(2.0 / 3600 / (8 / 1.1 * 101) * 1e6)


@pytest.mark.parametrize("rate", [None, 1.0])
def test_where_none_holds_the_nearest_is_the_quickest(rate: float | None) -> None:
    best = choose(asked(counts=(8,), rate=rate, ttft_ms=1e-3), growing).best
    assert best.loc[0, "tp"] == 8


def test_requests_under_way_that_no_pace_tells_of_are_named() -> None:
    found = choose(asked(counts=(1,), concurrency=(1, 4096), dtypes=("bf16",)), growing)
    (told,) = (note for note in found.remarks if note.code == "beyond-paces")
    assert told.values["concurrency"] == (4096,)


def test_sequences_that_a_model_is_not_configured_for_are_refused() -> None:
    longest = asked(counts=(1,), input_len=131_062, output_len=10, dtypes=("bf16",))
    assert len(choose(longest, constant(100.0, 10.0)).ways)
    with pytest.raises(ParameterError, match="131,072 tokens"):
        choose(replace(longest, output_len=11), constant(100.0, 10.0))


def test_answers_of_one_token_have_no_time_per_token() -> None:
    found = choose(asked(counts=(1,), output_len=1, dtypes=("bf16",)), constant(100.0, 10.0))
    assert found.ways["tpot_ms"].isna().all()
    assert found.best["ttft_ms"].to_numpy() == pytest.approx(100.0)
    assert "no-further-token" in [note.code for note in found.remarks]
    assert "token every" not in str(deployments_document(found, 0.9).opening)


def test_a_way_of_another_checkpoint_says_that_one_is_needed() -> None:
    found = choose(
        asked("deepseek-r1", counts=(8,), gpus=(find("MI355X"),), dtypes=("fp4",)),
        constant(100.0, 10.0),
    )
    first = found.best.iloc[0]
    assert "quantised to fp4" in why_no_command(first, found.question)
    assert serve_command(first, found.question) == ""
    assert why_no_command(first.replace("fp4", "fp8"), found.question) == ""


def test_own_runs_say_how_experts_are_shared_out_unless_that_is_asked() -> None:
    def times(rows: pd.DataFrame, gpu: GPU) -> Served:
        measured = (rows["tp"] == 2) & (rows["ep"] == 1) & (rows["concurrency"] == 4)
        return replace(constant(100.0, 10.0)(rows, gpu), from_runs=tuple(measured.tolist()))

    mixture = {
        "model": "gpt-oss-120b",
        "counts": (2,),
        "concurrency": (4, 64),
        "tp": (2,),
        "dtypes": ("fp4",),
    }
    found = choose(asked(**mixture), times)
    assert set(found.ways["ep"]) == {1}
    assert "own-ep" in {one.code for one in found.remarks}
    assert set(choose(asked(**mixture, ep=(2,)), times).ways["ep"]) == {2}
    assert set(choose(asked(**mixture), constant(100.0, 10.0)).ways["ep"]) == {1, 2}


@pytest.mark.parametrize(("name", "most"), [("MI300A", 4), ("MI300X", 8), ("GB200", 8)])
def test_an_instance_lies_in_a_node_of_its_gpu(name: str, most: int) -> None:
    counts = {"counts": (1, 2, 4, 8, 16), "tp": (1, 2, 4, 8, 16)}
    ways = choose(asked(gpus=(find(name),), **counts), constant(100.0, 10.0)).ways
    assert ways["tp"].max() == most
    ways = choose(asked(gpus=(find(name),), **counts, node_gpus=2), constant(100.0, 10.0)).ways
    assert ways["tp"].max() == 2


def test_gpus_that_only_read_prompts_are_counted_and_have_no_energy() -> None:
    found = choose(asked(prefill_gpus=1, counts=(2, 3, 4), dtypes=("bf16",)), constant(100.0, 10.0))
    one, two = (found.ways[found.ways["tp"] == tp].iloc[0] for tp in (1, 2))
    assert (one["gpus"], two["gpus"]) == (2, 3)
    plain = choose(asked(counts=(1,), dtypes=("bf16",)), constant(100.0, 10.0)).ways.iloc[0]
    assert 2 * one["tokens_per_s_per_gpu"] == pytest.approx(plain["tokens_per_s_per_gpu"])
    assert found.ways[["power_w", "joules_per_token"]].isna().all(axis=None)
    assert plain["power_w"] > 0


def test_gpus_for_prompts_must_hold_the_weights() -> None:
    with pytest.raises(DataError, match="missing on 1 GPU for prompts"):
        choose(asked("llama-3.1-405b", counts=(9,), prefill_gpus=1), constant(100.0, 10.0))
