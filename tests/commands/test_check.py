from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.api import learning
from flopcast.errors import ArtifactError, DataError
from flopcast.tests.commands import running

call = partial(running.call, "check")
GEMM = {"op": "gemm", "dtype_a": "bf16"}


def gemms(
    seed: int, factor: float = 1.0, widths: tuple[int, ...] = (1, 2, 3, 4, 5, 6)
) -> pd.DataFrame:
    """GEMMs of six weight shapes or more on two devices: the target takes 5 µs and 0.6 of the host's time, ±3 %."""
    rng = np.random.default_rng(seed)
    cells = [(16 * m + seed, 512 * n, 2048) for n in widths for m in (1, 2, 4, 8, 16, 32, 64, 128)]
    shapes = pd.DataFrame(cells, columns=["m", "n", "k"]).assign(**GEMM)
    host = 10 + shapes[["m", "n", "k"]].prod(axis=1) / 2e7
    target = factor * (5 + 0.6 * host) * np.exp(rng.normal(0, 0.03, len(shapes)))
    sides = (("MI300X", host), ("MI355X", target))
    return pd.concat(
        [shapes.assign(device=name, duration_us=us) for name, us in sides], ignore_index=True
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "spring"
    fc.train(gemms(0), host="MI300X", target="MI355X", models=["Additive"], jobs=1).save(folder)
    return folder


def written(table: pd.DataFrame, path: Path) -> Path:
    table.to_csv(path, index=False)
    return path


def test_new_rows_of_the_same_kind_leave_the_run_valid_and_nothing_to_correct(
    run: Path, tmp_path: Path
) -> None:
    data = written(gemms(1), tmp_path / "autumn.csv")
    code, out, _ = call(run, data, "--json", "--corrected", tmp_path / "none")
    found = json.loads(out)
    assert code == 0
    assert found["verdict"] == "still valid"
    assert found["n"] == 48
    assert found["e_out"] < 5
    assert list(found["ir"]) == ["1", "5", "10", "15", "20", "30", "40", "50"]
    assert 0.8 < found["coverage"] <= 1
    assert found["level"] == 0.9
    assert found["shift"] == pytest.approx(1, abs=0.03)
    assert found["saved"] is None
    assert not (tmp_path / "none").exists()
    _, out, _ = call(run, data, "--corrected", tmp_path / "none")
    assert "none is not written: a factor corrects only a run that is shifted." in " ".join(
        out.split()
    )
    assert "is not written" not in call(run, data)[1]


def test_a_shifted_run_is_saved_corrected_and_says_so(run: Path, tmp_path: Path) -> None:
    data = written(gemms(1, factor=1.2), tmp_path / "autumn.csv")
    code, out, _ = call(
        run, data, "--json", "--corrected", tmp_path / "corrected", "--out", tmp_path / "page"
    )
    found = json.loads(out)
    assert code == 0
    assert found["verdict"] == "shifted"
    assert found["shift_interval"]["lower"] < 1.2 < found["shift_interval"]["upper"]
    assert (tmp_path / "page" / "check.html").stat().st_size > 10_000
    before, after = fc.load(run), fc.load(tmp_path / "corrected")
    columns = ["predicted_us", "lower_us", "upper_us"]
    old, new = (one.predict(gemms(2))[columns].to_numpy().T for one in (before, after))
    assert new[0] / old[0] == pytest.approx(found["shift"])
    assert (new[2] / new[1] > old[2] / old[1]).all()
    assert (
        after.trained.saved.manifest["correction"]
        == found["correction"]
        == after.metrics["correction"]
    )
    assert fc.predict(after, gemms(2)).summary["notes"]
    compared = fc.compare(before, after).document()
    stated = {one["setting"]: (one["first"], one["second"]) for one in compared.data["settings"]}
    assert stated["corrected afterwards by"] == (
        "–",
        "{factor:.3f} [{lower:.3f}, {upper:.3f}]".format(**found["correction"]),
    )
    assert "flopcast check each on the same new rows" in str(compared.closing)
    again = after.check(gemms(3, factor=1.2))
    assert again.verdict == "still valid"
    twice = after.check(gemms(3, factor=1.2 * 1.3))
    assert twice.correction is not None
    assert twice.correction.factor == pytest.approx(1.2 * 1.3, rel=0.03)


@pytest.mark.no_cover
def test_a_manifest_whose_correction_was_changed_is_refused(run: Path, tmp_path: Path) -> None:
    fc.load(run).check(gemms(1, factor=1.2)).correct(tmp_path / "corrected")
    path = tmp_path / "corrected" / "model" / "manifest.json"
    text = path.read_text("utf-8")
    manifest = json.loads(text)
    manifest["correction"]["factor"] *= 1.01
    path.write_text(json.dumps(manifest), "utf-8")
    with pytest.raises(ArtifactError):
        fc.load(tmp_path / "corrected")


def test_another_host_takes_the_place_of_the_trained_one_and_its_cost_is_told(run: Path) -> None:
    both = gemms(1)
    old = both[both["device"] == "MI300X"]
    half = old.assign(device="MI300X, old driver", duration_us=1.25 * old["duration_us"])
    found = fc.check(run, pd.concat([both, half]), host="MI300X, old driver")
    other = found.document().data["other_host"]
    assert other["rows"] == 48
    assert other["own_e_out"] < 5 < 10 < other["e_out"]
    assert found.facts.trained_host == "MI300X"


def test_a_run_is_held_against_a_third_gpu_and_training_anew_on_it(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learning, "MODELS", ("Additive",))
    # more: `test_curve`
    monkeypatch.setattr(learning, "curve", partial(learning.curve, rows=[10], draws=1))
    data = gemms(1, factor=1.3).replace({"device": {"MI355X": "MI325X"}})
    code, out, _ = call(run, written(data, tmp_path / "third.csv"), "--target", "MI325X", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["verdict"], found["target"], found["trained_target"]) == (
        "shifted",
        "MI325X",
        "MI355X",
    )
    assert found["shift_interval"]["lower"] < 1.3 < found["shift_interval"]["upper"]
    errors = pd.DataFrame(found["anew"]["curve"]).pivot_table("e_out", "rows", "way")
    assert list(errors.columns) == ["from the host", "the run, shifted"]
    assert (errors["the run, shifted"] < 5).all()  # one factor is all that differs
    with pytest.raises(DataError):
        fc.check(run, data, target="MI325X").correct(tmp_path / "corrected")


@pytest.mark.parametrize(("law", "expected"), [("shift", None), ("other", 30)])
def test_from_how_many_rows_on_training_anew_errs_less(law: str, expected: int | None) -> None:
    draws = pd.DataFrame(
        {"rows": [10, 10, 30, 30], "way": ["the run, shifted", "from the host"] * 2}
    )
    errors = {"shift": [3.0, 2.0, 3.0, 4.0], "other": [3.0, 4.0, 3.0, 2.0]}[law]
    assert learning._anew_from(draws.assign(e_out=errors)) == expected


@pytest.mark.no_cover
def test_rows_trained_on_are_left_out_unless_there_are_no_others(run: Path) -> None:
    found = fc.check(run, pd.concat([gemms(0), gemms(1)]))
    assert (found.found.score.n, found.facts.trained_rows) == (48, 48)
    found = fc.check(run, gemms(0))
    assert (found.found.score.n, found.facts.all_trained) == (48, True)
    assert found.document().opening[0].answer.startswith("proves nothing")
    assert found.verdict == found.to_dict()["verdict"] == "proves nothing"
    assert fc.check(run, gemms(0).iloc[[0, 48]]).verdict == "proves nothing"


@pytest.mark.no_cover
def test_rows_trained_on_in_groups_of_ones_own_are_known_again(tmp_path: Path) -> None:
    fc.train(
        gemms(0), host="MI300X", target="MI355X", group=["k", "n"], models=["OLS"], jobs=1
    ).save(tmp_path / "run")
    found = fc.check(tmp_path / "run", pd.concat([gemms(0), gemms(1)]))
    assert (found.found.score.n, found.facts.trained_rows) == (48, 48)
    assert found.rows["group"].str.startswith("k 2048 n ").all()


@pytest.mark.no_cover
def test_what_cannot_be_is_one_line(run: Path, tmp_path: Path) -> None:
    alone = fc.train(gemms(0, widths=(1, 2)), target="MI355X", models=["OLS"], jobs=1)
    with pytest.raises(fc.ParameterError):
        alone.check(gemms(1), host="H100 SXM5")
    with pytest.raises(DataError):
        fc.load(run).check(gemms(1)).correct(tmp_path / "none")
    code, out, error = call(
        run, written(gemms(1).query("device == 'MI300X'"), tmp_path / "host.csv")
    )
    assert (code, out) == (2, "")
    assert len(error.strip().splitlines()) == 1
