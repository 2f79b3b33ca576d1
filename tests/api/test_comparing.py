"""Two runs side by side."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri
from scipy.stats import binom

import flopcast as fc
from flopcast.errors import DataError, FlopcastError, ParameterError
from flopcast.evaluation.paired import common_rows, drift
from flopcast.evaluation.trained_model import Correction
from flopcast.report.document import Figure
from flopcast.tests.commands.running import call
from flopcast.tests.fuzz.corpus import answers
from flopcast.tests.readers.kineto.made_up import write_trace


class Run:
    """The evidence of a run: models with their errors, row by row."""

    folder = None
    trained = None

    def save(self, path: Path, *, made: object = None, overwrite: bool = False) -> None:
        """Write nothing: only what it says of itself is compared."""

    def __init__(
        self, errors: dict[str, np.ndarray], rows: np.ndarray, metric: str = "duration_us"
    ) -> None:
        observed = 10.0 + rows
        parts = [
            pd.DataFrame(
                {
                    "row": np.arange(len(rows)), "scheme": "grouped", "model": name, "observed": observed, "ape": ape,
                    "predicted": observed * (1 + ape / 100), "group": [f"g{row % 10}" for row in rows],
                    "source": [f"a.csv:{row}" for row in rows], "fold": 0,
                }
            )
            for name, ape in errors.items()
        ]  # fmt: skip
        self.predictions = pd.concat(parts, ignore_index=True)
        best = min(errors, key=lambda name: errors[name].mean())
        models = [{"name": name, "e_out": float(ape.mean())} for name, ape in errors.items()]
        selected = {"name": best, "e_out": float(errors[best].mean()), "tied": [best]}
        data = {"metric": metric, "n": len(rows), "host": "MI300X", "target": "MI355X"}
        cv = [
            {
                "scheme": "grouped",
                "folds": 10,
                "baselines": [],
                "models": models,
                "selected": selected,
            }
        ]
        self.metrics: dict[str, Any] = {"data": data, "cv": cv}


def errors(size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).gamma(4, 2, size)


def test_runs_are_paired_on_the_rows_both_have_whatever_their_order() -> None:
    first, second = np.arange(80), np.arange(20, 100)[::-1]
    ape = errors(100, 0)
    found = fc.compare(
        Run({"OLS": ape[first]}, first), Run({"OLS": ape[second] - 1, "Stack": ape[second]}, second)
    )
    assert found.common == 60
    assert " → " in repr(found)
    (grouped,) = found.schemes
    assert grouped.names == ("OLS", "OLS")
    assert grouped.paired.difference == pytest.approx(-1)
    assert grouped.paired.apart
    assert set(grouped.by_group["group"]) == {f"g{group}" for group in range(10)}
    table = found.table.set_index("model")
    assert table.loc["OLS", "difference"] == pytest.approx(-1)
    assert np.isnan(table.loc["Stack", "first"])


def test_rows_of_renamed_files_are_found_by_group_and_observed_value() -> None:
    own = Run({"OLS": errors(30, 1)}, np.arange(30)).predictions
    assert len(common_rows(own, own.assign(source="b.csv:" + own["row"].astype(str)))) == 30
    assert len(common_rows(own, own.assign(source="dir/" + own["source"]))) == 30
    assert (
        len(
            common_rows(
                own, own.assign(source=pd.Series([None] * len(own), own.index, dtype="str"))
            )
        )
        == 30
    )
    assert len(common_rows(own, own.assign(observed=own["observed"] * 3.7))) == 0


def test_runs_without_a_common_row_are_not_tested() -> None:
    found = fc.compare(
        Run({"OLS": errors(9, 1)}, np.arange(9)), Run({"OLS": errors(9, 2)}, np.arange(50, 59))
    )
    assert (found.common, found.schemes[0].paired) == (0, None)
    document = found.document()
    assert "–" not in document.opening[0].answer + document.opening[0].rival
    assert [section for section in document.sections if section.anchor.startswith("cv-")] == []


def test_what_cannot_be_compared_is_refused() -> None:
    rows, ape = np.arange(9), errors(9, 1)
    with pytest.raises(DataError, match="different figures"):
        fc.compare(Run({"OLS": ape}, rows), Run({"OLS": ape}, rows, "energy_j"))
    with pytest.raises(ParameterError, match="first"):
        fc.compare(3, Run({"OLS": ape}, rows))


def test_a_page_of_two_runs_draws_the_differences_of_their_groups(
    ols: fc.Run, additive: fc.Run
) -> None:
    compared = fc.compare(ols, additive)
    parts = [part for section in compared.document().sections for part in section.parts]
    drawn = [part.draw() for part in parts if isinstance(part, Figure)]
    assert len(drawn) == len(compared.schemes)
    for figure, scheme in zip(drawn, compared.schemes, strict=True):
        differences = scheme.by_group["difference"].dropna().tolist()
        assert [*figure.data[0].x] == differences[: len(figure.data[0].x)]
        assert len(differences) >= len(figure.data[0].x) > 0


def test_the_command_writes_a_page_and_says_the_same_as_json(
    ols: fc.Run, additive: fc.Run, tmp_path: Path
) -> None:
    for name, run in (("OLS", ols), ("Additive", additive)):
        run.save(tmp_path / name)
    paths = [str(tmp_path / name) for name in ("OLS", "Additive")]
    done = call("compare", *paths, "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found == json.loads((tmp_path / "out" / "compare.json").read_text(encoding="utf-8"))
    assert (found["kind"], found["names"]) == ("runs", ["OLS", "Additive"])
    differing = {one["setting"] for one in found["settings"] if one["first"] != one["second"]}
    assert "command" in differing
    assert not {"rows", "training data (SHA-256)", "metric"} & differing
    page = (tmp_path / "out" / "compare.html").read_text(encoding="utf-8")
    assert found["schemes"][0]["statement"].replace("'", "&#39;") in page.replace("\xa0", " ")
    refused = call("compare", tmp_path, paths[0])
    assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)


def measured(factor: float, groups: int = 6, seed: int = 0) -> pd.DataFrame:
    """Return products of so many weight shapes whose times are off by a factor, and by 2 % of each shape's own."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(
        {
            "m": np.tile(2.0 ** np.arange(4, 12), groups),
            "n": np.repeat(512.0 * np.arange(1, groups + 1), 8),
        }
    )
    own = np.repeat(np.exp(0.02 * rng.standard_normal(groups)), 8)
    rows = rows.assign(device="MI300X", op="gemm", dtype_a="bf16", k=4096.0, kernel="Cijk")
    return rows.assign(duration_us=factor * own * (10.0 + rows["m"] * rows["n"] * 1e-3))


