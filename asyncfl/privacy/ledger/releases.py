"""The releases of clients that an adversary holds, as columns; and one release as accountants see it.

Releases of one client compose over the models. "The epsilon of the models" is that of the client for which it is
largest, after each release and by each accountant.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asyncfl.privacy.accounting.accountants import Epsilons
from asyncfl.privacy.accounting.histories import histories
from asyncfl.privacy.client_weights import noise_of_clients, noise_scale, planned_contributions
from asyncfl.privacy.noise import ScoreNoise, score_sensitivity
from asyncfl.privacy.release import Contribution, PrivacyContext, Release
from asyncfl.privacy.scheme import Guarantee, Scheme

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_COMPOSED = 100
"""Largest number of Laplace releases with different noise that are composed one by one, at a tenth of a second each.
Beyond it their Renyi epsilon is used, which is an upper bound."""

MODEL = -1
"""Holder that stands for the client most exposed by published models."""


@dataclass(frozen=True)
class Releases:
    """Releases in the order in which an adversary received them. All columns are (n,)."""

    holder: Ints  # client number, or `MODEL`
    moment: Ints  # moment of the release (see `ledger.views`), non-decreasing
    laplace: NDArray[np.bool_]  # whether the noise is Laplace; otherwise Gaussian
    sigma: Floats  # standard deviation of the noise on each parameter
    sensitivity: Floats  # L2 sensitivity, L1 for Laplace noise; infinite if nothing bounds it
    count: Ints  # number of mechanisms with this noise in the release
    epsilon: Floats  # epsilon claimed for this release alone; infinite if nothing is claimed
    counted: Ints
    """1 for an upload or a version that reveals more than the uploads; 0 for scores."""
    rate: Floats
    """Probability with which a sample, or a client, enters each mechanism, in secret; 1: always."""
    replaced: NDArray[np.bool_]
    """Where the rate is below 1: whether neighbours differ by a record that is replaced, and not by one that counts as
    zero. The sensitivity is then that of the replacement, twice what a record contributes."""

    @property
    def releases(self) -> Releases:
        """These releases, as of `MostExposed`."""
        return self

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, bool, float, float, int, float, int, float]]) -> Releases:
        """Create from rows with these columns but `replaced`, which is False, in the order of their moments."""
        columns = list(zip(*rows, strict=True)) or [()] * 9
        types = (np.int64, np.int64, bool, np.float64, np.float64, np.int64, np.float64, np.int64, np.float64)
        made: list[Any] = [np.array(column, dtype=kind) for column, kind in zip(columns, types, strict=True)]
        made.append(np.zeros(len(made[0]), dtype=bool))
        return cls(*made)

    @classmethod
    def chain(cls, parts: Sequence[Releases]) -> Releases:
        """Return all releases, part after part."""
        return cls(*(np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(cls)))

    @classmethod
    def concatenate(cls, parts: Sequence[Releases]) -> Releases:
        """Concatenate releases in the order of their moments; at equal moments the smallest sensitivity comes first."""
        whole = cls.chain(parts)
        return whole.select(np.lexsort((whole.sensitivity, whole.moment)))

    def select(self, rows: Ints) -> Releases:
        """Return the releases in these rows, in this order."""
        return Releases(*(getattr(self, column.name)[rows] for column in fields(self)))

    @property
    def multiplier(self) -> Floats:
        """(n,) noise multiplier: sigma (Gaussian) or scale (Laplace) over sensitivity."""
        scale = np.where(self.laplace, self.sigma / math.sqrt(2), self.sigma)
        with np.errstate(divide="ignore", invalid="ignore"):
            quotient = np.where(self.sensitivity == 0, np.inf, scale / self.sensitivity)
        # Without a sensitivity bound no noise is enough.
        return np.where(np.isinf(self.sensitivity), 0.0, quotient)

    @property
    def squared_mu(self) -> Floats:
        """(n,) count/multiplier^2 of Gaussian releases, 0 of others; the sum describes their composition, and
        bounds it where samples are drawn."""
        return np.where(self.laplace, 0.0, 2 * self.rho)

    @property
    def rho(self) -> Floats:
        """(n,) zero-concentrated differential privacy of each release, for Laplace noise a bound (Bun, Steinke 2016,
        propositions 1.4 and 1.6)."""
        with np.errstate(divide="ignore", over="ignore"):
            halves: Floats = self.count / np.square(self.multiplier) / 2
        return halves

    def spent(self, delta: float, compose_mixed: bool | None = None) -> Epsilons:
        """Return the epsilon of each holder after each release at the total `delta`; see `histories`. `compose_mixed`
        None: if it takes only seconds."""
        if compose_mixed is None:
            compose_mixed = bool(np.count_nonzero(self.laplace) <= MOST_COMPOSED)
        return histories(
            self.holder, self.laplace, self.multiplier, self.count, delta, compose_mixed, self.rate, self.replaced
        )

    @property
    def claimed(self) -> Floats:
        """(n,) sum of the claims of the holder's releases, including this one: basic composition of claims."""
        return self.cumulative(self.epsilon)

    @property
    def summed_mu(self) -> Floats:
        """(n,) sum of `squared_mu` over the holder's releases, including this one."""
        return self.cumulative(self.squared_mu)

    def cumulative(self, column: Floats) -> Floats:
        """Return (n,) cumulative sum of `column` (n,) over the holder's releases."""
        result = np.zeros(len(self.holder))
        order = np.argsort(self.holder, kind="stable")
        for places in np.split(order, np.flatnonzero(np.diff(self.holder[order])) + 1):
            result[places] = np.cumsum(column[places])
        return result


