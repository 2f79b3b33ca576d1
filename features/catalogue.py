"""Every feature by its stable name; ``python -m flopcast.features.catalogue`` prints docs/features.md from this table.

To add a feature, add a line: name, unit, role, formula, function of a `Context`; then print the
page anew. Those of one operator are in its record (`operators.op.Op.features`). A kernel's library
family (`kernel_family`) is a feature too, read off its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from ..laws.bounds import quantise
from ..laws.serving_steps import TPOT_PARTS, TRAITS, TTFT_PARTS
from ..operators.kinds.launched import LAUNCHED, WHOLE
from ..operators.kinds.serving_run import METRICS, SERVING
from ..operators.op import OwnFeature
from ..operators.operators import OPS
from ..table.measurements import OWN
from .context import Coded, Context, Device

_CUT = re.compile(r"[<(]| \[clone")
_TILE = re.compile(r"^(?:MT|t|BK|bk)?\d+x\d+")
_NUMBERS = re.compile(r"^[\dx.]+$")
_TENSILE = re.compile(r"_MT([1-9]\d*)x([1-9]\d*)x([1-9]\d*)(_MI\d)?")


def kernel_family(name: str) -> str:
    """Return the part of a kernel's name that stays when only its tile and tuning change; "" for "".

    Template arguments and parameter lists are cut off, mangled names
    (``_ZN5aiter41f4gemm_bf16_...E``) reduced to their last part, and the name ends before its first
    tile size (``256x16x64x256``, ``MT64x32x32``, ``t16x64x128``: Composable Kernel, Tensile and
    FlyDSL, ROCm 6 and 7). MIOpen's solver names have none of these and stay.

    >>> kernel_family("a8w8_blockscale_1x128x128_256x16x64x256_16x16_16x16_1x1_intrawave_v1")
    'a8w8_blockscale'
    >>> kernel_family("Cijk_Ailk_Bljk_SB_MT64x32x32_MI16x16x4x1_SN_1LDSB1")
    'Cijk_Ailk_Bljk_SB'
    """
    bare = _demangled(name.strip()).replace("(anonymous namespace)::", "")
    plain = _CUT.split(bare, maxsplit=1)[0].removeprefix("void ").strip()
    kept: list[str] = []
    for word in plain.split("_"):
        if kept and (_TILE.match(word) or _NUMBERS.match(word)):
            break
        kept.append(word)
    return "_".join(kept).rstrip("_")


def _demangled(name: str) -> str:
    """Return the innermost name of a mangled one: lengths precede the parts, ``_ZN5aiter41f4gemm...E``."""
    if not name.startswith("_Z"):
        return name
    rest = re.sub(r"^_ZN?K?", "", name)
    part = ""
    while match := re.match(r"(\d+)", rest):
        length = int(match[1])
        start = match.end()
        part = rest[start : start + length]
        rest = rest[start + length :]
    return part or name


Role = Literal["additive", "shape", "category"]
Needs = Literal["", "host", "measured", "prior", "no figures"]
WITHOUT_WORK = frozenset({LAUNCHED, *WHOLE})  # operators without stated work
APART = WITHOUT_WORK | {SERVING}  # operators with separate features only
_WITHOUT_WORK = (
    "prior.",
    "log2.prior",
    "host_",
    "log2.host_us",
    "law.flops",
    "law.bandwidth",
    "counter.",
    OWN,
)
"""How names of features begin that need no work."""
PERIODIC = ("tail.", "twos.")
"""How names of remainders and exponents begin: they come round as a dimension grows and have no range to leave."""


@dataclass(frozen=True)
class Feature:
    """A numerical column of the matrix; ``.host`` and ``.target`` in its stable name say the device.

    `unit` is ``us``, ``log2`` (binary logarithm), ``1`` (ratio or count) or ``0/1``. Additive
    features (`role`) are times (or counts that cost time) that may stand in a sum with non-negative
    weights. `formula` is for the reader of docs/features.md, `compute` goes from a `Context` to an
    array of shape (n_rows,). It needs nothing, the specification of a ``host``, what a ``prior``
    predicts, what was ``measured`` there, or that ``no figures`` of the device are published, and
    enters only when all rows are of the operators `ops`, and one of the `metrics` is predicted;
    empty for all.
    """

    name: str
    unit: str
    role: Role
    formula: str
    compute: Callable[[Context], np.ndarray]
    needs: Needs = ""
    ops: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    def applies(self, context: Context) -> bool:
        """Whether every row of the context can have it."""
        if self.ops and not context.ops <= set(self.ops):
            return False
        if context.ops <= APART and not self.ops and not self.name.startswith(_WITHOUT_WORK):
            return False
        if self.metrics and context.metric not in self.metrics:
            return False
        return _available(self.needs, context)


@dataclass(frozen=True)
class Category:
    """Words that become one 0/1 column per level, ``name=level``; fields as those of `Feature`, `compute` to words.

    Levels with fewer rows than `share` become ``other``; 0 keeps all.
    """

    name: str
    formula: str
    compute: Callable[[Context], Coded]
    needs: Needs = ""
    share: float = 0.0

    def applies(self, context: Context) -> bool:
        """Whether every row of the context can have it."""
        return _available(self.needs, context)


def _available(needs: Needs, context: Context) -> bool:
    available = {
        "": True,
        "host": context.has_host,
        "measured": context.has_host and context.has_measured,
        "prior": context.has_prior,
        "no figures": not context.has_host and not context.has_figures,
    }
    return available[needs]


def _both(
    name: str, unit: str, role: Role, formula: str, compute: Callable[[Device], np.ndarray]
) -> Iterator[Feature]:
    """Return a feature of the target and one of the host; ``{}`` in the name stands for the device."""
    yield Feature(
        name.format("target"), unit, role, formula.format("target"), lambda c: compute(c.target)
    )
    yield Feature(
        name.format("host"), unit, role, formula.format("host"), lambda c: compute(c.host), "host"
    )


def _tail(side: str, tile: int) -> Callable[[Context], np.ndarray]:
    return lambda c: np.mod(getattr(c.work, side), tile) / tile


def _twos(side: str) -> Callable[[Context], np.ndarray]:
    def exponent(context: Context) -> np.ndarray:
        whole = np.rint(getattr(context.work, side)).astype(np.int64)
        return np.minimum(np.log2(whole & -whole), 10.0)

    return exponent


def _of_operators() -> Iterator[Feature]:
    """Yield the features that operators' records define for their rows."""
    ops: dict[OwnFeature, list[str]] = {}
    for op in OPS.values():
        for feature in op.features:
            ops.setdefault(feature, []).append(op.name)
    for feature, names in ops.items():
        yield Feature(
            feature.name,
            feature.unit,
            feature.role,
            feature.formula,
            feature.compute,
            ops=tuple(names),
        )


