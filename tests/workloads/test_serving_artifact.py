"""A file of a model of serving from somebody else: no number out of its range, no edit without its seal."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import flopcast as fc
from flopcast.errors import ArtifactError, DataError
from flopcast.workloads.serving_artifact import SEAL, seal_of
from flopcast.workloads.serving_model import ServingModel, load, shipped

Fits = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model that `ServingModel.save` wrote."""
    whole = shipped()
    fits = {
        name: replace(fit, weights=fit.weights[:40] * 1e-3, trees=None)
        for name, fit in whole.fits.items()
    }
    file = tmp_path_factory.mktemp("serving") / "own.parquet"
    ServingModel(whole.runs.iloc[:40], fits, whole.about, whole.slower).save(file)
    return file


def forged(
    saved: Path, to: Path, fits: Callable[[Fits], object] | None = None, **changed: Any
) -> Path:
    """Write the model with other fits, texts (str) or columns (arrays), sealed anew."""
    table = pq.read_table(saved)
    texts = {
        name.decode(): text.decode() for name, text in pq.read_metadata(saved).metadata.items()
    }
    texts.pop("ARROW:schema", None)
    if fits is not None:
        state = json.loads(texts["fits"])
        fits(state)
        texts["fits"] = json.dumps(state)
    for name, value in changed.items():
        if isinstance(value, str):
            texts[name] = value
        else:
            place = table.column_names.index(name)
            table = table.set_column(place, name, pa.array(value))
    table = table.replace_schema_metadata()
    texts[SEAL] = seal_of(table, texts)
    with pq.ParquetWriter(to, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(texts)
    return to


def put(*path: str | int, value: Any) -> Callable[[Fits], object]:
    """Return what sets a number deep in the fits."""

    def change(fits: Fits) -> None:
        inner: Any = fits
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value

    return change


NUMBERS = {
    "shifted centre": put("tpot_ms", "centre", value=-30.0),
    "spread of nothing": put("tpot_ms", "spreads", "known setting", value=[0.0, 0.0]),
    "negative spread": put("ttft_ms", "spreads", "new GPU", value=[-1.0, 0.2]),
    "negative covariance": put("tpot_ms", "terms", 3, value=-0.1),
    "negative trust": put("tpot_ms", "trust", "new model", value=[-0.5, 0.0]),
    "trust beyond the whole": put("ttft_ms", "trust", "new model", value=[0.9, 0.9]),
    "no noise": put("tpot_ms", "noise", value=0.0),
    "length of nothing": put("tpot_ms", "lengths", 0, value=0.0),
    "huge constant": put("tpot_ms", "constants", "", 0, value=50.0),
}
SHAPES = {
    "constants of another kind": put("tpot_ms", "constants", value=[1, 2]),
    "no constants of all runs": put("tpot_ms", "constants", value={}),
    "too few parts": put("tpot_ms", "constants", "", value=[0.0]),
    "too few terms": put("tpot_ms", "terms", value=[0.1]),
    "spreads of another kind": put("tpot_ms", "spreads", value=3),
    "a spread is missing": put("tpot_ms", "spreads", value={"known setting": [0.1, 0.1]}),
    "unknown constant": put("tpot_ms", "surprise", value=1.0),
    "fits of another kind": put("tpot_ms", value=[]),
}


@pytest.mark.parametrize("change", [*NUMBERS.values(), *SHAPES.values()], ids=[*NUMBERS, *SHAPES])
def test_a_number_that_cannot_be_is_refused_although_sealed_anew(
    saved: Path, tmp_path: Path, change: Callable[[Fits], object]
) -> None:
    with pytest.raises(DataError, match="no model of serving"):
        load(forged(saved, tmp_path / "own.parquet", change))


@pytest.mark.parametrize(
    "changed",
    [
        {"tp": np.full(40, -1.0)},
        {"layers": np.full(40, 1e30)},
        {"concurrency": np.full(40, np.nan)},
        {"weight_tpot_ms": np.full(40, 1e30)},
        {"device": ["MI300X\x1b[2J"] * 40},
        {"engine": np.arange(40.0)},
        {"about": '{"own_from": -3}'},
        {"about": '{"made": "\\u001b[2J"}'},
        {"slower": '{"few|H200 SXM||": 99}'},
        {"more": "{}"},
    ],
)
def test_a_column_or_text_that_no_run_has_is_refused(
    saved: Path, tmp_path: Path, changed: dict[str, Any]
) -> None:
    with pytest.raises(DataError, match="no model of serving"):
        load(forged(saved, tmp_path / "own.parquet", **changed))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([2**53] * 40, pa.timestamp("s")),  # later than any of Python's
        pa.array([b"\xff"] * 40, pa.binary()),
        pa.array([["llama"]] * 40),
    ],
)
def test_a_column_of_no_numbers_and_no_text_is_refused(
    saved: Path, tmp_path: Path, column: pa.Array
) -> None:
    table, texts = pq.read_table(saved), dict(pq.read_metadata(saved).metadata)
    texts.pop(b"ARROW:schema")
    place = table.column_names.index("model")
    changed = table.set_column(place, "model", column).replace_schema_metadata(texts)
    pq.write_table(changed, tmp_path / "own.parquet")
    with pytest.raises(DataError, match="column model does not hold numbers or text"):
        load(tmp_path / "own.parquet")


