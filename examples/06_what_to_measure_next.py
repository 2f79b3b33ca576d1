"""
What to measure next
====================

Time on the target is scarce. Of all that was measured on the host, which few kernels should be measured there, so that
a run learns most about groups it has not seen?
"""

import flopcast as fc

run = fc.train(models=["OLS", "NNLS", "Additive"], jobs=1)
candidates = fc.read(where={"device": "MI300X", "m": (None, 1024)})

advice = fc.advise(run, candidates, rows=12)
print(advice)

# %%
# The batch stands for all that could be measured, by group and by what the run does not know. Measure it, and train
# with the old and new rows together.

columns = ["dtype_a", "m", "n", "k", "duration_us", "predicted"]
advice.batch[columns].round(1)

# %%
# How many rows are enough? A learning curve trains on more and more of them. Below it is how many rows lay in their
# intervals.

curve = fc.curve(host="MI300X", target="MI355X", models=["Additive"], rows=(10, 30, 100), draws=1)
curve.plot()
