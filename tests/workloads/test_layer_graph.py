"""Graphs of layers: hand-solved plans, what overlaps, where times come from, and graphs that cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.benchmarks.scoreboard import measured_attention
from flopcast.errors import DataError
from flopcast.hardware import Network, find
from flopcast.laws.kernels import Attention
from flopcast.projection.collective_laws import collective_us
from flopcast.workloads.forecasting import forecast
from flopcast.workloads.layer_graph import is_graph, read_layers

GEMM = {"op": "gemm", "m": 4096, "n": 4096, "k": 4096}


def _answer(layers: list[dict[str, Any]], **fields: Any) -> Any:
    return forecast({"model": {"layers": layers}, "gpu": "MI300X", **fields})


def _stated(name: str, us: float, after: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    return {"name": name, "time_us": us, "after": list(after), **more}


def _message_us(size: float) -> float:
    return float(collective_us(find("MI300X"), "all_reduce", size, 8))


def test_one_gpu_computes_one_layer_at_a_time() -> None:
    found = _answer([_stated("a", 10), _stated("b", 20), _stated("c", 5, ("a", "b"), count=2)])
    assert found.predicted == pytest.approx(40e-6)
    assert (found.lower, found.upper) == pytest.approx((40e-6, 40e-6))
    assert [(one.name, one.critical) for one in found.layers] == [
        ("a", True),
        ("b", True),
        ("c", True),
    ]


def test_a_message_hides_behind_what_does_not_wait_for_it() -> None:
    message = {"collective": "all_reduce", "message_bytes": 1e8}
    sent = _message_us(1e8)
    layers = [
        _stated("a", 100, **message),
        _stated("b", sent / 2, ("a",)),
        _stated("c", 50, ("b",)),
    ]
    in_a_row = _answer(layers, gpus=8)
    assert in_a_row.predicted == pytest.approx((150 + 1.5 * sent) * 1e-6, rel=0.01)
    layers[1]["after"] = []
    beside = _answer(layers, gpus=8)
    assert beside.predicted == pytest.approx((100 + sent) * 1e-6, rel=0.01)
    assert beside.details["overlapped_s"] == pytest.approx((sent / 2 + 50) * 1e-6, rel=0.01)
    assert [one.name for one in beside.layers if one.critical] == ["a"]
    assert beside.lower < beside.predicted < beside.upper


def test_the_end_lies_between_the_longest_chain_and_the_sum() -> None:
    rng = np.random.default_rng(0)
    layers = []
    for place in range(60):
        after = tuple(f"l{one}" for one in rng.choice(place, min(place, 2), replace=False))
        sends = (
            {"collective": "all_to_all", "message_bytes": float(rng.integers(1, 10**7))}
            if place % 3
            else {}
        )
        layers.append(_stated(f"l{place}", float(rng.integers(1, 200)), after, **sends))
    found = _answer(layers, gpus=8)
    sums = found.details["compute_s"], found.details["communication_s"]
    assert max(sums) <= max(one.end_s for one in found.layers) <= sum(sums)
    ends = {one.name: one.end_s for one in found.layers}
    starts = {one.name: one.start_s for one in found.layers}
    assert all(starts[one["name"]] >= ends[name] - 1e-12 for one in layers for name in one["after"])


def test_a_run_answers_in_its_range_and_the_law_elsewhere() -> None:
    def run(rows: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "predicted_us": 7.0,
                "extrapolated": rows["m"] > 5000,
                "lower_us": 6.0,
                "upper_us": 8.0,
            }
        )

    layers = [{"name": "in", **GEMM}, {"name": "out", **GEMM, "m": 8192}, {"name": "sent", "op": "all_gather",
              "message_bytes": 1e6}]  # fmt: skip
    found = forecast({"model": {"layers": layers}, "gpu": "MI300X", "gpus": 8}, runs=[run])
    assert [one.source for one in found.layers] == ["run", "law", ""]
    assert found.layers[0].compute_s == pytest.approx(7e-6)
    # no layer says what it comes after: in a row
    assert found.layers[1].start_s == pytest.approx(7e-6)
    assert [note.code for note in found.remarks] == ["layers-by-source", "layers-in-a-row"]


def test_a_measured_problem_takes_its_time_and_no_other_does() -> None:
    same = {"device": "MI300X", "op": "gemm", "dtype_a": "bf16"}
    rows = [
        {**same, **shape, "duration_us": us} for shape in SHAPES for us in (310.0, 300.0, 305.0)
    ]
    layers = [
        {"name": "known", **GEMM},
        {"name": "new", **GEMM, "k": 512},
        {"name": "fp8", **GEMM, "dtype": "fp8"},
    ]
    found = fc.forecast({"layers": layers}, gpu="MI300X", data=pd.DataFrame(rows)).answers[0]
    assert [one.source for one in found.layers] == ["measured", "law", "law"]
    assert found.layers[0].compute_s == pytest.approx(305e-6, rel=0.02)
    elsewhere = fc.forecast({"layers": layers}, gpu="MI355X", data=pd.DataFrame(rows)).answers[0]
    assert {one.source for one in elsewhere.layers} == {"law"}


SHAPES = ({"m": 4096, "n": 4096, "k": 4096}, {"m": 64, "n": 64, "k": 64})


def test_files_are_told_apart_by_what_they_hold(tmp_path: Path) -> None:
    graph, config, table = tmp_path / "graph.json", tmp_path / "config.json", tmp_path / "ops.csv"
    graph.write_text(json.dumps({"layers": [{"name": "a", **GEMM}]}))
    config.write_text(json.dumps({"hidden_size": 64, "num_hidden_layers": 2}))
    table.write_text(
        "operator,dims,dtype,count,phase\nlinear,m=64 n=128 k=256,fp8,3,decode\nrms_norm,rows=8;cols=64,,,\n"
    )
    assert [is_graph(str(one)) for one in (graph, config, table)] == [True, False, True]
    first, second = read_layers(table).layers
    assert (first.op, first.sizes["k"], first.sizes["dtype_a"], first.count) == (
        "gemm",
        256.0,
        "fp8",
        3,
    )
    assert (second.name, second.after) == ("rms_norm 2", (0,))
    found = fc.forecast(str(table), gpu=["MI300X", "MI355X"], gpus=8)
    assert found.table["predicted"].gt(0).all()
    found.save(tmp_path / "out")
    assert (
        len(json.loads((tmp_path / "out" / "forecast.json").read_text())["forecasts"][0]["layers"])
        == 2
    )


@pytest.mark.parametrize(
    ("layers", "word"),
    [
        ([], "1 to"),
        ([_stated("a", 1, ("b",)), _stated("b", 1, ("a",))], "circle"),
        ([_stated("a", 1, ("z",))], "'z'"),
        ([_stated("a", 1), _stated("a", 2)], "two layers"),
        ([{"name": "a"}], "shape"),
        ([{"name": "a", **GEMM, "time_us": 3}], "one of them"),
        ([_stated("a", -1)], "time_us"),
        ([_stated("a", float("nan"))], "time_us"),
        ([{"name": "a", "op": "gemm", "m": 4, "n": 4}], "need k"),
        ([{"name": "a", "op": "gemmm", "m": 4}], "gemmm"),
        ([{"name": "a", **GEMM, "rows": 4}], "rows"),
        ([{"name": "a", **GEMM, "dtype": "fp9"}], "fp9"),
        ([{"name": "a", "collective": "all_reduce"}], "message_bytes"),
        ([{"name": "a", "time_us": 1, "message_bytes": 4}], "collective"),
        ([{"name": "a", "time_us": 1, "count": 0}], "count"),
        ([{"name": "a", "op": "kernel", "workgroups": 4, "threads": 64}], "time_us"),
        ([7], "object"),
        ([_stated("a", 0)], "any time"),
        ([{"name": "a", "time_us": 1, "after": [["a"]]}], "after"),
    ],
)
def test_what_cannot_be_is_one_line_that_names_the_layer(layers: list[Any], word: str) -> None:
    with pytest.raises(DataError, match=word) as caught:
        _answer(layers)
    assert "\n" not in str(caught.value)


def test_messages_beyond_a_node_take_the_network() -> None:
    gpu = find("MI300X")
    for name in ("all_reduce", "all_gather", "all_to_all", "send_recv"):
        sizes = np.array([1e4, 1e6, 1e8])
        near = collective_us(gpu, name, sizes, 8)
        slow, fast = (
            collective_us(gpu, name, sizes, 16, Network(gbs=gbs)) for gbs in (25.0, 100.0)
        )
        assert (slow > fast).all() or name == "send_recv"
        assert (np.diff(slow) > 0).all()
        assert (collective_us(gpu, name, sizes, 16, Network(node_gpus=16)) >= near * 0.5).all()


def test_attention_reaches_more_of_its_rate_over_more_keys() -> None:
    gpu = find("MI300X")
    times = Attention([512, 2048, 8192, 32768]).us(1e12, gpu)
    assert (np.diff(times) < 0).all()
    assert (
        Attention(8192, causal=False).us(1e12, gpu)
        < times[2]
        < Attention(8192, backward=True).us(1e12, gpu)
    )
    assert 1e12 / times[2] / 1e6 == pytest.approx(446.0, rel=0.05)  # TFLOP/s of AITER at 8192 keys


def test_the_law_of_attention_is_that_of_the_measured_kernels(shared_data: Path) -> None:
    table = measured_attention(shared_data / "workloads")
    errors = []
    for row in table.to_dict("records"):
        shape = {
            "head_dim": row["head_dim"],
            "causal": bool(row["causal"]),
            "backward": bool(row["backward"]),
        }
        rate = 1e6 / float(Attention(row["keys"], **shape).us(1e12, find(row["device"])))
        errors.append(abs(rate / row["tflops"] - 1))
    assert np.mean(errors) < 0.04
    assert max(errors) < 0.19


def test_what_is_no_model_is_told_before_what_is_missing(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("hello", encoding="utf-8")
    for given in (other, tmp_path / "nowhere.onnx", "nowhere.onnx"):
        with pytest.raises(DataError) as caught:
            forecast({"model": given, "gpu": "MI300X"})
        assert caught.value.source == str(given)


def test_a_dimension_that_no_kernel_has_is_refused() -> None:
    with pytest.raises(DataError):
        _answer([{"name": "a", **GEMM, "k": 1e15}])