def test_weights_that_draw_an_answer_away_from_all_sense_are_refused(
    saved: Path, tmp_path: Path
) -> None:
    file = forged(saved, tmp_path / "own.parquet", weight_tpot_ms=np.full(40, -9e4))
    with pytest.raises(DataError, match="away from what its law says"):
        fc.forecast("llama-3.1-8b", gpu="H200", gpus=1, release=str(file), concurrency=4)


def test_a_file_that_unpacks_to_more_than_any_model_is_refused_before_it_is_read(
    saved: Path, tmp_path: Path
) -> None:
    table = pq.read_table(saved)
    many = table.take(pa.array(np.zeros(2**16 + 1, dtype=np.int64)))
    texts = {SEAL: "0" * 64, **dict.fromkeys(("fits", "about"), "{}")}
    with pq.ParquetWriter(tmp_path / "own.parquet", many.schema, compression="zstd") as writer:
        writer.write_table(many)
        writer.add_key_value_metadata(texts)
    with pytest.raises(DataError, match="65,537 runs"):
        load(tmp_path / "own.parquet")


def test_text_of_foreign_bytes_is_refused(saved: Path, tmp_path: Path) -> None:
    table, kept = pq.read_table(saved), pq.read_metadata(saved).metadata
    foreign = pa.array([b"\xff"] * table.num_rows, pa.binary()).view(pa.string())
    place = table.column_names.index("device")
    changed = table.set_column(place, "device", foreign).replace_schema_metadata()
    texts = {name: text for name, text in kept.items() if name != b"ARROW:schema"}
    with pq.ParquetWriter(tmp_path / "own.parquet", changed.schema) as writer:
        writer.write_table(changed)
        writer.add_key_value_metadata(texts)
    with pytest.raises(DataError, match="UTF8"):
        load(tmp_path / "own.parquet")


def test_an_edit_is_found_and_a_file_without_a_seal_is_refused(saved: Path, tmp_path: Path) -> None:
    table, kept = pq.read_table(saved), pq.read_metadata(saved).metadata
    texts = {name: text for name, text in kept.items() if name != b"ARROW:schema"}
    edited = table.set_column(
        table.column_names.index("weight_tpot_ms"),
        "weight_tpot_ms",
        pa.array(np.zeros(40, dtype=np.float32)),
    )
    for name, columns, said in (
        ("edited", edited, texts),
        ("bare", table, {name: text for name, text in texts.items() if name != SEAL.encode()}),
    ):
        with pq.ParquetWriter(
            tmp_path / f"{name}.parquet", columns.schema.remove_metadata()
        ) as writer:
            writer.write_table(columns.replace_schema_metadata())
            writer.add_key_value_metadata(said)
    with pytest.raises(DataError, match="SHA-256"):
        load(tmp_path / "edited.parquet")
    with pytest.raises(DataError, match="no seal"):
        load(tmp_path / "bare.parquet")


def test_show_prints_the_hash_and_a_signature_says_who(saved: Path, tmp_path: Path) -> None:
    file = tmp_path / "own.parquet"
    file.write_bytes(saved.read_bytes())
    data = fc.show(file, verify=True).document().data
    assert data["files"]["own.parquet"]["bytes"] == file.stat().st_size
    assert not data["signed"]
    assert "spreads" in fc.show(file).document().data
    if which("ssh-keygen") is None:
        pytest.skip("OpenSSH is not installed")
    key, signers = tmp_path / "key", tmp_path / "signers"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    subprocess.run(
        ["ssh-keygen", "-Y", "sign", "-f", str(key), "-n", "flopcast", str(file)],
        check=True,
        capture_output=True,
    )
    signers.write_text(f"me@example.org {key.with_suffix('.pub').read_text()}")
    told = fc.show(file, verify=True, signers=signers).document().data
    assert told["signer"] == "me@example.org"
    forged(saved, file, put("tpot_ms", "centre", value=0.5))
    with pytest.raises(ArtifactError, match="does not sign"):
        fc.show(file, verify=True, signers=signers)


def test_the_table_that_is_sealed_is_the_one_that_is_read(saved: Path) -> None:
    frame = pd.read_parquet(saved)
    assert len(frame) == 40
    table = pq.read_table(saved)
    texts = {
        name.decode(): text.decode() for name, text in pq.read_metadata(saved).metadata.items()
    }
    assert seal_of(table, texts) == texts[SEAL]
