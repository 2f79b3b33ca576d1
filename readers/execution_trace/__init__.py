"""Execution traces of PyTorch and Chakra: arguments of operators, without times on the GPU."""
