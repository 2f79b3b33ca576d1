"""hardware/gpus.toml: everything arrived, nothing was invented, and the figures agree with one another."""

from __future__ import annotations

import math
import re

import pytest

from flopcast.hardware import FIGURES, GPU, PEAKS, all_gpus, find, sources

FIELD_OF_COLUMN = {
    "units_cu_or_sm": "cus",
    "stream_processors": "lanes",
    "boost_mhz": "boost_mhz",
    "matrix_clock_mhz": "matrix_mhz",
    "year": "year",
    "mem_gb": "memory_gb",
    "mem_bw_gbps": "memory_bw_gbs",
    "mem_bw_pin_gbps": "memory_bw_pin_gbs",
    "l2_mb": "l2_mb",
    "llc_mb": "llc_mb",
    "llc_bw_gbps": "llc_bw_gbs",
    "links": "links",
    "link_uni_gbps": "link_uni_gbs",
    "agg_uni_gbps": "link_bw_gbs",
    "agg_bidir_gbps": "link_bidir_gbs",
    "p2p_uni_gbps": "p2p_uni_gbs",
    "pcie_gen": "pcie_gen",
    "tdp_w": "tdp_w",
    "chiplets": "chiplets",
}
WORD_OF_COLUMN = {
    "vendor": "vendor",
    "arch": "arch",
    "gfx_or_cc": "gfx",
    "form_factor": "form_factor",
    "mem_type": "memory_type",
    "link_name": "link_name",
    "confidence": "confidence",
}
ONLY_IN_NOTES = {"wavefront", "reported_cus", "int8_vector"}


def peak_of_column(column: str) -> str | None:
    match = re.fullmatch(r"(\w+)_(tflops|tops)", column)
    return match[1] if match else None


def by_name(gpus: list[GPU]) -> dict[str, GPU]:
    return {gpu.name: gpu for gpu in gpus}


def test_every_row_arrives_in_order(gpu_facts):
    carried = [row["name"] for row in gpu_facts]
    assert [gpu.name for gpu in all_gpus()][: len(carried)] == carried


def test_every_column_is_carried_over(gpu_facts):
    carried = {*FIELD_OF_COLUMN, *WORD_OF_COLUMN, "name", "sources", "note"}
    assert {column for column in gpu_facts[0] if not peak_of_column(column)} == carried


def test_every_figure_arrives_and_a_blank_is_none(gpu_facts):
    known = by_name(all_gpus())
    for row in gpu_facts:
        gpu = known[row["name"]]
        for column, field in FIELD_OF_COLUMN.items():
            assert getattr(gpu, field) == (float(row[column]) if row[column] else None), (
                gpu.name,
                field,
            )
        for column, field in WORD_OF_COLUMN.items():
            assert getattr(gpu, field) == row[column], (gpu.name, field)


def test_every_peak_arrives_and_no_other(gpu_facts):
    known = by_name(all_gpus())
    for row in gpu_facts:
        expected = {
            peak: float(value)
            for column, value in row.items()
            if (peak := peak_of_column(column)) and value != ""
        }
        found = {
            key: value
            for key, value in known[row["name"]].peaks.items()
            if key not in ONLY_IN_NOTES
        }
        assert found == expected, row["name"]


def test_every_source_arrives(gpu_facts):
    """Each source the facts name is among the GPU's; a vendor's data sheet, which nobody read, is `DS`."""
    known = by_name(all_gpus())
    for row in gpu_facts:
        ours = {source.split(":")[0] for source in known[row["name"]].sources}
        named = {
            key for key in sources() if re.search(rf"(?<![\w-]){key}(?![\w-])", row["sources"])
        }
        if re.search(r"(?<![\w-])DS-\w", row["sources"]):
            named.add("DS")
        assert named, row["name"]
        assert named <= ours, row["name"]


def test_every_source_used_is_explained_and_every_one_explained_is_used():
    used = {source.split(":")[0] for gpu in all_gpus() for source in gpu.sources}
    assert used == set(sources())
    for source in sources().values():
        assert source.title
        assert source.url
        assert source.read


@pytest.mark.parametrize("gpu", all_gpus(), ids=lambda gpu: gpu.name)
def test_no_figure_is_zero_and_the_row_says_where_it_comes_from(gpu):
    values = [*gpu.peaks.values(), *(getattr(gpu, key) for key in FIGURES)]
    assert all(value is None or (value > 0 and math.isfinite(value)) for value in values)
    assert set(gpu.peaks) <= set(PEAKS)
    assert gpu.sources
    assert gpu.confidence in "ABC"


@pytest.mark.parametrize("gpu", all_gpus(), ids=lambda gpu: gpu.name)
def test_the_figures_of_a_gpu_agree(gpu):
    """One way doubles to both ways, a narrower format is not slower, lanes times clock give the vector peak."""
    if gpu.link_bidir_gbs:
        assert gpu.link_bidir_gbs == pytest.approx(2 * gpu.link_bw_gbs)
    if gpu.links:
        assert gpu.link_bw_gbs == pytest.approx(gpu.links * gpu.link_uni_gbs, rel=1e-3)
    if gpu.boost_mhz and gpu.lanes:
        plain = gpu.peaks.get("fp32_vector_nonpacked", gpu.peaks["fp32_vector"])
        assert plain == pytest.approx(2 * gpu.lanes * gpu.boost_mhz * 1e-6, rel=0.02)
    chain = [
        gpu.peaks[key]
        for key in ("tf32_matrix", "fp16_matrix", "fp8_matrix", "fp4_matrix")
        if key in gpu.peaks
    ]
    assert chain == sorted(chain)
    if "fp8_matrix" in gpu.peaks and gpu.name != "MI455X":
        assert gpu.peaks["fp8_matrix"] == pytest.approx(2 * gpu.peaks["fp16_matrix"], rel=0.02)


@pytest.mark.parametrize(
    ("name", "dtype", "unit", "tflops"),
    [
        ("MI300X", "fp8", None, 2614.9),
        ("MI300X", "bf16", None, 1307.4),
        ("MI300X", "fp32", "vector", 163.4),
        ("MI355X", "fp8", None, 5033.2),
        ("MI355X", "fp4", "matrix", 10066.3),
        ("MI210", "fp16", None, 181.0),
        ("MI100", "bf16", None, 92.3),
        ("H100 SXM5", "fp8", None, 1978.9),
        ("A100 80GB SXM4", "int8", None, 624.0),
    ],
)
def test_peaks_that_people_know_by_heart(name, dtype, unit, tflops):
    assert find(name).peak_tflops(dtype, unit) == tflops


def test_bandwidths_that_people_know_by_heart():
    assert find("MI300X").memory_bw_gbs == 5325
    assert find("MI355X").memory_bw_gbs == 8000
    assert find("MI300X").link_bw_gbs == 7 * 64
    assert find("H100 SXM5").link_bw_gbs == 450


def test_known_relations_between_gpus():
    mi300x, mi325x, mi350x, mi355x = (
        find(name) for name in ("MI300X", "MI325X", "MI350X", "MI355X")
    )
    assert mi325x.peaks == mi300x.peaks
    assert mi355x.peak_tflops("fp8") / mi350x.peak_tflops("fp8") == pytest.approx(
        2400 / 2200, rel=1e-3
    )
    for die, package in (("MI250 (per GCD)", "MI250"), ("MI250X (per GCD)", "MI250X")):
        assert find(package).memory_bw_gbs == 2 * find(die).memory_bw_gbs
        assert find(package).peak_tflops("fp16") == pytest.approx(
            2 * find(die).peak_tflops("fp16"), rel=1e-3
        )
