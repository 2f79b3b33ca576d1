"""Power logs of nvidia-smi, amd-smi and rocm-smi, as they are: units in headers or cells, words instead of numbers.

================  =======================================  ===========================================================
format            written by                               its power
================  =======================================  ===========================================================
nvidia-smi CSV    ``nvidia-smi --query-gpu=... --format``   ``power.draw.instant`` instantaneous, ``.average`` average;
                                                           ``power.draw`` either, by GPU and driver
amd-smi JSON      ``amd-smi metric --json``                 ``current_socket_power`` instantaneous (MI300),
                                                           ``average_socket_power`` average (MI200);
                                                           ``socket_power`` either
amd-smi CSV       ``amd-smi metric --csv``, ``monitor``     the same; ``power_usage`` either
amd-smi monitor   ``amd-smi monitor``                       either
nvidia-smi dmon   ``nvidia-smi dmon``, ``-o DT`` for times    either
rocm-smi CSV      ``rocm-smi --csv``                        ``Current ...`` instantaneous, ``Average ...`` average
rocm-smi JSON     ``rocm-smi --json``                       the same
generic CSV       anything with ``power_w`` and ``gpu_ns``,  not stated
                  or ``time_ns``, ``_us``, ``_ms``, ``_s``
================  =======================================  ===========================================================

What stands before a header is passed over, and headers that recur are, too. A table made by hand has the
columns of the last row, or is given them by ``rename`` (``watts=power_w``). Times are of the local day
(2025/08/24 22:19:24.420), ISO 8601 with a zone or without, or numbers since 1970: their digits say whether
they count seconds (10), milliseconds (13), microseconds (16) or nanoseconds (19).
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from ..errors import DataError
from ..readers.files import text, with_points

TOTAL: Final = "total"  # the component of a log that does not name any: all that the socket draws
INSTANT = "instantaneous"
AVERAGE = "average"
EITHER = "not stated"
MEASURED: Final = ("power_w", "clock_mhz", "memory_clock_mhz", "temperature_c", "utilisation")
"""Columns of measured values, in order; `utilisation` is a share, 0 to 1."""
_WORDS: Final[dict[str, Any]] = tomllib.loads(
    resources.files("flopcast.power").joinpath("logs.toml").read_text(encoding="utf-8")
)
_SCALES: Final[dict[str, dict[str, float]]] = _WORDS["scales"]
_USUAL: Final = {column: next(iter(scales)) for column, scales in _SCALES.items()}
_POWER: Final = _WORDS["power"].items()
"""Names of the power in the order they are preferred where a log has several, and what they are."""
_NAMES: Final[dict[str, list[str]]] = _WORDS["names"]
_GPU: Final = ("index", "gpu", "device", "gpu_index")
_GPU_NAME: Final = ("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id")
"""Columns that distinguish GPUs in a log without their numbers; they are then numbered as they come."""
_TIME: Final = ("timestamp", "time_ns", "gpu_ns", "time_us", "time_ms", "time_s")
_DIGITS: Final = {
    "time_s": 9,
    "time_ms": 6,
    "time_us": 3,
    "time_ns": 0,
}
"""Decimal places of one of a unit that are nanoseconds."""
_STAMPS: Final = {
    10: 9,
    13: 6,
    16: 3,
    19: 0,
}
"""Digits of a number since 1970 (from 2001 to 2286), and the decimal places that are nanoseconds."""
_OWN: Final = frozenset([*_WORDS["power"], *chain.from_iterable(_NAMES.values())])
"""Names of columns that end in their unit."""
_ABSENT: Final = ("", *_WORDS["absent"])
_STATED = re.compile(
    r"(?:\[(?P<square>[^\[\]]*)\]|\((?P<round>W|mW|kW|C|°C|%|MHz|GHz|kHz|Hz)\))$", re.IGNORECASE
)
"""The unit at the end of a column's name."""
_SUFFIX = re.compile(r"_(?P<unit>k?w|mw|[gk]?hz|mhz|c|pct|percent)$")
"""The unit behind an underscore, of columns that somebody named by hand."""
_WORDS_OF_UNITS: Final = {"pct": "%", "percent": "%"}
_DMON = re.compile(r"#\s*(?:date|time|gpu)[\s,]")
_BEFORE: Final = 20  # lines that may stand before a header
_HEAD: Final = 65536  # characters in which the header stands
_YEARS: Final = range(1970, 2262)  # that 64 bits of nanoseconds hold
_VALUE = re.compile(r"^(?P<number>[-+]?\d+(?:_\d+)*(?:\.\d*)?(?:[eE][-+]?\d+)?)\s*(?P<unit>\S*)$")
_COMMA = re.compile(r"(?P<number>[-+]?\d+,\d+(?:[eE][-+]?\d+)?)(?P<unit>\s*[^\W\d_]*|\s*[°%]C?)$")
_LOCAL = ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S")
_KNOWN = (
    "nvidia-smi --query-gpu CSV, amd-smi metric --json or --csv, amd-smi monitor, rocm-smi --json "
    "or --csv, nvidia-smi dmon, "
    "or a CSV with power_w and gpu_ns or time_ns, or names given by rename NAME=power_w"
)
_MONITOR = re.compile(
    r"N/A|\d+(?:\.\d+)?(?:/\d+(?:\.\d+)?)?(?:\s?(?:W|°C|%|MHz|GHz|MB|GB|KB|Mb/s|MB/s)(?!\S))?|\S+"
)
_LOOKED_AT: Final = 100  # lines before the last that say how long its last cell should be
_MOST_GPUS: Final = 16
_LAST_SECOND: Final = 9_000_000_000  # since 1970: what 64 bits of nanoseconds hold
_CLEAR: Final = 4.0  # gaps between bursts are so many times longer than those within them
_SHARE: Final = 0.05  # of the gaps, that may be otherwise: a logger stalls now and then
Row = dict[str, Any]


