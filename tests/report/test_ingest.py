"""What was read, as a document: two traces, kernels without a class, findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from flopcast.readers.labels import canonical_device
from flopcast.remarks import remark
from flopcast.report.document import Headline
from flopcast.report.ingest import (
    example_table,
    finding_table,
    ingest_document,
    overview_json,
    unclassified_table,
)
from flopcast.traces.dispatches import Finding
from flopcast.traces.summary import UNCLASSIFIED, Overview

from .pages import printed

ZERO = remark("zero-duration", "activities that took no time: rows refused")
DEVICE = canonical_device("gfx[x]")[1] or ZERO


def overview(
    label: str, kernels: int, findings: Sequence[Finding] = (), device: str = "MI300X"
) -> Overview:
    """Return a trace of products, and of kernels without a class."""
    classes = [("gemm", "aten::mm", 3, 1200.0), ("", UNCLASSIFIED, kernels, 100.0 * kernels)]
    unknown = [(f"kernel[{place}]_" + "x" * 60, "", 1, 100.0 - place) for place in range(kernels)]
    return Overview(
        label, (device,), {"kernel": 3 + kernels, "memcpy": 2}, 4, 1200.0 + 100 * kernels, 1000.0, 2_000_000.0,
        pd.DataFrame(classes, columns=["kernel_class", "op_class", "count", "time_us"]),
        pd.DataFrame(unknown, columns=["name", "op_name", "count", "duration_us"]),
        tuple(findings), (),
    )  # fmt: skip


TRACES = (
    overview("a.json", 12, [Finding(ZERO, "error", 3, 0.25, "a.json:7")]),
    overview("b[1].json", 0, [Finding(ZERO, "error", 1, 0.0), Finding(DEVICE, "info", 2)], ""),
)


def test_traces_losses_and_what_is_held_are_printed(golden: Callable[[str, str], None]) -> None:
    document = ingest_document(
        TRACES, {"zero-duration": 4}, [DEVICE], ["c.json: no JSON"], held="7 measurements"
    )
    golden("ingest.txt", printed(document))


def test_a_page_says_first_what_there_is_and_what_to_look_at() -> None:
    (first,) = ingest_document(TRACES, {"zero-duration": 4}, [], ["c.json: no JSON"]).opening
    assert isinstance(first, Headline)
    assert (first.medium, first.answer) == (
        "both",
        "18 kernels of 2 traces, 3.6 ms of the GPU's time",
    )
    for said in ("1 error: activities that took no time [zero-duration]", "4 rows", "1 file"):
        assert said in first.beneath
    (clean,) = ingest_document([], {}, [], []).opening
    assert isinstance(clean, Headline)
    assert clean.beneath != first.beneath


def test_of_tables_only_what_was_lost_is_said() -> None:
    assert printed(ingest_document([], {}, ["a note"], [], held="1 row")).splitlines() == [
        "note: a note",
        "1 row",
    ]


def test_kernels_beyond_ten_are_summed_on_a_terminal() -> None:
    table = unclassified_table(TRACES)
    assert (len(table.rows), table.shown) == (12, 10)
    assert table.rest is not None
    assert table.rest.cells == ("2 more", "", "2", "0.179", "4.97 %")


def test_equal_findings_stand_together_the_gravest_first() -> None:
    first, second = finding_table(TRACES).rows
    assert [getattr(cell, "text", cell) for cell in first.cells[:4]] == [
        "error",
        "zero-duration",
        "4",
        "16.7 %",
    ]
    assert str(first.cells[4]).endswith("(a.json:7; 2 traces)")
    assert (first.cells[0].tone, second.cells[0].tone) == ("error", "soft")  # type: ignore[union-attr]


def test_machines_get_codes_and_words() -> None:
    (finding,) = overview_json(TRACES[0])["findings"]
    assert (finding["code"], finding["count"], finding["share"]) == ("zero-duration", 3, 0.25)
    assert finding["message"]


def test_a_rejected_row_without_a_detail_has_no_empty_brackets() -> None:
    row = {"source": "a.json:7", "reason": "zero-duration", "detail": "", "values": "m=1"}
    table = example_table(pd.DataFrame([row, row | {"detail": "0 ns"}]))
    reasons = [str(one.cells[1]) for one in table.rows]
    assert not reasons[0].endswith(")")
    assert reasons[1] == f"{reasons[0]} (0 ns)"
