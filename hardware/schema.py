"""The one door for descriptions of GPUs: a table of TOML or JSON in, checked attributes of `GPU` out."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import DataError
from .figures import FIGURES, LISTS, PEAK_TABLES, PEAKS, WORDS, Figure, peak_path


def read_table(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Check the description of one GPU and return it as keyword arguments of `GPU`.

    Parameters
    ----------
    table : mapping
        The keys of hardware/gpus.toml; peaks in the tables ``peak_tflops`` and ``peak_tops``.
    where : str
        The file the table comes from, for messages.

    Returns
    -------
    dict
        Only the keys that were given; the peaks of both tables under ``peaks``, by ``{dtype}_{unit}``.

    Raises
    ------
    DataError
        For an unknown key, a wrong type, or a figure that is not above zero and finite; names the file and the key.
    """
    fields: dict[str, Any] = {}
    for key, value in table.items():
        if key in PEAK_TABLES:
            fields.setdefault("peaks", {}).update(_read_peaks(key, value, where))
        elif key in FIGURES:
            fields[key] = _read_figure(key, FIGURES[key], value, where)
        elif key in WORDS:
            fields[key] = _read_text(key, value, where)
        elif key in LISTS:
            fields[key] = _read_list(key, value, where)
        else:
            raise _unknown(key, (*WORDS, *LISTS, *PEAK_TABLES, *FIGURES), where)
    return fields


def write_table(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes of `GPU` as `read_table` takes them, without what is empty or not published."""
    table: dict[str, Any] = {}
    for key, value in fields.items():
        if key == "peaks":
            for name, figure in value.items():
                outer, inner = peak_path(name).split(".")
                table.setdefault(outer, {})[inner] = figure
        elif value not in (None, "", ()):
            table[key] = list(value) if isinstance(value, tuple) else value
    return table


def _read_peaks(outer: str, value: object, where: str) -> dict[str, float]:
    """Return the peaks of one of the two tables."""
    if not isinstance(value, Mapping):
        raise DataError(f"{outer} must be a table such as `{outer}.{_keys_of(outer)[0]} = ...`", source=where)
    peaks: dict[str, float] = {}
    for key, number in value.items():
        if key not in PEAKS:
            raise _unknown(f"{outer}.{key}", [f"{outer}.{known}" for known in _keys_of(outer)], where)
        if peak_path(key) != f"{outer}.{key}":
            raise DataError(f"{outer}.{key} counts in {PEAKS[key].unit}: write {peak_path(key)}", source=where)
        peaks[key] = float(_read_figure(f"{outer}.{key}", PEAKS[key], number, where))
    return peaks


def _keys_of(outer: str) -> list[str]:
    return [key for key in PEAKS if peak_path(key).startswith(f"{outer}.")]


def _read_figure(key: str, figure: Figure, value: object, where: str) -> float | int:
    """Return a figure above zero; a whole number where it is a count."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"{key} must be a number ({figure}), got {value!r}", source=where)
    if not (math.isfinite(value) and value > 0):
        hint = "leave the key out where it is not published"
        raise DataError(f"{key} must be above 0 and finite ({figure}), got {value!r}: {hint}", source=where)
    if figure.kind == "real":
        return float(value)
    if value != int(value):
        raise DataError(f"{key} must be a whole number ({figure}), got {value!r}", source=where)
    return int(value)


def _read_text(key: str, value: object, where: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{key} must be a text in quotes, got {value!r}", source=where)
    if key == "name" and not value.strip():
        raise DataError("name must not be empty", source=where)
    return value


def _read_list(key: str, value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise DataError(f"{key} must be a list of texts, got {value!r}", source=where)
    return tuple(value)


def _unknown(key: str, known: Iterable[str], where: str) -> DataError:
    """Return the error for a key nobody knows, with the nearest that exist."""
    close = difflib.get_close_matches(key, known, n=2, cutoff=0.6)
    hint = f"did you mean {' or '.join(close)}?" if close else "the keys are those of hardware/gpus.toml"
    return DataError(f"unknown key {key}: {hint}", source=where)
