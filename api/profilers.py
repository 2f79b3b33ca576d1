"""Which profiler to believe: traces of one workload against each other, and against its time without a profiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import DataError, ParameterError
from ..projection.fidelity import Fidelity, Profiled
from ..projection.fidelity import fidelity as compare
from ..readers import Options, TraceFailure, read_traces


def fidelity(
    traces: Sequence[Path | str],
    unprofiled_us: float | None = None,
    *,
    steps: int | None = None,
    defaults: Mapping[str, str] | None = None,
) -> Fidelity:
    """Compare traces of one workload with each other, and with the time it takes unprofiled.

    Parameters
    ----------
    traces : sequence of path
        One file or folder for each trace.
    unprofiled_us : float, optional
        End-to-end time of one step without a profiler.
    steps : int, optional
        Steps that each trace holds, where they do not record them.
    defaults : mapping of str to str, optional
        Values of columns that the traces lack.

    Returns
    -------
    Fidelity
        The times of each trace, the one to believe, and the kernels that all have.

    Raises
    ------
    DataError
        A path holds no trace or several, or `projection.fidelity.fidelity` refuses them.
    """
    if steps is not None and steps < 1:
        raise ParameterError("steps", f"must be at least 1, got {steps}")
    paths = [Path(path) for path in traces]
    names = [path.name for path in paths]
    labels = names if len(set(names)) == len(names) else [str(path) for path in paths]
    options = Options(defaults=dict(defaults or {}))
    profiled = [_profiled(*pair, steps, options) for pair in zip(paths, labels, strict=True)]
    return compare(profiled, unprofiled_us)


def _profiled(path: Path, label: str, steps: int | None, options: Options) -> Profiled:
    traces = []
    for _, trace in read_traces([path], options=options):
        if isinstance(trace, TraceFailure):
            raise trace.error
        traces.append(trace)
    if len(traces) != 1:
        count = f"{len(traces)} traces" if traces else "no trace"
        raise DataError(f"holds {count}: give one path for each trace", source=str(path))
    return Profiled.of(label, traces[0], steps)
