"""Work of the activities of a dispatch table: calls, collectives, copies, and kernels nobody knows."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.hardware import GPU
from flopcast.laws.bounds import bound
from flopcast.operators.operators import work_of
from flopcast.table.measurements import clean
from flopcast.traces.activity_work import describe, work_of_dispatches
from flopcast.traces.dispatches import COLUMNS, dispatch_table

MM = json.dumps(
    {
        "dims": [[4, 8], [8, 2]],
        "types": ["float", "float"],
        "strides": [[8, 1], [2, 1]],
        "values": ["", ""],
    }
)
_SIZES = [[4, 8], [3]]
LISTS = json.dumps(
    {
        "dims": [_SIZES, _SIZES, []],
        "types": ["TensorList", "TensorList", "Scalar"],
        "values": ["", "", "1"],
    }
)
MM_FLOPS, MM_BYTES = 2 * 4 * 8 * 2, 4 * (4 * 8 + 8 * 2 + 4 * 2)


def table(*rows: dict[str, Any]) -> pd.DataFrame:
    """Return a dispatch table of kernels of 10 ns, unless a row says otherwise."""
    plain = {
        "kind": "kernel",
        "device": "MI300X",
        "process": 1,
        "gpu": 0,
        "name": "k",
        "start_ns": 0,
        "duration_ns": 10,
    }
    filled = [plain | row for row in rows]
    names = dict.fromkeys(name for row in filled for name in row)
    return dispatch_table({name: [row.get(name) for row in filled] for name in names})


def call(
    number: int | None = 1, inputs: str = MM, op: str = "aten::mm", **columns: Any
) -> dict[str, Any]:
    return {"op_name": op, "op_id": number, "op_inputs": inputs} | columns


def test_the_work_of_a_call_is_on_its_longest_kernel():
    found = work_of_dispatches(
        table(call(duration_ns=5), call(duration_ns=90), call(duration_ns=90), call(2))
    )
    assert found["op"].tolist() == ["gemm"] * 4
    assert found["m"].tolist() == [4] * 4
    assert found["flops"].tolist() == [0, MM_FLOPS, 0, MM_FLOPS]
    assert found["bytes_moved"].tolist() == [0, MM_BYTES, 0, MM_BYTES]


def test_calls_are_told_apart_by_device_process_and_operator():
    rows = [
        call(),
        call(gpu=1),
        call(process=2),
        call(rank=1),
        call(device="H100"),
        call(None),
        call(None),
    ]
    rows += [call(inputs=MM.replace("[8, 2]", "[8, 3]"))]
    found = work_of_dispatches(table(*rows))
    assert (found["flops"] > 0).all()


def test_the_result_stands_beside_the_table():
    dispatches = table(
        call(), {"grid_x": 4, "grid_y": 2, "grid_z": 1, "block_x": 64, "block_y": 2, "block_z": 1}
    )
    dispatches.index = pd.Index([7, 3])
    found = work_of_dispatches(dispatches)
    assert found.index.tolist() == [7, 3]
    assert not set(found) & set(COLUMNS)
    empty = work_of_dispatches(dispatches.iloc[:0])
    assert len(empty) == 0
    assert {"op", "variant", "dtype_a", "flops", "bytes_moved"} <= set(empty)


def test_a_kernel_without_an_operator_keeps_its_launch_and_has_unknown_work():
    launch = {
        "grid_x": 4,
        "grid_y": 2,
        "grid_z": 1,
        "block_x": 64,
        "block_y": 2,
        "block_z": 1,
        "name": "mine",
    }
    found = work_of_dispatches(table(launch, call(inputs="", **launch), {"name": "no grid"}))
    assert found["op"].tolist() == ["kernel"] * 3
    assert found["variant"].tolist() == ["mine", "mine", "no grid"]
    assert found["workgroups"].tolist()[:2] == [8, 8]
    assert found["threads"].tolist()[:2] == [128, 128]
    assert found.loc[2, ["workgroups", "threads"]].isna().all()
    assert found[["flops", "bytes_moved"]].isna().all(axis=None)


def test_such_kernels_are_measurements_and_have_no_known_bound():
    dispatches = table(
        *[{"grid_x": 4, "grid_y": 1, "grid_z": 1, "block_x": 64, "block_y": 1, "block_z": 1}] * 2
    )
    raw = work_of_dispatches(dispatches).assign(
        device="MI300X", duration_us=[1.0, 2.0], source=["t:1", "t:2"]
    )
    raw["lds_bytes"] = [0, np.nan]
    cleaned = clean(raw)
    assert cleaned.rejected.empty
    work = work_of(cleaned.frame)
    assert np.isnan(work.flops).all()
    gpu = GPU(name="any", peaks={"fp32_vector": 10.0}, memory_bw_gbs=1000.0)
    assert bound(work, gpu).tolist() == ["unknown", "unknown"]


def test_collectives_by_their_message():
    sent = {
        "collective": "allreduce",
        "collective_bytes": 1000,
        "group_size": 8,
        "name": "ncclDevKernel_Generic",
    }
    gather = sent | {"collective": "_allgather_base"}
    untold = {"collective": "barrier", "group_size": 8, "grid_x": 1, "grid_y": 1, "grid_z": 1}
    found = work_of_dispatches(table(sent, gather, call(**sent), untold))
    assert found["op"].tolist() == ["collective"] * 3 + ["kernel"]
    assert found["variant"].tolist()[:2] == ["allreduce", "_allgather_base"]
    assert found["ranks"].tolist()[:3] == [8, 8, 8]
    assert found["bytes_moved"].tolist()[:3] == [2000, 1125, 2000]
    assert found["flops"].tolist()[:3] == [0, 0, 0]


def test_copies_and_fills_by_their_bytes():
    rows = [
        {"kind": "memcpy", "name": "HtoD", "bytes": 100},
        {"kind": "memset", "name": "Memset", "bytes": 50},
    ]
    found = work_of_dispatches(
        table(*rows, {"kind": "memcpy", "name": "DtoD"}, call(kind="memset", bytes=8))
    )
    assert found["op"].tolist() == ["copy", "fill", "copy", "fill"]
    assert found["variant"].tolist() == ["HtoD", "", "DtoD", ""]
    assert found["dtype_a"].tolist() == ["uint8"] * 4
    assert found["bytes_moved"].fillna(-1).tolist() == [200, 50, -1, 8]
    assert found["cols"].fillna(-1).tolist() == [100, 50, -1, 8]


@pytest.mark.parametrize(
    ("kernel", "dtype", "size"),
    [
        (
            "void multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpListAlphaFunctor<float, 2, 2, 0>>",
            "fp32",
            4,
        ),
        ("void CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 2, 128, 1>", "int16", 2),
    ],
)
def test_formats_of_tensor_lists_are_read_off_the_kernels(kernel: str, dtype: str, size: int):
    launched = call(1, LISTS, "aten::_foreach_add_")
    found = work_of_dispatches(table(launched | {"name": kernel}, launched | {"duration_ns": 1}))
    assert found["op"].tolist() == ["elementwise"] * 2
    assert found["dtype_a"].tolist() == [dtype] * 2
    assert found["bytes_moved"].tolist() == [3 * 35 * size, 0]


@pytest.mark.parametrize("durations", [(90, 5, 5), (5, 90, 5), (5, 5, 90)])
def test_the_format_of_a_call_does_not_depend_on_which_kernel_is_longest(
    durations: tuple[int, ...],
) -> None:
    names = ("plain", "k<c10::Half, 4>", "k<float, 4>")
    launched = call(1, LISTS, "aten::_foreach_add_")
    rows = [
        launched | {"name": name, "duration_ns": time}
        for name, time in zip(names, durations, strict=True)
    ]
    found = work_of_dispatches(table(*rows))
    assert found["dtype_a"].tolist() == ["fp16"] * 3
    assert found["bytes_moved"].sum() == 3 * 35 * 2


def test_equal_calls_whose_kernels_name_other_formats_have_other_work():
    kernels = ("k<float, 4>", "k<c10::Half, 4>")
    rows = [
        call(n, LISTS, "aten::_foreach_add_", name=name)
        for n, name in enumerate((*kernels, kernels[0]))
    ]
    found = work_of_dispatches(table(*rows))
    assert found["dtype_a"].tolist() == ["fp32", "fp16", "fp32"]
    assert found["bytes_moved"].tolist() == [3 * 35 * 4, 3 * 35 * 2, 3 * 35 * 4]


def test_a_list_of_no_known_format_is_an_unknown_kernel():
    found = work_of_dispatches(table(call(1, LISTS, "aten::_foreach_add_"), call(2)))
    assert found["op"].tolist() == ["kernel", "gemm"]
    assert found["dtype_a"].tolist() == ["", "fp32"]


def test_words_may_be_categories():
    dispatches = table(call(), {"name": "x"}, {"kind": "memcpy", "name": "HtoD", "bytes": 100})
    texts = ["kind", "device", "name", "op_name", "op_inputs", "collective"]
    coded = dispatches.astype(dict.fromkeys(texts, "category"))
    pd.testing.assert_frame_equal(work_of_dispatches(coded), work_of_dispatches(dispatches))


def kernels_of(trace: Path) -> pd.DataFrame:
    """Return the kernels of a trace whose operator is in the file, as a dispatch table."""
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    ops = {
        e["args"]["External id"]: e
        for e in events
        if e.get("cat") == "cpu_op" and "External id" in e["args"]
    }
    sides = {
        "dims": "Input Dims",
        "types": "Input type",
        "strides": "Input Strides",
        "values": "Concrete Inputs",
    }
    rows = []
    for event in events:
        number = event.get("args", {}).get("External id")
        if event.get("cat") == "kernel" and number in ops:
            told = {side: ops[number]["args"].get(name) for side, name in sides.items()}
            times = {"name": event["name"], "duration_ns": round(event["dur"] * 1000)}
            rows.append(call(number, json.dumps(told), ops[number]["name"], **times))
    return table(*rows)


@pytest.mark.parametrize(
    "model", ["gaunernst_bert-small-uncased__1016001", "Falconsai_nsfw_image_detection__1016002"]
)
@pytest.mark.parametrize("device", ["mi300", "h100"])
def test_sums_over_a_trace_are_those_of_tracelens(shared_data: Path, device: str, model: str):
    """TraceLens adds the additions of the bias, m n a call (see test_operators)."""
    folder = shared_data / "profiles/kineto"
    found = work_of_dispatches(kernels_of(folder / f"pairs_{device}" / f"{model}.json.gz"))
    tables = folder / "tracelens_reference_csvs" / device / f"{model}_perf_report_csvs"
    found["theirs"] = found["flops"] + (found["m"] * found["n"]).where(
        found["flops"].gt(0) & (found["variant"] == "bias"), 0
    )
    for op, name in (("gemm", "GEMM"), ("attention", "SDPA_fwd"), ("conv", "CONV_fwd")):
        if (tables / f"{name}.csv").exists():
            expected = pd.read_csv(tables / f"{name}.csv")
            ours = found[found["op"] == op]
            by = "theirs" if op == "gemm" else "flops"
            assert ours["flops"].gt(0).sum() == expected["name_count"].sum()
            assert ours[by].sum() / 1e9 == pytest.approx(
                (expected["GFLOPS_first"] * expected["name_count"]).sum()
            )
    assert found["op"].ne("kernel").all()


def test_the_description_of_a_trace_is_that_of_its_calls(shared_data: Path):
    dispatches = kernels_of(shared_data / "profiles/kineto/other/normalization_layer_test.json.gz")
    found, described = work_of_dispatches(dispatches), describe(dispatches)
    rows = described["op"].ne("") & described["dtype_a"].ne("")
    assert rows.mean() > 0.9
    shared = [name for name in described if name in found]
    pd.testing.assert_frame_equal(
        found.loc[rows, shared], described.loc[rows, shared], check_dtype=False
    )
