"""Fixtures shared by the tests."""

from __future__ import annotations

import difflib
import gc
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

if TYPE_CHECKING:  # the process that hands out the tests runs none, and imports none of these
    from flopcast.readers import Measurements
    from flopcast.traces.summary import Annotated

ROOT = Path(__file__).parents[1]
MANY_RUNS = 1000

# there is a worker a core: "all cores" in a test are its own one
os.environ.setdefault("LOKY_MAX_CPU_COUNT", "1")
# Neither a deadline nor `too_slow`: how long an example takes decides nothing.
settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")
# Examples would hold constants of the modules that a worker happens to have imported, each parsed for them. The name is
# not public (Hypothesis 6.170): where it is another, examples are as they are without this.
if hasattr(providers, "_get_local_constants") and hasattr(providers, "Constants"):
    providers._get_local_constants = providers.Constants


@pytest.fixture(scope="session", autouse=True)
def few_folds() -> Iterator[tuple[tuple[int, int], ...]]:
    """Let trainings have two folds, not ten: of most only the run is needed. Return what they have by default."""
    from flopcast.evaluation import competition

    default = competition.FOLDS
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(competition, "FOLDS", ((0, 2),))
        yield default


@pytest.fixture(scope="session", autouse=True)
def factors_kept() -> Iterator[None]:
    """Factor the covariances of the runs that a serving model was learnt from once for all tests of a process."""
    from flopcast.workloads import serving_model

    factor_of = serving_model.factor_of
    kept: dict[tuple[object, ...], tuple[Any, bool]] = {}

    def once(runs: Any, shares: Any, fit: Any) -> tuple[Any, bool]:
        if len(shares) < MANY_RUNS:
            return factor_of(runs, shares, fit)
        key = (len(shares), shares.sum(), fit.noise, fit.terms.tobytes(), fit.lengths.tobytes())
        if key not in kept:
            if len(kept) == len(serving_model.TIMES):
                kept.pop(next(iter(kept)))
            kept[key] = factor_of(runs, shares, fit)
        return kept[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serving_model, "factor_of", once)
        yield


@pytest.fixture(scope="session", autouse=True)
def parameters_kept() -> Iterator[None]:
    """Look up the parameters of each class of estimators once for all tests of a process.

    For every tree of a forest scikit-learn reads the signature of its class twice.
    """
    from sklearn.base import BaseEstimator

    look_up: Any = cache(vars(BaseEstimator)["_get_param_names"].__func__)
    with pytest.MonkeyPatch.context() as patch:
        names_of = classmethod(lambda kind: [*look_up(kind)])
        patch.setattr(BaseEstimator, "_get_param_names", names_of)
        yield


@pytest.fixture(scope="session")
def all_folds(few_folds: tuple[tuple[int, int], ...]) -> Callable[[], AbstractContextManager[None]]:
    """Return a context in which trainings have as many folds as they have by default."""

    @contextmanager
    def whole() -> Generator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("flopcast.evaluation.competition.FOLDS", few_folds)
            yield

    return whole


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of measured data beside the checkout; skip where it is missing."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the measured data (../shared/data) are not on this machine")
    return folder


@pytest.fixture(scope="session")
def aiter_data(shared_data: Path) -> Measurements:
    """Read the tuned kernels of AITER once for all tests of a process."""
    from flopcast.readers import read

    return read([shared_data / "aiter"])


@pytest.fixture(scope="session")
def miopen_data(shared_data: Path) -> Measurements:
    """Read the convolutions of MIOpen once for all tests of a process."""
    from flopcast.readers import read

    return read([shared_data / "miopen"])


@pytest.fixture(scope="session")
def kineto(shared_data: Path) -> Callable[[str], Annotated]:
    """Return a function that reads a trace of ``profiles/kineto``, each once for all tests of a process."""
    from flopcast.readers import Options, TraceFailure, read_traces

    @cache
    def trace(name: str) -> Annotated:
        path = shared_data / "profiles" / "kineto" / f"{name}.json.gz"
        [(_, found)] = read_traces([path], options=Options(calls=True, ranges=True))
        assert not isinstance(found, TraceFailure)
        return found

    return trace


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run some tests without tracing: long ones, of benchmarks, pages, damaged files, with drawn or measured data.

    The share of lines covered is that of the others, the same on every machine. Tracing nearly doubles the time of
    what calls many small functions, those of other packages included; these tests repeat them most.
    """
    for item in items:
        drawn = getattr(getattr(item, "function", None), "is_hypothesis_test", False)
        apart = item.path.parent.name in ("benchmarks", "browser", "fuzz")
        if (
            drawn
            or apart
            or item.get_closest_marker("long")
            or "shared_data" in getattr(item, "fixturenames", ())
        ):
            item.add_marker("no_cover")
    # by one process, which begins with their tests
    read_once = {"miopen_data", "aiter_data", "kineto"}
    items.sort(key=lambda item: not read_once & set(getattr(item, "fixturenames", ())))


def pytest_collection_finish() -> None:
    """Leave what the imports and the collection made out of every later search for garbage, and search less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Let a worker send one message for a test that passed, not six: the terminal shows no more of it."""
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


def pytest_unconfigure() -> None:
    """Search for garbage once at the end, for warnings of what was left open: pytest searches five times more."""
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="Write tests/golden anew: review the diff."
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function that holds a text against ``tests/golden/NAME``, blanks at the ends of lines aside.

    It fails with the lines that differ; ``pytest --update-golden`` writes the file instead.
    """

    def check(name: str, text: str) -> None:
        path, found = (
            ROOT / "tests" / "golden" / name,
            [line.rstrip() for line in text.strip("\n").splitlines()],
        )
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text("\n".join(found) + "\n", encoding="utf-8")
        kept = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        lines = difflib.unified_diff(kept, found, f"tests/golden/{name}", "now", lineterm="")
        if difference := "\n".join(lines):
            pytest.fail(f"{difference}\n(as it should be? pytest --update-golden)", pytrace=False)

    return check
