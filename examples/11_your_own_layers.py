"""
Layers of your own
==================

A model that no configuration describes is a graph: operators with their sizes, or times that you know, what waits for
what, and the messages between GPUs. Here two towers run side by side and meet.
"""

import flopcast as fc

product = {"op": "gemm", "m": 8192, "dtype": "bf16"}
layers = [
    {"name": "embed", "op": "copy", "rows": 8192, "cols": 4096, "dtype": "bf16", "after": []},
    {"name": "text", **product, "n": 16384, "k": 4096, "count": 24, "after": ["embed"]},
    {"name": "image", **product, "n": 4096, "k": 4096, "count": 12, "after": ["embed"]},
    {
        "name": "gather",
        "collective": "all_gather",
        "message_bytes": 64e6,
        "ranks": 8,
        "after": ["image"],
    },
    {"name": "head", "time_us": 350, "after": ["text", "gather"]},
]
forecast = fc.forecast({"layers": layers}, gpu="MI300X", gpus=8, dtype="bf16")
forecast.table.T

# %%
# What it is made of:

forecast.plot_parts()

# %%
# ``flopcast forecast layers.json --gpu MI300X --gpus 8`` reads the same from a file.
