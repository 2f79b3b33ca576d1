from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flopcast.api.validating import validate
from flopcast.errors import DataError, UnknownGPUError
from flopcast.evaluation.verdicts import Outcome
from flopcast.hardware import find
from flopcast.output import FILES
from flopcast.tests.commands import running

run = partial(running.call, "validate")
DEVICES = {"host": "MI300X", "target": "MI355X"}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tidy CSV of GEMMs in two precisions: fp8 follows FLOPS scaling, bf16 the power 0.8 of the host's time."""
    rng = np.random.default_rng(0)
    cells = [
        (m, n, k)
        for n in (4096, 8192)
        for k in (4096, 6144, 8192)
        for m in (512, 1024, 2048, 8192, 32768)
    ]
    shapes = pd.DataFrame(cells, columns=["m", "n", "k"]).assign(op="gemm")
    host, target = (find(name) for name in DEVICES.values())
    tables = []
    for dtype in ("fp8", "bf16"):
        peak = host.peak_tflops(dtype)
        host_us = shapes[["m", "n", "k"]].prod(axis=1) * 2 / (0.5 * peak * 1e6)
        other = host_us * peak / target.peak_tflops(dtype) if dtype == "fp8" else 2 * host_us**0.8
        noise = np.exp(rng.normal(0, 0.02, len(shapes)))
        for name, us in (("MI300X", host_us), ("MI355X", other * noise)):
            tables.append(shapes.assign(dtype_a=dtype, device=name, duration_us=us))
    broken = tables[0].head(1).assign(duration_us=0.0)
    path = tmp_path_factory.mktemp("measured") / "gemms.csv"
    pd.concat([*tables, broken]).to_csv(path, index=False)
    return path


@pytest.mark.no_cover
def test_classes_are_judged_apart(measured: Path) -> None:
    result = validate([measured], **DEVICES, replicates=200)
    outcomes = {one.name: one.law("FLOPS scaling").verdict.outcome for one in result.classes[1:]}
    assert outcomes == {
        "gemm fp8 compute-bound": Outcome.HOLDS,
        "gemm bf16 compute-bound": Outcome.SIZE,
    }
    assert result.rejected == {"zero-duration": 1}
    assert result.rejected_at.keys() == {"zero-duration"}
    assert (result.classes[0].rows, result.classes[0].groups) == (60, 6)


def test_conditions_groups_and_margin_are_passed_on(measured: Path) -> None:
    result = validate(
        [measured],
        **DEVICES,
        where={"dtype_a": ["fp8"]},
        group=["k"],
        margin=0.005,
        replicates=100,
        seed=3,
    )
    pooled = result.classes[0]
    assert (pooled.rows, pooled.groups, result.margin, result.seed) == (30, 3, 0.005, 3)
    assert pooled.laws[0].verdict.outcome is Outcome.TOO_FEW


@pytest.mark.no_cover
def test_without_data_the_embedded_measurements_are_judged() -> None:
    result = validate(where={"op": ["gemm"]}, replicates=100)
    assert result.classes[0].rows > 50
    assert result.dataset.host is not None
    assert result.classes[0].judged


@pytest.mark.long
def test_the_files_hold_the_same_and_repeat_themselves(measured: Path, tmp_path: Path) -> None:
    for out in ("one", "two"):
        result = validate([measured], **DEVICES, replicates=100)
        result.save(tmp_path / out)
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == sorted(FILES["validate"])
    for name in FILES["validate"]:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    written = json.loads((tmp_path / "one" / "validation.json").read_text())
    assert written["classes"][1]["laws"][0]["text"] == result.classes[1].laws[0].verdict.why.text


def test_the_command_prints_a_table_and_writes_the_files(measured: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs" / "scaling"
    code, text, _ = run(measured, "--host", "MI300X", "--target", "MI355X", "--out", out)
    assert code == 0
    assert all(words in text for words in ("MI300X → MI355X", "FLOPS scaling", "1 row rejected"))
    assert "--out" not in text
    assert sorted(path.name for path in out.iterdir()) == sorted(FILES["validate"])


def test_short_is_the_answer_alone(measured: Path) -> None:
    devices = ("--host", "MI300X", "--target", "MI355X")
    whole, short = (run(measured, *devices, *more)[1] for more in ((), ("--short",)))
    assert short.splitlines()[:2] == whole.splitlines()[:2]
    assert short.splitlines()[2].startswith(("No: ", "Yes", "These data"))
    assert len(short.splitlines()) < 8 < len(whole.splitlines())


@pytest.mark.no_cover
def test_the_command_prints_json(measured: Path) -> None:
    code, text, _ = run(
        measured,
        "--host",
        "mi300x",
        "--target",
        "MI355X",
        "--where",
        "dtype_a=fp8",
        "--json",
        "--margin",
        "0.2",
    )
    found = json.loads(text)
    assert (code, found["host"], found["margin"], found["data"]["pairs"]) == (0, "MI300X", 0.2, 30)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "MI300X", "--target", "MI355Y"], "GPU 'MI355Y' MI355X"),
        (["--host", "MI300X"], "--target"),
        (["--host", "MI300X", "--target", "MI355X", "--margin", "1.5"], "--margin 1.5"),
        (
            ["--host", "MI300X", "--target", "MI355X", "--where", "dtype_a"],
            "--where must be COLUMN=VALUE",
        ),
        (["--host", "MI300X", "--target", "MI355X", "--group", "colour"], "colour"),
        (["--host", "MI300X", "--target", "MI300X"], "--host MI300X"),
        (["--host", "MI300X", "--target", "H200"], "H200"),
    ],
)
def test_what_the_user_got_wrong_is_one_line(
    measured: Path, arguments: list[str], message: str
) -> None:
    code, text, error = run(measured, *arguments)
    assert (code, text) == (2, "")
    assert all(word in error for word in message.split())
    assert error.count("\n") == 1


def test_a_folder_with_other_files_is_refused_before_the_work(measured: Path) -> None:
    code, _, error = run(
        "no-such-file.csv", "--host", "MI300X", "--target", "MI355X", "--out", measured.parent
    )
    assert code == 2
    assert "gemms.csv" in error


def test_errors_carry_their_types(measured: Path) -> None:
    with pytest.raises(UnknownGPUError):
        validate([measured], host="MI300X", target="MI355Y")
    with pytest.raises(DataError, match="no-such-file"):
        validate(["no-such-file.csv"], **DEVICES)
