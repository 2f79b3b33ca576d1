"""The model of serving: what answers rest on, two runs that narrow them, a file that is read back and checked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.api.forecasting import calibrate, forecast
from flopcast.datasets import SERVING_MODEL
from flopcast.errors import DataError
from flopcast.hardware import GPU, find
from flopcast.operators.operators import complete
from flopcast.workloads.serving import described, impossible
from flopcast.workloads.serving_conditions import Conditions
from flopcast.workloads.serving_law import ENDS, Law
from flopcast.workloads.serving_model import (
    KNOWN,
    NEW_COMBINATION,
    NEW_GPU,
    NEW_MODEL,
    NEW_RELEASE,
    NEW_SETTING,
    NEW_VENDOR,
    TERMS,
    TIMES,
    TWO_RUNS,
    Served,
    ServingModel,
    covariance,
    load,
    points_of,
    shipped,
    summed,
)
from flopcast.workloads.serving_trees import NODE, Trees

RUN: dict[str, Any] = {
    "op": "serving", "device": "H200 SXM", "model": "llama-3.1-70b", "engine": "vllm", "dtype_a": "fp8",
    "dtype_b": "fp8", "input_len": 1024, "output_len": 1024, "concurrency": 16, "tp": 8,
}  # fmt: skip


def asked(*runs: dict[str, Any]) -> pd.DataFrame:
    return complete(described(pd.DataFrame([RUN | run for run in runs or ({},)]))[0])


def test_the_file_is_small_and_says_where_it_is_from() -> None:
    assert SERVING_MODEL.stat().st_size <= 2e6
    about = shipped().about
    assert len(about["made"]) == 10
    assert "Apache-2.0" in about["sources"]


def test_answers_say_what_they_rest_on_and_are_as_wide() -> None:
    known = (
        shipped()
        .runs.query("engine_version != '' and apart == '' and concurrency == 4")
        .iloc[[0]]
        .assign(op="serving")
    )
    new = [
        ({}, KNOWN),
        ({"tp": 1, "dp": 4}, NEW_SETTING),  # cut as no run is
        ({"input_len": 1500}, NEW_SETTING),
        ({"engine": "sglang"}, NEW_COMBINATION),  # which has run other models on this GPU
        ({"device": "MI300X", "model": "qwen3-235b-a22b"}, NEW_COMBINATION),
        ({"model": "mixtral-8x7b"}, NEW_MODEL),
        ({"device": "MI355X", "dtype_a": "bf16", "dtype_b": "bf16"}, NEW_COMBINATION),
        ({"device": "L40S", "tp": 1}, NEW_GPU),
        ({"device": "Arc Pro B60"}, NEW_VENDOR),
    ]
    found = shipped().served(pd.concat([known, asked(*(run for run, _ in new))], ignore_index=True))
    assert found.basis == (KNOWN, *(f"{basis} and {NEW_RELEASE}" for _, basis in new))
    assert np.isfinite([found.ttft_ms[:-1], found.tpot_ms[:-1]]).all()
    assert np.isnan([found.ttft_ms[-1], found.tpot_ms[-1]]).all()  # its links are not published
    for spread in (found.ttft_spread, found.tpot_spread):
        assert (spread[1:] > spread[0]).all()
    assert [note.code for note in found.remarks] == ["serving-basis", "two-runs"]


def test_a_gpu_of_ones_own_is_of_its_maker() -> None:
    own = replace(find("MI355X"), name="MI375X")
    assert shipped().served(asked({"device": "MI375X"}), own).basis == (
        f"{NEW_GPU} and {NEW_RELEASE}",
    )


def test_more_requests_take_longer_and_more_gpus_are_faster() -> None:
    found = shipped().served(
        asked({"concurrency": 4}, {"concurrency": 64}, {"concurrency": 4, "tp": 2})
    )
    assert found.tpot_ms[1] > found.tpot_ms[0]
    assert found.tpot_ms[2] > found.tpot_ms[0]
    assert found.ttft_ms[1] > found.ttft_ms[0]


def test_no_more_requests_are_served_faster_per_token_by_themselves_or_together() -> None:
    setting = {"device": "MI355X", "model": "gpt-oss-120b", "dtype_a": "fp4", "dtype_b": "fp4"}
    loads = (1, 2, 3, 4, 5, 8, 64)
    rows = asked(*(setting | {"concurrency": load, "tp": 8} for load in loads))
    together = shipped().served(rows).tpot_ms
    assert (np.diff(together) >= 0.0).all()
    alone = [shipped().served(rows.iloc[[place]]).tpot_ms[0] for place in (0, 3)]
    np.testing.assert_allclose(alone, together[[0, 3]], rtol=1e-9)


def test_what_is_not_known_has_no_time() -> None:
    found = shipped().served(asked({}).assign(parameters=np.nan))
    assert np.isnan(found.tpot_ms[0])
    assert np.isnan(found.ttft_ms[0])


def test_own_runs_of_a_release_answer_a_question_that_names_none() -> None:
    measured = asked(*({"engine_version": "0.99.0", "concurrency": one} for one in (4, 64)))
    blind = shipped().served(measured)
    own = shipped().calibrated(
        measured.assign(tpot_ms=0.6 * blind.tpot_ms, ttft_ms=0.6 * blind.ttft_ms)
    )
    found = own.served(asked({"concurrency": 4}, {"concurrency": 64}))
    assert found.basis == (TWO_RUNS, TWO_RUNS)
    np.testing.assert_allclose(found.tpot_ms / blind.tpot_ms, 0.6, rtol=0.05)
    np.testing.assert_allclose(found.ttft_ms / blind.ttft_ms, 0.6, rtol=0.1)


@pytest.mark.parametrize(
    ("column", "growth"),
    [
        ("concurrency", (0.2, 0.5)),
        ("input_len", (np.hypot(0.1, 0.05), np.hypot(0.2, 0.3))),  # more of a prompt an answer
        ("output_len", (0.1, 0.2)),
    ],
)
def test_more_than_any_run_of_the_model_had_is_told_with_wider_intervals(
    column: str, growth: tuple[float, float]
) -> None:
    alike = shipped().runs.query("layers == 80 and width == 8192 and apart == ''")
    most = alike[column].max()
    whole = {"tp": 1, "dp": 4, "concurrency": 4}
    if column == "input_len":  # at the most of prompts for answers too
        whole["output_len"] = most / (alike["input_len"] / alike["output_len"]).max()
    settings = [whole | {column: share * most} for share in (0.5, 1, 2, 4)]
    found = shipped().served(asked(*settings))
    for spread, grown in zip((found.tpot_spread, found.ttft_spread), growth, strict=True):
        assert spread[0] == spread[1]
        np.testing.assert_allclose(
            np.square(spread[2:]) - spread[1] ** 2, np.square([grown, 2 * grown])
        )
    (note,) = [note for note in found.remarks if note.code == "beyond-measured"]
    assert note.values[column] == most


def test_what_a_client_left_out_is_stated_to_calibrate(small: ServingModel, tmp_path: Path) -> None:
    run = {
        "tokenizer_id": "a", "model_id": "llama-3.1-70b", "max_concurrency": 4, "completed": 10, "mean_ttft_ms": 90.0,
        "mean_tpot_ms": 12.0, "total_input_tokens": 10240, "total_output_tokens": 10240, "request_throughput": 0.3,
    }  # fmt: skip
    file, prior = tmp_path / "run.json", tmp_path / "small.parquet"
    file.write_text(json.dumps(run))
    small.save(prior)
    with pytest.raises(DataError, match="give default device=NAME"):
        calibrate(file, prior=str(prior))
    stated = {"device": "MI300X", "dtype_a": "fp8", "tp": "8"}
    own = calibrate(file, prior=str(prior), default=stated)
    assert isinstance(own, ServingModel)
    assert own.about["refused"] == {}
    table = tmp_path / "run.csv"
    more = {
        "device": "MI300X",
        "op": "serving",
        "model": "llama-3.1-70b",
        "dtype_a": "fp8",
        "tp": 8,
        "input_len": 1024,
    }
    more |= {"output_len": 1024, "engine": "vllm", "users": 64, "ttft_ms": 200.0, "tpot_ms": 30.0}
    pd.DataFrame([more]).to_csv(table, index=False)
    both = calibrate(
        [file, table], prior=str(prior), default=stated, rename={"users": "concurrency"}
    )
    assert isinstance(both, ServingModel)
    assert sorted(both.runs["concurrency"][-2:]) == [4, 64]
    file.write_text(
        json.dumps([run, run | {"model_id": "llama-99b"}, run | {"mean_ttft_ms": -90.0}])
    )
    refused = calibrate(file, prior=str(prior), default=stated).about["refused"]
    assert refused == {"unknown-model": 1, "no-token-times": 1}
    assert own.runs.iloc[-1][["device", "dtype_a", "tp"]].tolist() == ["MI300X", "fp8", 8]


CLIENT: dict[str, Any] = {
    "backend": "vllm", "model_id": "openai/gpt-oss-120b", "tokenizer_id": "openai/gpt-oss-120b", "request_rate": "inf",
    "request_throughput": 1.0,
}  # fmt: skip
STATED = {"device": "H200", "tp": "8", "dtype_a": "fp4"}


def client_runs(folder: Path, **times: Sequence[float]) -> list[Path]:
    """Write what a client with random lengths does: their means differ from run to run."""
    files = []
    for place, (users, prompts, answers) in enumerate(
        [(4, 37_080, 36_720), (64, 590_080, 590_080)]
    ):
        run = CLIENT | {
            "max_concurrency": users,
            "num_prompts": 10 * users,
            "completed": 10 * users,
        }
        run |= {"total_input_tokens": prompts, "total_output_tokens": answers}
        run |= {name: values[place] for name, values in times.items()}
        files.append(folder / f"c{users}.json")
        files[-1].write_text(json.dumps(run))
    return files


def test_own_runs_whose_mean_lengths_differ_a_little_are_of_one_setting(tmp_path: Path) -> None:
    files = client_runs(tmp_path, mean_tpot_ms=[11.58, 19.88], mean_ttft_ms=[156.9, 595.5])
    own = calibrate(files, default=STATED)
    assert isinstance(own, ServingModel)
    assert own.calibrated_settings == 1
    setting = RUN | {"model": "gpt-oss-120b", "dtype_a": "fp4", "dtype_b": "fp4"}
    for prompt, answer in ((927, 918), (922, 922), (950, 900)):
        lengths = {"input_len": prompt, "output_len": answer}
        found = own.served(asked(*(setting | lengths | {"concurrency": one} for one in (4, 64))))
        assert found.basis == (TWO_RUNS, TWO_RUNS)
        assert found.tpot_ms == pytest.approx([11.58, 19.88], rel=0.03 if prompt < 950 else 0.06)
        assert found.ttft_ms == pytest.approx([156.9, 595.5], rel=0.1)
    cuts = asked(
        *(
            setting | {"input_len": 922, "output_len": 922} | one
            for one in ({}, {"ep": 8}, {"tp": 4})
        )
    )
    assert own.served(cuts).from_runs == (True, False, False)
    others = (
        {"input_len": 8 * 922},
        {"output_len": 8 * 922},
        {"tp": 4},
        {"ep": 8},
        {"engine": "sglang"},
    )
    far = own.served(
        asked(*(setting | {"input_len": 922, "output_len": 922} | one for one in others))
    )
    assert TWO_RUNS not in far.basis
    assert (far.tpot_spread > found.tpot_spread.max()).all()


def test_what_lies_between_own_runs_is_as_near_with_lengths_drawn_as_with_equal_ones() -> None:
    drawn = ((610, 422), (496, 510), (500, 505))
    users = [
        {"concurrency": n, "model": "qwen3-235b-a22b", "device": "MI300X"} for n in (1, 16, 100)
    ]
    found = []
    for lengths in (drawn, ((535, 479),) * 3):
        runs = asked(
            *(
                one | {"input_len": prompt, "output_len": answer}
                for one, (prompt, answer) in zip(users, lengths, strict=True)
            )
        )
        blind = shipped().served(runs)
        ends = runs.assign(tpot_ms=1.6 * blind.tpot_ms, ttft_ms=1.6 * blind.ttft_ms).iloc[[0, 2]]
        between = shipped().calibrated(ends).served(runs.iloc[[1]])
        assert between.basis == (TWO_RUNS,)
        found.append(between.tpot_ms[0] / blind.tpot_ms[1])
    assert found[0] == pytest.approx(found[1], rel=0.03)


def test_repeats_of_one_run_are_not_two_runs(small: ServingModel) -> None:
    many = asked(*({"model": "mixtral-8x7b", "input_len": one} for one in (1000, 1010, 1020)))
    own = small.calibrated(many.assign(tpot_ms=20.0, ttft_ms=200.0))
    assert own.calibrated_settings == 0
    assert TWO_RUNS not in own.served(many).basis


def test_runs_with_one_of_the_times_are_taken_and_tell_of_that_alone(tmp_path: Path) -> None:
    setting = RUN | {
        "model": "gpt-oss-120b",
        "dtype_a": "fp4",
        "dtype_b": "fp4",
        "input_len": 922,
        "output_len": 922,
    }
    row = asked(setting | {"concurrency": 16})
    plain = shipped().served(row)
    for given, other, values in (
        ("tpot", "ttft", [11.58, 19.88]),
        ("ttft", "tpot", [156.9, 595.5]),
    ):
        files = client_runs(tmp_path, **{f"mean_{given}_ms": values})
        table = pd.DataFrame([setting | {"concurrency": 32, f"{given}_ms": values[1] - 1}])
        own = calibrate([*files, table], default=STATED)
        assert isinstance(own, ServingModel)
        assert own.about["refused"] == {}
        found = own.served(row)
        assert getattr(found, f"{given}_spread")[0] < getattr(plain, f"{given}_spread")[0]
        # a step, of which own runs tell, is where first tokens of shorter prompts go
        assert getattr(found, f"{other}_spread")[0] == pytest.approx(
            getattr(plain, f"{other}_spread")[0], rel=1e-3
        )
        assert getattr(found, f"{other}_ms")[0] == pytest.approx(
            getattr(plain, f"{other}_ms")[0], rel=0.3
        )


def test_less_knowledge_never_narrows_an_interval() -> None:
    known = shipped().runs.query("engine_version != '' and apart == '' and concurrency == 4")
    known = known.iloc[[0, -1]].assign(op="serving")
    named = [
        {"engine_version": "0.19.1"},
        {"model": "mixtral-8x7b"},
        {"input_len": 3000},
        {"device": "MI355X"},
    ]
    rows = pd.concat(
        [known, asked(*named, {"concurrency": 4096}, {"tp": 4, "ep": 4})], ignore_index=True
    )
    ends = [rows.assign(concurrency=many, tpot_ms=30.0, ttft_ms=300.0).iloc[2:] for many in (4, 64)]
    own = [shipped(), shipped().calibrated(ends[0]), shipped().calibrated(pd.concat(ends))]
    rows = rows.assign(tuning="either")
    unnamed = rows.assign(engine_version="")
    every = [one.served(asks) for asks in (unnamed, rows) for one in own]
    for time in TIMES:
        wide = np.array([one.law(time).half_width for one in every]).reshape(2, 3, -1)
        assert (wide[:, 1:] <= wide[:, :-1] * (1 + 1e-6)).all()  # one own run, then two
        assert (wide[1] <= wide[0] * (1 + 1e-6)).all()  # with the release named


def test_runs_that_no_gpu_can_have_made_and_those_with_speculation_are_refused(
    small: ServingModel, tmp_path: Path
) -> None:
    small.save(tmp_path / "small.parquet")
    runs = pd.DataFrame([RUN | {"variant": "", "ttft_ms": 300.0, "tpot_ms": 20.0}] * 4)
    runs["concurrency"] = [4, 8, 16, 32]
    runs.loc[1, "tpot_ms"] = 0.02  # seconds under a name that says milliseconds
    runs.loc[2, "ttft_ms"] = 0.3
    runs.loc[3, ["variant", "tpot_ms"]] = ["eagle", 5.0]
    own = calibrate(runs, prior=str(tmp_path / "small.parquet"))
    assert isinstance(own, ServingModel)
    assert sum(own.about["refused"].values()) == 3
    assert {"above-peak", "other-conditions"} < set(own.about["refused"])
    assert own.runs["concurrency"].iloc[-1] == 4
    with pytest.raises(DataError, match="no forecast asks about \\(ngram\\)"):
        calibrate(runs.iloc[[3]].assign(variant="ngram"), prior=str(tmp_path / "small.parquet"))


def test_two_runs_of_a_setting_move_and_narrow_the_others(small: ServingModel) -> None:
    users = [{"concurrency": n, "model": "mixtral-8x7b"} for n in (4, 16, 64)]
    before = small.served(asked(*users))
    measured = asked(users[0], users[2]).assign(
        tpot_ms=1.5 * before.tpot_ms[[0, 2]], ttft_ms=1.5 * before.ttft_ms[[0, 2]]
    )
    own = small.calibrated(measured)
    after = own.served(asked(*users))
    assert after.basis == (TWO_RUNS,) * 3
    assert after.tpot_ms / before.tpot_ms == pytest.approx(1.5, rel=0.1)
    assert after.ttft_ms / before.ttft_ms == pytest.approx(1.5, rel=0.15)
    assert (after.tpot_spread < before.tpot_spread).all()
    other = asked({"model": "qwen3-32b"})  # of the same stack
    assert 1.0 < own.served(other).tpot_ms[0] / small.served(other).tpot_ms[0] < 1.5


def test_between_two_slow_runs_more_requests_are_not_faster_per_token(
    small: ServingModel, tmp_path: Path
) -> None:
    users = asked(*({"concurrency": 2**n} for n in range(8)))
    before = small.served(users)
    ends = users.iloc[[0, 6]].assign(
        tpot_ms=1.18 * before.tpot_ms[[0, 6]], ttft_ms=before.ttft_ms[[0, 6]]
    )
    small.calibrated(ends).save(tmp_path / "own.parquet")
    own = load(tmp_path / "own.parquet")
    after = own.served(users).tpot_ms
    assert (np.diff(after) >= -1e-9).all()
    assert after[[0, 6]] == pytest.approx(ends["tpot_ms"].to_numpy(), rel=0.01)
    # a third run says otherwise, and is heeded
    faster = users.iloc[[2]].assign(tpot_ms=0.9 * after[2])
    assert own.calibrated(faster).served(users).tpot_ms[2] < 0.92 * after[2]


def test_far_beyond_its_own_runs_a_setting_is_as_sure_as_without_them(small: ServingModel) -> None:
    users = asked(*({"concurrency": n, "model": "mixtral-8x7b"} for n in (4, 16, 1024)))
    before = small.served(users)
    own = small.calibrated(users[:2].assign(tpot_ms=before.tpot_ms[:2], ttft_ms=before.ttft_ms[:2]))
    after = own.served(users)
    assert after.basis[1] == TWO_RUNS
    assert after.tpot_spread[1] < before.tpot_spread[1]
    assert (after.tpot_spread <= before.tpot_spread * (1 + 1e-9)).all()
    near = asked({"concurrency": 24, "model": "mixtral-8x7b"})
    assert "no own run of the setting has more than 16 requests" in " ".join(
        map(str, own.served(near).remarks)
    )


def test_a_request_that_is_alone_waits_for_no_prompt_while_its_answer_is_written() -> None:
    few, many = ({"input_len": 100_000, "output_len": 200, "concurrency": n} for n in (1, 16))
    found = points_of(asked(few, many)).steps.tpot
    assert found["prompts"][0] == found["scores"][0] == 0.0
    assert found["scores"][1] > found["cache"][1]


def test_prompts_are_not_read_faster_than_the_peak_however_short_the_answers_are() -> None:
    asks = asked(*({"output_len": answer, "concurrency": 512.0} for answer in (1, 2, 16, 1024)))
    found, steps = shipped().served(asks), points_of(asks, slower=shipped().slower).steps
    whole = found.ttft_ms + (asks["output_len"].to_numpy() - 1) * found.tpot_ms
    prompts = steps.running * (steps.ttft["products"] + steps.ttft["scores"])
    assert (whole >= prompts * (1 - 1e-9)).all()


def test_a_gpu_of_ones_own_has_the_kernels_of_the_one_it_is_based_on() -> None:
    base = find("MI300X")
    own = replace(base, name="MI300Y", based_on="MI300X")
    there = points_of(asked({"device": "MI300X"}), slower=shipped().slower).steps
    copy = points_of(asked({"device": "MI300Y"}), own, shipped().slower).steps
    assert {name: float(one[0]) for name, one in copy.tpot.items()} == {
        name: float(one[0]) for name, one in there.tpot.items()
    }


def test_a_run_far_off_the_others_of_its_setting_counts_for_little(small: ServingModel) -> None:
    users = asked(*({"concurrency": n, "model": "mixtral-8x7b"} for n in (4, 16, 64)))
    before = small.served(users).tpot_ms
    beside = asked(*({"concurrency": n, "model": "mixtral-8x7b"} for n in (8, 32)))
    for times, most in ((2.0, 2.0), (20.0, 1.3)):  # the second: something else
        own = small.calibrated(users.assign(tpot_ms=before * [1, times, 1]))
        ratio = own.served(users).tpot_ms / before
        assert ratio == pytest.approx([1.0, times, 1.0], rel=1e-6)
        moved = own.served(beside).tpot_ms / small.served(beside).tpot_ms
        assert moved.max() < most


def test_runs_without_a_time_are_refused(small: ServingModel) -> None:
    with pytest.raises(DataError, match="tpot_ms or ttft_ms"):
        small.calibrated(asked({}))


def test_a_covariance_is_one(small: ServingModel) -> None:
    points = points_of(small.runs)
    for name in TIMES:
        fit = small.fits[name]
        shares = summed(points, fit, name)[1]
        found = covariance(points, points, shares, shares, fit)
        # not by its mirror
        assert found == pytest.approx(covariance(points, replace(points), shares, shares, fit))
        assert found == pytest.approx(found.T)
        assert np.linalg.eigvalsh(found).min() > -1e-8 * len(found)
        for term in ("run", "configuration"):  # alone, each counts for those of one name
            named = points.names[term]
            alone = replace(fit, terms=tuple(float(one == term) for one in TERMS))
            same = (named[:, None] == named) & (named != 0)
            assert (covariance(points, points, shares, shares, alone) == same).all()
            assert same.any()


def test_own_runs_are_added_as_if_all_were_learnt_together(small: ServingModel) -> None:
    """Held against one solution of all runs, learnt and own, whose targets are what the weights say."""
    own = asked({"concurrency": 4}, {"concurrency": 64}, {"model": "mixtral-8x7b"})
    blind = small.served(own)
    own = own.assign(tpot_ms=1.3 * blind.tpot_ms, ttft_ms=1.4 * blind.ttft_ms)
    added = small.calibrated(own)
    every = points_of(added.runs)
    count = len(small.runs)
    for time in TIMES:
        fit = added.fits[time]
        base, shares = summed(every, fit, time)
        parts = np.array([fit.stacks.get(stack, (0.0,))[0] for stack in every.stacks])
        assert fit.stock is not None
        factors = parts * fit.stock.longer(added.runs["concurrency"].to_numpy(dtype=float))
        missing = np.log(own[time].to_numpy(dtype=float)) - (base + fit.centre + factors)[count:]
        before = small.fits[time].weights
        used = np.append(before != 0, [True, True, True])  # not every run has a first token
        shares = shares[used]
        whole = covariance(every.part(used), every.part(used), shares, shares, fit)
        whole += fit.noise * np.eye(len(whole))
        learnt = whole[:-3, :-3] @ before[before != 0]
        expected = np.linalg.solve(whole, np.concatenate([learnt, missing]))
        np.testing.assert_allclose(fit.weights[used], expected, atol=1e-8)


def test_kernels_that_reach_less_make_answers_slower(small: ServingModel) -> None:
    few = {"few|H200 SXM|vllm|fp8": np.log(2.0), "few|H200 SXM||": -np.log(2.0)}
    plain, slow = (replace(small, slower=table) for table in ({}, few))
    alone = {"concurrency": 1, "tp": 1}
    settings = asked(alone, alone | {"engine": "sglang"}, alone | {"device": "B200 (HGX)"})
    ratio = slow.served(settings).tpot_ms / plain.served(settings).tpot_ms
    assert 1.3 < ratio[0] < 2.0  # by the engine's own
    assert 0.5 < ratio[1] < 0.8  # by any engine's
    assert ratio[2] == pytest.approx(1.0, rel=1e-2)


def test_a_saved_model_says_the_same_and_another_file_is_refused(
    small: ServingModel, tmp_path: Path
) -> None:
    replace(small, slower={"few|H200 SXM||": 0.25}).save(tmp_path / "own.parquet")
    assert load(tmp_path / "own.parquet").slower == {"few|H200 SXM||": 0.25}
    small.save(tmp_path / "own.parquet")
    again = load(tmp_path / "own.parquet")
    assert again.served(asked({})).tpot_ms == pytest.approx(
        small.served(asked({})).tpot_ms, rel=1e-3
    )
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "foreign.parquet")
    for name in ("foreign.parquet", "none.parquet"):
        with pytest.raises(DataError, match="no model of serving"):
            load(tmp_path / name)


def test_runs_of_a_table_are_added_by_calibrate_and_read_by_forecast(
    small: ServingModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flopcast.api.forecasting.shipped", lambda: small)
    pd.DataFrame(
        [
            RUN | {"model": "mixtral-8x7b", "concurrency": n, "ttft_ms": 100.0, "tpot_ms": 20.0}
            for n in (4, 64)
        ]
    ).to_csv(tmp_path / "runs.csv", index=False)
    own = calibrate(tmp_path / "runs.csv")
    assert isinstance(own, ServingModel)
    own.save(tmp_path / "own.parquet")
    asked_of = {"gpu": "H200", "gpus": 8, "tp": 8, "dtype": "fp8", "concurrency": [4, 64]}
    found = forecast("mixtral-8x7b", release=str(tmp_path / "own.parquet"), **asked_of)
    assert found.ways.query("tp == 8 and ep == 1")["tpot_ms"].to_numpy() == pytest.approx(
        20.0, rel=0.25
    )
    with pytest.raises(DataError, match="no model of serving"):
        forecast("mixtral-8x7b", release=str(tmp_path / "runs.parquet"), **asked_of)


def test_trees_answer_for_first_tokens_where_something_is_new() -> None:
    whole = shipped()
    alone = replace(
        whole, fits={name: replace(fit, trees=None) for name, fit in whole.fits.items()}
    )
    known = whole.runs.query("engine_version != '' and apart == ''").iloc[[0]].assign(op="serving")
    rows = pd.concat([known, asked({"model": "mixtral-8x7b"})], ignore_index=True)
    with_trees, without = whole.served(rows), alone.served(rows)
    assert with_trees.tpot_ms == pytest.approx(without.tpot_ms)
    assert (with_trees.ttft_ms == without.ttft_ms).tolist() == [True, False]


@pytest.mark.parametrize(
    "nodes",
    [
        [(0, 0, 1.0)],
        [(0, 2, 1.0), (-1, 0, 1.0)],
        [(-1, 0, np.inf)],
        [],
        [(99, 1, 1.0), (-1, 0, 1.0)],
    ],
)
def test_trees_that_lead_nowhere_are_refused(nodes: list[tuple[int, int, float]]) -> None:
    said = Trees(np.array(nodes, NODE), np.zeros(1, np.intp), ()).to_json()
    with pytest.raises(ValueError, match="trees of serving"):
        Trees.from_json(said)


def test_trees_are_the_same_once_read() -> None:
    trees = Trees(
        np.array([(0, 2, 1.0), (-1, 0, 3.0), (-1, 0, 5.0)], NODE),
        np.zeros(1, np.intp),
        (("engine", "vllm"),),
    )
    again = Trees.from_json(trees.to_json())
    assert again.predicted(np.array([[0.5], [1.5]])).tolist() == [3.0, 5.0]
    assert again.words == trees.words


@pytest.mark.parametrize(
    ("name", "factor", "reason"),
    [
        ("mean_tpot_ms", 1e3, "far-off-forecast"),
        ("mean_ttft_ms", 1e3, "far-off-forecast"),
        ("mean_tpot_ms", 1e-3, "above-peak"),
        ("mean_ttft_ms", 1e-3, "far-off-forecast"),
    ],
)
def test_times_a_thousand_times_off_are_refused_for_what_they_are(
    tmp_path: Path, name: str, factor: float, reason: str
) -> None:
    usual = {"mean_tpot_ms": [11.58, 19.88], "mean_ttft_ms": [156.9, 595.5]}[name]
    files = client_runs(tmp_path, **{name: [factor * one for one in usual]})
    with pytest.raises(DataError, match=reason):
        calibrate(files, default=STATED)


@pytest.mark.parametrize("users", [(4,), (4, 64)])
def test_more_requests_than_own_runs_had_are_not_served_faster(users: tuple[int, ...]) -> None:
    setting = RUN | {
        "model": "gpt-oss-120b",
        "dtype_a": "fp4",
        "dtype_b": "fp4",
        "input_len": 922,
        "output_len": 922,
    }
    runs = asked(*(setting | {"concurrency": one} for one in users))
    slow = runs.assign(tpot_ms=3.0 * shipped().served(runs).tpot_ms, ttft_ms=500.0)
    beyond = asked(*(setting | {"concurrency": max(users) * times} for times in (1, 2, 4, 16)))
    at_most, *more = shipped().calibrated(slow).served(beyond).tpot_ms
    assert min(more) >= at_most * (1 - 1e-9)


def test_a_first_token_far_sooner_than_a_step_is_impossible() -> None:
    few = {"model": "gpt-oss-120b", "dtype_a": "fp4", "dtype_b": "fp4"}
    runs = asked(few, few).assign(tpot_ms=20.0, ttft_ms=[1.5, 60.0], variant="")
    said = impossible(runs)
    assert "give unit ttft_ms=s" in said[0]
    assert said[1] == ""


def test_own_runs_of_a_stack_are_carried_over_to_other_models_of_it() -> None:
    whole = shipped()
    measured = []
    for model in ("qwen3-235b-a22b", "gpt-oss-120b", "llama-3.1-70b"):
        measured += [{"model": model, "concurrency": users, "tp": 4} for users in (4, 64)]
    runs = asked(*measured)
    plain = whole.served(runs)
    own = whole.calibrated(runs.assign(tpot_ms=2.0 * plain.tpot_ms, ttft_ms=plain.ttft_ms))
    other = asked({"model": "mixtral-8x7b"}, {"model": "mixtral-8x7b", "engine": "sglang"})
    before, after = whole.served(other), own.served(other)
    ratio = after.tpot_ms / before.tpot_ms
    assert 1.4 < ratio[0] < 2.0
    assert ratio[1] == pytest.approx(1.0, abs=0.05)
    blind = whole.served(other.assign(tuning="either"))
    widths = [one.law("tpot_ms").half_width[0] for one in (before, after, blind)]
    assert widths == sorted(widths)
    assert widths[0] < widths[1]
    saved = own.fits["tpot_ms"].stacks
    assert list(saved) == ["NVIDIA|vllm"]


def test_stock_engines_are_slower_and_either_holds_both() -> None:
    rows = asked(*({"device": "MI355X", "model": "gpt-oss-120b"},) * 3)
    served = shipped().served(rows.assign(tuning=["tuned", "stock", "either"]))
    for time in TIMES:
        lower, middle, upper = served.law(time).quantiles([ENDS[0], 0.0, ENDS[1]]).T
        assert lower[2] == pytest.approx(lower[0])
        assert middle[2] == pytest.approx(np.sqrt(middle[0] * middle[1]))
        assert upper[2] == pytest.approx(upper[1])


def of_published(lengths: str) -> pd.DataFrame:
    """Return the settings of ATOM's published runs with such lengths, which state none."""
    runs = shipped().runs
    chosen = runs[(runs["engine"] == "atom") & (runs["lengths"] == lengths)]
    chosen = chosen.drop(columns="group").reset_index(drop=True)
    return chosen.assign(op="serving", lengths="")


