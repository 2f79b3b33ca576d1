"""Fitted estimators as bytes and back, without running any code that the bytes bring along.

What the suite is made of is stored as plain arrays (:mod:`flopcast.models.plain`); other estimators, and all of earlier
versions, in skops' format (a zip of JSON and ``.npy`` files, no pickle). Three gates stand before a file becomes an
object: only the node kinds a model needs, only the types on the allow-lists, and, for the compiled predictors that
index memory without checks (trees, LightGBM's boosters, support vectors), only indices that stay inside their arrays. A
file names classes by their modules: `MOVED` says where those of earlier versions stand now.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import io
import json
import re
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn._loss._loss import CyAbsoluteError
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.ensemble._base import BaseEnsemble
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.tree import BaseDecisionTree
from sklearn.tree._tree import TREE_LEAF, Tree

from ..errors import ArtifactError
from . import plain
from .learners import Boosted

_HOLDS_TREES = (BaseEnsemble, BaseDecisionTree, HistGradientBoostingRegressor, HistGradientBoostingClassifier)


def misfits(model: Any) -> Iterator[str]:
    """Yield, in words, each array inside a fitted estimator that compiled code would follow out of bounds.

    Its attributes, lists, tuples, dicts and object arrays are searched.
    """
    pending: list[tuple[Any, int | None]] = [(model, None)]  # an object, and how many features reach the trees in it
    seen: set[tuple[int, int | None]] = set()
    while pending:
        item, width = pending.pop()
        if (id(item), width) in seen:
            continue
        seen.add((id(item), width))
        if isinstance(item, Tree):
            width = item.n_features if width is None else width
            if not plain.links_fit(item.children_left, item.children_right, item.feature, width):
                yield "a tree points outside itself"
        elif isinstance(item, TreePredictor):
            if not _predictor_fits(item.nodes, width or 0):
                yield "a boosted tree points outside itself"
        elif isinstance(item, BaseEstimator):
            if hasattr(item, "support_vectors_") and not _support_vectors_fit(item):
                yield "support vectors and their coefficients differ in number"
            if isinstance(item, Boosted) and "text_" in vars(item):
                try:
                    item.native()
                except (AttributeError, TypeError, ValueError) as error:
                    yield f"a boosted tree is not as LightGBM writes it ({error})"
            inside = _width(item, width)
            pending.extend((value, inside) for value in vars(item).values())
        else:
            pending.extend((value, width) for value in _parts(item))


def _width(estimator: BaseEstimator, outer: int | None) -> int | None:
    """Return how many features the trees of an estimator may use: never more than the ensemble around it was given."""
    if not isinstance(estimator, _HOLDS_TREES):
        return None
    own = int(vars(estimator).get("n_features_in_", 0))
    return own if outer is None else min(own, outer)


def _predictor_fits(nodes: np.ndarray, width: int) -> bool:
    """As `plain.links_fit` for a histogram-boosted tree; categorical splits, which index more arrays, do not fit."""
    left, right, feature = (nodes[name].astype(np.int64) for name in ("left", "right", "feature_idx"))
    left[nodes["is_leaf"].astype(bool)] = TREE_LEAF
    return plain.links_fit(left, right, feature, width) and not nodes["is_categorical"].any()


def _support_vectors_fit(machine: Any) -> bool:
    """Whether support vector regression has one index and one coefficient per vector, and vectors as wide as X."""
    count, width = machine.support_vectors_.shape
    coefficients = {machine.dual_coef_.shape, machine._dual_coef_.shape}
    regresses = machine._n_support.size == 2 and machine._intercept_.size == 1 and coefficients == {(1, count)}
    return regresses and machine.support_.shape == (count,) and width == machine.n_features_in_


def _parts(item: Any) -> list[Any]:
    if isinstance(item, dict):
        return list(item.values())
    if isinstance(item, list | tuple | set):
        return list(item)
    if isinstance(item, np.ndarray):
        return item.ravel().tolist() if item.dtype == object else []
    return list(vars(item).values()) if dataclasses.is_dataclass(item) and not isinstance(item, type) else []


_OURS = __name__.rpartition(".")[0]
"""The package whose estimators a file may hold: ``flopcast.models``."""

MOVED = {
    f"{_OURS}.{old}": f"{_OURS}.{new}"
    for old, new in {
        "additive": "baselines",
        "analytic": "baselines",
        "forest": "learners",
        "geometric": "ensembles",
        "least_squares": "linear.least_squares",
        "network": "learners",
        "regularised": "linear.regularised",
        "residual": "ensembles",
        "rfecv": "linear.rfecv",
        "stepwise": "linear.stepwise",
        "transfer": "ensembles",
    }.items()
} | {"_loss": CyAbsoluteError.__module__}  # "_loss" itself up to scikit-learn 1.7
"""Modules that saved models name and that have moved since -> where their classes are now."""

NODES = frozenset(
    f"{kind}Node"
    for kind in (
        *("Dict", "DType", "Function", "Json", "List", "Loss", "MaskedArray", "NdArray", "Object", "RandomGenerator"),
        *("RandomState", "Set", "Slice", "Tree", "Tuple", "Type"),
    )
)
"""Kinds of skops nodes a model is made of; bound methods, partials, operators and constructor calls are not."""

_KERNELS = ["ConstantKernel", "DotProduct", "Matern", "Product", "RBF", "RationalQuadratic", "Sum", "WhiteKernel"]
_LOSSES = ["AbsoluteError", "HalfGammaLoss", "HalfPoissonLoss", "HalfSquaredError", "HuberLoss", "PinballLoss"]
_SPLITTERS = ["GroupKFold", "GroupShuffleSplit", "KFold", "LeaveOneGroupOut", "ShuffleSplit"]

TYPES = frozenset(
    {
        "sklearn._loss.link.IdentityLink",
        "sklearn._loss.link.Interval",
        "sklearn._loss.link.LogLink",
        "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.metrics._scorer._PassthroughScorer",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
        "sklearn.tree._tree.Tree",
        "sklearn.utils._bunch.Bunch",
        *(f"sklearn._loss.loss.{name}" for name in _LOSSES),
        *(f"sklearn.gaussian_process.kernels.{name}" for name in _KERNELS),
        *(f"sklearn.model_selection._split.{name}" for name in _SPLITTERS),
    }
)
"""Types beyond those skops trusts by itself (scikit-learn's estimators, NumPy arrays, ufuncs, builtins)."""


def is_allowed(name: str) -> bool:
    """Whether a file may hold the type ``name``: on the list, or an estimator or dataclass of ``flopcast.models``.

    Functions never are: a type brings data, a function is code that the file could have called.
    """
    return name in TYPES or _own_class(name) is not None


def _own_class(name: str) -> type | None:
    """Return the estimator or dataclass of ``flopcast.models`` that has or had this name."""
    module, _, attribute = name.rpartition(".")
    module = MOVED.get(module, module)
    if not re.fullmatch(rf"{re.escape(_OURS)}(\.[a-z_][a-z0-9_]*)+", module):
        return None
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ImportError:
        return None
    if not isinstance(found, type) or found.__module__ != module:
        return None
    return found if issubclass(found, BaseEstimator) or dataclasses.is_dataclass(found) else None


def to_bytes(estimator: BaseEstimator) -> bytes:
    """Return a fitted estimator as a compressed file; equal estimators give equal bytes.

    Raises
    ------
    ArtifactError
        The estimator holds something that :func:`from_bytes` would refuse.
    """
    with suppress(plain.NotPlainError):
        return plain.dumps(estimator, _own_class)
    import skops.io  # here: it takes most of a second

    try:
        data = _canonical(skops.io.dumps(estimator))
    except Exception as error:  # skops raises whatever the state of the estimator makes it raise
        raise ArtifactError(f"{type(estimator).__name__} cannot be saved: {_one_line(error)}") from error
    _refuse_unknown(data, f"{type(estimator).__name__} cannot be saved")
    return data


def is_plain(data: bytes) -> bool:
    """Whether `to_bytes` has returned plain arrays, not skops' format."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return plain.STATE in archive.namelist()


def from_bytes(data: bytes, where: str) -> Any:
    """Return the estimator of a file after checking everything it is made of.

    ``data`` is what :func:`to_bytes` returned, ``where`` the file, for the messages.

    Raises
    ------
    ArtifactError
        The bytes are no such file, hold too much, a type or an index that is not allowed, or do not fit this
        scikit-learn.
    """
    if not zipfile.is_zipfile(io.BytesIO(data)):
        kind = "a pickle, which is never loaded" if data[:1] == b"\x80" else "foreign or cut short"
        raise ArtifactError(f"{where} is not a saved flopcast model ({kind}): train again")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            sizes = {member.filename: member.file_size for member in archive.infolist()}
        if sum(sizes.values()) > plain.MOST_BYTES:
            raise ArtifactError(f"{where} is refused: it holds {sum(sizes.values()):,} bytes once decompressed")
        estimator = plain.loads(data, _own_class) if plain.STATE in sizes else _from_skops(data, where)
        problem = next(misfits(estimator), None)
    except ArtifactError:
        raise
    except Exception as error:  # a file can be wrong in more ways than anybody has exceptions
        raise ArtifactError(f"{where} cannot be read: {_one_line(error)}; train again") from error
    if problem:
        raise ArtifactError(f"{where} is damaged: {problem}; train again")
    if not hasattr(estimator, "predict"):
        raise ArtifactError(f"{where} holds a {type(estimator).__name__}, not a model: train again")
    return estimator


def _from_skops(data: bytes, where: str) -> Any:
    import skops.io

    data = _with_modules_of_today(data)
    types = _refuse_unknown(data, f"{where} is refused")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentVersionWarning)  # the probes decide, not the version number
        return skops.io.loads(data, trusted=types)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def _refuse_unknown(data: bytes, refusal: str) -> list[str]:
    """Return the types to trust, or raise for the first node kind or type that is not allowed."""
    import skops.io

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for node in _nodes(json.loads(archive.read("schema.json"))):
            if isinstance(loader := node.get("__loader__"), str) and loader not in NODES:
                name = f"{node.get('__module__')}.{node.get('__class__')}"
                raise ArtifactError(f"{refusal}: it holds {name} as {loader}, which could run code")
    types = skops.io.get_untrusted_types(data=data)
    for name in types:
        if not is_allowed(name):
            raise ArtifactError(f"{refusal}: it holds {name}, which is not on the list of types a model is made of")
    return types


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a skops schema, to be read or changed in place."""
    pending = [schema]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            yield item
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)


