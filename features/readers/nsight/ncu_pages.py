"""The two pages of Nsight Compute's CSV as one table: a row for each launch, a column for each metric, base units.

Page `raw` is wide, a row of units below its header and then a row for each launch; page `details` is long, a row for
each metric (and rule) of each launch with its unit. Values are printed for people (see `locale_numbers`, `ncu_units`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ....errors import DataError
from ..base import LINE
from ..files import Csv
from .locale_numbers import AmbiguousNumbersError, decimal_mark, parsed
from .ncu_units import base_unit

IDENTITY = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream",
            "Block Size", "Grid Size", "Device", "CC")  # fmt: skip
"""Columns that say which launch a row is of."""
DISPLAY_NAME = "device__attribute_display_name"
_METRIC = ("Metric Name", "Metric Unit", "Metric Value")
_NVTX = "Domain:"  # columns of NVTX ranges
#: `--print-metric-instances values` puts those of single units behind the value: "12 (4; 8)".
_INSTANCES = re.compile(r"\s+\(.*\)$")
_LOOKS_LIKE_A_NUMBER = re.compile(r"^[+-]?\d")


@dataclass(frozen=True)
class Launches:
    """What one file says of its launches.

    Attributes
    ----------
    identity : DataFrame
        `IDENTITY` as text, "" where the file does not say, the device's name in `DISPLAY_NAME`, and the 1-based line
        (LINE) within the CSV; one row for each launch, in the order of the file.
    metrics : dict of str to ndarray of float
        Metric -> its value for each launch in base units, NaN where it has none.
    units : dict of str to (str, float)
        Base unit of each metric, and the largest factor by which a printed unit was scaled to it.
    foreign, unreadable, repeated : int
        Lines that are of no launch; values that look like numbers and are none; values of a metric that a launch has
        already.
    """

    identity: pd.DataFrame
    metrics: dict[str, np.ndarray] = field(default_factory=dict)
    units: dict[str, tuple[str, float]] = field(default_factory=dict)
    foreign: int = 0
    unreadable: int = 0
    repeated: int = 0


def launches(csv: Csv, source: str) -> Launches:
    """Return the launches of either page.

    Raises
    ------
    DataError
        A summary over launches, a column that is missing, or numbers whose decimal mark nobody can tell.
    """
    table = pd.DataFrame(csv.columns, dtype=object)
    if "ID" not in table and "Process ID" in table:
        raise DataError("a summary without single launches: export it without --print-summary", source=source)
    long = "Metric Name" in table
    lacking = [name for name in ("ID", "Kernel Name", *(_METRIC if long else ())) if name not in table]
    if lacking:
        raise DataError(f"no column {lacking[0]!r}: not as ncu --csv writes it", source=source)
    table[LINE] = csv.lines
    table = table[table["ID"].ne("ID")]  # the header again, where several processes wrote one file
    try:
        return _details(table, len(csv.overlong)) if long else _raw(table, len(csv.overlong), source)
    except AmbiguousNumbersError as error:
        hint = "export it once more under LC_ALL=C"
        raise DataError(f"cannot tell decimal marks from thousands: {error}; {hint}", source=source) from error


def _details(table: pd.DataFrame, foreign: int) -> Launches:
    """Return the launches of page `details`."""
    own = table["ID"].str.fullmatch(r"\d+").astype(bool)
    foreign += int((~own).sum())
    table = table[own]
    key = _column(table, "Process ID") + " " + table["ID"]
    codes, _ = pd.factorize(key)
    identity = _identity(table[~pd.Series(codes, index=table.index).duplicated()])
    values, unreadable = _numbers(table["Metric Value"].to_numpy())
    rows = pd.DataFrame({"launch": codes, "name": table["Metric Name"].to_numpy(), "value": values})
    rows["section"] = _column(table, "Section Name").to_numpy()
    rows["unit"], rows["factor"] = _units(table["Metric Unit"])
    rows = rows[rows["name"].ne("") & rows["value"].notna()]
    rows["value"] *= rows["factor"]
    rows = _told_apart(rows)
    again = rows.duplicated(["launch", "name"])
    repeated = int(again.sum())
    rows = rows[~again]
    metrics: dict[str, np.ndarray] = {}
    units: dict[str, tuple[str, float]] = {}
    for name, own_rows in rows.groupby("name", sort=False):
        column = np.full(len(identity), np.nan)
        column[own_rows["launch"].to_numpy()] = own_rows["value"].to_numpy()
        metrics[str(name)] = column
        units[str(name)] = (str(own_rows["unit"].iloc[0]), float(own_rows["factor"].max()))
    return Launches(identity, metrics, units, foreign, unreadable, repeated)


def _told_apart(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the metrics without equal repeats; one label for two things gets its unit, else its section.

    "Memory Throughput" is a share in one section and a rate in another.
    """
    by_unit = rows.groupby("name", sort=False)["unit"].transform("nunique").gt(1)
    rows = rows.assign(name=rows["name"].mask(by_unit, rows["name"] + " [" + rows["unit"] + "]"))
    rows = rows.drop_duplicates(["launch", "name", "value"])
    clashing = rows["name"].isin(rows.loc[rows.duplicated(["launch", "name"]), "name"])
    return rows.assign(name=rows["name"].mask(clashing, rows["section"] + ": " + rows["name"]))


