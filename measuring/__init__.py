"""Measuring kernels of PyTorch, or functions of the user, into the measurement table."""
