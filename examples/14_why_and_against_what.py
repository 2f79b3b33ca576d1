"""
Why this number, and is the other run better?
=============================================

One prediction can be taken apart: what each part of the model says of the workload (here there is one part), what the
nearest trained rows took, and which of its features are unusual. Two runs can be held against each other on the rows
that both predicted.
"""

import flopcast as fc

small = {"m": (None, 1024)}
run = fc.train(models=["OLS", "NNLS", "Additive"], jobs=1)
new = fc.read(where={**small, "device": "MI300X"})

explanation = run.explain(new, row=3)
[(part.name, round(part.value, 1)) for part in explanation.parts]

# %%
# The trained rows that are most like it, nearest first, with what they took on the target:

explanation.neighbours.head().round(1)

# %%
# A run that was trained on the smaller products, with one model alone. Errors are those on the rows that both runs
# predicted; a positive ``difference`` speaks for the first.

other = fc.train(where=small, models=["OLS"], jobs=1)
compared = fc.compare(run, other)
compared.table.round(1)

# %%
# ``compared.document()`` has the paired test, which counts groups: runs whose errors differ by less than the groups
# leave open are not distinguished. In a terminal these are ``flopcast explain RUN new.csv --row 3`` and ``flopcast
# compare RUN1 RUN2``; two profilers' traces are compared by the same command, call by call.
