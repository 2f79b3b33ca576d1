"""Lists of shapes and functions of the user."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from flopcast.errors import DataError
from flopcast.measuring.rows import UserFunction, read_shapes
from flopcast.remarks import remark

BACKEND: Any = SimpleNamespace(word="cpu")
MODULE = """
calls = []
def plain():
    calls.append("plain")
def gemm(m, n, k, dtype_a="fp32"):
    calls.append((m, n, k, dtype_a))
def prepared(m, device, seed):
    def run():
        calls.append(("run", m, device, seed))
    return run
def everything(**dims):
    calls.append(dims)
def tiled(m, block_size, mode="fast", batch_size=0, device="", repeats=1):
    calls.append((m, block_size, mode, batch_size, device, repeats))
def counted(m, repeats):
    pass
number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"kernels_of_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["somewhere"])
    return name


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_rows_are_read_under_the_names_of_the_measurement_table(tmp_path: Path) -> None:
    path = write(
        tmp_path / "shapes.csv",
        "op,precision,m,n,k,rows,cols,causal",
        "linear,torch.bfloat16,16,256,512,,,",
        "softmax,float,,,,8,128,",
    )
    found = read_shapes(path)
    other = write(
        tmp_path / "other.csv",
        *path.read_text(encoding="utf-8").replace("precision,m", "precision,M_").split(),
    )
    assert read_shapes(other, rename={"M_": "m"}) == found
    assert found.rows == [
        {"op": "gemm", "dtype_a": "bf16", "m": 16, "n": 256, "k": 512, "batch": 1},
        {"op": "softmax", "dtype_a": "fp32", "rows": 8, "cols": 128},
    ]
    assert found.refused == []
    assert [row["op"] for row in read_shapes(path, ["softmax"]).rows] == ["softmax"]


def test_decimal_commas_are_numbers_for_a_function_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "commas_here.py").write_text(
        "def f(m, alpha, name='', **others): pass\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    path = write(
        tmp_path / "s.csv",
        "op;dtype;m;n;k;alpha;name",
        "gemm;fp32;4,0;8;16;0,25;x,1",
        "gemm;fp32;4;8;16;2;y",
    )
    found = read_shapes(path, function=UserFunction("commas_here:f"))
    assert [(row["m"], row["alpha"], row["name"]) for row in found.rows] == [
        (4, 0.25, "x,1"),
        (4, 2, "y"),
    ]
    assert [note.values["columns"] for note in found.notes if note.code == "decimal-commas"] == [
        ("m",),
        ("alpha",),
    ]


def test_formats_that_a_call_fixes_are_stated(tmp_path: Path) -> None:
    path = write(
        tmp_path / "s.csv",
        "op,dtype,m,n,k,rows,cols",
        "gemm,int8,32,32,32,,",
        "gather,bf16,,,,8,128",
        "gemm,fp8,16,16,16,,",
    )
    gemm, gather, narrow = read_shapes(path).rows
    assert gemm["dtype_out"] == "int32"
    assert gather["dtype_b"] == "int64"
    assert "dtype_out" not in narrow


def test_a_row_that_cannot_be_used_is_listed_with_its_reason_and_line(tmp_path: Path) -> None:
    path = write(
        tmp_path / "s.csv", "op,dtype,m,n,k", "gemm,fp32,4,0,4", "gemm,fp32,4,4,4", "gem,fp32,4,4,4"
    )
    found = read_shapes(path)
    assert len(found.rows) == 1
    assert found.refused == [
        {"source": "s.csv:2", "reason": "dimension-not-positive", "detail": "n = 0"},
        {"source": "s.csv:4", "reason": "unknown-operator", "detail": "gem: did you mean gemm?"},
    ]


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_row_listed_twice_is_measured_once_and_counted(repeats: int, tmp_path: Path) -> None:
    again = ["matmul,float32,4,8.0,16"] * repeats
    path = write(
        tmp_path / "s.csv", "op,dtype,m,n,k", "gemm,fp32,4,8,16", *again, "gemm,fp16,4,8,16"
    )
    found = read_shapes(path)
    assert [row["dtype_a"] for row in found.rows] == ["fp32", "fp16"]
    assert found.notes[-1] == remark("measured-once", file="s.csv", rows=repeats)


@pytest.mark.parametrize("name", ["s.parquet", "s.pq"])
def test_parquet_and_flags(tmp_path: Path, name: str) -> None:
    sizes = {"batch": 1, "heads": 2, "seq_q": 8, "seq_kv": 8, "head_dim": 16}
    table = pd.DataFrame(
        [{"op": "attention", "dtype_a": "fp16", "dtype_b": "fp16", **sizes, "causal": True}]
    )
    table.to_parquet(tmp_path / name)
    (row,) = read_shapes(tmp_path / name).rows
    assert row["causal"] is True
    assert row["dtype_b"] == "fp16"
    assert row["seq_q"] == 8


