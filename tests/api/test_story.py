"""CONTRIBUTING's "Follow one training run": a training enters the files of the story in that order, and few beside."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
MOST = 75  # files of the package that a quick training enters


class Entered:
    """The files whose functions are called in a block, in the order of the first call; imports do not count."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self._seen = {__file__}
        self._importing = 0

    def __enter__(self) -> Entered:
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if code.co_name == "<module>":
            self._importing += {"call": 1, "return": -1}.get(event, 0)
            return
        if self._importing or event != "call" or code.co_name.startswith("<"):
            return
        if code.co_filename in self._seen:
            return
        self._seen.add(code.co_filename)
        path = Path(code.co_filename)
        if path.is_relative_to(ROOT) and ".venv" not in path.parts:
            self.files.append(path.relative_to(ROOT).as_posix())


def story() -> list[str]:
    """Return the files that CONTRIBUTING numbers."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("## Follow one training run")[2].partition("\n## ")[0]
    return re.findall(r"^\d+\. `([\w/]+\.py)`", section, re.MULTILINE)


TRAINING = """
import json
import flopcast as fc
from flopcast.evaluation import competition
from flopcast.tests.api.test_story import Entered
competition.FOLDS = ((0, 2),)
with Entered() as entered:
    fc.train(where={"m": (None, 64)}, quick=True, jobs=1)
print(json.dumps(entered.files))
"""


def test_a_training_enters_the_files_of_its_story_in_order() -> None:
    told = story()
    assert len(told) == 8
    # a process that has trained before remembers what it need not ask again
    process = subprocess.run(
        [sys.executable, "-c", TRAINING], capture_output=True, text=True, check=True
    )
    entered = json.loads(process.stdout)
    assert [name for name in entered if name in told] == told
    assert len(entered) <= MOST
