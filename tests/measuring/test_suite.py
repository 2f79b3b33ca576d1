"""The default grids."""

from __future__ import annotations

import pandas as pd
import pytest

from flopcast.datasets.workloads import shapes
from flopcast.errors import DataError
from flopcast.measuring.grids import FAMILIES, SUITES, operators, suite
from flopcast.operators.operators import OPS, work_of
from flopcast.table.measurements import REFUSED, judge

GRIDS = [(name, gpu, ranks) for name in SUITES for gpu, ranks in ((False, 1), (True, 1), (True, 8))]


@pytest.mark.parametrize(("name", "gpu", "ranks"), GRIDS)
def test_every_row_is_a_problem_that_models_can_learn(name: str, gpu: bool, ranks: int) -> None:
    rows = suite(name, gpu=gpu, ranks=ranks)
    assert len({tuple(sorted(row.items())) for row in rows}) == len(rows)
    judged = judge(pd.DataFrame(rows).assign(source="suite"), required=())
    assert set(judged[REFUSED]) == {""}
    assert (work_of(judged).bytes > 0).all()


def test_small_is_a_part_of_full_with_every_operator_and_format() -> None:
    full, small = (suite(name, gpu=True) for name in ("full", "small"))
    assert all(row in full for row in small)
    assert len(small) < len(full) / 5
    kinds = [{(row["op"], row.get("variant", ""), row["dtype_a"]) for row in rows} for rows in (full, small)]
    assert kinds[0] == kinds[1]


def test_the_families_are_there_on_a_gpu_and_collectives_with_several() -> None:
    here = {row["op"] for row in suite("full", gpu=True, ranks=8)}
    assert not [name for name, ops in FAMILIES.items() if here.isdisjoint(ops)]
    alone = {row["op"] for row in suite("full", gpu=True, ranks=1)}
    assert here - alone == {"collective"}
    assert {op for ops in FAMILIES.values() for op in ops} <= set(OPS)


def test_prefill_and_decode_are_both_there() -> None:
    rows = suite("full", gpu=True, families=["attention"])
    assert {row["op"] for row in rows} == {"attention"}
    assert {(row["seq_q"] == 1, row["causal"]) for row in rows} == {(True, False), (False, True)}


def test_messages_are_shared_out_evenly_among_any_number_of_gpus() -> None:
    rows = suite("full", gpu=True, families=["collective"], ranks=6)
    assert rows
    assert all(row["message_bytes"] % (6 * 2) == 0 for row in rows)


def test_embedded_is_what_the_embedded_data_hold() -> None:
    assert suite("embedded", gpu=False) == list(shapes())


def test_names_of_families_and_operators_are_understood() -> None:
    assert operators(["norm", "gelu"]) == {"layer_norm", "rms_norm", "batch_norm", "batch_norm_inference", "gelu"}
    assert "gemm" in operators(None)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: suite("huge", gpu=False), "--suite must be one of small, full, embedded, got 'huge'"),
        (lambda: suite("small", gpu=False, families=["gem"]), "unknown kernel 'gem': --kernel knows gemm"),
        (lambda: suite("small", gpu=True, families=["collective"]), "two GPUs or more"),
        (lambda: suite("embedded", gpu=False, families=["cross_entropy"]), "choose other kernels"),
    ],
)
def test_wrong_names_are_refused(call: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        call()  # type: ignore[operator]
