from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from flopcast.api.tables import load_measurements
from flopcast.commands.options import (
    check_data,
    column_names,
    gpu_names,
    model_names,
    parse_gpu,
    run_command,
)
from flopcast.errors import DataError, FlopcastError, ParameterError
from flopcast.hardware import find
from flopcast.readers.labels import UNKNOWN_DEVICE

TIDY = "device,op,dtype_a,m,n,k,duration_us\nA,gemm,fp16,1,2,3,4.0\nA,gemm,bf16,1,2,3,5.0\nA,gemm,fp16,1,2,3,-1\n"


def test_measurements_are_read_and_chosen(tmp_path: Path) -> None:
    path = tmp_path / "tidy.csv"
    path.write_text(TIDY)
    found = load_measurements([path], {"dtype_a": ["fp16"]})
    assert list(found.frame["duration_us"]) == [4.0]
    assert list(found.rejected["reason"]) == ["negative-duration"]
    with pytest.raises(DataError, match="dtype_a=fp64"):
        load_measurements([path], {"dtype_a": ["fp64"]})


def test_a_device_the_user_described_is_not_called_unknown(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(
        "device,op,dtype_a,m,n,k,t_us\nMI375X,gemm,bf16,64,64,64,5.0\n", encoding="utf-8"
    )
    assert UNKNOWN_DEVICE in [note.code for note in load_measurements([path]).notes]
    assert UNKNOWN_DEVICE not in [
        note.code for note in load_measurements([path], devices=["MI375X"]).notes
    ]


def _app(error: BaseException | None) -> typer.Typer:
    def command(count: Annotated[int, typer.Option(help="How many.")] = 1) -> None:
        """Say how many."""
        if error:
            raise error
        print(f"count {count}")

    app = typer.Typer()
    app.command()(run_command(command))
    return app


def test_a_command_keeps_its_options_and_help() -> None:
    assert CliRunner().invoke(_app(None), ["--count", "3"]).output == "count 3\n"
    shown = CliRunner().invoke(_app(None), ["--help"]).output
    assert "Say how many." in shown
    assert "How many." in shown


def test_what_the_user_got_wrong_is_one_line_and_exit_code_2() -> None:
    result = CliRunner().invoke(_app(FlopcastError("this file\nis empty")), [])
    assert result.exit_code == 2
    assert result.stderr == "error: this file is empty\n"
    assert result.stdout == ""


def test_ctrl_c_is_exit_code_130() -> None:
    result = CliRunner().invoke(_app(KeyboardInterrupt()), [])
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")


def test_ctrl_c_says_what_it_left_and_what_goes_on(tmp_path: Path) -> None:
    def command(context: typer.Context, out: Path) -> None:
        raise KeyboardInterrupt

    app = typer.Typer()
    app.command()(run_command(command))
    result = CliRunner().invoke(app, [str(tmp_path / "out")])
    assert (result.exit_code, len(result.stderr.splitlines())) == (130, 1)
    assert str(tmp_path / "out") in result.stderr


def test_a_shell_completes_gpus_models_and_columns() -> None:
    assert gpu_names("H100-S") == ["H100-SXM5"]
    assert find(gpu_names("mi250x-")[0]).name == "MI250X (per GCD)"
    assert "llama-3.1-70b" in model_names("llama-3.1")
    assert column_names("dtype_o") == ["dtype_out="]


def test_a_bug_is_not_hidden() -> None:
    assert isinstance(
        CliRunner().invoke(_app(ZeroDivisionError()), []).exception, ZeroDivisionError
    )


def test_a_wrong_parameter_is_named_by_its_option() -> None:
    for parameter, option in (
        ("cpu_speed", "--cpu-speed"),
        ("interval", "--interval"),
        ("count", "--count"),
    ):
        result = CliRunner().invoke(_app(ParameterError(parameter, "must be above 0, got 0")), [])
        assert (result.exit_code, result.stderr) == (2, f"error: {option} must be above 0, got 0\n")
    app = typer.Typer()
    app.command()(run_command(_fails))
    assert CliRunner().invoke(app, ["x"]).stderr == "error: TRACE is unknown\n"


def _fails(trace: Annotated[str, typer.Argument()]) -> None:
    raise ParameterError("trace", "is unknown")


def test_data_must_exist() -> None:
    assert check_data(None) is check_data([]) is None
    with pytest.raises(DataError, match=r"none\.csv"):
        check_data([Path("none.csv")])


def test_gpus_are_found_by_name() -> None:
    assert parse_gpu(None) is None
    found = parse_gpu("mi300x")
    assert found is not None
    assert found.name == "MI300X"
