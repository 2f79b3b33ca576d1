"""What was assumed, skipped or merged while files were read (notes of readers and traces), in words.

A note may carry three values that all of them have in common: `file`, the file it is about, comes first; `rows` and
`files`, what it concerns, come last in brackets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ...errors import few
from ...hardware.spec import FIGURES, PEAKS
from ...remarks import Remark
from ..formats import counted
from . import traces
from .traces import NAMED

REASONS: Final = {
    "no-device": "no device",
    "unknown-operator": "unknown operator",
    "no-number-format": "no number format",
    "unknown-number-format": "unknown number format",
    "long-text": "text of over 131072 letters",
    # times
    "no-duration": "duration is not a number",
    "infinite-duration": "duration is infinite",
    "zero-duration": "duration is zero",
    "negative-duration": "duration is negative",
    "impossible-duration": "duration of over an hour or under 10 ns",
    "above-peak": "over 150 % of a peak of its device",
    "other-unit": "time in another unit than stated",
    "impossible-spread": "spread is negative or infinite",
    # dimensions
    "missing-dimension": "dimension is missing",
    "dimension-not-a-number": "dimension is not a number",
    "infinite-dimension": "dimension is infinite",
    "dimension-not-positive": "dimension is not positive",
    "unknown-scale-block": "unknown block of scales",
    "huge-dimension": "dimension is beyond what a GPU can address",
    "dimension-not-whole": "dimension is not whole",
    # lines of single formats
    "line-unlike-header": "the line has more or fewer fields than its header",
    "not-a-gemm": "not a GEMM of TunableOp",
    "unknown-parameters": "parameters are not of a known form",
    "transpositions-disagree": "operator and parameters disagree in their transpositions",
    "not-tuned": "no tuned solution: the line has no time",
    "default-kept": "no tuned solution: the library's default was kept",
    "group-sizes-not-given": "grouped GEMM: the line does not give the sizes of its groups",
    "not-a-convolution": "not a convolution's key",
    "not-a-solver": "not solver:ms,workspace,algorithm",
    "output-size-mismatch": "output size does not follow from the input",
    "wrong-result": "the collective's result was wrong",
    "launch-not-recorded": "launch not recorded",
}
"""Why a row was kept out, by its code."""


def reason_of(code: str) -> str:
    """Return a reason in words; one that is a user's own (of `flopcast measure`) stays as it is."""
    return REASONS.get(code) or traces.REASONS.get(code, code)


_ASK_FOR_DEVICE: Final = {
    "ncu": "the file does not name the device: state it",
    "rocprof": "the device is not recorded: name it",
    "rocprofiler-compute": "no sysinfo.csv beside it: name the device",
    "rocprofv3": "the files do not say on which device this ran: give it",
    "rpd": "the database does not name its GPU: give it",
}
_NO_ACTIVITIES: Final = {
    "nsys": "the export has no GPU activity (no rows in the tables of kernels, copies and fills, which Nsight leaves "
    "out when they are empty): profile with --trace=cuda",
    "rocprofv3": "no kernel dispatches and no memory copies were recorded",
    "rocpd": "the database has no kernel dispatches and no memory copies",
    "rpd": "the database has no operations of a GPU (rocpd_op is empty)",
}
_NO_API_CALLS: Final = {
    "nsys": "the export has no CUDA API calls: no activity is linked to a launch",
    "rocprofv3": "no HIP or HSA API calls were recorded (--hip-trace records them): no activity is linked to its "
    "launch",
    "rocpd": "the database has no API calls (record them with --hip-trace): no kernel is linked to a launch",
}
_NO_TIMINGS: Final = {
    "hipblaslt-bench": "no timings: headers without a line of values",
    "rccl-tests": "no timings: the log ends before its table",
}


def _device_by_gfx(gfx: str, cus: int | None, device: str, same: Sequence[str]) -> str:
    count = "" if cus is None else f" ({cus} CUs)"
    return f"{gfx}{count} is read as {device}; {' and '.join(same)} would look the same"


def _device_ambiguous(gfx: str = "", capability: str = "") -> str:
    if capability:
        return f"several devices have compute capability {capability}: state yours with --set device=NAME"
    return f"{gfx} without a number of compute units may be several devices: state yours with --set device=NAME"


def _device_by_figures(word: str, units: int, memory_gib: float, device: str, same: Sequence[str]) -> str:
    others = "".join(f"; {name} would look the same" for name in same)
    return f"device {word!r}, {units} compute units, {memory_gib:.0f} GiB is read as {device}{others}"


def _gfx_by_units(cus: int, gfx: str) -> str:
    also = " (gfx1250 has 256 too)" if cus == 256 else ""
    return f"no gfx id: {cus} CUs are read as {gfx}{also}"


def _card_split(partition: str, device: str = "") -> str:
    named = f": its device is called {device} ({partition})" if device else ""
    return f"the card is split ({partition}){named}"


