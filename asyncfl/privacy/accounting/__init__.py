"""What releases of the same data are worth together, by four accountants, and the noise multiplier for a budget.

`events` is how releases are written down; `basic`, `renyi` and `exact` (with `gaussian` and `laplace`) are the
accountants, `accountants` all of them side by side, `histories` the same for many holders at once and after each
release. `calibrate` and `composition` go the other way, from a budget to a multiplier. dp-accounting is imported only
where distributions of mixed or sampled releases are composed.
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
