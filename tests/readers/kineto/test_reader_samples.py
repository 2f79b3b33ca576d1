"""PyTorch traces of MI210, MI250, MI300X, A100 and H100 against numbers computed apart from this reader.

The reference took the traces apart with the json module, every time rounded to nanoseconds before it was used.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flopcast.readers.base import DataFile, Options
from flopcast.readers.files import head
from flopcast.readers.kineto import KinetoReader
from flopcast.traces.quality import busy_ns, span_ns
from flopcast.traces.summary import Annotated

FALCON = "Falconsai_nsfw_image_detection__1016002"
QWEN = "Qwen_Qwen1.5-0.5B-Chat__1016005"
TIMESFORMER = "facebook_timesformer-base-finetuned-k400__1016002"
BERT = "gaunernst_bert-small-uncased__1016001"
SGLANG = "mi300_sglang_Qwen3-8B_"
ACTIVITIES = ["kernel", "memcpy", "memset"]

#: name: device; kernels, their time, copies, fills, busy, span; linked kernels, their time, their span; steps. In us.
REFERENCE: dict[str, tuple[str, list[float], list[float], list[float]]] = {
    f"pairs_mi300/{FALCON}": (
        "MI300X", [155, 1716.301, 0, 0, 1716.301, 6868.849], [155, 1716.301, 6868.849], [7453.325],
    ),
    f"pairs_mi300/{QWEN}": (
        "MI300X", [1516, 43062.042, 1, 0, 43062.802, 47085.8], [1053, 29743.178, 33131.334], [42738.946],
    ),
    f"pairs_mi300/{TIMESFORMER}": (
        "MI300X", [447, 118758.892, 2, 0, 119852.883, 121267.204], [447, 118758.892, 119501.838], [390679.906],
    ),
    f"pairs_mi300/{BERT}": ("MI300X", [60, 388.344, 1, 0, 390.748, 3495.976], [60, 388.344, 3495.976], [4007.334]),
    f"pairs_h100/{FALCON}": (
        "H100 SXM5", [154, 1220.926, 0, 2, 1225.31, 7559.844], [154, 1220.926, 7552.868], [7894.065],
    ),
    f"pairs_h100/{QWEN}": (
        "H100 SXM5", [1465, 45432.698, 1, 241, 45647.3, 49652.832], [1029, 31760.058, 34892.419], [47151.395],
    ),
    f"pairs_h100/{TIMESFORMER}": (
        "H100 SXM5", [446, 154855.595, 2, 86, 158433.174, 159992.427], [446, 154855.595, 155915.713], [382535.558],
    ),
    f"pairs_h100/{BERT}": ("H100 SXM5", [60, 307.197, 1, 0, 309.437, 3907.825], [60, 307.197, 3907.825], [4426.114]),
    "other/hta_mi250_minitoy_train_ROCm6_2_kineto": (
        "MI210", [14, 110.881, 2, 0, 149.042, 8911.887], [14, 110.881, 8594.445], [9288.291, 49.073],
    ),
    "other/hta_nccl_data": (
        "A100 40GB SXM4", [2700, 162532.34, 960, 114, 157500.014, 660551.005], [2700, 162532.34, 660551.005],
        [222442.191, 219726.905, 224936.243],
    ),
    "other/hta_sampled_rank-0": (
        "", [1154, 606519.0, 40, 10, 547656.0, 1222847.0], [1154, 606519.0, 1222818.0], [607312.0, 622928.0],
    ),
    "other/hta_triton_example": ("A100 40GB SXM4", [1, 1.76, 0, 0, 1.76, 1.76], [1, 1.76, 1.76], [13336315.805]),
    "other/mi210_gpu_only_trace": ("MI210", [562, 5343.422, 0, 0, 5343.422, 5979.503], [562, 5343.422, 5979.503], []),
    "other/mi300_resnet_act_checkpoint": (
        "MI300X", [2995, 97255.826, 550, 108, 84002.056, 86567.708], [2238, 66434.404, 56517.603],
        [16798.984, 15950.958, 15887.029],
    ),
    f"other/{SGLANG}decode_graph_capture_bs_32_rank0": (
        "MI300X", [2, 11.015, 0, 0, 11.015, 11.016], [2, 11.015, 11.016], [33716.806],
    ),
    f"other/{SGLANG}prefilldecode": (
        "MI300X", [527, 492773.592, 7, 0, 492806.877, 987288.887], [527, 492773.592, 987276.027], [],
    ),
    "other/mi300_torch_compile_triton_trace": (
        "MI300X", [12, 12549.021, 0, 0, 12549.021, 12549.032], [12, 12549.021, 12549.032], [],
    ),
    "other/mi300_xdit_flux1_aiter_sage_profile_trace_rank_0": (
        "MI300X", [7830, 201151.639, 36, 0, 201351.762, 226595.684], [7830, 201151.639, 226242.499], [249608.734],
    ),
    "other/normalization_layer_test": (
        "MI300X", [168, 991.996, 0, 5, 1018.632, 1068779.832], [168, 991.996, 1068779.832], [],
    ),
    "other/vllm_decode_full_graph_execution": (
        "MI300X", [425, 10674.517, 9, 0, 10717.708, 10743.181], [425, 10674.517, 10699.981], [],
    ),
    "other/vllm_prefilldecode_piecewise_graph_execution": (
        "MI300X", [413, 156008.506, 10, 0, 156085.793, 156466.417], [413, 156008.506, 156353.058], [],
    ),
}  # fmt: skip


Read = Callable[[str], Annotated]


def us(ns: int) -> float:
    return ns / 1000


@pytest.mark.parametrize("name", REFERENCE)
def test_counts_sums_and_spans(kineto: Read, name: str) -> None:
    device, every, linked, steps = REFERENCE[name]
    found = kineto(name)
    table = found.dispatches
    kernels = table[table["kind"] == "kernel"]
    own = kernels[kernels["linked"]]
    count, *others = (int((table["kind"] == kind).sum()) for kind in ACTIVITIES)
    close = pytest.approx  # to the nanosecond, which is 0.001 us
    assert [
        count,
        us(kernels["duration_ns"].sum()),
        *others,
        us(busy_ns(table)),
        us(span_ns(table)),
    ] == close(every, abs=1e-6, rel=0)
    assert [len(own), us(own["duration_ns"].sum()), us(span_ns(own))] == close(
        linked, abs=1e-6, rel=0
    )
    assert [us(ns) for ns in found.steps["duration_ns"]] == close(steps, abs=1e-6, rel=0)
    assert set(table["device"]) == {device}


def test_a_grid_in_work_items_is_read_as_workgroups(kineto: Read) -> None:
    """[141,512] by [512,512] in tiles of 16 by 16 is 9 by 32 workgroups."""
    table = kineto(f"pairs_mi300/{BERT}").dispatches
    rows = table[table["op_inputs"].str.contains("[141,512],[512,512]", regex=False)]
    assert len(rows) > 10
    assert rows["name"].str.contains("MT16x16").all()
    assert set(rows["grid_x"]) == {288}
    assert set(rows["op_stack"]) == {"aten::linear;aten::addmm"}


def test_before_rocm_6_3_the_grid_is_that_of_the_launch(kineto: Read) -> None:
    table = kineto("other/hta_mi250_minitoy_train_ROCm6_2_kineto").dispatches
    kernels = table[table["kind"] == "kernel"]
    assert kernels["grid_x"].notna().all()
    assert kernels.loc[kernels["name"].str.startswith("Cijk_"), "grid_x"].tolist() == [2, 2]
    assert table.loc[table["kind"] == "memcpy", "bytes"].tolist() == [2560, 2560]


def test_every_linked_activity_of_recent_traces_has_its_operator(kineto: Read) -> None:
    for name in (f"pairs_mi300/{QWEN}", f"pairs_h100/{QWEN}", "other/mi300_resnet_act_checkpoint"):
        table = kineto(name).dispatches
        assert (table["op_name"].ne("") == table["linked"]).all()
        assert (table["op_id"].notna() == table["linked"]).all()


def test_collectives(kineto: Read) -> None:
    rows = kineto("other/mi300_resnet_act_checkpoint").dispatches.query("collective != ''")
    assert rows["collective"].astype("str").value_counts().to_dict() == {
        "broadcast": 6,
        "allreduce": 6,
    }
    assert set(rows["collective_bytes"]) == {19200, 160, 2 * 2873320, 2 * 8816192}
    assert set(rows["group_size"]) == {8}


def test_old_traces_number_launches_as_their_correlation(shared_data: Path) -> None:
    """In 2023, a third of these kernels carry the number of an operator that they are not of."""
    path = shared_data / "profiles" / "chakra" / "param_resnet_kineto.json.gz"
    assert KinetoReader().sniff(path, head(path))
    found = KinetoReader().trace([DataFile(path, path.name, True)], Options())
    assert {finding.code: finding.count for finding in found.findings} == {
        "operator-by-time": 10113
    }
    convolutions = found.dispatches["name"].str.contains("cudnn|xmma|scudnn|winograd", regex=True)
    stacks = found.dispatches.loc[convolutions, "op_stack"]
    assert stacks.str.contains("conv|batch_norm", regex=True, case=False).mean() > 0.95
