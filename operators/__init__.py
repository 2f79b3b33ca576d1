"""Operators: the work of a kernel on any device, and the other facts of it.

Rows with an operator's name, its dimensions and number formats enter; FLOPs, compulsory bytes and
the shape as a matrix product leave. Start with `op.Op`, the record of an operator, and a file of
`kinds`, which has one or a few of them: dimensions, formulas, calls of frameworks (`call`), how
they are measured. `operators` is the registry of all, through which the rest asks; `vector` and
`work` (dimensions, number formats) have what files share.
"""
