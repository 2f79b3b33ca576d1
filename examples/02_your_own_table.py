"""
Bring a table of your own
=========================

Any table becomes measurements when it says on which device, which operator, which sizes and how long. This one has the
faults that such tables have.
"""

import pandas as pd

import flopcast as fc

table = pd.DataFrame(
    {
        "device": ["MI300X", "MI300X", "MI300X", "MI300X", "MI999"],
        "op": ["gemm", "aten::mm", "gemm", "gemm", "gemm"],
        "m": [4096, 4096, 8192, 16, 16],
        "n": [4096, 4096, 8192, 4096, 4096],
        "k": [4096, 4096, 8192, 4096, 4096],
        "dtype_a": "bf16",
        "latency": [0.27, 0.28, 1.9, 0.0, 0.02],
    }
)

# %%
# A unit is never guessed: without ``units`` the call ends with one line that says what is missing.

try:
    fc.read(table)
except fc.DataError as error:
    print(error)

# %%
# With it, two repeats of one product (``aten::mm`` is PyTorch's name of ``gemm``) become one row, their median.
# A device that nobody knows keeps its name; only laws that need its figures are then out of reach.

data = fc.read(table, unit={"latency": "ms"})
data

# %%
# Rows that cannot be used are kept out, with their place and reason. Nothing is repaired in silence.

data.rejected

# %%
# Which columns an operator has, their units and other names, ``fc.schema`` says; ``flopcast schema gemm --out
# gemm.csv`` writes a table to fill in.

fc.schema("gemm")
