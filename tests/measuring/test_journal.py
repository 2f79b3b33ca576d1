"""The journal: what is on disk after every step, and what it refuses to continue."""

from __future__ import annotations

from pathlib import Path

import pytest

from flopcast.errors import DataError
from flopcast.measuring.journal import PARTS, PLAN, VISITS, Journal, journal_folder

MADE = {"rows": [{"op": "gemm", "m": 4}], "seed": 1, "passes": 2}


def test_steps_are_on_disk_as_they_come_and_are_read_again(tmp_path: Path) -> None:
    folder = journal_folder(tmp_path / "runs.parquet")
    assert folder.name == "runs.parquet.journal"
    journal = Journal(folder, MADE)
    journal.add([{"row": 0, "samples_us": [1.5, 2.0]}])
    journal.add([{"row": 1, "error": "no"}])
    again = Journal(folder, MADE, resume=True)
    assert again.steps == [[{"row": 0, "samples_us": [1.5, 2.0]}], [{"row": 1, "error": "no"}]]
    again.add([{"row": 2}])
    assert len(Journal(folder, MADE, resume=True).steps) == 3
    again.remove()
    assert not folder.exists()


def test_what_runs_said_of_themselves_is_kept(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", MADE)
    journal.end_part({"command": "flopcast measure", "seconds": 2.5})
    again = Journal(tmp_path / "j", MADE, resume=True)
    assert again.parts == journal.parts == [{"command": "flopcast measure", "seconds": 2.5}]


def test_a_line_cut_short_is_dropped_and_the_journal_goes_on(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", MADE)
    journal.add([{"row": 0}])
    with (tmp_path / "j" / VISITS).open("a", encoding="utf-8") as file:
        file.write('[{"row": 1, "samp')
    again = Journal(tmp_path / "j", MADE, resume=True)
    assert again.steps == [[{"row": 0}]]
    again.add([{"row": 1}])
    assert Journal(tmp_path / "j", MADE, resume=True).steps == [[{"row": 0}], [{"row": 1}]]


def test_a_line_that_lacks_its_end_alone_is_kept_and_the_next_begins_a_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", MADE)
    journal.add([{"row": 0}])
    path = tmp_path / "j" / VISITS
    path.write_text(path.read_text(encoding="utf-8").rstrip("\n"), encoding="utf-8")
    again = Journal(tmp_path / "j", MADE, resume=True)
    assert again.steps == [[{"row": 0}]]
    again.add([{"row": 1}])
    assert Journal(tmp_path / "j", MADE, resume=True).steps == [[{"row": 0}], [{"row": 1}]]


def test_a_journal_is_not_overwritten_and_another_plan_not_continued(tmp_path: Path) -> None:
    Journal(tmp_path / "j", MADE)
    with pytest.raises(DataError, match="holds an unfinished measurement: resume it"):
        Journal(tmp_path / "j", MADE)
    with pytest.raises(DataError, match="begun with other seed and passes"):
        Journal(tmp_path / "j", {**MADE, "seed": 2, "passes": 1}, resume=True)


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing to resume: measure from the beginning"):
        Journal(tmp_path / "j", MADE, resume=True)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (PLAN, "{"),
        (VISITS, "not json\n[]\n"),
        (VISITS, '{"a": 1}\n'),
        (VISITS, '[{"a": 1}]'),
        (VISITS, "3\n[]\n"),
        (PARTS, '{"a": 1}\n'),
    ],
)
def test_foreign_files_are_refused(file: str, text: str, tmp_path: Path) -> None:
    Journal(tmp_path / "j", MADE)
    (tmp_path / "j" / file).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="delete the folder"):
        Journal(tmp_path / "j", MADE, resume=True)
