"""LightGBM's text of a model, read strictly: what the library is given is written here from checked numbers.

The library follows whatever indices a text holds, so no text of a file reaches it: `checked` takes the few lines that
predictions need out of a text, holds every index against its array, and writes a text of its own.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

_TREE: Final = re.compile(r"^Tree=[0-9]+\n((?:[a-z_]+=[^\n]*\n)+)", re.MULTILINE)
_WHOLE: Final = re.compile(r"(?:-?[0-9]{1,9}(?: -?[0-9]{1,9})*)?")
_REAL: Final = re.compile(r"(?:-?[0-9.]{1,30}(?:e[+-]?[0-9]{1,3})?(?: -?[0-9.]{1,30}(?:e[+-]?[0-9]{1,3})?)*)?")
_NODES: Final = ("split_feature", "threshold", "decision_type", "left_child", "right_child")
_NUMERICAL: Final = (0, 2, 4, 6, 8, 10)  # kinds of decision: of a number, and where a missing one goes


def checked(text: str, width: int) -> str:
    """Return a text of the same trees, for LightGBM, made of nothing but numbers that were checked.

    Parameters
    ----------
    text : str
        A regression model as `lightgbm.Booster.model_to_string` returns it: no categories, no linear leaves.
    width : int
        Features of X; names and ranges of features are left out.

    Raises
    ------
    ValueError
        A line is missing or malformed; an index leads outside its array, or back; a value is not finite.
    """
    if not isinstance(text, str) or f"\nmax_feature_idx={width - 1}\n" not in text or "\nnum_class=1\n" not in text:
        raise ValueError(f"not a regression on {width} features")
    if re.search(r"^average_output$", text, re.MULTILINE):
        raise ValueError("a forest, not a sum of trees")
    names = " ".join(f"Column_{place}" for place in range(width))
    head = ["tree", "version=v4", "num_class=1", "num_tree_per_iteration=1", "label_index=0"]
    head += [f"max_feature_idx={width - 1}", "objective=regression_l1", f"feature_names={names}"]
    head += [f"feature_infos={' '.join(['none'] * width)}", "", ""]
    blocks = [
        f"Tree={number}\n{_tree(dict(line.split('=', 1) for line in found[1].splitlines()), width)}\n\n\n"
        for number, found in enumerate(_TREE.finditer(text))
    ]
    if not blocks or len(blocks) != text.count("\nTree="):
        raise ValueError("no trees, or trees of another form")
    return "\n".join(head) + "".join(blocks) + "end of trees\n\n"


def _tree(lines: dict[str, str], width: int) -> str:
    """Return the lines of one tree after checking them."""
    if lines.get("num_cat") != "0" or lines.get("is_linear", "0") != "0":
        raise ValueError("categories or linear leaves")
    leaves = int(_numbers(lines, "num_leaves", 1)[0])
    inner = leaves - 1
    columns = {name: _numbers(lines, name, inner, whole=name != "threshold") for name in _NODES}
    own = np.arange(inner)
    for side in ("left_child", "right_child"):
        child = columns[side]
        if not (((child > own) & (child < inner)) | ((child < 0) & (~child < leaves))).all():
            raise ValueError("a tree points outside itself")
    if not ((columns["split_feature"] >= 0) & (columns["split_feature"] < width)).all():
        raise ValueError("a tree splits on a feature that there is not")
    if not np.isin(columns["decision_type"], _NUMERICAL).all():
        raise ValueError("a decision of an unknown kind")
    _numbers(lines, "leaf_value", leaves, whole=False)
    _numbers(lines, "shrinkage", 1, whole=False)
    written = ("num_leaves", "num_cat", *_NODES, "leaf_value")
    return "".join(f"{name}={lines[name]}\n" for name in written) + f"is_linear=0\nshrinkage={lines['shrinkage']}\n"


def _numbers(lines: dict[str, str], name: str, count: int, *, whole: bool = True) -> np.ndarray:
    """Return the finite numbers of a line, so many of them."""
    said = lines.get(name, "")
    if not (_WHOLE if whole else _REAL).fullmatch(said):
        raise ValueError(f"{name} is not a list of numbers")
    found = np.array(said.split(), dtype=np.int64 if whole else np.float64)
    if found.shape != (count,) or not np.isfinite(found).all():
        raise ValueError(f"{name} has {found.size} numbers, not {count}")
    return found
