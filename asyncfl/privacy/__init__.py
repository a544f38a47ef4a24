"""Privacy schemes, the noise they calibrate, and what it is worth.

`server_noise` is where NbAFL's client and server noise is computed, `gaussian` where noise becomes epsilon
and back, `composition` how several releases share a budget, `ledger` what a run really gave away, `bounds`
the convergence bounds. A scheme of one's own derives from `Scheme`.
"""

from typing import Any

from asyncfl.component import choice
from asyncfl.privacy.adaptive.scheme import AdaptiveBudgets
from asyncfl.privacy.dp_fedavg import DpFedAvg
from asyncfl.privacy.dp_sgd import DpSgd
from asyncfl.privacy.exposures import MeasuredExposures, ShareExposures
from asyncfl.privacy.local_gaussian import GaussianUpload
from asyncfl.privacy.mechanism import GaussianNoise, LaplaceNoise, Mechanism, Mechanisms
from asyncfl.privacy.nbafl import Nbafl
from asyncfl.privacy.none import NoPrivacy
from asyncfl.privacy.release import Contribution, Distribution, Release, Status
from asyncfl.privacy.scheme import Guarantee, PrivacyContext, Scheme, State
from asyncfl.privacy.server_noise import NbaflNoise, nbafl_noise

AnyScheme: Any = choice(Scheme, NoPrivacy, Nbafl, GaussianUpload, Mechanisms, DpFedAvg, DpSgd, AdaptiveBudgets)
"""Annotation of a field that holds a privacy scheme, chosen by `kind`."""

__all__ = [
    "AdaptiveBudgets",
    "AnyScheme",
    "Contribution",
    "Distribution",
    "DpFedAvg",
    "DpSgd",
    "GaussianNoise",
    "GaussianUpload",
    "Guarantee",
    "LaplaceNoise",
    "MeasuredExposures",
    "Mechanism",
    "Mechanisms",
    "Nbafl",
    "NbaflNoise",
    "NoPrivacy",
    "PrivacyContext",
    "Release",
    "Scheme",
    "ShareExposures",
    "State",
    "Status",
    "nbafl_noise",
]
