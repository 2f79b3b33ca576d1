"""What is not a kernel: few, physical constants with a distribution each, by software release.

A constant's logarithm is normal around its median (`constants.toml`); a release (`releases.toml`)
was calibrated on measured runs, which moves the medians and narrows them (`calibrate`). `factors`
draws factors on the medians.

A release is fitted to parts p_i of runs (seconds at the medians), whose forecast is Σ p_i ·
exp(z_i). The z have the normal prior, the logarithm of measured over forecast a normal error of
`RESIDUAL`; the maximum of the posterior is computed by least squares, and its covariance taken from
the curvature there (Laplace's approximation).
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import resources
from os.path import exists
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from ..arrays import FloatArray
from ..errors import DataError, FlopcastError, check_plain_file, nearest
from ..hardware.constants import Constant, read_constants
from ..hardware.lookup import read_toml
from ..output import MARK

DRAWS: Final = 512  # of a distribution
NORMAL: Final = NormalDist()
"""The standard normal distribution, of the standard library: importing SciPy's takes longer than a forecast."""


def each(function: Callable[[float], float], values: FloatArray) -> FloatArray:
    """Return a function of every value."""
    return np.array([function(one) for one in values.ravel().tolist()]).reshape(values.shape)


PRIORS: Final = read_constants(
    (resources.files("flopcast.workloads") / "constants.toml").read_text(encoding="utf-8")
)
"""Of constants.toml: medians and spreads before any measured run, and spreads by the distance of a forecast."""


def _group(name: str) -> dict[str, Constant]:
    return {
        key.removeprefix(f"{name}."): one
        for key, one in PRIORS.items()
        if key.startswith(f"{name}.")
    }


CONSTANTS: Final = _group("serving")  # in the order in which vectors of constants are written
TRAINING: Final = _group("training")  # the same of training frameworks
BY_KIND: Final = {"serving": CONSTANTS, "training": TRAINING}
_LARGEST_LOG: Final = 20.0  # of the logarithm of a factor on a median


@dataclass(frozen=True, kw_only=True)
class Release:
    """Constants of a software release, calibrated on measured runs.

    Attributes
    ----------
    name : str
        ``vllm-0.10.0``.
    gpu, models : str, tuple of str
        What the runs were measured on.
    mean, root : ndarray, shape (n,), (n, n)
        Of the logarithms of the factors on the medians: the mean, and a square root of the
        covariance.
    runs : int
        Measured runs behind it.
    largest : float
        Most sequences that ran at once in them.
    source : str
        Where they are from.
    kind : {"serving", "training"}
        Of the software: whose constants these are (`BY_KIND`).
    """

    name: str
    gpu: str
    models: tuple[str, ...]
    mean: FloatArray
    root: FloatArray
    runs: int
    source: str
    largest: float = 0.0
    kind: str = "serving"

    @property
    def constants(self) -> Mapping[str, Constant]:
        """The calibrated constants, in the order of `mean`."""
        return BY_KIND[self.kind]


def unknown_release(kind: str = "serving") -> Release:
    """Return the constants before any run: those of the table."""
    spread = np.array([one.spread for one in BY_KIND[kind].values()])
    start = np.zeros(len(spread))
    return Release(
        name="",
        gpu="",
        models=(),
        mean=start,
        root=np.diag(spread),
        runs=0,
        source="priors",
        kind=kind,
    )


def any_framework(slower: float | None = None) -> Release:
    """Return the constants of training before any run; an unknown framework may be slower as a whole.

    ``slower`` is the spread of the logarithm of that factor, by default `FRAMEWORK`.
    """
    start = unknown_release("training")
    common = np.full(start.root.shape, (FRAMEWORK if slower is None else slower) ** 2)
    return replace(start, root=np.linalg.cholesky(start.root**2 + common).astype(np.float64))


def factors(release: Release, draws: int, seed: int) -> FloatArray:
    """Return draws of the factors on the medians, shape (draws, n), by a Latin hypercube."""
    return np.exp(release.mean + standard_normal(len(release.mean), draws, seed) @ release.root.T)


