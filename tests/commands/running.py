"""Commands run in the process of the tests."""

from __future__ import annotations

from typing import NamedTuple

from typer.testing import CliRunner

from flopcast.commands.app import app

WIDE = {"COLUMNS": "160"}


class Ended(NamedTuple):
    """How a command ended, and what it printed."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        """Everything printed."""
        return self.stdout + self.stderr


def call(*arguments: object) -> Ended:
    """Run ``flopcast`` with these arguments on a wide terminal; what is neither a result nor a refusal is raised."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env=WIDE)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ended(result.exit_code, result.stdout, result.stderr)
