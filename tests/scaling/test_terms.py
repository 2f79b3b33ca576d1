"""Formulas of several parameters, against Extra-P 4.2.5 and formulas known by hand."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import flopcast as fc
from flopcast.errors import DataError, ParameterError
from flopcast.scaling.extrap import Experiment, Value
from flopcast.scaling.terms import EXPONENTS, NEGATIVE, Term, fit_terms, structures
from flopcast.tests.commands import running

TWO_PARAMETERS = """PARAMETER x
PARAMETER y
POINTS ( 20 1 ) ( 20 2 ) ( 20 3 ) ( 20 4 ) ( 20 5 ) ( 30 1 ) ( 30 2 ) ( 30 3 ) ( 30 4 ) ( 30 5 )
POINTS ( 40 1 ) ( 40 2 ) ( 40 3 ) ( 40 4 ) ( 40 5 ) ( 50 1 ) ( 50 2 ) ( 50 3 ) ( 50 4 ) ( 50 5 )
POINTS ( 60 1 ) ( 60 2 ) ( 60 3 ) ( 60 4 ) ( 60 5 )
REGION reg
METRIC metr
DATA 1.007912824061828 1.0003031166379763 1.0146314163801136 0.9888371709656842 0.9814784961141532
DATA 82.31483486850328 80.77055829825096 81.65028667288966 79.84894914331908 80.69133265056031
DATA 127.0982588521472 129.97720256124214 126.37233644578495 129.95328527792617 128.79143884701386
DATA 163.761116922403 160.64424490477055 163.15711078980416 159.9466809220868 161.16513023758068
DATA 186.84836895674908 186.88261474927117 189.29212868834847 187.00694904185926 183.26480034190746
DATA 1.0195866920777528 0.9965626548891021 1.0181840262519737 0.9863362890535387 0.9893290137007527
DATA 179.55463831422327 180.74821882024628 183.8728518616761 182.54443671884627 182.24933579588313
DATA 280.6908234409108 281.788263615464 283.863933677854 283.8298464032916 288.8773066881149
DATA 366.23299595860806 361.4313754663896 364.474908755492 367.28360995699853 359.8692941474022
DATA 424.1140021695517 416.5453483049455 425.49863768871654 419.9658709243348 418.9048409420776
DATA 0.9832332399984872 0.9815834670845136 1.0003806927451324 0.9968558578424265 0.9820664393235233
DATA 317.0754172371989 317.36884825095814 315.9495390075145 320.4995994903179 318.6762830447799
DATA 504.63767808259195 516.0708239589679 507.81689745670286 511.8768307930591 506.2807943653508
DATA 644.8143141699127 637.3099257201826 649.9174626712269 647.3368427699369 633.2245986830611
DATA 744.9220213789664 743.3804480439476 741.3314847916288 749.8014199318746 739.8083987550706
DATA 1.0072335327043695 1.005198595503928 1.0076803056588366 1.003963391133719 0.9931552405725348
DATA 495.8101061967628 501.64162008360864 507.00077184697335 498.83459734803967 507.88731718138513
DATA 793.4292405511786 808.4271169186493 794.4488419240894 792.3783818373039 786.1581110613066
DATA 986.8778797337357 1007.0264271966056 1012.1774356734794 1012.8234104247143 994.8558593224009
DATA 1168.925970055696 1152.305843765793 1163.3320257986136 1181.721114617381 1174.9194990604099
DATA 1.0123953645414927 0.9808925858487914 0.9883957051154446 1.0097027886766448 1.0160649467948064
DATA 732.9718870349534 713.5887652750822 731.5598226968582 727.8160069274114 721.843240633473
DATA 1139.5493742034544 1151.1355124340896 1136.4341443870837 1123.1009473444153 1139.5682409322808
DATA 1461.1663792149404 1456.927809881706 1468.5789635626325 1425.7927730830347 1412.4260646792911
DATA 1644.9469847409239 1687.8899020378108 1659.733621973487 1646.4234125252788 1641.8554614544396
"""
"""``two_parameter_1.txt`` of Extra-P's test data (BSD-3-Clause)."""
P, Q, R = (4, 8, 16, 32, 64), (10, 20, 30, 40, 50), (100, 200, 300, 400, 500)


