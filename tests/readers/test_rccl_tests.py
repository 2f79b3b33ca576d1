"""rccl-tests and nccl-tests: both tables, names of collectives, ranks, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from flopcast.errors import DataError
from flopcast.readers.base import Note, Options, RawTable
from flopcast.readers.rccl_tests import RcclTestsReader
from flopcast.remarks import remark

START = "# nThread 1 nGpus {ranks} minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20\n#\n"
VERSION = "rccl-tests: Version develop:448c4c7\n# Using devices\n"
TABLE = """\
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
SMALL = "         8          2     float     sum  -1    18.28    0.00    0.00       0    17.91    0.00    0.00     N/A\n"
MIDDLE = "  16777216    4194304     float     sum  -1    148.2  113.21  198.11       0    150.1  111.77  195.61       0\n"
LARGE = "2147483648  536870912  bfloat16     sum  -1    11890  180.61  316.07       0    11905  180.38  315.67       0\n"
END = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 123.4\n#\n"
NAMED = "# Collective test starting: all_reduce_perf\n"


def ranks(number: int = 8, hosts: int = 1, device: str = "AMD Instinct MI300X") -> str:
    each = number // hosts
    return "".join(
        f"#  Rank {rank:2d} Group  0 Pid   {4200 + rank} on   node{rank // each:02d} device  {rank % each} "
        f"[0000:{rank % each:02x}:00.0] {device}\n"
        for rank in range(number)
    )


def log(*lines: str, number: int = 8, hosts: int = 1, device: str = "AMD Instinct MI300X") -> str:
    return (
        START.format(ranks=number)
        + VERSION
        + ranks(number, hosts, device)
        + TABLE
        + "".join(lines)
        + END
    )


def read(folder: Path, text: str, name: str = "run.log", **defaults: str) -> RawTable:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    assert RcclTestsReader().sniff(file, file.read_bytes())
    return RcclTestsReader().read(file, Options(defaults=defaults))


def defects(table: RawTable) -> list[tuple[str, str]]:
    refused = table.rows[table.rows["_defect"] != ""]
    return list(zip(refused["_defect"], refused["_defect_detail"], strict=True))


def test_each_line_is_two_rows(tmp_path: Path) -> None:
    rows = read(tmp_path, NAMED + log(SMALL, MIDDLE, LARGE)).rows
    names = ["variant", "message_bytes", "dtype_a", "duration_us", "file_line"]
    assert rows[names].to_numpy().tolist() == [
        ["all_reduce", "8", "float", "18.28", 18],
        ["all_reduce in-place", "8", "float", "17.91", 18],
        ["all_reduce", "16777216", "float", "148.2", 19],
        ["all_reduce in-place", "16777216", "float", "150.1", 19],
        ["all_reduce", "2147483648", "bfloat16", "11890", 20],
        ["all_reduce in-place", "2147483648", "bfloat16", "11905", 20],
    ]
    assert rows["op"].unique().tolist() == ["collective"]
    assert rows["ranks"].unique().tolist() == [8]
    assert rows["device"].unique().tolist() == ["AMD Instinct MI300X"]
    assert rows["campaign"].unique().tolist() == ["run"]
    assert rows["_defect"].unique().tolist() == [""]


def test_the_bandwidths_that_the_table_prints_follow_from_what_is_read(tmp_path: Path) -> None:
    """Algbw = bytes / time, and busbw = algbw 2 (n - 1) / n (nccl-tests, doc/PERFORMANCE.md)."""
    row = read(tmp_path, NAMED + log(MIDDLE)).rows.iloc[0]
    algbw = float(row["message_bytes"]) / float(row["duration_us"]) / 1e3
    assert algbw == pytest.approx(113.21, abs=0.005)
    assert algbw * 2 * (row["ranks"] - 1) / row["ranks"] == pytest.approx(198.11, abs=0.01)


