"""Execution traces of PyTorch and Chakra: arguments of operators, without times on the GPU.

A file enters `execution_trace_reader.read_execution_trace`; its calls leave as a table (`nodes`), and `join` gives
them to the profiler's trace of the same run.
"""
