"""Whole workloads forecast from their configuration, before anything is run.

A `Setting` (model, GPU, parallelism, batch, lengths, release) enters `forecasting.forecast`; a
`Forecast` leaves: time with its interval, what it is made of, the memory it takes, and why it
cannot run where it cannot. Start with `architecture` (a model as numbers, and the kernels of one
layer on one GPU), then `kernel_times` (what they take), `inference` and `training` (how often),
`releases` (launch, scheduling and communication, by software release), `forecasting`. A graph of
layers of the user is read by `layer_graph`, and timed by `critical_path`.
"""
