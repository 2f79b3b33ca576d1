from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.evaluation.verdicts import Outcome
from flopcast.features.matrix import build_dataset
from flopcast.hardware import GPU
from flopcast.hardware.scaled import scaled
from flopcast.remarks import remark
from flopcast.scaling.devices import (
    CU_LAW,
    DeviceScaling,
    assess_devices,
    common_problems,
    families,
    limits,
    with_cu_law,
)
from flopcast.scaling.scaling_class import Growth
from flopcast.table.measurements import clean

BASE = GPU(
    name="toy", arch="A", cus=64, boost_mhz=1000, memory_bw_gbs=6400, peaks={"fp32_vector": 64.0}
)
DEVICES = [scaled(BASE, cus) for cus in (8, 16, 64)]
POWERS = {"copy": 1.0, "softmax": 0.5, "gelu": 1.4}


def frame(devices: list[GPU] = DEVICES, noise: float = 0.01) -> pd.DataFrame:
    """Return measurements of three operators whose performance grows with size to the powers above."""
    rng = np.random.default_rng(0)
    cells = [
        (op, rows, cols)
        for op in POWERS
        for cols in (1024, 2048, 4096, 8192)
        for rows in (4096, 16384, 65536)
    ]
    shapes = pd.DataFrame(cells, columns=["op", "rows", "cols"]).assign(dtype_a="fp32")
    work = shapes["rows"] * shapes["cols"] / 1e4
    parts = []
    for device in devices:
        assert device.cus is not None
        times = work / shapes["op"].map(lambda op, cus=device.cus: cus ** POWERS[op])
        parts.append(
            shapes.assign(
                device=device.name, duration_us=times * np.exp(rng.normal(0, noise, len(times)))
            )
        )
    table = pd.concat(parts, ignore_index=True)
    return clean(table.assign(source=[f"toy.csv:{row + 2}" for row in range(len(table))])).frame


@pytest.fixture(scope="module")
def result() -> DeviceScaling:
    return assess_devices(frame(), DEVICES, replicates=200, notes=["a remark"])


def test_problems_are_paired_by_identity_whatever_their_order() -> None:
    shuffled = frame(noise=0).sample(frac=1, random_state=0).reset_index(drop=True)
    measured = common_problems(shuffled, DEVICES[::-1])
    assert measured.sizes.tolist() == [8, 16, 64]
    assert measured.times_us.shape == (36, 3)
    powers = measured.rows["op"].map(POWERS).to_numpy()
    np.testing.assert_allclose(measured.exponents, powers)
    np.testing.assert_allclose(measured.times_us[:, 0] / measured.times_us[:, 2], 8**powers)


def test_only_what_all_devices_solved_counts() -> None:
    whole = frame()
    dropped = whole.drop(index=whole.index[whole["device"].eq(DEVICES[1].name)][:5])
    assert len(common_problems(dropped.reset_index(drop=True), DEVICES).rows) == 31


@pytest.mark.no_cover
def test_families_are_told_apart(result: DeviceScaling) -> None:
    found = {one.op: one for one in result.families}
    assert {op: one.growth for op, one in found.items()} == {
        "copy": Growth.LINEAR,
        "softmax": Growth.SUB,
        "gelu": Growth.SUPER,
    }
    for op, one in found.items():
        assert one.exponent.lower <= one.exponent.value <= one.exponent.upper
        assert one.exponent.value == pytest.approx(POWERS[op], abs=0.02)
        assert one.spread[0] <= one.exponent.value <= one.spread[1]
        assert (one.problems, one.groups) == (12, 4)


def test_few_groups_have_an_exponent_and_no_class() -> None:
    few = frame()
    few = few[few["cols"].isin([1024, 2048]) & few["op"].eq("copy")].reset_index(drop=True)
    (one,) = families(common_problems(few, DEVICES), replicates=50)
    assert one.growth is Growth.TOO_FEW
    assert np.isnan([one.exponent.lower, one.exponent.upper]).all()
    assert (one.problems, one.groups) == (6, 2)


