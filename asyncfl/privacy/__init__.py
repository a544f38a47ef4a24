"""Privacy schemes, the noise they calibrate, and what it is worth.

`schemes/` are the schemes; one of one's own derives from `Scheme`. `context` is what a scheme is told, `noise/` how
much noise a budget needs (NbAFL's in `noise/server_noise`) and drawing it, `accounting/` what releases are worth,
`ledger/` what a run really gave away and when a client stops, `bounds/` NbAFL's convergence bounds, `queries/`
questions that need no run.
"""

from typing import Any

from asyncfl.component import choice
from asyncfl.privacy.context import Contribution, PrivacyContext
from asyncfl.privacy.exposures import MeasuredExposures
from asyncfl.privacy.release import Distribution, Release, Status
from asyncfl.privacy.scheme import (
    ClipTarget,
    FixedNorm,
    Guarantee,
    MixingNode,
    ModelNoise,
    Noise,
    Reference,
    Scheme,
    State,
)
from asyncfl.privacy.schemes.adaptive.adaptive_budgets import AdaptiveBudgets
from asyncfl.privacy.schemes.dp_fedavg import DpFedAvg
from asyncfl.privacy.schemes.dp_sgd import DpSgd
from asyncfl.privacy.schemes.local_gaussian import GaussianUpload
from asyncfl.privacy.schemes.mechanisms import GaussianNoise, LaplaceNoise, Mechanism, Mechanisms
from asyncfl.privacy.schemes.nbafl import Nbafl
from asyncfl.privacy.schemes.none import NoPrivacy

AnyScheme: Any = choice(Scheme, NoPrivacy, Nbafl, GaussianUpload, Mechanisms, DpFedAvg, DpSgd, AdaptiveBudgets)
"""Annotation of a field that holds a privacy scheme, chosen by `kind`."""

__all__ = [
    "AdaptiveBudgets",
    "AnyScheme",
    "ClipTarget",
    "Contribution",
    "Distribution",
    "DpFedAvg",
    "DpSgd",
    "FixedNorm",
    "GaussianNoise",
    "GaussianUpload",
    "Guarantee",
    "LaplaceNoise",
    "MeasuredExposures",
    "Mechanism",
    "Mechanisms",
    "MixingNode",
    "ModelNoise",
    "Nbafl",
    "NoPrivacy",
    "Noise",
    "PrivacyContext",
    "Reference",
    "Release",
    "Scheme",
    "State",
    "Status",
]
