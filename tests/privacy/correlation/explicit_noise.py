"""Correlated noise written down from its definition: matrices and least squares, without streams or recursions."""

from typing import Any

import numpy as np

from asyncfl.base.arrays import Floats
from asyncfl.privacy.correlation import Banded, Factorisation, Tree
from asyncfl.privacy.correlation.toeplitz import optimal_coefficients


def noise_matrix(factorisation: Factorisation, versions: int) -> Floats:
    """Return (versions, n_sources): the noise of each version as a sum of independent standard normal sources."""
    if isinstance(factorisation, Tree):
        return _of_tree(factorisation, versions)
    if isinstance(factorisation, Banded):
        bands = min(factorisation.bands, versions)
        if factorisation.coefficients == "optimal":
            column = optimal_coefficients(bands, versions)
        else:  # of 1/sqrt(1 - x): (2k choose k) / 4^k
            column = np.array([float(np.prod([(2 * j - 1) / (2 * j) for j in range(1, k + 1)])) for k in range(bands)])
        encoder = np.zeros((versions, versions))
        for start in range(versions):
            encoder[start : start + bands, start] = column[: versions - start]
        return np.linalg.inv(encoder)
    return np.eye(versions)


def _of_tree(tree: Tree, versions: int) -> Floats:
    """Return the differences of the noise of the models, each a sum of nodes, or of their best estimates."""
    sources: dict[Any, int] = {}
    models: list[dict[int, float]] = []
    size = tree.restart or versions
    offset: dict[int, float] = {}
    for version in range(1, versions + 1):
        number, step = divmod(version - 1, size)
        step += 1
        if step == 1 and number:
            offset = dict(models[-1])
            if tree.complete:
                # What is left of each earlier tree is its root.
                whole = 1 << (size - 1).bit_length()
                offset = {}
                for earlier in range(number):
                    offset = _sum(offset, _node(tree, earlier, 0, whole, sources))
        total, start = dict(offset), 0
        for level in reversed(range(step.bit_length())):
            if step >> level & 1:
                total = _sum(total, _node(tree, number, start, 1 << level, sources))
                start += 1 << level
        models.append(total)
    dense = np.zeros((versions + 1, len(sources)))
    for row, model in enumerate(models, 1):
        for source, weight in model.items():
            dense[row, source] = weight
    return np.diff(dense, axis=0)


def _node(tree: Tree, number: int, start: int, size: int, sources: dict[Any, int]) -> dict[int, float]:
    """Return the noise of the estimate of a sum over steps start + 1 .. start + size of tree `number`."""
    nodes = [(number, start, size)]
    if tree.estimator == "honaker":
        widths = [size >> level for level in range(size.bit_length())]
        nodes = [(number, first, width) for width in widths for first in range(start, start + size, width)]
    leaves = np.arange(start, start + size)
    seen = np.array([(first <= leaves) & (leaves < first + width) for _, first, width in nodes], dtype=float)
    weights = seen @ np.linalg.solve(seen.T @ seen, np.ones(size)) if len(nodes) > 1 else np.ones(1)
    return {sources.setdefault(node, len(sources)): float(weight) for node, weight in zip(nodes, weights, strict=True)}


def _sum(first: dict[int, float], second: dict[int, float]) -> dict[int, float]:
    return {source: first.get(source, 0.0) + second.get(source, 0.0) for source in first.keys() | second.keys()}
