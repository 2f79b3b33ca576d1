"""The device a file names by its gfx id and number of compute units, or in words."""

from __future__ import annotations

from functools import cache

from ...errors import UnknownGPUError
from ...hardware import GPU, all_gpus, find, find_gfx


@cache
def device_of(gfx: str, cus: int | None, stated: str = "") -> tuple[str, str]:
    """Return the device with a gfx id and number of compute units, and a remark ("" where there is none).

    Parameters
    ----------
    gfx : str
        Architecture, e.g. "gfx942".
    cus : int or None
        Compute units that the measured device showed; None if the file does not say.
    stated : str, default=""
        What the user calls the device: it decides between those that look the same.

    Returns
    -------
    tuple of str
        The catalogue's name, or "gfx1250 (96 CUs)" where it has none; and the assumption made, if any.
    """
    count = "" if cus is None else f" ({cus} CUs)"
    try:
        name = find_gfx(gfx, cus).name
    except UnknownGPUError:
        return f"{gfx}{count}", ""  # `canonical_device` remarks on every name that the catalogue lacks
    same = [gpu.name for gpu in all_gpus() if gpu.gfx == gfx and cus in (None, gpu.cus) and gpu.name != name]
    user = known_gpu(stated)
    if not same or (user is not None and user.name in (name, *same)):
        return (user.name if same and user else name), ""
    return name, f"{gfx}{count} is read as {name}; {' and '.join(same)} would look the same"


@cache
def canonical_device(word: str) -> tuple[str, str]:
    """Return the catalogue's name of a device that a file or a user names in words, and a remark.

    A device that the catalogue does not have (a CPU, a laboratory sample) keeps its own name.
    """
    if not word:
        return "", ""
    gpu = known_gpu(word)
    return (gpu.name, "") if gpu else (word, f"device {word!r} is not in the catalogue: kept under that name")


def known_gpu(word: str, *, stated: bool = False) -> GPU | None:
    """Return the GPU that answers to a word, None where none does.

    Parameters
    ----------
    word : str
        A name or an alias. `find` would read a TOML file of that name: data do not say which file to open, so a word
        of theirs that looks like one is no GPU.
    stated : bool, default=False
        The word is the user's own, who may name a TOML file.

    Raises
    ------
    DataError
        The file that the user names describes no GPU.
    """
    if not word or (not stated and word.casefold().endswith(".toml")):
        return None
    try:
        return find(word)
    except UnknownGPUError:
        return None
