"""The quick form of ``make fuzz``: a few inputs of every kind, always the same, read in this process."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from flopcast.readers.base import detect, readers
from flopcast.readers.files import head
from flopcast.tests.fuzz import mutation, targets, worker
from flopcast.tests.fuzz.behind import BEHIND
from flopcast.tests.fuzz.corpus import seeds, seeds_behind, serving_model

SEED = 1
MANY = {
    **dict.fromkeys(targets.TABLES, 5),
    **dict.fromkeys(targets.TRACES, 3),
    **dict.fromkeys(BEHIND, 1),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", targets.TARGETS)
def test_damaged_inputs_end_in_sound_rows_or_in_our_own_error(tmp_path: Path, target: str) -> None:
    numbers = range(1, 1 + MANY.get(target, 12))
    for some in [numbers] if target in targets.TABLES else [[number] for number in numbers]:
        assert worker.batch(target, SEED, some, tmp_path / "x") in ("read", "refused")


def test_every_kind_of_input_has_seeds_and_every_format_a_kind(tmp_path: Path) -> None:
    assert sorted(targets.TARGETS) == sorted({**seeds(), **seeds_behind()})
    found = set[str]()
    for number, files in enumerate(one for kind in seeds().values() for one in kind):
        targets.write(tmp_path / str(number), files)
        for path in (tmp_path / str(number)).rglob("*"):
            if path.is_file() and (reader := detect(path, head(path))):
                found.add(reader.name)
    assert found == {reader.name for reader in readers()}


def test_an_input_is_the_same_again() -> None:
    assert targets.input_of("Kineto", 3, 77) == targets.input_of("Kineto", 3, 77)
    assert targets.input_of("Kineto", 3, 77) != targets.input_of("Kineto", 3, 78)


@pytest.mark.parametrize(
    "damage", [mutation.column_of_parquet, mutation.cell_of_parquet, mutation.text_of_parquet]
)
def test_damage_of_parquet_keeps_the_other_texts(damage: mutation.Mutation) -> None:
    before = pq.ParquetFile(io.BytesIO(serving_model())).metadata.metadata
    for seed in range(8):
        damaged = damage(serving_model(), np.random.default_rng(seed))
        texts = pq.ParquetFile(io.BytesIO(damaged)).metadata.metadata
        same = [name for name in before if texts[name] == before[name]]
        assert len(same) >= len(before) - 2  # the schema, and one text


def test_texts_of_a_model_of_serving_are_damaged_too() -> None:
    before = pq.ParquetFile(io.BytesIO(serving_model())).metadata.metadata
    changed = set[bytes]()
    for seed in range(40):
        damaged = mutation.text_of_parquet(serving_model(), np.random.default_rng(seed))
        texts = pq.ParquetFile(io.BytesIO(damaged)).metadata.metadata
        changed |= {name for name in before if texts.get(name) != before[name]}
    assert {b"fits", b"about", b"slower"} <= changed


def test_what_must_not_happen_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: Path) -> None:
        raise ValueError(path.name)

    monkeypatch.setitem(targets._OTHERS, "sizes", fails)
    found = worker.failure("sizes", {"a.csv": b"x"}, 1, tmp_path / "x")
    assert found is not None
    assert found[0] == "exception"
    assert found[2].rstrip().endswith("ValueError: a.csv")
    worker.keep(tmp_path / "out", "sizes", 1, {"a.csv": b"x"}, *found)
    assert [path.read_bytes() for path in (tmp_path / "out").rglob("a.csv")] == [b"x"]


def test_an_impossible_value_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "GOOD", "op,device,dtype,m,n,k,us,family\n")
    found = worker.failure(
        "tidy CSV",
        {"a.csv": b"op,device,dtype,m,n,k,us\ngemm,MI300X,bf16,1,2,3,50\n"},
        1,
        tmp_path / "x",
    )
    assert found is not None
    assert found[0] == "impossible"
