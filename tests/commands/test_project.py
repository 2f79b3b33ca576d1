"""`flopcast project`: from files to tables, JSON, a page and a projected trace."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import flopcast as fc
from flopcast.api.projecting import ProjectedTrace, project, project_job, project_traces
from flopcast.api.tables import load_measurements
from flopcast.commands.declared import said
from flopcast.errors import DataError, ParameterError
from flopcast.hardware import find
from flopcast.hardware.networks import parse_network
from flopcast.laws import OF_COMPUTATION
from flopcast.output import FILES
from flopcast.projection.collective_laws import LAWS as COMMUNICATION_LAWS
from flopcast.projection.collective_laws import collective_us
from flopcast.projection.whole_trace import GAPS, projected_times
from flopcast.readers import Measurements
from flopcast.readers.execution_trace import read_execution_trace
from flopcast.report.document import Table
from flopcast.report.terminal import SCREEN
from flopcast.tests.commands import running
from flopcast.tests.commands.predicted_runs import measured, save_run
from flopcast.tests.readers.kineto.made_up import write_trace

invoke = partial(running.call, "project")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a trace of 30 products."""
    return write_trace(tmp_path_factory.mktemp("plain") / "t.json")


@pytest.fixture(scope="module")
def known(plain: Path) -> ProjectedTrace:
    return project(plain, target="MI355X", sweep=["memory_bw_gbs=4000,16000"])


def test_the_outcome_stands_first(plain: Path) -> None:
    result = invoke(plain, "--target", "MI355X")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("t.json on MI355X")
    assert "9 ms on MI300X → " in result.output.splitlines()[2]
    assert len(result.output.splitlines()) <= SCREEN
    assert "longest kernels of the critical path" not in result.output
    words = " ".join(invoke(plain, "--target", "MI355X", "--all").output.split())
    for part in (
        "on MI355X the GPU sets the pace", "FLOPS scaling", "replay of its dependencies", "gemm", "CPU speed",
        "longest kernels of the critical path", "where the measured time goes", "whole trace",
    ):  # fmt: skip
        assert part in words


def test_a_folder_gets_tables_a_page_and_the_trace_and_json_says_the_same(tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = ("--target", "MI355X", "--json", "--sweep", "memory_bw_gbs=4000,16000", "--out", out)
    result = invoke(write_trace(tmp_path / "t.json"), *asked)
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in out.iterdir()) == sorted(FILES["project"])
    (found,) = json.loads(result.output)
    assert json.loads((out / "project.json").read_text()) == found
    assert (found["host"], found["target"], found["measured_us"]) == ("MI300X", "MI355X", 9000.0)
    assert found["interval"]["lower_us"] < found["projected_us"] < found["interval"]["upper_us"]
    assert [row["aggregation"] for row in found["totals"]] == ["sum", "overlap", "replay"]
    assert [row["value"] for row in found["sweep"]] == [4000, 8000, 16000]
    assert found["split"]["computation_us"] == 9000.0
    assert [part["computation_us"] for part in found["split_by_stream"]] == [9000.0]
    assert [(part["step"], part["computation_us"]) for part in found["split_by_step"]] == [
        (1, 9000.0)
    ]
    assert (
        found["interval"]["lower_us"]
        < found["interval"]["median_us"]
        < found["interval"]["upper_us"]
    )
    (gemm,) = found["classes"]
    assert gemm["lower_us"] < gemm["projected_us"] < gemm["upper_us"]
    (longest,) = found["critical_path"]["kernels"]
    assert (longest["name"], longest["count"]) == ("Cijk_Ailk_Bljk_BBS", 30)
    assert sum(found["critical_path"]["projected"].values()) == pytest.approx(1)
    kernels = pd.read_parquet(out / "kernels.parquet")
    assert len(kernels) == 30
    assert kernels["critical_us"].sum() == pytest.approx(
        sum(row["path_us"] for row in found["critical_path"]["kernels"])
    )
    assert kernels["projected_us"].sum() == pytest.approx(found["totals"][0]["projected_us"])
    written = json.loads(gzip.decompress((out / "trace.json.gz").read_bytes()))
    slices = [event for event in written["traceEvents"] if event.get("cat") == "projected kernel"]
    end = max(event["ts"] + event["dur"] for event in slices) - min(event["ts"] for event in slices)
    assert end == pytest.approx(found["projected_us"], abs=0.1)
    assert kernels["lower_us"].lt(kernels["projected_us"]).all()
    assert [row["name"] for row in found["efficiency"]] == ["Cijk_Ailk_Bljk_BBS"]
    assert kernels["measured_tflops"].tolist() == pytest.approx(
        [found["efficiency"][0]["measured_tflops"]] * 30
    )
    assert (
        [one["gpu"] for one in found["roofs"]]
        == [row["gpu"] for row in found["energy"]]
        == ["MI300X", "MI355X"]
    )
    tracks = {event["name"] for event in written["traceEvents"] if event["ph"] == "C"}
    assert tracks == {f"{name}, % of its roof" for name in found["roofs"][1]["shares"]}
    page = (out / "project.html").read_text()
    assert "Plotly.newPlot" in page
    assert "on MI355X" in page


