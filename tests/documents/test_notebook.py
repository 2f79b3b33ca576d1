"""A notebook that is executed: progress, results as pages in their cells, errors in a line."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from typing import Any

import pytest

CELLS = (
    "import flopcast as fc\ndata = fc.read(where={'m': (None, 64)})\ndata",
    "run = fc.train(data, target='MI355X', host='MI300X', models=['Additive'], jobs=1)\nrun",
    "run.explain(data, row=3)",
    "fc.train('nofile.csv')",
    "fc.forecast('llama-3.1-8b', gpu=['MI300X', 'H200'], batch=[1, 8], input_len=128, output_len=16).what_if()",
)


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """Return the outputs of each cell."""
    nbformat = pytest.importorskip("nbformat", reason="needs nbclient: uv pip install --group docs")
    client = pytest.importorskip("nbclient", reason="needs nbclient: uv pip install --group docs")
    pytest.importorskip("ipykernel", reason="needs ipykernel: uv pip install --group docs")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    at: Path = tmp_path_factory.mktemp("notebook")
    client.NotebookClient(
        book, timeout=None, allow_errors=True, resources={"metadata": {"path": at}}
    ).execute()
    return [cell["outputs"] for cell in book["cells"]]


@pytest.mark.no_cover
def test_results_are_pages_in_their_cells(executed: list[list[dict[str, Any]]]) -> None:
    data, run, why, _, slid = (
        unescape("".join(output.get("data", {}).get("text/html", "") for output in cell))
        for cell in executed
    )
    assert ">duration_us</th>" in data
    assert 'class="bars"' in run
    assert ">Additive</span>" in run
    assert ">predicted</span>" in why
    assert slid.count("<template>") == 4


@pytest.mark.no_cover
def test_training_shows_its_progress(executed: list[list[dict[str, Any]]]) -> None:
    assert [output for output in executed[1] if output["output_type"] == "stream"] == []
    shown = [output for output in executed[1] if output["output_type"] == "display_data"]
    (line,) = (output["data"]["text/plain"] for output in shown)
    done, total = line.split(": ")[1].split(" ")[0:3:2]
    assert done == total


@pytest.mark.no_cover
def test_a_mistake_is_a_line_and_not_the_calls_that_led_there(
    executed: list[list[dict[str, Any]]],
) -> None:
    (wrong,) = executed[3]
    assert wrong["output_type"] == "error"
    assert [line.startswith("DataError: nofile.csv") for line in wrong["traceback"]] == [True]