def said_by(served: Served) -> set[str]:
    return {note.code for note in served.remarks if note.code.startswith("lengths")}


def test_equal_lengths_make_the_first_token_late_and_change_no_other() -> None:
    for rows in (of_published("equal"), of_published("")):
        equal, drawn = (shipped().served(rows.assign(lengths=one)) for one in ("equal", "drawn"))
        first = drawn.ttft_ms / equal.ttft_ms
        assert 0.4 < np.median(first) < 0.7
        assert (first < 1.0).mean() > 0.95
        further = drawn.tpot_ms / equal.tpot_ms
        assert np.quantile(np.abs(np.log(further)), 0.9) < 0.1
        assert np.median(further) == pytest.approx(1.0, abs=0.05)
        assert not said_by(equal) | said_by(drawn)


def test_lengths_that_are_not_stated_are_those_of_the_nearest_published_runs() -> None:
    for lengths, word, codes in (
        ("equal", "equal", {"lengths-as-published"}),
        ("", "drawn", set()),
    ):
        rows = of_published(lengths)
        plain, stated = shipped().served(rows), shipped().served(rows.assign(lengths=word))
        assert plain.ttft_ms == pytest.approx(stated.ttft_ms)
        assert plain.tpot_ms == pytest.approx(stated.tpot_ms)
        assert said_by(plain) == codes
    far = asked({"device": "MI355X", "engine": "atom", "input_len": 2000, "output_len": 400})
    assert not said_by(shipped().served(far))


