"""Find a GPU: by name or alias, by gfx id and CU count, or in the user's TOML file; and what others measured on it.

`measured` gives the part of the published peaks that real kernels reach.
"""

from __future__ import annotations

import csv
import difflib
import itertools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final
from unicodedata import normalize

from ..errors import DataError, UnknownGPUError, check_plain_file
from .spec import FIGURES, GPU, PEAKS, read_table

_MAKERS = ("amd", "nvidia", "instinct", "radeon", "tesla", "geforce", "quadro")
_LINKS = ("link_bw_gbs", "p2p_uni_gbs")
_NOT_INHERITED = ("name", "aliases", "same_id_as", "based_on", "sources", "confidence", "note")


@dataclass(frozen=True)
class Source:
    """Where figures come from: title, address, and how much of it was read."""

    title: str
    url: str
    read: str


def all_gpus() -> list[GPU]:
    """Return the GPUs of the catalogue in the order of hardware/gpus.toml: by maker, then by generation."""
    return list(_catalogue().values())


@cache
def sources() -> dict[str, Source]:
    """Return the sources by the key that `GPU.sources` uses."""
    return {key: Source(**source) for key, source in _data()["source"].items()}


def word_of(value: Any) -> Any:
    """Return what tables call a GPU; anything else as it is.

    >>> word_of(find("mi300x")), word_of("gemm")
    ('MI300X', 'gemm')
    """
    if isinstance(value, GPU):
        return find(value).name
    return value


def find(name_or_path: str | Path | GPU) -> GPU:
    """Return the GPU of that name, alias, or TOML file (`read_gpu`), or a GPU; see `renamed_if_changed`.

    Case, hyphens and the maker's words do not matter: ``mi300x``, ``AMD_Instinct_MI355X_OAM``,
    ``AMD Instinct MI300X VF``. What a driver reports for one of several devices in a package is
    that device: ``AMD Instinct MI250X`` is one GCD, ``MI250X`` the package. A name that fits
    several GPUs (``A100``, ``gfx942``) is refused. Raises UnknownGPUError: no GPU answers to the
    name, with the closest ones; DataError: the file cannot be read or describes no GPU.
    """
    if isinstance(name_or_path, GPU):
        return renamed_if_changed(name_or_path)
    text = str(name_or_path)
    if text.casefold().endswith(".toml"):
        return read_gpu(Path(text))
    return _find_published(text)


def others_named(name: str) -> list[str]:
    """Return the other GPUs of the catalogue that a short name could mean, in the order of the data file.

    >>> find("H100").name, others_named("H100"), others_named("H100 SXM5")
    ('H100 SXM5', ['H100 PCIe'], [])
    """
    meant = _names().get(_plain(name))
    longer = [gpu.name for gpu in all_gpus() if _plain(gpu.name).startswith(f"{_plain(name)} ")]
    if meant is None or _plain(meant) == _plain(name):
        return []
    return [full for full in longer if full != meant]


def find_gfx(gfx: str, cus: int | None = None) -> GPU:
    """Return the GPU that reports this gfx id and CU count.

    The id is of NVIDIA the compute capability; feature suffixes do not matter. Without ``cus`` it
    must belong to one GPU alone. Some GPUs cannot be distinguished this way. Then it is the one
    with the larger public record: MI300X (not MI325X), MI355X (not MI350X), MI210 (not one GCD of
    an MI250). `GPU.same_id_as` of the others says so. Raises UnknownGPUError: none or several fit;
    carries the GPUs of that gfx id, or of the closest.
    """
    wanted = gfx.strip().casefold().split(":")[0]
    of_gfx = [gpu for gpu in all_gpus() if gpu.gfx == wanted]
    fit = [
        gpu
        for gpu in of_gfx
        if not gpu.same_id_as and (cus is None or (gpu.cus or gpu.reported_cus) == cus)
    ]
    if len(fit) == 1:
        return fit[0]
    close = difflib.get_close_matches(
        wanted, sorted({gpu.gfx for gpu in all_gpus()}), n=2, cutoff=0.6
    )
    near = fit or of_gfx or [gpu for listed in close for gpu in all_gpus() if gpu.gfx == listed]
    raise UnknownGPUError(
        gfx if cus is None else f"{gfx} with {cus} CUs", [gpu.name for gpu in near][:5]
    )


