"""Loggers of real tools, by programs that print what these print, and a GPU whose timing events are made up."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flopcast.errors import DataError, FlopcastError, ParameterError
from flopcast.measuring import power_rigs as module
from flopcast.measuring.machine import TOOLS
from flopcast.measuring.power_rigs import (
    AMD_SMI,
    AMDSMI,
    HWMON,
    NVML,
    ROCM_SMI,
    Sampler,
    TorchRig,
    counter_to_cpu,
    hwmon_power,
    power_reader,
)

AMD = [{"gpu": 0, "power": {"socket_power": {"value": 612, "unit": "W"}, "gfx_voltage": "N/A"}}]
ROCM = {
    "card0": {
        "Current Socket Graphics Package Power (W)": "388.0",
        "sclk clock speed:": "(2100Mhz)",
    }
}
HANGS = 3600.0
"""Seconds without a reading after which a test has failed."""
TOLD = {AMD_SMI: (json.dumps(AMD), 612.0), ROCM_SMI: (json.dumps(ROCM), 388.0)}


class World:
    """What the module calls `time`: reading it takes a microsecond, everything else what it is made to take."""

    def __init__(self) -> None:
        self.now = 10**18

    def time_ns(self) -> int:
        self.now += 1000
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1e9)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    """Let rigs run in a made-up time, beside a logger that has read the power whenever its period was over."""
    made = World()

    class Readings:
        def __init__(self, read: Any, period_us: float) -> None:
            self.read, self.period_ns, self.at = read, round(1000 * period_us), made.now

        def take(self, until_ns: int) -> list[tuple[int, float]]:
            stamps = range(self.at + self.period_ns, until_ns + self.period_ns, self.period_ns)
            self.at = stamps[-1]
            return [(stamp, self.read()) for stamp in stamps]

        def close(self) -> None:
            pass

    monkeypatch.setattr(module, "time", made)
    monkeypatch.setattr(module, "Sampler", Readings)
    return made


class Card:
    """PyTorch on a GPU of a vendor whose work takes no time, but what the world's clock says."""

    def __init__(
        self, hip: str | None = "7.0", uuid: str | None = None, world: World | None = None
    ) -> None:
        card = self

        class Event:
            def __init__(self, *, enable_timing: bool) -> None:
                self.at = 0

            def record(self) -> None:
                self.at = world.now if world else 0

            def synchronize(self) -> None:
                pass

            def elapsed_time(self, later: Any) -> float:
                return float(later.at - self.at) / 1e6

        properties = SimpleNamespace(uuid=uuid) if uuid else SimpleNamespace()
        cuda = SimpleNamespace(
            get_device_properties=lambda index: properties, Event=Event, synchronize=lambda: None
        )
        self.torch = SimpleNamespace(cuda=cuda, version=SimpleNamespace(hip=hip))
        self.is_gpu, self.index, self.gpu_name, self.restored = True, 0, "Some GPU", 0
        self.restore = lambda: setattr(card, "restored", card.restored + 1)
        self.multiply_as = lambda dtype: None


def program(folder: Path, name: str, printed: str) -> None:
    """Put a program on the path that prints something."""
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{printed}\nEND\n")
    path.chmod(0o755)


@pytest.mark.parametrize("logger", [AMD_SMI, ROCM_SMI])
def test_the_tools_of_amd_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logger: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    printed, watts = TOLD[logger]
    program(tmp_path, logger, printed)
    read = power_reader(logger, Card())  # type: ignore[arg-type]
    assert read() == watts
    program(tmp_path, logger, printed.replace("612", '"N/A"').replace("388.0", "N/A"))
    with pytest.raises(DataError, match=f"{logger} reports no power of GPU 0"):
        read()
    assert {tool.name for tool in TOOLS["amd"]} == set(TOLD)


