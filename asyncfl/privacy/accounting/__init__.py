"""Composition of releases of the same data by four accountants, and the noise multiplier for a budget.

`events` describes releases, `accountants` and `gaussian` compose them, `histories` does so for many holders after each
of their releases, `calibrate` inverts it. dp-accounting composes mixed and sampled releases; equal Gaussian and Laplace
releases have faster methods of their own.
"""

from asyncfl.privacy.accounting.accountants import ACCOUNTANTS, epsilon_by, epsilons_of, smallest_epsilon
from asyncfl.privacy.accounting.calibrate import multiplier_for
from asyncfl.privacy.accounting.mechanism_events import MechanismEvent, MechanismName, Neighbours, parse_event

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
