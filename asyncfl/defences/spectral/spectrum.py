"""Embedding of the updates' signals in a few dimensions, from their Gram matrix without the contribution of noise.

The inner product of two updates with independent noise is that of their signals plus a little noise, while a squared
length is mostly noise. So the diagonal is discarded and imputed from the leading eigenvectors (HeteroPCA: Zhang, Cai
and Wu 2022). The embedding X then has X_i . X_j close to <signal_i, signal_j>.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Embedding:
    """Signals of the updates in the few directions above the noise."""

    points: NDArray[np.float64]
    """(n, rank) coordinates."""
    noise: NDArray[np.float64]
    """(rank,) standard deviation of a point's coordinates due to noise."""
    eigenvalues: NDArray[np.float64]
    """(rank,) squared lengths of the columns of `points`, descending."""


def product_std(gram: NDArray[np.float64], n_parameters: int, noise_std: float, extra_variance: float = 0.0) -> float:
    """Return s, the standard deviation of the noise in an off-diagonal element of `gram` (n, n), n >= 2.

    s^2 = sigma^4 d + 2 sigma^2 rho + `extra_variance`, with sigma `noise_std` and d `n_parameters`. rho, the squared
    length of a typical signal, is the median off-diagonal element, at least 0.
    """
    usual = max(0.0, float(np.median(gram[~np.eye(len(gram), dtype=bool)])))
    return float(np.sqrt(noise_std**4 * n_parameters + 2 * noise_std**2 * usual + extra_variance))


def embed(
    gram: NDArray[np.float64],
    noise: float,
    *,
    edge_factor: float = 1.3,
    weakest: float = 0.02,
    components: int = 6,
    imputations: int = 5,
) -> Embedding | None:
    """Return points whose inner products approximate `gram` (n, n), given noise of standard deviation `noise` per
    element.

    Kept are at most `components` eigenvalues above `edge_factor` times the edge of the noise spectrum, 2 s sqrt n, and
    above the share `weakest` of the greatest; None if there are none. The diagonal of `gram` is ignored and imputed
    from the kept eigenvectors `imputations` times.
    """
    matrix = gram.copy()
    np.fill_diagonal(matrix, 0.0)
    values, vectors = _leading_eigenpairs(matrix, 2 * components)
    bar = max(edge_factor * 2 * noise * np.sqrt(len(matrix)), weakest * float(values[0]))
    rank = int((values[:components] > bar).sum())
    if rank == 0:
        return None
    for _ in range(imputations):
        np.fill_diagonal(matrix, (vectors[:, :rank] ** 2) @ values[:rank])
        values, vectors = _leading_eigenpairs(matrix, components, vectors)
    values = np.maximum(values[:rank], 0.0)
    roots = np.sqrt(values)
    return Embedding(vectors[:, :rank] * roots, noise / np.maximum(roots, np.finfo(float).tiny), values)


LARGE = 300
"""Number of rows from which later decompositions refine the first one instead of starting afresh."""


def _leading_eigenpairs(
    matrix: NDArray[np.float64], number: int, guess: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the `number` greatest eigenvalues of a symmetric `matrix` (n, n), descending, and their eigenvectors as
    columns.

    `guess`: (n, k) approximate eigenvectors as columns. For a matrix of at least `LARGE` rows it is refined, and k
    pairs are returned; for a smaller one it is ignored.
    """
    if guess is None or len(matrix) < LARGE:
        values, vectors = np.linalg.eigh(matrix)
        return values[::-1][:number], vectors[:, ::-1][:, :number]
    basis = guess
    for _ in range(10):
        basis = np.linalg.qr(matrix @ basis)[0]
    values, turns = np.linalg.eigh(basis.T @ matrix @ basis)
    return values[::-1], (basis @ turns)[:, ::-1]
