"""Kill commands at random points: the earlier result or the new one is there, and the next run works and tidies up.

``python -m flopcast.tests.kills --time 10m`` (or ``make kill TIME=10m``) prints what it killed, and when. Commands run
in copies of this process (fork), which spares them seconds of imports each. Half of the kills come anywhere in a run,
half in the milliseconds after its unfinished result has appeared.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
from typer.testing import CliRunner

from flopcast.api.runs import load
from flopcast.commands import app
from flopcast.report.run_folder import PARTS
from flopcast.tests.readers.kineto.made_up import write_trace
from flopcast.values import duration

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
SHAPES = "op,dtype,m,n,k\ngemm,fp32,4,8,16\ngemm,fp32,8,8,16\n"
Tree = dict[str, bytes]


@dataclass(frozen=True)
class Case:
    """A command line with IN and OUT in it, and how it goes on after a kill; `whole` reads its result or raises."""

    line: str
    result: str
    whole: Callable[[Path], object]
    again: str = ""
    needs: str = ""


def table(path: Path) -> object:
    return (
        pq.read_table(path)
        if path.suffix == ".parquet"
        else pd.read_csv(path, dtype_backend="pyarrow")
    )


def page_and_json(folder: Path) -> None:
    assert (folder / "project.html").read_text(encoding="utf-8").endswith("</html>\n")
    json.loads((folder / "project.json").read_text(encoding="utf-8"))


def run_folder(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {*PARTS}
    load(folder)


CASES = {
    "ingest": Case("ingest IN/trace.json --jobs 1 -o OUT", "table.parquet", table),
    "ingest CSV": Case("ingest IN/table.csv --jobs 1 -o OUT", "table.csv", table),
    "clean": Case("clean IN/trace.json --steps all --jobs 1 -o OUT", "table.csv", table),
    "project": Case("project IN/trace.json --target MI355X -o OUT", "projected", page_and_json),
    "train": Case(
        "train IN/table.csv --host MI300X --target MI355X --models OLS --jobs 1 -o OUT", "run", run_folder,
        again=" --resume",
    ),
    "measure": Case(
        "measure IN/shapes.csv --device cpu --threads 1 --precision 0.9 --rounds 1 -o OUT", "runs.csv", table,
        again=" --resume", needs="torch",
    ),
}  # fmt: skip


def inputs(folder: Path, seed: int) -> Path:
    """Write what the commands read; another seed gives other results."""
    folder.mkdir()
    write_trace(folder / "trace.json", kernels=6 + seed)
    (folder / "shapes.csv").write_text(SHAPES)
    rows = [
        {
            "device": device,
            "op": "gemm",
            "dtype_a": "bf16",
            "m": m,
            "n": 512,
            "k": 1024,
            "duration_us": time,
        }
        for m in (128 * size for size in range(1, 13))
        for device, time in (("MI300X", 9 + seed + m / 100), ("MI355X", 5 + seed + m / 200))
    ]
    pd.DataFrame(rows).to_csv(folder / "table.csv", index=False)
    return folder


def tree(path: Path) -> Tree:
    files = sorted(path.rglob("*")) if path.is_dir() else [path] if path.exists() else []
    return {str(file.relative_to(path)): file.read_bytes() for file in files if file.is_file()}


def start(line: str, given: Path, out: Path) -> int:
    """Run a command in a copy of this process; return its process id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        quiet = os.open(out.parent.parent / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(quiet, 1), os.dup2(quiet, 2)
        sys.argv = [
            "flopcast",
            *(word.replace("IN", str(given)).replace("OUT", str(out)) for word in line.split()),
        ]
        app.main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        os._exit(code)


def finished(line: str, given: Path, out: Path) -> float:
    """Run a command to its end, which must be a good one; return its seconds."""
    begun = time.monotonic()
    _, status = os.waitpid(start(line, given, out), 0)
    assert status == 0, (
        f"{line}: {os.waitstatus_to_exitcode(status)}: {(out.parent.parent / 'said').read_text()}"
    )
    return time.monotonic() - begun


def killed(
    line: str, given: Path, out: Path, seconds: float, chance: random.Random, how: int
) -> str:
    """Start a command, kill it, and return when it ended."""
    child, writing, begun = start(line, given, out), chance.random() < 0.5, time.monotonic()
    while (
        writing
        and time.monotonic() - begun < seconds
        and not list(out.parent.glob(".*.flopcast-*"))
    ):
        time.sleep(0.0002)
    time.sleep(chance.uniform(0, 0.02 if writing else seconds))
    os.kill(child, how)
    _, status = os.waitpid(child, 0)
    return "after its end" if status == 0 else "while it wrote" if writing else "anywhere"


def trial(
    case: Case, folder: Path, given: list[Path], seconds: float, chance: random.Random, how: int
) -> tuple[str, float]:
    """Kill a command once, then run it to its end; return when the kill came, and the least seconds of a run.

    AssertionError where something is not as it must be.
    """
    shutil.rmtree(folder, ignore_errors=True)
    out = folder / "out" / case.result
    out.parent.mkdir(parents=True)
    before: Tree = {}
    if chance.random() < 0.5 and not case.needs:
        finished(case.line, given[0], out)
        before = tree(out)
    when = killed(case.line, given[1], out, seconds, chance, how)
    if (found := tree(out)) != before:
        case.whole(out)
        assert found
    journals = out.with_name(f"{out.name}.journal") / "plan.json", out.with_name(f"{out.name}.fits")
    unfinished = case.again and any(each.exists() for each in journals)
    if case.needs and not unfinished:  # it never replaces what it has measured
        for path in (out, out.with_suffix(".json")):
            path.unlink(missing_ok=True)
    again = finished(case.line + (case.again if unfinished else ""), given[1], out)
    case.whole(out)
    beside = {path.name for path in out.parent.iterdir()} - {
        out.name,
        out.with_suffix(".json").name,
    }
    assert not beside, f"left: {beside}"
    return when, seconds if unfinished else min(seconds, again)


def run(
    seconds: float, seed: int, names: list[str], trials: int | None = None
) -> Counter[tuple[str, str, str]]:
    """Kill the commands in turn so often each, else until the time is over; return how often, how and when."""
    counts: Counter[tuple[str, str, str]] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder, temporary = Path(name), Path(name) / "tmp"
        temporary.mkdir()
        tempfile.tempdir = str(temporary)
        given = [inputs(folder / f"in{number}", number) for number in range(2)]
        for name in names:
            if not CASES[name].needs:  # torch has threads, which no copy of this process would have
                _here(CASES[name], given[0], folder / "here")
        chance, end, took = random.Random(seed), time.monotonic() + seconds, {}
        for round_ in range(trials or sys.maxsize):
            for turn, name in enumerate(names, round_):
                if trials is None and time.monotonic() > end:
                    return counts
                case = CASES[name]
                if name not in took:
                    took[name] = finished(case.line, given[1], _fresh(folder / "first", case))
                how = SIGNALS[turn % len(SIGNALS)]
                try:
                    when, took[name] = trial(case, folder / "trial", given, took[name], chance, how)
                except Exception as error:
                    raise AssertionError(
                        f"{name}, {how.name}, seed {seed}, round {round_}: {error}"
                    ) from error
                assert not list(temporary.iterdir()), f"{name} left {list(temporary.iterdir())}"
                counts[name, how.name, when] += 1
    return counts


def _here(case: Case, given: Path, folder: Path) -> None:
    """Run a command in this process: what it imports and keeps for the next call, its copies then have."""
    words = case.line.replace("OUT", str(_fresh(folder, case))).replace("IN", str(given)).split()
    done = CliRunner().invoke(app.app, words)
    assert done.exit_code == 0, done.output


def _fresh(folder: Path, case: Case) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "out").mkdir(parents=True)
    return folder / "out" / case.result


def able() -> list[str]:
    """Return the commands that can run here."""
    return [name for name, case in CASES.items() if not case.needs or find_spec(case.needs)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--time", default="1m", help="How long, as 90s or 10m.")
    parser.add_argument(
        "--trials",
        type=int,
        help="Kills of each command, whatever the time; else as many as it allows.",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "commands", nargs="*", help=f"Of {', '.join(CASES)}; all that can run here by default."
    )
    asked = parser.parse_args()
    names = asked.commands or able()
    counts = run(duration("time", asked.time) or 0.0, asked.seed, names, asked.trials)
    for (name, how, when), count in sorted(counts.items()):
        print(f"{count:7,}  {name:12}{how:9}{when}")
    print(f"{sum(counts.values()):7,}  kills, each of which left the earlier result or the new one")
    for name in CASES.keys() - set(able()):
        print(f"{name} was left out: {CASES[name].needs} is not installed")


if __name__ == "__main__":
    main()
