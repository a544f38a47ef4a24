"""Clients whose updates harm the server's own samples, although they go along the common descent.

The common descent is one direction of many along which no class loses. Let d_c be the descents of the classes, each of
length 1, and p the projection of an update on their span. It has exactly one sum p = m + h of orthogonal parts (Moreau
1962) with

    m = sum_c a_c d_c, all a_c >= 0: the mixture of classes nearest to the update, which its data may explain;
    h . d_c <= 0 for every c: harm, a part that raises the loss on every class, or on none lowers it.

An honest update is a mixture of its client's classes but for noise, and because the server's samples are few. Noise
makes h longer by at most its own length within the span, since projections on cones do not stretch. So

    x = max(0, |h| - sigma sqrt(k + 3 sqrt(2 k))) / usual |m|,    k classes, sigma: deviation of the noise,

is a lower bound on the harm, in mixtures of the usual length. It is taken from the newest update and from the mean of
the last ones, of which the larger counts: the one shows changes soon, the other has less noise. With a root set of 100
samples x of honest clients is mostly .1 to .2; it is up to .9 where the model fits their own samples, and 1.3 where
their features differ from the server's. So the bar rises with what is usual, which noise makes only higher.

A mixture of few classes harms the others, and one client may hold no more. Only a quarter of all clients that send the
same (`likeness`) are no honest group: assumed is that none of this size is alike and opposed to the others. So clients
that are like a quarter of all, and whose newest update goes back, by half of what is usual or more, on the loss of all
samples together, are left out too.

They are fewer than half, and most of the others lower that loss: else the samples are not like the clients'. Nothing is
judged before half of the clients were seen. Nobody is struck: an honest update that is left out would have harmed the
samples, which costs little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from asyncfl.base.arrays import Bools, Floats, Ints, Vector
from asyncfl.defences.distances import inner_products
from asyncfl.defences.evidence.side_test import BACK, SURE

HARM = 0.5  # x up to which no client is left out
USUAL = 0.3  # quantile of |h| that is usual for honest clients: attackers may be nearly half, above or below
WORSE = 3.0  # multiple of the usual |h|, noise included, up to which no client is left out


class ClassDescents(NamedTuple):
    """Descents of the server's samples of each class at a model."""

    unit: Vector  # (classes, n_parameters) float32 of length 1
    lengths: Floats  # (classes,) lengths of the gradients


class Parts(NamedTuple):
    """Parts of n updates in the span of the descents, each (n,)."""

    mixture: Floats  # |m|
    harm: Floats  # |h|
    gain: Floats  # length along the descent of all samples together, each class with the same weight


def split_updates(updates: Vector | list[Vector], descents: ClassDescents) -> Parts:
    """Split `updates` (n, n_parameters) into mixture and harm."""
    from scipy.optimize import nnls

    products = inner_products(descents.unit, updates).T
    values, vectors = np.linalg.eigh(inner_products(descents.unit, descents.unit))
    # Descents of several classes may be the same.
    some = values > 1e-6 * values[-1]
    roots, vectors = np.sqrt(values[some]), vectors[:, some]
    corners, points = roots[:, None] * vectors.T, products @ vectors / roots
    mixtures = np.array([corners @ nnls(corners, point)[0] for point in points])
    whole = corners @ descents.lengths
    return Parts(
        np.linalg.norm(mixtures, axis=1),
        np.linalg.norm(points - mixtures, axis=1),
        products @ descents.lengths / max(float(np.linalg.norm(whole)), np.finfo(float).tiny),
    )


@dataclass(frozen=True)
class HarmRecord:
    """Parts of each client's newest updates, each (clients,); NaN without an update."""

    mixture: Floats  # |m| of the mean
    rest: Floats  # |h| of the mean, noise included
    harm: Floats  # |h| of the newest update or of the mean, above noise
    gain: Floats  # that of the newest update
    noise_std: Floats  # standard deviation of the noise in `gain`

    def add(
        self,
        clients: Ints,
        updates: Vector,
        means: Sequence[Vector],
        noise_std: Floats,
        mean_std: Floats,
        descents: ClassDescents,
    ) -> HarmRecord:
        """Return the record after `updates` (n >= 1, n_parameters) from one model, of `clients` (n,). `means`: the
        means of the last updates of each, this one included. `noise_std`, `mean_std`: (n,) deviations of the noise in
        each parameter of both. `descents`: those at that model."""
        newest, mean = split_updates(updates, descents), split_updates(list(means), descents)
        k = len(descents.lengths)
        noise = np.sqrt(k + 3 * np.sqrt(2 * k))
        harm = np.maximum(newest.harm - noise * noise_std, mean.harm - noise * mean_std)
        new = HarmRecord(mean.mixture, mean.harm, np.maximum(harm, 0.0), newest.gain, noise_std)
        fields = {name: values.copy() for name, values in vars(self).items()}
        for name, values in fields.items():
            values[clients] = getattr(new, name)
        return HarmRecord(**fields)

    def forget(self, client: int) -> HarmRecord:
        """Return the record without `client`."""
        left = np.where(np.arange(len(self.gain)) == client, np.nan, 0.0)
        return HarmRecord(**{name: values + left for name, values in vars(self).items()})

    def judge(self, crowded: Bools, removed: int) -> tuple[Bools, Bools, Floats]:
        """Return whether each client harms every class, whether it goes back on all samples with a crowd, and x, NaN
        where it is unknown; (clients,) each. `crowded`: (clients,) see `Likeness`; `removed`: number of clients that
        were banned."""
        seen, left = ~np.isnan(self.gain), len(self.gain) - removed
        usual = float(np.median(self.mixture[seen])) if 2 * seen.sum() > left else 0.0
        if usual == 0:
            none = np.zeros(len(seen), dtype=bool)
            return none, none, np.full(len(seen), np.nan)
        share = self.harm / usual
        bar = max(HARM, WORSE * float(np.quantile(self.rest[seen], USUAL)) / usual)
        ahead = self.gain[seen & (self.gain > 0)]
        back = np.minimum(-SURE * self.noise_std, -BACK * float(np.median(ahead)) if len(ahead) else 0.0)
        against = crowded & seen & (self.gain < back)
        others = seen & ~against
        # Otherwise the samples are not like the clients'.
        sure = 2 * against.sum() < left and 2 * (self.gain[others] > 0).sum() > others.sum()
        return seen & (share > bar), against & bool(sure), share


def empty_record(clients: int) -> HarmRecord:
    """Return a record without updates."""
    return HarmRecord(*np.full((5, clients), np.nan))
