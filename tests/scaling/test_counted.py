"""Rows of curves from counters and from a trace of addresses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import DataError, ParameterError
from flopcast.scaling.counted import counted_rows, miss_rates, stack_distances
from flopcast.tests.commands.running import call

LAUNCH = {"workgroups": 16, "threads": 64}


def profiled(insts: float = 1000.0) -> pd.DataFrame:
    counters = {
        "SQ_INSTS": insts,
        "SQ_WAIT_ANY": 300.0,
        "SQ_WAVE_CYCLES": 400.0,
        "TCC_MISS_sum": 5.0,
    }
    named = {f"counter.{name}": value for name, value in counters.items()}
    return pd.DataFrame(
        [
            {"device": "MI300X", "op": "kernel", "kernel": "copy(int*)", "duration_us": 2.0}
            | LAUNCH
            | named
        ]
    )


def test_counters_by_hand() -> None:
    (row,) = counted_rows(profiled()).to_dict("records")
    assert row == {
        "benchmark": "copy", "size": 304.0, "unit": "CU", "mpki": 5.0, "f_mem": 0.75,
        "ipc": pytest.approx(1000 / (2.0 * fc.gpu("MI300X").require("boost_mhz"))),
    }  # fmt: skip
    assert counted_rows(profiled(), size=38)["size"].tolist() == [38.0]


def test_what_lacks_counters_is_refused() -> None:
    with pytest.raises(DataError, match="TCC_MISS_sum"):
        counted_rows(profiled().drop(columns="counter.TCC_MISS_sum"))
    with pytest.raises(DataError):
        counted_rows(profiled(insts=0.0))


def test_a_profile_of_mi300x(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "profiles/rocprofiler_compute/rocm-systems/dispatch_0/MI300X_A1"
    code, out, _ = call("scale", "counters", folder, "--out", tmp_path / "runs.csv", "--json")
    (row,) = json.loads(out)["rows"]
    assert code == 0
    assert (row["benchmark"], row["size"]) == ("vecCopy", 304)
    assert [row["mpki"], row["f_mem"]] == pytest.approx([131325 / 327.680, 26423380 / 30845853])


def test_a_profile_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """Of several profiles the user must know which one; nothing says so but its folder."""
    whole, part = (tmp_path / name for name in ("whole", "part"))
    for folder, frame in (
        (whole, profiled()),
        (part, profiled().drop(columns="counter.TCC_MISS_sum")),
    ):
        folder.mkdir()
        frame.to_csv(folder / "pmc.csv", index=False)
    with pytest.raises(DataError, match=r"part: lacks counters TCC_MISS_sum"):
        fc.scale_counters([whole, part], sizes=[38, 76])
    profiled().drop(columns="device").to_csv(part / "pmc.csv", index=False)
    with pytest.raises(DataError, match=r"part: pmc\.csv:2: no row can be used \(no-device"):
        fc.scale_counters([whole, part], sizes=[38, 76])
    with pytest.raises(DataError, match="holds profiles of MI300X, MI210"):
        counted_rows(pd.concat([profiled(), profiled().assign(device="MI210")]))
    words = ("scale", "counters", part, "--default", "device=MI210", "--out", tmp_path / "runs.csv")
    assert [call(*words)[0] for _ in range(2)] == [0, 0], (
        "a table of before is replaced by the same command"
    )
    assert pd.read_csv(tmp_path / "runs.csv")["size"].tolist() == [104]


def test_rows_that_are_kept_out_are_counted(tmp_path: Path) -> None:
    rows = [profiled(), profiled().assign(kernel="idle(int*)", duration_us=0.0)]
    pd.concat(rows).to_csv(tmp_path / "pmc.csv", index=False)
    assert fc.scale_counters(tmp_path).attrs["rejected"] == {"zero-duration": 1}
    code, out, _ = call("scale", "counters", tmp_path, "--out", tmp_path / "runs.csv")
    assert code == 0
    assert "1 row rejected: [zero-duration]" in out


def test_sizes_tell_profiles_apart(tmp_path: Path) -> None:
    profiled().to_csv(tmp_path / "pmc.csv", index=False)
    for sizes, problem in (
        ([38, 38], "both of 38"),
        ([0, 38], "above 0"),
        (None, "both of 304"),
        ([38], "got 1"),
    ):
        with pytest.raises(ParameterError, match=problem):
            fc.scale_counters([tmp_path, tmp_path], sizes=sizes)
    assert fc.scale_counters(tmp_path)["size"].tolist() == [304]  # a text or path is one folder
    assert fc.scale_counters(tmp_path, fc.read(tmp_path), sizes=np.array([38, 76]))[
        "size"
    ].tolist() == [38, 76]


def test_kernels_that_differ_within_their_template_stay_apart() -> None:
    kernels = [
        "void f<(anonymous namespace)::add(int)>(int*)",
        "void f<(anonymous namespace)::mul(int)>(int*)",
    ]
    frame = pd.concat([profiled().assign(kernel=kernel) for kernel in kernels])
    assert counted_rows(frame)["benchmark"].tolist() == [
        kernel.removesuffix("(int*)") for kernel in kernels
    ]


@pytest.mark.parametrize(
    "lines", [[1, 2, 1, 1], [3, 1, 2, 3, 2, 1], np.random.default_rng(0).integers(0, 20, 200)]
)
def test_stack_distances_are_those_of_a_list(lines: list[int]) -> None:
    """The definition: the place of a line in a list that moves each line touched to the front."""
    stack: list[int] = []
    expected = []
    for line in lines:
        expected.append(stack.index(line) if line in stack else np.inf)
        stack = [line, *(one for one in stack if one != line)]
    assert stack_distances(lines).tolist() == expected


def test_a_loop_misses_in_every_cache_that_is_too_small_for_it(tmp_path: Path) -> None:
    trace = [128 * line for _ in range(10) for line in range(1024)]  # 1/8 MiB, ten times over
    found = miss_rates(trace, [8, 16, 32], [1 / 16, 1 / 8, 1 / 4], instructions=1e6)
    assert found["mpki"].tolist() == pytest.approx([10.24, 1.024, 1.024])
    with pytest.raises(ParameterError):
        miss_rates(trace, [8, 16], [1.0])
    for instructions in (0, -5):
        with pytest.raises(ParameterError, match="above 0"):
            miss_rates(trace, [8], [1.0], instructions=instructions)
    (tmp_path / "loop.txt").write_text("0x00 # first\n128\n\n0x0\n128\n", encoding="utf-8")
    words = [
        "--sizes",
        "8,16",
        "--cache-mb",
        "0.0001,1",
        "--out",
        tmp_path / "misses.csv",
        "--json",
    ]
    code, out, _ = call("scale", "misses", tmp_path / "loop.txt", *words)
    assert code == 0
    assert [row["mpki"] for row in json.loads(out)["rows"]] == [1000, 500]
    for wrong, why in (("first", "is no address"), ("010", "write 10 or 0x10")):
        (tmp_path / "loop.txt").write_text(f"0x00\n{wrong}\n", encoding="utf-8")
        refused = call("scale", "misses", tmp_path / "loop.txt", *words)
        assert refused.exit_code == 2
        assert "loop.txt:2" in refused.stderr.replace("\n", "")
        assert why in refused.stderr
