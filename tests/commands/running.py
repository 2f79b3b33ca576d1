"""Commands run in the process of the tests."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import pandas as pd
import pytest
import typer.testing
from typer.main import get_command

from flopcast.commands.app import app
from flopcast.evaluation import checking, law_comparison, linear_scaling
from flopcast.evaluation.cluster_bootstrap import bootstrap
from flopcast.scaling import devices, trials
from flopcast.scaling.curves import published_curves

# made anew for each call it takes as long as a brief command
typer.testing._get_command = cache(get_command)
WIDE = {"COLUMNS": "160"}


@cache
def hasty_trials() -> pd.DataFrame:
    """Return the trials of one law; those of every law: `tests.scaling.test_trials`."""
    return trials.summary(trials.trial(published_curves(), "weak", 128, ["linear"]))


def hurry(patch: pytest.MonkeyPatch) -> None:
    """Let verdicts and their intervals rest on 100 bootstrap samples; on all of them: `tests.evaluation`.

    Published simulations are predicted by one law.
    """
    patch.setattr("flopcast.api.scaling.published_trials", hasty_trials)
    for module in (checking, devices, law_comparison, linear_scaling):
        patch.setattr(
            module,
            "bootstrap",
            lambda *given, **asked: bootstrap(*given, **asked | {"replicates": 100}),
        )


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
    result = typer.testing.CliRunner().invoke(
        app, [str(argument) for argument in arguments], env=WIDE
    )
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ended(result.exit_code, result.stdout, result.stderr)
