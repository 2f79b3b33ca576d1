"""Fitted estimators as plain arrays: values as JSON, numbers in one block; reading them back runs no code of a file.

A file is a zip of ``state.json`` and ``arrays.bin``. An object is the name of its class, which must be allowed, and
its attributes; a class is never called. A tree of scikit-learn is the arrays of its nodes, checked before it is made.
What is none of this is not plain: :mod:`flopcast.models.persistence` keeps such estimators in another format.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Callable
from typing import Any, Final, Literal

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor
from sklearn.tree._tree import NODE_DTYPE, TREE_LEAF, Tree

STATE, BLOCK = "state.json", "arrays.bin"
"""Members of the file."""
MOST_BYTES: Final = 2**31
"""Largest content of a saved estimator, decompressed."""

_FOREIGN = {
    f"{one.__module__}.{one.__qualname__}": one
    for one in (
        *(ExtraTreesRegressor, RandomForestRegressor, DecisionTreeRegressor, ExtraTreeRegressor),
        *(LinearRegression, Pipeline, StandardScaler),
    )
}
"""scikit-learn's classes that may be stored so."""
_KINDS: Final = "biufU"  # kinds of NumPy arrays: truth values, integers, floats, texts
_KIND: Final = "~"  # key of what a JSON object stands for
_NODES: Final = tuple(NODE_DTYPE.names)


class NotPlainError(ValueError):
    """An estimator holds something that is neither a plain value nor an object of an allowed class."""


def dumps(estimator: Any, find: Callable[[str], type | None]) -> bytes:
    """Return the file of an estimator; equal estimators give equal bytes.

    ``find`` returns the class of a name where objects of it may be stored, else None.

    Raises
    ------
    NotPlainError
        It holds what cannot be stored so.
    """
    writer = _Writer(find)
    state = json.dumps(writer.plain(estimator), separators=(",", ":"), allow_nan=False)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        for name, content in ((STATE, state.encode()), (BLOCK, bytes(writer.block))):
            target.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED, 1)  # numbers hardly shrink
    return out.getvalue()


