"""
Forecast a model nobody has run
===============================

What will Llama-3.1-405B do on eight MI300X, and on eight MI355X, at which batch? The answer comes from the
configuration alone: kernel by kernel, with launch, scheduling and communication costs fitted to published runs.
"""

import flopcast as fc

forecasts = fc.forecast(
    "llama-3.1-405b",
    gpu=["MI300X", "MI355X"],
    gpus=8,
    dtype="fp8",
    batch=[1, 4, 16, 64],
    input_len=2048,
    output_len=512,
)
forecasts.table[["gpu", "batch", "predicted", "lower", "upper", "unit"]].round(2)

# %%
# Latency and throughput pull against each other:

forecasts.plot_batch()

# %%
# What if it were the other GPU, or another batch? Sliders over the settings that were computed.

forecasts.what_if()

# %%
# Where the time goes.

forecasts.plot_parts()

# %%
# What does not fit has no time, but says by how much.

forecasts = fc.forecast(
    "llama-3.1-405b",
    gpu="MI300X",
    gpus=[2, 4, 8],
    dtype="bf16",
    batch=1,
    input_len=512,
    output_len=64,
)
forecasts.table[["gpus", "fits", "predicted", "unit", "reason"]]
