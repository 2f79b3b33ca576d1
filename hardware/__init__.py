"""GPUs: figures with their unit and source, how to find one, and the user's.

A name, an alias, a gfx id or a TOML file enters `lookup.find`; a `GPU` leaves, whose figures are
numbers or not published. Start with `spec` (the figures, and `GPU`), then `lookup`; the figures
themselves stand in the data files beside them. `compared` says which of them a model learns from
and predicts. `scaled` makes scale models of a GPU; `networks` says what joins nodes of them.
"""

from .compared import Comparison
from .lookup import (
    Ceiling,
    Source,
    all_gpus,
    find,
    find_gfx,
    measured,
    others_named,
    read_gpu,
    sources,
    word_of,
)
from .networks import NETWORK_FIGURES, Network, read_networks
from .spec import DTYPES, FIGURES, GPU, PEAKS, UNITS, Figure, peak_path

__all__ = [
    "DTYPES",
    "FIGURES",
    "GPU",
    "NETWORK_FIGURES",
    "PEAKS",
    "UNITS",
    "Ceiling",
    "Comparison",
    "Figure",
    "Network",
    "Source",
    "all_gpus",
    "find",
    "find_gfx",
    "measured",
    "others_named",
    "peak_path",
    "read_gpu",
    "read_networks",
    "sources",
    "word_of",
]
