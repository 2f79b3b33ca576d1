from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from flopcast.hardware import GPU
from flopcast.output import dumps
from flopcast.report.html import page
from flopcast.report.scaling import (
    devices_document,
    devices_json,
    family_figure,
    family_row,
    problem_figure,
    verdict_lines,
)
from flopcast.report.terminal import print_document
from flopcast.scaling.devices import DeviceScaling, assess_devices
from flopcast.table.measurements import clean


@pytest.fixture(scope="module")
def result() -> DeviceScaling:
    """Copies that take half the time on twice the units, and a few softmaxes that do not care."""
    devices = [
        GPU(name=f"toy [{cus}]", arch="A", cus=cus, memory_bw_gbs=cus, boost_mhz=1)
        for cus in (8, 16)
    ]
    cells = [
        (op, rows, cols)
        for op in ("copy", "softmax")
        for cols in (1024, 2048, 4096, 8192)
        for rows in (16, 64, 256)
    ]
    shapes = pd.DataFrame(cells, columns=["op", "rows", "cols"]).assign(dtype_a="fp32")
    shapes = shapes[shapes["op"].eq("copy") | shapes["cols"].eq(1024)]
    rng, parts = np.random.default_rng(0), []
    for device, speed in zip(devices, (1.0, 2.0), strict=True):
        times = shapes["rows"] * shapes["cols"] * np.exp(rng.normal(0, 0.01, len(shapes)))
        parts.append(
            shapes.assign(
                device=device.name, duration_us=times / np.where(shapes["op"].eq("copy"), speed, 1)
            )
        )
    table = pd.concat(parts, ignore_index=True)
    frame = clean(table.assign(source=[f"toy.csv:{row + 2}" for row in range(len(table))])).frame
    return assess_devices(frame, devices, replicates=100, notes=["a [remark]"])


def test_the_table_has_a_row_per_family(result: DeviceScaling) -> None:
    (copies, softmaxes) = (
        [getattr(cell, "text", cell) for cell in family_row(one).cells] for one in result.families
    )
    assert (copies[0], copies[1], copies[-1]) == ("copy fp32", "12", "linear")
    assert copies[3].startswith("1.00 [")
    assert softmaxes[3] == "-0.02"
    assert all(count in softmaxes[-1] for count in ("3 of the 10", "1 of the 4"))


def test_verdicts_count_the_classes_and_rows_of_each_outcome(result: DeviceScaling) -> None:
    first, *others = verdict_lines(result.verdicts[0])
    assert first.startswith("toy [8] → toy [16], ")
    assert ["copy fp32" in others[0], "1 of 2 classes, 3 rows" in others[1]] == [True, True]


def test_everything_is_printed_and_brackets_stay(result: DeviceScaling) -> None:
    out = io.StringIO()
    print_document(Console(width=120, file=out), devices_document(result))
    said = " ".join(out.getvalue().split())
    assert all(words in said for words in ("toy [8] (8), toy [16] (16); 15 problems", "a [remark]"))


def test_json_holds_families_problems_and_verdicts(result: DeviceScaling) -> None:
    found = json.loads(dumps(devices_json(result), missing=True))
    assert found["sizes"] == [8, 16]
    assert (found["families"][0]["class"], found["families"][1]["exponent"]["lower"]) == (
        "linear",
        None,
    )
    assert len(found["problems"]) == 15
    assert found["problems"][0]["exponent"] == pytest.approx(1, abs=0.1)
    assert found["linear"][0]["classes"][1]["laws"][0]["law"] == "CU scaling"
    assert len(found["conclusions"]) == 1


def test_problems_and_families_are_drawn(result: DeviceScaling) -> None:
    copies, softmaxes, linear = problem_figure(result.measured).data
    assert (copies.name, softmaxes.name) == ("copy", "softmax")
    assert len(copies.x) == 12 * 3
    assert (list(linear.x), list(linear.y)) == ([8, 16], [1, 2])
    points, median = family_figure(result).data[:2]
    assert len(points.x) == 12
    exponent = result.families[0].exponent
    assert median.x[0] + median.error_x.array[0] == pytest.approx(exponent.upper)


def test_the_page_holds_the_same(result: DeviceScaling) -> None:
    document = devices_document(result)
    text = page(document)
    assert len(document.sections) > 1
    assert all(
        words in text
        for words in (*(section.heading for section in document.sections), "a [remark]")
    )
