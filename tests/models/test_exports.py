"""The flat list of estimators."""

from __future__ import annotations

import pytest
from sklearn.base import BaseEstimator

from flopcast import models


def test_every_name_is_a_class_of_the_package() -> None:
    for name in models.__all__:
        found = getattr(models, name)
        assert issubclass(found, BaseEstimator) or name == "Candidate"
        assert found.__name__ == name
    assert set(models.__all__) <= set(dir(models))


def test_other_names_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match=r"attribute '?Nothing"):
        models.Nothing  # noqa: B018
