"""Values as people write them, and that both doors take the same."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import flopcast as fc
from flopcast import values
from flopcast.commands.app import COMMANDS, load
from flopcast.commands.declared import declared
from flopcast.commands.derived import KINDS
from flopcast.errors import FlopcastError, ParameterError
from flopcast.output import dumps
from flopcast.tests.commands.running import call
from flopcast.workloads.supercomputers import Spread


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (values.names, " OLS,Stack ", ["OLS", "Stack"]),
        (values.columns, "n, k", ["n", "k"]),
        (values.numbers, "8, 1.5", [8.0, 1.5]),
        (values.counts, "1,2", [1, 2]),
        (values.counts, "1:8", [1, 2, 4, 8]),
        (values.counts, "3:20,7", [3, 6, 12, 7]),
        (values.duration, "10m", 600.0),
        (values.duration, "1.5h", 5400.0),
        (values.duration, "90s", 90.0),
        (values.size, "2k", 2048),
        (values.assigned, ["time=ms"], {"time": "ms"}),
        (values.assigned, "device=MI300X", {"device": "MI300X"}),
        (values.assigned, ["a=b=c", "a=b=c"], {"a": "b=c"}),
        (values.assigned_counts, ["SQ=8"], {"SQ": 8}),
        (values.repeated, "3*1,2", [1, 1, 1, 2]),
        (values.spread, "0.74±0.06", (0.74, 0.06)),
        (values.spread, "0.74", (0.74, 0.0)),
    ],
)
def test_texts_are_read(parse: Callable[[str, Any], object], text: Any, expected: object) -> None:
    assert parse("x", text) == expected


@pytest.mark.parametrize(
    ("parse", "given", "expected"),
    [
        (values.names, ("OLS",), ["OLS"]),
        (values.numbers, 8, [8]),
        (values.numbers, range(2), [0, 1]),
        (values.counts, 4, [4]),
        (values.duration, 90, 90),
        (values.size, 1024, 1024),
        (values.assigned, {"m": 1, "n": "x"}, {"m": "1", "n": "x"}),
        (values.repeated, (1, 2), [1, 2]),
        (values.names, None, None),
        (values.numbers, None, None),
        (values.counts, None, None),
        (values.duration, None, None),
        (values.size, None, None),
        (values.assigned, None, {}),
    ],
)
def test_what_is_no_text_passes(
    parse: Callable[[str, Any], object], given: object, expected: object
) -> None:
    assert parse("x", given) == expected


WRONG = (
    *((values.names, text) for text in ("", "OLS,,Stack", ",")),
    *((values.columns, text) for text in ("", "n,,k", "n,n")),
    *((values.numbers, text) for text in ("1,", "8,inf", "nan", "a")),
    *((values.counts, text) for text in ("1.5", "", "4:2", "0:8", "-1", "1:a")),
    *((values.duration, text) for text in ("soon", "12", "-1m", "0s", "1.2.3s", "5 minutes")),
    *((values.size, text) for text in ("", "12", "-1G", "1e30T", "nanM", "0G")),
    *((values.assigned, text) for text in (["time=ms", "time=us"], ["MI300X"], ["=3"], 3)),
    *((values.assigned_counts, text) for text in (["SQ=a"], ["SQ"])),
    *((values.repeated, text) for text in ("0*1", "a", "2*", "")),
    *((values.spread, text) for text in ("a", "1±b")),
)


@pytest.mark.parametrize(("parse", "text"), WRONG)
def test_what_is_malformed_is_refused_by_the_name_of_its_parameter(
    parse: Callable[[str, Any], object], text: Any
) -> None:
    with pytest.raises(ParameterError, match=r"^x "):
        parse("x", text)


def test_repeats_name_what_there_is_once() -> None:
    names = ["gemm", "gemv", "all_gather", "gemm"]
    assert values.repeated("sequence", "40×gemv, all_gather,1", names) == [*[2] * 40, 3, 1]
    with pytest.raises(ParameterError, match="which gemm is meant: 1 or 4"):
        values.repeated("sequence", "gemm,gemv", names)
    with pytest.raises(ParameterError, match="numbers or names"):
        values.repeated("sequence", "softmax", names)


COUNTS = (
    "batch",
    "input_len",
    "output_len",
    "num_prompts",
    "max_num_seqs",
    "max_batched_tokens",
    "micro_batch",
    "global_batch",
    "seq_len",
    "recompute_layers",
    "interleave",
    "zero",
    "gpus",
    "tp",
    "pp",
    "dp",
    "cp",
    "ep",
    "node_gpus",
    "concurrency",
)
NAMES = ("dtype", "kv_dtype", "release", "engine", "recompute", "schedule", "optimizer", "gpu")
SPREADS = (
    "product",
    "panel_share",
    "machine",
    "stream",
    "reached",
    "scaling",
    "peak_share",
    "kernel_share",
)
LISTED = {
    **dict.fromkeys(COUNTS, ("1:8", "8:")),
    **dict.fromkeys(NAMES, ("bf16,fp8", ",")),
    **dict.fromkeys(SPREADS, ("0.5±0.1", "much")),
    **dict.fromkeys(("network_us", "memory_utilisation"), ("0.5,0.9", "0.5,")),
    "network_gbs": ("50", "50,"),
    "bins": ("10ms", "soon"),
    "dims": ("batch=8", "batch"),
    "rate": ("4/s", "often"),
    "rendezvous_bytes": ("64K", "64"),
    "tpot": ("p99<50ms", "soon"),
    "ttft": ("2s", "soon"),
    "at": (["p=64,128"], ["p"]),
    "budget": ("20m", "soon"),
    "cache_mb": ("32,64", "32,"),
    "component": ("total,xcd", ","),
    "default": (["device=MI300X"], ["device"]),
    "devices": ("MI308X,MI300X", ","),
    "features": ("n,k", "n,n"),
    "electricity": ("$0.12/kWh", "free"),
    "fit": ("8,16", "8,"),
    "group": ("n,k", "n,n"),
    "l2_mb": ("4,8", "4,"),
    "law": ("proportional,power", ","),
    "max_size": ("16G", "16"),
    "models": ("OLS,NNLS", ","),
    "mpki": ("1.7,1.6", "1.7,"),
    "op": ("gemm,conv", ","),
    "per_pass": (["SQ=8"], ["SQ"]),
    "performance": ("120,238", "120,"),
    "price": ("MI300X=2.5,H200=3.5", "free"),
    "region": ("solve,merge", ","),
    "rename": (["M_size=m"], ["M_size"]),
    "rows": ("20,40", "20,"),
    "sequence": (["40*1,2"], ["0*1"]),
    "sizes": ("38,76", "38,"),
    "threads": ("1,2", "1,"),
    "tuning": ("tuned", "sideways"),
    "unit": (["time=ms"], ["time"]),
    "where": (["m=1..8"], ["m"]),
    "without": ("MLP,Stack", ","),
    "without_features": (["intensity"], None),
}
"""Options whose text the library reads too: one that is right, and one that is not."""


def _options() -> Iterator[tuple[str, Callable[..., object], Any]]:
    """Yield the command, its function of the library and the option, where the function has a keyword of that name."""
    for name in COMMANDS:
        command = load(name)
        inner = {f"{name}_{word}": part for word, part in getattr(command, "commands", {}).items()}
        for words, part in (inner or {name: command}).items():
            function = FUNCTIONS.get(words) or getattr(fc, words.replace("-", "_"), None)
            if not callable(function):
                continue
            keywords = inspect.signature(function).parameters
            for option in part.params:
                if option.name in keywords and option.param_type_name == "option":
                    yield words, function, option


FUNCTIONS: dict[str, Callable[..., object]] = {
    "scale_predict": fc.scale,
    "forecast_MODEL": fc.forecast,
    "forecast_train": fc.forecast,
    "forecast_cases": fc.forecast,
}
ELSEWHERE = {"steps"}
"""Read by the library alone: the command hands the text on."""
LISTS = (",", "=", "SIZE", "TIME", "RATE", "PRICE", "MEDIAN")


def test_every_option_that_lists_values_is_tried_on_both_doors() -> None:
    walked = list(_options())
    listed = {
        option.name
        for words, _, option in walked
        if any(sign in (option.metavar or "") for sign in LISTS)
    }
    assert len(walked) > 150
    assert listed - ELSEWHERE == LISTED.keys() & listed
    assert listed <= LISTED.keys() | ELSEWHERE


@pytest.fixture(scope="module")
def run() -> object:
    return fc.train(where={"m": (None, 64)}, models="OLS", jobs=1)


APART = (
    ("advise", "group"),
    ("advise", "rows"),
    ("curve", "models"),
)
"""A number alone, or read with data that are refused first here: not tried."""


def _calls(run: object, table: Path) -> dict[str, Callable[..., object]]:
    """Return the functions with what they need besides the option that is tried."""
    return {
        "train": partial(fc.train, table, host="MI300X", target="MI355X", jobs=1),
        "predict": partial(fc.predict, run, table),
        "explain": partial(fc.explain, run, table),
        "check": partial(fc.check, run, table),
        "advise": partial(fc.advise, run, table, rows=2),
        "validate": partial(fc.validate, table, host="MI300X", target="MI355X"),
        "curve": partial(fc.curve, table, host="MI300X", target="MI355X"),
        "compare": partial(fc.compare, table, table),
        "counters": partial(fc.counters, table, target="MI300X"),
        "ingest": partial(fc.ingest, table),
        "measure": fc.measure,
        "calibrate": partial(fc.calibrate, table),
        "scale_predict": partial(fc.scale, fit="8,16", performance="1,2"),
        "scale_devices": partial(fc.scale_devices, table, devices="MI308X,MI300X"),
        "scale_terms": partial(fc.scale_terms, table),
        "scale_misses": partial(fc.scale_misses, table, sizes="8", cache_mb="8"),
        "scale_configs": partial(fc.scale_configs, "MI300X"),
        "scale_counters": partial(fc.scale_counters, table),
        "power_record": partial(fc.power_record, out=table.with_name("power")),
        "power_profile": partial(fc.power_profile, table, table),
        "forecast_hpl": partial(_score, fc.forecast_hpl),
        "forecast_hpcg": partial(_score, fc.forecast_hpcg),
        "forecast_hpl-mxp": partial(_score, fc.forecast_hpl_mxp),
        "forecast_kernel": partial(_score, partial(fc.forecast_kernel, "fft", points=64)),
        "forecast_MODEL": partial(_forecast, batch=1, input_len=1, output_len=1),
        "forecast_train": partial(_forecast, kind="training", global_batch=1, seq_len=1),
    }


def _score(forecast: Callable[..., object], **given: Any) -> object:
    return forecast(**{"gpu": "MI250X", "gpus": 8, **given})


def _forecast(**given: Any) -> object:
    """Forecast a batch or a step, or, where an option of serving is given, which GPUs serve a model."""
    if given.keys() & SERVED:
        given = {name: value for name, value in given.items() if name in SERVED}
    model: Any = "llama-3.1-8b"
    if given.keys() & OF_GRAPHS:
        model = {"layers": [{"name": "a", "op": "gemm", "m": 1, "n": 1, "k": 1}]}
        given = {name: value for name, value in given.items() if name in OF_GRAPHS}
    return fc.forecast(model, **given)


SERVED = {"engine", "concurrency", "rate", "ttft", "tpot", "electricity", "tuning"}
OF_GRAPHS = {"dims", "bins", "rendezvous_bytes"}


def test_the_library_refuses_what_the_command_line_refuses(run: object, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    rows = pd.DataFrame({"m": range(64, 128), "op": "gemm", "dtype": "bf16", "n": 4096, "k": 4096})
    host = rows.assign(device="MI300X", us=20.0 + rows["m"])
    target = rows.assign(device="MI355X", us=15.0 + rows["m"])
    pd.concat([host, target]).to_csv(table, index=False)
    calls = _calls(run, table)
    tried = 0
    said: dict[tuple[str, str], str] = {}
    for words, _, option in _options():
        wrong = LISTED.get(option.name, ("", None))[1]
        if wrong is None or words not in calls or (words, option.name) in APART:
            continue
        tried += 1
        try:
            call = calls[words]
            if (words, option.name) == ("advise", "budget"):
                call = partial(call, rows=None)
            call(**{option.name: wrong})
        except FlopcastError as error:
            said[words, option.name] = str(error)
    missed = {place for place, text in said.items() if place[1] not in text}
    assert missed == set()
    assert len(said) == tried > 100


@pytest.mark.parametrize("name", LISTED)
def test_a_text_that_was_read_passes_as_it_is(name: str) -> None:
    right = LISTED[name][0]
    name_of = {getattr(fc, public): public for public in dir(fc) if callable(getattr(fc, public))}
    for _, function, option in _options():
        if option.name != name:
            continue
        for keyword in declared(name_of[function]).keywords:
            kind = KINDS.get(keyword.annotation.removesuffix(" | None"))
            if keyword.name == name and kind is not None and kind.read is not None:
                read = kind.read(name, right)
                assert kind.read(name, read) == read


SAME = {
    "forecast llama-3.1-8b": {"gpus": "1:4", "batch": "1,8", "input_len": 8, "output_len": "8,16"},
    "forecast llama-3.1-8b ": {"gpus": "1:2", "ttft": "2s", "tpot": "p99<50ms", "price": "$2.5/h"},
    "forecast train llama-3.1-8b": {"gpus": "8", "global_batch": "16,32", "seq_len": 512},
    "forecast hpl": {"gpu": "MI250X", "gpus": "8:32", "product": "0.7±0.1"},
    "forecast kernel fft": {"gpu": "MI300X", "gpus": "1:8", "points": 64},
    "scale predict": {"fit": "8,16", "sizes": "32,64", "performance": "1,2"},
}
"""Command -> its options, as texts: both doors have the same answer."""


@pytest.mark.parametrize("line", SAME)
def test_both_doors_answer_the_same(line: str) -> None:
    words = line.split()
    options = []
    for name, value in SAME[line].items():
        options += [f"--{name.replace('_', '-')}", str(value)]
    told = json.loads(call(*words, *options, "--json").stdout)
    functions = {"hpl": fc.forecast_hpl, "kernel": partial(fc.forecast_kernel, "fft")}
    functions |= {"predict": fc.scale, "train": partial(fc.forecast, words[-1])}
    function: Callable[..., Any] = functions.get(words[1], partial(fc.forecast, words[-1]))
    document = function(**SAME[line]).to_dict()
    assert told == json.loads(dumps(document, missing=True))


def test_lists_of_texts_are_those_of_values() -> None:
    asked: dict[str, Any] = {"batch": 1, "input_len": 16, "output_len": 16}
    text = fc.forecast("llama-3.1-8b", gpu="MI300X,H200", gpus="1:4", dtype="bf16,fp8", **asked)
    listed = fc.forecast(
        "llama-3.1-8b", gpu=["MI300X", "H200"], gpus=[1, 2, 4], dtype=["bf16", "fp8"], **asked
    )
    assert text.table.equals(listed.table)
    assert len(text.table) == 12


def test_a_spread_is_taken_as_a_text() -> None:
    text = fc.forecast_hpcg("MI250X (per GCD)", 8, stream="0.8±0.05")
    assert text == fc.forecast_hpcg("MI250X (per GCD)", 8, stream=Spread(0.8, 0.05))
    with pytest.raises(ParameterError, match=r"stream.*0\.74±0\.06"):
        fc.forecast_hpcg("MI250X (per GCD)", 8, stream="much")
