"""Performance against size: from a few small sizes of a GPU, simulated or measured, to any larger one.

What enters is a table of benchmark, size and performance (`curves`), or measurements of the same
problems on devices of one architecture (`devices`); what leaves is the performance at other sizes
with intervals, and whether growth is linear. The laws are fitted to one benchmark's few sizes; they
are no models of the suite, which learn from many rows.

Start with `prediction`, which fits every law to every benchmark. Below it stand `scaling_laws`
(what laws share, and those everybody draws, and how far a law errs on other benchmarks),
`scale_models` (GPU scale-model simulation) and `scaling_class` (linear, sub-linear, super-linear,
and the cliffs of miss rates). `trials` tries the laws on the published curves.
"""
