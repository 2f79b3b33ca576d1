"""Pages made by the quick commands, and a browser to look at them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from flopcast.benchmarks.power_simulator import Scenario, simulate
from flopcast.report.document import Column, Document, Listing, Section
from flopcast.report.html import page
from flopcast.tests.browser.chromium import PROGRAM, Chromium, Tab
from flopcast.tests.commands.running import call, hurry
from flopcast.tests.readers.kineto.made_up import event, kernel, launch, op, write

EMBEDDED = Path(__file__).parents[2] / "datasets"
EVIL = "<img src=x onerror=\"document.title='run'\">"
GEMMS = "--where m=1..64"
COMMANDS = {
    "train": f"train DATA {GEMMS} --host MI300X --target MI355X --models OLS,Additive --jobs 1 --quiet --out OUT",
    "validate": f"validate DATA {GEMMS} --host MI300X --target MI355X --out OUT",
    "check": f"check TRAIN DATA {GEMMS} --out OUT",
    "ingest": "ingest TRACE DATA --out OUT",
    "project": "project TRACE --target MI355X --sweep memory_bw_gbs=100:10100:5000 --out OUT",
    "forecast": "forecast llama-3.1-70b --gpus 8 --dtype fp8 --batch 1,4 --input-len 128,2048 --output-len 99 "
    "--out OUT",
    "deployments": "forecast llama-3.1-70b --gpu MI300X,H200 --ttft 2s --tpot 50ms --rate 4/s --price $2 --out OUT",
    "scale": f"scale predict {EMBEDDED / 'scale_model.csv'} --where benchmark=bfs,dct --fit 8,16 --sizes 128 --out OUT",
    "compare": "compare TRAIN TRAIN TRAIN --out OUT",
    "compare-traces": "compare TRACE TRACE --out OUT",
    "power": "power profile LOG --executions EXECUTIONS --clocks CLOCKS --window-us 1000 --out OUT",
    "training-step": "forecast train llama-3.1-8b --gpus 8 --global-batch 128 --seq-len 4096 --out OUT",
    "score": "forecast hpl --gpu MI300A --gpus 64 --out OUT",
    "explain": f"explain TRAIN DATA {GEMMS} --row 2 --out OUT",
}
"""Name -> the command that makes the page; TRAIN is the folder of the first, DATA measurements with names of markup."""
MARKED = ("train", "validate", "check", "ingest", "project", "power", "explain")
"""Pages of data whose names are markup."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Look only where there is a browser, and not in the brief form of the tests."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("long")
            item.add_marker(
                pytest.mark.skipif(PROGRAM is None, reason="needs Chromium (Debian: chromium)")
            )


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """Run a browser for the tests of a module: an open page takes time until it closes."""
    with Chromium(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture(scope="module")
def tab(browser: Chromium) -> Tab:
    return browser.tab()


def write_trace(path: Path) -> None:
    """Write a PyTorch trace with a launch and a kernel for each of 30 operators, one of a name that is markup."""
    events = []
    for number in range(1, 31):
        at, name = 100.0 * number, EVIL if number == 7 else f"Cijk_{number % 4}"
        shapes = {"Input Dims": [[512, 1024], [1024, 1024]], "Input type": ["float", "float"]}
        events += [
            op("aten::mm", at, 20.0, number, **shapes),
            launch(at + 2, number, **{"External id": number}),
            kernel(at + 10, number, 40.0 + number % 3, name, **{"External id": number}),
        ]
    events.append(event("user_annotation", "ProfilerStep#1", 50.0, 3200.0))
    write(path, events)


def write_data(path: Path) -> None:
    """Write the embedded measurements with names that are markup, and a spike."""
    rows = pd.read_parquet(EMBEDDED / "aiter_fp8.parquet").assign(kernel=EVIL, campaign=EVIL)
    rows["group"] = EVIL + rows["n"].astype(str) + "x" + rows["k"].astype(str)
    rows.loc[rows["m"].eq(32).to_numpy().argmax(), "duration_us"] *= 5
    rows.to_csv(path, index=False)


def write_power(folder: Path) -> None:
    """Write the log of a simulated measurement of kernels whose names are markup."""
    simulated = simulate(Scenario(runs=80))
    kernels = simulated.executions["run"].mod(2).map({0: EVIL, 1: f"{EVIL} again"})
    simulated.log.to_csv(folder / "log.csv", index=False)
    simulated.executions.assign(kernel=kernels).to_csv(folder / "executions.csv", index=False)
    simulated.pairs.to_csv(folder / "clocks.csv", index=False)


class Pages(dict[str, Path]):
    """The page of each command, made when it is first asked for, by the one process of the tests that does so."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def __missing__(self, name: str) -> Path:
        words = {
            "OUT": self._folder / name,
            "TRACE": self._folder / "trace.json",
            "TRAIN": self._folder / "train",
        }
        words |= {
            name: self._folder / f"{name.lower()}.csv" for name in ("LOG", "EXECUTIONS", "CLOCKS")
        }
        words["DATA"] = self._folder / f"{EVIL}.csv"
        asked = COMMANDS[name].split()
        if "TRAIN" in asked:
            assert self["train"].exists()
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not words["OUT"].exists():
                if "DATA" in asked and not words["DATA"].exists():
                    write_data(words["DATA"])
                if "LOG" in asked:
                    write_power(self._folder)
                if "TRACE" in asked and not words["TRACE"].exists():
                    write_trace(words["TRACE"])
                done = call(*(words.get(word, word) for word in asked))
                assert done.exit_code == 0, done.output
        (self[name],) = words["OUT"].glob("*.html")
        return self[name]


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "pages"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        hurry(patch)
        yield Pages(folder)


@pytest.fixture(scope="session")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page with a table of 120 rows, of which one has a name that is markup."""
    names = [f"K{place}" for place in range(119)] + [EVIL]
    times = [f"{place + 1:,} µs" if place % 2 else f"{place + 1:,} ms" for place in range(120)]
    kinds = ["even" if place % 2 == 0 else "odd" for place in range(120)]
    columns = (Column("kernel"), Column("time", "number"), Column("kind"))
    table = Listing(columns, lambda: [names, times, kinds], "all")
    path = tmp_path_factory.mktemp("listed") / "page.html"
    path.write_text(page(Document("T", "", sections=[Section("All", [table])])), encoding="utf-8")
    return path
