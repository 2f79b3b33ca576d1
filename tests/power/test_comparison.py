from __future__ import annotations

from dataclasses import replace

import pytest

from flopcast.power.comparison import compare, compare_classes
from flopcast.power.profile import KernelPower


def test_a_row_per_kernel_and_component(profile: KernelPower) -> None:
    other = replace(profile, kernel="copy", label="memory-bound")
    found = compare([profile, other])
    assert found["kernel"].tolist() == ["gemm"] * 4 + ["copy"] * 4
    assert found["component"].tolist() == ["total", "xcd", "iod", "hbm"] * 2
    shares = found.set_index(["kernel", "component"])["share"]["gemm"]
    assert shares["total"] == 1
    assert shares["xcd"] + shares["iod"] + shares["hbm"] == pytest.approx(1, abs=0.02)
    assert (found["ssp_w"] <= found["peak_w"]).all()
    assert (found["sse_error_percent"] < -30).all()


def test_no_total_no_shares(profile: KernelPower) -> None:
    parts = {name: part for name, part in profile.components.items() if name != "total"}
    assert compare([replace(profile, components=parts)])["share"].isna().all()


def test_classes_are_means_over_kernels(profile: KernelPower) -> None:
    kernels = [replace(profile, kernel=name, label=label) for name, label in (("a", "x"), ("b", "x"), ("c", ""))]
    found = compare_classes(compare(kernels))
    assert found["kernels"].tolist() == [2] * 4
    assert found["ssp_w"][0] == pytest.approx(profile.components["total"].ssp.mean_w)
    assert compare_classes(compare([profile])).empty