@pytest.mark.parametrize(
    ("before", "after", "name", "expected"),
    [
        ("# Collective test starting: all_gather_perf\n", "", "x.log", "all_gather"),
        ("", "# Collective test concluded: reduce_scatter_perf\n", "x.log", "reduce_scatter"),
        ("+ mpirun -np 8 ./build/alltoall_perf -b 8 -e 8G\n", "", "x.log", "alltoall"),
        ("$ sendrecv_perf -g 8\n", "", "x.log", "sendrecv"),
        ("", "", "rccl_broadcast_8gpu.txt", "broadcast"),
        ("", "", "allreduce-8x-mi300x.log", "all_reduce"),
        ("", "", "2024-rccl-reduce.log", "reduce"),
        ("", "", "nccl-AllGather.out", "all_gather"),
        ("# Collective test starting: all_reduce_perf\n", "", "all_gather.log", "all_reduce"),
    ],
)
def test_where_the_collective_is_named(
    tmp_path: Path, before: str, after: str, name: str, expected: str
) -> None:
    assert read(tmp_path, before + log(SMALL) + after, name).rows["variant"].tolist()[0] == expected


def test_an_unnamed_collective_is_an_error_unless_stated(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"run\.log:17: .* give default variant=all_reduce"):
        read(tmp_path, log(SMALL))
    stated = read(tmp_path, log(SMALL), variant="reduce").rows["variant"].tolist()
    assert stated == ["reduce", "reduce in-place"]


def test_several_runs_in_one_log(tmp_path: Path) -> None:
    first = NAMED + log(SMALL) + "# Collective test concluded: all_reduce_perf\n"
    second = "./build/all_gather_perf -b 8\n" + log(
        MIDDLE.replace(" sum ", "none "), number=4, device="AMD Instinct MI250X"
    )
    table = read(tmp_path, first + second)
    assert table.rows[["variant", "ranks", "device"]].drop_duplicates().to_numpy().tolist() == [
        ["all_reduce", 8, "AMD Instinct MI300X"],
        ["all_reduce in-place", 8, "AMD Instinct MI300X"],
        ["all_gather", 4, "AMD Instinct MI250X"],
        ["all_gather in-place", 4, "AMD Instinct MI250X"],
    ]


def test_a_run_is_not_named_after_the_one_before(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="which collective"):
        read(tmp_path, NAMED + log(SMALL) + log(SMALL))


def test_the_programs_name_within_a_table_starts_no_run(tmp_path: Path) -> None:
    stray = "node00:4200:4200 [0] NCCL INFO cmdline ./build/all_reduce_perf -b 8\nnode00:4200 [0] NCCL INFO Channel 00/32\n"
    rows = read(tmp_path, NAMED + log(SMALL, stray, MIDDLE)).rows
    assert rows["variant"].tolist() == ["all_reduce", "all_reduce in-place"] * 2
    assert rows["ranks"].tolist() == [8] * 4


def test_the_line_of_the_version_is_no_comment(tmp_path: Path) -> None:
    assert RcclTestsReader().sniff(tmp_path, VERSION.encode())
    assert len(read(tmp_path, VERSION + NAMED + log(SMALL)).rows) == 2


@pytest.mark.parametrize("wrong", ["3", "1.04858e+06", "inf"])
def test_wrong_results_are_refused(tmp_path: Path, wrong: str) -> None:
    line = MIDDLE.replace("       0    150.1", f"  {wrong}    150.1")
    table = read(tmp_path, NAMED + log(line))
    assert defects(table) == [("wrong-result", f"#wrong = {wrong}")]
    assert table.rows["_defect"].tolist()[1] == ""  # in place it was right


@pytest.mark.parametrize("right", ["0", "N/A"])
def test_right_and_unchecked_results_are_kept(tmp_path: Path, right: str) -> None:
    assert (
        defects(
            read(tmp_path, NAMED + log(MIDDLE.replace("       0    150.1", f"  {right}    150.1")))
        )
        == []
    )


