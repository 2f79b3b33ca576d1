from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flopcast.errors import DataError
from flopcast.remarks import remark
from flopcast.scaling.curves import Curve
from flopcast.scaling.scale_models import Equations, Program

FLAT = [6.0] * 5
SMALL = Curve("b", "strong", "SM", [8, 16], [10.0, 18.0], FLAT, [8, 16, 32, 64, 128])
CLIFF = replace(SMALL, mpki=[6, 6, 6, 1, 1], f_mem=0.5)
AT = np.array([32.0, 64.0, 128.0])


def test_equations_apply_the_correction_once() -> None:
    fitted = Equations().fit(SMALL)
    assert fitted.correction_ == pytest.approx(0.9)
    assert fitted.predict(AT) == pytest.approx(18 * np.array([2, 4, 8]) * 0.9)


def test_equations_before_at_and_beyond_a_cliff() -> None:
    # pre-cliff 18·2·0.9; at K = 64: 18·4/(1 - 0.5); beyond: P_K·2·0.9
    assert Equations().fit(CLIFF).predict(AT) == pytest.approx([32.4, 144, 259.2])


def test_program_multiplies_doubling_i_by_c_to_the_i() -> None:
    fitted, c = Program().fit(SMALL), 2 - 1 / 0.9
    assert fitted.factor_ == pytest.approx(c)
    assert fitted.predict(AT) == pytest.approx([18 * 2 * c, 18 * 4 * c**3, 18 * 8 * c**6])


def test_program_multiplies_the_cliff_on_top() -> None:
    c = 2 - 1 / 0.9
    assert Program().fit(CLIFF).predict(AT) == pytest.approx(
        [18 * 2 * c, 18 * 4 * c**3 * 2, 18 * 8 * c**6 * 2]
    )


def test_program_takes_the_correction_per_doubling() -> None:
    apart = replace(SMALL, sizes=[4, 16], performance=[10.0, 10 * 4 * 0.81])
    assert Program().fit(apart).factor_ == pytest.approx(2 - 1 / 0.9)


def test_program_without_growth_says_that_it_has_no_prediction() -> None:
    with pytest.raises(DataError, match=r"0\.5"):
        Program().fit(replace(SMALL, performance=[10.0, 10.0]))


@pytest.mark.parametrize("law", [Equations, Program])
def test_weak_scaling_ignores_the_misses(law: type) -> None:
    weak = replace(CLIFF, scenario="weak")
    assert law().fit(weak).predict(AT) == pytest.approx(law().fit(SMALL).predict(AT))


@pytest.mark.parametrize("law", [Equations, Program])
def test_measured_sizes_are_predicted_as_measured(law: type) -> None:
    fitted = law().fit(SMALL)
    assert fitted.predict([8, 16]) == pytest.approx([10, 18])
    lower, upper = fitted.interval([8, 16])
    assert lower == pytest.approx([10, 18])
    assert upper == pytest.approx([10, 18])


@pytest.mark.parametrize("law", [Equations, Program])
def test_an_unknown_f_mem_widens_the_interval_to_its_bounds(law: type) -> None:
    known, unknown = law().fit(CLIFF), law().fit(replace(CLIFF, f_mem=None))
    before, after = unknown.interval([32, 64])
    factor = 1 / (1 - (1 - 1 / 6) / 2)
    flat = unknown.predict([64])[0] / factor
    radius = np.log(known.interval([64])[1][0] / known.predict([64])[0])
    assert before[1] == pytest.approx(flat * np.exp(-radius))
    assert after[1] == pytest.approx(6 * flat * np.exp(radius))
    assert "f-mem-not-measured" in {note.code for note in unknown.notes}


def test_without_misses_cliffs_are_said_to_be_unseen() -> None:
    fitted = Equations().fit(replace(SMALL, mpki=None, mpki_sizes=None))
    assert fitted.notes[0] == remark("no-miss-rates")
