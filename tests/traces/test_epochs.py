"""Epochs: how a run is cut, and what a row says of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.readers import read
from flopcast.traces.dispatches import dispatch_table
from flopcast.traces.epochs import OUTSIDE, EpochRule, epoch_numbers, epochs, matching, parse_rule


def run(count: int, **columns: Any) -> pd.DataFrame:
    """Return kernels of 6 us every 10 us with what `annotate` adds."""
    common = {
        "kind": "kernel",
        "device": "MI300X",
        "gpu": 0,
        "name": "k",
        "linked": True,
        "grid_x": 4,
        "block_x": 64,
    }
    added = {
        name: columns.pop(name) for name in ("flops", "bytes_moved", "op_class") if name in columns
    }
    place = np.arange(count)
    known = {**common, "start_ns": 10_000 * place, "duration_ns": np.full(count, 6_000)}
    table = dispatch_table({**known, "source": [f"t:{i}" for i in place], **columns})
    return table.assign(**{"flops": 100.0, "bytes_moved": 10.0, "op_class": "gemm", **added})


def numbers(table: pd.DataFrame, rule: str) -> list[int]:
    return epoch_numbers(table, parse_rule(rule)).tolist()


def test_steps_are_epochs() -> None:
    assert numbers(run(4, step=[7, 7, pd.NA, 8]), "step") == [7, 7, OUTSIDE, 8]
    with pytest.raises(DataError, match="step"):
        numbers(run(2), "step")


def test_fixed_numbers_of_kernels_leave_out_the_rest_and_count_each_gpu() -> None:
    assert numbers(run(7), "kernels:3") == [0, 0, 0, 1, 1, 1, OUTSIDE]
    assert numbers(run(6), "kernels:3") == [0, 0, 0, 1, 1, 1]
    assert numbers(run(6, gpu=[0, 1, 0, 1, 0, 0]), "kernels:2") == [0, 0, 0, 0, 1, 1]
    copies = run(6, kind=["kernel", "memcpy", "kernel", "memcpy", "kernel", "kernel"])
    assert numbers(copies, "kernels:2") == [0, 0, 0, 1, 1, 1]


def test_fixed_work_cuts_where_so_many_flops_are_done() -> None:
    assert numbers(run(5, flops=[60.0, np.nan, 60.0, 100.0, 10.0]), "flops:100") == [
        0,
        0,
        0,
        1,
        OUTSIDE,
    ]
    assert numbers(run(3, flops=[950.0, 100.0, 10.0]), "flops:100") == [0, 1, OUTSIDE]
    with pytest.raises(DataError, match="FLOPs"):
        numbers(run(3, flops=np.nan), "flops:100")


def test_markers_are_names_of_kernels_or_of_the_operators_around_them() -> None:
    table = run(6, name=["a", "embed", "embed", "b", "embed", "b"])
    assert numbers(table, "marker:^emb") == [OUTSIDE, 0, 0, 0, 1, 1]
    inside = run(3, op_stack=["model;layer.0", "model;layer.1", "model;layer.1"])
    assert numbers(inside, "marker:layer.1") == [OUTSIDE, 0, 0]
    with pytest.raises(DataError, match="marker:never: no range"):
        numbers(table, "marker:never")


def test_ranges_hold_what_starts_in_them() -> None:
    ranges = pd.DataFrame({"name": ["decode", "prefill", "other"], "start_ns": [25_000, 5_000, 0]})
    ranges["duration_ns"] = [20_000, 15_001, 10**9]
    found = epoch_numbers(run(6), EpochRule("marker", pattern="code|fill"), ranges)
    assert found.tolist() == [OUTSIDE, 0, 0, 1, 1, OUTSIDE]
    assert epoch_numbers(run(6), EpochRule("marker", pattern="."), ranges).tolist() == [
        0,
        1,
        1,
        2,
        2,
        0,
    ]
    with pytest.raises(DataError, match="range, no kernel"):
        epoch_numbers(run(6), EpochRule("marker", pattern="train"), ranges)


def test_without_a_range_of_that_name_kernels_are_the_markers() -> None:
    ranges = pd.DataFrame({"name": ["decode"], "start_ns": [0], "duration_ns": [10**9]})
    table = run(4, name=["a", "embed", "b", "embed"])
    assert epoch_numbers(table, parse_rule("marker:embed"), ranges).tolist() == [OUTSIDE, 0, 0, 1]
    assert matching(ranges, parse_rule("marker:embed")).empty
    assert matching(ranges, parse_rule("kernels:2")).empty
    assert matching(None, parse_rule("marker:decode")).empty
    assert matching(ranges, parse_rule("marker:^dec"))["name"].tolist() == ["decode"]


def test_a_row_has_span_busy_time_work_counters_and_shares() -> None:
    table = run(4, bytes_moved=[1e6, np.nan, 2e6, 2e6], op_class=["gemm", "", "gemm", "gemm"])
    table = table.assign(**{"counter.waves": [1.0, 2.0, np.nan, np.nan]})
    first, second = epochs(table, parse_rule("kernels:2"), "train").to_dict("records")
    assert [first[name] for name in ("op", "variant", "index", "campaign")] == [
        "epoch",
        "kernels:2",
        0.0,
        "train",
    ]
    assert (first["duration_us"], first["busy_us"], first["kernels"], first["repeats"]) == (
        16.0,
        12.0,
        2,
        1.0,
    )
    assert (first["workgroups"], first["threads"], first["source"]) == (8.0, 64.0, "t:0")
    assert (first["flops"], first["flops_known"], first["counter.epoch.gflops"]) == (
        200.0,
        1.0,
        2e-7,
    )
    assert np.isnan(first["bytes"])
    assert (first["bytes_known"], second["bytes"], second["counter.epoch.mbytes"]) == (
        0.5,
        4e6,
        4.0,
    )
    assert (first["counter.epoch.share.gemm"], first["counter.epoch.share.unclassified"]) == (
        0.5,
        0.5,
    )
    assert (second["dominant"], second["dominant_share"]) == ("gemm", 1.0)
    assert first["counter.waves"] == 3.0
    assert np.isnan(second["counter.waves"])


def test_epochs_of_two_gpus_are_two_rows() -> None:
    found = epochs(run(4, gpu=[0, 1, 0, 1]), parse_rule("kernels:2"))
    assert found[["index", "kernels", "source"]].to_numpy().tolist() == [
        [0.0, 2, "t:0"],
        [0.0, 2, "t:1"],
    ]


def test_the_rows_are_a_measurement_table(tmp_path: Path) -> None:
    rows = epochs(run(10), parse_rule("kernels:2"), "train")
    rows.to_parquet(tmp_path / "epochs.parquet")
    found = read([tmp_path / "epochs.parquet"]).frame
    assert found["index"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert found["counter.epoch.kernels"].tolist() == [2.0] * 5


def test_less_than_one_epoch_is_refused() -> None:
    with pytest.raises(DataError, match="kernels:9"):
        epochs(run(4), parse_rule("kernels:9"))


@pytest.mark.parametrize(
    "text",
    [
        "steps",
        "kernels:0",
        "kernels:1.5",
        "kernels:",
        "flops:-1",
        "flops:inf",
        "marker:",
        "time:3",
        "",
    ],
)
def test_other_rules_are_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"^epochs.*marker:REGEX"):
        parse_rule(text)


def test_a_broken_expression_is_refused() -> None:
    with pytest.raises(DataError, match="no regular expression"):
        parse_rule("marker:(")
