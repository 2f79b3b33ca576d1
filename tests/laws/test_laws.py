"""Hand-solved factors of every law. The target has half the peak and clock, a quarter of the bandwidth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flopcast.errors import DataError
from flopcast.hardware import GPU, find
from flopcast.laws import OF_COMPUTATION
from flopcast.laws import law as find_law
from flopcast.laws.applied import OVER_PCIE, by_law
from flopcast.laws.base import Overhead, Pair, Scaled
from flopcast.laws.board_power import energy_interval
from flopcast.laws.bounds import achieved
from flopcast.laws.computation import NO_FLOPS
from flopcast.projection.kernel_laws import NO_WORK, of_activities
from flopcast.tests.projection.oracles.activities import (
    HOST,
    TARGET,
    activities,
    copy,
    gemm,
    kernel,
    relu,
    softmax,
)

LARGE, THIN, TINY = (4096, 4096, 4096), (1, 4096, 4096), (64, 64, 64)
"""Compute-bound, memory-bound, too small for either."""


def scaled(
    law: str, *rows: dict[str, Any], host: GPU = HOST, target: GPU = TARGET, **options: Any
) -> Scaled:
    pair = Pair.of(host, target, **options)
    return find_law(law).scaled(of_activities(activities(*rows), pair.fixed[0]), pair)


def test_flops_go_by_the_peak_of_the_precision_and_unit_used() -> None:
    tf32 = gemm(*LARGE, dtype="fp32", name="s1688gemm")
    found = scaled(
        "flops", gemm(*LARGE), gemm(*THIN), gemm(*LARGE, dtype="fp32"), tf32, softmax(1000, 1000)
    )
    assert found.factor.tolist() == [2.0, 2.0, 200 / 20, 400 / 20, 100 / 20]
    assert set(found.bound) == {"compute"}


def test_flops_say_nothing_of_what_has_none() -> None:
    found = scaled("flops", relu(1000, 1000), kernel(), gemm(*LARGE, dtype="fp64"))
    assert np.isnan(found.factor).all()
    assert found.why[:2].tolist() == [NO_FLOPS, NO_WORK]
    assert "fp64_matrix" in found.why[2].values["figure"]


def test_one_ratio_of_peaks_for_all_is_that_of_the_precision_that_takes_longest() -> None:
    found = scaled(
        "flops-uniform",
        gemm(*LARGE, us=10),
        gemm(*LARGE, dtype="fp32", us=11),
        relu(10, 10),
        kernel(),
    )
    assert found.factor.tolist() == [10.0] * 4
    assert scaled("flops-uniform", relu(10, 10)).factor.tolist() == [2.0]
    bare = scaled("flops-uniform", relu(10, 10), target=replace(TARGET, peaks={}))
    assert np.isnan(bare.factor).all()
    assert "bf16_matrix" in bare.why[0].values["figure"]


def test_one_ratio_of_peaks_is_at_the_precision_that_each_gpu_runs() -> None:
    tf32 = gemm(*LARGE, dtype="fp32", name="s1688gemm")
    assert (
        scaled("flops-uniform", tf32).factor.tolist()
        == scaled("flops", tf32).factor.tolist()
        == [400 / 20]
    )


def test_bandwidth_is_that_of_memory_and_of_pcie_between_host_and_gpu() -> None:
    found = scaled("bandwidth", gemm(*LARGE), kernel(), copy("HtoD"), copy("DtoH"), copy("DtoD"))
    assert found.factor.tolist() == [4.0, 4.0, 2.0, 2.0, 4.0]
    assert found.bound.tolist() == ["memory", "memory", "link", "link", "memory"]
    bare = scaled(
        "bandwidth",
        kernel(),
        copy("HtoD"),
        target=replace(TARGET, memory_bw_gbs=None, pcie_gen=None),
    )
    assert np.isnan(bare.factor).all()
    assert [why.values["figure"].split(" ")[0] for why in bare.why] == ["memory_bw_gbs", "pcie_gen"]


def test_the_roofline_goes_by_what_bounds_each_device() -> None:
    # 2·1024³ FLOPs: 2.147 µs against 1.573 µs of memory on the host, 4.295 against 6.291 on the target
    found = scaled("roofline", gemm(*LARGE), gemm(*THIN), gemm(1024, 1024, 1024), relu(1000, 1000))
    assert found.factor.tolist() == pytest.approx(
        [2.0, 4.0, 3 * 2 * 1024**2 / 1e6 / (2 * 1024**3 / 1e9), 4.0]
    )
    assert found.bound.tolist() == ["compute", "memory", "memory", "memory"]


def test_achieved_ceilings_scale_the_roofline() -> None:
    pairs = {"host": find("MI300X"), "target": find("H100 SXM5")}
    found = scaled("roofline-achieved", relu(10**4, 10**4), gemm(8192, 8192, 8192), **pairs)
    assert found.factor[0] == pytest.approx(4110 / 2900)
    assert found.factor[1] == pytest.approx(668.4 / 794.5, rel=0.1)  # but for whole waves


def test_the_fixed_time_does_not_shrink_and_what_the_roofline_does_not_explain_goes_by_the_clocks() -> (
    None
):
    rows = gemm(*THIN, us=102), gemm(*THIN, us=3), gemm(*LARGE, us=102)
    pair = Pair.of(HOST, TARGET)
    own = achieved(of_activities(activities(*rows), pair.fixed[0]), pair)[0].roofline_us
    explained = np.sqrt(np.minimum(own / [100, 1, 100], 1))
    assert 0 < explained[0] < explained[1] == 1.0
    found = scaled("affine", *rows)  # the clock of the target is half, as its peak is
    for factor, us, e, ratio in zip(found.factor, (102, 3, 102), explained, (4, 4, 2), strict=True):
        assert factor == pytest.approx((1.6 + (us - 2) * (e * ratio + (1 - e) * 2)) / us)
    assert found.bound.tolist() == ["memory", "memory", "compute"]


def test_in_a_busy_queue_the_host_s_time_holds_the_dispatch_and_the_target_s_does_not() -> None:
    rows = gemm(*LARGE, us=50, start_ns=1000), gemm(*LARGE, us=104.3, start_ns=51_000)
    assert scaled("affine", *rows).factor[1] == pytest.approx((1.6 + 100 * 2) / 104.3)
    back = scaled("affine", *rows, host=TARGET, target=HOST)
    assert back.factor[1] == pytest.approx((4.3 + (104.3 - 1.6) / 2) / 104.3)


def test_kernels_too_small_for_either_wait_for_the_clock() -> None:
    found = scaled("affine", gemm(*TINY, us=12))
    assert found.factor.tolist() == pytest.approx([(1.6 + 10 * 2) / 12], rel=0.01)
    assert found.bound.tolist() == ["latency"]
    unclocked = scaled("affine", gemm(*TINY, us=12), target=replace(TARGET, boost_mhz=None))
    assert unclocked.factor[0] == pytest.approx(11.6 / 12, rel=0.05)


def test_from_waiting_to_the_roofline_there_is_no_step() -> None:
    """A relu of which the host's bandwidth explains ever more goes from the ratio of the clocks to that of it."""
    host, target = replace(HOST, memory_bw_gbs=1e4), replace(TARGET, memory_bw_gbs=1000.0)
    found = scaled(
        "affine",
        *(relu(rows, 500, us=12) for rows in range(1000, 100_000, 100)),
        host=host,
        target=target,
    )
    assert (np.abs(np.diff(np.log(found.factor))) < 0.05).all()
    assert found.factor[0] < (1.6 + 10 * 4) / 12
    assert found.factor[-1] == pytest.approx((1.6 + 10 * 10) / 12)