def _sides() -> Iterator[Feature]:
    for side in ("m", "n", "k"):
        for tile in (16, 32, 64, 128, 256):
            yield Feature(
                f"tail.{side}.{tile}",
                "1",
                "shape",
                f"({side} mod {tile}) / {tile}",
                _tail(side, tile),
            )
        formula = f"exponent of the largest power of two that divides {side}, at most 10"
        yield Feature(f"twos.{side}", "1", "shape", formula, _twos(side))


_OTHER_TILES = ((16, 64), (32, 64), (64, 64), (64, 128), (256, 128))
"""Macro tiles of usual kernels beside 128 x 128; which one runs changes with the size of the output."""


def _waves_of(tile: tuple[int, int]) -> Callable[[Context], np.ndarray]:
    return lambda c: np.log2(quantise(c.work, c.target.cus, tile).waves)


def _wave_efficiency_of(tile: tuple[int, int]) -> Callable[[Context], np.ndarray]:
    return lambda c: quantise(c.work, c.target.cus, tile).wave_efficiency


def _other_tiles() -> Iterator[Feature]:
    """Return features of the target alone; those of the host would only slow trees down."""
    for tile in _OTHER_TILES:
        name = f"{tile[0]}x{tile[1]}"
        words = f"{tile[0]} x {tile[1]} tiles on the target"
        yield Feature(
            f"log2.waves.{name}.target", "log2", "shape", f"log2(waves): {words}", _waves_of(tile)
        )
        formula = f"tiles / (waves CUs): {words}"
        yield Feature(
            f"wave_efficiency.{name}.target", "1", "shape", formula, _wave_efficiency_of(tile)
        )


