"""Public tables come out of a wheel that pip downloads, from a folder on this machine; its hash is pinned."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flopcast.datasets import fetch_aiconfigurator, fetch_aiter, fetching
from flopcast.datasets.fetching import SOURCES, Repository, Source, Wheel, fetch
from flopcast.errors import DataError, ParameterError
from flopcast.tests.commands.running import call

NAME = "made_up-1.0-py3-none-any.whl"
TABLE = "cu_num,M,N,K,us,kernelName\n304,16,32,64,1.5,k\n256,16,32,64,1.25,k\n80,16,32,64,2.5,k\n"
WANTED = {
    "aiter/configs/a8w8_blockscale_tuned_gemm.csv": TABLE,
    "made_up-1.0.dist-info/LICENSE": "as you like",
    "made_up-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: made-up\nVersion: 1.0\n",
}
FILES = {
    **WANTED,
    "aiter/__init__.py": "raise SystemExit('is run')",
    "made_up-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "made_up-1.0.dist-info/RECORD": "",
}
UNREACHABLE = Repository("http://127.0.0.1:9/data", "0" * 40, "aiter/configs", ("*.csv",))


def packed(folder: Path, files: Mapping[str, str | bytes] = FILES) -> Wheel:
    """Write a wheel, and return it as it is pinned."""
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / NAME, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    sha256 = hashlib.sha256((folder / NAME).read_bytes()).hexdigest()
    return Wheel("made-up", "1.0", NAME, sha256, "MIT", tuple(WANTED), "aiter/configs", 10_000)


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder that pip takes wheels from; the cache is fresh, the repository out of reach."""
    folder = tmp_path / "index"
    for name in [
        name for name in os.environ if name.startswith("PIP_") or name.lower().endswith("_proxy")
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("FLOPCAST_CACHE", str(tmp_path / "cache"))
    pin(monkeypatch, packed(folder))
    return folder


def pin(
    monkeypatch: pytest.MonkeyPatch, wheel: Wheel, repository: Repository | None = UNREACHABLE
) -> None:
    monkeypatch.setitem(fetching.SOURCES, "aiter", Source(repository, wheel))


def held(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_where_the_repository_is_out_of_reach_the_wheel_has_the_tables(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = call("fetch", "aiter")
    (place,) = (path for path in (tmp_path / "cache").iterdir() if path.is_dir())
    assert (done.exit_code, done.stdout) == (0, f"{place / 'aiter' / 'configs'}\n")
    assert UNREACHABLE.url in done.stderr
    assert "made-up 1.0" in done.stderr
    assert held(place) == WANTED

    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nothing"))
    told = json.loads(call("fetch", "aiter", "--json").stdout)
    assert told["rows"] == {"gemm a8w8_blockscale": {"MI300X": 1, "MI308X": 1, "MI355X": 1}}
    assert told["instead"]
    assert fetch_aiter() == place / "aiter" / "configs"


def test_a_wheel_is_taken_without_git(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching.shutil, "which", lambda name: None)
    fetched = fetch("aiter")
    assert isinstance(fetched.origin, Wheel)
    assert "git is not installed" in fetched.missed


def test_without_any_network_one_line_says_how_else(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "brought" / NAME
    wheel.parent.mkdir()
    (index / NAME).rename(wheel)
    done = call("fetch", "aiter")
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    for words in (
        "error: --wheel ",
        UNREACHABLE.url,
        "pip download --no-deps made-up==1.0",
        "aiter/configs",
    ):
        assert words in done.stderr
    assert not any((tmp_path / "cache").iterdir())

    done = call("fetch", "aiter", "--wheel", wheel)
    assert done.exit_code == 0
    assert UNREACHABLE.url not in done.stderr
    assert held(Path(done.stdout.strip())) == {"a8w8_blockscale_tuned_gemm.csv": TABLE}


def test_without_pip_it_says_so(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(
        (sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")), check=True
    )
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    done = call("fetch", "aiter")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "No module named pip" in done.stderr


def test_another_file_of_that_name_is_refused(index: Path, tmp_path: Path) -> None:
    packed(
        index,
        {**FILES, "aiter/configs/a8w8_blockscale_tuned_gemm.csv": TABLE.replace("1.5", "1.6")},
    )
    with pytest.raises(DataError, match="HASHES") as told:
        fetch("aiter")
    assert not isinstance(told.value, ParameterError)
    with pytest.raises(DataError, match="SHA-256"):
        fetch("aiter", wheel=index / NAME)
    assert not any((tmp_path / "cache").iterdir())


def test_a_cut_file_is_refused(index: Path, tmp_path: Path) -> None:
    (index / NAME).write_bytes((index / NAME).read_bytes()[:-30])
    with pytest.raises(DataError):
        fetch("aiter")
    with pytest.raises(DataError, match="SHA-256"):
        fetch("aiter", wheel=index / NAME)
    assert not any((tmp_path / "cache").iterdir())


@pytest.mark.parametrize(
    "files",
    [
        {**FILES, "aiter/configs/../../../outside.csv": TABLE},
        {**FILES, "/tmp/outside.csv": TABLE},
        {**FILES, "aiter\\..\\outside.csv": TABLE},
        {name: text for name, text in FILES.items() if not name.endswith(".csv")},
        {**FILES, "aiter/configs/a8w8_blockscale_tuned_gemm.csv": TABLE + "\n" * 10_000},
        {**FILES, "aiter/configs/a8w8_blockscale_tuned_gemm.csv/below": TABLE},
    ],
    ids=["above", "absolute", "backslash", "missing", "large", "file and folder"],
)
def test_a_wheel_with_what_should_not_be_in_it_leaves_nothing(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]
) -> None:
    wheel = packed(index, files)
    pin(monkeypatch, replace(wheel, members=(*wheel.members[1:], "aiter/configs/*")))
    with pytest.raises(DataError):
        fetch("aiter", wheel=index / NAME)
    assert not any((tmp_path / "cache").iterdir())
    assert {path.name for path in tmp_path.iterdir()} == {"index", "cache"}


def test_what_is_no_archive_is_refused(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (index / NAME).write_bytes(b"PK no archive")
    pin(
        monkeypatch,
        replace(packed(tmp_path / "aside"), sha256=hashlib.sha256(b"PK no archive").hexdigest()),
    )
    with pytest.raises(DataError, match="cannot be unzipped"):
        fetch("aiter", wheel=index / NAME)


def test_a_wheel_that_is_not_there_is_named(index: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError) as told:
        fetch("aiter", wheel=tmp_path / "other.whl")
    assert told.value.source == str(tmp_path / "other.whl")
    with pytest.raises(ParameterError, match="miopen"):
        fetch("miopen", wheel=index / NAME)


def test_tables_of_aiconfigurator_are_counted(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def table(rows: int) -> bytes:
        out = pa.BufferOutputStream()
        pq.write_table(pa.table({"latency": [1.0] * rows}), out)
        return out.getvalue().to_pybytes()

    inside = "aiconfigurator_core"
    files = {
        f"{inside}/systems/data/h100/gemm/vllm/1.0/gemm_perf.parquet": table(3),
        f"{inside}/systems/data/h200/comm/nccl/2.2/nccl_perf.parquet": table(4),
        f"{inside}/systems/h100.yaml": "gpu: {}\n",
        f"{inside}/systems/silicon_sample.csv": 'id,note\na,"two\nlines"\nb,c\n',
        f"{inside}/model_configs/A--B_config.json": "{}",
        f"{inside}/model_configs/A--B_hf_quant_config.json": "{}",
        f"{inside}/sdk/code.py": "",
        f"{inside}-1.0.dist-info/METADATA": "",
    }
    made = packed(index, files)
    known = SOURCES["aiconfigurator"].wheel
    assert known is not None
    wheel = replace(known, file=NAME, sha256=made.sha256)
    monkeypatch.setitem(fetching.SOURCES, "aiconfigurator", Source(wheel=wheel))
    told = json.loads(call("fetch", "aiconfigurator", "--wheel", index / NAME, "--json").stdout)
    assert {key: told[key] for key in ("tables", "rows", "runs", "models")} == {
        "tables": 2,
        "rows": 7,
        "runs": 2,
        "models": 1,
    }
    assert (told["devices"], told["engines"]) == (["h100", "h200"], ["nccl", "vllm"])
    folder = fetch_aiconfigurator()
    assert str(folder) == told["folder"]
    assert not (folder / "sdk").exists()
    assert (folder.parent / f"{inside}-1.0.dist-info" / "METADATA").exists()


@pytest.mark.long
@pytest.mark.parametrize("name", ["aiter", "aiconfigurator"])
def test_the_pinned_wheel_is_what_the_package_index_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(fetching.SOURCES, name, Source(wheel=SOURCES[name].wheel))
    monkeypatch.setenv("FLOPCAST_CACHE", str(tmp_path))
    try:
        folder = fetch(name).folder
    except ParameterError as error:
        if not any(words in str(error) for words in ("from versions: none", "No module named pip")):
            raise
        pytest.skip(f"no package index is in reach: {error}")
    told = json.loads(call("fetch", name, "--json").stdout)
    assert told["folder"] == str(folder)
    if name == "aiter":
        assert told["rows"]["gemm a8w8_blockscale"] == {
            "MI300X": 117,
            "MI308X": 117,
            "MI355X": 546 + 67,
        }
    else:
        counts = {"tables": 736, "rows": 12_586_413, "runs": 5_221, "models": 89}
        assert {key: told[key] for key in counts} == counts
        assert len(told["devices"]) == 10


@pytest.mark.long
@pytest.mark.parametrize("name", ["aiter", "miopen"])
def test_the_pinned_commit_is_what_the_repository_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setitem(fetching.SOURCES, name, Source(SOURCES[name].repository))
    try:
        folder = fetch(name, cache=tmp_path).folder
    except DataError as error:
        if not any(
            words in str(error)
            for words in ("unable to access", "does not answer", "git is not installed")
        ):
            raise
        pytest.skip(f"the repository is out of reach: {error}")
    assert any(path.is_file() for path in folder.iterdir())


def test_a_file_given_as_the_wheel_is_looked_at_where_the_cache_has_the_tables_too(
    index: Path, tmp_path: Path
) -> None:
    fetch("aiter", wheel=index / NAME)
    (tmp_path / "any.whl").write_text("any")
    with pytest.raises(DataError, match="SHA-256"):
        fetch("aiter", wheel=tmp_path / "any.whl")
    with pytest.raises(DataError, match="no such file"):
        fetch("aiter", wheel=tmp_path / "none.whl")
