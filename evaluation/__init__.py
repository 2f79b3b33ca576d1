"""Out-of-sample evidence: folds, metrics, honest selection, intervals, ranking of features, tests of linear scaling.

A `Dataset` and candidates enter; errors on rows that no fit has seen, and a model worth saving,
leave. Start with `competition` (who competes, who is selected: `crossval`, `metrics`, `selection`),
then `final_model` (the models fitted to all rows, with `intervals`, `domain` and a ranking) and
`trained_model` (a saved one, from rows to predictions). `linear_scaling` judges analytic laws
instead (`verdicts`, `law_comparison`, `cluster_bootstrap`).
"""
