"""Power logs: every format, units, what is absent, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.power.logs import (
    csv_cells,
    gpus_in_bursts,
    monitor_cells,
    power_log,
    read_power_log,
    whole_lines,
)
from flopcast.power.readings import read_log
from flopcast.remarks import remark

NVIDIA = (
    "timestamp, index, power.draw [W], clocks.current.sm [MHz], clocks.mem [MHz], temperature.gpu, "
    "utilization.gpu [%]\n"
    "2023/08/24 22:19:24.420, 0, 63.12 W, 1410 MHz, 1512 MHz, 31, 0 %\n"
    "2023/08/24 22:19:24.420, 1, [N/A], 1410 MHz, 1512 MHz, 31, 0 %\n"
    "2023/08/24 22:19:25.421, 0, 310.5 W, [N/A], 1512 MHz, 33, 97 %\n"
)


def log(folder: Path, content: str, **more: Any) -> pd.DataFrame:
    path = folder / "power.log"
    path.write_text(content, encoding="utf-8")
    return read_power_log(path, **more)


def test_nvidia_smi_has_units_in_cells_words_for_numbers_and_local_time(tmp_path: Path) -> None:
    found = log(tmp_path, NVIDIA)
    told = {
        "format": "nvidia-smi CSV",
        "power": "not stated",
        "clock": "local time",
        "left_out": 1,
        "cut": 0,
    }
    assert found.attrs == {**told, "decimal_commas": ()}
    assert found["time_ns"].tolist() == [1692915564_420_000_000, 1692915565_421_000_000]
    assert found["time_ns"].dtype == "int64"
    assert found[["gpu", "component", "power_w"]].to_numpy().tolist() == [
        [0, "total", 63.12],
        [0, "total", 310.5],
    ]
    assert found["clock_mhz"].tolist()[0] == 1410
    assert found["clock_mhz"].isna().tolist() == [False, True]
    assert found["utilisation"].tolist() == [0.0, 0.97]
    assert found["memory_clock_mhz"].tolist() == [1512, 1512]
    assert found["temperature_c"].tolist() == [31, 33]


def test_nvidia_smi_without_units_and_with_the_instantaneous_power_beside_the_average(
    tmp_path: Path,
) -> None:
    content = (
        "timestamp, power.draw.average [W], power.draw.instant [W]\n"
        "2023/08/24 22:19:24.420, 63.12, 70\n2023/08/24 22:19:24.520, 64.12, 71\n"
    )
    found = log(tmp_path, content)
    assert found.attrs["power"] == "instantaneous"
    assert found["power_w"].tolist() == [70, 71]
    assert (
        log(tmp_path, content.replace("70", "[N/A]").replace("71", "[N/A]")).attrs["power"]
        == "average"
    )


def test_a_reading_without_power_is_kept_on_demand() -> None:
    card = {
        "Average Graphics Package Power (W)": "N/A",
        "sclk clock speed:": "(2100Mhz)",
        "mclk clock speed:": "(900Mhz)",
    }
    found = power_log(json.dumps({"card1": card}), "here", powerless=True)
    assert found[["gpu", "clock_mhz", "memory_clock_mhz"]].to_numpy().tolist() == [[1, 2100, 900]]
    assert found["power_w"].isna().all()
    with pytest.raises(DataError, match="JSON"):
        power_log(json.dumps({"card1": card}), "here")


def test_the_clock_of_older_amd_smi(tmp_path: Path) -> None:
    clock = {
        "gfx": {"cur_clk": {"value": 2100, "unit": "MHz"}, "max_clk": 2500},
        "mem": {"cur_clk": 900},
    }
    gpu = {
        "gpu": 0,
        "power": {"average_socket_power": 400},
        "clock": clock,
        "temperature": {"junction": 61},
    }
    found = log(tmp_path, json.dumps([gpu]))
    assert found[["clock_mhz", "memory_clock_mhz", "temperature_c"]].to_numpy().tolist() == [
        [2100, 900, 61]
    ]


def test_milliwatts_are_watts_and_other_units_are_refused(tmp_path: Path) -> None:
    assert log(tmp_path, "gpu_ns,power_mw,power_w\n1,1,2 mW\n")["power_w"].tolist() == [0.002]
    generic = "time_ns,power_w [mW]\n1,250000\n2,240000\n"
    found = log(tmp_path, generic)
    assert found["power_w"].tolist() == [250.0, 240.0]
    assert found.attrs["clock"] == "epoch"
    with pytest.raises(DataError, match=r"power_w.*'j'"):
        log(tmp_path, generic.replace("mW", "J"))
    with pytest.raises(DataError, match=r"clocks\.mem is in 'w'"):
        log(tmp_path, NVIDIA.replace("1512 MHz", "1512 W"))


def amd(number: int, **power: Any) -> dict[str, Any]:
    clock = {
        "gfx_0": {"clk": {"value": 2100, "unit": "MHz"}},
        "mem_0": {"clk": {"value": 1300, "unit": "MHz"}},
    }
    usage = {
        "gfx_activity": {"value": 98, "unit": "%"},
        "gfx_busy_inst": {"xcp_0": [{"value": 1, "unit": "%"}, "N/A"]},
    }
    temperature = {
        "edge": "N/A",
        "hotspot": {"value": 61, "unit": "C"},
        "mem": {"value": 50, "unit": "C"},
    }
    return {
        "gpu": number,
        "power": power,
        "clock": clock,
        "usage": usage,
        "temperature": temperature,
    }


def test_amd_smi_json_as_a_list_or_wrapped_or_one_document_after_the_other(tmp_path: Path) -> None:
    socket = {"value": 612, "unit": "W"}
    gpus = [amd(0, socket_power=socket), amd(1, socket_power="N/A")]
    expected = [0, 612.0, 2100.0, 1300.0, 61.0, 0.98]
    columns = ["gpu", "power_w", "clock_mhz", "memory_clock_mhz", "temperature_c", "utilisation"]
    for document in (
        json.dumps(gpus),
        json.dumps({"gpu_data": gpus}),
        json.dumps(gpus[:1]) + "\n" + json.dumps([]),
    ):
        found = log(tmp_path, document)
        assert found[columns].to_numpy().tolist() == [expected]
        assert found.attrs["clock"] == "none"
        assert found["time_ns"].isna().all()
    stamped = [{"timestamp": 1700000000 + i, **amd(0, socket_power=socket)} for i in range(2)]
    watched = "\n".join(json.dumps([entry], indent=1) for entry in stamped)
    assert log(tmp_path, watched)["time_ns"].tolist() == [1700000000 * 10**9, 1700000001 * 10**9]


def test_amd_smi_json_takes_the_power_that_the_gpu_measures(tmp_path: Path) -> None:
    watts = {"value": 500, "unit": "W"}
    mi300 = log(
        tmp_path, json.dumps([amd(0, current_socket_power=watts, average_socket_power="N/A")])
    )
    mi200 = log(
        tmp_path, json.dumps([amd(0, current_socket_power="N/A", average_socket_power=watts)])
    )
    assert (mi300.attrs["power"], mi200.attrs["power"]) == ("instantaneous", "average")
    assert mi300["power_w"].tolist() == mi200["power_w"].tolist() == [500.0]


def test_each_gpu_has_the_power_that_it_states(tmp_path: Path) -> None:
    watts = {"value": 500, "unit": "W"}
    gpus = [
        amd(0, current_socket_power=watts, average_socket_power="N/A"),
        amd(1, current_socket_power="N/A", average_socket_power={"value": 90_000, "unit": "mW"}),
        amd(2, current_socket_power="N/A", average_socket_power="N/A"),
    ]
    found = log(tmp_path, json.dumps(gpus))
    assert found[["gpu", "power_w"]].to_numpy().tolist() == [[0, 500], [1, 90]]
    assert (found.attrs["power"], found.attrs["left_out"]) == ("not stated", 1)


def test_lists_in_cells_count_by_their_first_number_as_those_of_json_do(tmp_path: Path) -> None:
    header = "timestamp,gpu,socket_power,gfx_0_clk\n"
    found = log(
        tmp_path,
        header + "1700000000,0,\"[171, 172]\",[2100, 2101]\n1700000001,0,[N/A, 172],['N/A']\n",
    )
    assert found["power_w"].tolist() == [171, 172]
    assert found["clock_mhz"].tolist()[0] == 2100
    assert found["clock_mhz"].isna().tolist() == [False, True]


@pytest.mark.parametrize(("apart_ms", "gpus"), [(3, 2), (0, 2), (2, 4)])
def test_several_gpus_that_nothing_tells_apart_are_refused(
    tmp_path: Path, apart_ms: int, gpus: int
) -> None:
    header, lines = "timestamp, power.draw [W]\n", []
    for reading in range(9):
        lines += [
            f"2023/11/14 22:13:20.{100 * reading + apart_ms * one:03d}, {50 + one} W\n"
            for one in range(gpus)
        ]
    with pytest.raises(DataError, match=f"{gpus} GPUs.* index "):
        log(tmp_path, header + "".join(lines))
    assert len(log(tmp_path, header + "".join(lines[::gpus]))) == 9


def test_amd_smi_csv_with_lists_in_cells(tmp_path: Path) -> None:
    found = log(
        tmp_path,
        "timestamp,gpu,gfx_activity,vcn_activity,socket_power,gfx_0_clk\n"
        "1700000000.25,0,97,['N/A', 0, 'N/A', 'N/A'],612,2100\n"
        "timestamp,gpu,gfx_activity,vcn_activity,socket_power,gfx_0_clk\n"
        "1700000001.25,0,98,\"[{'value': 1, 'unit': '%'}, 'N/A']\",613,N/A\n",
    )
    assert found["power_w"].tolist() == [612, 613]
    assert found["time_ns"].tolist() == [1700000000_250_000_000, 1700000001_250_000_000]
    assert found["clock_mhz"].isna().tolist() == [False, True]


def test_amd_smi_monitor_is_text_with_units_apart_from_numbers(tmp_path: Path) -> None:
    found = log(
        tmp_path,
        "TIMESTAMP  GPU  POWER  GPU_TEMP  GFX_UTIL  GFX_CLOCK  VRAM_USAGE\n"
        "1700000000    0  171 W     32 °C       0 %    114 MHz    283/196300 MB\n"
        "1700000000    1    N/A     32 °C       N/A    114 MHz    283/196300 MB\n",
    )
    row = found[["gpu", "power_w", "clock_mhz", "temperature_c", "utilisation"]].to_numpy().tolist()
    assert (row, found.attrs["left_out"]) == ([[0, 171, 114, 32, 0]], 1)
    with pytest.raises(DataError, match=r"power.log:2"):
        log(tmp_path, "GPU  POWER\n  0\n")


def test_rocm_smi_has_text_and_one_of_two_keys_and_a_second_die_without_power(
    tmp_path: Path,
) -> None:
    csv = (
        "device,Temperature (Sensor junction) (C),Average Graphics Package Power (W),GPU use (%)\n"
        "card0,35.0,190.0,50\ncard1,37.0,N/A (Secondary die),0\n"
    )
    found = log(tmp_path, csv)
    assert found[["gpu", "power_w", "temperature_c", "utilisation"]].to_numpy().tolist() == [
        [0, 190.0, 35.0, 0.5]
    ]
    told = {"format": "rocm-smi CSV", "power": "average", "clock": "none", "left_out": 1, "cut": 0}
    assert found.attrs == {**told, "decimal_commas": ()}
    key = "Current Socket Graphics Package Power (W)"
    found = log(
        tmp_path, json.dumps({"card3": {key: "612.0"}, "system": {"Driver version": "6.8"}})
    )
    assert (found["gpu"].tolist(), found["power_w"].tolist()) == ([3], [612.0])
    assert found.attrs["power"] == "instantaneous"


@pytest.mark.parametrize("name", ["uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id"])
def test_gpus_without_a_number_are_told_apart_by_name(tmp_path: Path, name: str) -> None:
    readings = [(at, gpu, power) for at in (100, 200) for gpu, power in ((8, 9), (3, 5))]
    content = f"timestamp, {name}, power.draw.instant [W]\n" + "".join(
        f"2025/08/24 22:19:24.{at}, GPU-{gpu}77, {power} W\n" for at, gpu, power in readings
    )
    found = log(tmp_path, content)
    assert found[["gpu", "power_w"]].to_numpy().tolist() == [[0, 9], [1, 5], [0, 9], [1, 5]]
    numbered = content.replace("timestamp,", "index, timestamp,").replace("2025/", "4, 2025/")
    assert log(tmp_path, numbered.replace("GPU-3", "GPU-8"))["gpu"].unique().tolist() == [4]


@pytest.mark.parametrize(
    ("content", "power"),
    [
        ("timestamp, power.draw [W]\n1, 63.00 W\n2, 64.00 W\n3, 6", [63, 64]),
        ("GPU  POWER\n  0  171 W\n  1  172 W\n  2", [171, 172]),
        (
            '[{"gpu": 0, "socket_power": "5 W"}]\n[{"gpu": 0, "socket_power": "6 W"}]\n[{"gpu": 0, "soc',
            [5, 6],
        ),
    ],
)
def test_a_log_that_breaks_off_is_read_up_to_there(
    tmp_path: Path, content: str, power: list[float]
) -> None:
    found = log(tmp_path, content)
    assert (found["power_w"].tolist(), found.attrs["cut"]) == (power, 1)


def test_generic_csv_has_components(tmp_path: Path) -> None:
    found = log(
        tmp_path, "gpu_ns,component,power_w\n10,total,500\n10,XCD,400\n20,total,510\n20,XCD,410\n"
    )
    assert found[["time_ns", "component", "power_w"]].to_numpy().tolist()[1] == [10, "xcd", 400.0]
    assert found.attrs["clock"] == "gpu"


@pytest.mark.parametrize(
    "content",
    [
        "time_ns;gpu;power_w\n10;0;310,5\n20;0;311\n",
        'time_ns,gpu,power_w\n10,0,"310,5"\n20,0,311\n',
        "timestamp;index;power.draw [W]\n1756073964,5;0;310,5 W\n1756073965;0;311 W\n",
    ],
)
def test_decimal_commas_are_read(tmp_path: Path, content: str) -> None:
    found = log(tmp_path, content)
    assert found["power_w"].tolist() == [310.5, 311.0]
    assert found.attrs["decimal_commas"]
    (tmp_path / "own.csv").write_text(
        "gpu_ns;power_w\n1000000;310,5\n2000000;311\n", encoding="utf-8"
    )
    own = read_log(tmp_path / "own.csv")
    assert own.readings["power_w"].tolist() == [310.5, 311.0]
    assert own.notes == (remark("decimal-commas", columns=("power_w",)),)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("time_ns;power_w\n1;310,500\n", "thousands"),
        ("", "the log is empty"),
        ("a,b\n1,2\n", "known: give nvidia-smi"),
        ('{"a": 1}', "no power"),
        ("[1, 2", "is no JSON"),
        ('[{"gpu": 0, "socket_power": "5 W"}]\n]', "is no JSON"),
        ("gpu_ns,power_w\n", "generic CSV without"),
        ("gpu_ns,power_w\n1,N/A\n", "no power is recorded"),
        ("gpu_ns,power_w\n2,500\n1,500\n", "comes after a later"),
        ("gpu_ns,power_w\n1.5,500\n", r"gpu_ns.*'1.5'"),
        ("gpu_ns,power_w\n1,a lot\n", r"power_w.*'a lot'"),
        ("gpu_ns,power_w\n1,2,3\n", r"power.log:2"),
        ("device,x power (W)\ncard0,1\n", "no power is recorded"),
        ("timestamp, power.draw [W]\n24.08.2023, 1\n", "timestamp must be as 2025/08/24"),
        ("timestamp, gpu, socket_power\n1, 0, 5\nnow, 0, 5\n", r"timestamp.*1970"),
        ("time_ns, gpu, power_w\n1, here, 5\n", "a reading of GPU 'here'"),
    ],
)
def test_what_cannot_be_read_gets_one_clear_line(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(DataError, match=said) as refused:
        log(tmp_path, content)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "power", "gpus"),
    [
        ("amdsmi_metric_power_json_CHANGELOG_L1636-1660.json", [10], [0]),
        (
            "amdsmi_monitor_text_MI300X_CHANGELOG_L1390-1398.txt",
            [171, 175, 177, 172, 178, 176, 176, 175],
            list(range(8)),
        ),
        ("EXCERPT_rocm-smi_csv_llama-swap_pr775.csv", [19, 18], [0, 1]),
        ("EXCERPT_rocm-smi_json_beszel_issue414.json", [19], [0]),
    ],
)
def test_real_logs(shared_data: Path, name: str, power: list[float], gpus: list[int]) -> None:
    path = shared_data / "profiles" / "telemetry" / name
    if not path.is_file():
        pytest.skip(f"{path} is not on this machine")
    found = read_power_log(path)
    assert (found["power_w"].tolist(), found["gpu"].tolist()) == (power, gpus)


def test_commas_in_lists_and_quotes_do_not_part_cells() -> None:
    assert csv_cells("1, ['N/A', 0],\"[{'a': 1, 'b': 2}]\" ,x,") == [
        "1",
        "['N/A', 0]",
        "[{'a': 1, 'b': 2}]",
        "x",
        "",
    ]


def test_a_number_and_its_unit_are_one_value_of_the_monitor() -> None:
    assert monitor_cells("   0  171 W     32 °C  N/A  283/196300 MB") == [
        "0",
        "171 W",
        "32 °C",
        "N/A",
        "283/196300 MB",
    ]


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
def test_a_last_line_that_a_stopped_logger_has_not_finished_is_left_out(
    last: str, cut: int
) -> None:
    whole = [
        "time, power",
        "2025/08/24 22:19:24.420, 310.50 W",
        "2025/08/24 22:19:25.420, 300.00 W",
    ]
    found, count = whole_lines("\n".join([*whole, last]))
    assert (found, count) == (whole if cut else [*whole, last.strip()], cut)


def test_a_log_of_one_line_is_whole_without_a_line_break() -> None:
    assert whole_lines("gpu_ns,power_w\n1,500") == (["gpu_ns,power_w", "1,500"], 0)
    assert whole_lines("GPU POWER\n0 171 W\n1 1", monitor_cells) == (["GPU POWER", "0 171 W"], 1)


MS = 1_000_000


@pytest.mark.parametrize("gpus", [2, 3, 8])
@pytest.mark.parametrize("apart_ms", [0, 3])
def test_bursts_are_of_several_gpus(gpus: int, apart_ms: int) -> None:
    rng = np.random.default_rng(0)
    starts = np.cumsum(rng.integers(90, 140, 200)) * MS
    times = (starts[:, None] + apart_ms * MS * np.arange(gpus)).ravel()
    assert gpus_in_bursts(times) == gpus
    assert gpus_in_bursts(times[: 3 * gpus]) == gpus
    assert gpus_in_bursts(times[:-1]) == gpus  # stopped within a burst
    late = times.copy()
    late[gpus * 50 + 1 :] += 5000 * MS  # stalled once within a burst
    assert gpus_in_bursts(late) == gpus


@pytest.mark.parametrize("seed", range(10))
def test_one_gpu_may_jitter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert gpus_in_bursts(np.cumsum(rng.exponential(100 * MS, 500)).astype(int)) == 1
    assert gpus_in_bursts(np.arange(500) * 100 * MS + rng.integers(-40, 40, 500) * MS) == 1
    # faster than its stamps
    assert gpus_in_bursts(np.cumsum(rng.choice([0, 1, 1, 1, 2], 500)) * MS) == 1
    assert gpus_in_bursts(np.cumsum(rng.choice([20, 100], 500)) * MS) == 1


def test_few_readings_do_not_tell() -> None:
    assert gpus_in_bursts(np.array([], dtype=int)) == 1
    assert gpus_in_bursts(np.array([5])) == 1
    assert gpus_in_bursts(np.array([0, 1, 50]) * MS) == 1
    assert gpus_in_bursts(np.array([5, 5]) * MS) == 2


DMON = """\
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %      %      %    MHz    MHz
 20260902   14:30:00      0     69     36      -      0      0      0      0   2619   1980
 20260902   14:30:00      1    310     61      -     97     40      0      0   2619   1755
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %      %      %    MHz    MHz
 20260902   14:30:01      0     70     36      -      0      0      0      0   2619   1980
