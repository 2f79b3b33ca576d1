from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from flopcast.power.deconvolution import find_pauses

TIMES = np.arange(100, 2001, 100)
EXECUTIONS = pd.DataFrame({"start_ns": [150, 250, 1150, 1250], "end_ns": [230, 330, 1230, 1330]})


def test_pauses_and_idle_readings_are_found() -> None:
    found = find_pauses(TIMES, np.array([1, 2, 11]), EXECUTIONS, 100)
    assert found.filled == pytest.approx([0.5, 0.8, 0.5])
    assert found.share == pytest.approx(0.4)
    assert TIMES[found.idle].tolist() == [500, 600, 700, 800, 900, 1000, 1100]  # after the run, before the next


def test_few_readings_between_runs_are_helped_by_those_around() -> None:
    found = find_pauses(TIMES, np.array([1]), EXECUTIONS.head(2), 100)
    assert TIMES[found.idle].tolist() == [100, *range(500, 2001, 100)]


def test_power_of_executions_is_told_from_idle_power() -> None:
    found = find_pauses(TIMES, np.array([1, 2, 11]), EXECUTIONS, 100)
    power = np.full(len(TIMES), 100.0)
    power[[1, 2, 11]] = 0.5 * 600 + 50, 0.8 * 600 + 20, 0.5 * 600 + 50
    running, error = found.running_w(power, power[[1, 2, 11]])
    assert running == pytest.approx([600, 600, 600])
    assert error == 0
    power[found.idle] += np.tile([1, -1, 0], 3)[: len(found.idle)]
    assert 0 < found.running_w(power, power[[1, 2, 11]])[1] < 1


def test_an_instantaneous_logger_sees_no_pauses() -> None:
    found = find_pauses(TIMES, np.array([1, 2]), EXECUTIONS, 0)
    assert (found.share, found.correctable) == (0, True)
    assert found.running_w(np.full(20, 5.0), np.array([5.0, 6.0]))[0].tolist() == [5, 6]


def test_windows_that_hold_hardly_an_execution_are_told() -> None:
    times = np.array([155, 230, 330])
    found = find_pauses(times, np.arange(3), EXECUTIONS, 50)
    assert found.told.tolist() == [False, True, True]
    assert not found.correctable
