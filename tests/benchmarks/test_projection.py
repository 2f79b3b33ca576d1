"""The benchmark of the laws: errors counted by hand, a correction that never sees its own group."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.benchmarks import projection_laws, projection_traces
from flopcast.benchmarks.projection_forms import kernel_errors, left_out
from flopcast.benchmarks.projection_laws import (
    CAMPAIGNS,
    LAWS,
    Campaign,
    across,
    class_rows,
    entries,
    law_rows,
    main,
    shown,
)
from flopcast.hardware import find
from flopcast.laws.computation import Affine
from flopcast.projection.kernel_laws import ERRORS
from flopcast.projection.uncertainty import GAP_SIGMA
from flopcast.readers import Measurements, read
from flopcast.traces.summary import Annotated

CAMPAIGN = Campaign("tuner", (), "MI300X", "MI355X")


@pytest.fixture
def paired() -> pd.DataFrame:
    """Products of eight weight shapes that take 0.6 of the host's time on the target."""
    table = pd.DataFrame(
        [(m, 1024 * n, 4096) for m in (16, 4096) for n in range(1, 9)], columns=["m", "n", "k"]
    )
    time = 20.0 + np.arange(len(table))
    return table.assign(op="gemm", dtype_a="fp8", host_duration_us=time, duration_us=0.6 * time)


def test_errors_of_a_law_by_class(paired: pd.DataFrame) -> None:
    rows = pd.DataFrame(law_rows(CAMPAIGN, paired, by_dtype=True)).set_index("law")
    assert rows.index.tolist() == [*LAWS, "affine+correction"]
    assert set(rows["class"]) == {"gemm fp8"}
    flops = rows.loc["flops"]
    ratio = 2614.9 / 5033.2
    assert flops["bias"] == pytest.approx(np.log(0.6 / ratio))
    assert (flops["spread"], flops["n"]) == (pytest.approx(0, abs=1e-9), 16)
    assert flops["total"] == pytest.approx(100 * (ratio / 0.6 - 1))
    assert flops["each"] == pytest.approx(100 * (1 - ratio / 0.6))


def test_a_correction_learns_from_the_other_groups(paired: pd.DataFrame) -> None:
    slow = paired.assign(
        duration_us=paired["duration_us"] * np.where(paired["n"] == 1024, 5.0, 1.0)
    )
    rows = pd.DataFrame(law_rows(CAMPAIGN, slow, by_dtype=False)).set_index("law")
    # the slow group is projected as the others are
    assert rows.loc["affine+correction", "total"] < -15


def test_one_group_has_no_other_to_learn_from(paired: pd.DataFrame) -> None:
    rows = pd.DataFrame(law_rows(CAMPAIGN, paired[paired["n"] == 1024], by_dtype=False))
    assert rows["law"].tolist() == list(LAWS)


def test_entries_are_those_of_the_law_errors(paired: pd.DataFrame) -> None:
    rows = pd.DataFrame(law_rows(CAMPAIGN, paired, by_dtype=False))
    lines = list(entries(rows))
    assert len(lines) == len(LAWS) - 1
    assert [line.strip() for line in lines if '"flops", "gemm"' in line] == [
        '["flops", "gemm", "CDNA3", "CDNA4", 0.14, 0.00, 16],'
    ]


def test_pairs_stand_side_by_side_with_the_largest_and_the_mean_error() -> None:
    rows = pd.DataFrame(
        {"model": ["a", "b"], "host": "MI300X", "host_us": 3.0, "target_us": 4.0, "affine": [-10.0, 4.0],
         "share trained": 50.0}
    )  # fmt: skip
    table = across(rows).set_index("")
    assert table.loc["affine", ["most", "mean"]].tolist() == [10.0, 7.0]
    assert table.loc["host_us", ["most", "mean"]].isna().all()
    assert shown("title", across(rows)).row_count == 4


def test_without_the_data_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(tmp_path / "nowhere")]) == 0
    assert "skipped: the measured data" in capsys.readouterr().out
    assert main(["--data", str(tmp_path)]) == 2


