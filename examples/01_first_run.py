"""
Train on measured kernels
=========================

The embedded measurements are 520 kernels of PyTorch, timed on one core of a CPU (the host) and on two (the target). Two
cores have twice the peak: FLOPS scaling says that everything takes half the time. Here three models learn what it
really takes, for matrix products, and are scored on rows that they have not seen.
"""

import flopcast as fc

gemms = {"op": "gemm"}
run = fc.train(where=gemms, models=["OLS", "NNLS", "Additive"], jobs=1)
run.selected["name"], round(run.selected["e_out"], 1), [round(bound, 1) for bound in run.selected["interval"]]

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
# terminal the whole is ``python train.py --where op=gemm --models OLS,NNLS,Additive --out runs/gemm``.
