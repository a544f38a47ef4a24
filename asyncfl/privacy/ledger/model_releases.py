"""Published models as releases, for each client that contributed and for the client that they reveal most about.

Releases of one client compose over the models. "The epsilon of the models" is that of the client for which it is
largest, after each model and by each accountant.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from asyncfl.privacy.accounting.histories import SpentEpsilons
from asyncfl.privacy.client_weights import noise_of_clients, noise_scale, planned_contributions
from asyncfl.privacy.context import Contribution, PrivacyContext
from asyncfl.privacy.ledger.releases import MODEL, Floats, Ints, Releases, share_of, usable_norm
from asyncfl.privacy.release import Release
from asyncfl.privacy.scheme import Scheme


@dataclass(frozen=True)
class PublishedModels:
    """Published models in the order in which an adversary received them."""

    clients: Releases  # (n,) releases of clients through the models, one model after another; moments as in `Releases`
    model: Ints  # (n,) index of the model of each row: 0.., non-decreasing

    @property
    def releases(self) -> Releases:
        """(n_models,) the models, each with its largest sensitivity."""
        order = np.lexsort((self.clients.sensitivity, self.model))
        last = order[np.flatnonzero(np.diff(self.model, append=-1))]
        moment = np.zeros(len(last), dtype=np.int64)
        np.maximum.at(moment, self.model, self.clients.moment)
        counted = np.minimum(np.bincount(self.model, self.clients.counted), 1).astype(np.int64)
        found = self.clients.select(last)
        return replace(found, holder=np.full(len(last), MODEL), moment=np.maximum.accumulate(moment), counted=counted)

    def spent(self, delta: float) -> SpentEpsilons:
        """Return (n_models,) epsilons after each model at the total `delta`, for the client for which each is largest;
        with varying Laplace noise an upper bound."""
        found = self.clients.spent(delta, compose_mixed=False)
        basic, advanced, rdp, exact = map(self._largest, (found.basic, found.advanced, found.rdp, found.exact))
        if self.clients.laplace.any():
            exact = np.minimum(exact, self.releases.spent(delta, compose_mixed=False).exact)
        return SpentEpsilons(basic, advanced, rdp, exact)

    @property
    def claimed(self) -> Floats:
        """(n_models,) largest sum of the claims of one client's models so far."""
        return self._largest(self.clients.claimed)

    @property
    def summed_mu(self) -> Floats:
        """(n_models,) largest sum of `squared_mu` of one client's models so far."""
        return self._largest(self.clients.summed_mu)

    def _largest(self, so_far: NDArray[np.float64]) -> Floats:
        """Return (n_models,) the maximum over clients of a non-decreasing column (n,)."""
        found = np.zeros(self.model[-1] + 1 if len(self.model) else 0)
        np.maximum.at(found, self.model, so_far)
        return np.maximum.accumulate(found)


def models_at_moments(rows: Releases, moments: Ints) -> PublishedModels:
    """Group the known releases of clients by the published models (n_models,) received at these increasing `moments`.

    Each model counts as one release. Releases before the first model are grouped under an uncounted entry, releases
    between two models with the later one, and releases after all models with the last one.
    """
    moment = np.concatenate([[0], moments])
    marks = np.arange(len(moment))
    nothing, none = np.zeros(len(marks)), np.zeros(len(marks), dtype=np.int64)
    counted = (marks > 0).astype(np.int64)
    marked = Releases(none - 1, moment, none > 0, nothing, nothing, none, nothing, counted)
    of = np.minimum(np.searchsorted(moments, rows.moment), len(moments) - 1) + 1 if len(moments) else none[:0]
    if not len(moments):
        of = np.zeros(len(rows.holder), dtype=np.int64)
    known = replace(rows, counted=np.zeros_like(rows.counted))
    order = np.argsort(np.concatenate([marks, of]), kind="stable")
    whole = Releases(*(np.concatenate([getattr(marked, c.name), getattr(known, c.name)]) for c in fields(Releases)))
    return PublishedModels(whole.select(order), np.concatenate([marks, of])[order])


def model_releases(
    scheme: Scheme,
    context: PrivacyContext,
    clip_norm: float | None,
    contributions: Sequence[Contribution],
    upload_stds: Sequence[float] | None = None,
    server_std: float | None = None,
) -> dict[int, Release]:
    """Return client -> one published model as an accountant of that client sees it.

    `upload_stds` (n,) and `server_std`: the noise that was added; None or not finite: the scheme's own. The clients'
    noise counts if it is Gaussian like the server's. With an adaptive clip norm the sensitivity is that of model and
    bits together, in units of the model's noise.
    """
    norm = usable_norm(scheme, context, clip_norm)
    claim, made = share_of(scheme.model_guarantee(context)), scheme.model_noise(context, norm, contributions)
    typical = scheme.upload_noise(context, norm, Contribution(-1, context.smallest_samples))
    if upload_stds is None or not all(map(math.isfinite, upload_stds)):
        std = 0.0 if typical.in_training else typical.std
        of_clients = context.rate * std * noise_scale(context, contributions) / math.sqrt(len(contributions))
    else:
        of_clients = noise_of_clients(context, contributions, upload_stds)
    if server_std is None or not math.isfinite(server_std):
        server_std = made.std
    both = typical.distribution == made.distribution == "gaussian"
    sigma = math.hypot(of_clients, server_std) if both else server_std
    bit, updates = scheme.bit_noise(context), Counter(one.client for one in contributions)
    found = {}
    for client, sensitivity in made.sensitivities.items():
        influence = 0.0 if bit is None else bit.influence(updates[client], max(updates.values()), updates.total())
        found[client] = Release(made.distribution, sigma, math.hypot(sensitivity, sigma * influence), 1, claim)
    return found


def model_release(scheme: Scheme, context: PrivacyContext, clip_norm: float | None, participants: int) -> Release:
    """Return a planned model with one update from each of `participants` >= 1 clients, as an accountant of any of them
    sees it."""
    noise = scheme.model_noise(context, usable_norm(scheme, context, clip_norm)).std
    made = model_releases(scheme, context, clip_norm, planned_contributions(context, participants), None, noise)
    return next(iter(made.values()))
