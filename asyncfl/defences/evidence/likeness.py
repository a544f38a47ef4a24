"""Clients whose last updates are like those of a quarter of all clients.

The isolation of a client is the squared distance of the signal of its updates to that of the nearest quarter of all
clients, relative to its own squared length. Attackers may be alike and so appear in a crowd. But an honest client is in
a crowd only if a quarter of the clients, attackers included, send what it sends.
"""

import numpy as np

from asyncfl.base.messages import Bools
from asyncfl.defences.client_means import ClientMeans
from asyncfl.defences.spectral.spectrum import embed, isolation, product_std

CROWD = 0.25  # share of all clients that a client is like if it is in a crowd
LOOSE = 0.8
"""Isolation from which a client is in no crowd. With 60 samples a client and no noise the median isolation is .6 to .7
for IID data and 1.0 for Dirichlet 1; with 600 samples .01 and, for Dirichlet .5, 1.2."""


def crowded_clients(means: ClientMeans, n_parameters: int) -> Bools:
    """Return whether each client is in a crowd, (clients,) bool; all False while too few have sent an update."""
    crowded, present = np.zeros(len(means.rows), dtype=bool), means.present
    rank = max(1, int(CROWD * len(means.rows)))
    if len(present) <= rank:
        return crowded
    gram = means.gram[np.ix_(present, present)]
    noise_std = float(np.sqrt(np.mean(means.noise_std[present] ** 2)))
    embedding = embed(gram, product_std(gram, n_parameters, noise_std))
    if embedding is not None:
        crowded[present] = isolation(embedding, rank) < LOOSE
    return crowded
