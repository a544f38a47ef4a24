"""Privacy schemes, their noise, and the accounting of what a run reveals.

`schemes/` has the schemes; a user-defined scheme derives from `Scheme`. `release` has their inputs and what they give
away, `noise` draws noise, `accounting/` composes releases, `ledger/` records what each adversary learned and when a
client stops, `estimators/` has lower bounds from attacks, and `queries/` answers questions without a run.
"""

from typing import Any

from asyncfl.base.component import choice
from asyncfl.privacy.correlation import Factorisation
from asyncfl.privacy.exposures import MeasuredExposures
from asyncfl.privacy.release import BitNoise, Contribution, Distribution, PrivacyContext, Release, Status
from asyncfl.privacy.scheme import (
    ClipTarget,
    FixedNorm,
    Guarantee,
    MixingNode,
    ModelNoise,
    Noise,
    Scheme,
    State,
)
from asyncfl.privacy.schemes.adaptive_budgets import AdaptiveBudgets
from asyncfl.privacy.schemes.dp_fedavg import DpFedAvg
from asyncfl.privacy.schemes.dp_ftrl import DpFtrl
from asyncfl.privacy.schemes.dp_sgd import DpSgd
from asyncfl.privacy.schemes.local_gaussian import GaussianUpload
from asyncfl.privacy.schemes.mechanisms import GaussianNoise, LaplaceNoise, Mechanism, Mechanisms
from asyncfl.privacy.schemes.nbafl import Nbafl
from asyncfl.privacy.schemes.none import NoPrivacy

AnyScheme: Any = choice(Scheme, NoPrivacy, Nbafl, GaussianUpload, Mechanisms, DpFedAvg, DpFtrl, DpSgd, AdaptiveBudgets)
"""Annotation of a field that holds a privacy scheme, chosen by `kind`."""

__all__ = [
    "AdaptiveBudgets",
    "AnyScheme",
    "BitNoise",
    "ClipTarget",
    "Contribution",
    "Distribution",
    "DpFedAvg",
    "DpFtrl",
    "DpSgd",
    "Factorisation",
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
    "Release",
    "Scheme",
    "State",
    "Status",
]
