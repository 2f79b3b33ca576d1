"""
GPUs, known and your own
========================

All laws stand on figures of the GPUs. Each has its unit and its source; what is not published is left out, never
guessed.
"""

import flopcast as fc

fc.gpus().loc[["MI300X", "MI325X", "MI355X", "H100 SXM5"], ["cus", "memory_gb", "memory_bw_gbs"]]

# %%
# Peaks are dense, and of the number format that computes.

mi300x, mi355x = fc.gpu("MI300X"), fc.gpu("AMD_Instinct_MI355X_OAM")
{
    dtype: round(mi355x.peak_tflops(dtype) / mi300x.peak_tflops(dtype), 2)
    for dtype in ("fp64", "bf16", "fp8")
}

# %%
# A part of your own, or one that exists only as a plan, is a small TOML file. What it does not say it takes from the
# GPU that it is based on.

import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "mi375x.toml"
    file.write_text('name = "MI375X"\nbased_on = "MI355X"\nmemory_bw_gbs = 10000\n')
    mine = fc.gpu(str(file))
mine.name, mine.memory_bw_gbs, mine.cus
