"""Golden sentences of what readers note and of what the quality gate finds."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import flopcast
from flopcast.remarks import remark
from flopcast.report.words import _AREAS, WORDS, in_words, say
from flopcast.report.words.reading import NAMED

FILES = tuple(f"{name}.csv" for name in "abcde")


NOTES = (
    remark("unknown-device", device="CPU-1T"),
    remark("device-by-gfx", gfx="gfx942", cus=304, device="MI300X", same=("MI325X",), rows=7, files=FILES),
    remark("device-not-recorded", by="rocprof", file="results.csv"),
    remark("device-by-figures", word="", units=256, memory_gib=287.98, device="MI355X", same=("MI350X",)),
    remark("gpu-model-series", model="MI200", arch="gfx90a", units=104, device="MI210", same=("MI250",)),
    remark("gfx-by-units", cus=256, gfx="gfx950", rows=1, files=FILES[:1]),
    remark("no-dispatches", file="sysinfo.csv"),
    remark("no-dispatches", among=FILES),
    remark("repeats-merged", rows=2),
    remark("files-skipped", files=("README.md",)),
    remark("files-skipped", files=FILES),
    remark("default-unused", column="device", value="MI325X", rows=3, files=()),
    remark("trace-finding", trace="t.json", finding=remark("zero-counter", counters=("A", "B")), count=2),
    remark("replay-spread", spreads=(("A", 0.2), ("B", 0.01))),
    remark("unmatched-pass", why="not shared", missing=1, only_here=2),
    remark("spoiled-timestamps", written="exponent", remedy="other", other="timestamps.csv"),
)


def test_words(golden: Callable[[str, str], None]) -> None:
    golden("words-reading.txt", "\n".join(f"{note.code}: {say(note)}" for note in NOTES))


def test_a_sentence_stays_one() -> None:
    assert in_words(["as it is", remark("stream-is-queue")])[0] == "as it is"
    assert NAMED == 3


def test_every_code_of_the_readers_has_words() -> None:
    root = Path(flopcast.__file__).parent
    files = [file for folder in ("readers", "traces", "table") for file in (root / folder).rglob("*.py")]
    codes = {code for file in files for code in re.findall(r'\bremark\(\s*"([a-z-]+)"', file.read_text("utf-8"))}
    assert len(codes) > 60
    assert codes - set(WORDS) == set()


def test_a_code_belongs_to_one_area() -> None:
    assert sum(map(len, _AREAS)) == len(WORDS)
