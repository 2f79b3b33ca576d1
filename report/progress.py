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
def shown_progress(title: str, *, first: str = "", quiet: bool = False) -> Iterator[Report | None]:
    """Yield a callable ``(done, total, label, eta_seconds)`` that draws on stderr; None off a terminal or if ``quiet``.

    ``first`` says at once what is done before any of the work is counted. An ETA that is not finite is not known yet,
    and left out.
    """
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = [TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    with Progress(*columns, TextColumn("{task.fields[left]}"), console=console, transient=True) as bars:
        bar = bars.add_task(visible(": ".join(filter(None, (title, first)))), total=None, left="")

        def draw(done: int, total: int, label: str, eta_seconds: float) -> None:
            bars.update(bar, completed=done, total=total, description=visible(label), left=_left(eta_seconds))

        yield draw


def _left(eta_seconds: float) -> str:
    return f"about {clock(eta_seconds)} left" if math.isfinite(eta_seconds) else ""
