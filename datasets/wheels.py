"""Tables out of a wheel: pip downloads it, its SHA-256 is compared, its tables are unzipped; nothing in it is run."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
import zlib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from ..errors import DataError


class UnavailableError(DataError):
    """What should be fetched cannot be had from here; it may be had from elsewhere."""


@dataclass(frozen=True)
class Wheel:
    """Files of a wheel.

    Attributes
    ----------
    project, version, file, sha256 : str
        What it is called in a package index, and the one file that is taken.
    licence : str
        What it is under, as SPDX writes it.
    members : tuple of str
        Patterns of the names of the files, of which each must find one; ``*`` stands for folders too.
    folder : str
        Where the tables are in it.
    limit : int
        Bytes of these files that are not exceeded.
    tags : tuple of str
        Words of pip that choose the file where there are several. It is never run, so it need not fit this machine.
    """

    project: str
    version: str
    file: str
    sha256: str
    licence: str
    members: tuple[str, ...]
    folder: str
    limit: int
    tags: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """The version."""
        return self.version

    @property
    def download(self) -> str:
        """The command that brings the file."""
        return " ".join(("pip download --no-deps", *self.tags, f"{self.project}=={self.version}"))


def put(wheel: Wheel, folder: Path, given: Path | None) -> None:
    """Unzip the files of a wheel into an empty folder.

    Parameters
    ----------
    wheel : Wheel
    folder : Path
    given : Path or None
        The file, where it was brought by hand; else pip downloads it from the index of its own settings.

    Raises
    ------
    UnavailableError
        It cannot be downloaded.
    DataError
        It is another file, or does not hold what it should.
    """
    if given is not None and not given.is_file():
        raise DataError("no such file", source=str(given))
    aside = folder / "download"
    aside.mkdir()
    file = given or _downloaded(wheel, aside)
    with file.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != wheel.sha256:
        raise DataError(f"is not {wheel.file}: its SHA-256 is {found}, not {wheel.sha256}", source=str(file))
    try:
        with zipfile.ZipFile(file) as archive:
            for member in _members(wheel, archive, file):
                place = folder / member.filename
                place.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as packed, place.open("xb") as out:
                    shutil.copyfileobj(packed, out)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise DataError(f"cannot be unzipped ({error})", source=str(file)) from error
    shutil.rmtree(aside)


def _downloaded(wheel: Wheel, folder: Path) -> Path:
    """Let pip put the file into a folder; its settings, of files and variables, are the user's."""
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{wheel.project}=={wheel.version} --hash=sha256:{wheel.sha256}\n", encoding="utf-8")
    pip = (sys.executable, "-P", "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-input")
    only = ("--retries=1", "--no-deps", "--only-binary=:all:", "--require-hashes", *wheel.tags)
    done = subprocess.run(
        (*pip, *only, f"--dest={folder}", f"--requirement={wanted}"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ") or "No module named" in line]
        told = lines[0].removeprefix("ERROR: ") if lines else f"pip ended with {done.returncode}"
        kind = DataError if "DO NOT MATCH THE HASHES" in told else UnavailableError
        raise kind(told, source="pip")
    return folder / wheel.file


def _members(wheel: Wheel, archive: zipfile.ZipFile, file: Path) -> list[zipfile.ZipInfo]:
    """Return the files to unzip, after all that may be wrong with them has been looked for."""
    for name in archive.namelist():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name:
            raise DataError(f"holds a file outside its folder: {name!r}", source=str(file))
    members = [one for one in archive.infolist() if any(fnmatchcase(one.filename, name) for name in wheel.members)]
    for pattern in wheel.members:
        if not any(fnmatchcase(one.filename, pattern) for one in members):
            raise DataError(f"holds no {pattern}", source=str(file))
    if (size := sum(one.file_size for one in members)) > wheel.limit:
        raise DataError(f"holds {size:,} bytes, more than {wheel.limit:,}", source=str(file))
    return members
