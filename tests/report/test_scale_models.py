from __future__ import annotations

import io
import json

from rich.console import Console

from flopcast.hardware import GPU, find
from flopcast.hardware.scaled import scale_models
from flopcast.output import dumps
from flopcast.report.scale_models import NETWORK, configuration_table, configurations_json


def cells(base: GPU, sizes: list[int] | None = None) -> dict[str, list[str]]:
    """Return the cells of each row by its first one."""
    table = configuration_table(scale_models(base, sizes), base)
    rows = zip(*([str(cell) for cell in column.cells] for column in table.columns), strict=True)
    return {first: rest for first, *rest in rows}


def test_shared_resources_are_in_proportion_and_units_stay_as_they_are() -> None:
    found = cells(find("MI300X"), [38, 304])
    assert found["memory bandwidth"] == ["GB/s", "×", "665.62", "5,325"]
    assert found["last-level cache"] == ["MiB", "×", "32", "256"]
    assert found["fp16 matrix peak"] == ["TFLOPS", "×", "163.43", "1,307.4"]
    assert found["boost clock"] == ["MHz", "=", "2,100", "2,100"]


def test_what_is_not_published_says_so_and_half_a_chiplet_is_not_whole() -> None:
    found = cells(find("MI308X"), [10, 80])
    assert found["last-level cache"] == ["MiB", "×", "not published", "not published"]
    assert found[NETWORK] == ["GB/s", "×", "not published", "not published"]
    assert found["chiplets"] == ["", "×", "not whole", "4"]


def test_the_table_of_halvings_fits_a_hundred_and_twenty_columns() -> None:
    out = io.StringIO()
    base = find("MI300X")
    Console(width=120, file=out).print(configuration_table(scale_models(base), base))
    assert "19 CUs" in out.getvalue()
    assert "…" not in out.getvalue()


def test_json_holds_the_models_as_gpus() -> None:
    base = find("MI300X")
    found = json.loads(dumps(configurations_json(scale_models(base), base), missing=True))
    assert (found["base"], found["gpus"][1]["cus"], found["gpus"][1]["llc_mb"]) == ("MI300X", 38, 32)
    assert found["schema"] == 1
    assert "memory_bw_gbs" in found["shared"]
