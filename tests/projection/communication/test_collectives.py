from __future__ import annotations

import pandas as pd
import pytest

from flopcast.projection.communication.algorithms import COLLECTIVES, collective_of, collectives_of


@pytest.mark.parametrize(
    ("name", "collective"),
    [
        ("allreduce", "all_reduce"),
        ("allreduce_coalesced", "all_reduce"),
        ("barrier", "all_reduce"),
        ("_allgather_base", "all_gather"),
        ("all_gather_into_tensor", "all_gather"),
        ("_reduce_scatter_base", "reduce_scatter"),
        ("reduce_scatter_tensor_coalesced", "reduce_scatter"),
        ("all_to_allv", "all_to_all"),
        ("broadcast", "broadcast"),
        ("reduce", "reduce"),
        ("gather", "gather"),
        ("scatter", "scatter"),
        ("send", "send_recv"),
        ("recv", "send_recv"),
        ("irecvAnySource", "send_recv"),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)", "all_reduce"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "reduce_scatter"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send_recv"),
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", ""),
        ("resend_buffers", ""),
        ("", ""),
    ],
)
def test_names_of_frameworks_and_kernels(name: str, collective: str) -> None:
    assert collective_of(name) == collective


def test_a_canonical_name_stands_for_itself() -> None:
    assert [collective_of(name) for name in COLLECTIVES] == list(COLLECTIVES)


def test_the_arguments_come_before_the_kernels_name() -> None:
    table = pd.DataFrame({"collective": ["broadcast", ""], "name": ["ncclDevKernel_AllGather_RING_LL()"] * 2})
    assert collectives_of(table.set_axis([7, 3])).to_dict() == {7: "broadcast", 3: "all_gather"}
