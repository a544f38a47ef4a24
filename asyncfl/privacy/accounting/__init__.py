"""What releases of the same data are worth together, by four accountants, and the noise for a budget.

`parts` is how releases are written down; `basic`, `renyi` and `exact` (with `laplace`) are the accountants, `worth` all
of them side by side, `calibration` the other direction, `histories` the same for many holders at once and after each
release. dp-accounting is imported only where distributions of mixed or sampled releases are composed.
"""

from asyncfl.privacy.accounting.calibration import multiplier_for
from asyncfl.privacy.accounting.exact import smallest_epsilon
from asyncfl.privacy.accounting.parts import MECHANISMS, Mechanism, Neighbours, Part, gathered, parse_part, under
from asyncfl.privacy.accounting.renyi import renyi_epsilon
from asyncfl.privacy.accounting.worth import ACCOUNTANTS, Accountant, Worth, epsilon_by, worth

__all__ = [
    "ACCOUNTANTS",
    "MECHANISMS",
    "Accountant",
    "Mechanism",
    "Neighbours",
    "Part",
    "Worth",
    "epsilon_by",
    "gathered",
    "multiplier_for",
    "parse_part",
    "renyi_epsilon",
    "smallest_epsilon",
    "under",
    "worth",
]