def read_power_log(path: Path | str, rename: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Return the readings of a power log.

    It is in one of the module's formats, distinguished by its content; gzip and bzip2 are read as they
    are. `rename` says what columns of a CSV are called here: the file's name -> ours. Where neither
    header nor cells state a unit, it is the usual one (W, MHz, °C, %). One row per
    reading, in the order of the file: `time_ns` (int64; Int64 and missing where the log has no time),
    `gpu` (number; GPUs that only a UUID or bus address tells apart are numbered as they come),
    `component` ("total" but for generic logs), `power_w`; then those of `clock_mhz`,
    `memory_clock_mhz`, `temperature_c`, `utilisation` that the log has, NaN where a reading lacks
    one. Readings without power are left out.

    In `attrs`: `format`; `power`, what its name says it is: "average", "instantaneous" or "not
    stated", which it also is where GPUs differ; `clock`, what `time_ns` is: "epoch" (since 1970),
    "local time" (the log names no zone: nanoseconds since 1970 as if it were UTC), "gpu" (the GPU's
    counter), or "none"; `left_out`, readings without power; `cut`, 1 where the last line (of JSON
    the last document) breaks off, as a logger stopped by Ctrl-C leaves it, and is left out;
    `decimal_commas`, the columns in which commas were read as decimal points.

    Raises DataError: the file cannot be read, has an unsupported format, states a unit that is none of
    that quantity, has a cell that is no number, no reading with power, or readings of a GPU out of
    order.
    """
    return power_log(text(Path(path)), str(path), rename=rename)


def power_log(
    content: str,
    source: str,
    *,
    powerless: bool = False,
    rename: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Return the readings of a power log given as text; see `read_power_log`. Errors call it `source`.

    With `powerless` readings without power are kept, `power_w` missing, and a log without any is no
    error.
    """
    content = content.lstrip("\ufeff \t\r\n")
    if not content:
        raise DataError("the log is empty", source=source)
    name, rows, cut = _rows(content, source, rename or {})
    if not rows:
        raise DataError(f"a log of {name} without a reading", source=source)
    commas = _read_commas(rows, source)
    table = _table(rows, name, powerless, source)
    kept = table
    if not powerless:
        kept = table[table["power_w"].notna()].reset_index(drop=True)
    kept.attrs |= {"left_out": len(table) - len(kept), "cut": cut, "decimal_commas": commas}
    _check_order(kept, source)
    return kept


def _rows(content: str, source: str, rename: Mapping[str, str]) -> tuple[str, list[Row], int]:
    """Return the format, one mapping of lower-case names to cells for each reading, and the truncated ones."""
    if content[0] in "[{":
        return _json_rows(content, source)
    before = _lines_before(content, rename)
    if before is None:
        raise DataError(f"no power log that is known: give {_KNOWN}", source=source)
    if before:
        content = "".join(content.splitlines(keepends=True)[before:])
    header = content[:_HEAD].splitlines()[0].lower()
    first = before + 2
    if _is_monitor(header):
        lines, cut = whole_lines(content, monitor_cells)
        under = (header.split(), lines[1:], monitor_cells, "{} values under {} columns")
        return "amd-smi monitor", _rows_under(*under, source, first), cut
    if _DMON.match(header):
        lines, cut = whole_lines(content, dmon_cells)
        values = [line for line in lines[1:] if not line.lstrip().startswith("#")]
        under = (dmon_cells(header), values, dmon_cells, "{} values under {} columns")
        return "nvidia-smi dmon", _of_one_stamp(_rows_under(*under, source, first)), cut
    cells = partial(csv_cells, delimiter=_delimiter(header))
    lines, cut = whole_lines(content, cells)
    names = _renamed(cells(lines[0]), rename)
    under = (names, lines[1:], cells, "{} cells under a header of {}")
    return (
        _csv_format(names),
        _rows_under(
            *under,
            source,
            first,
            rename,
        ),
        cut,
    )


def _lines_before(content: str, rename: Mapping[str, str]) -> int | None:
    """Return the number of lines before the header, None without one."""
    for place, line in enumerate(content[:_HEAD].splitlines()[:_BEFORE]):
        header = line.lower()
        names = _renamed(csv_cells(line, _delimiter(header)), rename)
        if _is_monitor(header) or _DMON.match(header) or _csv_format(names):
            return place
    return None


def _is_monitor(header: str) -> bool:
    return re.match(r"(timestamp\s+)?gpu\s+(?:xcp\s+)?power(?!_)", header) is not None


def _renamed(names: list[str], rename: Mapping[str, str]) -> list[str]:
    """Return the names of columns in lower case, as the user calls them."""
    return [rename.get(name, name).lower() for name in names]


def _of_one_stamp(rows: list[Row]) -> list[Row]:
    """Return the readings of dmon with date and time as one stamp; without a date they have none."""
    for row in rows:
        date = row.pop("date", "")
        clock = row.pop("time", "")
        if date and clock:
            row["timestamp"] = f"{date[:4]}-{date[4:6]}-{date[6:]} {clock}"
    return rows


def _delimiter(header: str) -> str:
    """Return the separator of cells: a semicolon where spreadsheets write decimal commas."""
    if ";" in header and "," not in header:
        return ";"
    return ","


def _read_commas(rows: list[Row], source: str) -> tuple[str, ...]:
    """Replace decimal commas by points, with or without a unit (310,5 W), and return the columns that had some.

    Raises DataError for commas that may mark thousands as well.
    """
    places: dict[str, list[tuple[int, re.Match[str]]]] = {}
    for place, row in enumerate(rows):
        for name, cell in row.items():
            if isinstance(cell, str) and "," in cell and (match := _COMMA.match(cell)):
                places.setdefault(name, []).append((place, match))
    for name, cells in places.items():
        numbers, _ = with_points(
            pd.DataFrame({name: [match["number"] for _, match in cells]}), [name], source
        )
        for (place, match), number in zip(cells, numbers[name], strict=True):
            rows[place][name] = number + match["unit"]
    return tuple(places)


def _csv_format(names: list[str]) -> str:
    """Return the format of a CSV log by the names of its columns, "" for none."""
    plain = [_split(name)[0] for name in names]
    if any("power.draw" in name for name in names):
        return "nvidia-smi CSV"
    if names[0] == "device" and any("power" in name for name in names):
        return "rocm-smi CSV"
    if "power_w" in plain and any(name in plain for name in _TIME):
        return "generic CSV"
    if any("socket_power" in name or name == "power_usage" for name in names):
        return "amd-smi CSV"
    return ""


def _rows_under(
    names: list[str],
    lines: Iterable[str],
    cells: Callable[[str], list[str]],
    wrong: str,
    source: str,
    first: int,
    rename: Mapping[str, str] | None = None,
) -> list[Row]:
    """Return the cells of the lines under a header, skipping repeated headers; the `first` has a number."""
    rows = []
    for number, line in enumerate(lines, first):
        values = cells(line)
        if not line.strip() or _renamed(values, rename or {}) == names:
            continue
        if len(values) != len(names):
            raise DataError(wrong.format(len(values), len(names)), source=f"{source}:{number}")
        rows.append(dict(zip(names, values, strict=True)))
    return rows


def _json_rows(content: str, source: str) -> tuple[str, list[Row], int]:
    """Return the readings of JSON: one document, or several below each other as a watching logger writes them."""
    decoder = json.JSONDecoder()
    place = 0
    cut = 0
    entries: list[Any] = []
    while place < len(content):
        try:
            document, place = decoder.raw_decode(content, place)
        except json.JSONDecodeError as error:
            brackets = sum((letter in "[{") - (letter in "]}") for letter in content[place:])
            # the last document breaks off: more are opened than closed
            if entries and brackets > 0:
                cut = 1
                break
            raise DataError(
                f"is no JSON ({error.msg}, line {error.lineno})", source=source
            ) from None
        except (
            ValueError,
            RecursionError,
        ) as error:  # an integer of thousands of digits, lists in thousands of lists
            raise DataError(f"is no JSON of a power log ({error})", source=source) from None
        place += len(content[place:]) - len(content[place:].lstrip(" \t\r\n,"))
        entries.append(document)
    cards = list[Row]()
    for entry in entries:
        if not isinstance(entry, dict):
            continue
        for name, card in entry.items():
            if re.fullmatch(r"card\d+", name) and isinstance(card, dict):
                cards.append({"device": name, **_flat(card)})
    if cards:
        return "rocm-smi JSON", cards, cut
    rows = [_flat(gpu) for gpu in _gpus(entries)]
    if not any("socket_power" in name for name in chain.from_iterable(rows)):
        raise DataError(f"no power log that is known: give {_KNOWN}", source=source)
    return "amd-smi JSON", rows, cut


def _gpus(entries: Any) -> list[dict[str, Any]]:
    """Return amd-smi's record of each GPU, however it is wrapped."""
    if isinstance(entries, list):
        return list(chain.from_iterable(map(_gpus, entries)))
    if not isinstance(entries, dict):
        return []
    if "gpu_data" in entries:
        return _gpus(entries["gpu_data"])
    return [entries]


def _flat(values: Mapping[str, Any], prefix: str = "") -> Row:
    """Return nested values under their innermost name; clocks, all called clk, with the enclosing one."""
    row: Row = {}
    for name, value in values.items():
        key = name.lower()
        if key in ("clk", "cur_clk") and prefix:
            key = f"{prefix}_clk"
        if isinstance(value, dict) and "value" in value:
            row.setdefault(key, f"{value['value']} {value.get('unit', '')}".strip())
        elif isinstance(value, dict):
            for inner, cell in _flat(value, key).items():
                row.setdefault(inner, cell)
        else:
            row.setdefault(key, value)
    return row


def _table(rows: list[Row], name: str, powerless: bool, source: str) -> pd.DataFrame:
    keys = {_split(head)[0]: head for head in chain.from_iterable(rows)}
    gpus = _gpu_numbers(rows, keys, source)
    # of each GPU its name and what it is: GPUs of one node may state others
    power: dict[int, tuple[str, str]] = {}
    for key, what in _POWER:
        for row, gpu in zip(rows, gpus, strict=True):
            if key in keys and _present(_first(row.get(keys[key]))):
                power.setdefault(gpu, (key, what))
    if not power and not powerless:
        raise DataError(f"a log of {name} in which no power is recorded", source=source)
    values = {}
    for column, names in _NAMES.items():
        head = next((keys[key] for key in names if key in keys), "")
        if head:
            values[column] = [_number(column, row.get(head), head, source) for row in rows]
    watts = []
    for row, gpu in zip(rows, gpus, strict=True):
        head = ""
        if gpu in power:
            head = keys[power[gpu][0]]
        watts.append(
            _number(
                "power_w",
                row.get(head),
                head,
                source,
            )
        )
    time, clock = _times(rows, keys, source)
    numbered = any(key in keys for key in (*_GPU, *_GPU_NAME))
    if name == "nvidia-smi CSV" and clock != "none" and not numbered:
        times_ns = np.array(time, dtype=np.int64)
        count = gpus_in_bursts(times_ns)
        if count > 1 and (times_ns % 10**9).any():  # whole seconds say nothing
            problem = (
                f"the log seems to be of {count} GPUs, whose readings come together: add index to "
                "the query"
            )
            raise DataError(problem, source=source)
    component = [str(row.get("component") or TOTAL).lower() for row in rows]
    table = pd.DataFrame(
        {
            "time_ns": time,
            "gpu": gpus,
            "component": component,
            "power_w": watts,
            **values,
        }
    )
    table["time_ns"] = table["time_ns"].astype("Int64" if clock == "none" else np.int64)
    kinds = {what for _, what in power.values()}
    table.attrs = {
        "format": name,
        "power": kinds.pop() if len(kinds) == 1 else EITHER if kinds else "",
        "clock": clock,
    }
    return table


def _split(header: str) -> tuple[str, str]:
    """Return the name of a column and the unit its header states."""
    name = header.strip()
    unit = _STATED.search(name)
    if unit:
        stated = unit["square"] or unit["round"] or ""
        return name[: unit.start()].rstrip().lower(), stated.strip()
    plain = name.lower()
    suffix = _SUFFIX.search(plain)
    if plain in _OWN or not suffix:
        return plain, ""
    return plain[: suffix.start()], _WORDS_OF_UNITS.get(suffix["unit"], suffix["unit"])


def _present(cell: Any) -> bool:
    words = str(cell).strip().lower()
    return cell is not None and words not in _ABSENT and not words.startswith("n/a")


def _first(cell: Any) -> Any:
    """Return the first value of a list, in JSON or in words, and other cells as they are."""
    if isinstance(cell, str) and cell.strip().startswith("["):
        parts = (part.strip(" '\"") for part in cell.strip().strip("[]").split(","))
        return next((part for part in parts if _VALUE.match(part)), None)
    if isinstance(cell, list):
        return next((one for one in cell if _present(one)), None)
    return cell


def _number(column: str, cell: Any, head: str, source: str) -> float:
    """Return a cell of the column with this head in the unit of our column, NaN where it has none."""
    name, unit = _split(head)
    cell = _first(cell)
    if isinstance(cell, dict):
        cell = f"{cell.get('value')} {cell.get('unit', '')}"
    if not _present(cell):
        return np.nan
    match = _VALUE.match(str(cell).strip().strip("()"))  # rocm-smi's clocks: (2100Mhz)
    if match is None or not math.isfinite(float(match["number"])):
        raise DataError(f"{name} must be a number, got {str(cell)[:40]!r}", source=source)
    stated = (match["unit"] or unit or _USUAL[column]).lower()
    if stated not in _SCALES[column]:
        units = ", ".join(_SCALES[column])
        raise DataError(f"{name} is in {stated!r}: it must be one of {units}", source=source)
    return float(match["number"]) * _SCALES[column][stated]


def _gpu_numbers(rows: list[Row], keys: Mapping[str, str], source: str) -> list[int]:
    """Return each reading's GPU number ("card1" -> 1), 0 without one; names without numbers get one in order."""
    number, name = (
        next((keys[key] for key in names if key in keys), "") for names in (_GPU, _GPU_NAME)
    )
    if name and not number:
        places: dict[str, int] = {}
        return [places.setdefault(str(row.get(name)), len(places)) for row in rows]
    numbers = []
    for cell in (row.get(number) for row in rows):
        match = re.search(r"(?<!\d)\d{1,9}$", "0" if cell is None else str(cell).strip(), re.ASCII)
        if match is None:
            raise DataError(
                f"a reading of GPU {str(cell)[:40]!r}: it must have a number", source=source
            )
        numbers.append(int(match[0]))
    return numbers


def dmon_cells(line: str) -> list[str]:
    """Return the values of a line of `nvidia-smi dmon`, separated by blanks or commas, without its number sign."""
    return [cell for cell in re.split(r"[\s,]++", line.replace("#", " ")) if cell]


def _times(rows: list[Row], keys: Mapping[str, str], source: str) -> tuple[list[int | None], str]:
    """Return the time of each reading in nanoseconds, and its clock."""
    key = next((key for key in _TIME if key in keys), "")
    if not key:
        return [None] * len(rows), "none"
    cells = [str(row.get(keys[key], "")).strip() for row in rows]
    if key in ("gpu_ns", "time_ns"):
        return [_whole(cell, key, source) for cell in cells], "gpu" if key == "gpu_ns" else "epoch"
    if key in _DIGITS:
        return [_nanoseconds(cell, key, _DIGITS[key], source) for cell in cells], "epoch"
    stamp = re.fullmatch(r"([0-9]++)(?:\.[0-9]*)?", cells[0])
    if stamp:
        places = _STAMPS.get(len(stamp[1]), 9)
        if places == 9:
            return [_seconds(cell, source) for cell in cells], "epoch"
        return [_nanoseconds(cell, key, places, source) for cell in cells], "epoch"
    return _moments(cells, source)


def _whole(cell: str, key: str, source: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,19}", cell) or abs(int(cell)) >= 2**63:
        raise DataError(f"{key} must be whole nanoseconds, got {cell[:40]!r}", source=source)
    return int(cell)


def _seconds(cell: str, source: str) -> int:
    """Return seconds since 1970 in nanoseconds, exactly: a float has 200 ns at best."""
    match = re.fullmatch(r"([0-9]{1,10})(?:\.([0-9]{0,9})[0-9]*+)?", cell)
    if match is None or int(match[1]) > _LAST_SECOND:
        raise DataError(
            f"timestamp must be seconds since 1970 as in the first line, got {cell[:40]!r}",
            source=source,
        )
    return int(match[1]) * 10**9 + int((match[2] or "").ljust(9, "0"))


def _nanoseconds(cell: str, name: str, places: int, source: str) -> int:
    """Return a number of a unit in nanoseconds, exactly; `places` of its decimals are nanoseconds."""
    match = re.fullmatch(r"(-?)([0-9]{1,19})(?:\.([0-9]{0,9})[0-9]*+)?", cell)
    value = 2**63
    if match is not None:
        fraction = (match[3] or "")[:places].ljust(places, "0")
        value = int(match[2]) * 10**places + int(fraction or "0")
    if match is None or value >= 2**63:
        raise DataError(f"{name} must be a number like the first, got {cell[:40]!r}", source=source)
    if match[1]:
        return -value
    return value


def _moments(cells: list[str], source: str) -> tuple[list[int | None], str]:
    """Return moments in words in nanoseconds since 1970, and whether they name their zone."""
    moments = [_moment(cell, source) for cell in cells]
    zoned = {moment.tzinfo is not None for moment in moments}
    if len(zoned) > 1:
        raise DataError("some times name a zone and others none", source=source)
    clock = "local time"
    if zoned == {True}:
        clock = "epoch"
    times = list[int | None]()
    for moment in moments:
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        if moment.year not in _YEARS:
            raise DataError(f"timestamp must be since 1970, got {moment:%Y}", source=source)
        whole = moment.replace(microsecond=0)
        times.append(round(whole.timestamp()) * 10**9 + moment.microsecond * 1000)
    return times, clock


def _moment(cell: str, source: str) -> datetime:
    """Return the moment that a cell writes in words."""
    for form in _LOCAL:
        try:
            return datetime.strptime(cell, form)
        except ValueError:
            continue
    try:
        return datetime.fromisoformat(cell)
    except ValueError:
        pass
    raise DataError(
        f"timestamp must be as 2025/08/24 22:19:24.420, or seconds since 1970, got {cell!r}",
        source=source,
    )


def _check_order(table: pd.DataFrame, source: str) -> None:
    """Refuse a log whose time goes backwards."""
    if table.attrs["clock"] == "none":
        return
    difference = table.groupby(["gpu", "component"], sort=False)["time_ns"].diff()
    if (difference < 0).any():
        row = table[difference < 0].iloc[0]
        text = (
            f"a reading of GPU {row['gpu']} at {row['time_ns']} ns comes after a later one: sort "
            "the log by time"
        )
        raise DataError(text, source=source)


def gpus_in_bursts(times_ns: np.ndarray) -> int:
    """Return the size of bursts of readings, 1 where they come one by one.

    Time stamps are in the order of the log. The gaps of one GPU may vary: the sign of m GPUs is
    that every m-th gap is long and all others are short.
    """
    gaps = np.diff(times_ns)
    if len(gaps) and not gaps.any():
        return len(times_ns)
    for count in range(2, _MOST_GPUS + 1):
        between = gaps[count - 1 :: count]
        within = np.delete(gaps, np.s_[count - 1 :: count])
        if len(between) < (2 if within.any() else 1):
            break
        if _CLEAR * np.quantile(within, 1 - _SHARE) < np.quantile(between, _SHARE):
            return count
    return 1


def csv_cells(line: str, delimiter: str = ",") -> list[str]:
    """Return the cells of a line; within brackets, braces and quotes nothing parts them."""
    cells = []
    depth = 0
    quoted = False
    start = 0
    for place, letter in enumerate(line):
        if letter == '"':
            quoted = not quoted
        elif not quoted and letter in "[{":
            depth += 1
        elif not quoted and letter in "]}":
            depth -= 1
        elif letter == delimiter and not quoted and depth <= 0:
            cells.append(line[start:place])
            start = place + 1
    return [cell.strip().strip('"') for cell in (*cells, line[start:])]


def monitor_cells(line: str) -> list[str]:
    """Return the values of `amd-smi monitor`, whose columns, numbers and units are all separated by blanks."""
    return _MONITOR.findall(line)


def whole_lines(
    content: str, cells: Callable[[str], list[str]] = csv_cells
) -> tuple[list[str], int]:
    """Return the lines of a log, the header first, without a truncated last one; and how many that is, 0 or 1.

    The last line is cut off if no line break ends it and it has fewer cells than the one above, or
    its last cell is shorter than those above: ``31`` under ``310.5`` may be any number.
    """
    lines = content.splitlines()
    if content.endswith(("\n", "\r")) or len(lines) < 3:
        return lines, 0
    above = [row for row in map(cells, lines[1:-1][-_LOOKED_AT:]) if row]
    last = cells(lines[-1])
    shortest = min((len(row[-1]) for row in above), default=0)
    cut = bool(above) and (len(last) < len(above[-1]) or len(last[-1]) < shortest)
    if cut:
        return (lines[:-1], 1)
    return (lines, 0)