def test_a_projected_trace_is_compared_with_others_and_is_still_no_measurement(
    tmp_path: Path,
) -> None:
    measured, out = write_trace(tmp_path / "t.json"), tmp_path / "out"
    assert invoke(measured, "--target", "MI355X", "--out", out).exit_code == 0
    drawn = out / "trace.json.gz"
    assert fc.compare(drawn, drawn).document().data["change_us"] == 0
    said = json.loads((out / "project.json").read_text())
    changed = fc.compare(measured, drawn).document().data
    assert changed["change_us"] == pytest.approx(
        said["projected_us"] - said["measured_us"], abs=0.1
    )
    with pytest.raises(fc.DataError):
        fc.read(drawn)


def test_a_few_repeats_of_each_phase_stand_for_all(
    plain: Path, known: ProjectedTrace, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    result = invoke(plain, "--target", "MI355X", "--phases", "--out", out, "--json")
    (found,) = json.loads(result.output)
    (phase,) = found["phases"]["found"]
    assert (phase["repeats"], phase["projected_repeats"]) == (30, 4)
    assert (found["phases"]["projected_activities"], found["phases"]["activities"]) == (4, 30)
    assert found["phases"]["projected_share"] == pytest.approx(4 / 30)
    assert found["phases"]["error"] < 0.01
    assert found["measured_us"] == known.measured_us
    assert found["projected_us"] == pytest.approx(known.projected_us, rel=0.01)
    kernels = pd.read_parquet(out / "kernels.parquet")
    assert kernels["repeats"].sum() == 30
    assert kernels["measured_us"].sum() == pytest.approx(9000)
    written = json.loads(gzip.decompress((out / "trace.json.gz").read_bytes()))
    slices = [event for event in written["traceEvents"] if event.get("cat") == "projected kernel"]
    assert [event["dur"] < 300 for event in slices] == [True] * 4
    assert "phases" in (out / "project.html").read_text()
    refused = invoke(plain, "--target", "MI355X", "--phases", "--chakra", tmp_path / "et")
    assert refused.exit_code == 2
    assert "--phases" in refused.output


def test_how_sure_it_must_be_is_answered(plain: Path, known: ProjectedTrace) -> None:
    half_width = known.result.uncertainty.half_width
    (found,) = json.loads(invoke(plain, "--target", "MI355X", "--need", "0.2", "--json").output)
    told = found["need"]
    assert (told["code"], told["now"]) == ("need-not-reached", half_width)
    assert told["ways"][0] == "pairs of gemm on both GPUs (correct)"
    assert told["after"] < half_width
    assert project(plain, target="MI355X", need=0.9).answers["need"]["code"] == "need-reached"
    with pytest.raises(DataError, match="need"):
        project(plain, target="MI355X", need=0)


def test_no_pairs_are_asked_for_where_the_very_problem_was_measured(
    plain: Path, tmp_path: Path
) -> None:
    sizes = {4096: 270, 5120: 900, 6144: 2400, 7168: 700}  # far from one ratio
    here = [f"MI300X,gemm,bf16,{m},4096,4096,{300 * m / 4096}" for m in sizes]
    there = [f"MI355X,gemm,bf16,{m},4096,4096,{us}" for m, us in sizes.items()]
    for name, part in (("own.csv", [*here, *there]), ("others.csv", [*here[1:], *there[1:]])):
        (tmp_path / name).write_text("\n".join(["device,op,dtype,m,n,k,us", *part]) + "\n")
    own, others = (
        project(plain, "MI355X", correct=[tmp_path / name], need=0.01).answers["need"]
        for name in ("own.csv", "others.csv")
    )
    assert own["now"] < others["now"]
    asked = "pairs of gemm on both GPUs (correct)"
    assert [asked in one["ways"] for one in (own, others)] == [False, True]


def test_the_energy_goes_by_measured_power_where_it_is_given(
    plain: Path, known: ProjectedTrace, tmp_path: Path
) -> None:
    rows = {
        "device": "MI300X",
        "op": "gemm",
        "dtype_a": "bf16",
        "m": 4096,
        "n": 4096,
        "k": 4096,
        "duration_us": 300,
    }
    pd.DataFrame([rows | {"power_w": 500}]).to_csv(tmp_path / "power.csv", index=False)
    told = project(plain, target="MI355X", power=[tmp_path / "power.csv"]).energy
    assert told["measured_share"].tolist() == pytest.approx([1.0, 1.0])
    assert told["power_w"][0] == pytest.approx(500)
    assert told["energy_j"][0] == pytest.approx(500 * 9e-3)
    assert (known.energy["energy_j"] > told["energy_j"]).all()


def test_the_users_own_gpu_is_a_target(plain: Path, known: ProjectedTrace, tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(
        'name = "MI375X"\nbased_on = "MI355X"\npeak_tflops.bf16_matrix = 5000\n'
    )
    own = project(plain, str(tmp_path / "my.toml"))
    assert own.result.projection.target.name == "MI375X"
    assert own.projected_us < known.projected_us


def test_few_figures_are_enough_and_what_lacks_is_said(tmp_path: Path) -> None:
    (tmp_path / "bare.toml").write_text('name = "Bare"\nmemory_bw_gbs = 9000\n')
    found = project(write_trace(tmp_path / "t.json"), str(tmp_path / "bare.toml"))
    assert found.projected_us > 0
    assert all(why[-1].code == "figure-not-published" for why in found.result.remarks["why"])


@pytest.mark.no_cover
def test_measurements_of_both_gpus_correct_the_law(
    plain: Path, known: ProjectedTrace, tmp_path: Path
) -> None:
    rows = [
        f"{device},gemm,bf16,{4096 + size},4096,4096,{time * (1 + size / 4096)}"
        for size in range(0, 4096, 256)
        for device, time in (("MI300X", 300), ("MI355X", 270))
    ]
    (tmp_path / "pairs.csv").write_text("\n".join(["device,op,dtype,m,n,k,us", *rows]) + "\n")
    learnt = project(plain, "MI355X", correct=[tmp_path / "pairs.csv"])
    assert known.projected_us < 0.8 * 9000
    assert learnt.projected_us == pytest.approx(0.9 * 9000, rel=0.01)
    assert learnt.classes["law"].tolist() == ["affine+pair"]
    for data in (str(tmp_path / "pairs.csv"), pd.read_csv(tmp_path / "pairs.csv")):
        assert project(plain, "MI355X", correct=data).projected_us == learnt.projected_us
    (tmp_path / "one.csv").write_text("device,op,dtype,m,n,k,us\nMI300X,gemm,bf16,1,2,3,4\n")
    with pytest.raises(DataError):
        project(plain, "MI355X", correct=[tmp_path / "one.csv"])


@pytest.mark.no_cover
def test_measurements_are_read_once_and_named_where_they_are_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        f"{device},gemm,bf16,{n},64,64,{n}"
        for n in (64, 128, 256)
        for device in ("MI300X", "MI355X")
    ]
    pairs, one = tmp_path / "pairs.csv", tmp_path / "one.csv"
    pairs.write_text("\n".join(["device,op,dtype,m,n,k,us", *rows]) + "\n")
    one.write_text("device,op,dtype,m,n,k,us\nMI300X,gemm,bf16,1,2,3,4\n")
    traces = [write_trace(tmp_path / f"{name}.json") for name in "ab"]
    read: list[object] = []

    def load(paths: Sequence[Path], **stated: Any) -> Measurements:
        read.append(paths)
        return load_measurements(paths, **stated)

    monkeypatch.setattr("flopcast.api.projecting.load_measurements", load)
    assert len(list(project_traces(traces, "MI355X", correct=[pairs]))) == 2
    assert read == [[pairs]]
    with pytest.raises(DataError, match=r"^\S*one\.csv: "):
        list(project_traces(traces, "MI355X", correct=[one]))
    pairs.write_text(pairs.read_text().replace(",m,", ",M_size,"))
    assert (
        len(list(project_traces(traces[:1], "MI355X", correct=[pairs], rename={"M_size": "m"})))
        == 1
    )


@pytest.mark.long
def test_a_model_is_swept_on_by_the_law(tmp_path: Path) -> None:
    gpus = find("MI300X"), find("MI355X")
    save_run(
        tmp_path / "run", measured(tmp_path, *gpus, layout="NN", kernel="Cijk_Ailk_Bljk_BBS"), *gpus
    )
    source = write_trace(tmp_path / "t.json", duration=240)
    result = invoke(
        source,
        "--target",
        "MI355X",
        "--run",
        tmp_path / "run",
        "--sweep",
        "peak_tflops.bf16_matrix=5033.2",
        "--json",
    )
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.output)
    assert found["classes"][0]["law"] == "model", found["law_remarks"]
    assert any(note.startswith("[run-applies]") and "100 %" in note for note in found["notes"])
    now, fast = (row["time_us.gemm"] for row in found["sweep"])
    assert now == pytest.approx(found["classes"][0]["projected_us"])
    assert 0.4 < fast / now < 0.7


