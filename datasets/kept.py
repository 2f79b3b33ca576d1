"""What the cache of public tables holds: a digest of each file, kept beside the folder and held against it when read.

A file whose size and times are those of the record is not read again; who changes its content
changes them, or at least the time of the change of its inode, which nobody sets.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import msgspec

from ..output import whole_file


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file as it was unpacked: bytes, times of the last change of content and of inode in ns, and SHA-256."""

    bytes: int
    changed_ns: int
    inode_changed_ns: int
    sha256: str


def record(place: Path) -> None:
    """Write the digests of all files of a folder beside it."""
    entries = {name: _entry(path) for name, path in _files(place).items()}
    with whole_file(_list_of(place)) as out:
        out.write_text(json.dumps(msgspec.to_builtins(entries), indent=1), encoding="utf-8")


def problem(place: Path) -> str:
    """Return what is wrong with a folder of the cache, "" where it holds what was unpacked."""
    try:
        recorded = msgspec.json.decode(_list_of(place).read_bytes(), type=dict[str, Entry])
    except FileNotFoundError:
        return f"{place} has no digests"
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        return f"{_list_of(place)} cannot be read ({error})"
    files = _files(place)
    missing = sorted(set(recorded) - set(files))
    if missing:
        return f"{place / missing[0]} is missing"
    added = sorted(set(files) - set(recorded))
    if added:
        return f"{files[added[0]]} was added"
    touched = False
    for name, entry in recorded.items():
        stated = (entry.bytes, entry.changed_ns, entry.inode_changed_ns)
        if _stamp(files[name]) == stated:
            continue
        if _entry(files[name]).sha256 != entry.sha256:
            return f"{files[name]} was changed"
        touched = True
    if touched and os.access(place.parent, os.W_OK):
        record(place)  # so that the next call reads none of them
    return ""


def _list_of(place: Path) -> Path:
    return place.with_name(f"{place.name}.json")


def _files(place: Path) -> dict[str, Path]:
    """Return all that is no folder, by path in the folder."""
    files = dict[str, Path]()
    for inner, folders, names in os.walk(place):
        links = [name for name in folders if os.path.islink(os.path.join(inner, name))]
        for name in (*names, *links):
            path = Path(inner, name)
            files[path.relative_to(place).as_posix()] = path
    return files


def _stamp(path: Path) -> tuple[int, int, int]:
    status = path.lstat()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _entry(path: Path) -> Entry:
    if path.is_symlink() or not path.is_file():
        return Entry(*_stamp(path), sha256="no plain file")
    with path.open("rb") as file:
        return Entry(*_stamp(path), sha256=hashlib.file_digest(file, "sha256").hexdigest())