def _with_modules_of_today(data: bytes) -> bytes:
    """Return a skops file whose classes are named by the modules they are in now (see `MOVED`)."""
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        schema = json.loads(source.read("schema.json"))
        moved = [node for node in _nodes(schema) if str(node.get("__module__")) in MOVED]
        if not moved:
            return data
        for node in moved:
            node["__module__"] = MOVED[node["__module__"]]
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as target:
            for name in source.namelist():
                target.writestr(name, json.dumps(schema) if name == "schema.json" else source.read(name))
    return out.getvalue()


def _canonical(data: bytes) -> bytes:
    """Rewrite a skops file so that its bytes depend on the estimator alone.

    skops names files and nodes after memory addresses, and the zip carries the time. Here files are named after their
    content (equal arrays are stored once), nodes have no identity (each is stored in full anyway), sets are sorted,
    and there is no time.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        contents = {name: source.read(name) for name in source.namelist()}
        schema = json.loads(contents.pop("schema.json"))
        names = {name: _content_name(name, content) for name, content in contents.items()}
        files = {names[name]: content for name, content in contents.items()}
        files["schema.json"] = json.dumps(_without_identity(schema, names), separators=(",", ":")).encode()
        for name in sorted(files):
            target.writestr(zipfile.ZipInfo(name), files[name], zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _content_name(name: str, content: bytes) -> str:
    return f"{hashlib.sha256(content).hexdigest()[:20]}.{name.rpartition('.')[2]}"


def _without_identity(node: Any, names: dict[str, str]) -> Any:
    """Return a schema without memory addresses and with its files renamed."""
    if isinstance(node, list):
        return [_without_identity(item, names) for item in node]
    if not isinstance(node, dict):
        return node
    plain = {key: _without_identity(value, names) for key, value in node.items() if key != "__id__"}
    if isinstance(node.get("__loader__"), str):
        if isinstance(node.get("file"), str):
            plain["file"] = names[node["file"]]
        if node["__loader__"] == "SetNode":
            plain["content"] = sorted(plain["content"], key=json.dumps)
    return plain
