"""Numbers with a unit, as people write limits, rates and prices: ``2s``, ``50ms``, ``4/s``, ``$2.5/h``.

A bare number is in the unit that the parameter states: milliseconds, requests a second, money for
an hour or a kilowatt hour.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ..errors import ParameterError, UnknownGPUError
from ..hardware import GPU, find, word_of

MILLISECONDS: Final = {"": 1.0, "ms": 1.0, "s": 1e3, "min": 6e4, "h": 3.6e6, "us": 1e-3, "µs": 1e-3}
PER_SECOND: Final = {"": 1.0, "/s": 1.0, "/min": 1 / 60, "/h": 1 / 3600}
PER_HOUR: Final = {"": 1.0, "/h": 1.0, "/min": 60.0, "/s": 3600.0}
PER_KWH: Final = {"": 1.0, "/kWh": 1.0, "/MWh": 1e-3}
# of any quantity in its base unit: 31 years in ms, and a request in 31 years
_LEAST: Final = 1e-9
_MOST: Final = 1e12
_NUMBER: Final = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)\s*(.*)", re.IGNORECASE)
_CURRENCY: Final = re.compile(r"^[$€£¥]|[$€£¥](?=\s*(?:/|$))|[A-Z]{3}\b")


def quantity(parameter: str, given: object, units: Mapping[str, float]) -> float:
    """Return a number with an optional unit, converted to the base unit; it must be positive and finite.

    >>> quantity("ttft", "2s", MILLISECONDS), quantity("tpot", 50, MILLISECONDS), quantity("rate", "4/s", PER_SECOND)
    (2000.0, 50.0, 4.0)
    """
    match = _NUMBER.fullmatch(str(given).strip())
    if match:
        factor = units.get(match[2].replace(" ", ""))
    else:
        factor = None
    if match is None or factor is None:
        value = math.nan
    else:
        value = float(match[1]) * factor
    if not 0 < value < math.inf:
        named = ", ".join(f"5{unit}" for unit in units if unit)
        if named:
            units_too = f", with or without its unit ({named})"
        else:
            units_too = ""
        raise ParameterError(parameter, f"must be a number above 0{units_too}, got {given!r}")
    if not _LEAST <= value <= _MOST:
        base = next((unit for unit, factor in units.items() if unit and factor == 1.0), "")
        reach = f"from {_LEAST:g}{base} to {_MOST:g}{base}"
        raise ParameterError(parameter, f"must be {reach}, got {given!r}")
    return value


@dataclass(frozen=True)
class Prices:
    """Prices of GPUs for an hour.

    Attributes
    ----------
    each : mapping of str to float
        By the name of the GPU; "" is any other. Empty: there are none.
    currency : str
        Of all of them, "" where none is named.
    """

    each: Mapping[str, float] = field(default_factory=dict)
    currency: str = ""

    def __bool__(self) -> bool:
        return bool(self.each)

    def of(self, gpu: str) -> float:
        """Return the price of a GPU for an hour; NaN without one."""
        return self.each.get(gpu, self.each.get("", math.nan))

    def titled(self, head: str) -> str:
        """Return the head of a column, with the currency if there is one."""
        if self.currency:
            return f"{head}, {self.currency}"
        return head


def prices(given: object) -> Prices:
    """Return the price of a GPU for an hour: one of any, or one of each.

    >>> prices("MI300X=2.5/h,H200=3.5").each, prices("$2"), prices({"MI300X": 2.5}).of("H200 SXM")
    ({'MI300X': 2.5, 'H200 SXM': 3.5}, Prices(each={'': 2.0}, currency='$'), nan)
    """
    if given is None:
        return Prices()
    if isinstance(given, Mapping):
        named = [(str(word_of(name)), str(value)) for name, value in given.items()]
    else:
        parts = [part.rpartition("=") for part in str(given).split(",") if part.strip()]
        named = [(name.strip(), value.strip()) for name, _, value in parts]
    if not named or ("" in dict(named) and len(named) > 1):
        raise ParameterError(
            "price", f"must be a price an hour, as in 2.5 or MI300X=2.5,H200=3.5, got {given!r}"
        )
    by_name = dict[str, float]()
    currencies = set[str]()
    for name, text in named:
        by_name[_named(name)], currency = _money("price", text, PER_HOUR)
        currencies.add(currency)
    if len(currencies) > 1:
        raise ParameterError("price", f"must be in one currency, got {given!r}")
    return Prices(by_name, currencies.pop())


@dataclass(frozen=True)
class Electricity:
    """Price of electricity.

    Attributes
    ----------
    per_kwh : float
        Of a kilowatt hour; NaN where there is none.
    currency : str
        "" where none is named.
    """

    per_kwh: float = math.nan
    currency: str = ""

    def __bool__(self) -> bool:
        return not math.isnan(self.per_kwh)


def electricity(given: object, price: Prices) -> Electricity:
    """Return the price of a kilowatt hour, in the currency of the price of GPUs where it names none.

    Raises ParameterError: it is no such price, or in another currency than that of GPUs.

    >>> electricity("$0.12/kWh", Prices()), electricity(0.12, prices("€2/h")).currency
    (Electricity(per_kwh=0.12, currency='$'), '€')
    """
    if given is None:
        return Electricity()
    per_kwh, currency = _money("electricity", str(given), PER_KWH)
    if currency and price.currency and currency != price.currency:
        raise ParameterError(
            "electricity",
            f"must be in the currency of `price`, {price.currency}, got {given!r}",
        )
    return Electricity(per_kwh, currency or price.currency)


def _money(parameter: str, text: str, units: Mapping[str, float]) -> tuple[float, str]:
    """Return a price in the base unit, and its currency, "" if it names none."""
    currency = _CURRENCY.search(text)
    value = quantity(parameter, _CURRENCY.sub("", text).strip(), units)
    if currency is None:
        return value, ""
    return value, currency[0]


def _named(name: str) -> str:
    """Return the name of a GPU of the catalogue, or the word as it is: that of a GPU of the user."""
    try:
        if name:
            return find(name).name
        return ""
    except UnknownGPUError:
        return name


def check_priced(priced: Prices, gpus: Iterable[GPU]) -> Prices:
    """Return prices; if one GPU has a price, all must.

    Raises ParameterError: a GPU has none. Raises UnknownGPUError: a price is of no GPU of the catalogue, and
    of none of these.
    """
    gpus = list(gpus)
    for name in set(priced.each) - {"", *(gpu.name for gpu in gpus)}:
        find(name)
    lacking = [gpu.name for gpu in gpus if priced and math.isnan(priced.of(gpu.name))]
    if lacking:
        raise ParameterError("price", f"must name every GPU, has none of {', '.join(lacking)}")
    return priced
