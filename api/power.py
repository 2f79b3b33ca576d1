"""Power and energy of kernels as results: how to measure them, a recording, and profiles from a log."""

from __future__ import annotations

import pandas as pd

from ..measuring import power_recording
from ..output import FILES
from ..power import profile, runs
from ..report.document import Document
from ..report.power import plan_document, plan_rows, power_document, record_document
from ..report.result import Result, returning, saving


class PowerPlan(Result, runs.Plan):
    """How to measure the power of one kernel: `power.runs.Plan`."""

    heading = "How to measure the power of a kernel"

    @property
    def table(self) -> pd.DataFrame:
        """One row per setting of the protocol: its value and its source."""
        return pd.DataFrame(plan_rows(self), columns=["setting", "value", "because"])

    def document(self) -> Document:
        """Return the protocol for readers."""
        return plan_document(self)


class PowerRecording(Result, power_recording.Recorded):
    """Power that was recorded, and where it lies: `measuring.power_recording.Recorded`."""

    heading = "Recorded power"

    @property
    def table(self) -> pd.DataFrame:
        """One row per kernel: its time, the lag of the logger, runs and executions."""
        return pd.DataFrame([vars(protocol) for protocol in self.protocols])

    def document(self) -> Document:
        """Return how each kernel was recorded for readers, and the next command."""
        return record_document(self)


class PowerProfiles(Result, profile.PowerProfiles):
    """The power of kernels over their time: `power.profile.PowerProfiles`."""

    saved_as = FILES["power"]

    @property
    def table(self) -> pd.DataFrame:
        """One row per kernel and component: power, energy with its interval, throttling (`power.profile.compare`)."""
        return profile.compare(self.kernels)

    def document(self) -> Document:
        """Return power and energy for readers; its ``data`` are those of ``power.json``."""
        return power_document(self)


power_plan = saving(returning(PowerPlan, runs.plan))
power_record = returning(PowerRecording, power_recording.record)
power_profile = saving(returning(PowerProfiles, profile.profile_files))
