"""Which device a rocprofiler-compute run was measured on: ``sysinfo.csv``, one line about the machine.

`gpu_model` is the tool's own name, with the stepping ("MI300X_A1") or of a whole series ("MI200"); `gpu_arch` and
`cu_per_gpu` are what the runtime reports, of the partition where the card is split. They do not always agree: an early
MI350 reports 128 compute units.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass

from ....errors import DataError
from ..base import DataFile, Options
from ..devices import device_of, known_gpu
from ..files import content, parse_csv

_STEPPING = re.compile(r"_[A-Z]\d$")
_WHOLE = frozenset(("", "SPX", "NA", "N/A"))  # compute_partition of a card that is not split


@dataclass(frozen=True)
class System:
    """The machine.

    Attributes
    ----------
    device : str
        The catalogue's name; the file's own word where it has none; "" if the file does not say.
    channels : int or None
        Channels of the L2.
    notes : tuple of str
        What was assumed.
    """

    device: str = ""
    channels: int | None = None
    notes: tuple[str, ...] = ()


def read_system(file: DataFile, options: Options) -> System:
    """Return what ``sysinfo.csv`` says.

    Raises
    ------
    DataError
        The file cannot be read.
    """
    try:
        text = content(file.path, max_bytes=options.max_bytes).decode("utf-8-sig", errors="backslashreplace")
        columns = parse_csv(text).columns
    except (ValueError, OverflowError, csv.Error) as error:
        raise DataError(f"is not a table that can be read ({error})", source=file.label) from error
    row = {name: str(values[0]).strip() for name, values in columns.items() if len(values)}
    device, notes = device_in(row)
    channels = _number(row.get("total_l2_chan", ""))
    return System(device, channels, tuple(f"{file.label}: {note}" for note in notes))


def device_in(row: dict[str, str]) -> tuple[str, list[str]]:
    """Return the device that a line of ``sysinfo.csv`` describes, and what was assumed.

    Parameters
    ----------
    row : dict of str to str
        Columns of the line; `gpu_model`, `gpu_arch`, `cu_per_gpu` and `compute_partition` count.

    Returns
    -------
    device : str
        By `gpu_model` where the catalogue knows it, else by architecture and compute units, else the model as it
        stands. A split card is another device: "MI300X (CPX)".
    notes : list of str
        Where the two disagree, or one is not enough.
    """
    model = _STEPPING.sub("", row.get("gpu_model", ""))
    arch, cus = row.get("gpu_arch", ""), _number(row.get("cu_per_gpu", ""))
    partition = row.get("compute_partition", "").upper()
    gpu = known_gpu(model)
    if gpu is None:
        return _by_architecture(model, arch, cus, partition)
    split = partition not in _WHOLE
    notes = []
    if split:
        notes.append(f"the card is split ({partition}): its device is called {gpu.name} ({partition})")
    elif (arch and arch != gpu.gfx) or (cus is not None and cus not in (gpu.cus, gpu.reported_cus)):
        notes.append(
            f"gpu_model says {row['gpu_model']}, which is no {arch or 'unknown architecture'} with {cus} compute "
            f"units: read as {gpu.name}"
        )
    elif model != gpu.name:
        notes.append(f"gpu_model {model} is read as {gpu.name}")
    return (f"{gpu.name} ({partition})" if split else gpu.name), notes


def _by_architecture(model: str, arch: str, cus: int | None, partition: str) -> tuple[str, list[str]]:
    if not arch:
        return model, []
    name, remark = device_of(arch, cus)
    known = known_gpu(name) is not None
    if partition not in _WHOLE:
        return f"{name if known else model or name} ({partition})", [f"the card is split ({partition})"]
    if not known:
        return model or name, []
    said = f"gpu_model {model} is a series: " if model else ""
    return name, [f"{said}{remark or f'{arch} with {cus} compute units is read as {name}'}"]


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 9 else None
