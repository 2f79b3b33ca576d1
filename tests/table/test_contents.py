"""What a table holds: counts, sizes, shares of the peaks, repeats, and what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from flopcast.api.ingesting import FILES, ingest
from flopcast.errors import DataError
from flopcast.hardware import find
from flopcast.readers import read
from flopcast.table.contents import profiles

PEAK = find("MI300X").peaks["bf16_matrix"]
LEAST_US = 2 * 4096.0**3 / (PEAK * 1e6)
LINES = [
    "device,op,dtype_a,kernel,m,n,k,time_us,spread_us,power_w",
    f"MI300X,gemm,bf16,a,4096,4096,4096,{2 * LEAST_US},1,600",
    f"MI300X,gemm,bf16,a,4096,4096,4096,{4 * LEAST_US},1,600",
    f"MI300X,gemm,bf16,,8192,4096,4096,{8 * LEAST_US},,",
    "LabChip,gemm,fp8,a,16,32,64,7,0.7,",
    f"LabChip,gemm,fp8,a,16,32,{'x' * 99},7,,",
    f"MI300X,gemm,bf16,b,4096,4096,4096,{LEAST_US / 2},,",
    *["LabChip,gemm,fp8,a,16,0,64,7,,"] * 5,
    "",
]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "x.csv"
    path.parent.mkdir()
    path.write_text("\n".join(LINES), encoding="utf-8")
    return path


def test_each_operator_and_format_is_profiled(table: Path) -> None:
    found = read([table])
    bf16, fp8 = profiles(found.frame, found.rows_before)
    assert (bf16.op, bf16.dtype, bf16.rows, bf16.duplicates, bf16.devices) == (
        "gemm",
        "bf16",
        2,
        1,
        {"MI300X": 2},
    )
    assert bf16.sizes == {"m": (4096, 8192), "n": (4096, 4096), "k": (4096, 4096), "batch": (1, 1)}
    assert bf16.duration_us == pytest.approx((3 * LEAST_US, 5.5 * LEAST_US, 8 * LEAST_US))
    assert bf16.share == pytest.approx((1 / 4, (1 / 3 + 1 / 4) / 2, 1 / 3))
    assert (bf16.repeats, bf16.missing) == (3, {"kernel": 1, "spread_us": 1, "power_w": 1})
    assert (fp8.rows, fp8.share, fp8.spread) == (1, None, pytest.approx(0.1))


def test_the_first_rejected_rows_of_each_reason_are_quoted(table: Path) -> None:
    found = read([table])
    assert found.rejected_by_reason == {
        "dimension-not-positive": 5,
        "dimension-not-a-number": 1,
        "above-peak": 1,
    }
    quoted = found.examples.groupby("reason")["source"].agg(list).to_dict()
    assert quoted == {
        "dimension-not-a-number": ["x.csv:6"],
        "dimension-not-positive": ["x.csv:8", "x.csv:9", "x.csv:10"],
        "above-peak": ["x.csv:7"],
    }
    values = found.examples.set_index("source")["values"]
    assert f"k={'x' * 59}…" in values["x.csv:6"].split()
    assert "n=0" in values["x.csv:8"].split()
    assert {"m=4096", "dtype_a=bf16", "device=MI300X"} <= set(values["x.csv:7"].split())


def test_a_folder_holds_the_table_what_was_found_and_its_page(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = ingest(table, out=out, jobs=1)
    assert sorted(file.name for file in out.iterdir()) == sorted(FILES)
    assert len(read([out / FILES[0]]).frame) == found.rows == 3
    told = found.to_dict()
    assert [(one["op"], one["dtype"], one["rows"]) for one in told["profile"]] == [
        ("gemm", "bf16", 2),
        ("gemm", "fp8", 1),
    ]
    assert told["profile"][0]["share_of_peak"]["max"] == pytest.approx(1 / 3)
    assert [row["source"] for row in told["above_peak"]] == ["x.csv:7"]
    page = (out / FILES[2]).read_text(encoding="utf-8")
    assert all(word in page for word in ("x.csv:7", "bf16 matrix peak", "8,192", "3 measurements"))
    (out / "mine.txt").touch()
    with pytest.raises(DataError, match="holds other files"):
        ingest(table, out=out, jobs=1)
