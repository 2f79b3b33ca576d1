from __future__ import annotations

from collections.abc import Callable
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
    parse_budget,
    parse_counts,
    parse_defaults,
    parse_gpu,
    parse_group,
    parse_names,
    parse_numbers,
    parse_size,
    parse_units,
    run_command,
)
from flopcast.errors import DataError, FlopcastError, ParameterError
from flopcast.hardware import find
from flopcast.readers.labels import UNKNOWN_DEVICE

TIDY = "device,op,dtype_a,m,n,k,duration_us\nA,gemm,fp16,1,2,3,4.0\nA,gemm,bf16,1,2,3,5.0\nA,gemm,fp16,1,2,3,-1\n"


def test_group_is_a_list_of_columns() -> None:
    assert parse_group("n, k") == ["n", "k"]
    assert parse_group(None) is None


@pytest.mark.parametrize("columns", ["", "n,,k", "n,n"])
def test_an_empty_or_repeated_group_column_is_refused(columns: str) -> None:
    with pytest.raises(DataError, match=r"--group.*COLUMN\[,COLUMN\]"):
        parse_group(columns)


def test_lists_of_names_and_numbers() -> None:
    assert parse_names(" OLS,Stack ", "--models", "OLS") == ["OLS", "Stack"]
    assert parse_numbers("8, 1.5", "--fit", "8,16") == [8.0, 1.5]
    assert parse_counts("1,2", "--threads", "1,2") == [1, 2]
    assert parse_names(None, "--models", "OLS") is parse_numbers(None, "--fit", "8") is None
    assert parse_counts(None, "--threads", "1") is None


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_names, "OLS,,Stack", r"--x.*NAME\[,NAME\].*'OLS,,Stack'"),
        (parse_numbers, "1,", r"--x.*'1,'"),
        (parse_numbers, "8,inf", r"--x.*'8,inf'"),
        (parse_counts, "1.5", r"--x.*'1.5'"),
    ],
)
def test_what_is_no_list_is_refused_in_the_words_of_its_option(
    parse: Callable[[str, str, str], object], text: str, message: str
) -> None:
    with pytest.raises(DataError, match=f"^{message}"):
        parse(text, "--x", "1,2")


def test_units_and_defaults_have_one_value_each() -> None:
    assert parse_units(["time=ms"]) == {"time": "ms"}
    assert parse_defaults(["device=MI300X", "device=MI300X"]) == {"device": "MI300X"}
    with pytest.raises(DataError, match=r"--unit.*'ms'.*'us'"):
        parse_units(["time=ms", "time=us"])
    with pytest.raises(DataError, match=r"--default.*COLUMN=VALUE.*'MI300X'"):
        parse_defaults(["MI300X"])


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


def test_budgets_and_sizes() -> None:
    assert parse_budget(None) is None
    assert parse_budget("10m") == pytest.approx(600.0)
    assert (parse_budget("1.5h"), parse_budget("90s")) == (5400.0, 90.0)
    for budget in ("soon", "12", "-1m", "0s", "1.2.3s", "5 minutes"):
        with pytest.raises(DataError, match="--budget"):
            parse_budget(budget)
    assert parse_size("2k") == 2048
    for size in ("", "12", "-1G", "1e30T", "nanM", "0G"):
        with pytest.raises(DataError, match="--max-size"):
            parse_size(size)


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
