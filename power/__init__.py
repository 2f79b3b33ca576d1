"""Power and energy of single kernels from a logger's readings.

In come a power log (this package's form, or that of nvidia-smi, amd-smi, rocm-smi), the executions
of kernels on the CPU's clock, and readings of both clocks (`readings`, `logs`). Clocks are
synchronised (`clocks`), runs chosen (`runs`), readings stitched over the kernel's time (`profile`,
`energy`, `deconvolution`). Out comes a `profile.KernelPower` for each kernel: start reading at
`profile.profile_files`; what several teach is `lessons.learn`. How to measure is `runs.plan`, which
`measuring.power_recording` carries out.

The method is that of V. Singhania, S. Aga and M. A. Ibrahim, "FinGraV: Methodology for Fine-Grain
GPU Power Visibility and Insights", ISPASS 2025 (arXiv:2412.12426).
"""
