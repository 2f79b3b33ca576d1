"""Fitted estimators as bytes: values as JSON, numbers in one block; reading them back runs no code of the file.

A file is a zip of ``state.json`` and ``arrays.bin``. An object is the name of its class, which must
be allowed, and its attributes; a class is never called. What compiled code would follow without a
check is checked before it is used: a tree of scikit-learn is the arrays of its nodes, every link
inside them, and as wide as the rows that reach it; LightGBM's text goes through `learners.checked`.
"""

from __future__ import annotations

import dataclasses
import importlib
import io
import json
import math
import re
import zipfile
from typing import Any, Final, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor
from sklearn.tree._tree import NODE_DTYPE, TREE_LEAF, Tree

from ..errors import ArtifactError
from .forests import FORESTS
from .learners import Boosted

# members of the file
STATE = "state.json"
BLOCK = "arrays.bin"
MOST_BYTES: Final = 2**28
"""Largest content of a saved estimator, decompressed, and most bytes of all arrays that it is made of."""
_MOST_ITEMS: Final = 2**22  # objects of JSON: each takes some hundred bytes of memory
_MOST_DIRECTORY: Final = 4096  # bytes of the directory of the zip, of two files

_OURS = __name__.rpartition(".")[0]
_TREES = (DecisionTreeRegressor, ExtraTreeRegressor)
_FOREIGN = {
    f"{one.__module__}.{one.__qualname__}": one
    for one in (*_TREES, *FORESTS, LinearRegression, Pipeline, StandardScaler)
}
"""scikit-learn's classes that a file may hold, besides the estimators and dataclasses of ``flopcast.models``."""
_KINDS: Final = "biufU"  # kinds of NumPy arrays: truth values, integers, floats, texts
_KIND: Final = "~"  # key of what a JSON object stands for
_NODES: Final = tuple(NODE_DTYPE.names)


def to_bytes(estimator: BaseEstimator) -> bytes:
    """Return a fitted estimator as a compressed file; equal estimators give equal bytes.

    Raises
    ------
    ArtifactError
        The estimator holds something that :func:`from_bytes` would refuse.
    """
    writer = _Writer(type(estimator).__name__)
    state = json.dumps(writer.plain(estimator), separators=(",", ":"), allow_nan=False)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        for name, content in ((STATE, state.encode()), (BLOCK, bytes(writer.block))):
            # numbers hardly shrink
            target.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED, 1)
    return out.getvalue()


