"""Learning curves: the command on measurements with a known law, its files, and what it refuses."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.api import learning
from flopcast.api.learning import Curve
from flopcast.tests.commands import running
from flopcast.tests.report.pages import printed

call = partial(running.call, "curve")


@pytest.fixture(scope="module")
def pairs() -> pd.DataFrame:
    """Return products of eight weight shapes: 5 µs and 0.6 of the host's time on the target, within some 2 %."""
    shapes = pd.DataFrame(
        [(16 * 2**m, 512 * n) for n in range(1, 9) for m in range(8)], columns=["m", "n"]
    )
    host = shapes.assign(k=2048, op="gemm", dtype_a="bf16", device="MI300X")
    scatter = np.random.default_rng(0).lognormal(0, 0.3, len(host))
    host["duration_us"] = (10 + host[["m", "n", "k"]].prod(axis=1) / 2e7) * scatter
    small = np.random.default_rng(1).lognormal(0, 0.02, len(host))
    target = host.assign(device="MI355X", duration_us=(5 + 0.6 * host["duration_us"]) * small)
    return pd.concat([host, target], ignore_index=True)


def test_a_host_that_tells_all_is_worth_more_than_rows_and_the_command_writes_it(
    pairs: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, compete = list[int](), learning.compete
    monkeypatch.setattr(
        learning, "compete", lambda data, **asked: seen.append(len(data)) or compete(data, **asked)
    )
    pairs.to_csv(tmp_path / "pairs.csv", index=False)
    words = [
        "--host",
        "MI300X",
        "--target",
        "MI355X",
        "--models",
        "Additive",
        "--rows",
        "5000,40,20",
        "--draws",
        2,
    ]
    code, out, _ = call(tmp_path / "pairs.csv", *words, "--json", "--out", tmp_path / "curve")
    found = json.loads(out)
    assert (code, seen) == (0, 2 * [20, 20, 40, 40])
    assert found["left_out"] == [5000]
    assert found == json.loads((tmp_path / "curve" / "curve.json").read_text())
    assert "plotly" in (tmp_path / "curve" / "curve.html").read_text()
    table = pd.DataFrame(found["curve"]).set_index(["rows", "way"])
    assert table.index.tolist() == [
        (k, way) for k in (20, 40) for way in ("target alone", "from the host")
    ]
    known, alone = (table.xs(way, level="way") for way in ("from the host", "target alone"))
    assert known["e_out"].max() < 4  # 2 % of scatter, and a line from 20 rows
    # the host's 30 % of scatter is in the target's times too
    assert (alone["e_out"] > 2.5 * known["e_out"]).all()
    assert known["coverage"].between(0.7, 1).all()


def test_as_many_draws_as_folds_hold_out_every_group_once(pairs: pd.DataFrame) -> None:
    some = pairs[
        (pairs["device"] == "MI355X")
        & (pairs["n"] <= 2048)
        & ((pairs["n"] > 512) | (pairs["m"] < 200))
    ]
    found = fc.curve(some, target="MI355X", models="Additive", rows=[10], draws=4).draws
    assert sorted(found["held_out"]) == sorted(some.groupby("n").size()) == [4, 8, 8, 8]


def test_draws_are_averaged_with_their_least_and_greatest_error() -> None:
    figures = dict.fromkeys(("median_ape", "affine", "coverage", "width", "answered"), 1.0)
    draws = [{"rows": 20, "way": "target alone", "draw": draw, "model": "OLS", "e_out": error, **figures}
             for draw, error in enumerate((3.0, 9.0, 6.0))]  # fmt: skip
    (row,) = Curve(pd.DataFrame(draws), {}).table.to_dict("records")
    assert (row["least"], row["e_out"], row["greatest"], row["model"]) == (3.0, 6.0, 9.0, "OLS")


def made_up(*errors: tuple[int, float, float]) -> Curve:
    """Return a curve: rows, and the errors of the target alone and from the host."""
    same = dict.fromkeys(("affine", "coverage", "width", "answered"), 0.5)
    draws = [
        {
            "rows": count,
            "way": way,
            "draw": 0,
            "model": "OLS",
            "e_out": error,
            "median_ape": error,
            **same,
        }
        for count, *both in errors
        for way, error in zip(("target alone", "from the host"), both, strict=True)
    ]
    about = {"host": "MI300X", "target": "MI355X", "metric": "duration_us", "scheme": "grouped", "interval": 0.9,
             "draws": 1, "pool": 99, "held_out": 9, "left_out": []}  # fmt: skip
    return Curve(pd.DataFrame(draws), about)


@pytest.mark.parametrize(
    ("errors", "says"),
    [
        ([(10, 5.2, 5.4)], "rows of the target — target alone: 5.2 % with 10 rows"),
        (
            [(10, 9.0, 6.0), (30, 7.0, 5.0)],
            "rows of the target — from the host: 5.0 % with 30 rows, and still falling",
        ),
        ([(10, 9.0, np.nan), (30, 7.0, np.nan)], "from the host: no answer for the rows held out"),
    ],
)
def test_the_answer_is_that_of_the_way_that_errs_least(
    errors: list[tuple[int, float, float]], says: str
) -> None:
    shown = printed(made_up(*errors).document()).splitlines()
    assert says in [line.strip() for line in shown]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (["--rows", "3"], "--rows"),
        (["--rows", "9000"], "--rows"),
        (["--scheme", "none"], "--scheme"),
        ([], "--target"),
    ],
)
def test_what_is_wrong_is_one_line(
    pairs: pd.DataFrame, tmp_path: Path, wrong: list[str], named: str
) -> None:
    pairs.to_csv(tmp_path / "pairs.csv", index=False)
    words = [] if named == "--target" else ["--target", "MI355X", "--models", "Additive", *wrong]
    code, _, error = call(tmp_path / "pairs.csv", *words)
    assert code == 2
    assert named in error
    assert error.count("\n") == 1


def test_too_few_rows_are_refused_before_what_takes_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "curve", None)
    code, _, error = call("--target", "MI355X", "--rows", "5,20")
    assert (code, error) == (2, "error: --rows must be 10 or more each, got 5, 20\n")


@pytest.mark.parametrize(
    ("widths", "scheme"), [(1, "kfold"), (2, "kfold"), (3, "grouped"), (8, "grouped")]
)
def test_rows_are_held_out_where_there_are_too_few_groups(widths: int, scheme: str) -> None:
    rng = np.random.default_rng(0)
    shapes = pd.DataFrame({"op": "gemm", "dtype_a": "bf16", "m": rng.integers(64, 4096, 40)})
    shapes["n"] = 1024 * (1 + np.arange(40) % widths)
    shapes["k"] = 4096
    work = shapes["m"] * shapes["n"] * 1e-5
    host = shapes.assign(device="MI300X", duration_us=10 + work)
    target = shapes.assign(device="MI355X", duration_us=8 + work / 2)
    asked = {"host": "MI300X", "target": "MI355X", "rows": 10, "draws": 1, "models": "Additive"}
    found = fc.curve(pd.concat([host, target]), **asked)
    assert found.about["scheme"] == scheme
    promised = found.draws["width"].notna()
    assert found.draws.loc[~promised, "coverage"].isna().all()
    assert promised.any() == (widths != 3)
