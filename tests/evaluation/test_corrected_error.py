"""What a run that was corrected errs by since: stated wherever an error of a run is."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.evaluation.corrected_error import corrected_by_others
from flopcast.evaluation.metrics import ape
from flopcast.evaluation.stated_error import Part, StatedErrors
from flopcast.report.document import Headline
from flopcast.report.run_folder import as_corrected, read_metrics
from flopcast.tests.report.pages import printed

WIDTHS, NEW = (1, 2, 3, 4, 5, 6, 7, 8), (2.5, 3.5, 5.5)
FACTOR = 1.26
TRAINED_NOISE, NOISE = 0.02, 0.022


def products(
    seed: int, noise: float, factor: float = 1.0, widths: tuple[float, ...] = WIDTHS
) -> pd.DataFrame:
    """Return products on two devices; the same shapes for every seed."""
    rng = np.random.default_rng(seed)
    cells = [(16 * 2**m, 512 * n, 2048) for n in widths for m in range(8)]
    shapes = pd.DataFrame(cells, columns=["m", "n", "k"]).assign(op="gemm", dtype_a="bf16")
    host = 10 + shapes[["m", "n", "k"]].prod(axis=1) / 2e7
    target = factor * (5 + 0.6 * host) * np.exp(rng.normal(0, noise, len(shapes)))
    sides = (("MI300X", host), ("MI355X", target))
    return pd.concat(
        [shapes.assign(device=name, duration_us=us) for name, us in sides], ignore_index=True
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run, ``spring``, and the same corrected on known groups, ``autumn``."""
    folder = tmp_path_factory.mktemp("runs")
    data = products(0, TRAINED_NOISE)
    fc.train(data, host="MI300X", target="MI355X", models=["Additive"], jobs=1).save(
        folder / "spring"
    )
    fc.check(folder / "spring", products(1, NOISE, FACTOR)).correct(folder / "autumn")
    return folder


def since(run: fc.Run, rows: pd.DataFrame) -> float:
    """Return the error of a run on rows."""
    answers = run.predict(rows)
    measured = rows[rows["device"] == "MI355X"]["duration_us"].to_numpy()
    return float(ape(measured, answers["predicted_us"]).mean())


def test_a_row_has_no_part_in_the_factor_that_corrects_it() -> None:
    rows = pd.DataFrame(
        {"observed": [2.0, 2.0, 3.0, 5.0], "predicted": 1.0, "group": ["a", "a", "b", "c"]}
    )
    assert corrected_by_others(rows) == pytest.approx([np.sqrt(15), np.sqrt(15), 2.0, 2.0])


def test_a_corrected_run_states_the_error_that_it_delivers(runs: Path) -> None:
    before, after = fc.load(runs / "spring"), fc.load(runs / "autumn")
    later = products(2, NOISE, FACTOR)
    known = next(cv["selected"] for cv in after.metrics["cv"] if cv["scheme"] == "kfold")
    low, high = known["interval"]
    assert low < since(after, later) < high
    assert (known["rows"], known["groups"]) == (64, 8)
    stated = after.predict(later)
    summary = fc.predict(after, later).summary["stated_error"]
    assert summary["error"] == pytest.approx(known["e_out"])
    assert len(stated) == summary["rows"] == 64
    was = next(cv["selected"] for cv in before.metrics["cv"] if cv["scheme"] == "kfold")
    assert known["as_trained"]["e_out"] == pytest.approx(was["e_out"], rel=1e-6)
    again = after.check(later)
    assert again.found.stated is not None
    assert again.found.stated.error == pytest.approx(known["e_out"])
    assert again.verdict == "still valid"


def test_what_was_not_measured_since_is_not_stated(runs: Path) -> None:
    after = fc.load(runs / "autumn")
    assert after.selected["e_out"] is None  # that of new groups, of which the check had none
    assert after.selected["as_trained"]["e_out"] > 0
    assert "not measured since" in repr(after)
    held = after.metrics["intervals"]["schemes"]
    assert held["kfold"]["coverage"] is not None
    assert held["grouped"]["coverage"] is None
    new = fc.predict(after, products(3, NOISE, FACTOR, NEW).query("device == 'MI300X'"))
    assert new.summary["stated_error"] is None
    advice = fc.advise(after, products(3, NOISE, FACTOR, NEW).query("device == 'MI300X'"), rows=3)
    assert advice.summary["errors"]["before_correction"] == ["grouped"]
    assert "before the run was corrected" in printed(advice.document())


def test_what_is_needed_is_held_against_what_was_measured_since(runs: Path) -> None:
    after = fc.load(runs / "autumn")
    known = next(cv["selected"] for cv in after.metrics["cv"] if cv["scheme"] == "kfold")
    need = fc.needed(after, 0.001)
    assert need.now == pytest.approx(known["e_out"] / 100)
    assert "known groups (new groups were not measured since" in need.told.text


def test_the_error_of_new_groups_is_that_of_the_new_groups_of_the_check(
    runs: Path, tmp_path: Path
) -> None:
    rows = pd.concat(
        [products(4, NOISE, FACTOR), products(5, NOISE, FACTOR, NEW)], ignore_index=True
    )
    fc.check(runs / "spring", rows).correct(tmp_path / "both")
    after = fc.load(tmp_path / "both")
    assert after.selected["groups"] == len(NEW)
    delivered = since(after, products(6, NOISE, FACTOR, NEW))
    low, high = after.selected["interval"]
    assert low < delivered < high


