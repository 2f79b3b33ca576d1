from __future__ import annotations

import dataclasses

import pytest

from flopcast.errors import UnknownGPUError
from flopcast.hardware import FIGURES, GPU, PEAKS, all_gpus, find, measured


def test_every_measurement_arrives_with_the_figure_it_is_compared_to(measured_facts):
    ours = [row for gpu in all_gpus() for row in measured(gpu.name)]
    assert len(ours) >= len(measured_facts)
    listed = {(row.gpu, row.metric, row.value, row.unit) for row in ours}
    shares = {(row.gpu, row.metric, row.value): row.share(find(row.gpu)) for row in ours}
    for fact in measured_facts:
        key = (fact["gpu"], fact["metric"], float(fact["value"]))
        assert (*key, fact["unit"]) in listed
        expected = float(fact["value"]) / float(fact["spec_value"]) if fact["spec_value"] else None
        assert shares[key] == (expected if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("row", [row for gpu in all_gpus() for row in measured(gpu.name)], ids=str)
def test_a_measurement_says_how_and_by_whom(row):
    assert row.value > 0
    assert row.method
    assert row.source
    assert row.confidence in ("high", "medium", "low")
    assert row.figure in ("", *PEAKS, *FIGURES)


def test_measured_by_metric_and_by_alias():
    assert [row.value for row in measured("amd instinct mi300x", "hbm_dot")] == [3870.0, 3660.781]
    assert len(measured("MI300X")) > len(measured("MI300X", "gemm_fp8")) > 1
    assert measured("MI50") == []


def test_no_share_without_a_published_figure():
    (row,) = measured("MI100", "gemm_fp16")
    assert row.share(find("MI100")) == pytest.approx(107.98 / 184.6)
    assert row.share(GPU(name="x")) is None
    assert dataclasses.replace(row, figure="").share(find("MI100")) is None


def test_an_unknown_gpu_is_an_error():
    with pytest.raises(UnknownGPUError):
        measured("MI999")