@lru_cache(maxsize=8)
def standard_normal(dimensions: int, draws: int, seed: int) -> FloatArray:
    """Return standard normal draws, shape (draws, dimensions), read-only: the same for the same arguments.

    A Latin hypercube (McKay, Beckman and Conover, Technometrics 21(2), 1979): each dimension has
    one draw in each of as many equally probable strata, in a separate order.
    """
    rng = np.random.default_rng(seed)
    strata = rng.permuted(np.tile(np.arange(draws), (dimensions, 1)), axis=1).T
    normal = each(NORMAL.inv_cdf, (strata + rng.random((draws, dimensions))) / draws)
    normal.setflags(write=False)
    return normal


def middle_and_sides(level: float) -> list[float]:
    """Return the quantiles of the answer and of the limits of its interval: 0.5, lower, upper."""
    return [0.5, (1 - level) / 2, (1 + level) / 2]


def check_no_runs(release: str) -> None:
    """Refuse a file that is no release: a DataError says how to make one of the runs in it."""
    if release in shipped_releases() or release.endswith((".toml", ".parquet")):
        return
    if exists(release):
        check_plain_file(Path(release))
        raise DataError(
            "is no release: flopcast calibrate takes runs, and writes one (-o mine.toml, of serving "
            "-o mine.parquet)",
            source=release,
        )


def find_release(name: str, kind: str = "serving") -> Release:
    """Return a release by its name, or from a file of the user's (``mine.toml``, see `as_toml`).

    Raises DataError: there is none of that name (the message has the nearest), the file holds none,
    or it is one of another kind.
    """
    if name.endswith(".toml"):
        try:  # files change: it is read each time
            tables = read_toml(Path(name)).get("release", [])
            if not isinstance(tables, list) or len(tables) != 1:
                raise DataError(f"must hold one [[release]], holds {str(tables)[:40]}")
            release = read_release(tables[0])
        except (ValueError, OverflowError, TypeError, AttributeError, FlopcastError) as error:
            raise DataError(
                f"holds no release that flopcast calibrated: {error}", source=name
            ) from None
        if release.kind != kind:
            raise DataError(
                f"is calibrated on runs of {release.kind}, and this is {kind}", source=name
            )
        return release
    check_no_runs(name)
    if kind == "serving":
        releases = shipped_releases()
    else:
        releases = {}
    if not releases:
        raise DataError(
            f"unknown release {name!r}: of {kind} none is known but the file of your own "
            "(calibrate)"
        )
    if name.endswith(".parquet"):
        raise DataError(
            f"{name} has runs of serving: it answers where no batch is given (flopcast forecast "
            "--ttft ...)"
        )
    if name not in releases:
        raise DataError(
            f"unknown release {name!r}: {nearest(name, releases)} (or calibrate your own)"
        )
    return releases[name]


@cache
def shipped_releases() -> dict[str, Release]:
    """Return the releases of releases.toml, the oldest first."""
    text = (
        resources.files("flopcast.workloads").joinpath("releases.toml").read_text(encoding="utf-8")
    )
    return {one["name"]: read_release(one) for one in tomllib.loads(text).get("release", [])}


def read_release(table: dict[str, Any]) -> Release:
    """Return the release that a table of releases.toml, or of a file of the user, describes."""
    kind = str(table.get("kind", "serving"))
    if kind not in BY_KIND:
        raise DataError(f"a release is of {' or '.join(BY_KIND)}, not of {kind!r}")
    size = len(BY_KIND[kind])
    if missing := [
        key
        for key in ("name", "gpu", "models", "runs", "source", "mean", "root")
        if key not in table
    ]:
        raise DataError(f"a release lacks {', '.join(missing)}")
    mean, root = (np.asarray(table[key], dtype=np.float64) for key in ("mean", "root"))
    possible = mean.shape == (size,) and root.shape == (size, size)
    if not (
        possible and (np.abs(mean) < _LARGEST_LOG).all() and (np.abs(root) < _LARGEST_LOG).all()
    ):
        shapes = (
            f"mean must hold {size} numbers of less than {_LARGEST_LOG:g}, root as many rows of "
            "them"
        )
        raise DataError(f"release {table['name']!r:.40}: {shapes}")
    if not isinstance(table["models"], list) or not all(
        isinstance(one, str) for one in table["models"]
    ):
        raise DataError(f"release {table['name']!r:.40}: models must be a list of names")
    return Release(
        name=str(table["name"]),
        gpu=str(table["gpu"]),
        models=tuple(table["models"]),
        mean=mean,
        root=root,
        runs=int(table["runs"]),
        source=str(table["source"]),
        largest=float(table.get("largest", 0.0)),
        kind=kind,
    )


