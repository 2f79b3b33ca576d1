"""Everything that predicts: analytic laws, the literature's suite, models of the log residual, the saved artifact."""