def test_calls_that_wait_end_with_their_wait(tmp_path: Path) -> None:
    found = project(write_trace(tmp_path / "t.json", kernels=3), "MI355X").result.projection
    _, calls = projected_times(found)
    wait = calls[calls["name"].astype(str) == "hipDeviceSynchronize"].iloc[0]
    graph, times = found.graph, found.times
    returned = float(times.run_ns[0, graph.runs.wait >= 0][0]) + graph.origin_ns
    assert wait["start_ns"] + wait["duration_ns"] == pytest.approx(returned, abs=1)
    last = times.end_ns.max() + graph.origin_ns
    assert last < returned < last + 50_000
    assert (calls.loc[calls.index != wait.name, "duration_ns"] == 5000).all()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--target", "MI355XX"), "GPU 'MI355XX' MI355X"),
        (("--target", "MI355X", "--compute-law", "magic"), "--compute-law 'magic'"),
        (("--target", "MI355X", "--comm-law", "magic"), "--comm-law 'magic'"),
        (("--target", "MI355X", "--gaps", "gone"), "--gaps 'gone'"),
        (("--target", "MI355X", "--sweep", "memory=1,2"), "--sweep GPU memory"),
        (("--target", "MI355X", "--uncertainty", "gem=0.1"), "--uncertainty 'gem'"),
        ((), "--target must name a GPU"),
        (("--target", "MI355X", "--ranks", "many"), "--ranks must be a number"),
        (
            ("--target", "MI355X", "--ranks", "64", "--network", "1:2"),
            "--network must be a TOML file",
        ),
        (
            ("--target", "MI355X", "--ranks", "64", "--comm-law", "kept"),
            "--comm-law must be alpha-beta",
        ),
        (("--target", "MI355X", "--network", "fast"), "--network must be HOST:TARGET"),
        (("--target", "MI355X", "--cpu-speed", "0"), "--cpu-speed must be above 0"),
        (("--target", "MI355X", "--network", "0:400"), "--network GB/s"),
        (("--target", "MI355X", "--ranks-per-node", "0"), "--ranks-per-node 0"),
        (("--target", "MI355X", "--samples", "100"), "--samples 16 100"),
        (("--target", "MI355X", "--run", "nowhere"), "nowhere"),
        (
            ("--target", "MI355X", "--sweep", "cus=1,2", "--sweep", "cus=3"),
            "--sweep names cus twice",
        ),
    ],
)
def test_mistakes_end_as_one_line(plain: Path, arguments: tuple[str, ...], says: str) -> None:
    result = invoke(plain, *arguments)
    assert result.exit_code == 2
    assert all(word in result.output for word in says.split())
    assert len(result.output.strip().splitlines()) == 1


