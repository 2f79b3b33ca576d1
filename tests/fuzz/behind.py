"""What commands do with what was read: a damaged input goes as far as a user's would, by the API and in this process.

Everything is small: runs of 18 workloads, tables of a few rows, the cheapest models. The number of an input says which
of several commands it goes to, and one in 32 also becomes a page.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow.parquet as pq
from rich.console import Console

import flopcast as fc
from flopcast.api.forecasting import calibrate
from flopcast.datasets import kept as kept_tables
from flopcast.errors import DataError
from flopcast.evaluation.crossval import cross_validate
from flopcast.evaluation.observers.resume import KeptFits
from flopcast.hardware import read_networks
from flopcast.output import dumps
from flopcast.power.profile import profile_files
from flopcast.projection.collective_laws import collective_us
from flopcast.report.document import Document
from flopcast.report.forecast import learnt_document
from flopcast.report.html import page
from flopcast.report.power import power_document
from flopcast.report.predictions import predictions_document, to_json
from flopcast.report.run_folder import read_metrics, read_run
from flopcast.report.terminal import print_document
from flopcast.report.training import seal_document, training_document
from flopcast.sealing import MANIFEST, check, seal
from flopcast.tests.evaluation.test_crossval import make_data
from flopcast.tests.fuzz.corpus import (
    ASKED,
    FITS,
    FITTED,
    PRODUCTS,
    STORED,
    Files,
    answers,
    cached,
    job_trace,
    predicted,
    runs,
    served_setting,
    serving_model,
)
from flopcast.workloads import serving_artifact
from flopcast.workloads.releases import Release, as_toml
from flopcast.workloads.serving_artifact import SEAL, seal_of
from flopcast.workloads.serving_model import ServingModel
from flopcast.workloads.serving_model import load as load_serving_model

PAGES: Final = 32
"""Of so many inputs one becomes a page."""


class ImpossibleError(Exception):
    """A value that cannot be came out without a word."""


PAIR: Final[dict[str, Any]] = {"host": "MI300X", "target": "MI355X"}
SERVED: Final[dict[str, Any]] = {
    "gpu": "MI300X",
    "gpus": 8,
    "batch": 8,
    "input_len": 128,
    "output_len": 64,
}
TRAINED: Final[dict[str, Any]] = {
    "kind": "training",
    "gpu": "MI300X",
    "gpus": 8,
    "global_batch": 16,
    "seq_len": 512,
}


def _shown(document: Document, number: int) -> None:
    """Show a document as terminals do, as JSON, and now and then as a page."""
    print_document(Console(file=io.StringIO(), width=100), document)
    json.loads(dumps(document.data, missing=True))
    if number % PAGES == 0:
        page(document)


def _written(folder: Path, files: Files) -> Path:
    for name, content in files.items():
        if not (place := folder / name).exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
    return folder


@cache
def _run(name: str) -> fc.Run:
    with tempfile.TemporaryDirectory() as folder:
        return fc.load(_written(Path(folder), runs()[name]))


def _run_of(path: Path) -> Path:
    """Return the folder of the run that a damaged file is of, the others beside it; sealed anew if it was sealed."""
    names = {*runs(), "stored"}
    folder = next((one for one in path.parents if one.name in names), path.parent / "paired")
    if folder.name == "stored":
        files = {
            one.relative_to(STORED).as_posix(): one.read_bytes()
            for one in STORED.rglob("*")
            if one.is_file()
        }
        return _written(folder, files)
    sealed = path.name == MANIFEST and path.parent == folder
    _written(folder, runs()[folder.name])
    if not sealed:
        seal(folder)
    return folder


def _manifest(path: Path, number: int) -> None:
    run = _run_of(path)
    if manifest := check(run):
        _shown(seal_document(str(run), manifest, None, signed=False), number)
    read_metrics(run)


def _evidence(path: Path, number: int) -> None:
    """Show a run, and compare it or load it."""
    run = _run_of(path)
    metrics, predictions = (read_metrics(run), None) if run.name == "stored" else read_run(run)
    _shown(training_document(metrics, predictions, rank=10, run=run, every=True, plot=True), number)
    if predictions is None:
        return
    if number % 2:
        other = _run("shapes" if run.name == "shapes" else "paired")
        _shown(fc.compare(run, other).document(), number)
    else:
        loaded = fc.load(run)
        repr(loaded), loaded._repr_html_(), loaded.provenance
        _shown(loaded.check(_beside(run, "new.csv", PRODUCTS)).document(), number)


def _model(path: Path, number: int) -> None:
    """Predict by a run, check it, explain a row, project or forecast by it."""
    run = _run_of(path)
    asked, measured = _beside(run, "asked.csv", ASKED), _beside(run, "new.csv", PRODUCTS)
    kind = number % (5 if run.name == "shapes" else 3)
    if kind == 0:
        _predicted(fc.predict(run, asked, fallback="law"), number)
    elif kind == 1:
        _shown(fc.check(run, measured).document(), number)
    elif kind == 2:
        _shown(fc.load(run).explain(asked).document(), number)
    elif kind == 3:
        _shown(fc.forecast("llama-3.1-8b", run=run, **SERVED).document(), number)
    else:
        _shown(
            fc.project(
                _beside(run, "trace.json", job_trace()), "MI300X", run=run, ranks=16
            ).document(),
            number,
        )


def _beside(path: Path, name: str, content: str | bytes) -> Path:
    """Write a sound file beside a damaged one, in a folder of its own."""
    place = path.parent / "sound" / name
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(content.encode() if isinstance(content, str) else content)
    return place


def _predicted(found: Any, number: int) -> None:
    frame = found.frame
    values = frame[["predicted_us", "lower_us", "upper_us"]].to_numpy(dtype=float)
    known = values[~np.isnan(values).any(axis=1)]
    if not (
        np.isfinite(known).all()
        and (known[:, 1] <= known[:, 0]).all()
        and (known[:, 0] <= known[:, 2]).all()
    ):
        raise ImpossibleError(f"predictions: {known}")
    _shown(predictions_document(frame, found.summary), number)
    json.loads(to_json(frame, found.summary))


def _predict(path: Path, number: int) -> None:
    _predicted(
        fc.predict(_run(("paired", "shapes", "prior")[number % 3]), path, fallback="law"), number
    )


def _check(path: Path, number: int) -> None:
    _shown(fc.check(_run(("paired", "shapes")[number % 2]), path).document(), number)


def _train(path: Path, number: int) -> None:
    asked = PAIR if number % 2 else {"target": "MI300X"}
    run = fc.train(path, **asked, models=["OLS"], jobs=1)
    _shown(training_document(run.metrics, run.predictions, run.measured.rejected), number)
    if number % PAGES == 0:
        run.save(path.parent / "run")
        fc.load(path.parent / "run")


def _validate(path: Path, number: int) -> None:
    _shown(fc.validate(path, **PAIR, replicates=50, folds=3).document(), number)


def _compare(path: Path, number: int) -> None:
    name, text = ("new.csv", PRODUCTS) if path.suffix == ".csv" else ("new.json", job_trace())
    _shown(fc.compare(path, _beside(path, name, text)).document(), number)


def _project(path: Path, number: int) -> None:
    changes = {"phases": True}, {"ranks": 16}, {"sweep": "memory_bw_gbs=6000:8000:1000"}
    options: dict[str, Any] = {
        "default": {"device": "MI300X"},
        "samples": 16,
        **changes[number % 3],
    }
    found = fc.project(path.parent, "MI355X", **options)
    _shown(found.document(), number)
    if number % PAGES == 0:
        found.save(path.parent / "out")


def _network(path: Path, number: int) -> None:
    """Reckon collectives on a network; one in 64 is of a trace."""
    ranks = ("8:64", 16, None)[number % 3]
    if number % 64 == 0:
        trace = _beside(path, "trace.json", job_trace())
        _shown(
            fc.project(trace, "MI355X", network=path, ranks=ranks, samples=16).document(), number
        )
        return
    for network in read_networks(path):
        for collective in ("all_reduce", "all_gather", "all_to_all"):
            us = collective_us(fc.gpu("MI300X"), collective, [1.0, 2.0**20, 2.0**33], 64, network)
            _positive(us, collective)


def _positive(values: Any, what: str) -> None:
    if not (np.isfinite(values) & (np.asarray(values) > 0)).all():
        raise ImpossibleError(f"{what}: {values}")


def _forecast(path: Path, number: int, **more: Any) -> None:
    asked = (SERVED, TRAINED, {"gpu": "MI300X", "gpus": 8, "ttft": "2s"})[
        0 if number % 3 else number // 3 % 3
    ]
    _shown(fc.forecast(path, **asked, **more).document(), number)


def _onnx(path: Path, number: int) -> None:
    _shown(fc.forecast(path, gpu="MI300X", dims="batch=6").document(), number)


def _layers(path: Path, number: int) -> None:
    plain = {"gpu": "MI355X", "gpus": 8}
    published = {"gpu": "MI355X", "time_unit": "ms", "measured_on": "MI300X"}
    _shown(
        fc.forecast(path, **(published if b"nodes" in path.read_bytes() else plain)).document(),
        number,
    )


def _cases(path: Path, number: int) -> None:
    found = fc.forecast(cases=path, need=0.1, price="$2/h")
    _shown(found.document(), number)
    found.table.to_csv(index=False)


def _calibration(path: Path, number: int) -> None:
    """Fit constants to runs with a column ``measured``, or add runs of serving to a small model."""
    if path.suffix != ".csv" or b"ttft_ms" in path.read_bytes():
        learnt = calibrate(path, prior=str(_beside(path, "own.parquet", serving_model())))
        assert isinstance(learnt, ServingModel)
        _shown(learnt_document(learnt), number)
        return
    found = calibrate(path, prior=(None, "vllm-0.10.0")[number % 2])
    assert isinstance(found, Release)
    _shown(found.document(), number)
    own = _beside(path, "own.toml", as_toml(found))
    asked = SERVED if found.kind == "serving" else TRAINED
    _shown(fc.forecast("llama-3.1-8b", release=str(own), **asked).document(), number)


def _gpu(path: Path, number: int) -> None:
    """Ask of a GPU file what it takes to serve and to train there; one in 64 projects a trace to it."""
    if number % 64 == 0:
        trace = _beside(path, "trace.json", job_trace())
        _shown(fc.project(trace, path, samples=16, ranks=16).document(), number)
        return
    asked = {**(SERVED if number % 2 else TRAINED), "gpu": path}
    _shown(fc.forecast("llama-3.1-8b", **asked).document(), number)


def _fits(path: Path, number: int) -> None:
    """Go on from the fits of a training, each line sealed anew."""
    of = msgspec.json.encode(FITS)
    first, *lines = path.read_bytes().splitlines() or [b""]
    for place, line in enumerate(lines):
        text = line.partition(b" ")[2]
        lines[place] = hashlib.sha256(of + b"\n" + text).hexdigest().encode() + b" " + text
    path.write_bytes(b"".join(line + b"\n" for line in (first, *lines)))
    kept = KeptFits(path, FITS, resume=True)
    found = cross_validate(make_data(), [FITTED], folds=3, observers=[kept])
    for scheme in found.schemes.values():
        values = scheme.predictions.to_numpy()
        if not np.isfinite(values).all() or np.abs(values).max() > 1000 * found.observed.max():
            raise ImpossibleError(f"predictions: {np.abs(values).max()}")


def _cache(path: Path, number: int) -> None:
    """Look into a folder of the cache of public tables as it was brought, one file of it or of its digests damaged."""
    inside = [one for one in path.parents if one.name == "brought"]
    place = inside[0] if inside else path.with_name("brought")
    _written(place.parent, cached())
    wrong = kept_tables.problem(place)
    if not wrong and any(
        (place.parent / name).read_bytes() != content
        for name, content in cached().items()
        if name.startswith("brought/")
    ):
        raise ImpossibleError("an edited table is believed")
    if wrong:
        raise DataError(wrong, source=str(place))


def _answer(path: Path, number: int) -> None:
    """Compare a saved answer with the sound one of its kind, or with another kind; predictions seldom as a file."""
    sound = answers()
    name = path.name if path.name in sound and number % 4 else sorted(sound)[number % len(sound)]
    other: Any = predicted()
    if number % PAGES == 0 or name != "predicted.json":
        other = _beside(path, name, sound[name])
    _shown(fc.compare(path, other).document(), number)


def _release(path: Path, number: int) -> None:
    _shown(fc.forecast("llama-3.1-8b", release=str(path), **SERVED).document(), number)


def _sealed_serving_model(path: Path, number: int) -> None:
    """Forecast by a model of serving that was sealed anew after it was damaged."""
    with suppress(Exception):  # what cannot be read is not sealed
        table, texts = serving_artifact._read(path)
        texts[SEAL] = seal_of(table, texts)
        pq.write_table(table.replace_schema_metadata(texts), path)
    _serving_model(path, number)


def _serving_model(path: Path, number: int) -> None:
    """Load a model of serving; some also say the times of a setting, and fewer all ways to serve a model."""
    if number % PAGES == 0:
        found = fc.forecast(
            "llama-3.1-8b", gpu="MI300X", gpus=1, release=str(path), concurrency=[1, 64]
        )
        _shown(found.document(), number // PAGES)
        return
    model = load_serving_model(path)
    if number % 4 == 0:
        times = model.served(served_setting())
        for name in ("tpot_ms", "ttft_ms", "tpot_spread", "ttft_spread"):
            _positive(getattr(times, name), name)


def _scale(path: Path, number: int) -> None:
    scenario = ("strong", "weak", "chiplets")[number % 3]
    _shown(
        fc.scale(
            path, fit=[8, 16], sizes=None if number % 2 else [64], scenario=scenario
        ).document(),
        number,
    )


def _power_profile(path: Path, number: int) -> None:
    log, executions, clocks = (
        path.parent / f"{name}.csv" for name in ("log", "executions", "clocks")
    )
    window = 1000.0 if number % 2 else None
    found = profile_files(log, executions, clocks, window_us=window)
    _shown(power_document(replace(found, cap_w=750.0)), number)


BEHIND: Final[dict[str, Callable[[Path, int], None]]] = {
    "manifest": _manifest, "metrics": _evidence, "predictions": _evidence, "run's model": _model, "prior": _model,
    "train": _train, "validate": _validate, "predict": _predict, "check": _check, "compare": _compare,
    "project": _project, "network": _network, "config.json": _forecast, "ONNX": _onnx, "layers": _layers,
    "cases": _cases, "calibration": _calibration, "release": _release, "serving model": _serving_model,
    "scale": _scale, "power profile": _power_profile, "GPU": _gpu, "fits": _fits, "cache": _cache, "answer": _answer,
    "sealed serving model": _sealed_serving_model,
}  # fmt: skip
