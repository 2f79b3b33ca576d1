"""Names of kernels, devices, groups and files are data of others: no command lets them steer a terminal or a page."""

from __future__ import annotations

import csv
import sys
import unicodedata
from pathlib import Path

import pandas as pd
import pytest

from flopcast.commands import app as commands
from flopcast.output import dumps, printable_json
from flopcast.remarks import visible
from flopcast.report.document import (
    Cell,
    Document,
    Fact,
    Facts,
    Headline,
    Line,
    Lines,
    Row,
    Section,
    Table,
    columns,
)
from flopcast.report.html import page
from flopcast.report.terminal import output, print_document
from flopcast.tests.commands.running import call
from flopcast.tests.readers.kineto.made_up import write_trace
from flopcast.tests.scaling.test_terms import TWO_PARAMETERS

HOSTILE = "k\x1b]0;x\x07\x1b[2J\x9b31m\u202egnp\u2066\u200f\u2028\r\x7f\ufeff[red]"
STORED = Path(__file__).parents[1] / "models" / "stored" / "sklearn-1.7"


def table(folder: Path) -> Path:
    """Write GEMMs on two devices, everything that is a name hostile, in a file of such a name."""
    sizes = [128 * size for size in range(1, 13)]
    frame = pd.concat(
        pd.DataFrame(
            {
                "device": device,
                "m": sizes,
                "duration_us": [factor * (9 + m**1.3 / 100) for m in sizes],
            }
        )
        for device, factor in (("MI300X", 1.0), ("MI355X", 0.6))
    ).assign(
        op="gemm", dtype_a="bf16", n=512, k=1024, kernel=HOSTILE, campaign=HOSTILE, variant=HOSTILE
    )
    return written(frame, folder)


def rows(folder: Path) -> Path:
    """Write rows for the stored run."""
    given = {
        "device": "CPU-1T",
        "op": "softmax",
        "dtype_a": "fp32",
        "duration_us": 40.0,
        "kernel": HOSTILE,
    }
    return written(
        pd.DataFrame({"rows": [64, 128], "cols": 1024}).assign(
            **given, campaign=HOSTILE, group=HOSTILE
        ),
        folder,
    )


def written(frame: pd.DataFrame, folder: Path) -> Path:
    frame.to_csv(folder / f"{HOSTILE}.csv", index=False, quoting=csv.QUOTE_NONNUMERIC)
    return folder / f"{HOSTILE}.csv"


def trace(folder: Path) -> Path:
    path = write_trace(folder / f"{HOSTILE}.json", kernels=8)
    escaped = dumps(HOSTILE).strip().strip('"')
    path.write_text(
        path.read_text()
        .replace("Cijk_Ailk_Bljk_BBS", escaped)
        .replace("ProfilerStep", escaped + "Step")
    )
    return path


def sizes(folder: Path) -> Path:
    found = [
        {"benchmark": HOSTILE, "size": size, "performance": size**0.9} for size in (8, 16, 32, 64)
    ]
    return written(pd.DataFrame(found), folder)


def regions(folder: Path) -> Path:
    path = folder / f"{HOSTILE}.txt"
    path.write_text(TWO_PARAMETERS.replace("REGION reg", f"REGION {HOSTILE}"))
    return path