def read_gpu(path: Path) -> GPU:
    """Read a GPU of the user from a TOML file.

    The keys are those of hardware/gpus.toml, without its ``[gpu.NAME]`` heading; ``based_on`` names
    a GPU of the catalogue whose figures hold for every key not given, those of `in_proportion` in proportion
    to what is given; no other is recomputed from another. Without ``name`` it is that of the file;
    one that GPUs of the catalogue answer to is followed by ``(your own)``::

        name = "MI375X"
        based_on = "MI355X"
        memory_bw_gbs = 10000
        peak_tflops.fp8_matrix = 6000

    Raises DataError if the file cannot be read, a key is wrong, or ``based_on`` is no GPU of the catalogue;
    names the file and the key.
    """
    where = str(path)
    table = read_toml(path)
    base_name = table.pop("based_on", None)
    if not isinstance(base_name, str | None):
        raise DataError(
            f"based_on must be the name of a GPU in quotes, got {base_name!r}", source=where
        )
    described = read_table(table, where)
    if base_name is None and not described.get("peaks") and not FIGURES.keys() & described.keys():
        raise DataError("has no figure: give some, or `based_on` a known GPU", source=where)
    given: dict[str, Any] = {"name": path.stem, "sources": (path.name,), **described}
    if base_name is None:
        return renamed_if_changed(GPU(**given))
    try:
        base = _find_published(base_name)
    except UnknownGPUError as error:
        raise DataError(f"based_on: {error}", source=where) from error
    inherited = {
        item.name: getattr(base, item.name)
        for item in fields(base)
        if item.name not in _NOT_INHERITED
    }
    given["peaks"] = {**base.peaks, **described.get("peaks", {})}
    given["sources"] = (*given["sources"], f"{base.name}: what the file does not give")
    scaled = in_proportion(base, described)
    scaled_links = [f"{name} in proportion to what the file gives of the links" for name in scaled]
    given["note"] = "; ".join(
        words for words in (described.get("note", ""), *scaled_links) if words
    )
    whole: dict[str, Any] = {**inherited, **scaled, **given, "based_on": base.name}
    return renamed_if_changed(GPU(**whole))


def renamed_if_changed(gpu: GPU) -> GPU:
    """Return a GPU, named as the user's where the catalogue's of that name has other figures.

    One that has what is published, and figures beside it that are not, keeps the name.

    >>> from dataclasses import replace
    >>> renamed_if_changed(replace(find("MI300X"), memory_bw_gbs=1.0)).name, renamed_if_changed(find("MI300X")).name
    ('MI300X (your own)', 'MI300X')
    """
    for canonical in _answering(gpu.name):
        published_gpu = _catalogue()[canonical]
        same_peaks = published_gpu.peaks.items() <= gpu.peaks.items()
        published = [getattr(published_gpu, name) for name in FIGURES]
        given = [getattr(gpu, name) for name in FIGURES]
        same_figures = all(
            old is None or old == new for old, new in zip(published, given, strict=True)
        )
        if not same_peaks or not same_figures:
            return replace(gpu, name=f"{gpu.name} (your own)")
    return gpu


def in_proportion(gpu: GPU, changed: Mapping[str, Any]) -> dict[str, float]:
    """Return what else changes with some figures of a GPU.

    The bandwidth of all links and that between two GPUs are of the same links: where one of them
    changes and nothing is said of the other, that changes in proportion.

    >>> in_proportion(find("MI300X"), {"link_bw_gbs": 896.0})
    {'p2p_uni_gbs': 128.0}
    """
    given = [name for name in _LINKS if name in changed]
    if len(given) != 1:
        return {}
    (other,) = (name for name in _LINKS if name not in given)
    ours = getattr(gpu, given[0])
    others = getattr(gpu, other)
    if ours is None or others is None:
        return {}
    return {other: others * changed[given[0]] / ours}


_MOST_BYTES = 2**20


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a small TOML file of the user's; a DataError says why it cannot be read."""
    check_plain_file(path)
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES)
            if file.read(1):
                raise DataError(
                    f"has more than {_MOST_BYTES} bytes: no file of settings has", source=str(path)
                )
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", source=str(path)) from error
    except ValueError as error:  # of the name
        raise DataError(f"cannot be read: {error}", source=str(path)) from error
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"is not valid TOML: {error}", source=str(path)) from error


