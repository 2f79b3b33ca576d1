"""Out-of-sample evidence: folds, metrics, honest selection, intervals, ranking of features, tests of linear scaling."""
