"""Fitted estimators as bytes and back, without running any code that the bytes bring along.

The format is skops' (a zip of JSON and ``.npy`` files, no pickle). Three gates stand before a file becomes an object:
only the node kinds a model needs, only the types on the allow-list below, and, for the compiled predictors that index
memory without checks (trees, support vectors), only indices that stay inside their arrays.
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
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning

from ..errors import ArtifactError
from .integrity import misfits

_OURS = __name__.rpartition(".")[0]
"""The package whose estimators a file may hold: ``flopcast.models``."""

NODES = frozenset(
    {
        "DictNode",
        "DTypeNode",
        "FunctionNode",
        "JsonNode",
        "ListNode",
        "LossNode",
        "MaskedArrayNode",
        "NdArrayNode",
        "ObjectNode",
        "RandomGeneratorNode",
        "RandomStateNode",
        "SetNode",
        "SliceNode",
        "TreeNode",
        "TupleNode",
        "TypeNode",
    }
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
    if name in TYPES:
        return True
    module, _, attribute = name.rpartition(".")
    if not re.fullmatch(rf"{re.escape(_OURS)}(\.[a-z_][a-z0-9_]*)+", module):
        return False
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ImportError:
        return False
    if not isinstance(found, type) or found.__module__ != module:
        return False
    return issubclass(found, BaseEstimator) or dataclasses.is_dataclass(found)


def to_bytes(estimator: BaseEstimator) -> bytes:
    """Return a fitted estimator as a compressed skops file; equal estimators give equal bytes.

    Raises
    ------
    ArtifactError
        The estimator holds something that :func:`from_bytes` would refuse.
    """
    import skops.io  # here: it takes most of a second, and commands that hold no model do without

    try:
        data = _canonical(skops.io.dumps(estimator))
    except Exception as error:  # skops raises whatever the state of the estimator makes it raise
        raise ArtifactError(f"{type(estimator).__name__} cannot be saved: {_one_line(error)}") from error
    _refuse_unknown(data, f"{type(estimator).__name__} cannot be saved")
    return data


def from_bytes(data: bytes, where: str) -> Any:
    """Return the estimator of a skops file after checking everything it is made of.

    Parameters
    ----------
    data : bytes
        What :func:`to_bytes` returned.
    where : str
        The file, for the messages.

    Raises
    ------
    ArtifactError
        The bytes are no skops file, hold a type or an index that is not allowed, or do not fit this scikit-learn.
    """
    import skops.io

    if not zipfile.is_zipfile(io.BytesIO(data)):
        kind = "a pickle, which is never loaded" if data[:1] == b"\x80" else "foreign or cut short"
        raise ArtifactError(f"{where} is not a saved flopcast model ({kind}): train again")
    try:
        types = _refuse_unknown(data, f"{where} is refused")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", InconsistentVersionWarning)  # the probes decide, not the version number
            estimator = skops.io.loads(data, trusted=types)
        problem = next(misfits(estimator), None)
    except ArtifactError:
        raise
    except Exception as error:  # a file can be wrong in more ways than skops has exceptions
        raise ArtifactError(f"{where} cannot be read: {_one_line(error)}; train again") from error
    if problem:
        raise ArtifactError(f"{where} is damaged: {problem}; train again")
    if not hasattr(estimator, "predict"):
        raise ArtifactError(f"{where} holds a {type(estimator).__name__}, not a model: train again")
    return estimator


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def _refuse_unknown(data: bytes, refusal: str) -> list[str]:
    """Return the types to trust, or raise for the first node kind or type that is not allowed."""
    import skops.io

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for loader, name in _nodes(json.loads(archive.read("schema.json"))):
            if loader not in NODES:
                raise ArtifactError(f"{refusal}: it holds {name} as {loader}, which could run code")
    types = skops.io.get_untrusted_types(data=data)
    for name in types:
        if not is_allowed(name):
            raise ArtifactError(f"{refusal}: it holds {name}, which is not on the list of types a model is made of")
    return types


def _nodes(schema: Any) -> Iterator[tuple[str, str]]:
    """Yield (loader, type) of every node of a skops schema."""
    pending = [schema]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            if isinstance(loader := item.get("__loader__"), str):
                yield loader, f"{item.get('__module__')}.{item.get('__class__')}"
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)


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
