from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopcast.errors import DataError, NotPublishedError
from flopcast.hardware import GPU, all_gpus, find
from flopcast.hardware.scaled import PRIVATE, SHARED, halvings, scale_models, scaled

COUNTED = [gpu for gpu in all_gpus() if gpu.cus]


def test_an_eighth_of_an_mi300x_has_an_eighth_of_what_is_shared() -> None:
    model = scaled(find("MI300X"), 38)
    assert (model.name, model.cus, model.lanes, model.chiplets) == ("MI300X at 38 CUs", 38, 2432, 1)
    assert (model.l2_mb, model.llc_mb, model.llc_bw_gbs) == (4, 32, 2150)
    assert (model.memory_bw_gbs, model.memory_gb, model.link_bw_gbs) == (5325 / 8, 24, 56)
    assert model.peak_tflops("fp16") == pytest.approx(1307.4 / 8)
    assert (model.boost_mhz, model.wavefront) == (2100, 64)


def test_what_belongs_to_the_product_is_left_out() -> None:
    model = scaled(find("MI300X"), 38)
    assert (model.links, model.link_uni_gbs, model.tdp_w, model.year, model.aliases) == (
        None,
        None,
        None,
        None,
        (),
    )
    assert model.sources == ("MI300X: shared resources times 1/8",)


def test_half_a_chiplet_is_no_count() -> None:
    assert scaled(find("MI300X"), 19).chiplets is None


def test_chiplets_count_as_sizes_too() -> None:
    package = find("MI300X")
    assert [model.cus for model in scale_models(package, [1, 2, 16], "chiplets")] == [38, 76, 608]


@given(gpu=st.sampled_from(COUNTED), size=st.integers(1, 2000))
def test_shared_figures_per_unit_never_change(gpu: GPU, size: int) -> None:
    model = scaled(gpu, size)
    assert gpu.cus is not None
    for key in SHARED:
        whole, part = getattr(gpu, key), getattr(model, key)
        assert (part is None) == (whole is None)
        assert whole is None or part / size == pytest.approx(whole / gpu.cus)
    assert [getattr(model, key) for key in PRIVATE] == [getattr(gpu, key) for key in PRIVATE]
    assert model.peaks.keys() == gpu.peaks.keys()


def test_the_whole_is_the_gpu_itself() -> None:
    assert scaled(find("H100 SXM"), 132) == find("H100 SXM")


def test_without_sizes_the_gpu_is_halved_as_long_as_units_stay_whole() -> None:
    assert [model.cus for model in scale_models(find("MI300X"))] == [19, 38, 76, 152, 304]
    assert halvings(7) == [7]


@pytest.mark.parametrize(
    ("sizes", "by", "message"),
    [
        ([0, 8], "cus", "sizes.*got 0"),
        ([-4], "chiplets", "sizes.*got -4"),
        ([16, 8], "cus", r"sizes.*16"),
        ([8, 8], "cus", r"sizes.*8"),
    ],
)
def test_sizes_that_give_no_model_are_refused(sizes: list[int], by: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        scale_models(find("MI300X"), sizes, by)  # type: ignore[arg-type]


def test_broken_units_are_refused() -> None:
    odd = GPU(name="odd", cus=33, chiplets=2)
    with pytest.raises(DataError, match=r"odd.*\(16\.5\)"):
        scaled(odd, 1, "chiplets")


def test_a_gpu_without_a_count_of_units_has_no_scale_models() -> None:
    with pytest.raises(NotPublishedError, match="compute units"):
        scale_models(GPU(name="secret", memory_bw_gbs=1.0))
