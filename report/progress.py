"""Progress of long work on the terminal, with the time left; silent where nobody watches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..output import visible
from .formats import clock

Report = Callable[[int, int, str, float], None]


@contextmanager
def shown_progress(title: str, *, unit: str = "fits", first: str = "", quiet: bool = False) -> Iterator[Report | None]:
    """Yield a callable ``(done, total, label, eta_seconds)`` that draws on stderr; None when ``quiet``.

    ``first`` says at once what is done before any of the work is counted.

    Off a terminal it prints one line for every tenth of the work, counted in ``unit``. An ETA that is not finite is not
    known yet, and left out.
    """
    if quiet:
        yield None
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        if first:
            console.print(visible(f"{title}: {first}"), markup=False, highlight=False)
        yield _lines(console, title, unit)
        return
    columns = [TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    with Progress(*columns, TextColumn("{task.fields[left]}"), console=console, transient=True) as bars:
        bar = bars.add_task(visible(": ".join(filter(None, (title, first)))), total=None, left="")

        def draw(done: int, total: int, label: str, eta_seconds: float) -> None:
            bars.update(bar, completed=done, total=total, description=visible(label), left=_left(eta_seconds))

        yield draw


def _left(eta_seconds: float) -> str:
    return f"about {clock(eta_seconds)} left" if math.isfinite(eta_seconds) else ""


def _lines(console: Console, title: str, unit: str) -> Report:
    tenth = -1

    def say(done: int, total: int, label: str, eta_seconds: float) -> None:
        nonlocal tenth
        if 10 * done // total > tenth:
            tenth = 10 * done // total
            parts = (f"{title}: {done} of {total} {unit}", label, _left(eta_seconds))
            console.print(visible(", ".join(filter(None, parts))), markup=False, highlight=False)

    return say
