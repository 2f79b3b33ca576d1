from __future__ import annotations

import pandas as pd
import pytest

from flopcast.readers.labels import device_named
from flopcast.readers.rocpd import direction, streams_recorded, workgroups


@pytest.mark.parametrize(
    ("product", "gfx", "cus", "expected"),
    [
        ("AMD Instinct MI300X", "gfx942", 304, "MI300X"),
        ("AMD Instinct MI300X", "gfx942", None, "MI300X"),
        ("AMD Instinct MI300X", "gfx942", 38, "gfx942 (38 CUs)"),
        ("AMD Instinct MI300X", "", 38, "gfx942 (38 CUs)"),
        ("AMD Instinct MI300X VF", "gfx942", 152, "gfx942 (152 CUs)"),
        ("NVIDIA H100 80GB HBM3", "", 132, "H100 SXM5"),
        ("NVIDIA H100 80GB HBM3", "", 16, "H100 SXM5 (16 SMs)"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "", 16, "NVIDIA H100 80GB HBM3 MIG 1g.10gb"),
        ("", "gfx942", 304, "MI300X"),
        ("AMD Radeon Graphics", "gfx9999", 12, "gfx9999 (12 CUs)"),
        ("Some Board", "", None, "Some Board"),
        ("", "", None, ""),
    ],
)
def test_devices_are_named_by_product_unless_it_is_partitioned(
    product: str, gfx: str, cus: int | None, expected: str
) -> None:
    assert device_named(product, gfx, cus)[0] == expected


def test_directions_are_shortened() -> None:
    words = ["MEMORY_COPY_DEVICE_TO_DEVICE", "CopyHostToDevice2D", "MEMORY_COPY_NONE", ""]
    assert direction(pd.Series(words)).tolist() == ["DtoD", "HtoD", "MEMORY_COPY_NONE", ""]


def test_grids_of_work_items_are_covered_by_whole_workgroups() -> None:
    items, group = pd.Series([1048576, 65, 64, 0, 10]), pd.Series([64, 64, 64, 64, 0])
    assert workgroups(items, group).fillna(-1).tolist() == [16384, 2, 1, -1, -1]


def test_streams_that_are_all_zero_on_several_queues_were_not_recorded() -> None:
    zero, queues = pd.Series([0, 0]), pd.Series([1, 2])
    assert not streams_recorded(zero, queues)
    assert streams_recorded(zero, pd.Series([1, 1]))
    assert streams_recorded(pd.Series([0, 3]), queues)
    assert not streams_recorded(pd.Series([pd.NA, pd.NA], dtype="Int64"), queues)
