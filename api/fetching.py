"""Public tables as a result: where they lie and come from, and what they hold, counted in the files."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd

from ..datasets import fetching
from ..datasets.fetching import SOURCES, Wheel
from ..report.document import Document, lines
from ..report.result import Result, returning


class Fetched(Result, fetching.Fetched):
    """Public tables that are there: `datasets.fetching.Fetched`."""

    heading = "Public tables"

    @property
    def table(self) -> pd.DataFrame:
        """One row: folder, origin, and how many there are of what the tables hold."""
        return pd.json_normalize(self.to_dict())

    def document(self) -> Document:
        """Return the folder, the origin and the counts for readers."""
        counts = counted(self.name, self)
        said = [f"{name}: {value}" for name, value in counts.items()]
        return Document(opening=[lines(said)], data=counts)


fetch = returning(Fetched, fetching.fetch)


def counted(name: str, fetched: fetching.Fetched) -> dict[str, Any]:
    """Return the ``folder`` of fetched tables, where they come from, and how many there are of what they hold.

    Of a repository that is its ``url`` and ``commit``; of a wheel its ``project``, ``version``,
    ``sha256`` and ``licence``, whether it stands ``instead`` of a repository, and why that was
    ``missed``. Then the counts: of AITER ``rows`` by kind of kernel and GPU; of AIConfigurator
    ``tables``, ``rows``, ``devices``, ``engines``, ``runs`` and ``models``; of MIOpen ``files``,
    whose rows take long to count. Raises DataError: the tables cannot be read.
    """
    origin = fetched.origin
    counts: dict[str, Any] = {"folder": fetched.folder}
    if isinstance(origin, Wheel):
        counts |= {one: getattr(origin, one) for one in ("project", "version", "sha256", "licence")}
        counts |= {"instead": SOURCES[name].repository is not None, "missed": fetched.missed}
    else:
        counts |= {"url": origin.url, "commit": origin.commit}
    if name == "aiter":
        return counts | _aiter(fetched.folder)
    if name == "aiconfigurator":
        return counts | _aiconfigurator(fetched.folder)
    return counts | {"files": sum(one.is_file() for one in fetched.folder.iterdir())}


def _aiter(folder: Path) -> dict[str, Any]:
    from ..readers import read  # here: what reads tables takes most of a second to import

    frame = read([folder]).frame
    kinds = Counter(zip(frame["op"] + " " + frame["family"], frame["device"], strict=True))
    rows: dict[str, dict[str, int]] = {}
    for (kind, device), count in sorted(kinds.items()):
        rows.setdefault(kind, {})[device] = count
    return {"rows": rows}


def _aiconfigurator(folder: Path) -> dict[str, Any]:
    import pyarrow.parquet as pq  # here: the other tables need nothing of it

    data = folder / "systems" / "data"
    tables = [path.relative_to(data) for path in data.rglob("*.parquet")]
    with (folder / "systems" / "silicon_sample.csv").open(encoding="utf-8", newline="") as lines:
        runs = list(csv.DictReader(lines))
    configurations = [one.name for one in (folder / "model_configs").iterdir()]
    return {
        "tables": len(tables),
        "rows": sum(pq.read_metadata(data / one).num_rows for one in tables),
        "devices": sorted({one.parts[0] for one in tables}),
        "engines": sorted({one.parts[2] for one in tables}),
        "runs": len(runs),
        "models": len(
            {one.removesuffix("_config.json").removesuffix("_hf_quant") for one in configurations}
        ),
    }
