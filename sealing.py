"""The seal of a run folder: ``manifest.json`` names every other file of it, with its size and SHA-256.

So metrics, predictions, model and page belong to one another, and the data they were made from are
named once, by the SHA-256 that metrics and model state too. Whoever reads a run folder calls
`check` first. Somebody who changes a run and seals it
anew cannot be told from its maker: a signature of the manifest can (``ssh-keygen -Y sign -n
flopcast``), which `signed_by` verifies.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from .errors import ArtifactError, DataError, few
from .output import SCHEMA

MANIFEST = "manifest.json"
SIGNATURE = "manifest.json.sig"
NAMESPACE: Final = "flopcast"
"""What a signature is for, ``-n`` of ``ssh-keygen -Y``: one that was made for mail is none of a run."""
METRICS = "metrics.json"
MODEL = "model/manifest.json"
_MOST_TEXT: Final = 2**26  # bytes of a file of JSON
_HINT: Final = "take the whole run from where it was made, or train again"


class Entry(msgspec.Struct, frozen=True):
    """A file as it was sealed: its size in bytes, and its SHA-256."""

    bytes: Annotated[int, msgspec.Meta(ge=0)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``manifest.json``: the SHA-256 of the training data, and every file by its path in the folder, with ``/``."""

    schema: Annotated[int, msgspec.Meta(ge=1)]
    data_sha256: str | None
    files: dict[str, Entry]


class _Schema(msgspec.Struct):
    schema: int = 0


def seal(folder: Path) -> Manifest:
    """Write the manifest of a run folder; a signature of an earlier one is removed.

    Raises ArtifactError: metrics and model are not of the same data, or a file is a link or no
    plain file.
    """
    entries = {name: entry(path) for name, path in _files(folder)}
    manifest = Manifest(SCHEMA, _data_of(folder), dict(sorted(entries.items())))
    (folder / MANIFEST).write_text(
        json.dumps(msgspec.to_builtins(manifest), indent=1) + "\n", encoding="utf-8"
    )
    (folder / SIGNATURE).unlink(missing_ok=True)
    return manifest


def check(folder: Path) -> Manifest:
    """Return the manifest of a run folder that is as it was sealed.

    Hidden files (``.DS_Store``) are nobody's evidence and do not count.

    Raises
    ------
    ArtifactError
        A file is missing, added, changed, of another run, or a link; the manifest was taken away or
        is of a newer schema. One line that names the file.
    """
    path = folder / MANIFEST
    if not os.path.lexists(path):
        raise ArtifactError(f"{path} is missing, so nobody knows whether the run is whole: {_HINT}")
    manifest = _read(path)
    files = dict(_files(folder))
    missing = sorted(set(manifest.files) - set(files))
    if missing:
        raise ArtifactError(f"{folder / missing[0]} is missing, which {MANIFEST} names: {_HINT}")
    added = sorted(set(files) - set(manifest.files))
    if added:
        raise ArtifactError(
            f"{folder} holds what is not of the run ({few(added)}): move it elsewhere"
        )
    for name, sealed in manifest.files.items():
        if os.stat(files[name]).st_size != sealed.bytes or entry(files[name]) != sealed:
            raise ArtifactError(
                f"{files[name]} is not the file that was sealed (see {MANIFEST}): {_HINT}"
            )
    if _data_of(folder) != manifest.data_sha256:
        raise ArtifactError(f"{path} is of other training data than the run: {_HINT}")
    return manifest


def which_run(folder: Path) -> str:
    """Return what to give in the place of a folder that is no run: the runs within it, as of several targets."""
    inner = sorted(str(one.parent) for one in folder.glob(f"*/{METRICS}"))
    if inner:
        return f"give one of the runs in it ({few(inner)})"
    return "give the one that `train` wrote"


def check_no_run(path: Path) -> None:
    """Refuse a run folder that is given in the place of measurements: DataError."""
    if (path / METRICS).is_file() and (path / MODEL).is_file():
        raise DataError("is a run folder, not measurements: give the data here", source=str(path))


def signature_of(run: Path) -> Path:
    """Return where the signature of a run's manifest is, or of a file that is sealed in itself."""
    if run.is_dir():
        return run / SIGNATURE
    return run.with_name(f"{run.name}.sig")


