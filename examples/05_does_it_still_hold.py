"""
Does a trained run still hold?
==============================

A new driver, another campaign, half a year later: measure some kernels again and ask the run.
"""

import flopcast as fc

small, large = {"m": (None, 1024)}, {"m": (1025, None), "n": 4096}
run = fc.train(where=small, models=["OLS"], jobs=1)

# %%
# Measurements of larger products, which the run has never seen. They are rows of too few weight shapes that lie in the
# trained range to judge by, and the verdict is just that:

check = fc.check(run, fc.read(where=large))
print(check.verdict)
check

# %%
# Now the same as a driver would leave it that makes the target a third slower, to everything alike.

slower = fc.read(where=small).frame.copy()
slower.loc[slower["device"] == run.metrics["data"]["target"], "duration_us"] *= 1.33
shifted = fc.check(run, slower)
print(shifted.verdict)
shifted

# %%
# A run that is shifted can be corrected by the factor (``shifted.correct("runs/corrected")``); one that is no longer
# valid is to be trained again. All tests count groups, not rows: many rows of one weight shape are one witness.
