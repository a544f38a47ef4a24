"""Credit for being drawn: releases of published models to an adversary that does not see who was drawn.

Version v adds W sum_i b_i u_i + N_v to a known model. Each client's b_i is 1 with probability q, independent of all
else (`PoissonSelection`), W is fixed, |u_i| <= S after clipping, and N_v is the server's Gaussian noise of standard
deviation sigma. For a client whose updates count as zero (`zero_out`) each version is then a Poisson-sampled Gaussian
release with multiplier sigma / (W S) and rate q (Mironov, Talwar, Zhang 2019; Zhu, Dong, Wang 2022, theorem 11); for a
client whose data are replaced it is that of a replaced record, which the accountants know (`MechanismEvent.replaced`).
A cohort of nobody makes a version of noise alone, as the law has it. In the literature this is privacy amplification by
Poisson subsampling. Whether a client took part is what is hidden, so that every version counts for every client.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asyncfl.privacy.ledger.releases import Releases
from asyncfl.privacy.ledger.views import NEVER, AdversaryView, UploadTable, VersionTable

BLIND = ("public_last", "public", "curious")
"""Adversaries that do not see who is drawn: curious clients know it of themselves, which says nothing of others."""


@dataclass(frozen=True)
class SecretDraws:
    """Draws of cohorts in which each client is drawn by itself."""

    clients: int
    """Number of clients."""
    rate: float
    """q: probability with which a client is drawn for a version, 0..1."""
    sensitivity: float
    """W S, or 2 W S where data are replaced: how far a client that is drawn moves a version."""
    replaced: bool
    """Whether the neighbours differ by the data of a client, rather than by its updates."""
    lost: str = ""
    """Why a run has no credit; empty: it has."""

    def hidden_from(self, view: AdversaryView, sent: UploadTable) -> bool:
        """Whether the adversary learns of updates through the noise of the server alone, and not who was drawn."""
        of_others = ~np.isin(sent.client, list(view.members))
        sees = bool((view.uploads[of_others] < NEVER).any()) or view.knows_server_noise or bool(view.further)
        return view.adversary in BLIND and not sees

    def releases(self, sent: UploadTable, versions: VersionTable, view: AdversaryView) -> Releases:
        """Return the releases of all clients outside the coalition, whoever was drawn."""
        granted = view.granted(sent)
        shown = np.flatnonzero((granted < NEVER) & (versions.server_std > 0))
        clients = np.setdiff1d(np.arange(self.clients), list(view.members))
        n = len(shown) * len(clients)
        # Version by version: in the order of the moments.
        each = np.repeat(shown, len(clients))
        ones = np.ones(n, dtype=np.int64)
        return Releases(
            holder=np.tile(clients, len(shown)),
            moment=granted[each],
            laplace=np.zeros(n, dtype=bool),
            sigma=versions.server_std[each],
            sensitivity=np.full(n, self.sensitivity),
            count=ones,
            epsilon=np.full(n, versions.epsilon),
            counted=ones,
            rate=np.full(n, self.rate),
            replaced=np.full(n, self.replaced),
        )