@pytest.mark.parametrize(
    ("lines", "kernels", "message"),
    [
        (("op,dtype,m,n,k", "gem,fp32,4,4,4"), None, "gem"),
        (("op,dtype,m,n,k", "gemm,fp32,4,4,4"), ["conv"], "conv"),
        (("a,b", "1,2"), None, "s.csv"),
    ],
)
def test_a_list_without_a_usable_row_is_refused(
    lines: tuple[str, ...], kernels: list[str] | None, message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message):
        read_shapes(write(tmp_path / "s.csv", *lines), kernels)


def test_a_function_is_called_with_the_cells_it_has_parameters_for(module: str) -> None:
    function = UserFunction(f"{module}:gemm")
    call = function.build(
        BACKEND, 0, {"op": "gemm", "m": 2, "n": 3, "k": 4, "batch": 1, "dtype_a": "bf16"}
    )
    calls = __import__(module).calls
    calls.clear()
    call()
    assert calls == [(2, 3, 4, "bf16")]


def test_a_function_that_returns_a_call_prepares_it(module: str) -> None:
    call = UserFunction(f"{module}:prepared").build(BACKEND, 7, {"op": "gemm", "m": 2})
    call()
    assert __import__(module).calls[-1] == ("run", 2, "cpu", 7)


def test_functions_without_arguments_or_with_all(module: str) -> None:
    plain = UserFunction(f"{module}:plain")
    assert plain.row() == {"op": "kernel", "variant": f"{module}:plain"}
    plain.build(BACKEND, 0, plain.row())()
    row = {"op": "gemm", "m": 2}
    UserFunction(f"{module}:everything").build(BACKEND, 0, row)()
    assert __import__(module).calls[-1] == row


def test_other_columns_are_passed_to_a_function_that_has_parameters_for_them(
    module: str, tmp_path: Path
) -> None:
    lines = (
        "op,dtype,m,n,k,block_size,mode,batch_size,device,repeats,note",
        *(
            f"gemm,fp32,4,8,16,{block},{mode},3,A100,9,x"
            for block, mode in ((64, "slow"), (128, ""), (64, "slow"))
        ),
    )
    path = write(tmp_path / "s.csv", *lines)
    function = UserFunction(f"{module}:tiled")
    problem = {"op": "gemm", "dtype_a": "fp32", "m": 4, "n": 8, "k": 16, "batch": 3}
    rows = read_shapes(path, function=function).rows
    assert rows == [
        {**problem, "batch_size": 3, "block_size": 64, "mode": "slow"},
        {**problem, "batch_size": 3, "block_size": 128},
    ]
    calls = __import__(module).calls
    calls.clear()
    for row in rows:
        function.build(BACKEND, 0, row)
    assert calls == [(4, 64, "slow", 3, "cpu", 1), (4, 128, "fast", 3, "cpu", 1)]
    assert read_shapes(path).rows == [problem]
    (first, _) = read_shapes(path, function=UserFunction(f"{module}:everything")).rows
    assert first == {**problem, "block_size": 64, "mode": "slow", "note": "x"}
    with pytest.raises(DataError, match="needs repeats"):
        UserFunction(f"{module}:counted").build(BACKEND, 0, problem)


def test_a_function_that_lacks_a_dimension_says_which(module: str) -> None:
    with pytest.raises(DataError, match="needs n, k"):
        UserFunction(f"{module}:gemm").build(BACKEND, 0, {"op": "gemm", "m": 2})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nocolon", "must be module:function"),
        ("no_such_module_here:f", "needs a module 'no_such_module_here'"),
        ("MODULE:missing", "has no 'missing'"),
        ("MODULE:number", "be called"),
        ("math:hypot", "math:hypot is built"),
    ],
)
def test_functions_that_are_not_there(name: str, message: str, module: str) -> None:
    with pytest.raises(DataError, match=message):
        UserFunction(name.replace("MODULE", module))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "raise RuntimeError('no GPU here\\nand pages of details')",
            "fails: RuntimeError: no GPU here$",
        ),
        ("import os\nos.nothing_like_that", r"AttributeError.*'os'.*'nothing_like_that'$"),
        ("def broken(:", "fails: SyntaxError: "),
        ("raise SystemExit(3)", "fails: SystemExit: 3$"),
        ("import no_such_module_there", "needs a module 'no_such_module_there'"),
    ],
)
def test_modules_that_fail_when_imported(
    source: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fails_when_imported.py").write_text(source + "\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(DataError, match=message):
        UserFunction("fails_when_imported:f")