def written(folder: Path, content: str, name: str = "runs.txt") -> Path:
    path = folder / name
    path.write_text(content)
    return path


def experiment(points: np.ndarray, measured: np.ndarray) -> Experiment:
    names = ("p", "q", "r")[: points.shape[1]]
    values = []
    for point, value in zip(points.tolist(), measured.tolist(), strict=True):
        values.append(Value("solve", "time", tuple(point), (value,)))
    return Experiment(names, values)


def grid(*axes: tuple[int, ...]) -> np.ndarray:
    return np.array(list(product(*axes)), dtype=float)


def wavy(values: np.ndarray) -> np.ndarray:
    """Return values that are up to 3 % off, the same at every call."""
    return values * (1 + 0.03 * np.sin(7.0 * np.arange(len(values))))


def test_the_formula_that_extra_p_publishes_of_its_own_test_data(tmp_path: Path) -> None:
    """Extra-P's tests expect 1.37420831… + 6.69808039… log2(y) + 0.04384165… x^(3/2) log2(x)^2 log2(y)."""
    found = fc.scale_terms(written(tmp_path, TWO_PARAMETERS), at={"x": 100, "y": 10})
    (model,) = found.models
    assert model.fit.terms == {0: Term(Fraction(3, 2), 2), 1: Term(Fraction(0), 1)}
    assert model.fit.structure == ((1,), (0, 1))
    assert model.fit.coefficients == pytest.approx([1.37420831, 6.69808039, 0.04384165], rel=1e-6)
    # extrap 4.2.5: ModelGenerator(experiment).model_all(), hypothesis.SMAPE, .AR2, .function.evaluate
    assert model.smape_percent == pytest.approx(6.644640850120412)
    assert model.adjusted_r2 == pytest.approx(0.9999354313087173)
    assert found.table["predicted"].tolist() == pytest.approx([6452.242710911902])


def test_json_of_two_parameters_gives_the_same(tmp_path: Path) -> None:
    points = [[x, y] for x in (20, 30, 40, 50, 60) for y in (1, 2, 3, 4, 5)]
    lines = [line.split()[1:] for line in TWO_PARAMETERS.splitlines() if line.startswith("DATA")]
    repeated = [[float(word) for word in line] for line in lines]
    measured = []
    rows = []
    for point, values in zip(points, repeated, strict=True):
        measured.append({"point": point, "values": values})
        at = dict(zip("xy", point, strict=True))
        rows.append(json.dumps({"params": at, "value": values, "callpath": "reg", "metric": "m"}))
    whole = {"parameters": ["x", "y"], "measurements": {"reg": {"m": measured}}}
    texts = [TWO_PARAMETERS.replace("metr", "m"), json.dumps(whole), "\n".join(rows)]
    formulas = set()
    for place, content in enumerate(texts):
        path = written(tmp_path, content, f"{place}.txt")
        formulas.add(fc.scale_terms(path).models[0].formula)
    assert formulas == {"1.374 + 6.698·log2(y) + 0.04384·x^(3/2)·log2(x)^2·log2(y)"}


def test_how_extra_p_adds_and_multiplies_two_and_three_terms() -> None:
    assert len(EXPONENTS) == len(set(EXPONENTS)) == len(NEGATIVE) == 42
    assert structures([1]) == [((1,),)]
    assert len(structures(range(2))) == 4
    assert len({frozenset(one) for one in structures(range(3))}) == 23
    assert structures(range(4)) == [((0, 1, 2, 3),), ((0,), (1,), (2,), (3,))]