def _macro_tile(part: int) -> Callable[[Context], np.ndarray]:
    """Return log2 of a side of the tile that the host's kernel is named after, or (part 4) if it uses matrix cores."""

    def compute(c: Context) -> np.ndarray:
        codes, names = c.coded("host_kernel")
        tiles = [_TENSILE.search(str(name)) for name in names]
        if part == 4:
            return np.array([float(bool(tile and tile[4])) for tile in tiles])[codes]
        return np.array([np.log2(float(tile[part])) if tile else 0.0 for tile in tiles])[codes]

    return compute


def _side(name: str) -> Callable[[Context], np.ndarray]:
    return lambda c: getattr(c.work, name)


def _serving() -> Iterator[Feature]:
    """Yield the parts of serving, each as a time and as a share of their sum, and what else tells settings apart."""
    of_metric = {"tpot": TPOT_PARTS, "ttft": TTFT_PARTS}
    for which, parts in of_metric.items():
        others = [name for name in of_metric if name != which]
        metrics = tuple(
            name for name in ("duration_us", *METRICS) if not name.startswith(tuple(others))
        )
        for name, meaning in parts.items():

            def part(c: Context, which: str = which, name: str = name) -> np.ndarray:
                return getattr(c.serving, which)[name]

            def share(c: Context, which: str = which, name: str = name) -> np.ndarray:
                every = getattr(c.serving, which)
                return every[name] / np.sum([*every.values()], axis=0)

            of = (SERVING,)
            yield Feature(
                f"{which}.{name}", "ms", "additive", meaning, part, ops=of, metrics=metrics
            )
            yield Feature(
                f"share.{which}.{name}",
                "1",
                "shape",
                f"{which}.{name} / sum of its kind",
                share,
                ops=of,
                metrics=metrics,
            )
    for name, meaning in TRAITS.items():

        def trait(c: Context, name: str = name) -> np.ndarray:
            return c.serving.traits[name]

        title = f"serving.{name}"
        unit = "1"
        if name.startswith("log2."):
            title = f"log2.serving.{name.removeprefix('log2.')}"
            unit = "log2"
        yield Feature(title, unit, "shape", meaning, trait, ops=(SERVING,))


