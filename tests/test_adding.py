"""CONTRIBUTING's "How to add ...": a toy of each kind, in a copy of the package, in the files that it names."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

FILES = {
    "readers/toy.py": """
from pathlib import Path

import pandas as pd

from .base import Options, RawTable, Reader, register


@register
class ToyReader(Reader):
    name = "toy"

    def sniff(self, path: Path, head: bytes) -> bool:
        return head.startswith(b"toy ")

    def read(self, path: Path, options: Options) -> RawTable:
        rows, cols, time = path.read_text().split()[1:]
        row = {"op": "hypot", "rows": rows, "cols": cols, "dtype_a": "fp32", "duration_us": time, "device": "MI399"}
        return RawTable(pd.DataFrame([{**row, "file_line": 1}]))
""",
    "operators/kinds/toy.py": """
from ..call import CallReader
from ..vector import VectorWork, vector_op

ATEN: dict[str, CallReader] = {}
OPERATORS = (vector_op("hypot", VectorWork(4, inputs=2)),)
""",
    "operators/kinds/scan.py": """
from flopcast.operators.call import Call
from flopcast.operators.op import Dim, Op, log_dims
from flopcast.operators.vector import VectorWork, whole_rows

WORK = VectorWork(1)

def scan(call: Call):
    x = call.tensor(0)
    return whole_rows("scan", "", x, x.dims[-1]) | {"depth": call.integer(1)}

ATEN = {"my::scan": scan}
DIMS = (Dim("rows", "rows", 8), Dim("cols", "columns", 8), Dim("depth", "how deep", 3))
OPERATORS = [Op("scan", "vector", DIMS, ("cols",), "scan {cols}", WORK.flops, WORK.bytes_moved, WORK.view,
                aliases=("prefix_sum",), kernels="reduction", features=log_dims("depth"))]
""",
    "models/toy.py": """
import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin


class Median(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        self.median_ = float(np.median(y))
        return self

    def predict(self, X):
        return np.full(len(X), self.median_)
""",
    "commands/toy.py": '''
PLACE = 999


def command() -> None:
    """Say that it was found."""
    print("found")
''',
}
LINES = {
    "readers/__init__.py": ("    tidy,\n", "    tidy,\n    toy,\n"),
    "models/suite.py": (
        '        self._add("BoostedTrees", ',
        '        self._add("Median", LogTarget(__import__("flopcast.models.toy").models.toy.Median()))\n'
        '        self._add("BoostedTrees", ',
    ),
    "laws/registry.py": ('    "kept",\n', '    "kept",\n    "toy",\n'),
    "laws/computation.py": (
        "KEPT = Kept()\n",
        '''KEPT = Kept()


class Bytes(DeviceLaw):
    """Bytes alone, twice."""

    name, title, alone, scales = "toy", "toy law", True, False
    needs = ("memory_bw_gbs",)
    source = "nobody"

    def __call__(self, work, gpu):
        return 2 * memory_us(work, gpu)


TOY = Bytes()
''',
    ),
    "hardware/gpus.toml": (
        "[gpu.MI50]\n",
        '[gpu.MI399]\nvendor = "AMD"\narch = "CDNA9"\ngfx = "gfx999"\nmemory_bw_gbs = 10000\nconfidence = "C"\n'
        'sources = ["derived: all of it"]\n[gpu.MI399.peak_tflops]\nfp32_vector = 100\n\n[gpu.MI50]\n',
    ),
}
ASKED = """
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import flopcast as fc
from flopcast.commands.app import COMMANDS
from flopcast.evaluation import competition
from flopcast.features.catalogue import BY_NAME
from flopcast.hardware import find
from flopcast.laws import law
from flopcast.operators.call import Tensor
from flopcast.operators.operators import work_of
from flopcast.projection.kernel_laws import class_of
from flopcast.traces.activity_work import call_text, describe_call
from flopcast.workloads.releases import shipped_releases

competition.FOLDS = ((0, 2),)
run = fc.train(sys.argv[1], target="MI399", models=["Median", "OLS"], jobs=1)
work = work_of(run.dataset.rows)
called = describe_call("my::scan", call_text([Tensor((4, 6), "fp32"), "2"]))
row = fc.read(pd.DataFrame([called | {"op": "prefix_sum", "device": "MI300X", "duration_us": 3.0}])).frame.iloc[0]
print(json.dumps({
    "models": sorted(set(run.table["name"])),
    "law": (law("toy")(work, find("MI399"))).tolist(),
    "release": shipped_releases()["toy-1.0"].runs,
    "command": "toy" in COMMANDS,
    "called": [called[name] for name in ("op", "rows", "cols", "depth")],
    "row": [row["op"], row["depth"], row["dtype_out"]],
    "scan": [*BY_NAME["log2.depth"].ops, class_of(pd.DataFrame([called]))[0]],
    "example": fc.schema("scan").loc["depth", "example"],
}))
"""


def test_a_toy_of_each_kind_is_found(tmp_path: Path) -> None:
    package = tmp_path / "flopcast"
    left = shutil.ignore_patterns(
        ".*", "tests", "benchmarks", "docs", "build", "runs", "dist", "src"
    )
    shutil.copytree(ROOT, package, ignore=left)
    for name, text in FILES.items():
        (package / name).write_text(text, encoding="utf-8")
    for name, (old, new) in LINES.items():
        text = (package / name).read_text(encoding="utf-8")
        assert text.count(old) == 1, name
        (package / name).write_text(text.replace(old, new), encoding="utf-8")
    releases = package / "workloads" / "releases.toml"
    first = releases.read_text(encoding="utf-8").split("[[release]]")[1]
    with releases.open("a", encoding="utf-8") as end:
        end.write("\n[[release]]" + first.replace("vllm-0.6.6", "toy-1.0"))
    data = tmp_path / "data"
    data.mkdir()
    for i in range(1, 25):
        (data / f"{i}.txt").write_text(f"toy {1000 * i} {64 * i} {i * i}\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", ASKED, data],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # models of the suite, and a law that is a baseline
    assert {"Median", "OLS", "toy law"} <= set(found["models"])
    # two inputs and a result of fp32
    assert found["law"][0] == pytest.approx(2 * 3 * 4 * 1000 * 64 / 10_000e9 * 1e6)
    assert found["release"] == 40
    assert found["command"]
    assert found["called"] == ["scan", 4, 6, 2]
    assert found["row"] == ["scan", 2.0, "fp32"]
    assert (found["scan"], found["example"]) == (["scan", "reduction"], 3)
