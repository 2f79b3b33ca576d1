"""Damaged files: whatever the bytes are, reading ends in rows or in one of the project's own errors."""

from __future__ import annotations

import bz2
import gzip
import shutil
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from flopcast.errors import FlopcastError
from flopcast.readers import Options, read, read_traces

DAMAGED = 60
"""How many damaged files each format is tried with, at least one and at most three for each sample."""
LARGEST = 12_000_000
"""Bytes of content from which a sample is left out: parsing it over and over would take minutes."""
FORMATS = ("kineto", "chakra", "rocprofv3", "rocprof_v1v2", "rocprofiler_compute", "rpd_legacy", "nsys")
Mutation = Callable[[bytearray, np.random.Generator], None]


def flip(content: bytearray, rng: np.random.Generator) -> None:
    """Change some bytes anywhere."""
    for place in rng.integers(len(content), size=8):
        content[place] = int(rng.integers(256))


def cut(content: bytearray, rng: np.random.Generator) -> None:
    """End the file early."""
    del content[int(rng.integers(len(content))) :]


def drop(content: bytearray, rng: np.random.Generator) -> None:
    """Leave out a piece."""
    start = int(rng.integers(len(content)))
    del content[start : start + int(rng.integers(1, 2000))]


def repeat(content: bytearray, rng: np.random.Generator) -> None:
    """Write a piece twice."""
    start = int(rng.integers(len(content)))
    content[start:start] = content[start : start + int(rng.integers(1, 2000))]


def misspell(content: bytearray, rng: np.random.Generator) -> None:
    """Put something else where numbers are."""
    words = [b"1e400", b"-1", b"NaN", b"99999999999999999999999", b'""', b"null", b"[]", b"0x1", b",", b"{}", b'"']
    digits = np.flatnonzero(
        np.isin(np.frombuffer(bytes(content), dtype=np.uint8), np.frombuffer(b"123456789", np.uint8))
    )
    for place in sorted(rng.choice(digits, size=min(10, len(digits)), replace=False).tolist(), reverse=True):
        content[place : place + 1] = words[int(rng.integers(len(words)))]


MUTATIONS: tuple[Mutation, ...] = (flip, cut, drop, repeat, misspell)


def unpacked(path: Path) -> tuple[bytes, Callable[[bytes], bytes]]:
    """Return the content of a file and how to pack it again."""
    raw = path.read_bytes()
    if raw.startswith(b"\x1f\x8b"):
        return gzip.decompress(raw), lambda content: gzip.compress(content, 1)
    if raw.startswith(b"BZh"):
        return bz2.decompress(raw), bz2.compress
    return raw, lambda content: content


def attempt(path: Path) -> None:
    """Read a file as measurements and as a trace; only the project's own errors may come of it."""
    options = Options(defaults={"device": "MI300X"}, max_bytes=2**28)
    for reading in (lambda: read([path], options=options), lambda: list(read_traces([path], options=options))):
        with suppress(FlopcastError):
            reading()


@pytest.mark.long
@pytest.mark.parametrize("format_name", FORMATS)
def test_damaged_samples_end_in_rows_or_in_our_own_error(shared_data: Path, tmp_path: Path, format_name: str) -> None:
    samples = sorted(path for path in (shared_data / "profiles" / format_name).rglob("*") if path.is_file())
    samples = [path for path in samples if path.suffix not in (".csv",) or "tracelens" not in str(path)]
    assert samples
    rng = np.random.default_rng(zlib.crc32(format_name.encode()))
    rounds = min(3, max(1, DAMAGED // len(samples)))
    for sample in samples:
        content, packed = unpacked(sample)
        if not 0 < len(content) <= LARGEST:
            continue
        for mutation in rng.choice(np.array(MUTATIONS, dtype=object), size=rounds, replace=False):
            damaged = bytearray(content)
            mutation(damaged, rng)
            folder = tmp_path / "one"
            folder.mkdir()
            (folder / sample.name).write_bytes(packed(bytes(damaged)))
            attempt(folder / sample.name)
            shutil.rmtree(folder)


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_of_no_format(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "noise"
    path.write_bytes(np.random.default_rng(seed).bytes(5000))
    with pytest.raises(FlopcastError):
        read([path])