_FIT = "quantised to whole waves of the CUs of the {}"
CATALOGUE: tuple[Feature, ...] = (
    # times, in microseconds: they may stand in a sum
    Feature(
        "host_us",
        "us",
        "additive",
        "duration measured on the host",
        lambda c: c.host_us,
        "measured",
    ),
    *_both("compute.{}_us", "us", "additive", "flops / peak of the {}", lambda d: d.compute_us),
    *_both(
        "memory.{}_us",
        "us",
        "additive",
        "bytes / memory bandwidth of the {}",
        lambda d: d.memory_us,
    ),
    Feature(
        "flops",
        "1",
        "additive",
        "FLOPs, where no figure of the device is published",
        lambda c: c.work.flops,
        "no figures",
    ),
    Feature(
        "bytes",
        "1",
        "additive",
        "bytes, where no figure of the device is published",
        lambda c: c.work.bytes,
        "no figures",
    ),
    *_both(
        "roofline.{}_us",
        "us",
        "additive",
        "max(compute, memory) on the {}",
        lambda d: d.roofline_us,
    ),
    *_both(
        "tiles.{}_us",
        "us",
        "additive",
        f"compute, {_FIT}: best tile and split of k",
        lambda d: d.compute_us * d.best_fit.stretch,
    ),
    *_both(
        "tiles128.{}_us",
        "us",
        "additive",
        f"compute, {_FIT}: 128 x 128 tiles",
        lambda d: d.compute_us * d.fit.stretch,
    ),
    *_both(
        "waves.{}",
        "1",
        "additive",
        "ceil(tiles / CUs) on the {}: 128 x 128 tiles",
        lambda d: d.fit.waves,
    ),
    *_both(
        "one_tile.{}_us",
        "us",
        "additive",
        "2 x 128 x 128 x k / peak of one CU of the {}: depth of a tile",
        lambda d: 2 * 128 * 128 * d.work.k * d.cus / (d.peaks * 1e6),
    ),
    Feature(
        "law.flops_us",
        "us",
        "additive",
        "host_us peak_host / peak_target",
        lambda c: c.law("FLOPS scaling"),
        "measured",
    ),
    Feature(
        "law.bandwidth_us",
        "us",
        "additive",
        "host_us bandwidth_host / bandwidth_target",
        lambda c: c.law("bandwidth scaling"),
        "measured",
    ),
    Feature(
        "law.roofline_us",
        "us",
        "additive",
        "host_us roofline_target / roofline_host",
        lambda c: c.law("roofline scaling"),
        "measured",
    ),
    # size and shape, as products of m x k and k x n
    Feature(
        "log2.host_us", "log2", "shape", "log2(host_us)", lambda c: np.log2(c.host_us), "measured"
    ),
    Feature(
        "log2.flops", "log2", "shape", "log2(flops), flops >= bytes / 64", lambda c: c.log_flops
    ),
    Feature("log2.bytes", "log2", "shape", "log2(bytes)", lambda c: np.log2(c.work.bytes)),
    Feature(
        "log2.intensity",
        "log2",
        "shape",
        "log2(flops / bytes), at least -6",
        lambda c: c.log_flops - np.log2(c.work.bytes),
    ),
    Feature(
        "log2.batch", "log2", "shape", "log2(number of products)", lambda c: np.log2(c.work.batch)
    ),
    Feature("log2.m", "log2", "shape", "log2(m)", lambda c: np.log2(c.work.m)),
    Feature("log2.n", "log2", "shape", "log2(n)", lambda c: np.log2(c.work.n)),
    Feature("log2.k", "log2", "shape", "log2(k)", lambda c: np.log2(c.work.k)),
    *(Feature(side, "1", "shape", side, _side(side)) for side in ("m", "n", "k")),
    Feature(
        "log2.output",
        "log2",
        "shape",
        "log2(batch m n)",
        lambda c: np.log2(c.work.batch * c.work.m * c.work.n),
    ),
    Feature(
        "log2.input",
        "log2",
        "shape",
        "log2(batch m k)",
        lambda c: np.log2(c.work.batch * c.work.m * c.work.k),
    ),
    Feature(
        "log2.weights",
        "log2",
        "shape",
        "log2(batch n k)",
        lambda c: np.log2(c.work.batch * c.work.n * c.work.k),
    ),
    *_both(
        "log2.roofline.{}",
        "log2",
        "shape",
        "log2(max(compute, memory)) on the {}",
        lambda d: np.log2(d.roofline_us),
    ),
    *_both(
        "log2.ridge.{}",
        "log2",
        "shape",
        "log2(compute / memory) on the {}: above 0 compute-bound",
        lambda d: np.log2(d.ridge),
    ),
    # what a run over other devices says
    Feature(
        "prior.target_us",
        "us",
        "additive",
        "what the prior predicts for the target",
        lambda c: c.prior,
        "prior",
        metrics=("duration_us",),
    ),
    Feature(
        "log2.prior.target",
        "log2",
        "shape",
        "log2(prior.target_us)",
        lambda c: np.log2(c.prior),
        "prior",
        metrics=("duration_us",),
    ),
    # efficiency on the host
    Feature(
        "he.host",
        "1",
        "shape",
        "compute.host_us / host_us",
        lambda c: c.host.compute_us / c.host_us,
        "measured",
    ),
    Feature(
        "bandwidth_efficiency.host",
        "1",
        "shape",
        "memory.host_us / host_us",
        lambda c: c.host.memory_us / c.host_us,
        "measured",
    ),
    Feature(
        "log2.slowdown.host",
        "log2",
        "shape",
        "log2(host_us / roofline.host_us)",
        lambda c: np.log2(c.host_us / c.host.roofline_us),
        "measured",
    ),
    # tiles and waves
    Feature(
        "tile_efficiency",
        "1",
        "shape",
        "m n / area of its 128 x 128 tiles",
        lambda c: quantise(c.work, 1).tile_efficiency,
    ),
    *_both(
        "wave_efficiency.{}",
        "1",
        "shape",
        "tiles / (waves CUs) on the {}: 128 x 128 tiles",
        lambda d: d.fit.wave_efficiency,
    ),
    *_both(
        "best_tile_efficiency.{}",
        "1",
        "shape",
        f"useful part of the compute time, {_FIT}: best tile and split",
        lambda d: 1 / d.best_fit.stretch,
    ),
    *_both(
        "log2.tiles_per_cu.{}",
        "log2",
        "shape",
        "log2(tiles / CUs) on the {}: 128 x 128 tiles",
        lambda d: np.log2(d.fit.wave_efficiency * d.fit.waves),
    ),
    *_other_tiles(),
    *_sides(),
    *(
        Feature(
            f"log2.macro_tile_{side}.host",
            "log2",
            "shape",
            f"log2(side {side} of the macro tile of the host's Tensile kernel, by its name), 0 "
            "where it names none",
            _macro_tile(part),
            "measured",
        )
        for part, side in enumerate("01k", start=1)
    ),
    Feature(
        "matrix_instructions.host",
        "0/1",
        "shape",
        "the host's Tensile kernel, by its name, uses matrix cores",
        _macro_tile(4),
        "measured",
    ),
    *_of_operators(),
    *_serving(),
)
"""Numerical features; where two are proportional in the data, the first is kept."""
OF_KERNEL_NAME: Final = (
    *(f"log2.macro_tile_{side}.host" for side in "01k"),
    "matrix_instructions.host",
)
"""Those read off the name of the host's kernel: of a row that does not name it they are unknown."""


