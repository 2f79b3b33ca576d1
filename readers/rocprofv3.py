"""What rocprofv3's CSV and JSON output have in common: agents, times at the ends of the clock, streams and queues.

Grids are in work-items throughout, times in nanoseconds of the monotonic clock. An agent is a CPU
or a GPU of the node; CSV files name it by its number ("Agent 4"), JSON files by a handle.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals

from ..arrays import BoolArray, IntArray
from ..remarks import Remark, remark
from ..table.measurements import COUNTER
from ..traces.dispatches import FIRST, LAST, Severity
from .labels import device_named
from .rocpd import STREAM_IS_QUEUE, streams_recorded

BEYOND_CLOCK: tuple[str, str, Severity] = (
    "clipped-time",
    "activities whose timestamps do not fit 63 bits: kept at the last one possible, rows of no use",
    "error",
)
NO_ACTIVITY = remark(
    "no-activities", "no kernel dispatches and no memory copies were recorded", by="rocprofv3"
)
UNLINKED = remark(
    "no-api-calls",
    "no HIP or HSA API calls were recorded (--hip-trace records them): no activity is linked to "
    "its launch",
    by="rocprofv3",
)
NO_DEVICE = remark(
    "device-not-recorded",
    "the files do not say on which device this ran: give default device=NAME",
    by="rocprofv3",
)


@dataclass(frozen=True)
class Agent:
    """A GPU as the producer numbers it: among all agents, among those visible, and among the visible GPUs."""

    node: int | None
    logical: int | None
    of_type: int | None
    device: str


class Agents:
    """The GPUs of a node, by their names in CSV files; none if there is no list of agents."""

    def __init__(self, gpus: Sequence[Agent] = ()) -> None:
        self._gpus = tuple(gpus)

    def device(self, word: str) -> str:
        """Return the device of "Agent 4" (number among all agents), "GPU 0" (among GPUs) or "4"; "" if unknown.

        ``--agent-index`` decides which number it is, and no file says which was chosen: the number
        among the visible agents (the default) is tried before the number of the node. Where all
        GPUs are alike it does not matter.
        """
        number = agent_number(word)
        if number is None:
            return ""
        of_type = word.strip().casefold().startswith("gpu")
        for kind in ("of_type",) if of_type else ("logical", "node"):
            for gpu in self._gpus:
                if getattr(gpu, kind) == number:
                    return gpu.device
        alike = {gpu.device for gpu in self._gpus}
        if len(alike) == 1:
            return alike.pop()
        return ""


def agent_number(word: str) -> int | None:
    """Return the number at the end of an agent's name, None where there is none."""
    match = re.search(r"(?<![0-9])([0-9]{1,18})\s*$", word)
    if match:
        return int(match[1])
    return None


def agent_device(
    product: str,
    name: str,
    version: int | None,
    cus: int | None,
) -> tuple[str, Remark | None]:
    """Return the device of an agent under the catalogue's name, and a remark.

    Of "AMD Instinct MI350X" and "gfx950" ("" where the file does not say), 90500 for gfx950, and
    the compute units.
    """
    gfx = name
    if not name.startswith("gfx"):
        gfx = gfx_of(version)
    return device_named(product, gfx, cus or None)


def gfx_of(version: int | None) -> str:
    """Return the gfx id of an architecture's number: 90402 is gfx942, 90010 gfx90a, 110501 gfx1151; "" of none."""
    if version is None or version <= 0:
        return ""
    major = version // 10000
    minor = version // 100 % 100
    stepping = version % 100
    return f"gfx{major}{minor:x}{stepping:x}"


def held(values: Iterable[int]) -> tuple[IntArray, BoolArray]:
    """Return whole numbers as int64, those beyond it at its ends, and which ones those are."""
    numbers = list(values)
    try:
        return np.array(numbers, dtype=np.int64), np.zeros(len(numbers), dtype=bool)
    except OverflowError:
        inside = [min(max(number, FIRST), LAST) for number in numbers]
        beyond = [a != b for a, b in zip(numbers, inside, strict=True)]
        return np.array(inside, dtype=np.int64), np.array(beyond, dtype=bool)


def streams(stream: pd.Series, queue: pd.Series, notes: list[Remark]) -> tuple[pd.Series, bool]:
    """Return what orders the kernels, and whether it is the HIP stream (else the hardware queue).

    Streams share queues, and copies have a stream only, so the stream is taken where it was
    recorded.
    """
    if streams_recorded(stream, queue):
        return stream, True
    notes.append(STREAM_IS_QUEUE)
    return queue, False


def stacked(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return rows of several kinds one below the other, missing where a kind has no such column."""
    filled = [part for part in parts if len(part)] or parts[:1]
    stacked: dict[str, Any] = {}
    for name in dict.fromkeys(chain.from_iterable(part.columns for part in filled)):
        missing = "Int64"
        if name.startswith(COUNTER):
            missing = "float64"
        columns = [part.get(name, pd.Series(np.nan, part.index, missing)) for part in filled]
        if isinstance(columns[0].dtype, pd.CategoricalDtype):
            joined: Any = [column.array for column in columns]
            stacked[name] = union_categoricals(joined)
        else:
            stacked[name] = pd.concat(columns, ignore_index=True)
    return pd.DataFrame(stacked)
