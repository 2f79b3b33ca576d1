"""Small files that unpack to much are refused before their content takes memory."""

from __future__ import annotations

import bz2
import gzip
import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LinearRegression

from flopcast.errors import ArtifactError, DataError
from flopcast.models import persistence
from flopcast.readers.files import read_parquet, text


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_a_file_that_unpacks_to_hundreds_of_times_its_size_needs_a_limit_of_its_own(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(pack(b"1,2,3\n" * 120_000) * 100)
    with pytest.raises(DataError, match="100 times"):
        text(path)
    assert len(text(path, max_bytes=2**27)) == 72_000_000


def test_a_text_that_all_rows_of_a_table_share_is_counted_in_each(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    column = pa.DictionaryArray.from_arrays(np.zeros(20_000, np.int32), ["x" * 100_000])
    pq.write_table(pa.table({"name": column, "m": np.arange(20_000)}), path, store_schema=False)
    assert path.stat().st_size < 200_000
    with pytest.raises(DataError, match=r"0\.5 GiB"):
        read_parquet(path)


def test_texts_that_rows_share_are_read_as_any(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    column = pa.DictionaryArray.from_arrays(
        pa.array([0, None, 1] * 4_000, pa.int32()), ["a" * 50_000, "b"]
    )
    pq.write_table(pa.table({"name": column, "m": np.arange(12_000)}), path, store_schema=False)
    frame = read_parquet(path)
    assert frame["name"].str.len().iloc[:3].tolist()[::2] == [50_000, 1]
    assert frame["name"].isna().sum() == 4_000
    assert frame["m"].sum() == 12_000 * 11_999 // 2


def packed(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_", "."), content)
    return out.getvalue()


ARRAY = '{"~":"array","dtype":"<f8","shape":[16384],"order":"C","at":0}'


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (packed(state_json=b" " * 2**21, arrays_bin=b""), "decompressed"),
        (packed(state_json=b"{}", arrays_bin=bytes(2**21)), "decompressed"),
        (packed(state_json=b"[" + b"[]," * 2**17, arrays_bin=b""), "values"),
        (packed(state_json=f"[{','.join([ARRAY] * 9)}]".encode(), arrays_bin=bytes(2**17)), "arrays take"),
        (packed(**{f"m{place}": b"" for place in range(200)}), "directory"),
    ],
)  # fmt: skip
def test_a_model_is_refused_before_it_is_unpacked(
    monkeypatch: pytest.MonkeyPatch, data: bytes, said: str
) -> None:
    monkeypatch.setattr(persistence, "MOST_BYTES", 2**20)
    monkeypatch.setattr(persistence, "_MOST_ITEMS", 2**16)
    with pytest.raises(ArtifactError, match=said):
        persistence.from_bytes(data, "estimator.zip")


def test_a_model_holds_no_more_than_its_manifest_says() -> None:
    data = persistence.to_bytes(LinearRegression().fit([[1.0], [2.0]], [1.0, 2.0]))
    size = persistence.unpacked_bytes(data)
    persistence.from_bytes(data, "estimator.zip", size)
    with pytest.raises(ArtifactError, match=f"{size - 1:,}"):
        persistence.from_bytes(data, "estimator.zip", size - 1)
