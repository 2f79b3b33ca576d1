"""What BLAS tuners share: rows for columns, matrices with gaps, devices by gfx id."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from flopcast.readers.base import Options
from flopcast.readers.blas import device_of_gfx, padding, row_major
from flopcast.remarks import remark


def test_rows_for_columns_keeps_the_product() -> None:
    """C[2, 3] = A[2, 5] B[5, 3] by columns is C'[3, 2] = B'[3, 5] A'[5, 2] by rows."""
    blas = pd.DataFrame(
        {"M": [2], "N": [3], "K": [5], "type_a": ["w"], "type_b": ["x"], "type_c": ["y"]}
    )
    assert row_major(blas).iloc[0].to_dict() == {
        "m": 3, "n": 2, "k": 5, "dtype_a": "x", "dtype_b": "w", "dtype_out": "y",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("trans", "leading", "expected"),
    [
        ("nn", ("2", "5", "2"), ""),
        ("tn", ("5", "5", "2"), ""),
        ("nt", ("2", "3", "2"), ""),
        ("tt", ("5", "3", "2"), ""),
        ("tn", ("8", "5", "2"), "ld 8 5 2"),
        ("tn", ("5", "8", "2"), "ld 5 8 2"),
        ("tn", ("5", "5", "6"), "ld 5 5 6"),
        ("tn", (None, None, None), ""),
        ("tn", ("", "", ""), ""),
    ],
)
def test_padding_names_matrices_with_gaps(
    trans: str, leading: tuple[str | None, ...], expected: str
) -> None:
    lda, ldb, ldc = leading
    row = {
        "M": "2",
        "N": "3",
        "K": "5",
        "trans_a": trans[0],
        "trans_b": trans[1],
        "lda": lda,
        "ldb": ldb,
        "ldc": ldc,
    }
    assert padding(pd.DataFrame([row], dtype=object)).tolist() == [expected]


def test_one_gfx_id_may_be_several_devices() -> None:
    name, assumption = device_of_gfx("gfx942:sramecc+:xnack-", Options())
    assert name == "gfx942"
    assert assumption == remark("device-ambiguous", gfx="gfx942")
    assert device_of_gfx("gfx908", Options()) == ("MI100", None)


def test_the_user_says_which_of_them() -> None:
    assert device_of_gfx("gfx942", Options(defaults={"device": "mi325x"}))[0] == ""
    assert device_of_gfx("gfx942", Options(defaults={"device": "our prototype"}))[0] == ""


def test_a_stated_device_of_another_gfx_id_is_not_taken() -> None:
    assert device_of_gfx("gfx942", Options(defaults={"device": "MI100"}))[0] == "gfx942"
    assert device_of_gfx("gfx908", Options(defaults={"device": "our prototype"}))[0] == "MI100"


def test_a_file_that_the_user_states_says_its_gfx_id(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('based_on = "MI100"\n')
    assert device_of_gfx("gfx908", Options(defaults={"device": str(own)}))[0] == ""
    assert device_of_gfx("gfx942", Options(defaults={"device": str(own)}))[0] == "gfx942"
