"""The embedded measurements: FP8 matrix products that AITER's tuner timed on MI300X and MI355X; others beside them.

`fetch_aiter`, `fetch_miopen` and `fetch_aiconfigurator` bring public tables of GPUs to a cache and
return their folder.
"""

from .embedded import (
    DEFAULT_HOST,
    DEFAULT_TARGET,
    H100_H200,
    H100_PARTS,
    SERVING_CONDITIONS,
    SERVING_MODEL,
    default_paths,
    fetch_aiconfigurator,
    fetch_aiter,
    fetch_miopen,
)
from .fetching import fetch

__all__ = [
    "DEFAULT_HOST",
    "DEFAULT_TARGET",
    "H100_H200",
    "H100_PARTS",
    "SERVING_CONDITIONS",
    "SERVING_MODEL",
    "default_paths",
    "fetch",
    "fetch_aiconfigurator",
    "fetch_aiter",
    "fetch_miopen",
]