def unpacked_bytes(data: bytes) -> int:
    """Return how many bytes a file holds, decompressed, that :func:`to_bytes` returned."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return sum(member.file_size for member in archive.infolist())


def from_bytes(data: bytes, where: str, limit: int = MOST_BYTES) -> Any:
    """Return the estimator of a file after checking everything it is made of.

    ``data`` is what :func:`to_bytes` returned, ``where`` the file, for the messages, ``limit`` how
    many bytes it may hold decompressed. They are counted while they are read: what a file says of
    itself is not believed. Raises ArtifactError: the bytes are no such file, hold too much, a class
    or an index that is not allowed, or do not fit this scikit-learn.
    """
    if not zipfile.is_zipfile(io.BytesIO(data)):
        if data[:1] == b"\x80":
            kind = "a pickle, which is never loaded"
        else:
            kind = "foreign or cut short"
        raise ArtifactError(f"{where} is not a saved flopcast model ({kind}): train again")
    # zipfile reads the whole directory of files: the last record says how long that is, another
    # before it would too.
    if (
        data[-22:-18] != b"PK\5\6"
        or data[-42:-38] == b"PK\6\7"
        or int.from_bytes(data[-10:-6], "little") > _MOST_DIRECTORY
    ):
        raise ArtifactError(
            f"{where} is not a saved flopcast model (its directory is no model's): train again"
        )
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            content = list[bytes]()
            left = min(limit, MOST_BYTES)
            for name in (STATE, BLOCK):
                with archive.open(name) as member:
                    content.append(member.read(left + 1))
                left -= len(content[-1])
                if left < 0:
                    raise ArtifactError(
                        f"{where} is refused: it holds more than {min(limit, MOST_BYTES):,} bytes "
                        "once decompressed"
                    )
        state, block = content
        if sum(map(state.count, (b"[", b"{", b","))) > _MOST_ITEMS:
            raise ArtifactError(
                f"{where} is refused: its {STATE} holds more than {_MOST_ITEMS:,} values"
            )
        estimator = _Reader(block).value(json.loads(state))
    except ArtifactError:
        raise
    except Exception as error:  # a file can be wrong in more ways than anybody has exceptions
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise ArtifactError(f"{where} cannot be read: {said[:200]}; train again") from error
    if not hasattr(estimator, "predict"):
        raise ArtifactError(f"{where} holds a {type(estimator).__name__}, not a model: train again")
    return estimator


def _class_of(name: str) -> type | None:
    """Return the class of this name where a file may hold objects of it.

    Functions never are: a class brings data, a function is code that the file could have called.
    """
    if name in _FOREIGN:
        return _FOREIGN[name]
    module, _, attribute = name.rpartition(".")
    if not re.fullmatch(rf"{re.escape(_OURS)}(\.[a-z_][a-z0-9_]*)+", module):
        return None
    try:
        kind = getattr(importlib.import_module(module), attribute, None)
    except ImportError:
        return None
    if not isinstance(kind, type) or kind.__module__ != module:
        return None
    if issubclass(kind, BaseEstimator) or dataclasses.is_dataclass(kind):
        return kind
    return None


class _Writer:
    """What an object looks like as JSON; arrays go to the block, equal ones once."""

    def __init__(self, saved: str) -> None:
        self.block = bytearray()
        self._saved = saved
        self._places = dict[tuple[str, bytes], int]()

    def plain(self, item: Any) -> Any:
        if item is None or type(item) in (bool, int, str):
            return item
        if type(item) is float:
            if math.isfinite(item):
                return item
            return {_KIND: "float", "is": repr(item)}
        if type(item) is list:
            return [self.plain(one) for one in item]
        if type(item) in (tuple, set):
            if type(item) is set:
                ordered = sorted(item, key=repr)
            else:
                ordered = item
            return {_KIND: type(item).__name__, "items": [self.plain(one) for one in ordered]}
        if type(item) is dict:
            return {
                _KIND: "dict",
                "items": [[self.plain(key), self.plain(value)] for key, value in item.items()],
            }
        if isinstance(item, np.generic):
            return {_KIND: "scalar", "array": self._array(np.asarray(item))}
        if type(item) is np.ndarray:
            return self._array(item)
        if type(item) is Tree:
            return self._tree(item)
        return self._object(item)

    def _array(self, array: np.ndarray) -> dict[str, Any]:
        if array.dtype == object:
            return {
                _KIND: "objects",
                "shape": list(array.shape),
                "items": [self.plain(one) for one in array.ravel()],
            }
        if array.dtype.kind not in _KINDS or array.dtype.byteorder == ">":
            raise self._cannot(f"an array of {array.dtype}")
        order: Literal["C", "F"] = (
            "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        )
        content = array.tobytes(order)
        dtype = array.dtype.str
        place = self._places.get((dtype, content))
        if place is None:
            self.block.extend(b"\0" * (-len(self.block) % 8))
            place = self._places[dtype, content] = len(self.block)
            self.block.extend(content)
        return {
            _KIND: "array",
            "dtype": dtype,
            "shape": list(array.shape),
            "order": order,
            "at": place,
        }

    def _tree(self, tree: Tree) -> dict[str, Any]:
        state = tree.__getstate__()
        if tree.n_outputs != 1 or state["values"].shape[1:] != (1, 1):
            raise self._cannot("a tree of several outputs or classes")
        nodes = {}
        for name in _NODES:
            column = state["nodes"][name]
            small = column.dtype.kind == "i" and np.abs(column).max(initial=0) < 2**31
            nodes[name] = self._array(
                column.astype(np.int32) if small else np.ascontiguousarray(column)
            )
        size = {"features": int(tree.n_features), "depth": int(state["max_depth"])}
        return {_KIND: "tree", **size, "nodes": nodes, "values": self._array(state["values"])}

    def _object(self, item: Any) -> dict[str, Any]:
        name = f"{type(item).__module__}.{type(item).__qualname__}"
        if _class_of(name) is not type(item):
            raise self._cannot(f"{name}, which is not on the list of types a model is made of")
        state = item.__getstate__() or {}
        if not isinstance(state, dict):
            raise self._cannot(f"{name} with a separate state")
        return {
            _KIND: "object",
            "class": name,
            "state": {key: self.plain(value) for key, value in state.items()},
        }

    def _cannot(self, what: str) -> ArtifactError:
        return ArtifactError(f"{self._saved} cannot be saved: it holds {what}")


class _Reader:
    """The way back; every place, shape and index is checked."""

    def __init__(self, block: bytes) -> None:
        self._block = block
        self._left = MOST_BYTES

    def value(self, item: Any) -> Any:
        if isinstance(item, list):
            return [self.value(one) for one in item]
        if not isinstance(item, dict):
            return item
        match item[_KIND]:
            case "float":
                return float(item["is"])
            case "tuple":
                return tuple(self.value(item["items"]))
            case "set":
                return set(self.value(item["items"]))
            case "dict":
                return {self.value(key): self.value(value) for key, value in item["items"]}
            case "scalar":
                return self._array(item["array"])[()]
            case "array":
                return self._array(item)
            case "objects":
                shape = _shape(item)
                if len(item["items"]) != math.prod(shape):
                    raise ValueError("an array's items differ in number from its shape")
                values = np.empty(math.prod(shape), dtype=object)
                values[:] = [self.value(one) for one in item["items"]]
                return values.reshape(shape)
            case "tree":
                return self._tree(item)
            case "object":
                return self._object(item)
            case kind:
                raise ValueError(f"it holds something of the kind {kind!r}")

    def _array(self, item: dict[str, Any]) -> np.ndarray:
        dtype = np.dtype(str(item["dtype"]))
        shape = _shape(item)
        place = item["at"]
        size = math.prod(shape) * dtype.itemsize
        if (
            dtype.kind not in _KINDS
            or type(place) is not int
            or not 0 <= place <= len(self._block) - size
        ):
            raise ValueError("an array lies outside the file")
        self._left -= size
        if self._left < 0:
            raise ValueError(f"its arrays take more than {MOST_BYTES:,} bytes")
        if item["order"] not in ("C", "F"):
            raise ValueError(f"an array in the order {item['order']!r}")
        if size:
            flat = np.frombuffer(self._block, dtype, math.prod(shape), place)
        else:
            flat = np.empty(0, dtype)
        return flat.reshape(shape, order=item["order"]).copy(order="K")

    def _tree(self, item: dict[str, Any]) -> Tree:
        """Return a tree whose every link leads to a later node of the tree, and whose figures are finite."""
        columns = {name: self._array(item["nodes"][name]) for name in _NODES}
        values = self._array(item["values"])
        count = len(columns["left_child"])
        if (
            any(column.shape != (count,) for column in columns.values())
            or values.shape != (count, 1, 1)
            or not count
        ):
            raise ValueError("a tree's arrays differ in length")
        nodes = np.zeros(count, dtype=NODE_DTYPE)
        for name, column in columns.items():
            nodes[name] = column
        # A leaf has -1 in place of a left child. Children lie behind their parents: no walk can go
        # in circles.
        parents = np.flatnonzero(nodes["left_child"] != TREE_LEAF)
        for side in ("left_child", "right_child"):
            child = nodes[side][parents]
            if not ((child > parents) & (child < count)).all():
                raise ValueError("a tree points outside itself")
        feature = nodes["feature"][parents]
        if not ((feature >= 0) & (feature < int(item["features"]))).all():
            raise ValueError("a tree splits on a feature that there is not")
        if (
            values.dtype != np.float64
            or not np.isfinite(values).all()
            or np.isnan(nodes["threshold"]).any()
        ):
            raise ValueError("a tree holds what is no number")
        tree = Tree(int(item["features"]), np.ones(1, dtype=np.intp), 1)
        tree.__setstate__(
            {"max_depth": int(item["depth"]), "node_count": count, "nodes": nodes, "values": values}
        )
        return tree

    def _object(self, item: dict[str, Any]) -> Any:
        kind = _class_of(str(item["class"]))
        if kind is None:
            raise ValueError(
                f"it holds {item['class']}, which is not on the list of types a model is made of"
            )
        made: Any = object.__new__(kind)
        state = {key: self.value(value) for key, value in item["state"].items()}
        vars(made).update(state)
        # scikit-learn holds rows against `n_features_in_` of the outermost alone, and trees read on
        # without a check.
        if kind in _TREES and "tree_" in state:
            inside = [state["tree_"].n_features]
        else:
            inside = []
        if kind in FORESTS and "estimators_" in state:
            if not all(type(one) in _TREES for one in state["estimators_"]):
                raise ValueError("a forest holds what is no tree")
            inside = [one.n_features_in_ for one in state["estimators_"]]
        if any(width != made.n_features_in_ for width in inside):
            raise ValueError("a tree is of other features than the rows that reach it")
        if isinstance(made, Boosted) and "text_" in state:
            made.native()
        return made


def _shape(item: dict[str, Any]) -> tuple[int, ...]:
    shape = tuple(item["shape"])
    if len(shape) > 8 or not all(type(side) is int and 0 <= side < 2**48 for side in shape):
        raise ValueError("an array has an impossible shape")
    return shape
