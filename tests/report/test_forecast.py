"""What a calibrated model of serving is said to hold."""

from __future__ import annotations

from dataclasses import replace

from flopcast.report.forecast import learnt_document
from flopcast.workloads.serving_model import shipped


def test_own_runs_are_counted_apart_from_published_ones() -> None:
    whole = shipped()
    published = len(whole.runs) - 3
    document = learnt_document(replace(whole, about={**whole.about, "own_from": published}))
    assert document.title.startswith("3 own runs ")
    assert document.title.endswith(f"{published:,} published")
    assert document.data["published"] == published
    assert document.data["runs"] == published + 3
