"""Where tasks are done: in processes of this machine, or on the workers of a Dask cluster.

`pool` maps a function over tasks and hands what all of them need to each process once; who calls it
need not know where they are done: within a block of `workers` these do them, else this process.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import platform
import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from joblib import Parallel, delayed
from threadpoolctl import ThreadpoolController

from .errors import DataError, ParameterError, one_line

if TYPE_CHECKING:  # an extra
    from distributed import Client, Future

CPUINFO: Final = Path("/proc/cpuinfo")  # where Linux names the CPU
T = TypeVar("T")
R = TypeVar("R")
S = TypeVar("S")
Jobs: TypeAlias = "int | Cluster"  # how many processes of this machine (-1: one per core), or the workers of a cluster
PACKAGES: Final = ("flopcast", "lightgbm", "numpy", "pandas", "scikit-learn", "scipy")
"""What must have the same version everywhere, beside Python: results depend on it, or what is sent does."""
_ANSWER = 3.0
_BACK = 60.0
_LOOK = 5.0
"""Seconds to wait for a scheduler, for a first worker or one in place of the last, and between looks at the workers."""
_LOST = 3
_MEMORY = (
    "one task has ended several workers, most likely for memory: give each more, or fewer models"
)
"""How often a task is begun again whose worker was lost with what it needs, and what is said then."""
_ALONE = threading.Lock()
_WORKERS: ContextVar[Jobs] = ContextVar("workers", default=1)


def one_thread() -> AbstractContextManager[object]:
    """Let the libraries of this process compute on one thread each: many small tasks would wait for each other."""
    return _libraries("lightgbm" in sys.modules).limit(limits=1)


@cache
def _libraries(boosting: bool) -> ThreadpoolController:
    """Return the libraries with threads; looking for them takes as long as a small fit, so once, and with LightGBM."""
    return ThreadpoolController()


class Pool(Protocol):
    """Where tasks are done."""

    def map(
        self,
        function: Callable[[T, S], R],
        tasks: Iterable[T],
        shared: S,
        part: Callable[[T], S] | None = None,
    ) -> Iterator[R]:
        """Yield ``function(task, shared)`` of each task; tasks are asked for as they can be begun.

        What is sent to another machine is ``part(task)`` in place of all that is shared, once for
        tasks in a row that have the same object.
        """


@contextmanager
def workers(jobs: int, cluster: str | Client | None = None) -> Generator[Jobs]:
    """Let a cluster do what `pool` maps in this block where there is one, else processes of this machine.

    Gives the number of processes, or the `Cluster`. ``cluster`` is a scheduler's address, such as
    ``"tcp://node1:8786"``, or a client of it, which stays open. Raises ParameterError: nothing
    answers at the address, no worker is there, or one has other versions.
    """
    if cluster is None:
        with _doing(jobs):
            yield jobs
        return
    client = _client(cluster)
    if client is cluster:
        with _doing(Cluster(client)) as doing:
            yield doing
        return
    log = logging.getLogger("distributed.client")
    level = log.level
    log.setLevel(logging.CRITICAL)  # what it tells of lost workers is made good here, or an error
    try:
        with _doing(Cluster(client)) as doing:
            yield doing
    finally:
        client.close()
        log.setLevel(level)


@contextmanager
def _doing(jobs: Jobs) -> Generator[Jobs]:
    before = _WORKERS.set(jobs)
    try:
        yield jobs
    finally:
        _WORKERS.reset(before)


@contextmanager
def pool(*, ordered: bool = False, small: bool = False) -> Generator[Pool]:
    """Give the pool of the block's `workers`; ``ordered`` yields results in the order of the tasks, else as they come.

    ``small`` tasks take less time than processes take to start: this process does them, or a
    cluster.
    """
    jobs = _WORKERS.get()
    if isinstance(jobs, Cluster):
        yield _Remote(jobs, ordered)
        return
    if small:
        jobs = 1
    how = "generator_unordered"
    if ordered:
        how = "generator"
    with Parallel(
        jobs, return_as=how, batch_size=1, pre_dispatch="n_jobs", **ending_together()
    ) as processes:
        yield _Local(processes)


def ending_together() -> dict[str, Any]:
    """Return arguments of `joblib.Parallel` by which the processes of its pool end soon after this one.

    Where a kill has left them alone, they would wait for work for minutes, and keep what they share
    in memory.
    """
    return {"initializer": _end_without, "initargs": (os.getpid(),)}


def _end_without(parent: int) -> None:
    """Let this process end when its parent is another."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _Local:
    """Processes of this machine; arrays that tasks share are memory maps."""

    def __init__(self, processes: Parallel) -> None:
        self._processes = processes

    def map(
        self,
        function: Callable[[T, S], R],
        tasks: Iterable[T],
        shared: S,
        part: Callable[[T], S] | None = None,
    ) -> Iterator[R]:
        results = self._processes(delayed(function)(task, shared) for task in tasks)
        try:
            for result in results:  # noqa: UP028 - `yield from` would close them before
                yield result
        except GeneratorExit:  # whoever asked has an error of its own to tell
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*still being processed")
                results.close()
            raise


