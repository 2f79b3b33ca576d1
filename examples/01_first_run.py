"""
Train on measured kernels
=========================

The embedded measurements are FP8 matrix products that AMD timed on MI300X (the host) and MI355X (the
target), 429 of them on both. By their peaks FLOPS scaling says that MI355X takes 0.52 of the time.
Here three models learn what it really takes, and are scored on rows that they have not seen.
"""

import flopcast as fc

run = fc.train(models=["OLS", "NNLS", "Additive"], jobs=1)
(
    run.selected["name"],
    round(run.selected["e_out"], 1),
    [round(bound, 1) for bound in run.selected["interval"]],
)

# %%
# ``selected`` is the model that the cross-validation chose, with its *honest* error on unseen groups in percent: it
# includes the price of having been chosen among several. A group is a weight shape here; no shape is both trained on
# and scored.
#
# All models stand beside the analytic baselines, on the same folds. ``ir_10`` is the share of workloads that are
# predicted within 10 %.

columns = ["scheme", "kind", "name", "e_out", "e_in", "median_ape", "ir_10", "ir_20"]
run.table[columns].round(1)

# %%
# The same as a figure: how many workloads (vertical) lie within an error (horizontal).

run.plot_inliers()

# %%
# Each point is a workload that its model had not seen.

run.plot_workloads()

# %%
# ``run.save("runs/gemm")`` writes the evidence, the model and a page; ``fc.load("runs/gemm")`` reads them back. In a
# terminal the whole is ``python train.py --models OLS,NNLS,Additive --out runs/gemm``.
