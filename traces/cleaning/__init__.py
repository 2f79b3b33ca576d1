"""From repeated measurements to trustworthy ones: what is left out, why, and how far the rest spreads.

A dispatch table (`traces.dispatches`) of one run or of several enters, with the operators of
`traces.summary.annotate`; what leaves is the same table without what distorts, the rest with a
reason each, and the spread of every kernel.

Start with `pipeline.clean`, which asks `steady_state` (steps, warm-up), `robust` (outliers, medians
with intervals) and `binning` (the fullest execution-time bin), and reports by `repeats`. `joining`
puts runs of one program together that each profile a part of its kernels or counters.
"""
