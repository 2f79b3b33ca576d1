from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flopcast.errors import DataError
from flopcast.hardware.spec import FIGURES, PEAKS, peak_path, read_table, write_table

REFUSED = [
    (
        {"memory_bw_gbs": 0},
        "memory_bw_gbs must be above 0 .*memory bandwidth, GB/s.* got 0: leave the key out",
    ),
    ({"memory_bw_gbs": -3.5}, "memory_bw_gbs must be above 0 .* got -3.5"),
    ({"tdp_w": float("nan")}, "tdp_w must be above 0 .* got nan"),
    ({"tdp_w": float("inf")}, "tdp_w must be above 0 .* got inf"),
    ({"tdp_w": "750 W"}, "tdp_w must be a number .* got '750 W'"),
    ({"tdp_w": True}, "tdp_w must be a number .* got True"),
    ({"cus": 30.5}, "cus must be a whole number .* got 30.5"),
    ({"vendor": 3}, "vendor must be a text in quotes, got 3"),
    ({"name": " "}, "name must not be empty"),
    ({"aliases": "one"}, "aliases must be a list of texts, got 'one'"),
    ({"sources": [1]}, r"sources must be a list of texts, got \[1\]"),
    ({"memory_bw_gb": 1}, "unknown key memory_bw_gb: did you mean memory_bw_gbs"),
    ({"zzz": 1}, "unknown key zzz: the keys are those of hardware/gpus.toml"),
    ({"peak_tflops": 1307}, "peak_tflops must be a table such as `peak_tflops.fp64_matrix = ...`"),
    ({"peak_tflops": {"fp8": 1}}, "unknown key peak_tflops.fp8: did you mean peak_tflops.fp8_"),
    (
        {"peak_tflops": {"int8_matrix": 1}},
        "peak_tflops.int8_matrix counts in TOPS: write peak_tops.int8_matrix",
    ),
    (
        {"peak_tops": {"fp8_matrix": 1}},
        "peak_tops.fp8_matrix counts in TFLOPS: write peak_tflops.fp8_matrix",
    ),
    (
        {"peak_tflops": {"fp8_matrix": 0}},
        "peak_tflops.fp8_matrix must be above 0 .*fp8 matrix peak, TFLOPS.* got 0",
    ),
    (
        {"peak_tflops": {"fp8_matrix": "2 PF"}},
        "peak_tflops.fp8_matrix must be a number .* got '2 PF'",
    ),
]


@pytest.mark.parametrize(
    ("table", "message"), REFUSED, ids=[message.split(" ")[0] for _, message in REFUSED]
)
def test_what_is_wrong_is_said_in_one_line_with_file_and_key(table, message):
    with pytest.raises(DataError, match=f"^my.toml: {message}") as caught:
        read_table(table, "my.toml")
    assert "\n" not in str(caught.value)
    assert caught.value.source == "my.toml"


def test_counts_stay_whole_and_figures_become_reals():
    fields = read_table({"cus": 304.0, "l2_mb": 4, "peak_tops": {"int8_matrix": 7}}, "x")
    assert fields == {"cus": 304, "l2_mb": 4.0, "peaks": {"int8_matrix": 7.0}}
    assert [type(fields[key]) for key in ("cus", "l2_mb")] == [int, float]
    assert type(fields["peaks"]["int8_matrix"]) is float


def test_both_tables_of_peaks_meet():
    fields = read_table({"peak_tflops": {"fp8_matrix": 2}, "peak_tops": {"int8_matrix": 3}}, "x")
    assert fields["peaks"] == {"fp8_matrix": 2.0, "int8_matrix": 3.0}


def test_where_each_peak_is_written():
    assert peak_path("fp8_matrix") == "peak_tflops.fp8_matrix"
    assert peak_path("int8_vector") == "peak_tops.int8_vector"


POSITIVE = st.floats(min_value=1e-6, max_value=1e9)


@given(
    st.dictionaries(
        st.sampled_from([key for key, figure in FIGURES.items() if figure.kind == "real"]), POSITIVE
    ),
    st.dictionaries(st.sampled_from(sorted(PEAKS)), POSITIVE, min_size=1),
)
def test_reading_undoes_writing(figures, peaks):
    fields = {**figures, "peaks": peaks, "name": "x", "sources": ("a", "b")}
    assert read_table(write_table(fields), "x") == fields


def test_writing_leaves_out_what_is_not_published():
    assert write_table({"name": "x", "tdp_w": None, "vendor": "", "aliases": (), "peaks": {}}) == {
        "name": "x"
    }
