"""Every result of the API has one protocol: table, document, to_dict, save, and what notebooks show."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.benchmarks.made_up_counters import workloads
from flopcast.datasets.fetching import SOURCES
from flopcast.errors import DataError, FlopcastError
from flopcast.evaluation import counter_choice
from flopcast.measuring.measure import Measured
from flopcast.output import is_marked
from flopcast.report.document import Document
from flopcast.report.html import page
from flopcast.report.result import Result, saving
from flopcast.tests.commands.running import hurry
from flopcast.tests.commands.test_project import ranks_of_a_job
from flopcast.tests.readers.kineto.made_up import write_trace
from flopcast.tests.scaling.test_terms import TWO_PARAMETERS

SMALL = {"m": (None, 64)}
SERVED = {
    "device": "MI300X", "op": "serving", "dtype_a": "bf16", "engine": "vllm", "tp": 1, "model": "llama-3.1-8b",
    "input_len": 1024, "output_len": 128, "ttft_ms": 100.0,
}  # fmt: skip


@dataclass
class Made:
    """Results of small calls, each made when it is first asked for."""

    folder: Path

    @cached_property
    def run(self) -> fc.Run:
        return fc.train(where=SMALL, models="OLS", jobs=1)

    @cached_property
    def other_run(self) -> fc.Run:
        return fc.train(where=SMALL, models="Additive", jobs=1)

    @cached_property
    def rows(self) -> fc.Measurements:
        return fc.read(where={"m": (65, 128)})

    @cached_property
    def trace(self) -> Path:
        return write_trace(self.folder / "trace.json", duration=300)

    @cached_property
    def table(self) -> Path:
        path = self.folder / "rows.csv"
        self.rows.save(path)
        return path

    @cached_property
    def other_trace(self) -> Path:
        return write_trace(self.folder / "other.json", duration=360)

    @cached_property
    def forecasts(self) -> Any:
        return fc.forecast("llama-3.1-8b", gpu="MI300X", batch=[1, 2], input_len=64, output_len=16)

    @cached_property
    def recording(self) -> fc.PowerRecording:
        kernels = pd.DataFrame({"op": "gemm", "dtype_a": "bf16", "m": [8192], "n": 8192, "k": 8192})
        kernels.to_csv(self.folder / "kernels.csv", index=False)
        out = self.folder / "recorded"
        return fc.power_record(self.folder / "kernels.csv", out=out, logger="simulated", seed=2)

    @cached_property
    def measured(self) -> Measured:
        table = self.rows.frame.head(3).assign(
            interval_low_us=1.0, interval_high_us=2.0, outliers=0, clock_share=0.0, late_share=0.0,
            stopped_by="interval", repeats=20,
        )  # fmt: skip
        about = {"schema": 1, "refused": [], "unmeasured": 0, "workloads": 3}
        return Measured(table, about, pd.Series(dtype=float), [], "done")


def _candidates() -> pd.DataFrame:
    rows = fc.read(where={"m": (65, 256)}).frame
    return rows[rows["device"].eq("MI300X")].head(40)


def _profiles(made: Made) -> fc.PowerProfiles:
    log, executions, clocks, _ = made.recording.files
    return fc.power_profile(log, executions, clocks, component="total", window_us=1000)


def _counters(made: Made) -> fc.CounterChoice:
    path = made.folder / "counters.parquet"
    workloads(60, 24).to_parquet(path)
    return fc.counters(path, host="MI300X", target="MI355X", max_passes=1, jobs=1)


def _scaling(_: Made) -> fc.Scaling:
    return fc.scale(fit="8,16", performance="1,1.9", sizes="32")


def _devices(_: Made) -> fc.MeasuredScaling:
    rows = pd.DataFrame({"m": [2**power for power in range(6, 14)]})
    rows = rows.assign(op="gemm", dtype="bf16", n=[512, 1024, 1536, 2048] * 2, k=4096)
    tables = [
        rows.assign(device="MI308X", us=2.0 * rows["m"]),
        rows.assign(device="MI300X", us=1.0 * rows["m"]),
    ]
    return fc.scale_devices(*tables, devices="MI308X,MI300X", replicates=100)


def _runs(made: Made) -> fc.RunTable:
    folder = made.folder / "runs"
    if not folder.exists():
        made.run.save(folder / "ols")
        made.other_run.save(folder / "additive")
    return fc.compare(folder)


def _terms(made: Made) -> fc.TermModels:
    path = made.folder / "solver.txt"
    path.write_text(TWO_PARAMETERS)
    return fc.scale_terms(path, at={"x": 100, "y": [5, 10]})


def _release(_: Made) -> object:
    runs = {"model": "llama-3.1-8b", "gpu": "MI300X", "batch": [1, 8], "input_len": 128}
    return fc.calibrate(pd.DataFrame({**runs, "output_len": 512, "measured": [2.1, 2.4]}))


def _serving(_: Made) -> object:
    rows = pd.DataFrame({"concurrency": [1, 64], "tpot_ms": [8.0, 20.0]}).assign(**SERVED)
    return fc.calibrate(rows)


def _fetched(made: Made) -> fc.Fetched:
    held = made.folder / "tables"
    held.mkdir(exist_ok=True)
    (held / "a.txt").write_text("one")
    return fc.Fetched(held, SOURCES["miopen"].repository, name="miopen")


def _inline(_: Made) -> fc.InlineTimes:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    with torch.no_grad(), fc.inline(model) as times:
        model(torch.ones(4, 8))
    return times


MAKERS: dict[str, Callable[[Made], Any]] = {
    "Advice": lambda made: fc.advise(made.run, _candidates(), rows=2),
    "Answer": lambda made: fc.show(made.run),
    "CalibratedRelease": _release,
    "CalibratedServing": _serving,
    "Check": lambda made: fc.check(made.run, made.rows),
    "Cleaning": lambda made: fc.clean(made.trace, default={"device": "MI300X"}, jobs=1),
    "CounterChoice": _counters,
    "Curve": lambda made: fc.curve(
        host="MI300X", target="MI355X", where=SMALL, rows=20, draws=1, models="Additive"
    ),
    "Deployments": lambda made: fc.forecast("llama-3.1-8b", gpus="1:2", rate=1),
    "EstimateComparison": lambda made: fc.compare(made.forecasts, made.forecasts),
    "Explanation": lambda made: fc.explain(made.run, made.rows),
    "Fetched": _fetched,
    "Fidelity": lambda made: fc.fidelity(made.trace, made.other_trace, unprofiled_us=8900),
    "Forecasts": lambda made: made.forecasts,
    "Ingested": lambda made: fc.ingest(made.trace, default={"device": "MI300X"}, jobs=1),
    "InlineTimes": _inline,
    "Measured": lambda made: fc.Measured.from_fields(made.measured),
    "MeasuredScaling": _devices,
    "Measurements": lambda made: made.rows,
    "Need": lambda made: fc.needed(made.run, 0.5),
    "PlannedPasses": lambda made: fc.plan("rocprofv3", made.trace, kernels_per_pass=2),
    "PowerPlan": lambda made: fc.power_plan(120, 1000, lag_us=400),
    "PowerProfiles": _profiles,
    "PowerRecording": lambda made: made.recording,
    "Prediction": lambda made: fc.predict(made.run, made.rows),
    "ProjectedJob": lambda made: fc.project_job(ranks_of_a_job(made.folder), target="MI355X"),
    "ProjectedTrace": lambda made: fc.project(made.trace, target="MI355X"),
    "Projections": lambda made: fc.project_each(made.trace, target=["MI355X", "H200"]),
    "PublishedScaling": lambda made: fc.scale_facts(),
    "Run": lambda made: made.run,
    "RunComparison": lambda made: fc.compare(made.run, made.other_run),
    "Runs": lambda made: fc.train_each(
        host="MI300X", targets="MI355X", where=SMALL, models="OLS", jobs=1
    ),
    "Scaling": _scaling,
    "Score": lambda made: fc.forecast_hpcg("MI250X (per GCD)", 8),
    "Scores": lambda made: fc.forecast_hpcg("MI250X (per GCD)", "8:32"),
    "RunTable": _runs,
    "SeveralComparison": lambda made: fc.compare(made.run, made.other_run, made.run),
    "TableComparison": lambda made: fc.compare(made.table, made.table),
    "TermModels": _terms,
    "TraceComparison": lambda made: fc.compare(made.trace, made.other_trace),
    "Validation": lambda made: fc.validate(where=SMALL, replicates=100),
}
"""How a result of each kind is made."""


def _kinds() -> dict[str, type[Result]]:
    """Return the exported kinds of results."""
    kinds = {}
    for name in fc.__all__:
        exported = getattr(fc, name)
        if inspect.isclass(exported) and issubclass(exported, Result) and exported is not Result:
            kinds[name] = exported
    return kinds


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("made"))


def test_what_a_public_function_returns_is_exported() -> None:
    plain = {"DataFrame", "list[GPU]", "GPU", "Inline", "AbstractContextManager[None]"}
    kinds = _kinds()
    for name in fc.__all__:
        function = getattr(fc, name)
        if not inspect.isroutine(function):
            continue
        stated = inspect.signature(function).return_annotation
        module = inspect.getmodule(function)
        named = {part.strip().removeprefix("pd.") for part in str(stated).split("|")}
        for kind in named - plain:
            union = getattr(module, kind, None)
            parts = [part.__name__ for part in get_args(union)] or [kind]
            assert set(parts) <= kinds.keys(), (name, kind)


def test_every_kind_of_result_is_tried() -> None:
    assert MAKERS.keys() == _kinds().keys()


@pytest.mark.parametrize("name", MAKERS)
def test_a_result_has_the_protocol(
    name: str, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    monkeypatch.setattr(counter_choice, "CATEGORIES", {"NNLS": ("NNLS",)})
    found = MAKERS[name](made)
    assert type(found) is getattr(fc, name)
    assert isinstance(found.table, pd.DataFrame)
    assert len(found.table.columns)
    assert isinstance(found.document(), Document)
    plain = found.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain
    assert repr(found).startswith(f"<{name}")
    assert "\n" not in repr(found)
    assert found._repr_html_().startswith("<iframe")
    text = found.report()
    assert "<html" in text
    assert "<h1></h1>" not in text
    found.save(tmp_path / "one.html")
    assert is_marked(tmp_path / "one.html")
    _is_saved(found, tmp_path)


def _is_saved(found: Any, folder: Path) -> None:
    """Save a result as a file and as a folder, again over what it wrote, and never over what is the user's."""
    file = folder / "one.json"
    for _ in range(2):
        found.save(file)
    assert json.loads(file.read_text(encoding="utf-8"))
    mine = folder / "mine.json"
    mine.write_text("{}")
    with pytest.raises(DataError):
        found.save(mine)
    assert mine.read_text() == "{}"
    found.save(mine, overwrite=True)
    assert is_marked(mine)
    if type(found) not in (fc.Prediction, fc.Advice):  # files alone
        for _ in range(2):
            found.save(folder / "all")
        written = {path.name for path in (folder / "all").iterdir()}
        assert written >= set(found.saved_as)