def test_the_older_table_has_no_root_and_an_error(tmp_path: Path) -> None:
    header = "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
    line = "     1048576        262144   float     sum    38.20   27.45   48.04  4e-07    37.90   27.67   48.42  4e-07\n"
    old_ranks = "#   Rank  0 Pid  4242 on   node00 device  0 [0x07] Tesla V100-SXM2-16GB\n"
    table = read(tmp_path, NAMED + START.format(ranks=1) + old_ranks + header + line)
    assert table.rows["duration_us"].tolist() == ["38.20", "37.90"]
    assert table.rows["device"].tolist() == ["Tesla V100-SXM2-16GB"] * 2
    assert defects(table) == []


def test_an_error_beyond_its_bound_is_refused(tmp_path: Path) -> None:
    header = "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
    line = "     1048576        262144   float     sum    38.20   27.45   48.04  2e+01*    37.90   27.67   48.42  inf\n"
    table = read(tmp_path, NAMED + START.format(ranks=1) + header + line)
    wrong = "wrong-result"
    assert defects(table) == [(wrong, "error = 2e+01*"), (wrong, "error = inf")]


def test_no_time_in_place(tmp_path: Path) -> None:
    line = "  16777216    4194304     float    none  -1    148.2  113.21   99.06       0      N/A     N/A   N/A   N/A\n"
    table = read(tmp_path, "# Collective test starting: alltoall_perf\n" + log(line, line))
    assert table.rows["variant"].tolist() == ["alltoall", "alltoall"]
    assert table.notes == [Note(remark("no-time-in-place"), 2)]


def test_reductions_and_nodes_tell_problems_apart(tmp_path: Path) -> None:
    table = read(tmp_path, NAMED + log(SMALL.replace(" sum ", " max "), number=16, hosts=2))
    assert table.rows["variant"].tolist() == [
        "all_reduce max 2 nodes",
        "all_reduce max 2 nodes in-place",
    ]
    assert table.rows["ranks"].tolist() == [16, 16]
    assert table.rows["nodes"].tolist() == [2, 2]


def test_a_split_communicator_counts_the_ranks_of_a_group(tmp_path: Path) -> None:
    text = NAMED + log(SMALL)
    for rank in range(4, 8):
        text = text.replace(f"Rank {rank:2d} Group  0", f"Rank {rank:2d} Group  1")
    assert read(tmp_path, text).rows["ranks"].tolist() == [4, 4]


def test_ranks_that_are_not_listed_are_not_guessed(tmp_path: Path) -> None:
    table = read(tmp_path, NAMED + START.format(ranks=8) + TABLE + SMALL)
    assert table.rows["ranks"].isna().all()
    assert table.rows["device"].tolist() == ["", ""]
    assert table.notes == [Note(remark("ranks-not-listed"), 1)]


def test_ranks_on_different_devices(tmp_path: Path) -> None:
    table = read(
        tmp_path,
        NAMED
        + log(SMALL).replace(
            "[0000:07:00.0] AMD Instinct MI300X", "[0000:07:00.0] AMD Instinct MI250X"
        ),
    )
    assert table.rows["device"].tolist() == ["", ""]
    assert table.notes[0].remark == remark("ranks-on-several-devices")


@pytest.mark.parametrize(
    ("given", "expected"), [("f8e4m3", "fp8"), ("fp8_e5m2", "fp8_e5m2"), ("half", "half")]
)
def test_number_formats(tmp_path: Path, given: str, expected: str) -> None:
    assert (
        read(tmp_path, NAMED + log(SMALL.replace("float", given))).rows["dtype_a"].tolist()
        == [expected] * 2
    )


def test_lines_that_are_cut_short_are_refused_once(tmp_path: Path) -> None:
    table = read(tmp_path, NAMED + log(SMALL, MIDDLE[:50] + "\n", LARGE))
    assert defects(table) == [("line-unlike-header", "6 values for 13 columns")]
    assert len(table.rows) == 5


def test_ranks_that_mpirun_puts_before_each_line(tmp_path: Path) -> None:
    text = "".join(f"[1,0]<stdout>:{line}\n" for line in (NAMED + log(SMALL)).splitlines())
    assert read(tmp_path, text).rows["duration_us"].tolist() == ["18.28", "17.91"]


