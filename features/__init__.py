"""From a measurement to a row of X: the catalogue of features, the recipe that a training set fixes, the matrix.

Rows of the measurement table and two devices enter (host and target; one where there is no host), a
`Dataset` leaves: X, y, groups and the values of the analytic laws. Start with
`matrix.build_dataset`, then `catalogue`, which names every feature with its formula; `context` is
what they are computed from, `recipe` what a model keeps of them.
"""