def test_python_takes_what_the_command_does_and_mappings_and_names_what_it_cannot_use(
    plain: Path,
) -> None:
    said, mapped = (
        project(plain, "MI355X", uncertainty=one, network=other)
        for one, other in (("gemm=0.3", "50:400"), ({"gemm": 0.3}, (50.0, 400.0)))
    )
    assert mapped.interval_us == said.interval_us
    wrong: list[tuple[str, Any]] = [
        ("uncertainty", 0.3), ("network", 50), ("cpu_speed", "1.1"), ("samples", 64.0), ("default", "MI300X"),
        ("correct", 5),
    ]  # fmt: skip
    for name, value in wrong:
        with pytest.raises(ParameterError) as refused:
            project(plain, "MI355X", **{name: value})
        assert refused.value.parameter == name


@pytest.mark.parametrize(("option", "value"), [("--interval", "90"), ("--samples", "100")])
def test_the_sample_is_checked_before_a_trace_is_read(
    tmp_path: Path, option: str, value: str
) -> None:
    result = invoke(tmp_path / "missing.json", "--target", "MI355X", option, value)
    assert result.exit_code == 2
    assert value in result.output
    assert "missing.json" not in result.output


def test_files_without_a_trace_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("device,op,dtype,m,n,k,us\nMI300X,gemm,fp16,1,2,3,4\n")
    result = invoke(tmp_path / "t.csv", "--target", "MI355X")
    assert result.exit_code == 2
    assert "t.csv" in result.stderr
    write_trace(tmp_path / "empty.json", kernels=0)
    assert "empty.json" in invoke(tmp_path / "empty.json", "--target", "MI355X").stderr