@pytest.mark.parametrize("structure", structures(range(3)))
def test_exact_measurements_of_three_parameters_are_continued(
    structure: tuple[tuple[int, ...], ...],
) -> None:
    points = grid(P, Q, R)
    beyond = np.array([[128.0, 100.0, 1000.0]])

    def truth(at: np.ndarray) -> np.ndarray:
        terms = [np.sqrt(at[:, 0]) * np.log2(at[:, 0]), at[:, 1] ** 2, at[:, 2]]
        value = np.full(len(at), 5.0)
        for places in structure:
            part = np.ones(len(at))
            for place in places:
                part = part * terms[place] / (10.0, 500.0, 100.0)[place]
            value = value + part
        return value

    (model,), _ = fit_terms(experiment(points, truth(points)))
    assert model.predict(beyond) == pytest.approx(truth(beyond), rel=1e-6)
    lower, upper = model.interval(beyond)
    assert lower[0] == pytest.approx(upper[0], rel=1e-4)


def test_points_that_are_no_grid_and_terms_that_fall() -> None:
    """Extra-P 4.2.5 on the same values; ``allow_negative_exponents`` of its single-parameter modeler for the second."""
    points = grid(P, Q, R)
    least = points.min(axis=0)
    on_lines = (points != least).sum(axis=1) <= 1
    on_lines[-1] = True
    values = 2 + 0.1 * np.log2(points[:, 0]) * points[:, 1] + 0.01 * points[:, 2]
    (crossed,), _ = fit_terms(experiment(points[on_lines], wavy(values[on_lines])))
    pair = grid(P, Q)
    falling = wavy(1 + 20 * pair[:, 1] / pair[:, 0])
    (strong,), _ = fit_terms(experiment(pair, falling), negative_exponents=True)
    at = np.array([[128.0, 100.0, 1000.0]])
    assert crossed.predict(at) == pytest.approx([83.93107767423193])
    assert strong.predict(at[:, :2]) == pytest.approx([15.774364016272175])
    assert crossed.smape_percent == pytest.approx(0.553488013593774)
    assert strong.adjusted_r2 == pytest.approx(0.9996008897846224)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Known formulas of two parameters with 2 % of noise, at twice every measured value."""
    random = np.random.default_rng(7)
    points, beyond = grid(P, Q), np.array([[128.0, 100.0]])
    held = 0
    for _ in range(40):
        first, second = (EXPONENTS[place] for place in random.integers(len(EXPONENTS), size=2))
        share = random.uniform(0.2, 1.0, 2)

        def truth(at: np.ndarray, first: Term, second: Term, share: np.ndarray) -> np.ndarray:
            one = first.values(at[:, 0]) / first.values(points[:, 0]).mean()
            other = second.values(at[:, 1]) / second.values(points[:, 1]).mean()
            return 1 + share[0] * one + share[1] * one * other

        noise = 1 + 0.02 * random.standard_normal(len(points))
        measured = truth(points, first, second, share) * noise
        (model,), _ = fit_terms(experiment(points, measured))
        lower, upper = model.interval(beyond, 0.9)
        expected = truth(beyond, first, second, share)
        held += int(lower[0] <= expected[0] <= upper[0])
        assert lower[0] <= model.predict(beyond)[0] <= upper[0]
    assert held >= 34


def test_of_one_parameter_there_are_terms_too(tmp_path: Path) -> None:
    points = grid((2, 4, 8, 16, 32, 64))
    (model,), _ = fit_terms(experiment(points, 3 + 0.5 * points[:, 0] * np.log2(points[:, 0])))
    assert model.formula == "3 + 0.5·p·log2(p)"
    (constant,), _ = fit_terms(experiment(points, np.full(6, 2.0)))
    assert constant.formula == "2"
    assert constant.predict(np.array([[1e6]])).tolist() == [2.0]


def test_the_scatter_of_repetitions_enters_the_interval() -> None:
    """Means on an exact law: the deviation of five repetitions 1 % apart at most is 0.79 %."""
    sizes, at = (2, 4, 8, 16, 32, 64), np.array([[128.0]])
    widths = []
    for scatter in (0.0, 0.01, 0.02):
        values = []
        for size in sizes:
            time = 3 + 0.5 * size * np.log2(size)
            repeated = tuple(time * (1 + np.linspace(-scatter, scatter, 5)))
            values.append(Value("solve", "time", (float(size),), repeated))
        (model,), _ = fit_terms(Experiment(("p",), values))
        assert model.predict(at) == pytest.approx([451.0])
        lower, upper = model.interval(at)
        widths.append((upper - lower)[0] / 451.0)
    assert widths[0] == pytest.approx(0.0, abs=1e-6)
    assert widths[1] > 2 * 1.645 * 0.0079
    assert widths[1] < 0.06
    assert widths[2] > 1.8 * widths[1]


def test_a_table_that_extra_p_does_not_read_is_named_as_such(tmp_path: Path) -> None:
    path = written(tmp_path, "p,time\n1,101\n2,51\n4,26\n", "one.csv")
    with pytest.raises(DataError, match=r"one\.csv: is in no format of Extra-P"):
        fc.scale_terms(path)


def test_what_a_formula_cannot_be_fitted_to_is_said() -> None:
    points = grid((2, 4, 8), (1, 2, 3))
    values = experiment(points, points[:, 0]).values
    zero = Value("idle", "visits", (2.0, 1.0), (0.0,))
    models, notes = fit_terms(Experiment(("p", "q"), [*values, zero]))
    assert [note.code for note in models[0].notes] == ["few-values-of-parameter"] * 2
    assert [note.values["regions"] for note in notes] == [("idle (visits)",)]
    with pytest.raises(DataError, match="no region was measured"):
        fit_terms(Experiment(("p", "q"), [zero]))
    with pytest.raises(DataError, match=r"parameters must be above 0, got p=0, q=1"):
        fit_terms(Experiment(("p", "q"), [Value("a", "time", (0.0, 1.0), (1.0,))]))


def test_points_are_every_combination_and_what_was_measured_stands_beside(tmp_path: Path) -> None:
    path = written(tmp_path, TWO_PARAMETERS)
    table = fc.scale_terms(path, at=["x=60,120", "y=5"], interval=0.5).table
    assert table[["x", "y"]].to_numpy().tolist() == [[60, 5], [120, 5]]
    assert table["measured"].notna().tolist() == [True, False]
    assert table["error_percent"][0] < 2
    renamed = fc.scale_terms(path, at={"nodes": 60, "y": 5}, rename={"x": "nodes"})
    assert "nodes^(3/2)" in renamed.models[0].formula


@pytest.mark.parametrize(
    ("how", "parameter"),
    [
        ({"at": {"x": 10}}, "at lacks a value of y"),
        ({"at": {"x": 10, "y": 1, "z": 2}}, "at has an unknown 'z'"),
        ({"at": {"x": 0, "y": 1}}, "at must give values above 0 of x"),
        ({"region": "solve"}, "region has an unknown 'solve'"),
        ({"measure": "least"}, "measure must be mean or median"),
    ],
)
def test_parameters_that_do_not_fit(tmp_path: Path, how: dict[str, object], parameter: str) -> None:
    with pytest.raises(ParameterError, match=parameter):
        fc.scale_terms(written(tmp_path, TWO_PARAMETERS), **how)  # type: ignore[arg-type]


def test_the_command_prints_formula_and_interval(tmp_path: Path) -> None:
    path = written(tmp_path, TWO_PARAMETERS)
    out = tmp_path / "out"
    asked = "--at", "x=100", "--at", "y=5,10", "--out", out
    text = running.call("scale", "terms", path, *asked).output
    assert "0.04384·x^(3/2)·log2(x)^2·log2(y)" in text
    assert "6,452" in text
    held = json.loads((out / "scale.json").read_text())
    assert held["formulas"][0]["terms"][0]["factors"] == {
        "y": {"exponent": "0", "log2_exponent": 1}
    }
    assert len(held["rows"]) == 2