def test_two_tables_are_compared_on_the_problems_that_both_hold(tmp_path: Path) -> None:
    first, second = tmp_path / "spring.csv", tmp_path / "autumn.csv"
    measured(1.0).to_csv(first, index=False)
    slower = measured(1.2, groups=7, seed=1)
    # the fastest kernel of a problem counts
    again = slower.head(8).assign(kernel="slow", duration_us=9000.0)
    pd.concat([slower, again]).to_csv(second, index=False)
    found = fc.compare(first, second)
    (row,) = found.table.to_dict("records")
    assert (row["problems"], row["groups"], row["kernels"]) == (48, 6, 0.0)
    assert row["lower"] < row["ratio"] < row["upper"]
    assert row["ratio"] == pytest.approx(1.2, rel=0.05)
    assert row["lower"] > 1.05
    assert json.loads(json.dumps(found.document().data))["operators"][0]["problems"] == 48


def test_few_groups_have_a_ratio_and_no_interval(tmp_path: Path) -> None:
    paths = [tmp_path / "spring.csv", tmp_path / "autumn.csv"]
    for path, factor in zip(paths, (1.0, 0.5), strict=True):
        measured(factor, groups=3).to_csv(path, index=False)
    (row,) = fc.compare(*paths).table.to_dict("records")
    assert row["ratio"] == pytest.approx(0.5)
    assert np.isnan(row["lower"])
    other = tmp_path / "other.csv"
    measured(1.0).assign(k=512.0).to_csv(other, index=False)
    with pytest.raises(DataError, match="in common"):
        fc.compare(paths[0], other)


def test_the_tenths_are_the_quantiles_of_the_problems_ratios() -> None:
    same = fc.read(measured(1.0, groups=5)).frame
    grown = same.assign(duration_us=same["duration_us"] * np.exp(np.linspace(0, 1, len(same))))
    (row,) = drift(same, grown).to_dict("records")
    assert (row["fastest_tenth"], row["slowest_tenth"]) == pytest.approx((np.exp(0.1), np.exp(0.9)))


