"""Kernel and operator classes, on names written here and on real traces."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flopcast.traces.classes import classify, op_classes, unclassified
from flopcast.traces.dispatches import dispatch_table
from flopcast.traces.summary import Annotated

SIGNS = "aZ0_ <>():;*&,\"'\\\n\t\x00éµ中🙂"
"""Letters of any words: to draw of all there are, Hypothesis first sorts Unicode for seconds."""


def activity(name: str = "k", op: str = "", **columns: object) -> pd.DataFrame:
    """Return a table of one kernel; `op` is the operator stack."""
    given = {"kind": "kernel", "op_name": op.rpartition(";")[2], "op_stack": op, **columns}
    return dispatch_table({"name": [name], "start_ns": [0], "duration_ns": [10], **given})


def activity_table(names: list[str], ops: list[str], collectives: list[str]) -> pd.DataFrame:
    """Return a table of a kernel for each name, operator stack and collective."""
    last = [op.rpartition(";")[2] for op in ops]
    given = {"kind": "kernel", "op_name": last, "op_stack": ops, "collective": collectives}
    return dispatch_table(
        {"name": names, "start_ns": range(len(names)), "duration_ns": [10] * len(names), **given}
    )


def class_of(name: str = "k", op: str = "", **columns: object) -> str:
    return str(classify(activity(name, op, **columns))["op_class"].item())


def kernel_class_of(name: str = "k", op: str = "", **columns: object) -> str:
    return str(classify(activity(name, op, **columns))["kernel_class"].item())


class TestOperatorFirst:
    """The operator decides, the innermost that has a class."""

    @pytest.mark.parametrize(
        ("name", "op", "op_class"),
        [
            ("void at::native::reduce_kernel<128>", "aten::linear;aten::mm", "gemm"),
            (
                "Cijk_Ailk_Bljk_HHS",
                "aten::conv2d;aten::_convolution;aten::miopen_convolution",
                "conv",
            ),
            ("batched_transpose_16x32_half", "aten::layer_norm;aten::native_layer_norm", "norm"),
            ("my_kernel", "aten::linear;my_library::product", "gemm"),
            ("my_kernel", "aten::linear;aten::copy_", "copy"),
            ("gather", "aten::embedding;aten::index_select", "embedding"),
            ("gather", "aten::repeat_interleave;aten::index_select", "index"),
            ("k", "Optimizer.step#SGD.step;aten::mul_", "optimizer"),
            ("k", "Optimizer.zero_grad#SGD.zero_grad;aten::mul_", "elementwise"),
        ],
    )
    def test_stack(self, name: str, op: str, op_class: str):
        assert class_of(name, op) == op_class

    def test_name_without_stack(self):
        assert class_of("k", op_name="aten::mm", op_stack="") == "gemm"

    @pytest.mark.parametrize(
        "region", ["Torch-Compiled Region: 0/0", "CompiledFxGraph f3", "CompiledFunctionBackward"]
    )
    def test_compiled_region_leaves_it_to_the_kernel(self, region: str):
        assert class_of("triton_poi_fused_add_0", f"vllm::moe_forward;{region}") == "elementwise"
        assert class_of("sage_fwd", region) == "attention"
        assert class_of("triton_poi_fused_add_0", f"{region};aten::mm") == "gemm"


class TestCopies:
    """Copies and fills decide their kernel class themselves."""

    @pytest.mark.parametrize("kind", ["memcpy", "memset"])
    def test_alone(self, kind: str):
        assert (kernel_class_of("x", kind=kind), class_of("x", kind=kind)) == ("copy", kind)

    @pytest.mark.parametrize(
        "op", ["aten::copy_", "aten::cat", "aten::fill_", "aten::add", "aten::to;aten::resize_"]
    )
    def test_under_an_operator_that_only_moves(self, op: str):
        assert class_of("DtoD", op, kind="memcpy") == "memcpy"

    @pytest.mark.parametrize(("op", "op_class"), [("aten::mm", "gemm"), ("aten::sum", "reduction")])
    def test_helper_counts_with_its_operator(self, op: str, op_class: str):
        assert class_of("Memset (Device)", op, kind="memset") == op_class
        assert kernel_class_of("Memset (Device)", op, kind="memset") == "copy"

    def test_kernels_of_the_runtime_are_copies_too(self):
        name = "__amd_rocclr_fillBufferAligned"
        assert (kernel_class_of(name), class_of(name)) == ("copy", "memset")
        assert (kernel_class_of(name, "aten::mm"), class_of(name, "aten::mm")) == ("copy", "gemm")
        assert class_of("__amd_rocclr_copyBuffer", "aten::copy_") == "memcpy"

    def test_name_of_a_copy_is_not_read_as_a_kernel(self):
        assert class_of("ncclDevKernel_Generic", kind="memcpy") == "memcpy"


class TestKernelClass:
    """The four classes."""

    def test_communication_by_name_by_arguments_and_by_operator(self):
        assert kernel_class_of("ncclDevKernel_Generic(x)", "aten::add") == "communication"
        assert kernel_class_of("my_exchange", collective="allreduce") == "communication"
        assert (
            kernel_class_of("my_exchange", "c10d::allreduce_;record_param_comms") == "communication"
        )

    def test_others(self):
        assert kernel_class_of("Cijk_Ailk_Bljk_SB") == "compute"
        assert kernel_class_of("k", "aten::mm") == "compute"
        assert kernel_class_of("saxpy") == "other"
        assert kernel_class_of("__amd_rocclr_streamOpsWait") == "other"


class TestTables:
    """Whole tables in, whole tables out."""

    @pytest.fixture
    def table(self) -> pd.DataFrame:
        ops = ["", "op", "", "op", ""]
        made = dispatch_table(
            {
                "kind": ["kernel"] * 4 + ["memset"],
                "name": ["Cijk_A", "mine", "yours", "mine", "Memset"],
                "op_name": ops,
                "op_stack": ops,
                "start_ns": range(5),
                "duration_ns": [50_000, 10_000, 30_000, 5_000, 7_000],
            }
        )
        return made.set_index(pd.Index([7, 3, 5, 1, 9]))

    def test_index_and_order_are_kept(self, table: pd.DataFrame):
        found = classify(table)
        assert found.index.equals(table.index)
        assert found["op_class"].tolist() == ["gemm", "", "", "", "memset"]
        assert found["kernel_class"].tolist() == ["compute", "other", "other", "other", "copy"]

    def test_categories_are_read_as_words_are(self, table: pd.DataFrame):
        words = ["kind", "name", "op_name", "op_stack", "collective"]
        pd.testing.assert_frame_equal(
            classify(table.astype(dict.fromkeys(words, "category"))), classify(table)
        )

    def test_empty(self):
        found = classify(activity().iloc[:0])
        assert found.empty
        assert found.columns.tolist() == ["kernel_class", "op_class"]

    def test_unclassified_longest_first(self, table: pd.DataFrame):
        listed = unclassified(table, classify(table))
        assert listed.columns.tolist() == ["name", "op_name", "count", "duration_us", "share"]
        assert listed["name"].tolist() == ["yours", "mine"]
        assert listed["op_name"].tolist() == ["", "op"]
        assert listed["count"].tolist() == [1, 2]
        assert listed["duration_us"].tolist() == [30.0, 15.0]
        assert listed["share"].tolist() == pytest.approx([30 / 95, 15 / 95])

    def test_nothing_unclassified(self, table: pd.DataFrame):
        assert unclassified(table.iloc[:1], classify(table.iloc[:1])).empty

    def test_no_time_has_no_share(self, table: pd.DataFrame):
        still = table.assign(duration_ns=-1)
        listed = unclassified(still, classify(still))
        assert listed["duration_us"].tolist() == [0.0, 0.0]
        assert listed["share"].isna().all()

    @settings(deadline=None, max_examples=5)
    @given(
        words=st.lists(
            st.tuples(st.text(SIGNS), st.text(SIGNS), st.sampled_from(["", "broadcast"])),
            min_size=8,
        )
    )
    def test_any_words_have_a_class(self, words: list[tuple[str, str, str]]):
        names, ops, collectives = map(list, zip(*words, strict=True))
        found = classify(activity_table(names, ops, collectives))
        assert set(found["kernel_class"]) <= {"compute", "communication", "copy", "other"}
        assert set(found["op_class"]) <= {"", *op_classes()}


KINETO = "profiles/kineto"
EQUAL = {
    "GEMM": "gemm", "CONV_fwd": "conv", "CONV_bwd": "conv", "NORM_fwd": "norm", "NORM_bwd": "norm",
    "reduce": "reduction", "multi_tensor_apply": "optimizer",
}  # fmt: skip
"""TraceLens' categories that mean the same as a class of ours."""
PART_OF = {
    "elementwise": {"elementwise", "copy", "fill", "loss", "resample"},
    "other": {"attention", "copy", "embedding", "fill", "softmax", "pooling", "index"},
}
"""Its categories by the kernel's shape, or by default, with what we know of them."""


