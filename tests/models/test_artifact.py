from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

from flopcast.errors import ArtifactError
from flopcast.models.artifact import check_columns, describe_features, load, save, versions

rng = np.random.default_rng(0)
X = pd.DataFrame(rng.uniform(1, 9, (60, 3)), columns=["host_us", "log_m", "dtype=fp8"])
X.loc[5, "log_m"] = np.nan
y = (X["host_us"] * 0.1 + X["dtype=fp8"]).to_numpy()
UNITS = {"host_us": "µs", "log_m": "", "dtype=fp8": ""}
MANIFEST = {
    "features": describe_features(X, UNITS),
    "data_sha256": "ab" * 32,
    "recipe": {"op": ["gemm"], "seed": 0},
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "model"
    save(folder, ExtraTreesRegressor(5, random_state=0).fit(X, y), MANIFEST, X)
    return folder


@pytest.fixture
def model(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "model"))


def edit(model: Path, change) -> None:
    """Change a manifest in place."""
    path = model / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def put(model: Path, data: bytes) -> None:
    """Replace the estimator by other bytes."""
    (model / "estimator.zip").write_bytes(data)


def test_a_model_comes_back_with_its_manifest(original):
    artifact = load(original)
    np.testing.assert_array_equal(
        artifact.predict(X), ExtraTreesRegressor(5, random_state=0).fit(X, y).predict(X)
    )
    assert artifact.feature_names == list(X.columns)
    assert artifact.manifest["schema"] == 1
    assert artifact.manifest["recipe"] == {"op": ["gemm"], "seed": 0}
    assert artifact.manifest["versions"] == versions()
    assert set(versions()) == {"python", "numpy", "scipy", "scikit-learn", "lightgbm", "flopcast"}


def test_features_have_their_unit_and_trained_range():
    table = pd.DataFrame({"host_us": [2.0, 0.5, np.nan], "empty": [np.nan] * 3})
    assert describe_features(table, {"host_us": "µs", "empty": ""}) == [
        {"name": "host_us", "unit": "µs", "low": 0.5, "high": 2.0},
        {"name": "empty", "unit": "", "low": None, "high": None},
    ]


def test_probes_are_rows_and_points_between_them_in_full_precision(original):
    probes = load(original).manifest["probes"]
    rows = np.array(probes["rows"], dtype=float)
    places = np.linspace(0, 59, 10).round().astype(int)
    np.testing.assert_array_equal(rows[:10], X.to_numpy()[places])
    np.testing.assert_array_equal(rows[10:], 0.6 * rows[:9] + 0.4 * rows[1:10])
    assert len(probes["predictions"]) == 19


def test_a_single_row_is_enough_of_a_probe(tmp_path):
    save(tmp_path, ExtraTreesRegressor(2, random_state=0).fit(X, y), MANIFEST, X.iloc[4:5])
    np.testing.assert_array_equal(
        np.array(load(tmp_path).manifest["probes"]["rows"], dtype=float), X.iloc[4:5]
    )


def test_the_same_model_gives_the_same_bytes(original, tmp_path):
    save(tmp_path, ExtraTreesRegressor(5, random_state=0).fit(X, y), MANIFEST, X)
    for name in ("manifest.json", "estimator.zip"):
        assert (tmp_path / name).read_bytes() == (original / name).read_bytes()


def test_an_estimator_fitted_without_names_is_saved_too(tmp_path):
    rows = X.fillna(0.0)
    save(tmp_path, LinearRegression().fit(rows.to_numpy(), y), MANIFEST, rows)
    assert load(tmp_path).predict(rows).shape == (60,)


def test_save_refuses_what_cannot_be_loaded_and_manifests_that_do_not_fit(tmp_path):
    forest = ExtraTreesRegressor(2, random_state=0).fit(X, y)
    with pytest.raises(ArtifactError, match="KNeighborsRegressor"):
        save(tmp_path / "m", KNeighborsRegressor().fit(X.fillna(0.0), y), MANIFEST, X.fillna(0.0))
    with pytest.raises(ValueError, match="probes"):
        save(tmp_path / "m", forest, MANIFEST, X[["log_m", "host_us", "dtype=fp8"]])
    with pytest.raises(ValueError, match="lacks data_sha256"):
        save(tmp_path / "m", forest, {"features": MANIFEST["features"]}, X)
    with pytest.raises(ValueError, match="writes probes itself"):
        save(tmp_path / "m", forest, {**MANIFEST, "probes": []}, X)
    with pytest.raises(ValueError, match=r"value\.interval is inf"):
        save(tmp_path / "m", forest, {**MANIFEST, "interval": np.inf}, X)
    assert not (tmp_path / "m").exists()


def test_a_missing_folder_and_a_missing_estimator_say_so(model, tmp_path):
    with pytest.raises(ArtifactError, match=r"nowhere/manifest\.json"):
        load(tmp_path / "nowhere")
    (model / "estimator.zip").unlink()
    with pytest.raises(ArtifactError, match=r"estimator\.zip"):
        load(model)