def test_products_whose_formats_are_scaled_otherwise_are_compared_apart(tmp_path: Path) -> None:
    fp8 = measured(1.0).assign(dtype_a="fp8", scale_block="tensor")
    blocks, slower = (
        fp8.assign(scale_block="1x128"),
        fp8.assign(duration_us=1.5 * fp8["duration_us"]),
    )
    for name, tables in (("spring.csv", [fp8, blocks]), ("autumn.csv", [slower, blocks])):
        pd.concat(tables).to_csv(tmp_path / name, index=False)
    found = fc.compare(tmp_path / "spring.csv", tmp_path / "autumn.csv")
    assert found.table.set_index("scale_block")["ratio"].to_dict() == pytest.approx(
        {"1x128": 1.0, "tensor": 1.5}
    )
    assert "fp8 1x128" in str(found.document())


def test_the_interval_of_a_ratio_holds_it_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    held = 0
    same = fc.read(measured(1.0, groups=12)).frame
    for seed in range(40):
        own = np.repeat(np.exp(0.1 * rng.standard_normal(12)), 8)
        found = drift(
            same, same.assign(duration_us=1.1 * own * same["duration_us"]), level=0.9, seed=seed
        )
        held += found["lower"][0] <= 1.1 <= found["upper"][0]
    assert 32 <= held <= 39


