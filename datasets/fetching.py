"""Public tables to try: fetched once from the repositories of those who measured them, then taken from a cache.

A `Source` names a repository, a commit and the files of it; `fetch` returns the folder that holds them. git fetches
them, because a commit's name is the hash of every file in it: what arrives is what stood there when the commit was
pinned, or nothing. git also knows the user's proxies.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..errors import DataError, ParameterError
from ..output import whole_folder

_STALLED: Final = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=30")
"""A connection that brings less than 1 kB/s for 30 s is given up."""


_KEPT: Final = ("GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_PROXY_SSL_CAINFO")
"""Of git's own variables: what networks need."""


@dataclass(frozen=True)
class Source:
    """Files of a repository at a commit.

    Attributes
    ----------
    url, commit : str
        The repository, and the full name of the commit.
    folder : str
        Where the files are in it.
    files : tuple of str
        Patterns of the files' names in that folder, as of .gitignore.
    """

    url: str
    commit: str
    folder: str
    files: tuple[str, ...]


SOURCES: Final = {
    "aiter": Source(
        "https://github.com/ROCm/aiter", "82c31fe468ad321e86a48ad7d4d14f08d1f8fa89", "aiter/configs", ("*.csv",)
    ),
    "miopen": Source(
        "https://github.com/ROCm/MIOpen",
        "b99d2db74d33e6f2d3340d3d0b13f9df012143f0",
        "src/kernels",
        ("gfx90878.*.fdb.txt.bz2", "gfx90a6[8e].*.fdb.txt.bz2", "gfx942130.*.fdb.txt.bz2"),
    ),
}
"""Name -> where it comes from; both under the MIT licence."""


def fetch(name: str, cache: str | Path | None = None) -> Path:
    """Return the folder of public tables, fetched if the cache does not have them yet.

    Parameters
    ----------
    name : {"aiter", "miopen"}
        AMD's tuned kernels of AITER (matrix products and mixtures of experts on MI300X and MI355X), or MIOpen's
        convolutions (MI100, MI210, MI250X, MI300X).
    cache : path, optional
        Folder of the cache; by default ``$FLOPCAST_CACHE``, or else ``flopcast`` in the user's folder of caches.

    Returns
    -------
    Path
        The folder, as `flopcast.train` and every other call take it.

    Raises
    ------
    ParameterError
        Nothing has that name.
    DataError
        It cannot be fetched: no network, no git, or the repository does not have the commit any more.
    """
    if name not in SOURCES:
        raise ParameterError("name", f"must be {' or '.join(SOURCES)}, got {name!r}")
    source = SOURCES[name]
    place = (Path(cache) if cache else _cache()) / f"{name}-{source.commit[:12]}"
    if not place.is_dir():
        with whole_folder(place) as folder:
            _checked_out(source, folder)
    return place / source.folder


def _cache() -> Path:
    if stated := os.environ.get("FLOPCAST_CACHE"):
        return Path(stated)
    home = os.environ.get("LOCALAPPDATA") if os.name == "nt" else os.environ.get("XDG_CACHE_HOME")
    return Path(home or Path.home() / ".cache") / "flopcast"


def _checked_out(source: Source, folder: Path) -> None:
    """Put the files of a source into an empty folder, and nothing else."""
    if shutil.which("git") is None:
        raise DataError(f"cannot be fetched: git is not installed; {_by_hand(source)}", source=source.url)
    patterns = [f"/{source.folder}/**/{name}" for name in source.files]
    for command in (
        ("-c", "init.templateDir=", "init", "-q"),
        ("remote", "add", "origin", source.url),
        ("sparse-checkout", "set", "--no-cone", *patterns),
        (*_STALLED, "fetch", "-q", "--depth=1", "--filter=blob:none", "origin", source.commit),
        (*_STALLED, "-c", "core.symlinks=false", "checkout", "-q", source.commit),
    ):
        _git(source, folder, *command)
    shutil.rmtree(folder / ".git")


def _git(source: Source, folder: Path, *words: str) -> None:
    # Variables such as GIT_DIR, which a hook of git sets, name another repository: it is none of ours.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _KEPT}
    environment = {**kept, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    done = subprocess.run(
        ("git", *words), cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode:
        said = next((line for line in done.stderr.splitlines() if line.startswith(("fatal:", "error:"))), "git failed")
        raise DataError(f"cannot be fetched ({said}): {_by_hand(source)}", source=source.url)


def _by_hand(source: Source) -> str:
    return (
        f"behind a proxy set HTTPS_PROXY; without a network copy the folder {source.folder} of that repository (commit "
        f"{source.commit[:12]}) here and give it as DATA"
    )