def test_the_table_that_is_saved_reads_back(made: Made, tmp_path: Path) -> None:
    found = fc.check(made.run, made.rows)
    found.save(tmp_path / "check.csv")
    again = pd.read_csv(tmp_path / "check.csv")
    assert list(again) == list(found.table)
    assert np.allclose(again["e_out"], found.table["e_out"])


def test_pages_of_a_result_and_of_its_document_are_one() -> None:
    found = fc.forecast_hpcg("MI250X (per GCD)", 8)
    assert found.report() == page(found.document())
    assert found.to_dict()["gpu"] == "MI250X (per GCD)"
    assert get_type_hints(fc.Result.to_dict)["return"] == dict[str, Any]


def test_a_place_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "mine.txt").touch()
    (tmp_path / "mine.json").write_text("{}")
    begun = []

    def worked() -> fc.Check:
        begun.append(1)
        raise AssertionError

    for kind in ("Check", "Run", "Check | Curve"):
        worked.__annotations__["return"] = kind
        for place in ("theirs", "mine.json", "mine.json/page.html"):
            with pytest.raises(FlopcastError, match=place):
                saving(worked)(out=tmp_path / place)
    assert not begun
    with pytest.raises(AssertionError):
        saving(worked)(out=tmp_path / "mine.json", overwrite=True)
