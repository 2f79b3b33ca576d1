"""How far the laws of communication are from what was measured.

``python -m flopcast.benchmarks.projection_communication`` projects the messages of one GPU to the
other, A100, H100, MI300X and MI355X in pairs and both directions, and never fits a model to the
messages it is judged by. It prints the ``[law_errors]`` of projection/links.toml.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from ..datasets.fetching import cache_folder
from ..errors import DataError
from ..hardware import GPU, find
from ..projection.collective_laws import (
    ALPHA_BETA,
    BANDWIDTH,
    KEPT,
    LATENCY,
    LINK,
    CommunicationLaw,
    Link,
    communication_factors,
    measured_links,
)
from .link_fitting import Timings, fit_link, folds_of
from .shared_data import run_on_data

NS_PER_US, US_PER_MS = 1e3, 1e3
AIC_RELEASE = "0.12.0"
TABLES = Path("aiconfigurator_core", "systems", "data")
ONE_SIDED = "one-sided"
LAWS = (ALPHA_BETA, ONE_SIDED, BANDWIDTH)
"""Laws that have an error in links.toml."""
A100, H100, MI300X, MI355X = "A100 80GB SXM4", "H100 SXM5", "MI300X", "MI355X"
PAIRS = (
    (A100, H100, "all_reduce", "ranks"),
    (A100, H100, "all_reduce", "octaves"),
    (A100, H100, "send_recv", "octaves"),
    (A100, MI300X, "all_reduce", "octaves"),
    (H100, MI300X, "all_reduce", "octaves"),
    (H100, MI355X, "all_reduce", "octaves"),
    (MI300X, MI355X, "all_reduce", "octaves"),
)
"""Two GPUs, what was measured on both, and what is left out of the fits at a time."""


@dataclass(frozen=True)
class Side:
    """A measured GPU: its messages, and how to count their steps."""

    gpu: GPU
    timings: Timings
    algorithm: str
    # of a mesh at untuned numbers of ranks (`Link.rings`)
    rings: Mapping[int, int] = field(default_factory=dict)
    fitted: dict[tuple[object, ...], Link] = field(default_factory=dict, compare=False)
    """Models of `fit_without`: a GPU is the host, then the target, and part of several pairs."""

    def fit_without(self, fold: float, collective: str, by: str, protocols: int) -> Link:
        """Return the model fitted to the other folds."""
        case = fold, collective, by, protocols
        if case not in self.fitted:
            kept = self.timings.transfer()
            kept = kept.take(folds_of(kept, by) != fold)
            self.fitted[case] = fit_link(
                kept, self.gpu, collective, self.algorithm, protocols=protocols, rings=self.rings
            )
        return self.fitted[case]


def projection_errors(
    host: Side, target: Side, collective: str, *, by: str, protocols: int = 2
) -> pd.DataFrame:
    """Return the error of every law on the target's messages, the models fitted without them on either GPU.

    Parameters
    ----------
    host, target : Side
        What is projected, and what to. The host's times are interpolated at the target's sizes, on
        logarithmic scales.
    collective : str
        What was measured on both.
    by : {"ranks", "octaves", "decades"}
        What is left out at a time, as in `link_fitting.held_out`.
    protocols : {1, 2}
        As in `link_fitting.fit_link`.

    Returns
    -------
    DataFrame
        One row per message measured on both: `fold`, `message_bytes`, `ranks`, `bound` (what takes
        most of the time on the target, by the alpha-beta model), then ln(projected / measured) by
        "alpha-beta", "one-sided" (the alpha-beta model with the host's fit alone), "bandwidth" and
        "kept".
    """
    messages, on_target, on_host = _common(host.timings.transfer(), target.timings.transfer())
    folds = folds_of(messages, by)
    parts = []
    for fold in np.unique(folds):
        rows = folds == fold
        links = [side.fit_without(fold, collective, by, protocols) for side in (host, target)]
        left = {
            "fold": fold,
            "message_bytes": messages.message_bytes[rows],
            "ranks": messages.ranks[rows],
        }
        activities = _activities(messages.take(rows), on_host[rows], collective)
        for name, law, host_links in _laws(links):
            said = communication_factors(activities, host.gpu, target.gpu, law, links=host_links)
            left[name] = np.log(said["factor"].to_numpy() * on_host[rows] / on_target[rows])
            if name == ALPHA_BETA:
                left["bound"] = said["bound"].to_numpy()
        parts.append(pd.DataFrame(left))
    return pd.concat(parts, ignore_index=True)


def _laws(links: list[Link]) -> list[tuple[str, CommunicationLaw, list[Link]]]:
    """Return name, law and models of every column of errors."""
    return [
        (ALPHA_BETA, ALPHA_BETA, links),
        (ONE_SIDED, ALPHA_BETA, links[:1]),
        (BANDWIDTH, BANDWIDTH, []),
        (KEPT, KEPT, []),
    ]


def _common(host: Timings, target: Timings) -> tuple[Timings, np.ndarray, np.ndarray]:
    """Return the target's messages that lie among the host's, with the times on the target and on the host."""
    on_host = np.full(len(target.time_us), np.nan)
    for n in np.intersect1d(host.ranks, target.ranks):
        rows, at_host = target.ranks == n, host.take(host.ranks == n)
        at, sizes = np.log(target.message_bytes[rows]), np.log(at_host.message_bytes)
        on_host[rows] = np.exp(
            np.interp(at, sizes, np.log(at_host.time_us), left=np.nan, right=np.nan)
        )
    both = ~np.isnan(on_host)
    messages = target.take(both)
    return messages, messages.time_us, on_host[both]


def _activities(messages: Timings, time_us: np.ndarray, collective: str) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "collective": collective,
            "name": "",
            "collective_bytes": messages.message_bytes,
            "group_size": messages.ranks,
            "duration_ns": time_us * NS_PER_US,
        }
    )


FOLDERS = {"VIDUR": Path("data", "network"), "RCCL-TESTS": Path("facts"), "MIT-ORCD": Path("facts")}
"""Source of a model -> where its files lie, beside the folder of measured data."""
OF_NCCL = {"all_to_all": "alltoall"}
"""What rccl-tests and AIConfigurator call a collective, where it is another name."""
HALF_BYTES = 2.0


def file_of(link: Link, data: Path) -> Path:
    """Return the file of measurements that a model of links.toml was fitted to."""
    key, name = link.source.split(": ")
    if key == "AIC":
        return cache_folder() / f"aiconfigurator-{AIC_RELEASE}" / TABLES / name
    return data.parent / FOLDERS[key] / name


def timings_of(link: Link, data: Path) -> Timings:
    """Return those measurements: within one node, and of groups whose ranks have the links of the model.

    Raises
    ------
    DataError
        The file is not there.
    """
    path = file_of(link, data)
    if not path.is_file():
        raise DataError("no such file of measured messages", source=str(path))
    collective = OF_NCCL.get(link.collective, link.collective)
    if path.suffix == ".parquet":
        return nccl_timings(path, collective)
    table = pd.read_csv(path)
    if "size_bytes" in table:
        table = table[table["collective"] == collective]
        columns = table["size_bytes"], table["gpus"], table["time_us"]
    else:
        table = table[
            (table["num_workers"] == table["devices_per_node"])
            & table["num_workers"].isin(link.ranks)
        ]
        columns = (
            table["size"],
            table["num_workers"],
            table[f"time_stats.{link.collective}.min"] * US_PER_MS,
        )
    return Timings(*(column.to_numpy(dtype=np.float64) for column in columns))


def nccl_timings(path: Path, collective: str) -> Timings:
    """Return the messages of a collective in a table of AIConfigurator: 16-bit numbers, the least of their times."""
    table = pd.read_parquet(path)
    table = table[(table["nccl_dtype"] == "half") & (table["op_name"] == collective)]
    least = table.groupby(["num_gpus", "message_size"])["latency"].min().reset_index()
    size = least["message_size"].to_numpy(dtype=np.float64) * HALF_BYTES
    ranks = least["num_gpus"].to_numpy(dtype=np.float64)
    return Timings(size, ranks, least["latency"].to_numpy(dtype=np.float64) * US_PER_MS)


def pair_errors(timings: Callable[[Link], Timings]) -> pd.DataFrame:
    """Return the errors of `PAIRS` in both directions, one row per message: as `projection_errors`, and which pair."""
    links = {(link.gpus[0], link.collective): link for link in measured_links()}
    measured = {(name, collective) for *pair, collective, _ in PAIRS for name in pair}
    side_of = {}
    for case in measured:
        link = links[case]
        side_of[case] = Side(find(link.gpus[0]), timings(link), link.algorithm, link.rings)
    parts = []
    for one, other, collective, by in PAIRS:
        sides = [side_of[name, collective] for name in (one, other)]
        protocols = len(links[one, collective].protocols)
        for host, target in (sides, sides[::-1]):
            errors = projection_errors(host, target, collective, by=by, protocols=protocols)
            parts.append(
                errors.assign(
                    collective=collective, by=by, pair=f"{host.gpu.name} {target.gpu.name}"
                )
            )
    return pd.concat(parts)


def summary(errors: pd.DataFrame) -> pd.Series:
    """Return the root mean square of the laws' errors; every pair and direction counts once.

    Those of `LAWS` are of messages whose bytes take most of the time; "latency" is that of all
    others.
    """
    by = [errors[name] for name in ("collective", "by", "pair")]
    squares = errors[list(LAWS)].pow(2)
    long = squares.where(errors["bound"] == LINK).groupby(by).mean().mean()
    short = squares[ALPHA_BETA].where(errors["bound"] == LATENCY).groupby(by).mean().mean()
    return pd.concat([long, pd.Series({LATENCY: short})]).pow(0.5)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the errors; return 0, also where there is nothing to measure against."""
    return run_on_data("projection_communication", __doc__, _show, arguments)


def _show(options: argparse.Namespace) -> None:
    errors = summary(pair_errors(lambda link: timings_of(link, options.data)))
    print("[law_errors]")
    for law in (*LAWS, LATENCY):
        print(f"{law.replace('-', '_')} = {errors[law]:.3f}")


if __name__ == "__main__":
    sys.exit(main())
