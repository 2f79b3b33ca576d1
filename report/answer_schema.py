"""What saved answers must be that are compared again, whoever wrote them: types and ranges of what is read of them."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ..errors import DataError
from .run_schema import structures

KINDS: Final = {
    "classes": "Projection",
    "forecasts": "Forecasts",
    "best": "Ways",
    "rows": "Rows",
}
"""A key of the JSON of each kind -> its type in ``answer_schema.toml``."""


def check_answer(answer: Any, key: str, source: str) -> None:
    """Raise a DataError if a value of a saved answer has the wrong type; ``key`` names the kind of answer."""
    try:
        read = msgspec.convert(answer, structures("answer_schema.toml")[KINDS[key]])
        for one in getattr(read, "forecasts", ()):
            bounded = None not in (one.lower, one.upper) and one.lower <= one.upper
            if one.predicted is not None and not one.reason and not bounded:
                raise msgspec.ValidationError("an answer has no interval - at `$.forecasts`")
    except msgspec.ValidationError as error:
        raise DataError(
            f"is no answer that flopcast saved ({error}): make it anew", source=source
        ) from error