def test_the_law_over_size_is_judged_like_any_other(result: DeviceScaling) -> None:
    assert [verdict.dataset.target.name for verdict in result.verdicts] == ["toy at 16 CUs", "toy"]
    outcomes = {one.op: one.law(CU_LAW).verdict.outcome for one in result.verdicts[1].classes[1:]}
    assert outcomes == {
        "copy": Outcome.HOLDS,
        "softmax": Outcome.CORRECTED,
        "gelu": Outcome.CORRECTED,
    }
    copies = next(one for one in result.verdicts[1].classes if one.op == "copy")
    assert copies.law(CU_LAW).ratio == pytest.approx(1 / 8)


@pytest.mark.no_cover
def test_laws_that_say_the_same_stand_once(result: DeviceScaling) -> None:
    assert list(result.verdicts[0].dataset.laws) == [CU_LAW]
    wider = [DEVICES[0], GPU(name="toy at 16 CUs", arch="A", cus=16, memory_bw_gbs=3200)]
    laws = list(assess_devices(frame(DEVICES[:2]), wider, replicates=50).verdicts[0].dataset.laws)
    assert laws == [CU_LAW, "bandwidth scaling"]


@pytest.mark.no_cover
def test_the_law_joins_the_others_where_size_is_what_devices_differ_in() -> None:
    small, large = DEVICES[:2]
    table = frame(DEVICES[:2])
    flops = build_dataset(table, host=small, target=large)
    assert with_cu_law(flops) is flops  # FLOPS scaling says the same
    wider = replace(large, peaks={}, memory_bw_gbs=3200)
    joined = with_cu_law(build_dataset(table, host=small, target=wider))
    laws = [f"{law} scaling" for law in ("FLOPS", "bandwidth", "roofline", "tiles")]
    assert list(joined.laws) == [*laws, CU_LAW]
    np.testing.assert_allclose(joined.laws[CU_LAW], joined.rows["host_duration_us"] / 2)
    for other in (replace(wider, arch="B"), replace(wider, cus=8), replace(wider, cus=None)):
        assert CU_LAW not in with_cu_law(build_dataset(table, host=small, target=other)).laws
    alone = build_dataset(table, host=None, target=large)
    assert with_cu_law(alone) is alone


def test_limits_name_what_does_not_grow_with_the_units(result: DeviceScaling) -> None:
    assert (result.limits, result.notes) == ((), ("a remark",))
    uneven = [
        DEVICES[0],
        GPU(name="toy at 16 CUs", arch="B", cus=16, boost_mhz=1500, memory_bw_gbs=800),
    ]
    between = {"first": "toy at 8 CUs", "last": "toy at 16 CUs", "units_ratio": 2.0}
    assert [
        (one.code, dict(one.items)) for one in limits(common_problems(frame(DEVICES[:2]), uneven))
    ] == [
        ("two-sizes-only", {}),
        ("figure-out-of-proportion", {**between, "figure": "memory_bw_gbs", "ratio": 1.0}),
        ("figure-out-of-proportion", {**between, "figure": "boost_mhz", "ratio": 1.5}),
        ("architectures-differ", {}),
    ]
    unknown = [DEVICES[0], GPU(name="toy at 16 CUs", arch="A", cus=16)]
    told = limits(common_problems(frame(DEVICES[:2]), unknown))
    assert (
        remark("scaling-figure-not-published", figure="boost_mhz", device="toy at 16 CUs") in told
    )


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (DEVICES[:1], r"^devices"),
        ([DEVICES[0], GPU(name="other", cus=8)], "CUs and other both"),
        ([DEVICES[0], scaled(BASE, 32)], r"32.*CUs"),
    ],
)
def test_devices_that_cannot_be_compared_are_refused(devices: list[GPU], message: str) -> None:
    with pytest.raises(DataError, match=message):
        common_problems(frame(), devices)


def test_devices_without_a_common_problem_are_refused() -> None:
    whole = frame()
    copies = whole["op"].eq("copy")
    apart = whole[copies.eq(whole["device"].eq(DEVICES[0].name))].reset_index(drop=True)
    with pytest.raises(DataError, match=r"CUs.*16.*CUs"):
        common_problems(apart, DEVICES)
