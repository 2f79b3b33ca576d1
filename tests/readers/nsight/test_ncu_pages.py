"""The pages of Nsight Compute as one table: launches, metrics, units, what was passed over."""

from __future__ import annotations

import numpy as np
import pytest

from flopcast.errors import DataError
from flopcast.readers.files import parse_csv
from flopcast.readers.ncu import DISPLAY_NAME, Launches, launches

WIDE = f"""\
"ID","Process ID","Kernel Name","{DISPLAY_NAME}","time.sum","bytes.sum","kind"
"","","","","usecond","Kbyte",""
"0","7","one","GPU","1.50","2.00","A"
"1","7","two","GPU","","1,024.00","B"
"""
LONG = """\
"ID","Process ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"
"0","7","one","S","time","us","1.50"
"0","7","one","S","bytes","Kbyte","2.00"
"1","7","two","S","bytes","Mbyte","1.50"
"""


def found(text: str) -> Launches:
    return launches(parse_csv(text, "x.csv"), "x.csv")


def test_a_wide_page_has_its_units_below_the_header() -> None:
    page = found(WIDE)
    assert page.identity["Kernel Name"].tolist() == ["one", "two"]
    assert page.identity[DISPLAY_NAME].tolist() == ["GPU", "GPU"]
    assert page.identity["file_line"].tolist() == [3, 4]
    assert page.units == {"time.sum": ("ns", 1e3), "bytes.sum": ("byte", 1e3)}
    np.testing.assert_array_equal(page.metrics["time.sum"], [1500.0, np.nan])
    np.testing.assert_array_equal(page.metrics["bytes.sum"], [2e3, 1.024e6])


def test_a_long_page_has_the_unit_in_every_row() -> None:
    page = found(LONG)
    assert page.identity["file_line"].tolist() == [2, 4]
    assert page.units == {"time": ("ns", 1e3), "bytes": ("byte", 1e6)}
    np.testing.assert_array_equal(page.metrics["time"], [1500.0, np.nan])
    np.testing.assert_array_equal(page.metrics["bytes"], [2e3, 1.5e6])


@pytest.mark.parametrize(
    ("text", "header"), [(WIDE, WIDE.splitlines()[:2]), (LONG, LONG.splitlines()[:1])]
)
def test_the_header_again_is_no_launch(text: str, header: list[str]) -> None:
    again = text + "\n".join([*header, text.splitlines()[-1].replace('"1"', '"2"'), ""])
    page = found(again)
    assert page.identity["ID"].tolist() == ["0", "1", "2"]
    assert page.foreign == 0


@pytest.mark.parametrize("text", [WIDE, LONG])
def test_lines_of_no_launch_are_counted(text: str) -> None:
    page = found(text + "step 3\n" + "1,2,3,4,5,6,7,8,9\n")
    assert page.foreign == 2
    assert len(page.identity) == 2


@pytest.mark.parametrize("text", [WIDE, LONG])
def test_a_column_that_is_missing(text: str) -> None:
    with pytest.raises(DataError, match=r"^x\.csv: no column 'Kernel Name'"):
        found(text.replace("Kernel Name", "Kernel"))
