"""What is said of what was measured: of times, and of power (a profile, its log, how it was and is to be measured)."""

from __future__ import annotations

from collections.abc import Callable


def _window_not_filled(execution: int, before_run: float, filled_from: int) -> str:
    return (
        f"when execution {execution} starts, {100 * before_run:.0f} % of the window lie before the run: power is read "
        f"too low; append executions up to {filled_from} or later"
    )


def _of_mixture(others: float) -> str:
    return (
        f"other kernels fill {100 * others:.0f} % of the windows: the power is that of the mixture, and the energy of "
        "this kernel cannot be told"
    )


def _idle_unknown(pauses: float) -> str:
    return (
        f"{100 * pauses:.2g} % of the windows are pauses and no readings between runs tell the idle power: power and "
        "energy are read too low"
    )


def _pauses_corrected(pauses: float, window_stated: bool) -> str:
    guessed = "; its interval reaches down to what was read, since the window is a guess"
    return (
        f"{100 * pauses:.0f} % of the windows are pauses: power is read too low; the energy is corrected, as if power "
        f"fell to idle in them{'' if window_stated else guessed}"
    )


def _margin_assumed(margin: float, shortest_us: float) -> str:
    return f"no margin of the execution-time bin is published below {shortest_us:g} µs: {100 * margin:g} % taken"


def _incomplete(share: float) -> str:
    return (
        f"{100 * share:.0f} % of the readings due while the kernel ran, one an interval, are not in the log: what they "
        "would have told is missing"
    )


def _hardly_known(rows: int, of: int, limit: float) -> str:
    return (
        f"{rows} of {of} rows are known to no better than ±{100 * limit:.0f} %: measure them again with nothing "
        "beside, or with a larger --budget, before anything learns from them"
    )


def _late(rows: int, of: int, limit: float) -> str:
    return (
        f"{rows} of {of} rows: the host launched too slowly for over {100 * limit:.0f} % of the samples, which may "
        "hold part of it (late_share)"
    )


def _clock(rows: int, of: int, limit: float) -> str:
    return f"{rows} of {of} rows: the clock itself takes over {100 * limit:.0f} % of a sample (clock_share)"


def _once(file: str, rows: int) -> str:
    was = "1 row that repeats another is" if rows == 1 else f"{rows} rows that repeat others are"
    return f"{file}: {was} measured once"


WORDS: dict[str, str | Callable[..., str]] = {
    "power-window-assumed": (
        "the logger's window is not stated: the time between readings, {window_us:g} µs, is taken for it; "
        "state it with --window, 0 only of a logger known to be instantaneous"
    ),
    "power-window-not-filled": _window_not_filled,
    "power-of-mixture": _of_mixture,
    "power-idle-unknown": _idle_unknown,
    "power-pauses-corrected": _pauses_corrected,
    "power-margin-assumed": _margin_assumed,
    "power-no-usual-time": (
        "the fullest bin of execution times holds {golden} of {runs} runs: the kernel has no usual time, and power and "
        "energy are those of a minority; look for clocks, inputs or neighbours that change"
    ),
    "power-kernel-left-out": "{kernel} is left out: {reason}",
    "power-few-readings": "{readings} readings of interest, {wanted} are recommended",
    "power-log-incomplete": _incomplete,
    "power-few-runs": "{runs} runs, {wanted} are recommended",
    "power-times-extrapolated": "{outside} of {readings} readings lie outside the clock pairs: their times are "
    "extrapolated",
    "power-drift-unsure": (
        "the clock pairs tell the drift of the clocks to ±{drift_error_ppm:.2g} ppm only: the times of readings are "
        "unsure by up to ±{unsure_us:.2g} µs; give pairs over the whole log"
    ),
    "power-drift-unknown": "one clock pair: the drift of the clocks is not known and not corrected",
    "power-log-readings-without-power": "readings of the log without power, left out: {readings}",
    "power-log-cut-off": "the log breaks off in its last line, which is left out",
    "power-plan-below-table": (
        "no row is published below {shortest_us:g} µs: launch the kernel {repeats} times back to back, timed as one "
        "execution, or interleave it as the application does; either way the power is that of the sequence, not of one "
        "launch"
    ),
    "power-plan-more-runs": (
        "{runs} runs give about {expected:.0f} readings in one execution, {wanted} are wanted: make {needed} runs, or "
        "append executions to each run"
    ),
    "power-plan-window-not-filled": (
        "execution {execution} starts {missing_us:g} µs before the logger's window has filled: append executions up "
        "to {filled_from} or later"
    ),
    "power-run-time-outside-bin": "execution time outside the bin",
    "power-run-of-fuller-bin": "execution time in a fuller bin",
    "power-run-of-few-executions": "fewer executions than the one of interest",
    "longer-than-window": "longer than the window",
    "isolated": "isolated",
    "isolated-with-pauses": "isolated, with pauses",
    "interleaved": "interleaved",
    "times-hardly-known": _hardly_known,
    "launches-late": _late,
    "clock-in-samples": _clock,
    "measured-once": _once,
    "collectives-need-two-gpus": "collectives are left out: they need two GPUs or more",
}