def test_amds_binding_is_read_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    told: dict[str, Any] = {"current_socket_power": "N/A", "average_socket_power": 412}
    binding = SimpleNamespace(
        AmdSmiException=OSError, amdsmi_init=lambda: None, amdsmi_get_processor_handles=lambda: ["first"],
        amdsmi_get_power_info=lambda gpu: told,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "amdsmi", binding)
    read = power_reader(AMDSMI, Card())  # type: ignore[arg-type]
    assert read() == 412.0
    told["average_socket_power"] = 500
    assert read() == 500.0
    told["average_socket_power"] = "N/A"
    with pytest.raises(DataError, match="reports no power"):
        power_reader(AMDSMI, Card())  # type: ignore[arg-type]
    binding.amdsmi_get_processor_handles = list
    with pytest.raises(DataError, match="does not read GPU 0"):
        power_reader(AMDSMI, Card())  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    with pytest.raises(FlopcastError, match="pip install"):
        power_reader(AMDSMI, Card())  # type: ignore[arg-type]


def test_the_kernels_file_is_read_of_the_gpu_at_its_address(tmp_path: Path) -> None:
    for number, (bus, watts) in enumerate({"0000:05:00.0": 100, "0000:C5:00.0": 400}.items()):
        device = tmp_path / "devices" / bus
        (device / "hwmon" / "hwmon3").mkdir(parents=True)
        (device / "hwmon" / "hwmon3" / "power1_average").write_text(f"{watts}000000\n")
        (tmp_path / f"card{number}").mkdir()
        (tmp_path / f"card{number}" / "device").symlink_to(device)
    assert hwmon_power("0000:c5:00.0", tmp_path)() == 400.0
    with pytest.raises(DataError, match="no power of the GPU"):
        hwmon_power("0000:aa:00.0", tmp_path)
    card = Card()
    card.torch.cuda.get_device_properties = lambda index: SimpleNamespace(pci_domain_id=0)
    with pytest.raises(DataError, match="PCI address"):
        power_reader(HWMON, card)  # type: ignore[arg-type]


def test_nvml_tells_every_sample_of_its_driver_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [
        SimpleNamespace(timeStamp=at, sampleValue=SimpleNamespace(uiVal=700_500 + at))
        for at in (20, 40)
    ]

    class Error(OSError):
        pass

    def samples(gpu: str, kind: int, since: int) -> tuple[int, list[SimpleNamespace]]:
        if not (fresh := [one for one in kept if one.timeStamp >= since]):
            raise Error("not found")
        return 1, fresh

    nvml = SimpleNamespace(
        NVMLError=OSError, NVMLError_NotFound=Error, NVML_TOTAL_POWER_SAMPLES=0, nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid, nvmlDeviceGetSamples=samples,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "pynvml", nvml)  # type: ignore[arg-type]
    read = power_reader(NVML, Card(None, "1-2"))  # type: ignore[arg-type]  # takes what was sampled before
    assert read() == []
    kept.append(SimpleNamespace(timeStamp=60, sampleValue=SimpleNamespace(uiVal=650_250)))
    assert read() == [(60_000, 650.25)]
    kept.clear()
    assert read() == []

    def unknown(uuid: str) -> str:
        raise OSError("no such GPU")

    monkeypatch.setattr(nvml, "nvmlDeviceGetHandleByUUID", unknown)
    with pytest.raises(DataError, match=r"GPU-1-2: .*no such GPU"):
        power_reader(NVML, Card(None, "1-2"))  # type: ignore[arg-type]


def test_a_logger_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ParameterError, match="amd-smi or rocm-smi"):
        power_reader(NVML, Card())  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="must be nvml"):
        power_reader(AMD_SMI, Card(None))  # type: ignore[arg-type]
    with pytest.raises(DataError, match="simulated"):
        power_reader(AMD_SMI, SimpleNamespace(is_gpu=False))  # type: ignore[arg-type]
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")
    with pytest.raises(DataError, match="HIP_VISIBLE_DEVICES"):
        power_reader(AMD_SMI, Card())  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "pynvml", None)  # type: ignore[arg-type]
    with pytest.raises(FlopcastError, match="nvidia-ml-py"):
        power_reader(NVML, Card(None, "1-2"))  # type: ignore[arg-type]


def test_readings_are_stamped_and_taken_once() -> None:
    watts, clock = itertools.count(100.0), itertools.count(0, 1000)
    sampler = Sampler(lambda: next(watts), 200.0, clock.__next__)
    first = sampler.take(10_000, HANGS)
    second = sampler.take(20_000, HANGS)
    sampler.close()
    told = [*first, *second]
    assert [power for _, power in told] == [100.0 + place for place in range(len(told))]
    assert [stamp for stamp, _ in told] == [500 + 2000 * place for place in range(len(told))]
    assert len(first) >= 6
    assert second


