"""What ``metrics.json`` and ``predictions.parquet`` of a run must be, whoever wrote them: types, ranges, columns.

Readers take what is named here as given. Other keys and columns are kept as they are; what older
runs do not have may be missing.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

Text = Annotated[str, Meta(max_length=100_000)]
Count = Annotated[int, Meta(ge=0, lt=2**53)]
Percent = Annotated[float, Meta(ge=0)]
Number = float
Share = Annotated[float, Meta(ge=0, le=1)]
Level = Annotated[float, Meta(gt=0, lt=1)]
NUMBERS: Final = ("row", "observed", "predicted", "ape", "fold")
TEXTS: Final = ("scheme", "model", "group")
"""Columns of ``predictions.parquet`` that every run has; each baseline has one more, of numbers."""


class Remarked(Struct):
    """A remark as JSON (`remarks.Remark`)."""

    code: Text
    text: Text = ""


class Model(Struct):
    """A row of a table of models: a baseline or a model under one scheme."""

    name: Text
    e_out: Percent | None = None
    e_out_groups: Percent | None = None
    e_in: Percent | None = None
    median_ape: Percent | None = None
    max_ape: Percent | None = None
    ir: dict[str, Percent | None] | None = None
    features_selected: Count | None = None
    features_available: Count | None = None
    fit_seconds: Percent | None = None
    space: Text | None = None
    left: Remarked | None = None
    error: Text | None = None


class Part(Struct):
    """The error of some kind of rows, and the standard deviation of its logarithm."""

    e_out: Percent
    sigma: Percent


class Selected(Struct):
    """The model that was selected under a scheme, with its honest error."""

    name: Text
    e_out: Percent | None = None
    e_out_groups: Percent | None = None
    e_out_table: Percent | None = None
    interval: tuple[Number, Number] | None = None
    level: Level | None = None
    parts: dict[str, Part] | None = None
    method: Text | None = None
    tied: list[Text] | None = None
    best_model: Selected | None = None


class Forest(Struct):
    """The errors of a forest of so many trees."""

    trees: Annotated[int, Meta(ge=1, le=2**20)]
    e_out: Percent | None
    e_in: Percent | None
    ir: dict[str, Percent | None]


class Irregular(Struct):
    """A spike, or a problem whose repeats disagree."""

    source: Text
    factor: Number
    beside: Text


class Regular(Struct):
    """Errors on the workloads of a scheme that are not irregular."""

    rows: Count
    irregular: Count
    e_out: dict[str, Percent | None]


class Scheme(Struct):
    """An entry of ``cv``."""

    scheme: Text
    folds: Count | None = None
    baselines: list[Model] = []
    models: list[Model] = []
    selected: Selected | None = None
    trees: list[Forest] | None = None
    regular: Regular | None = None


class Noise(Struct):
    """The noise of repeated measurements of one workload."""

    kind: Text
    workloads: Count
    spread: Percent
    floor: Percent


class Data(Struct):
    """``data``: what was trained on."""

    n: Count | None = None
    groups: Count | None = None
    campaigns: Count | None = None
    noise: Noise | None = None
    features_available: Count | None = None
    host: Text | None = None
    target: Text | None = None
    metric: Text | None = None
    sha256: Text | None = None
    unpaired_host: Count | None = None
    unpaired_target: Count | None = None
    slower_kernels: Count | None = None
    without_metric: Count | None = None
    metric_not_positive: Count | None = None
    without_operator: Count | None = None
    rejected: dict[str, Count] | None = None
    rejected_at: dict[str, Text] | None = None
    notes: list[Text] | None = None
    irregular: list[Irregular] | None = None


class Chosen(Struct):
    """``model``: the one that was saved."""

    name: Text
    scheme: Text


class Campaigns(Struct):
    """``campaigns``: the families of groups, and the error in a new one."""

    resampled: bool = False
    new: Scheme | None = None


class Group(Struct):
    """An entry of ``groups``, or of those that intervals covered least."""

    group: Any
    campaign: Text | None = None
    n: Count = 0
    rows: Count = 0
    e_out: Percent | None = None
    baseline_e_out: Percent | None = None
    rule: Text | None = None
    rule_e_out: Percent | None = None
    coverage: Share | None = None


class Covered(Struct):
    """The coverage of the intervals of a scheme."""

    coverage: Share | None = None
    median_relative_width: Percent | None = None
    rows: Count = 0
    rows_beyond: Count = 0
    worst_groups: list[Group] | None = None


class Beyond(Covered):
    """The same of ranges of size that were left out."""

    e_out: Percent | None = None
    e_out_model: Percent | None = None
    e_out_affine: Percent | None = None
    fade: Annotated[float, Meta(ge=0, le=64)] = 0.0
    rule: Text = ""


class Widths(Struct):
    """How much wider some intervals are than others."""

    widths: tuple[Number, Number]
    features: list[Text]


class Intervals(Covered):
    """``intervals``."""

    level: Level | None = None
    schemes: dict[str, Beyond] | None = None
    outside: Remarked | None = None
    difficulty: Widths | None = None


class Ranked(Struct):
    """An entry of ``ranking``."""

    feature: Text
    measure: Text
    value: Number | None = None
    significant: bool | None = None
    selected: Count | None = None
    folds: Count | None = None
    sign: Text | None = None


class Speedup(Struct):
    """``speedup``: what the target costs, and what a prediction does."""

    n: Count
    without_cost: Count = 0
    passes: Count = 0
    mean: Number = 0.0
    least: Number = 0.0
    most: Number = 0.0
    target_s: Number = 0.0
    host_s: Number = 0.0
    counters_s: Number = 0.0
    model_s: Number = 0.0
    training_s: Number | None = None
    break_even: Count | None = None


class File(Struct):
    """A file that was trained on."""

    name: Text
    bytes: Count
    sha256: Text


class Machine(Struct):
    """Where a run was made."""

    cpu: Text
    cores: Count | None
    os: Text
    python: Text


class Provenance(Struct):
    """``provenance``: how, from what and where a run was made."""

    command: Text
    files: list[File]
    where: list[Text]
    date: Text
    machine: Machine
    seed: int | None = None
    versions: dict[str, Text] | None = None


class Metrics(Struct):
    """``metrics.json``."""

    data: Data
    cv: list[Scheme]
    model: Chosen
    intervals: Intervals | None = None
    ranking: list[Ranked] | None = None
    groups: list[Group] | None = None
    campaigns: Campaigns | None = None
    provenance: Provenance | None = None
    versions: dict[str, Text] | None = None
    speedup: Speedup | None = None


def check_metrics(content: Any) -> None:
    """Raise msgspec's ValidationError, which names the place, if content is no `Metrics` or repeats a scheme."""
    metrics = msgspec.convert(content, Metrics)
    names = [cv.scheme for cv in metrics.cv]
    if len(set(names)) < len(names):
        raise msgspec.ValidationError("two entries of one scheme - at `$.cv`")
    for cv in metrics.cv:
        if cv.selected and cv.selected.name not in {
            row.name for row in (*cv.baselines, *cv.models)
        }:
            raise msgspec.ValidationError(
                "the model that was selected is not in the table - at `$.cv`"
            )
    if not any(cv.scheme == metrics.model.scheme and cv.selected for cv in metrics.cv):
        raise msgspec.ValidationError(
            "no model was selected under the scheme of the saved one - at `$.model`"
        )
