"""What PyTorch itself records and counts: its profiler's arguments, and the FLOPs of its own counter, on the CPU."""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from flopcast.operators.operators import work_of
from flopcast.traces.activity_work import describe

SIDES = {
    "dims": "Input Dims",
    "types": "Input type",
    "strides": "Input Strides",
    "values": "Concrete Inputs",
}


@pytest.fixture(scope="module")
def torch() -> types.ModuleType:
    return pytest.importorskip(
        "torch", reason="PyTorch is not installed (pip install flopcast[measure])"
    )


def recorded(torch: types.ModuleType, run: Callable[[], Any], folder: Path) -> pd.DataFrame:
    """Return the operator calls that the profiler writes of a run, described."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
    ) as profile:
        run()
    profile.export_chrome_trace(str(folder / "trace.json"))
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    calls = [
        event for event in events if event.get("cat") == "cpu_op" and "Input Dims" in event["args"]
    ]
    told = [
        json.dumps({side: call["args"][name] for side, name in SIDES.items()}) for call in calls
    ]
    table = pd.DataFrame({"op_name": [call["name"] for call in calls], "op_inputs": told})
    return pd.concat([table, describe(table)], axis=1)


def products(torch: types.ModuleType) -> dict[str, tuple[str, Callable[[], Any]]]:
    """Return an operator to look for and a run that calls it, for each case."""
    f = torch.nn.functional
    r = torch.randn
    return {
        "mm": ("aten::mm", lambda: r(12, 8) @ r(8, 5)),
        "mm of a transposed matrix": ("aten::mm", lambda: r(12, 8) @ r(5, 8).t()),
        "linear": ("aten::addmm", lambda: f.linear(r(3, 4, 8), r(5, 8), r(5))),
        "bmm": ("aten::bmm", lambda: torch.bmm(r(6, 4, 8), r(6, 8, 5))),
        "baddbmm": ("aten::baddbmm", lambda: torch.baddbmm(r(6, 4, 5), r(6, 4, 8), r(6, 8, 5))),
        "conv1d": (
            "aten::convolution",
            lambda: f.conv1d(r(2, 4, 20), r(6, 4, 3), r(6), padding=2, dilation=2),
        ),
        "conv2d": (
            "aten::convolution",
            lambda: f.conv2d(r(2, 6, 9, 10), r(8, 3, 3, 2), stride=(2, 1), groups=2),
        ),
        "conv3d": (
            "aten::convolution",
            lambda: f.conv3d(r(1, 2, 5, 6, 7), r(4, 2, 2, 3, 3), padding=1),
        ),
        "transposed": (
            "aten::convolution",
            lambda: f.conv_transpose2d(
                r(2, 8, 5, 6), r(8, 3, 3, 3), stride=2, padding=1, output_padding=1, groups=2
            ),
        ),
    }


CASES = [
    "mm",
    "mm of a transposed matrix",
    "linear",
    "bmm",
    "baddbmm",
    "conv1d",
    "conv2d",
    "conv3d",
    "transposed",
]


@pytest.mark.parametrize("case", CASES)
def test_flops_are_those_of_pytorchs_counter(torch: types.ModuleType, tmp_path: Path, case: str):
    from torch.utils.flop_counter import FlopCounterMode

    name, run = products(torch)[case]
    with FlopCounterMode(display=False) as counter:
        run()
    found = recorded(torch, run, tmp_path)
    rows = found[found["op_name"] == name]
    assert len(rows) == 1
    assert rows["op"].ne("").all()
    assert work_of(rows).flops.sum() == counter.get_total_flops() > 0


def test_attention_and_its_gradient(torch: types.ModuleType, tmp_path: Path):
    from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count

    q, k, v = torch.randn(2, 3, 16, 8), torch.randn(2, 3, 20, 8), torch.randn(2, 3, 20, 12)
    found = recorded(
        torch, lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v), tmp_path
    )
    rows = found[found["op_name"] == "aten::scaled_dot_product_attention"]
    assert work_of(rows).flops.sum() == sdpa_flop_count(q.shape, k.shape, v.shape)
    backward = work_of(rows.assign(op="attention_backward")).flops.sum()
    assert backward == sdpa_backward_flop_count((*q.shape[:3], 12), q.shape, k.shape, v.shape)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("inputs_too", [False, True])
def test_gradients_of_convolutions(
    torch: types.ModuleType, tmp_path: Path, transposed: bool, inputs_too: bool
):
    from torch.utils.flop_counter import FlopCounterMode

    convolve = torch.nn.functional.conv_transpose2d if transposed else torch.nn.functional.conv2d
    x, w = (
        torch.randn(2, 6, 9, 9, requires_grad=inputs_too),
        torch.randn(6, 6, 3, 3, requires_grad=True),
    )
    y = convolve(x, w, stride=2)

    def backward() -> None:
        torch.autograd.grad(y.sum(), [w, x] if inputs_too else [w], retain_graph=True)

    with FlopCounterMode(display=False) as counter:
        backward()
    found = recorded(torch, backward, tmp_path)
    rows = found[found["op_name"] == "aten::convolution_backward"]
    first = "F" if transposed else "B"
    assert rows["direction"].tolist() == [first + "W" if inputs_too else "W"]
    assert work_of(rows).flops.sum() == counter.get_total_flops() > 0


def test_vector_operators_have_the_sizes_of_their_tensors(torch: types.ModuleType, tmp_path: Path):
    f, x = torch.nn.functional, torch.randn(6, 8, 32)
    half = x.bfloat16()
    runs: dict[str, tuple[Callable[[], Any], str, float]] = {
        "aten::native_layer_norm": (
            lambda: f.layer_norm(x, (32,), x[0, 0], x[0, 0]),
            "layer_norm",
            4 * (2 * 1536 + 64),
        ),
        "aten::native_group_norm": (lambda: f.group_norm(x, 4), "group_norm", 4 * 2 * 1536),
        "aten::_softmax": (lambda: f.softmax(x, dim=-1), "softmax", 4 * 2 * 1536),
        "aten::_log_softmax": (lambda: f.log_softmax(x, dim=1), "softmax", 4 * 2 * 1536),
        "aten::sum": (lambda: x.sum((0, 2)), "reduction", 4 * (1536 + 8)),
        "aten::mean": (lambda: half.mean(), "reduction", 2 * (1536 + 1)),
        "aten::amax": (lambda: x.amax(-1), "reduction", 4 * (1536 + 48)),
        "aten::argmax": (lambda: x.argmax(-1), "reduction", 4 * 1536 + 8 * 48),
        "aten::add": (lambda: x + x, "add", 4 * 3 * 1536),
        "aten::mul": (lambda: x * x[0, 0], "elementwise", 4 * (2 * 1536 + 32)),
        "aten::div": (lambda: x / 3, "divu", 4 * 2 * 1536),
        "aten::sub": (lambda: half - x, "elementwise", (2 + 4 + 4) * 1536),
        "aten::eq": (lambda: x == 0, "elementwise", (4 + 1) * 1536),
        "aten::where": (lambda: torch.where(x > 0, x, x), "elementwise", (1 + 4 + 4 + 4) * 1536),
        "aten::masked_fill_": (
            lambda: x.clone().masked_fill_(x > 0, 0),
            "elementwise",
            (4 + 1 + 4) * 1536,
        ),
        "aten::silu": (lambda: f.silu(x), "elementwise", 4 * 2 * 1536),
        "aten::gelu": (lambda: f.gelu(x), "gelu", 4 * 2 * 1536),
        "aten::copy_": (lambda: x.half(), "copy", (4 + 2) * 1536),
        "aten::fill_": (lambda: torch.full((5, 7), 3.0), "fill", 4 * 35),
        "aten::index_select": (
            lambda: f.embedding(torch.arange(5), x[0]),
            "gather",
            5 * (32 * 8 + 8),
        ),
        "aten::gather": (
            lambda: x.gather(2, torch.zeros(6, 8, 1, dtype=torch.int64)),
            "gather",
            48 * (4 + 4 + 8),
        ),
        "aten::mse_loss": (lambda: f.mse_loss(x, x), "loss", 4 * (2 * 1536 + 1)),
        "aten::max": (lambda: torch.max(x, dim=0), "reduction", 4 * (1536 + 256)),
        "aten::upsample_nearest1d": (
            lambda: f.interpolate(x, size=64),
            "elementwise",
            4 * (1536 + 2 * 1536),
        ),
    }
    found = recorded(torch, lambda: [run() for run, _, _ in runs.values()], tmp_path)
    for name, (_, op, moved) in runs.items():
        rows = found[(found["op_name"] == name) & (found["op"] == op)]
        assert moved in work_of(rows).bytes, name
