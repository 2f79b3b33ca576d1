"""
How long is a training step?
============================

The same for training: tensor, pipeline and data parallelism, recomputation, and the network between nodes.
"""

import flopcast as fc

forecasts = fc.forecast(
    "llama-3.1-70b",
    kind="training",
    gpu="MI300X",
    gpus=64,
    tp=8,
    pp=[1, 2, 4],
    global_batch=512,
    seq_len=8192,
    recompute="selective",
)
forecasts.table[["pp", "fits", "predicted", "lower", "upper", "unit", "reason"]].round(2)

# %%
forecasts.plot_parts()

# %%
# A faster network between the nodes, at four stages:

forecasts = fc.forecast(
    "llama-3.1-70b",
    kind="training",
    gpu="MI300X",
    gpus=64,
    tp=8,
    pp=4,
    global_batch=512,
    seq_len=8192,
    recompute="selective",
    network_gbs=[25, 50, 100, 400],
)
forecasts.table[["network_gbs", "predicted", "unit"]].round(2)
