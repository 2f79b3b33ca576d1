"""Measuring kernels of PyTorch, or functions of the user, on this machine into the measurement table.

In come rows to measure: a default grid or a list (`rows`, `listed`). Each becomes a call of PyTorch (`kernels`,
`collectives`) on a device (`backend`), timed (`timing`) and repeated until its time is known (`protocol`), in the
course of a session that can be stopped and resumed (`session`). Out comes a table of a row per workload with the
provenance of the machine (`results`, `machine`). Start reading at `measure.measure`. Of all flopcast only this needs
PyTorch, which `backend.import_torch` imports.
"""
