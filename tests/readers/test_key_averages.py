"""PyTorch's table of averages: operators by shapes, what is left out, and what is asked for."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import DataError

HEADS = ("Name", "Self CPU %", "Self CPU", "Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg", "# of Calls",
         "Input Shapes")  # fmt: skip
MM, ADDMM, SOFTMAX = (
    "[[64, 128], [128, 256]]",
    "[[64], [64, 256], [256, 64], [], []]",
    "[[64, 64], [], []]",
)
ROWS = (
    ("aten::matmul", "1%", "5us", "0.000us", "0%", "1.1ms", "0us", "5", MM),
    ("aten::mm", "1%", "5us", "1.100ms", "60%", "1.1ms", "1us", "5", MM),
    ("aten::addmm", "1%", "5us", "80.000us", "4%", "1us", "1us", "4", ADDMM),
    ("aten::_softmax", "1%", "5us", "30.000us", "2%", "1us", "1us", "5", SOFTMAX),
    ("aten::mm", "1%", "5us", "30.000us", "2%", "1us", "1us", "5", "[[64, 128], [1"),
    ("void gemm<float, 8>(float*, int)", "0%", "0us", "1.180ms", "64%", "1us", "1us", "9", "[]"),
)
STATED = {"device": "H100", "dtype_a": "bf16"}


def table(rows: tuple[tuple[str, ...], ...], heads: tuple[str, ...] = HEADS) -> str:
    """Return a table as PyTorch 2.15 lays it out: rules, heads to the right, and two blanks between columns."""
    widths = [34, *[12] * (len(heads) - 2), 40]
    rule = "  ".join("-" * width for width in widths)
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in (heads, *rows)
    ]
    return "\n".join(
        [
            "a line of a log",
            rule,
            lines[0],
            rule,
            *lines[1:],
            rule,
            "Self CUDA time total: 1.8ms",
            "",
        ]
    )


def test_operators_with_time_and_shapes_are_rows_of_their_mean(tmp_path: Path) -> None:
    file = tmp_path / "averages.txt"
    file.write_text(table(ROWS))
    found = fc.read(file, default=STATED)
    assert found.frame[
        ["op", "m", "n", "k", "duration_us", "repeats", "source"]
    ].to_numpy().tolist() == [
        ["gemm", 64, 256, 128, pytest.approx(220.0), 5, "averages.txt:6"],
        ["gemm", 64, 64, 256, pytest.approx(20.0), 4, "averages.txt:7"],
    ]
    # what the shapes do not tell
    assert found.rejected["source"].tolist() == ["averages.txt:8", "averages.txt:9"]


@pytest.mark.parametrize(
    ("lacking", "told"),
    [("Self CUDA", "time on a GPU"), ("Input Shapes", "group_by_input_shape"), ("", "dtype_a=")],
)
def test_what_is_missing_is_said_with_how_to_export_it(
    tmp_path: Path, lacking: str, told: str
) -> None:
    frame = pd.DataFrame(ROWS, columns=list(HEADS)).drop(columns=lacking or [])
    file = tmp_path / "averages.txt"
    file.write_text(table(tuple(frame.itertuples(index=False, name=None)), tuple(frame)))
    with pytest.raises(DataError, match=f"{told}.*export_chrome_trace"):
        fc.read(file, default=STATED if lacking else {"device": "H100"})
