"""Nsight Compute: both pages, locales, units, lines around the table, and what cannot be read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.readers.base import DataFile, Options
from flopcast.readers.ncu import NcuReader
from flopcast.remarks import Remark, remark
from flopcast.traces.dispatches import Trace

BEFORE = (
    "simulating 1,000 steps ... done\n"
    "==PROF== Connected to process 4242 (/home/user/app)\n"
    '==PROF== Profiling "axpy" - 0: 0%....50%....100% - 8 passes\n'
    "==PROF== Disconnected from process 4242\n"
)
WHO = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
       "Device", "CC")  # fmt: skip
FIRST = (
    "0",
    "4242",
    "app",
    "127.0.0.1",
    "axpy(int, float *)",
    "1",
    "7",
    "(256, 1, 1)",
    "(4096, 2, 1)",
    "0",
    "9.0",
)
SECOND = (
    "1",
    "4242",
    "app",
    "127.0.0.1",
    "void dot<float>(float)",
    "1",
    "13",
    "(32, 8, 1)",
    "(80, 1, 3)",
    "0",
    "9.0",
)
RULES = (
    "Rule Name",
    "Rule Type",
    "Rule Description",
    "Estimated Speedup Type",
    "Estimated Speedup",
)
SPEED = "GPU Speed Of Light Throughput"
MEMORY = "Memory Workload Analysis"
LAUNCH = "Launch Statistics"


def line(*cells: str) -> str:
    return ",".join(f'"{cell}"' for cell in cells) + "\n"


def details(
    *metrics: tuple[str, str, str, str], who: tuple[str, ...] = FIRST, header: bool = True
) -> str:
    """Return page `details`: for each metric its section, name, unit and value."""
    head = (
        line(*WHO, "Section Name", "Metric Name", "Metric Unit", "Metric Value", *RULES)
        if header
        else ""
    )
    return head + "".join(line(*who, *metric, *("",) * 5) for metric in metrics)


def raw(columns: dict[str, str], *rows: tuple[tuple[str, ...], tuple[str, ...]]) -> str:
    """Return page `raw`: for each metric its unit; for each launch who it is and its values."""
    units = line(*("",) * len(WHO), *columns.values())
    return line(*WHO, *columns) + units + "".join(line(*who, *values) for who, values in rows)


def trace_of(folder: Path, text: str | bytes, **options: int) -> Trace:
    file = folder / "app.csv"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    reader = NcuReader()
    assert reader.sniff(file, file.read_bytes()[:65536])
    (group,) = reader.gather([DataFile(file, "app.csv", True)])
    return reader.trace(group, Options(max_bytes=options.get("max_bytes", 2**30)))


def codes(trace: Trace) -> dict[str, int]:
    return {finding.code: finding.count for finding in trace.findings}


DETAILS = details(
    (SPEED, "DRAM Frequency", "cycle/nsecond", "2.61"),
    (SPEED, "Memory Throughput", "%", "61.25"),
    (SPEED, "Duration", "usecond", "12.35"),
    (MEMORY, "Memory Throughput", "Gbyte/second", "2,041.50"),
    (LAUNCH, "Function Cache Configuration", "", "CachePreferNone"),
    (LAUNCH, "Registers Per Thread", "register/thread", "16"),
    (LAUNCH, "Static Shared Memory Per Block", "byte/block", "1,024"),
    (LAUNCH, "Dynamic Shared Memory Per Block", "byte/block", "0"),
    (LAUNCH, "# SMs", "SM", "132"),
) + details(
    (SPEED, "DRAM Frequency", "cycle/usecond", "987.50"),
    (SPEED, "Duration", "msecond", "1.20"),
    (LAUNCH, "Dynamic Shared Memory Per Block", "Kbyte/block", "49.15"),
    who=SECOND, header=False,
)  # fmt: skip
RAW = raw(
    {"device__attribute_display_name": "", "dram__bytes.sum": "Mbyte", "gpu__time_duration.sum": "usecond",
     "launch__registers_per_thread": "register/thread", "sm__throughput.avg.pct_of_peak_sustained_elapsed": "%",
     "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg": ""},
    (FIRST, ("NVIDIA H100 80GB HBM3", "50.33", "3.04", "16", "12.50", '""')),
    (SECOND, ("NVIDIA H100 80GB HBM3", "1,050.00", "1,234.50", "32", "", "<default domain>")),
)  # fmt: skip


def test_page_details(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, BEFORE + DETAILS)
    table = trace.dispatches
    assert table["kind"].tolist() == ["kernel", "kernel"]
    assert table["name"].tolist() == ["axpy(int, float *)", "void dot<float>(float)"]
    assert table["duration_ns"].tolist() == [12350, 1_200_000]
    assert table["start_ns"].tolist() == [0, 12350]
    assert table[["grid_x", "grid_y", "grid_z"]].to_numpy().tolist() == [[4096, 2, 1], [80, 1, 3]]
    assert table[["block_x", "block_y", "block_z"]].to_numpy().tolist() == [[256, 1, 1], [32, 8, 1]]
    assert table[["process", "gpu", "stream", "dispatch_id"]].to_numpy().tolist() == [
        [4242, 0, 7, 0],
        [4242, 0, 13, 1],
    ]
    assert table["vgpr"].tolist() == [16, pd.NA]
    assert table["source"].tolist() == ["app.csv:6", "app.csv:15"]
    assert table["counter.DRAM Frequency"].tolist() == [2.61e9, 987.5e6]
    assert table["counter.Memory Throughput [%]"].tolist()[0] == 61.25
    assert table["counter.Memory Throughput [byte/second]"].tolist()[0] == pytest.approx(2.0415e12)
    assert not [
        name
        for name in table
        if "Configuration" in name or "Duration" in name or "Registers" in name
    ]


def test_page_raw(tmp_path: Path) -> None:
    table = trace_of(tmp_path, BEFORE + RAW).dispatches
    assert table["device"].tolist() == ["H100 SXM5", "H100 SXM5"]
    assert table["duration_ns"].tolist() == [3040, 1_234_500]
    assert table["counter.dram__bytes.sum"].tolist() == [50.33e6, 1050e6]
    throughput = table["counter.sm__throughput.avg.pct_of_peak_sustained_elapsed"]
    assert throughput.tolist()[0] == 12.5
    assert np.isnan(throughput.tolist()[1])
    assert table["vgpr"].tolist() == [16, 32]
    assert table["source"].tolist() == ["app.csv:7", "app.csv:8"]
    assert [name for name in table if name.startswith("counter.")] == [
        "counter.dram__bytes.sum", "counter.sm__throughput.avg.pct_of_peak_sustained_elapsed",
    ]  # fmt: skip


def test_every_file_says_that_its_times_are_not_those_of_a_trace(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, RAW)
    (finding,) = trace.findings
    assert (finding.code, finding.severity, finding.count, finding.share) == (
        "locked-clocks",
        "warning",
        2,
        1.0,
    )
    assert [note.code for note in trace.notes] == ["no-start-times", "durations-rounded-by-ncu"]


def test_durations_in_base_units_are_exact(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        raw({"gpu__time_duration.sum": "nsecond"}, (FIRST, ("3,041",)), (SECOND, ("1,000,032",))),
    )
    assert trace.dispatches["duration_ns"].tolist() == [3041, 1_000_032]
    assert "durations-rounded-by-ncu" not in [note.code for note in trace.notes]


@pytest.mark.parametrize(
    ("duration", "other", "expected"),
    [
        ("1.234,50", "12", 1_234_500),
        ("1,234.50", "12", 1_234_500),
        ("1\u202f234,50", "12", 1_234_500),
        ("1.234", "0,5", 1_234_000),
        ("1.234", "0.5", 1_234),
        ("1,234", "1,234,567", 1_234_000),
    ],
)
def test_the_locale_is_that_of_the_file(
    tmp_path: Path, duration: str, other: str, expected: int
) -> None:
    text = raw(
        {"gpu__time_duration.sum": "usecond", "sm__cycles.sum": "cycle"}, (FIRST, (duration, other))
    )
    assert trace_of(tmp_path, text).dispatches["duration_ns"].tolist() == [expected]


@pytest.mark.parametrize("values", [("1,234", "12"), ("1.5", "2,5")])
def test_a_locale_that_nobody_can_tell_is_refused(tmp_path: Path, values: tuple[str, str]) -> None:
    text = raw({"gpu__time_duration.sum": "usecond", "sm__cycles.sum": "cycle"}, (FIRST, values))
    with pytest.raises(DataError, match=r"app\.csv.*LC_ALL=C"):
        trace_of(tmp_path, text)


def test_shared_memory_only_where_it_is_not_rounded(tmp_path: Path) -> None:
    names = ("launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic")
    columns = {"gpu__time_duration.sum": "ns", names[0]: "byte/block", names[1]: "byte/block"}
    exact = trace_of(tmp_path, raw(columns, (FIRST, ("10.5", "1,024", "49,152"))))
    assert exact.dispatches["lds_bytes"].tolist() == [50176]
    rounded = trace_of(
        tmp_path, raw({**columns, names[1]: "Kbyte/block"}, (FIRST, ("10.5", "1,024", "49.15")))
    )
    assert rounded.dispatches["lds_bytes"].isna().all()
    assert rounded.dispatches[f"counter.{names[1]}"].tolist() == [49150.0]


def test_sizes_of_older_releases_are_metrics(tmp_path: Path) -> None:
    columns = {f"launch__{side}_dim_{axis}": "" for side in ("grid", "block") for axis in "xyz"}
    text = raw(
        {"gpu__time_duration.sum": "ns", **columns},
        (FIRST, ("10.5", "80", "2", "1", "128", "4", "1")),
    )
    table = trace_of(
        tmp_path, text.replace("(256, 1, 1)", "").replace("(4096, 2, 1)", "")
    ).dispatches
    assert table[["grid_x", "grid_y", "block_x", "block_y"]].to_numpy().tolist() == [
        [80, 2, 128, 4]
    ]


@pytest.mark.parametrize(
    ("capability", "multiprocessors", "device", "notes"),
    [
        ("9.0", "114", "H100 PCIe", []),
        ("9.0", "132", "", [remark("device-ambiguous", capability="9.0")]),
        ("", "132", "", [remark("device-not-recorded", by="ncu")]),
    ],
)
def test_devices(
    tmp_path: Path, capability: str, multiprocessors: str, device: str, notes: list[Remark]
) -> None:
    who = (*FIRST[:-1], capability)
    text = details(
        (SPEED, "Duration", "us", "12.35"), (LAUNCH, "# SMs", "SM", multiprocessors), who=who
    )
    trace = trace_of(tmp_path, text)
    assert trace.dispatches["device"].tolist() == [device]
    assert trace.notes[2:] == notes


def test_processes_may_number_their_launches_alike(tmp_path: Path) -> None:
    other = ("0", "4243", *FIRST[2:])
    text = details((SPEED, "Duration", "us", "1.50")) + details(
        (SPEED, "Duration", "us", "2.50"), who=other
    )
    table = trace_of(tmp_path, text).dispatches  # the header stands there twice
    assert table[["process", "duration_ns"]].to_numpy().tolist() == [[4242, 1500], [4243, 2500]]


def test_a_launch_without_duration_is_counted_and_left_out(tmp_path: Path) -> None:
    text = raw(
        {"gpu__time_duration.sum": "us", "x.sum": ""}, (FIRST, ("n/a", "1")), (SECOND, ("2.5", "2"))
    )
    trace = trace_of(tmp_path, text)
    assert trace.dispatches["dispatch_id"].tolist() == [1]
    assert codes(trace) == {"locked-clocks": 1, "no-duration": 1}


def test_impossible_durations_stay_in_the_table(tmp_path: Path) -> None:
    text = raw({"gpu__time_duration.sum": "us"}, (FIRST, ("-2.5",)), (SECOND, ("0.0",)))
    table = trace_of(tmp_path, text).dispatches
    assert table["duration_ns"].tolist() == [-2500, 0]
    assert table["start_ns"].tolist() == [0, 0]


def test_equal_repeats_are_one_and_others_are_told_apart(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        details(
            (SPEED, "Duration", "us", "1.50"),
            ("Command line profiler metrics", "Duration", "us", "1.50"),
            (SPEED, "Hit Rate", "%", "10.5"),
            (MEMORY, "Hit Rate", "%", "11.5"),
            (MEMORY, "Hit Rate", "%", "12.5"),
        ),
    )
    assert trace.dispatches["duration_ns"].tolist() == [1500]
    assert trace.dispatches[f"counter.{SPEED}: Hit Rate"].tolist() == [10.5]
    assert trace.dispatches[f"counter.{MEMORY}: Hit Rate"].tolist() == [11.5]
    assert codes(trace) == {"locked-clocks": 1, "repeated-metrics": 1}


def test_rules_are_no_metrics(tmp_path: Path) -> None:
    rule = line(
        *FIRST,
        SPEED,
        "",
        "",
        "",
        "SOLBottleneck",
        "OPT",
        'Use ""more"" blocks, please.',
        "global",
        "12.5",
    )
    trace = trace_of(tmp_path, details((SPEED, "Duration", "us", "1.50")) + rule)
    assert len(trace.dispatches) == 1
    assert codes(trace) == {"locked-clocks": 1}


def test_instances_behind_a_value_are_left_alone(tmp_path: Path) -> None:
    text = raw({"gpu__time_duration.sum": "us", "l1.sum": ""}, (FIRST, ("1.50", "12.5 (4.5; 8.0)")))
    assert trace_of(tmp_path, text).dispatches["counter.l1.sum"].tolist() == [12.5]


def test_values_that_look_like_numbers_and_are_none_are_counted(tmp_path: Path) -> None:
    text = raw({"gpu__time_duration.sum": "us", "x.sum": ""}, (FIRST, ("1.50", "1,23,4")))
    trace = trace_of(tmp_path, text)
    assert "counter.x.sum" not in trace.dispatches
    assert codes(trace) == {"locked-clocks": 1, "unreadable-values": 1}


def test_lines_of_the_program_within_the_table_are_counted(tmp_path: Path) -> None:
    lines = DETAILS.splitlines(keepends=True)
    trace = trace_of(
        tmp_path, "".join([*lines[:3], "step 7 of 9\n", "==PROF== again\n", *lines[3:]])
    )
    assert trace.dispatches["duration_ns"].tolist() == [12350, 1_200_000]
    assert codes(trace)["foreign-lines"] == 1


def test_a_line_that_is_cut_off_is_left_out_and_an_error(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, BEFORE + RAW.rstrip()[:-12])
    assert trace.dispatches["dispatch_id"].tolist() == [0]
    finding = next(finding for finding in trace.findings if finding.code == "truncated")
    assert (finding.severity, finding.source) == ("error", "app.csv:8")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_encodings_of_windows(tmp_path: Path, encoding: str) -> None:
    table = trace_of(tmp_path, RAW.replace("\n", "\r\n").encode(encoding)).dispatches
    assert table["duration_ns"].tolist() == [3040, 1_234_500]
    assert table["source"].tolist() == ["app.csv:3", "app.csv:4"]


def test_a_run_without_kernels_is_an_empty_table_and_a_note(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, BEFORE + line(*WHO, "gpu__time_duration.sum"))
    assert trace.dispatches.empty
    assert trace.notes == [remark("no-launches")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (raw({"sm__cycles.sum": "cycle"}, (FIRST, ("12",))), "no duration: profile with --section"),
        (raw({"gpu__time_duration.sum": "cycle"}, (FIRST, ("12",))), r"unit of gpu__\S+: cycle"),
        (raw({"gpu__time_duration.sum": ""}, (FIRST, ("12",))), r"unit of gpu__\S+: none"),
        (
            line(*WHO[1:], "Invocations", "Metric Name", "Metric Unit", "Minimum", "Maximum", "Average"),
            "without --print-summary",
        ),
        (DETAILS.replace("Metric Value", "Metric"), "no column 'Metric Value'"),
        (RAW + RAW.replace("Mbyte", "Gbyte"), "units that change"),
        (raw({"gpu__time_duration.sum": "s"}, *[(FIRST, ("4,000,000,000.5",))] * 3), "damaged"),
        (RAW + '"' + "x" * 200_000 + '"\n', "field larger"),
    ],
)  # fmt: skip
def test_what_cannot_be_read(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=f"^app.csv.*{message}"):
        trace_of(tmp_path, text)


def test_a_file_above_the_limit(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="raise the limit"):
        trace_of(tmp_path, RAW, max_bytes=100)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"op,m,n,k,us\n", b"==PROF== Connected\n", b"ID,Name\n1,x\n", b"\xff\xfe\x00", b'"Kernel Name","ID"\n',
        b"Index,KernelName,gpu-id\n", b"Start (ns),Duration (ns),CorrId,GrdX\n",
    ],
)  # fmt: skip
def test_others_are_declined(content: bytes) -> None:
    assert not NcuReader().sniff(Path("ncu.csv"), content)
