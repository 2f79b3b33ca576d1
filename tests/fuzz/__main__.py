"""``make fuzz TIME=10m``: damaged inputs of every kind, in worker processes that the kernel ends when they hang.

Inputs are numbered: target, seed and number give the same bytes again. A process holds 1 GiB of memory at most, its
imports included, and has 10 seconds of its processor for an input; what it is reading is known here when it dies.
Counts go on where the last run ended (``counts.json``); inputs that fail are kept, with what happened.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from flopcast.tests.fuzz import targets
from flopcast.tests.fuzz.worker import KINDS, Shared, keep, work

_UNITS = {"s": 1, "m": 60, "h": 3600}


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz for a time; return 1 where something failed."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m flopcast.tests.fuzz")
    parser.add_argument("--time", default="1m", help="how long, such as 30s, 10m, 2h")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, default=Path("build/fuzz"), help="counts and inputs that fail"
    )
    parser.add_argument("--target", action="append", choices=targets.TARGETS, help="only these")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / "counts.json"
    before = (
        json.loads(path.read_text())
        if path.exists()
        else {"seed": given.seed, "targets": {}, "commits": {}}
    )
    if before["seed"] != given.seed:
        parser.error(f"{path} is of seed {before['seed']}: choose another --out")
    context = multiprocessing.get_context("spawn")
    begun = [before["targets"].get(name, {}).get("next", 0) for name in targets.TARGETS]
    shared = Shared(context, targets.TARGETS, begun, given.jobs)
    chosen = [targets.TARGETS.index(name) for name in given.target or targets.TARGETS]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        watch(
            context,
            shared,
            given,
            time.time() + int(given.time[:-1]) * _UNITS[given.time[-1]],
            chosen,
        )
    finally:
        counts = _added(before, shared)
        path.write_text(json.dumps(counts, indent=1))
    return _told(counts, shared, given.out)


def watch(
    context: Any, shared: Shared, given: argparse.Namespace, until: float, chosen: list[int]
) -> None:
    """Keep the processes running; what one was reading when it died is read again one by one, then it is a finding."""

    def start(me: int, single: list[int], after: int) -> SpawnProcess:
        order = chosen[after % len(chosen) :] + chosen[: after % len(chosen)]
        process = context.Process(
            target=work, args=(shared, me, given.seed, until, order, given.out, single), daemon=True
        )
        process.start()
        return process

    running = {me: start(me, [], me) for me in range(given.jobs)}
    while running:
        for me, process in list(running.items()):
            process.join(0.2)
            if process.is_alive():
                continue
            del running[me]
            if process.exitcode == 0:
                continue
            if process.exitcode > 0:
                raise SystemExit("a process ended by itself: see its words above")
            target, first, many = shared.at[3 * me : 3 * me + 3]
            if many == 1:
                kind = "hang" if process.exitcode in (-signal.SIGPROF, -signal.SIGALRM) else "crash"
                name = shared.names[target]
                shared.count(target, kind)
                keep(
                    given.out,
                    name,
                    first,
                    targets.input_of(name, given.seed, first),
                    kind,
                    kind,
                    f"exit code {process.exitcode}",
                )
            running[me] = start(
                me, [target, first, many] if many > 1 else [], chosen.index(target) + 1
            )


def _added(before: dict[str, Any], shared: Shared) -> dict[str, Any]:
    """Return the counts of this run and those before it."""
    ran = 0
    for target, name in enumerate(shared.names):
        own = before["targets"].setdefault(name, {})
        for place, kind in enumerate(KINDS):
            own[kind] = own.get(kind, 0) + shared.counts[target * len(KINDS) + place]
            ran += shared.counts[target * len(KINDS) + place]
        own["next"] = shared.next[target]
        own["peak_mib"] = max(own.get("peak_mib", 0), shared.peak[target])
        own["cpu_seconds"] = round(own.get("cpu_seconds", 0) + shared.cpu[target], 1)
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    commits = Counter(before["commits"])
    commits[asked.stdout.strip() or "unknown"] += ran
    return {**before, "commits": dict(commits)}


def _told(counts: dict[str, Any], shared: Shared, out: Path) -> int:
    """Print the counts of all runs; return 1 where something failed in this one."""
    head = ("target", "inputs", *KINDS, "ms each", "peak MiB")
    print(f"seed {counts['seed']}, by commit: {counts['commits']}")
    print("".join(f"{word:>12}" if place else f"{word:<20}" for place, word in enumerate(head)))
    totals = Counter[str]()
    for name, own in counts["targets"].items():
        inputs = sum(own[kind] for kind in KINDS)
        totals.update({kind: own[kind] for kind in KINDS}, inputs=inputs)
        each = 1000 * own["cpu_seconds"] / max(inputs, 1)
        print(
            f"{name:<20}"
            + "".join(f"{value:>12}" for value in (inputs, *(own[kind] for kind in KINDS)))
            + f"{each:>12.1f}{own['peak_mib']:>12}"
        )
    print(f"{'all':<20}" + "".join(f"{totals[kind]:>12}" for kind in ("inputs", *KINDS)))
    bad = sum(
        shared.counts[t * len(KINDS) + k]
        for t in range(len(shared.names))
        for k in range(2, len(KINDS))
    )
    if bad:
        print(f"{bad} inputs failed in this run: see {out}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
