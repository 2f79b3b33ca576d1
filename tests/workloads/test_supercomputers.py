"""HPL and HPCG: limits worked out by hand, and one machine's efficiency forecasting another's score."""

from __future__ import annotations

from typing import Any

import pytest

from flopcast.errors import ParameterError
from flopcast.hardware import GPU, find
from flopcast.hardware.scaled import scale_models
from flopcast.workloads.supercomputers import (
    STREAM,
    Spread,
    Turn,
    hpcg,
    hpl,
    hpl_mxp,
    kernel,
    machine_spread,
    rated,
    turning_point,
)  # fmt: skip

GCD = find("MI250X (per GCD)")
SURE = Spread(1.0, 0.0)


def test_hpcg_without_spread_is_its_product() -> None:
    found = hpcg(GCD, 100, stream=SURE, reached=SURE, scaling=SURE)
    assert found.predicted == found.lower == found.upper == pytest.approx(100 * 0.201 * 1638.4e9)


def test_hpl_without_losses_reaches_the_peak() -> None:
    found = hpl(
        GCD,
        64,
        product=SURE,
        panel_share=SURE,
        network_gbs=Spread(1e9, 0.0),
        noise=0.0,
        machine=SURE,
    )
    assert found.shares["update"] == pytest.approx(1.0)
    assert found.predicted == pytest.approx(64 * 23.9e12, rel=0.02)


