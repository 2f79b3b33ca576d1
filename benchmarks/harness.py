"""How contenders are compared: the same task, checked to give the same answer, then timed in turns."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from threadpoolctl import threadpool_limits

TURN_SECONDS = 0.2


@dataclass(frozen=True)
class Contender:
    """One way to do a task: its name, and a call without arguments that does all of it.

    Attributes
    ----------
    name : str
    call : callable
    once : bool, default=False
        Whether it is so slow that the run which checks its answer is the one that is timed; memory
        is not traced.
    missing : str, default=""
        Why it cannot be run here; it gets a line that says so.
    elsewhere : bool, default=False
        Whether the work is done in another process, so that its memory cannot be traced.
    same : str, default="same answer"
        What it means that its answer does not differ from ours.
    """

    name: str
    call: Callable[[], Any]
    once: bool = False
    missing: str = ""
    elsewhere: bool = False
    same: str = "same answer"


@dataclass(frozen=True)
class Comparison:
    """A task, flopcast's way to do it, the peers, and the cheapest call that returns something of the right form.

    Attributes
    ----------
    task : str
        What is done, with its size.
    ours : Contender
    peers : tuple of Contender
    nothing : Contender
        The do-nothing baseline; its answer is not looked at.
    differs : callable
        Given our answer and a peer's, returns in what they differ, "" where they agree.
    items : int, optional
        Rows that the task goes through, for the time per row.
    says : callable, optional
        Given an answer, returns what to say of it beside its time.
    """

    task: str
    ours: Contender
    peers: tuple[Contender, ...]
    nothing: Contender
    differs: Callable[[Any, Any], str]
    items: int | None = None
    says: Callable[[Any], str] | None = None


@dataclass(frozen=True)
class Row:
    """One line of the result.

    Attributes
    ----------
    task, name : str
        What was done, and by whom.
    seconds : float or None
        The time of a call in the best turn; None where the answers differ.
    ratio : float or None
        That time over ours.
    us_per_item : float or None
        Microseconds per row.
    peak_mb : float or None
        Most memory allocated at once by Python and NumPy beyond what was there before, MB; None for
        what another process allocated.
    note : str
        Whether the answer agrees with ours, or why there is no time.
    """

    task: str
    name: str
    seconds: float | None = None
    ratio: float | None = None
    us_per_item: float | None = None
    peak_mb: float | None = None
    note: str = ""


def compare(
    comparison: Comparison, repeats: int = 3, turn_seconds: float = TURN_SECONDS
) -> Iterator[Row]:
    """Check that the peers agree with us, then time everybody, on one BLAS thread.

    The contenders run in turns, ``repeats`` times, so that a slow drift of the machine hits all
    alike. A turn is the mean of as many calls as fill it, at least one, as in `timeit`; the
    shortest turn counts. Memory is traced in a separate run, because tracing takes time.

    Parameters
    ----------
    comparison : Comparison
    repeats : int, default=3
    turn_seconds : float, default=0.2
        How long a turn takes at least; 0 for one call a turn.

    Yields
    ------
    Row
        Ours first, then each peer, then the do-nothing baseline.
    """
    with threadpool_limits(1):
        checked = _check(comparison)
        contenders = [comparison.ours, *comparison.peers, comparison.nothing]
        timed = [
            contender
            for contender in contenders
            if checked[contender.name].counts and not contender.once
        ]
        peaks = {
            contender.name: _peak_mb(contender.call)
            for contender in timed
            if not contender.elsewhere
        }
        best, failed = _shortest(timed, repeats, turn_seconds)
    best |= {
        each.name: checked[each.name].seconds
        for each in contenders
        if each.once and checked[each.name].counts
    }
    ours = best[comparison.ours.name]
    for contender in contenders:
        seconds = best.get(contender.name)
        yield Row(
            task=comparison.task,
            name=contender.name,
            seconds=seconds,
            ratio=seconds / ours if seconds is not None else None,
            us_per_item=1e6 * seconds / comparison.items
            if seconds is not None and comparison.items
            else None,
            peak_mb=peaks.get(contender.name),
            note=failed.get(contender.name, checked[contender.name].note),
        )


@dataclass(frozen=True)
class _Checked:
    """What the first run of a contender showed: a note, whether its time counts, and that time."""

    note: str
    counts: bool
    seconds: float


def _check(comparison: Comparison) -> dict[str, _Checked]:
    """Run every contender once and compare the answers with ours."""
    answer, seconds = _timed(comparison.ours.call)
    says = comparison.says or (lambda answer: "")
    checked = {comparison.ours.name: _Checked(says(answer), True, seconds)}
    for peer in comparison.peers:
        if peer.missing:
            checked[peer.name] = _Checked(f"skipped: {peer.missing}", False, 0.0)
            continue
        try:
            other, seconds = _timed(peer.call)
            difference = comparison.differs(answer, other)
            same = (peer.same, "one run" if peer.once else "", says(other))
        except Exception as error:  # a row that says so, not the end of the benchmarks
            checked[peer.name] = _Checked(_failure(error), False, 0.0)
            continue
        note = f"differs: {difference}" if difference else ", ".join(filter(None, same))
        checked[peer.name] = _Checked(note, not difference, seconds)
    _, seconds = _timed(comparison.nothing.call)
    return checked | {comparison.nothing.name: _Checked("does nothing", True, seconds)}


def _failure(error: Exception) -> str:
    """Return the note on a peer that raised: the kind of the error and the first line of its message."""
    return ": ".join(["failed", type(error).__name__, *str(error).splitlines()[:1]])


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return the answer of a call and the seconds it took."""
    gc.collect()
    started = time.perf_counter()
    answer = call()
    return answer, time.perf_counter() - started


def _peak_mb(call: Callable[[], Any]) -> float:
    gc.collect()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def _shortest(
    contenders: list[Contender], repeats: int, turn_seconds: float
) -> tuple[dict[str, float], dict[str, str]]:
    """Return the time of a call, in seconds, in the best of `repeats` turns of each contender, and notes on failures.

    A contender other than the first that fails in a turn has no time.
    """
    best: dict[str, float] = {}
    failed: dict[str, str] = {}
    for _ in range(repeats):
        for contender in contenders:
            if contender.name in failed:
                continue
            try:
                seconds = _mean_of_a_turn(contender.call, turn_seconds)
            except Exception as error:
                if contender is contenders[0]:
                    raise
                failed[contender.name] = _failure(error)
                best.pop(contender.name, None)
                continue
            best[contender.name] = min(seconds, best.get(contender.name, seconds))
    return best, failed


def _mean_of_a_turn(call: Callable[[], Any], turn_seconds: float) -> float:
    """Return the mean time of a call over as many as fill a turn."""
    gc.collect()
    calls, started = 0, time.perf_counter()
    while (seconds := time.perf_counter() - started) < turn_seconds or not calls:
        call()
        calls += 1
    return seconds / calls