def test_a_log_that_ends_before_its_table(tmp_path: Path) -> None:
    table = read(tmp_path, START.format(ranks=8) + VERSION)
    assert table.rows.empty
    assert table.notes[0].remark == remark("no-timings", by="rccl-tests")


@pytest.mark.parametrize(
    "content",
    [b"", b"# size of things\n1 2 float\n", b"size,count,type\n8,2,float\n", b"\x00# nThread"],
)
def test_others_are_declined(content: bytes) -> None:
    assert not RcclTestsReader().sniff(Path("all_reduce.log"), content)


def test_a_file_above_the_limit(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(log(SMALL), encoding="utf-8")
    with pytest.raises(DataError, match="raise the limit"):
        RcclTestsReader().read(tmp_path / "x", Options(max_bytes=100))


@pytest.mark.parametrize(
    "prefix",
    [
        "12: ",
        " 0: ",
        "[1,0]<stdout>:",
        "node01: ",
        "2026-01-02T03:04:05.678Z ",
        "0: [1,0]<stdout>: ",
    ],
)
def test_what_a_launcher_puts_before_each_line_is_passed_over(tmp_path: Path, prefix: str) -> None:
    plain = read(tmp_path, log(SMALL, MIDDLE), variant="all_reduce")
    text = "".join(f"{prefix}{line}\n" for line in log(SMALL, MIDDLE).splitlines())
    tagged = read(tmp_path, text, variant="all_reduce")
    assert tagged.rows.equals(plain.rows)
    assert tagged.rows["ranks"].eq(8).all()


def test_a_table_may_have_no_hash(tmp_path: Path) -> None:
    text = "\n".join(
        line.replace("# ", "  ", 1) for line in (NAMED + log(SMALL, MIDDLE)).splitlines()
    )
    assert read(tmp_path, text).rows["duration_us"].tolist() == ["18.28", "17.91", "148.2", "150.1"]
    assert read(tmp_path, text).rows["device"].eq("AMD Instinct MI300X").all()


def test_a_table_may_stand_behind_a_long_log(tmp_path: Path) -> None:
    file = tmp_path / "run.log"
    file.write_text(
        "node01:7:7 [0] NCCL INFO Channel 00/32 : 0 1 2 3\n" * 3000 + NAMED + log(SMALL),
        encoding="utf-8",
    )
    with file.open("rb") as stream:
        assert RcclTestsReader().sniff(file, stream.read(65536))
    assert RcclTestsReader().read(file, Options()).rows["duration_us"].tolist() == [
        "18.28",
        "17.91",
    ]
    other = tmp_path / "other.log"
    other.write_text("node01:7:7 [0] NCCL INFO Channel 00/32 : 0 1 2 3\n" * 3000, encoding="utf-8")
    with other.open("rb") as stream:
        assert not RcclTestsReader().sniff(other, stream.read(65536))


MESSAGE = "node01:7:7 [0] NCCL INFO AllReduce: opCount 2 sendbuff 0x1\n"


@pytest.mark.parametrize(
    "place",
    [MIDDLE.index("-1") + 2, MIDDLE.index("113.21"), MIDDLE.index("150.1"), len(MIDDLE) - 1],
)
def test_a_line_that_a_message_breaks_is_put_together(tmp_path: Path, place: int) -> None:
    broken = MIDDLE[:place] + MESSAGE + MESSAGE + MIDDLE[place:]
    table = read(tmp_path, NAMED + log(SMALL, broken, LARGE))
    assert table.rows["duration_us"].tolist() == [
        "18.28",
        "17.91",
        "148.2",
        "150.1",
        "11890",
        "11905",
    ]
    assert defects(table) == []


def test_a_line_whose_rest_is_missing_is_refused(tmp_path: Path) -> None:
    table = read(tmp_path, NAMED + log(MIDDLE[: MIDDLE.index("113.21")] + MESSAGE, LARGE))
    assert defects(table) == [("line-unlike-header", "6 values for 13 columns")]
    assert table.rows.loc[table.rows["_defect"].eq(""), "duration_us"].tolist() == [
        "11890",
        "11905",
    ]
