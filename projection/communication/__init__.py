"""Collectives on another GPU: cost terms, fitted links, laws."""

from .alpha_beta import LawErrors, Link, Protocol, law_errors, measured_links
from .bandwidth import Network, link_bandwidth_gbs
from .collective_laws import LAWS, CommunicationLaw, communication_factors
from .fitting import Timings, fit_link, held_out

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
