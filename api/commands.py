"""Commands of several words as functions of one name: ``flopcast power plan`` is `flopcast.power_plan`."""

from ..hardware.scaled import scale_models as scale_configs
from ..measuring.power_recording import record as power_record
from ..power.profile import profile_files as power_profile
from ..power.runs import plan as power_plan
from ..workloads.supercomputers import hpcg as forecast_hpcg
from ..workloads.supercomputers import hpl as forecast_hpl
from ..workloads.supercomputers import hpl_mxp as forecast_hpl_mxp
from ..workloads.supercomputers import kernel as forecast_kernel

__all__ = [
    "forecast_hpcg",
    "forecast_hpl",
    "forecast_hpl_mxp",
    "forecast_kernel",
    "power_plan",
    "power_profile",
    "power_record",
    "scale_configs",
]
