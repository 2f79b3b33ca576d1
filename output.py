"""Folders of results that appear whole or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from .errors import DataError


def check_output(out: Path, names: Iterable[str]) -> None:
    """Refuse ``out`` as the place of a result made of ``names``; call it before the work, not after.

    Parameters
    ----------
    out : Path
        The folder the user asked for; it need not exist.
    names : iterable of str
        Files and folders the result consists of. A folder that holds nothing else is an earlier result and will be
        replaced; one with other files in it is somebody's data.

    Raises
    ------
    DataError
        If ``out`` is a file or holds other files.
    """
    if not out.exists():
        return
    if not out.is_dir():
        raise DataError("is a file: choose another folder with --out", source=str(out))
    if foreign := sorted({item.name for item in out.iterdir()} - set(names)):
        raise DataError(f"holds other files ({', '.join(foreign[:5])}): choose another with --out", source=str(out))


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """Give a fresh folder beside ``out`` to write into; rename it to ``out`` when the block ends well, else remove it.

    Parameters
    ----------
    out : Path
        Where the results shall be; parents are made, an earlier result is replaced.

    Yields
    ------
    Path
        The folder to write into.

    Raises
    ------
    DataError
        If ``out`` is refused by `check_output`, or cannot be written.
    """
    out = out.absolute()
    beside, old = (out.with_name(f".{out.name}.{uuid4().hex}.{role}") for role in ("new", "old"))
    try:
        beside.mkdir(parents=True)
        yield beside
        check_output(out, {item.name for item in beside.iterdir()})
        if out.exists():
            out.rename(old)
        try:
            beside.rename(out)
        except OSError:
            if old.exists():
                old.rename(out)
            raise
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", source=str(out)) from error
    finally:
        for leftover in (beside, old):
            shutil.rmtree(leftover, ignore_errors=True)
