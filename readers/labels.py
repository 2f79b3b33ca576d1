"""What files name by words: devices, by gfx id and compute units or by name, and units in names of columns."""

from __future__ import annotations

import re
from functools import cache

from ..errors import DataError, UnknownGPUError, few
from ..hardware import GPU, all_gpus, find, find_gfx
from ..remarks import Remark, remark
from .words import vocabulary

KERNEL_ENDING = re.compile(r"(?:(?<!\s)\s*+(?:\[clone \.kd\]|\(\.kd\))|\.kd)$")
"""What ROCm appends to the name of a kernel."""

# Units in names of columns: "latency_ms", "duration (us)", "energy_mj", "power (mW)".

#: Microseconds in one of each unit, joules in one of each, watts in one of each.
TIME_UNITS = {
    "ns": 1e-3,
    "us": 1.0,
    "µs": 1.0,
    "μs": 1.0,
    "ms": 1e3,
    "s": 1e6,
}
ENERGY_UNITS = {
    "nj": 1e-9,
    "uj": 1e-6,
    "µj": 1e-6,
    "mj": 1e-3,
    "j": 1.0,
    "kj": 1e3,
}
POWER_UNITS = {"mw": 1e-3, "w": 1.0, "kw": 1e3}
POWER = "power"
UNKNOWN_DEVICE = "unknown-device"  # code of the remark that the catalogue has no such device
_LONG = vocabulary("units")
_SUFFIX = re.compile(r"[(\[]?(?<![A-Za-zµμ])(?P<unit>[A-Za-zµμ]+)[)\]]?$")
_BETWEEN = " \t\r\n_."


def canonical_unit(word: str) -> str | None:
    """Return the unit in the spelling of this module; None if it is no unit of time, energy or power."""
    plain = _LONG.get(word.strip().lower(), word.strip().lower())
    if any(plain in units for units in (TIME_UNITS, ENERGY_UNITS, POWER_UNITS)):
        return plain
    return None


def microseconds(word: str) -> float | None:
    """Return the microseconds in one of a unit of time; None for any other unit.

    >>> microseconds("msec"), microseconds("joule")
    (1000.0, None)
    """
    return TIME_UNITS.get(canonical_unit(word) or "")


def split_unit(column: str) -> tuple[str, str | None]:
    """Return the lower-case name of a column without its unit, and the unit ("Latency (ms)" -> "latency", "ms").

    A lone unit is a separate name: "us" -> "", "us"; but "s" and "j" are too short to be read as
    one. Watts are units of a power alone: "pad_w" is a width.
    """
    name = column.strip()
    match = _SUFFIX.search(name)
    if match:
        base = name[: match.start()].rstrip(_BETWEEN).lower()
    else:
        base = ""
    unit = None
    if match:
        unit = canonical_unit(match["unit"])
    if unit is None or (not base and unit in {"s", "j"}) or (unit in POWER_UNITS and base != POWER):
        return name.lower(), None
    return base, unit


def stated_unit(column: str, word: str) -> str:
    """Return the unit that the user states for a column; a DataError unless it is one of time, energy or power."""
    unit = canonical_unit(word)
    if unit is None:
        units = ", ".join(("ns", "us", "ms", "s", "uj", "mj", "j", "kj", "mw", "w", "kw"))
        raise DataError(f"unit of column {column!r} must be one of {units}, got {word!r}")
    return unit


@cache
def device_of(gfx: str, cus: int | None, stated: str = "") -> tuple[str, Remark | None]:
    """Return the device with a gfx id and number of compute units, and a remark on any assumption.

    `cus` is None if the file does not say; what the user calls the device (`stated`) decides
    between those that look the same. The name is the catalogue's, or "gfx1250 (96 CUs)" where it
    has none.
    """
    count = ""
    if cus is not None:
        count = f" ({cus} CUs)"
    try:
        name = find_gfx(gfx, cus).name
    except UnknownGPUError:
        # `canonical_device` remarks on every name that the catalogue lacks
        return (f"{gfx}{count}", None)
    same = [
        gpu.name
        for gpu in all_gpus()
        if gpu.gfx == gfx and cus in (None, gpu.cus) and gpu.name != name
    ]
    user = gpu_of_word(stated)
    if not same or (user is not None and user.name in (name, *same)):
        return (user.name if same and user else name), None
    text = f"{gfx}{count} is read as {name}; {' and '.join(same)} would look the same"
    return name, remark(
        "device-by-gfx",
        text,
        gfx=gfx,
        cus=cus,
        device=name,
        same=tuple(same),
    )


@cache
def canonical_device(word: str) -> tuple[str, Remark | None]:
    """Return the catalogue's name of a device that a file or a user names in words, and a remark.

    A device that the catalogue does not have (a CPU, a laboratory sample) keeps its name.
    """
    if not word:
        return "", None
    matches: tuple[str, ...] = ()
    try:
        gpu = None
        if not _is_file(word):
            gpu = find(word)
    except UnknownGPUError as error:
        gpu = None
        matches = error.matches
    if gpu:
        return gpu.name, None
    close = ""
    if matches:
        close = f" (the closest: {few(matches)})"
    text = f"device {word!r} is not in the catalogue: kept under that name{close}"
    return word, remark(
        UNKNOWN_DEVICE, text, device=word, **({"nearest": matches} if matches else {})
    )


def device_named(product: str, gfx: str, units: int | None) -> tuple[str, Remark | None]:
    """Return the device under the catalogue's name, and a remark on any assumption.

    The product's name decides (one gfx id stands for several products), unless the device shows
    another number of compute units than the product has: then it is a part of it (CPX, MIG), which
    is another device. `gfx` is "", and `units` None, where the file does not say.

    >>> device_named("AMD Instinct MI300X", "gfx942", 304)
    ('MI300X', None)
    >>> device_named("AMD Instinct MI300X", "gfx942", 38)[0]
    'gfx942 (38 CUs)'
    """
    name, unknown = canonical_device(product)
    gpu = gpu_of_word(name)
    if gpu is None:
        if gfx.startswith("gfx"):
            return device_of(gfx, units)
        return name or gfx, unknown
    whole = gpu.reported_cus or gpu.cus
    if units is None or whole is None or units in (gpu.cus, gpu.reported_cus):
        return name, None
    if gpu.gfx.startswith("gfx"):
        part, _ = device_of(gfx if gfx.startswith("gfx") else gpu.gfx, units)
    else:
        part = f"{name} ({units} SMs)"
    text = f"{product} has {units} compute units here, not {whole}: a part of it, called {part}"
    return part, remark(
        "other-compute-units", text, device=product, units=units, known=whole, part=part
    )


def gpu_of_word(word: str, *, stated: bool = False) -> GPU | None:
    """Return the GPU that answers to a name or an alias, None where none does.

    `find` would read a TOML file of that name: data do not say which file to open, so a word of
    theirs that looks like one is no GPU. The user's word (`stated`) may name one; a DataError
    if that describes no GPU.
    """
    if not word or (not stated and _is_file(word)):
        return None
    try:
        return find(word)
    except UnknownGPUError:
        return None


def _is_file(word: str) -> bool:
    return word.casefold().endswith(".toml")