def test_every_place_that_states_an_error_states_the_one_since(runs: Path) -> None:
    after = read_metrics(runs / "autumn")
    known = next(cv["selected"] for cv in after["cv"] if cv["scheme"] == "kfold")
    said = f"{known['e_out']:.1f} %"
    shown = fc.show(runs / "autumn").document()
    assert said in shown.data["answer"]["kfold"]
    assert "measured on 64 further rows of 8 groups" in shown.data["answer"]["kfold"]
    assert said in repr(shown.short)
    page = (runs / "autumn" / "report.html").read_text("utf-8")
    assert page.count("before the correction") > 3
    table = fc.compare(runs).table.set_index("run")
    assert table.loc["autumn", "kfold_e_out"] == pytest.approx(known["e_out"])
    assert table.loc["autumn", "corrected_by"] == pytest.approx(FACTOR, rel=0.03)
    assert np.isnan(table.loc["autumn", "grouped_e_out"])
    why = fc.explain(runs / "autumn", products(2, NOISE, FACTOR))
    assert "corrected by 1.2" in why.document().data["statement"]


@pytest.mark.parametrize("order", [("spring", "autumn"), ("autumn", "spring")])
def test_the_headline_of_a_comparison_is_what_the_runs_deliver(
    runs: Path, order: tuple[str, str]
) -> None:
    stated = {cv["scheme"]: cv["selected"] for cv in read_metrics(runs / "autumn")["cv"]}
    compared = fc.compare(*(runs / name for name in order)).document()
    heads = {part.about: part for part in compared.opening if isinstance(part, Headline)}
    for about, said in (
        ("known groups", f"{stated['kfold']['e_out']:.1f} %, since"),
        ("new groups", "not measured since"),
    ):
        sides = [heads[about].rival, heads[about].answer]
        assert f"autumn: {said}" in sides[order.index("autumn")]
        assert "since" not in sides[order.index("spring")]
    since = [scheme["since_correction"] for scheme in compared.data["schemes"]]
    assert {one[order.index("autumn")]["e_out"] for one in since} == {
        None,
        stated["kfold"]["e_out"],
    }
    assert {one[order.index("spring")] for one in since} == {None}


def test_several_runs_are_compared_by_what_each_delivers(runs: Path) -> None:
    several = fc.compare(runs / "autumn", runs / "spring", runs / "autumn")
    headline = several.document().opening[0]
    assert isinstance(headline, Headline)
    assert "not measured since" in headline.answer
    values = several.to_dict()["answers"]
    since = [one for one in values if one["name"] == "autumn (3)"]
    assert [one["value"] is None for one in since] == [True, False]
    assert {one["apart"] for one in values} == {None}


def test_a_check_says_what_its_figures_are_of(runs: Path) -> None:
    checked = fc.check(runs / "spring", products(1, NOISE, FACTOR))
    told = printed(checked.document())
    assert "once corrected, " in told
    assert checked.found.corrected is not None
    assert checked.found.corrected.e_out < 5 < 15 < checked.found.score.e_out
    assert re.search(r"once corrected, the run errs [\d.]+ times as much as", told)
    again = printed(fc.check(runs / "autumn", products(2, NOISE, FACTOR)).document())
    assert "before it was corrected by 1.2" in again


def test_runs_that_were_corrected_before_state_nothing_since(runs: Path) -> None:
    metrics = read_metrics(runs / "spring")
    old = as_corrected(metrics | {"correction": {"factor": 1.2}}, {})
    for cv in old["cv"]:
        assert cv["selected"]["e_out"] is None
        assert cv["selected"]["as_trained"]["e_out"] > 0


def test_what_all_parts_err_by_more_is_not_averaged_away() -> None:
    parts = {name: Part(50, 50.0, 4.0, 0.0) for name in ("up to 10", "more than 200")}
    measured = Part(64, 8.0, 5.0, 0.2)
    since = {name: part.times(1.25, measured) for name, part in parts.items()}
    asked = {("known group", name): 10 for name in parts}
    mixture = StatedErrors({"known group": since}).mixed(asked)
    assert mixture is not None
    assert (mixture.error, mixture.sigma) == (5.0, pytest.approx(0.2))
    assert mixture.freedom == pytest.approx(7.0)


def test_trained_workloads_timed_again_tell_the_factor_and_no_error(tmp_path: Path) -> None:
    run = fc.train(
        products(0, 0.1), host="MI300X", target="MI355X", models=["ExtraTrees/Residual"], jobs=1
    )
    run.save(tmp_path / "run")
    checked = fc.check(tmp_path / "run", products(0, 0.1, FACTOR), host=fc.gpu("MI300X"))
    assert checked.correction is not None
    assert checked.correction.factor == pytest.approx(FACTOR, rel=0.03)
    assert checked.found.corrected is not None
    since = checked.found.since["known group"]
    assert checked.found.stated is not None
    assert since.part.e_out == pytest.approx(checked.found.stated.error)
    assert checked.found.corrected.e_out < 0.7 * since.part.e_out
    assert since.coverage is None


@pytest.mark.parametrize(
    ("name", "scheme", "widths"), [("autumn", "kfold", WIDTHS), ("spring", "grouped", NEW)]
)
def test_one_error_has_one_interval(
    runs: Path, name: str, scheme: str, widths: tuple[float, ...]
) -> None:
    run = fc.load(runs / name)
    cv = next(cv for cv in run.metrics["cv"] if cv["scheme"] == scheme)
    expected = fc.predict(run, products(1, NOISE, widths=widths)).to_dict()["stated_error"]
    assert cv["selected"]["e_out"] == pytest.approx(expected["error"])
    assert cv["selected"]["interval"] == pytest.approx([expected["lower"], expected["upper"]])
