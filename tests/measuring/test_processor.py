"""What Linux tells of a CPU, from folders made for the purpose."""

from __future__ import annotations

from pathlib import Path

import pytest

from flopcast.errors import DataError
from flopcast.measuring.backend import cache_sizes, clock_mhz, cpu_model, governor, last_level_cache_bytes


@pytest.fixture
def cpu(tmp_path: Path) -> Path:
    for index, (level, kind, size) in enumerate(
        [(1, "Data", "48K"), (1, "Instruction", "64K"), (2, "Unified", "2048K"), (3, "Unified", "30M")]
    ):
        folder = tmp_path / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        for name, text in {"level": str(level), "type": kind, "size": size}.items():
            (folder / name).write_text(f"{text}\n", encoding="utf-8")
    (tmp_path / "cpufreq").mkdir()
    (tmp_path / "cpufreq" / "scaling_cur_freq").write_text("3600123\n", encoding="utf-8")
    (tmp_path / "cpufreq" / "scaling_governor").write_text("performance\n", encoding="utf-8")
    return tmp_path


def test_caches_clock_and_governor_are_read(cpu: Path) -> None:
    assert cache_sizes(cpu) == {"L1d": 48 * 2**10, "L1i": 64 * 2**10, "L2": 2 * 2**20, "L3": 30 * 2**20}
    assert last_level_cache_bytes(cpu) == 30 * 2**20
    assert clock_mhz(cpu) == pytest.approx(3600.123)
    assert governor(cpu) == "performance"


def test_what_is_not_told_is_missing(tmp_path: Path) -> None:
    assert cache_sizes(tmp_path) == {}
    assert clock_mhz(tmp_path) is None
    assert governor(tmp_path) == ""
    with pytest.raises(DataError, match="--cache warm"):
        last_level_cache_bytes(tmp_path)


def test_a_cache_that_tells_half_is_left_out(cpu: Path) -> None:
    (cpu / "cache" / "index3" / "size").unlink()
    assert last_level_cache_bytes(cpu) == 2 * 2**20


def test_the_model_is_named_as_well_as_the_system_does(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nprocessor\t: 1\n", encoding="utf-8")
    assert cpu_model(path) == "Some CPU @ 2 GHz"
    assert cpu_model(tmp_path / "missing")
