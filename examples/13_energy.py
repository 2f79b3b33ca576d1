"""
Energy instead of time
======================

Rows that carry an energy or a power train, predict and validate those, with laws that scale by the board power. The
table is made up from a known law, so that one can see whether it is found: a product costs a fixed energy, and one per
operation and one per byte, with 3 % noise.
"""

import numpy as np
import pandas as pd

import flopcast as fc

random = np.random.default_rng(0)
shapes = pd.DataFrame(
    [
        (m, n, k)
        for n, k in ((4096, 4096), (8192, 1024), (1280, 8192), (7168, 2304))
        for m in (16, 64, 256, 1024, 4096)
    ],
    columns=["m", "n", "k"],
).assign(op="gemm", dtype_a="bf16")
flops = 2 * shapes.prod(axis=1, numeric_only=True)
moved = 2 * (shapes["m"] * shapes["k"] + shapes["k"] * shapes["n"] + shapes["m"] * shapes["n"])


def measured(device, fixed_j, j_per_flop, j_per_byte):
    """Return the shapes as one device measures them."""
    energy = fixed_j + j_per_flop * flops + j_per_byte * moved
    return shapes.assign(
        device=device,
        energy_j=energy * random.lognormal(0, 0.03, len(shapes)),
        duration_us=energy / 500 * 1e6,
    )


data = pd.concat([measured("MI300X", 4e-3, 9e-13, 6e-11), measured("MI355X", 5e-3, 6e-13, 5e-11)])
run = fc.train(
    data, host="MI300X", target="MI355X", metric="energy_j", models=["OLS", "Additive"], jobs=1
)
run.table.query("scheme == 'grouped'")[["kind", "name", "e_out", "ir_10"]].round(1)

# %%
# The baselines scale the host's energy by the board powers (TDP) and the peaks; they cannot know the new process.

run.plot_workloads()
