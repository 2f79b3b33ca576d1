from __future__ import annotations

import pytest

from flopcast.power.readings import csv_cells, monitor_cells, whole_lines


def test_commas_in_lists_and_quotes_do_not_part_cells() -> None:
    assert csv_cells("1, ['N/A', 0],\"[{'a': 1, 'b': 2}]\" ,x,") == ["1", "['N/A', 0]", "[{'a': 1, 'b': 2}]", "x", ""]


def test_a_number_and_its_unit_are_one_value_of_the_monitor() -> None:
    assert monitor_cells("   0  171 W     32 °C  N/A  283/196300 MB") == ["0", "171 W", "32 °C", "N/A", "283/196300 MB"]


@pytest.mark.parametrize(
    ("last", "cut"),
    [
        ("2025/08/24 22:19:2", 1),
        ("2025/08/24 22:19:26.420, ", 1),
        ("2025/08/24 22:19:26.420, 31", 1),
        ("2025/08/24 22:19:26.420, 31\n", 0),
        ("2025/08/24 22:19:26.420, 311.25 W", 0),
    ],
)
def test_a_last_line_that_a_stopped_logger_has_not_finished_is_left_out(last: str, cut: int) -> None:
    whole = ["time, power", "2025/08/24 22:19:24.420, 310.50 W", "2025/08/24 22:19:25.420, 300.00 W"]
    found, count = whole_lines("\n".join([*whole, last]))
    assert (found, count) == (whole if cut else [*whole, last.strip()], cut)


def test_a_log_of_one_line_is_whole_without_a_line_break() -> None:
    assert whole_lines("gpu_ns,power_w\n1,500") == (["gpu_ns,power_w", "1,500"], 0)
    assert whole_lines("GPU POWER\n0 171 W\n1 1", monitor_cells) == (["GPU POWER", "0 171 W"], 1)