def test_the_folder_of_several_traces_has_the_page_of_all(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    for name in ("a.json", "b.json"):
        write_trace(traces / name)
    for given in ((traces / "a.json", traces / "b.json"), (traces,)):
        result = invoke(*given, "--target", "MI355X", "--out", tmp_path / "out")
        assert result.exit_code == 0, result.stderr
        names = ["projections.html", "projections.json"]
        assert sorted(one.name for one in (tmp_path / "out").iterdir()) == names
        told = json.loads((tmp_path / "out" / "projections.json").read_text())
        assert sorted(one["trace"] for one in told["projections"]) == ["a.json", "b.json"]


def test_places_and_targets_are_refused_before_a_trace_is_read(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flopcast.api.projecting.project_traces", pytest.fail)
    (tmp_path / "mine.txt").touch()
    (tmp_path / "file").touch()
    refused = (
        ("--target", "MI355X,H200", "--out", tmp_path),
        ("--target", "MI355X,H200", "--chakra", tmp_path / "chakra"),
        ("--target", "MI355X", "--out", tmp_path / "file" / "out"),
        ("--target", "MI355X,MI999X", "--out", tmp_path / "out"),
    )
    for words in refused:
        result = invoke(plain, *words)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1), words


def test_a_trace_does_not_say_which_file_to_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text("not a GPU", encoding="utf-8")
    refused = invoke(write_trace(tmp_path / "t.json", device="mine.toml"), "--target", "MI355X")
    assert all(words in refused.stderr for words in ("--host", "t.json", "'mine.toml'"))


def test_a_device_nobody_knows_must_be_stated(tmp_path: Path) -> None:
    source = write_trace(tmp_path / "t.json", device="Unheard-of")
    refused = invoke(source, "--target", "MI355X")
    assert refused.exit_code == 2
    assert all(words in refused.stderr for words in ("--host", "t.json", "'Unheard-of'"))
    result = invoke(source, "--target", "MI355X", "--host", "MI300X")
    assert result.exit_code == 0
    above, _, _ = " ".join(result.output.split()).partition("end to end")
    assert "the trace names Unheard-of; it is read as MI300X" in above


RING = {
    "Collective name": "allreduce", "In msg nelems": 8 << 20, "Out msg nelems": 8 << 20, "Group size": 8,
    "dtype": "BFloat16", "Process Group Name": "0", "Process Group Ranks": "[0, 1, 2, ...]", "Global rank start": 0,
    "Global rank stride": 1,
}  # fmt: skip


def with_collective(path: Path) -> Path:
    """Write a trace that ends with an all-reduce of 16 MiB over 8 ranks."""
    content = json.loads(write_trace(path).read_text())
    last = max(
        event["ts"] + event["dur"] for event in content["traceEvents"] if event["cat"] == "kernel"
    )
    at = {"ph": "X", "pid": 7, "tid": 1, "ts": 305.0, "dur": 4.0}
    ids = {"External id": 900, "correlation": 900}
    content["traceEvents"] += [
        {**at, "cat": "cuda_runtime", "name": "hipLaunchKernel", "args": ids},
        {"ph": "X", "pid": 2, "tid": 0, "ts": last + 1, "dur": 300.0, "cat": "kernel", "name": "ncclDevKernel_Generic",
         "args": {**ids, **RING, "device": 2, "stream": 0}},
    ]  # fmt: skip
    path.write_text(json.dumps(content))
    return path


def test_other_ranks_on_two_levels_and_two_figures_swept_together(tmp_path: Path) -> None:
    network = tmp_path / "two-level.toml"
    network.write_text("node_gpus = 8\nnetwork_gbs = 50\nnetwork_us = 10\n")
    trace = with_collective(tmp_path / "t.json")
    sweeps = ("--sweep", "link_bw_gbs=100:400:100", "--sweep", "link_latency_us=1:10")
    result = invoke(trace, "--ranks", "64", "--network", network, *sweeps, "--json")
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.output)
    was, now = (
        float(collective_us(find("MI300X"), "all_reduce", 16 << 20, ranks)) for ranks in (8, 64)
    )
    assert was < 300
    assert found["projected_us"] == pytest.approx(found["measured_us"] + now - was, rel=1e-6)
    grid = pd.DataFrame(found["grid"])
    assert len(grid) == 4 * 8
    assert grid["ratio"].tolist() == pytest.approx(
        (grid["end_to_end_us"] / found["measured_us"]).tolist()
    )
    table = grid.pivot_table(
        index="link_bw_gbs", columns="link_latency_us", values="ratio"
    ).to_numpy()
    assert (table[1:] < table[:-1]).all()
    assert (table[:, 1:] > table[:, :-1]).all()


