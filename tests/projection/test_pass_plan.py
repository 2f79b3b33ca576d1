"""Passes that record a few kernels each, and the proof of what they recorded."""

from __future__ import annotations

import re
import shlex

import pandas as pd
import pytest

from flopcast.errors import DataError, ParameterError
from flopcast.projection.passes import PassPlan, command, pattern, plan_passes, proof
from flopcast.traces.dispatches import dispatch_table


def kernels(names: str | list[str], **columns: object) -> pd.DataFrame:
    """Return launches one after the other, 1 µs each."""
    start = [2000 * place for place in range(len(names))]
    given = {
        "kind": "kernel",
        "name": list(names),
        "start_ns": start,
        "duration_ns": 1000,
        "source": "t:1",
        "gpu": 0,
    }
    return dispatch_table({**given, **columns})


def planned(plan: PassPlan) -> list[list[object]]:
    return plan.kernels[["pass", "name", "per_step", "launches"]].to_numpy().tolist()


def test_kernels_that_run_equally_often_share_a_pass() -> None:
    plan = plan_passes(kernels("abcbadb"), kernels_per_pass=2, steps=10)
    assert planned(plan) == [[1, "b", 3, 30], [1, "a", 2, 20], [2, "c", 1, 10], [2, "d", 1, 10]]
    assert (plan.passes, [note.code for note in plan.notes]) == (
        2,
        ["passes-planned", "filters-with-counters"],
    )
    assert plan.kernels["time_us"].tolist() == [3, 2, 1, 1]


def test_steps_of_the_trace_are_told_from_what_runs_before() -> None:
    """a once before, then twice a step; i is not launched in a step at all."""
    full = kernels("iaaabaab", step=[None, None, 1, 1, 1, 2, 2, 2])
    assert planned(plan_passes(full, steps=10)) == [
        [1, "a", 2, 21],
        [1, "b", 1, 10],
        [1, "i", 0, 1],
    ]


def test_a_list_of_names_is_one_step_and_ranks_run_the_same() -> None:
    assert planned(plan_passes(pd.DataFrame({"name": ["a", "b", "a"]}), steps=3)) == [
        [1, "a", 2, 6],
        [1, "b", 1, 3],
    ]
    assert planned(plan_passes(kernels("aaa", rank=[0, 1, 1]), steps=3)) == [[1, "a", 2, 6]]


def test_the_command_of_a_pass_finds_its_kernels_alone() -> None:
    names = ["void ns::f<float, 4>(float*, int)", "g[x]"]
    words = shlex.split(
        command(plan_passes(kernels(names), steps=7), 1, counters="SQ_WAVES GRBM_COUNT")
    )
    assert words[:4] == ["rocprofv3", "--pmc", "SQ_WAVES", "GRBM_COUNT"]
    assert words[words.index("--kernel-iteration-range") + 1] == "[1-7]"
    assert words[-2:] == ["--", "PROGRAM"]
    found = re.compile(words[words.index("--kernel-include-regex") + 1])
    assert [bool(found.search(name)) for name in (*names, "ns::f<float, 4>", "xg[x]", "ns::f<float, 40>")] == [
        True, True, True, False, False,
    ]  # fmt: skip


def test_parameters_are_left_out_of_patterns_and_namespaces_are_not() -> None:
    name = "(anonymous namespace)::f<int>((anonymous namespace)::t, void (*)(int))"
    assert r"\(anonymous namespace\)::f<int>)" in pattern([name])
    assert pattern(["f(int)", "f(float)"]) == pattern(["f"])


def test_torch_records_every_kernel_in_one_pass() -> None:
    plan = plan_passes(kernels("abc"), "torch", kernels_per_pass=1, steps=5)
    assert (plan.passes, plan.notes[1].code) == (1, "records-all")
    text = command(plan, 1)
    compile(text, "plan", "exec")
    assert "active=5" in text


def test_what_was_recorded_is_proved_launch_by_launch() -> None:
    plan = plan_passes(kernels("aab"), kernels_per_pass=1, steps=2)
    found = proof(plan, {"one": kernels("aaaaaa"), "two": kernels("b")})
    assert not found.complete
    assert found.missing[["name", "covered", "wanted"]].to_numpy().tolist() == [["b", 1, 2]]
    assert found.places[["name", "occurrence"]].to_numpy().tolist() == [
        ["a", 1],
        ["a", 2],
        ["a", 3],
        ["a", 4],
        ["b", 1],
    ]
    assert proof(
        plan, {"one": kernels("aaaa"), "two": kernels("bb"), "others": kernels("c")}
    ).complete


def test_every_rank_must_have_all_kernels() -> None:
    plan = plan_passes(kernels("ab"), steps=1)
    found = proof(plan, {"one": kernels("aab", rank=[0, 1, 1])})
    assert found.missing[["name", "rank"]].to_numpy().tolist() == [["b", 0]]


@pytest.mark.parametrize(
    ("change", "parameter"),
    [
        ({"profiler": "perf"}, "profiler"),
        ({"kernels_per_pass": 0}, "kernels_per_pass"),
        ({"steps": 0}, "steps_per_pass"),
    ],
)
def test_what_cannot_be_planned_is_named(change: dict[str, object], parameter: str) -> None:
    with pytest.raises(ParameterError, match="must be") as caught:
        plan_passes(kernels("a"), **change)  # type: ignore[arg-type]
    assert caught.value.parameter == parameter
    with pytest.raises(DataError, match="no kernels"):
        plan_passes(pd.DataFrame({"name": []}))
