"""The embedded measurements: what the commands find when no DATA is given."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

import flopcast as fc
from flopcast.api import training
from flopcast.benchmarks.embedded_table import COLUMNS, embedded_rows, main
from flopcast.datasets import DEFAULT_HOST, DEFAULT_TARGET, default_paths
from flopcast.errors import DataError, ParameterError
from flopcast.features.matrix import Dataset, build_dataset
from flopcast.hardware import find
from flopcast.readers import read

SMALL = {"m": (None, 16)}


def test_the_whole_tables_of_both_devices_are_there() -> None:
    measured = read(default_paths())
    assert measured.rejected.empty
    assert measured.frame["device"].value_counts().to_dict() == {"MI355X": 15_364, "MI300X": 12_936}
    assert measured.frame["campaign"].nunique() == 9
    assert not measured.frame.duplicated(["device", "m", "n", "k"]).any()
    data = build_dataset(measured.frame, host=find(DEFAULT_HOST), target=find(DEFAULT_TARGET))
    assert (len(data), len(set(data.groups))) == (429, 16)
    assert data.unpaired is not None
    assert (data.report["host_only"], len(data.unpaired)) == (12_507, 14_935)
    assert set(data.rows["bound"]) == {"launch", "memory", "compute"}


def test_the_file_names_its_source_commit_and_licence() -> None:
    said = pq.read_schema(default_paths()[0]).metadata
    assert b"https://github.com/ROCm/aiter" in said[b"source"]
    assert said[b"licence"].startswith(b"MIT")
    assert said[b"commit"]


def test_the_table_is_made_anew_from_the_tables_of_aiter(shared_data: Path) -> None:
    made = embedded_rows(shared_data / "aiter")
    pd.testing.assert_frame_equal(made, pd.read_parquet(default_paths()[0]), check_dtype=False)


def test_the_script_keeps_host_and_target_and_no_other_device(tmp_path: Path) -> None:
    lines = ["gfx,cu_num,M,N,K,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio"]
    for device, m in (
        ("gfx942,304", 16),
        ("gfx942,304", 32),
        ("gfx950,256", 32),
        ("gfx950,256", 64),
        ("gfx942,80", 64),
    ):
        lines.append(f"{device},{m},512,7168,ck,8,0,{m / 4},a8w8_blockscale_x,1,1,0")
    (tmp_path / "a8w8_blockscale_tuned_gemm.csv").write_text(
        "\n".join(lines) + "\n", encoding="utf-8"
    )
    assert main([str(tmp_path), str(tmp_path / "out.parquet"), "--commit", "abc"]) == 0
    made = pd.read_parquet(tmp_path / "out.parquet")
    assert made[["device", "m", "duration_us"]].to_numpy().tolist() == [
        ["MI300X", 16, 4.0],
        ["MI300X", 32, 8.0],
        ["MI355X", 32, 8.0],
        ["MI355X", 64, 16.0],
    ]
    assert tuple(made) == COLUMNS
    assert pq.read_schema(tmp_path / "out.parquet").metadata[b"commit"] == b"abc"
    assert main([str(tmp_path / "none"), str(tmp_path / "out.parquet")]) == 2


@pytest.mark.parametrize(
    ("devices", "found"),
    [
        ({}, ("MI300X", "MI355X")),
        ({"host": "MI300X"}, ("MI300X", "MI355X")),
        ({"host": "mi300x", "target": "mi355x"}, ("MI300X", "MI355X")),
        ({"target": "mi355x"}, ("MI300X", "MI355X")),
        ({"target": "MI300X"}, (None, "MI300X")),
    ],
)
def test_without_data_the_devices_are_those_of_the_table(
    devices: dict[str, str], found: tuple[str | None, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class AskedError(Exception):
        """What would be learnt from."""

    def asked(dataset: Dataset, *_: object, **__: object) -> None:
        raise AskedError(dataset.host and dataset.host.name, dataset.target.name)

    monkeypatch.setattr(training, "compete", asked)
    with pytest.raises(AskedError) as told:
        fc.train(**devices, where=SMALL, models=["OLS"], jobs=1)
    assert told.value.args == found


def test_devices_that_the_table_does_not_have_are_named() -> None:
    with pytest.raises(ParameterError, match="both MI355X"):
        fc.train(host="MI355X", where=SMALL)
    with pytest.raises(DataError, match="H100 SXM5"):
        fc.train(host="H100 SXM5", where=SMALL)
