"""GPU specifications: the data file, the look-up, and the user's own GPUs."""

from .lookup import Source, all_gpus, find, find_gfx, read_gpu, sources
from .measured import Ceiling, measured
from .schema import DTYPES, FIGURES, PEAKS, UNITS, Figure, peak_path
from .spec import GPU

__all__ = [
    "DTYPES",
    "FIGURES",
    "GPU",
    "PEAKS",
    "UNITS",
    "Ceiling",
    "Figure",
    "Source",
    "all_gpus",
    "find",
    "find_gfx",
    "measured",
    "peak_path",
    "read_gpu",
    "sources",
]