def test_a_setting_that_was_measured_with_other_lengths_is_a_new_one() -> None:
    for lengths, other in (("equal", "drawn"), ("", "equal")):
        rows = of_published(lengths)
        rows = rows[rows["concurrency"] > 1].reset_index(drop=True)
        known = [one.startswith(KNOWN) for one in shipped().served(rows).basis]
        changed = [
            one.startswith(KNOWN) for one in shipped().served(rows.assign(lengths=other)).basis
        ]
        assert all(known)
        assert not any(changed)


@pytest.mark.parametrize("device", ["H200 SXM", "MI355X"])
def test_equal_lengths_that_no_run_had_are_answered_as_drawn_ones_and_told(device: str) -> None:
    rows = asked({"device": device})
    plain, equal = (shipped().served(rows.assign(lengths=one)) for one in ("", "equal"))
    assert plain.ttft_ms == pytest.approx(equal.ttft_ms)
    assert plain.basis == equal.basis
    assert said_by(plain) == set()
    assert said_by(equal) == {"lengths-unknown"}


def test_one_request_waits_for_no_wave() -> None:
    rows = of_published("equal").drop_duplicates(["model", "input_len", "tp"])
    rows = rows.assign(concurrency=1.0)
    found = [shipped().served(rows.assign(lengths=one)) for one in ("", "equal", "drawn")]
    assert found[0].ttft_ms == pytest.approx(found[2].ttft_ms)
    assert found[1].ttft_ms == pytest.approx(found[2].ttft_ms)
    assert not said_by(found[0]) | said_by(found[1])


