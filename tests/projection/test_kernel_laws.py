from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.datasets import H100_H200
from flopcast.errors import DataError
from flopcast.features.recipe import FeatureRecipe
from flopcast.hardware import all_gpus, find
from flopcast.laws import OF_COMPUTATION
from flopcast.laws.applied import by_law
from flopcast.laws.base import Overhead, Pair
from flopcast.projection.kernel_laws import (
    COLUMNS,
    ERRORS,
    NO_WORK,
    Correction,
    LawError,
    compute_factors,
    of_pairs,
    sigmas,
)  # fmt: skip
from flopcast.remarks import remark
from flopcast.table.problems import pair as pair_rows
from flopcast.tests.projection.oracles.activities import (
    HOST,
    TARGET,
    activities,
    copy,
    gemm,
    kernel,
    relu,
)
from flopcast.traces.classes import op_classes
from flopcast.traces.summary import Annotated

UNSEEN = remark("unseen-level", category="op", level="relu", known=("gemm",))
LARGE = (4096, 4096, 4096)
PAIRS = ("Falconsai_nsfw_image_detection__1016002", "Qwen_Qwen1.5-0.5B-Chat__1016005",
         "facebook_timesformer-base-finetuned-k400__1016002", "gaunernst_bert-small-uncased__1016001")  # fmt: skip


class Twice:
    """A run that predicts twice the measured time of every product of matrices, within a factor e either way."""

    recipe = FeatureRecipe(
        columns=(),
        roles={},
        units={},
        levels={},
        constant={},
        redundant={},
        skipped={},
        host=HOST,
        target=TARGET,
    )

    def predict(self, rows: pd.DataFrame, level: float) -> pd.DataFrame:
        product = rows["op"].eq("gemm")
        predicted = 2 * rows["duration_us"]
        return pd.DataFrame(
            {
                "predicted": predicted,
                "lower": predicted / np.e,
                "upper": predicted * np.e,
                "extrapolated": ~product,
                "reasons": [() if known else (UNSEEN,) for known in product],
            }
        )


def test_factors_are_aligned_with_the_activities() -> None:
    table = activities(gemm(*LARGE), relu(1000, 1000), kernel()).set_index(pd.Index([7, 3, 5]))
    found = compute_factors(table, HOST, TARGET, "flops")
    assert tuple(found.columns) == COLUMNS
    assert found.index.tolist() == [7, 3, 5]
    assert found["factor"].tolist() == [2.0, 4.0, 4.0]
    assert found.loc[7, ["law", "why", "bound"]].tolist() == ["flops", (), "compute"]
    assert len(compute_factors(table.iloc[:0], HOST, TARGET)) == 0


def test_the_error_of_the_law_used_is_told() -> None:
    found = compute_factors(
        activities(gemm(*LARGE), relu(9, 9), kernel()), find("MI300X"), find("MI355X"), "flops"
    )
    assert found["sigma"].round(3).tolist()[:1] == [round(float(np.hypot(0.32, 0.15)), 3)]
    assert found["law"].tolist() == ["flops", "bandwidth", "bandwidth"]
    both = np.hypot(0.10, 0.07), np.hypot(0.56, 0.43)
    assert found["sigma"][1] == pytest.approx(np.sqrt(np.mean(np.square(both))))
    assert np.isnan(found["sigma"][2])


def test_corrections_multiply_the_classes_that_have_one() -> None:
    table = activities(gemm(*LARGE), relu(9, 9), copy("DtoD"))
    half = {"gemm": Correction(0.5, 0.1, 9), "memcpy": Correction(3.0, np.nan, 1)}
    found = compute_factors(table, HOST, TARGET, "flops", corrections=half)
    assert found["factor"].tolist() == [1.0, 4.0, 12.0]
    assert found["law"].tolist() == ["flops+correction", "bandwidth", "bandwidth+correction"]
    assert found["sigma"][0] == 0.1
    kept = compute_factors(table, HOST, TARGET, "kept", corrections=half)
    assert (kept["factor"].tolist(), set(kept["law"])) == ([1.0] * 3, {"kept"})


def test_a_run_goes_before_the_law_where_it_applies() -> None:
    table = activities(gemm(*LARGE, us=50), relu(9, 9), kernel())
    found = compute_factors(
        table, HOST, TARGET, "affine", run=Twice(), corrections={"gemm": Correction(9.0, 0.1, 3)}
    )
    law = compute_factors(table, HOST, TARGET, "affine")
    assert found["law"].tolist() == ["model", "affine", "affine"]
    assert found["factor"].tolist() == [2.0, *law["factor"][1:]]
    assert [[reason.code for reason in why] for why in found["why"]] == [
        [],
        ["unlike-training"],
        ["model-then-law"],
    ]
    assert found["why"][2][0].values["law"] == (NO_WORK,)
    assert found["sigma"][0] == pytest.approx(1 / 1.645, rel=1e-3)
    assert found["bound"].tolist() == law["bound"].tolist()