"""
WATCHED = """\
'CTRL' + 'C' to stop watching output:
timestamp,gpu,gfx_activity,vcn_activity,socket_power,gfx_0_clk,hotspot
1789948800,0,95,"['N/A', 'N/A']",1180,2402,78
timestamp,gpu,gfx_activity,vcn_activity,socket_power,gfx_0_clk,hotspot
1789948801,0,N/A,"[0, 0]",1181,2402,78
"""


def test_dmon_has_two_lines_of_names_again_and_again(tmp_path: Path) -> None:
    found = log(tmp_path, DMON)
    assert found.attrs["format"] == "nvidia-smi dmon"
    assert found.attrs["clock"] == "local time"
    assert found[["gpu", "power_w", "clock_mhz", "memory_clock_mhz"]].to_numpy().tolist() == [
        [0, 69, 1980, 2619],
        [1, 310, 1755, 2619],
        [0, 70, 1980, 2619],
    ]
    assert found["time_ns"].tolist() == [1788359400 * 10**9] * 2 + [1788359401 * 10**9]
    assert found["utilisation"].tolist() == [0, 0.97, 0]
    undated = "\n".join(line[:1] + line[11:] for line in DMON.splitlines())
    assert log(tmp_path, undated + "\n").attrs["clock"] == "none"
    commas = "#gpu, pwr, gtemp\n#Idx, W, C\n0, 69, 36\n"
    assert log(tmp_path, commas)["power_w"].tolist() == [69]


def test_what_stands_before_a_header_is_passed_over(tmp_path: Path) -> None:
    found = log(tmp_path, WATCHED)
    assert found["power_w"].tolist() == [1180, 1181]
    assert found.attrs["clock"] == "epoch"
    broken = WATCHED.replace("1181,2402,78", "much,2402,78")
    with pytest.raises(DataError, match="socket_power must be a number"):
        log(tmp_path, broken)
    with pytest.raises(DataError, match=r"power\.log:5: 6 cells under a header of 7"):
        log(tmp_path, WATCHED.replace(",2402,78\n", ",78\n").replace("1180,78", "1180,2402,78"))


def test_the_monitor_of_amd_smi_as_csv(tmp_path: Path) -> None:
    content = "timestamp,gpu,power_usage,hotspot_temperature,gfx_clk\n1789948800,3,171,44,2100\n"
    found = log(tmp_path, content)
    assert found[["gpu", "power_w", "temperature_c", "clock_mhz"]].to_numpy().tolist() == [
        [3, 171, 44, 2100]
    ]


@pytest.mark.parametrize(
    ("stamp", "later", "clock", "ns"),
    [
        ("1789948800001", "1789948800002", "epoch", 1789948800_001_000_000),
        ("1789948800000001", "1789948800000002", "epoch", 1789948800_000_001_000),
        ("2026-09-20T17:00:00.001-07:00", "2026-09-20T17:00:01-07:00", "epoch", 1789948800_001_000_000),
        ("2026-09-21T00:00:00Z", "2026-09-21T00:00:01Z", "epoch", 1789948800_000_000_000),
        ("2026-09-21T00:00:00.5", "2026-09-21T00:00:01", "local time", 1789948800_500_000_000),
    ],
)  # fmt: skip
def test_times_since_1970_and_of_iso_8601(
    tmp_path: Path, stamp: str, later: str, clock: str, ns: int
) -> None:
    found = log(tmp_path, f"timestamp,gpu,socket_power\n{stamp},0,500\n{later},0,501\n")
    assert (found["time_ns"].tolist()[0], found.attrs["clock"]) == (ns, clock)


def test_units_behind_an_underscore(tmp_path: Path) -> None:
    content = (
        "timestamp,gpu,socket_power_w,gfx_clock_mhz,temp_edge_c,gfx_activity_pct\n"
        "1789948800,0,512.5,2100,40,97\n"
    )
    found = log(tmp_path, content)
    assert found[["power_w", "clock_mhz", "utilisation"]].to_numpy().tolist() == [
        [512.5, 2100, 0.97]
    ]


def test_a_table_made_by_hand_is_read_under_the_names_given_to_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "hand.csv"
    path.write_text("elapsed,Watts\n1.5,300\nelapsed,Watts\n2.25,301\n")
    found = read_power_log(path, {"elapsed": "time_s", "Watts": "power_w"})
    assert found["time_ns"].tolist() == [1_500_000_000, 2_250_000_000]
    assert found["power_w"].tolist() == [300, 301]
    with pytest.raises(DataError, match="rename NAME=power_w"):
        read_power_log(path)


def test_times_beyond_64_bits_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="since 1970"):
        log(tmp_path, "timestamp,gpu,socket_power\n0001-01-01T00:00:00Z,0,500\n")
