"""
What to measure next
====================

Time on the target is scarce. Of all that was measured on the host, which few kernels should be measured there, so that
a run learns most about groups it has not seen?
"""

import flopcast as fc

gemms = {"op": "gemm"}
run = fc.train(where={**gemms, "m": (None, 128)}, models=["OLS", "NNLS", "Additive"], jobs=1)
candidates = fc.read(where={**gemms, "device": run.metrics["data"]["host"]})

advice = fc.advise(run, candidates, budget=12)
print(advice)

# %%
# The batch stands for all that could be measured, by group and by what the run does not know. Measure it, and train
# with the old and new rows together.

columns = ["dtype_a", "m", "n", "k", "duration_us", "predicted"]
advice.batch[columns].round(1)
