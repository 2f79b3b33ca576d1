"""Files and folders beside the place of a result, until they take it; what a killed run leaves of them is removed.

Their names say that they are flopcast's (``.table.csv.flopcast-`` and 32 hexadecimal digits), a
lock on each that its process lives: the next run that writes into the same folder removes those of
its user that nobody holds.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

if sys.platform != "win32":  # where nothing is ever known to be left behind
    import fcntl

_NAME = re.compile(r"\.(.+)\.flopcast-[0-9a-f]{32}", re.DOTALL)
# RENAME_EXCHANGE and AT_FDCWD of Linux
_EXCHANGE = 2
_HERE = -100
_PREVIOUS = "previous"


@contextmanager
def staged(place: Path, *, folder: bool = False) -> Generator[Path]:
    """Yield a new file, or folder, beside ``place``, which must have a parent; at the end it is removed if still there.

    A folder is kept where the previous result is still in it, because it could not return to its
    place.
    """
    sweep(place.parent)
    aside, lock = _made(place, folder)
    try:
        yield aside
    finally:
        with suppress(OSError):
            _remove(aside, place)
        os.close(lock)


@contextmanager
def temporary_folder() -> Generator[Path]:
    """Yield a folder of the system's temporary files that is removed at the end, or by a later run."""
    with staged(Path(tempfile.gettempdir()) / "flopcast", folder=True) as folder:
        yield folder


def put_folder(aside: Path, new: Path, place: Path) -> None:
    """Put the folder ``new`` inside ``aside`` in the place of another, at once; what else stood in that one stays."""
    if place.exists():
        written = {item.name for item in new.iterdir()}
        for item in place.iterdir():
            if item.name not in written:
                _linked(item, new / item.name)
    else:
        with suppress(OSError):  # another process was first
            new.rename(place)
            return
    if _exchanged(new, place):
        return
    try:
        place.rename(aside / _PREVIOUS)
        new.rename(place)
    except BaseException:
        if not place.exists():
            (aside / _PREVIOUS).rename(place)
        raise


def remove_folder(folder: Path) -> None:
    """Remove a folder; whatever happens on the way, it is there whole or not at all."""
    with staged(folder, folder=True) as aside:
        folder.rename(aside / "old")


def sweep(folder: Path) -> None:
    """Remove what killed runs of this user have left in a folder; a previous result returns to its place."""
    if sys.platform == "win32":
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name = _NAME.fullmatch(entry.name)
            if name:
                with suppress(OSError):
                    _remove_if_left(Path(entry.path), folder / name[1])


def _made(place: Path, folder: bool) -> tuple[Path, int]:
    """Return a new file or folder and its lock; if a sweep comes between both, another one."""
    while True:
        aside = place.with_name(f".{place.name}.flopcast-{uuid4().hex}")
        if folder:
            aside.mkdir(0o700)
        else:
            aside.touch(exist_ok=False)
        with suppress(FileNotFoundError):
            lock = os.open(aside, os.O_RDONLY)
            if sys.platform != "win32":
                with suppress(OSError):  # no locks on this file system: as good as without them
                    fcntl.flock(lock, fcntl.LOCK_EX)
            if aside.exists():
                return aside, lock
            os.close(lock)


def _remove_if_left(aside: Path, place: Path) -> None:
    """Remove what a process of this user made, unless the process lives and holds it."""
    descriptor = os.open(aside, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        ours = status.st_uid == os.geteuid() and (
            stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
        )
        if ours:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(aside, place)
    finally:
        os.close(descriptor)


def _remove(aside: Path, place: Path) -> None:
    if not aside.is_dir():
        aside.unlink()
        return
    if (aside / _PREVIOUS).exists() and not place.exists():
        (aside / _PREVIOUS).rename(place)
    shutil.rmtree(aside)


def _linked(source: Path, target: Path) -> None:
    """Give a file or folder a second place, its files by hard links where the file system has them."""

    def link(one: str, other: str) -> None:
        try:
            os.link(one, other, follow_symlinks=False)
        except OSError:
            shutil.copy2(one, other, follow_symlinks=False)

    if source.is_dir() and not source.is_symlink():
        shutil.copytree(source, target, symlinks=True, copy_function=link)
    else:
        link(str(source), str(target))


def _exchanged(one: Path, other: Path) -> bool:
    """Whether two folders have changed places, at once; only Linux can."""
    if sys.platform != "linux":
        return False
    call = getattr(ctypes.CDLL(None), "renameat2", None)
    return (
        call is not None
        and call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0
    )
