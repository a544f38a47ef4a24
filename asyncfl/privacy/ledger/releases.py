"""The releases that somebody holds, as columns, and what each holder of them has spent after each.

A holder is whoever's data a release is about: a client, or `MODEL` for all those behind the published models.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from asyncfl.privacy.accounting.histories import SpentEpsilons, histories
from asyncfl.privacy.context import Contribution, PrivacyContext
from asyncfl.privacy.release import Distribution, Release
from asyncfl.privacy.scheme import Guarantee, Scheme
from asyncfl.privacy.score_noise import ScoreNoise, score_sensitivity

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_COMPOSED = 100
"""Laplace releases up to which those of different noise are composed one by one, which takes a tenth of a second each;
of more their Renyi epsilon is told, which is no smaller."""

MODEL = -1
"""Holder of the releases that are published models."""


@dataclass(frozen=True)
class Releases:
    """Releases in the order in which an adversary got them, all (n,)."""

    holder: Ints
    """Number of the client, or `MODEL`."""
    moment: Ints
    """When, as a row of a table of moments, rising."""
    laplace: NDArray[np.bool_]
    """Whether the noise is Laplace; else Gaussian."""
    sigma: Floats
    """Standard deviation of the noise on each parameter."""
    sensitivity: Floats
    """L2, for Laplace noise L1; infinite where nothing bounds it."""
    count: Ints
    """Mechanisms of this noise that the release stands for."""
    epsilon: Floats
    """Claimed for this release alone; infinite where nothing is."""
    counted: Ints
    """1 for an upload, and for a version that says more than uploads; 0 for scores, and for what came with a model."""

    @classmethod
    def concatenate(cls, parts: Sequence[Releases]) -> Releases:
        """All of them, in the order of their moments; at one moment the least sensitive first."""
        whole = cls(*(np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(cls)))
        return whole.select(np.lexsort((whole.sensitivity, whole.moment)))

    def select(self, rows: Ints) -> Releases:
        """The releases in these rows, in their order."""
        return Releases(*(getattr(self, column.name)[rows] for column in fields(self)))

    @property
    def multiplier(self) -> Floats:
        """(n,) noise over sensitivity: sigma for Gaussian noise, the scale for Laplace noise."""
        scale = np.where(self.laplace, self.sigma / math.sqrt(2), self.sigma)
        with np.errstate(divide="ignore", invalid="ignore"):
            quotient = np.where(self.sensitivity == 0, np.inf, scale / self.sensitivity)
        # Without a bound on what is released no noise hides it, however large.
        return np.where(np.isinf(self.sensitivity), 0.0, quotient)

    @property
    def squared_mu(self) -> Floats:
        """(n,) count/multiplier^2 of Gaussian releases, 0 of others: these add up (`accounting.gaussian`)."""
        with np.errstate(divide="ignore", over="ignore"):
            squares: Floats = self.count / np.square(self.multiplier)
        return np.where(self.laplace, 0.0, squares)

    @property
    def rho(self) -> Floats:
        """(n,) zero-concentrated privacy of each: count/2 multiplier^-2, of Laplace noise no more; these add up.

        Bun, Steinke 2016, propositions 1.4 (a pure epsilon is epsilon^2/2) and 1.6.
        """
        with np.errstate(divide="ignore", over="ignore"):
            halves: Floats = self.count / np.square(self.multiplier) / 2
        return halves

    def spent(self, delta: float, compose_mixed: bool | None = None) -> SpentEpsilons:
        """Epsilon of each holder after each release, for the total `delta` (0..1; 0: pure); see `histories`.

        `compose_mixed` None: where that takes no more than some seconds.
        """
        if compose_mixed is None:
            compose_mixed = bool(np.count_nonzero(self.laplace) <= MOST_COMPOSED)
        return histories(self.holder, self.laplace, self.multiplier, self.count, delta, compose_mixed)

    @property
    def claimed(self) -> Floats:
        """(n,) sum of the claims of the holder's releases, this one included: basic composition of claims."""
        return self.cumulative(self.epsilon)

    @property
    def summed_mu(self) -> Floats:
        """(n,) sum of `squared_mu` of the holder's releases, this one included."""
        return self.cumulative(self.squared_mu)

    def cumulative(self, column: Floats) -> Floats:
        """(n,) sum of a `column` (n,) over the holder's releases, this one included."""
        result = np.zeros(len(self.holder))
        order = np.argsort(self.holder, kind="stable")
        if len(order):
            for places in np.split(order, np.flatnonzero(np.diff(self.holder[order])) + 1):
                result[places] = np.cumsum(column[places])
        return result


