"""Results that appear whole or not at all: written beside their place, then renamed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
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
def whole_file(out: Path) -> Iterator[Path]:
    """Give a hidden file beside ``out`` to write; rename it to ``out`` when the block ends well, else remove it.

    Raises
    ------
    DataError
        If ``out`` cannot be written.
    """
    path = out.absolute().with_name(f".{out.name}.{uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield path
        os.replace(path, out)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", source=str(out)) from error
    finally:
        with suppress(OSError):
            path.unlink()


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """Give a fresh folder beside ``out`` to write into; it takes the place of ``out`` when the block ends well.

    Whatever happens on the way, ``out`` holds either the previous result or the new one, and never a mix. What the
    user has put beside the files of a previous result stays.

    Parameters
    ----------
    out : Path
        Where the result shall be; parents are made, an earlier result is replaced (refuse a folder that holds
        something else first: `check_output`).

    Yields
    ------
    Path
        The folder to write into.

    Raises
    ------
    DataError
        If ``out`` cannot be written.
    """
    folder = Path(out).resolve()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _beside(folder) as aside:
            (aside / "new").mkdir()
            yield aside / "new"
            _swap(aside / "new", folder, aside / "previous")
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", source=str(out)) from error


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """Yield a hidden folder on the same file system; it is removed unless a previous result is still in it."""
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        yield aside
    finally:
        if not (aside / "previous").exists():
            shutil.rmtree(aside, ignore_errors=True)


def _swap(new: Path, folder: Path, previous: Path) -> None:
    """Put ``new`` in the place of ``folder``; on any failure between the two renames the previous result returns."""
    written = {item.name for item in new.iterdir()}
    if not folder.exists():
        new.rename(folder)
        return
    try:
        folder.rename(previous)
        new.rename(folder)
    except BaseException:
        if previous.exists() and not folder.exists():
            previous.rename(folder)
        raise
    for item in sorted(previous.iterdir()):
        if item.name not in written:
            item.rename(folder / item.name)
    shutil.rmtree(previous)
