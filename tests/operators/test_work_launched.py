"""Collectives by their message, kernels by their launch."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.operators.operators import group_labels, op_of, work_of
from flopcast.table.measurements import clean

COLLECTIVE, KERNEL = op_of("collective"), op_of("kernel")


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("allreduce", 2),
        ("all_to_allv", 2),
        ("allgather", 1.25),
        ("_allgather_base", 1.25),
        ("all_gather_into_tensor_coalesced", 1.25),
        ("reduce_scatter_tensor", 1.25),
        ("broadcast", 1),
        ("send", 1),
        ("gather", 1),
        ("reduce", 1),
    ],
)
def test_traffic_of_one_rank_of_four(name: str, share: float):
    frame = pd.DataFrame({"op": ["collective"], "variant": name, "message_bytes": 1000, "ranks": 4})
    assert COLLECTIVE.bytes(frame) == 1000 * share
    assert COLLECTIVE.flops(frame) == 0
    assert COLLECTIVE.gemm_view(frame).iloc[0].tolist() == [4, 1, 1000, 1]


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("all_reduce in-place", 1.5), ("_allgather_base", 0.75), ("reduce_scatter_tensor", 0.75), ("all_to_all", 0.75),
        ("all_to_allv", 0), ("broadcast", 1), ("reduce", 1), ("send", 1), ("gather", 0), ("barrier", 0),
    ],
)  # fmt: skip
def test_what_the_links_of_one_rank_of_four_carry(name: str, share: float):
    frame = pd.DataFrame({"op": ["collective"], "variant": name, "message_bytes": 1000, "ranks": 4})
    sent, peers = COLLECTIVE.sent(frame)
    assert (sent.tolist(), peers.tolist()) == ([1000 * share], [3])
    assert COLLECTIVE.sent(frame.assign(ranks=1))[0].tolist() == [0]
    assert KERNEL.sent(frame) is None


def test_a_kernel_has_a_launch_and_unknown_work():
    frame = pd.DataFrame(
        {"op": ["kernel"], "variant": "attn_fwd", "workgroups": 304, "threads": 256}
    )
    work = work_of(frame)
    assert np.isnan([work.flops[0], work.bytes[0]]).all()
    assert [work.batch[0], work.m[0], work.n[0], work.k[0]] == [1, 304, 256, 1]
    assert "variant" in KERNEL.identity


def test_groups_are_by_kernel_and_by_collective_and_ranks():
    frame = pd.DataFrame(
        {
            "op": ["kernel", "kernel", "collective", "collective"],
            "variant": ["a", "b", "allreduce", "allreduce"],
            "workgroups": [1.0, 2.0, np.nan, np.nan],
            "threads": [64.0, 64.0, np.nan, np.nan],
            "message_bytes": [np.nan, np.nan, 10.0, 20.0],
            "ranks": [np.nan, np.nan, 8.0, 8.0],
        }
    )
    assert (
        group_labels(frame).tolist() == ["kernel a", "kernel b"] + ["collective allreduce of 8"] * 2
    )


def test_neither_needs_a_number_format_but_others_do():
    launch = {"workgroups": 4, "threads": 64, "variant": "k"}
    rows = [{"op": "kernel", **launch}, {"op": "collective", "message_bytes": 8, "ranks": 2}]
    rows += [{"op": "copy", "rows": 1, "cols": 8}, {"op": "kernel", "threads": 64}]
    raw = pd.DataFrame(rows).assign(
        device="MI300X", duration_us=1.0, source=["t:1", "t:2", "t:3", "t:4"]
    )
    cleaned = clean(raw)
    assert cleaned.frame["op"].tolist() == ["kernel", "collective"]
    assert cleaned.frame["variant"].tolist() == ["k", ""]
    assert cleaned.rejected["reason"].tolist() == ["no-number-format", "missing-dimension"]