@pytest.mark.long
def test_the_shipped_errors_are_those_of_the_data(
    shared_data: Path,
    aiter_data: Measurements,
    miopen_data: Measurements,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # all of its GPUs: a campaign takes its own two
    known = {"aiter": aiter_data, "miopen": miopen_data}
    monkeypatch.setattr(
        projection_laws,
        "read",
        lambda paths: known.get(paths[0].relative_to(shared_data).parts[0]) or read(paths),
    )
    rows = [
        row
        for case in CAMPAIGNS
        for row in takewhile(
            # the corrected ones, which have none, come last and take longest
            lambda row: "bias" in row,
            law_rows(case, projection_laws.paired(case, shared_data), by_dtype=False),
        )
        if row["law"] != "flops-uniform" and not pd.isna(row["bias"])
    ]
    of_campaigns = [error for error in ERRORS if "Hopper" not in (error.host, error.target)]
    shipped = {(one.law, one.op_class, one.host, one.target): one for one in of_campaigns}
    assert len(rows) == len(shipped) == len(of_campaigns)
    for row in rows:
        host, target = (find(str(row[name])).arch for name in ("host", "target"))
        error = shipped[row["law"], row["class"], host, target]
        assert (row["bias"], row["spread"]) == pytest.approx(
            (error.bias, error.spread), abs=0.0051
        ), error
        assert row["n"] == error.n


def test_traces_are_skipped_where_there_is_no_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert projection_traces.main(["--data", str(tmp_path / "nowhere")]) == 0
    assert capsys.readouterr().out.startswith("skipped: the measured data")


def test_errors_of_traces_are_summed_up_by_law() -> None:
    rows = [
        {"law": law, "sum": error, "overlap": -error, "replay": 1.0}
        for law in ("flops", "affine")
        for error in (10.0, -30.0)
    ]
    found = projection_traces.summary(pd.DataFrame(rows)).set_index("law")
    assert found.index.tolist() == ["flops", "affine"]
    assert found.loc["flops", ["sum mean", "overlap most", "replay mean"]].tolist() == [
        20.0,
        30.0,
        1.0,
    ]


@pytest.mark.long
def test_how_much_gaps_of_unknown_cause_change_is_what_was_measured(shared_data: Path) -> None:
    ratios = [row["ratio"] for row in projection_traces.idle_changes(shared_data)]
    assert np.sqrt(np.mean(np.log(ratios) ** 2)) == pytest.approx(GAP_SIGMA, abs=0.005)


@pytest.mark.long
def test_a_projected_trace_is_judged_by_the_other_gpu(
    shared_data: Path, kineto: Callable[[str], Annotated], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = projection_traces.trace

    def known(path: Path) -> Annotated:
        judged = "Falconsai" in path.name
        return (
            own(path)
            if judged
            else kineto(f"{path.parent.name}/{path.name.removesuffix('.json.gz')}")
        )

    monkeypatch.setattr(projection_traces, "trace", known)
    (first, *_) = projection_traces.pairs(shared_data)
    model, host, target, trace, there, others = first
    assert (model, host, target) == ("Falconsai", "MI300X", "H100 SXM5")
    assert there == pytest.approx(7559.844)
    assert len(others) == 6
    assert not any("Falconsai" in path.name for path in others)
    assert len(trace.calls) > 0


def test_a_form_is_judged_by_what_was_chosen_on_the_other_pairs() -> None:
    errors = pd.DataFrame(
        [("a", 1.0, 9.0), ("a", 3.0, 9.0), ("b", 4.0, 5.0), ("c", 20.0, 3.0)],
        columns=["pair", "power 0", "power 1"],
    )
    found = left_out(errors, "pair", ["power 0", "power 1"]).set_index("pair")
    assert found["chosen on the others"].tolist() == ["power 1", "power 1", "power 0"]
    assert found["error"].tolist() == [9.0, 5.0, 20.0]


def test_forms_are_the_law_with_another_power(paired: pd.DataFrame) -> None:
    found = kernel_errors("tuner", paired, "MI300X", "MI355X")
    own = Affine.power
    assert found[f"power {own:g}"] != found["power 0"]
    assert Affine.power == own


def test_classes_of_traces_tell_how_a_law_errs(shared_data: Path) -> None:
    table = pd.DataFrame(class_rows(shared_data))
    kept = {
        (one.law, one.op_class): one
        for one in ERRORS
        if {one.host, one.target} == {"CDNA3", "Hopper"}
    }
    for row in table[table["law"].eq("affine")].to_dict("records"):
        error = kept[str(row["law"]), str(row["class"])]
        assert (error.bias, error.spread, error.n) == (
            pytest.approx(row["bias"], abs=0.006),
            pytest.approx(row["spread"], abs=0.006),
            row["n"],
        )
