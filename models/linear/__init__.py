"""The linear models of the literature: OLS, NNLS, stepwise selection, Lasso, elastic net, recursive elimination.

X, y and weights enter, fitted regressors leave. Start with `least_squares` (`LinearRegressor` is the base of all), then
`triangular` for the algebra they share. `stepwise` with `stepwise_paths` and `nnls_forward`, `regularised` with
`penalty_path`, and `rfecv` search columns or penalties.
"""
