"""Tables of a page in a real browser: sorted, searched, turned, downloaded; names stay text."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from flopcast.report.document import Column, Document, Listing, Section
from flopcast.report.html import page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
EVIL = "<img src=x onerror=\"document.title='run'\">"
ACT = """
const grid = tables.all, seen = () => [...grid.body.rows].map(row => row.cells[1].textContent), told = {};
const head = at => grid.heads[at].querySelector("button");
told.first = [seen().length, grid.said.textContent];
head(1).click(); told.most = [seen()[0], grid.heads[1].ariaSort];
head(1).click(); told.least = [seen()[0], grid.heads[1].ariaSort];
grid.search.value = "K7 "; grid.search.dispatchEvent(new Event("input")); told.found = grid.said.textContent;
told.shown = [grid.show(119), grid.body.querySelector(".found").cells[0].textContent];
told.csv = grid.text(",").split("\\n").slice(0, 2);
told.title = document.title;
document.body.append(Object.assign(document.createElement("pre"), {id: "told", textContent: JSON.stringify(told)}));
"""


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_a_table_is_sorted_searched_and_read_out(tmp_path: Path) -> None:
    names = [f"K{place}" for place in range(119)] + [EVIL]
    times = [f"{place + 1:,} µs" if place % 2 else f"{place + 1:,} ms" for place in range(120)]
    table = Listing((Column("kernel"), Column("time", "number")), lambda: [names, times], "all")
    text = page(Document("T", "", sections=[Section("All", [table])]))
    path = tmp_path / "page.html"
    path.write_text(text.replace("</body>", f"<script>{ACT}</script></body>"), encoding="utf-8")
    line = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", path.as_uri()]
    shown = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True).stdout
    told = json.loads(html.unescape(re.search('<pre id="told">(.*?)</pre>', shown, re.DOTALL)[1]))
    assert told["first"] == [25, "1–25 of 120"]
    assert told["most"] == ["119 ms", "descending"]
    assert told["least"] == ["2 µs", "ascending"]
    assert told["found"] == "1–11 of 11 found of 120"
    assert told["shown"] == [True, EVIL]
    assert told["csv"] == ["kernel,time µs", "K1,2"]
    assert told["title"].startswith("T")
