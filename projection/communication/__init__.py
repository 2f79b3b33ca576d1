"""Collectives on another GPU: cost terms, fitted links, laws."""

from .alpha_beta import Link, Protocol
from .bandwidth import Network, link_bandwidth_gbs
from .fitting import Timings, fit_link, held_out
from .laws import LAWS, CommunicationLaw, communication_factors
from .parameters import LawErrors, law_errors, measured_links

__all__ = [
    "LAWS",
    "CommunicationLaw",
    "LawErrors",
    "Link",
    "Network",
    "Protocol",
    "Timings",
    "communication_factors",
    "fit_link",
    "held_out",
    "law_errors",
    "link_bandwidth_gbs",
    "measured_links",
]