def _gpu_model_contradicted(model: str, arch: str, units: int | None, device: str) -> str:
    known = arch or "unknown architecture"
    return f"gpu_model says {model}, which is no {known} with {units} compute units: read as {device}"


def _gpu_model_series(model: str, arch: str, units: int | None, device: str, same: Sequence[str]) -> str:
    series = f"gpu_model {model} is a series: " if model else ""
    read = (
        _device_by_gfx(arch, units, device, same) if same else f"{arch} with {units} compute units is read as {device}"
    )
    return series + read


def _no_kernel_trace(grids: str = "") -> str:
    total = "; of grids only the total is recorded (grid_x, block_x)" if grids else ""
    return f"no kernel trace: times were taken while counters were collected, one kernel at a time{total}"


def _no_dispatches(among: Sequence[str] = ()) -> str:
    return f"{few(among, NAMED)}: {_NO_DISPATCHES}" if among else _NO_DISPATCHES


_NO_DISPATCHES: Final = "no dispatches, give the whole workload folder"


def _trace_finding(trace: str, finding: Remark, count: int) -> str:
    words = traces.WORDS[finding.code]
    text = words(**finding.values) if callable(words) else words.format(**finding.values)
    return f"{trace}: {finding.code}: {text} ({count})" if trace else f"{finding.code}: {text} ({count})"


def peak_name(key: str) -> str:
    """Return what a peak is called (`operators.peaks`)."""
    figure = PEAKS.get(key) or FIGURES.get(key)
    return figure.label if figure else "load rate of the compute units"


def _above_peak(device: str, peak: str, worst: Sequence[tuple[str, float]], refused: int) -> str:
    first, *others = [
        f"{100 * share:.0f} % of it ({source})" if share < 10 else f"{share:,.0f} times it ({source})"
        for source, share in worst
    ]
    kept_out = f"; {refused} over 150 %: kept out (unless --keep impossible)" if refused else ""
    return f"faster than the {peak_name(peak)} of {device} allows: {', '.join([first, *others])}{kept_out}"


def _other_unit(factor: float, column: str, unit: str, device: str = "") -> str:
    whose, off = f"times of {device}" if device else "times", f"{max(factor, 1 / factor):,.0f} times too"
    wrong = f"{whose} look {off} {'short' if factor > 1 else 'long'} for {'it' if device else 'their devices'}"
    if not unit:
        return wrong
    if device:
        return f"{wrong}, as if they were in {unit}"
    return (
        f"{wrong}: with --unit {column}={unit} they are plausible" if column else f"{wrong}, as if they were in {unit}"
    )


def _files_excluded(where: str, rows: int = 0, files: Sequence[str] = ()) -> str:
    return f"{len(files)} file{' holds' if len(files) == 1 else 's hold'} nothing of {where}"


def _files_skipped(files: Sequence[str]) -> str:
    noun = "file" if len(files) == 1 else "files"
    return f"{len(files)} {noun} of no supported format skipped: {few(files, NAMED)}"


def _unknown_device(device: str, nearest: Sequence[str] = ()) -> str:
    close = f" (the closest: {few(nearest)})" if nearest else ""
    return f"device {device!r} is not in the catalogue: kept under that name{close}"


def _note(words: str | Callable[..., str]) -> Callable[..., str]:
    """Return the words of a note with the file before them, and behind them the rows and files concerned."""

    def said(*, file: str = "", rows: int | None = None, files: Sequence[str] = (), **values: object) -> str:
        text = words(**values) if callable(words) else words.format(**values)
        concerned = "" if rows is None else counted(rows, "row")
        where = f" in {few(files, NAMED)}" if files else ""
        return (f"{file}: " if file else "") + text + (f" ({concerned}{where})" if concerned else "")

    return said


