from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.projection.kernel_laws import corrections_of, learn_corrections
from flopcast.table.measurements import clean
from flopcast.tests.projection.oracles.activities import HOST, TARGET
from flopcast.traces.cleaning.robust import MAD_TO_SIGMA


def measured(ratios: list[float], op: str = "gemm") -> pd.DataFrame:
    """Return compute-bound products measured on both devices, `ratios` of the target's time to the law's 2 t."""
    sizes = {
        "m": 4096,
        "n": 4096,
        "k": np.arange(len(ratios)) + 4096,
        "rows": 10**4,
        "cols": np.arange(len(ratios)) + 1,
    }
    table = pd.DataFrame({"op": op, "dtype_a": "bf16", "source": "f:1", **sizes})
    both = [
        table.assign(device=gpu.name, duration_us=100.0 * factor)
        for gpu, factor in ((HOST, np.ones(len(ratios))), (TARGET, 2 * np.array(ratios)))
    ]
    return clean(pd.concat(both, ignore_index=True)).frame


def test_the_median_ratio_corrects_and_the_rest_is_spread() -> None:
    ratios = [1.1] * 4 + [1.1 * np.e] * 3 + [1.1 / np.e] * 3 + [99.0]
    found = learn_corrections(measured(ratios), HOST, TARGET, "flops")["gemm"]
    assert (found.factor, found.n) == (pytest.approx(1.1), 11)
    assert found.sigma == pytest.approx(MAD_TO_SIGMA)
    assert found.error == pytest.approx(np.hypot(np.log(1.1), MAD_TO_SIGMA))


def test_the_spread_of_few_pairs_counts_the_farthest() -> None:
    """The median deviation of three is that of the second: here next to none."""
    ratios = np.array([0.43, 0.434, 0.78])
    found = corrections_of(ratios, np.ones(3), np.array(["attention"] * 3, dtype=object))["attention"]
    assert found.sigma == pytest.approx(np.std(np.log(ratios), ddof=1))
    assert abs(np.log(0.78 / found.factor)) < 2 * found.sigma


def test_classes_are_corrected_apart() -> None:
    rows = pd.concat([measured([1.0, 1.5, 2.0]), measured([3.0, 3.0, 3.0], op="relu")], ignore_index=True)
    found = learn_corrections(rows, HOST, TARGET, "roofline")
    assert {name: round(correction.factor, 6) for name, correction in found.items()} == {
        "elementwise": 1.5,
        "gemm": 1.5,
    }


def test_two_pairs_have_no_spread() -> None:
    found = corrections_of(np.array([2.0, 4.0]), np.array([1.0, 1.0]), np.array(["gemm", "gemm"], dtype=object))
    assert (found["gemm"].n, np.isnan(found["gemm"].sigma)) == (2, True)


def test_without_pairs_or_a_known_law_nothing_is_learnt() -> None:
    with pytest.raises(DataError, match="Halfchip"):
        learn_corrections(measured([1.0]).query("device == 'Roundchip'"), HOST, TARGET, "flops")
    with pytest.raises(DataError, match="'flop'"):
        learn_corrections(measured([1.0]), HOST, TARGET, "flop")
