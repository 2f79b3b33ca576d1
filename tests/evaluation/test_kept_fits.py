"""Fits that outlive their training: read back as they were, of nothing else, and whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from flopcast.errors import DataError
from flopcast.evaluation.crossval import Course, Evaluation, Outcome, cross_validate
from flopcast.evaluation.observers.progress import Progress
from flopcast.evaluation.observers.resume import KeptFits
from flopcast.models.base import Candidate
from flopcast.tests.evaluation.test_crossval import Spy, make_data, spy

OF = {"data": "a", "seed": "0"}
CANDIDATES = [
    Candidate("OLS", LinearRegression(), "measured time"),
    Candidate("bad", Spy(then=lambda n: 1 / np.zeros(0)[n]), "no fitting"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "run.fits"


def stopped(path: Path, after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluate until so many tasks are written, then press Ctrl-C."""
    add, count = KeptFits.after, iter(range(after))

    def counted(self: KeptFits, outcomes: list[Outcome], course: Course) -> None:
        if next(count, None) is None:
            raise KeyboardInterrupt
        add(self, outcomes, course)

    with monkeypatch.context() as patch:
        patch.setattr(KeptFits, "after", counted)
        with pytest.raises(KeyboardInterrupt):
            cross_validate(make_data(), CANDIDATES, observers=[KeptFits(path, OF)])


def told(found: Evaluation) -> list[object]:
    return [[one.predictions.to_numpy().tobytes(), one.rows] for one in found.schemes.values()]


def test_an_evaluation_goes_on_to_the_very_same_result(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(path, 25, monkeypatch)
    done: list[int] = []
    kept = KeptFits(path, OF, resume=True)
    again = cross_validate(
        make_data(), CANDIDATES, observers=[kept, Progress(lambda count, *_: done.append(count))]
    )
    assert done == list(range(26, 41))
    whole = cross_validate(make_data(), CANDIDATES)
    for each in (again, whole):
        for row in (row for one in each.schemes.values() for row in one.rows):
            assert row.pop("fit_seconds") >= 0
    assert told(again) == told(whole)
    assert whole["kfold"].errors.keys() == {"bad"}
    kept.remove()
    assert not list(path.parent.iterdir())


def test_a_line_cut_short_is_fitted_again_and_a_changed_one_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(path, 20, monkeypatch)
    text = path.read_bytes()
    path.write_bytes(text[:-9])
    KeptFits(path, OF, resume=True)
    assert path.read_bytes().count(b"\n") == 20
    path.write_bytes(text.replace(b'"OLS"', b'"OLs"', 1))
    with pytest.raises(DataError, match=r"run\.fits:\d+: is damaged"):
        KeptFits(path, OF, resume=True)
    path.write_bytes(b"\x80\x04}\n" + text)
    with pytest.raises(DataError, match="does not hold the fits"):
        KeptFits(path, OF, resume=True)


def forged(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Edit the first fit that has predictions, and compute its digest anew."""
    first, *lines = path.read_bytes().splitlines()
    kept = KeptFits(path, OF, resume=True)
    names = "name", "scheme", "fold", "predicted", "e_in", "seconds", "selected", "warned", "error"
    texts = [line.partition(b" ")[2] for line in lines]
    fits = [dict(zip(names, msgspec.json.decode(text), strict=True)) for text in texts]
    place = [fit["predicted"] is not None for fit in fits].index(True)
    change(fits[place])
    text = msgspec.json.encode(list(fits[place].values()))
    lines[place] = kept._digest(text) + b" " + text
    path.write_bytes(b"".join(line + b"\n" for line in (first, *lines)))


@pytest.mark.parametrize("value", [-5.0, 0.0, 1e308, np.inf, np.nan])
def test_forged_predictions_that_lie_far_off_are_fitted_again(
    path: Path, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    def change(fit: dict[str, Any]) -> None:
        given = msgspec.convert(fit["predicted"], bytes)
        fit["predicted"] = np.full(len(given) // 8, value).tobytes()

    stopped(path, 25, monkeypatch)
    forged(path, change)
    again = cross_validate(make_data(), CANDIDATES, observers=[KeptFits(path, OF, resume=True)])
    whole = cross_validate(make_data(), CANDIDATES)
    for scheme, result in whole.schemes.items():
        assert again[scheme].predictions.equals(result.predictions)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seconds", -1.0),
        ("e_in", -1.0),
        ("selected", -1),
        ("fold", -1),
        ("selected", 2**40),
        ("seconds", "1"),
    ],
)
def test_forged_figures_that_no_fit_has_are_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    stopped(path, 25, monkeypatch)
    forged(path, lambda fit: fit.update({name: value}))
    with pytest.raises(DataError, match=r"run\.fits:\d+: is damaged"):
        KeptFits(path, OF, resume=True)


def test_forged_predictions_of_another_length_are_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(fit: dict[str, Any]) -> None:
        fit["predicted"] = msgspec.convert(fit["predicted"], bytes) + b"half"

    stopped(path, 25, monkeypatch)
    forged(path, change)
    kept = KeptFits(path, OF, resume=True)
    with pytest.raises(DataError, match=r"run\.fits: is damaged"):
        cross_validate(make_data(), CANDIDATES, observers=[kept])


def test_fits_of_something_else_are_refused_by_what_differs(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match="nothing to resume"):
        KeptFits(path, OF, resume=True)
    stopped(path, 3, monkeypatch)
    with pytest.raises(
        DataError, match="is of other data and of other seed: give the same command"
    ):
        KeptFits(path, {"data": "b", "seed": "1"}, resume=True)
    watched: list[int] = []
    # anew
    cross_validate(
        make_data(), [spy(lambda X, y, g: watched.append(1))], observers=[KeptFits(path, OF)]
    )
    assert len(watched) == 20
