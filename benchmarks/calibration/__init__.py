"""Statements held against the truth: made-up data whose law is known, and measured rows that were left out.

``make calibration`` prints every cell. `selection` has errors and choices, `verdicts` those of
validate, check and p-values, `spread` intervals by the basis of a row, `measured` the intervals
of real rows beside those of MAPIE and crepes, `whole_runs` what runs state beside what they deliver,
`more_rows` what is expected of further rows. The figures stand in the documentation (evaluation);
a small part runs among the tests.
"""