def test_projections_are_compared_by_what_they_do_not_share(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.json")
    one, same, other = (fc.project(path, target=name, **more) for name, more in
                        (("MI355X", {}), ("MI355X", {"cpu_speed": 2.0}), ("H100", {})))  # fmt: skip
    alike = fc.compare(one, same).table.iloc[0]
    assert (alike["what"], alike["first"], alike["second"]) == (
        "end to end",
        one.projected_us,
        same.projected_us,
    )
    apart = fc.compare(one, other).table.iloc[0]
    assert (
        alike["ratio_upper"] / alike["ratio_lower"]
        < 1.1
        < apart["ratio_upper"] / apart["ratio_lower"]
    )
    assert (alike["shared"] > 0.5, apart["shared"]) == (True, 0.0)
    for name, found in (("a", one), ("b", same)):
        found.save(tmp_path / name)
    told = call("compare", tmp_path / "a", tmp_path / "b", "--json", "--out", tmp_path / "c")
    saved = json.loads(told.output)
    assert saved["answers"][0]["ratio"] == pytest.approx(alike["ratio"])
    assert (tmp_path / "c" / "compare.html").exists()
    for line, offered in ((("--out", tmp_path / "c"), False), ((), True)):
        assert (
            "--out FOLDER" in call("compare", tmp_path / "a", tmp_path / "b", *line).stdout
        ) == offered


def saved(path: Path, parts: dict[str, float], deviations: dict[str, float], target: str) -> Path:
    """Write what `project` would of a trace whose time is the sum of parts, each off by its own log-normal factor."""
    whole, reach = sum(parts.values()), ndtri(0.95)

    def ends(name: str, side: int) -> float:
        return whole + parts[name] * (np.exp(side * reach * deviations[name]) - 1)

    tornado = [{"name": name, "sigma": deviations[name], "low_us": ends(name, -1), "high_us": ends(name, 1)}
               for name in parts]  # fmt: skip
    classes = [{"op_class": name, "projected_us": us, "lower_us": us, "upper_us": us, "sigma": deviations[name],
                "law": "affine"} for name, us in parts.items()]  # fmt: skip
    interval = {"level": 0.9, "lower_us": whole, "upper_us": whole, "tornado": tornado}
    answer = {
        "schema": 1,
        "host": "MI300X",
        "target": target,
        "projected_us": whole,
        "interval": interval,
    }
    path.write_text(json.dumps(answer | {"classes": classes}), encoding="utf-8")
    return path


@pytest.mark.parametrize("same_law", [True, False])
def test_the_paired_interval_of_projections_holds_the_true_ratio_as_often_as_it_says(
    tmp_path: Path, same_law: bool
) -> None:
    first = {"gemm": 5000.0, "attention": 2500.0, "elementwise": 1500.0, "cpu_speed": 400.0}
    second = {"gemm": 5200.0, "attention": 1200.0, "elementwise": 1400.0, "cpu_speed": 700.0}
    deviations = {"gemm": 0.25, "attention": 0.3, "elementwise": 0.15, "cpu_speed": 0.1}
    targets = ("MI355X", "MI355X" if same_law else "H100")
    paths = [saved(tmp_path / f"{place}.json", parts, deviations, targets[place])
             for place, parts in enumerate((first, second))]  # fmt: skip
    row = fc.compare(*paths, interval=0.9).table.iloc[0]
    rng, draws = np.random.default_rng(0), 4000
    scale = np.array([*deviations.values()])
    errors = [np.exp(scale * rng.standard_normal((draws, len(scale)))) for _ in range(2)]
    before, after = (np.array([*parts.values()]) @ own.T
                     for parts, own in ((first, errors[0]), (second, errors[0 if same_law else 1])))  # fmt: skip
    held = [((row["ratio_lower"] <= after / before) & (after / before <= row["ratio_upper"])).mean(),
            ((row["lower"] <= after - before) & (after - before <= row["upper"])).mean()]  # fmt: skip
    lowest, highest = binom.ppf([0.0005, 0.9995], draws, 0.9) / draws
    assert all(lowest <= share <= highest for share in held)


def test_forecasts_are_compared_setting_by_setting(tmp_path: Path) -> None:
    fields = {"gpus": 8, "dtype": "fp8", "batch": [1, 16], "input_len": 128, "output_len": 128}
    one, other = (fc.forecast("llama-3.1-70b", gpu=gpu, **fields) for gpu in ("MI300X", "MI355X"))
    table = fc.compare(one, other).table
    assert table["first"].tolist() == one.table["predicted"].tolist()
    assert table["what"].tolist() == [
        "gpu MI300X → MI355X, batch 1",
        "gpu MI300X → MI355X, batch 16",
    ]
    assert table["second"].tolist() == other.table["predicted"].tolist()
    assert table["ratio"].tolist() == pytest.approx(
        (other.table["predicted"] / one.table["predicted"]).tolist()
    )
    itself = fc.compare(one, one).table
    assert itself["ratio_lower"].tolist() == pytest.approx([1, 1])
    for kind in ("csv", "parquet"):
        for name, found in (("first", one), ("second", other)):
            found.save_table(tmp_path / f"{name}.{kind}")
        again = fc.compare(tmp_path / f"first.{kind}", tmp_path / f"second.{kind}").table
        pd.testing.assert_frame_equal(again, table)
    told = call("compare", tmp_path / "first.csv", tmp_path / "second.parquet", "--json")
    assert [row["ratio_upper"] for row in json.loads(told.output)["answers"]] == pytest.approx(
        [*table["ratio_upper"]]
    )
    pd.read_csv(tmp_path / "first.csv").assign(upper=np.nan).to_csv(
        tmp_path / "lost.csv", index=False
    )
    with pytest.raises(DataError, match="row 1 of a table of forecasts has no interval"):
        fc.compare(tmp_path / "lost.csv", tmp_path / "second.csv")
    with pytest.raises(DataError, match="2 and 1 forecasts"):
        fc.compare(one, fc.forecast("llama-3.1-70b", gpu="MI300X", **(fields | {"batch": 1})))
    one.save(tmp_path / "a")
    fc.project(write_trace(tmp_path / "t.json"), target="MI355X").save(tmp_path / "b")
    with pytest.raises(DataError, match="forecasts and projections"):
        fc.compare(tmp_path / "a", tmp_path / "b")


def test_a_corrected_run_errs_alike_but_for_the_correction(ols: fc.Run, tmp_path: Path) -> None:
    data = fc.read(where={"m": (None, 64), "n": (None, 2048)})
    correction = Correction(1.2, 1.15, 1.25, 0.9, rows=100, groups=8)
    corrected = fc.Run(ols.metrics, ols.predictions, ols.trained.corrected(correction))
    found = [fc.predict(run, data) for run in (ols, corrected)]
    table = fc.compare(*found, interval=0.9).table
    assert table["ratio"].tolist() == pytest.approx([1.2] * len(table))
    reach = np.log(1.25 / 1.15) / 2
    assert np.log(table["ratio_upper"] / table["ratio"]).tolist() == pytest.approx(
        [reach] * len(table), rel=0.02
    )
    assert (table["shared"] > 0.8).all()
    back = fc.compare(*found[::-1], interval=0.9).table
    assert (1 / back["ratio_lower"]).tolist() == pytest.approx(table["ratio_upper"].tolist())
    for name, one in zip(("a.csv", "b.csv"), found, strict=True):
        one.save(tmp_path / name)
    saved = fc.compare(tmp_path / "a.csv", tmp_path / "b.csv", interval=0.9).table
    assert saved["shared"].tolist() == pytest.approx(table["shared"].tolist(), abs=0.01)


def test_predictions_are_read_back_and_compared_row_by_row(ols: fc.Run, tmp_path: Path) -> None:
    data = fc.read(where={"m": (None, 64), "n": (None, 2048)})
    # at two levels the same prediction
    found = [fc.predict(ols, data, interval=level) for level in (0.9, 0.8)]
    assert fc.compare(*found).table["ratio_lower"].tolist() == pytest.approx(
        [1] * (1 + len(found[0].frame))
    )
    factors = np.linspace(1.1, 1.4, len(found[1].frame))
    figures = {
        name: found[1].frame[name] * factors for name in ("predicted_us", "lower_us", "upper_us")
    }
    found[1] = fc.Prediction(found[1].frame.assign(**figures), found[1].summary)
    table = fc.compare(*found, interval=0.9).table
    first, second = (one.frame.reset_index(drop=True) for one in found)
    assert (table["unit"].unique().tolist(), len(table)) == (["us"], 1 + len(first))
    assert table["ratio"][1:].tolist() == pytest.approx(
        (second["predicted_us"] / first["predicted_us"]).tolist()
    )
    assert table["difference"][0] == pytest.approx(
        second["predicted_us"].sum() - first["predicted_us"].sum()
    )
    widths = [np.log(side["upper_us"] / side["lower_us"]) / 2 for side in (first, second)]
    reach = np.hypot(widths[0], widths[1] * ndtri(0.95) / ndtri(0.9))
    assert np.log(table["ratio_upper"] / table["ratio"])[1:].tolist() == pytest.approx(
        reach.tolist()
    )
    assert fc.compare(found[0], found[0]).table["ratio_lower"].tolist() == pytest.approx(
        [1] * len(table)
    )
    for kind in ("csv", "parquet", "json"):
        paths = [tmp_path / f"{name}.{kind}" for name in ("first", "second")]
        for path, one in zip(paths, found, strict=True):
            one.save(path)
        again = fc.read_predictions(paths[1])
        assert (
            again.summary["level"],
            again.summary["metric"],
            again.half_width(),
        ) == pytest.approx((0.8, "duration_us", found[1].half_width()))
        pd.testing.assert_frame_equal(fc.compare(*paths, interval=0.9).table, table)
    told = call(
        "compare", tmp_path / "first.csv", tmp_path / "second.parquet", "--interval", 0.9, "--json"
    )
    assert json.loads(told.output)["answers"][0]["ratio_upper"] == pytest.approx(
        table["ratio_upper"][0]
    )


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
@pytest.mark.parametrize("suffix", [".csv", ".json", ".parquet"])
def test_predictions_that_were_compressed_are_compared_as_they_were(
    suffix: str, ending: str, pack: Callable[[bytes], bytes], ols: fc.Run, tmp_path: Path
) -> None:
    found = fc.predict(ols, fc.read(where={"m": (None, 64), "n": (None, 2048)}))
    found.save(tmp_path / f"rows{suffix}")
    packed = tmp_path / f"rows{suffix}{ending}"
    packed.write_bytes(pack((tmp_path / f"rows{suffix}").read_bytes()))
    assert len(fc.read_predictions(packed).frame) == len(found.frame)
    assert set(fc.compare(found, packed).table["ratio"]) == {1.0}


def test_tables_of_predictions_that_others_saved_are_read_or_refused(
    ols: fc.Run, tmp_path: Path
) -> None:
    found = fc.predict(ols, fc.read(where={"m": (None, 64), "n": (None, 2048)}))
    rows = found.frame
    moved = found.frame.assign(target="MI325X", upper_us=rows["upper_us"] * 2)[::-1]
    moved.to_csv(tmp_path / "commas.csv", sep=";", decimal=",", index=False, float_format="%.15g")
    both = pd.concat([rows, moved])
    table = fc.compare(fc.Prediction(both, found.summary), tmp_path / "commas.csv").table
    assert (len(table), set(table["shared"])) == (1 + len(rows), {1.0})
    assert table["ratio"][1:].to_numpy() == pytest.approx(1.0)
    assert "MI355X → MI325X" in fc.compare(found, tmp_path / "commas.csv").table["what"][0]
    for name, wrong, message in (
        ("level", rows.assign(level=np.nan), "row 1 has no level"),
        ("order", rows.assign(lower_us=rows["upper_us"] * 2), "row 1 has limits"),
        ("none", rows.drop(columns="level"), "level is missing"),
        ("nowhere", rows.assign(target=""), "row 1 has no target"),
    ):
        wrong.to_csv(tmp_path / f"{name}.csv", index=False)
        with pytest.raises(DataError, match=message):
            fc.read_predictions(tmp_path / f"{name}.csv")
    nowhere = fc.Prediction(rows.assign(target="NoSuch"), found.summary)
    assert list(fc.compare(found, found, nowhere).document().data["pairs"][1]["unknown"]) == [
        "no. 3"
    ]
    kept = rows.drop(columns=["source", "group"], errors="ignore")
    for what, wrong, message in (
        ("lost", kept.drop(columns="m"), "lost.csv has no column m"),
        (
            "twice",
            pd.concat([kept.head(1).assign(predicted_us=9.0), kept]),
            "row 1 of first is predicted 1 and 2 times in first and twice.csv",
        ),
        (
            "metric",
            rows.drop(columns="level"),
            "metric.csv: holds no predictions .* level is missing",
        ),
        ("empty", rows.head(0), "empty.csv: holds no prediction"),
        (
            "words",
            rows.astype({"upper_us": object}).assign(upper_us="#REF!"),
            "column upper_us is no number: '#REF!'",
        ),
        ("unit", rows.assign(metric="energy_j"), "no column predicted_j"),
        ("limits", rows.drop(columns="lower_us"), "no column lower_us"),
        ("mixed", rows.assign(metric=["energy_j", *rows["metric"][1:]]), "of several metrics"),
        (
            "measured",
            rows[["op", "dtype_a", "m", "n", "k"]].assign(duration_us=1.0, device="MI300X"),
            "measured.csv holds no answers",
        ),
    ):
        wrong.to_csv(tmp_path / f"{what}.csv", index=False)
        with pytest.raises(DataError, match=message):
            fc.compare(found, tmp_path / f"{what}.csv")
    rounded = rows.copy()
    figures = ["predicted_us", "lower_us", "upper_us"]
    rounded[figures] = rounded[figures].map(lambda value: float(f"{value:.6g}"))
    assert not fc.compare(found, fc.Prediction(rounded, found.summary)).table["apart"].any()
    assert set(fc.compare(found, fc.Prediction(rounded, found.summary)).table["ratio"]) == {1.0}
    (tmp_path / "deep.json").write_text("[" * 100_000)
    for read in (fc.read_predictions, lambda path: fc.compare(found, path)):
        with pytest.raises(FlopcastError):
            read(tmp_path / "deep.json")
    with pytest.raises(DataError, match="no workload is predicted in both"):
        fc.compare(found, fc.Prediction(rows.assign(m=rows["m"] * 1000), found.summary))
    with pytest.raises(DataError, match="duration_us and energy_us"):
        fc.compare(found, fc.Prediction(rows.assign(metric="energy_us"), found.summary))
    unbounded = fc.compare(found, fc.Prediction(rows.assign(upper_us=np.inf), found.summary))
    assert not unbounded.table["apart"].any()
    unbounded.save(tmp_path / "compared")
    assert (
        json.loads((tmp_path / "compared" / "compare.json").read_text())["answers"][0][
            "ratio_upper"
        ]
        is None
    )


def test_workbooks_of_predictions_and_forecasts_are_read_back(ols: fc.Run, tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    found = fc.predict(
        ols, fc.read(where={"m": (None, 64), "n": (None, 2048)}), out=tmp_path / "p.xlsx"
    )
    assert set(fc.compare(found, tmp_path / "p.xlsx").table["ratio_upper"]) == {1.0}
    forecasts = fc.forecast(
        "Llama-3.1-8B", gpu="MI300X", batch=[1, 16], input_len=128, output_len=128
    )
    forecasts.save_table(tmp_path / "f.xlsx")
    assert fc.compare(forecasts, tmp_path / "f.xlsx").table["ratio"].tolist() == [1.0, 1.0]
    wrong = found.frame.astype({"upper_us": object}).assign(upper_us="#REF!")
    wrong.to_excel(tmp_path / "words.xlsx", index=False)
    (tmp_path / "cut.xlsx").write_bytes((tmp_path / "words.xlsx").read_bytes()[:-100])
    for name, message in (
        ("words", "column upper_us is no number: '#REF!'"),
        ("cut", "cut.xlsx: is no readable workbook"),
    ):
        with pytest.raises(DataError, match=message):
            fc.compare(found, tmp_path / f"{name}.xlsx")


def test_several_runs_stand_on_the_rows_that_all_of_them_predicted() -> None:
    ape = errors(100, 0)
    spans = (np.arange(80), np.arange(20, 100), np.arange(10, 60))
    runs = [Run({"OLS": ape[rows] - place}, rows) for place, rows in enumerate(spans)]
    found = fc.compare(runs)
    assert found.names == ("first", "second", "no. 3")
    assert [pair.common for pair in found.pairs] == [40, 40]
    (first,) = {pair.schemes[0].paired.first for pair in found.pairs}
    assert first == pytest.approx(ape[20:60].mean())
    second, third = found.document().data["answers"]
    assert (second["value"] - second["first"], third["value"] - third["first"]) == pytest.approx(
        (-1, -2)
    )
    assert (second["apart"], third["apart"]) == (True, True)
    assert set(found.table["second_is"]) == {"second", "no. 3"}
    with pytest.raises(ParameterError, match="two or more"):
        fc.compare(runs[:1])


def test_several_tables_and_forecasts_are_set_beside_the_first(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.csv" for name in ("spring", "summer", "autumn")]
    for path, factor in zip(paths, (1.0, 1.2, 0.5), strict=True):
        measured(factor).to_csv(path, index=False)
    told = call("compare", *paths, "--json", "--out", tmp_path / "out")
    found = json.loads(told.stdout)
    assert found["names"] == ["spring.csv", "summer.csv", "autumn.csv"]
    assert [one["value"] for one in found["answers"]] == pytest.approx([1.2, 0.5], rel=0.01)
    assert "summer.csv" in (tmp_path / "out" / "compare.html").read_text(encoding="utf-8")
    fields = {"gpus": 8, "dtype": "fp8", "batch": [1, 16], "input_len": 128, "output_len": 128}
    forecasts = [
        fc.forecast("llama-3.1-70b", gpu=gpu, **fields) for gpu in ("MI300X", "MI355X", "H200")
    ]
    answers = fc.compare(forecasts).document().data["answers"]
    assert [one["what"] for one in answers] == ["batch 1", "batch 1", "batch 16", "batch 16"]
    assert [one["value"] for one in answers[1::2]] == forecasts[2].table["predicted"].tolist()


def test_several_traces_are_compared_step_by_step_only_where_all_have_steps(tmp_path: Path) -> None:
    paths = [write_trace(tmp_path / f"{name}.json") for name in "abc"]
    answers = fc.compare(*paths).document().data["answers"]
    assert {(one["name"], one["against"]) for one in answers if one["what"].startswith("end")} == {
        ("b.json", "+0 µs (+0.0 %)"), ("c.json", "+0 µs (+0.0 %)"),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["project.json", "forecast.json", "predicted.json"])
def test_a_saved_answer_is_compared_with_itself_and_refused_where_a_value_cannot_be(
    tmp_path: Path, name: str
) -> None:
    sound = json.loads(answers()[name])
    path = tmp_path / name
    path.write_text(json.dumps(sound))
    (tmp_path / "first").mkdir()
    first = tmp_path / "first" / name
    first.write_text(json.dumps(sound))
    assert len(fc.compare(first, path).table)
    for place, value in _places(sound):
        if place[-1] in READ:
            for wrong in ([], {"a": 1}, "x" if isinstance(value, float) else 7):
                path.write_text(json.dumps(_with(sound, place, wrong)))
                with suppress(FlopcastError):
                    fc.compare(first, path).document()
            path.write_text(json.dumps(_without(sound, place)))
            with suppress(FlopcastError):
                fc.compare(first, path).document()


READ = (
    "interval", "level", "tornado", "low_us", "high_us", "sigma", "projected_us", "lower_us", "classes", "law",
    "forecasts", "asked", "predicted", "lower", "upper", "unit", "spreads", "rows", "target", "metric", "predicted_us",
    "extrapolated", "reason",
)  # fmt: skip
"""Keys of answers that a comparison reads."""


def _places(found: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield where each value of a JSON document stands, of lists the first entry alone."""
    if place:
        yield place, found
    if isinstance(found, dict):
        for key, value in found.items():
            yield from _places(value, (*place, key))
    elif isinstance(found, list) and found:
        yield from _places(found[0], (*place, 0))


def _with(found: Any, place: tuple[Any, ...], value: Any) -> Any:
    """Return a copy of a JSON document with another value at a place."""
    copy = json.loads(json.dumps(found))
    inside = copy
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    return copy


def _without(found: Any, place: tuple[Any, ...]) -> Any:
    """Return a copy of a JSON document without the value at a place."""
    copy = json.loads(json.dumps(found))
    inside = copy
    for key in place[:-1]:
        inside = inside[key]
    del inside[place[-1]]
    return copy


@pytest.mark.parametrize("value", [1e-320, 1e299])
def test_ends_of_an_interval_may_be_as_far_apart_as_floats_are(
    tmp_path: Path, value: float
) -> None:
    for name in ("project.json", "forecast.json"):
        sound = json.loads(answers()[name])
        (tmp_path / "first").mkdir(exist_ok=True)
        (tmp_path / "first" / name).write_text(json.dumps(sound))
        if name == "project.json":
            sound["interval"]["tornado"][0]["high_us"] = value
            sound["interval"]["tornado"][0]["low_us"] = 1e9
        else:
            sound["forecasts"][0] |= {"lower": 1e-320, "upper": value}
        (tmp_path / name).write_text(json.dumps(sound))
        found = fc.compare(tmp_path / "first" / name, tmp_path / name)
        assert len(found.to_dict()["answers"]) == len(found.table)


@pytest.mark.parametrize(
    ("column", "value"),
    [("ttft_ms_lower", 0.0), ("tpot_ms", -1.0), ("joules_per_token_upper", 0.0), ("level", 1.0)],
)
def test_ways_to_serve_with_a_figure_that_cannot_be_are_refused(
    tmp_path: Path, column: str, value: float
) -> None:
    ways = fc.forecast("llama-3.1-8b", gpu="MI300X", gpus=1, dtype="bf16", concurrency=4)
    ways.save_table(tmp_path / "sound.csv")
    ways.save(tmp_path / "sound.json")
    table = pd.read_csv(tmp_path / "sound.csv")
    assert column in table
    table.assign(**{column: value}).to_csv(tmp_path / "wrong.csv", index=False)
    with pytest.raises(DataError, match=r"row 1 (of column|has a level)"):
        fc.compare(tmp_path / "sound.csv", tmp_path / "wrong.csv")
    document = json.loads((tmp_path / "sound.json").read_text())
    changed = document if column == "level" else document["best"][0]
    changed[column] = value
    (tmp_path / "wrong.json").write_text(json.dumps(document))
    with pytest.raises(DataError, match="no answer that flopcast saved"):
        fc.compare(tmp_path / "sound.json", tmp_path / "wrong.json")


def test_projections_are_called_after_their_targets(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.json")
    for target in ("MI355X", "H200"):
        fc.project(trace, target=target).save(tmp_path / f"to-{target}")
    found = fc.compare([tmp_path / "to-MI355X", tmp_path / "to-H200"])
    assert found.names == ("MI355X", "H200 SXM")
    assert any(isinstance(part, Figure) for one in found.document().sections for part in one.parts)


def test_a_folder_of_runs_lists_all_of_them_with_their_errors(tmp_path: Path) -> None:
    small = {"m": (None, 64)}
    for model in ("OLS", "Additive"):
        fc.train(where=small, models=model, jobs=1).save(tmp_path / "runs" / model.lower())
    found = fc.compare(tmp_path / "runs")
    assert isinstance(found, fc.RunTable)
    assert sorted(found.table["run"]) == ["additive", "ols"]
    saved = fc.load(tmp_path / "runs" / "ols")
    row = found.table.set_index("run").loc["ols"]
    assert row["grouped_e_out"] == saved.selected["e_out"]
    assert row["rows"] == saved.metrics["data"]["n"]
    assert found.table["grouped_e_out"].is_monotonic_increasing
    shown = call("compare", tmp_path / "runs", "--out", tmp_path / "out")
    assert shown.exit_code == 0
    assert {"additive", "ols"} <= set(shown.output.split())
    assert (tmp_path / "out" / "compare.html").exists()
    text = json.loads((tmp_path / "out" / "compare.json").read_text(encoding="utf-8"))
    assert [run["run"] for run in text["runs"]] == found.table["run"].tolist()


def test_a_folder_without_runs_is_not_a_table_of_them(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="a folder of runs"):
        fc.compare(tmp_path)
