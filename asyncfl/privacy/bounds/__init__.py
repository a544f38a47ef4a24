"""Convergence bounds of NbAFL and where they are smallest.

`full` is theorem 2 (all clients take part), `partial` theorem 3 (K of N are drawn), and `optimum` finds the best number
of rounds and of participants. A bound is NaN where it is undefined; `why_undefined` gives the reason.
"""

from asyncfl.privacy.bounds.constants import BoundSettings, LossConstants
from asyncfl.privacy.bounds.full import FullParticipation
from asyncfl.privacy.bounds.optimum import Optimum, optimum
from asyncfl.privacy.bounds.partial import PartialParticipation

__all__ = [
    "BoundSettings",
    "FullParticipation",
    "LossConstants",
    "Optimum",
    "PartialParticipation",
    "optimum",
]
