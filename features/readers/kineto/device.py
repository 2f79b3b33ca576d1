"""The GPU behind the number that a PyTorch trace gives it.

CUDA numbers devices as `deviceProperties` does. ROCm gives activities the number of the HSA node, which counts the
CPUs too (2 for the first GPU of a machine with two sockets), while `deviceProperties` starts at 0. On ROCm the name may
also be empty (containers) or "AMD Radeon Graphics" (MI250, ROCm 6.2); the figures beside it are right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ....hardware import GPU, all_gpus
from ..devices import known_gpu
from .format import DeviceProperties

_WAVE64 = 64
_GIB = 2**30
#: Memory that the driver keeps for itself, as a share: 79.2 of 80 GiB on an H100.
_MEMORY_TOLERANCE = 0.1


@dataclass(frozen=True)
class Named:
    """A device's name in the catalogue, or the file's own; and a remark on how it was found, "" for none."""

    name: str
    remark: str = ""


def is_rocm(devices: Sequence[DeviceProperties]) -> bool:
    """Return whether the devices are AMD's (of those PyTorch supports by wavefronts of 64, or by name)."""
    return any(device.warp_size == _WAVE64 or "AMD" in device.name for device in devices)


def devices_of(numbers: Sequence[int], devices: Sequence[DeviceProperties]) -> dict[int, Named]:
    """Return the device behind each number.

    Parameters
    ----------
    numbers : sequence of int
        The numbers of all GPUs that did something.
    devices : sequence of DeviceProperties
        What the file says of the GPUs of the machine.

    Returns
    -------
    dict of int to Named
        The name is "" where nothing tells which GPU it is.
    """
    if not is_rocm(devices):
        by_id = {device.id: device for device in devices}
        return {number: _named(by_id[number]) if number in by_id else Named("") for number in numbers}
    named = [_named(device) for device in devices]
    if len({one.name for one in named}) == 1:
        return dict.fromkeys(numbers, named[0])
    if len(numbers) == len(named):
        return dict(zip(sorted(numbers), named, strict=True))
    return dict.fromkeys(numbers, Named(""))


def _named(device: DeviceProperties) -> Named:
    gpu = known_gpu(device.name)
    if gpu is None:
        return _by_figures(device)
    units = gpu.reported_cus or gpu.cus
    if device.num_sms and units and device.num_sms != units:
        return Named(gpu.name, f"{device.name} has {device.num_sms} compute units here, not {units}: part of a GPU?")
    return Named(gpu.name)


def _by_figures(device: DeviceProperties) -> Named:
    """Return the device by its architecture, compute units and memory."""
    same = sorted((gpu for gpu in all_gpus() if _fits(gpu, device)), key=lambda gpu: bool(gpu.same_id_as))
    if not same:
        return Named(device.name)
    said = f"{device.name!r}, {device.num_sms} compute units, {device.total_global_mem / _GIB:.0f} GiB"
    others = "".join(f"; {gpu.name} would look the same" for gpu in same[1:])
    return Named(same[0].name, f"device {said} is read as {same[0].name}{others}")


def _fits(gpu: GPU, device: DeviceProperties) -> bool:
    architecture = f"{device.compute_major}.{device.compute_minor}"
    if is_rocm([device]):  # gfx942 is 9.4: the stepping is not given
        alike = gpu.gfx.startswith("gfx") and gpu.gfx[3:-1] == architecture.replace(".", "")
    else:
        alike = gpu.gfx == architecture
    if not alike or device.num_sms != (gpu.reported_cus or gpu.cus) or gpu.memory_gb is None:
        return False
    return abs(device.total_global_mem / _GIB / gpu.memory_gb - 1) < _MEMORY_TOLERANCE
