"""What each GPU activity is: compute, communication or copy, and the class of operation it belongs to.

The operator that launched an activity knows best, then the kernel's name. Both are looked up in
``patterns.toml``, where every pattern stands with the library and version whose names it was
written for. In this order:

1. A copy or fill (``kind`` memcpy or memset, or a kernel with which the ROCm runtime does one) is
   of kernel class copy. Its op class is that of the operator it serves (the zeroed workspace of a
   matrix product is part of the product), where the operator is more than a copy itself; else
   memcpy or memset.
2. A kernel with a collective's arguments, or with an unmistakable name (RCCL, NCCL, custom
   all-reduce).
3. The innermost operator that has a class, walking up `op_stack`. A helper kernel of an operator (a
   split-K reduction under aten::mm, im2col or a transpose under a convolution) thereby counts with
   its operator. A compiled region says nothing, nor does what encloses it: the walk ends there.
4. The kernel's name.

What nothing matches has op class "" and kernel class other; `unclassified` lists it by its share of
the time.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd

from ..arrays import IntArray
from .dispatches import KERNEL, MEMCPY, MEMSET

KERNEL_CLASS = "kernel_class"
OP_CLASS = "op_class"
COMPUTE = "compute"
COLLECTIVE = "collective"
# columns that decide, besides whether there is a collective
_CASE = ("kind", "name", "op_name", "op_stack")
_DECORATION = re.compile(r"^void |(?<!\.kd)(?: \[clone [^\[\]]*\]|\.kd)++$")
"""What HIP and its profilers put around a kernel's name."""


@dataclass(frozen=True)
class Rule:
    """One entry of ``patterns.toml``: its class, and expressions searched in operators' and in kernels' names.

    The whole operator stack must match `within` besides; `first`: the kernel's name decides before
    the operator.
    """

    op_class: str
    operator: re.Pattern[str] | None
    kernel: re.Pattern[str] | None
    within: re.Pattern[str] | None
    first: bool


def classify(table: pd.DataFrame) -> pd.DataFrame:
    """Return the classes of every activity of a dispatch table, indexed as it is.

    `kernel_class` (compute, communication, copy or other) and `op_class` (see `op_classes`; ""
    where nothing says it).
    """
    codes, cases = _cases(table)
    classes = [_classes_of(*case) for case in cases]
    columns = {}
    for position, name in enumerate((KERNEL_CLASS, OP_CLASS)):
        levels = np.array([pair[position] for pair in classes], dtype=object)
        columns[name] = pd.Series(levels[codes], index=table.index, dtype=object).astype("str")
    return pd.DataFrame(columns, index=table.index)


def unclassified(table: pd.DataFrame, classes: pd.DataFrame) -> pd.DataFrame:
    """Return the kernels that no pattern matches, by the classes of `classify`, the longest total time first.

    Columns `name`, `op_name`, `count`, `duration_us` and `share` of the time of all kernels of the
    table, 0 to 1; NaN where they took none. Negative durations count as zero.
    """
    kernels = (table["kind"] == KERNEL).to_numpy()
    unknown = kernels & (classes[OP_CLASS] == "").to_numpy()
    time_us = np.maximum(table["duration_ns"].to_numpy(dtype=np.int64), 0) / 1e3
    whole = float(time_us[kernels].sum())
    rows = table.loc[unknown, ["name", "op_name"]].astype("str").reset_index(drop=True)
    groups = rows.assign(duration_us=time_us[unknown]).groupby(["name", "op_name"], sort=False)
    listed = groups["duration_us"].agg(count="size", duration_us="sum").reset_index()
    listed["share"] = listed["duration_us"] / (whole or np.nan)
    order = ["duration_us", "count"]
    return listed.sort_values(
        order,
        ascending=False,
        kind="stable",
        ignore_index=True,
    )


def bare_name(name: str) -> str:
    """Return a kernel's name without the additions of HIP and its profilers: equal for all of them.

    >>> bare_name("void at::native::sum_kernel<float>(float*) [clone .kd]")
    'at::native::sum_kernel<float>(float*)'
    """
    return _DECORATION.sub("", name)


@cache
def op_classes() -> dict[str, str]:
    """Return every op class with its meaning, the same dictionary each time."""
    return dict(_data()["classes"])


