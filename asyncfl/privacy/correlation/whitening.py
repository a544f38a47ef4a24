"""What the published versions of a correlated noise stream reveal, without more and without less."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from asyncfl.base.arrays import Floats
from asyncfl.privacy.correlation.factorisation import Draw, Factorisation

MOST_VERSIONS = 1000
"""Most versions that a dense matrix is computed for: 20 MB."""


@lru_cache(maxsize=8)
def whitening(factorisation: Factorisation, versions: int) -> Floats:
    """Return W (n, n), lower triangular, with W N of independent standard normal entries, for the noise N of the first
    n = min(versions, `MOST_VERSIONS`) of `versions` versions.

    Who holds versions 1..v knows just the first v rows of W g + W N. W is `Factorisation.encoder` where that is
    square; else it says less than the encoder's rows, and may have negative entries.
    """
    n, drawn = min(versions, MOST_VERSIONS), 0

    def draw() -> Floats:
        nonlocal drawn
        drawn += 1
        return np.zeros(1)

    _noise(factorisation, versions, n, draw)
    sources, drawn = drawn, 0

    def unit() -> Floats:
        draw()
        found = np.zeros(sources)
        found[drawn - 1] = 1.0
        return found

    noise = _noise(factorisation, versions, n, unit)
    inverse = np.linalg.inv(np.linalg.cholesky(noise @ noise.T))
    # What rounding leaves of entries that are zero.
    return np.asarray(np.where(np.abs(inverse) > 1e-12, inverse, 0.0))


def _noise(factorisation: Factorisation, versions: int, n: int, draw: Draw) -> Floats:
    state, rows = factorisation.start(versions), []
    for _ in range(n):
        row, state = factorisation.next(state, draw)
        rows.append(row)
    return np.array(rows)
