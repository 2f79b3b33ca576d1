"""Power of kernels from a logger's readings: clocks synchronised, runs chosen, readings stitched over the time.

The method is that of V. Singhania, S. Aga and M. A. Ibrahim, "FinGraV: Methodology for Fine-Grain GPU Power Visibility
and Insights", ISPASS 2025 (arXiv:2412.12426).
"""