def test_a_projection_goes_out_as_chakra_with_the_ranks_of_the_target(tmp_path: Path) -> None:
    trace, out = with_collective(tmp_path / "t.json"), tmp_path / "sim"
    result = invoke(trace, "--target", "MI355X", "--ranks", "64", "--chakra", out, "--json")
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.output)
    exported = read_execution_trace(out / "chakra.0.et")
    nodes, told = exported.nodes, json.loads(result.output)[0]["interval"]
    reach = math.log(told["upper_us"] / told["lower_us"]) / (2 * 1.6448536)
    assert exported.spread == pytest.approx(reach, abs=1e-4)
    assert nodes["duration_us"].sum() == round(found["projected_us"])
    (row,) = nodes[nodes["collective"] != ""].to_dict("records")
    assert (row["collective"], row["collective_bytes"], row["group_size"]) == (
        "allreduce",
        16 << 20,
        64,
    )
    refused = invoke(trace, "--target", "MI355X", "--chakra", tmp_path)
    assert refused.exit_code == 2
    assert "holds other files" in refused.output


def test_a_trace_without_collectives_says_that_nothing_is_re_sized(tmp_path: Path) -> None:
    found = project(write_trace(tmp_path / "t.json"), "MI300X", ranks=64)
    assert found.projected_us == pytest.approx(found.measured_us)
    assert "nothing-re-sized" in [note.code for note in found.result.notes]


def test_what_waits_for_peers_is_told_and_stays(tmp_path: Path) -> None:
    """It takes far longer than the model says: what the model explains alone is re-sized."""
    trace = with_collective(tmp_path / "t.json")
    content = json.loads(trace.read_text())
    (meeting,) = (event for event in content["traceEvents"] if event["name"].startswith("nccl"))
    meeting["dur"] = 3000.0
    trace.write_text(json.dumps(content))
    kept = project(trace, "MI300X", ranks=64)
    codes = [note.code for note in kept.result.notes]
    assert "collectives-above-model" in codes
    model = [
        float(collective_us(find("MI300X"), "all_reduce", 16 << 20, ranks)) for ranks in (8, 64)
    ]
    assert kept.projected_us == pytest.approx(kept.measured_us + model[1] - model[0])
    assert kept.result.sent["sent_bytes"].tolist() == [(16 << 20) * 7 / 4]


def test_two_figures_are_a_heat_map_of_the_page(tmp_path: Path) -> None:
    trace = with_collective(tmp_path / "t.json")
    found = project(trace, "MI300X", sweep=["network_gbs=10,20", "link_bw_gbs=100,200"], ranks=16)
    assert found.result.grid is not None
    assert "heatmap" in found.report()


def ranks_of_a_job(folder: Path) -> list[Path]:
    """Write the traces of two ranks, of which the second is 500 µs late; the first waits in its all-reduce."""
    paths = []
    for rank, late in enumerate((0.0, 500.0)):
        content = json.loads(with_collective(folder / f"rank{rank}.json").read_text())
        content["distributedInfo"] = {"rank": rank, "world_size": 2}
        (meeting,) = (event for event in content["traceEvents"] if event["name"].startswith("nccl"))
        meeting["args"] |= {"Group size": 2, "Process Group Ranks": "[0, 1]"}
        if late:
            kernels = [
                event for event in content["traceEvents"] if event["name"].startswith("Cijk")
            ]
            kernels[-1]["dur"] += late
            meeting["ts"] += late
        else:
            meeting["dur"] += 500.0
        paths.append(folder / f"rank{rank}.json")
        paths[-1].write_text(json.dumps(content))
    return paths


