"""Tree aggregation: the steps of a run are the leaves of a binary tree, and each node has noise of its own.

The noise of the model after s steps is that of the nodes of s's binary digits: for s = 6 the node over steps 1-4 and
the one over 5-6. So a model has the noise of log2 s nodes at most, and a step is in as many. Honaker 2015 estimates
the sum over a node from all nodes below it as well: with standard normal noise on each, the estimate of a node of 2^l
steps has variance

    v_0 = 1,   v_l = 2 v_(l-1) / (1 + 2 v_(l-1)) = 2^l / (2^(l+1) - 1)

as its own noise weighs v_l and the sum of its halves 1 - v_l. Only complete nodes count, since later steps are not
known yet.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from asyncfl.base.quantities import MeasuredIn
from asyncfl.privacy.correlation.encoder import Encoder
from asyncfl.privacy.correlation.factorisation import Draw, Factorisation

Noise = NDArray[np.floating]
Estimator = Literal["nodes", "honaker"]


class TreeState(NamedTuple):
    """The tree that is being filled."""

    steps: int  # leaves that are filled
    pending: dict[int, Noise]  # level -> noise of the estimate of its node in the sum so far
    restarts: bool = False  # whether the next step is the first of another tree


def _zeros(number: int) -> int:
    """Return how often 2 divides `number` >= 1."""
    return (number & -number).bit_length() - 1


def _levels(steps: int) -> list[int]:
    """Return the levels of the nodes in the sum of the first `steps` steps: the binary digits that are 1."""
    return [level for level in range(steps.bit_length()) if steps >> level & 1]


class Tree(Factorisation):
    """Noise by a binary tree over the versions.

    Source: Kairouz et al. 2021 (Practical and Private (Deep) Learning without Sampling or Shuffling), algorithm 1 and
    appendix B, after Dwork et al. 2010 and Chan, Shi, Song 2011.
    """

    kind: Literal["tree"] = "tree"
    estimator: Estimator = "honaker"
    """Noise of a node in a model: `nodes`, its own; or `honaker`, that of the best estimate from it and all complete
    nodes below, with half the variance in high trees."""
    restart: Annotated[int, Field(ge=1), MeasuredIn("versions")] | None = None
    """Versions after which another tree begins, over the last model; null: one tree for the whole run."""
    complete: bool = False
    """Whether a tree that ends is filled with empty steps to the next power of two, so that the noise of one node, its
    root, is left in later models. The root then says once more what its steps are."""

    def start(self, versions: int) -> Any:
        return TreeState(0, {})

    def _variance(self, level: int) -> float:
        return 1.0 if self.estimator == "nodes" else 2.0**level / (2.0 ** (level + 1) - 1)

    def next(self, state: TreeState, draw: Draw) -> tuple[Noise, TreeState]:
        completed = self._completed(state, draw) if state.restarts else None
        steps, pending = (0, {}) if state.restarts else (state.steps, dict(state.pending))
        estimate, level, before = draw(), 0, None
        while steps >> level & 1:
            left = pending.pop(level)
            before = left.copy() if before is None else before + left
            level += 1
            if self.estimator == "honaker":
                own = np.float32(self._variance(level))
                estimate = own * draw() + (1 - own) * (left + estimate)
        pending[level] = estimate
        noise = estimate.copy() if before is None else estimate - before
        if completed is not None:
            noise += completed
        return noise, TreeState(steps + 1, pending, steps + 1 == self.restart)

    def _completed(self, state: TreeState, draw: Draw) -> Noise | None:
        """Return the noise of the completed tree's root less that of the sum of its steps; None if nothing changes."""
        levels = _levels(state.steps)
        if not self.complete or len(levels) == 1:
            return None
        if self.estimator == "nodes":
            root = draw()
        else:
            root = state.pending[levels[0]]
            for level in range(levels[0] + 1, (state.steps - 1).bit_length() + 1):
                own = np.float32(self._variance(level))
                if self._is_right(state.steps, level - 1):
                    other = state.pending[level - 1]
                else:  # a node over empty steps alone
                    other = np.float32(math.sqrt(self._variance(level - 1))) * draw()
                root = own * draw() + (1 - own) * (root + other)
        for one in state.pending.values():
            root = root - one
        return root

    @staticmethod
    def _is_right(steps: int, level: int) -> bool:
        """Whether the node over step number `steps` at this level is the right half of the one above."""
        return bool((steps - 1) >> level & 1)

    def std(self, version: int, versions: int) -> float:
        step = self._step(version)
        squares = self._squares(_zeros(step))
        if step == 1 and version > 1 and self.complete and self.restart is not None:
            squares += self._squares_of_completion(self.restart)
        return math.sqrt(squares)

    def _step(self, version: int) -> int:
        """Return the number of a version in its tree, from 1."""
        return version if self.restart is None else (version - 1) % self.restart + 1

    def _squares(self, level: int) -> float:
        """Return the variance of the noise of a step that completes a node of this level and none above."""
        if self.estimator == "nodes":
            return 1.0 + level
        own, fresh, left = [self._variance(one) for one in range(level + 1)], 1.0, [0.0] * level
        for one in range(1, level + 1):
            share = 1 - own[one]
            fresh = own[one] ** 2 + share**2 * fresh
            left[:one] = [share * weight for weight in [*left[: one - 1], 1.0]]
        return fresh + math.fsum(own[one] * (1 - left[one]) ** 2 for one in range(level))

    def _squares_of_completion(self, steps: int) -> float:
        """Return the variance that completing a tree of so many steps adds to the next step's noise."""
        levels = _levels(steps)
        if len(levels) == 1:
            return 0.0
        if self.estimator == "nodes":
            return 1.0 + len(levels)
        weights, fresh = dict.fromkeys(levels, 0.0) | {levels[0]: 1.0}, 0.0
        for level in range(levels[0] + 1, (steps - 1).bit_length() + 1):
            own = self._variance(level)
            if self._is_right(steps, level - 1):
                weights[level - 1] = 1.0
            else:
                fresh += self._variance(level - 1)
            fresh = own**2 + (1 - own) ** 2 * fresh
            weights = {one: (1 - own) * weight for one, weight in weights.items()}
        return fresh + math.fsum(self._variance(one) * (1 - weight) ** 2 for one, weight in weights.items())

    # --- what the noise hides --------------------------------------------------------------------------------------

    def _nodes(self, versions: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (level, first version, last version, version from which it is known) of each node with noise."""
        for version in range(1, versions + 1):
            step = self._step(version)
            if step == 1 and version > 1 and self.complete and self.restart is not None:
                yield from self._nodes_of_completion(version, self.restart)
            top = _zeros(step)
            for level in range(top if self.estimator == "nodes" else 0, top + 1):
                yield level, version - 2**level + 1, version, version

    def _nodes_of_completion(self, version: int, steps: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield the nodes that completing a tree of so many steps before `version` adds."""
        levels = _levels(steps)
        if len(levels) == 1:
            return
        root = (steps - 1).bit_length()
        for level in range(root if self.estimator == "nodes" else levels[0] + 1, root + 1):
            yield level, version - steps + ((steps - 1) >> level << level), version - 1, version

    def encoder(self, versions: int) -> Encoder:
        return _encoder(self.estimator, self.restart, self.complete, versions)

    def sensitivity(self, versions: int, participations: int, separation: int) -> float:
        """Return an upper bound, exact where `separation` is a power of two or a client takes part once: each level of
        the tree has as many participations in as few nodes as possible."""
        return _sensitivity(self, versions, participations, separation)


@lru_cache(maxsize=16)
def _encoder(estimator: Estimator, restart: int | None, complete: bool, versions: int) -> Encoder:
    tree = Tree(estimator=estimator, restart=restart, complete=complete)
    _, first, last, known = np.array([*tree._nodes(versions)]).T
    sizes = last - first + 1
    row = np.repeat(np.arange(len(sizes)), sizes)
    version = np.repeat(first, sizes) + np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    order = np.argsort(version, kind="stable")
    return Encoder(row[order], version[order], np.ones(len(row)), known)


@lru_cache(maxsize=256)
def _sensitivity(tree: Tree, versions: int, participations: int, separation: int) -> float:
    level, first, last, _ = np.array([*tree._nodes(versions)]).T
    squares = 0
    for one in np.unique(level):
        sizes = (last - first + 1)[level == one]
        most = min(participations, -(-int(sizes.max()) // separation))
        full, rest = divmod(participations, most)
        squares += min(full, len(sizes)) * most**2 + (rest**2 if full < len(sizes) else 0)
    return math.sqrt(squares)
