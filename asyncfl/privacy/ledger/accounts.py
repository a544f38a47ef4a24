"""Accounts: the releases that one adversary holds, and their epsilons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from asyncfl.privacy.accounting.histories import SpentEpsilons
from asyncfl.privacy.context import PrivacyContext
from asyncfl.privacy.ledger.model_releases import PublishedModels
from asyncfl.privacy.ledger.releases import Releases
from asyncfl.privacy.scheme import Guarantee, Scheme


@dataclass(frozen=True)
class Account:
    """Releases of the clients, or published models, that one adversary holds, with their epsilons."""

    adversary: str
    releases: Releases
    guarantee: Guarantee | None
    """Guarantee that the scheme claims for these releases; None: no claim."""
    history: Releases | PublishedModels
    """Releases that epsilons are computed from: the releases themselves, or what the adversary knows of each client
    after each published model."""
    proven: Releases | PublishedModels | None = None
    """The same with the sensitivities of `Scheme.proven_sensitivity`; None: it proves none."""
    flags: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Client (-1: the models) -> flags that this run adds to those of the scheme."""
    holders: tuple[int, ...] | None = None
    """Clients that have a row; None: all."""
    trusts: str = ""
    """Parties that a guarantee against this adversary trusts."""
    affecting: frozenset[int] | None = None
    """Clients whose data may have influenced anything that the adversary received; None: all clients."""
    unprotected: frozenset[int] | None = None
    """Clients of which the adversary received something without noise; None: those with a release without noise."""

    @cached_property
    def spent(self) -> SpentEpsilons:
        """(n,) epsilon of each holder after each release."""
        return self.history.spent(self.delta)

    @property
    def proven_releases(self) -> Releases:
        """(n,) releases with proven sensitivities. Raises ValueError if nothing is proven."""
        if self.proven is None:
            raise ValueError("nothing is proven")
        return self.proven.releases if isinstance(self.proven, PublishedModels) else self.proven

    @cached_property
    def proven_spent(self) -> SpentEpsilons:
        """(n,) proven epsilon of each holder after each release. Raises ValueError if nothing is proven."""
        if self.proven is None:
            raise ValueError("nothing is proven")
        return self.proven.spent(self.delta)

    @cached_property
    def claimed(self) -> NDArray[np.float64]:
        """(n,) sum of the claims of the holder's releases so far."""
        return self.history.claimed

    @cached_property
    def summed_mu(self) -> NDArray[np.float64]:
        """(n,) sum of `squared_mu` of the holder's releases so far."""
        return self.history.summed_mu

    @property
    def delta(self) -> float:
        """The delta that all epsilons are for."""
        return 0.0 if self.guarantee is None else self.guarantee.delta


def upload_accounts(scheme: Scheme, context: PrivacyContext, uploads: Mapping[str, Releases]) -> list[Account]:
    """Return the account of each adversary for the clients' uploads, usually of `eavesdropper`, `server`, and `both`
    together. `uploads`: adversary -> releases that it holds."""
    stated = scheme.upload_guarantee(context)
    return [Account(who, releases, stated, releases) for who, releases in uploads.items()]


def model_accounts(scheme: Scheme, context: PrivacyContext, models: Mapping[str, PublishedModels]) -> list[Account]:
    """Return the account of each adversary for the published models; empty if the scheme claims nothing about them.

    `models`: adversary -> models that it holds.
    """
    stated = scheme.model_guarantee(context)
    return [] if stated is None else [Account(who, own.releases, stated, own) for who, own in models.items()]