def test_ranks_of_a_job_are_replayed_together(tmp_path: Path) -> None:
    paths = ranks_of_a_job(tmp_path)
    out = tmp_path / "out"
    result = invoke(*paths, "--target", "MI355X", "--together", "--out", out, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads((out / "project.json").read_text())
    assert json.loads(result.output) == found
    assert [row["measured_waiting_us"] for row in found["split"]] == [500.0, 0.0]
    assert [row["last"] for row in found["split"]] == [0, 1]
    assert 0 < found["split"][0]["waiting_us"] < 500.0  # its straggler computes faster there
    assert found["collectives"][0]["wait_us"] == 250.0
    assert {(row["rank"], row["peer"]) for row in found["pairs"]} == {(0, 1), (1, 0)}
    assert "heatmap" in (out / "project.html").read_text()
    kernels = pd.read_parquet(out / "kernels.parquet")
    last = kernels[kernels["collective"] == "allreduce"]
    assert last["rank"].tolist() == [0, 1]
    one, other = (last["projected_start_ns"] + 1000 * last["projected_us"]).tolist()
    assert one == pytest.approx(other, abs=1)  # they end together
    events = json.loads(gzip.decompress((out / "trace.json.gz").read_bytes()))["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == len(kernels)
    tables = [
        part
        for section in project_job(paths, target="MI355X").document().sections
        for part in section.parts
    ]
    assert all(
        len(row.cells) == len(one.columns)
        for one in tables
        if isinstance(one, Table)
        for row in one.rows
    )
    same = project_job(paths, target="MI300X")
    assert same.projected_us == pytest.approx(same.measured_us)  # with the CPU's calls and waits
    assert same.waits["wait_us"].tolist() == pytest.approx([500.0, 0.0])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--sweep", "cus=1,2"), "--sweep is of one trace alone"),
        (("--comm-wait",), "--comm-wait is of one trace alone"),
        (("--advice",), "--advice is of one trace alone"),
        (("--fidelity", "torch"), "--fidelity is of one trace alone"),
    ],
)
def test_what_ranks_together_cannot_have(
    options: tuple[str, ...], error: str, tmp_path: Path
) -> None:
    result = invoke(*ranks_of_a_job(tmp_path), "--target", "MI355X", "--together", *options)
    assert result.exit_code == 2
    assert error in result.output


def test_the_interval_of_ranks_together_is_as_wide_as_asked(tmp_path: Path) -> None:
    widths = []
    for level in ("0.5", "0.9"):
        given = ("--target", "MI355X", "--together", "--interval", level, "--samples", "32")
        found = json.loads(invoke(*ranks_of_a_job(tmp_path), *given, "--json").output)
        assert found["interval"]["lower_us"] < found["projected_us"] < found["interval"]["upper_us"]
        widths.append(found["interval"]["half_width"])
    assert widths[0] < widths[1]


def test_networks() -> None:
    assert parse_network("50:400") == (50.0, 400.0)
    with pytest.raises(DataError, match="HOST:TARGET"):
        parse_network("50")


def test_the_help_names_what_there_is() -> None:
    named = {"compute_law": OF_COMPUTATION, "comm_law": COMMUNICATION_LAWS, "gaps": GAPS}
    for option, names in named.items():
        told = said("project_traces", option, "api.projecting").partition(": ")[2]
        assert told.rstrip(".").split(", ") == list(names)


def test_a_projection_in_a_notebook(known: ProjectedTrace) -> None:
    found = known
    assert found.interval_us[0] < found.projected_us < found.interval_us[1]
    assert found.answers["projected_us"] == found.projected_us
    assert found.kernels["projected_us"].sum() == pytest.approx(found.classes["projected_us"].sum())
    assert found.kernels["why"].tolist() == [""] * 30
    assert [
        len(figure.data) > 0
        for figure in (found.plot_classes(), found.plot_interval(), *found.plot_sweeps())
    ]
    assert "t.json on MI355X: " in found._repr_html_()
    assert any("one measured" in note for note in found.notes)


def test_durations_of_passes_go_before_those_of_the_trace(tmp_path: Path) -> None:
    full = write_trace(tmp_path / "t.json", kernels=10)
    (tmp_path / "passes").mkdir()
    write_trace(tmp_path / "passes" / "one.json", kernels=10, duration=150)
    found = json.loads(
        invoke(full, "--target", "MI300X", "--durations", tmp_path / "passes", "--json").output
    )[0]
    assert found["measured_us"] == pytest.approx(1500)
    [row] = found["durations"]
    assert (row["launches"], row["measured"], row["retimed_us"]) == (10, 10, pytest.approx(1500))
    table = pd.DataFrame({"name": row["name"], "occurrence": [1, 2], "duration_us": 150.0})
    table.to_parquet(tmp_path / "m.parquet")
    part = json.loads(
        invoke(full, "--target", "MI300X", "--durations", tmp_path / "m.parquet", "--json").output
    )[0]
    assert part["measured_us"] == pytest.approx(2700)
    table.to_csv(tmp_path / "m.csv")
    words = " ".join(
        invoke(
            full, "--target", "MI300X", "--durations", tmp_path / "m.csv", "--all"
        ).output.split()
    )
    assert "kernels that no pass measured" in words


