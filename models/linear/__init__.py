"""The linear models of the literature: OLS, NNLS, stepwise selection, Lasso, elastic net, recursive elimination.

X, y and weights enter, fitted regressors leave. Start with `least_squares` (`LinearRegressor` is
the base of all), then `triangular` for the algebra they share. `stepwise` with `nnls_forward`,
`regularised` and `rfecv` search columns or penalties.
"""
