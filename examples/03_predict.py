"""
Predict workloads nobody has run
================================

A trained run predicts rows that have shapes and, because it was trained with a host, the time on the host. Every
prediction comes with an interval, and says when it leaves what was measured.
"""

import pandas as pd

import flopcast as fc

run = fc.train(models=["OLS", "NNLS", "Additive"], jobs=1)

# %%
# New products, timed on the host alone. The last one is far larger than any that was trained on.

new = (
    fc.read(where={"device": "MI300X", "n": 4608, "m": 1024})
    .frame.loc[[0] * 4]
    .reset_index(drop=True)
)
new["m"] = [768, 1200, 1536, 1_000_000]
new["duration_us"] *= [0.8, 1.15, 1.5, 900.0]
prediction = fc.predict(run, new)
prediction.frame[
    ["m", "n", "k", "dtype_a", "predicted_us", "lower_us", "upper_us", "extrapolated", "basis"]
].round(1)

# %%
# ``basis`` is ``model`` within the trained range. Beyond it a simple rule takes over step by step (``blend``,
# ``rule``), with a separate interval that was learnt by leaving out the larger half of the measurements.

prediction.plot_intervals()

# %%
# An operator that the run has never seen gets no number but a reason.

softmax = {
    "op": "softmax",
    "device": "MI300X",
    "dtype_a": "bf16",
    "rows": 4096,
    "cols": 4096,
    "duration_us": 30.0,
}
mixed = fc.predict(run, [new, pd.DataFrame([softmax])]).frame
mixed[["op", "predicted_us", "reason"]]

# %%
# ``flopcast predict RUN new.csv --out predictions.csv`` does this in a terminal; ``--fallback law`` answers for the
# rest too, by a roofline at the rates that training reached.