def test_stated_fixed_times_are_used() -> None:
    none = {"AMD": Overhead(0, 0, inside=True), "NVIDIA": Overhead(0, 0, inside=False)}
    assert compute_factors(activities(gemm(*LARGE)), HOST, TARGET, overhead=none)[
        "factor"
    ].tolist() == [2.0]


def test_an_unknown_law_is_refused() -> None:
    with pytest.raises(DataError, match=r"compute_law.*'fast'"):
        compute_factors(activities(gemm(8, 8, 8)), HOST, TARGET, "fast")


@pytest.mark.parametrize("name", PAIRS)
def test_the_default_law_is_within_15_percent_on_every_pair_of_models(
    kineto: Callable[[str], Annotated], name: str
) -> None:
    folders = {"MI300X": "pairs_mi300", "H100 SXM5": "pairs_h100"}
    traces = {device: kineto(f"{folder}/{name}").dispatches for device, folder in folders.items()}
    tables = {
        device: rows[rows["linked"] & rows["kind"].eq("kernel")] for device, rows in traces.items()
    }
    for host, target in (("MI300X", "H100 SXM5"), ("H100 SXM5", "MI300X")):
        found = compute_factors(tables[host], find(host), find(target))
        projected = float((found["factor"] * tables[host]["duration_ns"]).sum())
        assert abs(projected / float(tables[target]["duration_ns"].sum()) - 1) < 0.15
        assert found["factor"].between(1e-3, 1e3).all()


def test_from_an_h100_to_an_h200_the_default_law_is_nearer_than_the_peaks() -> None:
    """The peaks are equal: only bandwidth and what each kernel reaches of it tell the two apart."""
    paired = pair_rows(fc.read(H100_H200).frame, "H100 SXM5", "H200 SXM").paired
    rows, measured = of_pairs(paired), paired["duration_us"].to_numpy()
    devices = Pair.of(find("H100"), find("H200"))
    error = {}
    for law in ("flops", "roofline", "affine"):
        told = by_law(rows, devices, law)["factor"].to_numpy()
        error[law] = float(np.mean(np.abs(rows.host_us * told / measured - 1)))
    assert len(paired) == 238
    assert error["affine"] < 0.08 < error["roofline"] < error["flops"]


MI210, MI300X, MI355X, H100 = (find(name) for name in ("MI210", "MI300X", "MI355X", "H100 SXM5"))


def error(law: str, op_class: str, host: str) -> LawError:
    return next(e for e in ERRORS if (e.law, e.op_class, e.host) == (law, op_class, host))


def sigma(law: str, op_class: str, *devices: object) -> float:
    return float(
        sigmas(np.array([op_class], dtype=object), np.array([law], dtype=object), *devices)[0]
    )


def test_what_was_measured_between_the_architectures_counts_there_and_back() -> None:
    own = error("affine", "gemm", "CDNA3").sigma
    assert sigma("affine", "gemm", MI300X, MI355X) == own == pytest.approx(np.hypot(0.13, 0.09))
    assert sigma("affine", "gemm", MI355X, MI300X) == own


def test_elsewhere_all_that_was_measured_counts() -> None:
    every = [e.sigma for e in ERRORS if (e.law, e.op_class) == ("affine", "gemm")]
    told = sigma("affine", "gemm", MI210, H100)
    assert told == pytest.approx(np.sqrt(np.mean(np.square(every))))
    assert sigma("affine", "gemm", replace(H100, arch=""), H100) == told


def test_classes_of_traces_that_two_gpus_ran_tell_their_own_error() -> None:
    """Of single kernels of two GPUs of one maker element-wise ones err by 5 %, across makers by 30 %."""
    across = sigma("affine", "elementwise", MI300X, H100)
    assert across > 4 * sigma("affine", "elementwise", find("MI100"), MI210)
    assert sigma("affine", "attention", MI300X, H100) > sigma("affine", "gemm", MI300X, H100)
    assert sigma("affine", "attention", H100, find("H200")) < 0.1


def test_what_nobody_measured_is_not_known_and_equal_devices_agree() -> None:
    found = sigmas(
        np.array(["fill", "gemm", "gemm"], dtype=object), np.array(["affine", "kept", "affine"], dtype=object),
        MI210, MI300X,
    )  # fmt: skip
    assert np.isnan(found).tolist() == [True, True, False]
    assert sigma("affine", "attention", MI210, MI210) == 0.0
    assert len(sigmas(np.zeros(0, dtype=object), np.zeros(0, dtype=object), MI210, MI300X)) == 0


def test_every_error_is_of_a_law_a_class_and_architectures_there_are() -> None:
    architectures = {gpu.arch for gpu in all_gpus()}
    assert {e.law for e in ERRORS} <= set(OF_COMPUTATION)
    assert {e.op_class for e in ERRORS} <= set(op_classes())
    assert {name for e in ERRORS for name in (e.host, e.target)} <= architectures
    assert len({(e.law, e.op_class, e.host, e.target) for e in ERRORS}) == len(ERRORS)