@cache
def rules() -> tuple[Rule, ...]:
    """Return the rules in the order of trial; a ValueError for a class that is not described."""
    described = op_classes()
    wrong = [entry["class"] for entry in _data()["rule"] if entry["class"] not in described]
    if wrong:
        raise ValueError(f"patterns.toml: no class {wrong[0]!r} in [classes]")
    parsed = []
    for entry in _data()["rule"]:
        both = entry.get("name", [])
        operators = [*entry.get("operator", []), *both]
        kernels = [*entry.get("kernel", []), *both]
        if "aten" in entry:  # operators of PyTorch itself, their gradients and in-place forms
            operators.append(rf"^aten::(?:{'|'.join(entry['aten'].split())})(?:_backward)?_?$")
        if "fused" in entry:  # Inductor's pointwise kernels that fuse these operators only
            kernels.append(rf"^triton_poi_fused(?:_(?:{'|'.join(entry['fused'].split())}))+_\d+$")
        within = _either([entry["within"]] if "within" in entry else [])
        patterns = (_either(operators), _either(kernels), within)
        parsed.append(Rule(entry["class"], *patterns, entry.get("first", False)))
    return tuple(parsed)


def _either(patterns: Iterable[str]) -> re.Pattern[str] | None:
    """Return one expression for all patterns; a leading ``(?i)`` is confined to its pattern."""
    parts = [f"(?i:{part[4:]})" if part.startswith("(?i)") else f"(?:{part})" for part in patterns]
    if parts:
        return re.compile("|".join(parts))
    return None


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(
        resources.files("flopcast.traces").joinpath("patterns.toml").read_text(encoding="utf-8")
    )


@cache
def _opaque() -> re.Pattern[str]:
    return re.compile("|".join(_data()["opaque"]))


@cache
def _kernel_class_of() -> dict[str, str]:
    classes = dict[str, str]()
    for kernel, ops in _data()["kernel_classes"].items():
        classes |= dict.fromkeys(ops, kernel)
    return classes


def _cases(table: pd.DataFrame) -> tuple[IntArray, list[tuple[str, str, str, str, bool]]]:
    """Return a case number per row and, for each case, the inputs of its class: traces repeat a few launches."""
    codes = np.asarray(table["collective"] != "", dtype=np.int64)
    for column in _CASE:
        level_codes, levels = pd.factorize(table[column], use_na_sentinel=False)
        codes = pd.factorize(codes * max(len(levels), 1) + level_codes)[0].astype(np.int64)
    firsts = np.full(int(codes.max()) + 1 if len(codes) else 0, -1, dtype=np.int64)
    firsts[codes[::-1]] = np.arange(len(codes))[::-1]
    rows = table[[*_CASE, "collective"]].iloc[firsts]
    words = [rows[column].astype("str").tolist() for column in _CASE]
    return codes, list(zip(*words, (rows["collective"] != "").tolist(), strict=True))


def _classes_of(
    kind: str, name: str, op_name: str, op_stack: str, collective: bool
) -> tuple[str, str]:
    """Return the kernel class and the op class of one case."""
    unmistakable = kind
    if kind == KERNEL:
        unmistakable = _of_kernel(name, True)
    operator = _of_stack(op_name, op_stack)
    if unmistakable in (MEMCPY, MEMSET):
        served = unmistakable
        if operator in _data()["keeps_helpers"]:
            served = operator
        return _kernel_class_of()[unmistakable], served
    op_class = unmistakable or operator or _of_kernel(name, False)
    if collective:
        op_class = COLLECTIVE
    return _kernel_class_of().get(op_class, COMPUTE), op_class


@lru_cache(maxsize=100_000)
def _of_stack(op_name: str, op_stack: str) -> str:
    """Return the class of the innermost operator that has one, "" where none has."""
    names = [name for name in op_stack.split(";") if name]
    if op_name and (not names or names[-1] != op_name):
        names.append(op_name)
    for rule in rules():
        if not names or not rule.within or not rule.operator:
            continue
        if rule.operator.search(names[-1]) and rule.within.search(op_stack):
            return rule.op_class
    for name in reversed(names):
        if _opaque().search(name):
            return ""
        op_class = _of_operator(name)
        if op_class:
            return op_class
    return ""


@lru_cache(maxsize=100_000)
def _of_operator(name: str) -> str:
    for rule in rules():
        if rule.operator and not rule.within and rule.operator.search(name):
            return rule.op_class
    return ""


@lru_cache(maxsize=100_000)
def _of_kernel(name: str, first: bool) -> str:
    """Return the class by the kernel's name, from the rules that decide first or from the others."""
    bare = bare_name(name)
    for rule in rules():
        if rule.first is first and rule.kernel and rule.kernel.search(bare):
            return rule.op_class
    return ""
