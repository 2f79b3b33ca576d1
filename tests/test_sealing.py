"""The seal of a run folder, on folders of a few bytes; what commands make of it: `commands.test_sealed_runs`."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from flopcast.errors import ArtifactError
from flopcast.sealing import check, seal, signed_by

DATA = "ab" * 32


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make(tmp_path / "run")


def make(folder: Path, data: str = DATA) -> Path:
    (folder / "model").mkdir(parents=True)
    (folder / "metrics.json").write_text(json.dumps({"schema": 1, "data": {"sha256": data}}))
    (folder / "predictions.parquet").write_bytes(b"PAR1")
    (folder / "model" / "manifest.json").write_text(json.dumps({"schema": 1, "data_sha256": data}))
    seal(folder)
    return folder


def test_every_file_is_named_with_its_size_and_hash(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    assert set(manifest["files"]) == {"metrics.json", "predictions.parquet", "model/manifest.json"}
    # printf PAR1 | sha256sum
    hashed = "fbc62d3b511368ee275ddc74117d8689b430e1427220e25d30816201d89ca7b6"
    assert manifest["files"]["predictions.parquet"] == {"bytes": 4, "sha256": hashed}
    assert manifest["data_sha256"] == DATA
    assert check(run) is not None


def _link(path: Path) -> None:
    path.rename(path.parents[1] / "elsewhere")
    path.symlink_to(path.parents[1] / "elsewhere")


@pytest.mark.parametrize(
    "change",
    [
        lambda run: (run / "predictions.parquet").unlink(),
        lambda run: (run / "predictions.parquet").write_bytes(b"PAR2"),
        lambda run: (run / "predictions.parquet").write_bytes(b""),
        lambda run: (run / "added.parquet").write_bytes(b"PAR1"),
        lambda run: (run / "model" / "a\nb").write_bytes(b""),
        lambda run: (run / "linked").symlink_to(run / "metrics.json"),
        lambda run: _link(run / "metrics.json"),
        lambda run: _link(run / "model"),
        lambda run: (run / "manifest.json").unlink(),
        lambda run: (run / "manifest.json").write_text("{}"),
        lambda run: (run / "manifest.json").write_text("[" * 100_000),
        lambda run: (run / "manifest.json").write_text('{"schema": 2}'),
        lambda run: _link(run / "manifest.json"),
    ],
)
def test_what_is_not_as_it_was_sealed_is_one_line(
    run: Path, change: Callable[[Path], object]
) -> None:
    change(run)
    with pytest.raises(ArtifactError) as told:
        check(run)
    assert len(str(told.value).splitlines()) == 1


@pytest.mark.parametrize("name", ["metrics.json", "predictions.parquet", "model", "manifest.json"])
def test_parts_of_two_runs_are_refused(run: Path, tmp_path: Path, name: str) -> None:
    other = make(tmp_path / "other", "cd" * 32)
    (other / "predictions.parquet").write_bytes(b"PAR3")
    seal(other)
    (shutil.rmtree if name == "model" else Path.unlink)(run / name)
    (other / name).rename(run / name)
    with pytest.raises(ArtifactError):
        check(run)


def test_metrics_and_a_model_of_other_data_are_not_sealed_together(run: Path) -> None:
    (run / "model" / "manifest.json").write_text(
        json.dumps({"schema": 1, "data_sha256": "cd" * 32})
    )
    with pytest.raises(ArtifactError, match="different training data"):
        seal(run)


def test_hidden_files_are_nobodys_evidence(run: Path) -> None:
    (run / ".DS_Store").write_bytes(b"x")
    assert check(run) is not None


def test_without_its_manifest_a_run_is_refused(run: Path) -> None:
    (run / "manifest.json").unlink()
    with pytest.raises(ArtifactError, match=r"manifest\.json is missing"):
        check(run)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_a_signature_is_of_this_manifest_by_one_of_those_named(run: Path, tmp_path: Path) -> None:
    signers = tmp_path / "signers"
    with pytest.raises(ArtifactError, match="not signed"):
        signed_by(run, signers)
    for name in ("mine", "other"):
        made = [
            "ssh-keygen",
            "-q",
            "-t",
            "ed25519",
            "-N",
            "",
            "-C",
            name,
            "-f",
            str(tmp_path / name),
        ]
        subprocess.run(made, check=True)

    def sign(name: str, purpose: str = "flopcast") -> None:
        (run / "manifest.json.sig").unlink(missing_ok=True)
        key, manifest = str(tmp_path / name), str(run / "manifest.json")
        subprocess.run(
            ["ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", purpose, manifest], check=True
        )

    sign("mine")
    with pytest.raises(ArtifactError, match="allowed signers"):
        signed_by(run, signers)
    signers.write_text(f"me@example.org {(tmp_path / 'mine.pub').read_text()}")
    assert signed_by(run, signers) == "me@example.org"
    assert check(run) is not None
    manifest = (run / "manifest.json").read_text()
    (run / "manifest.json").write_text(manifest + " ")
    with pytest.raises(ArtifactError, match="does not sign"):
        signed_by(run, signers)
    (run / "manifest.json").write_text(manifest)
    sign("mine", "file")
    with pytest.raises(ArtifactError, match="does not sign"):
        signed_by(run, signers)
    sign("other")
    with pytest.raises(ArtifactError, match="nobody"):
        signed_by(run, signers)
    seal(run)
    assert not (run / "manifest.json.sig").exists()