def test_frontiers_efficiency_forecasts_lumi() -> None:
    """The defaults are Frontier's (TOP500 2024-06, HPCG 2023-11); LUMI's scores are of the same lists."""
    assert hpcg(GCD, 75264).predicted == pytest.approx(14.05e15, rel=0.01)
    assert hpcg(GCD, 23824).predicted == pytest.approx(4.59e15, rel=0.07)
    assert hpl(GCD, 73728).predicted == pytest.approx(1.206e18, rel=0.03)
    lumi = hpl(GCD, 2220288 // 944 * 8, machine=Spread(1.0, machine_spread(without="LUMI")))
    assert lumi.predicted == pytest.approx(0.309e18, rel=0.03)
    assert lumi.lower < 0.309e18 < lumi.upper


def test_frontiers_efficiency_forecasts_auroras_nodes() -> None:
    """768 nodes of six: 1259.94 TFLOP/s measured; about 40 % of 10 624 nodes: 5.6 PFLOP/s (HPCG list, 2024-06)."""
    some, many = (hpcg(find("Max 1550"), 6 * nodes) for nodes in (768, round(0.4 * 10624)))
    assert some.predicted == pytest.approx(1259.94e12, rel=0.03)
    assert some.lower < 1259.94e12 < some.upper
    assert many.predicted == pytest.approx(5.6e15, rel=0.25)


def test_frontiers_efficiency_forecasts_other_devices() -> None:
    """Eight H100: 365.4 TFLOP/s (aigatech/vpbenchmarking, 2025); El Capitan: 1742 PFLOP/s (TOP500, November 2024)."""
    for gpu, devices, scored in (("H100 SXM5", 8, 365.4e12), ("MI300A", 43808, 1742e15)):
        found = hpl(find(gpu), devices)
        assert found.predicted == pytest.approx(scored, rel=0.08)
        assert found.lower < scored < found.upper
        assert "score-by-frontier" in {one.code for one in found.remarks}
    assert "score-by-frontier" not in {one.code for one in hpl(GCD, 8).remarks}


def test_hpl_mxp_holds_frontiers_scores() -> None:
    """7.94 EFLOP/s (TOP500, November 2022) on 9 248 nodes, 9.95 (June 2023) on 9 216, of eight devices each."""
    for devices, scored in ((9248 * 8, 7.94e18), (9216 * 8, 9.95e18)):
        found = hpl_mxp(GCD, devices)
        assert found.lower < scored < found.upper
    assert hpl_mxp(GCD, 8, peak_share=SURE).predicted == pytest.approx(8 * 191.5e12, rel=0.01)


@pytest.mark.parametrize(
    ("name", "devices", "seconds"),
    [
        # 16 B a point over 1638.4 GB/s; alone nothing is sent
        ("stencil", 1, 256**3 * 16 / 1638.4e9),
        # three passes of 32 B a point, then two transposes of 16 B a point, half of which stays
        ("fft", 2, 256**3 / 2 * (96 / 1638.4e9 + 32 / 20e9 / 2)),
        # eight faces of 12 numbers a site are longer than 360 numbers of the sites within
        ("dslash", 16, 96 * (24**4 / 16) ** 0.75 * 8 / 20e9 * 15 / 16),
    ],
)
def test_a_kernel_without_losses_by_hand(name: str, devices: int, seconds: float) -> None:
    n = 24 if name == "dslash" else 256
    flop = {"stencil": 8 * n**3, "fft": 5 * n**3 * 24, "dslash": 1320 * n**4}[name]
    found = kernel(
        name, GCD, devices, points=n, stream=SURE, kernel_share=SURE, network_gbs=Spread(20.0, 0.0)
    )
    assert found.predicted == found.lower == pytest.approx(flop / seconds)


def test_devices_of_one_node_send_over_their_own_links() -> None:
    """The network between nodes had 20 GB/s for two GPUs of a box too: 919 GFLOP/s of a transform."""
    for gpu, devices, gbs in (
        ("MI300X", 2, 64),
        ("MI300X", 8, 448),
        ("MI300X", 9, 20),
        ("MI300A", 5, 20),
    ):
        assert kernel("fft", gpu, devices, points=512).inputs["network_gbs"] == pytest.approx(gbs)
        assert hpl(gpu, devices).inputs["network_gbs"] == pytest.approx(gbs)
    assert kernel("fft", "GB300 (per GPU)", 72, points=512).inputs["network_gbs"] == pytest.approx(
        900
    )
    assert (
        kernel("fft", "MI300X", 8, points=512, network_gbs=Spread(20.0, 0.1)).inputs["network_gbs"]
        == 20.0
    )
    assert "links-unknown" in {one.code for one in hpl("Max 1550", 6).remarks}
    assert rated(find("Max 1550")) == 52.4


def test_the_turning_point_is_where_another_part_leads_or_a_device_gives_half() -> None:
    def scored(*counts: int, n: int = 2048) -> Turn | None:
        return turning_point([kernel("stencil", GCD, count, points=n) for count in counts])

    assert scored(8, 64, 512, 4096, 32768, n=2048) == Turn(4096, "network")
    assert turning_point([hpcg(GCD, count) for count in (8, 64, 512)]) is None
    assert turning_point([hpl(GCD, count, n=65536) for count in (8, 64, 512)]) is not None


def test_a_device_is_rated_by_the_units_that_its_maker_rates_it_by() -> None:
    assert rated(find("A100 80GB SXM4")) == 19.5
    assert rated(GCD) == 23.9
    assert rated(GPU(name="Mine", peaks={"fp64_matrix": 7.0})) == 7.0


@pytest.mark.parametrize("devices", [23824, 23827])
def test_awkward_numbers_of_devices_leave_a_few_idle(devices: int) -> None:
    found, even = hpl(GCD, devices), hpl(GCD, 23800)
    used = found.inputs["p"] * found.inputs["q"]
    idle = [one for one in found.remarks if one.code == "devices-idle"]
    assert 0 < devices - used < 20
    assert dict(idle[0].values)["idle"] == devices - used
    assert found.predicted == pytest.approx(even.predicted, rel=0.03)
    assert not [one for one in even.remarks if one.code == "devices-idle"]


def test_a_stream_is_that_measured_on_the_device() -> None:
    assert hpcg(find("MI300X"), 8).inputs["stream"] == pytest.approx(4090 / 5325, rel=0.001)
    assert hpcg(GPU(name="Mine", memory_bw_gbs=1000.0), 8).inputs["stream"] == STREAM.median
    assert hpcg(GCD, 8, stream=SURE).inputs["stream"] == 1.0


def test_the_spread_of_machines_is_that_of_their_published_scores() -> None:
    assert 0.05 < machine_spread() < 0.1
    assert machine_spread(without="Frontier") != machine_spread()
    tuned, untuned = hpl(GCD, 1000), hpl(GCD, 1000, machine=SURE)
    assert tuned.upper / tuned.lower > untuned.upper / untuned.lower
    assert sum(tuned.shares.values()) == pytest.approx(1.0, abs=0.02)


def test_more_spread_is_a_wider_interval() -> None:
    calm, wild = (hpcg(GCD, 100, stream=Spread(0.8, sigma)) for sigma in (0.01, 0.3))
    assert wild.upper / wild.lower > calm.upper / calm.lower


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("p", 7), ("p", -2), ("p", 0), ("n", 10**9), ("n", 1), ("nb", 0), ("nb", 10**7), ("gpus", 0), ("noise", -1.0),
     ("product", Spread(2.1, 0.0)), ("product", Spread(-1.0, 0.0)), ("product", Spread(float("nan"), 0.0)),
     ("panel_share", Spread(0.0, 0.0)), ("network_gbs", Spread(float("inf"), 0.0)), ("machine", Spread(1.0, -0.1)),
     ("interval", 2.0)],
)  # fmt: skip
def test_machines_that_cannot_be(parameter: str, value: Any) -> None:
    with pytest.raises(ParameterError) as caught:
        hpl(GCD, **{"gpus": 64, parameter: value})
    assert caught.value.parameter == parameter


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("stream", Spread(5.0, 0.0)), ("scaling", Spread(0.9, 2.0)), ("interval", 0.0)],
)
def test_streams_that_cannot_be(parameter: str, value: Any) -> None:
    with pytest.raises(ParameterError) as caught:
        hpcg(GCD, **{"gpus": 64, parameter: value})
    assert caught.value.parameter == parameter


def test_functions_take_the_name_of_a_gpu_as_commands_do() -> None:
    for score in (hpl, hpcg, hpl_mxp):
        assert score("MI300X", 8) == score(find("MI300X"), 8)
    assert kernel("fft", "MI300X", 8, points=512) == kernel("fft", find("MI300X"), 8, points=512)
    assert scale_models("MI300X") == scale_models(find("MI300X"))


def test_no_score_is_said_to_reach_beyond_the_peak() -> None:
    found = hpl_mxp("MI300X", 8, peak_share=Spread(0.95, 0.3))
    assert found.predicted < found.upper == found.peak


@pytest.mark.parametrize(("parameter", "value"), [("points", 0), ("points", -1), ("gpus", 2.5)])
def test_kernels_that_cannot_be(parameter: str, value: Any) -> None:
    with pytest.raises(ParameterError) as caught:
        kernel("fft", GCD, **{"gpus": 8, "points": 64, parameter: value})
    assert caught.value.parameter == parameter
