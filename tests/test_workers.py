"""Tasks on a real cluster of processes, some of which are killed, and what is said of a cluster that cannot be used."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import flopcast as fc
from flopcast.errors import DataError, ParameterError
from flopcast.workers import (
    _ANSWER,
    _LOST,
    PACKAGES,
    Cluster,
    cpu_model,
    differences,
    pool,
    workers,
)

if find_spec("distributed") is None:
    pytest.skip("Dask distributed (flopcast[cluster]) is not installed", allow_module_level=True)
QUICK = {"host": "MI300X", "target": "MI355X", "quick": True}


class Running:
    """A scheduler and workers, each a process of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.file = folder / "scheduler.json"
        self.scheduler = self.start(
            "dask_scheduler", "--port", "0", "--host", "127.0.0.1", *options
        )
        while not (self.file.exists() and self.file.read_text().endswith("}")):
            assert self.scheduler.poll() is None
            time.sleep(0.05)
        self.address = str(json.loads(self.file.read_text())["address"])

    def start(self, what: str, *options: str) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-m",
            f"distributed.cli.{what}",
            "--scheduler-file",
            str(self.file),
            *options,
        ]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.processes.append(subprocess.Popen([*command, "--no-dashboard"], **quiet))  # type: ignore[call-overload]
        return self.processes[-1]

    def worker(self) -> subprocess.Popen[bytes]:
        return self.start("dask_worker", "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1")

    def working(self) -> str:
        """Return the address, with a worker there, which a test before may have left or not."""
        if all(process.poll() is not None for process in self.processes[1:]):
            self.worker()
        return self.address

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.mark.skipif(which("openssl") is None, reason="openssl makes the certificate")
def test_a_scheduler_with_certificates_is_reached_by_those_of_dasks_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dask
    import distributed  # its defaults stand before any setting is made for a while

    assert distributed.__version__
    key, cert = (str(tmp_path / name) for name in ("key.pem", "cert.pem"))
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=node1"]
    subprocess.run([*made, "-keyout", key, "-out", cert], check=True, capture_output=True)
    stated = {"ca-file": cert}
    for role in ("client", "scheduler", "worker"):
        stated |= {f"{role}.cert": cert, f"{role}.key": key}
    for name, value in stated.items():
        variable = name.upper().replace("-", "_").replace(".", "__")
        monkeypatch.setenv(f"DASK_DISTRIBUTED__COMM__TLS__{variable}", value)
    monkeypatch.setattr("flopcast.workers._ANSWER", 3600.0)
    monkeypatch.setattr("flopcast.workers._BACK", 3600.0)
    running = Running(tmp_path, "--protocol", "tls")
    try:
        assert running.address.startswith("tls://")
        running.worker()
        named = {f"distributed.comm.tls.{name}": value for name, value in stated.items()}
        with (
            dask.config.set(named),
            workers(1, running.address),
            pool(ordered=True) as each,
        ):
            assert list(each.map(lambda task, shared: task + shared, [1, 2], 5)) == [6, 7]
    finally:
        running.stop()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Start a scheduler; who waits for it, or for its workers, waits an hour: processes may be slow to start."""
    import dask  # here: to import it takes a second in each process that collects tests

    with (
        pytest.MonkeyPatch.context() as patched,
        dask.config.set({"distributed.comm.timeouts.connect": "1h"}),
    ):
        patched.setattr("flopcast.workers._ANSWER", 3600.0)
        patched.setattr("flopcast.workers._BACK", 3600.0)
        patched.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "1h")
        running = Running(tmp_path_factory.mktemp("cluster"))
        yield running
        running.stop()


def test_tasks_go_on_where_the_only_worker_was_killed(cluster: Running, tmp_path: Path) -> None:
    def record(task: int, folder: Path) -> int:  # of no module: sent as it is
        (folder / f"{task} {uuid.uuid4()}").touch()
        return 10 * task

    first = cluster.worker()
    results = []
    with workers(1, cluster.address), pool(ordered=True) as each:
        for result in each.map(record, range(8), tmp_path):
            results.append(result)
            if result == 30:
                first.send_signal(signal.SIGKILL)
                cluster.worker()
        assert list(each.map(lambda task, shared: task + shared, [1, 2], 5)) == [6, 7]
        assert list(
            each.map(lambda task, shared: task + shared, [1, 2], None, {1: 5, 2: 7}.get)
        ) == [6, 9]
    assert results == [10 * task for task in range(8)]
    assert 8 <= len(list(tmp_path.iterdir())) <= 8 + 2  # what was begun, or done and not fetched


def test_tasks_that_are_left_are_left_without_a_word() -> None:
    with warnings.catch_warnings(record=True) as said, workers(2), pool() as each:
        warnings.simplefilter("always")
        results = each.map(pow, range(8), 2)
        assert next(results) in [task**2 for task in range(8)]
        results.close()  # type: ignore[attr-defined]
    assert not [one for one in said if "still being processed" in str(one.message)]


def test_what_tasks_share_may_be_of_any_type(cluster: Running) -> None:
    shared_values: list[Any] = [{"a": 1, "b": 2}, [1, 2], (1, 2), {1, 2}, None]
    with workers(1, cluster.working()), pool(ordered=True) as each:
        for shared in shared_values:
            results = list(each.map(lambda task, shared: (task, shared), [1, 2, 3, 4], shared))
            assert results == [(task, shared) for task in [1, 2, 3, 4]]


def test_a_result_that_is_lost_before_it_is_fetched_is_made_again(
    cluster: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    # here: to import it takes a second in each process that collects tests
    from distributed import Future

    fetched, lost = Future.result, list[Future]()

    def never(self: Any, timeout: float | None = None) -> object:
        """Wait as for a result whose worker died after the task was done: nobody makes it again."""
        if not lost:
            lost.append(self)
            monkeypatch.setattr(
                Future, "status", property(lambda of: "lost" if of is self else status.fget(of))
            )
        if self is lost[0]:
            assert timeout is not None, "waits for ever"
            raise TimeoutError
        return fetched(self, timeout=timeout)

    status: Any = Future.status
    monkeypatch.setattr(Future, "result", never)
    with workers(1, cluster.working()), pool(ordered=True) as each:
        assert list(each.map(lambda task, shared: task + shared, [1, 2, 3], 5)) == [6, 7, 8]


def test_a_task_that_ends_its_workers_is_one_error(cluster: Running) -> None:
    def allow(losses: int) -> None:
        who.client.run_on_scheduler(
            lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", losses)
        )

    cluster.working()
    cluster.worker()  # in place of the one that is lost
    with workers(1, cluster.address) as who, pool(ordered=True) as each:
        assert isinstance(who, Cluster)
        try:
            allow(0)
            with pytest.raises(DataError, match="one task has ended several workers") as caught:
                list(each.map(lambda task, shared: os._exit(1), [1], None))
        finally:
            allow(3)
        assert type(caught.value.__cause__).__name__ == "KilledWorker"
        # the others go on
        assert list(each.map(lambda task, shared: task + shared, [1, 2], 5)) == [6, 7]


@pytest.mark.parametrize("lost", ["Future.result", "Client.scatter"])
def test_workers_that_are_lost_again_and_again_are_one_error(
    cluster: Running, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    import distributed  # here: to import it takes a second in each process that collects tests

    tried = []

    def fails(*given: object, **asked: object) -> None:
        tried.append(given)
        raise distributed.CancelledError if lost == "Future.result" else OSError

    with workers(1, cluster.working()), pool(ordered=True) as each:
        kind, name = lost.split(".")
        monkeypatch.setattr(getattr(distributed, kind), name, fails)
        with pytest.raises(DataError, match="one task has ended several workers"):
            list(each.map(lambda task, shared: task + shared, [1], 5))
    assert len(tried) == 1 + _LOST


@pytest.mark.long
def test_training_and_predictions_are_byte_equal_on_a_cluster(
    cluster: Running, tmp_path: Path
) -> None:
    data, seen = gemms(), list[tuple[int, int]]()
    local = fc.train(data, **QUICK, jobs=1)
    spread = fc.train(
        data,
        **QUICK,
        cluster=cluster.working(),
        progress=lambda done, total, *rest: seen.append((done, total)),
    )
    done = [index for index, (done, total) in enumerate(seen, 1) if done == total]
    assert done == [done[0], len(seen)]  # the folds, then what follows them
    assert without_times(local) == without_times(spread)
    assert local.predictions.equals(spread.predictions)
    assert local.predict(data).to_csv() == spread.predict(data).to_csv()


def test_files_are_read_by_workers_as_here(cluster: Running, tmp_path: Path) -> None:
    for part in range(3):
        gemms(seed=part).to_csv(tmp_path / f"{part}.csv", index=False)
    (tmp_path / "2.csv").write_text("device,op,us\nMI300X,gemm,1\n")
    here, there = fc.ingest(tmp_path, jobs=1), fc.ingest(tmp_path, cluster=cluster.working())
    assert here.to_json() == there.to_json()


@pytest.mark.parametrize(
    ("status", "threads", "said"),
    [
        ("closed", {}, "is gone"),
        ("running", {}, "no worker"),
        ("running", {"tcp://a:1": 1, "tcp://b:1": 16}, "b:1 has 16"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_refused(
    status: str, threads: dict[str, int], said: str
) -> None:
    same = {"packages": {"numpy": "2.0"}}
    client = SimpleNamespace(
        status=status,
        scheduler=SimpleNamespace(address="tcp://a:8786"),
        nthreads=lambda: threads,
        wait_for_workers=lambda count, timeout: None,
        get_versions=lambda packages: {
            "client": same,
            "scheduler": same,
            "workers": dict.fromkeys(threads, same),
        },
    )
    with pytest.raises(ParameterError, match=f"cluster tcp://a:8786: .*{said}"):
        Cluster(client)  # type: ignore[arg-type]


def test_where_no_scheduler_answers_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _ANSWER <= 5
    monkeypatch.setattr("flopcast.workers._ANSWER", 0.3)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    for wrong in (address, "nowhere", "http://127.0.0.1", 8786):
        with pytest.raises(ParameterError) as caught:
            fc.train(cluster=wrong)  # type: ignore[arg-type]
        assert caught.value.parameter == "cluster"
        assert len(str(caught.value).splitlines()) == 1


def test_a_scheduler_with_certificates_is_not_asked_without_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("flopcast.workers._ANSWER", 0.3)
    with pytest.raises(ParameterError, match=r"distributed\.comm\.tls"):
        fc.train(cluster="tls://127.0.0.1:9")


def test_versions_that_differ_and_packages_that_lack_are_found() -> None:
    def packages(**own: Any) -> dict[str, Any]:
        return {"packages": {"python": "3.11.7.final.0", **dict.fromkeys(PACKAGES, "1.0"), **own}}

    same = {
        "client": packages(),
        "scheduler": packages(),
        "workers": {"tcp://a:1": packages(dask="9")},
    }
    assert differences(same) == {}
    other = {
        "tcp://b:1": packages(numpy="1.1"),
        "tcp://c:1": packages(flopcast=None),
        "tcp://d:1": packages(),
    }
    found = differences({**same, "scheduler": packages(python="3.12.0.final.0"), "workers": other})
    assert {where: problem.split(",")[0] for where, problem in found.items()} == {
        "the scheduler": "has python 3.12.0.final.0",
        "worker tcp://b:1": "has numpy 1.1",
        "worker tcp://c:1": "has no flopcast",
    }


def gemms(seed: int = 0) -> pd.DataFrame:
    """Return GEMMs of 12 weights on two devices, the second about twice as fast."""
    rng = np.random.default_rng(seed)
    shapes = [
        (m, n, k)
        for n in (1024, 2048, 4096)
        for k in (512, 1024, 2048, 4096)
        for m in (16, 256, 4096)
    ]
    rows = [
        {"device": name, "op": "gemm", "dtype_a": "bf16", "m": m, "n": n, "k": k, "duration_us": us}
        for m, n, k in shapes
        for name, speed in (("MI300X", 1.0), ("MI355X", 0.5))
        for us in [speed * (5 + m * n * k / 3e8) * rng.uniform(0.9, 1.1)]
    ]
    return pd.DataFrame(rows)


def without_times(run: fc.Run) -> str:
    metrics = json.loads(json.dumps(run.metrics))
    for cv in metrics["cv"]:
        for row in cv["baselines"] + cv["models"]:
            row.pop("fit_seconds")
    metrics["provenance"].pop("date")
    return json.dumps(metrics)


def test_the_cpu_is_named_as_well_as_the_system_does(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text(
        "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nprocessor\t: 1\n", encoding="utf-8"
    )
    assert cpu_model(path) == "Some CPU @ 2 GHz"
    assert cpu_model(tmp_path / "missing")
