"""What measured times of serving miss against the law, by extremely randomised trees that are kept as numbers.

On settings far from all runs the trees and the process of `workloads.serving_model` err
differently, and the mean of both errs less. The trees are those of Geurts, Ernst and Wehenkel,
"Extremely randomized trees", Machine Learning 63 (2006), 3-42. scikit-learn grows them; a forecast,
which does not wait for it, walks down their nodes here.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from ..arrays import FloatArray
from ..errors import DataError
from ..laws.serving_steps import TRAITS, TTFT_PARTS, Steps
from ..operators.work import texts

NODE: Final = np.dtype([("trait", "i1"), ("skip", "<u2"), ("number", "<f4")])
"""Of a node: the column that it asks, -1 of a leaf; how many nodes further the branch of larger
values is, the other being the next; the value that it asks for, of a leaf the answer."""
# columns of text: a column of 0 and 1 for each of their words; of groups those with equal lengths
WORDS: Final = ("engine", "dtype_b", "client", "device", "group")
_MOST_BYTES: Final = 2**25
_MOST_DEPTH: Final = 500
_MOST_ANSWER: Final = 8.0  # logarithm that a leaf may hold


@dataclass(frozen=True)
class Trees:
    """A forest whose answer is the mean of its trees."""

    nodes: np.ndarray  # tree after tree, each depth first; shape (n_nodes,), `NODE`
    roots: np.ndarray  # where each begins; shape (n_trees,)
    words: tuple[tuple[str, str], ...]  # column and word that have a column of 0 and 1

    def predicted(self, traits: FloatArray) -> FloatArray:
        """Return the answer for each row of `columns`."""
        asked, at = traits.astype(np.float32), np.arange(len(traits))[:, None]
        place = np.repeat(self.roots[None, :], len(traits), axis=0)
        for _ in range(_MOST_DEPTH):
            node = self.nodes[place]
            inner = node["trait"] >= 0
            if not inner.any():
                return node["number"].mean(axis=1, dtype=np.float64)
            left = asked[at, np.maximum(node["trait"], 0)] <= node["number"]
            place = place + np.where(inner, np.where(left, 1, node["skip"]), 0)
        raise DataError(f"trees of serving are deeper than {_MOST_DEPTH}: calibrate the model anew")

    def to_json(self) -> dict[str, Any]:
        """Return them as values of JSON."""
        packed = base64.b64encode(zlib.compress(self.nodes.tobytes(), 9)).decode()
        return {
            "nodes": packed,
            "roots": self.roots.tolist(),
            "words": [[*word] for word in self.words],
        }

    @classmethod
    def from_json(cls, said: Any) -> Trees:
        """Return those that `to_json` made.

        Raises ValueError: they lead out of their nodes, or ask for what rows do not have.
        """
        data = zlib.decompressobj().decompress(
            base64.b64decode(said["nodes"], validate=True), _MOST_BYTES
        )
        nodes, roots = np.frombuffer(data, NODE), np.array(said["roots"], dtype=np.intp)
        inner = nodes["trait"] >= 0
        last = np.arange(len(nodes)) + np.where(inner, nodes["skip"], 0)
        if (
            (nodes["skip"][inner] < 1).any()
            or not ((roots >= 0) & (roots < len(nodes))).all()
            or not len(roots)
        ):
            raise ValueError("trees of serving: a node leads back")
        if (last >= len(nodes)).any() or not np.isfinite(nodes["number"]).all():
            raise ValueError(
                "trees of serving: a node leads out of them, or its number is not finite"
            )
        if (np.abs(nodes["number"][~inner]) > _MOST_ANSWER).any():
            raise ValueError("trees of serving: an answer is larger than any run can miss")
        words = tuple((str(name), str(word)) for name, word in said["words"])
        limit = len(TRAITS) + len(TTFT_PARTS) + len(words)
        if (nodes["trait"] >= limit).any() or not {name for name, _ in words} <= {*WORDS}:
            raise ValueError("trees of serving: they ask for a column that no run has")
        return cls(nodes, roots, words)


def columns(
    rows: pd.DataFrame, steps_of: Steps, shares: FloatArray, words: Sequence[tuple[str, str]]
) -> FloatArray:
    """Return traits, shares of the parts, and 0 or 1 for each word, of shape (n_rows, n_columns)."""
    said = {name: texts(rows, name) for name in WORDS}
    flags = [(said[name] == word).astype(np.float64) for name, word in words]
    return np.column_stack([*(steps_of.traits[name] for name in TRAITS), shares, *flags])
