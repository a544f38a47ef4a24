"""Clients whose last updates are like those of many others, and clients that are unlike most.

The isolation of a client is the squared distance of the signal of its updates to that of the nearest quarter of all
clients, relative to its own squared length. Attackers may be alike and so appear in a crowd. But an honest client is in
a crowd only if a quarter of the clients, attackers included, send what it sends.

Where clients are alike the geometric median of all signals is among theirs. Clients stray if they form a group well
apart by their distance from it (`clusters.separate_lower`), and more than half of all clients remain. Their updates are
left out without proof: assumed is that no honest group stands apart from a majority that is alike.
"""

from typing import NamedTuple

import numpy as np

from asyncfl.base.arrays import Bools
from asyncfl.defences.client_means import ClientMeans
from asyncfl.defences.clusters import separate_lower
from asyncfl.defences.evidence.spectrum import embed, geometric_medians, isolation, product_std

CROWD = 0.25  # share of all clients that a client is like if it is in a crowd
LOOSE = 0.8
"""Isolation from which a client is in no crowd. With 60 samples a client and no noise the median isolation is .6 to .7
for IID data and 1.0 for Dirichlet 1; with 600 samples .01 and, for Dirichlet .5, 1.2."""
ALIKE = 0.5  # isolation among half of the clients below which a client is like them
APART = 4.0  # distance of two groups, in standard deviations within both, from which they are well apart


class Likeness(NamedTuple):
    """Likeness of the clients' last updates. Arrays are (clients,) bool."""

    crowded: Bools  # whether the client is in a crowd
    stray: Bools  # whether the client is in a group apart from most clients, which are alike


def compare_clients(means: ClientMeans, n_parameters: int) -> Likeness:
    """Compare all clients' means; none is crowded or stray while too few have sent an update."""
    present, none = means.present, np.zeros(len(means.rows), dtype=bool)
    rank = max(1, int(CROWD * len(means.rows)))
    if len(present) <= rank:
        return Likeness(none, none)
    gram = means.gram[np.ix_(present, present)]
    noise_std = float(np.sqrt(np.mean(means.noise_std[present] ** 2)))
    embedding = embed(gram, product_std(gram, n_parameters, noise_std))
    if embedding is None:
        return Likeness(none, none)
    crowded, stray = none.copy(), none.copy()
    crowded[present] = isolation(embedding, rank) < LOOSE
    middle = geometric_medians(embedding.points, np.ones((1, len(present))))
    if np.median(isolation(embedding, len(present) // 2)) < ALIKE and (length := float(np.linalg.norm(middle))) > 0:
        apart = separate_lower(-np.linalg.norm(embedding.points - middle, axis=1) / length, APART)
        # Those left must be a majority of all clients, seen or not.
        stray[present] = apart & bool(2 * (~apart).sum() > len(means.rows))
    return Likeness(crowded, stray)
