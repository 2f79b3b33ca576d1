"""A trace on another GPU: what a profiler measured on the host, played again as the target would.

What enters: a trace (`traces.summary.Annotated`), two GPUs, and `whole_trace.Laws`: how to project.
What leaves: a `result.Result`, the end-to-end time with its interval, and the tables that explain
it; or, of one workload under several profilers, a `comparison.Fidelity`.

Start with `whole_trace.project_trace`. It multiplies the time of every kernel (`kernel_laws`) and
collective (`collective_laws`) by a factor, infers what waits for what (`graph`), and plays that
again (`replay`). `uncertainty` says how sure that is, `sweep` what another target would change, and
`result` gathers it all.
"""
