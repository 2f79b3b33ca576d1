"""The tables that explain a projection."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from flopcast.hardware import find
from flopcast.projection.kernel_laws import Correction
from flopcast.projection.result import (
    class_table,
    cpu_share,
    critical_us,
    gap_summary,
    other_law,
    outcome,
    path_kernels,
    path_shares,
    remark_table,
    step_table,
    total_table,
    verdict,
)
from flopcast.projection.whole_trace import PUBLISHED, Laws, Projection, project_trace
from flopcast.tests.projection.oracles.traces import add, all_reduce, busy, gemm, idle, trace
from flopcast.traces.dispatches import empty_calls
from flopcast.traces.summary import Annotated

HOST, TARGET = find("MI300X"), find("MI355X")


def both(found: object, laws: Laws | None = None) -> tuple[Projection, Projection]:
    projection = project_trace(found, HOST, TARGET, laws)  # type: ignore[arg-type]
    return projection, project_trace(found, HOST, TARGET, PUBLISHED, graph=projection.graph)  # type: ignore[arg-type]


def test_classes_add_up_to_all_activities() -> None:
    projection, published = both(busy())
    table = class_table(projection, published)
    assert table["op_class"].tolist() == ["gemm", "elementwise"]
    assert table["count"].tolist() == [10, 10]
    for name in ("measured_us", "projected_us"):
        assert table[name].sum() == pytest.approx(projection.activities[name].sum())
    assert table["published_us"].sum() == pytest.approx(published.activities["projected_us"].sum())
    assert table["factor"].to_numpy() == pytest.approx(
        (table["projected_us"] / table["measured_us"]).to_numpy()
    )


def test_a_class_without_time_has_no_factor() -> None:
    found = trace([gemm(0, 300), add(400, 0.0)])
    table = class_table(*both(found))
    assert np.isnan(table.set_index("op_class").loc["elementwise", "factor"])


def test_totals_stand_beside_what_was_measured_in_the_same_way() -> None:
    found = trace([gemm(0, 300), all_reduce(100, 400, stream=1, called=50), add(600, 20)])
    projection, published = both(found)
    table = total_table(projection, published).set_index("aggregation")
    assert table.loc["sum", "measured_us"] == 300 + 400 + 20 + 100
    assert table.loc["overlap", "measured_us"] == table.loc["replay", "measured_us"] == 620
    assert table.loc["replay", "projected_us"] == projection.projected_us
    assert table.loc["sum", "published_us"] == published.totals["sum"]


def test_gaps_by_cause() -> None:
    projection, _ = both(idle(11))
    table = gap_summary(projection).set_index("cause")
    assert table.loc["launch-bound"].tolist() == [10, 10 * 95.0]
    assert table["count"].sum() == 10


def test_steps_are_what_was_launched_in_them() -> None:
    steps = pd.DataFrame({"step": [4, 5], "start_ns": [0, 1], "duration_ns": [1, 1]})
    rows = [
        gemm(0, 300, step=4),
        gemm(300, 300, step=4, called=10),
        gemm(1000, 300, step=5),
        add(2000, 5),
    ]
    projection, _ = both(trace(rows, steps=steps))
    table = step_table(projection)
    assert table["step"].tolist() == [4, 5]
    assert table["measured_us"].tolist() == [600, 300]
    assert (table["projected_us"] < table["measured_us"]).all()
    assert step_table(both(busy())[0]).empty


def test_other_laws_and_remarks_on_those_asked_for_are_told_apart() -> None:
    mystery = {"start": 400, "duration": 50, "name": "mystery_kernel"}
    found = trace([gemm(0, 300), mystery])
    (row,) = remark_table(both(found, Laws(compute="flops"))[0]).to_dict("records")
    assert (row["law"], row["other"], row["count"]) == ("bandwidth", True, 1)
    assert row["why"]
    (row,) = remark_table(both(found)[0]).to_dict("records")
    assert (row["law"], row["other"]) == ("affine", False)
    assert [reason.code for reason in row["why"]] == ["operator-unknown"]
    table = class_table(*both(found, Laws(compute="flops"))).set_index("op_class")
    assert table["fallbacks"].to_dict() == {"gemm": 0, "unknown": 1}
    assert class_table(*both(found))["fallbacks"].sum() == 0
    assert remark_table(both(busy(), Laws(compute="bandwidth"))[0]).empty


def test_collectives_and_corrections_have_the_law_asked_for() -> None:
    found = trace([gemm(0, 300), all_reduce(400, 500)])
    projection, _ = both(
        found, Laws(corrections={"gemm": Correction(0.5, 0.1, 9)}, communication="kept")
    )
    assert projection.activities["law"].tolist() == ["affine+correction", "kept"]
    assert not other_law(projection).any()
    kept, _ = both(trace([all_reduce(400, 500, ranks=16)]))
    assert other_law(kept).tolist() == [True]


def test_classes_have_an_interval_of_their_own() -> None:
    table = class_table(*both(busy()), {"gemm": 0.1}, level=0.8).set_index("op_class")
    gemms = table.loc["gemm"]
    assert (gemms["sigma"], gemms["basis"]) == (0.1, "stated")
    reach = np.exp(0.1 * 1.2815515655)
    assert gemms["lower_us"] == pytest.approx(gemms["projected_us"] / reach)
    assert gemms["upper_us"] == pytest.approx(gemms["projected_us"] * reach)
    assert table.loc["elementwise", "basis"] == "measured"


def test_outcomes_for_sweeps() -> None:
    projection, _ = both(busy())
    found = outcome(projection)
    assert found["end_to_end_us"] == projection.projected_us
    assert sum(found["share"].values()) == pytest.approx(1)
    assert set(found["time_us"]) == {"gemm", "elementwise"}
    assert outcome(both(idle())[0])["share"]["launch"] > 0.9


HOST, TARGET = find("MI300X"), find("MI355X")


def projected(found: Annotated, laws: Laws | None = None) -> Projection:
    return project_trace(found, HOST, TARGET, laws)


def test_shares_of_the_path_add_up_and_name_the_pace() -> None:
    full = projected(busy())
    assert sum(path_shares(full.path).values()) == pytest.approx(1)
    assert path_shares(full.measured_path)["activity"] == pytest.approx(1)
    assert (verdict(full).code, verdict(full).values["after"]) == (
        "gpu-sets-pace",
        pytest.approx(0, abs=0.005),
    )
    empty = projected(idle())
    assert cpu_share(empty.path) > 0.9
    assert (verdict(empty).code, verdict(empty).values["already"]) == ("launch-bound", True)


def test_a_faster_gpu_may_become_launch_bound() -> None:
    rows = [gemm(1000.0 + 310 * number, 300, called=900 + 250 * number) for number in range(40)]
    found = verdict(projected(trace(rows), Laws(compute="flops")))
    assert (found.code, found.values["already"]) == ("launch-bound", False)


def test_without_calls_the_pace_is_not_known() -> None:
    found = verdict(projected(replace(idle(), calls=empty_calls())))
    assert (found.code, found.values["after"]) == ("pace-unknown", pytest.approx(0.05, abs=0.005))


def test_the_path_is_that_of_its_kernels() -> None:
    """A collective that a product hides is not on it; the table is out of order."""
    rows = [
        add(600, 20, called=30),
        gemm(0, 500, called=-20),
        all_reduce(100, 300, stream=1, called=-10),
    ]
    projection = projected(trace(rows), Laws(compute="kept", communication="kept"))
    on_path = critical_us(projection)
    assert on_path.tolist() == [20, 500, 0]
    table = path_kernels(projection)
    assert table["name"].tolist() == ["Cijk_Ailk_BBS", projection.activities["name"].iloc[0]]
    assert table["op_class"].tolist() == ["gemm", "elementwise"]
    assert (table["count"].tolist(), table["path_us"].tolist()) == ([1, 1], [500, 20])
    assert table["share"].tolist() == pytest.approx([500 / 620, 20 / 620])


def test_kernels_of_one_name_add_up() -> None:
    projection = projected(busy(21))
    table = path_kernels(projection)
    assert table["count"].tolist() == [11, 10]
    assert table["path_us"].sum() == pytest.approx(critical_us(projection).sum())
    assert table["share"].sum() == pytest.approx(path_shares(projection.path)["activity"])
