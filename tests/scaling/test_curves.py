from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError, ParameterError
from flopcast.remarks import remark
from flopcast.scaling.curves import (
    DEFAULT_UNIT,
    Curve,
    curves_of,
    doublings_away,
    log_ratio,
    positive,
    read_curves,
    sizes_beyond,
    stated,
    within,
)

FULL = """benchmark,size,performance,mpki,f_mem,scenario,unit,simulation_time_s
dct,8,112.7,6.2,0.52,strong,SM,10
dct,16,226.4,6.2,,strong,SM,21
dct,128,,0.1,,strong,SM,300
bfs,8,68.2,8.7,,weak,SM,
bfs,16,120.9,6.7,,weak,SM,
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "sizes.csv"
    path.write_text(text)
    return path


def test_a_table_is_read_benchmark_by_benchmark(tmp_path: Path) -> None:
    dct, bfs = read_curves(written(tmp_path, FULL)).curves
    assert (dct.benchmark, dct.scenario, dct.unit, dct.f_mem) == ("dct", "strong", "SM", 0.52)
    assert dct.sizes.tolist() == [8, 16]
    assert dct.performance.tolist() == [112.7, 226.4]
    assert dct.simulation_time_s == {8: 10, 16: 21, 128: 300}
    assert (bfs.name, bfs.f_mem, dict(bfs.simulation_time_s)) == ("bfs (weak)", None, {})


def test_columns_of_other_names_are_read_as_told(tmp_path: Path) -> None:
    path, names = written(tmp_path, FULL.replace("performance", "speed")), {"speed": "performance"}
    assert [one.performance.tolist() for one in read_curves(path, rename=names).curves] == [
        [112.7, 226.4],
        [68.2, 120.9],
    ]
    with pytest.raises(ParameterError, match=r"'spee'.*speed"):
        read_curves(path, rename={"spee": "performance"})


def test_a_miss_rate_may_be_known_where_performance_is_not(tmp_path: Path) -> None:
    dct, _ = read_curves(written(tmp_path, FULL)).curves
    assert dct.mpki_sizes is not None
    assert dct.mpki is not None
    assert dct.mpki_sizes.tolist() == [8, 16, 128]
    assert dct.mpki.tolist() == [6.2, 6.2, 0.1]
    assert (dct.measured_at(16), dct.measured_at(128)) == (226.4, None)


def test_other_names_and_percents_are_known(tmp_path: Path) -> None:
    text = "Benchmark;SMs;IPC;LLC_MPKI;f_mem_percent;scenario\nx;8;1;2;52;weak-multi-chiplet\nx;16;2;2;;\n"
    path = written(tmp_path, text.replace("16;2;2;;\n", "16;2;2;;chiplets\n"))
    (one,) = read_curves(path).curves
    assert (one.f_mem, one.scenario, one.unit) == (0.52, "chiplets", DEFAULT_UNIT)


def test_parquet_and_compressed_csv_say_the_same(tmp_path: Path) -> None:
    path = written(tmp_path, FULL)
    pd.read_csv(path).to_parquet(tmp_path / "sizes.parquet")
    (tmp_path / "sizes.csv.gz").write_bytes(gzip.compress(FULL.encode()))
    expected = read_curves(path).curves
    for name in ("sizes.parquet", "sizes.csv.gz"):
        for one, other in zip(read_curves(tmp_path / name).curves, expected, strict=True):
            assert (one.name, one.f_mem, one.simulation_time_s) == (
                other.name,
                other.f_mem,
                other.simulation_time_s,
            )
            np.testing.assert_array_equal(one.performance, other.performance)
            np.testing.assert_array_equal(one.mpki_sizes, other.mpki_sizes)


def test_rows_are_chosen_and_other_columns_named(tmp_path: Path) -> None:
    table = read_curves(written(tmp_path, "benchmark,size,ipc,colour\na,8,1,red\na,16,2,red\nb,8,1,blue\n"),
                       {"benchmark": ["a"]}, "weak")  # fmt: skip
    assert [one.name for one in table.curves] == ["a (weak)"]
    assert table.notes == (remark("columns-not-used", columns=("colour",)),)


def test_decimal_commas_are_read_and_told(tmp_path: Path) -> None:
    found = read_curves(written(tmp_path, "benchmark;size;performance\na;8;1,5\na;16;2,9\n"))
    assert found.curves[0].performance.tolist() == [1.5, 2.9]
    assert found.notes == (remark("decimal-commas", columns=("performance",)),)


def test_a_name_in_two_scenarios_is_two_benchmarks(tmp_path: Path) -> None:
    text = "benchmark,scenario,size,ipc\nbfs,strong,8,1\nbfs,strong,16,2\nbfs,weak,8,1\nbfs,weak,16,2\n"
    assert [one.name for one in read_curves(written(tmp_path, text)).curves] == [
        "bfs (strong)",
        "bfs (weak)",
    ]


def test_values_can_be_stated() -> None:
    (one,) = stated([8, 16], [100, 190], [128], mpki=[6.0, 6.0, 0.1], f_mem=0.5).curves
    assert one.sizes.tolist() == [8, 16]
    assert one.mpki_sizes is not None
    assert one.mpki_sizes.tolist() == [8, 16, 128]
    assert one.f_mem == 0.5
    (short,) = stated([8, 16], [100, 190], [128], mpki=[6.0, 6.0]).curves
    assert short.mpki_sizes is not None
    assert short.mpki_sizes.tolist() == [8, 16]
    assert stated([8, 16], [100, 190], [128]).curves[0].mpki is None


def test_targets_are_what_was_measured_beyond(tmp_path: Path) -> None:
    text = "benchmark,size,ipc\na,8,1\na,16,2\na,64,3\nb,8,1\nb,16,2\nb,32,3\n"
    assert list(sizes_beyond(read_curves(written(tmp_path, text)).curves, [8, 16])) == [32, 64]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("benchmark,ipc\na,1\n", r"sizes.csv"),
        ("size\n8\n", "column performance"),
        ("benchmark,size,ipc\n", "the table has no rows"),
        ("benchmark,size,ipc\na,8,fast\n", r"sizes.csv:2.*'fast'"),
        ("benchmark,size,ipc\na,8,-1\n", r"sizes.csv:2.*-1"),
        ("benchmark,size,ipc\na,8,inf\n", r"performance.*'inf'"),
        ("benchmark,size,ipc\na,0,1\n", "above 0, got 0"),
        ("benchmark,size,ipc\na,,1\n", "above 0, got nan"),
        ("benchmark,size,ipc\na,16,1\na,8,2\n", r"csv:3.*16.*8"),
        ("benchmark,size,ipc\na,8,1\na,8,2\n", "csv:3"),
        ("benchmark,size,ipc\na,8,\n", "given at any size"),
        ("benchmark,size,ipc\n,8,1\n", r"benchmark.*''"),
        ("benchmark,size,ipc,mpki\na,8,1,2\na,16,2,\n", r"MPKI.*16"),
        ("benchmark,size,ipc,mpki\na,8,1,-2\n", "negative, got -2"),
        ("benchmark,size,ipc,f_mem\na,8,1,52\n", r"f_mem.*52"),
        ("benchmark,size,ipc,f_mem_percent\na,8,1,100\n", r"f_mem_percent.*100.*100"),
        ("benchmark,size,ipc,scenario\na,8,1,medium\n", r"scenario.*'medium'"),
        ("benchmark,size,ipc,simulation_time_s\na,8,1,0\n", r"simulation_time_s.*0"),
        ("benchmark,size,ipc\na,8,1,9\n", r"sizes.csv:2"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_place(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read_curves(written(tmp_path, text))


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    for name, message in (
        ("missing.csv", "no such file"),
        ("broken.parquet", "is not readable Parquet"),
    ):
        with pytest.raises(DataError, match=message):
            read_curves(tmp_path / name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([8, 16], [1.0]), r"performance.*1"),
        (([8, 16], [1.0, 2.0], [64]), r"mpki.*4"),
        (([8, 16], [1.0, 2.0]), r"mpki.*4"),
        (([16, 8], [1.0, 2.0]), "size of stated must increase"),
    ],
)
def test_stated_values_must_agree(arguments: tuple, message: str) -> None:
    mpki = [1.0] * 4 if message.startswith("mpki") else None
    with pytest.raises(DataError, match=message):
        stated(*arguments, mpki=mpki)


def test_conditions_on_what_is_not_there_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, FULL)
    with pytest.raises(DataError, match="benchmark=dkt"):
        read_curves(path, {"benchmark": ["dkt"]})
    with pytest.raises(DataError, match="'colour'"):
        read_curves(path, {"colour": ["red"]})


def test_a_frame_in_memory_is_left_as_it_is() -> None:
    frame = pd.DataFrame({"benchmark": ["a", "a"], "size": [1, 2], "ipc": [1.0, 2.0]})
    before = frame.copy()
    curves_of(frame)
    pd.testing.assert_frame_equal(frame, before)


CURVE = Curve(
    "gemm",
    "strong",
    "SM",
    [8, 16, 32],
    [1.0, 2.0, 3.0],
    mpki=[3.0, 2.0, 1.0, 0.5],
    mpki_sizes=[8, 16, 32, 64],
)


def test_lists_become_arrays_and_misses_keep_their_own_sizes() -> None:
    assert CURVE.check().sizes.dtype == CURVE.mpki.dtype == np.float64
    assert CURVE.miss_sizes.tolist() == [8, 16, 32, 64]
    assert replace(CURVE, mpki=[3.0, 2.0, 1.0], mpki_sizes=None).check().miss_sizes.tolist() == [
        8,
        16,
        32,
    ]


def test_a_cut_takes_performance_away_and_leaves_the_misses() -> None:
    cut = replace(CURVE, mpki=[3.0, 2.0, 1.0], mpki_sizes=None).cut([8, 16])
    assert (cut.sizes.tolist(), cut.performance.tolist()) == ([8, 16], [1, 2])
    assert (cut.mpki.tolist(), cut.miss_sizes.tolist()) == ([3, 2, 1], [8, 16, 32])
    assert CURVE.cut([8, 32, 99]).performance.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": [8], "performance": [1.0]}, "gemm.*got 8"),
        ({"sizes": [], "performance": []}, "gemm.*got none"),
        ({"performance": [1.0, -2.0, 3.0]}, "gemm.*-2 at 16"),
        ({"performance": [1.0, np.nan, 3.0]}, "gemm.*nan at 16"),
        ({"performance": [1.0, 2.0]}, "gemm.*3 and 2"),
        ({"sizes": [8, 8, 32]}, "gemm.*8, 8, 32"),
        ({"sizes": [0, 8, 32]}, "gemm.*0, 8, 32"),
        ({"mpki": [1.0, 2.0]}, "gemm.*MPKI.*2 and 4"),
        ({"mpki": [1.0, 2.0], "mpki_sizes": None}, "gemm.*MPKI.*2 and 3"),
        ({"mpki": [1.0, 2.0, -1.0, 1.0]}, "gemm.*MPKI.*1, 2, -1, 1"),
        ({"mpki_sizes": [8, 16, 64, 32]}, "gemm.*MPKI.*8, 16, 64, 32"),
        ({"f_mem": 52.0}, "gemm.*f_mem.*52"),
        ({"f_mem": float("nan")}, "gemm.*f_mem.*nan"),
        ({"scenario": "medium"}, "gemm.*scenario.*'medium'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(change: dict, message: str) -> None:
    with pytest.raises(DataError, match=f"^{message}[^\n]*$"):
        replace(CURVE, **change).check()


def test_sizes_to_predict_are_positive() -> None:
    assert positive(3).tolist() == [3.0]
    with pytest.raises(DataError, match="above 0, got 8"):
        positive([8, 0])


def test_distance_in_doublings() -> None:
    assert doublings_away(np.array([8.0, 16.0]), np.array([4.0, 8.0, 16.0, 64.0])).tolist() == [
        1,
        0,
        0,
        2,
    ]


def test_log_ratio_of_a_prediction_that_is_not_positive() -> None:
    found = log_ratio(np.array([2.0, 2.0, 2.0]), np.array([1.0, -1.0, np.inf]))
    assert found.tolist() == [np.log(2), np.inf, np.inf]


def test_between_sizes_performance_follows_power_laws() -> None:
    curve = Curve("b", "strong", "SM", [8, 32, 64], [1.0, 4.0, 4.0])
    assert within(curve, np.array([4.0, 8.0, 16.0, 32.0, 48.0, 64.0])) == pytest.approx(
        [0.5, 1, 2, 4, 4, 4]
    )
