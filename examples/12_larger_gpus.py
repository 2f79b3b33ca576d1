"""
From small scale models to a large GPU
======================================

A simulation of a GPU with 128 multiprocessors takes far longer than one with 8 or 16. Which law leads from the small to
the large one? The published results of GPU scale-model simulation (SeyyedAghaei, Naderan-Tahan and Eeckhout, HPCA 2024)
come with flopcast.
"""

from importlib.resources import files

import flopcast as fc

curves = str(files("flopcast.datasets") / "scale_model.csv")
scaling = fc.scale(curves, fit=[8, 16], sizes=[128], where={"scenario": "strong"})
scaling.errors.round(2)

# %%
# Proportional scaling is wrong where a working set crosses the cache: performance then leaps, or lags. What was
# measured (or simulated) and what the laws say, benchmark by benchmark:

scaling.plot_benchmarks()

# %%
# Two measurements of your own are enough for a first answer.

mine = fc.scale(
    fit=[38, 76], sizes=[152, 304], performance=[118.0, 221.0], law=["proportional", "power"]
)
mine.table
