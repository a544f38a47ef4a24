"""Embedding of the updates' signals in a few dimensions, and the distances of its points.

The inner product of two updates with independent noise is that of their signals plus a little noise, while a squared
length is mostly noise. So the diagonal of the Gram matrix is discarded and imputed from the leading eigenvectors
(HeteroPCA: Zhang, Cai and Wu 2022). The embedding X then has X_i . X_j close to <signal_i, signal_j>.
"""

from dataclasses import dataclass

import numpy as np

from asyncfl.base.arrays import Floats

EDGE_FACTOR = 1.3  # eigenvalues count above this multiple of the edge of the noise spectrum
WEAKEST = 0.02  # eigenvalues count above this share of the greatest
COMPONENTS = 6  # maximum number of eigenvalues
IMPUTATIONS = 5  # rounds of imputing the diagonal; without them every point is too short
LARGE = 64  # number of rows from which later decompositions refine the first one instead of starting afresh


@dataclass(frozen=True)
class Embedding:
    """Signals of the updates in the few directions above the noise."""

    points: Floats  # (n, rank) coordinates
    noise: Floats  # (rank,) standard deviation of a point's coordinates due to noise


def product_std(gram: Floats, n_parameters: int, noise_std: float) -> float:
    """Return s, the standard deviation of the noise in an off-diagonal element of `gram` (n, n), n >= 2. s^2 = sigma^4
    d + 2 sigma^2 rho; rho, the squared length of a typical signal, is the median off-diagonal element."""
    usual = max(0.0, float(np.median(gram[~np.eye(len(gram), dtype=bool)])))
    return float(np.sqrt(noise_std**4 * n_parameters + 2 * noise_std**2 * usual))


def embed(gram: Floats, noise: float) -> Embedding | None:
    """Return points whose inner products approximate `gram` (n, n) off its diagonal; None if there is only noise.
    `noise`: s. Kept are the eigenvalues above `EDGE_FACTOR` times the edge of the noise spectrum, 2 s sqrt n, and above
    the share `WEAKEST` of the greatest."""
    matrix = gram.copy()
    np.fill_diagonal(matrix, 0.0)
    values, vectors = _leading_eigenpairs(matrix, 2 * COMPONENTS)
    bar = max(EDGE_FACTOR * 2 * noise * np.sqrt(len(matrix)), WEAKEST * float(values[0]))
    rank = int((values[:COMPONENTS] > bar).sum())
    if rank == 0:
        return None
    for _ in range(IMPUTATIONS):
        np.fill_diagonal(matrix, (vectors[:, :rank] ** 2) @ values[:rank])
        values, vectors = _leading_eigenpairs(matrix, COMPONENTS, vectors)
    roots = np.sqrt(np.maximum(values[:rank], 0.0))
    return Embedding(vectors[:, :rank] * roots, noise / np.maximum(roots, np.finfo(float).tiny))


def _leading_eigenpairs(matrix: Floats, number: int, guess: Floats | None = None) -> tuple[Floats, Floats]:
    """Return the `number` greatest eigenvalues of a symmetric `matrix`, descending, and their eigenvectors as columns.
    A `guess` of k columns is refined to k pairs if the matrix is `LARGE`, and ignored otherwise."""
    if guess is None or len(matrix) < LARGE:
        values, vectors = np.linalg.eigh(matrix)
        return values[::-1][:number], vectors[:, ::-1][:, :number]
    basis = guess
    for _ in range(10):
        basis = np.linalg.qr(matrix @ basis)[0]
    values, turns = np.linalg.eigh(basis.T @ matrix @ basis)
    return values[::-1], (basis @ turns)[:, ::-1]


def isolation(embedding: Embedding, rank: int) -> Floats:
    """Return the squared distance (n,) of each point to its `rank`-th nearest other point, 1..n-1, without the part due
    to noise, over the point's own squared length: 0 if it has near neighbours, about 1 if it has none."""
    points = embedding.points
    squares = np.einsum("nr,nr->n", points, points)
    distances = squares[:, None] + squares - 2 * points @ points.T
    # Position 0 of the sorted row is the point itself.
    near = np.partition(distances, rank, axis=1)[:, rank]
    noise = 2 * float(embedding.noise @ embedding.noise)
    return np.asarray((near - noise) / np.maximum(np.maximum(squares, noise), np.finfo(float).tiny))


def geometric_medians(points: Floats, weights: Floats, steps: int = 60) -> Floats:
    """Return the points m that minimise sum_j weights_kj |points_j - m|, one for each row of weights, (k, r). `points`:
    (n, r). `weights`: (k, n), >= 0, each row with a positive sum. `steps`: Weiszfeld iterations from the weighted mean.
    A point with more than half of the weight is the median."""
    scale = float(np.abs(points).max(initial=0.0))
    # Lower limit of distances, negligible against `scale`, to avoid division by 0.
    least = max(scale * 1e-7, 1e-150)
    medians: Floats = (weights @ points) / weights.sum(axis=1, keepdims=True)
    squares = np.einsum("nr,nr->n", points, points)
    for _ in range(steps):
        # |x|^2 + |m|^2 - 2 x.m by matrix products; differences would need an array of k x n x r.
        distances = squares - 2 * medians @ points.T
        distances += np.einsum("kr,kr->k", medians, medians)[:, None]
        pull = weights / np.sqrt(np.maximum(distances, least**2))
        medians = (pull @ points) / pull.sum(axis=1, keepdims=True)
    return medians