Read = Callable[[str], Annotated]


def of_names(names: list[str]) -> pd.DataFrame:
    count = len(names)
    return dispatch_table(
        {"kind": "kernel", "name": names, "start_ns": range(count), "duration_ns": [1] * count}
    )


def stem(path: Path) -> str:
    return re.sub(r"(_perf_report_csvs|_recompute|\.json\.gz|^mi300_)", "", path.name)


def name_of(trace: Path) -> str:
    return f"{trace.parent.name}/{trace.name.removesuffix('.json.gz')}"


class TestRealTraces:
    """PyTorch traces, and TraceLens' reference tables of them (TraceLens, tests/traces, commit 171dd74721ca)."""

    def test_98_percent_of_kernel_time_has_a_class(self, shared_data: Path, kineto: Read):
        paths = sorted((shared_data / KINETO).glob("*/*.json.gz"))
        assert len(paths) >= 20
        for path in paths:
            table = kineto(name_of(path)).dispatches
            share = unclassified(table, table)["share"].sum()
            assert share <= 0.02, path.name

    def test_kernels_are_in_the_categories_of_tracelens(self, shared_data: Path, kineto: Read):
        folders = sorted(
            (shared_data / KINETO / "tracelens_reference_csvs").glob("*/*/kernel_summary.csv")
        )
        assert len(folders) == 8
        for csv_path in folders:
            report = pd.read_csv(csv_path).dropna(subset="Parent cpu_op")
            table = kineto(self.trace_of(shared_data, csv_path.parent)).dispatches
            found = table["op_class"].groupby(
                [table["op_name"].astype("str"), table["name"].astype("str")]
            )
            ours = found.agg(lambda classes: "|".join(sorted(set(classes))))
            for category, op, kernel in zip(
                report["Parent op category"],
                report["Parent cpu_op"],
                report["Kernel name"],
                strict=True,
            ):
                op_class = ours[op, kernel]
                assert op_class == EQUAL.get(category) or op_class in PART_OF.get(category, ()), (
                    category,
                    op,
                    kernel,
                )

    def test_time_per_category_is_that_of_tracelens(self, shared_data: Path, kineto: Read):
        folders = sorted(
            (shared_data / KINETO / "tracelens_reference_csvs").glob(
                "*/*/ops_summary_by_category.csv"
            )
        )
        assert len(folders) == 9
        for csv_path in folders:
            report = pd.read_csv(csv_path)
            theirs = report.groupby(report["op category"].map(EQUAL))[
                "total_direct_kernel_time_ms"
            ].sum()
            table = kineto(self.trace_of(shared_data, csv_path.parent)).dispatches
            # It counts what has a launch: on CUDA with the fills (aten::addmm), on ROCm without them.
            fills = csv_path.parent.parent.name == "h100"
            launched = table[table["linked"] & ((table["kind"] == "kernel") | fills)]
            ours = launched.groupby("op_class")["duration_ns"].sum() / 1e6
            exact = pytest.approx(theirs.to_numpy(), rel=2e-6, abs=1e-5)
            assert ours[theirs.index].to_numpy() == exact, csv_path.parent.name

    @staticmethod
    def trace_of(shared_data: Path, report: Path) -> str:
        """Return the name of the trace that a report of TraceLens is about: the same model on the same device."""
        device = report.parent.name
        named = [
            path
            for path in (shared_data / KINETO).glob("*/*.json.gz")
            if stem(path) == stem(report)
        ]
        (found,) = [path for path in named if device in path.parent.name or device in path.name]
        return name_of(found)

    def test_kernel_name_alone_agrees_with_the_operator(self, shared_data: Path, kineto: Read):
        """Where both speak they differ for look-ups only, which are gathers by their kernels."""
        for folder, model in (("pairs_mi300", "Qwen"), ("pairs_h100", "facebook")):
            (path,) = (shared_data / KINETO / folder).glob(f"{model}*.json.gz")
            table = kineto(name_of(path)).dispatches
            kernels = table[(table["kind"] == "kernel") & (table["op_name"] != "")]
            by_operator = kernels["op_class"]
            by_name = classify(kernels.assign(op_name="", op_stack=""))["op_class"]
            differing = set(
                zip(
                    by_operator[by_operator != by_name],
                    by_name[by_operator != by_name],
                    strict=True,
                )
            )
            assert differing <= {("embedding", "index")}

    def test_llama_cpp_by_name_alone(self, shared_data: Path):
        path = shared_data / "profiles/rocprofv3/csv_real_rdna35/prefill_kernel_trace.csv"
        with path.open(encoding="utf-8") as file:
            names = [row["Kernel_Name"] for row in csv.DictReader(file)]
        found = classify(of_names(names))["op_class"]
        assert (found != "").all()
        assert {
            "gemm",
            "quantise",
            "norm",
            "attention",
            "ssm",
            "rope",
            "memcpy",
            "copy",
            "index",
        } <= set(found)

    def test_stencils_stay_their_owner_s(self, shared_data: Path):
        path = shared_data / "profiles/rocprof_v1v2/seismic-stencils/13-12-2023_results.csv"
        names = pd.read_csv(path)["KernelName"].tolist()
        found = classify(of_names(names))
        assert set(found["op_class"]) <= {"", "memset", "memcpy"}
        assert (found["kernel_class"] == "other").mean() > 0.95