def _words(column: str) -> Callable[[Context], Coded]:
    def stated(c: Context) -> Coded:
        codes, words = c.coded(column)
        return codes, np.where(words == "", "none", words)

    return stated


def _variant(c: Context) -> Coded:
    """Return the variants; of collectives without numbers ("combine num_experts=128"), which have few rows each."""
    return c.coded_pair(("op", "variant"), _variant_of)


def _variant_of(op: str, variant: str) -> str:
    if op == "collective":
        variant = " ".join(word for word in variant.split() if "=" not in word)
    return variant or "none"


def _dtypes(c: Context) -> Coded:
    return c.coded_pair(("dtype_a", "dtype_b"), lambda a, b: a if a == b else f"{a}x{b}")


def _host_kernel(c: Context) -> Coded:
    codes, names = c.coded("host_kernel")
    return codes, np.array([kernel_family(name) or "none" for name in names], dtype=object)


def _host_campaign(c: Context) -> Coded:
    """Return the search that chose the host's kernel; words of files that hold no winners of one are chance."""
    codes, names = c.coded(HOST_CAMPAIGN)
    words = np.array([*(name or "none" for name in names), "none"], dtype=object)
    if "tuned" not in c.frame:
        return np.full(len(c), len(names)), words
    return np.where(c.frame["tuned"].to_numpy(dtype=bool), codes, len(names)), words


HOST_CAMPAIGN = "host_campaign"
"""The category that a row may have at a new level and still be like the training rows: a name of a file."""
CATEGORIES: tuple[Category, ...] = (
    Category("op", "operator", _words("op")),
    Category("dtype", "precision of the inputs: dtype_a, or dtype_a x dtype_b", _dtypes),
    Category("dtype_out", "precision of the result", _words("dtype_out")),
    Category("direction", "direction of a convolution: F, B, W", _words("direction")),
    Category("layout", "memory layout", _words("layout")),
    Category("scale_block", "scales of narrow types", _words("scale_block")),
    Category("family", "library family of the kernel search", _words("family"), share=0.01),
    Category(
        "variant",
        "what else tells problems apart; of collectives its words alone",
        _variant,
        share=0.01,
    ),
    Category("engine", "engine that serves", _words("engine")),
    Category("client", "what measured a run of serving", _words("client"), share=0.01),
    Category(
        "host_library", "library that ran on the host", _words("host_library"), "measured", 0.01
    ),
    Category(
        "host_kernel",
        "family of the kernel or solver that ran on the host",
        _host_kernel,
        "measured",
        0.01,
    ),
    Category(
        HOST_CAMPAIGN,
        "search (its file) that chose the host's kernel",
        _host_campaign,
        "measured",
        0.01,
    ),
)
"""Words; levels are those of the training rows."""
BY_NAME: dict[str, Feature] = {feature.name: feature for feature in CATALOGUE}


def explained_by(name: str) -> tuple[str, str, str]:
    """Return category, unit and meaning of a column of the matrix.

    >>> explained_by("memory.target_us")
    ('time', 'us', 'bytes / memory bandwidth of the target')
    >>> explained_by("op=gemm"), explained_by("counter.SQ_WAVES")
    (('word', '0/1', 'operator'), ('counter', '1', 'hardware counter'))
    """
    feature = BY_NAME.get(name)
    if feature is not None:
        return "time" if feature.unit == "us" else feature.role, feature.unit, feature.formula
    word = next((one for one in CATEGORIES if name.startswith(f"{one.name}=")), None)
    if word is not None:
        return "word", "0/1", word.formula
    if name.startswith(BASELINE_INPUT):
        return "rule", "", of_rule(name).formula
    if name.startswith("counter.launch."):
        return "launch", "1", "registers or memory of a kernel, as its launch states"
    if name.startswith(OWN):
        return ("own", "1", user_column(name, host=False).formula)
    if "counter." in name:
        return ("counter", "1", "hardware counter")
    return ("other", "", "")