def test_own_runs_that_do_not_say_their_lengths_answer_what_does_not_either() -> None:
    rows = of_published("equal").iloc[:1].assign(engine_version="")
    rows = pd.concat([rows.assign(concurrency=users) for users in (4.0, 64.0)], ignore_index=True)
    times = {"tpot_ms": [21.0, 45.0], "ttft_ms": [90.0, 700.0]}
    own = shipped().calibrated(rows.assign(**times))
    found = own.served(rows)
    assert found.from_runs == (True, True)
    assert found.ttft_ms == pytest.approx(times["ttft_ms"])
    assert not said_by(found)
    equal = own.served(rows.assign(lengths="equal"))
    assert equal.from_runs == (False, False)
    assert (equal.ttft_ms > found.ttft_ms).all()


def test_own_runs_with_equal_lengths_answer_such_questions_alone() -> None:
    rows = asked(*({"concurrency": users} for users in (4, 64, 4, 64)))
    rows = rows.assign(lengths=["equal", "equal", "drawn", "drawn"])
    times = {"tpot_ms": [9.0, 15.0, 9.0, 15.0], "ttft_ms": [160.0, 900.0, 80.0, 450.0]}
    found = shipped().calibrated(rows.assign(**times)).served(rows)
    assert found.ttft_ms == pytest.approx(times["ttft_ms"])
    assert not said_by(found)