def _raw(table: pd.DataFrame, foreign: int, source: str) -> Launches:
    """Return the launches of page `raw`."""
    own = table["ID"].str.fullmatch(r"\d+").astype(bool)
    below = table["ID"].eq("") & table["Kernel Name"].eq("")
    foreign += int((~own & ~below).sum())
    names = [name for name in map(str, table.columns) if name not in (*IDENTITY, LINE) and _NVTX not in name]
    printed = table.loc[below, names].drop_duplicates()
    if len(printed) > 1:
        raise DataError("units that change within the file: cut it into one file for each export", source=source)
    table = table[own]
    values, unreadable = _numbers(table[names].to_numpy().ravel())
    matrix = values.reshape(len(table), len(names))
    units, factors = _units(printed.iloc[0]) if len(printed) else ([""] * len(names), np.ones(len(names)))
    metrics: dict[str, np.ndarray] = {}
    found: dict[str, tuple[str, float]] = {}
    for position, name in enumerate(names):
        if not np.isnan(matrix[:, position]).all():
            with np.errstate(over="ignore"):
                metrics[name] = matrix[:, position] * factors[position]
            found[name] = (units[position], float(factors[position]))
    return Launches(_identity(table), metrics, found, foreign, unreadable)


def _identity(table: pd.DataFrame) -> pd.DataFrame:
    columns = {name: _column(table, name) for name in (*IDENTITY, DISPLAY_NAME)}
    return pd.DataFrame({**columns, LINE: table[LINE]}).reset_index(drop=True)


def _column(table: pd.DataFrame, name: str) -> pd.Series:
    return table[name] if name in table else pd.Series("", index=table.index, dtype=object)


def _units(printed: pd.Series) -> tuple[list[str], np.ndarray]:
    """Return the base unit of each printed unit, and the factor to it."""
    codes, words = pd.factorize(printed)
    known = [base_unit(str(word)) for word in words]
    return [known[code][0] for code in codes], np.array([known[code][1] for code in codes], dtype=float)


def _numbers(words: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the number that each word is, NaN for what is none, and how many of these look like one."""
    codes, distinct = pd.factorize(words)
    plain = [_INSTANCES.sub("", str(word).strip()) for word in distinct]
    mark = decimal_mark(plain)
    found = [parsed(word, mark) for word in plain]
    odd = np.array([n is None and bool(_LOOKS_LIKE_A_NUMBER.match(w)) for n, w in zip(found, plain, strict=True)], bool)
    values = np.array([np.nan if number is None else number for number in found], dtype=float)
    if not len(codes):
        return np.empty(0), 0
    return values[codes], int(odd[codes].sum())