class Cluster:
    """Workers of a Dask cluster, each checked to have the versions of this process before its results are taken."""

    def __init__(self, client: Client) -> None:
        self.client = client
        if client.scheduler:
            self._address = client.scheduler.address
        else:
            self._address = "the scheduler"
        self._seen: set[str] = set()
        self.look()

    def look(self) -> list[str]:
        """Return the addresses of the workers; refuse new ones of other versions, and a cluster without any."""
        threads = self._threads()
        if not self._seen.issuperset(threads):
            versions: Any = self.client.get_versions(packages=[*PACKAGES])
            for where, problem in differences(versions).items():
                raise self.refused(f"{where} {problem}: install the same there")
            where, threads_of_worker = max(threads.items(), key=lambda each: each[1])
            if threads_of_worker > 1:
                raise self.refused(
                    f"worker {where} has {threads_of_worker} threads: "
                    f"start {threads_of_worker} workers of one thread instead"
                )
            self._seen.update(threads)
        return [*threads]

    def _threads(self) -> dict[str, int]:
        """Return how many threads each worker has; where there is no worker, wait for one."""
        answers = self._asked()
        if not answers:
            with suppress(TimeoutError):
                self.client.wait_for_workers(1, timeout=_BACK if self._seen else _ANSWER)
            answers = self._asked()
        if not answers:
            raise self.refused("has no worker: start `dask worker` with this address")
        return answers

    def _asked(self) -> dict[str, int]:
        with suppress(OSError):
            if self.client.status == "running":
                return dict(self.client.nthreads())
        raise self.refused("the scheduler is gone: start it and its workers again")

    def refused(self, problem: str) -> ParameterError:
        """Return the error that says what is wrong with the cluster."""
        return ParameterError("cluster", f"{self._address}: {problem}")


def differences(versions: Mapping[str, Any]) -> dict[str, str]:
    """Return by worker (and the scheduler) what it has in another version than this process, from `get_versions`."""
    ours_installed = versions["client"]["packages"]
    others = {"the scheduler": versions["scheduler"]} | {
        f"worker {name}": one for name, one in versions["workers"].items()
    }
    wrong: dict[str, str] = {}
    for where, other in others.items():
        for name in ("python", *PACKAGES):
            theirs = other["packages"].get(name)
            ours = ours_installed.get(name)
            if theirs != ours:
                if theirs:
                    has = f"has {name} {theirs}"
                else:
                    has = f"has no {name}"
                wrong.setdefault(where, f"{has}, this process {ours}")
    return wrong


def _client(cluster: str | Client) -> Client:
    try:
        from distributed import Client
    except ImportError as error:
        raise ParameterError(
            "cluster", "needs Dask distributed: pip install 'flopcast[cluster]'"
        ) from error
    if isinstance(cluster, Client):
        return cluster
    if not isinstance(cluster, str):
        raise ParameterError(
            "cluster", f"must be an address or a distributed.Client, got {type(cluster).__name__}"
        )
    try:
        if not cluster.startswith("tls"):  # whose certificates the client alone finds
            with ThreadPoolExecutor(1) as apart:  # notebooks have a loop that runs
                apart.submit(asyncio.run, _identity(cluster)).result()
        return Client(cluster, timeout=_ANSWER, set_as_default=False)
    except Exception as error:  # what is no scheduler may answer anything
        problem = f"{cluster!r}: no scheduler answers ({one_line(error)})"
        advice = "give what `dask scheduler` prints, e.g. tcp://node1:8786"
        if cluster.startswith("tls"):
            advice += ", and name certificate, key and authority in Dask's distributed.comm.tls"
        raise ParameterError("cluster", f"{problem}: {advice}") from error


async def _identity(address: str) -> None:
    """Ask a scheduler who it is: a client that finds none waits for long, and does not go quietly."""
    from distributed import rpc

    scheduler = rpc(address, timeout=_ANSWER)
    try:
        await asyncio.wait_for(scheduler.identity(), _ANSWER)
    finally:
        await scheduler.close_rpc()


class _Running(NamedTuple):
    """A task that was begun: on which worker ("": whichever is free), and how often before."""

    task: Any
    home: str
    lost: int


