"""Commands that follow from a function of the API (`derived`): what each is beside that function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..output import PREDICTION_FORMATS
from .declared import declared, plain


@dataclass(frozen=True)
class Verb:
    """What a command is beside its function.

    Attributes
    ----------
    place : int
        In the list of commands.
    examples : tuple of str
        Command lines, shown below the help.
    then : tuple of (str, str)
        Functions, each by its name and module, through which the result goes before it is shown; their keywords are
        options too.
    suffixes : tuple of str
        Of the file that the result is written to; without them it is a folder (`output.FILES`).
    shows : tuple of str
        Options of the terminal beside ``--all`` and ``--json``.
    function : str
        Of the API, where its name is another.
    doing : str
        What its progress is called, where that is not the command; what is announced, where it has none.
    more : tuple of str
        Options that the help has among those that are seldom needed.
    has_table : bool
        Whether the folder of its result holds a table beside JSON and page, where its group has one.
    """

    place: int
    examples: tuple[str, ...]
    then: tuple[tuple[str, str], ...] = ()
    suffixes: tuple[str, ...] = ()
    shows: tuple[str, ...] = ()
    function: str = ""
    doing: str = ""
    more: tuple[str, ...] = ()
    has_table: bool = True


def _score(name: str, *more: str) -> Verb:
    return Verb(
        44, (), function=f"forecast_{name}", doing="forecasting", more=more, has_table=False
    )


VERBS: Final = {
    "explain": Verb(25, ("flopcast explain runs/fp8 new.csv --row 3",)),
    "validate": Verb(
        30,
        (
            "flopcast validate DATA --host MI300X --target MI355X",
            "flopcast validate DATA --host MI300X --target MI355X --margin 0.05",
        ),
        shows=("plot", "short"),
    ),
    "compare": Verb(
        50,
        (
            "flopcast compare runs/spring runs/autumn --out compared/",
            "flopcast compare runs/fp8 runs/spring runs/summer",
            "flopcast compare runs/",
            "flopcast compare before.json.gz after.json.gz",
        ),
    ),
    "check": Verb(
        60,
        (
            "flopcast check runs/fp8 autumn.csv --out checked/",
            "flopcast check runs/fp8 autumn.csv --corrected runs/fp8b",
        ),
        then=(("with_curve", "api.learning"),),
    ),
    "counters": Verb(
        80,
        ("flopcast counters profiles/ --host MI300X --target MI355X --max-passes 2 --out pmc.txt",),
        suffixes=(".txt",),
        doing="cross-validation",
    ),
    "scale predict": Verb(46, (), function="scale"),
    "scale devices": Verb(46, (), function="scale_devices"),
    "scale facts": Verb(46, (), function="scale_facts"),
    "scale terms": Verb(46, (), function="scale_terms"),
    "forecast hpl": _score("hpl", "product", "panel_share", "network_gbs", "machine"),
    "forecast hpcg": _score("hpcg", "stream", "reached", "scaling"),
    "forecast hpl-mxp": _score("hpl_mxp", "peak_share"),
    "forecast kernel": _score("kernel", "stream", "kernel_share", "network_gbs"),
    "power plan": Verb(180, (), function="power_plan"),
    "fidelity": Verb(
        160,
        ("flopcast fidelity rocprof/ torch.json.gz --unprofiled-us 41200 --steps-per-trace 5",),
        suffixes=(".json",),
    ),
    "advise": Verb(
        70,
        ("flopcast advise runs/fp8 candidates.csv --rows 40 --out batch.csv",),
        suffixes=PREDICTION_FORMATS,
    ),
    "curve": Verb(
        71,
        ("flopcast curve DATA --host MI300X --target MI355X --rows 10,30,100 --out curve/",),
        doing="learning curve",
    ),
}
"""Command -> what it is beside the function of its name. Of several words it is one of a group, which is a module."""


def help_of(name: str) -> str:
    """Return the first paragraph of a command's help."""
    return " ".join(plain(declared(name).text.partition("\n\n")[0]).split())
