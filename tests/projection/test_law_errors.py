from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flopcast.hardware import all_gpus, find
from flopcast.projection.kernel_laws import ERRORS, LawError, sigmas
from flopcast.projection.scalings import LAWS
from flopcast.traces.classes import op_classes

MI210, MI300X, MI355X, H100 = (find(name) for name in ("MI210", "MI300X", "MI355X", "H100 SXM5"))


def error(law: str, op_class: str, host: str) -> LawError:
    return next(e for e in ERRORS if (e.law, e.op_class, e.host) == (law, op_class, host))


def sigma(law: str, op_class: str, *devices: object) -> float:
    return float(sigmas(np.array([op_class], dtype=object), np.array([law], dtype=object), *devices)[0])


def test_what_was_measured_between_the_architectures_counts_there_and_back() -> None:
    own = error("affine", "gemm", "CDNA3").sigma
    assert sigma("affine", "gemm", MI300X, MI355X) == own == pytest.approx(np.hypot(0.25, 0.11))
    assert sigma("affine", "gemm", MI355X, MI300X) == own


def test_elsewhere_all_that_was_measured_counts() -> None:
    both = [error("affine", "gemm", host).sigma for host in ("CDNA1", "CDNA3")]
    assert sigma("affine", "gemm", MI300X, H100) == pytest.approx(np.sqrt(np.mean(np.square(both))))
    assert sigma("affine", "gemm", replace(H100, arch=""), H100) == sigma("affine", "gemm", MI300X, H100)


def test_what_nobody_measured_is_not_known_and_equal_devices_agree() -> None:
    found = sigmas(
        np.array(["attention", "gemm", "gemm"], dtype=object), np.array(["affine", "kept", "affine"], dtype=object),
        MI210, MI300X,
    )  # fmt: skip
    assert np.isnan(found).tolist() == [True, True, False]
    assert sigma("affine", "attention", MI210, MI210) == 0.0
    assert len(sigmas(np.zeros(0, dtype=object), np.zeros(0, dtype=object), MI210, MI300X)) == 0


def test_every_error_is_of_a_law_a_class_and_architectures_there_are() -> None:
    architectures = {gpu.arch for gpu in all_gpus()}
    assert {e.law for e in ERRORS} <= set(LAWS)
    assert {e.op_class for e in ERRORS} <= set(op_classes())
    assert {name for e in ERRORS for name in (e.host, e.target)} <= architectures
    assert len({(e.law, e.op_class, e.host, e.target) for e in ERRORS}) == len(ERRORS)