@cache
def _data() -> dict[str, Any]:
    text = resources.files("flopcast.hardware").joinpath("gpus.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def _catalogue() -> dict[str, GPU]:
    """Return the GPUs of the data file by canonical name."""
    return {
        name: GPU.from_dict({"name": name, **table}, "gpus.toml")
        for name, table in _data()["gpu"].items()
    }


@cache
def _names() -> dict[str, str]:
    """Return the canonical name of every spelling in `_plain` form; the data file wins over what is derived."""
    written = {}
    for gpu in all_gpus():
        for name in (gpu.name, *gpu.aliases):
            written[(_plain(name))] = gpu.name
    return {
        _bare(name): gpu for name, gpu in written.items() if _bare(name) not in written
    } | written


def _find_published(name: str) -> GPU:
    """Return the GPU of the data file that has this name or alias."""
    answering = _answering(name)
    if len(answering) > 1:
        raise UnknownGPUError(name, answering, several=True)
    if not answering:  # those that begin with the name, else those spelled most alike; five at most
        names = _names()
        bare = _bare(_plain(name))
        starts = [gpu for full, gpu in names.items() if bare and _bare(full).startswith(bare)]
        alike = difflib.get_close_matches(bare, names, n=3, cutoff=0.6)
        raise UnknownGPUError(
            name, list(dict.fromkeys(starts or (names[full] for full in alike)))[:5]
        )
    return _catalogue()[answering[0]]


def _answering(name: str) -> list[str]:
    """Return the GPUs of the data file that a name means: by name or alias one, by gfx id or a short name several."""
    names = _names()
    plain = _plain(name)
    bare = _bare(plain)
    canonical = names.get(plain) or names.get(bare)
    if canonical is not None:
        return [canonical]
    if plain.startswith("gfx"):
        return [gpu.name for gpu in all_gpus() if gpu.gfx == plain.split(":")[0]]
    if not bare:
        return []
    longer = [gpu.name for gpu in all_gpus() if _plain(gpu.name).startswith(f"{bare} ")]
    if len(longer) > 1:
        return longer
    return []


_LATIN: Final = str.maketrans("авеѕіјкмнорстхαβεζηικμνορτυχ", "abesijkmhopctxabezhikmnoptyx")
"""Cyrillic and Greek letters in lower case, whose capitals look like Latin ones -> these."""


def _plain(name: str) -> str:
    """Return `name` in lower case, words separated by one space, without what a driver adds to it.

    That is the mark of a virtual function, and the form factor: drivers of AMD say "AMD Instinct
    MI300X OAM" on some systems and leave the last word out on others
    (github.com/vllm-project/vllm/pull/13438). Letters that look like Latin ones are those.
    """
    letters = normalize("NFKC", name).casefold().translate(_LATIN)
    words = re.sub(r"[\s_()-]+", " ", letters).strip()
    return words.removesuffix(" vf").removesuffix(" oam")


def _bare(plain: str) -> str:
    """Return `plain` without the maker's words in front."""
    return " ".join(itertools.dropwhile(_MAKERS.__contains__, plain.split()))


# Published measurements: `measured.csv`, beside the specifications.


@dataclass(frozen=True)
class Ceiling:
    """One published measurement of a GPU: the metric is ``gemm_fp8``, ``hbm_copy``, ``allreduce_busbw_8gpu``, ...

    `figure` is the figure of the GPU it is a part of (``fp8_matrix``, ``memory_bw_gbs``), empty
    where there is none; `unit` TFLOPS, TOPS or GB/s; `method`, `conditions` and `source` say how
    and by whom it was measured; `confidence` is "high", "medium" or "low".
    """

    gpu: str
    metric: str
    value: float
    unit: str
    figure: str
    method: str
    conditions: str
    source: str
    confidence: str

    def share(self, gpu: GPU) -> float | None:
        """Return the measurement as a part of the published figure of `gpu` (1 = all of it), None where it has none."""
        if not self.figure:
            return None
        spec: float | None = (
            gpu.peaks.get(self.figure) if self.figure in PEAKS else getattr(gpu, self.figure)
        )
        if spec:
            return self.value / spec
        return None


def measured(gpu: str, metric: str | None = None) -> list[Ceiling]:
    """Return the measurements published of a GPU, of one metric or of all; empty where there are none.

    Raises UnknownGPUError if no GPU answers to the name.
    """
    name = find(gpu).name
    return [row for row in _rows() if row.gpu == name and metric in (None, row.metric)]


@cache
def _rows() -> tuple[Ceiling, ...]:
    text = resources.files("flopcast.hardware").joinpath("measured.csv").read_text(encoding="utf-8")
    return tuple(
        Ceiling(value=float(row.pop("value")), **row) for row in csv.DictReader(text.splitlines())
    )