def test_readings_that_have_stamps_keep_them() -> None:
    kept = iter([[(10, 300.0), (30, 310.0)], [], [(50, 320.0)]])
    sampler = Sampler(lambda: next(kept, []), 200.0)
    assert sampler.take(50, HANGS) == [(10, 300.0), (30, 310.0), (50, 320.0)]
    sampler.close()


def test_a_logger_that_fails_or_falls_silent_is_told() -> None:
    def failing() -> float:
        raise OSError("amd-smi is not installed")

    sampler = Sampler(failing, 1000.0)
    with pytest.raises(DataError, match="amd-smi"):
        sampler.take(0, HANGS)
    sampler.close()
    slow = Sampler(lambda: 1.0, 1000.0, lambda: 0)
    with pytest.raises(DataError, match="does not answer"):
        slow.take(1, patience_s=0.0)
    slow.close()


def test_a_train_on_a_gpu_is_on_the_clock_of_the_cpu(
    monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    made = []
    monkeypatch.setattr(module, "Operands", lambda backend, seed: seed)
    monkeypatch.setattr(
        module, "build", lambda operands, row: lambda: (made.append(row), world.sleep(0.002))
    )
    card = Card(world=world)
    rig = TorchRig(card, lambda: 500.0, 500.0, seed=7)  # type: ignore[arg-type]
    rig.use(({"op": "gemm", "dtype_a": "bf16"}, 2))
    before = world.now
    train = rig.train(3, 1000.0, (0,))
    rig.after(0)
    rig.close()
    assert len(made) == 7
    assert train.pairs == []
    start = train.executions[0][0]
    assert start - before == pytest.approx(1_010_000, abs=1000)  # a pause of 1 ms, 5 reads of 2 us
    ends = [start + launches * 2_000_000 for launches in (0, 2, 4, 6)]
    for found, expected in zip(train.executions, itertools.pairwise(ends), strict=True):
        assert found == pytest.approx(expected, abs=1000)
    assert all(
        of == next_start for (_, of), (next_start, _) in itertools.pairwise(train.executions)
    )
    assert train.readings[-1][0] >= train.executions[-1][1] > train.readings[-2][0]
    assert card.restored == 1


def test_kernels_run_in_turn_each_in_its_own_precision(
    monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    made = list[str]()
    monkeypatch.setattr(module, "Operands", lambda backend, seed: seed)
    monkeypatch.setattr(
        module,
        "build",
        lambda operands, row: lambda: (made.append(row["dtype_a"]), world.sleep(0.001)),
    )
    card = Card(world=world)
    card.multiply_as = lambda dtype: made.append(f"as {dtype}")
    rig = TorchRig(card, lambda: 500.0, 500.0, seed=7)  # type: ignore[arg-type]
    rig.use(({"op": "gemm", "dtype_a": "fp32"}, 2), ({"op": "gemm", "dtype_a": "tf32"}, 1))
    made.clear()
    assert len(rig.train(2, 0.0, (0,)).executions) == 4
    rig.close()
    assert made == ["as fp32", "fp32", "fp32", "as tf32", "tf32"] * 2


def test_a_kernel_that_does_not_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(operands: Any, row: Any) -> Any:
        raise RuntimeError("HIP out of memory")

    monkeypatch.setattr(module, "Operands", lambda backend, seed: seed)
    monkeypatch.setattr(module, "build", failing)
    rig = TorchRig(Card(), lambda: 500.0, 500.0, seed=7)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"gemm bf16 m=8 does not run: .*out of memory"):
        rig.use(({"op": "gemm", "dtype_a": "bf16", "m": 8}, 1))
    rig.close()


def test_the_counter_is_put_on_the_clock_of_the_cpu() -> None:
    pairs = [(0, 1_000_000, 10_000), (10_000_000, 11_000_000, 10_000)]
    assert counter_to_cpu(pairs, [0.0, 5e6, 1e7]) == pytest.approx(
        [1_005_000, 6_005_000, 11_005_000], abs=1000
    )
