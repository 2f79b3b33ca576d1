"""Cells of rows before they are measured."""

from __future__ import annotations

import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.measuring.rows import FAMILIES, SUITES, described, operators, suite_rows
from flopcast.operators.op import sizes, unknown, word
from flopcast.operators.operators import OPS, work_of
from flopcast.table.measurements import REFUSED, judge


@pytest.mark.parametrize(
    ("row", "text"),
    [({"a": "x"}, "x"), ({"a": None}, ""), ({"a": float("nan")}, ""), ({}, ""), ({"a": 3}, "3")],
)
def test_a_missing_word_is_empty(row: dict[str, object], text: str) -> None:
    assert word(row, "a") == text


def test_sizes_are_whole_numbers_or_the_default() -> None:
    assert sizes({"m": 4.0, "n": 8}, "m", "n") == [4, 8]
    assert sizes({"g": float("nan")}, "g", default=1) == [1]


@pytest.mark.parametrize("value", [2.5, "wide", None])
def test_what_is_no_size_is_refused(value: object) -> None:
    with pytest.raises(DataError, match="gemm"):
        sizes({"op": "gemm", "m": value}, "m")


def test_rows_in_words() -> None:
    row = {"op": "gemm", "dtype_a": "bf16", "m": 16.0, "n": 4096, "k": 7168, "scale_block": ""}
    assert described(row) == "gemm bf16 m=16 n=4096 k=7168"
    assert "measured: known here" in str(
        unknown({"op": "softmax", "variant": "odd"}, "variant", "log")
    )


GRIDS = [(name, gpu, ranks) for name in SUITES for gpu, ranks in ((False, 1), (True, 1), (True, 8))]


@pytest.mark.parametrize(("name", "gpu", "ranks"), GRIDS)
def test_every_row_is_a_problem_that_models_can_learn(name: str, gpu: bool, ranks: int) -> None:
    rows = suite_rows(name, gpu=gpu, ranks=ranks)
    assert len({tuple(sorted(row.items())) for row in rows}) == len(rows)
    judged = judge(pd.DataFrame(rows).assign(source="suite"), required=())
    assert set(judged[REFUSED]) == {""}
    assert (work_of(judged).bytes > 0).all()


def test_small_is_a_part_of_full_with_every_operator_and_format() -> None:
    full, small = (suite_rows(name, gpu=True) for name in ("full", "small"))
    assert all(row in full for row in small)
    assert len(small) < len(full) / 5
    kinds = [
        {(row["op"], row.get("variant", ""), row["dtype_a"]) for row in rows}
        for rows in (full, small)
    ]
    assert kinds[0] == kinds[1]


def test_the_families_are_there_on_a_gpu_and_collectives_with_several() -> None:
    here = {row["op"] for row in suite_rows("full", gpu=True, ranks=8)}
    assert not [name for name, ops in FAMILIES.items() if here.isdisjoint(ops)]
    alone = {row["op"] for row in suite_rows("full", gpu=True, ranks=1)}
    assert here - alone == {"collective"}
    assert {op for ops in FAMILIES.values() for op in ops} <= set(OPS)


def test_prefill_and_decode_are_both_there() -> None:
    rows = suite_rows("full", gpu=True, families=["attention"])
    assert {row["op"] for row in rows} == {"attention"}
    assert {(row["seq_q"] == 1, row["causal"]) for row in rows} == {(True, False), (False, True)}


def test_messages_are_shared_out_evenly_among_any_number_of_gpus() -> None:
    rows = suite_rows("full", gpu=True, families=["collective"], ranks=6)
    assert rows
    assert all(row["message_bytes"] % (6 * 2) == 0 for row in rows)


def test_names_of_families_and_operators_are_understood() -> None:
    assert operators(["norm", "gelu"]) == {
        "layer_norm",
        "rms_norm",
        "batch_norm",
        "batch_norm_inference",
        "gelu",
    }
    assert "gemm" in operators(None)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: suite_rows("huge", gpu=False), r"preset.*'huge'"),
        (lambda: suite_rows("small", gpu=False, families=["gem"]), r"op.*'gem'"),
        (lambda: suite_rows("small", gpu=True, families=["collective"]), "two GPUs or more"),
        (
            lambda: suite_rows("fingrav", gpu=False, families=["cross_entropy"]),
            "choose other kernels",
        ),
    ],
)
def test_wrong_names_are_refused(call: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        call()  # type: ignore[operator]


def test_the_published_kernels_of_power_need_several_gpus_for_their_collectives() -> None:
    alone, both = (suite_rows("fingrav", gpu=True, ranks=ranks) for ranks in (1, 8))
    assert {(row["m"], row["n"]) for row in alone} == {
        (m, n) for m in (2048, 4096, 8192) for n in (1, m)
    }
    assert [row["variant"] for row in both if row["op"] == "collective"] == ["all_gather"] * 4 + [
        "all_reduce"
    ] * 4
