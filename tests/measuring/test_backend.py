"""The device: a CPU where PyTorch is installed, and a made-up GPU anywhere."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flopcast.errors import DataError, FlopcastError
from flopcast.measuring import backend as module
from flopcast.measuring.backend import (
    Backend,
    Device,
    Operands,
    cache_sizes,
    clock_mhz,
    governor,
    import_torch,
    last_level_cache_bytes,
)
from flopcast.measuring.timing import EventTimer, HostTimer


class FakeEvent:
    """An event on a device whose time stands in `FakeCuda.now` (milliseconds)."""

    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda, self.at = cuda, 0.0

    def record(self) -> None:
        self.at = self.cuda.now

    def query(self) -> bool:
        return False

    def elapsed_time(self, later: FakeEvent) -> float:
        return later.at - self.at


class FakeCuda:
    """Two GPUs that count sleep cycles at 2 GHz."""

    def __init__(
        self,
        name: str = "AMD Instinct MI300X",
        l2: int = 4 * 2**20,
        arch: str = "gfx942:sramecc+",
        capability: tuple[int, int] = (9, 4),
    ) -> None:
        self.now, self.name, self.l2, self.current, self.slept = 0.0, name, l2, -1, list[int]()
        self.arch, self.capability, self.broken, self.emptied = arch, capability, False, 0

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 2

    def set_device(self, index: int) -> None:
        self.current = index

    def get_device_name(self, index: int) -> str:
        return self.name

    def get_device_properties(self, index: int) -> Any:
        return SimpleNamespace(L2_cache_size=self.l2, gcnArchName=self.arch)

    def get_device_capability(self, index: int) -> tuple[int, int]:
        return self.capability

    def is_tf32_supported(self) -> bool:
        return "gfx94" in self.arch

    def synchronize(self) -> None:
        self.now += 0.001
        if self.broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def empty_cache(self) -> None:
        self.emptied += 1

    def Event(self, enable_timing: bool) -> FakeEvent:  # noqa: N802 - PyTorch's name
        assert enable_timing
        return FakeEvent(self)

    def _sleep(self, cycles: int) -> None:
        self.slept.append(cycles)
        self.now += cycles / 2e6


def gpu(**options: Any) -> Any:
    told: dict[str, Any] = {"precision": "medium"}
    return SimpleNamespace(
        cuda=FakeCuda(**options),
        backends=SimpleNamespace(cudnn=SimpleNamespace(allow_tf32=True)),
        get_float32_matmul_precision=lambda: told["precision"],
        set_float32_matmul_precision=lambda word: told.update(precision=word),
        ones=lambda count, dtype, device: count,
        zeros=lambda shape, dtype, device: "total",
        sum=lambda buffer, dim, out: told.update(flushed=buffer),
        float32="float32",
        told=told,
        __version__="9.9",
    )


NO_GPU: Any = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False), __version__="9.9")


def test_without_torch_the_message_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(FlopcastError, match=r'pip install "flopcast\[measure\]"'):
        import_torch()


def test_the_first_gpu_is_the_default_and_a_cpu_where_there_is_none() -> None:
    assert Backend(gpu()).word == "cuda:0"
    assert Backend(NO_GPU).word == "cpu"


@pytest.mark.parametrize(
    ("torch", "word", "message"),
    [
        (NO_GPU, "cuda:0", "PyTorch 9.9 sees no GPU"),
        (gpu(), "cuda:2", r"GPUs.*cuda:0.*cuda:1.*cuda:2"),
        (gpu(), "hip:0", "must be cpu or cuda:0"),
        (gpu(), "cuda:first", "must be cpu or cuda:0"),
    ],
)
def test_devices_that_are_not_there(torch: Any, word: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Backend(torch, word)


def test_a_gpu_has_the_name_of_the_catalogue_and_is_selected() -> None:
    found = Backend(gpu(), "cuda:1")
    assert found.devices(()) == [Device("MI300X")]
    assert found.devices((), "mine") == [Device("mine")]
    assert found.torch.cuda.current == 1
    with pytest.raises(DataError, match="threads"):
        found.devices((1,))


def test_each_number_of_threads_is_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.os, "cpu_count", lambda: 4)
    found = Backend(NO_GPU)
    assert found.devices((1, 2)) == [Device("CPU-1T", 1), Device("CPU-2T", 2)]
    assert found.devices((4,), "EPYC 9654") == [Device("EPYC 9654-4T", 4)]
    for wrong in ((0,), (2, 2)):
        with pytest.raises(DataError, match="from 1 on"):
            found.devices(wrong)
    with pytest.raises(DataError, match=r"threads.*machine's.*CPUs.*5"):
        found.devices((1, 5))


NVIDIA: dict[str, Any] = {"name": "NVIDIA H200", "arch": "NVIDIA H200", "capability": (9, 0)}


@pytest.mark.parametrize(
    ("dtype", "precision", "narrow"), [("fp32", "highest", False), ("tf32", "high", True)]
)
def test_fp32_is_multiplied_as_tf32_only_where_a_row_says_so(
    dtype: str, precision: str, narrow: bool
) -> None:
    found = Backend(gpu(**NVIDIA))
    found.multiply_as(dtype)
    assert found.torch.told["precision"] == precision
    assert found.torch.backends.cudnn.allow_tf32 is narrow


def test_the_precision_is_restored_to_what_it_was_before_the_first_row() -> None:
    found = Backend(gpu(**NVIDIA))
    found.restore()
    assert found.torch.told["precision"] == "medium"
    for dtype in ("fp32", "tf32", "fp32"):
        found.multiply_as(dtype)
    found.restore()
    assert found.torch.told["precision"] == "medium"
    assert found.torch.backends.cudnn.allow_tf32 is True


@pytest.mark.parametrize(
    ("options", "allowed", "has"),
    [
        (NVIDIA, "", True),
        ({**NVIDIA, "capability": (7, 5)}, "", False),
        ({}, "1", True),
        ({}, "", False),
        ({"arch": "gfx90a"}, "1", False),
    ],
)
def test_tf32_is_refused_where_it_would_be_fp32(
    options: dict[str, Any], allowed: str, has: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPBLASLT_ALLOW_TF32", allowed)
    found = Backend(gpu(**options))
    assert found.has_tf32() is has
    if has:
        found.multiply_as("tf32")
    else:
        with pytest.raises(DataError, match=f"{found.gpu_name} does not compute in tf32"):
            found.multiply_as("tf32")
        assert found.torch.told["precision"] == "medium"


def test_a_release_that_does_not_tell_of_tf32_on_amd_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HIPBLASLT_ALLOW_TF32", "1")
    monkeypatch.delattr(FakeCuda, "is_tf32_supported")
    assert not Backend(gpu()).has_tf32()


def test_a_cpu_has_no_tf32() -> None:
    with pytest.raises(DataError, match=r"CPU.*tf32.*fp32"):
        Backend(NO_GPU).multiply_as("tf32")
    Backend(NO_GPU).multiply_as("fp32")


def test_a_gpu_recovers_or_is_lost() -> None:
    found = Backend(gpu())
    found.recover()
    assert found.torch.cuda.emptied == 1
    found.torch.cuda.broken = True
    with pytest.raises(RuntimeError, match="illegal memory access"):
        found.recover()
    Backend(NO_GPU).recover()


def test_the_cache_to_fill_is_the_last_level() -> None:
    # MI300X: the Infinity Cache, not the 4 MiB of L2
    assert Backend(gpu()).cache_bytes() == 256 * 2**20
    assert Backend(gpu(name="New GPU", l2=96 * 2**20)).cache_bytes() == 96 * 2**20
    assert Backend(gpu(name="New GPU", l2=0)).cache_bytes() == 256 * 2**20


def test_a_gpu_is_timed_by_events_and_its_pause_calibrated() -> None:
    found = Backend(gpu())
    timer = found.timer(cold=True)
    assert isinstance(timer, EventTimer)
    assert timer.cold
    cuda = found.torch.cuda
    cuda.slept.clear()
    timer.samples(lambda: None, 3)
    assert found.torch.told["flushed"] * 4 == 2 * 256 * 2**20  # twice the cache, as fp32
    assert len(cuda.slept) == 1
    module._pause(cuda)(25.0)
    assert cuda.slept[-1] == pytest.approx(25.0 * 2000, rel=0.01)


def test_a_cpu_is_timed_by_its_clock(torch: Any) -> None:
    found = Backend(torch, "cpu")
    timer = found.timer(cold=False)
    assert isinstance(timer, HostTimer)
    assert timer.cost_us > 0
    assert found.devices(()) == [Device(f"CPU-{torch.get_num_threads()}T", torch.get_num_threads())]


def test_a_cold_cache_on_a_cpu_fills_its_last_level(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "last_level_cache_bytes", lambda: 2**16)
    found = Backend(torch, "cpu")
    assert found.cache_bytes() == 2**16
    assert (found.timer(cold=True).samples(lambda: None, 3) >= 0).all()


def test_operands_are_of_their_format_and_follow_from_the_seed(torch: Any) -> None:
    make = Operands(Backend(torch, "cpu"), 4)
    assert make.tensor("bf16", 2, 3).dtype == torch.bfloat16
    assert make.tensor("fp8", 8).dtype == torch.float8_e4m3fn
    assert make.tensor("int8", 100).max() < 100
    assert set(make.tensor("bool", 100).tolist()) == {True, False}
    assert make.integers(7, 1000).max() == 6
    one, two = (Operands(Backend(torch, "cpu"), 4).tensor("fp64", 5) for _ in range(2))
    assert torch.equal(one, two)
    with pytest.raises(DataError, match=r"PyTorch.*int4"):
        make.dtype("int4")


@pytest.fixture
def cpu(tmp_path: Path) -> Path:
    for index, (level, kind, size) in enumerate(
        [
            (1, "Data", "48K"),
            (1, "Instruction", "64K"),
            (2, "Unified", "2048K"),
            (3, "Unified", "30M"),
        ]
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
    assert cache_sizes(cpu) == {
        "L1d": 48 * 2**10,
        "L1i": 64 * 2**10,
        "L2": 2 * 2**20,
        "L3": 30 * 2**20,
    }
    assert last_level_cache_bytes(cpu) == 30 * 2**20
    assert clock_mhz(cpu) == pytest.approx(3600.123)
    assert governor(cpu) == "performance"


def test_what_is_not_told_is_missing(tmp_path: Path) -> None:
    assert cache_sizes(tmp_path) == {}
    assert clock_mhz(tmp_path) is None
    assert governor(tmp_path) == ""
    with pytest.raises(DataError, match="warm"):
        last_level_cache_bytes(tmp_path)


def test_a_cache_that_tells_half_is_left_out(cpu: Path) -> None:
    (cpu / "cache" / "index3" / "size").unlink()
    assert last_level_cache_bytes(cpu) == 2 * 2**20