_NOTES: Final[dict[str, str | Callable[..., str]]] = {
    # devices
    "unknown-device": _unknown_device,
    "device-not-recorded": lambda by: f"{_ASK_FOR_DEVICE[by]} with --set device=NAME",
    "device-ambiguous": _device_ambiguous,
    "device-as-stated": "{gfx} is taken for {device}, as stated",
    "device-by-gfx": _device_by_gfx,
    "device-by-figures": _device_by_figures,
    "gfx-by-units": _gfx_by_units,
    "other-compute-units": "{device} has {units} compute units here, not {known}: part of a GPU?",
    "several-devices": lambda devices: (
        f"the log lists different devices ({', '.join(devices)}): state --set device=NAME"
    ),
    "unnamed-gpus": "the export does not name every GPU (TARGET_INFO_GPU)",
    "card-split": _card_split,
    "gpu-model-contradicted": _gpu_model_contradicted,
    "gpu-model-read-as": "gpu_model {model} is read as {device}",
    "gpu-model-series": _gpu_model_series,
    # tables of tuners and benchmarks
    "decimal-commas": lambda columns: f"commas are read as decimal points in {few(columns, NAMED)}",
    "fp32-assumed": "no number format given: fp32 assumed (PyTorch's default); state it with --set dtype_a=NAME",
    "gated-delta-skipped": "gated delta-rule kernels (chunk_gdn) have no operator here yet: skipped",
    "gemm-family-unknown": "neither the file's name nor its kernels say the GEMM family: left empty",
    "gemm-family-by-kernels": "the file's name says no GEMM family: {family} by the names of its kernels",
    "no-timings": lambda by: _NO_TIMINGS[by],
    "winners-repeated": "winners are printed a second time: counted once",
    "filter-larger-than-input": "filter larger than the padded input, output taken as 1 (as MIOpen does): kept",
    "other-unit": _other_unit,
    "above-peak": _above_peak,
    "above-board-power": "powers over 150 % of the board power are left out (unless --keep impossible): {value:g} W "
    "first ({source})",
    "impossible-power": "powers that are zero, negative or infinite are left out: {value:g} W first ({source})",
    "impossible-energy": "energies that are zero, negative or infinite are left out: {value:g} J first ({source})",
    "no-time-in-place": "no time in place (N/A): one row only",
    "ranks-not-listed": "the log does not list its ranks, or groups of different sizes: state --set ranks=NUMBER",
    "ranks-on-several-devices": "the ranks ran on different devices: no device",
    "default-unused": "--set {column}={value} changes nothing here: the files say it themselves",
    "repeats-stay-rows": "--each: repeats stay rows; shuffled folds then predict another run of a known problem",
    "repeats-merged": "repeats of one kernel on one problem merged, the median kept",
    # traces
    "no-gpu-activity": "no activity of a GPU among its {events} events",
    "groups-of-world": "{count} collectives do not say their group: taken for that of all {ranks} ranks of the job",
    "mangled-names": "mangled kernel names are kept as they are in the file: {names} of them",
    "arguments-left-out": "{trace}: arguments that do not fit their types are left out (nodes: {nodes})",
    "execution-trace-joined": "{trace}: arguments of operators taken from this execution trace for {filled} activities "
    "({agreeing} of {calls} calls agree)",
    "no-activities": lambda by: _NO_ACTIVITIES[by],
    "no-api-calls": lambda by: _NO_API_CALLS[by],
    "stream-is-queue": "`stream` is the hardware queue: no streams were recorded",
    "values-of-no-dispatch": "{values} counter values belong to no kernel dispatch (samples of the whole device): not "
    "read",
    "exported-trace": "{trace} is a Chrome trace exported from a .rpd database, which has more: not read, give the "
    ".rpd",
    "markers-left-out": "{operations} operations are markers and barriers of the queue, no work: left out",
    "kernels-without-grid": "{kernels} kernels have no grid: they were replayed by a graph, or their launch is not "
    "recorded",
    "no-launches": "no launches: the application ran no kernel under the profiler",
    "no-start-times": "no start times are recorded: launches are put one behind the other in the order of the file",
    "durations-rounded-by-ncu": "durations are rounded to the digits printed: --print-units base gives nanoseconds",
    "bytes-rounded-by-nsys": "bytes of copies are rounded to the digits that nsys stats prints",
    "report-without-launches": "{report} holds no launches: not read",
    "columns-left-out": lambda columns: f"columns without numbers left out: {few(columns, NAMED)}",
    "counters-of-other-runs": lambda runs: (
        f"counters come from other runs of the program ({few(runs, NAMED)}), joined by Index and name"
    ),
    "counters-of-several-runs": "counters of a dispatch come from several runs of the program, one for each set of "
    "counters: they were never true together",
    "same-dispatches": "the same dispatches as {other}, read once",
    "sums-only": "sums over kernels, nothing of single dispatches",
    "picture-of-results": "a picture of results.csv of the same run, which is read instead",
    "derived-metrics-only": "the analysis database of rocprofiler-compute holds derived metrics only: give the "
    "workload folder it was made from (pmc_perf.csv, sysinfo.csv)",
    "no-dispatches": _no_dispatches,
    "times-of-other-file": "times are those of {other}",
    "times-are-means": "times have fractions of a nanosecond, they are means over the passes: durations are rounded by "
    "at most {rounded_ns:g} ns, and what lies between two dispatches is no gap of any run",
    "no-kernel-trace": _no_kernel_trace,
    "kernel-traces-repeat": "{traces} more kernel traces repeat the run: times are those of {timed}",
    "kernel-passes-joined": "{passes} passes joined by kernel and the order of its dispatches",
}

WORDS: Final[dict[str, str | Callable[..., str]]] = {
    **{code: _note(words) for code, words in _NOTES.items()},
    "files-skipped": _files_skipped,
    "files-excluded": _files_excluded,
    "file-unreadable": "left out, unreadable: {problem}",
    "trace-finding": _trace_finding,
}
