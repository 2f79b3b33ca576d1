"""Public tables to try: brought once from those who measured them, then taken from a cache.

A `Source` is a repository at a commit, a wheel in a package index, or both: the repository is asked
first, and the wheel is taken where that cannot be had. A commit's name is the hash of every file in
it, and a wheel's SHA-256 is pinned: what arrives is what stood there when it was pinned, or
nothing. git and pip know the user's proxies, pip the user's index. Of a wheel the tables are
unzipped; nothing in it is run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import zipfile
import zlib
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Final

from ..errors import DataError, ParameterError
from ..output import whole_folder
from ..staging import remove_folder
from ..values import Beside, Folder
from . import kept


class UnavailableError(DataError):
    """What should be fetched cannot be had from here; it may be had from elsewhere."""


@dataclass(frozen=True)
class Wheel:
    """Files of a wheel."""

    # what it is called in a package index, and the one file that is taken
    project: str
    version: str
    file: str
    sha256: str
    licence: str  # what it is under, as SPDX writes it
    # patterns of the names of the files, of which each must find one; ``*`` stands for folders too
    members: tuple[str, ...]
    folder: str  # where the tables are in it
    limit: int  # bytes of these files that are not exceeded
    # words of pip that choose the file where there are several. It is never run, so it need not fit
    # this machine.
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
    """Unzip the files of a wheel, ``given`` by hand or downloaded by pip with its settings, to an empty folder.

    Raises UnavailableError: it cannot be downloaded; DataError: it is another file, or does not
    hold what it should.
    """
    aside = folder / "download"
    aside.mkdir()
    file = given or _downloaded(wheel, aside)
    check_wheel(wheel, file)
    try:
        with zipfile.ZipFile(file) as archive:
            for member in _members(wheel, archive, file):
                place = folder / member.filename
                place.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as packed, place.open("xb") as out:
                    shutil.copyfileobj(packed, out)
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        NotImplementedError,
        RuntimeError,
        ValueError,
    ) as error:
        raise DataError(f"cannot be unzipped ({error})", source=str(file)) from error
    shutil.rmtree(aside)


def check_wheel(wheel: Wheel, file: Path) -> None:
    """Refuse a file that is not the wheel that is pinned."""
    if not file.is_file():
        raise DataError("no such file", source=str(file))
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    if digest != wheel.sha256:
        raise DataError(
            f"is not {wheel.file}: its SHA-256 is {digest}, not {wheel.sha256}", source=str(file)
        )


def _downloaded(wheel: Wheel, folder: Path) -> Path:
    """Let pip put the file into a folder; its settings, of files and variables, are the user's."""
    wanted = folder / "wanted.txt"
    wanted.write_text(
        f"{wheel.project}=={wheel.version} --hash=sha256:{wheel.sha256}\n", encoding="utf-8"
    )
    pip = (
        sys.executable,
        "-P",
        "-m",
        "pip",
        "download",
        "-q",
        "--disable-pip-version-check",
        "--no-input",
    )
    only = ("--retries=1", "--no-deps", "--only-binary=:all:", "--require-hashes", *wheel.tags)
    done = subprocess.run(
        (*pip, *only, f"--dest={folder}", f"--requirement={wanted}"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode:
        lines = [
            line
            for line in done.stderr.splitlines()
            if line.startswith("ERROR: ") or "No module named" in line
        ]
        if lines:
            problem = lines[0].removeprefix("ERROR: ")
        else:
            problem = f"pip ended with {done.returncode}"
        if "DO NOT MATCH THE HASHES" in problem:
            kind = DataError
        else:
            kind = UnavailableError
        raise kind(problem, source="pip")
    return folder / wheel.file


def _members(wheel: Wheel, archive: zipfile.ZipFile, file: Path) -> list[zipfile.ZipInfo]:
    """Return the files to unzip, after all that may be wrong with them has been looked for."""
    for name in archive.namelist():
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name:
            raise DataError(f"holds a file outside its folder: {name!r}", source=str(file))
    members = []
    for one in archive.infolist():
        if any(fnmatchcase(one.filename, name) for name in wheel.members):
            members.append(one)
    for pattern in wheel.members:
        if not any(fnmatchcase(one.filename, pattern) for one in members):
            raise DataError(f"holds no {pattern}", source=str(file))
    size = sum(one.file_size for one in members)
    if size > wheel.limit:
        raise DataError(f"holds {size:,} bytes, more than {wheel.limit:,}", source=str(file))
    return members


ANSWERS_WITHIN = 10.0  # seconds in which a repository must answer: git itself waits for minutes
_STALLED: Final = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=30")
"""A connection that brings less than 1 kB/s for 30 s is given up."""
_KEPT: Final = ("GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_PROXY_SSL_CAINFO")
"""Of git's variables: what networks need."""


@dataclass(frozen=True)
class Repository:
    """Files of a repository at a commit."""

    # the repository, and the full name of the commit
    url: str
    commit: str
    folder: str  # where the files are in it
    files: tuple[str, ...]  # patterns of the files' names in that folder, as of .gitignore

    @property
    def state(self) -> str:
        """The commit, in short."""
        return self.commit[:12]


@dataclass(frozen=True)
class Source:
    """Where tables come from: a repository, a wheel, or a repository and the wheel to take in its place."""

    repository: Repository | None = None
    wheel: Wheel | None = None


@dataclass(frozen=True)
class Fetched:
    """Tables that are there.

    Attributes
    ----------
    folder : Path
        The folder, as `flopcast.train` and every other call take it.
    origin : Repository or Wheel
        Where they came from.
    missed : str
        Why the repository was not taken, where this call has asked it; else "".
    """

    folder: Path
    origin: Repository | Wheel
    missed: str = ""
    name: str = ""  # of the tables: ``aiter``


SOURCES: Final = {
    "aiter": Source(
        Repository(
            "https://github.com/ROCm/aiter",
            "82c31fe468ad321e86a48ad7d4d14f08d1f8fa89",
            "aiter/configs",
            ("*.csv",),
        ),
        Wheel(
            project="amd-aiter",
            version="0.1.7.post2.dev18",
            file="amd_aiter-0.1.7.post2.dev18-py3-none-any.whl",
            sha256="fe139d74438217c35e87e3b961166bac8db2d381eadccb371da2e63615f05a31",
            licence="MIT",
            members=(
                "aiter/configs/*_tuned_*.csv",  # those called untuned have no times
                "aiter/configs/tuned_fmoe.csv",
                "amd_aiter-*.dist-info/LICENSE",
                "amd_aiter-*.dist-info/METADATA",
            ),
            folder="aiter/configs",
            limit=2_000_000,
        ),
    ),
    "miopen": Source(
        Repository(
            "https://github.com/ROCm/MIOpen",
            "b99d2db74d33e6f2d3340d3d0b13f9df012143f0",
            "src/kernels",
            ("gfx90878.*.fdb.txt.bz2", "gfx90a6[8e].*.fdb.txt.bz2", "gfx942130.*.fdb.txt.bz2"),
        )
    ),
    "aiconfigurator": Source(
        wheel=Wheel(
            project="aiconfigurator-core",
            version="0.12.0",
            file="aiconfigurator_core-0.12.0-cp311-abi3-manylinux_2_28_x86_64.whl",
            sha256="aadc4aad0a00bf8a61c477c62bef43de479849c3aa0b1c3078068e08309eccc4",
            licence="Apache-2.0",
            members=(
                "aiconfigurator_core/systems/data/*.parquet",
                "aiconfigurator_core/systems/*.yaml",  # beside the tables too: which of them are partial
                "aiconfigurator_core/systems/silicon_sample.csv",
                "aiconfigurator_core/model_configs/*.json",
                "aiconfigurator_core-*.dist-info/METADATA",  # the licence stands there, in no file of its own
            ),
            folder="aiconfigurator_core",
            limit=120_000_000,
            tags=(
                "--only-binary=:all:",
                "--platform=manylinux_2_28_x86_64",
                "--python-version=3.11",
                "--implementation=cp",
                "--abi=abi3",
            ),
        )
    ),
}
"""Name -> where it comes from; the repositories are under the MIT licence."""


def fetch(name: str, *, cache: Folder | None = None, wheel: Beside | None = None) -> Fetched:
    """Return public tables, brought here if the cache does not have them as they were brought.

    Parameters
    ----------
    name : {"aiter", "miopen", "aiconfigurator"}
        AMD's tuned kernels of AITER (matrix products and mixtures of experts on MI300X and MI355X),
        MIOpen's convolutions (MI100, MI210, MI250X, MI300X), or NVIDIA's tables of AIConfigurator
        (kernels and collectives of three inference engines on ten GPUs, whole runs, configurations
        of models).
    cache : path, default $FLOPCAST_CACHE, or ~/.cache
        Where they are kept. By default in ``$FLOPCAST_CACHE``, or else in ``flopcast`` of the user's
        folder of caches.
    wheel : path, optional
        The wheel with the tables, brought by hand: needs no network.

    Returns
    -------
    Fetched

    Raises
    ------
    ParameterError
        Nothing has that name, no wheel has these tables, or one must be given because no network
        brings it.
    DataError
        The repository cannot be had and no wheel has these tables, or the wheel is not the one that
        is pinned.

    Examples
    --------
    >>> import flopcast as fc
    >>> found = fc.fetch("aiter")  # doctest: +SKIP
    >>> run = fc.train(found.folder, host="MI300X", target="MI355X", where={"op": "gemm"})  # doctest: +SKIP
    """
    if name not in SOURCES:
        raise ParameterError("name", f"must be {' or '.join(SOURCES)}, got {name!r}")
    source = SOURCES[name]
    if cache:
        places = Path(cache)
    else:
        places = cache_folder()
    if wheel is not None and source.wheel is None:
        raise ParameterError("wheel", f"cannot be given for {name}: its tables are in no wheel")
    origins = [one for one in (source.repository if wheel is None else None, source.wheel) if one]
    if wheel is not None and source.wheel is not None:
        check_wheel(source.wheel, Path(wheel))
    changed: list[str] = []
    for origin in origins:
        if (place := places / f"{name}-{origin.state}").is_dir():
            problem = kept.problem(place)
            if not problem:
                return Fetched(place / origin.folder, origin, name=name)
            changed.append(problem)
    missed: list[str] = []
    for origin in origins:
        place = places / f"{name}-{origin.state}"
        try:
            with whole_folder(place) as folder:
                if isinstance(origin, Wheel):
                    put(origin, folder, Path(wheel) if wheel is not None else None)
                else:
                    _checked_out(origin, folder)
                if place.is_dir():  # of before, or changed since: nothing of it stays
                    remove_folder(place)
            kept.record(place)
        except UnavailableError as error:
            missed.append(str(error))
        else:
            return Fetched(place / origin.folder, origin, "; ".join(missed), name)
    copied = [
        f"copy the folder {one.folder} of the repository (commit {one.state}) here and give it as "
        "DATA"
        for one in [source.repository]
        if one
    ]
    lost = ""
    if changed:
        lost = f"{changed[0]}, and "
    ways = ["behind a proxy set HTTPS_PROXY", *copied]
    if source.wheel is None:
        raise DataError(f"{lost}cannot be fetched ({missed[0]}): {', or '.join(ways)}", source=name)
    ways.insert(1, f"bring the file from elsewhere with `{source.wheel.download}`")
    raise ParameterError(
        "wheel",
        f"must be given, {lost}{name} cannot be fetched ({'; '.join(missed)}): {', or '.join(ways)}",
    )


def cache_folder() -> Path:
    """Return the folder of public tables where the caller names none."""
    stated = os.environ.get("FLOPCAST_CACHE")
    if stated:
        return Path(stated)
    if os.name == "nt":
        home = os.environ.get("LOCALAPPDATA")
    else:
        home = os.environ.get("XDG_CACHE_HOME")
    return Path(home or Path.home() / ".cache") / "flopcast"


def _checked_out(repository: Repository, folder: Path) -> None:
    """Put the files of a repository into an empty folder, and nothing else."""
    if shutil.which("git") is None:
        raise UnavailableError("git is not installed", source=repository.url)
    patterns = [f"/{repository.folder}/**/{name}" for name in repository.files]
    _git(repository, folder, "ls-remote", "-q", repository.url, "HEAD", within=ANSWERS_WITHIN)
    for command in (
        ("-c", "init.templateDir=", "init", "-q"),
        ("remote", "add", "origin", repository.url),
        ("sparse-checkout", "set", "--no-cone", *patterns),
        (*_STALLED, "fetch", "-q", "--depth=1", "--filter=blob:none", "origin", repository.commit),
        (*_STALLED, "-c", "core.symlinks=false", "checkout", "-q", repository.commit),
    ):
        _git(repository, folder, *command)
    shutil.rmtree(folder / ".git")


def _git(repository: Repository, folder: Path, *words: str, within: float | None = None) -> None:
    # Variables such as GIT_DIR, which a hook of git sets, name another repository: it is none of
    # ours.
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name in _KEPT
    }
    with subprocess.Popen(
        ("git", *words),
        cwd=folder,
        env={**kept, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as git:
        try:
            _, errors_printed = git.communicate(timeout=within)
        except BaseException as error:
            # all of them: the program that speaks to the network would wait on
            with suppress(OSError):
                os.killpg(git.pid, signal.SIGKILL) if os.name == "posix" else git.kill()
            if isinstance(error, subprocess.TimeoutExpired):
                raise UnavailableError(
                    f"does not answer within {within:g} s", source=repository.url
                ) from None
            raise
    if git.returncode:
        said = next(
            (line for line in errors_printed.splitlines() if line.startswith(("fatal:", "error:"))),
            "git failed",
        )
        raise UnavailableError(said, source=repository.url)