def test_a_kernel_shorter_than_the_fixed_time_is_all_fixed_time() -> None:
    assert scaled("affine", kernel(us=1)).factor.tolist() == pytest.approx([1.6 / 2.0])


def test_of_unknown_work_half_goes_by_bandwidth() -> None:
    found = scaled("affine", kernel(us=102))
    assert found.factor.tolist() == pytest.approx([(1.6 + 100 * (4 + 2) / 2) / 102])
    assert found.why.tolist() == [NO_WORK]
    assert found.bound.tolist() == [""]


def test_the_fixed_times_can_be_stated() -> None:
    none = {"AMD": Overhead(0, 0, inside=True), "NVIDIA": Overhead(5, 0, inside=False)}
    assert scaled("affine", gemm(*LARGE), overhead=none).factor.tolist() == pytest.approx(
        [(5 + 200) / 100]
    )


def test_kept_is_one() -> None:
    assert scaled("kept", gemm(*LARGE), kernel(), copy("HtoD")).factor.tolist() == [1.0] * 3


@settings(max_examples=10)
@given(
    m=st.integers(1, 10**5),
    n=st.integers(1, 10**4),
    k=st.integers(1, 10**4),
    us=st.floats(0.01, 1e5),
    law=st.sampled_from([law for law in OF_COMPUTATION if law != "affine"]),
)
def test_there_and_back_is_where_it_began(m: int, n: int, k: int, us: float, law: str) -> None:
    there, back = (
        scaled(law, gemm(m, n, k, us=us)),
        scaled(law, gemm(m, n, k, us=us), host=TARGET, target=HOST),
    )
    assert there.factor[0] * back.factor[0] == pytest.approx(1.0)


