"""The measurement table: its columns, which rows are the same problem, pairs of host and target, hardware counters.

Raw rows of any reader enter, under the names of the table; rows that can be used leave, typed and
in one spelling, and those that cannot with their reason. Start with `measurements` (the columns;
`clean`, `judge`), then `conditions` (rows chosen) and `problems` (repeats merged, the fastest
kernel, host and target paired); `counters` brings replay passes together.
"""