def releases_of(releases: Iterable[tuple[int, int, Release]]) -> Releases:
    """Releases as columns, from (holder, moment, release) each."""
    rows = sorted(releases, key=lambda row: row[1])
    return Releases(
        np.array([holder for holder, _, _ in rows], dtype=np.int64),
        np.array([moment for _, moment, _ in rows], dtype=np.int64),
        np.array([release.distribution == "laplace" for _, _, release in rows], dtype=bool),
        np.array([release.std for _, _, release in rows], dtype=np.float64),
        np.array([release.sensitivity for _, _, release in rows], dtype=np.float64),
        np.array([release.count for _, _, release in rows], dtype=np.int64),
        np.array([release.epsilon for _, _, release in rows], dtype=np.float64),
        np.ones(len(rows), dtype=np.int64),
    )


def one_release_each(releases: Sequence[Release]) -> Releases:
    """One release of each of the holders 0.., all at one moment."""
    return releases_of((holder, 0, release) for holder, release in enumerate(releases))


def upload_release(
    scheme: Scheme, context: PrivacyContext, clip_norm: float | None, contribution: Contribution
) -> Release:
    """One upload as an accountant sees it. Its claim is the upload's own budget, or its share of the scheme's."""
    client = None if contribution.client < 0 else contribution.client
    noise, stated = scheme.upload_noise(context, clip_norm, contribution), scheme.upload_guarantee(context, client)
    claim = contribution.epsilon if noise.epsilon is None else noise.epsilon
    return release_of(noise.distribution, noise.std, noise.sensitivity, stated, noise.count, claim)


def release_of(
    distribution: Distribution,
    std: float,
    sensitivity: float,
    stated: Guarantee | None,
    count: int = 1,
    claim: float | None = None,
) -> Release:
    """A release as an accountant sees it. `claim`: epsilon of this one; None: its share of what is `stated`."""
    if claim is None:
        claim = math.inf if stated is None else stated.epsilon_per_release
    return Release(
        distribution,
        std,
        sensitivity,
        count,
        "none" if stated is None else stated.neighbours,
        "none" if stated is None else stated.status,
        claim,
        0.0 if stated is None else stated.delta,
    )


def answer_release(noise: ScoreNoise | None, stated: Guarantee | None, models: int, samples: int) -> Release:
    """Scores of `models` >= 1 by a client with `samples` >= 1, for the neighbours that are `stated`; without noise they
    count as no mechanism, since they are flagged instead."""
    if noise is None:
        return release_of("gaussian", 0.0, 0.0, stated, 0, 0.0)
    sensitivity = score_sensitivity(models, samples, "none" if stated is None else stated.unit)
    claim = 0.0 if noise.epsilon is None else noise.epsilon
    return release_of("gaussian", noise.std_of(models, samples), sensitivity, stated, 1, claim)


def usable_norm(scheme: Scheme, context: PrivacyContext, clip_norm: float | None) -> float | None:
    """`clip_norm`, or another where a run collected nothing or diverged: multipliers do not depend on it."""
    if clip_norm is not None and math.isfinite(clip_norm) and clip_norm > 0:
        return clip_norm
    return scheme.start(context).clip_norm(np.ones(1))


def typical_uploads(
    scheme: Scheme, context: PrivacyContext, samples: NDArray[np.integer], clip_norm: float | None
) -> list[Release]:
    """One upload of each client (its number of `samples` is given) as the scheme has it before anything happened."""
    norm, state = usable_norm(scheme, context, clip_norm), scheme.start(context)
    made: dict[tuple[int, float | None], Release] = {}
    found = []
    for client, size in enumerate(samples.tolist()):
        epsilon = state.epsilon(client, 0)
        if (size, epsilon) not in made:
            # With a budget of its own it matters whose it is: what is claimed of it.
            whose = -1 if epsilon is None else client
            made[size, epsilon] = upload_release(scheme, context, norm, Contribution(whose, size, epsilon=epsilon))
        found.append(made[size, epsilon])
    return found


def uploads_of(
    scheme: Scheme,
    context: PrivacyContext,
    samples: NDArray[np.integer],
    counts: Sequence[int] | NDArray[np.integer],
    clip_norm: float | None = None,
) -> Releases:
    """`counts` (clients,) typical uploads of each client, one of each at a time."""
    typical = typical_uploads(scheme, context, samples, clip_norm)
    return releases_of(
        (client, turn, typical[client]) for client, count in enumerate(counts) for turn in range(int(count))
    )