def test_another_cut_of_a_model_that_was_run_is_as_sure_as_a_new_setting() -> None:
    """The model says itself how its stack is set up: what varies between models is not on top."""
    whole = shipped()
    runs = asked(*({"model": "mixtral-8x7b", "concurrency": users} for users in (4, 64)))
    own = whole.calibrated(runs.assign(tpot_ms=1.1 * whole.served(runs).tpot_ms))
    cuts = asked(
        {"model": "mixtral-8x7b", "tp": 4},
        {"model": "mixtral-8x7b", "device": "B200 (HGX)", "tp": 4},
    )
    served = own.served(cuts)
    spread, _ = whole.fits["tpot_ms"].spreads["NVIDIA: new setting"]
    assert served.from_runs == (False, False)
    assert served.tpot_spread[0] < served.tpot_spread[1]
    assert served.tpot_spread[0] <= max(spread, whole.fits["tpot_ms"].spreads[NEW_RELEASE][0])


SETTINGS = [
    {"device": device, "model": model, "engine": engine, "concurrency": users, "input_len": prompt}
    for device in ("MI300X", "MI355X", "H200 SXM", "B200 (HGX)")
    for model in ("gpt-oss-120b", "deepseek-r1", "mixtral-8x7b")
    for engine in ("vllm", "sglang")
    for users in (1, 16, 100, 1024)
    for prompt in (128, 1024, 32768)
]


