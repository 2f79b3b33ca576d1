"""Operators: what a kernel has to do, whichever device it runs on.

Rows with an operator's name, its dimensions and number formats enter; FLOPs, compulsory bytes and the shape as a matrix
product leave. Start with `operators`, the registry that says of each operator which dimensions it needs and which make
two rows the same problem. A module per family (`gemm`, `attention`, `convolution`, ...) has the formulas, always as
`flops`, `bytes_moved` and `view`; `dtypes` knows the number formats.
"""