@pytest.mark.parametrize("name", ["m.parquet", "m.csv", "empty"])
def test_durations_that_cannot_be_used_are_one_line(tmp_path: Path, name: str) -> None:
    full = write_trace(tmp_path / "t.json", kernels=10)
    (tmp_path / "m.parquet").write_text("nothing")
    (tmp_path / "m.csv").write_text("")
    (tmp_path / "empty").mkdir()
    result = invoke(full, "--target", "MI355X", "--durations", tmp_path / name)
    assert result.exit_code == 2
    assert len(result.output.strip().splitlines()) == 1


def test_several_targets_and_traces_are_one_table_first(plain: Path) -> None:
    ended = running.call("project", plain, "--gpu", "MI355X,H200", "--host", "MI300X", "--json")
    assert ended.exit_code == 0
    assert [one["target"] for one in json.loads(ended.stdout)] == ["MI355X", "H200 SXM"]
    found = fc.project_each(plain, target=["MI355X", "H200"], host="MI300X")
    assert [one.result.projection.target.name for one in found] == ["MI355X", "H200 SXM"]
    table = found.table
    assert sorted(table["target"]) == ["H200 SXM", "MI355X"]
    assert table["ratio"].is_monotonic_increasing
    alone = fc.project(plain, target="H200", host="MI300X")
    own = table.set_index("target").loc["H200 SXM"]
    assert own["projected_us"] == alone.projected_us
    assert (own["lower_us"], own["upper_us"]) == alone.interval_us
    told = running.call("project", plain, "--target", "MI355X,H200", "--host", "MI300X")
    every = running.call("project", plain, "--target", "MI355X,H200", "--host", "MI300X", "--all")
    assert told.stdout.count("end to end") == 0
    assert every.stdout.count("end to end —") == 2


def test_advice_of_several_targets_names_what_to_make_faster_first_on_each(plain: Path) -> None:
    found = fc.project_each(plain, target=["MI355X", "H200"], host="MI300X", advice=True)
    (table,) = [part for part in found.document().opening if getattr(part, "name", "") == "advice"]
    assert [row.cells[1] for row in table.rows] == [
        one["target"] for one in found.document().data["projections"]
    ]
    best = {one.result.projection.target.name: one.advice for one in found}
    for row in table.rows:
        advice = best[str(row.cells[1])]
        assert advice is not None
        gains = advice["end_gain_us"]
        if gains.gt(0).any():
            assert row.cells[2] == advice.loc[gains.idxmax(), "kernel"]
        else:
            assert row.cells[2] == "no faster kernel is known"


def test_one_projection_takes_one_target(plain: Path) -> None:
    with pytest.raises(ParameterError, match="project_each"):
        fc.project(plain, target=["MI355X", "H200"])
    words = ("--host", "MI300X", "--target", "MI355X,H200", "--together")
    assert running.call("project", plain, *words).exit_code == 2


def test_several_projections_say_which_is_shortest_of_what_and_draw_the_differences(
    plain: Path,
) -> None:
    asked = {"target": ["H200", "MI355X"], "host": "MI300X"}
    document = fc.project_each(plain, **asked).document()
    assert all(name in document.title for name in (plain.name, "H200 SXM", "MI355X"))
    (drawn,) = document.sections[0].parts
    (bars,) = drawn.draw().data
    for change, one in zip(bars.x, document.data["projections"], strict=True):
        assert change == pytest.approx(100 * (one["projected_us"] / one["measured_us"] - 1))
    first = document.data["projections"][0]
    assert document.opening[0].answer.endswith(f"on {first['target']}")


def test_kernels_are_told_by_name(plain: Path, known: ProjectedTrace) -> None:
    (table,) = [
        part
        for section in known.document().sections
        for part in section.parts
        if getattr(part, "title", "") == "longest kernels"
    ]
    assert {row.cells[0] for row in table.rows} == {*known.kernels["name"].astype(str)}
