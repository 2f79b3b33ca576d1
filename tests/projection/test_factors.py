from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopcast.errors import DataError
from flopcast.projection.uncertainty import Factor, parse_sigmas

KNOWN = ("gemm", "attention", "memory_bw_gbs")


def test_given_uncertainties_become_those_of_the_logarithm() -> None:
    found = parse_sigmas("gemm=0.1, memory_bw_gbs = 5e-2,attention=0", KNOWN)
    assert list(found) == ["gemm", "memory_bw_gbs", "attention"]
    assert found["gemm"] == pytest.approx(0.09975, abs=1e-5)
    assert found["memory_bw_gbs"] == pytest.approx(0.05, abs=1e-4)
    assert found["attention"] == 0


@given(relative=st.floats(1e-4, 2))
def test_the_factor_has_the_relative_deviation_given(relative: float) -> None:
    sigma = parse_sigmas(f"gemm={relative!r}", KNOWN)["gemm"]
    assert math.sqrt(math.expm1(sigma**2)) == pytest.approx(relative, rel=1e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "written name=number, such as gemm=0.1, got ''"),
        ("gemm", "written name=number, such as gemm=0.1, got 'gemm'"),
        ("gemm=0.1,", "written name=number, such as gemm=0.1, got ''"),
        ("gem=0.1", "no uncertainty is called 'gem': did you mean gemm?"),
        ("zzz=0.1", "no uncertainty is called 'zzz': there are attention, gemm, memory_bw_gbs"),
        ("gemm=0.1,gemm=0.2", "gemm is given twice: keep one"),
        ("gemm=10%", "gemm must be a fraction such as 0.1, got '10%'"),
        ("gemm=10", r"gemm must be from 0 to 2 \(0.1 is 10 %\), got 10"),
        ("gemm=-0.1", "gemm must be from 0 to 2"),
        ("gemm=nan", "gemm must be from 0 to 2"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, message: str) -> None:
    with pytest.raises(DataError, match=rf"^--uncertainty: .*{message}"):
        parse_sigmas(text, KNOWN)


@pytest.mark.parametrize("sigma", [-0.1, math.nan, math.inf])
def test_a_sigma_is_a_finite_number_from_0_on(sigma: float) -> None:
    with pytest.raises(ValueError, match="sigma of factor gemm must be at least 0 and finite"):
        Factor("gemm", "law", sigma)
