"""A run names the groups that it knows too little of for its error to be theirs."""

from __future__ import annotations

from typing import Any

import pytest

from flopcast.report.training import verdict

WELL = {"rows": 290, "units": 290.0, "e_out": 3.0, "sigma": 0.05}


def scheme(name: str, parts: dict[str, Any]) -> dict[str, Any]:
    chosen = {
        "name": "OLS",
        "e_out": 3.2,
        "interval": [3.0, 3.5],
        "level": 0.95,
        "tied": [],
        "baseline": False,
        "parts": parts,
    }
    return {"scheme": name, "selected": chosen, "models": [], "baselines": []}


@pytest.mark.parametrize(
    ("name", "parts"), [("kfold", ("up to 10", "more than 200")), ("grouped", ("beyond", "within"))]
)
def test_the_error_is_said_in_parts(name: str, parts: tuple[str, str]) -> None:
    few = {"rows": 10, "units": 10.0, "e_out": 9.0, "sigma": 0.3}
    said = " ".join(verdict(scheme(name, {parts[0]: few, parts[1]: WELL})))
    for part, error in zip(parts, ("9.0 %", "3.0 %"), strict=True):
        assert said.count(part) == said.count(error) == 1
        assert said.index(part) < said.index(error)


def test_one_part_is_the_error_itself() -> None:
    told = " ".join(verdict(scheme("kfold", {"more than 200": WELL})))
    assert "trained rows" not in told
