"""The linear models of the literature: OLS, NNLS, stepwise selection, Lasso, elastic net, recursive elimination."""