@pytest.mark.parametrize("text", ["", "[1", "\x00\x01", '{"schema": 1', "[" * 100_000])
def test_a_manifest_that_is_not_json_is_refused(model, text):
    (model / "manifest.json").write_text(text)
    with pytest.raises(ArtifactError, match=r"manifest\.json is not JSON"):
        load(model)


@pytest.mark.parametrize("text", ["[]", "{}", '{"schema": "1"}', '{"schema": 0}', "null"])
def test_a_foreign_manifest_is_refused(model, text):
    (model / "manifest.json").write_text(text)
    with pytest.raises(ArtifactError, match="flopcast model"):
        load(model)


def test_a_newer_schema_asks_for_an_upgrade(model):
    edit(model, lambda manifest: manifest.update(schema=2))
    with pytest.raises(ArtifactError, match="upgrade flopcast"):
        load(model)


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest.pop("features"),
        lambda manifest: manifest.update(features=[1]),
        lambda manifest: manifest.update(versions=None),
        lambda manifest: manifest.update(versions=[["numpy", "1.0"]]),
        lambda manifest: manifest["features"][0].update(name=1.5),
        lambda manifest: manifest["probes"].update(rows=[]),
        lambda manifest: manifest["probes"]["rows"].append([1.0]),
        lambda manifest: manifest["probes"]["predictions"].pop(),
        lambda manifest: manifest["probes"].update(rows=[], predictions=[]),
        lambda manifest: manifest["features"].pop(),
    ],
)
def test_a_manifest_with_parts_missing_is_refused(model, change):
    edit(model, change)
    with pytest.raises(ArtifactError, match=r"manifest\.json") as info:
        load(model)
    assert "\n" not in str(info.value)


def test_an_estimator_cut_short_or_foreign_is_refused(model):
    put(model, (model / "estimator.zip").read_bytes()[:1000])
    with pytest.raises(ArtifactError, match=r"estimator\.zip"):
        load(model)
    put(model, b"\x80\x04N.")
    with pytest.raises(ArtifactError, match="pickle"):
        load(model)


def test_another_estimator_under_the_same_manifest_is_damage(model, tmp_path):
    save(tmp_path / "other", ExtraTreesRegressor(5, random_state=1).fit(X, y), MANIFEST, X)
    put(model, (tmp_path / "other" / "estimator.zip").read_bytes())
    with pytest.raises(ArtifactError, match=r"damaged: .*probes differ"):
        load(model)


def test_a_probe_may_differ_by_rounding_but_not_by_more(model):
    def shift(by: float):
        def change(manifest):
            manifest["probes"]["predictions"][3] *= 1 + by

        return change

    edit(model, shift(1e-10))
    load(model)
    edit(model, shift(1e-8))
    with pytest.raises(ArtifactError, match="1e-06"):
        load(model)


def test_other_versions_that_do_not_reproduce_the_probes_are_named(model):
    def age(manifest):
        manifest["versions"].update({"scikit-learn": "1.2.3", "numpy": "1.0"})
        manifest["probes"]["predictions"][0] *= 1.05

    edit(model, age)
    here = versions()["scikit-learn"]
    message = rf"this scikit-learn {here} does not reproduce the model trained with 1\.2\.3, numpy 1\.0 \(probes differ"
    with pytest.raises(ArtifactError, match=message) as info:
        load(model)
    assert "\n" not in str(info.value)


def test_other_versions_that_reproduce_the_probes_are_welcome(model):
    edit(model, lambda manifest: manifest["versions"].update({"scikit-learn": "1.2.3"}))
    assert load(model).predict(X).shape == (60,)


def test_columns_are_checked_by_name(original):
    artifact = load(original)
    with pytest.raises(ArtifactError, match=r"log_m.*host_us"):
        artifact.predict(X[["log_m", "host_us", "dtype=fp8"]])
    with pytest.raises(ArtifactError, match=r"missing: host_us; unexpected: host_ms\)"):
        artifact.predict(X.rename(columns={"host_us": "host_ms"}))


def test_five_columns_are_named_and_the_rest_counted():
    check_columns(["a", "b"], ["a", "b"])
    with pytest.raises(ArtifactError, match=r"c0.*c1.*c2.*c3.*c4"):
        check_columns([f"c{i}" for i in range(8)], [])
    with pytest.raises(ArtifactError, match=r"unexpected: b\)"):
        check_columns(["a"], ["a", "b"])
    with pytest.raises(ArtifactError, match=r"repeated: a\)"):
        check_columns(["a", "b"], ["a", "b", "a"])


@pytest.mark.parametrize("name", ["manifest.json", "estimator.zip"])
@pytest.mark.parametrize("kind", ["pipe", "device", "link", "folder"])
def test_what_is_no_plain_file_of_the_folder_is_not_read(model, tmp_path, name, kind):
    path = model / name
    path.rename(tmp_path / name)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "device" else tmp_path / name)
    with pytest.raises(
        ArtifactError, match=r"leads out of its folder|is not a plain file|Is a directory"
    ):
        load(model)


def test_a_file_larger_than_any_model_is_not_read(model):
    with (model / "manifest.json").open("r+b") as file:
        file.truncate(2**40)  # sparse
    with pytest.raises(ArtifactError, match=r"manifest\.json.*1,099,511,627,776"):
        load(model)