def extra_metric(metric: str) -> Feature:
    """Return the host's value of a metric other than time, as an additive feature ``host_<metric>``."""
    unit = metric.rsplit("_", 1)[-1]
    return Feature(
        f"host_{metric}",
        unit,
        "additive",
        f"{metric} measured on the host",
        lambda c: c.measured(metric),
        "measured",
    )


BASELINE_INPUT: Final = "rule."
"""How the name of the column begins that a simple rule reads which was selected, and is no feature of the models."""


def of_rule(name: str) -> Feature:
    """Return the input of a simple rule (`Context.rule`) as a column ``rule.NAME``; it has no unit."""
    what = name.removeprefix(BASELINE_INPUT)
    return Feature(name, "1", "shape", f"what the rule {what} says", lambda c: c.rule(what))


def counter(name: str, host: bool) -> Feature:
    """Return a hardware counter (a column of the table) as an additive feature, ``counter.NAME``.

    It was collected on a host, or else in the run whose time is predicted.
    """
    return Feature(
        name,
        "1",
        "additive",
        "hardware counter",
        lambda c: c.counter(name),
        "measured" if host else "",
    )


def user_column(name: str, *, host: bool) -> Feature:
    """Return a column that the user added (``own.NAME``) as an additive feature; of its rows with a host."""
    return Feature(
        name,
        "1",
        "additive",
        "a column of the user",
        lambda c: c.user_column(name),
        "measured" if host else "",
    )


def page() -> str:
    """Return docs/features.md."""
    lines = [
        "# Features",
        "",
        "Printed from `features/catalogue.py` by `python -m flopcast.features.catalogue > "
        "docs/features.md`.",
        "",
        "Every operator is seen as `batch` products of m x k and k x n (`operators/operators.py`: "
        "a convolution as its",
        "implicit GEMM, attention as one product per head, rows x cols for vector operators), so "
        "tables of mixed",
        "operators have no gaps. FLOPs, bytes and their sources are in the docstrings of "
        "`operators/`. A column",
        "enters the matrix when all rows can have it; constant and proportional columns are left "
        "out, and the recipe",
        "of the model records them.",
        "",
        "Role *additive*: may stand in a sum of times. Needs *host*: the host's specification; "
        "*measured*: a",
        "measurement on the host (missing in models of one device, and in rows without a "
        "partner); *prior*: a run over",
        "other devices that training starts from; *no figures*: a device of which nothing is published.",
        "",
        "| name | unit | role | formula | needs | operators |",
        "|---|---|---|---|---|---|",
        *(
            f"| `{f.name}` | {f.unit} | {f.role} | {f.formula} | {f.needs} | "
            f"{', '.join(f.ops) or 'all'} |"
            for f in CATALOGUE
        ),
        "",
        "For a metric other than `duration_us`, `host_<metric>` (additive) is the host's own "
        "value of it.",
        "Hardware counters enter as `counter.NAME` (additive) where every row has them: those of "
        "the run on the host,",
        "or with one device those of the run itself that count events: counters of cycles, of "
        "units busy or stalled,",
        "are that run's own time in another unit, and left out. `counter.launch.NAME` is no "
        "count: what the launch",
        "of a kernel states, of which nothing else is stated (vgpr, accum_vgpr, sgpr, lds_bytes, "
        "scratch_bytes).",
        "",
        "Columns of your own (`features=`, see [the guide](guides/own_models.md)) enter as `own.NAME` "
        "(additive), of the",
        "run on the host where there is one.",
        "",
        "## Categories",
        "",
        "One 0/1 column per level, `name=level`. Where a share is given, rarer levels are `other`.",
        "",
        "| name | level | needs | least share of rows |",
        "|---|---|---|---|",
        *(
            f"| `{c.name}` | {c.formula} | {c.needs} | {f'{c.share:.0%}' if c.share else ''} |"
            for c in CATEGORIES
        ),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(page(), end="")