def widened(release: Release) -> Release:
    """Return a release as the prior of a similar one: its spread and that between the shipped releases.

    No two training frameworks ship: their spread is that of any framework.
    """
    if release.kind == "serving":
        between = np.cov(np.stack([one.mean for one in shipped_releases().values()]).T)
    else:
        between = any_framework().root @ any_framework().root.T
    spread = release.root @ release.root.T + between
    return replace(release, root=np.linalg.cholesky(spread).astype(np.float64))


def as_toml(release: Release) -> str:
    """Return a release as a table of releases.toml, which `find_release` reads."""
    lines = [f"# {MARK}", "[[release]]"]
    lines += [
        f"{key} = {json.dumps(getattr(release, key))}"
        for key in ("name", "kind", "gpu", "runs", "largest", "source")
    ]
    lines.append(f"models = {json.dumps(list(release.models))}")
    lines.append(f"mean = [{', '.join(f'{value:.4f}' for value in release.mean)}]")
    rows = []
    for row in release.root:
        rows.append(f"  [{', '.join(f'{value:.4f}' for value in row)}],")
    return "\n".join([*lines, "root = [", *rows, "]"]) + "\n"


FRAMEWORK: Final = PRIORS["distance.framework"].value
"""Of the logarithm of how many times longer a step takes in a framework as it comes than in a tuned one."""
STOCK: Final = PRIORS["framework.stock"]
"""How many times longer a step takes in a framework as it comes than in a tuned one."""
_ANY_FACTOR: Final = 10.0  # so wide that one run says all of how much slower its framework is
RESIDUAL: Final = PRIORS["distance.residual"].value
"""Standard deviation of the logarithm of measured over forecast within one release."""
RESIDUALS: Final = {"serving": RESIDUAL, "training": PRIORS["distance.own_step"].value}
"""The same by kind of release."""


def calibrate(
    parts: FloatArray,
    seconds: FloatArray,
    *,
    name: str,
    gpu: str,
    models: Sequence[str],
    source: str,
    largest: float = 0.0,
    kind: str = "serving",
    prior: Release | None = None,
) -> Release:
    """Return the constants of a release from its measured runs.

    Parameters
    ----------
    parts : ndarray, shape (runs, n)
        Seconds of each part of each run, in the order of the constants of its kind (`BY_KIND`).
    seconds : ndarray, shape (runs,)
        Measured.
    name, gpu, models, source, largest, kind
        Of the release (`Release`).
    prior : Release, optional
        Where to start: another release, which one or two runs of a new setting then sharpen. By
        default the priors.

    Raises
    ------
    DataError
        No runs, or a time that is not above zero.
    """
    # here: forecasts read what was fitted, and need not wait for it
    from scipy.optimize import least_squares

    seconds = np.asarray(seconds, dtype=np.float64)
    if not len(seconds) or not (np.isfinite(seconds).all() and (seconds > 0).all()):
        raise DataError("runs to calibrate with must have measured times above zero")
    start = prior or (any_framework(_ANY_FACTOR) if kind == "training" else unknown_release(kind))
    precision = np.linalg.pinv(start.root)

    def misfit(z: FloatArray) -> FloatArray:
        logs = np.log(parts @ np.exp(z) / seconds)
        return np.concatenate([logs / RESIDUALS[kind], precision @ (z - start.mean)])

    fit = least_squares(misfit, start.mean)
    slopes = np.asarray(fit.jac, dtype=np.float64)
    root = np.asarray(np.linalg.cholesky(np.linalg.inv(slopes.T @ slopes)), dtype=np.float64)
    return Release(
        name=name,
        gpu=gpu,
        models=tuple(dict.fromkeys(models)),
        mean=fit.x,
        root=root,
        runs=len(seconds) + (prior.runs if prior else 0),
        source=source,
        largest=max(largest, prior.largest if prior else 0.0),
        kind=kind,
    )


def as_rows(parts: Sequence[dict[str, float]], kind: str = "serving") -> FloatArray:
    """Return parts as an array, shape (runs, n), in the order of the constants of a kind."""
    names = BY_KIND[kind]
    table = []
    for one in parts:
        table.append([one[name] for name in names])
    return np.array(table, dtype=np.float64).reshape(-1, len(names))