def ones_own(folder: Path) -> Path:
    path = folder / f"{HOSTILE}.toml"
    path.write_text(
        f"name = {dumps(HOSTILE).strip()}\nbased_on = 'MI355X'\nmemory_bw_gbs = 10000\n"
    )
    return path


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("ingest FILE", table),
        ("ingest FILE", trace),
        ("ingest FILE --json", table),
        pytest.param(
            "train FILE --host MI300X --target MI355X --models OLS --jobs 1 --out OUT",
            table,
            marks=pytest.mark.long,
        ),
        ("validate FILE --host MI300X --target MI355X --out OUT", table),
        ("predict STORED FILE --out OUT.csv", rows),
        ("predict STORED FILE --json", rows),
        ("clean FILE --steps all", trace),
        ("project FILE --target MI355X --out OUT", trace),
        ("fidelity FILE --steps-per-trace 1 --unprofiled-us 2000", trace),
        ("scale predict FILE --fit 8,16 --out OUT", sizes),
        ("scale terms FILE --at x=100 --at y=10 --out OUT", regions),
    ],
)
def test_no_command_shows_a_name_that_steers(line: str, made, tmp_path: Path) -> None:
    words = {
        "FILE": made(tmp_path),
        "STORED": STORED,
        "OUT": tmp_path / "out",
        "OUT.csv": tmp_path / "out.csv",
    }
    result = call(*(words.get(word, word) for word in line.split()))
    assert result.exit_code == 0, result.output
    assert result.output == visible(result.output)
    for path in tmp_path.glob("out/*.html"):
        text = path.read_text(encoding="utf-8")
        begun = text.index("<body>")
        # what follows is plotly.js, then the figures
        own, _, plots = text[begun:].partition("<script>")
        plots = plots.rpartition("const plots = ")[2]
        assert own == visible(own)
        assert plots == visible(plots)
        assert "u202e" not in plots.replace("\\\\u202e", "")


@pytest.mark.parametrize(
    "line",
    [
        "ingest HOSTILE",
        "gpus HOSTILE",
        "gpus OWN",
        "train HOSTILE",
        "train --where HOSTILE=1",
        "predict HOSTILE HOSTILE",
        "predict STORED NOTUTF8",
        "scale HOSTILE",
        "train --HOSTILE",
        "scale devices HOSTILE HOSTILE",
    ],
)
def test_no_error_repeats_a_name_that_steers(line: str, tmp_path: Path) -> None:
    words = (
        line.replace("STORED", str(STORED))
        .replace("OWN", str(ones_own(tmp_path)))
        .replace("HOSTILE", HOSTILE)
        .replace("NOTUTF8", "\udcff")
        .split(" ")
    )
    result = call(*words)
    assert result.exit_code == 2
    assert result.output
    assert result.output == visible(result.output)


def test_a_traceback_does_not_repeat_it_either(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def bug(*_: object, **__: object) -> None:
        raise RuntimeError(HOSTILE)

    monkeypatch.setattr(commands, "load", bug)
    with pytest.raises(SystemExit) as ended:
        commands.script("train")
    told = capsys.readouterr().err
    assert ended.value.code == 1
    assert told.startswith("Traceback")
    assert visible(HOSTILE) in told
    assert told == visible(told)


def test_every_part_of_a_document_is_shown_without_it(capsys: pytest.CaptureFixture[str]) -> None:
    cells = (Row((HOSTILE, Cell(HOSTILE, "good"))), Row((HOSTILE,)))
    parts = [
        Facts((Fact(HOSTILE, HOSTILE),)),
        Table(
            columns(HOSTILE, numbers=[HOSTILE]),
            cells,
            title=HOSTILE,
            caption=HOSTILE,
            folded=HOSTILE,
        ),
        *(Lines((Line(HOSTILE, "error"),), look) for look in ("plain", "list", "answer")),
    ]
    opening = [Headline(about=HOSTILE, answer=HOSTILE, rival=HOSTILE, beneath=HOSTILE), *parts]
    sections, data = [Section(HOSTILE, parts)], {HOSTILE: HOSTILE}
    document = Document(HOSTILE, HOSTILE, opening, sections, closing=parts, footer=parts, data=data)
    print_document(output(), document)
    told = capsys.readouterr().out
    assert told.count(r"\u202e") >= 8
    for shown in (told, page(document), dumps(document.data)):
        assert shown == visible(shown)


def test_what_is_seen_stays_and_everything_else_is_escaped() -> None:
    kept = "µs — „größer“ 模型 \t 10\u202f000\n×\u00a0😀"
    assert visible(kept) == printable_json(kept) == kept
    hidden = [chr(code) for code in range(sys.maxunicode + 1)]
    hidden = [
        sign for sign in hidden if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    ]
    assert [sign for sign in hidden if visible(sign) == sign] == ["\t", "\n"]
    assert visible("\x1b\x9b\u202e\udcff\U000e0001") == r"\x1b\x9b\u202e\udcff\U000e0001"
