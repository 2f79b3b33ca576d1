"""Datasets of parts: the table that is merged out of core is the one that is read at once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import DataError, ParameterError
from flopcast.readers import Options, is_dataset, read, read_dataset
from flopcast.table.problems import problem_hashes, problem_ids


def write_runs(folder: Path, files: int = 5) -> Path:
    """Write the same problems measured again and again: equal times, other kernels, columns that some files lack."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(files):
        gemm = pd.DataFrame(
            {"m": rng.choice([16, 64, 256], 40), "n": 1024, "k": rng.choice([64, 128], 40)}
        )
        gemm = gemm.assign(
            op="gemm",
            device=rng.choice(["MI300X", "MI355X"], 40),
            dtype=rng.choice(["bf16", "fp8"], 40),
        )
        softmax = pd.DataFrame(
            {"op": "softmax", "rows": 64, "cols": rng.choice([128, 256], 10), "device": "MI300X"}
        )
        rows = pd.concat(
            [gemm, softmax.assign(dtype="fp16")][: 1 + number % 2 + (number == 0)],
            ignore_index=True,
        )
        rows["kernel"] = rng.choice(["a", "b"], len(rows))
        rows["duration_us"] = rng.choice([5.0, 6.5, 7.0, 9.25], len(rows))
        if number % 2:
            rows["energy_j"] = rng.choice([1, 2, 3], len(rows))
        rows.loc[3, "duration_us"] = 0.0
        rows.loc[4, "duration_us"] *= 100
        rows.to_csv(folder / f"{number}.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parts")
    found = fc.ingest(write_runs(folder / "runs"), out=folder / "dataset", parts=True, jobs=1)
    assert (found.rows, found.rejected) == (5 * 40 + 3 * 10 - 5, {"zero-duration": 5})
    assert len(list((folder / "dataset" / "parts").iterdir())) == 5
    return folder / "dataset"


@pytest.mark.no_cover
@pytest.mark.parametrize(("where", "each"), [(None, True), (["m=16..64", "dtype_a=bf16"], False)])
def test_the_merged_table_is_that_of_memory(
    dataset: Path, where: list[str] | None, each: bool
) -> None:
    options = Options(each=each)
    at_once = read([dataset / "parts"], where=where, options=options)
    for size in (2**15, 2**40):  # several files, and one for all
        found = read_dataset([dataset], where=where, options=options, at_once=size)
        pd.testing.assert_frame_equal(found.frame, at_once.frame)
        assert found.frame.to_csv() == at_once.frame.to_csv()
        assert {note.code for note in found.notes} >= {note.code for note in at_once.notes} - {
            "files-excluded"
        }
        pd.testing.assert_frame_equal(found.irregular, at_once.irregular)
        lost = [sorted(map(tuple, one.rejected.to_numpy())) for one in (found, at_once)]
        assert lost[0] == lost[1]
        assert any(reason == "contradicting-repeats" for _, reason, _ in lost[0])
        assert [file.sha256 for file in found.files] == [file.sha256 for file in at_once.files]


def test_parts_give_what_the_files_give(dataset: Path) -> None:
    here, there = fc.read(dataset.parent / "runs").frame, fc.read(dataset).frame
    columns = [name for name in here if name not in ("source", "campaign")]
    pd.testing.assert_frame_equal(here[columns], there[columns])


def test_equal_problems_have_equal_hashes_in_other_tables() -> None:
    rows = fc.read().frame
    ids, hashes = problem_ids(rows), problem_hashes(rows)
    assert pd.Series(hashes).groupby(ids).nunique().max() == 1
    assert len(np.unique(hashes)) > 0.9 * len(np.unique(ids))
    one = rows[rows["op"] == "gemm"].dropna(axis=1, how="all")
    assert problem_hashes(one).tolist() == hashes[rows["op"] == "gemm"].tolist()


def test_a_dataset_is_whole_or_not_there_and_replaces_an_older_one(
    dataset: Path, tmp_path: Path
) -> None:
    runs, out = dataset.parent / "runs", tmp_path / "out"
    (tmp_path / "bad.csv").write_text("device,op,us\nMI300X,gemm,1\n")
    fc.ingest([runs / "0.csv", runs / "1.csv"], out=out, parts=True, jobs=1)
    with pytest.raises(ParameterError, match="strict"):
        fc.ingest([runs / "0.csv", tmp_path / "bad.csv"], out=out, parts=True, strict=True, jobs=1)
    assert len(json.loads((out / "ingest.json").read_text())["parts"]) == 2
    fc.ingest(runs / "0.csv", out=out, parts=True, jobs=1)
    assert [path.name for path in (out / "parts").iterdir()] == ["000000.parquet"]
    assert is_dataset(out)
    assert not is_dataset(runs)
    with pytest.raises(DataError, match="op=conv"):
        fc.read(out, where=["op=conv"])
    with pytest.raises(ParameterError, match="parts"):
        fc.ingest(runs, parts=True)
