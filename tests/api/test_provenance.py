"""Where a page comes from: files with their hashes, the call, and that the page ends with it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from flopcast.api import provenance
from flopcast.report.document import footer
from flopcast.tests.commands.running import call


def test_files_and_those_of_folders_have_their_hashes(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    for name, text in (("in/a.csv", "a"), ("in/deep/b.csv", "bb"), ("c.csv", "ccc")):
        (tmp_path / name).write_text(text)
    made = provenance.made_of(
        "flopcast x", [tmp_path / "in", tmp_path / "c.csv", tmp_path / "none"], seed=3
    )
    assert [(one["name"], one["bytes"]) for one in made["files"]] == [
        ("in/a.csv", 1),
        ("in/deep/b.csv", 2),
        ("c.csv", 3),
    ]
    assert made["files"][2]["sha256"] == hashlib.sha256(b"ccc").hexdigest()
    assert (made["seed"], made["command"]) == (3, "flopcast x")


def test_what_is_too_much_to_hash_is_told_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "MOST_FILES", 1)
    monkeypatch.setattr(provenance, "LARGEST", 2)
    for name, text in (("in/a.csv", "a"), ("in/b.csv", "b"), ("c.csv", "ccc")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    files = provenance.made_of("", [tmp_path / "in", tmp_path / "c.csv"])["files"]
    assert [(one["bytes"], one["sha256"]) for one in files] == [(2, ""), (3, "")]
    assert footer({}) == []


def test_pages_of_commands_end_with_the_call_as_it_was_given(tmp_path: Path) -> None:
    table = tmp_path / "small.csv"
    table.write_text(
        "benchmark,size,performance\n"
        + "".join(f"a,{size},{100 * size}\n" for size in (8, 16, 32, 64))
    )
    done = call("scale", "predict", table, "--fit", "8,16", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    (path,) = (tmp_path / "out").glob("*.html")
    ending = path.read_text(encoding="utf-8").partition("<footer>")[2]
    assert f"flopcast scale predict {table} --fit 8,16" in ending
    assert hashlib.sha256(table.read_bytes()).hexdigest() in ending