def loads(data: bytes, find: Callable[[str], type | None]) -> Any:
    """Return the estimator of a file; ``find`` as for `dumps`.

    Raises
    ------
    ValueError, TypeError, KeyError, IndexError, RecursionError, zipfile.BadZipFile
        The file is damaged, or names a class that is not allowed.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        state, block = archive.read(STATE), archive.read(BLOCK)
    return _Reader(block, find).value(json.loads(state))


class _Writer:
    """What an object looks like as JSON; arrays go to the block, equal ones once."""

    def __init__(self, find: Callable[[str], type | None]) -> None:
        self.block = bytearray()
        self._find, self._places = find, dict[tuple[str, bytes], int]()

    def plain(self, item: Any) -> Any:
        if item is None or type(item) in (bool, int, str):
            return item
        if type(item) is float:
            return item if math.isfinite(item) else {_KIND: "float", "is": repr(item)}
        if type(item) is list:
            return [self.plain(one) for one in item]
        if type(item) in (tuple, set):
            ordered = sorted(item, key=repr) if type(item) is set else item
            return {_KIND: type(item).__name__, "items": [self.plain(one) for one in ordered]}
        if type(item) is dict:
            return {_KIND: "dict", "items": [[self.plain(key), self.plain(value)] for key, value in item.items()]}
        if isinstance(item, np.generic):
            return {_KIND: "scalar", "array": self._array(np.asarray(item))}
        if type(item) is np.ndarray:
            return self._array(item)
        return self._tree(item) if type(item) is Tree else self._object(item)

    def _array(self, array: np.ndarray) -> dict[str, Any]:
        if array.dtype == object:
            return {_KIND: "objects", "shape": list(array.shape), "items": [self.plain(one) for one in array.ravel()]}
        if array.dtype.kind not in _KINDS or array.dtype.byteorder == ">":
            raise NotPlainError(f"an array of {array.dtype}")
        order: Literal["C", "F"] = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        content = array.tobytes(order)
        dtype = array.dtype.str
        place = self._places.get((dtype, content))
        if place is None:
            self.block.extend(b"\0" * (-len(self.block) % 8))
            place = self._places[dtype, content] = len(self.block)
            self.block.extend(content)
        return {_KIND: "array", "dtype": dtype, "shape": list(array.shape), "order": order, "at": place}

    def _tree(self, tree: Tree) -> dict[str, Any]:
        state = tree.__getstate__()
        if tree.n_outputs != 1 or state["values"].shape[1:] != (1, 1):
            raise NotPlainError("a tree of several outputs or classes")
        nodes = {name: self._array(_narrow(state["nodes"][name])) for name in _NODES}
        size = {"features": int(tree.n_features), "depth": int(state["max_depth"])}
        return {_KIND: "tree", **size, "nodes": nodes, "values": self._array(state["values"])}

    def _object(self, item: Any) -> dict[str, Any]:
        name = f"{type(item).__module__}.{type(item).__qualname__}"
        if _class_of(name, self._find) is not type(item):
            raise NotPlainError(name)
        state = item.__getstate__() or {}
        if not isinstance(state, dict):
            raise NotPlainError(f"{name} with a state of its own")
        return {_KIND: "object", "class": name, "state": {key: self.plain(value) for key, value in state.items()}}


class _Reader:
    """The way back; every place and shape is checked against the block."""

    def __init__(self, block: bytes, find: Callable[[str], type | None]) -> None:
        self._block, self._find = block, find

    def value(self, item: Any) -> Any:
        if isinstance(item, list):
            return [self.value(one) for one in item]
        if not isinstance(item, dict):
            return item
        return getattr(self, f"_{_READ[item[_KIND]]}")(item)

    def _float(self, item: dict[str, Any]) -> float:
        return float(item["is"])

    def _tuple(self, item: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(self.value(item["items"]))

    def _set(self, item: dict[str, Any]) -> set[Any]:
        return set(self.value(item["items"]))

    def _dict(self, item: dict[str, Any]) -> dict[Any, Any]:
        return {self.value(key): self.value(value) for key, value in item["items"]}

    def _scalar(self, item: dict[str, Any]) -> Any:
        return self._array(item["array"])[()]

    def _objects(self, item: dict[str, Any]) -> np.ndarray:
        shape = _shape(item)
        values = np.empty(math.prod(shape) if len(item["items"]) == math.prod(shape) else -1, dtype=object)
        values[:] = [self.value(one) for one in item["items"]]
        return values.reshape(shape)

    def _array(self, item: dict[str, Any]) -> np.ndarray:
        dtype, shape, place = np.dtype(str(item["dtype"])), _shape(item), item["at"]
        size = math.prod(shape) * dtype.itemsize
        if dtype.kind not in _KINDS or type(place) is not int or not 0 <= place <= len(self._block) - size:
            raise ValueError("an array lies outside the file")
        if item["order"] not in ("C", "F"):
            raise ValueError(f"an array in the order {item['order']!r}")
        flat = np.frombuffer(self._block, dtype, math.prod(shape), place) if size else np.empty(0, dtype)
        return flat.reshape(shape, order=item["order"]).copy(order="K")

    def _tree(self, item: dict[str, Any]) -> Tree:
        """Return a tree whose every link leads to a later node of its own, and whose figures are finite."""
        columns = {name: self._array(item["nodes"][name]) for name in _NODES}
        values, count = self._array(item["values"]), len(columns["left_child"])
        if any(column.shape != (count,) for column in columns.values()) or values.shape != (count, 1, 1):
            raise ValueError("a tree's arrays differ in length")
        nodes = np.zeros(count, dtype=NODE_DTYPE)
        for name, column in columns.items():
            nodes[name] = column
        if not links_fit(nodes["left_child"], nodes["right_child"], nodes["feature"], int(item["features"])):
            raise ValueError("a tree points outside itself")
        if values.dtype != np.float64 or not np.isfinite(values).all() or np.isnan(nodes["threshold"]).any():
            raise ValueError("a tree holds what is no number")
        tree = Tree(int(item["features"]), np.ones(1, dtype=np.intp), 1)
        tree.__setstate__({"max_depth": int(item["depth"]), "node_count": count, "nodes": nodes, "values": values})
        return tree

    def _object(self, item: dict[str, Any]) -> Any:
        kind = _class_of(str(item["class"]), self._find)
        if kind is None:
            raise ValueError(f"it holds {item['class']}, which is not on the list of types a model is made of")
        made: Any = object.__new__(kind)
        vars(made).update({key: self.value(value) for key, value in item["state"].items()})
        return made


_READ = {name: name for name in ("float", "tuple", "set", "dict", "scalar", "objects", "array", "tree", "object")}


def links_fit(left: np.ndarray, right: np.ndarray, feature: np.ndarray, width: int) -> bool:
    """Whether every inner node points to later nodes of its own tree and to one of ``width`` features.

    A leaf has -1 in place of a left child. Children lie behind their parents, so that no walk can go in circles. All
    are of shape (n_nodes,), at least one.
    """
    parents, count = np.flatnonzero(left != TREE_LEAF), len(left)
    left, right, feature = left[parents], right[parents], feature[parents]
    inside = (
        (left > parents) & (left < count) & (right > parents) & (right < count) & (feature >= 0) & (feature < width)
    )
    return count > 0 and bool(inside.all())


def _narrow(column: np.ndarray) -> np.ndarray:
    """Return a column of nodes, integers in half their size where they fit."""
    fits = column.dtype.kind == "i" and np.abs(column).max(initial=0) < 2**31
    return column.astype(np.int32) if fits else np.ascontiguousarray(column)


def _shape(item: dict[str, Any]) -> tuple[int, ...]:
    shape = tuple(item["shape"])
    if len(shape) > 8 or not all(type(side) is int and 0 <= side < 2**48 for side in shape):
        raise ValueError("an array has an impossible shape")
    return shape


def _class_of(name: str, find: Callable[[str], type | None]) -> type | None:
    return _FOREIGN.get(name) or find(name)