class _Remote:
    """Workers of a cluster. What tasks share is sent once, a task again where its worker was lost.

    All that is shared goes to each worker. A part of it goes to the worker with the fewest tasks,
    and not before one is free: none holds two for long.
    """

    def __init__(self, cluster: Cluster, ordered: bool) -> None:
        self._cluster = cluster
        self._client = cluster.client
        self._ordered = ordered
        self._shared: tuple[Any, Future, str] | None = None

    def map(
        self,
        function: Callable[[T, S], R],
        tasks: Iterable[T],
        shared: S,
        part: Callable[[T], S] | None = None,
    ) -> Iterator[R]:
        from distributed import CancelledError

        running: dict[Future, _Running] = {}
        waiting = iter(tasks)
        todo = list[T]()

        def begun(task: T, lost: int = 0) -> dict[Future, _Running]:
            homes = [each.home for each in running.values()]
            if part is None:
                held, home = self._held(shared, None)
            else:
                held, home = self._held(part(task), homes)
            return {
                self._client.submit(_alone, function, task, held, pure=False): _Running(
                    task, home, lost
                )
            }

        try:
            while True:
                count = len(self._cluster.look())
                while len(running) < 2 * count:
                    todo = todo or [*islice(waiting, 1)]
                    if not todo or (
                        part and len(running) >= count and not self._has(part(todo[0]))
                    ):
                        break
                    running |= begun(todo.pop())
                if not running:
                    return
                for future in self._done(running):
                    task, _, lost = running.pop(future)
                    try:
                        result = self._result(future)
                    except CancelledError:  # who held what it needs was lost
                        if lost == _LOST:
                            raise DataError(_MEMORY) from None
                        running = begun(task, lost + 1) | running
                    else:
                        yield result
        finally:
            if running:
                self._client.cancel([*running])

    def _has(self, needed: Any) -> bool:
        """Whether this was sent last, and is still there."""
        return (
            self._shared is not None
            and self._shared[0] is needed
            and self._shared[1].status == "finished"
        )

    def _held(self, needed: S, homes: Sequence[str] | None) -> tuple[Future, str]:
        """Return what tasks need where they are done, and on which worker; sent where it is not there yet.

        To every worker, or, where the ``homes`` of the tasks under way are given, to the one that
        has the fewest.
        """
        if self._shared is None or not self._has(needed):
            self._shared = None  # what no task needs any more goes before the next comes
            for _ in range(1 + _LOST):
                addresses = self._cluster.look()
                if homes is None:
                    home = ""
                else:
                    home = min(addresses, key=homes.count)
                where: dict[str, Any] = (
                    {"broadcast": True} if homes is None else {"workers": [home]}
                )
                with suppress(OSError, KeyError):  # a worker that is lost meanwhile
                    # in a list: of a dictionary each value would be sent by itself
                    (sent,) = self._client.scatter([needed], hash=False, **where)
                    self._shared = needed, sent, home
                    break
            else:
                raise DataError(_MEMORY)
        return self._shared[1:]

    def _done(self, running: dict[Future, Any]) -> list[Future]:
        """Return those that are done: the first alone where the order counts."""
        from distributed import CancelledError, wait

        if self._ordered:
            some = [*running][:1]
        else:
            some = [*running]
        with self._client.as_current(), suppress(TimeoutError, CancelledError):
            wait(some, timeout=_LOOK, return_when="FIRST_COMPLETED")
        return [future for future in some if future.status in ("finished", "error", "cancelled")]

    def _result(self, future: Future) -> Any:
        from distributed import CancelledError, KilledWorker

        limit = _LOOK
        try:
            while True:
                try:
                    return future.result(timeout=limit)
                except TimeoutError:
                    if future.status == "error":  # of the task
                        raise
                    # lost with its worker after it was done, before it was fetched
                    if future.status != "finished":
                        raise CancelledError(future.key) from None
                    limit *= 2
        except KilledWorker as error:
            raise DataError(_MEMORY) from error
        except CancelledError:
            raise
        except Exception:
            self._cluster.look()  # a worker that came later and lacks something
            raise


def _alone(function: Callable[[T, S], R], task: T, shared: S) -> R:
    """Do a task; one at a time in a process, as warnings and threads of libraries are set for all of it."""
    with _ALONE:
        return function(task, shared)


def cpu_model(cpuinfo: Path = CPUINFO) -> str:
    """Return the name of the CPU, that of the architecture where the system does not tell more."""
    if cpuinfo.is_file():
        text = cpuinfo.read_text(encoding="utf-8")
    else:
        text = ""
    model = re.search(r"^model name[ \t]*:[ \t]*(\S.*)$", text, re.MULTILINE)
    if model:
        return model[1].rstrip()
    return platform.processor() or platform.machine()


def release_memory() -> None:
    """Give memory that is free back to the system: glibc keeps what many short-lived objects took.

    Elsewhere nothing is done.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def in_parts(count: int, most: int = 2**15) -> list[slice]:
    """Return slices of at most so many rows: what is worked out of a large table is then never as large.

    >>> in_parts(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(first, min(first + most, count)) for first in range(0, count, most)]