@dataclass(frozen=True)
class MostExposed:
    """The releases of all clients as those of one holder, whose every sum and epsilon so far is the largest of any
    client."""

    clients: Releases

    @property
    def releases(self) -> Releases:
        """(n,) the releases, with the holder `MODEL`."""
        return replace(self.clients, holder=np.full_like(self.clients.holder, MODEL))

    def spent(self, delta: float) -> Epsilons:
        """Return (n,) epsilons after each release at the total `delta`."""
        return Epsilons(*map(np.maximum.accumulate, self.clients.spent(delta)))

    @property
    def claimed(self) -> Floats:
        """(n,) largest sum of the claims of one client's releases so far."""
        return self.cumulative(self.clients.epsilon)

    @property
    def summed_mu(self) -> Floats:
        """(n,) largest sum of `squared_mu` over one client's releases so far."""
        return self.cumulative(self.clients.squared_mu)

    def cumulative(self, column: Floats) -> Floats:
        """Return (n,) the largest cumulative sum of `column` (n,) >= 0 over one client's releases so far."""
        found: Floats = np.maximum.accumulate(self.clients.cumulative(column))
        return found


def releases_of(releases: Iterable[tuple[int, int, Release]]) -> Releases:
    """Return releases as columns from (holder, moment, release) each."""
    return Releases.of(
        (holder, moment, one.distribution == "laplace", one.std, one.sensitivity, one.count, one.epsilon, 1, one.rate)
        for holder, moment, one in sorted(releases, key=lambda row: row[1])
    )


def upload_release(
    scheme: Scheme, context: PrivacyContext, clip_norm: float | None, contribution: Contribution
) -> Release:
    """Return the noise, sensitivity and claim of one upload, for accountants; with a bit (`Scheme.bit_noise`) the
    sensitivity of both together, in units of the update's noise."""
    client = None if contribution.client < 0 else contribution.client
    noise, bit = scheme.upload_noise(context, clip_norm, contribution), scheme.bit_noise(context)
    claim = contribution.epsilon if noise.epsilon is None else noise.epsilon
    if claim is None:
        claim = share_of(scheme.upload_guarantee(context, client))
    moved = 0.0 if bit is None else noise.std * bit.sensitivity / bit.std
    return Release(noise.distribution, noise.std, math.hypot(noise.sensitivity, moved), noise.count, claim, noise.rate)


def share_of(stated: Guarantee | None) -> float:
    """Return the epsilon of one release by an equal share of the claim; infinite if nothing is claimed."""
    return math.inf if stated is None else stated.epsilon_per_release


def answer_release(
    noise: ScoreNoise | None, stated: Guarantee | None, models: int, samples: int, personal: bool = False
) -> Release:
    """Return the scores of `models` >= 1 models by a client as a release. `personal`: whether the models have personal
    layers. Scores without noise count as no mechanism, because they are flagged instead."""
    if noise is None:
        return Release("gaussian", 0.0, 0.0, 0, 0.0)
    sensitivity = score_sensitivity(models, samples, "none" if stated is None else stated.unit, personal)
    return Release("gaussian", noise.std_of(models, samples, personal), sensitivity, 1, noise.epsilon or 0.0)


def usable_norm(scheme: Scheme, context: PrivacyContext, clip_norm: float | None) -> float | None:
    """Return `clip_norm`, or a valid norm if a run collected nothing or diverged: multipliers do not depend on it."""
    if clip_norm is not None and math.isfinite(clip_norm) and clip_norm > 0:
        return clip_norm
    return scheme.start(context).clip_norm(np.ones(1))


def typical_uploads(
    scheme: Scheme, context: PrivacyContext, samples: NDArray[np.integer], clip_norm: float | None
) -> list[Release]:
    """Return one upload of each client as planned before the run. `samples`: (clients,) training samples."""
    norm, state = usable_norm(scheme, context, clip_norm), scheme.start(context)
    made: dict[tuple[int, float | None], Release] = {}
    found = []
    for client, size in enumerate(samples.tolist()):
        epsilon = state.epsilon(client, 0)
        if (size, epsilon) not in made:
            # If clients have their own budgets, the claim depends on the client.
            whose = -1 if epsilon is None else client
            made[size, epsilon] = upload_release(scheme, context, norm, Contribution(whose, size, epsilon=epsilon))
        found.append(made[size, epsilon])
    return found


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
        moved = 0.0
        if bit is not None:
            # The noise on the sum of the bits: multiplied by the most updates of one client, or of all bits together.
            std = bit.std * (max(updates.values()) if bit.by_server else math.sqrt(updates.total()))
            moved = sigma * (updates[client] * bit.sensitivity / std)
        found[client] = Release(made.distribution, sigma, math.hypot(sensitivity, moved), 1, claim)
    return found


def model_release(scheme: Scheme, context: PrivacyContext, clip_norm: float | None, participants: int) -> Release:
    """Return a planned model with one update from each of `participants` >= 1 clients, as an accountant of any of them
    sees it."""
    noise = scheme.model_noise(context, usable_norm(scheme, context, clip_norm)).std
    made = model_releases(scheme, context, clip_norm, planned_contributions(context, participants), None, noise)
    return next(iter(made.values()))
