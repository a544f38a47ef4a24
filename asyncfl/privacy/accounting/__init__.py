"""Composition of releases of the same data by four accountants, and the noise multiplier for a budget.

`events` describes releases; `basic`, `renyi` and `exact` (with `gaussian` and `laplace`) are the accountants,
`accountants` runs all of them, and `histories` does so for many holders at once and after each release. `calibrate` and
`composition` compute a multiplier from a budget. dp-accounting is imported only to compose privacy loss distributions
of mixed or sampled releases.
"""

from asyncfl.privacy.accounting.accountants import ACCOUNTANTS, epsilon_by, epsilons_of
from asyncfl.privacy.accounting.calibrate import multiplier_for
from asyncfl.privacy.accounting.events import MechanismEvent, MechanismName, Neighbours, parse_event
from asyncfl.privacy.accounting.exact import smallest_epsilon

__all__ = [
    "ACCOUNTANTS",
    "MechanismEvent",
    "MechanismName",
    "Neighbours",
    "epsilon_by",
    "epsilons_of",
    "multiplier_for",
    "parse_event",
    "smallest_epsilon",
]