def signed_by(run: Path, signers: Path) -> str:
    """Return who signed a run, or a file that is sealed in itself, of those that a file of signers names.

    The file is one of allowed signers, as ``ssh-keygen`` reads it (section ALLOWED SIGNERS).
    Call `check` too: what is signed is the manifest of a run. Raises ArtifactError: there is no signature,
    nobody of these made it, or it is of another manifest.
    """
    signature = signature_of(run)
    if not signature.is_file():
        raise ArtifactError(f"{run} is not signed (it has no {signature.name})")
    if not signers.is_file():
        raise ArtifactError(
            f"{signers} is not a file: give one of allowed signers, as ssh-keygen reads it"
        )
    asked = ["ssh-keygen", "-Y", "find-principals", "-s", str(signature), "-f", str(signers)]
    who = _ssh(asked, b"").splitlines()
    if not who:
        raise ArtifactError(f"{signature} was made by nobody whom {signers} names")
    asked = [
        "ssh-keygen",
        "-Y",
        "verify",
        "-f",
        str(signers),
        "-I",
        who[0],
        "-n",
        NAMESPACE,
        "-s",
        str(signature),
    ]
    signed = run
    if run.is_dir():
        signed = run / MANIFEST
    if not _ssh(asked, signed.read_bytes()):
        raise ArtifactError(
            f"{signature} does not sign this {signed.name}, or not for {NAMESPACE}: {_HINT}"
        )
    return who[0]


def plain_content(path: Path, limit: int, hint: str) -> bytes:
    """Return what a plain file of this folder holds; others (pipes, devices, links out of it) are not even read.

    Raises ArtifactError: it is none, cannot be read, or is larger than `limit` bytes; `hint` says
    what to do.
    """
    try:
        if path.resolve(strict=True).parent != path.parent.resolve():
            raise ArtifactError(f"{path} is a link that leads out of its folder: {hint}")
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
                if stat.S_ISREG(status.st_mode):
                    what = f"has {status.st_size:,} bytes"
                else:
                    what = "is not a plain file"
                raise ArtifactError(f"{path} {what}, which no saved run has: {hint}")
            return file.read(status.st_size)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read ({error.strerror}): {hint}") from error


def _read(path: Path) -> Manifest:
    content = plain_content(path, _MOST_TEXT, _HINT)
    try:
        newer = msgspec.json.decode(content, type=_Schema).schema > SCHEMA
        if newer:
            manifest = None
        else:
            manifest = msgspec.json.decode(content, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ArtifactError(
            f"{path} is not the manifest of a run ({' '.join(str(error).split())}): {_HINT}"
        ) from error
    if manifest is None:
        raise ArtifactError(
            f"{path} has a newer schema than this flopcast reads, {SCHEMA}: upgrade flopcast"
        )
    return manifest


def _files(folder: Path, inside: str = "") -> Iterator[tuple[str, Path]]:
    """Yield the files of a run by their names, but for manifest and signature; no link is followed."""
    try:
        with os.scandir(folder / inside) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                name = f"{inside}{entry.name}"
                if entry.name.startswith(".") or name in (MANIFEST, SIGNATURE):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    yield from _files(folder, f"{name}/")
                elif entry.is_file(follow_symlinks=False):
                    yield name, Path(entry.path)
                else:
                    raise ArtifactError(
                        f"{entry.path} is a link or no plain file, which no run has: {_HINT}"
                    )
    except OSError as error:
        raise ArtifactError(f"{folder} cannot be read ({error.strerror}): {_HINT}") from error


def entry(path: Path) -> Entry:
    """Return size and SHA-256 of a file; ArtifactError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return Entry(
                os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()
            )
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read ({error.strerror}): {_HINT}") from error


def _stated(path: Path) -> dict[str, Any]:
    """Return what a file of JSON states of itself; nothing where it is missing, or of another kind."""
    try:
        content = msgspec.json.decode(plain_content(path, _MOST_TEXT, _HINT))
    except (ArtifactError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    if isinstance(content, dict):
        return content
    return {}


def _part(stated: dict[str, Any], name: str) -> dict[str, Any]:
    if isinstance(part := stated.get(name), dict):
        return part
    return {}


def _data_of(folder: Path) -> str | None:
    """Return the SHA-256 of the training data that metrics and model state; refuse two different ones."""
    metrics = _part(_stated(folder / METRICS), "data").get("sha256")
    model = _stated(folder / MODEL).get("data_sha256")
    if metrics and model and metrics != model:
        raise ArtifactError(
            f"{folder}: {METRICS} and {MODEL} are of different training data: {_HINT}"
        )
    return model or metrics or None


def _ssh(command: list[str], content: bytes) -> str:
    """Return what ssh-keygen prints, "" where it refuses."""
    try:
        done = subprocess.run(command, input=content, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise ArtifactError(
            "ssh-keygen is not installed, which verifies signatures: install OpenSSH"
        ) from error
    if done.returncode == 0:
        return done.stdout.decode(errors="replace").strip()
    return ""