ROWS = (
    gemm(4096, 4096, 4096),
    gemm(8, 8, 8, us=0.7),
    relu(1000, 1000),
    softmax(99, 99),
    kernel(),
    copy("HtoD"),
)


def applied(
    law: str, *rows: dict[str, Any], host: GPU = HOST, target: GPU = TARGET
) -> pd.DataFrame:
    pair = Pair.of(host, target)
    return by_law(of_activities(activities(*(rows or ROWS)), pair.fixed[0]), pair, law)


@pytest.mark.parametrize("law", OF_COMPUTATION)
def test_between_equal_devices_nothing_changes(law: str) -> None:
    assert applied(law, target=HOST)["factor"].tolist() == [1.0] * len(ROWS)


def test_every_factor_is_finite_and_positive_whatever_is_published() -> None:
    bare = GPU(name="Bare", vendor="")
    for host, target in (
        (HOST, TARGET),
        (HOST, bare),
        (bare, TARGET),
        (bare, replace(bare, name="Other")),
    ):
        pair = Pair.of(host, target)
        work = of_activities(activities(*ROWS), pair.fixed[0])
        for law in OF_COMPUTATION:
            assert by_law(work, pair, law)["factor"].between(1e-6, 1e6).all(), law


def test_bandwidth_stands_in_with_the_reason() -> None:
    found = applied("flops")
    assert found["law"].tolist() == [
        "flops",
        "flops",
        "bandwidth",
        "flops",
        "bandwidth",
        "bandwidth",
    ]
    assert found["factor"].tolist() == [2.0, 2.0, 4.0, 5.0, 4.0, 2.0]
    assert found["why"].map(bool).tolist() == [False, False, True, False, True, True]
    assert found["bound"].tolist() == ["compute", "compute", "memory", "compute", "memory", "link"]


def test_where_no_figure_is_published_durations_are_kept_and_both_reasons_given() -> None:
    found = applied("flops", *ROWS[:3], target=replace(TARGET, peaks={}, memory_bw_gbs=None))
    assert found["law"].tolist() == ["kept"] * 3
    assert found["factor"].tolist() == [1.0] * 3
    peak, memory = found["why"][0]
    assert (peak.code, memory.code) == ("figure-not-published", "figure-not-published")
    assert peak.values["figure"] == "peak_tflops.bf16_matrix or peak_tflops.bf16_vector"
    same = applied("roofline", relu(10, 10), target=replace(TARGET, memory_bw_gbs=None))
    assert same["why"].tolist() == [(memory,)]
    assert same["bound"].tolist() == [""]


def test_copies_between_host_and_gpu_go_over_pcie_whatever_the_law() -> None:
    for law in OF_COMPUTATION:
        found = applied(law, copy("DtoH"))
        why = () if law in ("kept", "bandwidth") else (OVER_PCIE,)
        expected = ("kept", 1.0, why) if law == "kept" else ("bandwidth", 2.0, why)
        assert (found["law"][0], found["factor"][0], found["why"][0]) == expected


def test_an_energy_errs_to_either_side_as_the_time_does() -> None:
    lower, upper = energy_interval(500.0, (2.0, 1.0, 6.0), 0.0, 0.9)
    assert (lower, upper) == pytest.approx((500, 3000))


def test_a_law_that_does_not_exist_is_refused() -> None:
    with pytest.raises(DataError, match=r"compute_law.*'rooflin'"):
        applied("rooflin")
    with pytest.raises(DataError, match="'zzz': there are flops, flops-uniform"):
        applied("zzz")
