"""Everything that predicts: analytic laws, the literature's suite, what goes beyond it, and the saved artifact.

A feature matrix X and measured times y enter, fitted scikit-learn regressors leave. Start with
`suite` (which models compete, under which names), then `base` (what a model is to the rest of
flopcast). `linear/` holds the sums of the literature, `learners` forest and network, `baselines`
the analytic laws and the additive model, `target_space` what a model is fitted to, `ensembles`
stacks and transfer; `artifact` and `persistence` save and load.

The estimators can be imported from here: ``from flopcast.models import OLS, Stepwise``. Each is
loaded when it is asked for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
