"""Measuring kernels of PyTorch, or functions of the user, on this machine into the measurement table.

In come rows to measure: a default grid or a list (`rows`). Each becomes a call of PyTorch on a
device (`backend`), repeated until its time is precise (`timing`), in the course of a session that can
be stopped and resumed (`session`). Out comes a table of a row per workload with the provenance of
the machine (`machine`). Start reading at `measure.measure`. `power_recording` records the power of
kernels with a logger (`power_rigs`). `inline_times.inline` times the modules of a user's
program instead, as it runs. Of all flopcast only this needs PyTorch, which `backend.import_torch`
imports.
"""
