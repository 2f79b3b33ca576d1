from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from flopcast.hardware import FIGURES, GPU, PEAKS, all_gpus, find
from flopcast.report.document import Table
from flopcast.report.reference import (
    ceilings_table,
    compare_table,
    gpu_table,
    gpus_document,
    gpus_json,
    provenance_table,
)

from .pages import printed

TOY = GPU(
    name="toy [red]",
    cus=608,
    peaks={"fp8_matrix": 1307.45, "bf16_vector": 2.0},
    sources=("toy.toml",),
)


def cells(table: Table) -> dict[str, list[str]]:
    """Return the cells of each row by its first one."""
    rows = (
        [cell if isinstance(cell, str) else cell.text for cell in row.cells] for row in table.rows
    )
    return {first: rest for first, *rest in rows}


def test_the_list_has_a_row_per_gpu_with_its_figures():
    rows = cells(gpu_table(all_gpus()))
    assert list(rows) == [gpu.name for gpu in all_gpus()]
    assert rows["MI300X"] == [
        "CDNA3",
        "gfx942",
        "304",
        "1307",
        "2615",
        "163",
        "5325",
        "448",
        "2023",
        "A",
    ]
    assert rows["MI308X"] == ["CDNA3", "gfx942", "80", "–", "–", "–", "5300", "–", "2024", "C"]


def test_the_list_and_a_comparison_are_printed(golden: Callable[[str, str], None]):
    golden(
        "gpus.txt", printed(gpus_document([find("MI300X"), find("MI308X"), find("MI455X"), TOY]))
    )
    compared = gpus_document([find("MI300X"), find("MI308X"), TOY], compared=True)
    golden("gpus-compared.txt", printed(compared))


def test_the_list_fits_eighty_columns():
    lines = printed(gpus_document(all_gpus()), 80).splitlines()
    line = next(line for line in lines if line.startswith(" MI455X"))
    assert line.split() == [
        "MI455X",
        "CDNA5",
        "gfx1250",
        "–",
        "5033",
        "20133",
        "315",
        "23300",
        "1800",
        "2026",
        "C",
    ]


def test_a_comparison_shows_each_figure_with_its_ratio_to_the_first():
    rows = cells(compare_table(find("MI300X"), find("MI355X"), find("MI308X")))
    assert rows["fp8 matrix peak"] == ["TFLOPS", "2614.9", "5033.2", "× 1.92", "not published", ""]
    assert rows["memory bandwidth"] == ["GB/s", "5325", "8000", "× 1.5", "5300", "× 0.995"]
    assert rows["tf32 matrix peak"][1:4] == ["653.7", "not published", ""]
    assert rows["architecture"] == ["", "CDNA3", "CDNA4", "", "CDNA3", ""]
    assert rows["year of launch"][3] == ""
    assert {"compute units", "L2 cache", "all links, one way", "board power"} <= set(rows)


def test_a_comparison_has_no_ratio_to_what_is_not_published():
    rows = cells(compare_table(find("MI308X"), find("MI300X")))
    assert rows["fp8 matrix peak"] == ["TFLOPS", "not published", "2614.9", ""]


def test_a_gpu_alone_shows_all_its_figures():
    rows = cells(compare_table(find("MI308X")))
    assert rows["fp8 matrix peak"] == ["TFLOPS", "not published"]
    assert rows["compute units"] == ["", "80"]
    assert "0" not in {cell for row in rows.values() for cell in row}


def test_rare_figures_show_where_a_gpu_has_them():
    assert "int8 vector peak" not in cells(compare_table(find("MI300X")))
    assert cells(compare_table(find("MI300X"), find("MI50")))["int8 vector peak"][1:3] == [
        "not published",
        "53",
    ]
    assert cells(compare_table(find("MI455X")))["compute units by the driver"] == ["", "256"]
    assert cells(compare_table(find("H100 SXM5")))["matrix clock"] == ["MHz", "1830"]


def test_a_gpu_of_the_users_own_compares_with_the_known():
    table = compare_table(find("MI300X"), TOY)
    rows = cells(table)
    assert rows["fp8 matrix peak"] == ["TFLOPS", "2614.9", "1307.45", "× 0.5"]
    assert rows["compute units"] == ["", "304", "608", "× 2"]
    assert rows["bf16 vector peak"] == ["TFLOPS", "not published", "2", ""]


def test_provenance_resolves_the_sources():
    (row,) = cells(provenance_table([find("MI300X")])).values()
    assert row[0] == "A"
    assert "FNUZ" in row[1]
    assert "ROCm documentation, MI300 microarchitecture" in row[2]
    assert "https://rocm.docs.amd.com/" in row[2]
    assert cells(provenance_table([TOY]))["toy [red]"] == ["", "", "toy.toml"]


def test_ceilings_are_shares_of_the_published_peak():
    table = ceilings_table([find("MI100"), TOY, find("MI50")])
    assert len(table.rows) == 1
    assert cells(table)["MI100"][:4] == ["gemm_fp16", "107.98", "TFLOPS", "58 %"]


@pytest.mark.parametrize("gpu", [*all_gpus(), TOY], ids=lambda gpu: gpu.name)
def test_json_has_every_figure_and_null_where_it_is_not_published(gpu):
    document = json.loads(json.dumps(gpus_json([gpu]), allow_nan=False))
    assert document["schema"] == 1
    (entry,) = document["gpus"]
    assert {key: entry[key] for key in FIGURES} == {key: getattr(gpu, key) for key in FIGURES}
    assert {key: value for key, value in entry["peaks"].items() if value is not None} == gpu.peaks
    assert entry["peaks"]["fp64_matrix"] == gpu.peaks.get("fp64_matrix")
    assert entry["name"] == gpu.name
    assert set(document["units"]) == {*FIGURES, *PEAKS}


def test_json_carries_the_sources_it_names():
    document = gpus_json([find("MI60"), find("MI50")])
    assert set(document["sources"]) == {"ROCM-SPECS", "HF-MI50", "DS"}
    assert document["sources"]["DS"]["read"].startswith("not read")
    assert document["units"]["int8_vector"] == "TOPS"
