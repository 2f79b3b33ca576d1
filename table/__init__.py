"""The measurement table: its columns, which rows are the same problem, pairs of host and target, counters, metrics."""
