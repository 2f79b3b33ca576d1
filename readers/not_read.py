"""Files of tools that no reader reads: how their content begins, and what to do instead.

A pattern is searched for in the beginning of the (decompressed) content, so that the name of the
file decides nothing.
"""

from __future__ import annotations

import re
from typing import Final

_SERVED = (
    "run vllm bench serve with --save-result, or SGLang's bench_serving with --output-file, and "
    "read that"
)
_OTHERS: Final = (
    (
        rb"\APK\x03\x04",
        "is an archive, or a workbook whose first sheet is no table of measurements: unpack it, or "
        "save the sheet as CSV",
    ),
    (rb"\A(?:\xff\xfe|\xfe\xff)", "is text in UTF-16: save it in UTF-8"),
    (rb"\A[^\0]{1,100}\0[\0-7 ]{100,}.{0,160}ustar", "is a tar archive: unpack it"),
    (
        rb"\ASQLite format 3\0",
        "is an SQLite database without the tables of Nsight Systems, rocpd, RPD or rocprof",
    ),
    (
        rb"\Aversion https://git-lfs",
        "is a pointer of Git LFS in place of the file: fetch it with git lfs pull",
    ),
    (
        rb'"traceEvents"\s*:',
        "is a Chrome trace of neither torch.profiler nor rocprof: profile with one of them, "
        "rocprofv3 or nsys",
    ),
    (
        rb'\A\s*\{(?=.*"elapsed_time")(?=.*"requests_per_second")',
        f"is a result of vllm bench throughput, without the time of any request: {_SERVED}",
    ),
    (
        rb'\A\s*\{.*"(?:architectures|model_type)"\s*:',
        "is the configuration of a model, no measurement: forecast or predict with it",
    ),
    (
        rb"(?m)^[^\n]*Time \(%\)\s+Total Time \((?:ns|us|ms|s)\)\s+(?:Instances|Num Calls|Count)",
        "is text of nsys stats, sums without single launches, and none of kernels: export nsys stats "
        "--report cuda_gpu_trace --format csv",
    ),
    (
        rb"(?m)^0\. Top Stats|Speed-of-Light.*\bPct of Peak\b",
        "is what rocprof-compute analyze prints, without single launches: read the folder of its "
        "profile, which has pmc_perf.csv",
    ),
    (
        rb"(?m)^==PROF== ",
        "is what ncu prints, without its table: ncu --csv --page raw, and read that",
    ),
)
_PATTERNS: Final = tuple((re.compile(pattern, re.DOTALL), text) for pattern, text in _OTHERS)


def not_read(head: bytes) -> str:
    """Return the kind of a file by its beginning, and what to do with it; "" for an unknown kind.

    >>> not_read(b"version https://git-lfs.github.com/spec/v1")
    'is a pointer of Git LFS in place of the file: fetch it with git lfs pull'
    """
    return next((text for pattern, text in _PATTERNS if pattern.search(head)), "")