@pytest.mark.parametrize("prefill_gpus", [0, 8])
def test_no_quantile_of_a_stock_engine_is_below_that_of_a_tuned_one(prefill_gpus: int) -> None:
    """Of all settings, with the chance to keep any limit, under conditions too."""

    def served(rows: pd.DataFrame, gpu: GPU) -> Served:
        return shipped().served(rows, gpu)

    rows = asked(*SETTINGS)
    laws: dict[str, list[Law]] = {}
    for tuning in ("tuned", "either", "stock"):
        for device, of_device in rows.assign(tuning=tuning).groupby("device", sort=False):
            conditions = Conditions(speculation="mtp", prefill_gpus=prefill_gpus)
            source = conditions.times(served)
            answer = source(of_device.reset_index(drop=True), find(str(device)))
            for time in TIMES:
                laws.setdefault(time, []).append(answer.law(time))
    normals = np.linspace(-5.0, 5.0, 41)
    for time in TIMES:
        every = Law.joined(laws[time], (3, len(rows)))
        quantiles = every.quantiles(normals)
        assert (np.diff(quantiles, axis=0) >= -1e-9 * quantiles[1:]).all()
        assert (np.diff(quantiles, axis=2) >= 0.0).all()
        for limit in np.geomspace(0.5, 1e6, 40):
            assert (np.diff(every.chance(limit), axis=0) <= 1e-9).all()


@pytest.mark.parametrize(
    ("newer", "elder"),
    [("MI355X", "MI325X"), ("MI325X", "MI300X"), ("H200 SXM", "H100 SXM5")],
)
def test_a_newer_gpu_is_not_forecast_much_slower_than_its_elder(newer: str, elder: str) -> None:
    runs = []
    for model in ("llama-3.1-70b", "llama-3.1-8b", "gpt-oss-120b", "qwen3-32b"):
        for engine in ("vllm", "sglang"):
            for users in (1, 16, 64):
                runs.append({"model": model, "engine": engine, "concurrency": users})
    served = {}
    for device in (newer, elder):
        served[device] = shipped().served(asked(*[run | {"device": device} for run in runs]))
    ratio = served[newer].tpot_ms / served[elder].tpot_ms
    assert ratio.max() < 1.1
    assert np.median(ratio) < 1.0
