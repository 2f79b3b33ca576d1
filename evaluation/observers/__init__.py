"""Side concerns of a cross-validation, a file each: who leaves early, what was fitted before, a budget, the progress.

Each is an `evaluation.crossval.Observer`: asked before a task, told after its fits. Start with
`budget.py`, the shortest.
"""
