"""Golden sentences of what readers note and of what the quality gate finds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import flopcast
from flopcast.remarks import Remark, remark
from flopcast.report.words import _AREAS, WORDS, in_words, say
from flopcast.report.words.reading import NAMED

FILES = tuple(f"{name}.csv" for name in "abcde")


@pytest.mark.parametrize(
    ("note", "words"),
    [
        (remark("unknown-device", device="CPU-1T"), "device 'CPU-1T' is not in the catalogue: kept under that name"),
        (
            remark("device-by-gfx", gfx="gfx942", cus=304, device="MI300X", same=("MI325X",), rows=7, files=FILES),
            "gfx942 (304 CUs) is read as MI300X; MI325X would look the same (7 rows in a.csv, b.csv, c.csv and 2 more)",
        ),
        (
            remark("device-not-recorded", by="rocprof", file="results.csv"),
            "results.csv: the device is not recorded: name it with --set device=NAME",
        ),
        (
            remark("device-by-figures", word="", units=256, memory_gib=287.98, device="MI355X", same=("MI350X",)),
            "device '', 256 compute units, 288 GiB is read as MI355X; MI350X would look the same",
        ),
        (
            remark("gpu-model-series", model="MI200", arch="gfx90a", units=104, device="MI210", same=("MI250",)),
            "gpu_model MI200 is a series: gfx90a (104 CUs) is read as MI210; MI250 would look the same",
        ),
        (
            remark("gfx-by-units", cus=256, gfx="gfx950", rows=1, files=FILES[:1]),
            "no gfx id: 256 CUs are read as gfx950 (gfx1250 has 256 too) (1 row in a.csv)",
        ),
        (remark("no-dispatches", file="sysinfo.csv"), "sysinfo.csv: no dispatches, give the whole workload folder"),
        (
            remark("no-dispatches", among=FILES),
            "a.csv, b.csv, c.csv and 2 more: no dispatches, give the whole workload folder",
        ),
        (remark("repeats-merged", rows=2), "repeats of one kernel on one problem merged, the median kept (2 rows)"),
        (remark("files-skipped", files=("README.md",)), "1 file of no supported format skipped: README.md"),
        (
            remark("files-skipped", files=FILES),
            "5 files of no supported format skipped: a.csv, b.csv, c.csv and 2 more",
        ),
        (
            remark("default-unused", column="device", value="MI325X", rows=3, files=()),
            "--set device=MI325X changes nothing here: the files say it themselves (3 rows)",
        ),
        (
            remark("trace-finding", trace="t.json", finding=remark("zero-counter", counters=("A", "B")), count=2),
            "t.json: zero-counter: counters that are zero in every activity (A, B) (2)",
        ),
        (
            remark("replay-spread", spreads=(("A", 0.2), ("B", 0.01))),
            "quantities that differ between replay passes of a dispatch, by at most: A 20.0%, B 1.0%; the first is "
            "used",
        ),
        (
            remark("unmatched-pass", why="not shared", missing=1, only_here=2),
            "dispatches that the passes do not share (1 not in this file, 2 only here): no counters there",
        ),
        (
            remark("spoiled-timestamps", written="exponent", remedy="other", other="timestamps.csv"),
            "timestamps written with an exponent, as a spreadsheet saves them: their last digits are lost; the times "
            "of timestamps.csv are used instead",
        ),
    ],
)
def test_words(note: Remark, words: str) -> None:
    assert say(note) == words


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
