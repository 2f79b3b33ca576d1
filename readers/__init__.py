"""From files of any supported format to one measurement table, or to traces.

Paths enter `read` (or `read_traces`); `Measurements` leave: usable rows, rows kept out with their
reason, remarks, and what each trace holds. Start with `base`: what a reader is, and the registry
that detects which one a file belongs to. Then `reading` (which files are one trace, many files to
one table) and `parts` (more than fits into memory).

A new format is a separate file here: subclass `base.Reader` (tables: one row for each timing) or
`base.TraceReader` (profilers: one row for each activity), decorate it with `register`, and import
the module below, which registers it. Detection is by content; every command and every message knows
the format from then on. What formats share stands in `files` (text, CSV, compression), `sqlite`,
`labels` (units, devices) and `blas`.
"""

from . import (  # noqa: F401  (each registers its readers)
    aiconfigurator,
    aiter,  # noqa: A004
    ck_profiler,
    cutlass_profiler,
    deepbench,
    guidellm,
    hipblaslt,
    inductor_autotune,
    inference_perf,
    jax_trace,
    kernel_sums,
    key_averages,
    kineto,
    llmperf,
    miopen,
    miopen_driver,
    mlperf_summary,
    ncu,
    nsys,
    one_batch,
    onnx_runtime,
    rccl_structured,
    rccl_tests,
    rocpd,
    rocprof,
    rocprofiler_compute,
    rocprofv3_csv,
    rocprofv3_json,
    rpd,
    serving_benchmarks,
    serving_csv,
    serving_log,
    tidy,
    triton_configs,
    trtllm_bench,
    tunableop,
    tune_gemm,
)
from .base import Note, Options, RawTable, Reader, TraceReader, formats, readers, register
from .parts import RowBatches, TogetherError, is_dataset, read_dataset, row_batches
from .reading import Measurements, TraceFailure, read, read_rows, read_traces, traces_of

__all__ = [
    "Measurements",
    "Note",
    "Options",
    "RawTable",
    "Reader",
    "RowBatches",
    "TogetherError",
    "TraceFailure",
    "TraceReader",
    "formats",
    "is_dataset",
    "read",
    "read_dataset",
    "read_rows",
    "read_traces",
    "readers",
    "register",
    "row_batches",
    "traces_of",
]
