from __future__ import annotations

import dataclasses
import json
import pickle
import re

import pytest

from flopcast.errors import DataError, NotPublishedError, ParameterError
from flopcast.hardware import DTYPES, FIGURES, GPU, UNITS, all_gpus, find
from flopcast.hardware.spec import LISTS, NONPACKED, WORDS

TOY = GPU(
    name="toy",
    cus=4,
    peaks={"fp16_vector": 2.0, "fp32_matrix": 3.0, "fp32_vector": 1.0, "int8_matrix": 5.0},
)


def test_the_matrix_peak_is_preferred_and_the_vector_peak_stands_in():
    assert TOY.peak_tflops("fp32") == 3.0
    assert TOY.peak_tflops("fp32", "vector") == 1.0
    assert TOY.peak_tflops("fp16") == 2.0
    assert TOY.peak_key("fp16") == "fp16_vector"
    assert find("MI50").peak_key("fp16") == "fp16_vector"
    assert find("MI50").peak_tflops("int8") == 53.0


def test_a_unit_that_is_asked_for_is_not_replaced():
    with pytest.raises(NotPublishedError, match=r"peak_tflops\.fp16_matrix"):
        TOY.peak_tflops("fp16", "matrix")


def test_the_fp32_vector_peak_is_the_packed_one_and_the_other_is_kept():
    mi300x = find("MI300X")
    assert mi300x.peak_tflops("fp32", "vector") == 163.4
    assert mi300x.peaks[NONPACKED] == 81.7


def test_a_peak_nobody_published_names_the_gpu_and_both_keys():
    with pytest.raises(NotPublishedError) as caught:
        find("MI308X").peak_tflops("fp8")
    assert (caught.value.gpu, caught.value.figure) == (
        "MI308X",
        "peak_tflops.fp8_matrix or peak_tflops.fp8_vector",
    )
    with pytest.raises(NotPublishedError, match="tf32"):
        find("MI355X").peak_tflops("tf32")
    with pytest.raises(NotPublishedError, match=r"peak_tops\.int8_vector of toy"):
        TOY.peak_tflops("int8", "vector")


@pytest.mark.parametrize(
    ("dtype", "unit"), [("fp12", None), ("FP8", None), ("int4", None), ("fp32", "tensor")]
)
def test_a_dtype_or_unit_that_does_not_exist_is_refused(dtype, unit):
    with pytest.raises(DataError, match=r"fp64, fp32|matrix or vector"):
        TOY.peak_tflops(dtype, unit)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("gpu", all_gpus(), ids=lambda gpu: gpu.name)
def test_a_peak_is_above_zero_or_an_error(gpu, unit):
    for dtype in DTYPES:
        if f"{dtype}_{unit}" in gpu.peaks:
            assert gpu.peak_tflops(dtype, unit) > 0
        else:
            with pytest.raises(
                NotPublishedError, match=f"{dtype}_{unit} of {re.escape(gpu.name)} is not published"
            ):
                gpu.peak_tflops(dtype, unit)


@pytest.mark.parametrize("gpu", all_gpus(), ids=lambda gpu: gpu.name)
def test_a_figure_is_above_zero_or_an_error(gpu):
    for key in FIGURES:
        if getattr(gpu, key) is None:
            with pytest.raises(NotPublishedError, match=key):
                gpu.require(key)
        else:
            assert gpu.require(key) == getattr(gpu, key) > 0


def test_require_knows_only_figures():
    with pytest.raises(ParameterError, match="vendor"):
        TOY.require("vendor")


@pytest.mark.parametrize("gpu", [*all_gpus(), TOY], ids=lambda gpu: gpu.name)
def test_json_round_trip(gpu):
    text = json.dumps(gpu.to_dict(), allow_nan=False)
    assert GPU.from_dict(json.loads(text)) == gpu
    assert "null" not in text


def test_from_dict_names_the_file_and_what_is_wrong():
    with pytest.raises(DataError, match=r"^model/manifest.json: name is missing$"):
        GPU.from_dict({"cus": 3}, "model/manifest.json")
    with pytest.raises(DataError, match=r"^run: unknown key colour"):
        GPU.from_dict({"name": "x", "colour": "red"}, "run")


def test_a_gpu_is_frozen_hashable_and_picklable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TOY.cus = 5  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(TOY)) == TOY
    assert len({TOY, dataclasses.replace(TOY, cus=5), TOY}) == 2


def test_the_fields_of_a_gpu_are_the_keys_of_the_files():
    assert {field.name for field in dataclasses.fields(GPU)} == {
        *FIGURES,
        *WORDS,
        *LISTS,
        "peaks",
        "node_gpus",
    }
